"""The same elements, laid out in memory in the order of the axes."""

from __future__ import annotations

from typing import Any

from ..autograd import TensorOp
from ..backend import Array, array_module
from .common import as_value


class Contiguous(TensorOp):
    """a in C order"""

    reads = ()

    def compute(self, a: Array) -> Array:
        return array_module(a).asarray(a, order="C")  # ascontiguousarray would give a 0-d array an axis

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad


def contiguous(a: Any) -> Any:
    """`a`, copied if it is a view whose last axes are not the innermost in memory.

    Worth a node where several ops follow that would each make such a copy, as products of matrices do.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.contiguous(ndl.init.rand(2, 3).transpose())
    >>> x.numpy().flags.c_contiguous
    True
    """
    return Contiguous()(as_value("Contiguous", a))
