"""What to tell a user whose GPU is full: what was asked for, what is free, and who holds the most."""

from __future__ import annotations

import gc

from . import backend
from .autograd import Stub, Value

_HOLDERS = 3


def explanation(error: MemoryError, device: backend.Device) -> str:
    """The error of cupy's allocator with the state of the GPU's memory added.

    Parameters
    ----------
    error : MemoryError
        As cupy raised it; it says what was asked for.
    device : Device
        The full GPU.

    Returns
    -------
    str
        With the free memory and the largest arrays that tensors and graphs hold.
    """
    from .memory.pools import pool_statistics  # not at the top: memory is imported by those who look at it

    lines = [f"{device!r}: {error}"]
    if device != backend.cpu():
        pool = pool_statistics(device)
        lines.append(f"free: {pool.free:,} of {pool.total:,} bytes, and {pool.cached:,} in cupy's memory pool")
    lines += [f"held: {text}" for text in largest_holders(device, _HOLDERS)]
    return "\n  ".join(lines)


def largest_holders(device: backend.Device, count: int) -> list[str]:
    """One line for each of the largest arrays on `device` that tensors and graphs hold, the largest first.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> x = ndl.Tensor(np.zeros((2000, 3000)), device=ndl.cpu())
    >>> largest_holders(ndl.cpu(), 1)
    ['48,000,000 bytes, float64 of shape (2000, 3000), a leaf']
    """
    found: dict[int, tuple[int, str]] = {}
    for value in gc.get_objects():
        if not issubclass(type(value), (Value, Stub)):  # not isinstance: a foreign __class__ may run code
            continue
        try:
            data = value.cached_data
        except AttributeError:  # it is just being made
            continue
        for array in data if isinstance(data, tuple) else (data,):
            if backend.is_array(array) and backend.device_of(array) == device:
                owner = array if array.base is None or not backend.is_array(array.base) else array.base
                op = value.op
                what = f"the result of {op}" if op is not None else "a leaf"
                text = f"{owner.nbytes:,} bytes, {array.dtype} of shape {tuple(array.shape)}, {what}"
                if id(owner) not in found or op is not None:
                    found[id(owner)] = (owner.nbytes, text)
    return [text for _, text in sorted(found.values(), key=lambda item: -item[0])[:count]]
