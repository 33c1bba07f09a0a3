"""Confusion matrices: the object, at a threshold, and expected over a prior of the threshold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor

from scorewise._blocks import rows_per_block
from scorewise._inputs import Batch, as_tensor, check_now, describe, extremes, is_valid, prepare
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.priors.base import as_pair, slope, tails
from scorewise.scores import ratio


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """The four cells of a binary confusion matrix, as tensors (float64, if made here); with labels, one entry each.

    Matrices of parts of a data set are added (``a + b``, ``sum(parts)``) and scored last: the score of a sum is not
    the mean of scores. ``numpy.asarray(matrix)`` is [[TN, FP], [FN, TP]], row = truth, as in scikit-learn.

    Example:
        >>> day, night = ConfusionMatrix(tn=8, fp=1, fn=0, tp=3), ConfusionMatrix(tn=5, fp=0, fn=2, tp=1)
        >>> day + night
        ConfusionMatrix(tn=13, fp=1, fn=2, tp=4)
    """

    tn: Tensor
    fp: Tensor
    fn: Tensor
    tp: Tensor

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            tensor = as_tensor(value, field.name)
            if tensor.is_complex():
                raise TypeError(f"ConfusionMatrix: {field.name} must be real, saw {tensor.dtype}.")
            if tensor is not value or not tensor.is_floating_point():
                tensor = tensor.double()
                if bool((tensor < 0).any() | tensor.isnan().any()):
                    raise ValueError(f"ConfusionMatrix: {field.name} must be at least 0, saw {describe(tensor)}.")
                object.__setattr__(self, field.name, tensor)
        shapes = [tuple(getattr(self, field.name).shape) for field in fields(self)]
        if len(set(shapes)) > 1:
            raise ValueError(f"ConfusionMatrix: the four cells must have one shape, saw {shapes} for tn, fp, fn, tp.")

    @property
    def negatives(self) -> Tensor:
        """Number (or weight) of samples whose label is 0, false positives as they are weighted."""
        return self.tn + self.fp

    @property
    def positives(self) -> Tensor:
        """Number (or weight) of samples whose label is 1, false negatives as they are weighted."""
        return self.fn + self.tp

    @property
    def total(self) -> Tensor:
        """The sum of the four cells."""
        return self.negatives + self.positives

    def __add__(self, other: ConfusionMatrix) -> ConfusionMatrix:
        if not isinstance(other, ConfusionMatrix):
            return NotImplemented
        if self.tp.shape != other.tp.shape:
            raise ValueError(
                f"matrices of {tuple(self.tp.shape)} and {tuple(other.tp.shape)} labels cannot be added; both must "
                "have the same number."
            )
        return ConfusionMatrix(self.tn + other.tn, self.fp + other.fp, self.fn + other.fn, self.tp + other.tp)

    def __radd__(self, other: object) -> ConfusionMatrix:
        # sum() starts from 0
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def normalized(self, by: Literal["true", "pred", "all"]) -> ConfusionMatrix:
        """Divide by the number of samples of the same truth, of the same prediction, or of all.

        Where there are none the cells are 0.
        """
        if by == "true":
            tn_by, fp_by, fn_by, tp_by = self.negatives, self.negatives, self.positives, self.positives
        elif by == "pred":
            called_negative, called_positive = self.tn + self.fn, self.tp + self.fp
            tn_by, fp_by, fn_by, tp_by = called_negative, called_positive, called_negative, called_positive
        elif by == "all":
            tn_by = fp_by = fn_by = tp_by = self.total
        else:
            raise ValueError(f"normalized: expected 'true', 'pred' or 'all', saw {by!r}.")
        return ConfusionMatrix(
            ratio(self.tn, tn_by), ratio(self.fp, fp_by), ratio(self.fn, fn_by), ratio(self.tp, tp_by)
        )

    def tensor(self) -> Tensor:
        """The matrix as a tensor (..., 2, 2), row = truth."""
        rows = torch.stack([self.tn, self.fp], -1), torch.stack([self.fn, self.tp], -1)
        return torch.stack(rows, -2)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.tensor().detach().cpu().numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        cells = ", ".join(f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self))
        return f"ConfusionMatrix({cells})"


def confusion_matrix(
    predictions: Tensor,
    targets: Tensor,
    threshold: float | Tensor = 0.5,
    *,
    from_logits: bool = False,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> ConfusionMatrix:
    """The confusion matrix at a threshold: a sample is called positive if its prediction is greater than that.

    Args:
        predictions: Probabilities (or 0/1 classes), (n,) or (n, labels); tensors or NumPy arrays.
        targets: Labels 0/1, or soft labels in [0, 1], of the same shape.
        threshold: Any number; below 0 everything is called positive. Compared in the predictions' dtype.
        from_logits: Whether ``predictions`` are logits; the threshold is a probability all the same.
        mask: True where a sample counts; elsewhere predictions and labels may be NaN.
        sample_weight: How much each sample counts, at least 0.

    Returns:
        The matrix, with one entry per label if there are labels.

    Example:
        >>> confusion_matrix(torch.tensor([0.1, 0.5, 0.7, 0.9]), torch.tensor([0, 1, 0, 1]))
        ConfusionMatrix(tn=1, fp=1, fn=1, tp=1)
    """
    batch = prepare(predictions, targets, from_logits=from_logits, mask=mask, sample_weight=sample_weight, hard=True)
    _check(batch)
    with torch.no_grad():
        x = torch.sigmoid(batch.predictions) if from_logits else batch.predictions
        alarm = decide(x, _threshold_like(threshold, x)).to(batch.targets.dtype)
        return _matrix(batch, _tally(alarm, 1 - alarm, batch.targets, batch.count))


def expected_confusion_matrix(
    predictions: Tensor,
    targets: Tensor,
    prior: object = None,
    *,
    from_logits: bool = False,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> ConfusionMatrix:
    r"""The confusion matrix averaged over the threshold's prior F; differentiable in the predictions.

    .. math:: TN = \sum (1-y)(1-F(\hat y)),\ FP = \sum (1-y)F(\hat y),\ FN = \sum y(1-F(\hat y)),\ TP = \sum yF(\hat y)

    Args:
        predictions: Probabilities, (n,) or (n, labels).
        targets: Labels 0/1, or soft labels in [0, 1], of the same shape.
        prior: A `scorewise.priors` object, a `torch.distributions` object with a cdf, a density function on [0, 1], or
            None for the uniform prior.
        from_logits: Whether ``predictions`` are logits; more exact than passing their sigmoid.
        mask: True where a sample counts; elsewhere predictions and labels may be NaN.
        sample_weight: How much each sample counts, at least 0.

    Returns:
        The matrix, with one entry per label if there are labels. Bad values are an error at once; inside a compiled
        graph, which cannot raise, they make the matrix NaN.

    Example:
        >>> expected_confusion_matrix(torch.tensor([0.25, 0.75]), torch.tensor([0, 1]))
        ConfusionMatrix(tn=0.75, fp=0.25, fn=0.25, tp=0.75)
    """
    batch = prepare(predictions, targets, from_logits=from_logits, mask=mask, sample_weight=sample_weight)
    _check(batch)
    return _matrix(batch, expected_cells(batch, as_prior(prior)))


def _shown(cell: Tensor) -> str:
    """Counts in full, expectations to six digits."""
    if cell.dim():
        return f"[{', '.join(_shown(one) for one in cell)}]"
    value = float(cell.detach())
    return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"


def decide(predictions: Tensor, threshold: Tensor) -> Tensor:
    """The decision rule: positive where the prediction is strictly greater than the threshold."""
    return predictions > threshold


Tally = tuple[Tensor, Tensor, Tensor, Tensor]
"""TN, FP, FN, TP."""


def expected_cells(batch: Batch, prior: ThresholdPrior) -> Tally:
    """The expected matrix of a batch that is known to be sound."""
    x, y, count = batch.predictions, batch.targets, batch.count
    if prior.batch_shape and (x.dim() == 1 or prior.batch_shape != x.shape[1:]):
        raise ValueError(
            f"the prior's parameters have the shape {tuple(prior.batch_shape)}, but there are "
            f"{'no labels' if x.dim() == 1 else f'{x.shape[1]} labels'}: expected numbers"
            f"{'' if x.dim() == 1 else ' or one value per label'}."
        )
    others_learn = y.requires_grad or (count is not None and count.requires_grad)
    # PyTorch has no public way to ask whether torch.func is at work, and refuses functions like `_ExpectedCells` there.
    transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if transformed or others_learn:
        cdf, sf = tails(prior, x, from_logits=batch.from_logits)
        bounded: Callable[..., Tensor] = _Bounded.apply
        tn, fp, fn, tp = (bounded(cell, _bound(x)) for cell in _tally(cdf, sf, y, count))
        return tn, fp, fn, tp
    fused: Callable[..., Tally] = _ExpectedCells.apply
    return fused(x, y, count, prior, batch.from_logits)


class _ExpectedCells(torch.autograd.Function):
    """`_tally` of `tails`, a block at a time. Only the prior's slopes are kept for the backward pass.

    In the older style, with the context passed to forward: PyTorch inspects the signature of the newer one at every
    call, which takes as long as all of the work on a small batch.
    """

    @staticmethod
    def forward(  # noqa: PLR0917  # an autograd function has no keywords
        ctx: Any, x: Tensor, y: Tensor, count: Tensor | None, prior: ThresholdPrior, from_logits: bool
    ) -> Tally:
        rows = rows_per_block(x)
        slopes = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        cells: Tally | None = None
        for start in range(0, max(1, x.shape[0]), rows):
            part = slice(start, start + rows)
            inner = x[part]
            # As `as_pair`, but in place, which only eager code may do.
            pair = (torch.sigmoid(inner), inner.neg().sigmoid_()) if from_logits else as_pair(inner, from_logits=False)
            if slopes is not None:
                slopes[part] = prior._slope(*pair) if from_logits else slope(prior, inner, from_logits=False)
            cdf, sf = prior._tails(*pair)
            # As `_tally`, but in place: two blocks less to keep in the cache.
            tp, fn = y[part] * cdf, y[part] * sf
            parts = (sf.sub_(fn), cdf.sub_(tp), fn, tp)
            new = _totals(parts if count is None else _weighted(parts, count[part]))
            cells = new if cells is None else _add(cells, new)
        ctx.prior, ctx.from_logits = prior, from_logits
        ctx.save_for_backward(x, y, count, slopes)
        assert cells is not None  # noqa: S101  # the loop runs at least once; for the type checker
        return cells

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, y, count, slopes = ctx.saved_tensors
        tn, fp, fn, tp = grads
        # Calling a sample positive moves it from TN to FP, or from FN to TP.
        bound = _bound(x)
        if_negative, if_positive = (fp - tn).clamp(-bound, bound), (tp - fn).clamp(-bound, bound)
        between = (if_positive - if_negative).to(x.dtype)
        if_negative = if_negative.to(x.dtype)

        rows = rows_per_block(x)
        if torch.is_grad_enabled():  # someone wants second derivatives
            slopes = slope(ctx.prior, x, from_logits=ctx.from_logits)
            rows = x.shape[0]
        if rows >= x.shape[0]:
            grad = slopes * torch.addcmul(if_negative, y, between)
            return grad if count is None else (grad * count).to(x.dtype), None, None, None, None
        grad = torch.empty_like(x)
        for start in range(0, x.shape[0], rows):
            part = slice(start, start + rows)
            moved = torch.addcmul(if_negative, y[part], between)
            if count is not None:
                moved = moved * count[part]
            torch.mul(slopes[part], moved, out=grad[part])
        return grad, None, None, None, None


class _Bounded(torch.autograd.Function):
    """The identity, with its gradient clamped; see `_bound`."""

    @staticmethod
    def forward(x: Tensor, bound: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.bound = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0].clamp(-ctx.bound, ctx.bound), None


def _bound(x: Tensor) -> float:
    """The largest derivative by a cell that is passed on to samples.

    A ratio of two cells that are almost 0 has a derivative beyond the samples' dtype; as infinity it would make NaN
    where it meets a slope of 0.
    """
    return torch.finfo(x.dtype).max / 2**20


def _tally(cdf: Tensor, sf: Tensor, y: Tensor, count: Tensor | None) -> Tally:
    tp, fn = y * cdf, y * sf
    # Not (1 - y) * cdf: for 0/1 labels the difference is exact and one step shorter.
    cells = (sf - fn, cdf - tp, fn, tp)
    return _totals(cells if count is None else _weighted(cells, count))


def _weighted(cells: Tally, count: Tensor) -> Tally:
    # In the dtype of the weights, float64: rounded to the predictions' they would not add up exactly.
    return cells[0] * count, cells[1] * count, cells[2] * count, cells[3] * count


def _add(a: Tally, b: Tally) -> Tally:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def _totals(cells: Tally) -> Tally:
    return _total(cells[0]), _total(cells[1]), _total(cells[2]), _total(cells[3])


_RUN = 128


def _total(x: Tensor) -> Tensor:
    """The sum over samples, in float64: counts stay exact far beyond the 2^24 of float32."""
    if x.device.type == "mps":
        return _compensated(x)
    if x.dtype == torch.float64 or x.shape[0] < 128 * _RUN or torch.compiler.is_compiling():
        return x.sum(0, dtype=torch.float64)
    # PyTorch sums in another dtype by first copying all of the input. Short runs in float32 and their sums in float64
    # are faster, exact for counts, and for shares as good as about one more rounding of each.
    rest = x.shape[0] % _RUN
    if rest:
        return _total(x[:-rest]) + x[-rest:].sum(0, dtype=torch.float64)
    return x.reshape(-1, _RUN, *x.shape[1:]).sum(1).sum(0, dtype=torch.float64)


def _compensated(x: Tensor) -> Tensor:
    """The sum over samples where a device has no float64: pairwise, with every rounding error kept and added last."""
    lost = x.new_zeros(1, *x.shape[1:])
    while x.shape[0] > 1:
        if x.shape[0] % 2:
            x = torch.cat([x, torch.zeros_like(x[:1])])
        a, b = x[0::2], x[1::2]
        x = a + b
        back = x - a
        lost = lost + ((a - (x - back)) + (b - back)).sum(0, keepdim=True)
    return (x.sum(0, keepdim=True) + lost)[0]


def _threshold_like(threshold: float | Tensor, x: Tensor) -> Tensor:
    value = as_tensor(threshold, "threshold")
    if value.is_complex():
        raise TypeError(f"threshold must be real, saw {value.dtype}.")
    if value.shape != () and (x.dim() == 1 or value.shape != x.shape[1:]):
        expected = "one number" if x.dim() == 1 else f"one number, or one for each of {x.shape[1]} labels"
        raise ValueError(f"threshold must be {expected}, saw the shape {tuple(value.shape)}.")
    if not torch.compiler.is_compiling() and bool(value.isnan().any()):
        raise ValueError("threshold must be a number, saw NaN.")
    return value.to(x.device, x.dtype)


def _check(batch: Batch) -> None:
    if not torch.compiler.is_compiling():
        check_now(batch)


def _matrix(batch: Batch, cells: Tally) -> ConfusionMatrix:
    if torch.compiler.is_compiling():
        # A compiled graph cannot raise: what it was given badly comes out as NaN.
        sound = is_valid(extremes(batch), from_logits=batch.from_logits)
        cells = tuple(torch.where(sound, cell, math.nan) for cell in cells)  # type: ignore[assignment]  # four again
    return ConfusionMatrix(*cells)
