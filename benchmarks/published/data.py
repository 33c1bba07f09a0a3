"""The two experiments: hours of bad air, and days on which a market falls.

Inputs of a step hold nothing that was not known then. Series begin some steps before the first row, so that a network
that reads the past has one at the first row, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import scorewise as sw
from benchmarks.quality.files import file
from benchmarks.quality.goals import Goal

PAST = 24
"""Steps before the first row."""
WEIGHT = sw.weights.Value(sw.weights.PUBLISHED, g="max", isolated=2.0)
"""The published rule: an alarm 1, 2, 3 steps early is worth 1/2, 1/3, 1/4, and an isolated error weighs 2."""
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "pollution": {"tss": (0.9363, 0.9510), "wtss": (0.9173, 0.9449)},
    "stock": {"tss": (0.2061, 0.1912), "wtss": (0.2516, 0.2615)},
}
"""By experiment and score: the published ensemble tuned for TSS, and the one tuned for the value-weighted TSS.

Those of stocks stand in the authors' notebook, the last of them in the paper, too.
"""
PUBLISHED_INPUTS = (
    "pm25",
    "dew_point",
    "temperature",
    "pressure",
    "wind",
    "wind_speed",
    "snow_hours",
    "rain_hours",
)
"""What is read of an hour, as it is: nothing is shifted or scaled."""
POLLUTION_LEVELS = (225, 270, 315, 360, 405, 450, 495)
"""Of PM2.5: from half to 1.1 of the level that is judged."""
STOCK_SIZES = (1728, 504, 277)
STOCK_LEVELS = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Of the loss of a day, in percent."""
GOALS = (Goal("tss", sw.scores.tss), Goal("wtss", sw.scores.tss, WEIGHT))


@dataclass(frozen=True, eq=False)
class Part:
    """Some consecutive rows: their numbers, labels and times."""

    rows: Tensor
    y: Tensor
    times: Tensor


@dataclass(frozen=True, eq=False)
class Experiment:
    """One of the experiments.

    Attributes:
        name: What it is called here.
        windows: What the published network reads of each row, (n, its steps, its inputs) float32.
        steps: What a network could read at each step, (PAST + n, F) float32; row i is step i + PAST.
        table: What is known at each row, missing values carried forward, with changes: (n, G) float64.
        reading: The one number of a row that tells most by itself, (n,) float64; the larger, the likelier the event.
        y: 1 where the event follows, (n,) float32.
        levels: The level that makes an event, and others about it.
        above: 1 where a level is exceeded by what follows, (n, levels) float32.
        judged: Which of the levels makes the event.
        amounts: Numbers that are not negative, which a level can be compared with, (n, A) float64.
        changes: Numbers of either sign in the same unit, (n, C) float64.
        rest: What is the same for each level, (n, R) float64.
        times: When, (n,) int64.
        sizes: How many rows to fit, to choose, to judge.
        events: How many events there are among them.
        block: How many steps a bootstrap draws together: longer than a run of events.
    """

    name: str
    windows: Tensor
    steps: Tensor
    table: Tensor
    reading: Tensor
    y: Tensor
    levels: tuple[float, ...]
    above: Tensor
    judged: int
    amounts: Tensor
    changes: Tensor
    rest: Tensor
    times: Tensor
    sizes: tuple[int, int, int]
    events: tuple[int, int, int]
    block: int

    def __post_init__(self) -> None:
        n = len(self.y)
        others = self.windows, self.table, self.reading, self.above, self.amounts, self.changes, self.rest, self.times
        lengths = len(self.steps) - PAST, sum(self.sizes), *(len(one) for one in others)
        if set(lengths) != {n}:
            raise ValueError(f"{self.name}: {n} labels, but inputs, times and parts for {lengths} rows.")
        if not torch.equal(self.above[:, self.judged], self.y):
            raise ValueError(
                f"{self.name}: events must be what is above {self.levels[self.judged]:g}, place {self.judged}."
            )
        seen = tuple(int(part.y.sum()) for part in self.parts())
        if seen != self.events:
            raise ValueError(f"{self.name}: the parts must have {self.events} events, saw {seen}.")

    def parts(self) -> tuple[Part, Part, Part]:
        """The rows to fit, to choose and to judge."""
        train, validation, test = torch.arange(len(self.y)).split(self.sizes)
        return self.part(train), self.part(validation), self.part(test)

    def known(self) -> Part:
        """The rows to fit and to choose together: all that may be looked at before the end."""
        return self.part(torch.arange(sum(self.sizes[:2])))

    def part(self, rows: Tensor) -> Part:
        """Some rows."""
        return Part(rows, self.y[rows], self.times[rows])


def _above(level: float) -> Tensor:
    return sw.datasets.beijing_pm25(event=level, horizon=1, missing="zero").targets


