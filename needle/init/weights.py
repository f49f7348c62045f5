"""The weight initialisations of Glorot & Bengio (2010, "Xavier") and He et al. (2015, "Kaiming").

A layer y = x·W with independent weights of mean 0 has Var(y) = fan_in · Var(W) · E(x²). Xavier keeps the variance
level forwards and backwards through a linear layer, Var(W) = 2/(fan_in + fan_out); Kaiming keeps it forwards for
rectified inputs, where E(x²) is half the variance of what was rectified: Var(W) = 2/fan_in. A uniform variable on ±a
has variance a²/3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import Tensor
from ..backend import Shape
from ..ops.checks import check_real
from .basic import rand, randn

_GAINS = {"relu": math.sqrt(2.0), "linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0}


def _check_fans(name: str, fan_in: int, fan_out: int) -> None:
    check_real(name, "fan_in", fan_in)
    check_real(name, "fan_out", fan_out)
    if not (fan_in > 0 and fan_out > 0):
        raise ValueError(f"{name}: fan_in and fan_out are positive numbers of units, got {fan_in} and {fan_out}")


def _gain(name: str, nonlinearity: str) -> float:
    if not isinstance(nonlinearity, str) or nonlinearity not in _GAINS:
        raise ValueError(f"{name}: nonlinearity is one of {', '.join(_GAINS)}; got {nonlinearity!r}")
    return _GAINS[nonlinearity]


def xavier_uniform(fan_in: int, fan_out: int, gain: float = 1.0, **kwargs: Any) -> Tensor:
    """Uniform numbers of ±gain·√(6/(fan_in + fan_out)).

    Parameters
    ----------
    fan_in, fan_out : int
        Inputs and outputs of the layer: the shape is (fan_in, fan_out).
    gain : float
        Factor of the standard deviation.
    **kwargs
        ``device``, ``dtype``, ``requires_grad`` as for `rand`.

    Raises
    ------
    ValueError
        If a fan is not positive.

    References
    ----------
    X. Glorot, Y. Bengio: Understanding the difficulty of training deep feedforward neural networks. AISTATS 2010.

    Examples
    --------
    >>> import needle as ndl
    >>> w = ndl.init.xavier_uniform(2, 4)
    >>> w.shape, bool(abs(w).max().item() <= 1)
    ((2, 4), True)
    """
    _check_fans("xavier_uniform", fan_in, fan_out)
    check_real("xavier_uniform", "gain", gain)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return rand(fan_in, fan_out, low=-bound, high=bound, **kwargs)


def xavier_normal(fan_in: int, fan_out: int, gain: float = 1.0, **kwargs: Any) -> Tensor:
    """Normal numbers with standard deviation gain·√(2/(fan_in + fan_out)); the rest as for `xavier_uniform`."""
    _check_fans("xavier_normal", fan_in, fan_out)
    check_real("xavier_normal", "gain", gain)
    return randn(fan_in, fan_out, std=gain * math.sqrt(2.0 / (fan_in + fan_out)), **kwargs)


def kaiming_uniform(
    fan_in: int, fan_out: int, shape: Shape | None = None, nonlinearity: str = "relu", **kwargs: Any
) -> Tensor:
    """Uniform numbers of ±gain·√(3/fan_in).

    Parameters
    ----------
    fan_in, fan_out : int
        Inputs and outputs of the layer.
    shape : tuple of int, optional
        The shape, for instance that of a convolution's kernel; by default (fan_in, fan_out).
    nonlinearity : str
        What follows the layer: ``"relu"`` (gain √2), ``"linear"``, ``"sigmoid"`` (1) or ``"tanh"`` (5/3). It may also
        stand in the place of `shape`.
    **kwargs
        ``device``, ``dtype``, ``requires_grad`` as for `rand`.

    Raises
    ------
    ValueError
        If a fan is not positive or the nonlinearity unknown.

    References
    ----------
    K. He, X. Zhang, S. Ren, J. Sun: Delving deep into rectifiers. ICCV 2015.

    Examples
    --------
    >>> import needle as ndl
    >>> w = ndl.init.kaiming_uniform(6, 4)
    >>> w.shape, bool(abs(w).max().item() <= 1)
    ((6, 4), True)
    """
    shape, nonlinearity = _sort_out("kaiming_uniform", fan_in, fan_out, shape, nonlinearity)
    bound = _gain("kaiming_uniform", nonlinearity) * math.sqrt(3.0 / fan_in)
    return rand(*shape, low=-bound, high=bound, **kwargs)


def kaiming_normal(
    fan_in: int, fan_out: int, shape: Shape | None = None, nonlinearity: str = "relu", **kwargs: Any
) -> Tensor:
    """Normal numbers with standard deviation gain/√fan_in; the rest as for `kaiming_uniform`."""
    shape, nonlinearity = _sort_out("kaiming_normal", fan_in, fan_out, shape, nonlinearity)
    return randn(*shape, std=_gain("kaiming_normal", nonlinearity) / math.sqrt(fan_in), **kwargs)


def _sort_out(name: str, fan_in: int, fan_out: int, shape: Any, nonlinearity: str) -> tuple[Shape, str]:
    """The shape and the nonlinearity, which older course code gives in the shape's place."""
    _check_fans(name, fan_in, fan_out)
    if isinstance(shape, str):
        shape, nonlinearity = None, shape
    if shape is not None and not isinstance(shape, Sequence):
        raise TypeError(f"{name}: shape is a tuple of integers, got {shape!r}")
    return (fan_in, fan_out) if shape is None else tuple(shape), nonlinearity
