"""Timestamps against UTC arithmetic in fractions, padded sequences against a loop."""

import math
import subprocess
import sys
import zoneinfo
from collections import deque
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scorewise.series import Padded, from_padded, lags

NAN, INF = math.nan, math.inf
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NAIVE = [datetime(2024, 1, 1, hour) for hour in (3, 0, 7)]

ZONES = ("Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
needs_zones = pytest.mark.skipif(not zoneinfo.available_timezones(), reason="there are no time-zone data here")

# Both changes of 2024 in UTC, and by how much the clock moves.
CHANGES = {
    "Europe/Rome": [(datetime(2024, 3, 31, 1), 60), (datetime(2024, 10, 27, 1), -60)],
    "America/New_York": [(datetime(2024, 3, 10, 7), 60), (datetime(2024, 11, 3, 6), -60)],
    "Australia/Lord_Howe": [(datetime(2024, 4, 6, 15), -30), (datetime(2024, 10, 5, 15, 30), 30)],
}
changes = pytest.mark.parametrize(
    ("zone", "change", "minutes"), [(zone, *change) for zone, both in CHANGES.items() for change in both]
)


def times_of(timestamps, step, **arguments):
    result = lags(timestamps, step, **arguments)
    assert result.dtype == torch.int64
    assert result.dim() == 1
    return result.tolist()


def seconds(length):
    return Fraction(length.days * 86_400 + length.seconds) + Fraction(length.microseconds, 10**6)


def oracle(utc, step):
    """Steps since the earliest of naive datetimes in UTC; None if one is off the grid."""
    elapsed = [seconds(stamp - min(utc)) / seconds(step) for stamp in utc]
    return [int(steps) for steps in elapsed] if all(steps.denominator == 1 for steps in elapsed) else None


def local(utc, zone):
    """The same instants, as the clocks of a zone show them."""
    return [stamp.replace(tzinfo=UTC).astimezone(zoneinfo.ZoneInfo(zone)) for stamp in utc]


# ------------------------------------------------------------------------------------------------------- zones


@needs_zones
@changes
@pytest.mark.parametrize("minutes_apart", [60, 30, 10])
def test_clock_changes_are_neither_gaps_nor_duplicates(zone, change, minutes, minutes_apart):
    step = timedelta(minutes=minutes_apart)
    stamps = local([change + k * step for k in range(-12, 13)], zone)
    # what the zone is here for: the clock on the wall does not advance evenly
    walls = [b.replace(tzinfo=None) - a.replace(tzinfo=None) for a, b in pairwise(stamps)]
    assert {wall - step for wall in walls} == {timedelta(), timedelta(minutes=minutes)}
    assert times_of(stamps, step) == list(range(25))


@needs_zones
@given(data=st.data(), zone=st.sampled_from(ZONES), step=st.sampled_from([1, 15, 30, 45, 60, 1440]))
def test_zones_agree_with_utc(data, zone, step):
    step = timedelta(minutes=step)
    start, _ = data.draw(st.sampled_from([c for both in CHANGES.values() for c in both]))
    start += data.draw(st.integers(-3000, 3000)) * timedelta(minutes=1)
    steps = data.draw(st.lists(st.integers(-400, 400), min_size=1, max_size=30, unique=True))
    utc = [start + k * step for k in steps]
    expected = oracle(utc, step)
    assert expected is not None
    stamps = local(utc, zone)
    assert times_of(stamps, step) == expected
    assert times_of([stamp.isoformat() for stamp in stamps], step) == expected
    other = local(utc[::2], "Asia/Kathmandu")
    mixed = [other[k // 2] if k % 2 == 0 else stamp for k, stamp in enumerate(stamps)]
    assert times_of(mixed, step) == expected


@given(
    offsets=st.lists(st.integers(0, 10**12), min_size=1, max_size=20, unique=True),
    step=st.integers(1, 5000),
)
def test_off_the_grid_or_on_it_as_fractions_say(offsets, step):
    utc = [datetime(1950, 1, 1) + timedelta(microseconds=offset) for offset in offsets]
    step = timedelta(microseconds=step)
    expected = oracle(utc, step)
    if expected is not None:
        assert times_of(utc, step) == expected
        return
    elapsed = [seconds(stamp - min(utc)) / seconds(step) for stamp in utc]
    off = [k for k, steps in enumerate(elapsed) if steps.denominator != 1]
    with pytest.raises(ValueError, match=rf"but {len(off)} of {len(utc)} do not: the first, index {off[0]} \("):
        lags(utc, step)


@needs_zones
def test_fold_tells_the_second_of_two_equal_local_times():
    rome = zoneinfo.ZoneInfo("Europe/Rome")
    two = datetime(2024, 10, 27, 2, tzinfo=rome)
    assert times_of([two.replace(fold=1), two], HOUR) == [1, 0]
    with pytest.raises(ValueError, match=r"index 0 .* and index 1 .* are the same time\. .*only fold=1 tells"):
        lags([two, two], HOUR)


@needs_zones
def test_a_local_time_that_was_left_out_is_the_one_after_the_change():
    rome = zoneinfo.ZoneInfo("Europe/Rome")
    with pytest.raises(ValueError, match=r"02:30:00\+01:00\) and index 1 \(2024-03-31 03:30:00\+02:00\) are the same"):
        lags([datetime(2024, 3, 31, hour, 30, tzinfo=rome) for hour in (2, 3)], HOUR)


def test_the_ends_of_the_calendar():
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
    ends = [datetime(1, 1, 1, tzinfo=east), datetime(9999, 12, 31, 23, tzinfo=west)]
    days = date(9999, 12, 31).toordinal() - 1
    assert times_of(ends, HOUR) == [0, days * 24 + 23 + 12 + 14]


# ------------------------------------------------------------------------------------------------------- kinds


def as_numpy(unit):
    return np.array(NAIVE, dtype=f"datetime64[{unit}]")


SAME = {
    "datetimes": NAIVE,
    "a tuple": tuple(NAIVE),
    "a deque": deque(NAIVE),
    "aware": [stamp.replace(tzinfo=UTC) for stamp in NAIVE],
    "strings": [stamp.isoformat() for stamp in NAIVE],
    "strings with Z": [stamp.isoformat(sep=" ") + "Z" for stamp in NAIVE],
    "strings with nanoseconds": [stamp.isoformat() + ".000000000" for stamp in NAIVE],
    "an array of strings": np.array([stamp.isoformat() for stamp in NAIVE]),
    "an array of objects": np.array(NAIVE, dtype=object),
    "datetime64 scalars": list(as_numpy("s")),
    "datetime64 scalars of two units": [as_numpy("h")[0], as_numpy("ns")[1], as_numpy("m")[2]],
    "big-endian": as_numpy("ms").astype(">M8[ms]"),
    "backwards in memory": as_numpy("ms")[::-1].copy()[::-1],
    "read-only": np.frombuffer(as_numpy("ms").tobytes(), dtype="M8[ms]"),
    "masked nowhere": np.ma.masked_array(as_numpy("s"), mask=False),
    **{f"datetime64[{unit}]": as_numpy(unit) for unit in ("h", "30m", "s", "ms", "us", "ns")},
}


@pytest.mark.parametrize("stamps", SAME.values(), ids=SAME)
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (HOUR, [3, 0, 7]),
        (timedelta(minutes=30), [6, 0, 14]),
        (np.timedelta64(1, "h"), [3, 0, 7]),
        (np.timedelta64(10, "ms"), [1_080_000, 0, 2_520_000]),
        (np.array(20, "m8[m]"), [9, 0, 21]),
    ],
    ids=repr,
)
def test_dates_of_every_kind(stamps, step, expected):
    assert times_of(stamps, step) == expected


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="this NumPy has no strings of variable width")
def test_strings_of_variable_width():
    assert times_of(np.array([stamp.isoformat() for stamp in NAIVE], dtype=np.dtypes.StringDType()), HOUR) == [3, 0, 7]


