"""The four cells as sums over samples: weighted, expected or at a threshold, fused where nothing has to see inside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from scorewise._blocks import rows_per_block
from scorewise._inputs import Batch
from scorewise._sums import total
from scorewise.priors import ThresholdPrior
from scorewise.priors.base import as_pair, slope, tails
from scorewise.scores import ratio
from scorewise.weights.base import Chances, Pair, Weight, multiplied, transformed
from scorewise.weights.custom import core_of

Tally = tuple[Tensor, Tensor, Tensor, Tensor]
"""TN, FP, FN, TP."""


def expected_cells(batch: Batch, prior: ThresholdPrior, weight: Weight | None = None) -> Tally:
    """The expected matrix of a batch that is known to be sound."""
    sums, times = expected_sums(batch, prior, weight), balance_of(weight)
    return balanced(sums, class_counts(batch), times) if times else sums


def expected_sums(batch: Batch, prior: ThresholdPrior, weight: Weight | None = None) -> Tally:
    """The same before it is balanced: what adds up over batches."""
    check_labels(prior, batch.predictions)
    return expected_under(batch, prior, plan_for(batch, weight))


def expected_under(batch: Batch, prior: ThresholdPrior, plan: Plan) -> Tally:
    """The same, with errors weighted as a plan says."""
    x, y, count = batch.predictions, batch.targets, batch.count
    if plan.core is not None or plan.learns or transformed():
        return cells_of(batch, plan, Chances(*tails(prior, x, from_logits=batch.from_logits), prior=prior))
    fused: Callable[..., Tally] = _ExpectedCells.apply
    cells = fused(x, y, count, *(plan.coefficients or (None, None)), prior, batch.from_logits)
    return scaled(cells, plan.scales)


def check_labels(prior: ThresholdPrior, x: Tensor) -> None:
    """Raise a ValueError unless a prior's parameters are numbers, or one for each label."""
    if prior.batch_shape and (x.dim() == 1 or prior.batch_shape != x.shape[1:]):
        raise ValueError(
            f"the prior's parameters have the shape {tuple(prior.batch_shape)}, but there are "
            f"{'no labels' if x.dim() == 1 else f'{x.shape[1]} labels'}: expected numbers"
            f"{'' if x.dim() == 1 else ' or one value per label'}."
        )


@dataclass(frozen=True)
class Plan:
    """How the errors of a batch are weighted.

    Wherever possible by ``coefficients`` a and r: FP = Σ a·cdf and FN = Σ r·sf; None stands for the ordinary ones.
    Otherwise by a ``core``, which has to be asked for W_P and W_N: FP = Σ coefficient·W_P and FN = Σ coefficient·W_N.
    ``scales`` multiply the sums, and ``balance`` is what is left to do when all samples are summed: see `balanced`.
    ``learns``: whether anything but the predictions' alarms has a gradient.
    """

    scales: tuple[float, float] = (1.0, 1.0)
    balance: int = 0
    coefficients: Pair | None = None
    core: Callable[[Batch, Chances], Pair] | None = None
    learns: bool = False


def plan_for(batch: Batch, weight: Weight | None) -> Plan:
    """How to weight the errors of a batch: the fastest way that the weight allows."""
    y, count = batch.targets, batch.count
    learns = y.requires_grad or (count is not None and count.requires_grad)
    factors = multiplied(batch.costs, None if weight is None else weight._factors(batch))
    scales, balance = ((1.0, 1.0), 0) if weight is None else (weight._scales(), weight._balance())
    core = None if weight is None else core_of(weight)
    if factors is None and core is None:
        return Plan(scales, balance, learns=learns)

    # A part that sees the threshold through alarms only has coefficients too.
    cores = () if weight is None else weight._cores()
    learns = learns or (factors is not None and any(factor.requires_grad for factor in factors))
    spreads = len(cores) == 1
    amounts = None
    if not (spreads and count is None and factors is None and not learns):
        if_positive = y if count is None else y * count
        # for 0/1 labels the difference is exact
        if_negative = 1 - y if count is None else count - if_positive
        amounts = if_negative, if_positive
        if factors is not None:
            amounts = if_negative * factors[0], if_positive * factors[1]
    spread = cores[0]._spread(batch, amounts) if spreads else None
    if spread is not None:
        return Plan(scales, balance, spread, learns=learns)
    return Plan(scales, balance, (1 - y, y) if amounts is None else amounts, core, learns)


def cells_of(batch: Batch, plan: Plan, chances: Chances) -> Tally:
    """The matrix, by the shortest formulas; autograd and the compiler see every step of it."""
    tn, fp, fn, tp = _tally(chances.cdf, chances.sf, batch.targets, batch.count)
    if plan.coefficients is not None:
        alarm, quiet = (chances.cdf, chances.sf) if plan.core is None else plan.core(batch, chances)
        fp, fn = total(plan.coefficients[0] * alarm), total(plan.coefficients[1] * quiet)
    bounded: Callable[..., Tensor] = _Bounded.apply
    tn, fp, fn, tp = (bounded(cell, _bound(batch.targets)) for cell in (tn, fp, fn, tp))
    return scaled((tn, fp, fn, tp), plan.scales)


def cells_of_each(batch: Batch, weight: Weight | None, chances: Chances) -> Tally:
    """What each sample adds to the cells, before they are balanced: its own error, with what that costs."""
    y = batch.targets
    count = torch.ones_like(y) if batch.count is None else batch.count
    factors = multiplied(batch.costs, None if weight is None else weight._factors(batch))
    scales = (1.0, 1.0) if weight is None else weight._scales()
    core = None if weight is None else core_of(weight)
    alarm, quiet = (chances.cdf, chances.sf) if core is None else core(batch, chances)
    if_positive = y * count
    if_negative = count - if_positive
    fp, fn = if_negative * alarm * scales[0], if_positive * quiet * scales[1]
    if factors is not None:
        fp, fn = fp * factors[0], fn * factors[1]
    return if_negative * chances.sf, fp, fn, if_positive * chances.cdf


