"""Readings in time, and what can be known by them: earlier values, what is usual, what follows.

A reading is a column with a row for every step, NaN where nothing was recorded, so that numbers of rows are lags in
time. Of several series it is a frame with a column for each; all that is here does the same to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import numpy as np
import pandas as pd

from benchmarks.quality.task import Task, categories

Reading = TypeVar("Reading", pd.Series, pd.DataFrame)


def lagged(reading: Reading, lags: Iterable[int], windows: Iterable[int], name: str) -> dict[str, Reading]:
    """Earlier values of a reading, and its mean, least and largest over the last steps, this one included."""
    columns = {f"{name}_{lag}_ago": reading.shift(lag) for lag in lags}
    for window in windows:
        last = reading.rolling(window, min_periods=1)
        columns |= {
            f"{name}_mean_{window}": last.mean(),
            f"{name}_min_{window}": last.min(),
            f"{name}_max_{window}": last.max(),
        }
    return columns


def usual(hourly: pd.Series, *, weeks: int, hours: int) -> pd.Series:
    """What is usual so many hours later: the median at the same hour of the weeks before, of at least three."""
    before = pd.concat([hourly.shift(168 * week - hours) for week in range(1, weeks + 1)], axis=1)
    return before.median(axis=1).where(before.notna().sum(axis=1) >= 3)


def beside_usual(
    reading: pd.Series, usual_now: pd.Series, usual_then: pd.Series, lags: Iterable[int], windows: Iterable[int]
) -> dict[str, pd.Series]:
    """What is usual now, and when the event would be, and a reading as a share of it, earlier shares included."""
    share = reading / usual_now
    return {
        "usual": usual_now,
        "usual_then": usual_then,
        "share_of_usual": share,
        **lagged(share, lags, windows, "share"),
    }


def ahead(level: pd.Series, horizon: int, event: Callable[[pd.Series], pd.Series]) -> tuple[np.ndarray, np.ndarray]:
    """Whether the event follows, and the rows for which that is known."""
    return labels(level.shift(-horizon), event)


def labels(later: pd.Series, event: Callable[[pd.Series], pd.Series]) -> tuple[np.ndarray, np.ndarray]:
    """Whether what comes later is the event, and the rows for which that is known: labels of these alone."""
    known = later.notna().to_numpy()
    return event(later).to_numpy().astype(np.int64)[known], known


def series(
    name: str,
    X: pd.DataFrame,
    y: tuple[np.ndarray, np.ndarray],
    *,
    times: np.ndarray,
    horizon: int,
    source: str,
    groups: np.ndarray | None = None,
) -> Task:
    """A task of the rows whose label is known: ``y`` holds their labels, and which of all rows they are."""
    events, known = y
    return Task(
        name,
        categories(X.loc[known]),
        events,
        None if groups is None else groups[known].astype(np.int64),
        times[known].astype(np.int64),
        horizon,
        "series",
        source,
    )


def every(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows numbered by their steps, and between them rows for steps at which nothing was recorded."""
    return frame.reindex(pd.RangeIndex(frame.index.min(), frame.index.max() + 1))


def beside(frame: pd.DataFrame, *, group: str, step: str) -> dict[str, pd.DataFrame]:
    """Of each reading of several series a column for each series, at every step."""
    columns = frame.columns.drop([group, step])
    return {name: every(frame.pivot(index=step, columns=group, values=name)) for name in columns}


def below(columns: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Series that stand beside each other, one below the other: rows by series and step."""
    return pd.DataFrame({name: column.unstack() for name, column in columns.items()})


def steps(since: pd.Series, step: str) -> np.ndarray:
    """Whole steps; a time between two steps is an error."""
    count = since / pd.Timedelta(step)
    if not (count == count.round()).all():
        raise ValueError(f"times are not multiples of {step}: first {since[count != count.round()].iloc[0]}.")
    return count.to_numpy().astype(np.int64)


def unbroken(stamps: pd.Series, step: str) -> np.ndarray:
    """0, 1, 2, …: lags are then numbers of rows."""
    count = steps(stamps - stamps.iloc[0], step)
    if not np.array_equal(count, np.arange(len(count))):
        raise ValueError(f"times were expected every {step}, and some are missing or out of order.")
    return count
