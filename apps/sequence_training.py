"""The course's training functions for language models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import needle as ndl
from needle import nn
from needle.data import get_batch

LossFunction = Callable[[ndl.Tensor, ndl.Tensor], ndl.Tensor]


def epoch_general_ptb(
    data: np.ndarray,
    model: nn.Module,
    seq_len: int = 40,
    loss_fn: LossFunction | None = None,
    opt: ndl.optim.Optimizer | None = None,
    clip: float | None = None,
    device: ndl.Device | None = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """Go through a text once: train with an optimizer, only measure without one.

    The state goes on from batch to batch, but gradients do not: backpropagation is truncated to `seq_len` steps.

    Parameters
    ----------
    data : numpy.ndarray
        What `needle.data.batchify` gave, shape (rows, batch).
    model : Module
        Takes word numbers (seq, batch) and a state, gives logits (seq · batch, words) and a state.
    seq_len : int
        Rows per batch.
    loss_fn : callable, optional
        The mean loss of logits and labels; `needle.nn.SoftmaxLoss` by default.
    opt : Optimizer, optional
    clip : float, optional
        The largest norm of all gradients together, to which they are scaled down.
    device, dtype
        Of the batches.

    Returns
    -------
    accuracy : float
        The fraction of words that were predicted rightly.
    loss : float
        The mean over all words, in nats.

    Examples
    --------
    >>> from apps.models import LanguageModel
    >>> data = ndl.data.batchify([0, 1, 2] * 8, batch_size=2)
    >>> accuracy, loss = epoch_general_ptb(data, LanguageModel(4, 3, hidden_size=5), seq_len=4)
    >>> 0 <= accuracy <= 1, loss > 0
    (True, True)
    """
    loss_fn = loss_fn or nn.SoftmaxLoss()
    model.train(opt is not None)
    right = total = words = 0.0
    state = None
    for i in range(0, len(data) - 1, seq_len):
        X, y = get_batch(data, i, seq_len, device=device, dtype=dtype)
        if opt is None:
            with ndl.no_grad():
                logits, state = model(X, state)
                loss = loss_fn(logits, y)
        else:
            opt.reset_grad()
            logits, state = model(X, state)
            loss = loss_fn(logits, y)
            loss.backward(create_graph=False)
            if clip is not None:
                opt.clip_grad_norm(clip)
            opt.step()
        state = detached(state)
        labels = y.numpy()
        right += float((logits.numpy().argmax(axis=1) == labels).sum())
        total += loss.item() * len(labels)
        words += len(labels)
    return right / words, total / words


def detached(state: Any) -> Any:
    """A state without its graph: a tensor, a tuple of them, or None."""
    if isinstance(state, (tuple, list)):
        return tuple([detached(part) for part in state])
    return None if state is None else state.detach()


def train_ptb(
    model: nn.Module,
    data: np.ndarray,
    seq_len: int = 40,
    n_epochs: int = 1,
    optimizer: type[ndl.optim.Optimizer] = ndl.optim.SGD,
    lr: float = 4.0,
    weight_decay: float = 0.0,
    loss_fn: Callable[[], LossFunction] = nn.SoftmaxLoss,
    clip: float | None = None,
    device: ndl.Device | None = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """Train a language model.

    Parameters
    ----------
    model : Module
    data : numpy.ndarray
        What `needle.data.batchify` gave.
    seq_len, n_epochs : int
    optimizer : class
        Made with the parameters, `lr` and `weight_decay`.
    lr, weight_decay : float
    loss_fn : class
        Makes the loss function.
    clip : float, optional
        The largest norm of the gradients.
    device, dtype
        Of the batches.

    Returns
    -------
    accuracy, loss : float
        Of the last epoch, as `epoch_general_ptb` measures them.

    Raises
    ------
    ValueError
        If `n_epochs` is below 1.
    """
    if n_epochs < 1:
        raise ValueError(f"train_ptb: at least 1 epoch is needed, got n_epochs={n_epochs}")
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(n_epochs):
        result = epoch_general_ptb(data, model, seq_len, loss_fn(), opt, clip, device, dtype)
    return result


def evaluate_ptb(
    model: nn.Module,
    data: np.ndarray,
    seq_len: int = 40,
    loss_fn: Callable[[], LossFunction] = nn.SoftmaxLoss,
    device: ndl.Device | None = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """Measure a language model: accuracy and loss, as `epoch_general_ptb` does without an optimizer."""
    return epoch_general_ptb(data, model, seq_len, loss_fn(), device=device, dtype=dtype)
