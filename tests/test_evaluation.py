"""Predictions that are judged: everything told of them against loops over samples, thresholds and resamples."""

import functools
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import scorewise as sw
from scorewise.curves import InfeasibleError
from scorewise.curves.bootstrap import units
from scorewise.evaluation import evaluate
from scorewise.evaluation.parts import _each_part
from scorewise.evaluation.reliability import reliability, wilson
from scorewise.evaluation.rows import Rows, in_all, named, summed
from tests.curve_oracles import CURVED, PLAIN, REFUSED, values_for
from tests.evaluation_oracles import LOOKING, SCORES, VALUE, WORTH, Record, four, numbers_of, plain, stations
from tests.weight_oracles import OMEGA, UNORDERED, Series, random_series

each_weight = pytest.mark.parametrize("kind", CURVED, ids=repr)
each_looking = pytest.mark.parametrize("kind", LOOKING, ids=repr)
each_form = pytest.mark.parametrize(
    ("dtype", "from_logits"),
    [(torch.float64, False), (torch.float32, False), (torch.float32, True)],
    ids=["float64", "float32", "float32 logits"],
)
# Sums of up to some thousands of numbers of at most 100, in another order: 1e-12 or so.
CLOSE = 1e-9
NAN = math.nan


def judge(record, weight=None, **options):
    """One model, evaluated; without resamples unless they are asked for."""
    return evaluate({"m": record.x}, record.y, weight=weight, **({"draws": 0} | record.context | options))


def rows_of(record):
    kept = {name: record.context.get(name) for name in ("groups", "times", "mask", "sample_weight", "from_logits")}
    return Rows.of(record.y, **kept)


def own(model):
    """Matrix and scores with the weight, if there is one."""
    return model.plain if model.weighted is None else model.weighted


# ---------------------------------------------------------------------------------------------- at the threshold


@each_weight
@each_form
def test_the_matrix_is_counted_right(kind, dtype, from_logits):
    weight = kind.make()
    cases = [
        (stations(0), None),
        (stations(1, ties=True), 0.37),
        (plain(stations(2)), {"m": 0.61}),
        (stations(3), -1.0),
    ]
    for series, threshold in cases:
        record = Record(series, dtype, from_logits)
        model = judge(record, weight, score="hss", threshold=threshold).models[0]
        assert model.chosen == (threshold is None)
        tau = threshold["m"] if isinstance(threshold, dict) else threshold
        if tau is None:
            tau = sw.best_threshold(record.x, record.y, "hss", weight, **record.context)
        assert model.threshold == tau
        assert (model.threshold_interval, model.optimism) == (None, None)
        assert model.plain.cells == pytest.approx(record.matrix(PLAIN.oracle, tau), rel=0, abs=CLOSE)
        assert model.plain.cells == pytest.approx(four(record.package(tau)), rel=0, abs=CLOSE)
        assert (model.weighted is None) == (kind is PLAIN)
        assert own(model).cells == pytest.approx(record.matrix(kind.oracle, tau), rel=0, abs=CLOSE)
        assert own(model).cells == pytest.approx(four(record.package(tau, weight)), rel=0, abs=CLOSE)
        for judged in (model.plain, own(model)):
            assert sorted(judged.scores) == sorted(SCORES)
            assert next(iter(judged.scores)) == "hss"
            assert judged.intervals == {}
            for name, value in judged.scores.items():
                assert value == pytest.approx(numbers_of(sw.scores.get(name), judged.cells), abs=1e-12), name


@each_weight
@pytest.mark.parametrize("score", ["csi", "error_rate", 0.7 * sw.scores.tss + 0.3 * sw.scores.f1], ids=str)
def test_the_threshold_is_the_best_and_keeps_what_is_asked_for(kind, score):
    record, weight = Record(stations(3, 40)), kind.make()
    found = judge(record, weight, score=score)
    model, main = found.models[0], sw.scores.get(score)
    sign = 1 if main.greater_is_better else -1
    tried = [-1.0, *(p for p in record.series.predictions if p == p)]
    values = [sign * numbers_of(main, record.matrix(kind.oracle, tau)) for tau in tried]
    assert sign * own(model).scores[main.name] == pytest.approx(max(values), abs=1e-12)
    assert (found.score, found.weight) == (main, weight)

    # more than the best has of one of them, and it can be had: at the lowest threshold, or at the highest
    there = own(model).scores
    name = "recall" if there["recall"] < 1 else "specificity"
    asked = {name: (there[name] + 1) / 2, "f1": 0.0}
    kept = judge(record, weight, score=score, at_least=asked).models[0]
    assert kept.threshold == sw.best_threshold(record.x, record.y, main, weight, at_least=asked, **record.context)
    good = [
        value
        for tau, value in zip(tried, values, strict=True)
        if all(numbers_of(sw.scores.get(n), record.matrix(kind.oracle, tau)) >= v - 1e-12 for n, v in asked.items())
    ]
    assert max(good) < max(values)
    assert sign * own(kept).scores[main.name] == pytest.approx(max(good), abs=1e-12)
    assert all(own(kept).scores[name] >= least - 1e-12 for name, least in asked.items())


@each_weight
def test_models_are_judged_one_by_one(kind):
    one, other = Record(stations(4)), Record(stations(5))
    weight, x = kind.make(), torch.where(one.x.isnan(), torch.nan, other.x.nan_to_num(0.5))
    many = {"one": one.x, "other": x, "again": one.x}
    both = evaluate(many, one.y, weight=weight, threshold={"other": 0.3, "again": None}, draws=0, **one.context)
    assert [model.name for model in both.models] == ["one", "other", "again"]
    assert [model.chosen for model in both.models] == [True, False, True]
    for model, predictions in zip(both.models, many.values(), strict=True):
        given_one = 0.3 if model.name == "other" else None
        alone = evaluate({model.name: predictions}, one.y, weight=weight, threshold=given_one, draws=0, **one.context)
        assert alone.models == (model,)
    assert both.differences == ()
    assert both.resampling is None


def test_what_there_is():
    series = stations(6)
    record = Record(series)
    found = judge(record, VALUE, score="f1", prior=sw.priors.Beta(2, 5))
    counted = [i for i in range(len(series)) if series.counted(i)]
    assert found.rows == len(counted)
    assert found.unknown == len(series) - len(counted)
    assert found.events == pytest.approx(sum(series.sample_weight[i] for i in counted if series.targets[i] == 1))
    assert (found.series, found.timed, found.main) == (3, True, "wf1")
    assert isinstance(found.prior, sw.priors.Beta)
    assert found.models[0].expected == pytest.approx(float(record.curve("f1", VALUE).expected(sw.priors.Beta(2, 5))))
    alone = judge(Record(plain(series)))
    assert (alone.series, alone.timed, alone.main, alone.unknown) == (1, False, "tss", 0)
    assert alone.models[0].stretches == ()
    assert judge(Record(plain(series)), VALUE).timed
    times = np.arange(len(plain(series)))
    assert judge(Record(plain(series)), times=times).timed


