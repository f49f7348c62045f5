"""The adaptive blur at two sizes of spectrogram: needle's op, the dense formulation, and the same algorithm elsewhere.

All compute the blurred signal and the gradients of the signal and of the radii for a given cotangent. What is dense
makes an array [K, columns, K]; for all columns at once that would take 4 GB, so it goes eight columns at a time.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from apps.bench.workload import Prepared, Workload

CHUNK = 8
AIM_SECONDS = 0.040


def problem(size: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give x, the radii (from 1 to a quarter of the axis) and the cotangent, float32."""
    rng = np.random.default_rng(0)
    x, cotangent = (rng.standard_normal((size, columns)).astype(np.float32) for _ in range(2))
    return x, rng.uniform(1, size / 4, (size, columns)).astype(np.float32), cotangent


def named(y, x, radius):
    """Name the results for the comparison."""
    return {"y": y, "gradient of x": x, "gradient of radius": radius}


def needle(size: int, columns: int) -> Prepared:
    """Prepare needle's op."""
    import needle as ndl
    from needle.ops.blur import adaptive_blur

    x, radius, cotangent = problem(size, columns)
    x, radius, seed = ndl.Tensor(x), ndl.Tensor(radius), ndl.Tensor(cotangent, requires_grad=False)
    y = None

    def step():
        nonlocal y
        y = adaptive_blur(x, radius)
        y.backward(seed, create_graph=False)

    return Prepared(step, lambda: named(y.numpy(), x.grad.numpy(), radius.grad.numpy()))


def numpy_plain(size: int, columns: int) -> Prepared:
    """Prepare the same algorithm on whole arrays, without needle's care for caches."""
    from needle.ops import blur_scan

    x, radius, cotangent = problem(size, columns)
    results = []

    def step():
        y = blur_scan.spread(x, None, radius, 0, "drop")
        to_x, slope = blur_scan.gather(cotangent, radius, 0, "drop")
        results[:] = y, to_x, x * slope

    return Prepared(step, lambda: named(*results))


def numpy_dense(size: int, columns: int) -> Prepared:
    """Prepare the formulation that the method comes from: every weight of every source, tiled."""
    x, radius, cotangent = problem(size, columns)
    distance = np.abs(np.arange(size)[:, None, None] - np.arange(size)[None, None, :]).astype(np.float32)
    y, to_x, to_radius = (np.empty_like(x) for _ in range(3))

    def step():
        for start in range(0, columns, CHUNK):
            cut = np.s_[:, start : start + CHUNK]
            m, v, g = (a[cut].T[None] for a in (radius, x, cotangent))  # [1, columns, source]
            f = np.floor(m)
            mass = f * (2 * m - f - 1) + m
            box = distance <= f
            tri = np.where(box, m - distance, 0)
            weights = tri / mass
            y[cut] = (weights * v).sum(axis=2)
            g = cotangent[cut][:, :, None]  # [position, columns, 1]
            to_x[cut] = (weights * g).sum(axis=0).T
            to_radius[cut] = ((box - (2 * f + 1) * weights) / mass * v * g).sum(axis=0).T

    return Prepared(step, lambda: named(y, to_x, to_radius))


def torch_dense(size: int, columns: int) -> Prepared:
    """Prepare the dense formulation with PyTorch's own derivatives."""
    import torch

    x, radius, cotangent = map(torch.as_tensor, problem(size, columns))
    at = torch.arange(size, dtype=torch.float32)
    distance = (at[:, None, None] - at[None, None, :]).abs()
    parts = [(x[:, i : i + CHUNK].T.clone(), radius[:, i : i + CHUNK].T.clone()) for i in range(0, columns, CHUNK)]
    for part in parts:
        for leaf in part:
            leaf.requires_grad_()
    results = []

    def step():
        results.clear()
        for i, (v, m) in enumerate(parts):
            v.grad = m.grad = None
            f = m.floor()
            mass = f * (2 * m - f - 1) + m
            y = (torch.where(distance <= f, m - distance, 0) / mass * v).sum(dim=2)
            y.backward(cotangent[:, i * CHUNK : (i + 1) * CHUNK])
            results.append((y.detach(), v.grad.T, m.grad.T))

    return Prepared(step, lambda: named(*(torch.cat(r, dim=1) for r in zip(*results))))


def torch_scan(size: int, columns: int) -> Prepared:
    """Prepare needle's algorithm as a function of PyTorch with a derivative of its own."""
    import torch

    positions = torch.arange(size, dtype=torch.float64)[:, None]

    def triangles(radius):
        m = radius.double()
        f = m.floor()
        left, right = torch.minimum(f, positions), torch.minimum(f, size - 1 - positions)
        bases = [(positions - left).long(), (positions + right + 1).long()]
        return m, m - f, left, right, bases, f * f + (m - f) * (2 * f + 1), 2 * f + 1

    class Blur(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, radius):
            ctx.save_for_backward(x, radius)
            m, r, left, _, bases, mass, _ = triangles(radius)
            a = x / mass
            bends, jumps = torch.zeros(2, size + 1, columns, dtype=torch.float64)
            for base, jump in zip(bases, (a - a * (m - left), a * r)):
                bends.scatter_add_(0, base, a)
                jumps.scatter_add_(0, base, jump)
            bends[1:] -= 2 * a
            return (bends.cumsum(0) - jumps).cumsum(0)[:-1].to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            x, radius = ctx.saved_tensors
            m, _, left, right, bases, mass, slope = triangles(radius)
            first = torch.nn.functional.pad(g.double().cumsum(0), (0, 0, 1, 0))
            second = torch.nn.functional.pad(first[1:].cumsum(0), (0, 0, 1, 0))
            g_left, g_right, h_left, h_right = (s.gather(0, base) for s in (first, second) for base in bases)
            tri = h_left - (m - left) * g_left + h_right + (m - right - 1) * g_right - 2 * second[:-1]
            value = tri / mass
            return value.to(g.dtype), (x * (g_right - g_left - slope * value) / mass).to(g.dtype)

    x, radius, seed = map(torch.as_tensor, problem(size, columns))
    leaves = [x.requires_grad_(), radius.requires_grad_()]
    y = None

    def step():
        nonlocal y
        for leaf in leaves:
            leaf.grad = None
        y = Blur.apply(*leaves)
        y.backward(seed)

    return Prepared(step, lambda: named(y.detach(), *(leaf.grad for leaf in leaves)))


WORKLOADS = []

for size, columns in ((513, 690), (257, 1375)):
    shape = f"{size}×{columns}"
    title = f"adaptive blur {shape} float32, forward and backward"
    least = 8 * 4 * size * columns  # forward reads x and m and writes y, backward reads x, m and ȳ and writes x̄ and m̄
    workload = Workload(f"adaptive-blur-{size}x{columns}", title, gpu_bytes=least)
    for peer, variant, build in (
        ("needle", "", needle),
        ("torch", "same algorithm", torch_scan),
        ("torch", "dense", torch_dense),
        ("numpy", "same algorithm", numpy_plain),
        ("numpy", "dense", numpy_dense),
    ):
        workload.contender(peer, variant)(partial(build, size, columns))
    workload.compare(f"adaptive blur {shape}", "needle", aim_seconds=AIM_SECONDS)
    WORKLOADS.append(workload)
