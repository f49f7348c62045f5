"""Cross entropy of logits and integer labels, as one node."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from .. import kernels
from ..autograd import Tensor, TensorOp, is_grad_enabled
from ..backend import Array, array_module, device_of, is_array, weak
from ..kernels import cross_entropy as gpu
from .checks import as_array
from .common import apply, check_devices, shape_of
from .indexing import getitem
from .logarithmic import softmax
from .reduction import spread, summation

_BLOCK = 1 << 15  # elements that several passes go over while they are in the cache


class CrossEntropy(TensorOp):
    """The mean over rows i of ln Σⱼ exp(xᵢⱼ) − xᵢₗ, where l is the row's label: the mean of −ln softmax(xᵢ)ₗ.

    The derivative of ln Σ exp is the softmax p, so x̄ = (p − onehot(l))·L̄/N. Both need the exponentials
    exp(xᵢⱼ − maxⱼ xᵢⱼ), which are what costs. They are kept for the first backward, which turns them into the gradient
    in place; a later one computes them again.
    """

    reads = ("inputs",)

    def __init__(self, keep: bool = True):
        self._keep = keep
        self._kept: tuple | None = None

    def __call__(self, logits: Any, labels: Any) -> Any:
        return cross_entropy(logits, labels) if type(self) is CrossEntropy else apply(self, logits, labels)

    def compute(self, x: Array, labels: Array) -> Array:
        if kernels.fit(x):
            loss, log_sums = gpu.forward(x, labels)
            self._kept = (weakref.ref(x), log_sums) if self._keep else None
            return loss
        xp = array_module(x)
        exponentials, totals, tops = _exponentials(x, self._keep)
        index = _flat_index(x, labels)
        losses = xp.log(totals)
        losses -= x.reshape(-1)[index] - tops
        self._kept = (weakref.ref(x), exponentials, totals, index) if self._keep else None
        total = losses.sum()
        return _poisoned(total / weak(len(losses), total), x, labels)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        kept, self._kept = self._kept, None
        return CrossEntropyGrad(kept)(*node.inputs, out_grad), None


class CrossEntropyGrad(TensorOp):
    """G = (softmax(x) − onehot(l))·ȳ/N, from the exponentials that the forward pass may have left.

    The softmax has the differential dp = p·(dx − Σ p·dx), so with Ḡ the gradient of the result
    x̄ = p·(Ḡ − Σ p·Ḡ)·ȳ/N and, G being linear in ȳ, its gradient is Σ Ḡ·(p − onehot(l))/N.
    """

    reads = ("inputs",)

    def __init__(self, kept: tuple | None = None):
        self._kept = kept

    def compute(self, x: Array, labels: Array, out_grad: Array) -> Array:
        kept, self._kept = self._kept, None
        if kernels.fit(x, out_grad):
            log_sums = kept[1] if kept is not None and kept[0]() is x else gpu.forward(x, labels)[1]
            return gpu.backward(x, labels, log_sums, out_grad)
        if kept is not None and kept[0]() is x:
            _, g, totals, index = kept
        else:
            g, totals, _ = _exponentials(x, keep=True)
            index = _flat_index(x, labels)
        each = out_grad / weak(len(totals), out_grad)
        rows = g.reshape(-1, g.shape[-1])
        rows *= (each / totals)[:, None]
        g.reshape(-1)[index] -= each
        return g

    def gradient(self, out_grad: Any, node: Any) -> Any:
        x, labels, seed = node.inputs
        need_x, _, need_seed = node.needs_input_grad
        p = softmax(x)
        count = math.prod(x.shape[:-1])
        weighted = summation(out_grad * p, -1)
        to_x = to_seed = None
        if need_x:
            to_x = (out_grad - spread(weighted, x.shape, (x.ndim - 1,))) * p * (seed / count)
        if need_seed:
            picked = getitem(out_grad, (*np.indices(x.shape[:-1], sparse=True), labels))
            to_seed = (summation(weighted) - summation(picked)) / count
        return to_x, None, to_seed


def _exponentials(x: Array, keep: bool) -> tuple[Array, Array, Array]:
    """exp(x − max) of each row (or scratch, if not to keep), its sum, and the maximum; block by block in the cache."""
    xp = array_module(x)
    rows = x.reshape(-1, x.shape[-1])
    if xp is not np:
        tops = rows.max(axis=1)
        e = xp.exp(rows - tops[:, None])
        return e.reshape(x.shape), e.sum(axis=1), tops
    step = max(1, _BLOCK // rows.shape[1])
    e = np.empty(rows.shape if keep else (min(step, len(rows)), rows.shape[1]), dtype=x.dtype)
    tops, totals = np.empty(len(rows), dtype=x.dtype), np.empty(len(rows), dtype=x.dtype)
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        top = np.maximum.reduce(block, axis=1, out=tops[start : start + step])
        part = e[start : start + step] if keep else e[: len(block)]
        np.subtract(block, top[:, None], out=part)
        np.exp(part, out=part)
        np.add.reduce(part, axis=1, out=totals[start : start + step])
    return e.reshape(x.shape) if keep else e, totals, tops


def _flat_index(x: Array, labels: Array) -> Array:
    """Where the rows' labels stand among all elements of x."""
    xp, classes = array_module(x), x.shape[-1]
    flat = labels.reshape(-1).astype(np.intp)
    if xp is not np:  # out of range: see _poisoned
        flat = xp.clip(flat, 0, classes - 1)
    return xp.arange(0, x.size, classes) + flat


