"""Pictures of a training run: curves, a confusion matrix, the samples that were got wrong."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")

# Of Okabe and Ito's palette, which most colour-blind people tell apart.
TRAIN_COLOR, TEST_COLOR, MUTED = "#0072B2", "#D55E00", "#5F6B76"

_SLIDE = (13.333, 7.5)  # inches: a slide of 16:9
_STYLE = {
    "font.size": 12,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.hashsalt": "needle",  # the same picture is the same file
}


@contextlib.contextmanager
def slide(path: str | os.PathLike[str], title: str, **spacing: float) -> Iterator[Figure]:
    """Give a figure of a slide's size under a title, to be drawn on within the block and then written to `path`.

    Parameters
    ----------
    path : str or os.PathLike
        File to write; its ending, one of `FORMATS`, says the format.
    title : str
    **spacing : float
        Of matplotlib's constrained layout: ``w_pad``, ``h_pad``, ``wspace``, ``hspace``.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=_SLIDE, dpi=150, layout="constrained", facecolor="white")
        figure.get_layout_engine().set(**spacing)
        figure.suptitle(title, x=0.012, ha="left", fontsize=19, fontweight="bold")
        yield figure
        save_figure(figure, path)


def draw_classifier_run(
    path: str | os.PathLike[str],
    *,
    title: str,
    history: Sequence[dict[str, float]],
    images: np.ndarray,
    labels: np.ndarray,
    probabilities: np.ndarray,
    classes: Sequence[str],
) -> None:
    """Draw a classifier's run on one slide: loss, accuracy, confusion matrix, and the worst mistakes.

    Parameters
    ----------
    path : str or os.PathLike
        File to write; its ending, one of `FORMATS`, says the format.
    title : str
        What was trained on what.
    history : sequence of dict
        One for each epoch: ``train_loss``, ``train_error``, ``test_loss``, ``test_error``; at least one.
    images : numpy.ndarray, shape (n, height, width) or (n, height, width, 3)
        The held-out images, values from 0 to 1.
    labels : numpy.ndarray of integers, shape (n,)
    probabilities : numpy.ndarray, shape (n, classes)
        What the model gives each class.
    classes : sequence of str
        The classes' names.
    """
    predicted = probabilities.argmax(axis=1)
    wrong = np.flatnonzero(predicted != labels)
    title = f"{title}: {1 - len(wrong) / len(labels):.2%} right of {len(labels):,} held-out images"
    with slide(path, title, w_pad=0.15, h_pad=0.12, wspace=0.03, hspace=0.04) as figure:
        upper, lower = figure.subfigures(2, 1, height_ratios=[2.1, 1])
        loss, accuracy, matrix = upper.subplots(1, 3, width_ratios=[1, 1, 1.05])
        draw_curves(loss, "Loss", [h["train_loss"] for h in history], [h["test_loss"] for h in history])
        draw_curves(
            accuracy,
            "Accuracy",
            [1 - h["train_error"] for h in history],
            [1 - h["test_error"] for h in history],
            percent=True,
        )
        draw_confusion(matrix, confusion_matrix(labels, predicted, len(classes)), classes)
        worst = wrong[np.argsort(-probabilities[wrong, predicted[wrong]], kind="stable")]
        draw_mistakes(lower, images[worst], labels[worst], probabilities[worst], classes)