@pytest.mark.parametrize(
    "stamps",
    [
        [date(2024, 2, 28), date(2024, 3, 1)],
        [date(2024, 2, 28), datetime(2024, 3, 1)],
        ["2024-02-28", "2024-03-01"],
        ["20240228", "20240301T00"],
        np.array(["2024-02-28", "2024-03-01"], dtype="M8[D]"),
        np.array([date(2024, 2, 28), date(2024, 3, 1)]),
    ],
    ids=["dates", "a date and a datetime", "strings", "basic format", "datetime64[D]", "objects"],
)
def test_days_cross_the_leap_day(stamps):
    assert times_of(stamps, DAY) == [0, 2]
    assert times_of(stamps, timedelta(hours=6)) == [0, 8]


def test_months_and_years_are_their_first_days():
    assert times_of(np.array(["2024-01", "2024-02", "2024-03"], "M8[M]"), DAY) == [0, 31, 60]
    assert times_of(np.array(["2023", "2024", "2025"], "M8[Y]"), DAY) == [0, 365, 731]
    assert times_of(np.array(["2024-01", "2024-07"], "M8[3M]"), DAY) == [0, 182]
    assert times_of(np.array(["2024-01-04", "2024-01-18"], "M8[W]"), DAY) == [0, 14]


def test_nanoseconds_and_finer_stay_exact():
    base = np.datetime64("2024-01-01T00:00:00.123456789", "ns")
    stamps = base + np.array([0, 7, 21]) * np.timedelta64(1, "ns")
    assert times_of(stamps, np.timedelta64(7, "ns")) == [0, 1, 3]
    assert times_of([str(stamp) for stamp in stamps], np.timedelta64(7, "ns")) == [0, 1, 3]
    assert times_of(np.array([1, 4, 10], "M8[as]"), np.timedelta64(3, "as")) == [0, 1, 3]
    assert times_of(["2024-01-01T00:00:00,0000001", "2024-01-01T00:00:00Z"[:-1]], np.timedelta64(100, "ns")) == [1, 0]
    # the last two are 1 ns off: a datetime would have dropped it
    with pytest.raises(ValueError, match=r"2 of 4 do not: the first, index 2 .* is 1e-09 s past a step.* as 1e-09 s,"):
        lags(["2024-01-01", "2024-01-02", "2024-01-03T00:00:00.000000001", "2024-01-04T00:00:00.000000001"], DAY)


def test_long_spans_in_units_that_do_not_divide():
    stamps = np.array(["1700-01-01", "2200-01-01"], "M8[ns]")
    days = date(2200, 1, 1).toordinal() - date(1700, 1, 1).toordinal()
    with pytest.raises(ValueError, match="too far apart"):  # 500 years of nanoseconds do not fit into 64 bits
        lags(stamps, DAY)
    assert times_of(stamps.astype("M8[us]"), DAY) == [0, days]
    assert times_of(stamps.astype("M8[D]"), np.timedelta64(1, "ms")) == [0, days * 86_400_000]
    with pytest.raises(ValueError, match="too far apart"):
        lags(stamps.astype("M8[D]"), np.timedelta64(1, "fs"))
    assert times_of(stamps[:1].astype("M8[W]"), np.timedelta64(1, "as")) == [0]
    far = [0, np.iinfo(np.int64).max - 1]
    assert times_of(np.array(far, "M8[as]"), np.timedelta64(far[1], "as")) == [0, 1]
    with pytest.raises(ValueError, match="1 of 2 do not"):  # a step of 1000 days is more attoseconds than 64 bits hold
        lags(np.array(far, "M8[as]"), 1000 * DAY)


