"""Compile a kernel's source, unchanged, behind the shim into a library that Python can load."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

_HERE = pathlib.Path(__file__).parent
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-function",
    "-Wno-unused-parameter",
    "-ffp-contract=off",
)


def find_compiler() -> str | None:
    """The path of a C++ compiler that has what the shim needs; None if there is none."""
    return shutil.which("g++")


def library(source: str, watched: bool) -> tuple[pathlib.Path, dict[str, list[str]]]:
    """The compiled `source` and, for each of its kernels, the types of its parameters.

    A library is kept in the system's folder for temporary files under a name made of all that it depends on.
    """
    compiler = find_compiler()
    if compiler is None:
        raise FileNotFoundError("kernels run on the CPU by way of g++, which is not installed")
    shim = (_HERE / "shim.h", _HERE / "runtime.cpp")
    flags = (*_FLAGS, *(("-fsanitize=thread", "--param", "tsan-distinguish-volatile=0") if watched else ()))
    text = "\0".join([source, *flags, *[path.read_text() for path in shim]])
    folder = _cache() / hashlib.sha256(text.encode()).hexdigest()[:24]
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            built = pathlib.Path(scratch) / "built"
            built.mkdir()
            _compile(compiler, flags, source, built)
            try:
                os.replace(built, folder)
            except OSError:  # another process was first
                if not folder.is_dir():
                    raise
    return folder / "kernels.so", _signatures((folder / "kernels.i").read_text())


def _compile(compiler: str, flags: tuple, source: str, folder: pathlib.Path) -> None:
    kernels, calls = folder / "kernels.cpp", folder / "calls.cpp"
    kernels.write_text(source)
    include = ("-include", str(_HERE / "shim.h"))
    _run(compiler, "-E", "-P", "-std=c++17", *include, str(kernels), "-o", str(folder / "kernels.i"))
    calls.write_text(_calls(_signatures((folder / "kernels.i").read_text())))
    _run(compiler, *flags, *include, "-c", str(kernels), "-o", str(folder / "kernels.o"))
    _run(compiler, *_FLAGS, *include, "-c", str(calls), "-o", str(folder / "calls.o"))  # not watched itself
    objects = [str(folder / "kernels.o"), str(folder / "calls.o"), str(_runtime(compiler))]
    _run(compiler, "-shared", "-Wl,-Bsymbolic", *objects, "-o", str(folder / "kernels.so"))


@functools.cache
def _runtime(compiler: str) -> pathlib.Path:
    """The compiled runtime, which every library has a copy of."""
    text = "\0".join([*_FLAGS, *[(_HERE / name).read_text() for name in ("shim.h", "runtime.cpp")]])
    kept = _cache() / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.o"
    if not kept.is_file():
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            built = pathlib.Path(scratch) / "runtime.o"
            _run(compiler, *_FLAGS, "-c", str(_HERE / "runtime.cpp"), "-o", str(built))
            os.replace(built, kept)
    return kept


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def _cache() -> pathlib.Path:
    """A folder that this user alone can write into, since what lies in it is executed."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"needle-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to somebody else or is open to others")
    return folder


def _signatures(preprocessed: str) -> dict[str, list[str]]:
    """The kernels of a preprocessed source, with the types of their parameters."""
    found = {}
    for name, parameters in re.findall(r'extern "C"\s+void (\w+)\s*\(([^)]*)\)', preprocessed):
        types = []
        for parameter in filter(None, parameters.split(",")):
            kind = re.sub(r"\w+$", "", parameter.strip()).replace(" ", "")
            types.append(kind.replace("const", "").replace("Int", "longlong"))
        found[name] = types
    return found


def _calls(signatures: dict[str, list[str]]) -> str:
    """A function ``call_NAME(void**)`` for each kernel, which takes the addresses of its arguments."""
    lines = ["// Made for one library."]
    for name, types in signatures.items():
        plain = [kind.replace("longlong", "long long") for kind in types]
        given = ", ".join(f"*static_cast<{kind}*>(a[{i}])" for i, kind in enumerate(plain))
        lines.append(f'extern "C" void {name}({", ".join(plain)});')
        lines.append(f'extern "C" void call_{name}(void** a) {{ {name}({given}); }}')
    return "\n".join(lines) + "\n"
