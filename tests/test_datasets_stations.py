import math
from collections import Counter
from datetime import datetime, timedelta

import pytest
import torch

import scorewise as sw
from scorewise.datasets import Stations, stations

VALUE = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)


@pytest.fixture(scope="module")
def data() -> Stations:
    return stations(4, hours=3000)


def of(part: Stations, name: str) -> torch.Tensor:
    return torch.tensor([one == name for one in part.groups])


def probabilities(part: Stations) -> torch.Tensor:
    return torch.sigmoid(4 * (part.features[:, 0] - part.features[:, 0].mean()) / part.features[:, 0].std() - 4)


def test_shapes_and_order(data):
    n = len(data)
    assert data.features.shape == (n, len(data.feature_names))
    assert data.features.isfinite().all()
    assert data.targets.shape == data.mask.shape == data.times.shape == (n,) == (len(data.groups),)
    assert data.features.dtype == data.targets.dtype == torch.float32
    assert data.times.dtype == torch.int64
    assert set(data.targets[data.mask].tolist()) == {0.0, 1.0}
    assert data.targets[~data.mask].isnan().all()
    assert list(zip(data.times.tolist(), data.groups, strict=True)) == sorted(
        set(zip(data.times.tolist(), data.groups, strict=True))
    )


def test_stations_begin_at_their_own_time_and_pause(data):
    starts = {}
    for name in sorted(set(data.groups)):
        times = data.times[of(data, name)]
        gaps = times.diff()
        starts[name] = int(times[0])
        assert (gaps >= 1).all()
        assert int((gaps == 2).sum()) > 10  # hours that are missing one by one
        assert int(gaps.max()) > 12  # an outage
        assert times[-1] >= 3000 - 3 - 1 - int(gaps.max())
    assert len(set(starts.values())) == 4
    assert min(starts.values()) < 5
    assert max(starts.values()) < 0.2 * 3000 + 200


def test_labels_are_unknown_where_the_gauge_did_not_work_later(data):
    rows = set(zip(data.groups, data.times.tolist(), strict=True))
    last = int(data.times.max())
    for name, time, known in zip(data.groups, data.times.tolist(), data.mask.tolist(), strict=True):
        if time + data.horizon <= last:  # later there are labels, but no rows
            assert known == ((name, time + data.horizon) in rows)
    assert 0 < int((~data.mask).sum()) < 0.2 * len(data)


