"""How sure a best threshold is: resamples against all the resamples that there can be, and intervals against chance."""

import itertools
import math

import numpy as np
import pytest
import torch

import scorewise as sw
from tests.weight_oracles import OMEGA, Series

VALUE = sw.weights.Value(OMEGA)
# Uneven weights, so that no two resamples look alike.
SAMPLES = Series([0.2, 0.45, 0.6, 0.85], [0, 1, 0, 1], sample_weight=[1.0, 2.3, 1.7, 3.1])
# The same, beside two that do not count.
MASKED = Series(
    [0.2, 0.5, 0.45, 0.6, math.nan, 0.85],
    [0, 1, 1, 0, math.nan, 1],
    mask=[True, False, True, True, False, True],
    sample_weight=[1.0, 5.0, 2.3, 1.7, 1.0, 3.1],
)
# Three stations that interleave, of two, three and four samples.
STATIONS = Series(
    [0.2, 0.45, 0.6, 0.85, 0.3, 0.7, 0.5, 0.9, 0.15],
    [0, 1, 0, 1, 1, 0, 0, 1, 0],
    ["x", "y", "x", "z", "y", "z", "z", "z", "y"],
    sample_weight=[1.0, 2.3, 1.7, 3.1, 0.9, 1.3, 2.1, 0.7, 1.9],
)
HOURS = Series([0.2, 0.45, 0.6, 0.85, 0.3, 0.7], [0, 1, 0, 1, 1, 0], sample_weight=[1.0, 2.3, 1.7, 3.1, 0.9, 1.3])
# Linear, with numbers of no common measure: the value of a resample tells which one it is.
WORTH = sw.scores.cost(1.37, 0.71, tn=0.113, tp=0.029)
SPENT = sw.scores.Score(
    "spent", lambda tn, fp, fn, tp: 1.37 * fp + 0.71 * fn + 0.113 * tn + 0.029 * tp, greater_is_better=False
)
LONG = torch.rand(60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
EVENTS = torch.rand(60, generator=torch.Generator().manual_seed(1)) < LONG


def curve_of(series, score, weight=None):
    return sw.score_curve(*series.tensors(), score, weight, **series.keywords())


def noise(n, seed):
    """Predictions that know nothing."""
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=g, dtype=torch.float64), torch.rand(n, generator=g) < 0.4


# -------------------------------------------------------------------------------------- all resamples that there are


def drawn(n, units, times):
    """How often each of n samples is in a resample of so many units, for every such resample, with its chance."""
    chances = {}
    for choice in itertools.product(units, repeat=times):
        often = tuple(sum(unit.count(i) for unit in choice) for i in range(n))
        chances[often] = chances.get(often, 0.0) + len(units) ** -times
    return chances


def blocks(order, length):
    """Every stretch of so many samples, one after the other, beginning anew at the end."""
    n = len(order)
    return [[order[(start + k) % n] for k in range(length)] for start in range(n)]


def resampled(series, often):
    weight = [w * count for w, count in zip(series.sample_weight, often, strict=True)]
    return Series(series.predictions, series.targets, series.groups, series.times, series.mask, weight)


def score_at(series, score, weight, threshold):
    matrix = sw.confusion_matrix(*series.tensors(), threshold, weight, **series.keywords())
    return float(score(matrix))


def outcomes(series, score, weight, chances):
    """For every resample: its best threshold and its score at the chosen one, how much too good it is, its chance."""
    chosen, _ = curve_of(series, score, weight).best()
    sign = 1 if score.greater_is_better else -1
    table = {}
    for often, chance in chances.items():
        resample = resampled(series, often)
        threshold, value = curve_of(resample, score, weight).best()
        seen = threshold, round(score_at(resample, score, weight, chosen), 9)
        too_good = sign * (value - score_at(series, score, weight, threshold))
        before = table.get(seen, (too_good, 0.0))
        assert before[0] == pytest.approx(too_good, abs=1e-9)  # or else what is seen does not tell which it was
        table[seen] = too_good, before[1] + chance
    return table


