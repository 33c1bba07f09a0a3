"""Value weights: what an error is worth beside the alarms and events around it, against brute force over thresholds."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import scorewise as sw
from scorewise.weights import windows
from tests.cases import ALL_PRIORS
from tests.weight_oracles import (
    GRID,
    Series,
    SetFunction,
    cells,
    expected,
    largest,
    matrix_at,
    none,
    power_intervals,
    random_series,
    theorem_2,
    theorem_3,
    total,
    value,
)

PRIORS = {case.name: case for case in ALL_PRIORS}
UNIFORM = PRIORS["uniform"]
each_prior = pytest.mark.parametrize("case", ALL_PRIORS, ids=repr)
each_g = pytest.mark.parametrize("g", ["max", "prod", "any"])

# The weights of a few dozen samples are sums and differences of as many numbers of at most 3: 1e-14 or so. The priors
# themselves are tested to 1e-9 of the integral of their density.
CLOSE = 1e-9


def make(g, omega, isolated=1.0, seed=0):
    """A value weight beside its definition; omega is scaled to what g allows."""
    steps = len(omega)
    if g == "any":
        table = SetFunction(steps, seed)
        return sw.weights.Value(omega, table, isolated=isolated), value(table.of_list, steps, isolated)
    if g == "prod":
        omega = [0.95 * w / max(1.0, sum(omega)) for w in omega]
    combine = largest(omega) if g == "max" else total(omega)
    return sw.weights.Value(omega, g, isolated=isolated), value(combine, steps, isolated)


@st.composite
def random_omega(draw, most=8):
    omega = draw(st.lists(st.sampled_from((0.0, 0.1, 0.25, 0.3, 0.5, 0.9, 0.99)), min_size=1, max_size=most))
    order = draw(st.sampled_from(("any", "falling", "rising")))
    return omega if order == "any" else sorted(omega, reverse=order == "falling")


# Two stations that interleave, with gaps, ties, unknown context, and predictions outside of every inner support.
CHRONICLE = Series(
    predictions=[0.5, 0.03, 0.83, 0.21, 0.21, 0.6, math.nan, 0.4, 1.0, 0.25, 0.47, 0.5, 0.0, 0.58, 0.97, 0.4, 0.21],
    targets=[0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, math.nan, 1, 0],
    groups=["x", "y", "x", "x", "y", "x", "x", "x", "y", "x", "y", "y", "x", "y", "x", "x", "y"],
    times=[0, 0, 1, 2, 1, 4, 5, 6, 2, 7, 3, 5, 8, 6, 9, 11, 9],
    mask=[True, True, True, True, True, False, False, True, True, True, False] + [True] * 3 + [False, True, True],
    sample_weight=[1, 2.5, 1, 0.5, 1, 1, 1, 3, 0, 1, 1, 1, 0.25, 1, 1, 2, 1],
)


# -------------------------------------------------------------------------------------------------- brute force


@each_g
@given(
    series=random_series(),
    omega=random_omega(),
    isolated=st.sampled_from((1.0, 2.0)),
    name=st.sampled_from(("uniform", "uniform-inside", "cosine", "triangular", "beta", "mixture", "density-jump")),
    seed=st.integers(0, 50),
)
def test_the_expected_matrix_is_the_average_over_the_threshold(g, series, omega, isolated, name, seed):
    omega = omega[:4] if g == "any" else omega
    weight, oracle = make(g, omega, isolated, seed)
    exact = expected(PRIORS[name], series, oracle, cuts=GRID)
    assert series.expected(PRIORS[name].prior, weight) == pytest.approx(exact, rel=0, abs=CLOSE)


@each_g
@given(
    series=random_series(),
    omega=random_omega(),
    isolated=st.sampled_from((1.0, 2.0)),
    tau=st.sampled_from((*GRID, -0.5, 0.1, 0.5, 0.51, 2.0)),
    seed=st.integers(0, 50),
)
def test_the_matrix_at_a_threshold_is_the_sum_over_samples(g, series, omega, isolated, tau, seed):
    omega = omega[:4] if g == "any" else omega
    weight, oracle = make(g, omega, isolated, seed)
    assert series.at(tau, weight) == pytest.approx(matrix_at(series, oracle, tau), rel=0, abs=CLOSE)


@each_prior
@each_g
def test_every_prior_averages_as_brute_force_does(case, g):
    for isolated in (1.0, 2.0):
        weight, oracle = make(g, (0.5, 0.3, 0.25, 0.1), isolated)
        exact = expected(case, CHRONICLE, oracle)
        assert CHRONICLE.expected(case.prior, weight) == pytest.approx(exact, rel=0, abs=CLOSE)


@each_g
def test_the_chronicle_would_show_a_mistake(g):
    """Gaps, series, context, isolation and the weight itself: without any of them the matrix is another one."""
    weight, _ = make(g, (0.5, 0.3, 0.25, 0.1), 2.0)
    matrix = CHRONICLE.expected(None, weight)
    parts = {"series": CHRONICLE.groups, "gaps": CHRONICLE.times}
    without = Series(CHRONICLE.predictions, CHRONICLE.targets, parts["series"], None, CHRONICLE.mask)
    alone = CHRONICLE.picked([i for i in range(len(CHRONICLE)) if CHRONICLE.mask[i]])
    others = [
        CHRONICLE.expected(None, None),
        CHRONICLE.expected(None, make(g, (0.5, 0.3, 0.25, 0.1), 1.0)[0]),
        CHRONICLE.expected(None, make(g, (0.5, 0.3, 0.25), 2.0)[0]),
        Series(without.predictions, without.targets, None, None, without.mask, CHRONICLE.sample_weight).expected(
            None, weight
        ),
        Series(*[getattr(without, f) for f in ("predictions", "targets", "groups", "times", "mask")]).expected(
            None, weight
        ),
        alone.expected(None, weight),
    ]
    for other in others:
        assert abs(other[2] - matrix[2]) > 1e-3


@each_g
@pytest.mark.parametrize("steps", [1, 2, 9, 10, 25])
@pytest.mark.parametrize("isolated", [1.0, 2.0])
def test_windows_longer_than_the_series(g, steps, isolated):
    series = Series([0.5, 0.7, 0.2, 0.7, 0.4, 0.1, 0.3, 0.55, 0.2, 0.33], [0, 0, 1, 0, 1, 1, 0, 0, 1, 1])
    if g == "any":

        def noisy_or(z):
            return 1 - (1 - z / torch.arange(2, steps + 2, dtype=z.dtype)).prod(-1)

        def of_list(near):
            return 1 - math.prod(1 - z / j for j, z in enumerate(near, 2))

        weight = sw.weights.Value([0.0] * steps, noisy_or, isolated=isolated)
        oracle = value(of_list, steps, isolated)
    else:
        weight, oracle = make(g, [0.9 ** (j % 7 + 1) for j in range(steps)], isolated)
    exact = expected(UNIFORM, series, oracle)
    assert series.expected(None, weight) == pytest.approx(exact, rel=0, abs=CLOSE)
    assert series.at(0.5, weight) == pytest.approx(matrix_at(series, oracle, 0.5), rel=0, abs=CLOSE)


@each_g
@given(
    series=random_series(most=24),
    omega=random_omega(most=4),
    isolated=st.sampled_from((1.0, 2.0)),
    seed=st.integers(0, 50),
)
def test_parts_of_a_batch_add_up(g, series, omega, isolated, seed):
    """Large batches are worked on in parts, those events first that have a neighbour at every step."""
    weight, oracle = make(g, omega, isolated, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_PER_THREAD", 1)
        found = series.expected(None, weight)
    assert found == pytest.approx(expected(UNIFORM, series, oracle, cuts=GRID), rel=0, abs=CLOSE)


def test_of_two_parts_what_is_worth_more_counts(monkeypatch):
    """The first event is near the beginning, and the second has a neighbour at each of three steps around it."""
    monkeypatch.setattr(windows, "_PER_THREAD", 1)
    y = torch.tensor([0, 1, 0, 1, 0, 0, 0])
    weight = sw.weights.Value([0.5, 0.3, 0.25])
    matrix = sw.expected_confusion_matrix(torch.ones(7, dtype=torch.float64), y, weight=weight, times=torch.arange(7))
    # of the first sample the nearer event counts; one is before an event; three are after both
    assert float(matrix.fp) == pytest.approx(0.5 + 0.5 + 1 + 1 + 1, rel=1e-12)


@each_g
def test_a_long_record(g):
    """Many windows at once: at thresholds, and averaged by the uniform prior, whose F is known."""
    numbers = np.random.default_rng(1)
    n = 120
    series = Series(
        numbers.random(n).round(2).tolist(),
        [float(numbers.random() < 0.3) for _ in range(n)],
        numbers.integers(0, 3, n).tolist(),
        [i + i // 7 for i in range(n)],
        [bool(numbers.random() < 0.8) for _ in range(n)],
    )
    weight, oracle = make(g, (0.7, 0.1, 0.5, 0.2, 0.0), 1.5)
    for tau in (0.1, 0.5, 0.93):
        assert series.at(tau, weight) == pytest.approx(matrix_at(series, oracle, tau), rel=0, abs=CLOSE)
    assert series.expected(None, weight) == pytest.approx(expected(UNIFORM, series, oracle), rel=0, abs=CLOSE)


@pytest.mark.parametrize("g", ["max", "prod"])
@settings(max_examples=40)
@given(series=random_series(most=8), omega=random_omega(4), name=st.sampled_from(("uniform", "uniform-inside", "beta")))
def test_a_callable_can_say_the_built_in_functions(g, series, omega, name):
    """Whatever the order of omega: max and prod are set functions as any other."""
    weight, _ = make(g, omega, 2.0)
    lags = torch.tensor(omega, dtype=torch.float64)
    if g == "prod":
        lags = 0.95 * lags / max(1.0, sum(omega))
    combined = sw.weights.Value(
        [0.0] * len(omega), lambda z: (z * lags).amax(-1) if g == "max" else (z * lags).sum(-1), isolated=2.0
    )
    prior = PRIORS[name].prior
    assert series.expected(prior, combined) == pytest.approx(series.expected(prior, weight), rel=0, abs=1e-12)
    assert series.at(0.45, combined) == pytest.approx(series.at(0.45, weight), rel=0, abs=1e-12)


# ------------------------------------------------------------------------------------------------- the paper itself

EXAMPLES = [
    (
        (0.5, 0.6, 0.1, 0.8),
        {1: (0.0, 0.5), 2: (0.5, 0.6), 3: None, 4: (0.6, 0.8)},
        {1: None, 2: 1, 4: 2},
        [1, 2, 4],
    ),
    ((0.7, 0.2, 0.9, 0.3), {1: (0.0, 0.7), 2: None, 3: (0.7, 0.9), 4: None}, {1: None, 3: 1}, [1, 3]),
]


@pytest.mark.parametrize(("past", "intervals", "precursors", "subset"), EXAMPLES, ids=["first", "second"])
@pytest.mark.parametrize("now", [0.05, 0.25, 0.55, 0.65, 0.85, 0.95])
@pytest.mark.parametrize("name", ["uniform", "beta", "cosine-whole"])
def test_the_examples_of_theorem_3(past, intervals, precursors, subset, now, name):
    found = power_intervals(past, 0.0)
    assert found.intervals == intervals
    assert found.precursors == precursors
    assert found.subset == subset

    case, omega = PRIORS[name], (0.5, 0.4, 0.2, 0.1)
    series = Series([*reversed(past), now], [0, 0, 0, 0, 1])
    exact = expected(case, series, value(largest(omega), 4))
    assert theorem_3(case, series.predictions, series.targets, omega) == pytest.approx(exact[2], abs=1e-12)
    assert series.expected(case.prior, sw.weights.Value(omega)) == pytest.approx(exact, rel=0, abs=CLOSE)


def test_power_intervals_are_where_a_prediction_is_the_nearest_alarm():
    for past in itertools.product((0.2, 0.4, 0.6), repeat=4):
        intervals = power_intervals(past, 0.0).intervals
        for xi in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
            alarms = [j for j, p in enumerate(past, 1) if p > xi]
            holding = [j for j, held in intervals.items() if held and held[0] <= xi < held[1]]
            assert holding == alarms[:1]


@given(
    predictions=st.lists(st.sampled_from(GRID[4:10]), min_size=1, max_size=12),
    omega=random_omega(5),
    name=st.sampled_from(("uniform", "uniform-inside", "beta", "logistic")),
    data=st.data(),
)
def test_theorems_2_and_3(predictions, omega, name, data):
    """Predictions inside the support, as the paper assumes."""
    targets = data.draw(st.lists(st.sampled_from((0, 1)), min_size=len(predictions), max_size=len(predictions)))
    case, series = PRIORS[name], Series(predictions, targets)
    falling = sorted(omega, reverse=True)
    of_max = series.expected(case.prior, sw.weights.Value(falling))
    assert of_max[2] == pytest.approx(theorem_3(case, predictions, targets, falling), rel=0, abs=CLOSE)
    shares = [0.99 * w / max(1.0, sum(omega)) for w in omega]
    of_prod = series.expected(case.prior, sw.weights.Value(shares, "prod"))
    assert of_prod[2] == pytest.approx(theorem_2(case, predictions, targets, shares), rel=0, abs=CLOSE)


# Seven of 26 steps are events. In the first forecast the missed events follow alarms, and false alarms come just
# before events; in the second the first event is completely missed, and false alarms come after events.
EVENTS = {5, 6, 12, 13, 14, 20, 21}
FIRST = {3, 4, 5, 11, 12, 13, 19, 20, 21}
SECOND = {12, 13, 14, 15, 16, 20, 21, 22, 23}


def forecast(alarms, low=0.2, high=0.8):
    return Series([high if t in alarms else low for t in range(26)], [float(t in EVENTS) for t in range(26)])


@pytest.mark.parametrize("score", ["tss", "hss", "csi"])
@pytest.mark.parametrize("g", ["max", "prod"])
@pytest.mark.parametrize("isolated", [1.0, 2.0])
def test_value_tells_two_forecasts_with_one_matrix_apart(score, g, isolated):
    first, second = forecast(FIRST), forecast(SECOND)
    assert first.at(0.5) == second.at(0.5) == [15, 4, 2, 5]
    weight = sw.weights.Value((0.5, 0.25, 0.125), g, isolated=isolated)
    s = sw.scores.get(score)
    better, worse = (s(sw.confusion_matrix(*f.tensors(), 0.5, weight)).item() for f in (first, second))
    assert better > worse + 0.05
    # a prior between the two predictions decides as the threshold does
    prior = sw.priors.RaisedCosine(0.5, 0.1)
    losses = [sw.ScoreLoss(s, prior=prior, weight=weight, from_logits=False)(*f.tensors()) for f in (first, second)]
    assert [-loss.item() for loss in losses] == pytest.approx([better, worse], rel=1e-12)


def test_the_two_forecasts_by_hand():
    published = sw.weights.Value(sw.weights.PUBLISHED, isolated=2.0)
    # false alarms at 3 (event two steps later), 4, 11, 19 (one step); misses at 6 and 14, one step after an alarm
    assert forecast(FIRST).at(0.5, published) == pytest.approx([15, 2 / 3 + 3 / 2, 1 / 2 + 1 / 2, 5], rel=1e-15)
    # false alarms at 15, 16, 22, 23, none before an event, all within three steps of one; misses at 5 and 6, no alarm
    # within three steps of either
    assert forecast(SECOND).at(0.5, published) == pytest.approx([15, 4, 2 + 2, 5], rel=1e-15)


@each_g
@settings(max_examples=40)
@given(series=random_series(), steps=st.integers(1, 5), name=st.sampled_from(("uniform", "uniform-inside", "beta")))
def test_no_reward_is_no_weight(g, series, steps, name):
    weight = sw.weights.Value([0.0] * steps, (lambda z: 0 * z.sum(-1)) if g == "any" else g)
    # one and the same numbers, summed in any order
    most = len(series) * 6 * 2.0**-53 * len(series)
    prior = PRIORS[name].prior
    assert series.expected(prior, weight) == pytest.approx(series.expected(prior), rel=0, abs=most)
    assert series.at(0.45, weight) == series.at(0.45)


@pytest.mark.parametrize("epsilon", [0.1, 1e-6, 1e-12])
@pytest.mark.parametrize("steps", [1, 3, 5, 20])
@pytest.mark.parametrize("name", ["uniform", "uniform-inside", "beta"])
def test_a_full_reward_is_a_limit(epsilon, steps, name):
    """The remark on omega = 1, which the paper's own condition excludes: only the largest past prediction is left."""
    prior = PRIORS[name].prior
    x = torch.tensor([0.5, 0.3, 0.6, 0.6, 0.4, 0.2, 0.35, 0.9, 0.1, 0.45, 0.65, 0.05, 0.3], dtype=torch.float64)
    y = torch.tensor([1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1])
    cdf = prior.cdf(x)
    matrix = sw.expected_confusion_matrix(x, y, prior, sw.weights.Value([1 - epsilon] * steps))
    remark = limit = 0.0
    for i in range(13):
        past = cdf[max(0, i - steps) : i]
        top = past.max().item() if len(past) else 0.0
        remark += y[i].item() * (1 - cdf[i].item() - (1 - epsilon) * max(top - cdf[i].item(), 0))
        limit += y[i].item() * (1 - max(top, cdf[i].item()))
    assert matrix.fn.item() == pytest.approx(remark, abs=1e-13)
    assert matrix.fn.item() == pytest.approx(limit, abs=13 * epsilon + 1e-13)


