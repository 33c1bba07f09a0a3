import math
import pickle
import re
from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta
from importlib import resources
from itertools import pairwise

import pytest
import torch

from scorewise import datasets
from scorewise.datasets import BeijingPM25, beijing, beijing_pm25

HOURS = 43_824  # of five years, one of them a leap year


@pytest.fixture(scope="module")
def data() -> BeijingPM25:
    return beijing_pm25()


def column(part: BeijingPM25, name: str) -> torch.Tensor:
    return part.features[:, part.feature_names.index(name)]


# ---------------------------------------------------------------------------------------------- the record


def test_rows_are_all_hours_that_have_a_label_hour(data):
    assert len(data) == HOURS - 6
    assert data.times.dtype == torch.int64
    assert data.times.tolist() == list(range(HOURS - 6))
    stamps = data.timestamps()
    assert stamps[0] == datetime(2010, 1, 1, 0)
    assert stamps[-1] == datetime(2014, 12, 31, 17)
    assert stamps[1] - stamps[0] == timedelta(hours=1)


def test_shapes_and_dtypes(data):
    n = len(data)
    assert data.features.shape == (n, len(data.feature_names))
    assert data.features.dtype == data.targets.dtype == torch.float32
    assert data.mask.dtype == torch.bool
    assert data.targets.shape == data.mask.shape == data.times.shape == (n,)
    assert set(data.targets[data.mask].tolist()) == {0.0, 1.0}
    assert data.targets[~data.mask].isnan().all()


def test_features_are_finite(data):
    assert data.features.isfinite().all()


def test_count_of_missing_measurements():
    record = beijing._record()
    assert {len(values) for values in record.values()} == {HOURS}
    assert int(record["pm2.5"].isnan().sum()) == 2_067
    assert not any(values.isnan().any() for name, values in record.items() if name != "pm2.5")


# Rows of the raw file: pm2.5, DEWP, TEMP, PRES, cbwd, Iws, Is, Ir.
RAW = {
    datetime(2010, 1, 1, 0): (None, -21, -11, 1021, "NW", 1.79, 0, 0),
    datetime(2010, 1, 2, 0): (129, -16, -4, 1020, "SE", 1.79, 0, 0),
    datetime(2010, 1, 2, 4): (138, -7, -5, 1022, "SE", 6.25, 2, 0),
    datetime(2010, 3, 30, 0): (288, 6, 7, 1021, "SE", 0.89, 0, 5),
    datetime(2010, 11, 13, 18): (10, -13, 1, 1029.666667, "NW", 161.4, 0, 0),
    datetime(2014, 11, 3, 19): (34, -5, 14.66666667, 1018, "cv", 0.89, 0, 0),
    datetime(2014, 12, 31, 17): (9, -22, -1, 1033, "NW", 221.24, 0, 0),
}


@pytest.mark.parametrize(("hour", "raw"), RAW.items())
def test_rows_of_the_raw_file(data, hour, raw):
    pm25, dew_point, temperature, pressure, wind, wind_speed, snow, rain = raw
    row = dict(zip(data.feature_names, data.features[data.timestamps().index(hour)].tolist(), strict=True))
    assert row["pm25_measured"] == (pm25 is not None)
    assert row["pm25"] == (pm25 or 0)
    assert row["dew_point"] == dew_point
    assert row["temperature"] == pytest.approx(temperature, rel=1e-6)
    assert row["pressure"] == pytest.approx(pressure, rel=1e-6)
    assert row["wind_speed"] == pytest.approx(wind_speed, rel=1e-6)
    assert row["snow_hours"] == snow
    assert row["rain_hours"] == rain
    assert {name for name in data.feature_names if re.fullmatch("wind_[a-z]{2}", name) and row[name]} == {
        f"wind_{wind.lower()}"
    }


def test_one_wind_at_a_time(data):
    winds = torch.stack([column(data, name) for name in ("wind_ne", "wind_nw", "wind_se", "wind_cv")])
    assert set(winds.unique().tolist()) == {0.0, 1.0}
    assert (winds.sum(0) == 1).all()


def test_clock_and_calendar_turn_where_they_should(data):
    stamps = data.timestamps()
    of_day = torch.tensor([stamp.hour / 24 for stamp in stamps])
    since_new_year = torch.tensor([(stamp - datetime(stamp.year, 1, 1)) / timedelta(days=365.25) for stamp in stamps])
    for name, turn, tolerance in (("hour", of_day, 1e-6), ("year", since_new_year, 2 * math.pi / 365)):
        torch.testing.assert_close(column(data, f"{name}_sin"), (2 * math.pi * turn).sin(), rtol=0, atol=tolerance)
        torch.testing.assert_close(column(data, f"{name}_cos"), (2 * math.pi * turn).cos(), rtol=0, atol=tolerance)


def test_every_feature_is_documented(data):
    documented = re.findall(r"^    ``(\w+)``", beijing_pm25.__doc__, flags=re.MULTILINE)
    assert documented == list(data.feature_names)


