"""The likeliest mistake behind a wrong gradient, recognised by what the gradient looks like.

A checker that only says "0.31 instead of 0.62" leaves the search to its user. But the usual mistakes leave
fingerprints: each function here tries one hypothesis against the measured Jacobian and gives the words for it, or
nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Measured:
    """A wrong gradient of one input, beside what finite differences say."""

    gradient: np.ndarray  #: what the rule gives, of the input's shape
    expected: np.ndarray  #: what it should be; NaN where nothing could be measured
    jacobian: np.ndarray  #: shape (elements of all outputs, elements of the input)
    cotangents: list[np.ndarray]  #: for each output, the gradient that the rule was given
    others: dict[int, np.ndarray]  #: what the gradients of the other inputs should be, by position
    transposed: dict[int, np.ndarray]  #: what it should be if another input were transposed, by position

    @property
    def cotangent(self) -> np.ndarray:
        """All cotangents as one vector."""
        return np.concatenate([v.ravel() for v in self.cotangents])

    @property
    def terms(self) -> np.ndarray:
        """The chain rule's terms v_j · ∂F_j/∂x_i, whose sum over j is the gradient."""
        return self.cotangent[:, None] * self.jacobian

    def fits(self, candidate: np.ndarray) -> bool:
        """Whether `candidate` is the wrong gradient."""
        return candidate.shape == self.gradient.shape and _same(self.gradient, candidate)


def _same(gradient: np.ndarray, candidate: np.ndarray) -> bool:
    known = np.isfinite(candidate)
    scale = np.abs(candidate[known]).max(initial=0.0)
    return bool(known.any() and np.allclose(gradient[known], candidate[known], rtol=1e-5, atol=1e-6 * scale))


def likeliest_mistake(m: Measured) -> str:
    """Words for the first hypothesis that fits, the commonest mistakes first."""
    hypotheses = (
        _not_finite,
        _zero,
        _constant_factor,
        _cotangent_ignored,
        _another_input,
        _transposed,
        _transposed_cotangent,
        _transposed_operand,
        _one_slice,
        _one_of_several,
        _spread_wrongly,
        _permuted,
    )
    return next(filter(None, (hypothesis(m) for hypothesis in hypotheses)), "") or _something_else(m)


