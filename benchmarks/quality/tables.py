"""Tables of the results, in Markdown.

    python -m benchmarks.quality.tables [--reference NAME] [--methods NAME ...] [--out FOLDER]

A pair is a set and a score of it. Scores are averaged over the seeds that all methods have, then compared pair by pair.
A method whose fit broke is last there.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, wilcoxon

from benchmarks.quality import data, goals, results
from benchmarks.quality.methods import MAIN, METHODS

EVERYWHERE = tuple(name for name in MAIN if not METHODS[name].costs)
BORROWING = ("bce_ensemble", "focal_ensemble")
"""Other losses with the moments and the threshold of ScoreClassifier: nobody's method, but what tells where it is from
that scorewise is good."""

Pair = tuple[str, str]
TIE = 1e-9
"""Scores that differ by less are equal."""
DRAWS = 10_000
"""Resamples of the sets."""


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
    """A reference against another method, over all pairs.

    Attributes:
        other: The other method.
        wins: Pairs in which the reference is better.
        ties: Pairs in which both are the same.
        losses: The other pairs.
        gain: The mean of what it is better by.
        interval: Where that mean lies in 95 % of resamples of the sets.
        p: Of Wilcoxon's signed-rank test over pairs.
        holm: The same, adjusted for all methods.
        by_set: Of the test over sets, each of which gives the mean over its scores: scores of a set go together.
        by_set_holm: The same, adjusted.
    """

    other: str
    wins: int
    ties: int
    losses: int
    gain: float
    interval: tuple[float, float]
    p: float
    holm: float
    by_set: float
    by_set_holm: float


def grid(rows: Iterable[results.Row], methods: Sequence[str] | None = None, *, of: str = "test") -> Grid:
    """Average over seeds.

    Args:
        rows: Results.
        methods: The columns; if None, those that are compared on all sets, or all if there are none of these.
        of: Whether to take scores on "test" or on "validation" rows.
    """
    rows = list(rows)
    known = dict.fromkeys(str(row["method"]) for row in rows)
    columns = tuple(methods or [name for name in EVERYWHERE if name in known] or known)
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
    """The reference against each other method, by Wilcoxon's signed-rank test, and by Holm for all methods.

    Args:
        scores: The scores.
        reference: One of the methods.
    """
    place = scores.methods.index(reference)
    found = []
    for k, other in enumerate(scores.methods):
        if k == place:
            continue
        by_pair = {pair: _difference(row[place], row[k]) for pair, row in scores.values.items()}
        differences = list(by_pair.values())
        wins, losses = sum(d > TIE for d in differences), sum(d < -TIE for d in differences)
        finite = [d for d in differences if math.isfinite(d)]
        gain = statistics.mean(finite) if finite else math.nan
        sets = dict.fromkeys(name for name, _ in by_pair)
        means = [statistics.mean(d for (of, _), d in by_pair.items() if of == name) for name in sets]
        counts = (wins, len(differences) - wins - losses, losses)
        told = (other, *counts, gain, _resampled(by_pair))
        found.append((told, _signed_rank(differences), _signed_rank(means)))
    adjusted = zip(*(holm([duel[k] for duel in found]) for k in (1, 2)), strict=True)
    return [
        Duel(*told, p, p_adjusted, by_set, by_set_adjusted)
        for (told, p, by_set), (p_adjusted, by_set_adjusted) in zip(found, adjusted, strict=True)
    ]


def _resampled(differences: Mapping[Pair, float]) -> tuple[float, float]:
    """Where the mean over pairs lies when sets are drawn anew, with all of their scores."""
    finite = {pair: d for pair, d in differences.items() if math.isfinite(d)}
    sets = list(dict.fromkeys(name for name, _ in finite))
    if not sets:
        return math.nan, math.nan
    each = [[d for (of, _), d in finite.items() if of == name] for name in sets]
    sums, counts = np.array([sum(some) for some in each]), np.array([len(some) for some in each])
    drawn = np.random.default_rng(0).integers(len(sets), size=(DRAWS, len(sets)))
    low, high = np.quantile(sums[drawn].sum(1) / counts[drawn].sum(1), [0.025, 0.975])
    return float(low), float(high)


def _signed_rank(differences: Sequence[float]) -> float:
    # Ranks of the differences are all that counts: those that differ by rounding alone share theirs, and any number
    # larger than the rest will do for an infinite one.
    told = [round(d / TIE) * TIE if math.isfinite(d) else math.copysign(1e9, d) for d in differences if abs(d) > TIE]
    return float(wilcoxon(told).pvalue) if told else 1.0


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
        methods: The columns, as for `grid`.
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


def summary(rows: Collection[results.Row], reference: str, methods: Sequence[str]) -> str:
    """The means, the ranks and the duels alone.

    Args:
        rows: Results.
        reference: The method that the others are compared with.
        methods: The columns.
    """
    scores = grid(rows, methods)
    if not scores.values:
        return "No set and score has results of all methods yet."
    return "\n".join([_summary(scores), "", *_means(scores, None), "", *_duels(scores, reference)])


def gained(duel: Duel) -> str:
    """By how much it is better on average, and between which bounds."""
    low, high = duel.interval
    return f"{duel.gain:+.4f} ({low:+.4f} to {high:+.4f})"


def small(p: float) -> str:
    """A p-value, of which the smallest are told as less than."""
    return f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"


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
    lines.append("| | wins | ties | losses | mean gain (95 %) | p over pairs | by Holm | p over sets | by Holm |")
    lines.append(f"|---|{'---:|' * 8}")
    lines += [
        f"| {d.other} | {d.wins} | {d.ties} | {d.losses} | {gained(d)} | {d.p:.4f} | {d.holm:.4f} | {d.by_set:.4f} "
        f"| {d.by_set_holm:.4f} |"
        for d in duels(scores, reference)
    ]
    lines.append(
        "\nWilcoxon's signed-rank test. Scores of one set go together: a p-value over pairs is too small rather than "
        "too large, and that over sets, by their means, is the one to trust; of few sets it cannot be small. The "
        "interval of a mean gain is of resampled sets. Costs per row differ by less than scores do, and weigh less in "
        "means."
    )
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


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables of all that there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", choices=list(METHODS), default="scorewise", metavar="NAME")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=list(METHODS),
        metavar="NAME",
        help="the columns (default: all compared on all sets)",
    )
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="where results are kept")
    options = parser.parse_args(argv)
    print(page(results.read(options.out).values(), options.reference, options.methods))


if __name__ == "__main__":
    main()
