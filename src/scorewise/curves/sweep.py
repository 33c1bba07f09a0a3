"""Samples in the order of their predictions, and the confusion matrix after each of them.

A threshold that rises over the predictions turns one sample after another from an alarm into none, and nothing else
happens in between. So all the matrices that there are come from one sort and one running sum for each cell. That holds
for every weight that sees the threshold through alarms only; see `Weight._spread` for why the errors of one that looks
around in time are a sum over samples too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from scorewise._blocks import rows_per_block
from scorewise._cells import Plan, Tally, plan_for, weighted
from scorewise._inputs import Batch
from scorewise.priors.base import widened
from scorewise.scores import Score
from scorewise.weights.base import Weight, through_alarms, transformed
from scorewise.weights.samplewise import check_diagonal


def in_float64(batch: Batch) -> Batch:
    """The same batch with all the digits that its device has: 1/3 is not 0.33333334."""
    if batch.predictions.device.type == "mps":
        return replace(batch, predictions=batch.predictions.float())
    return replace(batch, predictions=batch.predictions.double(), targets=batch.targets.double())


def check_weight(weight: Weight | None, score: Score) -> None:
    """Raise a ValueError if a weight changes the matrix between two predictions, or does not fit the score."""
    if weight is None:
        return
    check_diagonal(weight, score)
    if through_alarms(weight):
        return
    if len(weight._cores()) > 1:
        reason = "is a product of several weights that see the threshold, which has to be integrated over it"
    else:
        reason = "sees the threshold itself, so that the matrix changes between two predictions too"
    raise ValueError(
        f"{weight} {reason}: there is no list of thresholds to choose from, and no exact expected score. Use a weight "
        "that sees the threshold through alarms only (Cost, ClassFrequency, CrossEntropy, Value, or a product with one "
        "Value at most); expected_confusion_matrix and ScoreLoss without exact=True take any."
    )


def ascending(x: Tensor) -> tuple[Tensor, Tensor]:
    """Predictions from the smallest up, and the sample that each belongs to; each label for itself."""
    x = widened(x.detach())
    if x.dim() == 2:  # rows are sorted faster than columns
        ordered, order = x.mT.contiguous().sort(-1)
        return ordered.mT, order.mT
    if x.device.type != "cpu" or transformed():
        ordered, order = x.sort()
        return ordered, order
    # PyTorch sorts integers by radix, several times as fast. As integers, negative floats are ordered the wrong way
    # round, hence their flipped bits; minus zero comes right before zero.
    kind, size = (torch.int64, 63) if x.dtype == torch.float64 else (torch.int32, 31)
    signed = bool((x < 0).any())
    keys, order = (_flipped(x.view(kind), size) if signed else x.view(kind)).sort()
    return (_flipped(keys, size) if signed else keys).view(x.dtype), order


def _flipped(bits: Tensor, size: int) -> Tensor:
    return (bits >> size).bitwise_and_((1 << size) - 1).bitwise_xor_(bits)


def matters(batch: Batch, plan: Plan) -> Tensor | None:
    """Whether calling a sample positive changes anything; None where all of them do."""
    if batch.count is None:
        return None
    some = (batch.count != 0).expand_as(batch.targets)
    if plan.coefficients is None:
        return some
    return some | (plan.coefficients[0] != 0) | (plan.coefficients[1] != 0)


def cells_along(batch: Batch, plan: Plan, order: Tensor, at: Tensor | None = None) -> Tally:
    """The four cells, each of (samples + 1, ...), while the first 0, 1, 2, … samples of an order are no alarms.

    Samples that do not matter may be missing in the order. Or only while the first ``at`` samples are none.
    """
    y, count, coefficients = batch.targets, batch.count, plan.coefficients
    counts = None
    countable = count is None and y.device.type == "cpu" and y.dim() == 1 and not transformed()
    if countable and bool(((y == 0) | (y == 1)).all()):
        # Counts are exact, and so are their differences.
        fn = _below(y, order, at)
        tn = (torch.arange(fn.shape[0], dtype=fn.dtype) if at is None else at.to(fn.dtype)).sub_(fn)
        counts = tn, fn[-1] - fn
        if coefficients is None:
            return weighted((tn, tn[-1] - tn, fn, counts[1]), plan, batch)
    # Summed from either end, rather than subtracted from the total: small sums keep their digits.
    if counts is None:
        if_positive = y if count is None else y * count
        if_negative = 1 - y if count is None else count - if_positive
        coefficients = coefficients or (if_negative, if_positive)
        counts = _below(if_negative, order, at), _above(if_positive, order, at)
    assert coefficients is not None  # noqa: S101  # or else it has returned; for the type checker
    fp, fn = _above(coefficients[0], order, at), _below(coefficients[1], order, at)
    return weighted((counts[0], fp, fn, counts[1]), plan, batch)


def _below(t: Tensor, order: Tensor, at: Tensor | None) -> Tensor:
    """The sums of the first 0, 1, 2, … numbers of an order, or of the first ``at``."""
    return _running(t, order, at, from_end=False)


def _above(t: Tensor, order: Tensor, at: Tensor | None) -> Tensor:
    """The sums of all numbers of an order but the first 0, 1, 2, …, or but the first ``at``."""
    return _running(t, order, at, from_end=True)


def _running(t: Tensor, order: Tensor, at: Tensor | None, *, from_end: bool) -> Tensor:
    dtype = torch.float32 if t.device.type == "mps" else torch.float64
    n, rows = order.shape[0], rows_per_block(order)
    if rows >= n or order.dim() > 1 or t.requires_grad or transformed():
        picked = t.index_select(0, order) if order.dim() == 1 else t.expand_as(order).gather(0, order)
        sums = _cumulated(picked, dtype, from_end=from_end)
        none = sums.new_zeros((1, *sums.shape[1:]))
        sums = torch.cat([sums, none] if from_end else [none, sums])
        return sums if at is None else sums.index_select(0, at)
    # In parts, each of which goes on from the sum of the former: only the result takes fresh memory.
    sums = t.new_empty(n + 1 if at is None else at.shape[0], dtype=dtype)
    sums[-1 if from_end else 0] = 0
    carry = 0.0
    for start in reversed(range(0, n, rows)) if from_end else range(0, n, rows):
        part = _cumulated(t.index_select(0, order[start : start + rows]), dtype, from_end=from_end).add_(carry)
        carry = float(part[0 if from_end else -1])
        first = start if from_end else start + 1
        if at is None:
            sums[first : first + len(part)] = part
        else:
            low, high = torch.searchsorted(at, torch.tensor([first, first + len(part)])).tolist()
            torch.index_select(part, 0, at[low:high] - first, out=sums[low:high])
    return sums


def _cumulated(t: Tensor, dtype: torch.dtype, *, from_end: bool) -> Tensor:
    return t.flip(0).cumsum(0, dtype=dtype).flip(0) if from_end else t.cumsum(0, dtype=dtype)


def score_along(score: Score, cells: Tally) -> Tensor:
    """The score of many matrices."""
    values: Any = _by_blocks(score.function, cells)
    if not isinstance(values, Tensor) or values.shape != cells[0].shape:
        raise TypeError(
            f"the score {score.name} must give one number for each matrix, a tensor of shape {tuple(cells[0].shape)}; "
            f"saw {tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__}."
        )
    return values.to(cells[0].dtype)


def _by_blocks(function: Callable[..., Tensor], cells: Tally) -> Tensor:
    """In parts that fit into a core's cache, where nothing has to see inside."""
    rows = rows_per_block(cells[0])
    if any(cell.requires_grad for cell in cells) or rows >= cells[0].shape[0]:
        return function(*cells)
    values = torch.empty_like(cells[0])
    for part, *some in zip(values.split(rows), *(cell.split(rows) for cell in cells), strict=True):
        part.copy_(function(*some))
    return values


