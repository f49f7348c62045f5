"""Slopes measured by central differences, where there is a slope to measure.

Along a direction u the function s(t) = vᵀ·F(x + t·u) of one number has the slope s'(0). Central quotients at the steps
h, h/2 and h/4 are s' + c₂h² + c₄h⁴ + …; Richardson's extrapolation takes the powers out one by one.

Where s has a kink or a jump near 0 (relu at 0, a tie of a maximum) there is no slope. That shows in the measurements
alone, whatever a gradient rule says: the slopes from the left and from the right disagree, or the extrapolated slope
still changes with the step. The steps then shrink from 1e-3 to 1e-4 and 1e-5, which steps around a kink that is near;
if that does not help, the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

Arrays = list[np.ndarray]

STEPS = (1e-3, 1e-4, 1e-5)  #: in units of the direction
ROUNDING = 100 * np.finfo(np.float64).eps  #: of a value; an extrapolated quotient loses 20 to 50 of its last places


class Tolerance(NamedTuple):
    """What a slope may be off by: ``absolute + relative · (sum of the magnitudes of its terms)``, beside rounding."""

    relative: float
    absolute: float


class Slope(NamedTuple):
    """The derivative of each output along a direction, and what its product with the cotangent may be off by."""

    derivative: np.ndarray
    tolerance: float


def slope(
    function: Callable[[Arrays], np.ndarray],
    point: Arrays,
    direction: Arrays,
    cotangent: np.ndarray,
    allowed: Tolerance,
) -> Slope | None:
    """The derivative of a vector-valued function along a direction.

    Parameters
    ----------
    function : callable
        Takes a list of arrays, gives a vector of float64.
    point, direction : list of ndarray
        Where, and along what; of equal shapes.
    cotangent : ndarray
        The weights v of the outputs, for which kinks are looked for and the tolerance is given.
    allowed : Tolerance
        What two measurements of one slope may differ by.

    Returns
    -------
    Slope or None
        None where there is no slope.

    Examples
    --------
    >>> import numpy as np
    >>> x, u, v = [np.zeros(2)], [np.array([1.0, 2.0])], np.ones(2)
    >>> slope(lambda point: np.sin(point[0]), x, u, v, Tolerance(1e-7, 1e-9)).derivative.round(9)
    array([1., 2.])
    >>> slope(lambda point: abs(point[0]), x, u, v, Tolerance(1e-7, 1e-9)) is None
    True
    """
    weight, middle = np.abs(cotangent), function(point)
    for step in STEPS:
        steps = step / np.array([[1.0], [2.0], [4.0]])
        plus, minus = (
            np.stack([function([x + sign * t * u for x, u in zip(point, direction)]) for t in steps[:, 0]])
            for sign in (1, -1)
        )
        central = (plus - minus) / (2 * steps)
        coarse, fine = (4 * central[1:] - central[:-1]) / 3
        derivative = (16 * fine - coarse) / 15
        right, left = _one_sided((plus - middle) / steps), _one_sided((middle - minus) / steps)
        tolerance = (
            allowed.absolute
            + allowed.relative * (weight @ np.abs(derivative))
            + ROUNDING * (weight @ np.abs(middle)) / step
        )
        if max(abs(cotangent @ (fine - coarse)), abs(cotangent @ (right - left))) <= tolerance / 2:
            return Slope(derivative, tolerance)
    return None


def _one_sided(quotients: np.ndarray) -> np.ndarray:
    """s' from the quotients s' + c₁h + c₂h² + … of one side, at h, h/2 and h/4."""
    linear = 2 * quotients[1:] - quotients[:-1]
    return (4 * linear[1] - linear[0]) / 3


def jacobian(
    function: Callable[[Arrays], np.ndarray],
    point: Arrays,
    which: int,
    cotangent: np.ndarray,
    allowed: Tolerance,
    elements: Iterable[int],
) -> tuple[np.ndarray, np.ndarray]:
    """The partial derivatives by elements of one array.

    Returns
    -------
    jacobian : ndarray
        Shape (outputs, elements of ``point[which]``). Columns are NaN where there is no slope, and where they were
        not asked for.
    tolerances : ndarray
        What ``cotangent @ jacobian`` may be off by, per element.
    """
    x = point[which]
    columns = np.full((cotangent.size, x.size), np.nan)
    tolerances = np.full(x.size, np.nan)
    for i in elements:
        direction = [np.zeros(a.shape) for a in point]
        size = max(1.0, abs(x.flat[i]))
        direction[which].flat[i] = size
        measured = slope(function, point, direction, cotangent, allowed)
        if measured is not None:
            columns[:, i] = measured.derivative / size
            tolerances[i] = measured.tolerance / size
    return columns, tolerances
