"""Batch normalisation in training mode: needle's fused op beside the same thing made of small ops."""

from __future__ import annotations

from apps.bench.workloads.normalisation import autograd, mygrad, numpy, torch, workloads

WORKLOADS = workloads("BatchNorm", 0, sizes=((100, 100), (4096, 64)), peers=(torch, autograd, mygrad, numpy))