def test_a_label_is_what_the_level_was_later(data):
    level = dict(zip(zip(data.groups, data.times.tolist(), strict=True), data.features[:, 0].tolist(), strict=True))
    for name in set(data.groups):
        later = {0.0: [], 1.0: []}
        for group, time, target in zip(data.groups, data.times.tolist(), data.targets.tolist(), strict=True):
            if group == name and not math.isnan(target) and (name, time + data.horizon) in level:
                later[target].append(level[name, time + data.horizon])
        stage = max(later[0.0])
        # measured with an error: a few on the wrong side
        assert sum(one < stage for one in later[1.0]) < 0.2 * len(later[1.0])
        assert sorted(later[1.0])[len(later[1.0]) // 2] > stage


def test_features_know_how_old_they_are(data):
    for name in set(data.groups):
        rows = of(data, name)
        level, rise, rain, wetness, age = data.features[rows].T
        times = data.times[rows]
        assert age[0] == rise[0] == 0
        assert torch.equal(age[1:].long(), times.diff())
        torch.testing.assert_close(rise[1:], level.diff() / times.diff(), rtol=1e-4, atol=1e-6)
        next_hour = age[1:] == 1
        # what is forgotten after ten days is exp(-8) of an hour's rain, and that is part of some wetness
        left = (wetness[1:] - rain[1:] - math.exp(-1 / 30) * wetness[:-1])[next_hour]
        assert left.abs().max() < 2 * math.exp(-8) * wetness.max()


def test_rate_of_events():
    made = stations(8, hours=6000, rate=0.1, seed=3)
    # of all hours exactly so many are above the stage; those at which gauges work are most of them
    assert float(made.targets[made.mask].mean()) == pytest.approx(0.1, abs=0.02)


def test_timestamps(data):
    stamps = data.timestamps()
    assert stamps[0] == datetime(2020, 1, 1) + timedelta(hours=int(data.times[0]))
    lags = sw.series.lags(stamps, timedelta(hours=1), groups=data.groups)
    assert torch.equal(lags, data.times - data.times[0])


# ------------------------------------------------------------------------------------------------ in the package


def test_matrices_add_up_station_by_station(data):
    p = probabilities(data)
    together = sw.confusion_matrix(p, data.targets, 0.5, VALUE, groups=data.groups, times=data.times, mask=data.mask)
    apart = [
        sw.confusion_matrix(p[rows], data.targets[rows], 0.5, VALUE, times=data.times[rows], mask=data.mask[rows])
        for rows in (of(data, name) for name in sorted(set(data.groups)))
    ]
    for cell in ("tn", "fp", "fn", "tp"):
        # float64 sums of thousands of terms below 2
        assert float(getattr(together, cell)) == pytest.approx(sum(float(getattr(m, cell)) for m in apart), rel=1e-9)
    assert float(together.fp) > 0
    assert float(together.fn) > 0


def test_no_window_crosses_a_gap(data):
    """A matrix is that of the stretches between the gaps, each for itself, if gaps are longer than the window."""
    p = (probabilities(data) > 0.5).double()
    together = sw.confusion_matrix(p, data.targets, 0.5, VALUE, groups=data.groups, times=data.times, mask=data.mask)
    pieces = []
    for name in sorted(set(data.groups)):
        rows = of(data, name).nonzero().flatten()
        cuts = (data.times[rows].diff() > VALUE.reach).nonzero().flatten() + 1
        assert len(cuts) > 0
        for piece in torch.tensor_split(rows, cuts):
            mask, times = data.mask[piece], data.times[piece]
            pieces.append(sw.confusion_matrix(p[piece], data.targets[piece], 0.5, VALUE, times=times, mask=mask))
    for cell in ("tn", "fp", "fn", "tp"):
        assert float(getattr(together, cell)) == pytest.approx(sum(float(getattr(m, cell)) for m in pieces), rel=1e-9)
    # without times the rows on both sides of a gap would be neighbours
    blind = sw.confusion_matrix(p, data.targets, 0.5, VALUE, groups=data.groups, mask=data.mask)
    assert float(blind.fp) != pytest.approx(float(together.fp), rel=1e-6)


def test_losses_and_curves_take_it(data):
    logits = data.features[:, 0].clone().requires_grad_()
    loss = sw.ScoreLoss("tss", weight=VALUE)
    loss(logits, data.targets, groups=data.groups, times=data.times, mask=data.mask).backward()
    assert logits.grad.isfinite().all()
    assert logits.grad.abs().max() > 0
    around = {"groups": data.groups, "times": data.times, "mask": data.mask}
    threshold, best = sw.score_curve(probabilities(data), data.targets, "tss", VALUE, **around).best()
    matrix = sw.confusion_matrix(probabilities(data), data.targets, threshold, VALUE, **around)
    assert float(sw.scores.tss(matrix)) == pytest.approx(best)
    assert best > 0.4  # something can be foreseen


# --------------------------------------------------------------------------------------------------------- parts


def test_split_cuts_all_stations_at_the_same_moment(data):
    train, validation, test = data.split(0.6, 0.2)
    for before, after in ((train, validation), (validation, test)):
        assert int(before.times[-1]) + data.horizon < int(after.times[0])
        assert set(before.groups) == set(after.groups)
    kept = len(train) + len(validation) + len(test)
    left_out = sum(
        int(train.times[-1]) < time < int(validation.times[0]) or int(validation.times[-1]) < time < int(test.times[0])
        for time in data.times.tolist()
    )
    assert kept + left_out == len(data)
    assert left_out <= 2 * data.horizon * 4
    assert len(train) == pytest.approx(0.6 * len(data), abs=4 * (data.horizon + 1))


def test_split_without_purge_keeps_every_row(data):
    parts = data.split(0.5, purge=False)
    assert sum(map(len, parts)) == len(data)
    assert torch.equal(torch.cat([part.times for part in parts]), data.times)
    assert parts[0].groups + parts[1].groups == data.groups


def test_split_standardizes_by_the_first_part(data):
    plain, scaled = data.split(0.5), data.split(0.5, standardize=True)
    torch.testing.assert_close(scaled[0].features.mean(0), torch.zeros(5), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled[0].features.std(0, correction=0), torch.ones(5), atol=1e-4, rtol=0)
    mean, deviation = plain[0].features.mean(0), plain[0].features.std(0, correction=0)
    torch.testing.assert_close(scaled[1].features, (plain[1].features - mean) / deviation, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("sizes", "error"),
    [((), ValueError), ((0.5, 0.5), ValueError), ((-0.1,), ValueError), ((100,), TypeError), (("a",), TypeError)],
)
def test_splits_that_cannot_be(data, sizes, error):
    with pytest.raises(error, match="sizes must be"):
        data.split(*sizes)


def test_a_part_without_rows_is_refused(data):
    with pytest.raises(ValueError, match="part 0 of the split is empty"):
        data.split(0.0001)


def test_known_rows(data):
    known = data.known()
    assert len(known) == int(data.mask.sum()) == len(known.groups)
    assert known.mask.all()
    assert Counter(known.groups) == Counter(g for g, kept in zip(data.groups, data.mask.tolist(), strict=True) if kept)


def test_the_seed_decides():
    first, again, other = (stations(2, hours=300, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.features, again.features)
    assert first.groups == again.groups
    assert first.features.shape != other.features.shape or not torch.equal(first.features, other.features)
    before = torch.get_rng_state()
    stations(1, hours=100)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"number": 0}, ValueError, "number must be at least 1"),
        ({"number": 1.0}, TypeError, "number must be an int"),
        ({"hours": 99}, ValueError, "hours must be at least 100"),
        ({"horizon": 0}, ValueError, "horizon must be at least 1"),
        ({"hours": 100, "horizon": 80}, ValueError, "horizon must be below 80"),
        ({"rate": 0}, ValueError, "rate must be between 0 and 1"),
        ({"seed": "a"}, TypeError, "seed must be an int"),
    ],
)
def test_arguments_that_cannot_be(arguments, error, message):
    with pytest.raises(error, match=message):
        stations(**arguments)
