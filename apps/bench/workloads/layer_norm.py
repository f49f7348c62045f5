"""Layer normalisation: needle's fused op beside the same thing made of small ops."""

from __future__ import annotations

from apps.bench.workloads.normalisation import autograd, numpy, torch, workloads

WORKLOADS = workloads("LayerNorm", 1, sizes=((100, 100), (1024, 128)), peers=(torch, autograd, numpy))
