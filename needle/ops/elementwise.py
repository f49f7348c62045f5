"""Elementwise arithmetic and functions.

Subgradients at kinks
---------------------
`relu`, `abs`, `maximum`, `minimum`, and `max`/`min` over axes follow one convention: where a function has a kink, its
gradient is the subgradient of least norm (the one whose negative is the direction of steepest descent; Rockafellar,
*Convex Analysis*, 1970). So relu'(0) = 0 and abs'(0) = 0, and arguments that tie for the maximum get equal shares.
It follows that ``abs(x)``, ``maximum(x, -x)`` and ``relu(x) + relu(-x)`` agree everywhere, and so do ``relu(x)``,
``maximum(x, 0.0)`` and ``where(x > 0, x, 0.0)``. `where` itself has no kink: its gradient goes where its value came
from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import backend
from ..autograd import Tensor, TensorOp, Value
from ..backend import Array, array_module
from .common import as_scalar, as_value, broadcast_shape, check_devices, constant, shape_of
from .shape import broadcast_to


class EWiseAdd(TensorOp):
    """a + b"""

    reads = ()

    def compute(self, a: Array, b: Array) -> Array:
        return a + b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad, out_grad


class EWiseMul(TensorOp):
    """a · b"""

    reads = ("inputs",)

    def compute(self, a: Array, b: Array) -> Array:
        return a * b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        a, b = node.inputs
        need_a, need_b = node.needs_input_grad
        return out_grad * b if need_a else None, out_grad * a if need_b else None


class EWiseDiv(TensorOp):
    """a / b"""

    reads = ("inputs", "output")

    def compute(self, a: Array, b: Array) -> Array:
        return a / b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        _, b = node.inputs
        to_a = out_grad / b
        return to_a, -to_a * node.output if node.needs_input_grad[1] else None


class EWisePow(TensorOp):
    """a ** b

    ∂a = b·a^(b−1), ∂b = a^b·ln a. Where a = 0 the limits are taken: ∂b is 0, and ∂a is 0 if b = 0 too.
    """

    reads = ("inputs", "output")

    def compute(self, a: Array, b: Array) -> Array:
        return a**b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        a, b = node.inputs
        need_a, need_b = node.needs_input_grad
        to_a = to_b = None
        if need_a:
            both_zero = constant(lambda x, y: (x == 0) & (y == 0), a, b)
            to_a = out_grad * b * a ** (b - 1 + both_zero)
        if need_b:
            zero = constant(lambda x: x == 0, a)
            to_b = out_grad * node.output * log(a + zero)
        return to_a, to_b


class AddScalar(TensorOp):
    """a + c"""

    reads = ()

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def compute(self, a: Array) -> Array:
        return a + backend.weak(self.scalar, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad


class MulScalar(TensorOp):
    """c · a"""

    reads = ()

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def compute(self, a: Array) -> Array:
        return a * backend.weak(self.scalar, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * self.scalar


class DivScalar(TensorOp):
    """a / c"""

    reads = ()

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def compute(self, a: Array) -> Array:
        return a / backend.weak(self.scalar, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad / self.scalar


class ScalarDiv(TensorOp):
    """c / a, whose derivative is −(c/a)/a"""

    reads = ("inputs", "output")

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def compute(self, a: Array) -> Array:
        return backend.weak(self.scalar, a) / a

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return -out_grad * node.output / a


class PowerScalar(TensorOp):
    """a ** c"""

    reads = ("inputs",)

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def compute(self, a: Array) -> Array:
        if isinstance(self.scalar, int) and self.scalar < 0 and a.dtype.kind in "iu":
            raise ValueError(f"PowerScalar: {a.dtype} to the power {self.scalar}: use a float dtype or exponent")
        return a * a if self.scalar == 2 and a.dtype.kind != "b" else a ** backend.weak(self.scalar, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        if self.scalar == 0:  # 0·a^(−1) would be NaN at a = 0
            return out_grad * 0
        return (
            out_grad * self.scalar if self.scalar == 1 else out_grad * (self.scalar * power_scalar(a, self.scalar - 1))
        )


class ScalarPower(TensorOp):
    """c ** a, whose derivative is c^a·ln c (0 for c = 0; NaN for negative c, which has no real power at most a)"""

    reads = ("output",)

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def compute(self, a: Array) -> Array:
        return backend.weak(self.scalar, a) ** a

    def gradient(self, out_grad: Any, node: Any) -> Any:
        c = self.scalar
        return out_grad * node.output * (math.log(c) if c > 0 else 0.0 if c == 0 else math.nan)


class Negate(TensorOp):
    """−a"""

    reads = ()

    def compute(self, a: Array) -> Array:
        return -a

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return -out_grad


class Exp(TensorOp):
    """eᵃ"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).exp(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * node.output