@dataclass(frozen=True)
class Samples:
    """What a curve is made of, for whoever asks for more: a batch, in float64 if it has a weight, and its order.

    ``keys`` are the predictions from the smallest up, probabilities in the dtype that they are compared in, and
    ``order`` is the sample that each belongs to.
    """

    batch: Batch
    weight: Weight | None
    keys: Tensor
    order: Tensor

    @torch.no_grad()
    def stairs(self, batch: Batch | None = None) -> tuple[Tensor, Tally]:
        """The least threshold of each stretch in which no decision changes, ascending, and the cells there.

        ``batch`` is another one with the same predictions, in which samples count differently.
        """
        batch = batch or self.batch
        plan = plan_for(batch, self.weight)
        some, keys, order = matters(batch, plan), self.keys, self.order
        if some is not None and not bool(some.all()):
            kept = some.index_select(0, order)
            keys, order = keys[kept], order[kept]
        # Below 0 if it has to be: what is called positive is greater than the threshold.
        lowest = keys.new_zeros(1) if not len(keys) or bool(keys[0] > 0) else -keys.new_ones(1)
        distinct = keys[1:] != keys[:-1]
        if bool(distinct.all()):
            return torch.cat([lowest, keys]), cells_along(batch, plan, order)
        # Equal predictions change sides together: only the last of them is a threshold.
        edge = torch.ones_like(distinct[:1])
        at = torch.cat([edge, distinct, edge]).nonzero().squeeze(1)
        return torch.cat([lowest, keys.index_select(0, at[1:] - 1)]), cells_along(batch, plan, order, at)


def in_order(batch: Batch, weight: Weight | None) -> Samples:
    """The samples of a batch that is known to be sound, of one label, in the order of their predictions."""
    x = batch.predictions
    with torch.no_grad():
        # As `confusion_matrix` decides: by probabilities, in the dtype of what was passed.
        keys, order = ascending(torch.sigmoid(x) if batch.from_logits else x)
    return Samples(batch if weight is None else in_float64(batch), weight, keys, order)