def mistake_in_shape(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What a gradient of another shape than its input looks like.

    Examples
    --------
    >>> mistake_in_shape((4, 3), (1, 3))
    'it has shape (4, 3) instead of (1, 3), missing a sum over axis 0 (sum_to undoes a broadcast)'
    >>> mistake_in_shape((4, 3), (3, 4))
    'it has shape (4, 3) instead of (3, 4), transposed'
    """
    text = f"it has shape {given} instead of {wanted}, "
    if _broadcasts(wanted, given):
        new = len(given) - len(wanted)
        axes = [i for i, size in enumerate(given) if i < new or size != wanted[i - new]]
        return text + f"missing a sum over {_axes(axes)} (sum_to undoes a broadcast)"
    if sorted(given) == sorted(wanted):
        return text + "transposed"
    if _broadcasts(given, wanted):
        return text + "not spread over the axes that were summed over (broadcast_to undoes a sum)"
    if np.prod(given) == np.prod(wanted):
        return text + "not reshaped back"
    return text + "which no sum, broadcast or transposition explains"


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False


def _axes(axes: list[int] | tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {tuple(axes)}"


# ---------------------------------------------------------------------------------------------------------- hypotheses


def _not_finite(m: Measured) -> str:
    if np.isfinite(m.gradient).all():
        return ""
    return "not finite where the function is smooth: 0/0, 0·∞ or a logarithm of 0 in the rule"


def _zero(m: Measured) -> str:
    if np.any(m.gradient):
        return ""
    return "zero: part of the function or rule is outside the graph (detach, .data, .numpy()), or the path is missing"


def _constant_factor(m: Measured) -> str:
    known = np.isfinite(m.expected) & (m.expected != 0)
    if not known.any():
        return ""
    factor = float(np.median(m.gradient[known] / m.expected[known]))
    fraction = Fraction(factor).limit_denominator(100)
    if abs(fraction - factor) < 1e-5 * abs(factor):
        factor = float(fraction)
    elif known.sum() == 1:  # any number is a multiple of any other
        return ""
    if not m.fits(factor * m.expected):
        return ""
    if factor == -1:
        return "off by the sign"
    text = f"off by a factor of {fraction if factor == float(fraction) else f'{factor:.6g}'}"
    if factor > 0 and fraction.numerator == 1 and factor == float(fraction):
        text += f" (one of {fraction.denominator} equal uses counted, `=` for `+=`; or a mean for a sum)"
    return text


def _cotangent_ignored(m: Measured) -> str:
    if not m.fits(m.jacobian.sum(0).reshape(m.gradient.shape)):
        return ""
    return "the incoming gradient out_grad is ignored: it is not multiplied by it"


def _another_input(m: Measured) -> str:
    for position, expected in m.others.items():
        if m.fits(expected):
            return f"it is the gradient of input {position}: the rule returns them in another order"
    return ""


def _transposed(m: Measured) -> str:
    for moved, what in _moved(m.expected):
        if m.fits(moved):
            return what
    return ""


def _transposed_cotangent(m: Measured) -> str:
    if len(m.cotangents) != 1:
        return ""
    for moved, what in _moved(m.cotangents[0]):
        if m.fits((moved.ravel() @ m.jacobian).reshape(m.gradient.shape)):
            return f"out_grad is used {what}"
    diagonal = np.diagonal(m.jacobian)
    if m.jacobian.shape[0] == m.jacobian.shape[1] and np.count_nonzero(m.jacobian) == np.count_nonzero(diagonal) > 2:
        used = m.gradient.ravel() / np.where(diagonal == 0, np.nan, diagonal)
        if np.isfinite(used).all() and _same(np.sort(used), np.sort(m.cotangent)):
            return "out_grad is used with its elements permuted"
    return ""


def _transposed_operand(m: Measured) -> str:
    for position, expected in m.transposed.items():
        if m.fits(expected):
            return f"input {position} is used transposed"
    return ""


def _moved(array: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    """`array` with its elements in another order, as mistakes have it, and the words for it."""
    for i, j in itertools.combinations(range(array.ndim), 2):
        if array.shape[i] == array.shape[j]:
            yield array.swapaxes(i, j), f"transposed: axes {i} and {j} are swapped"
    for count in range(1, min(array.ndim, 4) + 1):
        for axes in itertools.combinations(range(array.ndim), count):
            yield np.flip(array, axes), f"reversed along {_axes(axes)}"


def _one_slice(m: Measured) -> str:
    if len(m.cotangents) != 1:
        return ""
    shape = m.cotangents[0].shape
    terms = m.terms.reshape(shape + m.gradient.shape)
    for axis, size in enumerate(shape):
        for entry in range(size if size > 1 else 0):
            kept = terms.take([entry], axis).sum(tuple(range(len(shape))))
            if m.fits(kept):
                return f"missing a sum over axis {axis} of out_grad: only entry {entry} is counted"
    return ""


def _one_of_several(m: Measured) -> str:
    """Each element has the right sum, or one of its several terms."""
    terms, gradient = m.terms, m.gradient.ravel()
    known = np.isfinite(m.expected.ravel())
    scale = np.abs(terms[:, known]).max(initial=0.0)
    wrong = known & ~np.isclose(gradient, m.expected.ravel(), rtol=1e-5, atol=1e-6 * scale)
    several = (np.abs(terms) > 1e-6 * scale).sum(0) > 1
    hit = (np.isclose(terms, gradient, rtol=1e-5, atol=1e-6 * scale) & (np.abs(terms) > 1e-6 * scale)).any(0)
    if not wrong.any() or not (several & hit)[wrong].all():
        return ""
    return "only one of several uses of an element is counted: `=` for `+=`"


def _spread_wrongly(m: Measured) -> str:
    for count in range(1, min(m.expected.ndim, 4) + 1):
        for axes in itertools.combinations(range(m.expected.ndim), count):
            for reduce in (np.sum, np.mean):
                if m.fits(np.broadcast_to(reduce(m.expected, axis=axes, keepdims=True), m.expected.shape)):
                    return f"summed or averaged over {_axes(axes)}, and spread over it again"
    return ""


def _permuted(m: Measured) -> str:
    if m.gradient.size < 3 or not _same(np.sort(m.gradient, axis=None), np.sort(m.expected, axis=None)):
        return ""
    return "the right values in the wrong places: permuted"


def _something_else(m: Measured) -> str:
    known = np.isfinite(m.expected)
    right = np.isclose(m.gradient[known], m.expected[known], rtol=1e-5, atol=1e-8).sum()
    return (
        f"no simple mistake fits ({right} of {known.sum()} elements are right): a term of the chain rule is missing, "
        "or an axis is confused with another"
    )
