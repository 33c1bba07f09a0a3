"""Weights of the user's own, and products of weights that see the threshold: integrated over it."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from scorewise._inputs import Batch
from scorewise._values import is_number, is_whole, number, shape_of
from scorewise.priors.base import ThresholdPrior, as_pair, gauss_legendre
from scorewise.priors.stretches import spread_nodes, stretches_of
from scorewise.priors.tables import Table
from scorewise.weights.base import Chances, Pair, PointWeight, Weight, unchanged
from scorewise.weights.windows import Windows

_NUMBERS_AT_A_TIME = 1 << 24


@dataclass(frozen=True, eq=False)
class Custom(Weight):
    r"""Any weight, written for given thresholds and integrated over them.

    The integral is cut wherever an alarm of the window begins or ends, and where the prior's density changes its
    character. In each stretch the Gauss-Legendre rule is weighted by the density and scaled to the prior's own mass: it
    is exact for a weight that sees the threshold through alarms only, and converges fast for one that is smooth in it.
    That is ``points`` evaluations for each stretch of each sample; where a closed form exists (the other weights, and
    products with one of Margin and Value at most), use that. Derivatives are exact as well, but there are none of
    second order.

    Args:
        fn: ``fn(tau, targets, predictions, label_window, alarm_window)``, all float tensors: tau (n, P); targets and
            predictions, probabilities, (n, 1); windows (n, P, 2 window + 1) of 0 and 1, earliest first, the sample
            itself in the middle, and 0 where there is no sample. With several labels, n counts samples × labels.
            It returns weights, broadcastable to (n, P), made of differentiable steps; `admissible` checks that. They
            must be at least 0 where the sample is an error: label 0 and tau < prediction, or label 1 and tau not less.
            What it does with each sample must not depend on the others, since samples come in parts, and its arguments
            must not be changed in place. Soft labels come as they are. It is asked at thresholds that equal a
            prediction of the window too, where the derivative is taken from.
        window: How many steps of time to see on each side.
        points: Points of the rule in each stretch.

    Example:
        A false alarm costs less while the alarm before it is still on:

        >>> import torch, scorewise as sw
        >>> def fn(tau, targets, predictions, label_window, alarm_window):
        ...     return torch.where(targets > 0, 1.0, 1 - 0.5 * alarm_window[..., 0])
        >>> weight = Custom(fn, window=1)
        >>> sw.expected_confusion_matrix(torch.tensor([0.5, 0.25]), torch.tensor([0, 0]), weight=weight)
        ConfusionMatrix(tn=1.25, fp=0.625, fn=0, tp=0)
    """

    formula: ClassVar[str] = r"w = w(\tau, y, \hat y, \ldots)"

    fn: PointWeight
    window: int = 0
    points: int = 32
    _rule: Table = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"Custom: fn must be a function, saw {type(self.fn).__name__}.")
        for name, least in (("window", 0), ("points", 1)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise ValueError(f"Custom: {name} must be a whole number of at least {least}, saw {value!r}.")
            object.__setattr__(self, name, int(value))
        object.__setattr__(self, "_rule", _rule(self.points))

    @property
    def reach(self) -> int:
        """The window."""
        return self.window

    def _cores(self) -> tuple[Weight, ...]:
        return (self,)

    def _ready(self, prior: ThresholdPrior) -> None:
        stretches_of(prior)

    def _errors(self, batch: Batch, chances: Chances) -> Pair:
        return integrate(self._at, self.window, self._rule, batch, chances)

    def _at(self, tau: Tensor, targets: Tensor, predictions: Tensor, labels: Tensor, alarms: Tensor) -> Tensor:
        given = (tau, targets, predictions, labels, alarms)
        with unchanged("Custom: fn", given):
            returned: Any = self.fn(*given)
        if not (returned.is_floating_point() if isinstance(returned, Tensor) else is_number(returned)):
            seen = returned.dtype if isinstance(returned, Tensor) else type(returned).__name__
            raise TypeError(f"Custom: fn must return a tensor of floating point numbers, saw {seen}.")
        weight = returned if isinstance(returned, Tensor) else tau.new_tensor(float(returned))
        try:
            fits = torch.broadcast_shapes(weight.shape, tau.shape) == tau.shape
        except RuntimeError:
            fits = False
        if not fits:
            raise ValueError(
                f"Custom: fn must return weights that broadcast to the shape {shape_of(tau)} of tau, saw "
                f"{shape_of(weight)}."
            )
        return weight


def core_of(weight: Weight) -> Callable[[Batch, Chances], Pair] | None:
    """What gives W_P and W_N, apart from factors; None where the threshold is seen by no part of the weight."""
    cores = weight._cores()
    if len(cores) <= 1:
        return cores[0]._errors if cores else None
    return functools.partial(_integrate_product, cores)


def _integrate_product(cores: tuple[Weight, ...], batch: Batch, chances: Chances) -> Pair:
    """W_P and W_N of a product of weights that all see the threshold."""
    reach = max(core.reach for core in cores)
    rule = _DEFAULT_RULE
    for core in cores:
        if isinstance(core, Custom) and core._rule.values[0].shape > rule.values[0].shape:
            rule = core._rule

    def product(tau: Tensor, targets: Tensor, predictions: Tensor, labels: Tensor, alarms: Tensor) -> Tensor:
        weight = torch.ones_like(tau)
        for core in cores:
            inner = slice(reach - core.reach, reach + core.reach + 1)
            weight = weight * core._at(tau, targets, predictions, labels[..., inner], alarms[..., inner])
        return weight

    return integrate(product, reach, rule, batch, chances)


def _rule(points: int) -> Table:
    """Nodes on [0, 1] and masses of the Gauss-Legendre rule."""
    with contextlib.nullcontext() if torch.compiler.is_compiling() else torch.device("cpu"):
        return Table(gauss_legendre(points))


_DEFAULT_RULE = _rule(32)


def integrate(function: PointWeight, reach: int, rule: Table, batch: Batch, chances: Chances) -> Pair:
    """W_P and W_N of a weight that is given at single thresholds."""
    if batch.targets.requires_grad:
        raise ValueError("an integrated weight has no derivatives by the labels; pass targets.detach().")
    # A layout wants room for one step at least.
    windows = Windows(batch.targets, batch.timeline, max(reach, 1))
    laid = _lay(windows, batch, chances)
    function = functools.partial(_checked, function, strict=batch.checked)
    if chances.prior is None:
        assert chances.threshold is not None  # noqa: S101  # one of both is there; for the type checker
        tau = windows.lay(chances.threshold.expand(windows.shape), 0.0)
        part = functools.partial(_at_threshold, function, reach, windows, laid, tau)
        size = 2 * reach + 1
    else:
        facts = stretches_of(chances.prior).like(laid.cdf)
        nodes = rule.like(laid.cdf)
        part = functools.partial(_averaged, function, reach, nodes, windows, laid, (chances.prior, facts))
        size = (2 * reach + 1) * (2 * reach + 2 + len(facts[0])) * len(nodes[0])

    rows = windows.places(windows.everyone()).reshape(windows.labels, windows.shape[0])
    step = max(1, _NUMBERS_AT_A_TIME // (size * windows.labels))
    if rows.shape[1] <= step or torch.compiler.is_compiling():
        w_p, w_n = part(rows)
    else:
        # What autograd would keep for the backward pass of all parts at once may not fit into memory.
        parts = [checkpoint(part, some, use_reentrant=False) for some in rows.split(step, 1)]
        w_p, w_n = (torch.cat(both, 1) for both in zip(*parts, strict=True))
    return windows.lift(windows.padded(w_p, 0.0)), windows.lift(windows.padded(w_n, 0.0))


@dataclass(frozen=True)
class _Laid:
    """A batch in the order of time. The last three have gradients."""

    known: Tensor  # predictions as probabilities, -1 where there is none
    y: Tensor
    counted: Tensor | None
    probability: Tensor
    cdf: Tensor
    sf: Tensor


def _lay(windows: Windows, batch: Batch, chances: Chances) -> _Laid:
    x, silent, count = batch.predictions, batch.silent, batch.count
    once: Callable[..., Tensor] = _Once.apply
    probability, cdf, sf = (once(t, x) for t in (as_pair(x, from_logits=batch.from_logits)[0], chances.cdf, chances.sf))
    known = probability.detach()
    if silent is not None:
        known, cdf, sf = known.masked_fill(silent, -1.0), cdf.masked_fill(silent, 0.0), sf.masked_fill(silent, 1.0)
    counted = None
    if count is not None:
        counted = windows.lay((count.detach() > 0).expand(windows.shape), False)
        # What does not count must not matter: the function need not be fit for a prediction that is not there.
        probability = torch.where(count > 0, probability, 0.5)
    return _Laid(
        windows.lay(known, -1.0),
        windows.lay(batch.targets.detach(), 0.0),
        counted,
        windows.lay(probability, 0.5),
        windows.lay(cdf, 0.0),
        windows.lay(sf, 1.0),
    )


def _window(windows: Windows, reach: int, rows: Tensor) -> Tensor:
    """(2 reach + 1, rows): the places around each row, earliest first."""
    near = windows.around(rows)
    return torch.stack([near.at(lag) if lag else rows for lag in range(reach, -reach - 1, -1)])


def _at_threshold(  # noqa: PLR0917  # made by functools.partial
    function: Callable[..., Tensor], reach: int, windows: Windows, laid: _Laid, tau: Tensor, rows: Tensor
) -> Pair:
    flat = rows.reshape(-1)
    places = _window(windows, reach, flat)
    alarm = laid.cdf[flat]
    weight = function(
        *(tau[flat, None].to(laid.probability.dtype), laid.y[flat, None], laid.probability[flat, None]),
        *(laid.y[places].t()[:, None], laid.cdf[places].t()[:, None]),
        matters=_matters(laid, flat, alarm[:, None]),
    )[:, 0]
    return (weight * alarm).reshape(rows.shape), (weight * laid.sf[flat]).reshape(rows.shape)


def _averaged(  # noqa: PLR0917  # made by functools.partial
    function: Callable[..., Tensor],
    reach: int,
    rule: tuple[Tensor, ...],
    windows: Windows,
    laid: _Laid,
    of_prior: tuple[ThresholdPrior, tuple[Tensor, ...]],
    rows: Tensor,
) -> Pair:
    """The integral over the threshold, in stretches between the predictions of the window and the prior's cuts."""
    flat = rows.reshape(-1)
    n, points = flat.shape[0], len(rule[0])
    prior, facts = of_prior
    # Facts have the prior's labels, if it has any, as their last axis, and rows come label by label.
    wide = rows.shape if prior.batch_shape else (n,)
    cuts, cut_cdf, cut_sf, *ends_of_prior = (
        t.unsqueeze(-1).expand(*t.shape, wide[-1]).reshape(*t.shape[: t.dim() + 1 - len(wide)], n) for t in facts
    )
    places = _window(windows, reach, flat)
    values, order = torch.cat([laid.known[places], cuts]).sort(0)
    ranks = order.argsort(0)[: 2 * reach + 1]
    cdf, sf = (
        torch.cat([tail[places], at_cuts]).gather(0, order)
        for tail, at_cuts in ((laid.cdf, cut_cdf), (laid.sf, cut_sf))
    )
    zero, one = torch.zeros_like(cdf[:1]), torch.ones_like(cdf[:1])
    cdf_ends, sf_ends = torch.cat([zero, cdf, one]), torch.cat([one, sf, zero])

    with torch.no_grad():
        # Of the two differences the one of small numbers keeps its digits.
        masses = torch.where(cdf_ends[:-1] < 0.5, cdf_ends.diff(dim=0), -sf_ends.diff(dim=0)).clamp(min=0)
        edges = torch.cat([zero, values.clamp(0, 1), one])
        count = masses.shape[0]
        tau, rest, pace = spread_nodes(rule[0][:, None], edges[:-1, None], edges[1:, None], tuple(ends_of_prior))
        # the prior's labels, if it has any, are its last axis
        pair = (t.reshape(count, points, *rows.shape).transpose(-1, -2) for t in (tau, rest))
        density = prior._pdf(*pair).transpose(-1, -2).reshape(count, points, n)
        parts = rule[1][:, None] * torch.where(density.isfinite() & pace.isfinite(), density * pace, 0.0)
        whole = parts.sum(1, keepdim=True)
        # Scaled to the mass that the prior has there. Where the rule sees none of it, it is somewhere in the stretch.
        shares = torch.where(whole > 0, parts / torch.where(whole > 0, whole, 1.0), rule[1][:, None])
        shares = shares * masses[:, None]
        # In stretch k, from below, the alarms are those of rank k or more.
        stretch = torch.arange(count, device=flat.device)[:, None, None]
        alarms = ((ranks >= stretch) & (laid.known[places] >= 0)).to(cdf.dtype)
        own = alarms[:, reach]

    def evaluated(tau: Tensor, alarms: Tensor, own: Tensor, *, only: Tensor | None = None) -> Tensor:
        """The weight at (stretches, points, rows) thresholds, in stretches with the given alarms."""
        stretches, inner = tau.shape[:2]
        seen = alarms.permute(2, 0, 1).repeat_interleave(inner, 1)
        matters = _matters(laid, flat, own.t().repeat_interleave(inner, 1))
        if only is not None:
            matters = matters & only.t().repeat_interleave(inner, 1)
        at = tau.reshape(stretches * inner, n).t()
        y, probability = laid.y[flat, None], laid.probability[flat, None]
        # Where it does not matter the function is asked at a threshold where it might.
        at = torch.where(matters, at, ((y > 0) + probability.detach()) / 2)
        labels = laid.y[places].t()[:, None].expand_as(seen)
        weight = function(at, y, probability, labels, seen, matters=matters)
        return weight.t().reshape(stretches, inner, n)

    inside = (evaluated(tau, alarms, own) * shares).sum(1)
    # By Leibniz' rule the integral also moves with its cuts, by the weight on one side less that on the other. These
    # terms are 0, and their derivatives are what they are there for. The prior's cuts do not move.
    with torch.no_grad():
        cut, movable = edges[1:-1, None], order < 2 * reach + 1
        before = evaluated(cut, alarms[:-1], own[:-1], only=movable)[:, 0]
        after = evaluated(cut, alarms[1:], own[1:], only=movable)[:, 0]
    moves = cdf - cdf.detach()
    out = []
    for on in (own, 1 - own):
        steps = on[:-1] * before - on[1:] * after
        out.append(((inside * on).sum(0) + (moves * steps).sum(0)).reshape(rows.shape))
    return out[0], out[1]


