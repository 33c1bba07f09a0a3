"""Five years of hourly PM2.5 and weather in Beijing, as a warning task: will the air be bad in some hours?"""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from itertools import accumulate, pairwise
from numbers import Integral, Real
from typing import Literal

import torch
from torch import Tensor

from scorewise.datasets.scaling import standardized

_START = datetime(2010, 1, 1)  # local time, as recorded
_WINDS = ("NE", "NW", "SE", "cv")
_FEATURES = (
    "pm25",
    "pm25_measured",
    "pm25_age",
    "dew_point",
    "temperature",
    "pressure",
    "wind_speed",
    "snow_hours",
    "rain_hours",
    *(f"wind_{wind.lower()}" for wind in _WINDS),
    "hour_sin",
    "hour_cos",
    "year_sin",
    "year_cos",
)


@dataclass(frozen=True, eq=False, repr=False)
class BeijingPM25:
    """A stretch of the Beijing record: one row per hour, what was known then, and whether the event followed.

    Made by `beijing_pm25`, which describes the features.

    Attributes:
        features: What was known at each hour, (n, 17) float32, always finite.
        targets: 1 where PM2.5 at hour t + ``horizon`` was above ``event``, else 0; (n,) float32. NaN where
            ``mask`` is False.
        mask: True where the label is known: PM2.5 at hour t + ``horizon`` was measured; (n,) bool.
        times: Hours since 2010-01-01 00:00, increasing, (n,) int64: one unit is one lag.
        feature_names: Names of the features' columns.
        event: The level of PM2.5 that makes an event, µg/m³.
        horizon: How many hours ahead the event lies.
    """

    features: Tensor
    targets: Tensor
    mask: Tensor
    times: Tensor
    feature_names: tuple[str, ...]
    event: float
    horizon: int

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        span = " to ".join(str(_hour(int(time))) for time in self.times[[0, -1]]) if len(self) else "no time"
        events = int(self.targets[self.mask].sum())
        return (
            f"<BeijingPM25 {span}: {len(self)} hours, {events} with PM2.5 > {self.event:g} µg/m³ "
            f"{self.horizon} h later, {int((~self.mask).sum())} unknown>"
        )

    @property
    def attribution(self) -> str:
        """Whom the data come from, how to cite them, under which licence, and what was changed."""
        return _read("beijing_pm25_attribution.txt").decode("utf-8")

    def timestamps(self) -> list[datetime]:
        """The hour of each row, local time.

        Example:
            >>> beijing_pm25(skip=24).timestamps()[0]
            datetime.datetime(2010, 1, 2, 0, 0)
        """
        return [_hour(time) for time in self.times.tolist()]

    def split(self, *sizes: float, purge: bool = True, standardize: bool = False) -> tuple[BeijingPM25, ...]:
        """Cut the hours, in order, into parts: each of the sizes given, and last what remains.

        A row's label is measured ``horizon`` hours after its features. The last rows of a part would thus be
        labelled by hours that the next part's features show, and a model fitted on the one and judged on the
        other would be judged in part on what it was told. Purging leaves those rows out: every label of a
        part is measured before the next part begins.

        Args:
            *sizes: Sizes of all parts but the last: fractions of the rows (floats) or numbers of rows (ints).
            purge: Whether to leave out the rows whose labels reach into the next part.
            standardize: Whether to shift and scale the features of all parts by the mean and the standard
                deviation of the first, the only ones known when a model is fitted.

        Returns:
            One more part than there are sizes.

        Raises:
            TypeError: If a size is neither a float nor an int, or both kinds are given.
            ValueError: If a part would be empty.

        Example:
            >>> train, validation, test = beijing_pm25().split(0.6, 0.2, standardize=True)
            >>> len(train), len(validation), len(test)
            (26285, 8757, 8764)
            >>> (train.times[-1] + train.horizon < validation.times[0]).item()
            True
        """
        borders = [0, *_borders(sizes, len(self)), len(self)]
        parts = []
        for k, (start, stop) in enumerate(pairwise(borders)):
            end = stop
            if purge and stop < len(self):
                end = int(torch.searchsorted(self.times, self.times[stop] - self.horizon))
            if end <= start:
                raise ValueError(
                    f"part {k} of the split is empty: rows {start} to {stop}"
                    + (f", less those whose labels reach {self.horizon} hours ahead." if end < stop else ".")
                )
            parts.append(self._rows(slice(start, end)))
        if standardize:
            scaled = standardized([part.features for part in parts])
            parts = [replace(part, features=x) for part, x in zip(parts, scaled, strict=True)]
        return tuple(parts)

    def known(self) -> BeijingPM25:
        """Only the rows whose label is known, for a loss that takes no mask.

        Example:
            >>> data = beijing_pm25()
            >>> len(data), len(data.known())
            (43818, 41757)
        """
        return self._rows(self.mask)

    def _rows(self, rows: slice | Tensor) -> BeijingPM25:
        return replace(
            self,
            features=self.features[rows],
            targets=self.targets[rows],
            mask=self.mask[rows],
            times=self.times[rows],
        )


