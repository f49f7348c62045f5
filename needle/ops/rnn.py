"""The simple recurrent net: hₜ = φ(xₜ·W_ih + hₜ₋₁·W_hh + b), a whole sequence in one op.

Backwards, with dₜ the cotangent of step t's pre-activation and h̄ₜ what reaches its output from outside,

    dₜ = (h̄ₜ + dₜ₊₁·W_hhᵀ) ∘ φ'(hₜ),

where φ' is written with the output: 1 − h² for tanh, [h ≠ 0] for relu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import Tensor, TensorOp
from ..backend import Array, array_module
from .composite import FusedGradient
from .elementwise import tanh
from .piecewise import relu
from .recurrent import (
    check_recurrent,
    flat_product,
    input_share,
    state_weight_gradient,
    total_over_steps,
)
from .tuples import stack

NONLINEARITIES = {"tanh": tanh, "relu": relu}


class RNN(TensorOp):
    """The states (T, B, h) after each step, for inputs x (T, B, I), h₀ (B, h), W_ih (I, h), W_hh (h, h) and b (h,)"""

    reads = ("inputs", "output")

    def __init__(self, nonlinearity: str = "tanh"):
        self.nonlinearity = nonlinearity

    def compute(self, x: Array, h: Array, w_ih: Array, w_hh: Array, bias: Array | None = None) -> Array:
        xp = array_module(x)
        hidden = input_share(x, w_ih, bias)
        share = xp.empty_like(hidden[0])
        for state in hidden:
            state += xp.matmul(h, w_hh, out=share)
            if self.nonlinearity == "tanh":
                xp.tanh(state, out=state)
            else:
                xp.maximum(state, 0, out=state)
            h = state
        return hidden

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return RNNGradient(self.nonlinearity, node.needs_input_grad)(*node.inputs, out_grad, node.output)


class RNNGradient(FusedGradient):
    """The gradients of `RNN`; one result, and its states are what is saved"""

    saved = 1

    def __init__(self, nonlinearity: str, needs: tuple[bool, ...]):
        super().__init__(needs)
        self.nonlinearity = nonlinearity

    def compute(self, *arrays: Array) -> tuple:
        x, h0, w_ih, w_hh, *_, out_grad, hidden = arrays
        xp = array_module(x)
        if self.nonlinearity == "tanh":
            d = hidden * hidden
            xp.subtract(1, d, out=d)
        else:
            d = (hidden != 0).astype(hidden.dtype)  # positive, or NaN
        carried, back = xp.empty_like(d[0]), w_hh.T
        d[-1] *= out_grad[-1]
        for t in range(len(hidden) - 2, -1, -1):
            xp.matmul(d[t + 1], back, out=carried)
            carried += out_grad[t]
            step = d[t]
            step *= carried
        return self.only_needed(
            lambda: d @ w_ih.T,
            lambda: d[0] @ back,
            lambda: flat_product(x, d),
            lambda: state_weight_gradient(h0, hidden, d),
            lambda: total_over_steps(d),
        )

    def function(self, *inputs: Tensor) -> Sequence[Tensor]:
        return (rnn_by_steps(*inputs, nonlinearity=self.nonlinearity),)


def rnn_by_steps(x: Any, h: Any, w_ih: Any, w_hh: Any, *bias: Any, nonlinearity: str) -> Any:
    """What `RNN` computes, made of ordinary ops."""
    states = []
    for t in range(x.shape[0]):
        z = x[t] @ w_ih + h @ w_hh
        h = NONLINEARITIES[nonlinearity](z + bias[0].broadcast_to(z.shape) if bias else z)
        states.append(h)
    return stack(states)


def rnn(x: Any, h0: Any, w_ih: Any, w_hh: Any, bias: Any = None, nonlinearity: str = "tanh") -> Any:
    """The states of a simple recurrent net, hₜ = φ(xₜ·W_ih + hₜ₋₁·W_hh + b), after each step of a sequence.

    Parameters
    ----------
    x : Tensor
        The sequence, shape (T, B, I).
    h0 : Tensor
        The state before it, shape (B, h).
    w_ih, w_hh : Tensor
        Weights of the input (I, h) and of the state (h, h).
    bias : Tensor, optional
        Shape (h,).
    nonlinearity : str
        φ, ``"tanh"`` or ``"relu"``.

    Returns
    -------
    Tensor
        Shape (T, B, h).

    Raises
    ------
    ValueError
        If a shape does not fit, the sequence is empty, or φ is unknown.

    Examples
    --------
    >>> import needle as ndl
    >>> x, h0 = ndl.Tensor([[[1.0]], [[1.0]]]), ndl.Tensor([[0.0]])
    >>> ndl.rnn(x, h0, ndl.Tensor([[1.0]]), ndl.Tensor([[2.0]]), nonlinearity="relu").numpy().ravel()
    array([1., 3.])
    """
    if not isinstance(nonlinearity, str) or nonlinearity not in NONLINEARITIES:
        raise ValueError(f"rnn: nonlinearity is one of {', '.join(NONLINEARITIES)}, got {nonlinearity!r}")
    biases = {} if bias is None else {"bias": bias}
    return RNN(nonlinearity)(*check_recurrent("rnn", 1, x, {"h0": h0}, w_ih, w_hh, biases))
