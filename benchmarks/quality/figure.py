"""Mean ranks as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

COLOURS = {"chosen": "#9aa7b5", "others": "#1f5fa8", "later": "#c8553d"}
LABELS = {
    "chosen": "sets on which defaults were chosen",
    "others": "sets that chose no default",
    "later": "series that came after the defaults",
}


def draw(methods: Sequence[str], ranks: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw the mean rank of each method, on each kind of sets.

    Args:
        methods: Names.
        ranks: The mean ranks of the methods, by the names of COLOURS.
        path: An SVG file.
    """
    order = sorted(range(len(methods)), key=lambda k: -sum(some[k] for some in ranks.values()))
    figure = Figure(figsize=(7.5, 0.32 * len(methods) + 1.1), layout="constrained")
    axes = figure.add_subplot()
    for place, k in enumerate(order):
        ends = [some[k] for some in ranks.values()]
        axes.plot([min(ends), max(ends)], [place, place], color="#d5dbe2", linewidth=2, zorder=1)
    for name, some in ranks.items():
        values = [some[k] for k in order]
        axes.scatter(values, range(len(order)), s=46, color=COLOURS[name], label=LABELS[name], zorder=2)
    axes.set_yticks(range(len(order)), [methods[k] for k in order])
    axes.set_xlabel("mean rank over pairs of a set and a score (1 is best)")
    axes.set_xlim(1, None)
    axes.grid(axis="x", color="#eceff3")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    axes.legend(frameon=False, loc="upper right")
    path.parent.mkdir(exist_ok=True)
    # the same picture of the same numbers, whenever it is drawn
    with mpl.rc_context({"svg.hashsalt": "scorewise"}):
        figure.savefig(path, metadata={"Date": None})
