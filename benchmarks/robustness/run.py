"""Try random inputs and the case that is known to collapse, and keep what came of it.

    python -m benchmarks.robustness [--quick] [--only fuzz|collapse] [--inputs N] [--seeds N] [--out FOLDER]
    python -m benchmarks.robustness --replay TARGET:NUMBER[-NUMBER]

A run which was stopped goes on where it was: fits and counts of as many inputs that were made with the same code and
libraries on this machine are not made again; --again makes all anew. Committed results do not give way to those of
fewer inputs or seeds, which are for another folder. The quick form keeps nothing, and its classifiers take fewer rows
and steps. The exit code is 1 if any input failed, or if a classifier of ours collapsed.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import command
from benchmarks.quality import results
from benchmarks.robustness import collapse, fuzz, keep, tables
from benchmarks.robustness.fuzz import PropertyError, Target

INPUTS, SEEDS = 200_000, 20
QUICK_INPUTS, QUICK_SEEDS = 3_000, 2
QUICK_ROWS, QUICK_STEPS = 3_000, 40
SHARES = {
    "ScoreLoss": 0.28,
    "confusion_matrix": 0.26,
    "expected_confusion_matrix": 0.14,
    "curves": 0.16,
    "classes": 0.1,
    "metrics": 0.04,
    "evaluate": 0.01,
    "command line": 0.01,
}
"""The share of inputs of each target: the less, the longer one takes."""


def targets() -> dict[str, Target]:
    """What is fed with random inputs, by name."""
    from benchmarks.robustness import (
        binary,
        classes,
        curves,
        files,
    )  # oracles and the command line take a while to load

    return binary.TARGETS | curves.TARGETS | classes.TARGETS | files.TARGETS


def fuzzed(inputs: int, known: dict[str, keep.Record], done: Callable[[keep.Record], None]) -> bool:
    """Try so many inputs of all targets; whether none failed.

    Args:
        inputs: How many in all.
        known: Records that need not be made again, if they are of as many inputs and `keep.current`.
        done: Is given each new record.
    """
    sound = True
    for name, target in targets().items():
        count = _share(inputs, name)
        record = known.get(name)
        if record is None or record["inputs"] != count or not keep.current(record):
            tally = fuzz.run(name, target, range(count), partial(_tell, name))
            record = tally.record()
            done(record)
        refused, failed = sum(record["refused"].values()), len(record["failures"])
        print(
            f"{name}: {record['inputs']:,} inputs, {record['accepted']:,} accepted ({record['compared']:,} compared "
            f"with an oracle), {refused:,} refused, {failed} failed, {record['seconds']} s",
            flush=True,
        )
        sound = sound and not failed
    return sound


def _share(inputs: int, name: str) -> int:
    return round(inputs * SHARES[name])


def _tell(name: str, seed: int, what: str) -> None:
    """Print a failure, as `--replay` names it."""
    print(f"{name}:{seed} {what}", flush=True)


def span(what: str) -> tuple[str, range]:
    """One input or several, ``target:3`` or ``target:3-9``: the target's name, and the numbers.

    Raises:
        ValueError: If that is none.
    """
    known = targets()
    told = re.fullmatch(r"(.*):([0-9]+)(?:-([0-9]+))?", what)
    name, first, last = told.groups() if told else ("", "0", None)
    numbers = range(int(first), int(last or first) + 1)
    if name not in known or not numbers:
        raise ValueError(
            f"--replay takes TARGET:NUMBER or TARGET:FIRST-LAST, the first no greater than the last, saw {what!r}; "
            f"targets are {', '.join(known)}."
        )
    return name, numbers


def replayed(name: str, numbers: range) -> bool:
    """Try inputs of a target again, and tell what comes of each; whether none failed."""
    known = targets()
    sound = True
    for seed in numbers:
        print(f"{name}:{seed}", end=" ", flush=True)  # before it runs: whatever ends the process is found here
        flaw = known[name](random.Random(f"{name}:{seed}")).flaw  # noqa: S311  # no secret
        print(f"({flaw or 'sound'})", end=" ", flush=True)
        try:
            told, compared = fuzz.judge(known[name], name, seed)
        except PropertyError as failure:
            sound = False
            print(f"FAILED: {failure}")
        else:
            print(f"refused: {told[1]}" if told else f"accepted{', equal to the oracle' if compared else ''}")
    return sound


def collapses(
    ways: Sequence[collapse.Way],
    seeds: int,
    known: dict[results.Key, results.Row],
    done: Callable[[results.Row], None],
    n: int = collapse.N,
) -> bool:
    """Fit all ways to all scores and seeds; whether none of ours collapsed.

    Args:
        ways: The ways.
        seeds: How many.
        known: Results that need not be made again, if they are `keep.current`.
        done: Is given each new result.
        n: Rows of the data.
    """
    sound = True
    started = time.perf_counter()
    for way in ways:
        for score in collapse.SCORES:
            found = []
            for seed in range(seeds):
                row = known.get((collapse.SET, score, way.name, seed))
                if row is None or not keep.current(row):
                    row = collapse.outcome(way, score, seed, n)
                    done(row)
                found.append(row)
            gone = [int(row["seed"]) for row in found if collapse.collapsed(score, row["matrix"])]
            mean = sum(row["test"] for row in found) / len(found)
            print(
                f"{way.words}: {score} {mean:.3f}, {len(gone)} of {seeds} collapsed; "
                f"{time.perf_counter() - started:.0f} s so far",
                flush=True,
            )
            if way.ours and gone:
                print(f"COLLAPSED: {way.words}, {score}, seeds {gone}", flush=True)
                sound = False
    return sound


@command.stoppable()
def main(argv: Sequence[str] | None = None) -> None:
    """Run what is asked for, and exit with 1 if it shows a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small part, of which nothing is kept")
    parser.add_argument("--only", choices=("fuzz", "collapse"), help="one of the two parts")
    parser.add_argument("--inputs", type=command.number, help=f"random inputs of all targets (default: {INPUTS:,})")
    parser.add_argument("--seeds", type=command.number, help=f"seeds 0, 1, … of each fit (default: {SEEDS})")
    parser.add_argument("--out", type=Path, default=keep.FOLDER, help="where results are kept")
    parser.add_argument("--again", action="store_true", help="make known results anew")
    parser.add_argument("--replay", metavar="TARGET:NUMBER", help="try one random input again, or a span of them")
    options = parser.parse_args(argv)
    command.be_one_of_several()
    try:
        again = None if options.replay is None else span(options.replay)
        if again is None and not options.quick:
            _prepare(options)
    except ValueError as error:
        parser.error(str(error))
    if again is not None:
        raise SystemExit(0 if replayed(*again) else 1)
    sound = _quick(options) if options.quick else _full(options)
    if not sound:
        raise SystemExit(1)