# HSS, kappa and GSS are scores in the paper's sense only where they are not negative. No other registered one needs a
# condition: most have FP and FN in denominators only. Yule's Q is a function of FP·FN / (TP·TN). SEDI rises with TP/P
# and falls with FP/N. The derivative of MCC by FP has the sign of −FN − (TP·TN − FP·FN)/2 · (1/(TP+FP) + 1/(TN+FP)),
# which is at most −FN + FP·FN/FP = 0. And no denominator becomes 0, because the weights do not.
CONDITIONAL = {"hss", "kappa", "gss"}
CUT = sw.priors.Uniform(0.25, 0.7)


@given(series=random_series(), omega=random_omega(4), g=st.sampled_from(("max", "prod", "any")), seed=st.integers(0, 9))
def test_no_weighted_score_is_worse_than_the_plain_one(series, omega, g, seed):
    weight, _ = make(g, omega, 1.0, seed)
    x, y = series.tensors()
    context = {key: v for key, v in series.keywords().items() if key != "costs"}
    pairs = [
        *([sw.confusion_matrix(x, y, tau, w, **context) for w in (None, weight)] for tau in (-0.1, 0.3, 0.45, 0.6)),
        *([sw.expected_confusion_matrix(x, y, prior, w, **context) for w in (None, weight)] for prior in (None, CUT)),
    ]
    for plain, weighted in pairs:
        assert weighted.fp <= plain.fp + 1e-12
        assert weighted.fn <= plain.fn + 1e-12
        for name in sw.scores.names():
            score = sw.scores.get(name)
            sign = 1 if score.greater_is_better else -1
            s, s_w = sign * score(plain).item(), sign * score(weighted).item()
            assert s_w >= s - 1e-9 or (name in CONDITIONAL and s < 0), name


