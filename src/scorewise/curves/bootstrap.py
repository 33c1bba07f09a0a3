"""How sure a best threshold is: the same choice made on resampled data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from scorewise._inputs import Batch
from scorewise._timeline import FAR
from scorewise._values import is_number, is_whole, number
from scorewise.curves.choice import AtLeast, InfeasibleError, choose, constraints, inside, where_allowed
from scorewise.curves.sweep import Samples, score_along
from scorewise.weights import Weight

if TYPE_CHECKING:
    from scorewise.curves.curve import ScoreCurve


_ENOUGH_SERIES = 10  # with fewer there are too few resamples: of two, only three


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Percentile intervals of a best threshold and of the score that it has.

    A resample counts each sample, block or series as often as it was drawn; what a weight sees around a sample stays
    what it was.

    Attributes:
        threshold: Where the best thresholds of the resamples lie. Best thresholds converge slowly, and a bootstrap of
            them is known to be rough (an argmax is no smooth function of the data): read it as how wide the choice is,
            not as a guarantee. Below 0 everything is called positive.
        value: Where the score at the chosen threshold lies, less the optimism: what it may be on new data.
        optimism: How much better the score looks than it will be, since the threshold was chosen on the data it is
            scored on: on average over resamples, the score there at the threshold chosen there, less that of the data
            at the same threshold. (The other way round where less is better.)
        thresholds: The best threshold of each resample.
        values: The score of each resample at the threshold that was chosen on the data.
        unit: What was resampled.
        level: The share of the resamples in an interval.
        infeasible: How many resamples were left out because none of their thresholds met the constraints.

    Reference:
        B. Efron: Estimating the error rate of a prediction rule: improvement on cross-validation. JASA 78, 1983.
        (optimism); D. N. Politis, J. P. Romano: A circular block-resampling procedure for stationary data. 1992.
    """

    threshold: tuple[float, float]
    value: tuple[float, float]
    optimism: float
    thresholds: Tensor = field(repr=False)
    values: Tensor = field(repr=False)
    unit: str
    level: float
    infeasible: int

    def __repr__(self) -> str:
        low, high = (f"{number(a)} to {number(b)}" for a, b in (self.threshold, self.value))
        resampled = f"{len(self.thresholds):,} resamples of {self.unit}"
        return f"<threshold {low}, value {high}, at {self.level:.0%} of {resampled}>"


def resample(
    curve: ScoreCurve,
    samples: Samples,
    draws: int,
    *,
    level: float,
    block: int | str | None,
    at_least: AtLeast | None,
    seed: int,
    progress: Callable[[Iterable[int]], Iterable[int]] | None,
) -> Bootstrap:
    """`ScoreCurve.bootstrap`."""
    if not is_whole(draws) or draws < 2:
        raise ValueError(f"bootstrap: draws must be a whole number of at least 2, saw {draws!r}.")
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"bootstrap: level must be between 0 and 1, saw {level!r}.")
    if not is_whole(seed):
        raise ValueError(f"bootstrap: seed must be a whole number, saw {seed!r}.")
    if progress is not None and not callable(progress):
        raise TypeError(f"bootstrap: progress must be a function as tqdm.tqdm, saw {type(progress).__name__}.")
    bounds = constraints(at_least)
    chosen, _ = curve.best(at_least=at_least)
    draw, unit = units(samples.batch, samples.weight, block)
    batch, score = samples.batch, curve.score
    wide = torch.float32 if batch.targets.device.type == "mps" else torch.float64
    count = torch.ones_like(batch.targets, dtype=wide) if batch.count is None else batch.count
    g = torch.Generator().manual_seed(int(seed))
    thresholds, values, gains = [], [], []
    for _ in range(int(draws)) if progress is None else progress(range(int(draws))):
        times_drawn = draw(g).to(count)
        ends, cells = samples.stairs(replace(batch, count=count * times_drawn))
        ends = ends.to(curve.thresholds.dtype)
        there = score_along(score, cells)
        try:
            place = choose(score, ends, there, where_allowed(ends, cells, bounds))
        except InfeasibleError:
            continue
        threshold = inside(ends, place)
        thresholds.append(threshold)
        values.append(float(there[_stretch(ends, chosen)]))
        gains.append(float(there[place]) - float(curve.values[_stretch(curve.thresholds, threshold)]))
    if not thresholds:
        raise ValueError(
            f"bootstrap: the constraints {dict(at_least or {})} could be met in none of {draws} resamples."
        )
    sign = 1 if score.greater_is_better else -1
    optimism = sign * math.fsum(gains) / len(gains)
    found, scored = (torch.tensor(t, dtype=torch.float64) for t in (thresholds, values))
    low, high = _interval(scored, level)
    least, greatest = score.range
    return Bootstrap(
        threshold=_interval(found, level),
        value=(max(least, low - sign * optimism), min(greatest, high - sign * optimism)),
        optimism=optimism,
        thresholds=found,
        values=scored,
        unit=unit,
        level=float(level),
        infeasible=int(draws) - len(thresholds),
    )


