"""Saving tensors by name and loading them again: safetensors files, which hold numbers and nothing that could run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..autograd import Tensor
from ..backend import Device, as_device, to_numpy
from ..ops.checks import as_path
from .module import Module


def save(
    state: Module | Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a module's parameters and buffers, or tensors by name, to a safetensors file.

    The file is complete or not there: it is written beside its place and then put there in one step.

    Parameters
    ----------
    state : Module or mapping of str to Tensor or array
        What to save. A module means its `Module.state_dict`.
    path : path
        The file; its folder exists. A file of that name is replaced.
    metadata : mapping of str to str, optional
        Texts to save with it.

    Raises
    ------
    ImportError
        If the package safetensors is not installed.
    TypeError
        If something is no tensor, or a name or the metadata no text.
    FileNotFoundError, IsADirectoryError, OSError
        If the folder does not exist, `path` is a folder, or the file cannot be written.

    Examples
    --------
    >>> import os, tempfile, needle as ndl
    >>> model = ndl.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "model.safetensors")
    ...     ndl.nn.save(model, file, metadata={"epoch": "3"})
    ...     _ = model.load_state_dict(ndl.nn.load(file))
    ...     ndl.nn.read_metadata(file)
    {'epoch': '3'}
    """
    tensors = _module().numpy
    if isinstance(state, Module):
        state = state._state()
    for what, value in (("the state is a Module or", state), ("metadata is", metadata or {})):
        if not isinstance(value, Mapping):
            raise TypeError(f"save: {what} a mapping of names, got {type(value).__name__}")
    arrays = {_text("a name", name): _array(name, value) for name, value in state.items()}
    texts = {_text("metadata", key): _text("metadata", value) for key, value in (metadata or {}).items()}
    target = Path(as_path("save", "the file", path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save: the folder {target.parent} does not exist")
    if target.is_dir():
        raise IsADirectoryError(f"save: {target} is a folder, the name of a file is needed")
    write_whole(target, tensors.save(arrays, texts or None))  # of empty metadata safetensors makes a broken header


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there as a whole or not at all; an `OSError` names it, and not its forerunner."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def load(path: str | os.PathLike[str], device: Device | None = None) -> dict[str, Tensor]:
    """The tensors in a safetensors file, by name.

    Parameters
    ----------
    path : path
        The file. It may come from anywhere: nothing in it is run, and sizes are checked against its length.
    device : Device, optional
        Where to put the tensors; by default on the `default_device`.

    Returns
    -------
    dict of str to Tensor
        Constants, as `Module.load_state_dict` takes them.

    Raises
    ------
    ImportError
        If the package safetensors is not installed.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no safetensors file, is damaged, or holds numbers that NumPy does not have.
    """
    opened, device = _open("load", path), as_device("load", device)
    state = {}
    with opened as file:
        for name in file.keys():  # noqa: SIM118 (it is no dict)
            try:
                array = file.get_tensor(name)
            except (TypeError, AttributeError, _module().SafetensorError) as error:
                raise ValueError(f"load: {name!r} in {os.fspath(path)} cannot be read with NumPy: {error}") from None
            state[name] = Tensor(array, device=device, requires_grad=False)
    return state


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts that `save` got as ``metadata``. Raises as `load` does."""
    with _open("read_metadata", path) as file:
        return dict(file.metadata() or {})


def _module() -> ModuleType:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "saving and loading need the package safetensors: pip install safetensors (or needle's extra 'apps')"
        ) from None
    return safetensors


def _open(name: str, path: Any) -> Any:
    safetensors = _module()
    path = as_path(name, "the file", path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"{name}: there is no file {path}")
    try:
        return safetensors.safe_open(path, framework="numpy")
    except safetensors.SafetensorError as error:
        raise ValueError(f"{name}: {path} is no intact safetensors file: {error}") from None


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"save: {what} is a str, got {type(value).__name__}")
    return value


def _array(name: str, value: Any) -> np.ndarray:
    data = value.realize_cached_data() if isinstance(value, Tensor) else value
    array = to_numpy(data)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"save: {name!r} is no tensor of real numbers but {type(value).__name__}")
    return array if array.flags.c_contiguous else array.copy()


def _umask() -> int:
    """What a new file's permissions lack."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