@pytest.mark.parametrize("name", sorted(CONDITIONAL))
def test_where_the_weighted_score_is_less(name):
    """Why the condition: two false alarms before an event, forgiven by half, and a miss elsewhere make it worse."""
    series = Series([0.9, 0.9, 0.9, 0.1], [0, 0, 1, 1], ["a", "a", "a", "b"])
    counted = Series(*[getattr(series, f) for f in ("predictions", "targets", "groups", "times")], [1, 1, 0, 1])
    score = sw.scores.get(name)
    plain, weighted = (
        score(sw.ConfusionMatrix(*counted.at(0.5, weight))).item() for weight in (None, sw.weights.Value((0.5, 0.5)))
    )
    assert plain < 0
    assert weighted < plain - 0.01


# ------------------------------------------------------------------------------------------------------------- time


@pytest.mark.parametrize("g", ["max", "prod"])
def test_a_lag_is_a_lag_in_time(g):
    """An alarm five units before a miss, an event five units after a false alarm: rewarded only if T reaches it."""
    series = Series([0.9, 0.1, 0.9, 0.1], [1, 1, 0, 1], ["a", "a", "b", "b"], [0, 5, 3, 8])
    assert series.at(0.5, sw.weights.Value((0.2, 0.2, 0.2, 0.2), g)) == [0, 1, 2, 1]
    rewarded = series.at(0.5, sw.weights.Value((0.1, 0.1, 0.1, 0.1, 0.5), g))
    assert rewarded == pytest.approx([0, 0.5, 1.0, 1], rel=1e-15)
    averaged = series.expected(sw.priors.Uniform(0.4, 0.6), sw.weights.Value((0.1, 0.1, 0.1, 0.1, 0.5), g))
    assert averaged == pytest.approx(rewarded, abs=1e-14)
    # without times neighbours are one step apart
    near = Series(series.predictions, series.targets, series.groups)
    assert near.at(0.5, sw.weights.Value((0.3,), g)) == pytest.approx([0, 0.7, 0.7 + 0.7, 1], rel=1e-15)