def pollution() -> Experiment:
    """Beijing: will PM2.5 of the next hour be above 450?

    As published, the first 24 hours are dropped and a missing PM2.5 is 0, in inputs and labels. The table carries the
    latest measurement forward instead, in its inputs only.
    """
    as_zero = sw.datasets.beijing_pm25(event=450, horizon=1, missing="zero")
    carried = sw.datasets.beijing_pm25(event=450, horizon=1, missing="unknown").features
    names = as_zero.feature_names
    first, hour, season = (names.index(name) for name in ("dew_point", "hour_sin", "year_sin"))
    pm25 = carried[:, names.index("pm25")].double()
    change = torch.diff(pm25, prepend=pm25[:1])
    # not the season: of two winters it would be learnt by heart
    table = torch.cat([pm25[:, None], change[:, None], as_zero.features[:, first:season].double()], 1)
    highest = torch.stack([pm25.roll(lag) for lag in range(PAST)]).amax(0)
    columns = dict(zip(names, as_zero.features.T, strict=True))
    # the directions were numbered in the order of their letters: NE, NW, SE, calm or changing
    columns["wind"] = torch.stack([columns[f"wind_{one}"] for one in ("ne", "nw", "se", "cv")], 1).argmax(1).float()
    dew_point = as_zero.features[:, first].double()
    dew_point_change = dew_point - dew_point.roll(3)
    times_of_day = as_zero.features[:, hour:season].double()
    return Experiment(
        name="pollution",
        windows=torch.stack([columns[one] for one in PUBLISHED_INPUTS], 1)[PAST:, None],
        # the eight variables that were published; hours and seasons are not among them
        steps=torch.cat([as_zero.features[:, :1], as_zero.features[:, first:hour]], 1),
        table=table[PAST:],
        reading=as_zero.features[PAST:, 0].double(),
        y=as_zero.targets[PAST:],
        levels=POLLUTION_LEVELS,
        above=torch.stack([_above(level)[PAST:] for level in POLLUTION_LEVELS], 1),
        judged=POLLUTION_LEVELS.index(450),
        # what was rolled over the ends is gone with the first 24 hours
        amounts=torch.stack([pm25, highest], 1)[PAST:],
        changes=change[PAST:, None],
        rest=torch.cat([dew_point_change[:, None], times_of_day], 1)[PAST:],
        times=as_zero.times[PAST:],
        sizes=(13_104, 4_320, 26_375),
        events=(107, 15, 148),
        block=72,
    )


def stock() -> Experiment:
    """S&P 500: will a day's return be below -1 %? Of the days from 2001-01-10 to 2011-01-01, by what is known before.

    The published network reads the returns of the five days before, the latest first.
    """
    frame = pd.read_csv(file("arch", "data/sp500/sp500.csv.gz"))
    dates = pd.to_datetime(frame["Date"], format="%m/%d/%Y")
    returns = 100 * frame["Adj Close"].pct_change()
    spread = 100 * (frame["High"] / frame["Low"] - 1)
    volume = np.log(frame["Volume"])
    volume -= volume.rolling(20).mean()
    days = np.flatnonzero((dates >= "2001-01-10") & (dates <= "2011-01-01")) - 1  # when they are forecast
    steps = pd.DataFrame({"return": returns, "range": spread, "volume": volume})
    table = steps.assign(
        **{f"return_{lag}": returns.shift(lag) for lag in (1, 2, 3, 4)},
        **{f"deviation_{span}": returns.rolling(span).std() for span in (5, 20, 60)},
        **{f"range_{span}": spread.rolling(span).mean() for span in (5, 20)},
    )
    follows = -returns.to_numpy()[days + 1]
    lags = torch.tensor(np.stack([returns.to_numpy()[days - lag] for lag in range(5)], 1), dtype=torch.float32)
    known = lags[: sum(STOCK_SIZES[:2])]
    spreads = ["range", "deviation_5", "deviation_20", "deviation_60", "range_5", "range_20"]
    moves = ["return", "return_1", "return_2", "return_3", "return_4"]
    return Experiment(
        name="stock",
        windows=((lags - known.mean(0)) / known.std(0, correction=0))[..., None],
        steps=torch.tensor(steps.to_numpy()[days[0] - PAST : days[-1] + 1], dtype=torch.float32),
        table=torch.tensor(table.to_numpy()[days]),
        reading=torch.tensor(table["deviation_20"].to_numpy()[days]),
        y=torch.tensor(follows > 1, dtype=torch.float32),
        levels=STOCK_LEVELS,
        above=torch.tensor(follows[:, None] > np.array(STOCK_LEVELS), dtype=torch.float32),
        judged=STOCK_LEVELS.index(1.0),
        amounts=torch.tensor(table[spreads].to_numpy()[days]),
        changes=torch.tensor(table[moves].to_numpy()[days]),
        rest=torch.tensor(table[["volume"]].to_numpy()[days]),
        times=torch.arange(len(days)),
        sizes=STOCK_SIZES,
        events=(240, 130, 41),
        block=20,
    )


EXPERIMENTS: dict[str, Callable[[], Experiment]] = {"pollution": pollution, "stock": stock}
