"""A small part of the pollution experiment, held against figures that are kept beside this file.

    python -m benchmarks.published.quick --write [--runs N]

makes the figures anew: the mean of each score over runs, and how far a run may fall below it.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks import regression
from benchmarks.published.data import GOALS, Experiment, pollution
from benchmarks.published.methods import METHODS, Effort, Outcome
from benchmarks.quality.goals import Goal

FIGURES = Path(__file__).with_name("quick.json")
WHAT = {
    "persistence": 1,
    "logistic": 1,
    "linear_score": 1,
    "linear_second": 1,
    "linear_levels": 1,
    "lstm_score_ensemble": 2,
}
"""Methods, and the seeds of a run: a network's score is a mean over some, as that of one tells little."""


def measure(run: int) -> regression.Scores:
    """Each method's score on the test rows, by "method score", where the score is what it was meant for."""
    experiment = pollution()
    found: dict[str, list[float]] = {}
    for name, seeds in WHAT.items():
        for seed in range(run * seeds, (run + 1) * seeds):
            outcomes = METHODS[name].fit(experiment, GOALS, seed, Effort())
            for goal, outcome in zip(GOALS, outcomes, strict=True):
                found.setdefault(f"{name} {goal.name}", []).append(_value(goal, outcome, experiment))
    return {name: statistics.mean(some) for name, some in found.items()}


def _value(goal: Goal, outcome: Outcome, experiment: Experiment) -> float:
    test = experiment.parts()[2]
    alarms = outcome.alarms[-len(test.rows) :].numpy()
    return float(goal.score(goal.matrix(alarms, test.y.numpy(), None, test.times.numpy())))


def main() -> int:
    """Measure once and compare: 0 if all is as it was, 1 if not."""
    print("the published experiment in short: a minute at most", flush=True)
    return regression.hold(FIGURES, measure)


if __name__ == "__main__":
    regression.main(__doc__, FIGURES, measure, runs=8)
