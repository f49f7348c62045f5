"""Tensors of constants and of random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor
from ..backend import Device, Shape, as_device, as_dtype
from ..ops.checks import as_array, as_integer, check_real


def _check_shape(name: str, shape: tuple) -> Shape:
    for size in shape:
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 0:
            raise (ValueError if isinstance(size, (int, np.integer)) else TypeError)(
                f"{name}: sizes are non-negative integers, each its own argument as in {name}(3, 4); got {size!r}"
            )
    return shape


def rand(
    *shape: int,
    low: float = 0.0,
    high: float = 1.0,
    device: Device | None = None,
    dtype: Any = "float32",
    requires_grad: bool = False,
) -> Tensor:
    """Uniform random numbers of [low, high).

    Parameters
    ----------
    *shape : int
        Sizes of the axes.
    low, high : float
        The interval.
    device, dtype, requires_grad
        As for `Tensor`.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer, or negative; if a bound is no number, `device` no device or `dtype` not one of real
        numbers.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> np.random.seed(0)
    >>> ndl.init.rand(2, low=-1.0, high=1.0)
    needle.Tensor([0.09762701 0.43037874])
    """
    place = _place("rand", device, dtype)
    check_real("rand", "low", low)
    check_real("rand", "high", high)
    array = np.random.rand(*_check_shape("rand", shape)) * (high - low) + low
    return _owned(_placed(array, *place), requires_grad)


def randn(
    *shape: int,
    mean: float = 0.0,
    std: float = 1.0,
    device: Device | None = None,
    dtype: Any = "float32",
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers with the given mean and standard deviation; the rest as for `rand`."""
    place = _place("randn", device, dtype)
    check_real("randn", "mean", mean)
    check_real("randn", "std", std)
    array = np.random.randn(*_check_shape("randn", shape)) * std + mean
    return _owned(_placed(array, *place), requires_grad)


def constant(
    *shape: int, c: float = 1.0, device: Device | None = None, dtype: Any = "float32", requires_grad: bool = False
) -> Tensor:
    """A tensor filled with `c`.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.init.constant(2, 2, c=0.5)
    needle.Tensor([[0.5 0.5]
     [0.5 0.5]])
    """
    return _filled("constant", shape, c, device, dtype, requires_grad)


def ones(*shape: int, device: Device | None = None, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return _filled("ones", shape, 1.0, device, dtype, requires_grad)


def zeros(*shape: int, device: Device | None = None, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return _filled("zeros", shape, 0.0, device, dtype, requires_grad)


def _filled(name: str, shape: tuple, c: Any, device: Any, dtype: Any, requires_grad: bool) -> Tensor:
    device, dtype = _place(name, device, dtype)
    if type(c) is not bool:
        check_real(name, "c", c)
    return _owned(device.full(_check_shape(name, shape), c, dtype), requires_grad)


def randb(
    *shape: int, p: float = 0.5, device: Device | None = None, dtype: Any = "bool", requires_grad: bool = False
) -> Tensor:
    """Random booleans, each true with probability `p`.

    Raises
    ------
    ValueError
        If `p` is no probability.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> np.random.seed(0)
    >>> ndl.init.randb(3, p=0.6)
    needle.Tensor([ True False False])
    """
    place = _place("randb", device, dtype)
    check_real("randb", "p", p)
    if not 0 <= p <= 1:
        raise ValueError(f"randb: p is a probability, in [0, 1]; got {p}")
    array = np.random.rand(*_check_shape("randb", shape)) <= p
    return _owned(_placed(array, *place), requires_grad)


def one_hot(
    n: int, i: Any, device: Device | None = None, dtype: Any = "float32", requires_grad: bool = False
) -> Tensor:
    """Rows of the n×n identity matrix, picked by integers.

    Parameters
    ----------
    n : int
        Number of classes.
    i : Tensor or array_like
        Class numbers of [0, n), of any shape (…); floats that are whole numbers will do.
    device : Device, optional
        Where the result goes; by default where `i` is.
    dtype, requires_grad
        As for `Tensor`.

    Returns
    -------
    Tensor
        Shape (…, n).

    Raises
    ------
    ValueError
        If a class number is not whole or out of range.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.init.one_hot(3, [2, 0])
    needle.Tensor([[0. 0. 1.]
     [1. 0. 0.]])
    """
    if device is None and isinstance(i, Tensor):
        device = i.device
    device, dtype = _place("one_hot", device, dtype)
    n = as_integer("one_hot", "n", n, least=0)
    if isinstance(i, Tensor) or backend.is_array(i):
        given = backend.to_numpy(i.realize_cached_data() if isinstance(i, Tensor) else i)
    else:
        given = as_array("one_hot", "class numbers", i)
    if given.size == 0 and given.dtype.kind == "f":
        given = given.astype(np.intp)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"one_hot: class numbers are integers, got {given.dtype}")
    if given.dtype.kind == "f" and not (np.isfinite(given) & (np.floor(given) == given)).all():
        raise ValueError("one_hot: class numbers are integers, got fractions")
    classes = given.astype(np.intp)
    if classes.size and (classes.min() < 0 or classes.max() >= n):
        raise ValueError(
            f"one_hot: class numbers {classes.min()} to {classes.max()} are out of range for {n} classes: "
            f"they must be in [0, {n})"
        )
    array = np.zeros((classes.size, n), dtype=dtype)
    array[np.arange(classes.size), classes.reshape(-1)] = 1
    return _owned(device.array(array.reshape(*classes.shape, n)), requires_grad)


def zeros_like(array: Any, *, device: Device | None = None, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape and, by default, dtype and device of `array`."""
    return _filled_like(array, "zeros", device, dtype, requires_grad)


def ones_like(array: Any, *, device: Device | None = None, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape and, by default, dtype and device of `array`.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.init.ones_like(ndl.Tensor([3, 4]))
    needle.Tensor([1 1])
    """
    return _filled_like(array, "ones", device, dtype, requires_grad)


def _filled_like(array: Any, what: str, device: Device | None, dtype: Any, requires_grad: bool) -> Tensor:
    data = array.realize_cached_data() if isinstance(array, Tensor) else array
    if not backend.is_array(data):
        data = as_array(f"{what}_like", "numbers", data)
    if data.dtype.kind not in "fiub":
        raise TypeError(f"{what}_like: an array of numbers is needed, got dtype {data.dtype}")
    like = backend.device_of(data) if device is None else device, data.dtype if dtype is None else dtype
    device, dtype = _place(f"{what}_like", *like)
    return _owned(getattr(device, what)(data.shape, dtype), requires_grad)


def _place(name: str, device: Any, dtype: Any) -> tuple[Device, np.dtype]:
    """Where `name` puts its tensor, and in which dtype, before anything is drawn."""
    return as_device(name, device), as_dtype(name, dtype)


def _placed(array: Any, device: Device, dtype: np.dtype) -> Any:
    """What was drawn here, cast and moved, with no copy that is not needed."""
    array = np.asarray(array).astype(dtype, copy=False)
    return array if device.xp is np else device.array(array)


def _owned(array: Any, requires_grad: bool) -> Tensor:
    """A leaf over an array that nobody else has."""
    return Tensor._from_array(array, bool(requires_grad) and array.dtype.kind != "b")