NUMBERS = [1_700_000_600, 1_700_000_000, 1_700_001_500]


@pytest.mark.parametrize(
    "stamps",
    [
        NUMBERS,
        tuple(NUMBERS),
        torch.tensor(NUMBERS),
        torch.tensor(NUMBERS, dtype=torch.int32),
        torch.tensor(NUMBERS, dtype=torch.float64, requires_grad=True),
        [float(one) for one in NUMBERS],
        [NUMBERS[0], float(NUMBERS[1]), NUMBERS[2]],
        np.array(NUMBERS),
        np.array(NUMBERS, dtype=np.uint32),
        np.array(NUMBERS, dtype=">f8"),
        np.array(NUMBERS, dtype=object),
        list(np.array(NUMBERS)),
    ],
    ids=lambda stamps: f"{type(stamps).__name__} {getattr(stamps, 'dtype', type(stamps[0]))}",
)
@pytest.mark.parametrize("step", [300, 300.0, np.int32(300), np.float32(300), Fraction(300)], ids=repr)
def test_numbers_of_every_kind(stamps, step):
    assert times_of(stamps, step) == [2, 0, 5]


def test_ranges_and_small_integers():
    assert times_of(range(10, 20, 5), 5) == [0, 1]
    assert times_of(torch.tensor([250, 0], dtype=torch.uint8), 125) == [2, 0]
    assert times_of(torch.tensor([-120, 120], dtype=torch.int8), 2) == [0, 120]
    assert times_of([3, 1, 2], 0.5) == [4, 0, 2]
    assert times_of([3, 1, 2], 0.1) == [20, 0, 10]
    assert times_of([3, 1, 2], Fraction(1, 3)) == [6, 0, 3]


@given(
    base=st.integers(-(2**61), 2**61),
    step=st.integers(1, 2**40),
    steps=st.lists(st.integers(0, 2**20), min_size=1, unique=True),
)
def test_integers_stay_exact(base, step, steps):
    stamps = [base + k * step for k in steps]
    expected = [k - min(steps) for k in steps]
    assert times_of(stamps, step) == expected
    assert times_of(torch.tensor(stamps), step) == expected
    if step > 1 and len(steps) > 1:
        stamps[expected.index(max(expected))] -= 1
        with pytest.raises(ValueError, match=f"1 of {len(steps)} do not"):
            lags(np.array(stamps), step)


@given(
    base=st.sampled_from([0.0, 1.7e9, -12.3]),
    step=st.sampled_from([0.1, 1 / 3, 60.0, 0.01, 7.5]),
    steps=st.lists(st.integers(0, 10**6), min_size=1, unique=True),
)
def test_floats_that_were_rounded_are_on_the_grid(base, step, steps):
    assert times_of([base + k * step for k in steps], step) == [k - min(steps) for k in steps]


def test_a_float_off_by_more_than_a_millionth_of_a_step_is_off_the_grid():
    assert times_of([0.0, 0.5 + 4e-7, 1.0 - 4e-7], 0.5) == [0, 1, 2]
    for off in (6e-7, -6e-7):
        with pytest.raises(ValueError, match=r"1 of 3 do not: the first, index 1"):
            lags([0.0, 0.5 + off, 1.0], 0.5)


def test_floats_of_low_precision_are_judged_by_it():
    tenths = torch.arange(2000) * 0.1  # float32, off the tenths by up to 8e-6
    assert times_of(tenths, 0.1) == list(range(2000))
    with pytest.raises(ValueError, match="1 of 2000 do not: the first, index 1234"):
        lags(tenths + 0.002 * (torch.arange(2000) == 1234), 0.1)
    # a difference that float32 would round to an even number
    assert times_of(torch.tensor([-16_777_215.0, 16_777_216.0]), 1) == [0, 33_554_431]
    hours = torch.tensor([1.7e9 + 3600.0 * k for k in range(5)])  # which float32 rounds to multiples of 128 seconds
    with pytest.raises(ValueError, match=r"apart in torch\.float32: pass integers"):
        lags(hours, 3600)


def test_order_is_kept_and_zero_is_the_earliest_of_all_groups():
    assert times_of([50, 20, 30, 20], 10, groups=["b", "b", "a", "a"]) == [3, 0, 1, 0]


def test_nothing_gives_nothing():
    for stamps in ([], (), np.array([], "M8[s]"), np.array([], "M8"), torch.zeros(0), np.array([], dtype=object)):
        for step in (HOUR, 5):
            assert times_of(stamps, step) == []
            assert times_of(stamps, step, groups=[]) == []
    with pytest.raises(ValueError, match="above 0"):
        lags([], -HOUR)


def test_one_timestamp_is_at_zero():
    assert times_of([datetime(2024, 1, 1)], HOUR) == [0]
    assert times_of([-7.25], 3, groups=["a"]) == [0]


# ------------------------------------------------------------------------------------------------ other libraries


@needs_zones
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_pandas(unit):
    pd = pytest.importorskip("pandas")
    for zone in (None, *ZONES):
        index = pd.date_range("2024-03-30", "2024-10-28", freq="h", tz=zone, unit=unit)
        for stamps in (index, pd.Series(index, index=range(5, 5 + len(index))), index.to_list(), index.array):
            assert times_of(stamps, pd.Timedelta("1h")) == list(range(len(index)))
    days = pd.Series(pd.date_range("2024-01-01", periods=3).strftime("%Y-%m-%d"))
    assert times_of(days, DAY) == [0, 1, 2]
    assert times_of(pd.Series([5, 3], dtype="Int64"), 2) == [1, 0]


