"""The gated recurrent unit (Cho et al. 2014, in the form that cuDNN and PyTorch compute), a whole sequence in one op.

With aₜ = xₜ·W_ih + b_ih and uₜ = hₜ₋₁·W_hh + b_hh, both in three parts in the order r, z, n,

    r = σ(a_r + u_r),   z = σ(a_z + u_z),   n = tanh(a_n + r∘u_n),   hₜ = n + z∘(hₜ₋₁ − n).

Backwards, with h̄ₜ the full cotangent of the state, dₜ that of aₜ and eₜ that of uₜ,

    d_n = h̄∘(1−z)∘(1−n²)     d_z = h̄∘(hₜ₋₁−n)∘z(1−z)     d_r = d_n∘u_n∘r(1−r)
    e_r, e_z, e_n = d_r, d_z, d_n∘r                        h̄ₜ₋₁ = (from outside) + h̄ₜ∘z + eₜ·W_hhᵀ.
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
    input_share,
    sigmoid_inplace,
    state_weight_gradient,
    total_over_steps,
)
from .tuples import stack


class GRU(TensorTupleOp):
    """(states (T, B, h), and, saved, the gates r, z, n (T, B, 3h) and u_n (T, B, h))

    Inputs are x (T, B, I), h₀ (B, h), W_ih (I, 3h), W_hh (h, 3h) and, if there are biases, b_ih and b_hh (3h,).
    """

    reads = ("inputs", "output")

    def compute(self, x: Array, h: Array, w_ih: Array, w_hh: Array, *biases: Array) -> tuple:
        xp, size = array_module(x), h.shape[1]
        gates = input_share(x, w_ih, *biases[:1])
        steps, batch, _ = gates.shape
        hidden = xp.empty((steps, batch, size), dtype=gates.dtype)
        inner = xp.empty_like(hidden)
        share = xp.empty_like(gates[0])
        for t in range(steps):
            a = gates[t]
            xp.matmul(h, w_hh, out=share)
            if biases:
                share += biases[1]
            inner[t] = share[:, 2 * size :]
            both, n = a[:, : 2 * size], a[:, 2 * size :]
            both += share[:, : 2 * size]
            both *= 0.5
            xp.tanh(both, out=both)
            sigmoid_inplace(both)
            r, z = both[:, :size], both[:, size:]
            n += xp.multiply(r, inner[t], out=share[:, :size])
            xp.tanh(n, out=n)
            state = xp.subtract(h, n, out=hidden[t])
            state *= z
            state += n
            h = state
        return hidden, gates, inner

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return GRUGradient(node.needs_input_grad)(*node.inputs, out_grad[0], *tuple(node.output))


class GRUGradient(FusedGradient):
    """The gradients of `GRU`, whose result is the states"""

    saved = 3

    def compute(self, *arrays: Array) -> tuple:
        x, h0, w_ih, w_hh, *_ = arrays
        out_grad, hidden, gates, inner = arrays[-4:]
        xp = array_module(x)
        steps, batch, size = hidden.shape
        d = xp.empty_like(gates)
        (r, z, n), (dr, dz, dn) = by_gate(gates, size), by_gate(d, size)
        # What multiplies the state's cotangent, for all steps at once.
        xp.subtract(hidden[:-1], n[1:], out=dz[1:])
        xp.subtract(h0, n[0], out=dz[0])
        xp.multiply(n, n, out=dn)
        xp.subtract(1, dn, out=dn)
        remaining = 1 - z
        dn *= remaining
        remaining *= z
        dz *= remaining
        xp.subtract(1, r, out=dr)
        dr *= r
        dr *= inner
        dr *= dn

        e = xp.empty_like(gates)
        state, part, back = out_grad[-1].astype(d.dtype), xp.empty_like(h0), w_hh.T
        gatewise = d.reshape(steps, batch, 3, size)
        for t in range(steps - 1, -1, -1):
            step = gatewise[t]
            step *= state[:, None]
            e[t, :, : 2 * size] = d[t, :, : 2 * size]
            xp.multiply(dn[t], r[t], out=e[t, :, 2 * size :])
            state *= z[t]
            state += xp.matmul(e[t], back, out=part)
            if t:
                state += out_grad[t - 1]
        return self.only_needed(
            lambda: d @ w_ih.T,
            lambda: state,
            lambda: flat_product(x, d),
            lambda: state_weight_gradient(h0, hidden, e),
            lambda: total_over_steps(d),
            lambda: total_over_steps(e),
        )

    def function(self, *inputs: Tensor) -> Sequence[Tensor]:
        return (gru_by_steps(*inputs),)


def gru_by_steps(x: Any, h: Any, w_ih: Any, w_hh: Any, *biases: Any) -> Any:
    """The states of `GRU`, made of ordinary ops."""
    size, states = h.shape[1], []
    for t in range(x.shape[0]):
        a, u = x[t] @ w_ih, h @ w_hh
        if biases:
            a, u = a + biases[0].broadcast_to(a.shape), u + biases[1].broadcast_to(u.shape)
        (ar, az, an), (ur, uz, un) = by_gate(a, size), by_gate(u, size)
        z, n = sigmoid(az + uz), tanh(an + sigmoid(ar + ur) * un)
        h = n + z * (h - n)
        states.append(h)
    return stack(states)


def gru(x: Any, h0: Any, w_ih: Any, w_hh: Any, bias_ih: Any = None, bias_hh: Any = None) -> Any:
    """The states of a gated recurrent unit after each step of a sequence, with gates in the order r, z, n.

    Parameters
    ----------
    x : Tensor
        The sequence, shape (T, B, I).
    h0 : Tensor
        The state before it, shape (B, h).
    w_ih, w_hh : Tensor
        Weights of the input (I, 3h) and of the state (h, 3h).
    bias_ih, bias_hh : Tensor, optional
        Shape (3h,) each; both or neither.

    Returns
    -------
    Tensor
        Shape (T, B, h).

    Raises
    ------
    ValueError
        If a shape does not fit, the sequence is empty, or only one bias is given.

    References
    ----------
    K. Cho et al.: Learning phrase representations using RNN encoder–decoder. EMNLP 2014.

    Examples
    --------
    >>> import needle as ndl
    >>> x, zero = ndl.init.randn(7, 2, 3), ndl.init.zeros(2, 5)
    >>> ndl.gru(x, zero, ndl.init.randn(3, 15), ndl.init.randn(5, 15)).shape
    (7, 2, 5)
    """
    if (bias_ih is None) != (bias_hh is None):
        raise ValueError("gru: bias_ih and bias_hh go together: give both or neither")
    biases = {} if bias_ih is None else {"bias_ih": bias_ih, "bias_hh": bias_hh}
    return GRU()(*check_recurrent("gru", 3, x, {"h0": h0}, w_ih, w_hh, biases))[0]
