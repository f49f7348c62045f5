"""The optimizer alone: one Adam step on five million parameters."""

from __future__ import annotations

import math

import numpy as np

from apps.bench.workload import Prepared, Workload

SHAPES = [(512, 1024), (512, 512), (180, 256), (1024,), (512,)] * 6
RATE, BETA1, BETA2, EPS = 1e-3, 0.9, 0.999, 1e-8
CHUNK = 256 * 1024

ADAM = Workload(
    "adam",
    f"Adam step on 5.0 M float32 parameters in {len(SHAPES)} tensors",
    check_steps=3,
    gpu_bytes=7 * 4 * sum(map(math.prod, SHAPES)),  # reads p, g, m, v and writes p, m, v
)


def problem() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Give parameters and their gradients (float32)."""
    rng = np.random.default_rng(0)
    parameters = [rng.standard_normal(shape, dtype=np.float32) for shape in SHAPES]
    return parameters, [rng.standard_normal(shape, dtype=np.float32) for shape in SHAPES]


def named(parameters):
    """Name the first and the last layer's parameters for the comparison."""
    return {f"parameter {i}": parameters[i] for i in (0, 1, 4, 25)}


@ADAM.contender("needle")
def needle():
    """Take needle's Adam."""
    import needle as ndl

    arrays, gradients = problem()
    parameters = [ndl.nn.Parameter(ndl.Tensor(a)) for a in arrays]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = ndl.Tensor(g, requires_grad=False)
    optimizer = ndl.optim.Adam(parameters, lr=RATE, beta1=BETA1, beta2=BETA2, eps=EPS)
    return Prepared(optimizer.step, lambda: named([p.numpy() for p in parameters]))


def torch_adam(**options):
    """Prepare torch's Adam with these options."""
    import torch

    arrays, gradients = problem()
    parameters = [torch.as_tensor(a).requires_grad_() for a in arrays]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = torch.as_tensor(g)
    optimizer = torch.optim.Adam(parameters, lr=RATE, betas=(BETA1, BETA2), eps=EPS, **options)
    return Prepared(optimizer.step, lambda: named([p.detach() for p in parameters]))


@ADAM.contender("torch")
def torch():
    """Take PyTorch's default on the CPU."""
    return torch_adam()


@ADAM.contender("torch", "fused")
def torch_fused():
    """Take PyTorch's fused kernel."""
    return torch_adam(fused=True)


@ADAM.contender("numpy", "whole arrays")
def numpy_whole():
    """Write the textbook's formulas over whole arrays."""
    parameters, gradients = problem()
    first, second = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    t = 0

    def step():
        nonlocal t
        t += 1
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
            m *= BETA1
            m += (1 - BETA1) * g
            v *= BETA2
            v += (1 - BETA2) * g * g
            m_hat = m / (1 - BETA1**t)
            v_hat = v / (1 - BETA2**t)
            p -= RATE * m_hat / (np.sqrt(v_hat) + EPS)

    return Prepared(step, lambda: named(parameters))


@ADAM.contender("numpy", "chunks of 256 K")
def numpy_chunks():
    """Work through chunks that stay in the cache, with one scratch array and the constants folded.

    Kept are M = m / (1 − β₁) and V = v / (1 − β₂), so that M ← β₁ M + g and V ← β₂ V + g². With
    c = √((1 − β₂) / (1 − β₂ᵗ)) the update lr · m̂ / (√v̂ + ε) is then
    (lr · (1 − β₁) / ((1 − β₁ᵗ) · c)) · M / (√V + ε / c).
    """
    parameters, gradients = problem()
    first, second = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    chunks = [
        tuple(a.reshape(-1)[start : start + CHUNK] for a in arrays)
        for arrays in zip(parameters, gradients, first, second, strict=True)
        for start in range(0, arrays[0].size, CHUNK)
    ]
    scratch = np.empty(CHUNK, dtype=np.float32)
    t = 0

    def step():
        nonlocal t
        t += 1
        c = ((1 - BETA2) / (1 - BETA2**t)) ** 0.5
        rate = RATE * (1 - BETA1) / ((1 - BETA1**t) * c)
        for p, g, m, v in chunks:
            s = scratch[: g.size]
            m *= BETA1
            m += g
            np.multiply(g, g, out=s)
            v *= BETA2
            v += s
            np.sqrt(v, out=s)
            s += EPS / c
            np.divide(m, s, out=s)
            s *= rate
            p -= s

    return Prepared(step, lambda: named(parameters))


ADAM.compare("adam", "needle", aims={"torch": 0.8})

WORKLOADS = [ADAM]
