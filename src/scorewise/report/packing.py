"""Long columns of numbers as short text, and curves with fewer points."""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from scorewise.evaluation.results import Cells, Curve

_DIGITS = 7  # significant digits that are kept of the largest number of a column
_MOST = 300  # ten to the power of more is no number
_WHOLE = 2.0**53  # up to here whole numbers are exact
# What would end a script or begin a tag, and what old engines take for the end of a line.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def packed(values: Iterable[float]) -> dict[str, Any]:
    """A column of numbers, as differences of whole numbers: neighbours on a curve are close to each other.

    The numbers are the running sums of ``d``, divided by ten to the power of ``k``. Whole numbers stay exact, others
    are rounded to seven digits of the largest. What is no finite number is null, and adds nothing.
    """
    column = torch.tensor(list(values), dtype=torch.float64)
    finite = column.isfinite()
    known = column[finite]
    largest = float(known.abs().max()) if len(known) else 0.0
    if bool((known == known.round()).all()) and largest < _WHOLE:
        k = 0
    else:
        k = min(_DIGITS - 1 - math.floor(math.log10(largest)), _MOST)
    # a power of ten with a negative exponent is no exact number
    whole = ((known * 10.0**k) if k >= 0 else (known / 10.0**-k)).round()
    steps = torch.diff(whole, prepend=torch.zeros(1, dtype=torch.float64)).long().tolist()
    if len(known) == len(column):
        return {"k": k, "d": steps}
    rest = iter(steps)
    return {"k": k, "d": [next(rest) if there else None for there in finite.tolist()]}


def rounded(value: float | None) -> float | None:
    """One number with seven digits; None for what is no finite number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def to_json(value: object) -> str:
    """JSON that may stand in a script element. A number that JSON does not know is an error."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False).translate(_UNSAFE)


def place(curve: Curve, threshold: float) -> int:
    """The place of a threshold on a curve: that of the last which is not greater."""
    return max(0, bisect.bisect_right(curve.thresholds, threshold) - 1)


def thinned(curve: Curve, most: int, keep: Iterable[float] = ()) -> Curve:
    """A curve with at most about so many points, among them the least and the greatest of every score.

    Args:
        curve: The curve.
        most: How many points there may be; more, if there are more that must stay.
        keep: Thresholds that must stay.
    """
    n = len(curve.thresholds)
    if n <= most:
        return curve
    kept = {0, n - 1, *(place(curve, one) for one in keep)}
    for columns in (curve.plain_scores, curve.weighted_scores or {}):
        for values in columns.values():
            known = [i for i in range(n) if math.isfinite(values[i])]
            if known:
                kept |= {min(known, key=values.__getitem__), max(known, key=values.__getitem__)}
    free = max(0, most - len(kept))
    kept |= {round(i * (n - 1) / (free + 1)) for i in range(1, free + 1)}
    places = sorted(kept)

    def some(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[i] for i in places)

    def columns_of(scores: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        return {name: some(values) for name, values in scores.items()}

    weighted: tuple[Cells, ...] | None = None if curve.weighted is None else some(curve.weighted)
    return replace(
        curve,
        thresholds=some(curve.thresholds),
        plain=some(curve.plain),
        weighted=weighted,
        plain_scores=columns_of(curve.plain_scores),
        weighted_scores=None if curve.weighted_scores is None else columns_of(curve.weighted_scores),
    )