@each_g
def test_windows_do_not_cross_from_one_series_into_another(g):
    weight, _ = make(g, (0.5, 0.25, 0.1), 2.0)
    first, second = Series([0.9, 0.8, 0.3, 0.2], [0, 1, 1, 0]), Series([0.4, 0.6, 0.1], [1, 0, 1])
    apart = [a + b for a, b in zip(first.expected(None, weight), second.expected(None, weight), strict=True)]
    together = Series([*first.predictions, *second.predictions], [*first.targets, *second.targets])
    crossing = together.expected(None, weight)
    assert abs(crossing[2] - apart[2]) > 1e-3
    for groups in ([0] * 4 + [1] * 3, ["b"] * 4 + ["a"] * 3, [10**15] * 4 + [-3] * 3):
        joined = Series(together.predictions, together.targets, groups)
        assert joined.expected(None, weight) == pytest.approx(apart, rel=1e-14)
        assert joined.at(0.35, weight) == pytest.approx(
            [a + b for a, b in zip(first.at(0.35, weight), second.at(0.35, weight), strict=True)], rel=1e-14
        )
        order = [4, 0, 1, 5, 2, 3, 6]
        assert joined.picked(order).expected(None, weight) == pytest.approx(apart, rel=1e-14)
        assert joined.timed().picked(order).expected(None, weight) == pytest.approx(apart, rel=1e-14)


