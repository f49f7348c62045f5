"""A linear layer as one node: a product of matrices with a bias added in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import Tensor, TensorOp
from ..backend import Array
from .common import as_value, on_one_device, shape_of
from .linalg import as_matrix, matmul
from .shape import reshape, sum_to, transpose
from .sums import sum_of_rows


class Linear(TensorOp):
    """X·W + b over the last axis of X.

    With Ȳ the gradient of the result, dL = ⟨Ȳ, dX·W + X·dW + db⟩, so X̄ = Ȳ·Wᵀ, W̄ = Xᵀ·Ȳ and b̄ is the sum of Ȳ's rows.
    """

    reads = ("inputs",)

    def compute(self, x: Array, weight: Array, bias: Array) -> Array:
        # one product of matrices instead of one for each entry of the leading axes
        y = x @ weight if x.ndim == 2 else (as_matrix(x) @ weight).reshape(x.shape[:-1] + weight.shape[-1:])
        bias = bias.reshape(-1)
        if bias.dtype != y.dtype:
            return y + bias
        y += bias
        return y

    def gradient(self, out_grad: Any, node: Any) -> Any:
        x, weight, bias = node.inputs
        need_x, need_weight, need_bias = node.needs_input_grad
        if type(out_grad) is np.ndarray and out_grad.ndim == 2:  # as below, without the functions' checks
            return (
                out_grad @ weight.T if need_x else None,
                x.T @ out_grad if need_weight else None,
                sum_of_rows(out_grad).reshape(bias.shape) if need_bias else None,
            )
        to_bias = None
        if need_bias:
            fits = len(bias.shape) <= len(out_grad.shape)
            to_bias = sum_to(out_grad, bias.shape) if fits else reshape(out_grad, bias.shape)
        return (
            out_grad @ transpose(weight) if need_x else None,
            transpose(as_matrix(x)) @ as_matrix(out_grad) if need_weight else None,
            to_bias,
        )


_LINEAR = Linear()


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """X·W + b.

    Parameters
    ----------
    x : Tensor
        Shape (…, in).
    weight : Tensor
        Shape (in, out).
    bias : Tensor, optional
        Shape (out,) or (1, out).

    Returns
    -------
    Tensor
        Shape (…, out).

    Raises
    ------
    ValueError
        If the shapes do not fit, or the operands live on different devices.

    Examples
    --------
    >>> import needle as ndl
    >>> x, w = ndl.Tensor([[1.0, 2.0]]), ndl.Tensor([[1.0], [10.0]])
    >>> ndl.linear(x, w, ndl.Tensor([100.0]))
    needle.Tensor([[121.]])
    """
    if _fits_at_once(x, weight, bias):
        return Tensor.make_from_op(_LINEAR, (x, weight, bias))
    x, weight = as_value("Linear", x), as_value("Linear", weight)
    left, right = shape_of(x), shape_of(weight)
    if len(right) != 2:
        raise ValueError(f"Linear: the weight has shape (in, out), got {right}")
    if not left or left[-1] != right[0]:
        raise ValueError(f"Linear: {left} @ {right}: the last axis of the input must have size {right[0]}")
    if bias is None:
        return matmul(x, weight)
    bias = as_value("Linear", bias)
    if shape_of(bias) not in (right[1:], (1, right[1])):
        raise ValueError(f"Linear: a bias of shape ({right[1]},) or (1, {right[1]}) is needed, got {shape_of(bias)}")
    return _LINEAR(*on_one_device("Linear", x, weight, bias))


def _fits_at_once(x: Any, weight: Any, bias: Any) -> bool:
    """Whether this is the usual case, which is asked first because it takes a tenth of the time."""
    if not (isinstance(x, Tensor) and isinstance(weight, Tensor) and isinstance(bias, Tensor)):
        return False
    a, b, c = x.cached_data, weight.cached_data, bias.cached_data
    if not type(a) is type(b) is type(c) is np.ndarray or b.ndim != 2 or not a.ndim:
        return False
    return a.shape[-1] == b.shape[0] and c.shape in ((1, b.shape[1]), b.shape[1:])
