"""A training run that one can watch, interrupt, save and go on with: the loop that the demos share."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import needle as ndl
from needle import backend

if __package__:
    from .display import ProgressBar, Table
else:
    from display import ProgressBar, Table

EPOCH_COLUMNS = (
    ("epoch", "{}"),
    ("train loss", "{:.4f}"),
    ("train acc.", "{:.2%}"),
    ("test loss", "{:.4f}"),
    ("test acc.", "{:.2%}"),
    ("samples/s", "{:,.0f}"),
    ("seconds", "{:.1f}"),
)


# --------------------------------------------------------------------------------------------------- what is measured


class Metrics:
    """Loss and errors of the batches so far.

    Sums are kept where the batches are; only reading a property fetches them (and waits for a GPU).

    Parameters
    ----------
    state : dict, optional
        As `state` gave it.

    Examples
    --------
    >>> metrics = Metrics()
    >>> logits, labels = ndl.Tensor([[2.0, 1.0], [2.0, 1.0]]), ndl.Tensor([0, 1])
    >>> metrics.add(ndl.Tensor(0.5), logits, labels)
    >>> metrics.loss, metrics.error, metrics.samples
    (0.5, 0.5, 2)
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self._start: dict[str, Any] = state or {"loss_sum": 0.0, "wrong": 0, "samples": 0, "batches": 0}
        self.samples: int = self._start["samples"]
        self.batches: int = self._start["batches"]
        self._loss_sum: Any = None
        self._wrong: Any = None

    def add(self, loss: ndl.Tensor, logits: ndl.Tensor, labels: ndl.Tensor) -> None:
        """Count a batch.

        Parameters
        ----------
        loss : Tensor, shape ()
            Its mean loss.
        logits : Tensor, shape (n, classes)
        labels : Tensor of integers, shape (n,)
        """
        loss_array = loss.realize_cached_data()
        if self._loss_sum is None:
            device = backend.device_of(loss_array)
            self._loss_sum = device.full((), self._start["loss_sum"], dtype="float64")
            self._wrong = device.full((), self._start["wrong"], dtype="int64")
        with backend.scope(loss_array):
            self._loss_sum += loss_array
            self._wrong += (logits.realize_cached_data().argmax(axis=-1) != labels.realize_cached_data()).sum()
        self.samples += len(labels.realize_cached_data())
        self.batches += 1

    def state(self) -> dict[str, Any]:
        """Give the sums as numbers for JSON: ``loss_sum``, ``wrong``, ``samples``, ``batches``."""
        if self._loss_sum is None:
            return dict(self._start)
        loss_sum, wrong = backend.to_numpy(self._loss_sum).item(), backend.to_numpy(self._wrong).item()
        return {"loss_sum": loss_sum, "wrong": wrong, "samples": self.samples, "batches": self.batches}

    @property
    def loss(self) -> float:
        """The mean of the batches' losses."""
        return self.state()["loss_sum"] / self.batches if self.batches else float("nan")

    @property
    def error(self) -> float:
        """The fraction of samples that are classified wrongly."""
        return self.state()["wrong"] / self.samples if self.samples else float("nan")


def evaluate(
    model: ndl.nn.Module, loader: Iterable, loss_fn: Callable[[ndl.Tensor, ndl.Tensor], ndl.Tensor] | None = None
) -> Metrics:
    """Measure `model`, in evaluation mode and without a graph, on batches of inputs and labels.

    Parameters
    ----------
    model : Module
        Gives logits of shape (n, classes). It is left in evaluation mode.
    loader : iterable of (Tensor, Tensor)
    loss_fn : callable, optional
        The mean loss of logits and labels; `needle.nn.SoftmaxLoss` by default.

    Returns
    -------
    Metrics
    """
    loss_fn = loss_fn or ndl.nn.SoftmaxLoss()
    metrics = Metrics()
    model.eval()
    with ndl.no_grad():
        for X, y in loader:
            logits = model(X)
            metrics.add(loss_fn(logits, y), logits, y)
    return metrics


def train_step(
    model: ndl.nn.Module,
    optimizer: ndl.optim.Optimizer,
    X: ndl.Tensor,
    y: ndl.Tensor,
    loss_fn: Callable[[ndl.Tensor, ndl.Tensor], ndl.Tensor],
) -> tuple[ndl.Tensor, ndl.Tensor]:
    """Make one step of gradient descent on a batch, and keep no graph.

    Returns
    -------
    loss : Tensor, shape ()
    logits : Tensor, shape (n, classes)
        Both of before the step, and constants.
    """
    optimizer.reset_grad()
    logits = model(X)
    loss = loss_fn(logits, y)
    loss.backward(create_graph=False)
    optimizer.step()
    return loss.detach(), logits.detach()


# ------------------------------------------------------------------------------------------------- randomness, Ctrl-C


@contextlib.contextmanager
def seeded(number: int) -> Iterator[None]:
    """Within it random numbers start from a seed; afterwards they go on as if nothing had been drawn.

    Examples
    --------
    >>> with seeded(4):
    ...     first = np.random.rand()
    >>> with seeded(4):
    ...     first == np.random.rand()
    True
    """
    before = ndl.random.get_state()
    ndl.random.seed(number)
    try:
        yield
    finally:
        ndl.random.set_state(before)


