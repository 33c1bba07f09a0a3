"""Tables of the results, in Markdown.

    python -m benchmarks.quality.tables [--reference NAME] [--methods NAME ...] [--out FOLDER]

A pair is a set and a score of it. Scores are averaged over the seeds that all methods have, then compared pair by pair.
A method whose fit broke is last there.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, wilcoxon

from benchmarks.quality import data, goals, results
from benchmarks.quality.methods import BASELINES, MAIN

PAGE = Path(__file__).parent.parent / "QUALITY.md"

Pair = tuple[str, str]
TIE = 1e-9
"""Scores that differ by less are equal."""


@dataclass(frozen=True)
class Grid:
    """Scores of methods, averaged over seeds.

    Attributes:
        methods: Names, in the order of columns.
        values: For each pair the score of each method; minus infinity if a fit broke.
        seeds: How many seeds were averaged, for each pair.
        missing: Pairs that some method has no common seed for; they are in no table.
    """

    methods: tuple[str, ...]
    values: dict[Pair, list[float]]
    seeds: dict[Pair, int]
    missing: list[Pair]


@dataclass(frozen=True)
class Duel:
    """A reference against another method, over all pairs."""

    other: str
    wins: int
    ties: int
    losses: int
    gain: float
    p: float
    holm: float


def grid(rows: Iterable[results.Row], methods: Sequence[str] | None = None, *, of: str = "test") -> Grid:
    """Average over seeds.

    Args:
        rows: Results.
        methods: The columns; all that there are if None.
        of: Whether to take scores on "test" or on "validation" rows.
    """
    rows = list(rows)
    columns = tuple(methods or dict.fromkeys(str(row["method"]) for row in rows))
    found: dict[Pair, dict[str, dict[int, float]]] = {}
    for row in rows:
        if row["method"] in columns:
            value = -math.inf if row[of] is None else float(row[of])
            by_method = found.setdefault((str(row["set"]), str(row["score"])), {})
            by_method.setdefault(str(row["method"]), {})[int(row["seed"])] = value
    values, seeds, missing = {}, {}, []
    for pair in sorted(found, key=_place):
        have = [found[pair].get(method, {}) for method in columns]
        common = set.intersection(*(set(some) for some in have))
        if common:
            values[pair] = [statistics.mean(some[seed] for seed in common) for some in have]
            seeds[pair] = len(common)
        else:
            missing.append(pair)
    return Grid(columns, values, seeds, missing)


def mean_ranks(scores: Grid) -> list[float]:
    """The mean over pairs of each method's rank: 1 is best, and equals share the mean of their ranks."""
    ranks = [
        rankdata([-round(value / TIE) * TIE if math.isfinite(value) else math.inf for value in row])
        for row in scores.values.values()
    ]
    return [float(rank) for rank in np.mean(ranks, axis=0)]


