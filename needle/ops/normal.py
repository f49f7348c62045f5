"""The standard normal distribution function Φ, and the Gaussian error linear unit x·Φ(x) made with it.

NumPy has no error function. Φ is computed from the rational approximations of W. J. Cody, "Rational Chebyshev
approximations for the error function", Mathematics of Computation 23 (1969), whose relative error is below 10⁻¹⁸ on
each of three intervals: with z = |x|/√2,

    z ≤ 0.46875:  erf z = z·A(z²)/B(z²)
    z ≤ 4:        erfc z = e^(−z²)·C(z)/D(z)
    else:         erfc z = e^(−z²)/z · (1/√π − z⁻²·P(z⁻²)/Q(z⁻²)),

and Φ(x) = ½·erfc(z) for x < 0, 1 − ½·erfc(z) for x > 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd import TensorOp
from ..backend import Array, array_module
from .common import as_value
from .elementwise import exp, tanh

# Coefficients from the highest power down.
_A = (
    *(1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2),
    *(3.77485237685302021e2, 3.20937758913846947e3),
)
_B = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_C = (
    *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1),
    *(2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3),
    1.23033935479799725e3,
)
_D = (
    *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
    *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)
_P = (
    *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
    *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
)
_Q = (
    *(1.0, 2.56852019228982242e0, 1.87295284992346725e0),
    *(5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
)

_BLOCK = 1 << 14  # elements computed at a time on a CPU: all that lies between input and output stays in cache


class NormalCDF(TensorOp):
    """Φ(a), the probability that a standard normal variable is below a; its derivative is e^(−a²/2)/√(2π)"""

    reads = ("inputs",)

    def compute(self, a: Array) -> Array:
        if not isinstance(a, np.ndarray) or a.size <= _BLOCK:
            return _normal_cdf(a)
        out = np.empty(a.size, dtype=a.dtype)
        flat = a.reshape(-1)
        for start in range(0, a.size, _BLOCK):
            out[start : start + _BLOCK] = _normal_cdf(flat[start : start + _BLOCK])
        return out.reshape(a.shape)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (a,) = node.inputs
        return out_grad * (exp(a * a * -0.5) * (1 / math.sqrt(2 * math.pi)))


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = x * coefficients[0]
    for c in coefficients[1:-1]:
        value += c
        value *= x
    value += coefficients[-1]
    return value


def _normal_cdf(a: Array) -> Array:
    """Φ of an array. Each interval is evaluated for all elements; those outside are moved to its end."""
    xp = array_module(a)
    size = xp.minimum(abs(a), 40)  # beyond 40 the tail is 0 in every dtype
    z = size * math.sqrt(0.5)
    near = xp.minimum(z, 0.46875)
    square = near * near
    near *= _polynomial(_A, square)
    near /= _polynomial(_B, square)
    middle = xp.clip(z, 0.46875, 4.0)
    tail = _polynomial(_C, middle)
    tail /= _polynomial(_D, middle)
    if xp is not np or (z > 4).any():
        far = xp.maximum(z, 4.0)
        inverse = 1 / (far * far)
        rest = inverse * _polynomial(_P, inverse) / _polynomial(_Q, inverse)
        tail = xp.where(z > 4, (1 / math.sqrt(math.pi) - rest) / far, tail)
    tail *= xp.exp(size * size * -0.5) * 0.5
    return xp.where(z <= 0.46875, xp.copysign(near, a) * 0.5 + 0.5, xp.where(a < 0, tail, 1 - tail))


def normal_cdf(a: Any) -> Any:
    """The standard normal distribution function Φ(a), elementwise.

    Examples
    --------
    >>> import needle as ndl
    >>> round(ndl.normal_cdf(ndl.Tensor(1.96)).item(), 6)
    0.975002
    """
    return NormalCDF()(_as_floats("normal_cdf", a))


def gelu(a: Any, approximate: str = "none") -> Any:
    """The Gaussian error linear unit a·Φ(a), elementwise.

    Parameters
    ----------
    a : Tensor
        Any shape, of a float dtype.
    approximate : str
        ``"none"`` for the function itself; ``"tanh"`` for ½a·(1 + tanh(√(2/π)·(a + 0.044715·a³))).

    Raises
    ------
    ValueError
        If `approximate` is neither.
    TypeError
        If `a` is not of a float dtype.

    References
    ----------
    D. Hendrycks, K. Gimpel: Gaussian error linear units. arXiv:1606.08415, 2016.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.gelu(ndl.Tensor([-1.0, 0.0, 1.0])).numpy().round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    a = _as_floats("gelu", a)
    if approximate == "none":
        return a * NormalCDF()(a)
    if approximate != "tanh":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    inner = (a + a * a * a * 0.044715) * math.sqrt(2 / math.pi)
    return a * 0.5 * (tanh(inner) + 1)


def _as_floats(name: str, a: Any) -> Any:
    a = as_value(name, a)
    if a.dtype.kind != "f":
        raise TypeError(f"{name}: a float dtype is needed, got {a.dtype}; astype makes it one")
    return a
