"""Scores at every threshold, and the best of them, against trying every threshold."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import scorewise as sw
from tests.curve_oracles import (
    CURVED,
    PLAIN,
    REFUSED,
    SAMPLES,
    SMOOTH,
    STATIONS,
    each_scored,
    intervals_of,
    scored,
    thresholds_of,
    values_for,
    what_matters,
)
from tests.weight_oracles import OMEGA, Series, cells, matrix_at, random_series

SCORES = sw.scores.names()
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
each_score = pytest.mark.parametrize("name", SCORES)
each_weight = pytest.mark.parametrize("kind", CURVED, ids=repr)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
VALUE = sw.weights.Value(OMEGA)

# Sums of a few dozen numbers of at most 100, in another order: 1e-13 or so.
CLOSE = 1e-9


def curve_of(series, score, weight=None):
    return sw.score_curve(*series.tensors(), score, weight, **series.keywords())


def rows(matrix):
    """The cells of a curve's matrix, those of one threshold after the other."""
    return [list(row) for row in zip(*cells(matrix), strict=True)]


def assert_is_curve(curve, series, kind, score):
    """Every threshold, matrix and value, as trying them gives."""
    thresholds = curve.thresholds.tolist()
    assert thresholds == thresholds_of(what_matters(series, kind.oracle))
    exact = [matrix_at(series, kind.oracle, tau) for tau in thresholds]
    for row, one in zip(rows(curve.matrix), exact, strict=True):
        assert row == pytest.approx(one, rel=0, abs=CLOSE)
    assert curve.values.tolist() == pytest.approx(each_scored(score, exact), rel=0, abs=CLOSE)


# ------------------------------------------------------------------------------------------------ every threshold


@each_weight
@pytest.mark.parametrize("series", [SAMPLES, STATIONS, SMOOTH], ids=["samples", "stations", "smooth"])
def test_every_score_and_weight_at_every_threshold(kind, series):
    curves = curve_of(series, SCORES, kind.make())
    assert list(curves) == SCORES
    for name, curve in curves.items():
        assert curve.score is sw.scores.get(name)
        assert curve.values.dtype == torch.float64
        assert_is_curve(curve, series, kind, curve.score)


@each_weight
@settings(max_examples=50)
@given(data=st.data())
def test_random_series(kind, data):
    series = data.draw(random_series(values=values_for(kind)))
    # SEDI takes logarithms of cells, so that a rounding error in a cell that should be 0 would be seen.
    for name, curve in curve_of(series, ["hss", "error_rate", "sedi"], kind.make()).items():
        assert_is_curve(curve, series, kind, sw.scores.get(name))


@each_weight
@settings(max_examples=30)
@given(series=random_series())
def test_the_matrix_is_that_of_confusion_matrix(kind, series):
    curve = curve_of(series, "tss", kind.make())
    for tau, row in zip(curve.thresholds, rows(curve.matrix), strict=True):
        assert row == pytest.approx(series.at(tau, kind.make()), rel=0, abs=CLOSE)


@settings(max_examples=100)
@given(series=random_series())
def test_counts_are_exact(series):
    plain = Series(series.predictions, series.targets, mask=series.mask)
    curve = curve_of(plain, "accuracy")
    assert rows(curve.matrix) == [matrix_at(plain, PLAIN.oracle, tau) for tau in curve.thresholds.tolist()]


def test_by_hand():
    curve = sw.score_curve(torch.tensor([0.2, 0.6, 0.6, 0.9]), torch.tensor([0, 1, 0, 1]), "accuracy")
    assert curve.thresholds.tolist() == torch.tensor([0.0, 0.2, 0.6, 0.9]).tolist()
    assert cells(curve.matrix) == [[0, 1, 2, 2], [2, 1, 0, 0], [0, 0, 1, 2], [2, 2, 1, 0]]
    assert curve.values.tolist() == [0.5, 0.75, 0.75, 0.5]


@pytest.mark.parametrize(
    ("predictions", "thresholds"),
    [
        ([0.5], [0.0, 0.5]),
        ([0.0], [-1.0, 0.0]),
        ([1.0], [0.0, 1.0]),
        ([0.0, 1.0], [-1.0, 0.0, 1.0]),
        ([0.25, 0.25], [0.0, 0.25]),
        ([], [0.0]),
    ],
)
def test_the_first_threshold_calls_everything_positive(predictions, thresholds):
    curve = sw.score_curve(torch.tensor(predictions), torch.ones(len(predictions)), "recall")
    assert curve.thresholds.tolist() == thresholds
    assert curve.matrix.tp.tolist()[0] == len(predictions)
    if predictions:
        assert curve.matrix.fn.tolist()[-1] == len(predictions)


