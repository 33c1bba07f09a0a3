"""Batches that come one after the other: matrices on a grid of thresholds, and how far the best may be from there."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import scorewise as sw
from scorewise.curves import InfeasibleError
from scorewise.evaluation import StreamingEvaluation, evaluate
from tests.curve_oracles import CURVED, PLAIN, REFUSED, values_for
from tests.evaluation_oracles import LOOKING, SCORES, VALUE, Record, four, plain, stations
from tests.weight_oracles import OMEGA, Series, WeightCase, random_series, value

each_weight = pytest.mark.parametrize("kind", CURVED, ids=repr)
each_looking = pytest.mark.parametrize("kind", LOOKING, ids=repr)
each_form = pytest.mark.parametrize(
    ("dtype", "from_logits"),
    [(torch.float64, False), (torch.float32, True)],
    ids=["float64", "float32 logits"],
)
# Sums of up to some hundreds of numbers of at most 100, in another order.
CLOSE = 1e-9
NAN = math.nan


def cut(record, sizes):
    """A record in batches of so many samples; the last has all that are left."""
    start, n = 0, len(record)
    for size in [*sizes, n]:
        stop = min(n, start + size)
        context = {
            name: values[start:stop]
            for name, values in record.context.items()
            if name not in {"from_logits", "costs"}  # the former is said once
        }
        yield record.x[start:stop], record.y[start:stop], context
        start = stop


def streamed(record, weight=None, sizes=(), **options):
    stream = StreamingEvaluation(["m"], weight=weight, from_logits=record.context["from_logits"], **options)
    for x, y, context in cut(record, sizes):
        stream.update({"m": x}, y, **context)
    return stream.result()


def own(model):
    return model.plain if model.weighted is None else model.weighted


def own_curve(curve):
    return (curve.plain, curve.plain_scores) if curve.weighted is None else (curve.weighted, curve.weighted_scores)


def assert_same(one, other):
    """Two evaluations, but for roundings."""
    for name in ("score", "weight", "rows", "unknown", "series", "timed"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.events == pytest.approx(other.events)
    for mine, theirs in zip(one.models, other.models, strict=True):
        assert (mine.name, mine.threshold, mine.chosen) == (theirs.name, theirs.threshold, theirs.chosen)
        for side in ("plain", "weighted"):
            here, there = getattr(mine, side), getattr(theirs, side)
            assert (here is None) == (there is None)
            if here is not None:
                assert here.cells == pytest.approx(there.cells, rel=0, abs=CLOSE)
                assert here.scores == pytest.approx(there.scores, abs=CLOSE)
        assert mine.curve.thresholds == theirs.curve.thresholds
        for here, there in zip(own_curve(mine.curve)[0], own_curve(theirs.curve)[0], strict=True):
            assert here == pytest.approx(there, rel=0, abs=CLOSE)
        assert mine.curve.bound == pytest.approx(theirs.curve.bound, abs=CLOSE)
        assert len(mine.reliability) == len(theirs.reliability)
        for here, there in zip(mine.reliability, theirs.reliability, strict=True):
            assert (here.predicted, here.observed, here.rows) == pytest.approx(
                (there.predicted, there.observed, there.rows)
            )


# ------------------------------------------------------------------------------------------------------- batches


@each_weight
def test_batches_are_one_batch(kind):
    record, weight = Record(stations(0, 40)), kind.make()
    whole = streamed(record, weight, bins=16)
    for sizes in ([1] * 40, [0, 0, 20, 0, 1, 9], [3] * 13):
        assert_same(streamed(record, weight, sizes, bins=16), whole)
    judged = evaluate({"m": record.x}, record.y, weight=weight, draws=0, **record.context)
    for name in ("rows", "unknown", "series", "timed"):
        assert getattr(whole, name) == getattr(judged, name)
    assert whole.events == pytest.approx(judged.events)
    assert (whole.differences, whole.resampling) == ((), None)
    model = whole.models[0]
    assert (model.expected, model.threshold_interval, model.optimism) == (None, None, None)
    assert (model.parts, model.stretches) == ({}, ())


@each_weight
@each_form
def test_matrices_are_exact_at_every_border(kind, dtype, from_logits):
    for series in (stations(1, 60), plain(stations(2, 60, ties=True))):
        record, weight = Record(series, dtype, from_logits), kind.make()
        model = streamed(record, weight, [17, 1, 0, 20], bins=8, score="gss").models[0]
        curve = model.curve
        assert curve.thresholds == (-1, *(k / 8 for k in range(9)))
        assert curve.of == 10
        for k, tau in enumerate(curve.thresholds):
            assert curve.plain[k] == pytest.approx(record.matrix(PLAIN.oracle, tau), rel=0, abs=CLOSE)
            assert own_curve(curve)[0][k] == pytest.approx(record.matrix(kind.oracle, tau), rel=0, abs=CLOSE)
            assert own_curve(curve)[0][k] == pytest.approx(four(record.package(tau, weight)), rel=0, abs=CLOSE)
        for side in ("plain", "weighted") if weight is not None else ("plain",):
            columns = torch.tensor(getattr(curve, side), dtype=torch.float64).unbind(1)
            for name, values in getattr(curve, f"{side}_scores").items():
                there = sw.scores.get(name)(sw.ConfusionMatrix(*columns)).tolist()
                assert values == pytest.approx(there, abs=1e-12)
        assert model.chosen
        place = curve.thresholds.index(model.threshold)
        assert own_curve(curve)[1]["gss"][place] == pytest.approx(max(own_curve(curve)[1]["gss"]), abs=1e-12)
        assert own(model).cells == own_curve(curve)[0][place]


@each_weight
@each_form
def test_a_threshold_that_is_given_is_exact(kind, dtype, from_logits):
    for series, tau in ((stations(3, 60), 0.37), (stations(4, 60, ties=True), 0.5), (stations(5, 30), -3.0)):
        record, weight = Record(series, dtype, from_logits), kind.make()
        model = streamed(record, weight, [5, 20], bins=4, threshold=tau).models[0]
        assert (model.threshold, model.chosen) == (tau, False)
        assert model.plain.cells == pytest.approx(record.matrix(PLAIN.oracle, tau), rel=0, abs=CLOSE)
        assert own(model).cells == pytest.approx(record.matrix(kind.oracle, tau), rel=0, abs=CLOSE)
        thresholds = model.curve.thresholds
        assert list(thresholds) == sorted({tau, -1, 0, 0.25, 0.5, 0.75, 1})
        for k, at in enumerate(thresholds):
            assert own_curve(model.curve)[0][k] == pytest.approx(record.matrix(kind.oracle, at), rel=0, abs=CLOSE)


def test_a_prediction_equal_to_a_threshold_is_no_alarm():
    """0.1 in float32 is a little more than 0.1, and not more than the threshold 0.1 as float32 has it."""
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([0.1, 0.25, 0.25, 0.75, 1.0], dtype=dtype)
        for tau, alarms in ((0.1, 4), (0.25, 2), (0.75, 1), (1.0, 0)):
            stream = StreamingEvaluation(["m"], threshold=tau, bins=4)
            stream.update({"m": x}, [1] * 5)
            assert stream.result().models[0].plain.cells == (0, 0, 5 - alarms, alarms)


@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
def test_a_weight_that_is_nan_where_nothing_counts_spoils_nothing(weight):
    stream = StreamingEvaluation(["m"], weight=weight, threshold=0.5)
    stream.update({"m": [0.2, 0.6, 0.7]}, [0, 1, 1], mask=[True, False, True], sample_weight=[1.0, NAN, 2.0])
    found = stream.result()
    assert (found.rows, found.unknown, found.events) == (2, 1, 2)
    assert found.models[0].plain.cells == (1, 0, 0, 2)
    assert [one.rows for one in found.models[0].reliability] == [1, 1]


def test_an_empty_batch_changes_no_dtype():
    """An empty list has no dtype of its own; what is held stays float32, and equal to a threshold of 0.1."""
    stream = StreamingEvaluation(["m"], weight=VALUE, threshold=0.1)
    stream.update({"m": torch.tensor([0.1, 0.1])}, [1, 0])
    stream.update({"m": []}, [])
    stream.update({"m": torch.tensor([0.1, 0.9])}, [0, 1])
    assert stream.result().models[0].plain.cells == (2, 0, 1, 1)


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_compared_as_float32(dtype, from_logits):
    """A border as 0.30078125 lies between two numbers of half precision, and would be rounded to one of them."""
    record = Record(stations(7, 300), dtype, from_logits)
    model = streamed(record, VALUE, [100], bins=1 << 9).models[0]
    for k, tau in enumerate(model.curve.thresholds):
        if k % 16 == 5:
            there = sw.confusion_matrix(record.x.float(), record.y, tau, VALUE, **record.context)
            assert model.curve.weighted[k] == pytest.approx(four(there), rel=0, abs=CLOSE)


@each_weight
@settings(max_examples=8)
@given(data=st.data())
def test_random_series_and_cuts(kind, data):
    series = replace(data.draw(random_series(values=values_for(kind))), costs=None)
    assume(any(series.counted(i) for i in range(len(series))))
    record, weight = Record(series), kind.make()
    sizes = data.draw(st.lists(st.integers(0, 4), max_size=8))
    bins = data.draw(st.sampled_from([2, 4, 16]))
    model = streamed(record, weight, sizes, bins=bins).models[0]
    for k, tau in enumerate(model.curve.thresholds):
        assert model.curve.plain[k] == pytest.approx(record.matrix(PLAIN.oracle, tau), rel=0, abs=CLOSE)
        assert own_curve(model.curve)[0][k] == pytest.approx(record.matrix(kind.oracle, tau), rel=0, abs=CLOSE)
    assert_bound(record, weight, model)


@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
def test_of_many_bins_some_are_listed(weight):
    record = Record(stations(6, 3000))
    model = streamed(record, weight, [1000, 1000]).models[0]
    assert model.curve.of == (1 << 16) + 2
    assert 300 < len(model.curve.thresholds) < 1200
    assert list(model.curve.thresholds) == sorted(set(model.curve.thresholds))
    assert {model.threshold, 0.5, -1.0} <= set(model.curve.thresholds)
    for k in range(0, len(model.curve.thresholds), 60):
        tau = model.curve.thresholds[k]
        assert (tau * (1 << 16)).is_integer()
        assert own_curve(model.curve)[0][k] == pytest.approx(four(record.package(tau, weight)), rel=0, abs=CLOSE)
    assert_bound(record, weight, model)


# --------------------------------------------------------------------------------------------------------- bounds


def assert_bound(record, weight, model, names=SCORES):
    """That no threshold is better by more than the bound; how much of the bounds there was need of."""
    scores, used = own_curve(model.curve)[1], 0.0
    for name, curve in record.curve(names, weight).items():
        sign = 1 if curve.score.greater_is_better else -1
        best = max(sign * v for v in scores[curve.score.name])
        lost = max(sign * v for v in curve.values.tolist()) - best
        bound = model.curve.bound[curve.score.name]
        assert bound >= 0
        assert lost <= bound + 1e-12, name
        used = max(used, lost)
    return used


@each_weight
@pytest.mark.parametrize("bins", [2, 4, 64])
def test_the_best_is_not_better_than_the_bound(kind, bins):
    lost = 0.0
    for seed in range(3):
        record, weight = Record(stations(10 + seed, 60, ties=seed == 2)), kind.make()
        model = streamed(record, weight, [20, 50], bins=bins).models[0]
        assert sorted(model.curve.bound) == sorted(SCORES)
        lost = max(lost, assert_bound(record, weight, model))
    assert bins > 8 or lost > 0.001  # so coarse that something is lost


def test_the_bound_gets_small():
    record = Record(stations(14, 300))
    bounds = [streamed(record, VALUE, bins=bins).models[0].curve.bound for bins in (4, 64, 1024, 1 << 18)]
    for name in SCORES:
        sizes = [bound[name] for bound in bounds]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] > 0.05 or name in {"recall", "specificity"}  # of which the best is 1, anywhere
        assert sizes[3] == 0  # one prediction in each bin at most


@each_weight
def test_nothing_is_lost_where_the_predictions_of_a_bin_are_equal(kind):
    record, weight = Record(stations(15, ties=True)), kind.make()
    model = streamed(record, weight, [33], bins=16).models[0]
    assert set(model.curve.bound.values()) == {0.0}
    assert assert_bound(record, weight, model) <= 1e-12


def only_if_alone(z):
    """An alarm one step before is worth much, unless there was another before it: less for more."""
    return 0.9 * z[..., 0] * (1 - 0.8 * z[..., 1])


BACK_AND_FORTH = WeightCase(
    "value-back-and-forth",
    lambda: sw.weights.Value([0.5, 0.5], only_if_alone),
    value(lambda near: 0.9 * near[0] * (1 - 0.8 * near[1]), 2),
    reads_windows=True,
)


@pytest.mark.parametrize("seed", range(6))
def test_misses_whose_cost_goes_up_and_down(seed):
    """With such a weight FN falls as a threshold rises over some predictions."""
    kind = BACK_AND_FORTH
    numbers = np.random.default_rng(seed)
    series = Series(numbers.random(40).tolist(), (numbers.random(40) < 0.7).astype(float).tolist())
    record, weight = Record(series), kind.make()
    assert bool((record.curve("tss", weight).matrix.fn.diff() < -0.1).any())
    model = streamed(record, weight, [7, 20], bins=2).models[0]
    for k, tau in enumerate(model.curve.thresholds):
        assert model.curve.weighted[k] == pytest.approx(record.matrix(kind.oracle, tau), rel=0, abs=CLOSE)
    assert_bound(record, weight, model)


def test_a_dip_within_a_bin_is_in_the_bound():
    """Two alarms before a missed event, the earlier of which spoils the credit of the other: 0.18 of it is left.

    As a threshold rises from 0.5 to 1 the earlier alarm goes first: then a false alarm costs 0.1, and the miss 0.1.
    """
    record, weight = Record(Series([0.6, 0.7, 0.2], [0, 0, 1])), BACK_AND_FORTH.make()
    model = streamed(record, weight, bins=2, score="cost").models[0]
    assert model.curve.thresholds == (-1, 0, 0.5, 1)
    assert model.curve.weighted_scores["cost"] == pytest.approx((-1.1, -1.1, -1.1 - 0.82, -1))
    assert max(record.curve("cost", weight).values.tolist()) == pytest.approx(-0.2)
    assert model.curve.bound["cost"] >= 0.8 - 1e-12
    assert_bound(record, weight, model)


@pytest.mark.parametrize("bins", [2, 8])
@pytest.mark.parametrize(
    "score",
    [
        0.7 * sw.scores.tss + 0.3 * sw.scores.hss,
        0.5 * sw.scores.sedi + 0.5 * sw.scores.npv + 2,
        -sw.scores.error_rate,
        -2 * sw.scores.hss,
        sw.scores.fbeta(3),
        sw.scores.cost(1, 7, tn=0.25, tp=0.5),
    ],
    ids=str,
)
def test_bounds_of_scores_that_are_made(score, bins):
    for seed in range(3):
        record = Record(stations(20 + seed, 40))
        model = streamed(record, None, [20], bins=bins, score=score).models[0]
        assert math.isfinite(model.curve.bound[score.name])
        assert_bound(record, None, model, [score])


def test_of_a_function_that_nobody_knows_only_the_range_is_known():
    """It is best for three false alarms, which no border has."""
    x = [k / 64 for k in range(33)]
    for ends in ((-math.inf, 0.0), (-math.inf, 5.0), (-math.inf, math.inf)):
        three = sw.scores.Score("three", lambda tn, fp, fn, tp: -((fp - 3) ** 2), range=ends)
        stream = StreamingEvaluation(["m"], score=three, bins=2)
        stream.update({"m": x}, [0] * 33)
        model = stream.result().models[0]
        assert max(model.curve.plain_scores["three"]) == -9
        assert model.curve.bound["three"] == ends[1] + 9


# ------------------------------------------------------------------------------------------------ series and times


@each_looking
@pytest.mark.parametrize("timed", [True, False], ids=["times", "places"])
def test_windows_reach_over_batches(kind, timed):
    """Event and alarm in different batches, three interleaving series; without times, places go on."""
    series = stations(30) if timed else replace(stations(30), times=None)
    record, weight = Record(series), kind.make()
    for size in (1, 7):
        model = streamed(record, weight, [size] * (90 // size), bins=8, threshold=0.5).models[0]
        assert model.weighted.cells == pytest.approx(record.matrix(kind.oracle, 0.5), rel=0, abs=CLOSE)


def test_groups_are_known_by_their_names():
    """In whatever order and of whatever kind they come, and with new ones among them."""
    record = Record(stations(31))
    whole = streamed(record, VALUE, bins=8)
    stream = StreamingEvaluation(["m"], weight=VALUE, bins=8)
    for k, (x, y, context) in enumerate(cut(record, [7, 7, 7, 20, 20])):
        names = context.pop("groups")
        stream.update({"m": x}, y, groups=np.array(names) if k % 2 else names, **context)
    assert_same(stream.result(), whole)
    numbered = Record(replace(record.series, groups=["xyz".index(name) for name in record.series.groups]))
    stream = StreamingEvaluation(["m"], weight=VALUE, bins=8)
    for k, (x, y, context) in enumerate(cut(numbered, [7, 7, 7, 20, 20])):
        groups = context.pop("groups")
        stream.update({"m": x}, y, groups=groups.tolist() if k % 2 else groups, **context)
    assert_same(stream.result(), whole)


@each_weight
def test_any_order_will_do_for_weights_that_do_not_look_around(kind):
    record, weight = Record(stations(32)), kind.make()
    backwards = list(range(89, -1, -1))
    turned = Record(record.series.picked(backwards))
    if kind.reads_windows:
        with pytest.raises(ValueError, match="times must increase within a group"):
            streamed(turned, weight, [30, 30])
    else:
        assert_same(streamed(turned, weight, [30, 30], bins=8), streamed(record, weight, bins=8))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([[0, 1], [1, 2]], "the sample at index 0 of the group 'a' has the time 1, and 1 was before"),
        ([[0, 9], [10, 11], [12, 3]], "times must increase within a group, but 1 of its steps do not"),
        ([[50, 60], [55, 70]], "the sample at index 0 of the group 'a' has the time 55, and 60 was before"),
        ([[50, 60], [], [3, 4]], "also from batch to batch"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_rows_out_of_order_are_refused(batches, message, named):
    stream = StreamingEvaluation(["m"], weight=VALUE)

    def add(times):
        groups = {"groups": ["a"] * len(times)} if named else {}
        stream.update({"m": [0.5] * len(times)}, [1] * len(times), times=torch.tensor(times).long(), **groups)

    for times in batches[:-1]:
        add(times)
    with pytest.raises(ValueError) as seen:  # noqa: PT011  # the message is looked at below
        add(batches[-1])
    assert (message if named else message.replace(" of the group 'a'", "")) in str(seen.value)
    assert "Sort each series by time" in str(seen.value)


def test_another_series_may_be_behind():
    stream = StreamingEvaluation(["m"], weight=VALUE)
    stream.update({"m": [0.5]}, [1], groups=["a"], times=[100])
    stream.update({"m": [0.5]}, [1], groups=["b"], times=[3])
    assert stream.result().rows == 2


def test_what_is_held_does_not_grow():
    """At most 2 T + 1 times of each series, however many batches there are."""
    numbers = np.random.default_rng(33)
    reach, series = 3, 4
    stream = StreamingEvaluation(["m"], weight=VALUE, bins=16)
    for batch in range(60):
        n = 50
        groups = numbers.integers(0, series, n)
        stream.update(
            {"m": numbers.random(n)}, numbers.integers(0, 2, n), groups=groups, times=batch * n + np.arange(n)
        )
        held = stream._held
        assert {len(column) for column in held.values()} == {len(held["y"])}
        assert len(held["y"]) <= series * (2 * reach + 1)
        waiting = ~held["done"]
        assert int(waiting.sum()) <= series * reach
    assert stream.result().rows == 3000
    assert stream._held is None


def test_nothing_is_held_without_need():
    stream = StreamingEvaluation(["m"], weight=sw.weights.ClassFrequency())
    stream.update({"m": [0.5, 0.2]}, [1, 0], groups=["a", "b"], times=[1, 1])
    assert stream._held is None
    assert (stream.result().series, stream.result().timed) == (2, True)


# ----------------------------------------------------------------------------------------------------- reliability


@each_form
def test_reliability(dtype, from_logits):
    series = stations(34, 600)
    record = Record(series, dtype, from_logits)
    bins = streamed(record, VALUE, [100] * 5, bins=1 << 12).models[0].reliability
    counted = [i for i in range(600) if series.counted(i)]
    assert 10 <= len(bins) <= 15
    assert sum(one.rows for one in bins) == len(counted)
    assert sum(one.predicted * one.rows for one in bins) == pytest.approx(
        sum(record.series.predictions[i] for i in counted), rel=1e-6
    )
    assert sum(one.observed * one.rows for one in bins) == pytest.approx(sum(series.targets[i] for i in counted))
    assert [one.predicted for one in bins] == sorted(one.predicted for one in bins)
    ordered = sorted((record.series.predictions[i], series.targets[i]) for i in counted)
    start = 0
    for one in bins:
        some = ordered[start : start + one.rows]
        assert one.predicted == pytest.approx(np.mean([p for p, _ in some]), rel=1e-5)
        assert one.observed == pytest.approx(np.mean([y for _, y in some]), abs=1e-12)
        assert one.interval[0] <= one.observed <= one.interval[1]
        assert abs(one.rows - len(counted) / 15) <= 5
        start += one.rows


def test_reliability_of_classes():
    stream = StreamingEvaluation(["m"])
    stream.update({"m": [0, 1, 1, 0, 1]}, [0, 1, 0, 0, 1])
    found = stream.result().models[0].reliability
    assert [(one.predicted, one.observed, one.rows) for one in found] == [(0, 0, 2), (1, 2 / 3, 3)]


# ---------------------------------------------------------------------------------------------------------- models


def test_several_models():
    record = Record(stations(35))
    other = (record.x * 0.8 + 0.1).clamp(0, 1)
    both = StreamingEvaluation(["one", "other"], weight=VALUE, bins=8, score="csi")
    alone = {name: StreamingEvaluation([name], weight=VALUE, bins=8, score="csi") for name in ("one", "other")}
    start = 0
    for x, y, context in cut(record, [30, 30]):
        some = other[start : start + len(x)]
        start += len(x)
        both.update({"other": some, "one": x}, y, **context)
        alone["one"].update({"one": x}, y, **context)
        alone["other"].update({"other": some}, y, **context)
    found = both.result()
    assert [model.name for model in found.models] == ["one", "other"]
    for model in found.models:
        assert model == alone[model.name].result().models[0]


def test_what_other_scores_must_reach():
    record = Record(stations(36))
    free = streamed(record, VALUE, bins=32).models[0]
    asked = {"recall": (free.weighted.scores["recall"] + 1) / 2}
    kept = streamed(record, VALUE, [30], bins=32, at_least=asked).models[0]
    scores = kept.curve.weighted_scores
    good = [k for k, v in enumerate(scores["recall"]) if v >= asked["recall"]]
    assert kept.weighted.scores["recall"] >= asked["recall"]
    assert kept.weighted.scores["tss"] == pytest.approx(max(scores["tss"][k] for k in good), abs=1e-12)
    assert kept.weighted.scores["tss"] < free.weighted.scores["tss"]
    with pytest.raises(InfeasibleError, match="model 'm': at_least: no threshold has precision of at least 1"):
        streamed(Record(Series([0.2, 0.6], [1, 0])), at_least={"precision": 1.0}, bins=8)


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"models": []}, ValueError, "models must be one or more different names, saw []."),
        ({"models": ["a", "a"]}, ValueError, "models must be one or more different names, saw ['a', 'a']."),
        ({"bins": 100}, ValueError, "bins must be a power of 2, from 2 to 2^24, saw 100."),
        ({"bins": 1}, ValueError, "bins must be a power of 2"),
        ({"bins": 64.0}, ValueError, "bins must be a power of 2, from 2 to 2^24, saw 64.0."),
        ({"threshold": NAN}, ValueError, "threshold must be a number, saw nan."),
        ({"threshold": "half"}, ValueError, "threshold must be a number, saw 'half'."),
        ({"threshold": 0.5, "at_least": {"f1": 0.5}}, ValueError, "at_least is for a threshold that is chosen here"),
        ({"at_least": {"f7": 0.5}}, ValueError, "there is no score 'f7'"),
        ({"score": "bogus"}, ValueError, "there is no score 'bogus'."),
        ({"weight": "value"}, TypeError, "a weight must be an object of scorewise.weights"),
        ({"prior": "uniform"}, TypeError, "a prior must be"),
    ],
    ids=str,
)
def test_what_is_refused_at_once(arguments, error, message):
    with pytest.raises(error) as seen:
        StreamingEvaluation(**({"models": ["m"]} | arguments))
    assert message in str(seen.value)


@pytest.mark.parametrize("kind", REFUSED, ids=repr)
def test_weights_that_see_the_threshold_itself_are_refused(kind):
    with pytest.raises(ValueError, match="there is no list of thresholds"):
        StreamingEvaluation(["m"], weight=kind.make())


X, Y = [0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]
BAD = {
    "whose": ({"predictions": {"k": X}}, ValueError, "predictions must be a dict of the models ['m'], saw ['k']."),
    "no dict": ({"predictions": X}, ValueError, "predictions must be a dict of the models ['m'], saw list."),
    "short": (
        {"predictions": {"m": X[:3]}},
        ValueError,
        "model 'm': predictions must have one value for each of the 4",
    ),
    "percent": ({"predictions": {"m": [2, 4, 6, 8]}}, ValueError, "model 'm': predictions must be probabilities"),
    "unknown": ({"predictions": {"m": [NAN, *X[1:]]}}, ValueError, "model 'm': predictions must be probabilities"),
    "words": ({"predictions": {"m": list("abcd")}}, TypeError, "model 'm': predictions must be a tensor or an array"),
    "dtype": (
        {"predictions": {"m": torch.tensor(X)}},
        TypeError,
        "model 'm': predictions must have the same dtype in all batches, in which they are compared; saw torch.float64",
    ),
    "labels": ({"targets": [0, 1, 2, 1]}, ValueError, "targets must be 0 or 1, but 1 of 4 are not"),
    "soft": ({"targets": [0, 1, 0.5, 1]}, ValueError, "targets must be 0 or 1, but 1 of 4 are not"),
    "unlabelled": ({"targets": [0, 1, NAN, 1]}, ValueError, "the first, at index 2, is nan"),
    "mask": ({"mask": [True]}, ValueError, "mask must have one value for each of the 4 samples"),
    "0/1 mask": ({"mask": [1, 1, 0, 1]}, TypeError, "mask must be boolean"),
    "weights": (
        {"mask": [True] * 4, "sample_weight": [1, 1]},
        ValueError,
        "sample_weight must have one value for each",
    ),
    "below 0": ({"sample_weight": [1, -2, 1, 1]}, ValueError, "sample_weight must be finite and at least 0"),
    "groups": ({"groups": ["a"]}, ValueError, "groups must have one value for each of the 4 samples"),
    "no groups": (
        {"groups": None},
        ValueError,
        "groups must be passed with all batches or with none; now they are missing.",
    ),
    "new times": (
        {"times": range(4, 8)},
        ValueError,
        "times must be passed with all batches or with none; now they are new.",
    ),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
def test_a_batch_that_is_refused_changes_nothing(what, weight):
    """Whoever goes on without it gets what there would be without it."""
    arguments, error, message = BAD[what]
    good = {"predictions": {"m": X}, "targets": Y, "groups": list("abab")}
    stream, without = (StreamingEvaluation(["m"], weight=weight, bins=8) for _ in range(2))
    for one in (stream, without):
        one.update(**good)
    bad = good | arguments
    with pytest.raises(error) as seen:
        stream.update(bad.pop("predictions"), bad.pop("targets"), **bad)
    assert message in str(seen.value)
    assert "\n" not in str(seen.value)
    for one in (stream, without):
        one.update(**(good | {"groups": list("bcbc")}))
    assert_same(stream.result(), without.result())


def test_nothing_to_evaluate():
    with pytest.raises(ValueError, match=r"^there are no samples to evaluate\.$"):
        StreamingEvaluation(["m"]).result()
    stream = StreamingEvaluation(["m"], weight=VALUE)
    stream.update({"m": []}, [])
    stream.update({"m": [NAN, 0.5]}, [1, NAN], mask=[False, False])
    with pytest.raises(ValueError, match=r"^there are no samples to evaluate: none of 2 counts\.$"):
        stream.result()


def test_after_the_result_it_is_over():
    stream = StreamingEvaluation(["m"], weight=sw.weights.Value(OMEGA))
    stream.update({"m": X}, Y)
    first = stream.result()
    with pytest.raises(ValueError, match="the result was asked for already, after which no batch can be added"):
        stream.update({"m": X}, Y)
    assert_same(stream.result(), first)
