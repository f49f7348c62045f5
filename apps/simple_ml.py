"""The course's training functions: softmax regression, a two-layer network, and the digits that they are trained on."""

from __future__ import annotations

import os

import numpy as np

import needle as ndl
from needle.data import read_mnist

if __package__:
    from .image_training import epoch_general_cifar10, evaluate_cifar10, train_cifar10
    from .sequence_training import epoch_general_ptb, evaluate_ptb, train_ptb
else:
    from image_training import epoch_general_cifar10, evaluate_cifar10, train_cifar10
    from sequence_training import epoch_general_ptb, evaluate_ptb, train_ptb

__all__ = [
    "epoch_general_cifar10",
    "epoch_general_ptb",
    "evaluate_cifar10",
    "evaluate_ptb",
    "loss_err",
    "nn_epoch",
    "parse_mnist",
    "softmax_loss",
    "train_cifar10",
    "train_ptb",
]


def parse_mnist(
    image_filename: str | os.PathLike[str], label_filename: str | os.PathLike[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Read a pair of MNIST files into a matrix of images and a vector of labels.

    Parameters
    ----------
    image_filename, label_filename : str or os.PathLike
        IDX files, plain or gzip-compressed.

    Returns
    -------
    X : numpy.ndarray of float32, shape (n, 784)
        One image per row, grey levels from 0 (background) to 1.
    y : numpy.ndarray of uint8, shape (n,)
        The digits, 0 to 9.

    Raises
    ------
    FileNotFoundError
        If one of the files does not exist.
    ValueError
        If a file is damaged, is no MNIST file or has no images, or the two do not belong together.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     images, labels = pathlib.Path(folder, "images"), pathlib.Path(folder, "labels")
    ...     _ = images.write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes([51]) * 784)
    ...     _ = labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1]) + bytes([7]))
    ...     X, y = parse_mnist(images, labels)
    >>> X.shape, float(X[0, 0]), int(y[0])
    ((1, 784), 0.20000000298023224, 7)
    """
    images, labels = read_mnist(image_filename, label_filename)
    if not len(images):
        raise ValueError(f"parse_mnist: {os.fspath(image_filename)} holds no images")
    return np.divide(images.reshape(len(images), -1), 255, dtype=np.float32), labels


def softmax_loss(Z: ndl.Tensor, y_one_hot: ndl.Tensor) -> ndl.Tensor:
    """Cross entropy of the softmax of `Z`, averaged over the batch: mean of log Σₖ exp Zₖ − Σₖ Zₖ yₖ.

    Parameters
    ----------
    Z : Tensor, shape (batch, classes)
        Logits.
    y_one_hot : Tensor, shape (batch, classes)
        1 at each row's class, 0 elsewhere.

    Returns
    -------
    Tensor, shape ()
        In the dtype of `Z`.

    Raises
    ------
    ValueError
        If the shapes differ, are not (batch, classes), or the batch is empty.

    Examples
    --------
    >>> Z = ndl.Tensor([[0.0, 0.0], [0.0, 0.0]])
    >>> one_hot = ndl.Tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(softmax_loss(Z, one_hot).item(), 4)  # ln 2
    0.6931
    """
    if Z.ndim != 2 or Z.shape != y_one_hot.shape or not Z.shape[0]:
        raise ValueError(
            f"softmax_loss: logits {Z.shape} and one-hot labels {y_one_hot.shape}; both have shape (batch, classes), "
            "batch at least 1"
        )
    return (ndl.logsumexp(Z, axes=(1,)).sum() - (Z * y_one_hot).sum()) / Z.shape[0]


def nn_epoch(
    X: np.ndarray, y: np.ndarray, W1: ndl.Tensor, W2: ndl.Tensor, lr: float = 0.1, batch: int = 100
) -> tuple[ndl.Tensor, ndl.Tensor]:
    """Train the two-layer network relu(X W1) W2 for one pass of gradient descent over `X`, in the order of its rows.

    Parameters
    ----------
    X : numpy.ndarray of float32, shape (n, inputs)
    y : numpy.ndarray of integers, shape (n,)
        Classes, 0 to the number of columns of `W2` − 1.
    W1 : Tensor, shape (inputs, hidden)
    W2 : Tensor, shape (hidden, classes)
    lr : float
        Step size.
    batch : int
        Samples per step; the last step has the rest.

    Returns
    -------
    W1, W2 : Tensor
        The trained weights. The tensors that came in keep their values.

    Raises
    ------
    ValueError
        If the shapes do not fit together, a label is no class of `W2`, or `batch` is below 1.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    >>> y = np.array([0, 1])
    >>> W1 = ndl.Tensor(np.eye(2, dtype=np.float32))
    >>> W2 = ndl.Tensor(np.zeros((2, 2), dtype=np.float32))
    >>> W1, W2 = nn_epoch(X, y, W1, W2, lr=1.0, batch=2)
    >>> W2
    needle.Tensor([[ 0.25 -0.25]
     [-0.25  0.25]])
    """
    _check_labels("nn_epoch", len(X), y)
    if batch < 1:
        raise ValueError(f"nn_epoch: a batch has at least 1 sample, got batch={batch}")
    W1, W2 = ndl.Tensor(W1), ndl.Tensor(W2)
    for start in range(0, len(X), batch):
        inputs = ndl.Tensor(X[start : start + batch], device=W1.device, dtype=W1.dtype, requires_grad=False)
        targets = _one_hot(y[start : start + batch], W2)
        loss = softmax_loss(ndl.relu(inputs @ W1) @ W2, targets)
        loss.backward(create_graph=False)
        for W in (W1, W2):
            W.data = W.data - lr * W.grad
    return W1, W2


def loss_err(h: ndl.Tensor, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Loss and error rate of a batch.

    Parameters
    ----------
    h : Tensor, shape (batch, classes)
        Logits.
    y : numpy.ndarray of integers, shape (batch,)
        Classes.

    Returns
    -------
    loss : numpy.ndarray, shape ()
        The mean cross entropy.
    error : float
        The fraction of rows whose greatest logit is not that of their class.

    Raises
    ------
    ValueError
        If `y` is not one class for each row of `h`.

    Examples
    --------
    >>> loss, error = loss_err(ndl.Tensor([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 1]))
    >>> round(float(loss), 4), error
    (0.8133, 0.5)
    """
    _check_labels("loss_err", len(h.cached_data), y)
    return softmax_loss(h.detach(), _one_hot(y, h)).numpy(), float(np.mean(h.numpy().argmax(axis=1) != y))


def _one_hot(y: np.ndarray, like: ndl.Tensor) -> ndl.Tensor:
    """A row for each label, with as many columns, the dtype and the device of `like`."""
    return ndl.init.one_hot(like.shape[-1], y, device=like.device, dtype=like.dtype)


def _check_labels(owner: str, rows: int, y: np.ndarray) -> None:
    if y.shape != (rows,) or y.dtype.kind not in "iu":
        raise ValueError(
            f"{owner}: labels of shape {y.shape} and dtype {y.dtype} for {rows} samples; one integer each is needed"
        )