@needs_zones
def test_pandas_keeps_nanoseconds():
    pd = pytest.importorskip("pandas")
    for zone in (None, "Europe/Rome"):
        stamps = pd.to_datetime(["2024-10-27T01:00:00.000000007", "2024-10-27T01:00:00.000001004"]).tz_localize(zone)
        assert times_of(stamps, pd.Timedelta(997, "ns")) == [0, 1]
        assert times_of(list(stamps), pd.Timedelta(997, "ns")) == [0, 1]
        with pytest.raises(ValueError, match="1 of 2 do not"):
            lags(list(stamps), pd.Timedelta(1, "us"))


@needs_zones
def test_missing_in_pandas():
    pd = pytest.importorskip("pandas")
    for zone in (None, "Europe/Rome"):
        stamps = pd.Series(pd.to_datetime(["2024-01-01", None, "2024-01-02", None])).dt.tz_localize(zone)
        with pytest.raises(ValueError, match=r"2 of 4 are not: the first, at index 1, is .*NaT"):
            lags(stamps, HOUR)
    for column in (pd.Series(["2024-01-01", None]), pd.Series([1, None], dtype="Int64"), pd.Series([1, pd.NA])):
        with pytest.raises(ValueError, match="1 of 2 are not: the first, at index 1"):
            lags(column, HOUR if column[0] != 1 else 1)
    with pytest.raises(ValueError, match=r"shape \(n,\), saw \(3, 2\)"):
        lags(pd.DataFrame({"a": [1, 2, 3], "b": 0}), 1)


@needs_zones
def test_polars():
    pl = pytest.importorskip("polars")
    utc = [datetime(2024, 10, 26, 20) + k * HOUR for k in (0, 2, 5, 4)]
    stamps = pl.Series(utc)
    assert times_of(stamps, HOUR, groups=pl.Series(["a", "b", "a", "a"])) == [0, 2, 5, 4]
    for zone in ZONES:
        aware = stamps.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        assert times_of(aware, HOUR) == [0, 2, 5, 4]
    assert times_of(stamps.dt.strftime("%Y-%m-%dT%H:%M"), HOUR) == [0, 2, 5, 4]
    assert times_of(stamps.dt.date().unique(), DAY) == [0, 1]
    for column in (pl.Series([utc[0], None]), pl.Series(["2024-01-01", None])):
        with pytest.raises(ValueError, match="1 of 2 are not: the first, at index 1"):
            lags(column, HOUR)


WITHOUT_NUMPY = """
import sys, warnings
for name in ("numpy", "pandas", "polars"):
    sys.modules[name] = None
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
from datetime import datetime, timedelta
from scorewise.series import from_padded, lags
print(lags([datetime(2024, 1, 2), datetime(2024, 1, 1)], timedelta(hours=1), groups=["a", "b"]).tolist())
print(lags(["2024-01-02", "2024-01-01"], timedelta(days=1)).tolist(), lags([0.1, 0.3], 0.1, groups=[1, 1]).tolist())
print(from_padded([[0.5, 1.0]], [[0, 1]], [1]).mask.tolist())
"""


def test_works_without_numpy():
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[24, 0]", "[1, 0] [0, 2]", "[True, False]"]


