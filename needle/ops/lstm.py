"""Long short-term memory (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000), a whole sequence in one op.

With the pre-activations zₜ = xₜ·W_ih + hₜ₋₁·W_hh + b in four parts, in the order i, f, g, o,

    i, f, o = σ(z_i), σ(z_f), σ(z_o),   g = tanh(z_g),   cₜ = f∘cₜ₋₁ + i∘g,   hₜ = o∘tanh(cₜ).

Backwards, with h̄ₜ and c̄ₜ the full cotangents of state and cell, and dₜ that of zₜ,

    h̄ₜ = (from outside) + dₜ₊₁·W_hhᵀ          c̄ₜ = fₜ₊₁∘c̄ₜ₊₁ + h̄ₜ∘o∘(1 − tanh² cₜ)
    d_i = c̄∘g∘i(1−i)    d_f = c̄∘cₜ₋₁∘f(1−f)    d_g = c̄∘i∘(1−g²)    d_o = h̄∘tanh(cₜ)∘o(1−o).

All factors beside c̄ and h̄ are known before the loop, and computed for all steps at once into the array that becomes d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import Tensor, TensorTupleOp
from ..backend import Array, array_module
from .composite import FusedGradient
from .elementwise import sigmoid, tanh
from .recurrent import (
    by_gate,
    check_recurrent,
    flat_product,
    halved,
    input_share,
    sigmoid_inplace,
    state_weight_gradient,
    total_over_steps,
)
from .tuples import stack

_SIGMOIDS = (0, 1, 3)  # the places of i, f and o among the gates


class LSTM(TensorTupleOp):
    """(states (T, B, h), last cell (B, h), and, saved, the gates (T, B, 4h) and all cells (T, B, h))

    Inputs are x (T, B, I), h₀ and c₀ (B, h), W_ih (I, 4h), W_hh (h, 4h) and, if there is a bias, b (4h,).
    """

    reads = ("inputs", "output")

    def compute(self, x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, *bias: Array) -> tuple:
        xp, size = array_module(x), h.shape[1]
        w_ih, w_hh, *scaled = [halved(w, size, _SIGMOIDS) for w in (w_ih, w_hh, *bias)]
        gates = input_share(x, w_ih, *scaled)
        steps, batch, _ = gates.shape
        hidden = xp.empty((steps, batch, size), dtype=gates.dtype)
        cells = xp.empty_like(hidden)
        share, part = xp.empty_like(gates[0]), xp.empty_like(hidden[0])
        for t in range(steps):
            z = gates[t]
            z += xp.matmul(h, w_hh, out=share)
            xp.tanh(z, out=z)
            sigmoid_inplace(z[:, : 2 * size])
            sigmoid_inplace(z[:, 3 * size :])
            i, f, g, o = by_gate(z, size)
            c = xp.multiply(f, c, out=cells[t])
            c += xp.multiply(i, g, out=part)
            h = xp.tanh(c, out=hidden[t])
            h *= o
        return hidden, cells[-1].copy(), gates, cells

    def gradient(self, out_grad: Any, node: Any) -> Any:
        hidden, _, gates, cells = node.output
        return LSTMGradient(node.needs_input_grad)(*node.inputs, *tuple(out_grad)[:2], hidden, gates, cells)


class LSTMGradient(FusedGradient):
    """The gradients of `LSTM`, whose results are the states and the last cell"""

    cotangents = 2
    saved = 3

    def compute(self, *arrays: Array) -> tuple:
        x, h0, c0, w_ih, w_hh, *_ = arrays
        hidden_grad, cell_grad, hidden, gates, cells = arrays[-5:]
        xp = array_module(x)
        steps, batch, size = hidden.shape
        d = xp.empty_like(gates)
        (i, f, g, o), (di, df, dg, do) = (by_gate(array, size) for array in (gates, d))
        squashed = xp.tanh(cells)
        _factor(xp, di, i, g)
        _factor(xp, df[1:], f[1:], cells[:-1])
        _factor(xp, df[0], f[0], c0)
        _factor(xp, do, o, squashed)
        xp.multiply(g, g, out=dg)
        xp.subtract(1, dg, out=dg)
        dg *= i
        to_cell = squashed  # o·(1 − tanh² c), what a state's cotangent gives to the cell's
        to_cell *= squashed
        xp.subtract(1, to_cell, out=to_cell)
        to_cell *= o

        gatewise = d.reshape(steps, batch, 4, size)
        state, cell, part = xp.empty_like(h0), cell_grad.astype(d.dtype), xp.empty_like(h0)
        back = w_hh.T
        for t in range(steps - 1, -1, -1):
            if t + 1 < steps:
                xp.matmul(d[t + 1], back, out=state)
                state += hidden_grad[t]
                cell *= f[t + 1]
            else:
                state[...] = hidden_grad[t]
            cell += xp.multiply(state, to_cell[t], out=part)
            step = gatewise[t]
            step[:, :3] *= cell[:, None]
            step[:, 3] *= state
        return self.only_needed(
            lambda: d @ w_ih.T,
            lambda: d[0] @ back,
            lambda: cell * f[0],
            lambda: flat_product(x, d),
            lambda: state_weight_gradient(h0, hidden, d),
            lambda: total_over_steps(d),
        )

    def function(self, *inputs: Tensor) -> Sequence[Tensor]:
        return lstm_by_steps(*inputs)


def _factor(xp: Any, out: Array, gate: Array, other: Array) -> None:
    """other·gate·(1 − gate), into `out`."""
    xp.subtract(1, gate, out=out)
    out *= gate
    out *= other


def lstm_by_steps(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, *bias: Any) -> tuple[Any, Any]:
    """The states and the last cell of `LSTM`, made of ordinary ops."""
    size, states = h.shape[1], []
    for t in range(x.shape[0]):
        z = x[t] @ w_ih + h @ w_hh
        if bias:
            z = z + bias[0].broadcast_to(z.shape)
        i, f, g, o = by_gate(z, size)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        states.append(h)
    return stack(states), c


def lstm(x: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, bias: Any = None) -> tuple[Any, Any]:
    """Long short-term memory over a sequence, with gates in the order i, f, g, o.

    Parameters
    ----------
    x : Tensor
        The sequence, shape (T, B, I).
    h0, c0 : Tensor
        State and cell before it, shape (B, h) each.
    w_ih, w_hh : Tensor
        Weights of the input (I, 4h) and of the state (h, 4h).
    bias : Tensor, optional
        Shape (4h,).

    Returns
    -------
    states : Tensor
        The state after each step, shape (T, B, h).
    cell : Tensor
        The cell after the last one, shape (B, h).

    Raises
    ------
    ValueError
        If a shape does not fit, or the sequence is empty.

    References
    ----------
    S. Hochreiter, J. Schmidhuber: Long short-term memory. Neural Computation 9(8), 1997.
    F. Gers, J. Schmidhuber, F. Cummins: Learning to forget. Neural Computation 12(10), 2000.

    Examples
    --------
    >>> import needle as ndl
    >>> x, zero = ndl.init.randn(7, 2, 3), ndl.init.zeros(2, 5)
    >>> states, cell = ndl.lstm(x, zero, zero, ndl.init.randn(3, 20), ndl.init.randn(5, 20))
    >>> states.shape, cell.shape
    ((7, 2, 5), (2, 5))
    """
    biases = {} if bias is None else {"bias": bias}
    value = LSTM()(*check_recurrent("lstm", 4, x, {"h0": h0, "c0": c0}, w_ih, w_hh, biases))
    return value[0], value[1]