@each_g
@settings(max_examples=40)
@given(series=random_series(), isolated=st.sampled_from((1.0, 2.0)))
def test_without_times_a_sample_s_place_in_its_series_is_its_time(g, series, isolated):
    weight, _ = make(g, (0.5, 0.25, 0.1), isolated)
    plain = Series(*[getattr(series, f) for f in ("predictions", "targets", "groups")], None, series.mask)
    assert plain.expected(None, weight) == plain.timed().expected(None, weight)
    assert plain.at(0.4, weight) == plain.timed().at(0.4, weight)


@pytest.mark.parametrize("shift", [0, -(10**6), 10**15])
def test_only_differences_of_times_matter(shift):
    weight = sw.weights.Value((0.5, 0.3, 0.2), isolated=2.0)
    moved = Series(
        *[getattr(CHRONICLE, f) for f in ("predictions", "targets", "groups")],
        [t + shift for t in CHRONICLE.times],
        CHRONICLE.mask,
        CHRONICLE.sample_weight,
    )
    assert moved.expected(None, weight) == CHRONICLE.expected(None, weight)


def test_ids_and_times_of_any_kind():
    weight = sw.weights.Value((0.5, 0.3, 0.1), "prod", isolated=2.0)
    x, y = torch.tensor([0.5, 0.9, 0.2, 0.6, 0.1, 0.3]), torch.tensor([0, 0, 1, 0, 1, 1])
    ids, times = [3, 1, 3, 3, 1, 3], [0, 4, 1, 3, 5, 4]
    reference = cells(sw.expected_confusion_matrix(x, y, None, weight, groups=ids, times=times))
    names = [f"station {i}" for i in ids]
    for groups in (torch.tensor(ids), np.array(ids), tuple(ids), names, np.array(names), np.array(names, dtype=object)):
        for when in (torch.tensor(times, dtype=torch.int32), np.array(times, dtype=np.int16), tuple(times)):
            matrix = sw.expected_confusion_matrix(x, y, None, weight, groups=groups, times=when)
            assert cells(matrix) == reference


# ---------------------------------------------------------------------------------------------------------- context


@each_g
@pytest.mark.parametrize("isolated", [1.0, 2.0])
def test_masked_samples_are_seen_and_not_counted(g, isolated):
    """A batch in the middle of a record, with its neighbours on both sides as context, is that part of the record."""
    weight, _ = make(g, (0.5, 0.3, 0.1), isolated)
    numbers = np.random.default_rng(3)
    x = numbers.random(30).tolist()
    y = [float(numbers.random() < 0.4) for _ in range(30)]
    whole = [Series(x, y, mask=[k == i for k in range(30)]).expected(None, weight) for i in range(30)]
    for start, stop in ((0, 10), (10, 17), (17, 30)):
        low, high = max(0, start - 3), min(30, stop + 3)
        part = Series(x[low:high], y[low:high], mask=[start <= i < stop for i in range(low, high)])
        exact = [math.fsum(cell) for cell in zip(*whole[start:stop], strict=True)]
        assert part.expected(None, weight) == pytest.approx(exact, rel=1e-12)
    assert Series(x, y).expected(None, weight) == pytest.approx(
        [math.fsum(cell) for cell in zip(*whole, strict=True)], rel=1e-12
    )


@each_g
def test_the_unknown_is_as_if_it_were_not_there(g):
    weight, _ = make(g, (0.5, 0.3, 0.1), 2.0)
    x = [0.9, math.nan, 0.2, 0.7, 0.1, math.nan, 0.3]
    y = [0, math.nan, 1, 0, 1, math.nan, 1]
    known = [i for i in range(7) if x[i] == x[i]]
    series = Series(x, y, mask=[v == v for v in x]).timed()
    # the same numbers, summed in another order
    assert series.expected(None, weight) == pytest.approx(series.picked(known).expected(None, weight), rel=1e-14)
    assert series.at(0.5, weight) == pytest.approx(series.picked(known).at(0.5, weight), rel=1e-14)


@each_g
def test_what_is_known_of_a_sample_is_seen(g):
    """A prediction without a label is an alarm, and a label without a prediction is an event."""
    weight, oracle = make(g, (0.5, 0.3), 2.0)
    no_label = Series([0.9, 0.1], [math.nan, 1], mask=[False, True])
    no_prediction = Series([0.9, math.nan], [0, 1], mask=[True, False])
    for series, cell in ((no_label, 2), (no_prediction, 1)):
        exact = matrix_at(series, oracle, 0.5)
        assert 0 < exact[cell] < 1
        assert series.at(0.5, weight) == pytest.approx(exact, rel=1e-15)
        assert series.expected(None, weight) == pytest.approx(expected(UNIFORM, series, oracle), rel=1e-14)


