"""What a score is, the algebra of scores, and the safe division and root they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from scorewise._values import is_number

Linearity = Literal["cells", "totals", "none"]
"""What a score is linear in: see `Score`."""


class Cells(Protocol):
    """Anything with the four cells of a binary confusion matrix, as tensors of one shape."""

    @property
    def tn(self) -> Tensor: ...  # noqa: D102  # the four names say it
    @property
    def fp(self) -> Tensor: ...  # noqa: D102  # as above
    @property
    def fn(self) -> Tensor: ...  # noqa: D102  # as above
    @property
    def tp(self) -> Tensor: ...  # noqa: D102  # as above


@dataclass(frozen=True)
class Score:
    """A function of a confusion matrix, with what is known about it.

    Scores can be added, subtracted and multiplied by numbers: ``0.7 * tss + 0.3 * hss`` is a score.

    Attributes:
        name: What `get` finds it by.
        function: (TN, FP, FN, TP) to the score, elementwise on tensors.
        formula: The same in LaTeX.
        range: Its smallest and largest value.
        greater_is_better: Whether a good forecast has a large value. A loss maximises or minimises accordingly.
        linearity: "cells" if it is linear in the four cells, so that its expected value is its value at the expected
            matrix under every weight; "totals" if it is linear for fixed class totals, so that this holds without
            weights; else "none".
        synonyms: Other names that people use for it.
        empty_value: Its value where the matrix is empty.

    Example:
        >>> from scorewise import ConfusionMatrix, scores
        >>> finley = ConfusionMatrix(tn=2680, fp=72, fn=23, tp=28)
        >>> round(float(scores.get("heidke")(finley)), 3)
        0.355
    """

    name: str
    function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    formula: str = ""
    range: tuple[float, float] = (-math.inf, math.inf)
    greater_is_better: bool = True
    linearity: Linearity = "none"
    synonyms: tuple[str, ...] = ()
    empty_value: float = 0.0

    def __call__(self, matrix: Cells) -> Tensor:
        """The score of a matrix; of a batch of matrices, one score each."""
        if not hasattr(matrix, "tn"):
            raise TypeError(
                f"a score takes a ConfusionMatrix, saw {type(matrix).__name__}. Of a 2 × 2 array, row = truth, make "
                "one with ConfusionMatrix(*array.ravel())."
            )
        return self.function(matrix.tn, matrix.fp, matrix.fn, matrix.tp)

    @property
    def perfect(self) -> float:
        """The value of a perfect forecast."""
        return self.range[1] if self.greater_is_better else self.range[0]

    def __add__(self, other: Score | float) -> Score:
        return _combine([(1.0, self)], other)

    def __radd__(self, other: float) -> Score:
        return self + other

    def __sub__(self, other: Score | float) -> Score:
        return self + (-other if isinstance(other, Score) or is_number(other) else other)

    def __rsub__(self, other: float) -> Score:
        return -self + other

    def __neg__(self) -> Score:
        return self * -1.0

    def __mul__(self, factor: float) -> Score:
        if not is_number(factor):
            raise TypeError(f"a score can be multiplied by a number, saw {type(factor).__name__}.")
        if not math.isfinite(factor) or factor == 0:
            raise ValueError(f"a score can be multiplied by a finite number other than 0, saw {factor!r}.")
        return _combine([(float(factor), self)], 0.0)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Score:
        if not is_number(divisor):
            raise TypeError(f"a score can be divided by a number, saw {type(divisor).__name__}.")
        if not math.isfinite(divisor) or divisor == 0:
            raise ValueError(f"a score can be divided by a finite number other than 0, saw {divisor!r}.")
        return self * (1 / divisor)

    def __repr__(self) -> str:
        return f"<score {self.name}>"


@dataclass(frozen=True)
class _Combination:
    """The function of a sum of scores."""

    terms: tuple[tuple[float, Score], ...]
    constant: float

    def __call__(self, tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
        value = sum(factor * score.function(tn, fp, fn, tp) for factor, score in self.terms)
        return torch.as_tensor(value + self.constant)


def parts(score: Score) -> tuple[Score, ...]:
    """The scores that a sum is made of; a score itself, if it is none."""
    function = score.function
    return tuple(part for _, part in function.terms) if isinstance(function, _Combination) else (score,)


def _combine(terms: list[tuple[float, Score]], other: object) -> Score:
    constant = 0.0
    if isinstance(other, Score):
        terms = [*terms, (1.0, other)]
    elif is_number(other):
        constant = float(other)
        if not math.isfinite(constant):
            raise ValueError(f"a finite number can be added to a score, saw {constant}.")
    else:
        raise TypeError(f"to a score can be added a score or a number, saw {other!r}. get('name') finds a score.")
    # By function as well as name: two scores of a user's may share a name without being the same.
    flat: dict[tuple[str, object], tuple[float, Score]] = {}
    for factor, score in terms:
        inner = score.function.terms if isinstance(score.function, _Combination) else ((1.0, score),)
        if isinstance(score.function, _Combination):
            constant += factor * score.function.constant
        for part, basic in inner:
            key = basic.name, basic.function
            before = flat[key][0] if key in flat else 0.0
            flat[key] = (before + factor * part, basic)
    kept = tuple((factor, score) for factor, score in flat.values() if abs(factor) > 1e-12)
    if not kept:
        raise ValueError("these scores cancel out: nothing is left to optimise.")
    upward = {(factor > 0) == score.greater_is_better for factor, score in kept}
    if len(upward) > 1:
        told = ", ".join(f"{factor:g}·{score.name}" for factor, score in kept)
        raise ValueError(
            f"the terms {told} pull in opposite directions: some get better as they grow and some worse, so their "
            "sum is not a score. Change a sign."
        )
    bounds = [sorted((factor * score.range[0], factor * score.range[1])) for factor, score in kept]
    order: list[Linearity] = ["cells", "totals", "none"]
    if len(kept) == 1 and kept[0][0] == 1 and constant == 0:
        return kept[0][1]
    return Score(
        name=" + ".join(_term(factor, score.name) for factor, score in kept) + (f" + {constant:g}" if constant else ""),
        function=_Combination(kept, constant),
        formula=" + ".join(rf"{factor:g}\left({score.formula}\right)" for factor, score in kept)
        + (f" + {constant:g}" if constant else ""),
        range=(sum(low for low, _ in bounds) + constant, sum(high for _, high in bounds) + constant),
        greater_is_better=upward.pop(),
        linearity=max((score.linearity for _, score in kept), key=order.index),
        empty_value=sum(factor * score.empty_value for factor, score in kept) + constant,
    )


def _term(factor: float, name: str) -> str:
    return name if factor == 1 else f"{factor:g}·{name}"


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient by a number of at least 0; it is 0 with a gradient of 0 where the denominator is 0."""
    # x / inf is 0 and so are its derivatives; a plain where() around x / 0 would leave a NaN in the gradient. What is
    # below the smallest normal number counts as 0, since one over it is infinite.
    return numerator / denominator.masked_fill(denominator < torch.finfo(denominator.dtype).tiny, math.inf)


def root(x: Tensor) -> Tensor:
    """The square root, with a gradient of 0 at 0."""
    zero = x == 0
    return x.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)