# ---------------------------------------------------------------------------------------------- the labels


def test_default_event_rate(data):
    assert int(data.mask.sum()) == 41_757
    assert data.targets[data.mask].mean().item() == pytest.approx(0.073, abs=5e-4)


@pytest.mark.parametrize(("event", "horizon", "skip"), [(250.0, 6, 0), (450.0, 1, 24), (35.0, 48, 100)])
def test_label_is_the_level_so_many_hours_later(event, horizon, skip):
    part = beijing_pm25(event=event, horizon=horizon, skip=skip)
    pm25 = beijing._record()["pm2.5"].tolist()
    assert len(part) == HOURS - horizon - skip
    assert part.times[0] == skip
    for time, target, known in zip(part.times.tolist(), part.targets.tolist(), part.mask.tolist(), strict=True):
        later = pm25[time + horizon]
        assert known == (not math.isnan(later))
        assert target == (later > event) if known else math.isnan(target)


def test_event_is_strictly_above_the_level():
    highest = torch.nan_to_num(beijing._record()["pm2.5"]).max().item()
    assert beijing_pm25(event=highest).targets.nansum() == 0
    assert beijing_pm25(event=math.nextafter(highest, 0)).targets.nansum() > 0


def test_published_experiment():
    paper = beijing_pm25(event=450, horizon=1, missing="zero", skip=24)
    assert len(paper) == 43_799
    assert paper.mask.all()
    parts = paper.split(13_104, 4_320, purge=False)
    assert [len(part) for part in parts] == [13_104, 4_320, 26_375]
    assert [int(part.targets.sum()) for part in parts] == [107, 15, 148]


# ------------------------------------------------------------------------------------------ missing values


def test_carried_forward_value_and_its_age(data):
    pm25 = beijing._record()["pm2.5"].tolist()
    value, age = 0.0, 0
    seen = zip(column(data, "pm25").tolist(), column(data, "pm25_age").tolist(), strict=True)
    for now, (carried, carried_age) in zip(pm25, seen, strict=False):
        value, age = (value, age + 1) if math.isnan(now) else (now, 0)
        assert (carried, carried_age) == (value, age)


def test_zero_for_missing_changes_only_the_missing(data):
    zero = beijing_pm25(missing="zero")
    missing = column(data, "pm25_measured") == 0
    assert (column(zero, "pm25")[missing] == 0).all()
    assert torch.equal(zero.features[~missing], data.features[~missing])
    assert torch.equal(zero.features[:, 1:], data.features[:, 1:])
    assert torch.equal(zero.targets, data.targets.nan_to_num(0.0))
    assert zero.mask.all()


def test_known_keeps_rows_with_labels_and_their_times(data):
    known = data.known()
    assert known.mask.all()
    assert torch.equal(known.times, data.times[data.mask])
    assert torch.equal(known.targets, data.targets[data.mask])
    assert torch.equal(known.features, data.features[data.mask])


# --------------------------------------------------------------------------------------------- no look-ahead


@pytest.mark.parametrize("missing", ["unknown", "zero"])
@pytest.mark.parametrize("now", [1, 23, 24, 25, 10_000, HOURS - 1])
def test_features_do_not_see_what_comes_later(missing, now):
    record = beijing._record()
    whole = beijing._features(record, missing)
    past_only = beijing._features({name: values[:now] for name, values in record.items()}, missing)
    assert torch.equal(whole[:now], past_only)


def test_features_depend_on_neither_event_nor_horizon(data):
    other = beijing_pm25(event=100, horizon=24)
    assert torch.equal(other.features, data.features[: len(other)])


# -------------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("horizon", [1, 6, 48])
@pytest.mark.parametrize("sizes", [(0.5,), (0.6, 0.2), (20_000, 5_000, 5_000)])
def test_labels_of_a_part_are_measured_before_the_next_begins(horizon, sizes):
    parts = beijing_pm25(horizon=horizon).split(*sizes)
    assert len(parts) == len(sizes) + 1
    for earlier, later in pairwise(parts):
        assert earlier.times[-1] + horizon < later.times[0]
        # No more is lost than has to be.
        assert earlier.times[-1] + horizon + 1 == later.times[0]


def test_purging_counts_hours_not_rows(data):
    known = data.known()
    for earlier, later in pairwise(known.split(0.3, 0.3, 0.2)):
        assert earlier.times[-1] + data.horizon < later.times[0]
    # Where the next part begins after a long gap, no label reaches it and nothing is lost.
    border = int((known.times.diff() > data.horizon).nonzero()[0]) + 1
    before, _ = known.split(border)
    assert len(before) == border


def test_parts_without_purging_make_the_whole(data):
    parts = data.split(0.6, 0.2, purge=False)
    for name in ("features", "targets", "mask", "times"):
        torch.testing.assert_close(
            torch.cat([getattr(part, name) for part in parts]), getattr(data, name), rtol=0, atol=0, equal_nan=True
        )
    assert [len(part) / len(data) for part in parts] == pytest.approx([0.6, 0.2, 0.2], abs=1e-4)