def duels(scores: Grid, reference: str) -> list[Duel]:
    """The reference against each other method: Wilcoxon's signed-rank test over pairs, by Holm for all methods.

    Args:
        scores: The scores.
        reference: One of the methods.
    """
    place = scores.methods.index(reference)
    found = []
    for k, other in enumerate(scores.methods):
        if k == place:
            continue
        differences = [_difference(row[place], row[k]) for row in scores.values.values()]
        wins, losses = sum(d > TIE for d in differences), sum(d < -TIE for d in differences)
        told = [d for d in differences if abs(d) > TIE]
        finite = [d for d in differences if math.isfinite(d)]
        # ranks of the differences are all that counts: any number larger than the rest will do for an infinite one
        p = float(wilcoxon(np.nan_to_num(told, posinf=1e9, neginf=-1e9)).pvalue) if told else 1.0
        gain = statistics.mean(finite) if finite else math.nan
        found.append((other, wins, len(differences) - wins - losses, losses, gain, p))
    return [Duel(*duel, adjusted) for duel, adjusted in zip(found, holm([duel[-1] for duel in found]), strict=True)]


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: below α for those that all together are wrong with probability at most α."""
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, k in enumerate(sorted(range(len(p)), key=lambda k: p[k])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[k]))
        adjusted[k] = largest
    return adjusted


def page(
    rows: Collection[results.Row],
    reference: str,
    methods: Sequence[str] | None = None,
    *,
    seconds: bool = True,
    validation: bool = False,
) -> str:
    """All tables.

    Args:
        rows: Results.
        reference: The method that the others are compared with; without results of it, none are.
        methods: The columns; all that there are if None.
        seconds: Whether to tell how long fits took.
        validation: Whether to tell ranks on validation rows, too.
    """
    scores = grid(rows, methods)
    if not scores.values:
        return "No set and score has results of all methods yet."
    known = mean_ranks(grid(rows, methods, of="validation")) if validation else None
    lines = [_summary(scores), "", *_means(scores, known), ""]
    if reference in scores.methods and len(scores.methods) > 1:
        lines += [*_duels(scores, reference), ""]
    lines += _pairs(scores)
    if seconds:
        lines += ["", *_seconds(rows, scores.methods)]
    if scores.missing:
        lines += [
            "",
            "Not in these tables, for want of results: " + ", ".join(" ".join(p) for p in scores.missing) + ".",
        ]
    broken = [row for row in rows if row["error"] is not None and row["method"] in scores.methods]
    if broken:
        lines += ["", "Fits that broke:\n"]
        lines += [f"- {' '.join(str(part) for part in results.key(row))}: {row['error']}" for row in broken]
    return "\n".join(lines)


def _summary(scores: Grid) -> str:
    sets = len({name for name, _ in scores.values})
    seeds = sorted(set(scores.seeds.values()))
    told = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{len(scores.values)} pairs of {sets} sets and their scores, {told} seeds."


def _means(scores: Grid, known: list[float] | None) -> list[str]:
    names = [name for name in goals.names() if any(score == name for _, score in scores.values)]
    lines = ["Mean over sets on test rows (cost: minus the cost per row), and mean rank over pairs:\n"]
    last = ["rank"] if known is None else ["rank", "rank on validation rows"]
    lines.append(f"| | {' | '.join([*names, *last])} |\n|---|{'---:|' * (len(names) + len(last))}")
    ranks = mean_ranks(scores)
    for k in sorted(range(len(scores.methods)), key=lambda k: ranks[k]):
        cells = [
            _cell(statistics.mean(row[k] for (_, score), row in scores.values.items() if score == name))
            for name in names
        ]
        cells += [f"{some[k]:.2f}" for some in (ranks, known) if some is not None]
        lines.append(f"| {scores.methods[k]} | {' | '.join(cells)} |")
    return lines


def _duels(scores: Grid, reference: str) -> list[str]:
    lines = [f"{reference} against each other method, over pairs:\n"]
    lines.append("| | wins | ties | losses | mean gain | Wilcoxon's p | by Holm |\n|---|---:|---:|---:|---:|---:|---:|")
    lines += [
        f"| {d.other} | {d.wins} | {d.ties} | {d.losses} | {d.gain:+.4f} | {d.p:.4f} | {d.holm:.4f} |"
        for d in duels(scores, reference)
    ]
    lines.append("\nScores of one set are not independent: a p-value over pairs is too small rather than too large.")
    return lines


def _pairs(scores: Grid) -> list[str]:
    lines = [
        "Each pair, the best in bold:\n",
        f"| | | {' | '.join(scores.methods)} |\n|---|---|{'---:|' * len(scores.methods)}",
    ]
    for (name, score), row in scores.values.items():
        top = max(row)
        cells = [f"**{_cell(value)}**" if top - value < TIE else _cell(value) for value in row]
        lines.append(f"| {name} | {score} | {' | '.join(cells)} |")
    return lines


def _seconds(rows: Iterable[results.Row], methods: Sequence[str]) -> list[str]:
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["error"] is None:
            found.setdefault(str(row["set"]), {}).setdefault(str(row["method"]), []).append(float(row["seconds"]))
    lines = ["Median seconds of a fit:\n", f"| | {' | '.join(methods)} |\n|---|{'---:|' * len(methods)}"]
    for name in sorted(found, key=lambda name: _place((name, ""))):
        cells = [f"{statistics.median(found[name][m]):.1f}" if m in found[name] else "" for m in methods]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _difference(a: float, b: float) -> float:
    return 0.0 if a == b else a - b  # two broken fits are equal


def _cell(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "broke"


def _place(pair: Pair) -> tuple[int, str, int]:
    """Sets and scores in the order in which they are run; what is unknown comes last."""
    name, score = pair
    sets, scores = data.names(), goals.names()
    return (
        sets.index(name) if name in sets else len(sets),
        name,
        scores.index(score) if score in scores else len(scores),
    )


def write() -> None:
    """Make benchmarks/QUALITY.md of the results that are kept."""
    rows = results.read(results.FOLDER).values()
    first = data.quick()
    main = [row for row in rows if row["method"] in MAIN]
    tried = {(row["set"], row["score"]) for row in rows if row["method"] not in MAIN}
    others = [row for row in rows if row["method"] not in BASELINES and (row["set"], row["score"]) in tried]
    text = _PAGE.format(
        chosen=", ".join(first),
        main=page([row for row in main if row["set"] in first], "scorewise"),
        further=page([row for row in main if row["set"] not in first], "scorewise"),
        ingredients=page(others, "scorewise", seconds=False, validation=True),
    )
    PAGE.write_text(text, encoding="utf-8")


_PAGE = """# Quality

This page is made by `make quality`, from the results in `results/quality.json`.

Every method is fitted to the same rows, and chooses thresholds and whatever else it chooses on the same validation
rows; what is told are scores on rows that none has seen. Tables are cut at random, 60/20/20, series in order of time,
with a gap between the parts; of large sets at most 20,000 rows are fitted to. Scores that begin with *w* are
value-weighted (`Value(PUBLISHED)`); *cost* is minus the mean cost, a miss being worth five false alarms. The *_tuned*
have the exactly best threshold. `scorewise` is `ScoreClassifier` with its defaults. Seconds are of one thread, and of a
machine that was doing other things too.

The defaults were chosen in trials on the first six sets, {chosen}, with an eye on their test rows: the first tables
flatter scorewise. The tables after them are of sets that had no part in it.

## Six sets

{main}

## Sets that had no part in any choice

{further}

## Ingredients

`ScoreClassifier` with one thing changed at a time: *share_…* is the share of the score in the loss, and *half_…* has
half of it. What could be chosen before the test rows are seen is the best on validation rows; these have been used by
every fit to choose a moment and a threshold, and by those with several shares to choose one of them.

{ingredients}
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables of all that there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", default="scorewise")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="the columns; all by default")
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="where results are kept")
    options = parser.parse_args(argv)
    print(page(results.read(options.out).values(), options.reference, options.methods))


if __name__ == "__main__":
    main()
