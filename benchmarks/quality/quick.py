"""A small part of the comparison, held against figures that are kept beside this file.

    python -m benchmarks.quality.quick --write [--runs N]
    python -m benchmarks.quality.quick --spoiled

The first makes the figures anew: means over runs, and how far one may fall below them. The second tells which spoiled
recipes would be seen.

A single fit says little: by its seed alone a score changes by hundredths. So the task is made up, and of it there is as
much as wanted: many short stretches to fit to and to choose by, which are the same in every run, and one long stretch
to judge by. What is left between runs is what methods do by chance, and the mean of many fits has little of it. What
the threshold gains is told by itself, of the same trainings; what the ensemble gains would be lost in chance even so.
Stretches are short, since what a recipe does well shows where there is little to learn from.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import cpu_count, delayed
from scipy.signal import lfilter
from scipy.special import expit

import scorewise as sw
from benchmarks import command, regression
from benchmarks.quality import goals
from benchmarks.quality.data import Task
from benchmarks.quality.deciding import Decider
from benchmarks.quality.goals import Goal
from benchmarks.quality.methods import METHODS
from benchmarks.quality.rows import Rows

FIGURES = Path(__file__).with_name("quick.json")
FITTED, CHOSEN, BETWEEN, JUDGED = 200, 40, 20, 2000
"""Rows of a stretch to fit to, of one to choose by, between stretches, and to judge by."""
MOST = 64
"""Stretches that there are."""
WORKERS = min(MOST, cpu_count())
"""Processes that share them."""
PERSISTENCE = 0.7
"""How much of a feature stays from one step to the next: events come in runs."""
GOALS = tuple(goal for goal in (*goals.TABLE, *goals.SERIES) if goal.name in ("f1", "wtss"))
"""A plain score and a value-weighted one: figures are of both, in the mean."""


@dataclass(frozen=True)
class Figure:
    """What is made of stretches, with a seed for each: a mean over these and over both scores.

    Attributes:
        method: By the name that the comparison has for it.
        fits: On how many stretches.
        beside: Another method, if what is told is the gain on it. Such a gain falls, too, if the other method gets
            better; if that is all there is to it, the figures are made anew.
    """

    method: str
    fits: int
    beside: str | None = None

    @property
    def name(self) -> str:
        """What the figure is kept under."""
        return f"{self.method} beside {self.beside}" if self.beside else self.method

    def value(self, made: Mapping[str, Sequence[Decider]], test: Rows) -> float:
        """What it is on one stretch.

        Args:
            made: Of each method what it made for the scores.
            test: Rows to judge by.
        """

        def mean(name: str) -> float:
            return statistics.mean(_judged(*one, test) for one in zip(made[name], GOALS, strict=True))

        return mean(self.method) - (mean(self.beside) if self.beside else 0.0)


OURS = (Figure("defaults", MOST), Figure("defaults", MOST, beside="best_threshold"))
BY_CHANCE = (*OURS, *(Figure(name, MOST // 4) for name in ("plug_in", "wbce_tuned", "focal_tuned")))
WHAT = (*BY_CHANCE, *(Figure(name, MOST // 8) for name in ("hgb_tuned", "logistic_balanced_tuned")))
"""The last two are the same in every run."""

SPOILED: dict[str, dict[str, Any]] = {
    "20 steps": {"steps": 20},
    "half of the steps": {"steps": 83},
    "ten times the learning rate": {"learning_rate": 0.1},
    "the score alone from a random start": {"share": 1.0, "warm_up": 0.0},
    "one moment alone": {"ensemble": None},
    "the best threshold alone": {"tune": "best"},
    "both of these": {"ensemble": None, "tune": "best"},
}
"""Defaults of ScoreClassifier that somebody might have changed by mistake."""
RUNS = 16
"""To make the figures of."""


def _judged(decider: Decider, goal: Goal, test: Rows) -> float:
    matrix = goal.matrix(decider.decide(test.X), test.y, **test.context)
    return goal.value(matrix, len(test.y))


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


def measure(run: int, what: Sequence[Figure] = WHAT, **defaults: Any) -> regression.Scores:
    """The figures; another run has other seeds, and the same stretches.

    Args:
        run: Its number.
        what: Which figures.
        **defaults: Parameters of ScoreClassifier whose defaults are others meanwhile.
    """
    found: dict[str, list[float]] = {}
    stretches = range(max(figure.fits for figure in what))
    tasks = (delayed(_on_one)(k, run * MOST + k, what, defaults) for k in stretches)
    with command.spread(tasks, WORKERS) as working:
        for values in working:
            for name, value in values.items():
                found.setdefault(name, []).append(value)
    return {figure.name: statistics.mean(found[figure.name]) for figure in what}


def _on_one(k: int, seed: int, what: Sequence[Figure], defaults: Mapping[str, Any]) -> dict[str, float]:
    """The figures that have a fit on a stretch, there."""
    command.be_one_of_several()
    train, validation, test = parts(k)
    here = [figure for figure in what if k < figure.fits]
    names = dict.fromkeys(name for figure in here for name in (figure.method, figure.beside) if name)
    with changed(**defaults):
        made = {name: METHODS[name].fit(train, validation, GOALS, seed) for name in names}
    return {figure.name: figure.value(made, test) for figure in here}


@contextlib.contextmanager
def changed(**defaults: Any) -> Iterator[None]:
    """ScoreClassifier with other defaults, for a while.

    Args:
        **defaults: Some of its parameters.
    """
    kept: dict[str, Any] = sw.ScoreClassifier.__init__.__kwdefaults__
    before = dict(kept)
    unknown = sorted(set(defaults) - set(before))
    if unknown:
        raise ValueError(f"{unknown[0]} is no parameter of ScoreClassifier.")
    kept.update(defaults)
    try:
        yield
    finally:
        kept.update(before)


def main() -> int:
    """Measure once and compare: 0 if all is as it was, 1 if not."""
    print("the comparison in short: two minutes or so", flush=True)
    return regression.hold(FIGURES, measure)


def spoiled() -> None:
    """Tell of each spoiled recipe what would be said of it, in a run that has no part in the figures."""
    kept = regression.read(FIGURES)
    ours = {figure.name: kept[figure.name] for figure in OURS}
    for words, defaults in ({"nothing": {}} | SPOILED).items():
        scores = measure(RUNS, OURS, **defaults)
        told = ", ".join(
            f"{name} {scores[name] - one['mean']:+.4f} (margin {one['margin']:.4f})" for name, one in ours.items()
        )
        print(f"{words}: {'seen' if regression.worse(scores, ours) else 'not seen'}: {told}", flush=True)


def make() -> None:
    """The command that makes the figures anew, or tells of spoiled recipes."""
    if sys.argv[1:] == ["--spoiled"]:
        with command.stoppable("stopped."):
            spoiled()
    else:
        fits = {figure.name: figure.fits for figure in BY_CHANCE}
        regression.main(__doc__, FIGURES, measure, RUNS, fits)


if __name__ == "__main__":
    from benchmarks.quality import quick  # noqa: PLW0406  # by this name other processes find it, not as __main__

    quick.make()
