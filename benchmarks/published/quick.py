"""A small part of the pollution experiment, held against figures that are kept beside this file.

    python -m benchmarks.published.quick --write [--seeds N]

makes the figures anew: the mean of each score over seeds, and how far a run may fall below it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks import regression
from benchmarks.published.data import GOALS, Experiment, pollution
from benchmarks.published.methods import METHODS, Effort, Outcome

FIGURES = Path(__file__).with_name("quick.json")
EFFORT = Effort(epochs=30)
WHAT = ("persistence", "logistic", "linear_score", "linear_second", "lstm_score")


def measure(seed: int) -> regression.Scores:
    """Each method's score on the test rows, by "method score", where the score is what it was meant for."""
    experiment = pollution()
    test = experiment.parts()[2]
    found = {}
    for name in WHAT:
        outcomes = METHODS[name].fit(experiment, GOALS, seed, EFFORT)
        for goal, outcome in zip(GOALS, outcomes, strict=True):
            found[f"{name} {goal.name}"] = _value(goal.name, outcome, len(test.rows), experiment)
    return found


def _value(goal: str, outcome: Outcome, rows: int, experiment: Experiment) -> float:
    own = next(one for one in GOALS if one.name == goal)
    test = experiment.parts()[2]
    alarms = outcome.alarms[-rows:].numpy()
    return float(own.score(own.matrix(alarms, test.y.numpy(), None, test.times.numpy())))


def main() -> int:
    """Measure once and compare: 0 if all is as it was, 1 if not."""
    print("the published experiment in short: a minute at most", flush=True)
    return regression.hold(FIGURES, measure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", required=True, help="make the figures anew")
    parser.add_argument("--seeds", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)  # as the run does
    regression.write(FIGURES, measure, options.seeds)
