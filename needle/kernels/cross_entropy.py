"""Cross entropy in one kernel each way."""

from __future__ import annotations

from ..backend import Array, array_module
from . import contiguous, launch


def forward(x: Array, labels: Array) -> tuple[Array, Array]:
    """The mean over rows of ln Σ eˣ − x[label], and ln Σ eˣ of each row.

    Parameters
    ----------
    x : array
        Logits of shape (…, classes), float32 or float64.
    labels : array of integers
        Shape (…). If one is out of range, the mean is NaN.
    """
    xp, classes = array_module(x), x.shape[-1]
    rows, threads = x.size // classes, _threads(classes)
    losses, log_sums = xp.empty(rows, x.dtype), xp.empty(rows, x.dtype)
    args = (contiguous(x), _as_int64(labels), losses, log_sums, classes)
    launch("cross_entropy", (rows,), (1, threads), *args, dtype=x.dtype, shared_memory=threads * x.itemsize)
    return losses.mean(), log_sums


def backward(x: Array, labels: Array, log_sums: Array, out_grad: Array) -> Array:
    """(softmax(x) − onehot(labels))·ȳ/rows, with `log_sums` from `forward` and a 0-d `out_grad`."""
    classes = x.shape[-1]
    rows, gradient = x.size // classes, array_module(x).empty(x.shape, x.dtype)
    args = (contiguous(x), _as_int64(labels), log_sums, contiguous(out_grad), gradient, rows, classes)
    launch("cross_entropy_gradient", (rows,), (1, _threads(classes)), *args, dtype=x.dtype)
    return gradient


def _threads(classes: int) -> int:
    return 32 if classes <= 256 else 256


def _as_int64(labels: Array) -> Array:
    return contiguous(labels.astype("int64", copy=False))