ALL_OF_THEM = {
    "samples": (SAMPLES, None, drawn(4, [[0], [1], [2], [3]], 4), {}, "samples"),
    "samples that count": (MASKED, None, drawn(6, [[0], [2], [3], [5]], 4), {}, "samples"),
    "series": (STATIONS, None, drawn(9, [[0, 2], [1, 4, 8], [3, 5, 6, 7]], 3), {"block": "series"}, "3 series"),
    "series with a window": (
        STATIONS,
        VALUE,
        drawn(9, [[0, 2], [1, 4, 8], [3, 5, 6, 7]], 3),
        {"block": "series"},
        "3 series",
    ),
    "blocks": (HOURS, None, drawn(6, blocks(range(6), 3), 2), {"block": 3}, "blocks of 3 samples"),
    "blocks with a window": (HOURS, VALUE, drawn(6, blocks(range(6), 2), 3), {"block": 2}, "blocks of 2 samples"),
    "blocks in the order of series": (
        *(STATIONS, None, drawn(9, blocks([0, 2, 1, 4, 8, 3, 5, 6, 7], 3), 3)),
        *({"block": 3}, "blocks of 3 samples"),
    ),
    "blocks of one": (HOURS, None, drawn(6, blocks(range(6), 1), 6), {"block": 1}, "samples"),
}


@pytest.mark.parametrize("score", [WORTH, SPENT], ids=["more is better", "less is better"])
@pytest.mark.parametrize("what", ALL_OF_THEM)
def test_every_draw_is_a_resample(what, score):
    series, weight, chances, arguments, unit = ALL_OF_THEM[what]
    table = outcomes(series, score, weight, chances)
    draws = 2000
    result = curve_of(series, score, weight).bootstrap(draws, **arguments)
    assert unit in result.unit
    assert result.thresholds.shape == result.values.shape == (draws,)
    assert result.thresholds.dtype == result.values.dtype == torch.float64
    seen = [(t, round(v, 9)) for t, v in zip(result.thresholds.tolist(), result.values.tolist(), strict=True)]
    assert set(seen) <= set(table)
    # each as often as it should be: five standard deviations of a binomial, and at most one more for each
    for key, (_, chance) in table.items():
        assert abs(seen.count(key) - draws * chance) <= 5 * math.sqrt(draws * chance * (1 - chance)) + 1
    assert float(result.optimism) == pytest.approx(sum(table[key][0] for key in seen) / draws, abs=1e-9)
    assert result.infeasible == 0


def between(low_or_high, ordered, level_at):
    """Whether a number lies between the neighbours of a percentile, however that is interpolated."""
    place = level_at * (len(ordered) - 1)
    return ordered[math.floor(place)] - 1e-12 <= low_or_high <= ordered[math.ceil(place)] + 1e-12


@pytest.mark.parametrize("name", ["hss", "error_rate"])
@pytest.mark.parametrize("level", [0.95, 0.5, 0.8])
def test_intervals_are_percentiles(name, level):
    result = sw.score_curve(LONG, EVENTS, name).bootstrap(101, level=level)
    low, high = result.threshold
    assert type(low) is type(high) is float
    thresholds, values = sorted(result.thresholds.tolist()), sorted(result.values.tolist())
    assert between(low, thresholds, (1 - level) / 2)
    assert between(high, thresholds, (1 + level) / 2)
    # what was chosen as the best looks better than it is
    less = float(result.optimism) * (1 if name == "hss" else -1)
    low, high = result.value
    assert between(low + less, values, (1 - level) / 2)
    assert between(high + less, values, (1 + level) / 2)
    assert low < high


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("from_logits", [False, True])
def test_resamples_of_one_unit_are_the_data(dtype, from_logits):
    """One block of all samples, wherever it begins, is every sample once."""
    x = (torch.logit(LONG) if from_logits else LONG).to(dtype)
    curve = sw.score_curve(x, EVENTS, "f1", VALUE, from_logits=from_logits)
    threshold, value = curve.best()
    result = curve.bootstrap(20, block=60)
    assert result.thresholds.tolist() == [threshold] * 20
    assert result.values.tolist() == pytest.approx([value] * 20, abs=1e-12)
    assert float(result.optimism) == pytest.approx(0, abs=1e-12)
    assert result.threshold == pytest.approx((threshold, threshold), abs=1e-12)
    assert result.value == pytest.approx((value, value), abs=1e-12)