def beijing_pm25(
    *,
    event: float = 250.0,
    horizon: int = 6,
    missing: Literal["unknown", "zero"] = "unknown",
    skip: int = 0,
) -> BeijingPM25:
    """Load the Beijing record as a warning task: at each hour, will PM2.5 be above a level some hours later?

    PM2.5 was measured at the US embassy, the weather at the airport, every hour of the years 2010 to 2014:
    43,824 hours, in 2,067 of which PM2.5 is missing. The last ``horizon`` hours have no label: no row.

    The 17 features of hour t hold nothing that was not known at hour t:

    ================== =======================================================================================
    ``pm25``           PM2.5, µg/m³, the latest measured; 0 before the first measurement
    ``pm25_measured``  1 if PM2.5 was measured at hour t, else 0
    ``pm25_age``       hours since the latest measurement, or, before the first, since the record began
    ``dew_point``      °C
    ``temperature``    °C
    ``pressure``       hPa
    ``wind_speed``     m/s, cumulated while the wind keeps its direction
    ``snow_hours``     cumulated hours of snow, 0 without snow
    ``rain_hours``     cumulated hours of rain, 0 without rain
    ``wind_ne``        1 if the wind comes from the north-east, else 0
    ``wind_nw``        the same, north-west
    ``wind_se``        the same, south-east
    ``wind_cv``        the same, calm or variable
    ``hour_sin``       sine of the hour of the day, 24 hours to the turn; with its cosine, ``hour_cos``
    ``hour_cos``
    ``year_sin``       sine of the time of the year, 365.25 days to the turn; with its cosine, ``year_cos``
    ``year_cos``
    ================== =======================================================================================

    Args:
        event: PM2.5 above which an hour counts as an event, µg/m³.
        horizon: How many hours ahead the event lies.
        missing: What a missing PM2.5 means. ``"unknown"``: its label is masked, and the feature ``pm25``
            carries the latest measurement forward. ``"zero"``: PM2.5 was 0, in features and labels, and
            nothing is masked, as in the published value-weighted experiment.
        skip: How many of the first hours to leave out.

    Returns:
        The features, labels, mask and times, with a method for chronological splits.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If an argument is out of its range.

    Example:
        >>> data = beijing_pm25()
        >>> data.features.shape
        torch.Size([43818, 17])
        >>> f"{data.targets[data.mask].mean():.3f}"
        '0.073'

        The published experiment, whose parts were not purged:

        >>> paper = beijing_pm25(event=450, horizon=1, missing="zero", skip=24)
        >>> [(len(part), int(part.targets.sum())) for part in paper.split(13_104, 4_320, purge=False)]
        [(13104, 107), (4320, 15), (26375, 148)]
    """
    level = _number("event", event)
    if not 0 <= level < math.inf:
        raise ValueError(f"event must be a finite level of PM2.5, 0 or more, saw {event!r}.")
    if missing not in ("unknown", "zero"):
        raise ValueError(f'missing must be "unknown" or "zero", saw {missing!r}.')
    record = _record()
    hours = len(record["pm2.5"])
    horizon = _whole("horizon", horizon, 1, hours - 1)
    skip = _whole("skip", skip, 0, hours - horizon - 1)

    rows = slice(skip, hours - horizon)
    ahead = record["pm2.5"][skip + horizon :]
    known = ~ahead.isnan()
    return BeijingPM25(
        features=_features(record, missing)[rows],
        # NaN where unknown: a loss that is not given the mask then says so instead of learning calm hours.
        targets=torch.where(known | (missing == "zero"), (ahead > level).float(), math.nan),
        mask=known if missing == "unknown" else torch.ones_like(known),
        times=torch.arange(hours)[rows],
        feature_names=_FEATURES,
        event=level,
        horizon=horizon,
    )