def _interval(values: Tensor, level: float) -> tuple[float, float]:
    low, high = torch.quantile(values, torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=values.dtype)).tolist()
    return low, high


def _stretch(ends: Tensor, threshold: float) -> int:
    """The stretch that a threshold lies in."""
    place = torch.searchsorted(ends, torch.tensor([threshold], dtype=ends.dtype, device=ends.device), right=True)
    return max(0, int(place) - 1)


def units(
    batch: Batch, weight: Weight | None, block: int | str | None = None
) -> tuple[Callable[[torch.Generator], Tensor], str]:
    """A function that draws how often each sample is in a resample, and what it draws, in words."""
    n, timeline = batch.targets.shape[0], batch.timeline
    in_time = torch.arange(n) if timeline is None or timeline.order is None else timeline.order.cpu()
    steps = None if timeline is None or timeline.steps is None else timeline.steps.cpu()
    series = torch.zeros(n, dtype=torch.int64)
    if steps is not None and n:
        series[1:] = (steps == FAR).cumsum(0)
    if batch.count is not None:  # what does not count is not drawn either
        counted = (batch.count.cpu() != 0)[in_time]
        in_time, series = in_time[counted], _renumbered(series[counted])
    as_they_are = len(in_time) == n and (timeline is None or timeline.order is None)
    m, several = len(in_time), int(series[-1]) + 1 if len(series) else 0
    reach = 0 if weight is None else weight.reach
    if block is None and several >= _ENOUGH_SERIES:
        block = "series"
    elif block is None:
        in_blocks = timeline is not None or reach > 0
        block = min(max(1, m), max(math.ceil(m ** (1 / 3)), 2 * reach + 1)) if in_blocks else 1
    if block == "series":
        if several < 2:
            raise ValueError("bootstrap: block='series' needs groups, and samples that count in two or more of them.")
        length = 0
    elif is_whole(block) and 1 <= block <= max(1, m):
        length = int(block)
    else:
        raise ValueError(
            f"bootstrap: block must be 'series' or a whole number from 1 to {max(1, m)}, the number of samples that "
            f"count; saw {block!r}."
        )

    def multiplicity(g: torch.Generator) -> Tensor:
        if length == 0:
            drawn = _drawn(several, g)[series]
        elif length == 1:
            drawn = _drawn(m, g)
        else:
            drawn = _blocks(m, length, g)
        return drawn if as_they_are else torch.zeros(n, dtype=torch.int64).index_copy(0, in_time, drawn)

    return multiplicity, {0: f"{several} series", 1: "samples"}.get(length, f"blocks of {length} samples")


def _renumbered(ascending: Tensor) -> Tensor:
    """The same numbers without gaps between them."""
    new = torch.zeros_like(ascending)
    new[1:] = ascending[1:] != ascending[:-1]
    return new.cumsum(0)


def _drawn(units: int, g: torch.Generator) -> Tensor:
    """How often each unit comes up in as many draws as there are units."""
    if not units:
        return torch.zeros(0, dtype=torch.int64)
    return torch.bincount(torch.randint(units, (units,), generator=g), minlength=units)


def _blocks(n: int, length: int, g: torch.Generator) -> Tensor:
    """How often each of n samples on a circle comes up in blocks of them, the last cut so that there are n in all."""
    starts = torch.randint(n, (-(-n // length), 1), generator=g)
    return torch.bincount((starts + torch.arange(length)).flatten()[:n] % n, minlength=n)
