"""The aims of the losses' speed on a CPU, and whether what was measured meets them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from benchmarks.timing import Rows

SECTIONS = {
    "times": "scores",
    "weights": "weights",
    "peers": "losses of others",
    "growth": "growth over n",
    "curves": "thresholds",
    "training": "a training step",
    "fits": "fits",
}
"""Where times are kept, and what the page calls them."""


@dataclass(frozen=True)
class Aim:
    """At most so much, in every measurement of it.

    Attributes:
        words: What takes so long.
        most: A ratio to what the table begins with, or seconds.
        n: Samples.
        lines: By the name of a section an expression for the names of its lines that measure this.
        seconds: Whether the limit is in seconds.
    """

    words: str
    most: float
    n: int
    lines: Mapping[str, str]
    seconds: bool = False

    def measured(self, rows: Rows, names: str) -> list[float]:
        """What the lines of a section say.

        Args:
            rows: The lines of the section.
            names: See `lines`.
        """
        some = (row for row in rows if row["n"] == self.n and "ratio" in row and row.get("over", "n") == "n")
        own = [row for row in some if re.fullmatch(names, str(row.get("what", "")))]
        return [row["microseconds"] / 1e6 if self.seconds else row["ratio"] for row in own]


_LOSS = {"times": "score .*", "weights": "no weight", "peers": "tss|f1"}
_VALUE = {"weights": "Value, (max|prod).*", "peers": "value-weighted tss.*", "growth": ""}
_FIT = {"fits": "ScoreClassifier"}
SMALL, LARGE, SEARCH = 4_096, 1_048_576, 2_097_152
AIMS = (
    Aim("a step, uniform prior", 4, SMALL, _LOSS),
    Aim("a step, uniform prior", 1.5, LARGE, _LOSS),
    Aim("a cdf", 10, LARGE, {"times": "cdf alone .*"}),
    Aim("a step with a value weight of 8 lags", 10, SMALL, _VALUE),
    Aim("a step with a value weight of 8 lags", 6, LARGE, _VALUE),
    Aim("the best threshold", 2, SEARCH, {"curves": "best_threshold, HSS.*"}),
    Aim("the best threshold, value-weighted", 3, SEARCH, {"curves": "best_threshold, value-weighted .*"}),
    Aim("a whole training step", 1.25, SMALL, {"training": "((?!accumulated|binary).)*"}),
    Aim("a whole training step, accumulated", 2, SMALL, {"training": ".*tss, accumulated.*"}),
    Aim("a fit to 10 columns", 10, 1_000, _FIT, seconds=True),
    Aim("a fit to 30 columns", 120, 50_000, _FIT, seconds=True),
)


def told(kept: Mapping[str, Rows]) -> list[str]:
    """A line of a table for each aim and each section that measured it; nothing where none did.

    Args:
        kept: The results, by section.
    """
    return list(chain.from_iterable(_lines(aim, kept) for aim in AIMS))


def _lines(aim: Aim, kept: Mapping[str, Rows]) -> list[str]:
    unit = "s" if aim.seconds else "×"
    lines = []
    for section, names in aim.lines.items():
        if found := aim.measured(kept.get(section, []), names):
            met = sum(one <= aim.most for one in found)
            low, high = f"{min(found):.2f}", f"{max(found):.2f}"
            verdict = "met" if met == len(found) else f"**missed** by {len(found) - met} of {len(found)}"
            lines.append(
                f"| {aim.words} | {aim.n:,} | {aim.most:g} {unit} | {SECTIONS[section]} "
                f"| {low if low == high else f'{low} to {high}'} {unit} | {verdict} |"
            )
    return lines
