"""What the contenders of the transformer layer share: sizes, inputs and weights."""

from __future__ import annotations

import numpy as np

BATCH, LENGTH, FEATURES, HEADS, HIDDEN, EPS = 16, 64, 128, 4, 512, 1e-5
NORMS = ("attention.prenorm_q", "attention.prenorm_k", "attention.prenorm_v", "layer_norm")


def problem() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Give x and the cotangent (batch, length, features), and the weights by needle's names, (in, out), float32."""
    rng = np.random.default_rng(0)
    x, cotangent = (rng.standard_normal((BATCH, LENGTH, FEATURES)).astype(np.float32) for _ in range(2))
    weights = {}
    for name in NORMS:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = rng.uniform(0.5, 1.5, FEATURES), rng.normal(size=FEATURES)
    matrices = {f"attention.{name}_projection": (FEATURES, FEATURES) for name in ("q", "k", "v", "out")}
    matrices |= {"linear1": (FEATURES, HIDDEN), "linear2": (HIDDEN, FEATURES)}
    for name, shape in matrices.items():
        weights[f"{name}.weight"] = rng.normal(size=shape) / np.sqrt(shape[0])
    for name in ("linear1", "linear2"):
        weights[f"{name}.bias"] = rng.normal(size=matrices[name][1]) * 0.1
    return x, cotangent, {name: array.astype(np.float32) for name, array in weights.items()}


def named(output, x, weights):
    """Name the results for the comparison. The keys' bias is left out: a softmax does not see it, its gradient is 0."""
    grads = {f"gradient of {name}": array for name, array in weights.items() if name != "attention.prenorm_k.bias"}
    return {"y": output, "gradient of x": x, **grads}