def _poisoned(loss: Array, x: Array, labels: Array) -> Array:
    """NaN instead of the loss if a label is out of range: on a GPU, where raising would mean to wait for it."""
    xp = array_module(x)
    if xp is np:
        return loss
    labels = labels.astype(np.intp)  # small integers are not compared with the number of many classes
    good = ((labels >= 0) & (labels < x.shape[-1])).all()
    return xp.where(good, loss, xp.nan).astype(x.dtype)


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean cross entropy of logits and integer labels, in nats.

    Parameters
    ----------
    logits : Tensor
        Shape (N, classes), floating. More axes in front are taken as one.
    labels : Tensor or array
        Shape (N,), integers of [0, classes).

    Returns
    -------
    Tensor
        0-d. On a GPU it is NaN if a label is out of range, since raising would have to wait for the GPU.

    Raises
    ------
    TypeError
        If the logits are not floating or the labels no integers.
    ValueError
        If the shapes do not fit, there are no rows, or (on the CPU) a label is out of range.

    Examples
    --------
    >>> import needle as ndl
    >>> logits = ndl.Tensor([[0.0, 0.0], [0.0, 0.0]])
    >>> round(ndl.cross_entropy(logits, ndl.Tensor([0, 1])).item(), 6)  # ln 2
    0.693147
    """
    logits = _checked_logits(logits)
    labels = _checked_labels(labels, logits)
    shape, given = shape_of(logits), shape_of(labels)
    if given != shape[:-1]:
        hint = ""
        if given == shape:
            hint = ": one-hot rows? give the class numbers, y.argmax(axis=-1)"
        elif given == shape[:-1] + (1,):
            hint = f": reshape the labels to {shape[:-1]}"
        raise ValueError(f"CrossEntropy: logits of shape {shape} need labels of shape {shape[:-1]}, got {given}{hint}")
    if 0 in shape:
        raise ValueError(f"CrossEntropy: the mean over an empty batch is not defined, got logits of shape {shape}")
    check_devices("CrossEntropy", logits, labels)
    array = labels.cached_data if isinstance(labels, Tensor) else labels
    if isinstance(array, np.ndarray) and _largest_unsigned(array) >= shape[-1]:
        raise ValueError(
            f"CrossEntropy: labels {array.min()} to {array.max()} are out of range for {shape[-1]} classes: "
            f"they must be in [0, {shape[-1]})"
        )
    keep = isinstance(logits, Tensor) and logits.requires_grad and is_grad_enabled()
    return apply(CrossEntropy(keep), logits, labels)


def _largest_unsigned(labels: Array) -> int:
    """The largest label, where a negative one counts as huge: one pass checks both ends of the range."""
    return int(np.maximum.reduce(labels.view(labels.dtype.str.replace("i", "u")), axis=None))


def _checked_logits(logits: Any) -> Any:
    if not isinstance(logits, Tensor) and not is_array(logits):
        raise TypeError(f"CrossEntropy: logits are a Tensor, got {type(logits).__name__}")
    if logits.dtype.kind != "f" or not logits.ndim:
        raise TypeError(
            "CrossEntropy: floating logits of shape (N, classes) are needed, "
            f"got {logits.dtype} of shape {logits.shape}"
        )
    return logits


def _checked_labels(labels: Any, logits: Any) -> Any:
    """The labels without a gradient, whatever the tensor says; an array of the host goes to where the logits are."""
    if isinstance(labels, (list, tuple)):
        labels = as_array("CrossEntropy", "labels", labels)
        labels = labels if labels.size else labels.astype(np.intp)
    if not isinstance(labels, Tensor) and not is_array(labels):
        raise TypeError(f"CrossEntropy: labels are a Tensor of integers, got {type(labels).__name__}")
    if labels.dtype.kind not in "iu":
        raise TypeError(
            f"CrossEntropy: labels are integers, got {labels.dtype}: y.astype('int64') makes integers of class numbers"
        )
    if isinstance(labels, Tensor):
        return labels.detach()
    like = logits.realize_cached_data() if isinstance(logits, Tensor) else logits
    return labels if type(labels) is type(like) else device_of(like).array(labels)