def _matters(laid: _Laid, flat: Tensor, alarm: Tensor) -> Tensor:
    """Where a sample is an error that counts: (rows, thresholds), as ``alarm`` is."""
    y = laid.y[flat, None]
    error = ((y < 1) & (alarm > 0)) | ((y > 0) & (alarm < 1))
    return error if laid.counted is None else error & laid.counted[flat, None]


def _checked(function: PointWeight, *arguments: Tensor, matters: Tensor, strict: bool) -> Tensor:
    weight = torch.where(matters, function(*arguments).expand_as(arguments[0]), 0.0)
    if not strict:
        return weight
    if torch.compiler.is_compiling() or weight.device.type != "cpu":
        # Nothing is raised where that would make the host wait; a loss that is NaN is noticed.
        return torch.where((weight >= 0) & weight.isfinite(), weight, math.nan)
    good = (weight >= 0) & weight.isfinite()
    if not bool(good.all()):
        bad = (~good).nonzero()
        row, column = bad[0].tolist()
        tau, targets, predictions = (t[row, min(column, t.shape[1] - 1)].item() for t in arguments[:3])
        raise ValueError(
            f"a weight must be finite and at least 0, but the function returned {number(weight[row, column].item())} "
            f"for threshold {number(tau)}, label {number(targets)}, prediction {number(predictions)}, and "
            f"{len(bad)} of {weight.numel()} such values in all."
        )
    return weight


class _Once(torch.autograd.Function):
    """The identity, whose gradient must not be differentiated: what would come out is wrong."""

    @staticmethod
    def forward(value: Tensor, predictions: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return grads[0], None
        final: Callable[..., Tensor] = _Final.apply
        return final(grads[0], *ctx.saved_tensors), None


class _Final(torch.autograd.Function):
    """The identity, which refuses to be differentiated, by the gradient that it passes on or by the predictions."""

    @staticmethod
    def forward(grad: Tensor, predictions: Tensor) -> Tensor:
        return grad.view_as(grad)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        raise RuntimeError(
            "an integrated weight (Custom, or a product of two weights that see the threshold) has no second "
            "derivatives. Cost, CrossEntropy, Margin, ClassFrequency, Value, and products of these with one of Margin "
            "and Value at most, have them."
        )