class Interrupt:
    """Within it Ctrl-C only sets `requested`, so that a step is never cut in two; a second Ctrl-C stops at once.

    In another thread than the main one, which gets no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: Any) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


# ------------------------------------------------------------------------------------------------------------ the loop


@dataclass
class Run:
    """A training run: all that decides how it goes on, between any two steps.

    Attributes
    ----------
    model : Module
    optimizer : Optimizer
    settings : dict
        What the run was started with: numbers and strings.
    epoch : int
        Epochs that are done.
    step : int
        Batches of the current epoch that are done.
    history : list of dict
        One for each epoch that is done: ``train_loss``, ``train_error``, ``test_loss``, ``test_error``.
    metrics : Metrics
        Of the current epoch.
    epoch_random : needle.random.State
        Where the random numbers stood when the current epoch's order was drawn.
    """

    model: ndl.nn.Module
    optimizer: ndl.optim.Optimizer
    settings: dict[str, Any]
    epoch: int = 0
    step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)
    epoch_random: ndl.random.State = field(default_factory=ndl.random.get_state)

    @property
    def epochs_done(self) -> str:
        """How many epochs are done, in words: "1 epoch", "2 epochs"."""
        return f"{self.epoch} epoch{'' if self.epoch == 1 else 's'}"

    def batches(self, loader: Iterable) -> Iterator:
        """Give the rest of the current epoch's batches.

        Each epoch begins with a new seed, drawn from NumPy's global generator, also for what is drawn on a GPU. In the
        midst of an epoch its order is drawn again, and then the random numbers go on from where they stood.
        """
        if self.step == 0:
            ndl.random.seed(int(np.random.randint(1 << 32, dtype=np.int64)))
            self.metrics = Metrics()
            self.epoch_random = ndl.random.get_state()
            return iter(loader)
        now = ndl.random.get_state()
        ndl.random.set_state(self.epoch_random)
        batches = iter(loader)
        for _ in range(self.step):
            next(batches)
        ndl.random.set_state(now)
        return batches


def fit(
    run: Run,
    loader: ndl.data.DataLoader,
    step: Callable[[ndl.Tensor, ndl.Tensor], tuple[ndl.Tensor, ndl.Tensor]],
    test: Callable[[], Metrics],
    *,
    epochs: int,
    save: Callable[[], None] | None = None,
) -> bool:
    """Train until `epochs` epochs are done or Ctrl-C is pressed; a table grows by a row for each epoch.

    Parameters
    ----------
    run : Run
        Changed as it goes on.
    loader : DataLoader
        Batches of inputs and labels.
    step : callable
        Trains on a batch and gives its loss and logits, as `train_step` does.
    test : callable
        Measures the model on held-out data.
    epochs : int
        How many the run has at its end, those included that it has already.
    save : callable, optional
        Called after each epoch and when interrupted, each time between two steps.

    Returns
    -------
    bool
        Whether it got to the end.
    """
    table = Table(EPOCH_COLUMNS)
    table.heading()
    for number, past in enumerate(run.history, 1):
        table.row(_row(number, past))
    # NumPy would warn into the table of numbers that run away; the table shows them, and the app says so at the end.
    with Interrupt() as interrupt, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        saved = False
        while run.epoch < epochs and not interrupt.requested:
            saved = False
            started, done = time.perf_counter(), run.metrics.samples if run.step else 0
            _train_epoch(run, loader, step, f"epoch {run.epoch + 1}/{epochs}", interrupt)
            if run.step < len(loader):
                break
            seconds, samples = time.perf_counter() - started, run.metrics.samples - done
            _finish_epoch(run, test())
            table.row(_row(run.epoch, run.history[-1], samples / seconds, seconds))
            if save:
                save()
                saved = True
        if save and not saved:
            save()
    return run.epoch >= epochs


def _train_epoch(run: Run, loader: ndl.data.DataLoader, step: Callable, title: str, interrupt: Interrupt) -> None:
    """Go on with the current epoch, to its end or until Ctrl-C."""
    run.model.train()
    batches = run.batches(loader)
    with ProgressBar(title, len(loader.dataset), run.metrics) as bar:
        for X, y in batches:
            loss, logits = step(X, y)
            run.metrics.add(loss, logits, y)
            run.step += 1
            bar.advance(len(y.realize_cached_data()))
            if interrupt.requested:
                break


def _finish_epoch(run: Run, test: Metrics) -> None:
    """Write what was measured into the history, and stand at the beginning of the next epoch."""
    train = {"train_loss": run.metrics.loss, "train_error": run.metrics.error}
    run.history.append({**train, "test_loss": test.loss, "test_error": test.error})
    run.epoch, run.step, run.metrics = run.epoch + 1, 0, Metrics()


def _row(number: int, past: dict[str, float], speed: float | None = None, seconds: float | None = None) -> list:
    train, test = past["train_error"], past["test_error"]
    return [number, past["train_loss"], 1 - train, past["test_loss"], 1 - test, speed, seconds]