@pytest.mark.parametrize("kind", ["datetimes", "integers", "floats"])
def test_every_series_has_a_minute_of_its_own(kind):
    """Gauges report at :00, :20 and :50; an hour is one lag for each, with a gap, and all count from the same zero."""
    minutes = [0, 60, 180, 20, 80, 230, 1_490, 50]
    groups = ["a", "a", "a", "b", "b", "c", "c", "c"]
    made = {
        "datetimes": ([datetime(2024, 1, 1) + timedelta(minutes=m) for m in minutes], HOUR),
        "integers": (minutes, 60),
        "floats": ([m / 60 for m in minutes], 1.0),
    }
    assert lags(*made[kind], groups=groups).tolist() == [m // 60 for m in minutes]
    shuffled = [7, 2, 4, 0, 6, 1, 3, 5]
    stamps, step = made[kind]
    mixed = lags([stamps[k] for k in shuffled], step, groups=[groups[k] for k in shuffled])
    assert mixed.tolist() == [minutes[k] // 60 for k in shuffled]
    with pytest.raises(ValueError, match=r"after the earliest, index 0 .*5 of 8 do not"):
        lags(stamps, step)


def test_off_the_grid_of_its_series():
    stamps = [datetime(2024, 1, 1, 0, m) for m in (0, 20, 50)] + [datetime(2024, 1, 1, 1, 30)]
    told = (
        r"after the earliest of their series, index 1 \(2024-01-01 00:20:00\), but 2 of 4 do not: the first, index 2 "
        r"\(2024-01-01 00:50:00\), is 0:30:00 past a step.* such as 0:10:00,"
    )
    with pytest.raises(ValueError, match=told):
        lags(stamps, HOUR, groups=["a", "b", "b", "b"])


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("stamps", "step", "told"),
    [
        (
            [datetime(2024, 1, 1, 0, m) for m in (0, 30, 50, 20)],
            HOUR,
            (
                r"whole steps of 1:00:00 after the earliest, index 0 \(2024-01-01 00:00:00\), but 3 of 4 do not: the "
                r"first, index 1 \(2024-01-01 00:30:00\), is 0:30:00 past a step\. Pass a step that divides all "
                r"distances, such as 0:10:00, which is one lag then, or round the timestamps first\.$"
            ),
        ),
        (
            np.array(["2024-01-02", "2024-01-01T12"], "M8[h]"),
            DAY,
            (
                r"steps of 1 day, 0:00:00 after the earliest, index 1 \(2024-01-01T12\), but 1 of 2 do not: the first, "
                r"index 0 \(2024-01-02T00\), is 12:00:00 past a step\..* such as 12:00:00,"
            ),
        ),
        ([10, 17, 45], 5, r"steps of 5 after .*index 0 \(10\), but 1 of 3 .* index 1 \(17\), is 2 past .* such as 7,"),
        ([10.0, 16.0, 49.0], 4.0, r"2 of 3 do not: the first, index 1 \(16\.0\), is 2 past a step.*, such as 3, which"),
        (
            torch.tensor([0.5, 1.25]),
            0.5,
            r"index 1 \(1\.25\), is 0\.25 past a step\. .* all distances, which is one lag",
        ),
        ([10**18, 10**18 + 1], 1.001, r"1 of 2 do not: .* such as 1,"),
        (
            np.array([0, 10**14 + 5], "M8[s]"),
            np.timedelta64(10**14, "s"),
            r"steps of 1e\+14 s .* is 0:00:05 past a step",
        ),
        ([0, 1, 3], 1.5, r"steps of 1\.5 after .* index 1 \(1\), is 1 past a step\..* such as 1,"),
    ],
    ids=[
        "datetimes",
        "datetime64",
        "integers",
        "whole floats",
        "floats",
        "large integers and a float step",
        "longer than a timedelta",
        "integers and a float step",
    ],
)
def test_off_the_grid(stamps, step, told):
    with pytest.raises(ValueError, match=told):
        lags(stamps, step)


SEVERAL = r" If there are several series, tell them apart with groups=\.$"
NAIVE_HINT = r" Local times repeat when daylight saving ends: if these are local, pass time-zone-aware ones\."


@pytest.mark.parametrize(
    ("stamps", "step", "hints"),
    [
        ([datetime(2024, 10, 27, hour) for hour in (1, 2, 3, 2, 3)], HOUR, NAIVE_HINT + SEVERAL),
        ([f"2024-10-27T0{hour}" for hour in (1, 2, 3, 2, 3)], HOUR, NAIVE_HINT + SEVERAL),
        (np.array([f"2024-10-27T0{hour}" for hour in (1, 2, 3, 2, 3)], "M8[h]"), HOUR, NAIVE_HINT + SEVERAL),
        ([date(2024, 10, day) for day in (1, 2, 3, 2, 3)], DAY, SEVERAL),
        (np.array([f"2024-10-0{day}" for day in (1, 2, 3, 2, 3)], "M8[D]"), DAY, SEVERAL),
        ([1, 2, 3, 2, 3], 1, SEVERAL),
        ([0.1, 0.2, 0.3, 0.2, 0.1 + 0.2], 0.1, SEVERAL),
    ],
    ids=["datetimes", "strings", "datetime64[h]", "dates", "datetime64[D]", "integers", "floats"],
)
def test_duplicates(stamps, step, hints):
    shown = [str(stamps[k]).replace("+", r"\+") for k in (1, 3)]
    pair = rf"2 of 5 repeat an earlier one: index 1 \({shown[0]}\) and index 3 \({shown[1]}\) are the same time\."
    with pytest.raises(ValueError, match=pair + hints):
        lags(stamps, step)
    for groups in (
        ["a", "a", "a", "b", "b"],
        [7, 7, 7, -1, -1],
        torch.tensor([0, 0, 0, 5, 5]),
        np.array(list("aaabb")),
    ):
        assert times_of(stamps, step, groups=groups) == [0, 1, 2, 1, 2]
    with pytest.raises(ValueError, match=r"1 of 5 repeat .*: index 2 .* and index 4 .* are the same time\.") as seen:
        lags(stamps, step, groups=list("aabbb"))
    assert "groups=" not in str(seen.value)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), min_size=1, max_size=12))
def test_duplicates_agree_with_a_loop(samples):
    stamps, groups = [time for time, _ in samples], [group for _, group in samples]
    seen, pair, repeated = {}, None, 0
    for j, sample in enumerate(samples):
        repeated += sample in seen
        if sample in seen and pair is None:
            pair = (seen[sample], j)
        seen[sample] = j
    if pair is None:
        assert times_of(stamps, 1, groups=groups) == [time - min(stamps) for time in stamps]
    else:
        told = rf"{repeated} of {len(samples)} repeat .*: index {pair[0]} \(.*and index {pair[1]} \("
        with pytest.raises(ValueError, match=told):
            lags(stamps, 1, groups=groups)


@pytest.mark.parametrize(
    ("stamps", "step", "told"),
    [
        ([datetime(2024, 1, 1), None, None], HOUR, "2 of 3 are not: the first, at index 1, is None"),
        ([NAN, datetime(2024, 1, 1)], HOUR, "1 of 2 are not: the first, at index 0, is nan"),
        (["2024-01-01", "", "NaT"], HOUR, "2 of 3 are not: the first, at index 1, is ''"),
        (np.array(["2024-01-01", "NaT"], "M8[s]"), HOUR, "1 of 2 are not: the first, at index 1, is .*NaT"),
        ([np.datetime64("2024-01-01"), np.datetime64("NaT", "D")], HOUR, "1 of 2 .* at index 1, is .*NaT"),
        ([np.datetime64("2024-01-01"), None], HOUR, "1 of 2 .* at index 1, is None"),
        (np.ma.masked_array(as_numpy("s"), [0, 1, 1]), HOUR, "2 of 3 are not: the first, at index 1, is masked"),
        ([1, None, 3], 1, "1 of 3 are not: the first, at index 1, is None"),
        ([1.0, 2.0, NAN], 1, "1 of 3 are not: the first, at index 2, is nan"),
        (torch.tensor([1.0, INF, NAN]), 1, "2 of 3 are not: the first, at index 1, is inf"),
        (np.array([-INF, 1.0]), 1, "1 of 2 are not: the first, at index 0, is -inf"),
        (np.array([1, None], dtype=object), 1, "1 of 2 are not: the first, at index 1, is None"),
    ],
)
def test_missing(stamps, step, told):
    with pytest.raises(ValueError, match=told):
        lags(stamps, step)


