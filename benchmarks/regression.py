"""Figures that a quick run is held against, kept beside the code that makes them."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from scipy.stats import t as student

from benchmarks import command
from scorewise import _files

Scores = dict[str, float]
"""By name; greater is better."""
Figures = Mapping[str, Mapping[str, float]]

CHANCE = 0.001
"""How likely a run is to fall below a figure's margin by chance alone."""
LEAST_RUNS = 2
LEAST, MOST = 0.01, 0.06
"""A margin at least, of one fit: another build of PyTorch may round an alarm or two away. At most: a wider one finds
nothing."""


def figures(runs: Sequence[Scores], fits: Mapping[str, int] = {}) -> Figures:
    """Means over runs, and margins from their spread.

    A margin is that of a one-sided prediction interval: of n runs with standard deviation s, Student's t of n - 1
    degrees of freedom times s √(1 + 1/n). Where scores of runs are normal, one more run falls below the mean by more
    with probability `CHANCE`, for each figure by itself. It is `LEAST` at least; of means of many fits, which are not
    all rounded the same way, less by the root of their number.

    Args:
        runs: Scores of at least two runs.
        fits: Of how many fits a score is the mean, if it is one of several that are due to chance.
    """
    n = len(runs)
    if n < LEAST_RUNS:
        raise ValueError(f"one run has no spread: at least {LEAST_RUNS} are needed, saw {n}.")
    times = student.isf(CHANCE, n - 1) * math.sqrt(1 + 1 / n)
    found = {}
    for name in runs[0]:
        some = [one[name] for one in runs]
        margin = max(LEAST / math.sqrt(fits.get(name, 1)), times * statistics.stdev(some))
        found[name] = {"mean": round(statistics.mean(some), 4), "margin": round(margin, 4)}
    return found


def worse(scores: Scores, kept: Figures) -> list[str]:
    """What fell below its figure by more than the margin, in words; also what is not there."""
    lines = [
        f"{name} was not measured, expected about {figure['mean']:.4f}"
        for name, figure in kept.items()
        if name not in scores
    ]
    for name, value in scores.items():
        if name not in kept:
            lines.append(f"{name} has no figure: make the figures anew with --write")
        elif not value >= kept[name]["mean"] - kept[name]["margin"]:  # NaN is worse, too
            least = kept[name]["mean"] - kept[name]["margin"]
            lines.append(f"{name} is {value:.4f}, expected at least {least:.4f}")
    return lines


def read(path: Path) -> Figures:
    """The figures that are kept in a file."""
    kept: Figures = json.loads(path.read_text())
    return kept


def hold(path: Path, measure: Callable[[int], Scores]) -> int:
    """Measure once and compare: 0 if all is as it was, 1 if not.

    Args:
        path: The figures.
        measure: From the number of a run, which is 0, to scores; ``--write`` of its module makes the figures.
    """
    torch.set_num_threads(1)  # small batches: a second thread would wait more than work
    started = time.perf_counter()
    if not path.exists():
        print(f"there are no figures to compare with: {path} is made by python -m {measure.__module__} --write")
        return 1
    kept = read(path)
    scores = measure(0)
    for name, value in scores.items():
        told = f" (kept: {kept[name]['mean']:.4f}, margin {kept[name]['margin']:.4f})" if name in kept else ""
        print(f"{name}: {value:.4f}{told}")
    lines = worse(scores, kept)
    print("\n".join(lines or ["nothing is worse than it was"]), f"[{time.perf_counter() - started:.0f} s]")
    return 1 if lines else 0


def main(
    told: str,
    path: Path,
    measure: Callable[[int], Scores],
    runs: int,
    fits: Mapping[str, int] = {},
) -> None:
    """The command of a module that makes figures anew, with ``--write`` and, if wanted, ``--runs``.

    Args:
        told: What the module says of itself.
        path: The figures.
        measure: As for `hold`.
        runs: How many, unless it is told.
        fits: As for `figures`.
    """
    parser = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", required=True, help="make the figures anew")
    parser.add_argument("--runs", type=int, default=runs, help="at least 2 (default: %(default)s)")
    options = parser.parse_args()
    if options.runs < LEAST_RUNS:
        parser.error(f"--runs must be at least {LEAST_RUNS}, since one run has no spread; saw {options.runs}")
    torch.set_num_threads(1)  # as quick forms do
    with command.stoppable("stopped: the figures are as they were."):
        write(path, measure, options.runs, fits)


def write(
    path: Path,
    measure: Callable[[int], Scores],
    runs: int,
    fits: Mapping[str, int] = {},
) -> None:
    """Make the figures anew, of so many runs: all of them, or the old ones stay."""
    scores = []
    for run in range(runs):
        print(f"run {run + 1} of {runs} ...", flush=True)
        scores.append(measure(run))
        command.go_on()
    found = figures(scores, fits)
    text = json.dumps(found, indent=1) + "\n"
    _files.write(path, lambda file: file.write(text.encode()))
    print(text, end="")
    for name, figure in found.items():
        if figure["margin"] > MOST:
            print(f"{name}: a margin of more than {MOST} finds nothing; measure it more often, or not at all")
