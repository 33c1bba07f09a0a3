"""The m × m confusion matrix: of decisions, and expected under a uniform threshold on the simplex."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from scorewise._values import as_tensor, describe, shape_of
from scorewise._watch import is_valid
from scorewise.confusion import ConfusionMatrix
from scorewise.multiclass.inputs import Forecasts, check_now, extremes, limits, prepare
from scorewise.multiclass.simplex import class_chances, decide
from scorewise.scores import ratio


@dataclass(frozen=True, eq=False)
class MulticlassMatrix:
    """How often each class was called what: row = truth, column = decision. Matrices of parts are added.

    Example:
        >>> MulticlassMatrix([[5, 1, 0], [2, 3, 0], [0, 0, 4]]).hits
        tensor([5., 3., 4.], dtype=torch.float64)
    """

    cells: Tensor
    _whole: bool = field(default=False, kw_only=True, repr=False)  # whether it is summed over processes already

    def __post_init__(self) -> None:
        cells = as_tensor(self.cells, "cells")
        if cells.dim() != 2 or cells.shape[0] != cells.shape[1] or cells.shape[0] < 2:
            raise ValueError(f"MulticlassMatrix: cells must be m × m, m at least 2, saw {shape_of(cells)}.")
        if cells is not self.cells or not cells.is_floating_point():
            cells = cells.double()
            if not bool((cells >= 0).all()):
                raise ValueError(f"MulticlassMatrix: cells must be at least 0, saw {describe(cells)}.")
        object.__setattr__(self, "cells", cells)

    @property
    def hits(self) -> Tensor:
        """How often each class was called what it was: the diagonal."""
        return self.cells.diagonal()

    @property
    def truth(self) -> Tensor:
        """How often each class occurred: the sums of rows."""
        return self.cells.sum(1)

    @property
    def called(self) -> Tensor:
        """How often each class was called: the sums of columns."""
        return self.cells.sum(0)

    @property
    def total(self) -> Tensor:
        """The sum of all cells."""
        return self.cells.sum()

    def one_vs_rest(self) -> ConfusionMatrix:
        """The binary matrix of each class against all others, as one with m entries."""
        return ConfusionMatrix(*against_rest(*margins(self.cells)))

    def normalized(self, by: Literal["true", "pred", "all"]) -> MulticlassMatrix:
        """Divide by the number of samples of the same truth, of the same decision, or of all; 0 where there is none."""
        if by not in {"true", "pred", "all"}:
            raise ValueError(f"normalized: expected 'true', 'pred' or 'all', saw {by!r}.")
        by_whom = {"true": self.truth[:, None], "pred": self.called[None], "all": self.total}[by]
        return MulticlassMatrix(ratio(self.cells, by_whom.expand_as(self.cells)))

    def __add__(self, other: MulticlassMatrix) -> MulticlassMatrix:
        if not isinstance(other, MulticlassMatrix):
            return NotImplemented
        if self.cells.shape != other.cells.shape:
            raise ValueError(f"matrices of {self.cells.shape[0]} and {other.cells.shape[0]} classes cannot be added.")
        return self._made_of([self.cells + other.cells], whole=self._whole or other._whole)

    def _sums(self) -> tuple[Tensor, ...]:
        """The sums over samples that it is made of."""
        return (self.cells,)

    def _made_of(self, sums: Sequence[Tensor], *, whole: bool) -> MulticlassMatrix:
        """A matrix like this one, of other sums."""
        return MulticlassMatrix(sums[0], _whole=whole)

    def __radd__(self, other: object) -> MulticlassMatrix:
        # sum() starts from 0
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.cells.detach().cpu().numpy()
        return array if dtype is None else array.astype(dtype)


def margins(cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The diagonal, and the sums of the rest of rows and columns: hits, misses and false alarms of each class."""
    # summed without it, rather than subtracted from sums with it: what is 0 stays 0
    wrong = cells.masked_fill(torch.eye(cells.shape[0], dtype=torch.bool, device=cells.device), 0.0)
    return cells.diagonal(), wrong.sum(1), wrong.sum(0)


