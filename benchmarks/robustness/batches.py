"""Random batches: what is sound, with all that can be told of samples, and ways to spoil it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

import scorewise as sw
from tests.curve_oracles import CURVED, PLAIN, sees_prediction
from tests.weight_oracles import ALL_WEIGHTS, Series, WeightCase

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
GRID = tuple(k / 32 for k in (0, 1, 6, 8, 10, 12, 14, 16, 18, 20, 22, 26, 31, 32))
"""Probabilities that every dtype holds exactly, few enough for ties and for integrals that are computed only once."""
SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 6, 8, 12)
SCORES: tuple[sw.scores.Score, ...] = (
    *map(sw.scores.get, sw.scores.names()),
    sw.scores.fbeta(2.0),
    sw.scores.cost(2.0, 5.0),
    0.7 * sw.scores.tss + 0.3 * sw.scores.hss,
)
_CHEAP = [kind for kind in ALL_WEIGHTS if not kind.integrated]
_DEAR = [kind for kind in ALL_WEIGHTS if kind.integrated]


def weight_for(r: random.Random, *, curved: bool = False) -> WeightCase:
    """A kind of weight: often none, seldom one that takes long.

    Args:
        r: The source of randomness.
        curved: Whether it must be one that curves take.
    """
    if r.random() < 0.35:
        return PLAIN
    if curved:
        return r.choice(CURVED)
    return r.choice(_DEAR) if r.random() < 0.06 else r.choice(_CHEAP)


@cache
def made(kind: WeightCase) -> Any:
    """The weight of a kind, made once."""
    return kind.make()


@dataclass(frozen=True, eq=False)
class Batch:
    """Arguments of a call, and the same as plain numbers.

    Attributes:
        x: Logits or probabilities, (n,) or (n, labels).
        y: Labels.
        context: Groups, times, mask, sample weights and costs, where there are any.
        from_logits: Whether ``x`` are logits.
        labels: How many; None for (n,).
        exact: For each label the samples with probabilities as they were meant; None unless they are of the grid.
        decided: For each label the samples with the probabilities that are compared with thresholds.
    """

    x: Tensor
    y: Tensor
    context: dict[str, Any]
    from_logits: bool
    labels: int | None
    exact: list[Series] | None
    decided: list[Series]

    @property
    def keep(self) -> Tensor:
        """Where samples count, in the shape of ``x``."""
        mask: Tensor | None = self.context.get("mask")
        if mask is None:
            return torch.ones(self.x.shape, dtype=torch.bool)
        return mask if mask.dim() == self.x.dim() else mask.unsqueeze(1).expand_as(self.x)

    @property
    def scale(self) -> float:
        """How large cells can become: the sum of what samples count and cost, and of their logits if these enter."""
        return max((_scale(series) for series in self.decided), default=0.0)


def _scale(series: Series) -> float:
    costs = [max(1.0, *pair) for pair in series.costs] if series.costs is not None else [1.0] * len(series)
    return sum(series.counted(i) * cost for i, cost in enumerate(costs))


def batch(
    r: random.Random, kind: WeightCase, *, labelled: bool = True, from_logits: bool | None = None, names: bool = True
) -> Batch:
    """A sound batch for a weight.

    Args:
        r: The source of randomness.
        kind: The weight; it decides whether labels may be soft, and what may be where samples do not count.
        labelled: Whether there may be several labels.
        from_logits: Whether it has logits; None: either.
        names: Whether groups may be strings.
    """
    n = r.choice(SIZES)
    labels = r.choice((1, 2, 3)) if labelled and r.random() < 0.2 else None
    dtype = r.choice(DTYPES)
    logits = r.random() < 0.5 if from_logits is None else from_logits
    grid = r.random() < 0.6
    columns = [_column(r, n, kind, dtype, logits=logits, grid=grid) for _ in range(labels or 1)]
    context = _context(r, n, labels, names=names, huge=dtype == torch.float64)
    masks = _masks(r, n, labels, context)
    for (values, targets), mask in zip(columns, masks, strict=True):
        _hide(r, values, targets, mask, junk=not kind.reads_windows)
    x, y = (_stacked([column[k] for column in columns], labels) for k in (0, 1))
    if grid and logits:
        x = torch.log(x) - torch.log1p(-x)
    x = x.to(dtype)
    probabilities = (torch.sigmoid(x) if logits else x).double()
    decided = [p.tolist() for p in (probabilities.unbind(1) if labels else [probabilities])]
    exact = [values for values, _ in columns] if grid else None
    hard = bool(((y == 0) | (y == 1)).all())
    if hard and r.random() < 0.4:
        y = y.to(r.choice((torch.int64, torch.bool, torch.float32, torch.uint8)))

    def told(predictions: list[list[float]]) -> list[Series]:
        return [_series(predictions[j], columns[j][1], context, masks[j], j) for j in range(labels or 1)]

    return Batch(x, y, context, logits, labels, None if exact is None else told(exact), told(decided))


def _column(
    r: random.Random, n: int, kind: WeightCase, dtype: torch.dtype, *, logits: bool, grid: bool
) -> tuple[list[float], list[float]]:
    """Predictions and labels of one label."""
    inner = logits or sees_prediction(kind)  # cross entropy of a sure error is infinite
    if grid:
        values = [r.choice(GRID[1:-1] if inner else GRID) for _ in range(n)]
    elif logits:
        most = 1e30 if sees_prediction(kind) else torch.finfo(dtype).max
        far = (0.0, 1e-8, 1.0, 3.0, 17.0, 88.8, 710.0, 6e4, 1e30, most)
        values = [r.choice((-1, 1)) * min(r.choice(far), torch.finfo(dtype).max) for _ in range(n)]
    else:
        odd = (0.3,) if inner else (0.0, 1.0, 1e-45, 1e-30, 1e-5, 1 - 2**-53, 1 - 2**-11)
        values = [r.choice(odd) if r.random() < 0.3 else r.uniform(0.01, 0.99) for _ in range(n)]
    if kind.soft and r.random() < 0.15:
        return values, [r.choice((0.0, 0.25, 0.5, 1.0)) for _ in range(n)]
    rate = r.choice((0.0, 0.1, 0.5, 0.5, 0.9, 1.0))
    return values, [float(r.random() < rate) for _ in range(n)]


def _context(r: random.Random, n: int, labels: int | None, *, names: bool, huge: bool) -> dict[str, Any]:
    """Groups, times, sample weights and costs; each is there or not. Narrow gradients do not hold what is huge."""
    context: dict[str, Any] = {}
    ids: list[Any] = [0] * n
    if r.random() < 0.35:
        pool = r.choice(((0, 1), (7, -2, 10**12), ("a", "b"), ("Genova",)) if names else ((0, 1), (7, -2, 10**12)))
        ids = [r.choice(pool) for _ in range(n)]
        context["groups"] = ids if isinstance(pool[0], str) else torch.tensor(ids, dtype=torch.int64)
    if r.random() < 0.35:
        last: dict[Any, int] = {}
        times = []
        for one in ids:
            last[one] = last.get(one, r.choice((-5, 0, 10**9))) + r.choice((1, 1, 2, 3))
            times.append(last[one])
        context["times"] = torch.tensor(times, dtype=torch.int64)
    shape = (n, labels) if labels and r.random() < 0.5 else (n,)
    if r.random() < 0.3:
        pools: tuple[tuple[float, ...], ...] = ((0.0, 0.5, 1.0, 3.0), (0.0,), (1e-30, 1.0), (1e-300, 0.0), (1e30, 0.5))
        context["sample_weight"] = _random(r, r.choice(pools if huge else pools[:-1]), shape)
    if r.random() < 0.25:
        context["costs"] = _random(r, (0.0, 0.5, 1.0, 2.0), (*shape, 2))
    return context


def _masks(r: random.Random, n: int, labels: int | None, context: dict[str, Any]) -> list[list[bool]]:
    """A mask for each label, put into the context if there is one."""
    if r.random() < 0.5:
        return [[True] * n] * (labels or 1)
    rate = r.choice((0.0, 0.5, 0.8))
    if labels is None or r.random() < 0.5:
        own = [r.random() < rate for _ in range(n)]
        context["mask"] = torch.tensor(own, dtype=torch.bool)
        return [own] * (labels or 1)
    several = [[r.random() < rate for _ in range(n)] for _ in range(labels)]
    context["mask"] = torch.tensor(several, dtype=torch.bool).T.reshape(n, labels)
    return several


def _hide(r: random.Random, values: list[float], targets: list[float], mask: Sequence[bool], *, junk: bool) -> None:
    """Make what does not count unknown, or, where nobody sees it, anything."""
    for i, kept in enumerate(mask):
        if kept:
            continue
        if r.random() < 0.5:
            values[i] = r.choice((math.nan, math.inf, -math.inf)) if junk else math.nan
        if r.random() < 0.5:
            targets[i] = r.choice((math.nan, 7.0, -1.0)) if junk else math.nan


def _random(r: random.Random, pool: Sequence[float], shape: tuple[int, ...]) -> Tensor:
    values = [r.choice(pool) for _ in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def _stacked(columns: list[list[float]], labels: int | None) -> Tensor:
    table = torch.tensor(columns, dtype=torch.float64)
    return table[0] if labels is None else table.T.reshape(-1, labels)


def _series(
    predictions: list[float], targets: list[float], context: dict[str, Any], mask: list[bool], j: int
) -> Series:
    """One label's samples as the oracles take them."""
    weight, costs = context.get("sample_weight"), context.get("costs")
    groups, times = context.get("groups"), context.get("times")
    return Series(
        predictions,
        targets,
        groups if groups is None or isinstance(groups, list) else groups.tolist(),
        None if times is None else times.tolist(),
        mask,
        None if weight is None else (weight if weight.dim() == 1 else weight[:, j]).tolist(),
        None if costs is None else [(a, b) for a, b in (costs if costs.dim() == 2 else costs[:, j]).tolist()],
    )
