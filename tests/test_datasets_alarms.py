import functools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

import scorewise as sw
from scorewise.datasets import AlarmSeries, alarm_series

CHANCE = 1e-6  # of a test to fail without a fault
SCORES = [
    "accuracy",
    "error_rate",
    "tss",
    "balanced_accuracy",
    "f1",
    "csi",
    "hss",
    "mcc",
    "gmean",
    sw.scores.fbeta(2),
    sw.scores.cost(fp=1, fn=4),
    0.7 * sw.scores.tss + 0.3 * sw.scores.f1,
]


@functools.cache
def few(rate: float, skill: float) -> AlarmSeries:
    """What is known of a series does not depend on how long it is."""
    return alarm_series(10, rate=rate, skill=skill)


def beta(made: AlarmSeries) -> stats.rv_continuous:
    """The distribution of forecasts, as SciPy knows it."""
    spread = 1 / made.skill - 1
    return stats.beta(made.rate * spread, (1 - made.rate) * spread)


def value(score, made: AlarmSeries, threshold) -> np.ndarray:
    return sw.scores.get(score)(made.matrix(threshold)).numpy()


# ------------------------------------------------------------------------------------------------- what is known


@pytest.mark.parametrize(("rate", "skill"), [(0.1, 0.5), (0.3, 0.2), (0.6, 0.7)])
@pytest.mark.parametrize("threshold", [0.02, 0.3, 0.9])
def test_expected_matrix_is_the_integral_over_calibrated_forecasts(rate, skill, threshold):
    made = few(rate, skill)
    a, b = beta(made).args

    def share(moment, rest):
        """The integral of p^moment (1 - p)^rest over the density above the threshold, which may be infinite at 1."""
        tail = integrate.quad(lambda p: p ** (a - 1 + moment), threshold, 1, weight="alg", wvar=(0, b - 1 + rest))
        return tail[0] / special.beta(a, b)

    found = made.matrix(threshold)
    # quad is told to reach 1.5e-8
    assert float(found.tp) == pytest.approx(share(1, 0), abs=3e-8)
    assert float(found.fp) == pytest.approx(share(0, 1), abs=3e-8)
    assert float(found.tp + found.fn) == pytest.approx(rate, abs=1e-12)
    assert float(found.tn + found.fp) == pytest.approx(1 - rate, abs=1e-12)


@pytest.mark.parametrize("score", SCORES, ids=str)
@pytest.mark.parametrize(("rate", "skill"), [(0.1, 0.5), (0.35, 0.15)])
def test_stated_best_is_best_by_brute_force(score, rate, skill):
    made = few(rate, skill)
    threshold, best = made.best(score)
    grid = torch.linspace(0, 1, 50_001, dtype=torch.float64)
    sign = 1 if sw.scores.get(score).greater_is_better else -1
    values = sign * value(score, made, grid)
    assert sign * best >= values.max() - 1e-12
    assert threshold == pytest.approx(float(grid[int(values.argmax())]), abs=1e-4)  # it is flat at the top


@pytest.mark.parametrize(("rate", "skill"), [(0.1, 0.5), (0.35, 0.15)])
def test_best_thresholds_in_closed_form(rate, skill):
    made = few(rate, skill)
    f1, f2, csi = (made.best(score)[1] for score in ("f1", sw.scores.fbeta(2), "csi"))
    known = {
        "accuracy": 1 / 2,
        "tss": rate,
        "balanced_accuracy": rate,
        sw.scores.cost(fp=2, fn=6): 2 / 8,
        "f1": f1 / 2,
        sw.scores.fbeta(2): f2 / 5,
        "csi": csi / (1 + csi),
    }
    for score, threshold in known.items():
        assert made.best(score)[0] == pytest.approx(threshold, abs=1e-12)


def test_scores_that_are_best_at_the_end():
    made = alarm_series(10)
    assert made.best("recall") == (pytest.approx(0, abs=1e-3), pytest.approx(1))
    threshold, precision = made.best("precision")
    assert 0.99 < threshold < 1
    assert precision > 0.99


# ------------------------------------------------------------------------------------------------- what is drawn


def confidence(n: int) -> float:
    """How far a share of n draws is off, at most, but for a chance: by the inequality of Dvoretzky and others."""
    return math.sqrt(math.log(2 / CHANCE) / (2 * n))


@pytest.mark.parametrize("seed", range(3))
def test_best_threshold_of_many_samples_comes_near_to_the_known_one(seed):
    made = alarm_series(200_000, rate=0.2, skill=0.4, run=4, early=0.0, seed=seed)
    events = int(made.targets.sum())
    # TSS is the difference of two empirical distribution functions, each off by no more than this, everywhere
    off = confidence(events) + confidence(len(made) - events)
    threshold, best = made.best("tss")
    found = sw.best_threshold(made.predictions, made.targets, "tss")
    assert value("tss", made, found) >= best - 2 * off
    # and that is no empty word: few thresholds are as good
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)
    good = grid[torch.from_numpy(value("tss", made, grid) >= best - 2 * off)]
    assert good.max() - good.min() < 0.25
    assert good.min() <= found <= good.max()
    assert threshold == pytest.approx(0.2)


