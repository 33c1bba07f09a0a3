"""Thresholds between the best one and the one that probabilities ask for."""

import math

import numpy as np
import pytest
import torch

import scorewise as sw
from scorewise.estimator.tuning import Rows, tuned
from tests.weight_oracles import ALL_WEIGHTS


def calibrated(n=4000):
    """Probabilities, and events that happen as often as they say: of each hundred alike, the right number."""
    p = (np.arange(n) % 100 + 0.5) / 100
    return torch.from_numpy(p), torch.from_numpy((np.arange(n) // 100 / (n / 100) < p).astype(float))


def bent(p, slope, offset):
    """Probabilities whose log-odds are wrong by a factor and a term."""
    return torch.sigmoid(slope * torch.logit(p) + offset)


def best_by_hand(p, y, score):
    """The best of all thresholds, and the score there, by trying each."""
    tried = [(float(score(sw.confusion_matrix(p, y, float(t)))), float(t)) for t in [-1.0, *p.unique()]]
    better = max if score.greater_is_better else min
    return better(tried)[::-1]


@pytest.mark.parametrize("wrong", [(1.0, 0.0), (0.5, -1.0), (3.0, 2.0)], ids=str)
@pytest.mark.parametrize("name", ["tss", "hss", "f1", "csi", "error_rate"])
def test_calibrated_or_not_what_is_asked_for_is_the_best(name, wrong):
    score = sw.scores.get(name)
    p, y = calibrated()
    _, most = best_by_hand(p, y, score)
    threshold = tuned(Rows(bent(p, *wrong), y, {}), score, None, 0.9, "plug_in")
    # of a hundred different probabilities the best or its neighbour
    assert float(score(sw.confusion_matrix(bent(p, *wrong), y, threshold))) == pytest.approx(most, rel=5e-3)


@pytest.mark.parametrize(("fp", "fn"), [(1, 5), (3, 1), (1, 1)])
@pytest.mark.parametrize("wrong", [(1.0, 0.0), (0.5, -1.0)], ids=str)
def test_costs_ask_for_the_threshold_that_theory_has(fp, fn, wrong):
    p, y = calibrated(40_000)
    threshold = tuned(Rows(bent(p, *wrong), y, {}), sw.scores.cost(fp=fp, fn=fn), None, 0.5, "plug_in")
    expected = bent(torch.tensor(fp / (fp + fn), dtype=torch.float64), *wrong)
    # events are whole, and so not quite as often as probabilities say
    assert math.log(threshold / (1 - threshold)) == pytest.approx(float(torch.logit(expected)), abs=0.02)


@pytest.mark.parametrize("told", ["score", "weight", "costs"])
@pytest.mark.parametrize(("fp", "fn"), [(1, 20), (3, 1)])
def test_costs_are_costs_however_they_are_told(told, fp, fn):
    p, y = calibrated(40_000)
    costs = torch.tensor([[fp, fn]], dtype=torch.float64).expand(len(y), 2)
    rows = Rows(p, y, {"costs": costs} if told == "costs" else {})
    score = sw.scores.cost(fp=fp, fn=fn) if told == "score" else sw.scores.get("cost")
    weight = sw.weights.Cost(fp=fp, fn=fn) if told == "weight" else None
    threshold = tuned(rows, score, weight, 0.5, "plug_in")
    assert math.log(threshold / (1 - threshold)) == pytest.approx(math.log(fp / fn), abs=0.02)


def test_between_is_half_way_in_log_odds():
    p, y = calibrated(400)
    rows, score = Rows(p, y, {}), sw.scores.get("f1")
    asked, half = (tuned(rows, score, None, 0.8, how) for how in ("plug_in", "between"))
    assert tuned(rows, score, None, 0.8, "best") == 0.8
    log_odds = [math.log(t / (1 - t)) for t in (asked, half, 0.8)]
    assert log_odds[1] == pytest.approx((log_odds[0] + log_odds[2]) / 2, rel=1e-9)


def test_probabilities_that_are_the_wrong_way_round_are_not_asked():
    p, y = calibrated(400)
    assert tuned(Rows(1 - p, y, {}), sw.scores.get("f1"), None, 0.3, "plug_in") == 0.3


@pytest.mark.parametrize("how", ["plug_in", "between"])
def test_probabilities_that_say_next_to_nothing_ask_for_a_threshold_all_the_same(how):
    """A slope of almost nothing would move log-odds by millions."""
    _, y = calibrated(400)
    hardly = torch.sigmoid(-3 + 1e-9 * y)
    for costs in ({"fp": 1, "fn": 1e6}, {"fp": 1e6, "fn": 1}):
        threshold = tuned(Rows(hardly, y, {}), sw.scores.cost(**costs), None, 0.04, how)
        assert 0 < threshold < 1


def test_one_class_alone_asks_for_nothing():
    p, _ = calibrated(100)
    assert tuned(Rows(p, torch.zeros(100), {}), sw.scores.get("f1"), None, 0.3, "between") == 0.3


def test_rows_that_do_not_count_have_no_say():
    p, y = calibrated(400)
    rest = {"mask": torch.arange(600) < 400, "sample_weight": torch.cat([torch.ones(500), torch.zeros(100)]).double()}
    more = Rows(torch.cat([p, torch.rand(200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)]),
                torch.cat([y, torch.ones(200)]), rest)  # fmt: skip
    alone = tuned(Rows(p, y, {}), sw.scores.get("hss"), None, 0.4, "between")
    assert tuned(more, sw.scores.get("hss"), None, 0.4, "between") == pytest.approx(alone, rel=1e-6)


def test_a_row_of_weight_two_is_two_rows():
    p, y = calibrated(400)
    twice = torch.arange(400) % 7 == 0
    weighted = Rows(p, y, {"sample_weight": 1.0 + twice.double()})
    repeated = Rows(torch.cat([p, p[twice]]), torch.cat([y, y[twice]]), {})
    f1 = sw.scores.get("f1")
    both = [tuned(rows, f1, None, 0.4, "plug_in") for rows in (weighted, repeated)]
    # the search for costs begins at the rate of rows, and ends where it ends; the calibration is one of an optimiser
    assert both[0] == pytest.approx(both[1], rel=1e-3)


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e6])
def test_what_all_rows_count_together_makes_no_difference(factor):
    p, y = calibrated(400)
    amounts = 1.0 + torch.arange(400, dtype=torch.float64) % 3
    f1 = sw.scores.get("f1")
    one, other = (tuned(Rows(p, y, {"sample_weight": k * amounts}), f1, None, 0.3, "plug_in") for k in (1, factor))
    assert other == pytest.approx(one, rel=1e-6)


def no_worse_than_the_rate(p, y, score, weight):
    """Whether what is asked for is at least as good as where the search for it begins, the rate of events."""
    threshold = tuned(Rows(p, y, {}), score, weight, 0.5, "plug_in")
    here, there = (float(score(sw.confusion_matrix(p, y, t, weight))) for t in (threshold, float(y.mean())))
    # probabilities lie a hundredth apart, and calibration moves a threshold by less: by one of them at most
    around = [float(score(sw.confusion_matrix(p, y, threshold + k / 100, weight))) for k in (-1, 0, 1)]
    return (max(around) >= there if score.greater_is_better else min(around) <= there) or math.isnan(here)


@pytest.mark.parametrize("name", sw.scores.names())
def test_every_score_gets_a_threshold_that_is_good_for_it(name):
    assert no_worse_than_the_rate(*calibrated(), sw.scores.get(name), None)


@pytest.mark.parametrize("case", ALL_WEIGHTS, ids=repr)
def test_every_weight_gets_a_threshold_that_is_good_for_it(case):
    assert no_worse_than_the_rate(*calibrated(), sw.scores.get("tss"), case.make())
