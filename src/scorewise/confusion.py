"""Confusion matrices: the object, at a threshold, and expected over a prior of the threshold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from scorewise._blocks import rows_per_block
from scorewise._inputs import Batch, check_now, extremes, is_valid, prepare
from scorewise._sums import total
from scorewise._values import as_tensor, describe
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.priors.base import as_pair, slope, tails
from scorewise.scores import ratio
from scorewise.weights import Weight
from scorewise.weights.base import Chances, Pair, Scale, multiplied, transformed
from scorewise.weights.custom import core_of


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
    weight: Weight | None = None,
    *,
    from_logits: bool = False,
    groups: object = None,
    times: Tensor | None = None,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
    costs: Tensor | None = None,
) -> ConfusionMatrix:
    """The confusion matrix at a threshold: a sample is called positive if its prediction is greater than that.

    Args:
        predictions: Probabilities (or 0/1 classes), (n,) or (n, labels); tensors or NumPy arrays.
        targets: Labels 0/1, or soft labels in [0, 1], of the same shape.
        threshold: Any number; below 0 everything is called positive. Compared in the predictions' dtype.
        weight: What an error costs, an object of `scorewise.weights`; None for one each.
        from_logits: Whether ``predictions`` are logits; the threshold is a probability all the same.
        groups: The series that each sample belongs to, integers or strings, (n,). It and ``times`` are always checked,
            and used by weights that look around in time.
        times: When, in whole units of one lag, increasing within a group, (n,); see `scorewise.series.lags`. Without
            it, a sample's place in its group is its time.
        mask: True where a sample counts; elsewhere predictions and labels may be NaN. To a weight that looks around,
            samples that do not count are still there, except where they are NaN: neither event nor alarm.
        sample_weight: How much each sample counts, at least 0.
        costs: What an error of each sample costs, [as a false positive, as a false negative], (n, 2) or
            (n, labels, 2); multiplies the weight.

    Returns:
        The matrix, with one entry per label if there are labels.

    Example:
        >>> confusion_matrix(torch.tensor([0.1, 0.5, 0.7, 0.9]), torch.tensor([0, 1, 0, 1]))
        ConfusionMatrix(tn=1, fp=1, fn=1, tp=1)
    """
    weight = as_weight(weight)
    batch = prepare(
        *(predictions, targets),
        from_logits=from_logits,
        groups=groups,
        times=times,
        mask=mask,
        sample_weight=sample_weight,
        costs=costs,
        hard=True,
        context=looks_around(weight),
    )
    _check(batch)
    with torch.no_grad():
        x = torch.sigmoid(batch.predictions) if from_logits else batch.predictions
        tau = _threshold_like(threshold, x)
        alarm = decide(x, tau)
        if weight is not None and x.device.type != "mps":
            # Decided in the predictions' dtype, but weighted in float64: 1/3 is not 0.33333334.
            batch = replace(batch, predictions=batch.predictions.double(), targets=batch.targets.double())
            tau = tau.double()
        cdf = alarm.to(batch.targets.dtype)
        return _matrix(batch, _cells(batch, _plan(batch, weight), Chances(cdf, 1 - cdf, threshold=tau)))


def expected_confusion_matrix(
    predictions: Tensor,
    targets: Tensor,
    prior: object = None,
    weight: Weight | None = None,
    *,
    from_logits: bool = False,
    groups: object = None,
    times: Tensor | None = None,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
    costs: Tensor | None = None,
) -> ConfusionMatrix:
    r"""The confusion matrix averaged over the threshold's prior F; differentiable in the predictions.

    .. math:: TN = \sum (1-y)(1-F(\hat y)),\ FP = \sum (1-y)F(\hat y),\ FN = \sum y(1-F(\hat y)),\ TP = \sum yF(\hat y)

    Args:
        predictions: Probabilities, (n,) or (n, labels).
        targets: Labels 0/1, or soft labels in [0, 1], of the same shape.
        prior: A `scorewise.priors` object, a `torch.distributions` object with a cdf, a density function on [0, 1], or
            None for the uniform prior.
        weight: What an error costs, an object of `scorewise.weights`; None for one each.
        from_logits: Whether ``predictions`` are logits; more exact than passing their sigmoid.
        groups: As for `confusion_matrix`.
        times: As for `confusion_matrix`.
        mask: True where a sample counts, as for `confusion_matrix`.
        sample_weight: How much each sample counts, at least 0.
        costs: What an error of each sample costs, as for `confusion_matrix`.

    Returns:
        The matrix, with one entry per label if there are labels. Bad values are an error at once; inside a compiled
        graph, which cannot raise, they make the matrix NaN.

    Example:
        >>> expected_confusion_matrix(torch.tensor([0.25, 0.75]), torch.tensor([0, 1]))
        ConfusionMatrix(tn=0.75, fp=0.25, fn=0.25, tp=0.75)
    """
    weight, prior = as_weight(weight), as_prior(prior)
    batch = prepare(
        *(predictions, targets),
        from_logits=from_logits,
        groups=groups,
        times=times,
        mask=mask,
        sample_weight=sample_weight,
        costs=costs,
        context=looks_around(weight),
    )
    _check(batch)
    return _matrix(batch, expected_cells(batch, prior, weight))


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


def as_weight(weight: object) -> Weight | None:
    """A weight, or None; raise a TypeError for what is neither."""
    if weight is None or isinstance(weight, Weight):
        return weight
    seen = f"the class {weight.__name__} (make an object of it)" if isinstance(weight, type) else repr(weight)
    raise TypeError(f"a weight must be an object of scorewise.weights, or None; saw {seen}.")


def looks_around(weight: Weight | None) -> bool:
    """Whether a weight sees other samples than the one in question, so that samples that do not count matter."""
    return weight is not None and weight.reach > 0


def expected_cells(batch: Batch, prior: ThresholdPrior, weight: Weight | None = None) -> Tally:
    """The expected matrix of a batch that is known to be sound."""
    x, y, count = batch.predictions, batch.targets, batch.count
    if prior.batch_shape and (x.dim() == 1 or prior.batch_shape != x.shape[1:]):
        raise ValueError(
            f"the prior's parameters have the shape {tuple(prior.batch_shape)}, but there are "
            f"{'no labels' if x.dim() == 1 else f'{x.shape[1]} labels'}: expected numbers"
            f"{'' if x.dim() == 1 else ' or one value per label'}."
        )
    plan = _plan(batch, weight)
    if plan.core is not None or plan.learns or transformed():
        return _cells(batch, plan, Chances(*tails(prior, x, from_logits=batch.from_logits), prior=prior))
    fused: Callable[..., Tally] = _ExpectedCells.apply
    cells = fused(x, y, count, *(plan.coefficients or (None, None)), prior, batch.from_logits)
    return _scaled(cells, plan.scales)


@dataclass(frozen=True)
class _Plan:
    """How the errors of a batch are weighted.

    Wherever possible by ``coefficients`` a and r: FP = Σ a·cdf and FN = Σ r·sf; None stands for the ordinary ones.
    Otherwise by a ``core``, which has to be asked for W_P and W_N: FP = Σ coefficient·W_P and FN = Σ coefficient·W_N.
    ``scales`` multiply the sums. ``learns``: whether anything but the predictions' alarms has a gradient.
    """

    scales: tuple[Scale, Scale]
    coefficients: Pair | None
    core: Callable[[Batch, Chances], Pair] | None
    learns: bool


def _plan(batch: Batch, weight: Weight | None) -> _Plan:
    y, count = batch.targets, batch.count
    learns = y.requires_grad or (count is not None and count.requires_grad)
    factors = multiplied(batch.costs, None if weight is None else weight._factors(batch))
    scales = (1.0, 1.0) if weight is None else weight._scales(batch)
    core = None if weight is None else core_of(weight)
    if factors is None and core is None:
        return _Plan(scales, None, None, learns)

    # A part that sees the threshold through alarms only has coefficients too, unless they are to be differentiated.
    cores = () if weight is None else weight._cores()
    learns = learns or (factors is not None and any(factor.requires_grad for factor in factors))
    spreads = len(cores) == 1 and not learns
    amounts = None
    if not (spreads and count is None and factors is None):
        if_positive = y if count is None else y * count
        # for 0/1 labels the difference is exact
        if_negative = 1 - y if count is None else count - if_positive
        amounts = if_negative, if_positive
        if factors is not None:
            amounts = if_negative * factors[0], if_positive * factors[1]
    spread = cores[0]._spread(batch, amounts) if spreads else None
    if spread is not None:
        return _Plan(scales, spread, None, learns)
    return _Plan(scales, (1 - y, y) if amounts is None else amounts, core, learns)


def _cells(batch: Batch, plan: _Plan, chances: Chances) -> Tally:
    """The matrix, by the shortest formulas; autograd and the compiler see every step of it."""
    tn, fp, fn, tp = _tally(chances.cdf, chances.sf, batch.targets, batch.count)
    if plan.coefficients is not None:
        alarm, quiet = (chances.cdf, chances.sf) if plan.core is None else plan.core(batch, chances)
        fp, fn = total(plan.coefficients[0] * alarm), total(plan.coefficients[1] * quiet)
    bounded: Callable[..., Tensor] = _Bounded.apply
    tn, fp, fn, tp = (bounded(cell, _bound(batch.targets)) for cell in (tn, fp, fn, tp))
    return _scaled((tn, fp, fn, tp), plan.scales)


def _scaled(cells: Tally, scales: tuple[Scale, Scale]) -> Tally:
    tn, fp, fn, tp = cells
    weighted = [
        cell if isinstance(by, float) and by == 1 else cell * by for cell, by in zip((fp, fn), scales, strict=True)
    ]
    return tn, weighted[0], weighted[1], tp


class _ExpectedCells(torch.autograd.Function):
    """`_cells` of `tails`, a block at a time. Only the prior's slopes are kept for the backward pass.

    In the older style, with the context passed to forward: PyTorch inspects the signature of the newer one at every
    call, which takes as long as all of the work on a small batch.
    """

    @staticmethod
    def forward(  # noqa: PLR0917  # an autograd function has no keywords
        ctx: Any,
        x: Tensor,
        y: Tensor,
        count: Tensor | None,
        for_fp: Tensor | None,
        for_fn: Tensor | None,
        prior: ThresholdPrior,
        from_logits: bool,
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
            tp, fn = y[part] * cdf, y[part] * sf
            if for_fp is None or for_fn is None:
                # As `_tally`, but in place: two blocks less to keep in the cache.
                parts = (sf.sub_(fn), cdf.sub_(tp), fn, tp)
                new = _totals(parts if count is None else _weighted(parts, count[part]))
            else:
                right = (sf - fn, tp) if count is None else ((sf - fn) * count[part], tp * count[part])
                new = _totals((right[0], for_fp[part] * cdf, for_fn[part] * sf, right[1]))
            cells = new if cells is None else _add(cells, new)
        ctx.prior, ctx.from_logits = prior, from_logits
        ctx.save_for_backward(x, y, count, for_fp, for_fn, slopes)
        assert cells is not None  # noqa: S101  # the loop runs at least once; for the type checker
        return cells

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, y, count, for_fp, for_fn, slopes = ctx.saved_tensors
        bound = _bound(x)
        tn, fp, fn, tp = (grad.clamp(-bound, bound) for grad in grads)
        rows = rows_per_block(x)
        if torch.is_grad_enabled():  # someone wants second derivatives
            slopes = slope(ctx.prior, x, from_logits=ctx.from_logits)
            rows = x.shape[0]

        ordinary = for_fp is None
        if_negative, if_positive = (fp - tn, tp - fn) if ordinary else (-tn, tp)
        between, if_negative = (if_positive - if_negative).to(x.dtype), if_negative.to(x.dtype)
        fp, fn = fp.to(x.dtype), fn.to(x.dtype)

        def moved(part: slice) -> Tensor:
            """What calling a sample positive changes: it goes from TN to FP or from FN to TP, in these amounts."""
            change = torch.addcmul(if_negative, y[part], between)
            if count is not None:
                change = change * count[part]
            if ordinary:
                return change
            return torch.addcmul(torch.addcmul(change, for_fp[part], fp), for_fn[part], fn, value=-1)

        none = (None,) * 6
        if rows >= x.shape[0]:
            return (slopes * moved(slice(None))).to(x.dtype), *none
        grad = torch.empty_like(x)
        for start in range(0, x.shape[0], rows):
            part = slice(start, start + rows)
            torch.mul(slopes[part], moved(part), out=grad[part])
        return grad, *none


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
    return total(cells[0]), total(cells[1]), total(cells[2]), total(cells[3])


def _threshold_like(threshold: object, x: Tensor) -> Tensor:
    if isinstance(threshold, Weight):
        raise TypeError(f"threshold must be a number, saw {threshold}. Pass it as weight=.")
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