@pytest.mark.parametrize("arguments", [{}, {"block": 7}, {"block": 31}, {"block": 59}], ids=str)
def test_a_resample_is_as_large_as_the_data(arguments):
    """Whether or not blocks divide it: a total of costs would be of more samples, and look worse, otherwise."""
    everything = sw.scores.cost(1, 1, tn=1, tp=1)
    result = sw.score_curve(LONG, EVENTS, everything).bootstrap(50, **arguments)
    assert result.values.tolist() == [-60.0] * 50
    assert float(result.optimism) == 0


@pytest.mark.parametrize("weight", [None, VALUE, sw.weights.ClassFrequency(), sw.weights.CrossEntropy()], ids=str)
def test_drawing_a_series_twice_is_having_it_twice(weight):
    """As many copies, each a series of its own, as a resample counts it: what multiplicities stand for."""
    numbers = np.random.default_rng(4)
    n, names = 40, ["a", "b", "c", "d"]
    x, y = numbers.random(n).round(2), (numbers.random(n) < 0.4).astype(float)
    group = numbers.choice(names, n)
    for _ in range(10):
        often = dict(zip(names, numbers.multinomial(4, [0.25] * 4), strict=True))
        counted = sw.score_curve(x, y, "hss", weight, groups=group, sample_weight=[often[g] for g in group])
        copies = [(name, copy) for name in names for copy in range(often[name])]
        who = [(i, f"{name}{copy}") for name, copy in copies for i in range(n) if group[i] == name]
        rows = [i for i, _ in who]
        literal = sw.score_curve(x[rows], y[rows], "hss", weight, groups=[name for _, name in who])
        assert counted.thresholds.tolist() == literal.thresholds.tolist()
        assert counted.values.tolist() == pytest.approx(literal.values.tolist(), abs=1e-12)
        assert counted.best()[0] == literal.best()[0]
        assert counted.best()[1] == pytest.approx(literal.best()[1], abs=1e-12)


# ------------------------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("weight", "context", "arguments", "unit"),
    [
        (None, {}, {}, "samples"),
        (sw.weights.ClassFrequency(), {}, {}, "samples"),
        (None, {"groups": [i % 10 for i in range(60)]}, {}, "10 series"),
        (VALUE, {"groups": list("abcdefghijkl") * 5}, {}, "12 series"),
        (None, {"groups": [i % 20 for i in range(60)], "times": range(60)}, {}, "20 series"),
        # fewer have too few resamples, and are cut into blocks unless the user says otherwise
        (None, {"groups": [i % 9 for i in range(60)]}, {}, "blocks of 4 samples"),
        (VALUE, {"groups": ["a", "b"] * 30}, {}, "blocks of 7 samples"),
        (VALUE, {"groups": ["a", "b"] * 30}, {"block": "series"}, "2 series"),
        # one series, or times, or a weight that looks around: blocks of ⌈60^(1/3)⌉ = 4, or as long as a window
        (None, {"groups": [7] * 60}, {}, "blocks of 4 samples"),
        (None, {"times": range(60)}, {}, "blocks of 4 samples"),
        (sw.weights.Value([0.5]), {}, {}, "blocks of 4 samples"),
        (VALUE, {}, {}, "blocks of 7 samples"),
        (VALUE, {"times": range(60)}, {}, "blocks of 7 samples"),
        # what is asked for
        (None, {}, {"block": 24}, "blocks of 24 samples"),
        (VALUE, {"groups": ["a", "b"] * 30}, {"block": 24}, "blocks of 24 samples"),
    ],
)
def test_what_is_resampled(weight, context, arguments, unit):
    context = {key: v if key == "groups" else list(v) for key, v in context.items()}
    result = sw.score_curve(LONG, EVENTS, "tss", weight, **context).bootstrap(5, **arguments)
    assert result.unit == unit


