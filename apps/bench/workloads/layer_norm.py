"""Layer normalisation: needle's fused op beside the same thing made of small ops."""

from __future__ import annotations

from functools import partial

from apps.bench.workload import Workload
from apps.bench.workloads import normalisation

WORKLOADS = []

for rows, columns in ((100, 100), (1024, 128)):
    size = f"{rows}×{columns}"
    workload = Workload(f"layernorm-{rows}x{columns}", f"LayerNorm1d {size} float32, forward and backward")
    for peer, variant, build in (
        ("needle", "", normalisation.needle_module),
        ("needle", "composite", normalisation.needle_composite),
        ("torch", "", normalisation.torch),
        ("autograd", "", normalisation.autograd),
        ("numpy", "", normalisation.numpy),
    ):
        workload.contender(peer, variant)(partial(build, rows, columns, 1))
    others = ["needle composite", "torch", "autograd", "numpy"]
    workload.compare(f"layernorm {size}", "needle", against=others)
    WORKLOADS.append(workload)