@each_g
def test_a_sample_without_weight_is_context(g):
    weight, _ = make(g, (0.5, 0.3, 0.1), 2.0)
    counted = [True, False, True, True, False, True]
    x, y = [0.9, 0.8, 0.2, 0.6, 0.7, 0.1], [0, 1, 1, 0, 0, 1]
    by_weight = Series(x, y, sample_weight=[float(c) for c in counted])
    assert by_weight.expected(None, weight) == Series(x, y, mask=counted).expected(None, weight)
    light = Series(x, y, sample_weight=[1, 1e-6, 1, 1, 1e-6, 1])
    assert light.expected(None, weight) == pytest.approx(by_weight.expected(None, weight), abs=1e-5)


@each_g
def test_gradients_flow_into_known_context_and_not_into_the_unknown(g):
    weight, _ = make(g, (0.5, 0.3, 0.1))
    x = torch.tensor([0.6, math.nan, 0.2], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([math.nan, math.nan, 1.0])
    mask = torch.tensor([False, False, True])
    matrix = sw.expected_confusion_matrix(x, y, None, weight, mask=mask)
    (grad,) = torch.autograd.grad(matrix.fn, x)
    # d/dx of 1 − x_3 − g·(x_1 − x_3), where g is the reward of an alarm two steps before
    reward = 1 - sw.confusion_matrix(x.detach(), y, 0.5, weight, mask=mask).fn.item()
    assert reward > 0
    assert grad.tolist() == pytest.approx([-reward, 0.0, reward - 1], rel=1e-14)


# ------------------------------------------------------------------------------------------------- labels and logits


@each_g
@pytest.mark.parametrize("isolated", [1.0, 2.0])
def test_labels_are_independent(g, isolated):
    weight, _ = make(g, (0.5, 0.3, 0.1), isolated)
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(20, 3, generator=generator, dtype=torch.float64)
    y = (torch.rand(20, 3, generator=generator) < 0.4).double()
    mask = torch.rand(20, 3, generator=generator) < 0.7
    x[~mask & (y == 1)] = math.nan
    shared = {"groups": [i % 2 for i in range(20)], "times": [i + i // 5 for i in range(20)]}
    each = {
        "mask": mask,
        "sample_weight": torch.rand(20, 3, generator=generator),
        "costs": torch.rand(20, 3, 2, generator=generator),
    }
    prior = sw.priors.Beta(torch.tensor([1.0, 2.0, 0.5]), 1.5)
    together = sw.expected_confusion_matrix(x, y, prior, weight, **shared, **each)
    at = sw.confusion_matrix(x, y, torch.tensor([0.3, 0.5, 0.6]), weight, **shared, **each)
    for k, (alpha, tau) in enumerate(((1.0, 0.3), (2.0, 0.5), (0.5, 0.6))):
        own = {name: v[:, k] for name, v in each.items()}
        alone = sw.expected_confusion_matrix(x[:, k], y[:, k], sw.priors.Beta(alpha, 1.5), weight, **shared, **own)
        assert [cell[k] for cell in cells(together)] == pytest.approx(cells(alone), rel=1e-12)
        alone = sw.confusion_matrix(x[:, k], y[:, k], tau, weight, **shared, **own)
        assert [cell[k] for cell in cells(at)] == pytest.approx(cells(alone), rel=1e-12)


@each_g
@pytest.mark.parametrize("name", ["uniform", "uniform-inside", "beta", "cosine"])
def test_logits_are_probabilities(g, name):
    weight, _ = make(g, (0.5, 0.3, 0.1), 2.0)
    prior = PRIORS[name].prior
    z = torch.linspace(-3, 3, 24, dtype=torch.float64)[torch.randperm(24, generator=torch.Generator().manual_seed(1))]
    y = (torch.arange(24) % 3 == 0).double()
    of_logits = sw.expected_confusion_matrix(z, y, prior, weight, from_logits=True)
    of_probabilities = sw.expected_confusion_matrix(torch.sigmoid(z), y, prior, weight)
    torch.testing.assert_close(of_logits.tensor(), of_probabilities.tensor(), rtol=1e-12, atol=1e-13)
    for tau in (0.2, 0.5, 0.7):
        of_logits = sw.confusion_matrix(z, y, tau, weight, from_logits=True)
        assert cells(of_logits) == cells(sw.confusion_matrix(torch.sigmoid(z), y, tau, weight))


def test_the_loss_is_minus_the_score_of_the_weighted_matrix():
    weight = sw.weights.Value((0.5, 0.3), isolated=2.0)
    x, y = CHRONICLE.tensors()
    z = torch.logit(x.clamp(0.01, 0.99))
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=weight)
    matrix = loss.matrix(z, y, **CHRONICLE.keywords())
    assert loss(z, y, **CHRONICLE.keywords()).item() == pytest.approx(-sw.scores.hss(matrix).item(), rel=1e-14)
    exact = expected(
        PriorOfTwoThree, Series(torch.sigmoid(z).tolist(), *_rest(CHRONICLE)), value(largest((0.5, 0.3)), 2, 2.0)
    )
    assert cells(matrix) == pytest.approx(exact, rel=0, abs=CLOSE)


def _rest(series):
    return [getattr(series, f) for f in ("targets", "groups", "times", "mask", "sample_weight")]


PriorOfTwoThree = type(UNIFORM)("beta-2-3", sw.priors.Beta(2.0, 3.0), lambda t: t * (1 - t) ** 2)


# --------------------------------------------------------------------------------------------------------- gradients

# Distinct and clear of the corners of the priors below, as a derivative needs.
SMOOTH = Series(
    [0.52, 0.31, 0.66, 0.44, 0.37, 0.58, 0.48, 0.29, 0.61, 0.34, 0.41, 0.55],
    [0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0],
    [0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0],
    [0, 0, 1, 2, 1, 4, 2, 4, 5, 5, 6, 8],
    [True, True, False, True, True, True, True, False, True, True, True, True],
    [1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.5, 1.0],
)
UNKNOWN = torch.tensor([i in (5, 9) for i in range(12)])


def of_tensor(weight, prior):
    """The four cells as a function of the logits, with two samples that are unknown."""
    y, context = SMOOTH.tensors()[1], SMOOTH.keywords()
    context["mask"] = context["mask"] & ~UNKNOWN

    def matrix(z):
        z = torch.where(UNKNOWN, math.nan, z)
        return sw.expected_confusion_matrix(z, y, prior, weight, from_logits=True, **context).tensor()

    return matrix


@each_g
@pytest.mark.parametrize("isolated", [1.0, 2.0])
@pytest.mark.parametrize("name", ["uniform", "uniform-inside", "beta", "triangular", "cosine-whole"])
def test_gradients(g, isolated, name):
    weight, _ = make(g, (0.5, 0.3, 0.4, 0.1), isolated)
    z = torch.logit(SMOOTH.tensors()[0]).requires_grad_()
    assert torch.autograd.gradcheck(of_tensor(weight, PRIORS[name].prior), z)


@each_g
@pytest.mark.parametrize("isolated", [1.0, 2.0])
@pytest.mark.parametrize("name", ["uniform", "beta"])
def test_second_derivatives(g, isolated, name):
    weight, _ = make(g, (0.5, 0.3, 0.4, 0.1), isolated)
    z = torch.logit(SMOOTH.tensors()[0]).requires_grad_()
    matrix = of_tensor(weight, PRIORS[name].prior)
    assert torch.autograd.gradgradcheck(matrix, z)
    (first,) = torch.autograd.grad(matrix(z).sum(), z, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), z)
    assert second.abs().max() > 0.01


@each_g
@pytest.mark.parametrize("score", ["tss", "hss", "csi", "mcc"])
def test_gradients_of_the_loss(g, score):
    weight, _ = make(g, (0.5, 0.3, 0.4, 0.1), 2.0)
    loss = sw.ScoreLoss(score, prior=sw.priors.Beta(2.0, 3.0), weight=weight)
    z = torch.logit(SMOOTH.tensors()[0]).requires_grad_()
    y = SMOOTH.tensors()[1]
    assert torch.autograd.gradcheck(lambda z: loss(z, y, **SMOOTH.keywords()), z)


@each_g
def test_gradients_where_predictions_are_equal_or_outside_the_support_are_finite(g):
    weight, _ = make(g, (0.5, 0.3, 0.1), 2.0)
    x = torch.tensor([0.5, 0.5, 0.1, 0.5, 0.9, 0.1, 0.0, 1.0, 0.5], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 1, 1, 0, 1, 1, 0, 1])
    for prior in (None, sw.priors.Uniform(0.25, 0.7), sw.priors.RaisedCosine(), sw.priors.Beta(2.0, 3.0)):
        matrix = sw.expected_confusion_matrix(x, y, prior, weight)
        (grad,) = torch.autograd.grad(matrix.tensor().square().sum(), x)
        assert grad.isfinite().all()
    outside = (x < 0.25) | (x > 0.7)
    matrix = sw.expected_confusion_matrix(x, y, sw.priors.Uniform(0.25, 0.7), weight)
    (grad,) = torch.autograd.grad(matrix.tensor().square().sum(), x)
    assert grad[outside].abs().max() == 0
    assert grad[~outside].abs().max() > 0