def test_a_weight_that_is_nan_where_nothing_counts_spoils_nothing():
    record = Record(Series([0.2, 0.6, 0.7], [0, 1, 1]))
    found = judge(record, mask=[True, False, True], sample_weight=[1.0, NAN, 2.0], threshold=0.5)
    assert found.events == 2
    assert found.models[0].plain.cells == (1, 0, 0, 2)


def test_right_decisions_that_cost_have_one_score_only():
    """Other scores than the weight's own would not see what right decisions cost."""
    cost = sw.weights.Cost(fp=1, fn=5, tp=0.5)
    model = judge(Record(plain(stations(7))), cost, score=cost.score).models[0]
    assert list(model.weighted.scores) == [cost.score.name]
    assert len(model.plain.scores) == len(SCORES) + 1
    assert model.weighted.scores[cost.score.name] == pytest.approx(
        -(model.weighted.cells[1] + model.weighted.cells[2] + 0.5 * model.weighted.cells[3])
    )


def test_the_score_that_matters_wins_over_another_of_its_name():
    mine = sw.scores.Score("f1", lambda tn, fp, fn, tp: tp - 2 * fp)
    record = Record(Series([0.1, 0.4, 0.6, 0.8], [0, 1, 0, 1]))
    model = judge(record, score=mine).models[0]
    assert model.plain.scores["f1"] == 1
    assert max(model.curve.plain_scores["f1"]) == 1
    assert model.threshold == pytest.approx(0.7)


# ------------------------------------------------------------------------------------------- what each sample adds


@each_weight
@each_form
@pytest.mark.parametrize("tau", [-1.0, 0.4])
def test_each_sample_adds_what_the_weight_says(kind, dtype, from_logits, tau):
    weight = kind.make()
    for series in (stations(8), plain(stations(9, ties=True))):
        record = Record(series, dtype, from_logits)
        rows = rows_of(record)
        without, with_it = rows.each(record.x, tau, None), rows.each(record.x, tau, weight)
        assert without.shape == (len(series), 4)
        assert torch.equal(without, torch.tensor(record.each(PLAIN.oracle, tau), dtype=torch.float64))
        there = torch.tensor(record.each(kind.oracle, tau), dtype=torch.float64)
        assert torch.allclose(in_all(without, with_it, weight), there, rtol=0, atol=1e-12)
        cells = [float(cell) for cell in summed(without.sum(0), with_it.sum(0), weight)]
        assert cells == pytest.approx(four(record.package(tau, weight)), rel=0, abs=CLOSE)


# ---------------------------------------------------------------------------------------------------- the curve


def assert_curve(record, kind, model, thresholds=None):
    """Cells and scores at listed thresholds, all of them unless some are named."""
    curve, weight = model.curve, kind.make()
    assert list(curve.thresholds) == sorted(set(curve.thresholds))
    assert model.threshold in curve.thresholds
    assert 0.5 in curve.thresholds
    assert curve.bound is None
    assert (curve.weighted is None) == (curve.weighted_scores is None) == (weight is None)
    sides = [(curve.plain, curve.plain_scores, None)]
    sides += [] if weight is None else [(curve.weighted, curve.weighted_scores, weight)]
    for cells, scores, one in sides:
        assert len(cells) == len(curve.thresholds)
        assert sorted(scores) == sorted({sw.scores.tss.name, *SCORES})
        for k in range(len(cells)) if thresholds is None else thresholds:
            at = four(record.package(curve.thresholds[k], one))
            assert cells[k] == pytest.approx(at, rel=0, abs=CLOSE)
        for name, values in scores.items():
            columns = torch.tensor(cells, dtype=torch.float64).unbind(1)
            assert values == pytest.approx(sw.scores.get(name)(sw.ConfusionMatrix(*columns)).tolist(), abs=1e-12)


def assert_best_is_listed(record, kind, model):
    """The best of every score over all thresholds, without the weight and with it."""
    sides = [(model.curve.plain_scores, None), (model.curve.weighted_scores, kind.make())]
    for scores, weight in sides[: 1 if kind is PLAIN else 2]:
        for name, every in record.curve(SCORES, weight).items():
            best = max if sw.scores.get(name).greater_is_better else min
            assert best(scores[name]) == pytest.approx(best(every.values.tolist()), abs=1e-12), name


@each_weight
@each_form
def test_all_thresholds_of_a_few_samples(kind, dtype, from_logits):
    for series in (stations(10, 35), stations(11, 60, ties=True)):
        record = Record(series, dtype, from_logits)
        model = judge(record, kind.make()).models[0]
        assert_curve(record, kind, model)
        assert_best_is_listed(record, kind, model)
        changes = [record.curve("tss", weight).thresholds.tolist() for weight in (None, kind.make())]
        every = {tau for some in changes for tau in some}
        assert every <= set(model.curve.thresholds)
        assert model.curve.of == len(every)


@functools.cache
def many():
    return Record(stations(12, 24_000))


@each_weight
def test_some_thresholds_of_many_samples(kind):
    """So many that not all are listed, with groups, gaps, masks and weights."""
    record = many()
    model = judge(record, kind.make(), score="mcc").models[0]
    assert model.curve.of > 10_000
    assert 900 < len(model.curve.thresholds) < 1200
    some = [0, 1, *range(2, len(model.curve.thresholds), 197), len(model.curve.thresholds) - 1]
    assert_curve(record, kind, model, some)
    assert_best_is_listed(record, kind, model)
    # where events are rare there are thresholds all the same
    for axis in (model.curve.thresholds, [cells[2] for cells in model.curve.plain]):
        assert np.diff(axis).max() < 0.02 * (axis[-1] - axis[0])


def test_rare_events_and_predictions_that_crowd_are_seen():
    numbers = np.random.default_rng(13)
    n = 30_000
    y = np.arange(n) % 300 == 0
    x = np.where(y, numbers.random(n), numbers.random(n) ** 8)
    record = Record(Series(x.tolist(), y.astype(float).tolist()))
    model = judge(record, score="csi").models[0]
    assert_curve(record, PLAIN, model, range(0, len(model.curve.thresholds), 50))
    assert_best_is_listed(record, PLAIN, model)
    recalls = np.diff(model.curve.plain_scores["recall"])
    assert np.abs(recalls).max() <= 1 / 100 + 1e-12  # one event after the other