def against_rest(hits: Tensor, misses: Tensor, alarms: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """TN, FP, FN, TP of each class against all others, from (..., m) margins."""
    errors = misses.sum(-1, keepdim=True)
    elsewhere = errors - misses - alarms
    # What is left by rounding where all errors are of this class is none.
    elsewhere = elsewhere.masked_fill(elsewhere < 1e-12 * errors, 0.0)
    return hits.sum(-1, keepdim=True) - hits + elsewhere, alarms, misses, hits


def confusion_matrix(
    predictions: Tensor,
    targets: Tensor,
    tau: Tensor | None = None,
    *,
    from_logits: bool = False,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> MulticlassMatrix:
    """The matrix of the decisions at a threshold; see `decide`.

    Args:
        predictions: Probabilities, (n, m).
        targets: Class indices, (n,), or one-hot, (n, m).
        tau: A threshold for each class, (m,); None for the most probable class.
        from_logits: Whether ``predictions`` are logits.
        mask: True where a sample counts, (n,).
        sample_weight: How much each sample counts, (n,).
    """
    forecasts = _read(predictions, targets, from_logits=from_logits, mask=mask, sample_weight=sample_weight)
    called = decide(forecasts.probabilities.detach(), tau)
    m, weights = forecasts.classes, forecasts.weights
    cells = weights.new_zeros(m * m).index_add(0, forecasts.targets.clamp(0, m - 1) * m + called, weights)
    return _matrix(forecasts, cells.reshape(m, m))


def expected_confusion_matrix(
    predictions: Tensor,
    targets: Tensor,
    *,
    from_logits: bool = False,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> MulticlassMatrix:
    """The matrix averaged over a uniform threshold on the simplex; differentiable. Arguments as for `confusion_matrix`.

    Inside a compiled graph, which cannot raise, bad values make it NaN.

    Example:
        >>> import torch
        >>> expected_confusion_matrix(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([1])).cells
        tensor([[0.0000, 0.0000, 0.0000],
                [0.6200, 0.2600, 0.1200],
                [0.0000, 0.0000, 0.0000]], dtype=torch.float64)
    """
    forecasts = _read(predictions, targets, from_logits=from_logits, mask=mask, sample_weight=sample_weight)
    return _matrix(forecasts, expected_cells(forecasts))


def _read(predictions: object, targets: object, **rest: Any) -> Forecasts:
    """What users passed, made ready and, where that is possible, judged."""
    forecasts = prepare(predictions, targets, **rest)
    if not torch.compiler.is_compiling():
        check_now(forecasts)
    return forecasts


def _matrix(forecasts: Forecasts, cells: Tensor) -> MulticlassMatrix:
    if torch.compiler.is_compiling():
        # A compiled graph cannot raise: what it was given badly comes out as NaN.
        cells = torch.where(is_valid(extremes(forecasts), limits(from_logits=forecasts.from_logits)), cells, math.nan)
    return MulticlassMatrix(cells)


def expected_margins(forecasts: Forecasts) -> tuple[Tensor, Tensor, Tensor]:
    """The `margins` of `expected_cells`, without the m × m cells."""
    chances = class_chances(forecasts.probabilities)
    m, weights = forecasts.classes, forecasts.weights
    rows = forecasts.targets.clamp(0, m - 1)
    own = chances.gather(1, rows[:, None])
    others = chances.scatter(1, rows[:, None], 0.0).to(weights.dtype)
    nothing = weights.new_zeros(m)
    hits = nothing.index_add(0, rows, own.squeeze(1) * weights)
    misses = nothing.index_add(0, rows, others.sum(1) * weights)
    return hits, misses, weights @ others


def expected_cells(forecasts: Forecasts) -> Tensor:
    """The expected matrix of forecasts that are known to be sound."""
    chances = class_chances(forecasts.probabilities)
    m, weights = forecasts.classes, forecasts.weights
    rows = chances * weights[:, None]
    return rows.new_zeros(m, m).index_add(0, forecasts.targets.clamp(0, m - 1), rows)
