"""NVIDIA's compiler NVRTC, from the PyPI package nvidia-cuda-nvrtc: it needs neither a GPU nor a driver."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import pathlib
import re


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations) if spec is not None else []
    found = sorted(path for folder in folders for path in pathlib.Path(folder).glob("**/libnvrtc.so.*[0-9]"))
    if not found:
        raise FileNotFoundError("NVRTC is not installed: pip install 'needle[cuda-test]'")
    return ctypes.CDLL(str(found[-1]))


def available() -> bool:
    """Whether NVRTC is installed."""
    try:
        _nvrtc()
    except FileNotFoundError:
        return False
    return True


def compile_kernels(source: str, architecture: str, options: tuple[str, ...] = ()) -> list[str]:
    """Compile CUDA C++ and give the names of its kernels; a warning counts as an error.

    Parameters
    ----------
    source : str
    architecture : str
        Such as ``"sm_90"``.
    options : tuple of str
        Further options of the compiler.

    Raises
    ------
    ValueError
        With the compiler's own text, if it has anything to say.
    """
    nvrtc, program, size = _nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    try:
        given = [option.encode() for option in (f"--gpu-architecture={architecture}", *options)]
        failed = nvrtc.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        text = log.value.decode().strip()
        if failed or text:
            raise ValueError(f"{architecture}: {text or 'does not compile'}")
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetPTX(program, ptx)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return re.findall(r"\.visible \.entry (\w+)", ptx.value.decode())