def scaled(cells: Tally, scales: tuple[float, float]) -> Tally:
    """The cells with the errors multiplied."""
    tn, fp, fn, tp = cells
    return tn, fp if scales[0] == 1 else fp * scales[0], fn if scales[1] == 1 else fn * scales[1], tp


def weighted(cells: Tally, plan: Plan, batch: Batch) -> Tally:
    """The cells of a whole batch, with the errors multiplied and balanced."""
    cells = scaled(cells, plan.scales)
    return balanced(cells, class_counts(batch), plan.balance) if plan.balance else cells


Balance = int | tuple[int, ...]
"""How many times errors are divided by their class's share of the samples; a tuple where labels differ, 0 for never."""


def balance_of(weight: Weight | tuple[Weight | None, ...] | None) -> Balance:
    """The `Balance` of a weight, or of one for each label."""
    if isinstance(weight, tuple):
        each = tuple(0 if one is None else one._balance() for one in weight)
        return each if any(each) else 0
    return 0 if weight is None else weight._balance()


def class_counts(batch: Batch) -> Pair:
    """How many negatives and positives count, of each label."""
    y, count = batch.targets, batch.count
    if count is None and not torch.compiler.is_compiling():
        positives = total(y)
        return y.shape[0] - positives, positives
    counted = torch.ones_like(y) if count is None else count.expand_as(y)
    # One sum of both: among many other sums in a kernel, two are too many for Triton's compiler (PyTorch 2.11).
    negatives, positives = total(torch.stack([counted - y * counted, y * counted], 1))
    return negatives, positives


def balanced(cells: Tally, counts: Pair, times: Balance) -> Tally:
    """The cells with the errors of a class divided by its share of the samples, if both had half of them."""
    negatives, positives = counts
    everything = negatives + positives
    tn, fp, fn, tp = cells
    fp = fp * _power(ratio(everything, 2 * negatives), times)
    fn = fn * _power(ratio(everything, 2 * positives), times)
    return tn, fp, fn, tp


def _power(x: Tensor, times: Balance) -> Tensor:
    return x**times if isinstance(times, int) else torch.stack([x[j] ** k for j, k in enumerate(times)])


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
        # One place for the cells of every block: it stays in the cache, and is summed at once.
        own = x.new_empty((4, min(rows, x.shape[0]), *x.shape[1:]), dtype=_common(x, y, count, for_fp, for_fn))
        tn, fp, fn, tp = own.unbind()
        fits = from_logits and own.dtype == x.dtype
        sums: Tensor | None = None
        for start in range(0, max(1, x.shape[0]), rows):
            part = None if rows >= x.shape[0] else slice(start, start + rows)
            inner, truth, counted = _part(x, part), _part(y, part), _part(count, part)
            if inner.shape[0] < own.shape[1]:
                own = own[:, : inner.shape[0]]
                tn, fp, fn, tp = own.unbind()
            # As `as_pair`, but in place, which only eager code may do: where FP and TN come in the end.
            if fits:
                pair = torch.sigmoid(inner, out=fp), torch.neg(inner, out=tn).sigmoid_()
            else:
                pair = as_pair(inner, from_logits=from_logits)
            if slopes is not None:
                steep = prior._slope(*pair) if from_logits else slope(prior, inner, from_logits=False)
                _part(slopes, part).copy_(steep)
            cdf, sf = prior._tails(*pair)
            torch.mul(truth, cdf, out=tp)
            if for_fp is None or for_fn is None:
                torch.mul(truth, sf, out=fn)
                torch.sub(sf, fn, out=tn)
                torch.sub(cdf, tp, out=fp)
                if counted is not None:
                    own.mul_(counted)
            else:
                torch.mul(_part(for_fp, part), cdf, out=fp)
                torch.mul(_part(for_fn, part), sf, out=fn)
                torch.sub(sf, truth * sf, out=tn)
                if counted is not None:
                    tn.mul_(counted)
                    tp.mul_(counted)
            new = total(own, 1)
            sums = new if sums is None else sums.add_(new)
        ctx.prior, ctx.from_logits = prior, from_logits
        ctx.save_for_backward(x, y, count, for_fp, for_fn, slopes)
        assert sums is not None  # noqa: S101  # the loop runs at least once; for the type checker
        # Copies, since views of one tensor could not be changed in place. PyTorch does not say what this returns.
        tn, fp, fn, tp = torch.unbind_copy(sums)  # type: ignore[func-returns-value, misc]
        return tn, fp, fn, tp

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
        return x.clone()  # a view could not be changed in place

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
    return _totals(cells if count is None else _counted(cells, count))


def _counted(cells: Tally, count: Tensor) -> Tally:
    # In the dtype of the weights, float64: rounded to the predictions' they would not add up exactly.
    return cells[0] * count, cells[1] * count, cells[2] * count, cells[3] * count


MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)


def _part(t: MaybeTensor, rows: slice | None) -> MaybeTensor:
    """Some rows, or all: on a small batch each slice takes as long as a step of the work."""
    return t if t is None or rows is None else t[rows]


def _common(*tensors: Tensor | None) -> torch.dtype:
    """The dtype of what comes of them all."""
    dtypes = {t.dtype for t in tensors if t is not None}
    return functools.reduce(torch.promote_types, dtypes)


def _totals(cells: Tally) -> Tally:
    return total(cells[0]), total(cells[1]), total(cells[2]), total(cells[3])
