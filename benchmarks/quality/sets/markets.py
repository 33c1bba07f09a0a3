"""Series of prices, by days of trading."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.quality.sets.readings import ahead, lagged, series
from benchmarks.quality.task import Task


def sp500(frame: pd.DataFrame) -> Task:
    """Shares that fall by more than 1 % on the next day."""
    returns = 100 * frame["Adj Close"].pct_change()
    spread = 100 * (frame["High"] / frame["Low"] - 1)
    volume = np.log(frame["Volume"])
    X = pd.DataFrame(
        {
            **_moves(returns),
            "range": spread,
            **lagged(spread, (1, 2), (5, 20), "range"),
            "volume": volume - volume.rolling(20).mean(),
            "weekday": pd.to_datetime(frame["Date"], format="%m/%d/%Y").dt.day_of_week,
        }
    )
    source = "S&P 500 daily, 1999 to 2018 (Yahoo Finance, as in arch), no licence stated"
    return series("sp500", X, ahead(returns, 1, lambda r: r < -1), times=np.arange(len(X)), horizon=1, source=source)


def oil(frame: pd.DataFrame) -> Task:
    """Crude oil that falls by more than 3 % on the next day."""
    frame = frame.dropna().reset_index(drop=True)  # holidays
    price = frame["DCOILWTICO"]
    returns = 100 * price.pct_change()
    X = pd.DataFrame(
        {
            **_moves(returns),
            **{f"below_most_of_{days}": 100 * (price / price.rolling(days).max() - 1) for days in (20, 250)},
            "weekday": pd.to_datetime(frame["Date"], format="%m/%d/%Y").dt.day_of_week,
        }
    )
    source = "West Texas oil, daily, 1986 to 2019 (EIA by FRED, DCOILWTICO, as in arch), public domain"
    return series("oil", X, ahead(returns, 1, lambda r: r < -3), times=np.arange(len(X)), horizon=1, source=source)


def _moves(returns: pd.Series) -> dict[str, pd.Series]:
    """What prices did, and how unsteadily."""
    return {
        "return": returns,
        **lagged(returns, (1, 2, 3, 4, 5), (5, 20, 60), "return"),
        **{f"deviation_{days}": returns.rolling(days).std() for days in (5, 20, 60)},
    }