@each_weight
@pytest.mark.parametrize(
    "predictions",
    [[0.5] * 6, [0.0] * 6, [1.0] * 6, [0, 1, 1, 0, 1, 0], [0.0, 0.25, 0.25, 1.0, 1.0, 0.25], [0.0, 1e-300, 1, 1, 1, 1]],
    ids=str,
)
def test_few_different_predictions(kind, predictions):
    record = Record(Series(predictions, [0, 1, 0, 1, 1, 0]))
    model = judge(record, kind.make()).models[0]
    assert_curve(record, kind, model)
    assert_best_is_listed(record, kind, model)
    assert model.curve.thresholds[0] == (-1 if 0 in predictions else 0)
    assert model.curve.plain[0] == (0, 3, 0, 3)
    assert model.curve.plain[-1] == (3, 0, 3, 0)


def test_classes_are_predictions():
    for classes in (np.array([False, True, True]), [0, 1, 1], torch.tensor([0, 1, 1])):
        assert evaluate({"m": classes}, [0, 1, 0], draws=0).models[0].plain.cells == (1, 1, 0, 1)


@each_weight
@settings(max_examples=8)
@given(data=st.data())
def test_random_series(kind, data):
    series = replace(data.draw(random_series(values=values_for(kind))), costs=None)
    assume(any(series.counted(i) for i in range(len(series))))
    record, weight = Record(series), kind.make()
    tau = data.draw(st.sampled_from([None, 0.3, 0.5]))
    model = judge(record, weight, threshold=tau, score="gss").models[0]
    assert own(model).cells == pytest.approx(record.matrix(kind.oracle, model.threshold), rel=0, abs=CLOSE)
    for k, at in enumerate(model.curve.thresholds):
        assert model.curve.plain[k] == pytest.approx(record.matrix(PLAIN.oracle, at), rel=0, abs=CLOSE)
        if weight is not None:
            assert model.curve.weighted[k] == pytest.approx(record.matrix(kind.oracle, at), rel=0, abs=CLOSE)
    assert_best_is_listed(record, kind, model)
    for stretch in model.stretches:
        assert_stretch(record, kind, model.threshold, stretch)
    assert_all_is_shown(model)


# ----------------------------------------------------------------------------------------------------- resamples


def in_resamples(record, weight, drawn_for, threshold, draws, seed):
    """The package's matrix of each resample: samples count as often as they are drawn."""
    draw, unit = units(rows_of(record).batch(record.x, drawn_for), drawn_for)
    g = torch.Generator().manual_seed(seed)
    counts = torch.tensor([record.series.counted(i) for i in range(len(record))], dtype=torch.float64)
    drawn = [counts * draw(g) for _ in range(draws)]
    found = [four(record.package(threshold, weight, sample_weight=some)) for some in drawn]
    return torch.tensor(found, dtype=torch.float64), unit


def scores_of(name, matrices):
    return sw.scores.get(name)(sw.ConfusionMatrix(*matrices.unbind(1))).numpy()


RESAMPLED = {
    "samples": (plain(stations(14)), "samples"),
    "blocks": (stations(15), "blocks of"),
    "series": (stations(16, names="abcdefghijkl"), "12 series"),
}


@each_weight
@pytest.mark.parametrize("what", RESAMPLED)
def test_intervals_are_of_resamples(kind, what):
    series, unit = RESAMPLED[what]
    record, weight, level, draws = Record(series), kind.make(), 0.8, 13
    numbers = np.random.default_rng(17)
    x = torch.where(record.x.isnan(), torch.nan, torch.from_numpy(numbers.random(len(record))))
    other = Record(replace(series, predictions=x.tolist()))
    found = evaluate(
        {"one": record.x, "other": x},
        record.y,
        weight=weight,
        threshold={"one": 0.4, "other": 0.55},
        draws=draws,
        level=level,
        seed=5,
        **record.context,
    )
    sides = [(1 - level) / 2, (1 + level) / 2]
    for weighted in (False, True)[: 1 if weight is None else 2]:
        both = []
        for model, who, tau in zip(found.models, (record, other), (0.4, 0.55), strict=True):
            matrices, said = in_resamples(who, weight if weighted else None, weight, tau, draws, 5)
            both.append(matrices)
            judged = model.weighted if weighted else model.plain
            assert sorted(judged.intervals) == sorted(SCORES)
            for name, interval in judged.intervals.items():
                there = np.quantile(scores_of(name, matrices), sides)
                assert interval == pytest.approx(tuple(there), rel=0, abs=CLOSE), name
        if what != "samples" or not kind.reads_windows:
            assert unit in said
        assert found.resampling == type(found.resampling)(draws, level, said, 5)
        told = {one.score: one for one in found.differences if one.weighted == weighted}
        assert sorted(told) == sorted(SCORES)
        for name, one in told.items():
            gain = scores_of(name, both[0]) - scores_of(name, both[1])
            gain[np.abs(gain) < 1e-12] = 0
            sign = 1 if sw.scores.get(name).greater_is_better else -1
            assert (one.model, one.other) == ("one", "other")
            assert one.interval == pytest.approx(tuple(np.quantile(gain, sides)), rel=0, abs=CLOSE), name
            assert one.share == pytest.approx(np.mean(sign * gain > 0) + np.mean(gain == 0) / 2), name
            values = [(model.weighted if weighted else model.plain).scores[name] for model in found.models]
            assert one.value == pytest.approx(values[0] - values[1], abs=1e-12)
    assert len(found.differences) == len(SCORES) * (1 if weight is None else 2)


def test_more_models_are_each_compared_with_the_first():
    record = Record(stations(18))
    x = {name: (record.x * factor).clamp(0, 1) for name, factor in (("a", 1.0), ("b", 0.5), ("c", 0.9))}
    found = evaluate(x, record.y, draws=10, threshold=0.45, **record.context)
    pairs = [(one.model, one.other) for one in found.differences]
    assert pairs == [("a", "b")] * len(SCORES) + [("a", "c")] * len(SCORES)
    # the error rate is the better the smaller: where the first has more errors, it is better in few resamples
    by_name = {(one.other, one.score): one for one in found.differences}
    for other in ("b", "c"):
        wrong, right = by_name[other, "error_rate"], by_name[other, "accuracy"]
        assert wrong.value == pytest.approx(-right.value, abs=1e-12)
        assert wrong.share == right.share  # ties are ties, whatever was rounded
        assert wrong.interval == pytest.approx(tuple(-end for end in reversed(right.interval)), abs=1e-12)


