"""Normalisation of a matrix for every peer: over axis 0 batch normalisation, over axis 1 layer normalisation.

All compute y = γ · (x − μ) / √(σ² + ε) + β with the biased variance, and the gradients of x, γ and β for a
given cotangent. needle's and PyTorch's batch normalisation keep their running statistics besides, as in
training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from apps.bench.workload import Prepared, Workload

EPS = 1e-5


def workloads(module: str, axis: int, sizes: Iterable[tuple[int, int]], peers: Iterable[Callable]) -> list[Workload]:
    """Make a workload for each size: needle's module beside the same thing made of small ops, and the peers' builds."""
    made = []
    for rows, columns in sizes:
        size, name = f"{rows}×{columns}", module.lower()
        title = f"{module}1d {size} float32, forward and backward"
        least = 5 * 4 * rows * columns  # forward reads x and writes y, backward reads x and ȳ and writes x̄
        workload = Workload(f"{name}-{rows}x{columns}", title, gpu_bytes=least)
        workload.contender("needle")(partial(needle_module, rows, columns, axis))
        workload.contender("needle", "composite")(partial(needle_composite, rows, columns, axis))
        for build in peers:
            workload.contender(build.__name__)(partial(build, rows, columns, axis))
        workload.compare(f"{name} {size}", "needle", against=workload.labels()[1:])
        made.append(workload)
    return made


def problem(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give x, γ, β and the cotangent, float32."""
    rng = np.random.default_rng(0)
    x, cotangent = (rng.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))
    gamma, beta = (rng.uniform(0.5, 1.5, columns).astype(np.float32) for _ in range(2))
    return x, gamma, beta, cotangent


def named(output, x, gamma, beta):
    """Name the results for the comparison."""
    return {"y": output, "gradient of x": x, "gradient of gamma": gamma, "gradient of beta": beta}


def needle_module(rows: int, columns: int, axis: int) -> Prepared:
    """Prepare needle's module."""
    import needle as ndl

    module = (ndl.nn.BatchNorm1d if axis == 0 else ndl.nn.LayerNorm1d)(columns, eps=EPS)
    x, gamma, beta, cotangent = problem(rows, columns)
    module.weight.data = ndl.Tensor(gamma.reshape(module.weight.shape))
    module.bias.data = ndl.Tensor(beta.reshape(module.bias.shape))
    return _needle(module, (x, cotangent), module.weight, module.bias)


def needle_composite(rows: int, columns: int, axis: int) -> Prepared:
    """Prepare the formula as a composite of needle's small ops."""
    import needle as ndl

    x, gamma, beta, cotangent = problem(rows, columns)
    weight, bias = ndl.Tensor(gamma), ndl.Tensor(beta)
    kept = (1, columns) if axis == 0 else (rows, 1)
    count = (rows, columns)[axis]

    def compose(x):
        mean = ndl.broadcast_to(ndl.reshape(ndl.summation(x, (axis,)) / count, kept), x.shape)
        centred = x - mean
        variance = ndl.broadcast_to(ndl.reshape(ndl.summation(centred**2, (axis,)) / count, kept), x.shape)
        normal = centred / (variance + EPS) ** 0.5
        return ndl.broadcast_to(weight, x.shape) * normal + ndl.broadcast_to(bias, x.shape)

    return _needle(compose, (x, cotangent), weight, bias)


def _needle(function, arrays, weight, bias):
    import needle as ndl

    x, cotangent = ndl.Tensor(arrays[0]), ndl.Tensor(arrays[1], requires_grad=False)
    output = None

    def step():
        nonlocal output
        output = function(x)
        output.backward(cotangent, create_graph=False)

    return Prepared(step, lambda: named(output.numpy(), *(t.grad.numpy() for t in (x, weight, bias))))


def torch(rows: int, columns: int, axis: int) -> Prepared:
    """Prepare torch's module."""
    import torch

    module = (torch.nn.BatchNorm1d if axis == 0 else torch.nn.LayerNorm)(columns, eps=EPS)
    x, gamma, beta, cotangent = map(torch.as_tensor, problem(rows, columns))
    with torch.no_grad():
        module.weight.copy_(gamma)
        module.bias.copy_(beta)
    leaves = x.requires_grad_(), module.weight, module.bias
    output = None

    def step():
        nonlocal output
        for leaf in leaves:
            leaf.grad = None
        output = module(x)
        output.backward(cotangent)

    return Prepared(step, lambda: named(output.detach(), *(leaf.grad for leaf in leaves)))


def autograd(rows: int, columns: int, axis: int) -> Prepared:
    """Compose the formula of autograd's NumPy functions."""
    import autograd.numpy as anp
    from autograd import make_vjp

    *leaves, cotangent = problem(rows, columns)
    results = []

    def normalise(args):
        x, gamma, beta = args
        centred = x - anp.mean(x, axis=axis, keepdims=True)
        variance = anp.mean(centred * centred, axis=axis, keepdims=True)
        return gamma * (centred / anp.sqrt(variance + EPS)) + beta

    def step():
        vjp, output = make_vjp(normalise)(tuple(leaves))
        results[:] = output, *vjp(cotangent)

    return Prepared(step, lambda: named(*results))


def mygrad(rows: int, columns: int, axis: int) -> Prepared:
    """Prepare MyGrad's fused batchnorm; it has none over axis 1."""
    import mygrad as mg
    from mygrad.nnet import batchnorm

    if axis != 0:
        raise ValueError("mygrad normalises over axis 0 alone")
    *arrays, cotangent = problem(rows, columns)
    leaves = x, gamma, beta = [mg.tensor(a) for a in arrays]
    output = None

    def step():
        nonlocal output
        output = batchnorm(x, gamma=gamma, beta=beta, eps=EPS)
        output.backward(cotangent)

    return Prepared(step, lambda: named(output.data, *(leaf.grad for leaf in leaves)))


def numpy(rows: int, columns: int, axis: int) -> Prepared:
    """Derive the gradients by hand: dx = 1/σ · (dŷ − mean(dŷ) − x̂ · mean(dŷ · x̂)), where dŷ = γ · dy."""
    x, gamma, beta, cotangent = problem(rows, columns)
    count = (rows, columns)[axis]
    results = []

    def step():
        normal = x - x.mean(axis=axis, keepdims=True)
        square_sum = np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", normal, normal)
        scale = 1 / np.sqrt(square_sum / count + EPS)
        scale = scale[None, :] if axis == 0 else scale[:, None]
        normal *= scale
        output = normal * gamma
        output += beta

        grad_gamma = np.einsum("ij,ij->j", cotangent, normal)
        grad_beta = cotangent.sum(axis=0)
        if axis == 0:
            grad = cotangent - grad_beta / count
            normal *= grad_gamma / count
            grad -= normal
            grad *= gamma * scale
        else:
            grad = cotangent * gamma
            product_mean = np.einsum("ij,ij->i", grad, normal)[:, None] / count
            normal *= product_mean
            grad -= grad.mean(axis=1, keepdims=True)
            grad -= normal
            grad *= scale
        results[:] = output, grad, grad_gamma, grad_beta

    return Prepared(step, lambda: named(*results))
