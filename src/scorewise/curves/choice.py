"""Which of many thresholds is best, and which are allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from scorewise import scores
from scorewise._cells import Tally
from scorewise._values import is_number, number
from scorewise.curves.sweep import score_along

AtLeast = Mapping[str | scores.Score, float]
"""Scores that a threshold must reach, by name or as they are."""


_ROUNDED = 64 * torch.finfo(torch.float64).eps
"""What a few roundings change, as a share."""


class InfeasibleError(ValueError):
    """Constraints that no threshold meets."""


def constraints(at_least: AtLeast | None) -> list[tuple[scores.Score, float]]:
    """What a user requires, checked."""
    if at_least is None:
        return []
    if not isinstance(at_least, Mapping):
        raise TypeError(f'at_least must be a dict as {{"precision": 0.9}}, saw {type(at_least).__name__}.')
    bounds = []
    for name, bound in at_least.items():
        score = scores.get(name)
        if not is_number(bound) or math.isnan(bound):
            raise ValueError(f"at_least: {score.name} must be compared with a number, saw {bound!r}.")
        if not score.greater_is_better:
            raise ValueError(
                f"at_least: {score.name} is the better the smaller it is. Negate both: "
                f"{{-scores.get({score.name!r}): {number(-float(bound))}}}."
            )
        bounds.append((score, float(bound)))
    return bounds


def where_allowed(thresholds: Tensor, cells: Tally, bounds: Sequence[tuple[scores.Score, float]]) -> Tensor | None:
    """Where all constraints are met; None where there are none. Raise a ValueError if that is nowhere."""
    allowed: Tensor | None = None
    for k, (score, bound) in enumerate(bounds):
        values = score_along(score, cells)
        met = values >= bound - slack(score, bound, values)
        if bound > (top := score.range[1]) + _ROUNDED * abs(top):
            met = torch.zeros_like(met)  # however large the sums are beside the bound
        both = met if allowed is None else met & allowed
        if not bool(both.any()):
            place = choose(score, thresholds, values, allowed)
            others = " and ".join(f"{other.name} of at least {number(least)}" for other, least in bounds[:k])
            alone = f" with {others}" if others else ""
            also = ", though each alone can be met" if others and bool(met.any()) else ""
            best = float(values[place]) + 0.0  # not -0
            show = repr if number(bound) == number(best) else number
            asked, most = show(bound), show(best)
            raise InfeasibleError(
                f"at_least: no threshold has {score.name} of at least {asked}{alone}{also}: the most is {most}, at the "
                f"threshold {number(inside(thresholds, place))}. Ask for less, or for a better model."
            )
        allowed = both
    return allowed


def choose(score: scores.Score, thresholds: Tensor, values: Tensor, allowed: Tensor | None = None) -> int:
    """The place of the best value; of equal ones, that of the widest stretch."""
    goodness = values if score.greater_is_better else -values
    top = float(goodness.max())
    usable = None
    if math.isnan(top) or allowed is not None:
        usable = ~values.isnan() if allowed is None else ~values.isnan() & allowed
        if not bool(usable.any()):
            raise ValueError(f"the score {score.name} is NaN at every threshold.")
        top = float(goodness[usable].max())
    best = goodness >= top - slack(score, top, values)
    equal = (best if usable is None else best & usable).nonzero().squeeze(1)
    if len(equal) == 1:
        return int(equal)
    low, next_one = thresholds[equal], thresholds[(equal + 1).clamp(max=len(thresholds) - 1)]
    high = torch.where(equal == len(thresholds) - 1, 1.0, next_one)
    widths = high.cpu().double() - low.clamp(min=0).cpu().double()
    return int(equal[int(widths.argmax())])


def slack(score: scores.Score, value: float, values: Tensor) -> float:
    """By how much values around this one may differ that are equal in exact arithmetic: a few roundings.

    Args:
        score: The score.
        value: The one.
        values: All that it is one of. They tell how large the sums are that a score without bounds is made of: a cost
            may be counted in any unit.
    """
    if math.isinf(value):
        return 0.0
    most = max(map(abs, score.range))
    if math.isinf(most):
        finite = values[values.isfinite()]
        most = float(finite.abs().max()) if len(finite) else 0.0
    else:
        most = min(1.0, most)
    return _ROUNDED * max(abs(value), most)


def inside(thresholds: Tensor, place: int) -> float:
    """A threshold in a stretch: its middle if the dtype has room, else its lower end."""
    last = place == len(thresholds) - 1
    low, high = float(thresholds[place]), 1.0 if last else float(thresholds[place + 1])
    if low < 0:
        return low
    middle = float(torch.tensor(low + (high - low) / 2, dtype=torch.float64).to(thresholds.dtype))
    return middle if low <= middle and (middle < high or last) else low