@each_weight
def test_a_model_does_not_differ_from_itself(kind):
    record = Record(stations(19, 500))
    found = evaluate(dict.fromkeys("abc", record.x), record.y, weight=kind.make(), draws=20, **record.context)
    assert len(found.differences) == 2 * len(SCORES) * (1 if kind is PLAIN else 2)
    assert {(one.value, one.interval, one.share) for one in found.differences} == {(0.0, (0.0, 0.0), 0.5)}


@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
def test_very_many_samples_are_added_up_in_parts(weight, monkeypatch):
    """As if more than 64 were very many. Equal models tie, whichever way their sums are rounded."""
    record = Record(stations(19, 500))
    arguments = {"weight": weight, "draws": 20, "threshold": 0.5} | record.context
    models = {"a": record.x, "b": (record.x * 0.9), "c": record.x}
    exact = evaluate(models, record.y, **arguments)
    monkeypatch.setattr("scorewise.evaluation.resampling._AT_ONCE", 64)
    found = evaluate(models, record.y, **arguments)
    for one, other in zip(found.models, exact.models, strict=True):
        assert own(one).cells == own(other).cells
        for name, interval in own(other).intervals.items():
            assert own(one).intervals[name] == pytest.approx(interval, rel=1e-12, abs=1e-12), name  # sums of 500
    assert {(one.interval, one.share) for one in found.differences if one.other == "c"} == {((0.0, 0.0), 0.5)}


@each_weight
@pytest.mark.parametrize("at_least", [None, {"recall": 0.3}], ids=str)
def test_the_choice_is_made_again(kind, at_least):
    record, weight = Record(stations(20)), kind.make()
    model = judge(record, weight, draws=40, seed=3, level=0.9, at_least=at_least).models[0]
    again = record.curve("tss", weight).bootstrap(40, seed=3, level=0.9, at_least=at_least)
    assert model.threshold_interval == again.threshold
    assert model.optimism == again.optimism
    low, high = model.threshold_interval
    assert low <= high


def test_what_was_given_is_not_chosen_again():
    record = Record(stations(20))
    model = judge(record, draws=10, threshold=0.4).models[0]
    assert (model.threshold_interval, model.optimism) == (None, None)
    assert model.plain.intervals


def test_what_no_resample_can_meet_leaves_the_rest_as_it_is():
    """A single event that must be found: with these seeds it is in neither of two resamples."""
    x, y = [0.9, *(0.01 * k for k in range(40))], [1, *[0] * 40]
    asked = {"at_least": {"precision": 1.0, "recall": 1.0}, "draws": 2}
    absent = 0
    for seed in range(40):
        curve = sw.score_curve(x, y, "tss")
        try:
            curve.bootstrap(2, at_least=asked["at_least"], seed=seed)
        except ValueError:
            absent += 1
            model = evaluate({"m": x}, y, seed=seed, **asked).models[0]
            assert (model.threshold_interval, model.optimism) == (None, None)
            assert model.plain.cells == (40, 0, 0, 1)
    assert absent


def test_blocks_are_as_long_as_one_says():
    record = Record(plain(stations(18)))
    draw, unit = units(rows_of(record).batch(record.x, None), None, 7)
    assert unit == "blocks of 7 samples"
    found = judge(record, draws=20, block=7, seed=3)
    assert found.resampling.unit == unit
    g = torch.Generator().manual_seed(3)
    tau = found.models[0].threshold
    drawn = [sw.confusion_matrix(record.x, record.y, tau, sample_weight=draw(g).double()) for _ in range(20)]
    values = [float(sw.scores.tss(matrix)) for matrix in drawn]
    there = tuple(np.quantile(values, [0.025, 0.975]))
    assert found.models[0].plain.intervals["tss"] == pytest.approx(there, rel=0, abs=CLOSE)
    curve = sw.score_curve(record.x, record.y, "tss")
    again = curve.bootstrap(20, block=7, seed=3)
    assert found.models[0].threshold_interval == again.threshold
    with pytest.raises(ValueError, match="block must be 'series' or a whole number from 1"):
        judge(record, draws=20, block=0)


def test_how_often_is_drawn_unless_someone_says():
    found = evaluate({"m": [0.2, 0.4, 0.6]}, [0, 1, 1])
    assert (found.resampling.draws, found.resampling.level, found.resampling.seed) == (1000, 0.95, 0)
    assert found == evaluate({"m": [0.2, 0.4, 0.6]}, [0, 1, 1])


def test_progress_is_told_and_changes_nothing():
    seen = []

    def progress(draws):
        seen.append(len(draws))
        return draws

    record = Record(stations(21))
    assert judge(record, draws=15, progress=progress) == judge(record, draws=15)
    assert seen == [15, 15]  # of the resamples, and of the choice of a threshold


# --------------------------------------------------------------------------------------------------------- parts


