"""A small part of the comparison, held against figures that are kept beside this file.

    python -m benchmarks.quality.quick --write [--runs N]

makes the figures anew: means over runs, and how far one may fall below them. It needs nothing but what tests need: the
hours of Beijing, fewer of them, and the breast cancer set that comes with scikit-learn.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from sklearn.datasets import load_breast_cancer

from benchmarks import regression
from benchmarks.quality import data, goals
from benchmarks.quality.data import Task
from benchmarks.quality.methods import METHODS
from benchmarks.quality.rows import Rows

FIGURES = Path(__file__).with_name("quick.json")
WHAT = ("scorewise", "plug_in", "hgb_tuned")
SCORES = ("tss", "f1", "wtss", "whss")
ROWS = 3000
"""To fit on, at most."""
SEEDS = {"series": 3, "table": 6}
"""Of a run: a small table is soon fitted to, and has few rows to judge by."""


def tasks() -> list[Task]:
    """The sets."""
    cancer = load_breast_cancer(as_frame=True)
    # benign ones are more frequent
    table = Task("cancer", cancer.data, 1 - cancer.target.to_numpy(), None, None, 0, "table", "scikit-learn")
    return [data.load("beijing"), table]


def measure(run: int) -> regression.Scores:
    """The mean score of each method on each set, over scores and seeds."""
    found: dict[str, list[float]] = {}
    for task in tasks():
        wanted = [goal for goal in goals.of(task.kind) if goal.name in SCORES]
        train, validation, test = _parts(task)
        seeds = SEEDS[task.kind]
        for seed in range(run * seeds, (run + 1) * seeds):
            for name in WHAT:
                deciders = METHODS[name].fit(train, validation, wanted, seed)
                found.setdefault(f"{name} {task.name}", []).extend(
                    goal.value(goal.matrix(decider.decide(test.X), test.y, **test.context), len(test.y))
                    for goal, decider in zip(wanted, deciders, strict=True)
                )
    return {name: statistics.mean(some) for name, some in found.items()}


def _parts(task: Task) -> list[Rows]:
    """The same for every seed: what differs between runs is what methods do by chance."""
    split = data.split(task, 0)
    return [Rows.of(task, part) for part in (split.train[-ROWS:], split.validation, split.test)]


def main() -> int:
    """Measure once and compare: 0 if all is as it was, 1 if not."""
    print("the comparison in short: two minutes or so", flush=True)
    return regression.hold(FIGURES, measure)


if __name__ == "__main__":
    regression.main(__doc__, FIGURES, measure, runs=6)
