"""Sums over samples by where their predictions lie: what adds up over batches, and gives a curve on a grid."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from scorewise import scores
from scorewise._cells import Tally, balanced, plan_for, scaled
from scorewise._inputs import Batch
from scorewise.curves.sweep import in_float64, score_along
from scorewise.evaluation.reliability import wilson
from scorewise.evaluation.results import Bin
from scorewise.evaluation.thinned import Stairs
from scorewise.scores import Score
from scorewise.weights import Weight

_SUMS = ("negative", "positive", "alarm", "quiet", "quiet_size", "rows", "events", "predictions")
_SHOWN = 15
_CATALOGUE = tuple(scores.get(name).function for name in scores.names())
_FAMILIES = type(scores.fbeta(1).function), type(scores.cost().function)


class Bins:
    """One model's samples in bins of equal width.

    Thresholds are the borders between bins, and -1, below which there is nothing. At each of them matrices are exact:
    FP is the sum of what alarms cost in the bins above, and FN that of what silence costs in the bins below.

    The sums of a bin: ``negative`` and ``positive``, how much samples of each class count; ``alarm`` and ``quiet``,
    what an alarm and silence of its samples cost; ``quiet_size``, the latter without signs; ``rows``, ``events`` and
    ``predictions``, plain sums for the reliability diagram.
    """

    def __init__(self, number: int, weight: Weight | None, threshold: float | None) -> None:
        self.number, self.weight, self.threshold = number, weight, threshold
        self._sums = {name: torch.zeros(number + 1, dtype=torch.float64) for name in _SUMS}
        self._low = torch.full((number + 1,), torch.inf, dtype=torch.float64)
        self._high = -self._low
        self._at = torch.zeros(4, dtype=torch.float64)

    def add(self, batch: Batch, counted: Tensor) -> None:
        """Add a batch.

        Args:
            batch: Sound, of one label.
            counted: Where a sample counts.
        """
        decided_by = torch.sigmoid(batch.predictions) if batch.from_logits else batch.predictions
        batch = in_float64(batch)
        y, count = batch.targets, batch.count
        p = decided_by.double()
        place = (p * self.number).ceil().long()  # exact, if the number is a power of 2
        positive = y if count is None else y * count
        negative = 1 - y if count is None else count - positive
        alarm, quiet = plan_for(batch, self.weight).coefficients or (negative, positive)
        ones = counted.double()
        added = (negative, positive, alarm, quiet, quiet.abs(), ones, y * ones, torch.where(counted, p, 0.0))
        for name, values in zip(_SUMS, added, strict=True):
            self._sums[name].index_add_(0, place, values.double())
        matters = (alarm != 0) | (quiet != 0) | (positive != 0) | (negative != 0)
        self._low.scatter_reduce_(0, place[matters], p[matters], "amin")
        self._high.scatter_reduce_(0, place[matters], p[matters], "amax")
        if self.threshold is not None:
            above = decided_by > torch.tensor(self.threshold, dtype=decided_by.dtype)
            cells = (negative[~above], alarm[above], quiet[~above], positive[above])
            self._at += torch.stack([cell.sum() for cell in cells])

    @property
    def counts(self) -> tuple[Tensor, Tensor]:
        """How much negatives and positives count."""
        return self._sums["negative"].sum(), self._sums["positive"].sum()

    def stairs(self) -> Stairs:
        """The borders, and matrices there."""
        borders = torch.arange(self.number + 1, dtype=torch.float64) / self.number
        thresholds = torch.cat([-torch.ones(1, dtype=torch.float64), borders])
        s = self._sums
        cells = self._whole((_below(s["negative"]), _above(s["alarm"]), _below(s["quiet"]), _above(s["positive"])))
        return Stairs(thresholds, cells, hold=False)

    def at_threshold(self) -> Tally:
        """The matrix at the threshold that was given."""
        tn, fp, fn, tp = self._at
        return self._whole((tn, fp, fn, tp))

    def bound(self, score: Score) -> float:
        """At most how much better than at all borders a score is within a bin.

        Within a bin each cell lies between its values at both borders (or beyond them by what goes up and down again).
        What a score is at best in that box is compared with the best of all borders. Where all predictions of a bin are
        equal nothing happens within it.
        """
        stairs = self.stairs()
        sign = 1 if score.greater_is_better else -1
        best = float((sign * score_along(score, stairs.cells)).nan_to_num(-torch.inf).max())
        inside = (self._low < self._high).nonzero().squeeze(1)
        if not len(inside):
            return 0.0
        low = [cell[inside] for cell in stairs.cells]
        high = [cell[inside + 1] for cell in stairs.cells]
        swing = (self._sums["quiet_size"] - self._sums["quiet"])[inside] / 2  # what FN may lose within a bin
        fn = self._whole((swing, swing, swing, swing))[2]
        boxes = [torch.stack([torch.minimum(a, b), torch.maximum(a, b)]) for a, b in zip(low, high, strict=True)]
        boxes[2] = torch.stack([boxes[2][0] - fn, boxes[2][1] + fn]).clamp(min=0)
        return max(0.0, float(_most(score, boxes, sign).max()) - best)

    def reliability(self) -> tuple[Bin, ...]:
        """The reliability diagram, of bins joined so that each has about equally many rows."""
        rows, events, predictions = (self._sums[name] for name in ("rows", "events", "predictions"))
        total = float(rows.sum())
        if not total:
            return ()
        place = ((rows.cumsum(0) - rows / 2) / total * _SHOWN).long().clamp(0, _SHOWN - 1)
        joined = [torch.zeros(_SHOWN, dtype=torch.float64).index_add_(0, place, t) for t in (rows, events, predictions)]
        told = zip(*(t.tolist() for t in joined), strict=True)
        return tuple(Bin(p / n, y / n, wilson(y / n, int(n)), int(n)) for n, y, p in told if n)

    def _whole(self, cells: Tally) -> Tally:
        if self.weight is None:
            return cells
        cells, times = scaled(cells, self.weight._scales()), self.weight._balance()
        return balanced(cells, self.counts, times) if times else cells


def _most(score: Score, boxes: list[Tensor], sign: int) -> Tensor:
    """At most how large a score, times a sign, is within boxes.

    All of the catalogue, as functions of one cell, only rise, only fall, or fall and then rise: they are largest at a
    corner. So a sum of them is no larger than the sum of what each is at most. Of any other function only its range is
    known.
    """
    function: Any = score.function
    if hasattr(function, "terms"):  # a sum of scores
        each = [abs(factor) * _most(part, boxes, sign if factor > 0 else -sign) for factor, part in function.terms]
        return torch.stack(each).sum(0) + sign * float(function.constant)
    if function not in _CATALOGUE and not isinstance(function, _FAMILIES):
        return torch.full_like(boxes[0][0], max(sign * end for end in score.range))
    values = [sign * score_along(score, _corner(boxes, sides)) for sides in itertools.product((0, 1), repeat=4)]
    return torch.stack(values).amax(0)


def _corner(boxes: list[Tensor], sides: tuple[int, ...]) -> Tally:
    tn, fp, fn, tp = (box[side] for box, side in zip(boxes, sides, strict=True))
    return tn, fp, fn, tp


def _below(t: Tensor) -> Tensor:
    """The sums of the first 0, 1, 2, … bins."""
    return torch.cat([t.new_zeros(1), t.cumsum(0)])


def _above(t: Tensor) -> Tensor:
    """The sums of all bins but the first 0, 1, 2, …, from the other end: small sums keep their digits."""
    return torch.cat([t.flip(0).cumsum(0).flip(0), t.new_zeros(1)])
