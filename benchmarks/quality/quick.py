"""A small part of the comparison, held against figures that are kept beside this file.

    python -m benchmarks.quality.quick --write [--runs N]

makes the figures anew: means over runs, and how far one may fall below them.

A single fit says little: by its seed alone a score changes by hundredths. So the task is made up, and of it there is as
much as wanted: many short stretches to fit to and to choose by, which are the same in every run, and one long stretch
to judge by. What is left between runs is what methods do by chance, and the mean of many fits has little of it.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.special import expit

from benchmarks import regression
from benchmarks.quality import goals
from benchmarks.quality.data import Task
from benchmarks.quality.methods import METHODS
from benchmarks.quality.rows import Rows

FIGURES = Path(__file__).with_name("quick.json")
FITTED, CHOSEN, BETWEEN, JUDGED = 400, 100, 20, 4000
"""Rows of a stretch to fit to, of one to choose by, between stretches, and to judge by."""
MOST = 40
"""Stretches that there are."""
PERSISTENCE = 0.7
"""How much of a feature stays from one step to the next: events come in runs."""


@dataclass(frozen=True)
class Figure:
    """Fits of a method to stretches, each with a seed of its own, judged by one score.

    Attributes:
        method: By the name that the comparison has for it.
        score: One of the comparison's; a value-weighted one, or one of the others.
        fits: How many.
    """

    method: str
    score: str
    fits: int

    @property
    def name(self) -> str:
        """What the figure is kept under."""
        return f"{self.method} {self.score}"


WHAT = (
    Figure("scorewise", "wtss", MOST),
    Figure("scorewise", "f1", 24),
    Figure("plug_in", "wtss", 16),
    Figure("wbce_tuned", "wtss", 12),
    *(Figure(name, "wtss", 8) for name in ("focal_tuned", "hgb_tuned", "logistic_balanced_tuned")),
)


@cache
def task() -> Task:
    """Three features of which the events depend, not linearly, two of which are missing at times, and a category."""
    n = MOST * (FITTED + CHOSEN + 2 * BETWEEN) + JUDGED
    g = np.random.default_rng(0)
    noise = math.sqrt(1 - PERSISTENCE**2) * g.standard_normal((n, 4))
    u = lfilter([1.0], [1.0, -PERSISTENCE], noise, axis=0)
    kind = g.integers(0, 4, n)
    log_odds = (
        2 * np.sin(2 * u[:, 0]) + 1.5 * u[:, 1] * u[:, 2] + u[:, 3] + np.array([-1.0, -0.3, 0.3, 1.0])[kind] - 2.2
    )
    y = (g.random(n) < expit(log_odds)).astype(np.int64)
    X = pd.DataFrame({f"u{k}": u[:, k] for k in range(4)})
    X.loc[g.random(n) < 0.2, "u3"] = np.nan
    X["kind"] = pd.Categorical.from_codes(kind, list("abcd"))
    return Task("made up", X, y, None, np.arange(n), 1, "series", "drawn at random")


def parts(k: int) -> tuple[Rows, Rows, Rows]:
    """The stretches of a number to fit to and to choose by, and the rows to judge by, which are the same for all."""
    start = k * (FITTED + CHOSEN + 2 * BETWEEN)
    fitted = np.arange(start, start + FITTED)
    chosen = np.arange(fitted[-1] + 1 + BETWEEN, fitted[-1] + 1 + BETWEEN + CHOSEN)
    judged = np.arange(len(task().y) - JUDGED, len(task().y))
    train, validation, test = (Rows.of(task(), rows) for rows in (fitted, chosen, judged))
    return train, validation, test


def measure(run: int) -> regression.Scores:
    """The mean score of each figure's fits; another run has other seeds, and the same stretches."""
    known = {goal.name: goal for goal in (*goals.TABLE, *goals.SERIES)}
    found: dict[str, list[float]] = {}
    for k in range(max(figure.fits for figure in WHAT)):
        train, validation, test = parts(k)
        for figure in (one for one in WHAT if k < one.fits):
            goal = known[figure.score]
            (decider,) = METHODS[figure.method].fit(train, validation, [goal], run * MOST + k)
            matrix = goal.matrix(decider.decide(test.X), test.y, **test.context)
            found.setdefault(figure.name, []).append(goal.value(matrix, len(test.y)))
    return {name: statistics.mean(values) for name, values in found.items()}


def main() -> int:
    """Measure once and compare: 0 if all is as it was, 1 if not."""
    print("the comparison in short: two minutes or so", flush=True)
    return regression.hold(FIGURES, measure)


if __name__ == "__main__":
    regression.main(__doc__, FIGURES, measure, runs=6)