def test_what_does_not_count_and_is_not_seen_is_no_threshold():
    # places 0 to 6 of one series; only the sample at 3 counts, and it looks one step around
    x, y = torch.arange(7, 0, -1) / 8, torch.tensor([0, 0, 0, 1, 0, 0, 0])
    alone = torch.arange(7) == 3
    for given_as in ({"mask": alone}, {"sample_weight": alone.double()}):
        assert sw.score_curve(x, y, "tss", **given_as).thresholds.tolist() == [0, 0.5]
        seen = sw.score_curve(x, y, "tss", sw.weights.Value([0.5]), **given_as).thresholds.tolist()
        # up to 5/8 there is an alarm before it, which makes half a miss of it
        assert seen == [0, 0.5, 5 / 8]


@pytest.mark.parametrize("kind", [kind for kind in CURVED if kind.soft], ids=repr)
def test_soft_labels(kind):
    series = Series(SAMPLES.predictions, [0, 0.1, 0.25, 1, 0, 0.9, 0.5, 0.3, 1, 0.8, 0.2, 0.6])
    assert_is_curve(curve_of(series, "csi", kind.make()), series, kind, sw.scores.csi)


@each_dtype
@each_weight
def test_thresholds_are_of_the_predictions_dtype(kind, dtype):
    x, y = SAMPLES.tensors()
    curve = sw.score_curve(x.to(dtype), y, "hss", kind.make())
    assert curve.thresholds.dtype == dtype
    assert curve.values.dtype == torch.float64
    rounded = Series(x.to(dtype).tolist(), SAMPLES.targets)
    for tau, row in zip(curve.thresholds, rows(curve.matrix), strict=True):
        assert row == pytest.approx(matrix_at(rounded, kind.oracle, float(tau)), rel=0, abs=CLOSE)


@each_dtype
@each_weight
def test_logits_are_decided_as_confusion_matrix_does(kind, dtype):
    """In bfloat16 a third of these have one and the same probability."""
    z = torch.linspace(-6, 7, 60, dtype=torch.float64)[torch.randperm(60, generator=torch.Generator().manual_seed(0))]
    z, y = z.to(dtype), torch.rand(60, generator=torch.Generator().manual_seed(1)) < 0.4
    curve = sw.score_curve(z, y, "mcc", kind.make(), from_logits=True)
    assert curve.thresholds.tolist() == [0.0, *sorted(set(torch.sigmoid(z).tolist()))]
    assert curve.thresholds.dtype == dtype
    for tau, row in zip(curve.thresholds, rows(curve.matrix), strict=True):
        at = sw.confusion_matrix(z, y, tau, kind.make(), from_logits=True)
        assert row == pytest.approx(cells(at), rel=0, abs=CLOSE)


def test_minus_zero_is_zero():
    curve = sw.score_curve(torch.tensor([0.5, -0.0, 0.0, -0.0]), torch.tensor([1, 0, 1, 1]), "tss")
    assert curve.thresholds.tolist() == [-1, 0, 0.5]
    assert rows(curve.matrix) == [[0, 1, 0, 3], [1, 0, 2, 1], [1, 0, 3, 0]]