def test_parts_can_be_split_again(data):
    whole, test = data.split(0.8)
    train, validation = whole.split(0.75)
    assert train.times[-1] + data.horizon < validation.times[0]
    assert validation.times[-1] + data.horizon < test.times[0]


def test_standardizing_uses_the_first_part_only(data):
    raw = data.split(0.6, 0.2)
    scaled = data.split(0.6, 0.2, standardize=True)
    mean = raw[0].features.double().mean(0)
    deviation = raw[0].features.double().std(0, correction=0)
    for before, after in zip(raw, scaled, strict=True):
        expected = (before.features.double() - mean) / deviation
        torch.testing.assert_close(after.features.double(), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(after.targets, before.targets, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(after.times, before.times)


def test_standardizing_a_constant_feature_gives_zero(data):
    # Nothing was measured on the first day.
    first, rest = data.split(24, standardize=True)
    assert (column(first, "pm25_measured") == 0).all()
    assert rest.features.isfinite().all()
    assert set(column(rest, "pm25_measured").tolist()) == {0.0, 1.0}


# -------------------------------------------------------------------------------------- attribution, object


def test_attribution_ships_with_the_data(data):
    text = data.attribution
    for needed in (
        "Chen, S.",
        "UCI",
        "10.24432/C5JS49",
        "Liang",
        "Proceedings of the Royal Society A",
        "CC BY 4.0",
    ):
        assert needed in text
    assert "creativecommons.org/licenses/by/4.0" in text
    assert "Changes made" in text


def test_data_file_is_small():
    assert len(resources.files("scorewise.datasets").joinpath("beijing_pm25.csv.gz").read_bytes()) < 500_000


def test_is_frozen_and_survives_pickling(data):
    with pytest.raises(FrozenInstanceError):
        data.horizon = 3
    copy = pickle.loads(pickle.dumps(data))  # noqa: S301 - our own bytes
    assert torch.equal(copy.features, data.features)


def test_repr_is_one_line_of_facts(data):
    assert repr(data) == (
        "<BeijingPM25 2010-01-01 00:00:00 to 2014-12-31 17:00:00: 43818 hours, "
        "3053 with PM2.5 > 250 µg/m³ 6 h later, 2061 unknown>"
    )
    assert "0 hours" in repr(data._rows(slice(0, 0)))


def test_calls_do_not_share_memory():
    first = beijing_pm25()
    first.features.zero_()
    assert beijing_pm25().features.any()


def test_default_dtype_does_not_change_the_data(data):
    torch.set_default_dtype(torch.float64)
    try:
        again = datasets.beijing_pm25()
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(again.features, data.features)
    assert again.targets.dtype == torch.float32


# -------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"event": "250"}, TypeError, "event must be a number, saw '250'"),
        ({"event": True}, TypeError, "event must be a number, saw True"),
        ({"event": math.nan}, ValueError, "event must be a finite level of PM2.5, 0 or more, saw nan"),
        ({"event": math.inf}, ValueError, "saw inf"),
        ({"event": -1}, ValueError, "saw -1"),
        ({"horizon": 6.0}, TypeError, "horizon must be an int, saw 6.0"),
        ({"horizon": True}, TypeError, "horizon must be an int, saw True"),
        ({"horizon": 0}, ValueError, "horizon must be from 1 to 43823 hours, saw 0"),
        ({"horizon": HOURS}, ValueError, "saw 43824"),
        ({"skip": "24"}, TypeError, "skip must be an int, saw '24'"),
        ({"skip": -1}, ValueError, "skip must be from 0 to 43817 hours, saw -1"),
        ({"skip": 43_818}, ValueError, "saw 43818"),
        ({"missing": "mean"}, ValueError, 'missing must be "unknown" or "zero", saw \'mean\''),
        ({"missing": None}, ValueError, "saw None"),
    ],
)
def test_arguments_out_of_range(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        beijing_pm25(**arguments)


def test_extreme_arguments_within_range():
    assert len(beijing_pm25(horizon=HOURS - 1)) == 1
    assert len(beijing_pm25(skip=43_817)) == 1


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((), ValueError, "at least one size"),
        (("0.5",), TypeError, "a size must be a number, saw '0.5'"),
        ((True,), TypeError, "a size must be a number, saw True"),
        ((0.5, 100), TypeError, "all floats (fractions) or all ints (rows), saw (0.5, 100)"),
        ((0.8, 0.2), ValueError, "together below 1.0, saw (0.8, 0.2)"),
        ((-0.1,), ValueError, "above 0"),
        ((math.nan,), ValueError, "saw (nan,)"),
        ((0,), ValueError, "above 0"),
        ((43_818,), ValueError, "together below 43818, saw (43818,)"),
        (
            (6,),
            ValueError,
            "part 0 of the split is empty: rows 0 to 6, less those whose labels reach 6 hours ahead",
        ),
        ((0.5, 1e-9), ValueError, "part 1 of the split is empty"),
    ],
)
def test_sizes_out_of_range(data, sizes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        data.split(*sizes)
