"""Batch normalisation in training mode: needle's fused op beside the same thing made of small ops."""

from __future__ import annotations

from functools import partial

from apps.bench.workload import Workload
from apps.bench.workloads import normalisation

WORKLOADS = []

for rows, columns in ((100, 100), (4096, 64)):
    size = f"{rows}×{columns}"
    workload = Workload(f"batchnorm-{rows}x{columns}", f"BatchNorm1d {size} float32, forward and backward")
    for peer, variant, build in (
        ("needle", "", normalisation.needle_module),
        ("needle", "composite", normalisation.needle_composite),
        ("torch", "", normalisation.torch),
        ("autograd", "", normalisation.autograd),
        ("mygrad", "", normalisation.mygrad),
        ("numpy", "", normalisation.numpy),
    ):
        workload.contender(peer, variant)(partial(build, rows, columns, 0))
    others = ["needle composite", "torch", "autograd", "mygrad", "numpy"]
    workload.compare(f"batchnorm {size}", "needle", against=others)
    WORKLOADS.append(workload)
