"""The MLP-ResNet that every peer trains: its sizes, its first parameters, and the one batch it sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

INPUTS, HIDDEN, BLOCKS, CLASSES, BATCH = 784, 100, 3, 10, 100
DROP_PROB, EPS, MOMENTUM = 0.1, 1e-5, 0.1
RATE, WEIGHT_DECAY, BETA1, BETA2, ADAM_EPS = 1e-3, 1e-3, 0.9, 0.999, 1e-8


def parameters() -> list[np.ndarray]:
    """Give the parameters, float32, in the order of the network.

    A linear layer is a weight (in, out) and a bias (1, out), a batch norm γ and β of (n,). A block is linear,
    norm, linear, norm.
    """
    rng = np.random.default_rng(0)

    def linear(inputs: int, outputs: int) -> list[np.ndarray]:
        bound = inputs**-0.5
        return [rng.uniform(-bound, bound, size) for size in ((inputs, outputs), (1, outputs))]

    def norm(size: int) -> list[np.ndarray]:
        return [np.ones(size), np.zeros(size)]

    narrow = HIDDEN // 2
    arrays = linear(INPUTS, HIDDEN)
    for _ in range(BLOCKS):
        arrays += linear(HIDDEN, narrow) + norm(narrow) + linear(narrow, HIDDEN) + norm(HIDDEN)
    arrays += linear(HIDDEN, CLASSES)
    return [array.astype(np.float32) for array in arrays]


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Give images (100, 784) float32 in [0, 1) and integer labels."""
    rng = np.random.default_rng(1)
    return rng.random((BATCH, INPUTS), dtype=np.float32), rng.integers(CLASSES, size=BATCH)


def named(loss: np.ndarray | float, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray | float]:
    """Name what every peer must agree on: the loss, and the weights of the first layer, a norm and the last layer.

    The biases before a norm are left out: their gradient is zero but for rounding errors.
    """
    return {"loss": loss, "first weight": arrays[0], "a norm's gamma": arrays[4], "last weight": arrays[-2]}


class Adam:
    """Adam with L2 weight decay on NumPy arrays, in place, for the peers that bring no optimizer."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._first = [np.zeros_like(a) for a in arrays]
        self._second = [np.zeros_like(a) for a in arrays]
        self._scratch = [np.empty_like(a) for a in arrays]
        self._t = 0

    def update(self, arrays: Sequence[np.ndarray], gradients: Sequence[np.ndarray]) -> None:
        """Change the arrays, and use the gradients up.

        Kept are M = m / (1 − β₁) and V = v / (1 − β₂), as in the workload ``adam``.
        """
        self._t += 1
        c = ((1 - BETA2) / (1 - BETA2**self._t)) ** 0.5
        rate = RATE * (1 - BETA1) / ((1 - BETA1**self._t) * c)
        eps = ADAM_EPS / c
        for p, g, m, v, s in zip(arrays, gradients, self._first, self._second, self._scratch, strict=True):
            np.multiply(p, WEIGHT_DECAY, out=s)
            g += s
            m *= BETA1
            m += g
            np.multiply(g, g, out=g)
            v *= BETA2
            v += g
            np.sqrt(v, out=s)
            s += eps
            np.divide(m, s, out=s)
            s *= rate
            p -= s
