"""The rows with each value of a column, judged for themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from scorewise.curves import score_curve
from scorewise.curves.choice import AtLeast, InfeasibleError
from scorewise.evaluation.results import Part
from scorewise.evaluation.rows import Rows, judged, summed
from scorewise.scores import Score
from scorewise.weights import Weight

MOST = 2000


def parts(
    rows: Rows,
    x: Tensor,
    column: tuple[str, list[str], Tensor],
    each: tuple[Tensor, Tensor | None],
    wanted: tuple[dict[str, Score], dict[str, Score]],
    *,
    score: Score,
    weight: Weight | None,
    at_least: AtLeast | None,
) -> tuple[Part, ...]:
    """One for each value of a column.

    Args:
        rows: All rows.
        x: A model's predictions.
        column: Its name, its different values, and the place of each row's among them.
        each: What each sample adds to the matrix at the threshold of all, without the weight and with it.
        wanted: The scores, without the weight and with it.
        score: The score that a part's own threshold is best for.
        weight: What an error costs.
        at_least: What other scores must reach there; where they cannot, there is no threshold.
    """
    name, values, places = column
    if len(values) > MOST:
        raise ValueError(f"the column {name!r} has {len(values):,} different values, too many to judge each: {MOST:,}.")
    plain, own = each
    by_value = plain.new_zeros((len(values), 4)).index_add_(0, places, plain)
    own_by_value = None if own is None else own.new_zeros((len(values), 4)).index_add_(0, places, own)
    counted = rows.counted
    number = torch.bincount(places[counted], minlength=len(values)).tolist()
    found = []
    for k, (some, part) in enumerate(_each_part(rows, places, len(values), weight)):
        cells = summed(by_value[k], by_value[k], None)
        threshold = value = None
        if float(cells[2] + cells[3]) > 0 and float(cells[0] + cells[1]) > 0:
            curve = score_curve(x[some], part.targets, score, weight, **part.context)
            with contextlib.suppress(InfeasibleError):
                threshold, value = curve.best(at_least=at_least)
        found.append(
            Part(
                values[k],
                number[k],
                float(cells[2] + cells[3]),
                judged(cells, wanted[0]),
                None if own_by_value is None else judged(summed(by_value[k], own_by_value[k], weight), wanted[1]),
                threshold,
                value,
            )
        )
    return tuple(found)


def _each_part(rows: Rows, places: Tensor, number: int, weight: Weight | None) -> Iterator[tuple[Tensor, Rows]]:
    """The rows of each value; where a weight looks around, with those that are seen from them and do not count."""
    reach = 0 if weight is None else weight.reach
    order, _, place = rows.in_time()
    ticks = place if rows.times is None else rows.times[order]
    values = places[order]
    each = torch.argsort(values, stable=True).split(torch.bincount(places, minlength=number).tolist())
    for k, own in enumerate(each):
        if reach == 0:
            yield order[own], rows[order[own]]
            continue
        near = _around(own, reach, len(rows))
        some = order[near]
        # times, since places in the series would be others without the rows that are left out
        yield some, replace(rows[some], times=ticks[near]).only(values[near] == k)


def _around(places: Tensor, reach: int, n: int) -> Tensor:
    """Ascending places with all that are at most so far from one of them: a lag in time is one row or fewer."""
    apart = places.diff() > 2 * reach
    edge = torch.ones(1, dtype=torch.bool)
    begins = (places[torch.cat([edge, apart])] - reach).clamp(min=0)
    lengths = (places[torch.cat([apart, edge])] + reach + 1).clamp(max=n) - begins
    shifts = begins - (lengths.cumsum(0) - lengths)
    return torch.arange(int(lengths.sum())) + shifts.repeat_interleave(lengths)
