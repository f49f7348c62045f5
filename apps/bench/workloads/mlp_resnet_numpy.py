"""The MLP-ResNet step by hand: what a careful programmer writes in NumPy when speed is all that counts.

No graph, no layers that could be put together otherwise: the forward pass keeps exactly what the derived
backward pass reads, elementwise work is done in place, and all parameters lie in one vector, so that Adam is a
dozen calls.
"""

from __future__ import annotations

import numpy as np

from apps.bench.workload import Prepared
from apps.bench.workloads.mlp_resnet_problem import (
    BATCH,
    BLOCKS,
    DROP_PROB,
    EPS,
    MOMENTUM,
    Adam,
    batch,
    named,
    parameters,
)

Norm = tuple[np.ndarray, np.ndarray]
"""What a norm's backward pass reads: x̂ and 1/σ."""


def norm_forward(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, running: list[np.ndarray]) -> tuple:
    """Normalise x in place over the batch; give y, and what the backward pass reads."""
    mean = np.add.reduce(x, axis=0)
    mean *= 1 / BATCH
    x -= mean
    variance = np.einsum("ij,ij->j", x, x)
    variance *= 1 / BATCH
    for kept, new in zip(running, (mean, variance), strict=True):
        kept *= 1 - MOMENTUM
        kept += MOMENTUM * new
    inverse = 1 / np.sqrt(variance + EPS)
    x *= inverse
    y = x * gamma
    y += beta
    return y, (x, inverse)


def norm_backward(
    grad: np.ndarray, saved: Norm, gamma: np.ndarray, grad_gamma: np.ndarray, grad_beta: np.ndarray
) -> np.ndarray:
    """Give the gradient of the norm's input: γ/σ · (dy − mean(dy) − x̂ · mean(dy · x̂)). Uses x̂ up."""
    normal, inverse = saved
    np.einsum("ij,ij->j", grad, normal, out=grad_gamma)
    np.add.reduce(grad, axis=0, out=grad_beta)
    normal *= grad_gamma * (1 / BATCH)
    normal += grad_beta * (1 / BATCH)
    result = np.subtract(grad, normal, out=normal)
    result *= gamma * inverse
    return result


def cross_entropy(logits: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
    """Give the mean loss and its gradient, (softmax − one-hot) / batch, in place of the logits."""
    logits -= logits.max(axis=1, keepdims=True)
    true = logits[rows, labels]
    probabilities = np.exp(logits, out=logits)
    total = probabilities.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(total[:, 0]) - true))
    total *= BATCH
    probabilities /= total
    probabilities[rows, labels] -= 1 / BATCH
    return loss, probabilities


def in_one_vector(arrays: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Copy the arrays into one vector; give it, and views in the arrays' shapes."""
    vector = np.concatenate([a.reshape(-1) for a in arrays])
    pieces = np.split(vector, np.cumsum([a.size for a in arrays])[:-1])
    return vector, [piece.reshape(a.shape) for piece, a in zip(pieces, arrays, strict=True)]


def numpy(drop_prob: float = DROP_PROB) -> Prepared:
    """Prepare the hand-written step."""
    all_weights, weights = in_one_vector(parameters())
    all_grads, grads = in_one_vector(weights)
    x, labels = batch()
    rows = np.arange(BATCH)
    rng = np.random.default_rng(2)
    adam = Adam([all_weights])
    running = [[np.zeros_like(w), np.ones_like(w)] for w in weights]
    blocks = [slice(2 + 8 * i, 10 + 8 * i) for i in range(BLOCKS)]
    w_in, b_in, w_out, b_out = *weights[:2], *weights[-2:]
    gw_in, gb_in, gw_out, gb_out = *grads[:2], *grads[-2:]
    scale = np.float32(1 / (1 - drop_prob))
    loss = 0.0

    def forward() -> tuple[np.ndarray, np.ndarray, list[tuple]]:
        h = x @ w_in
        h += b_in
        np.maximum(h, 0, out=h)
        tape = []
        for block in blocks:
            w1, b1, gamma1, beta1, w2, b2, gamma2, beta2 = weights[block]
            z = h @ w1
            z += b1
            inner, norm1 = norm_forward(z, gamma1, beta1, running[block.start + 2])
            np.maximum(inner, 0, out=inner)
            if drop_prob:
                keep = rng.random(inner.shape, dtype=np.float32) >= drop_prob
                inner *= keep
                inner *= scale
            z = inner @ w2
            z += b2
            out, norm2 = norm_forward(z, gamma2, beta2, running[block.start + 6])
            out += h
            np.maximum(out, 0, out=out)
            tape.append((h, inner, norm1, norm2, out))
            h = out
        logits = h @ w_out
        logits += b_out
        return logits, h, tape

    def backward(grad_logits: np.ndarray, h: np.ndarray, tape: list[tuple]) -> None:
        np.matmul(h.T, grad_logits, out=gw_out)
        np.add.reduce(grad_logits, axis=0, keepdims=True, out=gb_out)
        grad = grad_logits @ w_out.T
        for block, (h, inner, norm1, norm2, out) in zip(reversed(blocks), reversed(tape), strict=True):
            w1, _, gamma1, _, w2, _, gamma2, _ = weights[block]
            gw1, gb1, ggamma1, gbeta1, gw2, gb2, ggamma2, gbeta2 = grads[block]
            grad *= out > 0
            dz = norm_backward(grad, norm2, gamma2, ggamma2, gbeta2)
            np.matmul(inner.T, dz, out=gw2)
            np.add.reduce(dz, axis=0, keepdims=True, out=gb2)
            dinner = dz @ w2.T
            dinner *= inner > 0  # where dropout or ReLU gave zero, nothing comes back
            if drop_prob:
                dinner *= scale
            dz = norm_backward(dinner, norm1, gamma1, ggamma1, gbeta1)
            np.matmul(h.T, dz, out=gw1)
            np.add.reduce(dz, axis=0, keepdims=True, out=gb1)
            grad += dz @ w1.T
        grad *= h > 0
        np.matmul(x.T, grad, out=gw_in)
        np.add.reduce(grad, axis=0, keepdims=True, out=gb_in)

    def step() -> None:
        nonlocal loss
        logits, h, tape = forward()
        loss, grad_logits = cross_entropy(logits, labels, rows)
        backward(grad_logits, h, tape)
        adam.update([all_weights], [all_grads])

    return Prepared(step, lambda: named(loss, weights))
