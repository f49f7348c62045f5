"""Draws adaptive_blur.png: the triangle, its second difference, and the two prefix sums that give it back.

Run ``python docs/figures/adaptive_blur.py`` after changing it.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

CENTRE, RADIUS = 0, 3.6
INK, BLUE, RED, GREY = "#222222", "#2166ac", "#b2182b", "#999999"


def main() -> None:
    """Draw the figure beside this file."""
    f = int(np.floor(RADIUS))
    r = RADIUS - f
    at = np.arange(CENTRE - f - 3, CENTRE + f + 4)
    taps = np.maximum(RADIUS - np.abs(at - CENTRE), 0)
    slopes = np.diff(taps, append=0)  # at i: from i to i+1
    bends = np.zeros(len(at))
    jumps = np.zeros(len(at))
    for base, bend, jump in ((CENTRE - f - 1, 1, 1 - r), (CENTRE, -2, 0), (CENTRE + f, 1, r)):
        bends[at == base] += bend
        jumps[at == base] += jump
    np.testing.assert_allclose(np.cumsum(bends) - jumps, slopes, atol=1e-12)

    plt.rcParams.update(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "mathtext.fontset": "cm"}
    )
    figure, axes = plt.subplots(4, 1, figsize=(7, 8.6), sharex=True, layout="constrained")

    axis = axes[0]
    line = np.array([at[0], CENTRE - RADIUS, CENTRE, CENTRE + RADIUS, at[-1]])
    axis.plot(line, [0, 0, RADIUS, 0, 0], color=GREY, zorder=1)
    stems(axis, at, taps, INK)
    axis.set_title(f"The triangle $m - |d|$ of radius $m = {RADIUS}$, and the taps taken of it", loc="left")
    axis.annotate("", (CENTRE + RADIUS, 3.1), (CENTRE, 3.1), arrowprops={"arrowstyle": "<->", "color": GREY})
    axis.text(CENTRE + 2.1, 3.2, "$m$", color=GREY, ha="center")
    for d in (f, -f):
        axis.text(d + 0.15 * np.sign(d), r + 0.15, "$r$", ha="left" if d > 0 else "right")

    axis = axes[1]
    second = np.diff(slopes, prepend=0)
    stems(axis, at, second, INK)
    axis.set_title("Its second difference: five numbers, whatever the radius", loc="left")
    for d, value in zip(at, second):
        if value:
            label = {-f - 1: "$r$", -f: "$1-r$", CENTRE: "$-2$", f: "$1-r$", f + 1: "$r$"}[int(d)]
            axis.text(d + 0.18, value + (0.12 if value > 0 else -0.05), label, ha="left", va="center")
    axis.set_ylim(-2.4, 1.4)

    axis = axes[2]
    edges = np.append(at, at[-1] + 1)
    axis.stairs(np.cumsum(bends), edges, color=BLUE, linestyle=(0, (4, 2)), label="prefix sum of the bends")
    axis.stairs(slopes, edges, color=INK, linewidth=1.6, label="minus the jumps: the step from $i$ to $i+1$")
    for base, top in ((CENTRE - f - 1, 1.0), (CENTRE + f, 0.0)):
        height = slopes[at == base][0]
        axis.annotate("", (base + 0.8, height), (base + 0.8, top), arrowprops={"arrowstyle": "->", "color": RED})
        label = "$1-r$" if base < CENTRE else "$r$"
        axis.text(base + 0.68, (height + top) / 2, label, color=RED, va="center", ha="right", fontsize=8)
    axis.set_title("First prefix sum: the bends come to whole slopes, the jumps correct the two end steps", loc="left")
    axis.legend(loc="upper right", frameon=False)
    axis.set_ylim(-1.3, 1.5)

    axis = axes[3]
    stems(axis, at, np.concatenate([[0], np.cumsum(np.cumsum(bends) - jumps)[:-1]]), INK)
    axis.plot(line, [0, 0, RADIUS, 0, 0], color=GREY, zorder=1)
    axis.set_title("Second prefix sum: the taps again", loc="left")
    positions = [CENTRE - f - 1, CENTRE - f, CENTRE, CENTRE + f, CENTRE + f + 1]
    axis.set_xticks(positions, ["$p-f-1$", "$p-f$", "$p$", "$p+f$", "$p+f+1$"])
    axis.set_xlim(at[0] - 0.3, at[-1] + 0.3)

    for axis in axes:
        axis.axhline(0, color=GREY, linewidth=0.6, zorder=0)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.tick_params(axis="x", length=3)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130, metadata={"Software": None})


def stems(axis: plt.Axes, at: np.ndarray, values: np.ndarray, color: str) -> None:
    """Draw values as dots on sticks."""
    axis.vlines(at, 0, values, color=color, linewidth=1.2)
    axis.plot(at, values, "o", color=color, markersize=4)


if __name__ == "__main__":
    main()
