"""The operators and methods of `Tensor`, bound here so that the engine need not know any op."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor, TensorOp
from . import arithmetic, elementwise, indexing, linalg, piecewise, reduction, shape
from .arithmetic import (
    AddScalar,
    DivScalar,
    EWiseAdd,
    EWiseDiv,
    EWiseMul,
    EWisePow,
    MulScalar,
    Negate,
    PowerScalar,
    ScalarDiv,
    ScalarPower,
    broadcast_together,
)
from .common import as_scalar, as_value
from .piecewise import compare

_record = Tensor.make_from_op
_record_pair = Tensor.make_from_pair
_negate = Negate()
_add = EWiseAdd()


def _binary(op: TensorOp, with_scalar: Callable[[Any], TensorOp]) -> Callable:
    """``tensor ∘ other`` for a tensor, an array or a number."""
    name = type(op).__name__

    def apply(a: Tensor, b: Any) -> Any:
        if isinstance(b, Tensor):
            x, y = a.cached_data, b.cached_data
            if type(x) is np.ndarray and type(y) is np.ndarray and x.shape == y.shape:
                return _record_pair(op, a, b)
        elif type(b) is float or type(b) is int:
            return _record(with_scalar(b), (a,))
        b = _operand(name, b, a)
        if isinstance(b, Tensor):
            return _record(op, broadcast_together(name, a, b))
        return b if b is NotImplemented else _record(with_scalar(b), (a,))

    return apply


def _reflected(op: TensorOp, with_scalar: Callable[[Any], TensorOp]) -> Callable:
    """``other ∘ tensor`` for an array or a number."""
    name = type(op).__name__

    def apply(b: Tensor, a: Any) -> Any:
        a = _operand(name, a, b)
        if isinstance(a, Tensor):
            return _record(op, broadcast_together(name, a, b))
        return a if a is NotImplemented else _record(with_scalar(a), (b,))

    return apply


def _operand(name: str, value: Any, like: Tensor) -> Any:
    """`value` as a number or as a constant tensor; NotImplemented if it is neither."""
    scalar = as_scalar(value)
    if scalar is not None:
        return scalar
    if isinstance(value, Tensor):
        return value
    if not backend.is_array(value):
        return NotImplemented
    value = as_value(name, value)
    if value.ndim == 0 and like.dtype.kind == "f":  # a 0-d array on a GPU is a scalar too
        value = value.astype(like.dtype)
    return _beside(like, value)


def _beside(like: Tensor, array: Any) -> Tensor:
    """An array as a constant: one of NumPy where `like` lives, one of a GPU where it is."""
    return Tensor(array, device=like.device if isinstance(array, np.ndarray) else None, requires_grad=False)


_add_operator = _binary(_add, AddScalar)


def _subtract(a: Tensor, b: Any) -> Any:
    if type(b) is not float and type(b) is not int:
        b = _operand("EWiseAdd", b, a)
        if isinstance(b, Tensor):
            return _add_operator(a, _record(_negate, (b if a.dtype.kind == b.dtype.kind == "b" else _signed(b),)))
    return b if b is NotImplemented else _record(AddScalar(-b), (_signed(a),))


def _reflected_subtract(b: Tensor, a: Any) -> Any:
    return _add_operator(_record(_negate, (_signed(b),)), a)


def _signed(a: Tensor) -> Tensor:
    """`a` in a dtype that has negative numbers: unsigned integers would wrap around, booleans have none."""
    dtype = a.dtype
    return elementwise.astype(a, np.promote_types(dtype, np.int8)) if dtype.kind in "ub" else a


def _matmul(a: Tensor, b: Any) -> Any:
    if backend.is_array(b):
        b = _beside(a, as_value("MatMul", b))
    return linalg.matmul(a, b) if isinstance(b, Tensor) else NotImplemented


def _reflected_matmul(b: Tensor, a: Any) -> Any:
    if not backend.is_array(a):
        return NotImplemented
    return linalg.matmul(_beside(b, as_value("MatMul", a)), b)


def _comparison(symbol: str, fn: Callable) -> Callable:
    def apply(a: Tensor, b: Any) -> Any:
        return compare(symbol, fn, a, b)

    return apply


def _iter(a: Tensor) -> Iterator[Tensor]:
    if a.ndim == 0:
        raise TypeError("a 0-d tensor cannot be iterated over: .item() gives its number")
    return (indexing.getitem(a, i) for i in range(a.shape[0]))


def _to_cpu(a: Tensor) -> Tensor:
    """The tensor on the CPU; itself if it is there already."""
    return elementwise.to(a, backend.cpu())


def _to_cuda(a: Tensor, index: int = 0) -> Tensor:
    """The tensor on GPU number `index`; itself if it is there already."""
    return elementwise.to(a, backend.cuda(index))


_METHODS: dict[str, Callable] = {
    "__add__": _add_operator,
    "__radd__": _add_operator,
    "__sub__": _subtract,
    "__rsub__": _reflected_subtract,
    "__mul__": _binary(EWiseMul(), MulScalar),
    "__rmul__": _binary(EWiseMul(), MulScalar),
    "__truediv__": _binary(EWiseDiv(), DivScalar),
    "__rtruediv__": _reflected(EWiseDiv(), ScalarDiv),
    "__pow__": _binary(EWisePow(), PowerScalar),
    "__rpow__": _reflected(EWisePow(), ScalarPower),
    "__matmul__": _matmul,
    "__rmatmul__": _reflected_matmul,
    "__neg__": arithmetic.negate,
    "__abs__": piecewise.abs_,
    "__lt__": _comparison("<", operator.lt),
    "__le__": _comparison("<=", operator.le),
    "__gt__": _comparison(">", operator.gt),
    "__ge__": _comparison(">=", operator.ge),
    "__getitem__": indexing.getitem,
    "__iter__": _iter,
    "sum": reduction.summation,
    "mean": reduction.mean,
    "max": reduction.max_,
    "min": reduction.min_,
    "reshape": shape.reshape,
    "broadcast_to": shape.broadcast_to,
    "transpose": shape.transpose,
    "permute": shape.permute,
    "squeeze": shape.squeeze,
    "expand_dims": shape.expand_dims,
    "matmul": linalg.matmul,
    "exp": elementwise.exp,
    "log": elementwise.log,
    "sqrt": elementwise.sqrt,
    "abs": piecewise.abs_,
    "astype": elementwise.astype,
    "to": elementwise.to,
    "cpu": _to_cpu,
    "cuda": _to_cuda,
}
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _function)