def test_naive_and_aware_are_not_mixed():
    aware = datetime(2024, 1, 1, tzinfo=UTC)
    told = "saw 2 naive, the first at index 0, and 1 aware, the first at index 1"
    for stamps in ([NAIVE[0], aware, NAIVE[1]], ["2024-01-01", "2024-01-01T00Z", "2024-01-02"]):
        with pytest.raises(ValueError, match=told):
            lags(stamps, HOUR)
    with pytest.raises(ValueError, match="saw 1 naive, the first at index 1, and 1 aware, the first at index 0"):
        lags([aware, date(2024, 1, 2)], HOUR)


class Nowhere(tzinfo):
    """A zone that does not know its distance from UTC: what bears it is naive, Python says."""

    def utcoffset(self, _):
        return None


def test_a_zone_without_an_offset_is_none():
    assert times_of([NAIVE[0].replace(tzinfo=Nowhere()), NAIVE[1]], HOUR) == [3, 0]


@pytest.mark.parametrize(
    ("stamps", "step", "told"),
    [
        (NAIVE, 3600, r"step must be a datetime\.timedelta such as timedelta\(hours=1\).*saw 3600"),
        (as_numpy("s"), 3600.0, r"step must be a datetime\.timedelta .*saw 3600\.0"),
        ([1, 2], HOUR, r"step must be a number in the timestamps' unit.*step\.total_seconds.*saw datetime\.timedelta"),
        (torch.tensor([1.0]), np.timedelta64(1, "h"), "step must be a number in .*saw np.timedelta64"),
        (NAIVE, "1h", r"step must be a datetime\.timedelta or, for plain numbers, a number, saw '1h'"),
        ([1, 2], True, r"step must be .* saw True"),
        ([1, 2], None, r"step must be .* saw None"),
        ("2024-01-01", HOUR, "a list, an array or a column .* saw str"),
        (datetime(2024, 1, 1), HOUR, "a list, an array or a column .* saw datetime"),
        (5, 1, "a list, an array or a column .* saw int"),
        ({1: 2}, 1, "a list, an array or a column .* saw dict"),
        ([1, datetime(2024, 1, 1)], HOUR, "all dates or all numbers, saw int at index 0"),
        (["2024-01-01", 3.5], HOUR, "all dates or all numbers, saw float at index 1"),
        ([timedelta(1)], HOUR, "array of numbers, saw list of timedelta"),
        ([True, False], 1, "dates or real numbers, saw torch.bool"),
        (torch.tensor([1j]), 1, "dates or real numbers, saw torch.complex64"),
        (np.array([1, 2], "m8[s]"), HOUR, r"array of numbers, saw dtype timedelta64\[s\]"),
    ],
)
def test_wrong_types(stamps, step, told):
    with pytest.raises(TypeError, match=told):
        lags(stamps, step)


@pytest.mark.parametrize(
    ("stamps", "step", "told"),
    [
        (NAIVE, timedelta(0), r"above 0, saw datetime\.timedelta\(0\)"),
        (NAIVE, -HOUR, "above 0, saw datetime.timedelta"),
        (NAIVE, np.timedelta64("NaT", "s"), "above 0, saw np.timedelta64"),
        ([1, 2], 0, "above 0, saw 0"),
        ([1, 2], -0.5, r"above 0, saw -0\.5"),
        ([1, 2], NAN, "above 0, saw nan"),
        ([1, 2], INF, "above 0, saw inf"),
        (NAIVE, np.timedelta64(1, "M"), r"fixed length, saw timedelta64\[M\]\..*12 \* year \+ month, and step=1"),
        (np.array([5]).view("M8"), HOUR, "timestamps must have a unit of fixed length, saw datetime64"),
        ([[1, 2], [3, 4]], 1, r"shape \(n,\), saw lists within a list"),
        ([NAIVE], HOUR, r"shape \(n,\), saw lists within a list"),
        (torch.zeros(2, 1), 1, r"shape \(n,\), saw \(2, 1\)"),
        (torch.tensor(3), 1, r"shape \(n,\), saw \(\)"),
        (as_numpy("s").reshape(3, 1), HOUR, r"shape \(n,\), saw \(3, 1\)"),
        (["2024-01-01", "yesterday"], HOUR, "ISO 8601, such as .*, saw 'yesterday' at index 1"),
        (["2024-01-01", "2024-01-01T00:00:00.0000000001"], HOUR, "finer than nanoseconds, saw .* at index 1"),
        (["0001-01-01", "2024-01-01T00:00:00.000000001"], HOUR, "too far apart"),
        ([0.0, 1e300], 1, "too far apart"),
        ([-(2**63), 2**63 - 1], 7, "too far apart"),
    ],
)
def test_wrong_values(stamps, step, told):
    with pytest.raises(ValueError, match=told):
        lags(stamps, step)


