"""Figures that a quick run is held against, kept beside the code that makes them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Scores = dict[str, float]
"""By name; greater is better."""
Figures = Mapping[str, Mapping[str, float]]

LEAST = 0.01
"""A margin at least: another build of PyTorch may round an alarm or two away."""
DEVIATIONS = 4.0
"""A margin, in standard deviations over runs: chance crosses it once in thousands of runs."""


def figures(runs: Sequence[Scores]) -> Figures:
    """Means over runs, and margins from their spread."""
    found = {}
    for name in runs[0]:
        some = [one[name] for one in runs]
        spread = statistics.stdev(some) if len(some) > 1 else 0.0
        found[name] = {"mean": round(statistics.mean(some), 4), "margin": round(max(LEAST, DEVIATIONS * spread), 4)}
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


def hold(path: Path, measure: Callable[[int], Scores]) -> int:
    """Measure once and compare: 0 if all is as it was, 1 if not.

    Args:
        path: The figures.
        measure: From the number of a run, which is 0, to scores.
    """
    started = time.perf_counter()
    kept = json.loads(path.read_text())
    scores = measure(0)
    for name, value in scores.items():
        told = f" (kept: {kept[name]['mean']:.4f}, margin {kept[name]['margin']:.4f})" if name in kept else ""
        print(f"{name}: {value:.4f}{told}")
    lines = worse(scores, kept)
    print("\n".join(lines or ["nothing is worse than it was"]), f"[{time.perf_counter() - started:.0f} s]")
    return 1 if lines else 0


def write(path: Path, measure: Callable[[int], Scores], runs: int) -> None:
    """Make the figures anew, of so many runs."""
    path.write_text(json.dumps(figures([measure(run) for run in range(runs)]), indent=1) + "\n")
    print(path.read_text())
