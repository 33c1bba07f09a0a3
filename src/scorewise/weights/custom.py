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
from scorewise._values import is_number, number, shape_of
from scorewise.priors.base import ThresholdPrior, as_pair, gauss_legendre
from scorewise.priors.tables import Table
from scorewise.weights.base import Chances, Pair, PointWeight, Weight
from scorewise.weights.spread import silenced
from scorewise.weights.windows import Windows

_NUMBERS_AT_A_TIME = 1 << 24


@dataclass(frozen=True, eq=False)
class Custom(Weight):
    r"""Any weight, written for given thresholds and integrated over them.

    The threshold is replaced by u = F(threshold), so that the prior's shape costs nothing, and the integral is cut
    wherever an alarm of the window begins or ends. Between two such cuts the Gauss-Legendre rule is exact for a weight
    that sees the threshold through alarms only, and converges fast for one that is smooth in it. It costs
    2 (window + 1)(points + 2) evaluations for each sample; where a closed form exists (the other weights and their
    products), use that. Derivatives are exact as well, but there are none of second order.

    Args:
        fn: ``fn(tau, targets, predictions, label_window, alarm_window)``, all float tensors: tau (n, P); targets and
            predictions, probabilities, (n, 1); windows (n, P, 2 window + 1) of 0 and 1, earliest first, the sample
            itself in the middle, and 0 where there is no sample. With several labels, n counts samples × labels.
            It returns weights of at least 0, broadcastable to (n, P), made of differentiable steps; `admissible` checks
            that. What it does with each sample must not depend on the others: samples come in parts.
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
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"Custom: {name} must be a whole number of at least {least}, saw {value!r}.")
        object.__setattr__(self, "_rule", _rule(self.points))

    @property
    def reach(self) -> int:
        """The window."""
        return self.window

    def _cores(self) -> tuple[Weight, ...]:
        return (self,)

    def _errors(self, batch: Batch, chances: Chances) -> Pair:
        return integrate(self._at, self.window, self._rule, batch, chances)

    def _at(self, tau: Tensor, targets: Tensor, predictions: Tensor, labels: Tensor, alarms: Tensor) -> Tensor:
        returned: Any = self.fn(tau, targets, predictions, labels, alarms)
        if not isinstance(returned, Tensor) and not is_number(returned):
            raise TypeError(f"Custom: fn must return a tensor, saw {type(returned).__name__}.")
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
    """Nodes on [0, 1] and masses of the Gauss-Legendre rule, and the two ends, without mass, for the derivatives."""
    with contextlib.nullcontext() if torch.compiler.is_compiling() else torch.device("cpu"):
        nodes, masses = gauss_legendre(points)
        return Table(
            [torch.cat([nodes.new_zeros(1), nodes, nodes.new_ones(1)]), torch.nn.functional.pad(masses, (1, 1))]
        )


_DEFAULT_RULE = _rule(32)


def integrate(function: PointWeight, reach: int, rule: Table, batch: Batch, chances: Chances) -> Pair:
    """W_P and W_N of a weight that is given at single thresholds."""
    # A layout wants room for one step at least.
    windows = Windows(batch.targets, batch.timeline, max(reach, 1))
    x, silent = batch.predictions, batch.silent
    once: Callable[..., Tensor] = _Once.apply
    probability, cdf, sf = (once(t, x) for t in (as_pair(x, from_logits=batch.from_logits)[0], chances.cdf, chances.sf))
    if silent is not None:
        cdf, sf = cdf.masked_fill(silent, 0.0), sf.masked_fill(silent, 1.0)
    laid = _Laid(
        windows.lay(silenced(x.detach(), silent), -math.inf),
        windows.lay(batch.targets.detach(), 0.0),
        windows.lay(probability, 0.0),
        windows.lay(cdf, 0.0),
        windows.lay(sf, 1.0),
    )
    function = functools.partial(_checked, function, strict=batch.checked)
    if chances.prior is None:
        assert chances.threshold is not None  # noqa: S101  # one of both is there; for the type checker
        tau = chances.threshold.expand(windows.shape)
        part = functools.partial(_at_threshold, function, reach, windows, laid, windows.lay(tau, 0.0))
        size = 2 * reach + 1
    else:
        nodes, masses = rule.like(laid.cdf)
        part = functools.partial(_averaged, function, reach, (nodes, masses), windows, laid, chances.prior)
        size = (2 * reach + 1) * 2 * (reach + 1) * len(nodes)

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

    x: Tensor
    y: Tensor
    probability: Tensor
    cdf: Tensor
    sf: Tensor


def _window(windows: Windows, reach: int, rows: Tensor) -> Tensor:
    """(2 reach + 1, rows): the places around each row, earliest first."""
    near = windows.around(rows)
    return torch.stack([near.at(lag) if lag else rows for lag in range(reach, -reach - 1, -1)])


def _at_threshold(  # noqa: PLR0917  # made by functools.partial
    function: PointWeight, reach: int, windows: Windows, laid: _Laid, tau: Tensor, rows: Tensor
) -> Pair:
    flat = rows.reshape(-1)
    places = _window(windows, reach, flat)
    weight = function(
        *(tau[flat, None].to(laid.probability.dtype), laid.y[flat, None], laid.probability[flat, None]),
        *(laid.y[places].t()[:, None], laid.cdf[places].t()[:, None]),
    )[:, 0]
    return (weight * laid.cdf[flat]).reshape(rows.shape), (weight * laid.sf[flat]).reshape(rows.shape)


def _averaged(  # noqa: PLR0917  # made by functools.partial
    function: PointWeight,
    reach: int,
    rule: tuple[Tensor, Tensor],
    windows: Windows,
    laid: _Laid,
    prior: ThresholdPrior,
    rows: Tensor,
) -> Pair:
    """The integral over u = F(threshold), stretch by stretch between the predictions of the window."""
    flat = rows.reshape(-1)
    n, size = flat.shape[0], 2 * reach + 1
    places = _window(windows, reach, flat)
    order = laid.x[places].argsort(0)
    ranks = order.argsort(0)
    cdf, sf = (tail[places.gather(0, order)] for tail in (laid.cdf, laid.sf))
    zero, one = torch.zeros_like(cdf[:1]), torch.ones_like(cdf[:1])
    cdf_ends, sf_ends = torch.cat([zero, cdf, one]), torch.cat([one, sf, zero])

    with torch.no_grad():
        # Of the two differences the one of small numbers keeps its digits.
        widths = torch.where(cdf_ends[:-1] < 0.5, cdf_ends.diff(dim=0), -sf_ends.diff(dim=0)).clamp(min=0)
        nodes, masses = rule
        u = (cdf_ends[:-1, None] + widths[:, None] * nodes[:, None]).clamp(0, 1)
        # the prior's labels, if it has any, are its last axis
        u = u.reshape(size + 1, len(nodes), *rows.shape).transpose(-1, -2)
        tau = prior.icdf(u).transpose(-1, -2).reshape(-1, n).t()
        # In stretch k, from below, the alarms are those of rank k or more.
        stretch = torch.arange(size + 1, device=flat.device)[:, None, None]
        alarms = ((ranks >= stretch) & (laid.x[places] > -math.inf)).to(cdf.dtype)
        own = alarms[:, reach]
        alarms = alarms.permute(2, 0, 1).repeat_interleave(len(nodes), 1)

    labels = laid.y[places].t()[:, None].expand_as(alarms)
    weight = function(tau, laid.y[flat, None], laid.probability[flat, None], labels, alarms)
    weight = weight.t().reshape(size + 1, len(nodes), n)
    inside = (weight * masses[:, None]).sum(1) * widths
    # By Leibniz' rule the integral also moves with its cuts, by the weight on one side less that on the other. These
    # terms are 0, and their derivatives are what they are there for.
    moves = cdf - cdf.detach()
    ends = weight.detach()
    out = []
    for on in (own, 1 - own):
        steps = on[:-1] * ends[:-1, -1] - on[1:] * ends[1:, 0]
        out.append(((inside * on).sum(0) + (moves * steps).sum(0)).reshape(rows.shape))
    return out[0], out[1]


def _checked(function: PointWeight, *arguments: Tensor, strict: bool) -> Tensor:
    weight = function(*arguments).expand_as(arguments[0])
    good = weight >= 0
    if torch.compiler.is_compiling() or weight.device.type != "cpu":
        # Nothing is raised where that would make the host wait; a loss that is NaN is noticed.
        return torch.where(good, weight, math.nan) if strict else weight
    if strict and not bool((good & weight.isfinite()).all()):
        bad = (~(good & weight.isfinite())).nonzero()
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
            "derivatives. Cost, CrossEntropy, Margin, ClassFrequency, Value and their products have them."
        )
