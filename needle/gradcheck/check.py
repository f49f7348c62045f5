"""The check itself, of first and of second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import Tensor, enable_grad, grad, is_grad_enabled
from .diagnosis import compare_without_graph, diagnose, explain_failure
from .differences import Tolerance, slope
from .function import Arrays, Function, Record, random_direction

_MOVES = 8  #: points tried before a function counts as nowhere smooth


def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    directions: int = 2,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    seed: int = 0,
) -> bool:
    """Check the gradient of a function against central differences.

    Backward is run both ways, with and without ``create_graph``, which have to agree.

    Parameters
    ----------
    fn : callable
        Takes the inputs as tensors, gives a Tensor or a tuple of them. It must give the same values when called again.
        Outputs that are not floating are ignored.
    inputs : Tensor or array, or sequence of them
        Where to check; any shapes. Float64 inputs are checked, unless they are tensors with ``requires_grad=False``;
        those, integers and booleans are constants.
    directions : int
        How many random directions to measure along.
    rtol, atol : float
        The slope along a direction may be off by ``atol + rtol · Σ|terms|``, beside what rounding can do.
    seed : int
        Of the checker's own generator of cotangents and directions; NumPy's global one is left alone.

    Returns
    -------
    bool
        True. A wrong gradient raises.

    Raises
    ------
    GradientError
        If a gradient is wrong, has another shape or dtype than its input, or cannot be computed. The text names the
        op, the input, the worst index, both values and the likeliest mistake.
    TypeError
        If `fn` gives something else than tensors, or an input holds no numbers.
    ValueError
        If an input or output is floating but not float64, nothing is to be checked, `fn` is not finite at the inputs,
        gives other values when called again, or has a kink in every direction.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> from needle.gradcheck import gradcheck
    >>> gradcheck(lambda a, b: ndl.tanh(a @ b), [np.ones((2, 3)), np.ones((3, 4))])
    True
    >>> class Square(ndl.TensorOp):
    ...     def compute(self, a):
    ...         return a * a
    ...
    ...     def gradient(self, out_grad, node):
    ...         return out_grad * node.inputs[0]
    >>> gradcheck(Square(), np.array([3.0, 0.5]))
    Traceback (most recent call last):
    needle.gradcheck.GradientError: Square: the gradient of input 0 is wrong: off by a factor of 1/2 ...
    """
    if directions < 1:
        raise ValueError(f"gradcheck: at least one direction is needed, got directions={directions}")
    allowed = Tolerance(rtol, atol)
    function = Function(fn, inputs)
    rng = np.random.default_rng(seed)
    point = function.point
    with np.errstate(all="ignore"):  # a step may leave the domain of a logarithm; that is not finite, and no slope
        for _ in range(_MOVES):
            if _check(Record(function, point, rng), rng, directions, allowed):
                return True
            point = [x + 0.01 * u for x, u in zip(function.point, random_direction(rng, function.point))]
    raise ValueError(
        f"gradcheck: {function.name} has a kink or a jump in every direction, at these inputs and {_MOVES - 1} points "
        "near them: its slope cannot be measured there. Choose other inputs"
    )


def gradgradcheck(fn: Callable[..., Any], inputs: Any, **settings: Any) -> bool:
    """Check the second derivatives: the gradient of the gradient of a function.

    What `gradcheck` is given is the function of the inputs and of a random cotangent that computes the gradient, so
    the rules are differentiated with respect to both. The gradient itself is taken as right: `gradcheck` checks it.

    Parameters
    ----------
    fn, inputs, **settings
        As in `gradcheck`.

    Returns
    -------
    bool
        True. A wrong gradient raises.

    Raises
    ------
    GradientError, TypeError, ValueError
        As in `gradcheck`. The inputs are counted first, then one cotangent for each output.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> from needle.gradcheck import gradgradcheck
    >>> gradgradcheck(lambda a: ndl.exp(a).sum(), np.array([0.5, 1.0]))
    True
    """
    function = Function(fn, inputs, caller="gradgradcheck")
    with np.errstate(all="ignore"):
        record = Record(function, function.point, np.random.default_rng((settings.get("seed", 0), 1)))
    inputs, seeds = function.tensors, [Tensor(v, device=o.device) for v, o in zip(record.cotangents, record.outputs)]

    def gradient(*values: Tensor) -> tuple:
        tensors, seeds = list(values[: len(inputs)]), values[len(inputs) :]
        create_graph = is_grad_enabled()  # not while values are measured
        for k in function.checked if not create_graph else ():
            tensors[k] = Tensor.make_const(tensors[k], requires_grad=True)
        with enable_grad():
            used = [(out, seed) for out, seed in zip(function(tensors), seeds) if out.requires_grad]
            wanted = [tensors[k] for k in function.checked]
            if not used:
                return tuple([Tensor(np.zeros(x.shape)) for x in wanted])
            outputs, out_grads = zip(*used)
            return grad(outputs, wanted, out_grads, create_graph=create_graph, allow_unused=True)

    gradient.__name__ = f"gradient of {function.name}"
    return gradcheck(gradient, [*inputs, *seeds], **settings)


def _check(record: Record, rng: np.random.Generator, directions: int, allowed: Tolerance) -> bool:
    """Check at the record's point; whether a slope could be measured there."""
    function, point = record.function, record.point
    if not np.isfinite(record.values).all():
        if point is function.point:
            raise ValueError(f"{function.caller}: {function.name} is not finite at these inputs; choose others")
        return False
    if not np.allclose(function.evaluate(point), record.values, rtol=1e-10, atol=1e-10):
        raise ValueError(
            f"{function.caller}: {function.name} gives other values when called again: seed its random numbers inside, "
            "and leave its inputs unchanged"
        )
    grads = _gradients(record)
    measured = 0
    for _ in range(directions):
        direction = random_direction(rng, point)
        found = slope(function.evaluate, point, direction, record.cotangent, allowed)
        if found is None:
            continue
        measured += 1
        terms = np.concatenate([(g * u).ravel() for g, u in zip(grads, direction)])
        error = abs(terms.sum() - record.cotangent @ found.derivative)
        if not error <= found.tolerance + allowed.relative * np.abs(terms).sum():  # so that NaN fails
            raise diagnose(record, grads, allowed)
    return measured > 0


def _gradients(record: Record) -> Arrays:
    """The gradients, from both ways of backward."""
    create_graph = True
    try:
        grads = record.gradients(create_graph)
        create_graph = False
        constants = record.gradients(create_graph)
    except Exception as error:
        raise explain_failure(record, error, create_graph) from error
    difference = compare_without_graph(record, grads, constants)
    if difference is not None:
        raise difference
    return grads
