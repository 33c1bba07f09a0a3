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
from benchmarks.quality.data import _file
from benchmarks.quality.goals import Goal

PAST = 24
"""Steps before the first row."""
WEIGHT = sw.weights.Value(sw.weights.PUBLISHED, g="max", isolated=2.0)
"""The published rule: an alarm 1, 2, 3 steps early is worth 1/2, 1/3, 1/4, and an isolated error weighs 2."""
PUBLISHED: dict[str, dict[str, tuple[float | None, float]]] = {
    "pollution": {"tss": (0.9363, 0.9510), "wtss": (0.9173, 0.9449)},
    "stock": {"wtss": (None, 0.2615)},
}
"""By experiment and score: the published ensemble tuned for TSS, and the one tuned for the value-weighted TSS."""
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
        steps: What the published network could read at each step, (PAST + n, F) float32; row i is step i + PAST.
        table: What is known at each row, missing values carried forward, with changes: (n, G) float64.
        level: The one number of a row that tells most by itself, (n,) float64; the larger, the likelier the event.
        y: 1 where the event follows, (n,) float32.
        times: When, (n,) int64.
        sizes: How many rows to fit, to choose, to judge.
        events: How many events there are among them.
        block: How many steps a bootstrap draws together: longer than a run of events.
    """

    name: str
    steps: Tensor
    table: Tensor
    level: Tensor
    y: Tensor
    times: Tensor
    sizes: tuple[int, int, int]
    events: tuple[int, int, int]
    block: int

    def __post_init__(self) -> None:
        n = len(self.y)
        lengths = len(self.steps) - PAST, len(self.table), len(self.level), len(self.times), sum(self.sizes)
        if set(lengths) != {n}:
            raise ValueError(f"{self.name}: {n} labels, but inputs, times and parts for {lengths} rows.")
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
    return Experiment(
        name="pollution",
        # the eight variables that were published; hours and seasons are not among them
        steps=torch.cat([as_zero.features[:, :1], as_zero.features[:, first:hour]], 1),
        table=table[PAST:],
        level=as_zero.features[PAST:, 0].double(),
        y=as_zero.targets[PAST:],
        times=as_zero.times[PAST:],
        sizes=(13_104, 4_320, 26_375),
        events=(107, 15, 148),
        block=72,
    )


def stock() -> Experiment:
    """S&P 500: will the next day's return be below -1 %? Of the days from 2001-01-10 to 2011-01-01."""
    frame = pd.read_csv(_file("arch", "data/sp500/sp500.csv.gz"))
    dates = pd.to_datetime(frame["Date"], format="%m/%d/%Y")
    returns = 100 * frame["Adj Close"].pct_change()
    spread = 100 * (frame["High"] / frame["Low"] - 1)
    volume = np.log(frame["Volume"])
    volume -= volume.rolling(20).mean()
    days = np.flatnonzero((dates >= "2001-01-10") & (dates <= "2011-01-01"))
    steps = pd.DataFrame({"return": returns, "range": spread, "volume": volume})
    table = steps.assign(
        **{f"return_{lag}": returns.shift(lag) for lag in (1, 2, 3, 4)},
        **{f"deviation_{span}": returns.rolling(span).std() for span in (5, 20, 60)},
        **{f"range_{span}": spread.rolling(span).mean() for span in (5, 20)},
    )
    return Experiment(
        name="stock",
        steps=torch.tensor(steps.to_numpy()[days[0] - PAST : days[-1] + 1], dtype=torch.float32),
        table=torch.tensor(table.to_numpy()[days]),
        level=torch.tensor(table["deviation_20"].to_numpy()[days]),
        y=torch.tensor((returns.shift(-1) < -1).to_numpy()[days], dtype=torch.float32),
        times=torch.arange(len(days)),
        sizes=(1728, 504, 277),
        events=(240, 130, 41),
        block=20,
    )


EXPERIMENTS: dict[str, Callable[[], Experiment]] = {"pollution": pollution, "stock": stock}
