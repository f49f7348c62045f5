"""Scaled dot-product attention (Vaswani et al. 2017), one op that copies nothing.

With the weights P = softmax(Q·Kᵀ/√d + mask) over the keys, the result is P·V. Backwards, with R̄ and P̄ the cotangents of
result and weights,

    V̄ = Pᵀ·R̄,   W = R̄·Vᵀ + P̄,   S = P∘(W − Σ_keys P∘W)/√d,   Q̄ = S·K,   K̄ = Sᵀ·Q.

Both directions go through the batch a few entries at a time, so that what lies between two matrix products stays in
cache. Results are laid out in memory as (batch, length, heads, d), which is what follows: the heads put side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..autograd import Tensor, TensorTupleOp
from ..backend import Array, array_module, weak
from .checks import check_floating
from .common import as_value, constant, on_one_device, shape_of
from .composite import FusedGradient
from .logarithmic import softmax
from .shape import broadcast_to, permute, transpose
from .tuples import split

#: Bytes of attention weights worked on at a time: what should stay in cache, or, on a GPU, in few large products.
BLOCK_BYTES = 1 << 17
GPU_BLOCK_BYTES = 1 << 28


class Attention(TensorTupleOp):
    """(result (B, H, T, v), weights (B, H, T, S)) of queries (B, H, T, d), keys (B, H, S, d) and values (B, H, S, v)"""

    reads = ("inputs", "output")

    def __init__(self, causal: bool):
        self.causal = causal

    def compute(self, q: Array, k: Array, v: Array) -> tuple:
        return _attend(q, k, v, self.causal)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return AttentionGradient(self.causal, node.needs_input_grad)(*node.inputs, *out_grad, node.output[1])


class AttentionGradient(FusedGradient):
    """The gradients of `Attention`, whose results are the result and the weights; the weights are saved too"""

    cotangents = 2
    saved = 1

    def __init__(self, causal: bool, needs: tuple[bool, ...]):
        super().__init__(needs)
        self.causal = causal

    def compute(self, *arrays: Array) -> tuple:
        *inputs, result_grad, weights_grad, weights = arrays
        xp = array_module(weights)
        grads = [_heads_inside(xp, a.shape, weights.dtype) if need else None for a, need in zip(inputs, self.needs)]
        _attend_backward(inputs, result_grad, weights_grad, weights, grads)
        return tuple([g for g in grads if g is not None])

    def function(self, *inputs: Tensor) -> Sequence[Tensor]:
        q, k, v = inputs
        return _attend_by_ops(q, k, v, self.causal)


class SelfAttention(TensorTupleOp):
    """`Attention` of queries, keys and values that lie side by side in one array (B, T, 3, H, d)"""

    reads = ("inputs", "output")

    def __init__(self, causal: bool):
        self.causal = causal

    def compute(self, qkv: Array) -> tuple:
        q, k, v = _unpacked(qkv)
        return _attend(q, k, v, self.causal)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return SelfAttentionGradient(self.causal, (True,))(*node.inputs, *out_grad, node.output[1])


class SelfAttentionGradient(FusedGradient):
    """The gradient of `SelfAttention`, in one array too"""

    cotangents = 2
    saved = 1

    def __init__(self, causal: bool, needs: tuple[bool, ...]):
        super().__init__(needs)
        self.causal = causal

    def compute(self, qkv: Array, result_grad: Array, weights_grad: Array, weights: Array) -> tuple:
        grad = array_module(qkv).empty(qkv.shape, dtype=qkv.dtype)
        _attend_backward(_unpacked(qkv), result_grad, weights_grad, weights, _unpacked(grad))
        return (grad,)

    def function(self, *inputs: Tensor) -> Sequence[Tensor]:
        q, k, v = split(permute(inputs[0], (2, 0, 3, 1, 4)), 0)
        return _attend_by_ops(q, k, v, self.causal)


def _unpacked(qkv: Array) -> list[Array]:
    """Views of shape (B, H, T, d)."""
    return [qkv[:, :, k].swapaxes(1, 2) for k in range(3)]


def _attend(q: Array, k: Array, v: Array, causal: bool) -> tuple[Array, Array]:
    xp = array_module(q)
    dtype = xp.result_type(q, k, v)
    weights = xp.empty((*q.shape[:3], k.shape[2]), dtype=dtype)
    result = _heads_inside(xp, (*q.shape[:3], v.shape[3]), dtype)
    scale = weak(1 / math.sqrt(q.shape[3]), weights)
    mask = future(xp, q.shape[2], k.shape[2], dtype) if causal else None
    for b in _blocks(weights):
        p = xp.matmul(q[b], k[b].swapaxes(2, 3), out=weights[b])
        p *= scale
        if mask is not None:
            p += mask
        p -= p.max(axis=3, keepdims=True)
        xp.exp(p, out=p)
        p /= p.sum(axis=3, keepdims=True)
        xp.matmul(p, v[b], out=result[b])
    return result, weights


def _attend_backward(
    inputs: Sequence[Array], result_grad: Array, weights_grad: Array, weights: Array, grads: Sequence[Array | None]
) -> None:
    """Write the gradients of queries, keys and values into `grads`, where there is an array."""
    xp = array_module(weights)
    (q, k, v), (to_q, to_k, to_v) = inputs, grads
    scale = weak(1 / math.sqrt(q.shape[3]), weights)
    for b in _blocks(weights):
        p, r = weights[b], result_grad[b]
        if to_v is not None:
            xp.matmul(p.swapaxes(2, 3), r, out=to_v[b])
        if to_q is None and to_k is None:
            continue
        s = r @ v[b].swapaxes(2, 3)
        s += weights_grad[b]
        s *= p
        s -= p * s.sum(axis=3, keepdims=True)
        s *= scale
        if to_q is not None:
            xp.matmul(s, k[b], out=to_q[b])
        if to_k is not None:
            xp.matmul(s.swapaxes(2, 3), q[b], out=to_k[b])


def _attend_by_ops(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """Result and weights, made of ordinary ops."""
    weights = attention_weights(q, k, causal)
    return weights @ v, weights


def _blocks(weights: Array) -> Iterator[slice]:
    limit = BLOCK_BYTES if isinstance(weights, np.ndarray) else GPU_BLOCK_BYTES
    step = max(1, limit // max(weights[:1].nbytes, 1))
    return (slice(start, start + step) for start in range(0, len(weights), step))


def _heads_inside(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """An empty array of shape (B, H, T, d) that lies in memory as (B, T, H, d)."""
    batch, heads, length, size = shape
    return xp.empty((batch, length, heads, size), dtype=dtype).swapaxes(1, 2)


def future(xp: Any, queries: int, keys: int, dtype: Any) -> Array:
    """−∞ where a key comes after the query, else 0: (queries, keys), the last query being level with the last key."""
    mask = xp.zeros((queries, keys), dtype=dtype)
    # Not mask[later] = −∞: a GPU would have to be waited for, to know how many are later.
    xp.copyto(mask, -xp.inf, where=xp.arange(keys) > xp.arange(queries)[:, None] + (keys - queries))
    return mask


def attention_weights(q: Any, k: Any, causal: bool) -> Any:
    """softmax(Q·Kᵀ/√d + mask) over the keys, made of ordinary ops."""
    scores = q @ transpose(k) / math.sqrt(q.shape[-1])
    if causal:
        mask = constant(lambda s: future(array_module(s), s.shape[-2], s.shape[-1], s.dtype), scores)
        scores = scores + broadcast_to(mask, scores.shape)
    return softmax(scores)


def check_attention(name: str, q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any, Any]:
    """Queries, keys and values as tensors or arrays whose shapes fit."""
    q, k, v = (as_value(name, a) for a in (q, k, v))
    if k.dtype.kind != "f":
        check_floating(name, "a query or a key", q)
    shapes = queries, keys, values = shape_of(q), shape_of(k), shape_of(v)
    text = f"queries {queries}, keys {keys}, values {values}"
    if any(len(shape) != 4 for shape in shapes):
        raise ValueError(f"{name}: shapes (batch, heads, length, size) are needed, got {text}")
    if not queries[:2] == keys[:2] == values[:2]:
        raise ValueError(f"{name}: {text}: batch and heads must be equal")
    if queries[3] != keys[3] or queries[3] == 0:
        raise ValueError(f"{name}: {text}: queries and keys have one size, at least 1; got {queries[3]} and {keys[3]}")
    if keys[2] != values[2] or keys[2] == 0:
        raise ValueError(f"{name}: {text}: as many keys as values, at least 1; got {keys[2]} and {values[2]}")
    if causal and queries[2] > keys[2]:
        raise ValueError(f"{name}: {text}: with causal=True the first of {queries[2]} queries would see no key")
    return on_one_device(name, q, k, v)


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> tuple[Any, Any]:
    """Scaled dot-product attention: softmax(Q·Kᵀ/√d)·V for each head of each batch entry.

    Parameters
    ----------
    q : Tensor
        Queries, shape (batch, heads, T, d).
    k, v : Tensor
        Keys (batch, heads, S, d) and values (batch, heads, S, v).
    causal : bool
        Whether a query sees only the keys up to its own place. The last query is level with the last key; S ≥ T.

    Returns
    -------
    result : Tensor
        Shape (batch, heads, T, v).
    weights : Tensor
        What each query gives to each key, shape (batch, heads, T, S); each row sums to 1.

    Raises
    ------
    TypeError
        If neither queries nor keys are floating.
    ValueError
        If the shapes do not fit.

    References
    ----------
    A. Vaswani et al.: Attention is all you need. NeurIPS 2017.

    Examples
    --------
    >>> import needle as ndl
    >>> q = k = v = ndl.init.randn(1, 2, 3, 4)
    >>> result, weights = ndl.attention(q, k, v, causal=True)
    >>> result.shape, weights.numpy()[0, 0, 0]
    ((1, 2, 3, 4), array([1., 0., 0.], dtype=float32))
    """
    value = Attention(causal)(*check_attention("attention", q, k, v, causal))
    return value[0], value[1]


def self_attention(qkv: Any, causal: bool = False) -> tuple[Any, Any]:
    """`attention` of queries, keys and values of one size that lie side by side, as one projection gives them.

    Parameters
    ----------
    qkv : Tensor
        Shape (batch, length, 3, heads, d): queries, keys and values along the third axis.
    causal : bool
        Whether a query sees only the keys up to its own place.

    Returns
    -------
    result : Tensor
        Shape (batch, heads, length, d).
    weights : Tensor
        Shape (batch, heads, length, length).

    Raises
    ------
    TypeError
        If the input is not floating.
    ValueError
        If its shape is another.

    Examples
    --------
    >>> import needle as ndl
    >>> result, weights = ndl.self_attention(ndl.init.randn(2, 7, 3, 4, 8))
    >>> result.shape, weights.shape
    ((2, 4, 7, 8), (2, 4, 7, 7))
    """
    qkv = as_value("self_attention", qkv)
    check_floating("self_attention", "an input", qkv)
    shape = shape_of(qkv)
    if len(shape) != 5 or shape[2] != 3 or shape[1] == 0 or shape[4] == 0:
        raise ValueError(
            f"self_attention: shape (batch, length, 3, heads, size), length and size at least 1, is needed, got {shape}"
        )
    value = SelfAttention(causal)(qkv)
    return value[0], value[1]