# ------------------------------------------------------------------------------------------------------------- omega


def test_makers_of_omega():
    assert sw.weights.geometric(3) == (0.5, 0.25, 0.125)
    assert sw.weights.geometric(2, ratio=0.9) == pytest.approx((0.9, 0.81), rel=1e-15)
    assert sw.weights.linear(4) == (0.5, 0.375, 0.25, 0.125)
    assert sw.weights.linear(1, first=0.9) == (0.9,)
    assert sw.weights.half_life(3, 1) == (0.5, 0.25, 0.125)
    assert sw.weights.half_life(5, 2, first=0.8) == pytest.approx(
        (0.8, 0.8 * 2**-0.5, 0.4, 0.4 * 2**-0.5, 0.2), rel=1e-15
    )
    assert sw.weights.PUBLISHED == (1 / 2, 1 / 3, 1 / 4)
    for omega in (sw.weights.geometric(3), sw.weights.linear(3), sw.weights.half_life(3, 2.5), sw.weights.PUBLISHED):
        assert isinstance(omega, tuple)
        assert all(type(w) is float for w in omega)
        sw.weights.Value(omega)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor], ids=["list", "tuple", "array", "tensor"])
def test_omega_of_any_kind(kind):
    reference = CHRONICLE.expected(None, sw.weights.Value((0.5, 0.25)))
    assert CHRONICLE.expected(None, sw.weights.Value(kind([0.5, 0.25]))) == reference