@pytest.mark.parametrize("groups", [["a"], [1, 2], torch.zeros(4, dtype=torch.int64), np.zeros((3, 1), dtype=int)])
def test_one_group_for_each_timestamp(groups):
    with pytest.raises(ValueError, match=r"groups must have .* shape \(3,\), saw"):
        lags(NAIVE, HOUR, groups=groups)


def test_groups_are_ints_or_strings():
    with pytest.raises(TypeError, match=r"groups must be integers or strings, .* saw torch.float64"):
        lags(NAIVE, HOUR, groups=[0.5, 1.5, 2.5])
    with pytest.raises(ValueError, match=r"groups must have .*, saw"):
        lags([], HOUR, groups=["a"])


# ------------------------------------------------------------------------------------------------------- padding


def batch(labels=None, dtype=torch.float64, garbage=99.0):
    """Five sequences in six steps: full, empty, and between; with garbage in the padding."""
    lengths = torch.tensor([6, 0, 3, 1, 5])
    shape = (5, 6) if labels is None else (5, 6, labels)
    g = torch.Generator().manual_seed(3)
    x, y = torch.randn(shape, generator=g, dtype=torch.float64), torch.rand(shape, generator=g) < 0.4
    targets = y.double()
    for b in range(5):
        x[b, int(lengths[b]) :] = garbage
        targets[b, int(lengths[b]) :] = garbage
    return x.to(dtype), targets, lengths


def flattened(x, y, lengths):
    rows, labels, groups, times, mask = [], [], [], [], []
    for b, length in enumerate(lengths.tolist()):
        for t in range(x.shape[1]):
            unknown = torch.full(x.shape[2:], NAN, dtype=x.dtype)
            rows.append(x[b, t] if t < length else unknown)
            labels.append(y[b, t].to(x.dtype) if t < length else unknown)
            groups.append(b)
            times.append(t)
            mask.append(t < length)
    return Padded(torch.stack(rows), torch.stack(labels), *(torch.tensor(z) for z in (groups, times, mask)))


def same(seen, expected):
    assert isinstance(seen, Padded)
    for name, one, other in zip(Padded._fields, seen, expected, strict=True):
        assert one.dtype == other.dtype, name
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True, msg=name)


labels = pytest.mark.parametrize("labels", [None, 1, 3], ids=["one", "(…, 1)", "three labels"])
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
garbage = pytest.mark.parametrize("garbage", [0.0, 99.0, NAN, INF, -INF])


@labels
@dtypes
@garbage
def test_padded_agrees_with_a_loop(labels, dtype, garbage):
    x, y, lengths = batch(labels, dtype, garbage)
    same(from_padded(x, y, lengths), flattened(x, y, lengths))


@labels
@garbage
def test_no_gradient_into_the_padding(labels, garbage):
    x, y, lengths = batch(labels, garbage=garbage)
    x.requires_grad_()
    flat = from_padded(x, y, lengths)
    assert not flat.targets.requires_grad
    # all steps, not those of the mask alone: a NaN goes into the padding from both sides
    (flat.logits.square() * 1.5).sum().backward()
    real = torch.arange(6) < lengths.unsqueeze(1)
    real = real if labels is None else real.unsqueeze(2).expand_as(x)
    expected = torch.where(real, 3.0 * torch.where(real, x.detach(), 0.0), 0.0)
    assert torch.equal(x.grad, expected)


def test_second_derivatives():
    x, y, lengths = batch()
    mask = from_padded(x, y, lengths).mask

    def real(z):
        return from_padded(z, y, lengths).logits[mask]

    x.requires_grad_()
    assert torch.autograd.gradcheck(real, x)
    assert torch.autograd.gradgradcheck(lambda z: real(z) ** 3, x)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float64], ids=str)
def test_targets_of_every_dtype(dtype):
    x, y, lengths = batch(dtype=torch.float32, garbage=1.0)
    same(from_padded(x, y.to(dtype), lengths), flattened(x, y, lengths))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int8, torch.int32, torch.int64], ids=str)
def test_lengths_of_every_kind(dtype):
    x, y, lengths = batch()
    expected = flattened(x, y, lengths)
    same(from_padded(x, y, lengths.to(dtype)), expected)
    for given_lengths in (lengths.tolist(), tuple(lengths.tolist()), lengths.to(dtype).numpy()):
        same(from_padded(x, y, given_lengths), expected)
    same(from_padded(x.numpy(), y.numpy(), lengths.numpy()), expected)
    same(from_padded(x.tolist(), y.tolist(), lengths.tolist()), expected)


def test_other_layouts_in_memory():
    x, y, lengths = batch(3)
    time_first = x.transpose(0, 1).contiguous().transpose(0, 1)
    labels_first = y.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    same(from_padded(time_first, labels_first, lengths), flattened(x, y, lengths))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 4, 2), (3, 0, 2)])
def test_no_sequences_or_no_steps(shape):
    flat = from_padded(torch.zeros(shape), torch.zeros(shape), [0] * shape[0])
    assert flat.logits.shape == flat.targets.shape == (0, *shape[2:])
    assert [part.shape for part in flat[2:]] == [(0,)] * 3


def test_the_input_is_left_alone():
    x, y, lengths = batch(garbage=7.0)
    copies = x.clone(), y.clone(), lengths.clone()
    flat = from_padded(x, y, lengths)
    for part in flat:
        part.fill_(1)
    for one, other in zip((x, y, lengths), copies, strict=True):
        assert torch.equal(one, other)


