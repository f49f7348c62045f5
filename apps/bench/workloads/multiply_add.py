"""A chain of multiply-adds on 8×8 arrays, for every peer: almost all of its time is the engine's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apps.bench.workload import Prepared

SHAPE = (8, 8)


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give x, w, b and the cotangent of the chain's result; w is so near to 1 that long chains stay finite."""
    rng = np.random.default_rng(0)
    x, b, cotangent = (rng.standard_normal(SHAPE).astype(np.float32) for _ in range(3))
    w = rng.uniform(0.9, 0.999, SHAPE).astype(np.float32)
    return x, w, b, cotangent


def needle(length: int, create_graph: bool) -> Prepared:
    """Prepare the chain for needle."""
    import needle as ndl

    x0, w, b, cotangent = map(ndl.Tensor, problem())
    seed = cotangent.detach()

    def step() -> None:
        x = x0
        for _ in range(length):
            x = x * w + b
        x.backward(seed, create_graph=create_graph)

    return _prepared(step, lambda: [leaf.grad.numpy() for leaf in (x0, w, b)], length)


def torch(length: int) -> Prepared:
    """Prepare the chain for PyTorch."""
    import torch

    x0, w, b, cotangent = map(torch.as_tensor, problem())
    leaves = [leaf.requires_grad_() for leaf in (x0, w, b)]

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        x = x0
        for _ in range(length):
            x = x * w + b
        x.backward(cotangent)

    return _prepared(step, lambda: [leaf.grad for leaf in leaves], length)


def autograd(length: int) -> Prepared:
    """Prepare the chain for HIPS autograd."""
    from autograd import make_vjp

    *leaves, cotangent = problem()
    gradients: list[np.ndarray] = []

    def chain(args: tuple[np.ndarray, ...]) -> np.ndarray:
        x, w, b = args
        for _ in range(length):
            x = x * w + b
        return x

    def step() -> None:
        vjp, _ = make_vjp(chain)(tuple(leaves))
        gradients[:] = vjp(cotangent)

    return _prepared(step, lambda: gradients, length)


def mygrad(length: int) -> Prepared:
    """Prepare the chain for MyGrad."""
    import mygrad as mg

    *arrays, cotangent = problem()
    leaves = x0, w, b = [mg.tensor(array) for array in arrays]

    def step() -> None:
        x = x0
        for _ in range(length):
            x = x * w + b
        x.backward(cotangent)

    return _prepared(step, lambda: [leaf.grad for leaf in leaves], length)


def numpy(length: int) -> Prepared:
    """Prepare the chain written by hand, gradients and all."""
    x0, w, b, cotangent = problem()
    gradients: list[np.ndarray] = []

    def step() -> None:
        x, inputs = x0, []
        for _ in range(length):
            inputs.append(x)
            x = x * w + b
        grad, grad_w, grad_b = cotangent, np.zeros_like(w), np.zeros_like(b)
        for x in reversed(inputs):
            grad_b += grad
            grad_w += grad * x
            grad = grad * w
        gradients[:] = grad, grad_w, grad_b

    return _prepared(step, lambda: gradients, length)


def _prepared(step: Callable[[], None], gradients: Callable[[], list[np.ndarray]], length: int) -> Prepared:
    names = [f"gradient of {name} over {length}" for name in "xwb"]
    return Prepared(step, lambda: dict(zip(names, gradients(), strict=True)), per_step=2 * length)