def _read(name: str) -> bytes:
    return resources.files("scorewise.datasets").joinpath(name).read_bytes()


@cache
def _record() -> dict[str, Tensor]:
    """Columns of the file, float64; a missing PM2.5 is NaN, a direction of the wind its place in _WINDS."""
    text = gzip.decompress(_read("beijing_pm25.csv.gz")).decode("ascii")
    names, *rows = csv.reader(text.splitlines())
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    numbers = {"NA": math.nan} | {wind: float(place) for place, wind in enumerate(_WINDS)}
    return {
        name: torch.tensor([numbers[x] if x in numbers else float(x) for x in column], dtype=torch.float64)
        for name, column in columns.items()
    }


def _features(record: dict[str, Tensor], missing: str) -> Tensor:
    """What was known at each hour, (hours, features) float32; row t reads nothing after hour t."""
    pm25 = record["pm2.5"]
    hour = torch.arange(len(pm25))
    measured = ~pm25.isnan()
    latest = torch.where(measured, hour, -1).cummax(0).values
    carried = torch.where(latest >= 0, pm25[latest.clamp_min(0)], 0.0)
    pm25_now = pm25.nan_to_num(0.0) if missing == "zero" else carried
    # float64: after five years of hours the angle of a float32 would be off by minutes
    day_angle = hour.double() * (2 * math.pi / 24)
    year_angle = day_angle / 365.25
    columns = [
        pm25_now,
        measured,
        hour - latest,
        *(record[name] for name in ("DEWP", "TEMP", "PRES", "Iws", "Is", "Ir")),
        *(record["cbwd"] == place for place in range(len(_WINDS))),
        day_angle.sin(),
        day_angle.cos(),
        year_angle.sin(),
        year_angle.cos(),
    ]
    return torch.stack([column.to(torch.float32) for column in columns], dim=1)


def _hour(time: int) -> datetime:
    return _START + timedelta(hours=time)


def _borders(sizes: tuple[object, ...], rows: int) -> list[int]:
    """First rows of all parts but the first."""
    if not sizes:
        raise ValueError("split needs at least one size, such as split(0.8).")
    numbers = [_number("a size", size) for size in sizes]
    counts = [isinstance(size, Integral) for size in sizes]
    if any(counts) != all(counts):
        raise TypeError(f"sizes must be all floats (fractions) or all ints (rows), saw {sizes!r}.")
    whole = rows if all(counts) else 1.0
    if not (all(number > 0 for number in numbers) and math.fsum(numbers) < whole):
        raise ValueError(f"sizes must be above 0, and together below {whole}, saw {sizes!r}.")
    return [round(total / whole * rows) for total in accumulate(numbers)]


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, saw {value!r}.")
    return float(value)


def _whole(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, saw {value!r}.")
    if not low <= int(value) <= high:
        raise ValueError(f"{name} must be from {low} to {high} hours, saw {value}.")
    return int(value)
