"""How times grow: the b of time ~ size^b, where fixed costs no longer dominate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.timing import Rows

DOMINATED = 4.0
"""Sizes count from where a call takes so many times as long as the fastest."""
POINTS = 3
"""With fewer there is no line, or none whose error can be told."""


def exponent(sizes: Sequence[int], times: Sequence[float]) -> dict[str, object] | None:
    """Fit log(time) = a + b log(size) by least squares.

    Only the largest sizes count, down to the last at which a call takes at least `DOMINATED` times as long as the
    fastest. What is left of fixed costs there makes b a little too small.

    Args:
        sizes: In ascending order.
        times: One for each.

    Returns:
        b, its standard error, the smallest and the largest size that counted, and how many; None where fixed costs
        dominate to the end, so that fewer than `POINTS` are left.
    """
    floor = DOMINATED * min(times)
    first = next((i + 1 for i in reversed(range(len(times))) if times[i] < floor), 0)
    if len(times) - first < POINTS:
        return None
    x, y = [math.log(size) for size in sizes[first:]], [math.log(time) for time in times[first:]]
    b, a = statistics.linear_regression(x, y)
    middle = statistics.fmean(x)
    residual = sum((yi - a - b * xi) ** 2 for xi, yi in zip(x, y, strict=True)) / (len(x) - 2)
    error = math.sqrt(residual / sum((xi - middle) ** 2 for xi in x))
    return {"b": round(b, 4), "error": round(error, 4), "from": sizes[first], "to": sizes[-1], "points": len(x)}


def of_sorting(first: int, last: int) -> float:
    """The b of n log n between two sizes."""
    return math.log(last * math.log(last) / (first * math.log(first))) / math.log(last / first)


def fitted(kept: Mapping[str, object]) -> Rows:
    """Exponents of all that was measured over n or over T.

    Args:
        kept: The results, by part.

    Returns:
        One line for each, whose b is None where fixed costs dominate.
    """
    found: Rows = []
    for part, of in (("peers", "a step"), ("growth", "a step of Value, max"), ("curve_growth", "the best threshold")):
        rows: Rows = [row for row in kept.get(part, []) if "microseconds" in row]
        for over, what in dict.fromkeys((row.get("over", "n"), row.get("what", "")) for row in rows):
            mine = [row for row in rows if (row.get("over", "n"), row.get("what", "")) == (over, what)]
            fit = exponent([row[over] for row in mine], [row["microseconds"] for row in mine])
            line = {"of": of, "what": what, "over": over}
            found.append(line | (fit or {"b": None, "from": mine[0][over], "to": mine[-1][over]}))
    return found