@each_weight
@pytest.mark.parametrize("series", [stations(22), plain(stations(24))], ids=["stations", "plain"])
def test_parts_are_judged_as_if_nothing_else_counted(kind, series):
    """Whether a column keeps series together or cuts through them: what is around is seen all the same."""
    record, weight, n = Record(series), kind.make(), len(series)
    columns = {
        "station": series.groups or ["all"] * n,
        "third": [k % 3 for k in range(n)],
        "half": ["early" if k < n // 2 else "late" for k in range(n)],
    }
    found = judge(record, weight, by=columns)
    model = found.models[0]
    assert list(model.parts) == list(columns)
    known = [series.counted(i) > 0 for i in range(n)]
    for name, values in columns.items():
        parts = model.parts[name]
        assert [part.name for part in parts] == sorted({str(value) for value in values})
        for part in parts:
            mine = [str(value) == part.name for value in values]
            some = torch.tensor(mine) & record.context.get("mask", torch.ones(n, dtype=torch.bool))
            assert part.rows == sum(a and b for a, b in zip(mine, known, strict=True))
            alone = judge(record, weight, mask=some, threshold=model.threshold)
            assert part.events == pytest.approx(alone.events)
            assert_same_judgement(part.plain, alone.models[0].plain)
            assert (part.weighted is None) == (weight is None)
            assert_same_judgement(own(part), own(alone.models[0]))
            best = judge(record, weight, mask=some).models[0]
            assert part.threshold == best.threshold
            assert part.value == pytest.approx(own(best).scores["tss"], abs=1e-12)
        for side in ("plain",) if kind.reads_batch or weight is None else ("plain", "weighted"):
            sums = np.sum([getattr(part, side).cells for part in parts], 0)
            assert sums == pytest.approx(getattr(model, side).cells, rel=0, abs=CLOSE)
        assert sum(part.rows for part in parts) == found.rows
        assert sum(part.events for part in parts) == pytest.approx(found.events)


@each_looking
@pytest.mark.parametrize("timed", [True, False], ids=["times", "places"])
def test_what_is_seen_from_a_part_is_there(kind, timed):
    """Few rows, far apart and at both ends: at every threshold their matrix is as if all others were there."""
    series = stations(25, 120) if timed else replace(stations(25, 120), times=None)
    record, weight = Record(series), kind.make()
    rows = rows_of(record)
    for chosen in ([0, 119], range(0, 120, 9), range(4, 120, 17), range(50, 70)):
        places = torch.ones(120, dtype=torch.int64)
        places[list(chosen)] = 0
        for k, (some, part) in enumerate(_each_part(rows, places, 2, weight)):
            curve = sw.score_curve(record.x[some], part.targets, "tss", weight, **part.context)
            alone = record.curve("tss", weight, mask=(places == k) & record.context["mask"])
            assert curve.thresholds.tolist() == alone.thresholds.tolist()
            assert curve.values.tolist() == pytest.approx(alone.values.tolist(), abs=1e-12)
        assert len(some) <= 120


def test_of_others_only_those_in_sight_are_looked_at():
    rows = Rows.of(torch.zeros(1000), groups=None, times=None, mask=None, sample_weight=None, from_logits=False)
    places = torch.zeros(1000, dtype=torch.int64)
    places[[0, 500, 503, 999]] = 1
    (_, _), (some, part) = _each_part(rows, places, 2, VALUE)
    assert some.tolist() == [0, 1, 2, 3, *range(497, 507), 996, 997, 998, 999]
    assert part.times.tolist() == some.tolist()
    assert some[part.mask].tolist() == [0, 500, 503, 999]


def assert_same_judgement(one, other):
    assert one.cells == pytest.approx(other.cells, rel=0, abs=CLOSE)
    assert one.scores == pytest.approx(other.scores, abs=1e-9)


@pytest.mark.parametrize("weight", [None, VALUE], ids=str)
def test_parts_without_a_threshold_of_their_own(weight):
    """Of one class, or with a demand that they cannot meet."""
    x, y = [0.2, 0.3, 0.7, 0.8, 0.4, 0.6], [0, 0, 1, 1, 1, 0]
    model = evaluate({"m": x}, y, weight=weight, by={"c": list("aabbcc")}, draws=0, at_least={"precision": 0.7}).models[
        0
    ]
    assert [(part.threshold, part.value) for part in model.parts["c"]] == [(None, None)] * 3
    assert [part.events for part in model.parts["c"]] == [0, 2, 1]
    free = evaluate({"m": x}, y, weight=weight, by={"c": list("aabbcc")}, draws=0).models[0]
    assert [part.threshold is None for part in free.parts["c"]] == [True, True, False]


def test_a_part_in_which_nothing_counts():
    model = evaluate({"m": [0.2, 0.7, NAN]}, [0, 1, NAN], mask=[True, True, False], by={"c": "aab"}, draws=0).models[0]
    (first, second) = model.parts["c"]
    assert (first.rows, second.rows, second.events, second.threshold) == (2, 0, 0, None)
    assert second.plain.cells == (0, 0, 0, 0)


def test_the_values_of_a_column_come_in_their_order():
    texts = ["10", "nan", "9", "b", "-1", "nan", "a", "2.5", "None", "inf", "1e1"]
    names, places = named(texts)
    assert names == ["-1", "2.5", "9", "10", "1e1", "inf", "None", "a", "b", "nan"]
    assert [names[k] for k in places.tolist()] == texts
    assert named([3, 10, None, 2.5])[0] == ["2.5", "3", "10", "None"]


def test_a_column_of_too_many_values_is_refused():
    n = 2001
    x = np.linspace(0, 1, n)
    with pytest.raises(
        ValueError, match=r"the column 'id' has 2,001 different values, too many to judge each: 2,000\."
    ):
        evaluate({"m": x}, x > 0.5, by={"id": range(n)}, draws=0)


# -------------------------------------------------------------------------------------------------------- time


def credit(kind, lags):
    """Of neighbours at some lags, those whose absence alone would make the error cost more, one by one."""
    g = WORTH[kind.name]

    def worth(some):
        return g([float(lag in some) for lag in (1, 2, 3)])

    if not worth(lags):
        return []
    needed = [lag for lag in lags if worth([other for other in lags if other != lag]) < worth(lags)]
    enough = [lag for lag in lags if worth([lag]) >= worth(lags)]
    return needed or enough[:1] or lags


def assert_reason(record, kind, alarms, i, stretch, k, stamp):
    """That the reason names those who earned credit, or says that nobody did, and what the error costs."""
    reason, cost = stretch.reasons[k], stretch.costs[k]
    missed = stretch.outcomes[k] == "fn"
    assert reason.startswith("Missed event" if missed else "False alarm")
    told = re.search(r": costs (\S+)\.$", reason)
    assert float(told[1]) == pytest.approx(cost, rel=1e-5)
    if kind.name not in WORTH:
        assert reason.count("(") == 0
        return
    group, time = record.series.places[i]
    who = {place: j for j, place in enumerate(record.series.places)}
    there = {}
    for lag in (-3, -2, -1, 1, 2, 3):
        j = who.get((group, time - lag if missed else time + lag))
        if j is not None and (alarms[j] if missed else record.series.targets[j] == 1):
            there[lag] = stamp(j)
    earned = credit(kind, sorted(lag for lag in there if lag > 0))
    named_there = re.findall(r"(\d+) steps? (\w+) \(([^)]*)\)", reason)
    side = "earlier" if missed else "later"
    if earned:
        assert named_there == [(str(lag), side, there[lag]) for lag in earned]
        assert "earns nothing" not in reason
        assert "no " not in reason
    elif there:
        assert "earns nothing" in reason
        ((lag, when, name),) = named_there
        lag = int(lag) if when == side else -int(lag)
        assert there[lag] == name
        assert abs(lag) == min(map(abs, there))
    else:
        assert f"no {'alarm' if missed else 'event'} within 3 steps of it" in reason


def assert_stretch(record, kind, tau, stretch, stamp=None):
    """Everything that a stretch tells, by a loop over its samples."""
    series = record.series
    name_of = stamp or (lambda j: str(series.places[j][1]))
    mine = [i for i in range(len(series)) if series.groups is None or str(series.groups[i]) == stretch.series]
    places = [name_of(i) for i in mine]
    start = places.index(stretch.times[0])
    some = mine[start : start + len(stretch.times)]
    assert stretch.times == tuple(name_of(i) for i in some)
    assert stretch.steps == tuple(series.places[i][1] - series.places[some[0]][1] for i in some)
    alarms, each = record.alarms(tau), record.each(kind.oracle, tau)
    for k, i in enumerate(some):
        p = series.predictions[i]
        assert stretch.predictions[k] == (None if math.isnan(p) else pytest.approx(p, abs=1e-6))
        outcome = "unknown"
        if series.counted(i):
            outcome = ("tp" if alarms[i] else "fn") if series.targets[i] else ("fp" if alarms[i] else "tn")
        assert stretch.outcomes[k] == outcome
        assert stretch.costs[k] == pytest.approx(each[i][1] + each[i][2], abs=1e-12)
        if outcome in {"fp", "fn"}:
            assert_reason(record, kind, alarms, i, stretch, k, name_of)
        else:
            assert (stretch.costs[k], stretch.reasons[k]) == (0, "")
    assert stretch.cost == pytest.approx(sum(stretch.costs))


def assert_all_is_shown(model):
    if model.stretches and len(model.stretches) < 8:
        assert sum(one.cost for one in model.stretches) == pytest.approx(sum(own(model).cells[1:3]), rel=0, abs=CLOSE)
    costs = [one.cost for one in model.stretches]
    assert costs == sorted(costs, reverse=True)


@each_weight
@each_form
def test_the_timeline_tells_the_truth(kind, dtype, from_logits):
    for series in (stations(25), replace(stations(26, ties=True), times=None)):
        record = Record(series, dtype, from_logits)
        stamps = [f"{group} at {time}" for group, time in record.series.places]
        model = judge(record, kind.make(), threshold=0.45, stamps=stamps).models[0]
        assert sorted(one.series for one in model.stretches) == ["x", "y", "z"]
        for stretch in model.stretches:
            assert_stretch(record, kind, 0.45, stretch, stamps.__getitem__)
        assert sum(len(one.times) for one in model.stretches) == len(series)
        assert_all_is_shown(model)


@each_looking
def test_one_series_without_names_or_times(kind):
    record = Record(plain(stations(28)))
    (stretch,) = judge(record, kind.make(), threshold=0.5).models[0].stretches
    assert stretch.series == ""
    assert stretch.times == tuple(map(str, range(len(record))))
    assert stretch.steps == tuple(range(len(record)))
    assert_stretch(record, kind, 0.5, stretch)


def test_places_are_those_in_the_series():
    model = evaluate({"m": [0.9] * 5}, [0] * 5, groups=list("abaab"), threshold=0.5, draws=0).models[0]
    assert {one.series: one.times for one in model.stretches} == {"a": ("0", "1", "2"), "b": ("0", "1")}
    assert {one.series: one.steps for one in model.stretches} == {"a": (0, 1, 2), "b": (0, 1)}


def test_reasons_by_hand():
    """Times 0 to 12, an event at 4, alarms at 1, 3, 6 and 12; later a missed event at 9."""
    events, alarms = torch.zeros(13), torch.zeros(13)
    events[[4, 9]], alarms[[1, 3, 6, 12]] = 1, 1
    weight = sw.weights.Value([0.5, 0.25], isolated=2)
    stamps = [f"{hour}:00" for hour in range(13)]
    (stretch,) = (
        evaluate({"m": alarms}, events, weight=weight, threshold=0.5, stamps=stamps, draws=0).models[0].stretches
    )
    told = {k: reason for k, reason in enumerate(stretch.reasons) if reason}
    assert told == {
        1: "False alarm, no event within 2 steps of it: costs 2.",
        3: "False alarm, but an event 1 step later (4:00): costs 0.5.",
        4: "Missed event, but an alarm 1 step earlier (3:00): costs 0.5.",
        6: "False alarm; an event 2 steps earlier (4:00) earns nothing: costs 1.",
        9: "Missed event, no alarm within 2 steps of it: costs 2.",
        12: "False alarm, no event within 2 steps of it: costs 2.",
    }
    early = evaluate({"m": alarms}, torch.ones(13), weight=weight, threshold=0.5, draws=0).models[0].stretches[0]
    assert early.reasons[5] == "Missed event, but an alarm 2 steps earlier (3): costs 0.75."
    assert early.reasons[2] == "Missed event, but an alarm 1 step earlier (1): costs 0.5."
    assert early.reasons[0] == "Missed event; an alarm 1 step later (1) earns nothing: costs 1."


def test_a_neighbour_that_is_worth_nothing_earns_nothing():
    """The second of three lags is worth 0; of lags that are worth the same the nearest is named."""
    y = [0, 0, 1, 0, 0, 0]
    (stretch,) = evaluate({"m": [1, 0, 0, 0, 0, 0]}, y, weight=sw.weights.Value(UNORDERED), draws=0).models[0].stretches
    assert stretch.reasons[0] == "False alarm; an event 2 steps later (2) earns nothing: costs 1."
    flat = sw.weights.Value([0.5, 0.5, 0.5])
    (stretch,) = evaluate({"m": [1, 0, 0, 0]}, [0, 0, 1, 1], weight=flat, threshold=0.5, draws=0).models[0].stretches
    assert stretch.reasons[0] == "False alarm, but an event 2 steps later (2): costs 0.5."
    both = sw.weights.Value([0.3, 0.2, 0.1], "prod")
    (stretch,) = evaluate({"m": [1, 0, 0, 0]}, [0, 0, 1, 1], weight=both, threshold=0.5, draws=0).models[0].stretches
    assert stretch.reasons[0] == "False alarm, but events 2 steps later (2), 3 steps later (3): costs 0.7."


@pytest.mark.parametrize("kind", [PLAIN, *LOOKING[1:3]], ids=repr)
def test_of_a_long_record_the_costliest_windows_are_shown(kind):
    long, short = stations(29, 1100, names="x"), stations(30, 250, names="y")
    joined = {
        name: [*getattr(long, name), *getattr(short, name)]
        for name in ("predictions", "targets", "groups", "times", "mask", "sample_weight")
    }
    record = Record(Series(**joined))
    model = judge(record, kind.make(), threshold=0.5).models[0]
    assert sorted(len(one.times) for one in model.stretches) == [200, 250, 300, 300, 300]
    assert [one.series for one in model.stretches].count("x") == 4
    assert_all_is_shown(model)
    for stretch in model.stretches:
        assert_stretch(record, kind, 0.5, stretch)


def test_windows_see_over_their_ends():
    """The last of one window is an alarm, and the first of the next an event that was missed."""
    alarms, events = torch.zeros(700), torch.zeros(700)
    alarms[299], events[300] = 1, 1
    model = evaluate({"m": alarms}, events, weight=VALUE, threshold=0.5, draws=0).models[0]
    shown = {int(one.times[0]): one for one in model.stretches}
    assert sorted(shown) == [0, 300, 600]
    assert shown[0].reasons[299] == "False alarm, but an event 1 step later (300): costs 0.5."
    assert shown[300].reasons[0] == "Missed event, but an alarm 1 step earlier (299): costs 0.5."


def test_eight_windows_at_most():
    n = 3000
    numbers = np.random.default_rng(31)
    record = Record(Series(numbers.random(n).tolist(), (numbers.random(n) < 0.3).astype(float).tolist()))
    model = judge(record, VALUE, threshold=0.5).models[0]
    each = np.array(record.each(CURVED[4].oracle, 0.5))[:, 1:3].sum(1)
    assert CURVED[4].name == "value-max"
    by_window = {start: each[start : start + 300].sum() for start in range(0, n, 300)}
    best = sorted(by_window, key=by_window.get, reverse=True)[:8]
    assert [int(one.times[0]) for one in model.stretches] == best
    assert [one.cost for one in model.stretches] == pytest.approx([by_window[start] for start in best])


def test_groups_of_tables_are_named_by_their_rows():
    """A pandas column is asked for its rows, and not for its own labels."""
    names = ["b", "a", "b", "a"]
    for groups in (pd.Series(names, index=[9, 8, 7, 0]), np.array(names), names, pd.Series(names, dtype="category")):
        model = evaluate({"m": [0.9, 0.1, 0.9, 0.1]}, [0] * 4, groups=groups, threshold=0.5, draws=0).models[0]
        assert [(one.series, one.cost) for one in model.stretches] == [("b", 2), ("a", 0)]
    numbers = torch.tensor([20, 10, 20, 10])
    model = evaluate({"m": [0.9, 0.1, 0.9, 0.1]}, [0] * 4, groups=numbers, threshold=0.5, draws=0).models[0]
    assert [one.series for one in model.stretches] == ["20", "10"]


# ---------------------------------------------------------------------------------------------------- reliability


@pytest.mark.parametrize("n", [1, 2, 14, 15, 16, 100, 1003])
@pytest.mark.parametrize("digits", [None, 1, 2])
def test_reliability_adds_up(n, digits):
    numbers = np.random.default_rng(n)
    p = numbers.random(n) if digits is None else numbers.random(n).round(digits)
    y = (numbers.random(n) < p).astype(float)
    counted = numbers.random(n) < 0.8
    counted[0] = True
    bins = reliability(torch.from_numpy(p), torch.from_numpy(y), torch.from_numpy(counted))
    assert 1 <= len(bins) <= 15
    assert sum(one.rows for one in bins) == counted.sum()
    order = np.argsort(p[counted], kind="stable")
    ordered, events = p[counted][order], y[counted][order]
    start = 0
    for one in bins:
        some = slice(start, start + one.rows)
        assert one.predicted == pytest.approx(ordered[some].mean(), abs=1e-12)
        assert one.observed == pytest.approx(events[some].mean(), abs=1e-12)
        assert start == 0 or ordered[start - 1] < ordered[start]  # equal ones are together
        by_scipy = scipy.stats.binomtest(int(events[some].sum()), one.rows).proportion_ci(method="wilson")
        assert one.interval == pytest.approx((by_scipy.low, by_scipy.high), abs=1e-12)
        start += one.rows
    if digits is None:
        sizes = [one.rows for one in bins]
        assert max(sizes) - min(sizes) <= 1
        assert len(bins) == min(15, counted.sum())
    if len(set(ordered.tolist())) <= 15:
        assert [one.predicted for one in bins] == pytest.approx(sorted(set(ordered.tolist())), abs=1e-12)


def test_reliability_of_classes_and_logits():
    model = evaluate({"m": [0, 1, 1, 0, 1]}, [0, 1, 0, 0, 1], draws=0).models[0]
    assert [(one.predicted, one.observed, one.rows) for one in model.reliability] == [(0, 0, 2), (1, 2 / 3, 3)]
    z = [-1.0, 2.0, 0.5]
    model = evaluate({"m": z}, [0, 1, 1], from_logits=True, draws=0).models[0]
    assert [one.predicted for one in model.reliability] == pytest.approx([1 / (1 + math.exp(-v)) for v in sorted(z)])


@pytest.mark.parametrize(("share", "rows"), [(0.0, 1), (1.0, 1), (0.5, 2), (0.25, 40), (1.0, 10**7), (0.0, 10**7)])
def test_wilson_by_hand(share, rows):
    """(p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) with the normal quantile z."""
    z = scipy.stats.norm.ppf(0.975)
    half = z * math.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    there = [(share + z**2 / (2 * rows) + sign * half) / (1 + z**2 / rows) for sign in (-1, 1)]
    low, high = wilson(share, rows)
    assert (low, high) == pytest.approx(there, abs=1e-12)
    assert 0 <= low <= share <= high <= 1


# --------------------------------------------------------------------------------------------------------- errors

X, Y = [0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]
REASONS = {
    "no dict": ({"predictions": X}, TypeError, 'predictions must be a dict as {"model": probabilities}, saw list.'),
    "no model": ({"predictions": {}}, ValueError, "predictions must be of at least one model"),
    "short": (
        {"predictions": {"a": X, "b": X[:3]}},
        ValueError,
        "model 'b': predictions must have one value for each of the 4 samples, shape (4,), saw (3,).",
    ),
    "a table": ({"predictions": {"a": np.ones((4, 2))}}, ValueError, "model 'a': predictions must have one value"),
    "percent": (
        {"predictions": {"a": X, "b": [20, 40, 60, 80]}},
        ValueError,
        "model 'b': predictions must be probabilities in [0, 1], but 4 of 4 are not: the first, at index 0, is 20.",
    ),
    "unknown": (
        {"predictions": {"a": [0.2, NAN, 0.6, 0.8]}},
        ValueError,
        "model 'a': predictions must be probabilities in [0, 1], but 1 of 4 are not: the first, at index 1, is nan.",
    ),
    "infinite": (
        {"predictions": {"a": [0.2, math.inf, 0.6, 0.8]}, "from_logits": True},
        ValueError,
        "model 'a': logits must be finite, but 1 of 4 are not: the first, at index 1, is inf.",
    ),
    "words": ({"predictions": {"a": list("abcd")}}, TypeError, "model 'a': predictions must be a tensor or an array"),
    "complex": (
        {"predictions": {"a": np.ones(4) * 1j}},
        TypeError,
        "model 'a': predictions must be an array of numbers",
    ),
    "labels": (
        {"targets": [0, 1, 2, 1]},
        ValueError,
        "targets must be 0 or 1, but 1 of 4 are not: the first, at index 2, is 2. Mark unknown labels with mask=.",
    ),
    "minus one": ({"targets": [-1, 1, -1, 1]}, ValueError, "For labels -1 and 1 pass (targets + 1) / 2."),
    "soft": (
        {"targets": [0, 1, 0.5, 1]},
        ValueError,
        "targets must be 0 or 1, but 1 of 4 are not: the first, at index 2",
    ),
    "unlabelled": ({"targets": [0, 1, NAN, 1]}, ValueError, "the first, at index 2, is nan. Mark unknown labels"),
    "label words": ({"targets": list("abab")}, TypeError, "targets must be a tensor or an array of numbers"),
    "a matrix": ({"targets": [[0, 1], [0, 1]]}, ValueError, "targets must have the shape (n,), saw (2, 2)."),
    "nothing": ({"predictions": {"a": []}, "targets": []}, ValueError, "there are no samples to evaluate."),
    "all masked": ({"mask": [False] * 4}, ValueError, "there are no samples to evaluate: none of 4 counts."),
    "weighed out": ({"sample_weight": [0] * 4}, ValueError, "there are no samples to evaluate: none of 4 counts."),
    "mask": ({"mask": [True]}, ValueError, "mask must have one value for each of the 4 samples, shape (4,), saw (1,)."),
    "0/1 mask": ({"mask": [1, 1, 0, 1]}, TypeError, "mask must be boolean (True: counted), saw torch.int64."),
    "weights": ({"sample_weight": [1, 1]}, ValueError, "sample_weight must have one value for each of the 4 samples"),
    "below 0": (
        {"sample_weight": [1, -2, 1, 1]},
        ValueError,
        "sample_weight must be finite and at least 0, but 1 of 4 are not: the first, at index 1, is -2.",
    ),
    "groups": ({"groups": ["a"]}, ValueError, "groups must have one value for each of the 4 samples"),
    "no group": ({"groups": ["a", None, "b", "b"]}, ValueError, "groups must be known, but 1 of 4 are missing"),
    "times": ({"times": [1, 2]}, ValueError, "times must have one value for each of the 4 samples"),
    "half times": ({"times": [0, 0.5, 1, 1.5]}, TypeError, "times must be integers, one unit for one lag"),
    "disorder": (
        {"times": [0, 2, 1, 3]},
        ValueError,
        "times must increase within a group, but 1 of its steps do not: the first is from index 1 to index 2, by -1.",
    ),
    "stamps": ({"stamps": ["noon"], "times": range(4)}, ValueError, "stamps must have one value for each of the 4"),
    "by": ({"by": ["a", "b"]}, TypeError, 'by must be a dict as {"station": names}, saw list.'),
    "column": ({"by": {"c": "ab"}}, ValueError, "the column 'c' must have one value for each of the 4 samples, saw 2."),
    "score": ({"score": "tsss"}, ValueError, "there is no score 'tsss'. Did you mean tss"),
    "weight": (
        {"weight": "value"},
        TypeError,
        "a weight must be an object of scorewise.weights, or None; saw 'value'.",
    ),
    "prior": ({"prior": "beta"}, TypeError, "a prior must be"),
    "one draw": ({"draws": 1}, ValueError, "draws must be a whole number of at least 2, or 0 for none, saw 1."),
    "half a draw": ({"draws": 2.5}, ValueError, "draws must be a whole number of at least 2, or 0 for none, saw 2.5."),
    "level": ({"level": 95}, ValueError, "level must be between 0 and 1, saw 95."),
    "seed": ({"seed": "me"}, ValueError, "seed must be a whole number, saw 'me'."),
    "progress": ({"progress": True}, TypeError, "progress must be a function as tqdm.tqdm, saw bool."),
    "threshold": ({"threshold": "0.5"}, ValueError, "a threshold must be a number, saw '0.5'."),
    "threshold NaN": ({"threshold": {"m": NAN}}, ValueError, "a threshold must be a number, saw nan."),
    "whose": ({"threshold": {"k": 0.5}}, ValueError, "there is a threshold for ['k'], but the models are ['m']."),
    "both": (
        {"threshold": 0.5, "at_least": {"recall": 0.5}},
        ValueError,
        "at_least is for thresholds that are chosen here, but they are given.",
    ),
    "at_least": ({"at_least": 0.5}, TypeError, 'at_least must be a dict as {"precision": 0.9}, saw float.'),
    "too much": (
        {"at_least": {"precision": 1.0, "recall": 1.0}},
        InfeasibleError,
        "model 'm': at_least: no threshold has recall of at least 1 with precision of at least 1",
    ),
}


@pytest.mark.parametrize("what", REASONS)
@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
def test_what_is_refused(what, weight):
    arguments, error, message = REASONS[what]
    given_ones = {"predictions": {"m": X}, "targets": Y, "weight": weight, "draws": 0} | arguments
    with pytest.raises(error) as seen:
        evaluate(given_ones.pop("predictions"), given_ones.pop("targets"), **given_ones)
    assert message in str(seen.value)
    assert "\n" not in str(seen.value)


@pytest.mark.parametrize("kind", REFUSED, ids=repr)
def test_weights_without_a_list_of_thresholds_are_refused(kind):
    with pytest.raises(ValueError, match="there is no list of thresholds to choose from"):
        evaluate({"m": X}, Y, weight=kind.make(), threshold=0.5)


def test_all_of_one_class_has_a_matrix_all_the_same():
    model = evaluate({"m": X}, [0] * 4, draws=5, by={"c": "aabb"}).models[0]
    assert model.plain.cells == (4, 0, 0, 0)
    assert model.plain.scores["specificity"] == 1
    assert [part.threshold for part in model.parts["c"]] == [None, None]


def test_one_sample():
    model = evaluate({"m": [0.25]}, [1], draws=3, weight=sw.weights.Value(OMEGA)).models[0]
    assert model.plain.cells == (0, 0, 0, 1)
    assert [(one.rows, one.observed) for one in model.reliability] == [(1, 1.0)]


def test_a_mask_that_is_none_is_named():
    with pytest.raises(TypeError, match="mask must be boolean"):
        evaluate({"m": [0.2, 0.7]}, [0, 1], mask=torch.ones(2))