@functools.cache
def many(n: int) -> list[AlarmSeries]:
    return [alarm_series(n, rate=0.2, skill=0.4, early=1.0, seed=seed) for seed in range(3)]


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_more_samples_come_nearer(score):
    sign = 1 if sw.scores.get(score).greater_is_better else -1

    def lost(n: int) -> float:
        made = many(n)
        found = [sw.best_threshold(one.predictions, one.targets, score) for one in made]
        return max(sign * (one.best(score)[1] - value(score, one, at)) for one, at in zip(made, found, strict=True))

    # shares of 40,000 samples in runs of five are off by a few times sqrt(9 · 0.16 / 40,000) = 0.006 at most, where
    # 9 is how many times less such samples tell; what is lost at the best of what is off by that is about its square
    assert -1e-12 <= lost(40_000) < 0.006
    assert lost(40_000) < lost(300) + 1e-12


@pytest.mark.parametrize("early", [0.0, 1.0])
def test_forecasts_are_calibrated(early):
    made = alarm_series(100_000, rate=0.3, skill=0.3, early=early, seed=3)
    for low in (0.0, 0.1, 0.25, 0.5, 0.75):
        inside = (made.predictions >= low) & (made.predictions < low + 0.25)
        p, y = made.predictions[inside], made.targets[inside].double()
        # runs of five make counts of events vary more than by the binomial formula: by at most (2·5 − 1) times
        deviation = math.sqrt(9 * float((p * (1 - p)).sum())) / len(p)
        assert float(p.mean() - y.mean()) == pytest.approx(0, abs=5 * deviation)


@pytest.mark.parametrize("early", [0.0, 0.5, 1.0])
def test_forecasts_have_the_distribution_that_they_should(early):
    made = alarm_series(40_000, early=early, seed=5)
    spread = 1 / made.skill - 1
    a, b = made.rate * spread, (1 - made.rate) * spread
    for which, law in ((made.targets == 1, stats.beta(a + 1, b)), (made.targets == 0, stats.beta(a, b + 1))):
        p = made.predictions[which].numpy()
        off = np.abs(law.cdf(np.sort(p)) - (np.arange(len(p)) + 0.5) / len(p)).max()
        # three times: what comes is not independent from step to step
        assert off < 3 * confidence(len(p))


def test_skill_is_the_brier_skill_score():
    made = alarm_series(200_000, rate=0.2, skill=0.35, seed=2)
    y = made.targets.double()
    brier = float(((made.predictions - y) ** 2).mean())
    assert 1 - brier / (0.2 * 0.8) == pytest.approx(0.35, abs=0.02)


@pytest.mark.parametrize(("rate", "run"), [(0.1, 5.0), (0.05, 1.0), (0.7, 3.0)])
def test_rate_and_length_of_runs(rate, run):
    made = alarm_series(100_000, rate=rate, run=run, seed=1)
    y = made.targets.numpy()
    begins = int(((y[1:] == 1) & (y[:-1] == 0)).sum()) + int(y[0])
    # runs are geometric: the deviation of their mean is below run / sqrt(number)
    assert y.sum() / begins == pytest.approx(run, abs=5 * run / math.sqrt(begins))
    deviation = math.sqrt(2 * run * rate * (1 - rate) / len(y))
    assert y.mean() == pytest.approx(rate, abs=5 * deviation)


def test_false_alarms_are_early_ones():
    weight = sw.weights.Value(sw.weights.PUBLISHED)
    costs = []
    for early in (0.0, 0.5, 1.0):
        made = alarm_series(20_000, early=early)
        plain = sw.confusion_matrix(made.predictions, made.targets, 0.3)
        weighted = sw.confusion_matrix(made.predictions, made.targets, 0.3, weight, times=made.times)
        costs.append(float(weighted.fp / plain.fp))
    assert costs[0] > costs[1] + 0.1 > costs[2] + 0.2


def test_the_seed_decides():
    first, again, other = (alarm_series(500, seed=seed) for seed in (7, 7, 8))
    assert torch.equal(first.predictions, again.predictions)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.predictions, other.predictions)
    before = torch.get_rng_state()
    alarm_series(10)
    assert torch.equal(before, torch.get_rng_state())


def test_what_is_there():
    made = alarm_series(1234)
    assert len(made) == 1234
    assert made.predictions.dtype == torch.float64
    assert made.targets.dtype == torch.float32
    assert ((made.predictions >= 0) & (made.predictions <= 1)).all()
    assert made.times.tolist() == list(range(1234))
    assert repr(made).startswith("<AlarmSeries 1234 steps")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": 1.5}, TypeError, "must be ints, saw 1.5"),
        ({"n": 0}, ValueError, "at least 1, saw 0"),
        ({"lead": 0}, ValueError, "at least 1"),
        ({"rate": "a"}, TypeError, "rate must be a number"),
        ({"rate": 1.0}, ValueError, "rate must be between 0 and 1"),
        ({"skill": 1.0}, ValueError, r"skill must be from 0.001 to 0.9901 for a rate of 0.1"),
        ({"skill": math.nan}, ValueError, "skill must be"),
        ({"run": 0.5}, ValueError, "run must be at least 1 "),
        ({"rate": 0.8, "run": 2}, ValueError, "run must be at least 4 "),
        ({"early": 1.5}, ValueError, "early must be from 0 to 1"),
    ],
)
def test_arguments_that_cannot_be(arguments, error, message):
    with pytest.raises(error, match=message):
        alarm_series(**arguments)
