"""What the recurrent ops share: checks, the weights' gradients, and the plan that all of them follow.

One op computes a whole sequence of one layer. What does not depend on the state, the input's share of all steps'
pre-activations, is one matrix product; then a loop adds the state's share step by step, in place. Backwards, a loop
carries the state's cotangent from the last step to the first and leaves each step's pre-activation cotangent in one
array, from which the gradients of weights, biases and inputs are one matrix product each.

The op's value is a tuple: the results, and behind them what its gradient would otherwise have to compute again. As
parts of the value they are freed when backward has passed the node. The gradient is an op as well (`FusedGradient`).
"""

from __future__ import annotations

from typing import Any

from ..backend import Array, Shape, array_module
from .checks import check_floating
from .common import as_value, on_one_device, shape_of


def check_recurrent(name: str, gates: int, x: Any, states: dict, w_ih: Any, w_hh: Any, biases: dict) -> tuple:
    """All operands as tensors or arrays, in this order, after their shapes were checked against each other."""
    x, w_ih, w_hh = as_value(name, x), as_value(name, w_ih), as_value(name, w_hh)
    check_floating(name, "a W_ih", w_ih)
    shape, into, between = shape_of(x), shape_of(w_ih), shape_of(w_hh)
    if len(shape) != 3 or shape[0] == 0:
        raise ValueError(f"{name}: a sequence (steps, batch, input) with at least one step is needed, got {shape}")
    if len(between) != 2 or between[1] != gates * between[0]:
        raise ValueError(f"{name}: W_hh has shape (h, {gates}·h)".replace("1·", "") + f", got {between}")
    size = between[0]
    if into != (shape[2], between[1]):
        raise ValueError(
            f"{name}: inputs {shape} and a state of size {size} need W_ih of shape {(shape[2], between[1])}, got {into}"
        )
    states = {key: as_value(name, value) for key, value in states.items()}
    biases = {key: as_value(name, value) for key, value in biases.items()}
    wanted: dict[str, Shape] = dict.fromkeys(states, (shape[1], size))
    wanted |= dict.fromkeys(biases, (between[1],))
    for key, value in (states | biases).items():
        if shape_of(value) != wanted[key]:
            raise ValueError(
                f"{name}: inputs {shape} and a state of size {size} need {key} of shape {wanted[key]}, "
                f"got {shape_of(value)}"
            )
    return on_one_device(name, x, *states.values(), w_ih, w_hh, *biases.values())


def input_share(x: Array, w_ih: Array, bias: Array | None = None) -> Array:
    """The input's share of all pre-activations, in a new array: (steps, batch, input) → (steps, batch, gates·h)."""
    share = x.reshape(-1, x.shape[2]) @ w_ih
    if bias is not None:
        share += bias
    return share.reshape(*x.shape[:2], share.shape[1])


def state_weight_gradient(h0: Array, hidden: Array, d: Array) -> Array:
    """Σₜ hₜ₋₁ᵀ·dₜ for states (steps, batch, h) after h₀, and pre-activation cotangents d (steps, batch, gates·h)."""
    steps, _, size = hidden.shape
    total = h0.T @ d[0]
    if steps > 1:
        total += hidden[:-1].reshape(-1, size).T @ d[1:].reshape(-1, d.shape[2])
    return total


def flat_product(x: Array, d: Array) -> Array:
    """Σ xᵀ·d over all axes but the last: the gradient of a weight that maps x to what d is the cotangent of."""
    return x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])


def total_over_steps(d: Array) -> Array:
    """Σ d over steps and batch: a bias's gradient, as a product with ones, which sums pairwise less but in blocks."""
    flat = d.reshape(-1, d.shape[-1])
    return array_module(d).ones(flat.shape[0], dtype=d.dtype) @ flat


def by_gate(a: Any, size: int) -> list:
    """The gates' parts of a tensor or an array, `size` of the last axis each."""
    return [a[..., k : k + size] for k in range(0, a.shape[-1], size)]


def sigmoid_inplace(a: Array) -> None:
    """σ of an array that holds tanh(x/2): (1 + tanh(x/2))/2."""
    a *= 0.5
    a += 0.5


def halved(w: Array, size: int, gates: tuple[int, ...]) -> Array:
    """A copy of `w` with the columns of some gates (`size` columns each) halved, so that one tanh serves all gates."""
    w = w.copy()
    for k in gates:
        w[..., k * size : (k + 1) * size] *= 0.5
    return w
