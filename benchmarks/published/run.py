"""Run the published experiments, keep the results, write benchmarks/PUBLISHED.md.

    python -m benchmarks.published [--only pollution|stock] [--methods NAME ...] [--seeds N] [--out FOLDER] [--again]
    python -m benchmarks.published --quick

A result that is known already is not made again, so that a run which was stopped, by Ctrl-C or otherwise, goes on where
it was. --quick does a small part in less than a minute, writes nothing, and ends with 1 if a score is worse than it was
by more than chance makes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks import command, provenance
from benchmarks.provenance import span
from benchmarks.published import pages, quick
from benchmarks.published.data import EXPERIMENTS, GOALS, WEIGHT, Experiment
from benchmarks.published.methods import METHODS, Effort, Method, Outcome
from benchmarks.quality import results
from benchmarks.quality.goals import Goal
from scorewise.evaluation import evaluate

FOLDER = results.FOLDER.with_name("published")
GUESS = {
    "lstm_bce": 30.0,
    "lstm_score": 60.0,
    "lstm_corrected": 25.0,
    "lstm_second": 25.0,
    "lstm_levels": 150.0,
    "repeated": 30.0,
    "repeated_score": 90.0,
    "repeated_together": 300.0,
    "repeated_score_together": 900.0,
    "classifier": 20.0,
}
"""Seconds of a fit that nothing is known about, where it is more than one: for both scores together."""
DRAWS = 500
SEEDS = 10
"""As many as the committed results have."""


@dataclass(frozen=True)
class Job:
    """A method, a seed, and the goals whose results are missing."""

    experiment: str
    method: Method
    seed: int
    goals: tuple[Goal, ...]


def jobs(
    names: Sequence[str], seeds: int, known: dict[results.Key, results.Row], methods: Sequence[str] | None = None
) -> list[Job]:
    """What is missing; those with an error are.

    Args:
        names: Experiments.
        seeds: How many; a method without chance has the first only.
        known: Results that there are.
        methods: Names of methods; None: all.
    """
    found = []
    for name in names:
        for seed in range(seeds):
            for method in (METHODS[one] for one in methods or METHODS):
                rows = {goal: known.get((name, goal.name, method.name, seed)) for goal in GOALS}
                missing = tuple(goal for goal, row in rows.items() if row is None or row["error"] is not None)
                if missing and (method.random or seed == 0):
                    found.append(Job(name, method, seed, missing))
    return found


def judged(experiment: Experiment, job: Job, goal: Goal, outcome: Outcome, draws: int = DRAWS) -> results.Row:
    """A row: both scores on the test rows with their intervals, on the validation rows, and both matrices.

    What was chosen on validation rows, the epochs that vote, stands beside the scores on these.

    Args:
        experiment: The experiment.
        job: What was asked for.
        goal: The score that was meant.
        outcome: What came of it.
        draws: Resamples for intervals.
    """
    _, validation, test = experiment.parts()
    row = dict.fromkeys(results.COLUMNS) | {
        "set": experiment.name,
        "score": goal.name,
        "method": job.method.name,
        "seed": job.seed,
        "threshold": outcome.threshold,
        "seconds": round(outcome.seconds, 2),
        "versions": _versions(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    alarms = outcome.alarms.double().split([len(validation.rows), len(test.rows)])
    for name, part, own in (("validation", validation, alarms[0]), ("test", test, alarms[1])):
        found = evaluate(
            {"alarms": own},
            part.y,
            weight=WEIGHT,
            threshold=0.5,
            times=part.times,
            draws=draws if name == "test" else 0,
            block=experiment.block,
        ).models[0]
        if found.weighted is None:
            raise ValueError("a weight was passed, so there must be a weighted matrix.")
        row[name] = {"tss": round(found.plain.scores["tss"], 6), "wtss": round(found.weighted.scores["tss"], 6)}
        if name == "validation" and outcome.votes is not None:
            row[name] |= asdict(outcome.votes)
        if name == "test":
            both = ("tss", found.plain), ("wtss", found.weighted)
            row[name] |= {f"{key}_interval": [round(end, 4) for end in one.intervals["tss"]] for key, one in both}
            row["matrix"] = [round(cell) for cell in found.plain.cells]
            row["weighted"] = [round(cell, 4) for cell in found.weighted.cells]
    return row


def broken(job: Job, goal: Goal, error: Exception, seconds: float) -> results.Row:
    """The row of a fit that broke."""
    return dict.fromkeys(results.COLUMNS) | {
        "set": job.experiment,
        "score": goal.name,
        "method": job.method.name,
        "seed": job.seed,
        "seconds": round(seconds, 2),
        "versions": _versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "error": f"{type(error).__name__}: {error}"[:500],
    }


def run(todo: Sequence[Job], folder: Path, typical: dict[tuple[str, str], float], effort: Effort) -> None:
    """Do what is missing, keep every result at once, and tell how far it is."""
    guesses = [typical.get((job.experiment, job.method.name), GUESS.get(job.method.name, 1.0)) + 1 for job in todo]
    print(f"{len(todo)} fits, {span(sum(guesses))} or so", flush=True)
    began = time.perf_counter()
    loaded: dict[str, Experiment] = {}
    for k, job in enumerate(todo):
        if job.experiment not in loaded:
            loaded[job.experiment] = EXPERIMENTS[job.experiment]()
        experiment = loaded[job.experiment]
        started = time.perf_counter()
        try:
            outcomes = job.method.fit(experiment, job.goals, job.seed, effort)
            rows = [judged(experiment, job, goal, one) for goal, one in zip(job.goals, outcomes, strict=True)]
        except Exception as error:  # noqa: BLE001  # whatever breaks one fit must not end the run
            rows = [broken(job, goal, error, time.perf_counter() - started) for goal in job.goals]
        for row in rows:
            results.put(folder, row)
        passed = time.perf_counter() - began
        left = sum(guesses[k + 1 :]) * passed / sum(guesses[: k + 1])
        told = rows[0]["error"] or "; ".join(
            f"for {row['score']}: tss {row['test']['tss']:.4f}, wtss {row['test']['wtss']:.4f}" for row in rows
        )
        print(
            f"[{k + 1}/{len(todo)}] {job.experiment} seed {job.seed} {job.method.name}: {told}; {span(left)} left",
            flush=True,
        )


@command.stoppable()
def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and write the page, or do the quick form.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small part, held against figures that are kept")
    parser.add_argument("--seeds", type=command.number, default=SEEDS, help="seeds 0, 1, … (default: %(default)s)")
    parser.add_argument("--only", choices=list(EXPERIMENTS), help="one of the experiments")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), metavar="NAME", help="some of the methods")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where results are kept")
    parser.add_argument("--again", action="store_true", help="make known results anew")
    options = parser.parse_args(argv)
    command.be_one_of_several()
    if options.quick:
        return quick.main()
    try:
        known = results.read(options.out)
        results.prepare(options.out)
    except ValueError as error:
        parser.error(str(error))
    names = [options.only] if options.only else list(EXPERIMENTS)
    todo = jobs(names, options.seeds, {} if options.again else known, options.methods)
    # a fit serves both scores
    typical = {pair: 2 * seconds for pair, seconds in results.durations(known).items()}
    run(todo, options.out, typical, Effort())
    results.gather(options.out)
    text = pages.page(list(results.read(options.out).values()))
    if options.out == FOLDER:
        pages.PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _versions() -> str:
    count = torch.get_num_threads()
    threads = "1 thread" if count == 1 else f"{count} threads"
    return f"{provenance.versions('torch', 'scikit-learn', 'numpy', 'pandas')}, {threads} of {provenance.machine()}"
