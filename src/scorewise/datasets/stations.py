"""Made-up river gauges with gaps: several series that begin, pause and end at different times."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from scorewise._values import is_number, is_whole
from scorewise.datasets.scaling import standardized

_START = datetime(2020, 1, 1)  # UTC, without daylight saving
_FEATURES = ("level", "rise", "rain", "wetness", "age")
_LATEST = 0.2  # the share of all hours by which the last gauge has begun
_MISSED = 0.02  # hours that are missing one by one
_BETWEEN, _LONG = 1000, 36  # hours from one outage to the next, and how long one lasts, on average
_MEMORY = 240  # hours after which rain has run off


@dataclass(frozen=True, eq=False, repr=False)
class Stations:
    """Hours of several gauges, interleaved: what was known at each, and whether the river rose above the flood stage.

    Made by `stations`, which describes the features.

    Attributes:
        features: What was known at that hour, (n, 5) float32, always finite.
        targets: 1 where the level ``horizon`` hours later was above the gauge's flood stage, else 0; (n,) float32. NaN
            where ``mask`` is False.
        mask: True where the label is known: the gauge worked ``horizon`` hours later; (n,) bool.
        groups: The gauge of each row.
        times: Hours since 2020-01-01 00:00 UTC, never decreasing, (n,) int64; a gauge has no row for an hour at which
            it did not work.
        feature_names: Names of the features' columns.
        horizon: How many hours ahead the event lies.
    """

    features: Tensor
    targets: Tensor
    mask: Tensor
    groups: tuple[str, ...]
    times: Tensor
    feature_names: tuple[str, ...]
    horizon: int

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        events, unknown = int(self.targets[self.mask].sum()), int((~self.mask).sum())
        return (
            f"<Stations {len(set(self.groups))} gauges, {len(self)} rows: {events} above flood stage {self.horizon} h "
            f"later, {unknown} unknown>"
        )

    def timestamps(self) -> list[datetime]:
        """The hour of each row, UTC.

        Example:
            >>> stations(2, hours=500).timestamps()[0]
            datetime.datetime(2020, 1, 1, 0, 0)
        """
        return [_START + timedelta(hours=time) for time in self.times.tolist()]

    def split(self, *sizes: float, purge: bool = True, standardize: bool = False) -> tuple[Stations, ...]:
        """Cut time into parts, at the same moments for all gauges: one of each size given, and last what remains.

        A row's label is measured ``horizon`` hours after its features. Purging leaves out the rows whose labels are
        measured when the next part has begun, at any gauge: the river that floods one has wetted the others.

        Args:
            *sizes: Sizes of all parts but the last, as shares of the rows. A moment is not torn apart, so that parts
                may be larger by a few rows.
            purge: Whether to leave out the rows whose labels reach into the next part.
            standardize: Whether to shift and scale the features of all parts by the mean and the standard deviation of
                the first, the only ones known when a model is fitted.

        Returns:
            One more part than there are sizes.

        Raises:
            TypeError: If a size is not a float.
            ValueError: If sizes do not fit, or a part would be empty.

        Example:
            >>> train, test = stations(3, hours=2000).split(0.7)
            >>> (train.times[-1] + train.horizon < test.times[0]).item()
            True
        """
        if odd := [size for size in sizes if not is_number(size) or is_whole(size)]:
            raise TypeError(f"sizes must be shares of the rows, such as 0.6, saw {odd[0]!r}.")
        if not sizes or not all(size > 0 for size in sizes) or not math.fsum(sizes) < 1:
            raise ValueError(f"sizes must be above 0, and together below 1, such as split(0.6, 0.2); saw {sizes}.")
        moments = [int(self.times[min(round(total * len(self)), len(self) - 1)]) for total in accumulate(sizes)]
        borders = [int(self.times[0]), *moments, int(self.times[-1]) + 1]
        parts = []
        for k, (start, stop) in enumerate(pairwise(borders)):
            end = stop - self.horizon if purge and k < len(sizes) else stop
            inside = (self.times >= start) & (self.times < end)
            if not bool(inside.any()):
                less = f", less those whose labels reach {self.horizon} hours ahead" if end < stop else ""
                raise ValueError(f"part {k} of the split is empty: hours {start} to {stop}{less}.")
            parts.append(self._rows(inside))
        if standardize:
            scaled = standardized([part.features for part in parts])
            parts = [replace(part, features=x) for part, x in zip(parts, scaled, strict=True)]
        return tuple(parts)

    def known(self) -> Stations:
        """Only the rows whose label is known, for a loss that takes no mask.

        Example:
            >>> data = stations(3, hours=2000)
            >>> len(data.known()) == int(data.mask.sum()) < len(data)
            True
        """
        return self._rows(self.mask)

    def _rows(self, rows: Tensor) -> Stations:
        return replace(
            self,
            features=self.features[rows],
            targets=self.targets[rows],
            mask=self.mask[rows],
            groups=tuple(name for name, kept in zip(self.groups, rows.tolist(), strict=True) if kept),
            times=self.times[rows],
        )


def stations(number: int = 6, *, hours: int = 8_760, rate: float = 0.05, horizon: int = 3, seed: int = 0) -> Stations:
    """A warning task with several series and gaps, made up: at each hour, will a gauge be above its flood stage?

    Showers cross a valley, and each wets all gauges, some more than others. The water takes longer to reach those
    further down, and runs off within days, so that events come in runs. A gauge begins within the first fifth of the
    time, misses 2 % of the hours one by one, and breaks down every thousand hours or so for a day or two. The hours
    that it misses have no row: what is one row later may be days later, and ``times`` tells.

    The features of a row hold nothing that was not known at its hour:

    ============== =========================================================================================
    ``level``      the level, as measured, with an error
    ``rise``       how much it has risen since the row before, per hour; 0 in the gauge's first row
    ``rain``       rain in the hour
    ``wetness``    rain of the days before, of which a thirtieth runs off in each hour
    ``age``        hours since the gauge's row before; 0 in its first
    ============== =========================================================================================

    Args:
        number: How many gauges.
        hours: How long the record is, at least 100.
        rate: The share of hours in which a gauge is above its flood stage.
        horizon: How many hours ahead the event lies.
        seed: Of the random numbers.

    Returns:
        Rows in the order of time, and of gauges within an hour, with a method for chronological splits.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If an argument is out of its range.

    Example:
        >>> data = stations(2, hours=2000)
        >>> data.features.shape, sorted(set(data.groups))
        (torch.Size([3568, 5]), ['gauge 1', 'gauge 2'])
        >>> import scorewise as sw
        >>> loss = sw.ScoreLoss("tss", weight=sw.weights.Value([0.5, 0.25]))
        >>> value = loss(data.features[:, 0], data.targets, groups=data.groups, times=data.times, mask=data.mask)
    """
    for name, value, least in (("number", number, 1), ("hours", hours, 100), ("horizon", horizon, 1)):
        if not is_whole(value):
            raise TypeError(f"{name} must be an int, saw {value!r}.")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, saw {value}.")
    if not is_whole(seed) or not is_number(rate):
        raise TypeError(f"seed must be an int and rate a number, saw {seed!r} and {rate!r}.")
    if not 0 < rate < 1:
        raise ValueError(f"rate must be between 0 and 1, saw {rate}.")
    if horizon >= hours * (1 - _LATEST):
        raise ValueError(f"horizon must be below {hours * (1 - _LATEST):g} of {hours} hours, saw {horizon}.")

    noise = torch.Generator().manual_seed(seed)
    rain, level = _river(number, hours, noise)
    works = _works(number, hours, noise)
    stage = torch.quantile(level, 1 - rate, dim=1, keepdim=True)
    measured = level + 0.02 * level.std(1, keepdim=True) * torch.randn(
        level.shape, dtype=torch.float64, generator=noise
    )
    features = torch.stack(_features(measured, rain, works), 2)
    known = works[:, horizon:]
    targets = torch.where(known, (level[:, horizon:] > stage).double(), math.nan)

    # hour by hour, and at each the gauges that worked; the last hours have no label, and so no row
    time, gauge = works[:, : hours - horizon].T.nonzero().T
    return Stations(
        features=features[gauge, time].float(),
        targets=targets[gauge, time].float(),
        mask=known[gauge, time],
        groups=tuple(f"gauge {k + 1}" for k in gauge.tolist()),
        times=time,
        feature_names=_FEATURES,
        horizon=int(horizon),
    )


def _river(number: int, hours: int, noise: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rain and level at each gauge and hour, (number, hours) float64."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, dtype=torch.float64, generator=noise)

    length = hours + _MEMORY  # what fell before the first hour still runs off
    begins = uniform(length) < 1 / 60
    lasts = 1 + (8 * uniform(length)).long()
    amount = -torch.log1p(-uniform(length)) * begins
    ends = (torch.arange(length) + lasts).clamp_max(length - 1)
    falling = (amount - torch.zeros_like(amount).index_add(0, ends, amount)).cumsum(0).clamp_min(0)
    own = 0.5 + uniform(number, 1)
    rain = falling * own * (0.6 + 0.8 * uniform(number, length))
    lag = torch.arange(_MEMORY, dtype=torch.float64)
    delay = 2.0 + torch.arange(number, dtype=torch.float64)[:, None]  # hours, longer down the valley
    response = (lag / delay**2) * torch.exp(-lag / delay) + 0.01 * torch.exp(-lag / 30)
    level = conv1d(rain[None], response.flip(1)[:, None], groups=number)[0, :, 1:]
    return rain[:, _MEMORY:], level


def _works(number: int, hours: int, noise: torch.Generator) -> Tensor:
    """Whether each gauge works at each hour, (number, hours)."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, dtype=torch.float64, generator=noise)

    hour = torch.arange(hours)
    begun = hour >= (_LATEST * hours * uniform(number, 1)).long()
    begun[0] = True  # the first is there from the beginning
    breaks = uniform(number, hours) < 1 / _BETWEEN
    lasts = 1 + (-_LONG * torch.log1p(-uniform(number, hours))).long()
    mended = torch.where(breaks, hour + lasts, 0).cummax(1).values
    return begun & (hour >= mended) & (uniform(number, hours) >= _MISSED)


def _features(measured: Tensor, rain: Tensor, works: Tensor) -> list[Tensor]:
    """What was known at each hour, each (number, hours); they mean something where the gauge works."""
    hours = measured.shape[1]
    hour = torch.arange(hours)
    seen = torch.where(works, hour, -1).cummax(1).values
    before = torch.cat([torch.full_like(seen[:, :1], -1), seen[:, :-1]], 1)  # the latest row that is not this one
    first = before < 0
    age = torch.where(first, 0, hour - before)
    rise = torch.where(first, 0.0, (measured - measured.gather(1, before.clamp_min(0))) / age.clamp_min(1))
    lag = torch.arange(_MEMORY, dtype=torch.float64)
    padded = torch.cat([rain.new_zeros(len(rain), _MEMORY - 1), rain], 1)
    wetness = conv1d(padded[:, None], torch.exp(-lag / 30).flip(0)[None, None])[:, 0]
    return [measured, rise, rain, wetness, age.double()]
