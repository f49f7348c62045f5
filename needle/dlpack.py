"""Arrays shared with other libraries, without a copy, by the DLPack protocol.

https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

from typing import Any

from . import backend
from .autograd import Tensor

_CPU_KINDS, _CUDA_KINDS = (1, 3), (2, 13)  # DLPack's device types: with page-locked and managed memory


def from_dlpack(source: Any, *, requires_grad: bool = False) -> Tensor:
    """A tensor over the memory of another library's array, on the CPU or on a GPU.

    Parameters
    ----------
    source : object with ``__dlpack__``
        An array of NumPy, CuPy, PyTorch, JAX, …
    requires_grad : bool
        Whether gradients are wanted.

    Returns
    -------
    Tensor
        Writing into one changes the other.

    Raises
    ------
    TypeError
        If `source` cannot be shared so, or holds no real numbers.
    RuntimeError
        If it lives on a GPU that cannot be used from here.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> array = np.array([1.0, 2.0])
    >>> x = ndl.from_dlpack(array)
    >>> array[0] = 5
    >>> x
    needle.Tensor([5. 2.])
    """
    if isinstance(source, Tensor):
        source = source.realize_cached_data()
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: an object with __dlpack__ is needed, got {type(source).__name__}")
    if backend.is_array(source):
        array = source
    else:
        kind, index = source.__dlpack_device__()
        if int(kind) not in _CPU_KINDS + _CUDA_KINDS:
            raise TypeError(f"from_dlpack: {type(source).__name__} lives on a device of DLPack's type {int(kind)}")
        device = backend.cpu() if int(kind) in _CPU_KINDS else backend.cuda(index)
        with device.current():
            array = device.xp.from_dlpack(source)
            if array.base is None:  # as cupy has it, although the memory is another's; optimizers look at this
                array = array[...]
    if array.dtype.kind not in "fiub":
        raise TypeError(f"from_dlpack: real numbers are needed, got {array.dtype}")
    return Tensor._from_array(array, requires_grad and array.dtype.kind != "b")


def to_dlpack(a: Tensor, **request: Any) -> Any:
    """``__dlpack__`` of a tensor: a capsule over its live array."""
    array = a.realize_cached_data()
    with backend.scope(array):  # whose work the other library waits for
        return array.__dlpack__(**request)


def dlpack_device(a: Tensor) -> tuple[int, int]:
    """``__dlpack_device__`` of a tensor: the type and the number of its device."""
    kind, index = a.realize_cached_data().__dlpack_device__()
    return int(kind), int(index)


Tensor.__dlpack__ = to_dlpack  # type: ignore[attr-defined]
Tensor.__dlpack_device__ = dlpack_device  # type: ignore[attr-defined]