class Log(TensorOp):
    """ln a"""

    reads = ("inputs",)

    def compute(self, a: Array) -> Array:
        return array_module(a).log(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return out_grad / a


class Sqrt(TensorOp):
    """√a, whose derivative is 1/(2√a)"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).sqrt(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * 0.5 / node.output


class Tanh(TensorOp):
    """tanh a, whose derivative is 1 − tanh² a"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).tanh(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        return out_grad * (1 - y * y)


class Sigmoid(TensorOp):
    """σ(a) = 1/(1 + e⁻ᵃ) = (1 + tanh(a/2))/2, which never overflows; its derivative is σ(1 − σ)"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        y = array_module(a).tanh(a * backend.weak(0.5, a))
        return (y + backend.weak(1, y)) * backend.weak(0.5, y)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = node.output
        return out_grad * (y * (1 - y))


class ReLU(TensorOp):
    """max(a, 0); the derivative at 0 is 0"""

    reads = ("output",)

    def compute(self, a: Array) -> Array:
        return array_module(a).maximum(a, a.dtype.type(0))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * constant(lambda y: y > 0, node.output)


class Abs(TensorOp):
    """|a|; the derivative at 0 is 0"""

    reads = ("inputs",)

    def compute(self, a: Array) -> Array:
        return abs(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return out_grad * sign(a)


class Maximum(TensorOp):
    """max(a, b) elementwise; where a = b, each gets half of the gradient"""

    reads = ("inputs",)

    def compute(self, a: Array, b: Array) -> Array:
        return array_module(a).maximum(a, b)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        a, b = node.inputs
        return out_grad * constant(_share, a, b), out_grad * constant(_share, b, a)


def _share(a: Array, b: Array) -> Array:
    """The part of a maximum's gradient that `a` gets: 1 where it is larger, ½ where both are equal."""
    return ((a > b).astype(a.dtype) + (a >= b)) * backend.weak(0.5, a)


class MaximumScalar(TensorOp):
    """max(a, c); the derivative where a = c is 0"""

    reads = ("inputs",)

    def __init__(self, scalar: Any):
        self.scalar = scalar

    def compute(self, a: Array) -> Array:
        return array_module(a).maximum(a, backend.weak(self.scalar, a))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return out_grad * constant(lambda a: a > self.scalar, a)


class Where(TensorOp):
    """a where the condition holds, else b"""

    reads = ("inputs",)

    def compute(self, condition: Array, a: Array, b: Array) -> Array:
        return array_module(condition).where(condition, a, b)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        condition = node.inputs[0]
        return None, where(condition, out_grad, 0.0), where(condition, 0.0, out_grad)


class Cast(TensorOp):
    """a in another dtype. The engine gives the gradient back in a's own."""

    reads = ()

    def __init__(self, dtype: Any):
        self.dtype = dtype

    def compute(self, a: Array) -> Array:
        return a.astype(self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad


class To(TensorOp):
    """a on another device"""

    reads = ()

    def __init__(self, device: backend.Device):
        self.device = device

    def compute(self, a: Array) -> Array:
        return self.device.array(a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return to(
            out_grad,
            node.inputs[0].device if isinstance(out_grad, Tensor) else backend.device_of(node.inputs[0]),
        )


# ------------------------------------------------------------------------------------------------------------ functions


def broadcast_together(name: str, *values: Any) -> tuple:
    """The values (tensors or arrays of one device), broadcast to their common shape by explicit nodes."""
    values = tuple([as_value(name, v) for v in values])
    shapes = [shape_of(v) for v in values]
    check_devices(name, *values)
    if all(shape == shapes[0] for shape in shapes):
        return values
    shape = broadcast_shape(name, *shapes)
    return tuple([broadcast_to(v, shape) for v in values])


def _binary(op: TensorOp, a: Any, b: Any) -> Any:
    return op(*broadcast_together(type(op).__name__, a, b))


_ADD, _MUL, _DIV, _POW, _MAXIMUM = EWiseAdd(), EWiseMul(), EWiseDiv(), EWisePow(), Maximum()


def add(a: Any, b: Any) -> Any:
    """a + b, broadcast as in NumPy. Shapes (…) and (…) → their common shape.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.add(ndl.Tensor([[1.0], [2.0]]), ndl.Tensor([10.0, 20.0]))
    needle.Tensor([[11. 21.]
     [12. 22.]])
    """
    return _binary(_ADD, a, b)


def add_scalar(a: Any, scalar: Any) -> Any:
    """a + c for a number c."""
    return AddScalar(_number("AddScalar", scalar))(a)


def multiply(a: Any, b: Any) -> Any:
    """a · b elementwise, broadcast as in NumPy."""
    return _binary(_MUL, a, b)


def mul_scalar(a: Any, scalar: Any) -> Any:
    """c · a for a number c."""
    return MulScalar(_number("MulScalar", scalar))(a)


def divide(a: Any, b: Any) -> Any:
    """a / b elementwise, broadcast as in NumPy."""
    return _binary(_DIV, a, b)


def divide_scalar(a: Any, scalar: Any) -> Any:
    """a / c for a number c (an array with one element will do)."""
    return DivScalar(_number("DivScalar", scalar))(a)


def power(a: Any, b: Any) -> Any:
    """a ** b elementwise, broadcast as in NumPy."""
    return _binary(_POW, a, b)


def power_scalar(a: Any, scalar: Any) -> Any:
    """a ** c for a number c."""
    return PowerScalar(_number("PowerScalar", scalar))(a)


def _number(name: str, value: Any) -> Any:
    scalar = as_scalar(value)
    if scalar is None and backend.is_array(value) and value.size == 1:
        scalar = value.item()
    if scalar is None:
        raise TypeError(f"{name}: a number is needed, got {type(value).__name__}")
    return scalar


def negate(a: Any) -> Any:
    """−a."""
    return Negate()(as_value("Negate", a))


def _floating(name: str, a: Any) -> Any:
    """`a` as something to take a transcendental function of: integers as the default float, as NumPy has it."""
    a = as_value(name, a)
    return a.astype("float64") if a.dtype.kind in "iub" else a


def exp(a: Any) -> Any:
    """eᵃ elementwise."""
    return Exp()(_floating("Exp", a))


def log(a: Any) -> Any:
    """Natural logarithm elementwise."""
    return Log()(_floating("Log", a))


def sqrt(a: Any) -> Any:
    """Square root elementwise; the derivative at 0 is infinite."""
    return Sqrt()(_floating("Sqrt", a))


def tanh(a: Any) -> Any:
    """Hyperbolic tangent elementwise."""
    return Tanh()(_floating("Tanh", a))


def sigmoid(a: Any) -> Any:
    """The logistic function 1/(1 + e⁻ᵃ) elementwise; finite for every a."""
    return Sigmoid()(_floating("Sigmoid", a))


def relu(a: Any) -> Any:
    """max(a, 0) elementwise; the derivative at 0 is 0."""
    return ReLU()(as_value("ReLU", a))


def abs_(a: Any) -> Any:
    """|a| elementwise; the derivative at 0 is 0. ``ndl.abs`` and Python's ``abs(tensor)``."""
    return Abs()(as_value("Abs", a))


def sign(a: Any) -> Any:
    """−1, 0 or 1 elementwise: a constant, whose derivative is 0 wherever it exists."""
    return constant(lambda x: array_module(x).sign(x), as_value("sign", a))


def maximum(a: Any, b: Any) -> Any:
    """The larger of a and b elementwise, broadcast; b may be a number. See the module on ties.

    Examples
    --------
    >>> import needle as ndl
    >>> a, b = ndl.Tensor([1.0, 2.0, 3.0]), ndl.Tensor([3.0, 2.0, 1.0])
    >>> ndl.maximum(a, b).sum().backward()
    >>> a.grad, b.grad
    (needle.Tensor([0.  0.5 1. ]), needle.Tensor([1.  0.5 0. ]))
    """
    for x, y in ((a, b), (b, a)):
        scalar = as_scalar(y)
        if scalar is not None and as_scalar(x) is None:
            return MaximumScalar(scalar)(as_value("Maximum", x))
    return _binary(_MAXIMUM, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of a and b elementwise, as −max(−a, −b)."""
    a, b = [-x if as_scalar(x) is not None else negate(x) for x in (a, b)]
    return negate(maximum(a, b))


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the boolean `condition` holds, else `b`; all three broadcast, a and b may be numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([-1.0, 2.0])
    >>> ndl.where(x > 0, x, 0.0)
    needle.Tensor([0. 2.])
    """
    kind = getattr(condition, "dtype", None)
    if kind is None or kind.kind != "b":
        raise TypeError(f"Where: the condition must be boolean, got {kind or type(condition).__name__}")
    values = [a, b]
    like = next((v for v in values if as_scalar(v) is None), None)
    for i, value in enumerate(values):
        scalar = as_scalar(value)
        if scalar is not None and like is not None:
            values[i] = constant(lambda x, s=scalar: array_module(x).asarray(s, dtype=x.dtype), like)
    return Where()(*broadcast_together("Where", condition, *values))


def astype(a: Any, dtype: Any) -> Any:
    """`a` in another dtype; the tensor itself if it has that dtype already."""
    a = as_value("Cast", a)
    return a if a.dtype == dtype else Cast(dtype)(a)


def to(a: Any, device: backend.Device) -> Any:
    """`a` on `device`; the tensor itself if it is there already."""
    here = a.device if isinstance(a, Tensor) else backend.device_of(a)
    return a if here == device else To(device)(a)


def compare(symbol: str, fn: Callable[[Array, Any], Array], a: Any, b: Any) -> Any:
    """A comparison as a constant boolean tensor."""
    scalar = as_scalar(b)
    if scalar is not None:
        return constant(lambda x: fn(x, scalar), a)
    if not (isinstance(b, Value) or backend.is_array(b)):
        return NotImplemented
    broadcast_shape(symbol, shape_of(a), shape_of(b))
    check_devices(symbol, a, b)
    return constant(fn, a, b)