@labels
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_whole(labels, dynamic):
    torch.compiler.reset()
    x, y, lengths = batch(labels, garbage=NAN)

    def step(z, y, lengths):
        flat = from_padded(z, y, lengths)
        keep = flat.mask if labels is None else flat.mask.unsqueeze(1)
        return torch.where(keep, flat.logits.sin(), 0.0).sum(), flat

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (5, 4, 3):  # other shapes too: with dynamic=True in the same graph
        z = x[:rows].clone().requires_grad_()
        value, flat = compiled(z, y[:rows], lengths[:rows])
        same(Padded(*(part.detach() for part in flat)), flattened(x[:rows], y[:rows], lengths[:rows]))
        w = x[:rows].clone().requires_grad_()
        assert torch.equal(
            torch.autograd.grad(value, z)[0], torch.autograd.grad(step(w, y[:rows], lengths[:rows])[0], w)[0]
        )


def test_compiled_lengths_may_be_a_list_and_are_not_judged():
    torch.compiler.reset()
    compiled = torch.compile(from_padded, fullgraph=True, backend="aot_eager")
    x, y, lengths = batch()
    same(compiled(x, y, lengths.tolist()), flattened(x, y, lengths))
    flat = compiled(torch.zeros(2, 3), torch.zeros(2, 3), torch.tensor([-1, 7]))
    assert flat.mask.tolist() == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    ("x", "y", "n", "told"),
    [
        (
            (4,),
            (4,),
            [4],
            r"\(batch, time, labels\), saw \(4,\)\. A single sequence needs no padding: pass it directly",
        ),
        ((), (), [4], r"\(batch, time, labels\), saw \(\)\.$"),
        ((2, 3, 4, 5), (2, 3, 4, 5), [3, 3], r"\(batch, time, labels\), saw \(2, 3, 4, 5\)\.$"),
        ((2, 3), (3, 2), [3, 3], r"same shape, saw \(2, 3\) and \(3, 2\)"),
        ((2, 3, 1), (2, 3), [3, 3], r"same shape, saw \(2, 3, 1\) and \(2, 3\)"),
        ((2, 3), (2, 1), [3, 3], r"same shape, saw \(2, 3\) and \(2, 1\)"),
        ((2, 3), (2, 3), [3], r"shape \(2,\), as the logits' is \(2, 3\), saw \(1,\)\.$"),
        ((2, 3), (2, 3), 3, r"shape \(2,\), as the logits' is \(2, 3\), saw \(\)\.$"),
        ((2, 3), (2, 3), [[3], [3]], r"shape \(2,\), .* saw \(2, 1\)\.$"),
        ((2, 3), (2, 3), [1, 2, 1], r"shape \(2,\), .* saw \(3,\)\. If time comes first, swap it: logits\.transpose"),
        ((2, 3), (2, 3), [3, 4], r"from 0 to 3, .* but 1 of 2 are not: the first, at index 1, is 4\."),
        ((3, 3), (3, 3), [-1, 0, -2], r"from 0 to 3, .* but 2 of 3 are not: the first, at index 0, is -1\."),
    ],
)
def test_padded_refuses_shapes_and_lengths(x, y, n, told):
    with pytest.raises(ValueError, match=told):
        from_padded(torch.zeros(x), torch.zeros(y), n)


@pytest.mark.parametrize(
    ("x", "y", "n", "told"),
    [
        (
            torch.zeros(2, 3, dtype=torch.int64),
            torch.zeros(2, 3),
            [1, 1],
            "logits must be floating point, saw torch.int64",
        ),
        (
            torch.zeros(2, 3),
            torch.zeros(2, 3, dtype=torch.complex64),
            [1, 1],
            "targets must be real, saw torch.complex64",
        ),
        (torch.zeros(2, 3), torch.zeros(2, 3), [1.0, 2.0], "lengths must be integers, saw torch.float64"),
        (torch.zeros(2, 3), torch.zeros(2, 3), torch.tensor([True, False]), "lengths must be integers, saw torch.bool"),
        (torch.zeros(2, 3), torch.zeros(2, 3), "33", "lengths must be a tensor or an array of numbers, saw str"),
        (torch.zeros(2, 3), [["a", "b"]], [1, 1], "targets must be a tensor or an array of numbers"),
    ],
)
def test_padded_refuses_types(x, y, n, told):
    with pytest.raises(TypeError, match=told):
        from_padded(x, y, n)


def test_tensors_on_two_devices():
    x, here = torch.zeros(2, 3), {"device": "meta"}
    with pytest.raises(ValueError, match=r"targets are on meta, but .* on cpu"):
        from_padded(x, torch.zeros(2, 3, **here), [1, 1])
    with pytest.raises(ValueError, match=r"lengths are on meta, but .* on cpu"):
        from_padded(x, x, torch.zeros(2, dtype=torch.int64, **here))
    # lists are moved
    flat = from_padded(torch.zeros(2, 3, **here), [[0, 1, 0], [0, 0, 1]], [1, 2])
    assert {part.device.type for part in flat} == {"meta"}
    assert [part.shape for part in flat] == [(6,)] * 5


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@labels
def test_on_an_accelerator_nothing_waits(labels):
    x, y, lengths = batch(labels, torch.float32, NAN)
    device = [z.cuda() for z in (x, y, lengths)]
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        flat = from_padded(*device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    same(Padded(*(part.cpu() for part in flat)), flattened(x, y, lengths))
    same(
        Padded(*(part.cpu() for part in from_padded(device[0], y.numpy(), lengths.tolist()))), flattened(x, y, lengths)
    )


@pytest.mark.gpu
def test_lags_stay_on_an_accelerator():
    times = lags(torch.tensor([600, 0, 0]).cuda(), 300, groups=torch.tensor([1, 1, 2]).cuda())
    assert times.is_cuda
    assert times.tolist() == [2, 0, 0]
