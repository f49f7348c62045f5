"""What a training run shows on the terminal: a progress bar for each epoch, a table that grows by a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

REFRESH = 0.1  # seconds between two looks at the metrics; each one waits for a GPU


class ProgressBar:
    """One epoch on the terminal: loss, accuracy and samples per second. Where stderr is no terminal, nothing.

    Parameters
    ----------
    title : str
    samples : int
        How many there are in the epoch.
    metrics : Metrics
        Of the epoch so far; it is looked at every `REFRESH` seconds.
    """

    def __init__(self, title: str, samples: int, metrics: Any) -> None:
        from tqdm import tqdm

        self._metrics = metrics
        self._shown = 0.0
        self._bar = tqdm(
            desc=title,
            total=samples,
            initial=metrics.samples,
            unit=" samples",
            unit_scale=True,
            leave=False,
            disable=None,
            dynamic_ncols=True,
            mininterval=REFRESH,
        )

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._bar.close()

    def advance(self, samples: int) -> None:
        """Count samples, and show the metrics if it is time."""
        now = time.monotonic()
        if not self._bar.disable and now - self._shown >= REFRESH:
            self._shown = now
            text = f"loss {self._metrics.loss:.4f}, accuracy {100 * (1 - self._metrics.error):.2f} %"
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(samples)


class Table:
    """Rows under a heading, aligned, one printed at a time.

    Parameters
    ----------
    columns : sequence of (heading, format)
        The format is one of `str.format`'s, such as ``"{:.4f}"``; None is shown as a dash.
    show : callable
        Where a line goes.

    Examples
    --------
    >>> table = Table([("epoch", "{}"), ("loss", "{:.4f}")])
    >>> table.heading()
    epoch     loss
    >>> table.row([1, 0.5])
        1   0.5000
    >>> table.row([2, 1e30])
        2    1e+30
    """

    def __init__(self, columns: Sequence[tuple[str, str]], show: Callable[[str], Any] | None = None) -> None:
        self._columns = columns
        self._widths = [max(len(heading), len(form.format(0))) for heading, form in columns]
        self._show = show or (lambda line: print(line, flush=True))

    def heading(self) -> None:
        """Print the headings."""
        self._show("   ".join(heading.rjust(width) for (heading, _), width in zip(self._columns, self._widths)))

    def row(self, values: Sequence[Any]) -> None:
        """Print a value for each column; a float that is too long for it is rounded to three digits."""
        cells = ("–" if value is None else form.format(value) for value, (_, form) in zip(values, self._columns))
        fitting = (
            f"{value:.3g}" if len(cell) > width and isinstance(value, float) else cell
            for cell, value, width in zip(cells, values, self._widths)
        )
        self._show("   ".join(cell.rjust(width) for cell, width in zip(fitting, self._widths)))
