"""Confusion matrices: the object, at a threshold, and expected over a prior of the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from scorewise._cells import Balance, Tally, balance_of, balanced, cells_of, class_counts, expected_sums, plan_for
from scorewise._inputs import Batch, check_now, extremes, limits, prepare
from scorewise._labels import group, one_or_each, over_labels
from scorewise._values import as_tensor, describe
from scorewise._watch import is_valid
from scorewise.priors import as_prior
from scorewise.scores import ratio
from scorewise.weights import Weight
from scorewise.weights.base import Chances, Pair, as_weight, looks_around, sees_threshold

CELLS = ("tn", "fp", "fn", "tp")


@dataclass(frozen=True, eq=False)
class Unbalanced:
    """What a matrix was before its errors were divided by class frequencies: what can be added to another's.

    ``counts`` are the negatives and positives that count, and ``times`` is how often their share divides the errors.
    """

    errors: Pair
    counts: Pair
    times: Balance


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """The four cells of a binary confusion matrix, as tensors (float64, if made here); with labels, one entry each.

    Matrices of parts of a data set are added (``a + b``, ``sum(parts)``) and scored last: the score of a sum is not
    the mean of scores. That is exact for every weight: one that reads class frequencies makes matrices that remember
    them. ``numpy.asarray(matrix)`` is [[TN, FP], [FN, TP]], row = truth, as in scikit-learn.

    Example:
        >>> day, night = ConfusionMatrix(tn=8, fp=1, fn=0, tp=3), ConfusionMatrix(tn=5, fp=0, fn=2, tp=1)
        >>> day + night
        ConfusionMatrix(tn=13, fp=1, fn=2, tp=4)
    """

    tn: Tensor
    fp: Tensor
    fn: Tensor
    tp: Tensor
    _unbalanced: Unbalanced | None = field(default=None, kw_only=True)
    _whole: bool = field(default=False, kw_only=True)  # whether it is summed over processes already

    def __post_init__(self) -> None:
        for name in CELLS:
            value = getattr(self, name)
            tensor = as_tensor(value, name)
            if tensor.is_complex():
                raise TypeError(f"ConfusionMatrix: {name} must be real, saw {tensor.dtype}.")
            if tensor is not value or not tensor.is_floating_point():
                tensor = tensor.double()
                if bool((tensor < 0).any() | tensor.isnan().any()):
                    raise ValueError(f"ConfusionMatrix: {name} must be at least 0, saw {describe(tensor)}.")
                object.__setattr__(self, name, tensor)
        shapes = [tuple(getattr(self, name).shape) for name in CELLS]
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
        mine, theirs = self._unbalanced, other._unbalanced
        if (0 if mine is None else mine.times) != (0 if theirs is None else theirs.times):
            raise ValueError(
                "matrices can be added only if both or neither are weighted by class frequencies; make both with the "
                "same weight."
            )
        # one that remembers counts which the other does not know loses them
        sums = [a + b for a, b in zip(self._sums(), other._sums(), strict=False)]
        return self._made_of(sums, whole=self._whole or other._whole)

    def __radd__(self, other: object) -> ConfusionMatrix:
        # sum() starts from 0
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _sums(self) -> tuple[Tensor, ...]:
        """The sums over samples that it is made of: four, and two more if it remembers class counts."""
        if self._unbalanced is None:
            return self.tn, self.fp, self.fn, self.tp
        return self.tn, *self._unbalanced.errors, self.tp, *self._unbalanced.counts

    def _made_of(self, sums: Sequence[Tensor], *, whole: bool) -> ConfusionMatrix:
        """A matrix like this one, of other sums."""
        tn, fp, fn, tp, *counts = sums
        times = 0 if self._unbalanced is None else self._unbalanced.times
        made = matrix_of((tn, fp, fn, tp), (counts[0], counts[1]) if counts else None, times)
        return replace(made, _whole=whole)

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
        cells = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in CELLS)
        return f"ConfusionMatrix({cells})"


def matrix_of(sums: Tally, counts: Pair | None, times: Balance) -> ConfusionMatrix:
    """The matrix of sums over samples, and of class counts where they are needed: see `balanced`."""
    if counts is None:
        return ConfusionMatrix(*sums)
    cells = balanced(sums, counts, times) if times else sums
    return ConfusionMatrix(*cells, _unbalanced=Unbalanced((sums[1], sums[2]), counts, times))


def confusion_matrix(
    predictions: Tensor,
    targets: Tensor,
    threshold: float | Tensor = 0.5,
    weight: Weight | Sequence[Weight | None] | None = None,
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
        threshold: Any number; below 0 everything is called positive. Compared in the predictions' dtype. With labels,
            one for all or one for each.
        weight: What an error costs, an object of `scorewise.weights`; None for one each. With labels, one for all or a
            list of one for each.
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
    weights = one_or_each(weight, as_weight, "weight")
    rest = {"groups": groups, "times": times, "mask": mask, "sample_weight": sample_weight, "costs": costs}
    batch = read(predictions, targets, weights, from_logits=from_logits, hard=True, **rest)
    with torch.no_grad():
        x = torch.sigmoid(batch.predictions) if from_logits else batch.predictions
        tau = _threshold_like(threshold, x)
        _check_distance(tau, weights)
        # Each label with its own threshold, if it has one; none is worked on together with another then.
        taus = tuple(tau) if isinstance(weights, tuple) and tau.dim() else tau
        cells = over_labels(batch, group(threshold=taus, weight=weights), (taus, weights), _cells_at)
        return _matrix(batch, cells, weights)


def expected_confusion_matrix(
    predictions: Tensor,
    targets: Tensor,
    prior: object = None,
    weight: Weight | Sequence[Weight | None] | None = None,
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
            None for the uniform prior. With labels, one for all or a list of one for each.
        weight: What an error costs, an object of `scorewise.weights`; None for one each. With labels, one for all or a
            list of one for each.
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
    weights, priors = one_or_each(weight, as_weight, "weight"), one_or_each(prior, as_prior, "prior")
    rest = {"groups": groups, "times": times, "mask": mask, "sample_weight": sample_weight, "costs": costs}
    batch = read(predictions, targets, weights, from_logits=from_logits, **rest)
    sums = over_labels(batch, group(prior=priors, weight=weights), (priors, weights), expected_sums)
    return _matrix(batch, sums, weights)


def _shown(cell: Tensor) -> str:
    """Counts in full, expectations to six digits."""
    if cell.dim():
        return f"[{', '.join(_shown(one) for one in cell)}]"
    value = float(cell.detach())
    return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"


def decide(predictions: Tensor, threshold: Tensor) -> Tensor:
    """The decision rule: positive where the prediction is strictly greater than the threshold."""
    return predictions > threshold


def _cells_at(batch: Batch, tau: Tensor, weight: Weight | None) -> Tally:
    """The cells at a threshold, of a batch that is known to be sound, before they are balanced."""
    batch, chances = decided(batch, tau, weight)
    return cells_of(batch, plan_for(batch, weight), chances)


def decided(batch: Batch, tau: Tensor, weight: Weight | None) -> tuple[Batch, Chances]:
    """A batch, in float64 if it has a weight, and which of its samples are alarms at a threshold."""
    x = torch.sigmoid(batch.predictions) if batch.from_logits else batch.predictions
    alarm = decide(x, tau)
    if weight is not None and x.device.type != "mps":
        # Decided in the predictions' dtype, but weighted in float64: 1/3 is not 0.33333334.
        batch = replace(batch, predictions=batch.predictions.double(), targets=batch.targets.double())
        tau = tau.double()
    cdf = alarm.to(batch.targets.dtype)
    return batch, Chances(cdf, 1 - cdf, threshold=tau)


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


def _check_distance(tau: Tensor, weights: Weight | tuple[Weight | None, ...] | None) -> None:
    """Raise if a weight sees a threshold that is infinitely far from all predictions."""
    each = weights if isinstance(weights, tuple) else (weights,)
    seeing = [weight for weight in each if weight is not None and sees_threshold(weight)]
    if seeing and not torch.compiler.is_compiling() and bool(tau.isinf().any()):
        raise ValueError(f"threshold must be finite for {seeing[0]}, which sees it; in {tau.dtype} it is not.")


def read(predictions: object, targets: object, weight: Weight | tuple[Weight | None, ...] | None, **rest: Any) -> Batch:
    """What users passed, made ready and, where that is possible, judged."""
    batch = prepare(predictions, targets, context=looks_around(weight), **rest)
    if not torch.compiler.is_compiling():
        check_now(batch)
    return batch


def _matrix(
    batch: Batch, cells: tuple[Tensor, ...], weight: Weight | tuple[Weight | None, ...] | None
) -> ConfusionMatrix:
    if torch.compiler.is_compiling():
        # A compiled graph cannot raise: what it was given badly comes out as NaN.
        sound = is_valid(extremes(batch), limits(from_logits=batch.from_logits))
        cells = tuple(torch.where(sound, cell, math.nan) for cell in cells)
    tn, fp, fn, tp = cells
    times = balance_of(weight)
    return matrix_of((tn, fp, fn, tp), class_counts(batch) if times else None, times)
