"""Value weights: an alarm shortly before an event is worth something, and so is one shortly before a missed event."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from scorewise._inputs import Batch
from scorewise._timeline import Timeline
from scorewise._values import as_tensor, describe, is_number, number, shape_of
from scorewise.priors.tables import Table
from scorewise.weights.base import Chances, Pair, Weight, transformed
from scorewise.weights.spread import (
    Foresight,
    Misses,
    SetFunction,
    Terms,
    collect,
    cost_of,
    register,
    silenced,
    spread,
    spread_operator,
    worth_of,
)
from scorewise.weights.windows import Windows


@dataclass(frozen=True, eq=False)
class Value(Weight):
    r"""Errors close in time to what they missed weigh less: the value-weighted scores.

    A false positive weighs :math:`1 - g(y_{i+1}, …, y_{i+T})`: it may have come early. A false negative weighs
    :math:`1 - g` of the previous T alarms: there may have been a warning. Lags are lags in time, and windows end where
    a series does: pass ``groups`` and ``times`` with each call. Labels must be 0 or 1.

    Args:
        omega: What a neighbour at distance 1, …, T is worth, at least 0 each; see `geometric`, `linear`, `half_life`
            and `PUBLISHED` for ways to make it.
        g: "max", the nearest (or rather the worthiest) counts: ω below 1; "prod", their worths add up: ω sums to less
            than 1; or a function of a float 0/1 tensor (..., T), nearest first, to (...), in [0, 1) and 0 for none, of
            which ``omega`` only sets T.
        isolated: What an error weighs if there is nothing in all of the 2T + 1 steps around it, no event for a false
            positive and no alarm for a false negative. The published skill scores have 2.

    Example:
        >>> import torch, scorewise as sw
        >>> events = torch.tensor([0, 0, 1, 0, 0])
        >>> early, late = torch.tensor([0.0, 1, 0, 0, 0]), torch.tensor([0.0, 0, 0, 1, 0])
        >>> weight = Value([0.5, 0.25])
        >>> sw.confusion_matrix(early, events, weight=weight)
        ConfusionMatrix(tn=3, fp=0.5, fn=0.5, tp=0)
        >>> sw.confusion_matrix(late, events, weight=weight)
        ConfusionMatrix(tn=3, fp=1, fn=1, tp=0)
    """

    formula: ClassVar[str] = r"w = 1 - g\left(y\,\mathbb{1}^- + (1-y)\,y^+\right)"

    omega: Sequence[float]
    g: Literal["max", "prod"] | SetFunction = "max"
    isolated: float = 1.0
    _terms: Terms = field(init=False, repr=False)
    _name: str = field(init=False, repr=False)
    _omega: Table = field(init=False, repr=False)

    def __post_init__(self) -> None:
        with contextlib.nullcontext() if torch.compiler.is_compiling() else torch.device("cpu"):
            self._set_up()

    def _set_up(self) -> None:
        omega = as_tensor(self.omega, "Value: omega").detach().double().cpu()
        if omega.dim() != 1 or not omega.numel():
            raise ValueError(f"Value: omega must be a list of at least one number, saw the shape {shape_of(omega)}.")
        if not bool((omega.isfinite() & (omega >= 0)).all()):
            raise ValueError(f"Value: omega must be finite and at least 0, saw {describe(omega)}.")
        if self.g == "max":
            largest = float(omega.max())
            if largest >= 1:
                raise ValueError(f"Value: with g='max' every omega must be below 1, saw {number(largest)}.")
        elif self.g == "prod":
            worth = math.fsum(omega.tolist())
            if worth >= 1:
                raise ValueError(f"Value: with g='prod' omega must sum to less than 1, saw {number(worth)}.")
        elif callable(self.g):
            _check_set_function(self.g, len(omega))
        else:
            raise ValueError(f"Value: g must be 'max', 'prod' or a function, saw {self.g!r}.")
        if not is_number(self.isolated) or not (math.isfinite(self.isolated) and self.isolated >= 1):
            raise ValueError(f"Value: isolated must be a finite number of at least 1, saw {self.isolated!r}.")
        object.__setattr__(self, "omega", tuple(omega.tolist()))
        object.__setattr__(self, "_terms", Terms(self.omega, self.g, float(self.isolated)))
        object.__setattr__(self, "_omega", Table([omega]))
        object.__setattr__(self, "_name", self.g if isinstance(self.g, str) else register(self.g))

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew, so that a function is registered in the process that it is loaded into.
        return type(self), (self.omega, self.g, self.isolated)

    @property
    def reach(self) -> int:
        """T, the number of lags."""
        return len(self.omega)

    def _cores(self) -> tuple[Weight, ...]:
        return (self,)

    def _spread(self, batch: Batch, amounts: Pair | None) -> Pair:
        timeline = batch.timeline or Timeline(None, None)
        x, y = batch.predictions.detach(), batch.targets.detach()
        if amounts is not None and any(amount.requires_grad for amount in amounts):
            # the same, differentiable in the amounts, which it is linear in
            windows, which, if_false_alarm, misses = self._seen(batch, amounts[1].dtype)
            own = windows.flat(amounts[1])[which]
            missed = windows.lift(collect(self._terms, misses, own, misses.x.shape[0]))
            return amounts[0] * if_false_alarm, missed
        if transformed():
            for_fp, for_fn = (1 - y, y) if amounts is None else amounts
            a, r = spread_operator(
                *(x, y, batch.silent, for_fp, for_fn, timeline.order, timeline.steps),
                *(self.omega, self._name, float(self.isolated)),
            )
            return a, r
        with torch.no_grad():
            return spread(self._terms, x, y, batch.silent, timeline, amounts)

    def _errors(self, batch: Batch, chances: Chances) -> Pair:
        windows, _, if_false_alarm, misses = self._seen(batch, chances.sf.dtype)
        missed = cost_of(self._terms, misses, windows.lay(chances.sf, 1.0))
        return if_false_alarm * chances.cdf, windows.lift(windows.blank(missed).index_copy(0, misses.rows, missed))

    @torch.no_grad()
    def _seen(self, batch: Batch, dtype: torch.dtype) -> tuple[Windows, Tensor, Tensor, Misses]:
        """The layout, which samples of it are events, what each sample weighs as a false positive, and the misses."""
        windows = Windows(batch.targets, batch.timeline, self.reach)
        x = windows.lay(silenced(batch.predictions.detach(), batch.silent), -math.inf)
        events = windows.flat(batch.targets.detach())
        which = windows.marked(events)
        near = windows.around(windows.places(which))
        foresight = Foresight(self._terms, windows, events)
        foresight.add(near, events[which])
        return windows, which, 1 - windows.lift(foresight.worth()), Misses(x, near, dtype)

    def _at(self, tau: Tensor, targets: Tensor, predictions: Tensor, labels: Tensor, alarms: Tensor) -> Tensor:
        T = self.reach
        coming, past = labels[..., T + 1 :], alarms[..., :T].flip(-1)
        around = torch.where(targets > 0, alarms.amax(-1), labels.amax(-1))
        known = torch.where((targets > 0)[..., None], past, coming)
        return 1 - self._worth(known) + (self.isolated - 1) * (around == 0)

    def _worth(self, z: Tensor) -> Tensor:
        """g of 0/1 vectors."""
        if callable(self.g):
            return worth_of(self.g, z)
        worths = z * self._omega.like(z)[0]
        return worths.amax(-1) if self.g == "max" else worths.sum(-1)


def _check_set_function(g: SetFunction, steps: int) -> None:
    """g of no neighbour is 0 and of any others below 1: for up to 12 lags all sets are asked, else 4,096 of them."""
    if steps <= 12:
        sets = (torch.arange(1 << steps)[:, None] >> torch.arange(steps)) & 1
    else:
        shares = torch.rand(4096, 1, generator=torch.Generator().manual_seed(0), device="cpu")
        sets = torch.rand(4096, steps, generator=torch.Generator().manual_seed(1), device="cpu") < shares
        sets = torch.cat([torch.zeros(1, steps), torch.ones(1, steps), torch.eye(steps), sets])
    sets = sets.double().cpu()
    worth = worth_of(g, sets, checked=False).detach()
    if not float(worth[0]) == 0:
        raise ValueError(f"Value: g of no event or alarm must be 0, saw {number(float(worth[0]))}.")
    bad = ~((worth >= 0) & (worth < 1))
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        lags = [lag for lag, there in enumerate(sets[first].tolist(), 1) if there]
        raise ValueError(
            f"Value: g must be in [0, 1), but {int(bad.sum())} of {len(worth)} sets are not: at the lags {lags} it is "
            f"{number(float(worth[first]))}."
        )
