"""A bias and a ReLU as one node: on a GPU one pass over memory instead of two."""

from __future__ import annotations

from typing import Any

from .. import kernels
from ..autograd import TensorOp
from ..backend import Array, array_module
from ..kernels import elementwise as gpu
from .common import as_value, constant, on_one_device, shape_of
from .shape import sum_to


class BiasReLU(TensorOp):
    """max(a + b, 0) with b along the last axis; the derivative at 0 is 0

    Where the result is not 0, the gradient passes to a, and its sum over all other axes to b.
    """

    reads = ("output",)

    def compute(self, a: Array, bias: Array) -> Array:
        if kernels.fit(a, bias) and a.size:
            return gpu.bias_relu(a, bias)
        y = a + bias
        return array_module(y).maximum(y, y.dtype.type(0))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        passed = out_grad * constant(lambda y: y != 0, node.output)
        return passed, sum_to(passed, node.inputs[1].shape) if node.needs_input_grad[1] else None


def bias_relu(x: Any, bias: Any) -> Any:
    """max(x + bias, 0): what a linear layer with a ReLU behind it does after its product of matrices.

    Parameters
    ----------
    x : Tensor
        Shape (…, n).
    bias : Tensor
        Shape (n,).

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or the operands live on different devices.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.bias_relu(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), ndl.Tensor([0.5, -3.0]))
    needle.Tensor([[1.5 0. ]
     [3.5 1. ]])
    """
    x, bias = on_one_device("BiasReLU", as_value("BiasReLU", x), as_value("BiasReLU", bias))
    shape, given = shape_of(x), shape_of(bias)
    if not shape or given != shape[-1:]:
        raise ValueError(f"BiasReLU: x of shape {shape} needs a bias of shape {shape[-1:] or '(n,)'}, got {given}")
    return BiasReLU()(x, bias)