def _forget(_: object) -> None:
    """Keep nothing."""


def _quick(options: argparse.Namespace) -> bool:
    """The part for every day: all targets, and our recipe on fewer rows with fewer steps."""
    sound = True
    if options.only != "collapse":
        sound = fuzzed(options.inputs or QUICK_INPUTS, {}, _forget)
    if options.only != "fuzz":
        ways = [way for way in collapse.ways(QUICK_STEPS) if way.ours]
        sound &= collapses(ways, options.seeds or QUICK_SEEDS, {}, _forget, QUICK_ROWS)
    return sound


def _prepare(options: argparse.Namespace) -> None:
    """Make the folder.

    Raises:
        ValueError: If there can be none, if it has what is no result, or if it is that of the committed results, and
            these are of more inputs or seeds.
    """
    inputs, seeds = options.inputs or INPUTS, options.seeds or SEEDS
    known, records = results.read(options.out), keep.records(options.out)
    counts = []
    if options.only != "collapse":
        shares = ((name, _share(inputs, name)) for name in SHARES if name in records)
        counts += [(f"--inputs {inputs}", name, share, records[name]["inputs"]) for name, share in shares]
    if options.only != "fuzz":
        counts.append((f"--seeds {seeds}", "each fit", seeds, len({seed for *_, seed in known})))
    if options.out.resolve() == keep.FOLDER.resolve():
        for option, what, count, kept in counts:
            if count < kept:
                raise ValueError(
                    f"{option} makes {count:,} of {what}, and {kept:,} are kept in {options.out}. Ask for no fewer, "
                    "or name another folder with --out."
                )
    results.prepare(options.out)


def _full(options: argparse.Namespace) -> bool:
    folder = options.out
    sound = True
    if options.only != "collapse":
        known = {} if options.again else keep.records(folder)
        rows = results.read(folder).values()
        sound = fuzzed(
            options.inputs or INPUTS, known, lambda record: keep.gather(folder, rows, {str(record["target"]): record})
        )
    if options.only != "fuzz":
        fits = {} if options.again else results.read(folder)
        sound &= collapses(collapse.ways(), options.seeds or SEEDS, fits, lambda row: results.put(folder, row))
        # what this run neither made nor took as it was is not part of its table
        keep.gather(folder, [row for row in results.read(folder).values() if keep.current(row)], {})
    if folder == keep.FOLDER:
        tables.write()
    return sound
