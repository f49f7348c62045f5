"""The course's training functions for images."""

from __future__ import annotations

from collections.abc import Callable

import needle as ndl
from needle import nn

if __package__:
    from . import training
else:
    import training

_COURSE_SEED = 4  # each function starts from it, as the course's published results need

LossFunction = Callable[[ndl.Tensor, ndl.Tensor], ndl.Tensor]


def epoch_general_cifar10(
    dataloader: ndl.data.DataLoader,
    model: nn.Module,
    loss_fn: LossFunction | None = None,
    opt: ndl.optim.Optimizer | None = None,
) -> tuple[float, float]:
    """Go through the data once: train with an optimizer, only measure without one.

    Parameters
    ----------
    dataloader : DataLoader
        Batches of images (N, 3, 32, 32) and integer labels.
    model : Module
        Gives logits. It is put into training or evaluation mode, and left there.
    loss_fn : callable, optional
        The mean loss of logits and labels; `needle.nn.SoftmaxLoss` by default.
    opt : Optimizer, optional

    Returns
    -------
    accuracy : float
        The fraction of images that were classified rightly (in training: before the step that learned from them).
    loss : float
        The mean over all images.

    Notes
    -----
    As in the course, each call starts NumPy's global generator from one seed; afterwards it is as it was before.

    Examples
    --------
    >>> import numpy as np
    >>> images = ndl.data.NDArrayDataset(np.ones((4, 3), dtype=np.float32), np.arange(4))
    >>> accuracy, loss = epoch_general_cifar10(ndl.data.DataLoader(images, batch_size=3), nn.Linear(3, 4))
    >>> accuracy, loss > 0
    (0.25, True)
    """
    loss_fn = loss_fn or nn.SoftmaxLoss()
    right = total = samples = 0.0
    with training.seeded(_COURSE_SEED):
        model.train(opt is not None)
        for X, y in dataloader:
            if opt is None:
                with ndl.no_grad():
                    logits = model(X)
                    loss = loss_fn(logits, y)
            else:
                loss, logits = training.train_step(model, opt, X, y, loss_fn)
            labels = y.numpy()
            right += float((logits.numpy().argmax(axis=1) == labels).sum())
            total += loss.item() * len(labels)
            samples += len(labels)
    return right / samples, total / samples


def train_cifar10(
    model: nn.Module,
    dataloader: ndl.data.DataLoader,
    n_epochs: int = 1,
    optimizer: type[ndl.optim.Optimizer] = ndl.optim.Adam,
    lr: float = 0.001,
    weight_decay: float = 0.001,
    loss_fn: Callable[[], LossFunction] = nn.SoftmaxLoss,
) -> tuple[float, float]:
    """Train a model on images.

    Parameters
    ----------
    model : Module
    dataloader : DataLoader
        Batches of images and labels.
    n_epochs : int
    optimizer : class
        Made with the parameters, `lr` and `weight_decay`.
    lr, weight_decay : float
    loss_fn : class
        Makes the loss function.

    Returns
    -------
    accuracy, loss : float
        Of the last epoch, as `epoch_general_cifar10` measures them.

    Raises
    ------
    ValueError
        If `n_epochs` is below 1.
    """
    if n_epochs < 1:
        raise ValueError(f"train_cifar10: at least 1 epoch is needed, got n_epochs={n_epochs}")
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(n_epochs):
        result = epoch_general_cifar10(dataloader, model, loss_fn(), opt)
    return result


def evaluate_cifar10(
    model: nn.Module, dataloader: ndl.data.DataLoader, loss_fn: Callable[[], LossFunction] = nn.SoftmaxLoss
) -> tuple[float, float]:
    """Measure a model on images: accuracy and loss, as `epoch_general_cifar10` does without an optimizer."""
    return epoch_general_cifar10(dataloader, model, loss_fn())