def confusion_matrix(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Count how often each class (row) was taken for each class (column).

    Examples
    --------
    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    array([[1, 1],
           [0, 1]])
    """
    return np.bincount(labels * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def draw_curves(
    axes: Axes, title: str, train: Sequence[float], test: Sequence[float], *, percent: bool = False
) -> None:
    """Draw what was measured after each epoch, each curve labelled where it ends."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    epochs = np.arange(1, len(train) + 1)
    marker = "o" if len(train) <= 30 else None
    ends = []
    for name, values, color in (("training", train, TRAIN_COLOR), ("held out", test, TEST_COLOR)):
        axes.plot(epochs, values, color=color, linewidth=2.2, marker=marker, markersize=4, clip_on=False)
        shown = f"{values[-1]:.1%}" if percent else f"{values[-1]:.3f}"
        ends.append((values[-1], f"{name}\n{shown}", color))
    axes.set(title=title, xlabel="epoch", xlim=(min(1, len(train) - 1), len(train)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(axis="y", color="#E3E7EB", linewidth=0.8)
    axes.set_axisbelow(True)
    if percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    else:
        axes.set_ylim(bottom=0)
    _label_ends(axes, len(train), ends)


def _label_ends(axes: Axes, x: float, ends: list[tuple[float, str, str]]) -> None:
    """Write a label right of each curve's end, apart from each other where the ends are close."""
    low, high = axes.get_ylim()
    least = 0.13 * (high - low)  # the height of a label of two lines
    ordered = sorted(ends, key=lambda end: end[0])
    places = [value for value, _, _ in ordered]
    middle = (places[0] + places[-1]) / 2
    if places[-1] - places[0] < least:
        middle = min(max(middle, low + least / 2), high - least / 2)
        places = [middle - least / 2, middle + least / 2]
    for place, (_, text, color) in zip(places, ordered):
        axes.annotate(
            text, (x, place), xytext=(9, 0), textcoords="offset points", color=color, va="center", annotation_clip=False
        )


def draw_confusion(axes: Axes, counts: np.ndarray, classes: Sequence[str]) -> None:
    """Draw a confusion matrix: what is right in blue, and mistakes in orange, on a scale of their own."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    right = np.eye(len(counts), dtype=bool)
    worst = max(share[~right].max(), 1e-9) if len(counts) > 1 else 1.0
    axes.imshow(np.where(right, share, np.nan), cmap="Blues", vmin=0, vmax=1.35)
    axes.imshow(np.where(right | (counts == 0), np.nan, share), cmap="Oranges", vmin=-0.35 * worst, vmax=1.6 * worst)
    size = 11 if len(counts) <= 12 else 7
    for row, column in np.argwhere(counts > 0):
        color = "white" if row == column and share[row, column] > 0.6 else "#1B2733"
        axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", fontsize=size, color=color)
    ticks = range(len(classes))
    turned = {"rotation": 45, "ha": "right"} if max(map(len, classes)) > 2 else {}
    axes.set_xticks(ticks, classes, **turned)
    axes.set_yticks(ticks, classes)
    axes.set(title="Confusion matrix", xlabel="predicted", ylabel="true")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_anchor("N")


def draw_mistakes(
    figure: Any,
    images: np.ndarray,
    labels: np.ndarray,
    probabilities: np.ndarray,
    classes: Sequence[str],
    columns: int = 10,
) -> None:
    """Draw the first of the misclassified images in a row, with what they are and what the model says."""
    count = len(labels)
    figure.suptitle(
        f"The surest mistakes of {count}" if count > columns else f"Mistakes: {count or 'none'}",
        x=0.012,
        ha="left",
        fontsize=14,
        fontweight="bold",
    )
    places = figure.subplots(1, columns)
    for place in places:
        place.set_axis_off()
    for place, image, label, chances in zip(places, images, labels, probabilities):
        guess = chances.argmax()
        place.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        place.set_title(
            f"says {classes[guess]} ({chances[guess]:.0%})",
            fontsize=11,
            fontweight="normal",
            color=TEST_COLOR,
            loc="center",
        )
        place.text(
            0.5,
            -0.06,
            f"is {classes[label]}",
            transform=place.transAxes,
            ha="center",
            va="top",
            fontsize=11,
            color=TRAIN_COLOR,
        )


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure; a picture that is there already is replaced only when the new one is complete."""
    path = pathlib.Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        dates = {"Date": None} if path.suffix == ".svg" else {"CreationDate": None} if path.suffix == ".pdf" else None
        figure.savefig(name, metadata=dates)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    finally:
        pathlib.Path(name).unlink(missing_ok=True)


def _umask() -> int:
    """The permissions that new files do not get; mkstemp gives fewer than others expect of a picture."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
