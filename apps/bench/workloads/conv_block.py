"""Two convolutions, each with batch normalisation and ReLU, on 32 images of 32×32 pixels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from apps.bench.workload import Prepared, Workload

BATCH, SIZE, KERNEL, EPS = 32, 32, 3, 1e-5
CHANNELS = (16, 32, 32)

CONV_BLOCK = Workload(
    "conv-block",
    f"conv block {BATCH}×{CHANNELS[0]}×{SIZE}×{SIZE} → {CHANNELS[1]} → {CHANNELS[2]}, 3×3, BatchNorm, ReLU: "
    "forward and backward",
)


def problem() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Give the images, the cotangent, and the kernels (3, 3, in, out) and biases, float32 and NCHW."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, CHANNELS[0], SIZE, SIZE)).astype(np.float32)
    cotangent = rng.standard_normal((BATCH, CHANNELS[2], SIZE, SIZE)).astype(np.float32)
    weights = []
    for inputs, outputs in pairwise(CHANNELS):
        weights.append((rng.standard_normal((KERNEL, KERNEL, inputs, outputs)) * 0.1).astype(np.float32))
        weights.append((rng.standard_normal(outputs) * 0.1).astype(np.float32))
    return x, cotangent, weights


def named(output, x, *weights):
    """Name the results for the comparison. The biases' gradients are zero but for rounding, and left out."""
    return {"y": output, "gradient of x": x, "gradient of kernel 1": weights[0], "gradient of kernel 2": weights[1]}


@CONV_BLOCK.contender("needle")
def needle() -> Prepared:
    """Take needle's modules."""
    import needle as ndl
    from needle import nn

    x, cotangent, weights = problem()
    convolutions = [nn.Conv(a, b, KERNEL) for a, b in pairwise(CHANNELS)]
    for k, layer in enumerate(convolutions):
        layer.weight.data, layer.bias.data = ndl.Tensor(weights[2 * k]), ndl.Tensor(weights[2 * k + 1])
    first, second = convolutions
    model = nn.Sequential(
        first, nn.BatchNorm2d(CHANNELS[1], eps=EPS), nn.ReLU(), second, nn.BatchNorm2d(CHANNELS[2], eps=EPS), nn.ReLU()
    )
    x, cotangent = ndl.Tensor(x), ndl.Tensor(cotangent, requires_grad=False)
    output = None

    def step():
        nonlocal output
        output = model(x)
        output.backward(cotangent, create_graph=False)

    return Prepared(step, lambda: named(output.numpy(), *(t.grad.numpy() for t in (x, first.weight, second.weight))))


@CONV_BLOCK.contender("torch")
def torch() -> Prepared:
    """Take torch's modules."""
    import torch
    from torch import nn

    x, cotangent, weights = problem()
    model = nn.Sequential(
        nn.Conv2d(CHANNELS[0], CHANNELS[1], KERNEL, padding=1),
        nn.BatchNorm2d(CHANNELS[1], eps=EPS),
        nn.ReLU(),
        nn.Conv2d(CHANNELS[1], CHANNELS[2], KERNEL, padding=1),
        nn.BatchNorm2d(CHANNELS[2], eps=EPS),
        nn.ReLU(),
    )
    with torch.no_grad():
        for k, layer in enumerate((model[0], model[3])):
            layer.weight.copy_(torch.as_tensor(weights[2 * k].transpose(3, 2, 0, 1).copy()))
            layer.bias.copy_(torch.as_tensor(weights[2 * k + 1]))
    x, cotangent = torch.as_tensor(x).requires_grad_(), torch.as_tensor(cotangent)
    leaves = [x, *model.parameters()]
    output = None

    def step():
        nonlocal output
        for leaf in leaves:
            leaf.grad = None
        output = model(x)
        output.backward(cotangent)

    def numbers():
        kernels = [layer.weight.grad.permute(2, 3, 1, 0) for layer in (model[0], model[3])]
        return named(output.detach(), x.grad, *kernels)

    return Prepared(step, numbers)


@CONV_BLOCK.contender("numpy")
def numpy() -> Prepared:
    """Derive the gradients by hand: one matrix product per convolution over all windows of the batch, NHWC."""
    x, cotangent, weights = problem()
    images, cotangent = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, cotangent))
    matrices = [w.reshape(-1, w.shape[3]) for w in weights[::2]]
    flipped = [w[::-1, ::-1].swapaxes(2, 3).reshape(-1, w.shape[2]) for w in weights[::2]]
    biases = weights[1::2]
    pixels = BATCH * SIZE * SIZE
    results = []

    def windows(a):
        padded = np.zeros((BATCH, SIZE + 2, SIZE + 2, a.shape[3]), dtype=np.float32)
        padded[:, 1:-1, 1:-1] = a
        seen = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(1, 2))
        return seen.transpose(0, 1, 2, 4, 5, 3).reshape(pixels, -1)

    def mean(rows):  # by images first: summing 32,768 rows one after the other would lose three digits
        return rows.reshape(BATCH, -1, rows.shape[1]).mean(axis=1).mean(axis=0)

    def step():
        a, kept = images, []
        for matrix, bias in zip(matrices, biases):
            columns = windows(a)
            y = columns @ matrix
            y += bias
            y -= mean(y)
            scale = 1 / np.sqrt(np.einsum("ij,ij->j", y, y) / pixels + EPS)
            y *= scale
            kept.append((columns, y, scale))
            a = np.maximum(y, 0).reshape(BATCH, SIZE, SIZE, -1)
        output, grad, kernels = a, cotangent, []
        for (columns, normal, scale), turned in zip(kept[::-1], flipped[::-1]):
            g = grad.reshape(pixels, -1) * (normal > 0)
            slope = np.einsum("ij,ij->j", g, normal) / pixels
            g -= mean(g)
            g -= normal * slope
            g *= scale
            kernels.insert(0, (columns.T @ g).reshape(KERNEL, KERNEL, -1, g.shape[1]))
            grad = (windows(g.reshape(BATCH, SIZE, SIZE, -1)) @ turned).reshape(BATCH, SIZE, SIZE, -1)
        results[:] = output.transpose(0, 3, 1, 2), grad.transpose(0, 3, 1, 2), *kernels

    return Prepared(step, lambda: named(*results))


CONV_BLOCK.compare("conv block", "needle", aims={"torch": 1.4})

WORKLOADS = [CONV_BLOCK]
