"""Dropout on a GPU, as one node whose random numbers are drawn there."""

from __future__ import annotations

from typing import Any

from .. import random
from ..autograd import Tensor, TensorOp
from ..backend import Array, device_of
from ..kernels import elementwise as kernels


class Dropout(TensorOp):
    """a·s, where each element of s is 1/keep with probability keep, else 0

    For arrays that `needle.kernels.fit`. The first compute draws s; if the value is computed again, s stays.
    """

    reads = ()

    def __init__(self, keep: float):
        self.keep = keep
        self.scale: Any = None

    def compute(self, a: Array) -> Array:
        if self.scale is not None:
            return a * self.scale
        y, self.scale = kernels.dropout(a, random.uniform(a.shape, a.dtype, device_of(a)), self.keep)
        return y

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * (Tensor.make_const(self.scale) if isinstance(out_grad, Tensor) else self.scale)

    def __repr__(self) -> str:
        return f"Dropout(keep={self.keep})"