def test_many_samples():
    """More than are scored in one go."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.rand(300_000, generator=g, dtype=torch.float64), torch.rand(300_000, generator=g) < 0.1
    curve = sw.score_curve(x, y, "hss")
    assert curve.thresholds[1:].tolist() == sorted(x.tolist())
    for k in (0, 1, 1000, 123_456, 250_001, 299_999, 300_000):
        matrix = sw.confusion_matrix(x, y, curve.thresholds[k])
        assert [cell[k].item() for cell in (curve.matrix.tn, curve.matrix.fp, curve.matrix.fn, curve.matrix.tp)] == (
            cells(matrix)
        )
        assert curve.values[k] == sw.scores.hss(matrix)


@pytest.mark.parametrize("digits", [None, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("weight", [None, sw.weights.Value([0.5, 0.25])], ids=["none", "value"])
def test_many_weighted_samples_with_and_without_ties(weight, weighted, digits):
    """More than are added up in one go, from either end."""
    n = 300_000
    g = torch.Generator().manual_seed(1)
    z = torch.randn(n, generator=g, dtype=torch.float64)
    z = z if digits is None else (z * 10**digits).round() / 10**digits
    y = torch.rand(n, generator=g) < torch.sigmoid(z - 2)
    context = {"from_logits": True, "sample_weight": torch.rand(n, generator=g) if weighted else None}
    curve = sw.score_curve(z, y, "hss", weight, **context)
    assert (len(curve.thresholds) == n + 1) == (digits is None)
    last, matrices = len(curve.thresholds) - 1, rows(curve.matrix)
    for k in (0, 1, last // 3, last // 2, last - 1, last):
        there = cells(sw.confusion_matrix(z, y, curve.thresholds[k], weight, **context))
        assert matrices[k] == pytest.approx(there, rel=1e-11, abs=1e-12)


def test_a_curve_is_of_numbers_and_has_no_gradient():
    x = torch.tensor([0.2, 0.6, 0.9], requires_grad=True)
    curve = sw.score_curve(x, torch.tensor([0, 1, 1]), "f1", sw.weights.CrossEntropy())
    assert not any(t.requires_grad for t in (curve.thresholds, curve.values, curve.matrix.fp, curve.matrix.tn))
    assert curve.best()[1] == 1


def test_classes_as_predictions():
    for classes in (torch.tensor([0, 1, 1, 0]), np.array([False, True, True, False]), [0, 1, 1, 0]):
        curve = sw.score_curve(classes, [0, 1, 0, 1], "tss")
        assert curve.thresholds.tolist() == [-1, 0, 1]
        assert rows(curve.matrix) == [[0, 2, 0, 2], [1, 1, 1, 1], [2, 0, 2, 0]]


def test_numpy_arrays_are_tensors():
    x, y = SAMPLES.tensors()
    context = STATIONS.keywords()
    arrays = {key: np.asarray(v) for key, v in context.items()}
    of_arrays = sw.score_curve(x.numpy(), y.numpy(), "gss", VALUE, **arrays)
    of_tensors = sw.score_curve(x, y, "gss", VALUE, **context)
    assert of_arrays.thresholds.dtype == torch.float64
    assert of_arrays.thresholds.tolist() == of_tensors.thresholds.tolist()
    assert of_arrays.values.tolist() == of_tensors.values.tolist()


@each_weight
def test_order_does_not_matter_where_series_and_time_travel_along(kind):
    series = STATIONS.timed()
    numbers = np.random.default_rng(0)
    curve = curve_of(series, "hss", kind.make())
    # in any order that leaves each series in its own
    who = {group: [i for i, g in enumerate(series.groups) if g == group] for group in "xy"}
    for _ in range(5):
        queues = {group: list(members) for group, members in who.items()}
        order = []
        while any(queues.values()):
            group = numbers.choice([g for g, queue in queues.items() if queue])
            order.append(queues[group].pop(0))
        mixed = curve_of(series.picked(order), "hss", kind.make())
        assert mixed.thresholds.tolist() == curve.thresholds.tolist()
        assert mixed.values.tolist() == pytest.approx(curve.values.tolist(), rel=0, abs=1e-12)


# ------------------------------------------------------------------------------------------------- several scores


def test_several_scores_share_their_matrices():
    mine = 0.5 * sw.scores.tss + 0.5 * sw.scores.hss
    given_scores = ["Threat score", mine, "f1", sw.scores.fbeta(2)]
    for collection in (given_scores, tuple(given_scores)):
        curves = sw.score_curve(*SAMPLES.tensors(), collection)
        assert list(curves) == ["Threat score", mine.name, "f1", "fbeta(2)"]
        assert len({id(curve.matrix) for curve in curves.values()}) == 1
        for key, score in zip(curves, given_scores, strict=True):
            assert curves[key].values.tolist() == curve_of(SAMPLES, score).values.tolist()
    assert curves["f1"].score is sw.scores.f1


# --------------------------------------------------------------------------------------------------------- the best


def interval_with(tau, thresholds):
    """Which interval a threshold lies in: of the thresholds not above it, the last."""
    return max(k for k, low in enumerate(thresholds) if low <= tau)


def assert_is_best(curve, threshold, value, dtype):
    """The best value, in the widest interval that attains it, in its middle if there is one."""
    assert type(threshold) is float
    assert type(value) is float
    thresholds, values = curve.thresholds.tolist(), curve.values.tolist()
    sign = 1 if curve.score.greater_is_better else -1
    assert sign * value == pytest.approx(max(sign * v for v in values), rel=0, abs=1e-12)
    ends = intervals_of(thresholds)
    k = interval_with(torch.tensor(threshold, dtype=dtype).item(), thresholds)
    assert values[k] == value
    lower, upper = ends[k]
    # those that are equal but for a last bit; nothing here comes closer to the best without being equal to it
    rivals = [high - low for (low, high), v in zip(ends, values, strict=True) if abs(v - value) < 1e-15]
    assert upper - lower == max(rivals)
    after = torch.nextafter(torch.tensor(lower, dtype=dtype), torch.tensor(2.0, dtype=dtype)).item()
    if after < upper or (after == upper == 1 and k == len(ends) - 1):
        assert lower < threshold < upper or k == len(ends) - 1
        assert abs(threshold - (lower + upper) / 2) <= torch.finfo(dtype).eps / 2
    else:
        assert threshold == lower


@each_score
@each_weight
def test_the_best_threshold_is_the_best(name, kind):
    for series in (SAMPLES, STATIONS, SMOOTH):
        curve = curve_of(series, name, kind.make())
        threshold, value = curve.best()
        assert_is_best(curve, threshold, value, torch.float64)
        at = scored(curve.score, matrix_at(series, kind.oracle, threshold))
        assert at == pytest.approx(value, rel=0, abs=CLOSE)
        again = sw.best_threshold(*series.tensors(), name, kind.make(), **series.keywords())
        assert type(again) is float
        assert again == threshold


@each_weight
@settings(max_examples=80)
@given(
    data=st.data(),
    name=st.sampled_from(("f1", "error_rate", "specificity", "recall")),
    dtype=st.sampled_from(DTYPES),
    from_logits=st.booleans(),
)
def test_the_best_of_random_series_attains_its_value(kind, dtype, from_logits, data, name):
    # close enough together that narrow dtypes have no number between some of them
    fine = st.integers(1, 400) if dtype in (torch.float16, torch.bfloat16) else st.integers(1, 20)
    series = data.draw(random_series(values=values_for(kind)))
    x, y = series.tensors()
    near = torch.tensor(data.draw(st.lists(fine, min_size=len(series), max_size=len(series))))
    x = (0.75 + near.double() / 2048 if data.draw(st.booleans()) else x).to(dtype)
    z = torch.logit(x.double(), eps=1e-4).to(dtype) if from_logits else x
    context = series.keywords() | {"from_logits": from_logits}
    curve = sw.score_curve(z, y, name, kind.make(), **context)
    threshold, value = curve.best()
    if curve.matrix.total.max() == 0:
        assert (threshold, value) == (0.5, curve.score.empty_value)
        return
    assert_is_best(curve, threshold, value, dtype)
    at = sw.confusion_matrix(z, y, threshold, kind.make(), **context)
    assert float(curve.score(at)) == pytest.approx(value, rel=0, abs=CLOSE)


@each_dtype
def test_between_neighbouring_numbers_the_lower_is_the_threshold(dtype):
    """Thresholds are compared strictly, so that the upper one would call neither positive."""
    for low in (0.5, 0.75, 0.1):
        below = torch.tensor(low, dtype=dtype)
        above = torch.nextafter(below, torch.tensor(1.0, dtype=dtype))
        threshold, value = sw.score_curve(torch.stack([below, above]), [0, 1], "tss").best()
        assert threshold == below.item()
        assert value == 1
        wider = torch.nextafter(above, torch.tensor(1.0, dtype=dtype))
        threshold, _ = sw.score_curve(torch.stack([below, wider]), [0, 1], "tss").best()
        assert threshold == above.item()


@pytest.mark.parametrize(
    ("predictions", "targets", "score", "threshold", "value"),
    [
        # one winning interval, and its middle
        ([0.25, 0.75], [0, 1], "tss", 0.5, 1.0),
        # two are equal and the wider one wins, wherever it comes
        ([0.125, 0.25, 0.375, 0.75], [0, 1, 0, 1], "accuracy", 0.5625, 0.75),
        ([0.125, 0.625, 0.75, 0.875], [0, 1, 0, 1], "accuracy", 0.375, 0.75),
        # everything positive: below the smallest
        ([0.5, 0.75], [1, 1], "recall", 0.25, 1.0),
        ([0.5, 0.75], [1, 1], "f1", 0.25, 1.0),
        # below 0 if need be, though no threshold of [0, 1] does that
        ([0.0, 0.5], [1, 1], "recall", -1.0, 1.0),
        # nothing positive: up to 1
        ([0.5, 0.75], [0, 0], "specificity", 0.875, 1.0),
        ([0.25, 1.0], [0, 0], "specificity", 1.0, 1.0),
        ([0.0], [0], "specificity", 0.5, 1.0),
        # less is better
        ([0.25, 0.75], [0, 1], "error_rate", 0.5, 0.0),
        ([0.5, 0.75], [1, 1], "error_rate", 0.25, 0.0),
        # all thresholds are equal: the widest interval of all, here above, in the middle and below
        ([0.25, 0.375], [0, 0], "recall", 0.6875, 0.0),
        ([0.25, 0.875], [0, 0], "recall", 0.5625, 0.0),
        ([0.625, 0.875], [0, 0], "recall", 0.3125, 0.0),
        # of which those below 0 are not
        ([0.0, 0.25], [0, 0], "recall", 0.625, 0.0),
    ],
)
def test_best_by_hand(predictions, targets, score, threshold, value):
    curve = sw.score_curve(torch.tensor(predictions, dtype=torch.float64), targets, score)
    assert curve.best() == (threshold, value)


@pytest.mark.parametrize("unit", [1e-200, 1e-15, 1e-6, 1.0, 1e15, 1e200])
def test_costs_may_be_counted_in_any_unit(unit):
    """The best threshold makes no error. That above it makes one, and its stretch is wider."""
    p, y = np.array([0.1, 0.3, 0.6, 0.9]), np.array([0, 0, 1, 1])
    threshold, value = sw.score_curve(p, y, "cost", sw.weights.Cost(unit, unit)).best()
    assert (threshold, value) == (pytest.approx(0.45), 0.0)
    assert sw.best_threshold(p, y, "cost", sample_weight=np.full(4, unit)) == threshold
    # two stretches, of which either makes one error: the wider
    y = np.array([0, 1, 0, 1])
    assert sw.best_threshold(p, y, "cost", sw.weights.Cost(unit / 3, unit / 3)) == pytest.approx(0.75)


def test_the_widest_of_those_that_are_equal_but_for_rounding():
    """The same thirty samples add up to the same, though not to the last bit: 0.1 + 0.2 + … depends on the order."""
    weights = [0.1 * k for k in range(1, 16)]
    # fifteen events, each with a false alarm of the same weight above it: at 15 thresholds the cost is the same
    x = [i / 64 for i in range(1, 31)]
    y = [1, 0] * 15
    w = [weight for weight in weights for _ in range(2)]
    curve = sw.score_curve(torch.tensor(x, dtype=torch.float64), y, "cost", sample_weight=w)
    best = max(curve.values.tolist())
    close = [k for k, v in enumerate(curve.values.tolist()) if abs(v - best) < 1e-12]
    assert len({curve.values[k].item() for k in close}) > 1  # or else this tests nothing
    assert curve.thresholds[-1] == 30 / 64
    # nothing positive is among them, and by far the widest
    assert curve.best()[0] == (30 / 64 + 1) / 2


def test_the_best_of_nothing():
    for name in SCORES:
        empty = sw.score_curve(torch.zeros(0), torch.zeros(0), name)
        assert empty.best() == (0.5, sw.scores.get(name).empty_value)
        assert empty.thresholds.tolist() == [0]
        assert rows(empty.matrix) == [[0, 0, 0, 0]]
        masked = sw.score_curve([0.3, math.nan], [0, 1], name, mask=[False, False])
        assert masked.best() == (0.5, sw.scores.get(name).empty_value)
        assert sw.best_threshold(torch.zeros(0), torch.zeros(0), name) == 0.5


# ------------------------------------------------------------------------------------------------------ constraints


def feasible(matrices, bounds):
    """The indices of the matrices that meet all bounds."""
    each = [each_scored(score, matrices) for score in bounds]
    return [
        k for k in range(len(matrices)) if all(v[k] >= bound for v, bound in zip(each, bounds.values(), strict=True))
    ]


def halfway(matrices, score):
    """A bound that about half of the values of a score exceed, and none is close to."""
    values = sorted({round(value, 9) for value in each_scored(score, matrices)})
    return (values[len(values) // 2 - 1] + values[len(values) // 2]) / 2


@each_weight
@pytest.mark.parametrize("series", [SAMPLES, STATIONS], ids=["samples", "stations"])
def test_the_best_with_constraints(kind, series):
    """Bounds halfway between two values that a score has somewhere, so that rounding decides nothing."""
    curves = curve_of(series, SCORES, kind.make())
    thresholds = curves["tss"].thresholds.tolist()
    matrices = [matrix_at(series, kind.oracle, tau) for tau in thresholds]
    single = [{s: halfway(matrices, s)} for s in (sw.scores.precision, sw.scores.npv)]
    for bounds in (*single, {sw.scores.recall: 0.001, sw.scores.specificity: 0.001}):
        allowed = feasible(matrices, bounds)
        assert 0 < len(allowed) < len(thresholds)
        for name, curve in curves.items():
            sign = 1 if curve.score.greater_is_better else -1
            best = max(sign * curve.values[k].item() for k in allowed)
            threshold, value = curve.best(at_least=bounds)
            assert sign * value == pytest.approx(best, rel=0, abs=1e-12), name
            assert interval_with(threshold, thresholds) in allowed, name
            assert curve.best(at_least={s.name: bound for s, bound in bounds.items()}) == (threshold, value), name
            again = sw.best_threshold(*series.tensors(), name, kind.make(), at_least=bounds, **series.keywords())
            assert again == threshold, name


@settings(max_examples=150)
@given(
    series=random_series(),
    name=st.sampled_from(("f1", "tss", "error_rate")),
    constraint=st.sampled_from(("precision", "recall", "specificity")),
    bound=st.sampled_from((0.0, 0.25, 0.5, 2 / 3, 0.9, 1.0)),
)
def test_random_constraints(series, name, constraint, bound):
    assume(any(series.counted(i) for i in range(len(series))))
    plain = Series(series.predictions, series.targets, mask=series.mask)  # counts are exact, and so are bounds
    assume(any(plain.counted(i) for i in range(len(plain))))
    curve = curve_of(plain, name)
    matrices = [matrix_at(plain, PLAIN.oracle, tau) for tau in curve.thresholds.tolist()]
    allowed = feasible(matrices, {sw.scores.get(constraint): bound})
    if not allowed:
        most = max(each_scored(sw.scores.get(constraint), matrices))
        with pytest.raises(ValueError, match=constraint) as caught:
            curve.best(at_least={constraint: bound})
        told = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", str(caught.value))]
        assert any(abs(number - most) < 1e-5 for number in told)
        return
    threshold, value = curve.best(at_least={constraint: bound})
    sign = 1 if curve.score.greater_is_better else -1
    k = interval_with(threshold, curve.thresholds.tolist())
    assert k in allowed
    assert value == curve.values[k].item()
    best = max(sign * curve.values[j].item() for j in allowed)
    assert sign * value == pytest.approx(best, rel=0, abs=1e-14)  # equal ones may differ in their last bits
    widths = [high - low for low, high in intervals_of(curve.thresholds.tolist())]
    assert widths[k] == max(widths[j] for j in allowed if curve.values[j].item() == value)


def test_constraints_are_of_the_weighted_matrix():
    # a false alarm that is half forgiven: precision 1 / 1.5, not 1 / 2
    x, y = torch.tensor([0.75, 0.875]), torch.tensor([0, 1])
    weight = sw.weights.Value([0.5])
    threshold, _ = sw.score_curve(x, y, "recall", weight).best(at_least={"precision": 0.6})
    assert threshold == 0.375  # both, and not the one at 0.8125
    threshold, _ = sw.score_curve(x, y, "recall").best(at_least={"precision": 0.6})
    assert threshold == 0.8125


def test_a_bound_that_is_just_met():
    x, y = [0.125, 0.25, 0.5, 0.75], [0, 1, 0, 1]
    curve = sw.score_curve(x, y, "recall")
    assert curve.best(at_least={"precision": 2 / 3}) == (0.1875, 1.0)
    # to rounding: 2/3 from weighted samples may be the float next to it
    assert curve.best(at_least={"precision": math.nextafter(2 / 3, 1)})[1] == 1.0
    assert curve.best(at_least={"precision": 2 / 3 + 1e-12})[1] == 0.5
    assert curve.best(at_least={"precision": 1}) == (0.625, 0.5)
    assert curve.best(at_least={}) == curve.best()
    assert curve.best(at_least=None) == curve.best()


def test_what_is_attainable_is_told():
    curve = sw.score_curve([0.125, 0.25, 0.5, 0.75], [0, 1, 1, 0], "recall")
    with pytest.raises(ValueError, match=r"precision") as caught:
        curve.best(at_least={"precision": 0.9})
    # 2/3, when all but the first are called positive
    assert "0.9" in str(caught.value)
    assert "0.666" in str(caught.value) or "0.667" in str(caught.value)
    (told,) = {tau for tau in re.findall(r"\d\.\d+", str(caught.value)) if 0.125 <= float(tau) < 0.25}
    at = sw.confusion_matrix([0.125, 0.25, 0.5, 0.75], [0, 1, 1, 0], float(told))
    assert sw.scores.precision(at).item() == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="precision"):
        sw.best_threshold([0.125, 0.25, 0.5, 0.75], [0, 1, 1, 0], "recall", at_least={"precision": 0.9})


def test_no_rounding_reaches_what_no_score_can_be():
    """A cost is at most 0, and sums of so much weight are rounded by more than a half."""
    curve = sw.score_curve([0.25, 0.4375], [1, 1], "cost", sample_weight=[0.5, 1e30])
    with pytest.raises(ValueError, match=r"no threshold has cost of at least 0\.5: the most is 0, at the threshold"):
        curve.best(at_least={"cost": 0.5})
    assert curve.best(at_least={"cost": 0.0}) == (0.125, 0.0)
    sure = sw.score_curve([0.25, 0.75], [0, 1], "recall")
    assert sure.best(at_least={"recall": 0.1 * 3 / 0.3})[1] == 1.0  # a rounding above 1


def test_constraints_that_contradict_each_other():
    curve = sw.score_curve([0.125, 0.25, 0.5, 0.75], [1, 0, 0, 1], "f1")
    assert curve.best(at_least={"recall": 0.9})[1] > 0
    assert curve.best(at_least={"specificity": 0.9})[1] > 0
    with pytest.raises(ValueError, match=r"recall") as caught:
        curve.best(at_least={"recall": 0.9, "specificity": 0.9})
    assert "specificity" in str(caught.value)
    assert re.search(r"alone|together", str(caught.value))


@pytest.mark.parametrize(
    ("at_least", "error", "told"),
    [
        ({"error_rate": 0.1}, ValueError, r"error_rate.*-"),
        ({"precision": math.nan}, ValueError, "precision"),
        ({"precision": "0.9"}, (TypeError, ValueError), "precision"),
        ({"precision": None}, (TypeError, ValueError), "precision"),
        ({"precision": True}, (TypeError, ValueError), "precision"),
        ({"precison": 0.9}, ValueError, r"there is no score 'precison'.*precision"),
        ({None: 0.9}, TypeError, "a score must be a name"),
        ([("precision", 0.9)], TypeError, "at_least"),
        ("precision", TypeError, "at_least"),
        (0.9, TypeError, "at_least"),
    ],
    ids=str,
)
def test_constraints_that_are_refused(at_least, error, told):
    curve = curve_of(SAMPLES, "f1")
    with pytest.raises(error, match=told):
        curve.best(at_least=at_least)
    with pytest.raises(error, match=told):
        sw.best_threshold(*SAMPLES.tensors(), "f1", at_least=at_least)


def test_what_less_is_better_of_can_be_negated():
    curve = sw.score_curve([0.25, 0.3125, 0.5, 0.75], [0, 1, 0, 1], "recall")
    assert curve.best() == (0.125, 1.0)  # one error in two
    assert curve.best(at_least={-sw.scores.error_rate: -0.3}) == (0.28125, 1.0)  # one in four


# ----------------------------------------------------------------------------------------------------------- errors

CALLS = {
    "score_curve": lambda x, y, **k: sw.score_curve(x, y, "tss", **k),
    "best_threshold": lambda x, y, **k: sw.best_threshold(x, y, "tss", **k),
    "theorem_gap": lambda x, y, **k: sw.theorem_gap(x, y, "tss", **k),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
X, Y = [0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]


@each_call
@pytest.mark.parametrize(
    ("x", "y", "more", "error", "told"),
    [
        ([0.2, math.nan, 0.6, 0.8], Y, {}, ValueError, "1 of 4 are not: the first, at index 1, is nan"),
        ([0.2, 0.4, 2.5, -1.0], Y, {}, ValueError, r"2 of 4 are not.*index 2, is 2\.5.*from_logits=True"),
        (X, [0, 1, -1, 1], {}, ValueError, r"targets must be 0 or 1.*index 2, is -1"),
        (X, Y[:3], {}, ValueError, r"exactly the same shape, saw \(4,\) and \(3,\)"),
        ([[v] for v in X], Y, {}, ValueError, r"shape.*\(4, 1\)"),
        (X, Y, {"mask": [1, 1, 0, 1]}, TypeError, "mask must be boolean"),
        (X, Y, {"mask": [True, False]}, ValueError, "mask must have the shape"),
        (X, Y, {"sample_weight": [1, 1, -1, 1]}, ValueError, "sample_weight must be finite and at least 0.*index 2"),
        (X, Y, {"costs": [1.0, 2.0, 3.0, 4.0]}, ValueError, r"costs must have the shape \(4, 2\)"),
        (X, Y, {"times": [0, 2, 1, 3]}, ValueError, "times must increase within a group"),
        (X, Y, {"groups": [0.5, 1, 1, 1]}, TypeError, "groups must be integers or strings"),
        (X, Y, {"weight": "value"}, TypeError, "a weight must be an object of scorewise.weights"),
        (X, Y, {"from_logits": 1}, TypeError, "from_logits must be True or False"),
        ("abc", Y, {}, TypeError, "predictions must be a tensor or an array"),
        ([math.inf, 0.0, 1.0, 2.0], Y, {"from_logits": True}, ValueError, "logits must be finite"),
        (X, [0.5, 1, 0, 1], {"weight": sw.weights.Value([0.5])}, ValueError, "looks at events around"),
    ],
)
def test_bad_arguments_are_told_as_by_confusion_matrix(call, x, y, more, error, told):
    with pytest.raises(error, match=told):
        call(x, y, **more)


@pytest.mark.parametrize(("score", "error"), [("tsss", ValueError), (None, TypeError), ([1.0], TypeError)])
def test_scores_that_are_none(score, error):
    for call in (sw.score_curve, sw.theorem_gap):
        with pytest.raises(error, match="score"):
            call(X, Y, score)
    with pytest.raises(error, match="score"):
        sw.best_threshold(X, Y, score)


@each_call
@pytest.mark.parametrize("kind", REFUSED, ids=repr)
def test_weights_that_are_refused(call, kind):
    weight = kind.make()
    blamed = "Margin" if "margin" in kind.name else "Custom" if "custom" in kind.name else "Value"
    with pytest.raises(ValueError, match=blamed):
        call(X, Y, weight=weight)


@pytest.mark.parametrize("kind", REFUSED, ids=repr)
def test_weights_that_an_exact_loss_refuses_when_it_is_made(kind):
    weight = kind.make()
    blamed = "Margin" if "margin" in kind.name else "Custom" if "custom" in kind.name else "Value"
    sw.ScoreLoss("tss", weight=weight)
    with pytest.raises(ValueError, match=blamed):
        sw.ScoreLoss("tss", weight=weight, exact=True)


def test_the_inputs_are_left_as_they_were():
    x, y = STATIONS.tensors()
    context = STATIONS.keywords()
    before = [t.clone() for t in (x, y, *(v for v in context.values() if isinstance(v, torch.Tensor)))]
    curve = sw.score_curve(x, y, "hss", VALUE, **context)
    curve.best(at_least={"recall": 0.2})
    after = [x, y, *(v for v in context.values() if isinstance(v, torch.Tensor))]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_bound_that_is_met_with_weighted_samples():
    # 0.6 / 0.8 of tenths is a float below 3/4.
    x, y = [0.9] * 6 + [0.5] + [0.1] * 2, [1] * 6 + [0] + [1] * 2
    bounds = {"specificity": 1.0, "recall": 0.75}
    assert sw.best_threshold(x, y, "tss", at_least=bounds, sample_weight=[0.1] * 9) == pytest.approx(0.7)


def test_what_is_attainable_never_looks_like_what_was_asked():
    with pytest.raises(sw.curves.InfeasibleError, match=r"at least 0\.7500000001.*the most is 0\.75,"):
        sw.best_threshold([0.2, 0.2, 0.2, 0.2], [0, 1, 1, 1], "tss", at_least={"precision": 0.7500000001})


def odds_ratio(tn, fp, fn, tp):
    return tp * tn / (fp * fn)


def test_scores_that_are_infinite_or_nan():
    x, y = [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]
    odds = sw.scores.Score("odds_ratio", odds_ratio)
    curve = sw.score_curve(x, y, odds)
    assert [str(v) for v in curve.values.tolist()] == ["nan", "inf", "1.0", "inf", "nan"]
    assert curve.best() == (pytest.approx(0.6), math.inf)  # the wider of both
    assert sw.score_curve(x, y, odds).best(at_least={odds: 0.5})[1] == math.inf
    down = sw.scores.Score("minus_odds", lambda *cells: -odds_ratio(*cells), range=(-math.inf, 0.0))
    assert sw.score_curve(x, y, down).best()[1] == -1.0
    lowest = sw.scores.Score("lowest", lambda tn, fp, fn, tp: tn - math.inf)
    assert sw.score_curve(x, y, lowest).best() == (pytest.approx(0.6), -math.inf)
    never = sw.scores.Score("never", lambda tn, fp, fn, tp: tn * math.nan)
    with pytest.raises(ValueError, match="never is NaN at every threshold"):
        sw.score_curve(x, y, never).best()
    assert sw.score_curve(x, y, never).expected().isnan()


def test_a_score_of_another_dtype():
    x, y = torch.tensor([0.1, 0.4, 0.35, 0.8], requires_grad=True), torch.tensor([0, 0, 1, 1])
    more_hits = sw.scores.Score("more_hits", lambda tn, fp, fn, tp: tp > fn)
    curve = sw.score_curve(x, y, more_hits)
    assert curve.values.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    # all events until the lesser of their predictions
    assert curve.expected().item() == pytest.approx(0.35)
    loss = sw.ScoreLoss(more_hits, exact=True, from_logits=False)
    torch.testing.assert_close(torch.autograd.grad(loss(x, y), x)[0], torch.tensor([0.0, 0.0, -1.0, 0.0]))


def test_a_wide_range_does_not_blur_the_best():
    g = torch.Generator().manual_seed(0)
    x = torch.rand(2000, generator=g, dtype=torch.float64)
    y = torch.rand(2000, generator=g) < x
    wide = sw.scores.Score("wide", sw.scores.tss.function, range=(-1e9, 1.0))
    assert sw.score_curve(x, y, wide).best() == sw.score_curve(x, y, "tss").best()


@pytest.mark.parametrize("scores", [[], ["tss", "tss"], [sw.scores.tss, sw.scores.Score("tss", odds_ratio)]])
def test_lists_without_names_of_their_own(scores):
    with pytest.raises(ValueError, match="one or more scores of different names"):
        sw.score_curve([0.2, 0.7], [0, 1], scores)
