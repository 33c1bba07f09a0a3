"""The figure of the page: a step over the size of the batch, of our losses and of others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.timing import Rows

# Colours that stay apart for the colour-blind; ours are drawn in full, others dashed.
STYLES = {
    "binary cross entropy": ("#444444", ":"),
    "tss": ("#0072b2", "-"),
    "f1": ("#6a51a3", "-"),
    "value-weighted tss, T = 8": ("#009e73", "-"),
    "Dice, MONAI": ("#d55e00", "--"),
    "AUCM, MONAI": ("#c2478d", "--"),
    "AUCM, LibAUC": ("#a05a00", "--"),
}
GAP = 0.055
"""How far labels stay apart, as a share of the height."""


def draw(results: Sequence[Mapping[str, object]], path: Path) -> None:
    """Write the figure as SVG, the same bytes for the same results.

    Args:
        results: What is kept of each device; one without peers has no panel.
        path: Where to; a suffix other than .svg gives that format.
    """
    with_peers = [kept for kept in results if kept.get("peers")]
    # The salt makes names inside the file repeatable; letters are drawn, so that no font is needed to look at it.
    with mpl.rc_context({"svg.hashsalt": "scorewise", "svg.fonttype": "path", "font.size": 10}):
        figure = Figure(figsize=(8.4, 4.8 * len(with_peers)), facecolor="white", layout="constrained")
        for axes, kept in zip(figure.subplots(len(with_peers), squeeze=False)[:, 0], with_peers, strict=True):
            _panel(axes, kept["peers"], f"{kept['device'].upper()}: {kept['on']}")
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


def _panel(axes: Axes, rows: Rows, title: str) -> None:
    """One device."""
    ends: dict[str, tuple[int, float]] = {}
    for what, (colour, dashes) in STYLES.items():
        mine = sorted((row for row in rows if row["what"] == what and "microseconds" in row), key=lambda row: row["n"])
        if not mine:
            continue
        n = [row["n"] for row in mine]
        low, middle, high = ([row[name] / 1e3 for row in mine] for name in ("low", "microseconds", "high"))
        axes.fill_between(n, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(n, middle, dashes, color=colour, linewidth=1.8)
        ends[what] = n[-1], middle[-1]
    least, most = min(row["n"] for row in rows), max(n for n, _ in ends.values())
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(least, most * (most / least) ** 0.4)  # room for the labels
    powers = [round(math.log2(end)) for end in (least, most)]
    axes.set_xticks([1 << k for k in range(powers[0], powers[1] + 1, max(3, math.ceil((powers[1] - powers[0]) / 5)))])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{int(n):,}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("samples in a batch")
    axes.set_ylabel("milliseconds, forward and backward")
    axes.set_title(title, loc="left")
    bottom, top = (math.log10(end) for end in axes.get_ylim())
    heights = {what: (math.log10(y) - bottom) / (top - bottom) for what, (_, y) in ends.items()}
    for what, place in _places(ends, heights):
        n, y = ends[what]
        axes.annotate(
            what,
            (n, y),
            xytext=(1.25 * n, 10 ** (bottom + place * (top - bottom))),
            va="center",
            color=STYLES[what][0],
            arrowprops={"arrowstyle": "-", "color": STYLES[what][0], "linewidth": 0.6, "relpos": (0, 0.5)},
        )


def _places(ends: Mapping[str, tuple[int, float]], heights: Mapping[str, float]) -> list[tuple[str, float]]:
    """Heights of labels, moved up where they would overlap; lines that end elsewhere are not in the way."""
    placed: list[tuple[str, float]] = []
    for what, height in sorted(heights.items(), key=lambda item: item[1]):
        below = [place for other, place in placed if ends[other][0] == ends[what][0]]
        placed.append((what, max([height, *(place + GAP for place in below)])))
    return placed
