"""One number of several: of labels, or of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor

Named = Literal["macro", "weighted", "min", "micro"]
Average = Named | Callable[[Tensor], Tensor] | None
"""How the scores of labels or classes become one: their mean, their mean by positives, the least, the score of the sum
of their matrices, any function of them, or not at all."""


def check_average(average: object) -> None:
    """Raise a ValueError unless it is an `Average`."""
    if average is None or callable(average) or average in get_args(Named):
        return
    raise ValueError(
        f"average must be {', '.join(map(repr, get_args(Named)))}, a function of the scores, or None; saw {average!r}."
    )


def averaged(goodness: Tensor, average: Average, positives: Tensor, *, greater_is_better: bool = True) -> Tensor:
    """One number of the last axis, where greater is better; "micro" is not asked here.

    A function is given the scores themselves, which were negated if less is better.
    """
    if average is None:
        return goodness
    if callable(average):
        values = goodness if greater_is_better else -goodness
        value = average(values)
        if not isinstance(value, Tensor) or value.shape != values.shape[:-1]:
            seen = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"average must make one number of {values.shape[-1]}, a tensor; saw {seen}.")
        return value if greater_is_better else -value
    if average == "min":
        return goodness.amin(-1)
    if average == "weighted":
        whole = positives.sum(-1, keepdim=True)
        return (goodness * positives / whole.masked_fill(whole == 0, 1.0)).sum(-1)
    return goodness.mean(-1)