@pytest.mark.parametrize(
    ("context", "arguments"), [({}, {}), ({"groups": [i // 6 for i in range(60)]}, {}), ({}, {"block": 7})]
)
def test_the_same_seed_is_the_same_result(context, arguments):
    curve = sw.score_curve(LONG, EVENTS, "tss", **context)
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002  # the legacy one is global
    first, again, default, other = (
        curve.bootstrap(50, **arguments, **seed) for seed in ({"seed": 0}, {"seed": 0}, {}, {"seed": 1})
    )
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002  # as above
    torch.manual_seed(99)
    third = curve.bootstrap(50, **arguments)
    for same in (again, default, third):
        assert same.thresholds.tolist() == first.thresholds.tolist()
        assert same.values.tolist() == first.values.tolist()
        assert same.threshold == first.threshold
        assert same.value == first.value
        assert same.optimism == first.optimism
    assert other.values.tolist() != first.values.tolist()


def test_a_thousand_draws_unless_told_otherwise():
    result = sw.score_curve([0.2, 0.45, 0.6, 0.85], [0, 1, 0, 1], "tss").bootstrap()
    assert result.thresholds.shape == (1000,)


def test_progress_is_told():
    seen = []

    def progress(draws):
        for draw in draws:
            seen.append(draw)
            yield draw

    curve = sw.score_curve(LONG, EVENTS, "tss")
    watched = curve.bootstrap(30, progress=progress)
    assert len(seen) == 30
    assert watched.values.tolist() == curve.bootstrap(30).values.tolist()


# ------------------------------------------------------------------------------------------------------- constraints


def test_constraints_hold_in_every_draw():
    """The resamples of four samples, one by one; in some of them nothing is precise enough, or there is no event."""
    series, score = SAMPLES, sw.scores.recall
    at_least = {"precision": 0.8}
    curve = curve_of(series, "recall")
    chosen, _ = curve.best(at_least=at_least)
    table, impossible = {}, 0.0
    for often, chance in drawn(4, [[0], [1], [2], [3]], 4).items():
        resample = resampled(series, often)
        try:
            threshold, value = curve_of(resample, "recall").best(at_least=at_least)
        except ValueError:
            impossible += chance
            continue
        seen = threshold, round(score_at(resample, score, None, chosen), 9)
        table[seen] = value - score_at(series, score, None, threshold)
    assert 0.05 < impossible < 0.95
    draws = 1000
    result = curve.bootstrap(draws, at_least=at_least)
    assert type(result.infeasible) is int
    assert abs(result.infeasible - draws * impossible) < 5 * math.sqrt(draws * impossible * (1 - impossible))
    kept = [
        (t, round(v, 9))
        for t, v in zip(result.thresholds.tolist(), result.values.tolist(), strict=True)
        if not math.isnan(t)
    ]
    assert len(kept) == draws - result.infeasible
    assert set(kept) <= set(table)
    low, high = result.threshold
    assert min(table)[0] <= low <= high <= max(table)[0]
    assert all(math.isfinite(v) for v in (*result.value, float(result.optimism)))


def test_a_constraint_that_the_data_cannot_meet_is_told_at_once():
    curve = sw.score_curve([0.25, 0.5, 0.75], [1, 0, 0], "recall")
    with pytest.raises(ValueError, match="precision"):
        curve.bootstrap(10, at_least={"precision": 0.9})
    with pytest.raises(TypeError, match="at_least"):
        curve.bootstrap(10, at_least=0.9)


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "arguments",
    [
        {"draws": 1},
        {"draws": 0},
        {"draws": -5},
        {"draws": 10.5},
        {"draws": True},
        {"draws": "many"},
        {"level": 0.0},
        {"level": 1.0},
        {"level": 95},
        {"level": math.nan},
        {"level": "0.95"},
        {"block": 0},
        {"block": 61},
        {"block": 2.5},
        {"block": True},
        {"seed": 0.5},
        {"seed": None},
        {"seed": True},
        {"progress": 5},
    ],
    ids=str,
)
def test_arguments_that_are_refused(arguments):
    (name,) = arguments
    with pytest.raises((TypeError, ValueError), match=name):
        sw.score_curve(LONG, EVENTS, "tss").bootstrap(**arguments)


def test_one_sample_has_one_resample():
    result = sw.score_curve(torch.tensor([0.5]), torch.ones(1), "recall").bootstrap(5)
    assert result.threshold == (0.25, 0.25)
    assert result.value == (1.0, 1.0)
    assert float(result.optimism) == 0


# ----------------------------------------------------------------------------------------------------- against chance


@pytest.mark.parametrize("name", ["tss", "error_rate"])
def test_optimism_is_what_noise_seems_to_be_worth(name):
    """No threshold is worth anything: TSS is 0, and the error rate 0.4 and 0.2 times the share of alarms."""
    sign = 1 if name == "tss" else -1
    apparent, honest, optimism = [], [], []
    for seed in range(30):
        x, y = noise(60, seed)
        curve = sw.score_curve(x, y, name)
        tau, value = curve.best()
        truth = 0.0 if name == "tss" else 0.4 + 0.2 * (1 - tau)
        result = curve.bootstrap(60)
        apparent.append(sign * (value - truth))
        optimism.append(float(result.optimism))
        honest.append(sign * (sum(result.value) / 2 - truth))
    assert np.mean(apparent) > 0.02
    assert np.mean(optimism) > 0.02
    assert abs(np.mean(honest)) < np.mean(apparent) / 2


def normal_cdf(z):
    return (1 + math.erf(z / math.sqrt(2))) / 2


def test_intervals_cover_the_truth_as_often_as_they_say():
    """Logits of events are normal around 1, others around -1: at the threshold t TSS is known."""
    simulations, n, level = 120, 300, 0.8
    covered = 0
    for seed in range(simulations):
        g = torch.Generator().manual_seed(seed)
        y = torch.rand(n, generator=g) < 0.3
        z = torch.randn(n, generator=g, dtype=torch.float64) + torch.where(y, 1.0, -1.0)
        curve = sw.score_curve(z, y, "tss", from_logits=True)
        tau, _ = curve.best()
        t = math.log(tau / (1 - tau))
        truth = normal_cdf(1 - t) - normal_cdf(-1 - t)
        low, high = curve.bootstrap(100, level=level, seed=seed).value
        covered += low <= truth <= high
    # one standard deviation of the share is 0.037, and percentile intervals are known to be a little short
    assert 0.68 <= covered / simulations <= 0.92


def test_values_stay_in_the_range_of_the_score():
    curve = sw.score_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], "csi")
    ends = [end for seed in range(20) for end in curve.bootstrap(10, seed=seed).value]
    assert min(ends) == 0
    assert max(ends) == 1


@pytest.mark.parametrize("groups", [None, [0] * 60])
def test_whole_series_without_series(groups):
    with pytest.raises(ValueError, match="block='series' needs groups"):
        sw.score_curve(LONG, EVENTS, "tss", groups=groups).bootstrap(5, block="series")


def test_a_long_gap_is_no_border_of_series():
    times = [i if i < 30 else i + 2**41 for i in range(60)]
    with pytest.raises(ValueError, match="block='series' needs groups"):
        sw.score_curve(LONG, EVENTS, "tss", times=times).bootstrap(5, block="series")
