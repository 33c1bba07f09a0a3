"""The page of the results, in Markdown, from the table alone."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.quality import results
from benchmarks.robustness import collapse, keep

PAGE = Path(__file__).parent.parent / "ROBUSTNESS.md"
MOST = 25
"""Kinds of messages to list."""

INTRODUCTION = """# Robustness

This page is made by `python -m benchmarks.robustness`, from `results/robustness.json`.
"""
FUZZ = """
## Random inputs

Every input is a call with all that can be told of samples: any score, prior and weight, float16 to float64, batches of
0 to 12 samples, one class only, masks that hide everything, unknown values where nothing counts, huge logits, several
labels, series that interleave. About a quarter are spoiled in one of {flaws} ways. What is sound must give finite
numbers in the score's range with finite gradients, equal to a slow and plain oracle where there is one; what is not
must be refused with one line by the package itself. Anything else is a failure, warnings included. `python -m
benchmarks.robustness --replay TARGET:NUMBER` makes one input again.
"""
COLLAPSE = """
## The case that collapses

`make_classification(n_samples=10_000, weights=[0.9, 0.1], random_state=seed)`, defaults otherwise: 20 features, 2 of
them informative and 2 redundant, 1 % of labels drawn anew; 6,400 rows to fit, 1,600 to choose by, 2,000 to judge by;
the seed is that of data, split and network. *As published*: a network of two layers of 64 from a random start, with
`ScoreLoss(score, prior=RaisedCosine(0.5, 0.1))` alone, {epochs} epochs of Adam, decided at 0.5. Cross entropy has the
same network, Adam 0.001 and batches of 128. A run has **collapsed** if on the held-out rows all of its decisions are of
one class, or if its score is no better than that of the better constant decision.

Scores of `ScoreClassifier` stand beside the others for orientation only: it has a network of its own. It trains for
cross entropy in the first half of its steps, then for half of it and half of the score. What predicts is the mean of up
to six moments of that, chosen greedily by the score on the rows to choose by (by log loss where scores are equal), at a
threshold half-way, in log-odds, between the best one there and the one that calibrated probabilities ask for. Not to
collapse is a property of this whole recipe, and says nothing of the loss alone.
"""


def page(rows: Iterable[results.Row], records: Mapping[str, keep.Record]) -> str:
    """The whole page.

    Args:
        rows: Fits.
        records: Counts of random inputs, by target.
    """
    rows = [row for row in rows if row["set"] == collapse.SET]
    parts = [INTRODUCTION]
    if records:
        parts += [FUZZ.format(flaws=len(_flaws(records))), _counts(records), _refusals(records), _failures(records)]
    if rows:
        parts += [COLLAPSE.format(epochs=collapse.EPOCHS), *(_fits(rows, score) for score in collapse.SCORES)]
    parts.append(_made(rows, records))
    return "".join(parts)


def write() -> None:
    """Write the page of the committed table."""
    PAGE.write_text(page(results.read(keep.FOLDER).values(), keep.records(keep.FOLDER)))


def _table(header: str, lines: Iterable[Iterable[object]], left: int = 1) -> str:
    columns = header.split("|")
    rule = ["---" if k < left else "---:" for k in range(len(columns))]
    rows = [columns, rule, *([str(cell) for cell in line] for line in lines)]
    return "\n" + "".join(f"| {' | '.join(cell.strip() for cell in row)} |\n" for row in rows)


def _flaws(records: Mapping[str, keep.Record]) -> set[str]:
    return {flaw for record in records.values() for flaw in record["flaws"] if flaw != "what cannot be had"}


def _counts(records: Mapping[str, keep.Record]) -> str:
    lines: list[list[object]] = []
    sums = [0, 0, 0, 0, 0]
    for name, record in records.items():
        numbers = [record["inputs"], record["accepted"], record["compared"]]
        numbers += [sum(record["refused"].values()), len(record["failures"])]
        sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        lines.append([name, *(f"{number:,}" for number in numbers), record["seconds"]])
    seconds = sum(float(record["seconds"]) for record in records.values())
    lines.append(["**all**", *(f"{number:,}" for number in sums), f"{seconds:.0f}"])
    return _table("target | inputs | accepted | equal to an oracle | refused | failed | seconds", lines)


def _refusals(records: Mapping[str, keep.Record]) -> str:
    kinds: Counter[str] = Counter()
    for record in records.values():
        kinds.update(record["refused"])
    shown = kinds.most_common(MOST)
    rest = len(kinds) - len(shown)
    told = f"\n{rest} more kinds are in the table of results.\n" if rest else ""
    escaped = ((kind.replace("|", "\\|").replace("<", "\\<"), f"{count:,}") for kind, count in shown)
    return "\nWhat was refused, by the beginning of the message:\n" + _table("message | inputs", escaped) + told


def _failures(records: Mapping[str, keep.Record]) -> str:
    lines = [
        (f"`{name}:{seed}`", what.replace("|", "\\|").replace("\n", " ")[:200])
        for name, record in records.items()
        for seed, what in record["failures"].items()
    ]
    return "\nWhat failed:\n" + _table("input | what", lines[:MOST], left=2) if lines else "\nNothing failed.\n"


def _fits(rows: Iterable[results.Row], score: str) -> str:
    by_method: dict[str, list[results.Row]] = {}
    for row in rows:
        if row["score"] == score:
            by_method.setdefault(str(row["method"]), []).append(row)
    if not by_method:
        return ""
    words = {way.name: way.words for way in collapse.ways()}
    lines = []
    # in the order of the ways; those that there are no more come last, by their names
    for name in [*(name for name in words if name in by_method), *sorted(by_method.keys() - words.keys())]:
        some = by_method[name]
        gone = sum(collapse.collapsed(score, row["matrix"]) for row in some)
        values = [float(row["test"]) for row in some]
        figures = [statistics.mean(values), min(values), max(values)]
        seconds = statistics.median(float(row["seconds"]) for row in some)
        lines.append(
            [words.get(name, name), f"{gone} of {len(some)}", *(f"{value:.3f}" for value in figures), f"{seconds:.1f}"]
        )
    matrices = [row["matrix"] for some in by_method.values() for row in some]
    least = [collapse.trivial(score, matrix) for matrix in matrices]
    told = f"{min(least):.3f}" if min(least) == max(least) else f"{min(least):.3f} to {max(least):.3f}"
    header = "way | collapsed | mean | least | most | seconds a fit"
    return f"\n**{score}**, held out; the better constant decision has {told}:\n" + _table(header, lines)


def _made(rows: Iterable[results.Row], records: Mapping[str, keep.Record]) -> str:
    """With what, where and when inputs and fits were made: a line for each that differs."""
    lines = []
    for what, made in (("targets of random inputs", [*records.values()]), ("fits", [*rows])):
        for versions in sorted({str(one["versions"]) for one in made}):
            dates = sorted({str(one["date"]) for one in made if one["versions"] == versions})
            when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
            some = sum(one["versions"] == versions for one in made)
            lines.append(f"- {some} of {len(made)} {what}, {when}: {versions}\n")
    return "\nMade with:\n\n" + "".join(lines) if lines else "\nThere are no results yet.\n"