# ----------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0.5, 1.0),), "omega.*1"),
        (((1.5,), "max"), r"omega.*1\.5"),
        (((0.5, 0.5), "prod"), "omega.*1"),
        (((0.6, 0.3, 0.2), "prod"), r"omega.*1\.1"),
        (((0.5, -0.1),), r"omega.*-0\.1"),
        (((0.5, -0.1), "prod"), r"omega.*-0\.1"),
        (((0.5, math.nan),), "omega.*(?i:nan)"),
        (((0.5, math.inf),), "omega.*inf"),
        (((),), "omega"),
        (([],), "omega"),
        (([[0.5, 0.2]],), "omega"),
        (("half",), "omega"),
        ((None,), "omega"),
        (((0.5,), "mean"), "g.*mean"),
        (((0.5,), 3), "g.*3|g.*int"),
        (((0.5, 0.2), lambda z: z.sum(-1)), r"\bg\b"),
        (((0.5, 0.2), lambda z: z.amax(-1)), r"\bg\b"),
        (((0.5, 0.2), lambda z: 0.5 + 0 * z.sum(-1)), r"\bg\b"),
        (((0.5, 0.2), lambda z: 0.4 * z), r"\bg\b.*shape"),
        (((0.5, 0.2), lambda z: z.sum() * 0.1), r"\bg\b.*shape"),
        (((0.5, 0.2), lambda z: -0.4 * z.sum(-1)), r"\bg\b"),
        (((0.5, 0.2), lambda z: math.nan * z.sum(-1)), r"\bg\b"),
        (((0.5, 0.2), lambda z: 0.3), r"\bg\b"),
    ],
)
def test_rewards_that_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sw.weights.Value(*arguments)


@pytest.mark.parametrize("isolated", [0.99, 0.0, -1.0, math.nan, math.inf, "2", None])
def test_isolated_errors_weigh_at_least_one(isolated):
    with pytest.raises((ValueError, TypeError), match=f"isolated.*{isolated}"):
        sw.weights.Value((0.5,), isolated=isolated)


BATCH = torch.tensor([0.2, 0.7, 0.6, 0.4]), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"times": [0, 2, 1, 3]}, r"times.*\b2\b"),
        ({"times": [0, 1, 1, 3]}, r"times.*\b2\b"),
        ({"times": [0, 5, 1, 5], "groups": ["a", "b", "a", "b"]}, r"times.*\b3\b"),
        ({"times": [0.0, 1.0, 2.0, 3.0]}, "times.*(float|integer)"),
        ({"times": torch.tensor([0.5, 1, 2, 3])}, "times.*(float|integer)"),
        ({"times": [True, False, True, False]}, "times.*(bool|integer)"),
        ({"times": [0, 1, 2]}, r"times.*\(3,\)"),
        ({"times": torch.arange(8).reshape(4, 2)}, r"times.*\(4, 2\)"),
        ({"times": ["Monday"] * 4}, "times"),
        ({"times": 3}, "times"),
        ({"groups": [0, 0, 1]}, r"groups.*(3|\(3,\))"),
        ({"groups": ["a"] * 5}, r"groups.*(5|\(5,\))"),
        ({"groups": torch.zeros(4, 2, dtype=torch.int64)}, r"groups.*\(4, 2\)"),
        ({"groups": torch.tensor([0.5, 0.5, 1.0, math.nan])}, "groups"),
        ({"groups": "abcd"}, "groups"),
        ({"groups": 1}, "groups"),
    ],
)
@pytest.mark.parametrize("way", ["at", "expected", "loss"])
def test_series_and_times_that_are_refused(context, message, way):
    weight = sw.weights.Value((0.5, 0.2))
    call = {
        "at": lambda **kw: sw.confusion_matrix(*BATCH, 0.5, weight, **kw),
        "expected": lambda **kw: sw.expected_confusion_matrix(*BATCH, None, weight, **kw),
        "loss": sw.ScoreLoss("tss", weight=weight),
    }[way]
    with pytest.raises((ValueError, TypeError), match=message):
        call(*BATCH, **context) if way == "loss" else call(**context)


@pytest.mark.parametrize("weight", [lambda: sw.weights.Value((0.5,)), lambda: sw.weights.Value((0.5,), "prod")])
def test_soft_labels_are_no_events(weight):
    x, soft = torch.tensor([0.2, 0.7, 0.6]), torch.tensor([0.0, 0.3, 1.0])
    for product in (weight(), sw.weights.Cost(1, 2) * weight()):
        with pytest.raises(ValueError, match=r"(targets|labels).*0\.3"):
            sw.expected_confusion_matrix(x, soft, None, product)
        with pytest.raises(ValueError, match=r"(targets|labels).*0\.3"):
            sw.confusion_matrix(x, soft, 0.5, product)
        with pytest.raises(ValueError, match=r"(targets|labels).*0\.3"):
            sw.ScoreLoss("tss", weight=product)(x, soft)


def test_a_plain_matrix_is_not_disturbed_by_its_context():
    x, y = CHRONICLE.tensors()
    plain = sw.expected_confusion_matrix(
        x, y, mask=torch.tensor(CHRONICLE.mask), sample_weight=torch.tensor(CHRONICLE.sample_weight)
    )
    assert CHRONICLE.expected() == pytest.approx(cells(plain), rel=1e-15)
    assert CHRONICLE.at(0.5) == pytest.approx(matrix_at(CHRONICLE, none, 0.5), rel=1e-15)
