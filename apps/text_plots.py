"""The picture of a language model's run."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

if __package__:
    from . import plots
else:
    import plots


def draw_language_run(
    path: str | os.PathLike[str], *, title: str, unit: str, history: Sequence[dict[str, float]]
) -> None:
    """Draw loss and perplexity by epoch.

    Parameters
    ----------
    path : str or os.PathLike
        File to write; its ending says the format.
    title : str
        What was trained on what.
    unit : str
        What is predicted: ``"character"`` or ``"word"``.
    history : sequence of dict
        One for each epoch, with ``train_loss`` and ``test_loss`` in nats; at least one.
    """
    losses = [[past[f"{part}_loss"] for past in history] for part in ("train", "test")]
    title = f"{title}: {losses[1][-1]:.3f} nats per {unit}"
    with plots.slide(path, title, w_pad=0.15, h_pad=0.12, wspace=0.05) as figure:
        left, right = figure.subplots(1, 2)
        plots.draw_curves(left, f"Loss, nats per {unit}", *losses)
        plots.draw_curves(right, "Perplexity", *[[perplexity(loss) for loss in part] for part in losses])


def perplexity(loss: float) -> float:
    """Give e^loss, of how many equally likely tokens a loss speaks; it does not overflow.

    Examples
    --------
    >>> round(perplexity(math.log(8)), 9)
    8.0
    """
    return math.exp(min(loss, 700.0))
