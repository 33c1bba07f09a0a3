"""The training loop: the objective, the race, interruptions, and several processes."""

import copy
import dataclasses
import functools
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from sklearn.datasets import make_classification
from torch import nn
from torch.nn import functional

import scorewise as sw
from scorewise._files import write
from scorewise.estimator import classifier, training
from scorewise.estimator.classifier import ScoreClassifier
from scorewise.estimator.descriptions import described, restored
from scorewise.estimator.network import TableNetwork
from scorewise.estimator.objective import MeanCrossEntropy, class_weights
from scorewise.estimator.problems import Labels
from scorewise.estimator.recipe import Recipe, between
from scorewise.weights import Cost, Value
from tests.ranks import results, together


def quick(*given, **options):
    """A classifier that is small, and so is its network, if it is no other one."""
    own = {"members": 2, "width": 16, "depth": 1} if options.get("module") is None else {}
    rest = {"steps": 16, "evaluations": 4, "warm_up": 0.0, "ensemble": None, "tune": "best", "progress": False}
    return ScoreClassifier(*given, **rest | own | {"random_state": 0} | options)


ROWS = 200
KEPT = np.arange(ROWS) % 4 == 1
X, Y = make_classification(ROWS, n_features=5, weights=[0.7], flip_y=0.1, random_state=0)
THREE = np.digitize(X[:, 0] + Y, [-0.5, 0.9])
LABELS = np.stack([Y, X[:, 1] > 0.5, X[:, 2] > 0], 1).astype(int)


def told(model):
    """All that two fits can differ in, but for time."""
    history = [{name: value for name, value in one.items() if name != "seconds"} for one in model.history_]
    return repr((model.predict_proba(X).tolist(), model.threshold_, model.best_score_, model.share_, history))


# --------------------------------------------------------------------------------------------------- cross entropy

N = 60


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TRUE = (numbers(N, 3, seed=1) > 0.5).double()
CLASSES = torch.arange(N) % 7 % 3
MASK = numbers(N, seed=2) > -1
AMOUNT = numbers(N, seed=3).abs()
COSTS = numbers(N, 3, 2, seed=4).abs()
WEIGHTS = torch.tensor([[1.0, 3.0], [0.5, 2.0], [1.0, 1.0]])


def by_loop(logits, targets, weights, mask=None, sample_weight=None, costs=None):
    """Σ v w (−log p) / Σ v w, one after another; by torch's own function of single samples."""
    total, amount = 0.0, 0.0
    for i in range(len(targets)):
        v = (1.0 if mask is None else float(mask[i])) * (1.0 if sample_weight is None else sample_weight[i])
        if not targets.is_floating_point():
            w = v * weights[targets[i]]
            total, amount = total + w * functional.cross_entropy(logits[i], targets[i]), amount + w
            continue
        for j in range(targets[i].numel()):
            x, y = logits[i].reshape(-1)[j], targets[i].reshape(-1)[j]
            own = weights.reshape(-1, 2)[j]
            w = v * own[int(y)] * (1.0 if costs is None else costs[i].reshape(-1, 2)[j, int(y)])
            total, amount = total + w * functional.binary_cross_entropy_with_logits(x, y), amount + w
    return total / amount


ENTROPIES = {
    "plain": ((N,), TRUE[:, 0], torch.ones(2), {}),
    "weights": ((N,), TRUE[:, 0], WEIGHTS[0], {}),
    "mask": ((N,), TRUE[:, 0], WEIGHTS[0], {"mask": MASK}),
    "samples": ((N,), TRUE[:, 0], WEIGHTS[0], {"mask": MASK, "sample_weight": AMOUNT}),
    "costs": ((N,), TRUE[:, 0], WEIGHTS[0], {"costs": COSTS[:, 0], "sample_weight": AMOUNT}),
    "labels": ((N, 3), TRUE, WEIGHTS, {"mask": MASK, "sample_weight": AMOUNT, "costs": COSTS}),
    "classes": ((N, 3), CLASSES, torch.tensor([1.0, 2.0, 4.0]), {"mask": MASK, "sample_weight": AMOUNT}),
}


@pytest.mark.parametrize("name", ENTROPIES)
def test_cross_entropy(name):
    shape, targets, weights, rest = ENTROPIES[name]
    logits = numbers(*shape).requires_grad_()
    loss = MeanCrossEntropy(weights)(logits, targets, **rest)
    expected = by_loop(logits, targets, weights.double(), **rest)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    found, wanted = (torch.autograd.grad(one, logits)[0] for one in (loss, expected))
    assert torch.allclose(found, wanted, rtol=1e-10, atol=1e-15)


def test_cross_entropy_is_that_of_torch():
    logits, weights = numbers(N, 3), torch.tensor([1.0, 2.0, 4.0])
    whole = functional.cross_entropy(logits, CLASSES, weights.double())
    assert MeanCrossEntropy(weights)(logits, CLASSES).item() == pytest.approx(whole.item(), rel=1e-12)


def test_cross_entropy_of_nothing():
    logits = numbers(N).requires_grad_()
    loss = MeanCrossEntropy(torch.ones(2))(logits, TRUE[:, 0], mask=torch.zeros(N, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert (logits.grad == 0).all()


def test_order_does_not_matter_to_cross_entropy():
    loss, logits = MeanCrossEntropy(torch.ones(2)), numbers(N)
    plain = loss(logits, TRUE[:, 0])
    assert loss(logits, TRUE[:, 0], groups=torch.zeros(N, dtype=torch.long), times=torch.arange(N)) == plain


@pytest.mark.parametrize("combined", [False, True])
def test_cross_entropy_in_micro_batches(combined):
    torch.manual_seed(0)
    model = nn.Linear(4, 1).double()
    twin = copy.deepcopy(model)
    inputs, targets = numbers(N, 4), TRUE[:, 0]
    loss = MeanCrossEntropy(WEIGHTS[0])
    if combined:
        loss = sw.CombinedLoss([(0.5, sw.ScoreLoss("f1")), (0.5, loss)])
    parts = [
        (x, y, {"sample_weight": w})
        for x, y, w in zip(*(each.split([40, 15, 5]) for each in (inputs, targets, AMOUNT)), strict=True)
    ]
    sw.parallel.accumulate(loss, nn.Sequential(model, nn.Flatten(0)), parts)
    loss(twin(inputs)[:, 0], targets, sample_weight=AMOUNT).backward()
    assert torch.allclose(model.weight.grad, twin.weight.grad, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("counted", [None, AMOUNT], ids=["alike", "weighted"])
def test_balanced_classes(balance, counted):
    amounts = [1.0] * N if counted is None else counted.tolist()
    for targets, classes in ((CLASSES, 3), (TRUE[:, 0], None)):
        found = class_weights(targets, counted, balance, classes).tolist()
        counts = [sum(amounts[i] for i in range(N) if targets[i] == k) for k in range(len(found))]
        raw = [(sum(counts) / count) ** balance for count in counts]
        mean = sum(one * count for one, count in zip(raw, counts, strict=True)) / sum(counts)
        assert found == pytest.approx([one / mean for one in raw], rel=1e-6)
        if balance == 1:
            in_all = [w * count for w, count in zip(found, counts, strict=True)]
            assert in_all == pytest.approx([sum(counts) / len(counts)] * len(counts), rel=1e-6)
    each = class_weights(TRUE, counted, balance, None)
    assert each.shape == (3, 2)
    assert each[1].tolist() == class_weights(TRUE[:, 1], counted, balance, None).tolist()
    assert class_weights(torch.tensor([0, 0, 2]), None, balance, 3)[1] > 0


def test_a_class_whose_samples_do_not_count_is_as_one_without_samples():
    absent = class_weights(torch.tensor([0, 0, 2]), None, 1.0, 3)
    targets, counted = torch.tensor([0, 1, 0, 2, 1]), torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    assert class_weights(targets, counted, 1.0, 3).tolist() == absent.tolist()


# ------------------------------------------------------------------------------------------------- the first loss


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"share": 0.0},
        {"share": 1.0},
        {"share": 0.0, "balance": 1.0},
        {"share": 1.0, "weight": Cost(fp=3.0)},
        {"share": 1.0, "prior": sw.priors.Uniform(0.2, 0.7)},
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_that_is_trained_for(given, weighted):
    """All rows in one batch, and one step from a network that is known: its loss can be written down."""
    module = nn.Linear(5, 1)
    amounts = np.linspace(0, 2, ROWS) if weighted else None
    model = quick(module=module, steps=1, evaluations=1, batch_size=ROWS, **given)
    model.fit(X, Y, amounts, validation=KEPT)
    with torch.no_grad():
        logits = module(torch.from_numpy(X).float())[:, 0].double().numpy()[~KEPT]
    y, v = Y[~KEPT], np.ones(ROWS)[~KEPT] if amounts is None else amounts[~KEPT]
    p = 1 / (1 + np.exp(-logits))
    low, high = (0.2, 0.7) if "prior" in given else (0.0, 1.0)
    alarm = np.clip((p - low) / (high - low), 0, 1)
    fp = (3.0 if "weight" in given else 1.0) * (v * (1 - y) * alarm).sum()
    tp, fn, tn = (v * y * alarm).sum(), (v * y * (1 - alarm)).sum(), (v * (1 - y) * (1 - alarm)).sum()
    tss = tp / (tp + fn) - fp / (fp + tn)
    positive = (v * y).sum() / v.sum()
    w = v * np.where(y == 1, 1 / positive, 1 / (1 - positive)) if "balance" in given else v
    entropy = -(w * np.log(np.where(y == 1, p, 1 - p))).sum() / w.sum()
    share = given.get("share", 0.5)
    # float32 in the network and in the loss
    assert model.history_[0]["loss"] == pytest.approx(-share * tss + (1 - share) * entropy, rel=1e-5, abs=1e-6)


def test_costs_are_trained_for_as_those_of_one_sample():
    """Beside cross entropy, which is a mean, and whatever the size of a batch."""
    module = nn.Linear(5, 1)
    model = quick(sw.scores.cost(fp=2.0), module=module, share=1.0, steps=1, evaluations=1, batch_size=ROWS)
    model.fit(X, Y, validation=KEPT)
    with torch.no_grad():
        p = module(torch.from_numpy(X).float())[:, 0].double().sigmoid().numpy()[~KEPT]
    each = np.where(Y[~KEPT] == 1, 1 - p, 2 * p)
    assert model.history_[0]["loss"] == pytest.approx(each.mean(), rel=1e-5)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("by", ["costs", "weight"])
@pytest.mark.parametrize("weighted", [False, True])
def test_costs_push_as_much_as_they_are(by, exact, weighted):
    """A false negative, of 100, a hundred times as much as a false positive, of 1: what is divided by is a count."""
    weight = Cost(fp=1.0, fn=100.0) if by == "weight" else None
    rest = {"costs": torch.tensor([1.0, 100.0]).expand(N, 2)} if by == "costs" else {}
    rest |= {"sample_weight": AMOUNT} if weighted else {}
    loss = Labels(1, False, "cost", weight, "macro", None).score_loss(None, exact=exact, sync=False)
    logits = numbers(N).requires_grad_()
    (found,) = torch.autograd.grad(loss(logits, TRUE[:, 0], **rest), logits)
    p, v = logits.detach().sigmoid(), AMOUNT if weighted else torch.ones(N)
    wanted = torch.stack([v[i] * p[i] * (1 - p[i]) * (-100 if TRUE[i, 0] else 1) for i in range(N)]) / v.sum()
    assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
def test_costs_of_classes_are_trained_for_as_those_of_one_sample(weighted):
    module = nn.Linear(5, 3)
    costs = sw.multiclass.scores.cost([[0, 1, 2], [3, 0, 1], [9, 4, 0]])
    amounts = np.linspace(0, 2, ROWS) if weighted else np.ones(ROWS)
    model = quick(costs, module=module, share=1.0, steps=1, evaluations=1, batch_size=ROWS)
    model.fit(X, THREE, amounts if weighted else None, validation=KEPT)
    v = torch.from_numpy(amounts[~KEPT])
    with torch.no_grad():
        logits = module(torch.from_numpy(X[~KEPT]).float()).double()
    whole = sw.multiclass.SimplexLoss(costs)(logits, torch.from_numpy(THREE[~KEPT]), sample_weight=v).item()
    assert model.history_[0]["loss"] == pytest.approx(whole / v.sum().item(), rel=1e-5)


def test_a_score_of_the_users_own_is_trained_for_as_it_is():
    """Whatever its range: a ratio of cells is not divided by the number of samples, and a cost is."""
    for known in (sw.scores.get("f1"), sw.scores.get("hss"), sw.scores.cost(fp=2.0)):
        own = sw.scores.Score("own", known.function, greater_is_better=known.greater_is_better)
        assert own.range == (-math.inf, math.inf)
        one, other = (quick(each).fit(X, Y, validation=KEPT) for each in (known, own))
        assert told(one) == told(other)


def test_labels_scores_grow_all_or_none():
    with pytest.raises(ValueError, match=r"of the scores \['cost', 'f1', 'f1'\] some grow with the number of samples"):
        quick(["cost", "f1", "f1"]).fit(X, LABELS)
    alike = quick(["cost", sw.scores.cost(fn=3.0), "cost"]).fit(X, LABELS, validation=KEPT)
    assert alike.best_score_ < 0


def test_members_are_trained_together():
    """Their samples are those of one batch, as many times as there are members."""
    module = nn.Sequential(nn.Linear(5, 2), nn.Unflatten(1, (2, 1)))
    model = quick("f1", module=module, share=1.0, steps=1, evaluations=1, batch_size=ROWS).fit(X, Y, validation=KEPT)
    with torch.no_grad():
        p = module(torch.from_numpy(X).float()).double().sigmoid().numpy()[~KEPT, :, 0]
    y = Y[~KEPT]
    tp, fp, fn = (y[:, None] * p).sum(), ((1 - y)[:, None] * p).sum(), (y[:, None] * (1 - p)).sum()
    assert model.history_[0]["loss"] == pytest.approx(-2 * tp / (2 * tp + fp + fn), rel=1e-5)


def test_no_window_reaches_into_another_member():
    weight = Value([0.9, 0.6])
    flat = nn.Linear(5, 1)
    twice = nn.Sequential(flat, nn.Linear(1, 2), nn.Unflatten(1, (2, 1)))
    with torch.no_grad():
        twice[1].weight.fill_(1.0)
        twice[1].bias.zero_()
    options = {"share": 1.0, "steps": 1, "evaluations": 1, "batch_size": ROWS, "weight": weight}
    one, two = (quick("tss", module=module, **options).fit(X, Y) for module in (flat, twice))
    assert one.history_[0]["loss"] == pytest.approx(two.history_[0]["loss"], rel=1e-5)


def test_the_exact_loss_is_the_expected_score():
    module = nn.Linear(5, 1)
    model = quick("f1", module=module, exact=True, share=1.0, steps=1, evaluations=1, batch_size=ROWS)
    model.fit(X, Y, validation=KEPT)
    with torch.no_grad():
        p = module(torch.from_numpy(X).float())[:, 0].double().sigmoid().numpy()[~KEPT]
    y = Y[~KEPT]
    ends = np.concatenate([[0.0], np.sort(p), [1.0]])
    mean = 0.0
    for low, high in itertools.pairwise(ends):  # between neighbours no decision changes
        decided = p > (low + high) / 2
        tp, wrong = (decided & (y == 1)).sum(), (decided != y).sum()
        mean += (high - low) * (2 * tp / (2 * tp + wrong) if tp else 0.0)
    assert model.history_[0]["loss"] == pytest.approx(-mean, rel=1e-5)


# ------------------------------------------------------------------------------------------------------ the recipe


def recipe(shares, **given):
    params = quick(share=shares, **given).get_params(deep=False)
    return Recipe.of(params, Labels(1, False, "tss", None, "macro", None), 1000, 0)


@pytest.mark.parametrize(
    ("shares", "marks", "runs"),
    [
        ((0.5,), [1.0], 1.0),
        ((0.0, 0.5), [0.5, 1.0], 2 * 0.5 + 0.5),
        ((0.0, 0.5, 0.9), [0.25, 0.5, 1.0], 3 * 0.25 + 2 * 0.25 + 0.5),
        ((0.0, 0.3, 0.6, 0.9), [0.25, 0.5, 1.0], 4 * 0.25 + 2 * 0.25 + 0.5),
    ],
)
def test_how_long_a_race_is(shares, marks, runs):
    assert recipe(shares).marks == marks
    assert recipe(shares).runs == pytest.approx(runs)
    assert recipe(shares, warm_up=0.5).runs == pytest.approx(0.5 + 0.5 * runs)


def test_shares_in_any_order_and_repeatedly():
    assert recipe((0.9, 0.0, 0.9)).shares == (0.0, 0.9)
    assert recipe(np.array([0.9, 0.0])).shares == (0.0, 0.9)


def test_defaults_depend_on_the_table():
    """256 samples or a quarter of the rows; more steps for more rows."""
    params = ScoreClassifier().get_params(deep=False)
    problem = Labels(1, False, "tss", None, "macro", None)
    sizes = [Recipe.of(params, problem, rows, 0).batch_size for rows in (20, 400, 100_000)]
    assert sizes == [32, 100, 256]
    steps = [Recipe.of(params, problem, rows, 0).steps for rows in (10, 1000, 20_000, 200_000)]
    assert steps == sorted(set(steps))


def test_a_prior_on_the_way():
    first, last = sw.priors.RaisedCosine(0.4, 0.4), sw.priors.RaisedCosine(0.5, 0.1)
    half = between(first, last, 0.5)
    assert (half.mu, half.delta) == pytest.approx((0.45, 0.25))
    assert [repr(between(first, last, progress)) for progress in (0.0, 1.0)] == [repr(first), repr(last)]
    assert between(first, first, 0.3) is first


@pytest.mark.parametrize("evaluations", [1, 4, 16])
@pytest.mark.parametrize("warm_up", [0.0, 0.25])
def test_priors_move_with_every_step(monkeypatch, evaluations, warm_up):
    """From the first, in the first step after the warm up, to the last, in the last step."""
    seen = []
    plain = Labels.score_loss

    def watched(self, prior, **rest):
        seen.append(prior)
        return plain(self, prior, **rest)

    monkeypatch.setattr(Labels, "score_loss", watched)
    pair = sw.priors.RaisedCosine(0.5, 0.5), sw.priors.RaisedCosine(0.5, 0.1)
    quick(prior=pair, evaluations=evaluations, warm_up=warm_up).fit(X, Y)
    widths = [width for width, _ in itertools.groupby(prior.delta for prior in seen)]
    steps = 16 - round(16 * warm_up)
    assert widths == pytest.approx([0.5 - 0.4 * k / (steps - 1) for k in range(steps)])
    assert (widths[0], widths[-1]) == (0.5, 0.1)


# --------------------------------------------------------------------------------------------------------- the race


def of_share(model, share):
    return {one["step"]: (one["value"], one["threshold"]) for one in model.history_ if one["share"] == share}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"weight_average": 0.8},
        {"warm_up": 0.25},
        {"warm_up": 0.25, "weight_average": 0.8, "shift": True},
        {"dropout": 0.5, "warm_up": 0.5},
    ],
    ids=repr,
)
def test_runners_know_nothing_of_each_other(given):
    """Each has the history that it has alone, until it drops out."""
    options = {"steps": 32, "evaluations": 8, **given}
    race = quick(share=(0.3, 0.6, 0.9), **options).fit(X, Y, validation=KEPT)
    for share in (0.3, 0.6, 0.9):
        alone = of_share(quick(share=share, **options).fit(X, Y, validation=KEPT), share)
        found = of_share(race, share)
        common = set(found) & set(alone)
        assert len(common) >= 1
        assert {step: found[step] for step in common} == {step: alone[step] for step in common}


def standing(history, begun, until):
    """The mean of the best three evaluations, of those that are its own."""
    values = sorted(value for step, (value, _) in history.items() if begun < step <= until)[-3:]
    return sum(values) / len(values)


@pytest.mark.parametrize("evaluations", [1, 2, 8, 32])
@pytest.mark.parametrize("warm_up", [0.0, 0.5])
def test_the_worse_half_drops_out(evaluations, warm_up):
    steps, warm = 32, round(32 * warm_up)
    model = quick(share=(0.0, 0.4, 0.6, 0.9), steps=steps, evaluations=evaluations, warm_up=warm_up).fit(X, Y)
    last = {share: max(of_share(model, share)) for share in (0.0, 0.4, 0.6, 0.9)}
    ends = sorted(last.values())
    rest = steps - warm
    assert ends == [warm + rest // 4] * 2 + [warm + rest // 2, steps]
    for mark, alive in ((warm + rest // 4, 4), (warm + rest // 2, 2)):
        there = [share for share in last if last[share] >= mark]
        assert len(there) == alive
        best = {share: standing(of_share(model, share), warm, mark) for share in there}
        stay = [best[share] for share in there if last[share] > mark]
        leave = [best[share] for share in there if last[share] == mark]
        assert min(stay) >= max(leave)
    assert len({(one["share"], one["step"]) for one in model.history_}) == len(model.history_)
    # judged as often as asked for, and where some drop out
    assert len(of_share(model, max(last, key=last.get))) <= evaluations + 3


@pytest.mark.parametrize("given", [{}, {"warm_up": 0.5}, {"warm_up": 0.5, "shift": True}], ids=repr)
def test_the_winner_is_what_predicts(given):
    model = quick(share=(0.0, 0.5, 0.9), **given).fit(X, Y, validation=KEPT)
    longest = max(one["step"] for one in model.history_)
    assert longest == 16
    own = [one for one in model.history_ if one["share"] == model.share_]
    assert model.best_score_ == max(one["value"] for one in own)
    assert model.threshold_ in [one["threshold"] for one in own if one["value"] == model.best_score_]
    assert model.score(X[KEPT], Y[KEPT]) == pytest.approx(model.best_score_, rel=1e-12)


def test_shares_are_the_same_in_the_warm_up():
    model = quick(share=(0.5, 0.9), warm_up=0.5, evaluations=8).fit(X, Y)
    assert sorted(of_share(model, 0.0)) == [2, 4, 6, 8]
    assert all(min(of_share(model, share)) > 8 for share in (0.5, 0.9))


@pytest.mark.parametrize(("prior", "middle"), [(None, 0.5), (sw.priors.Uniform(0.1, 0.3), 0.2)], ids=["half", "mean"])
def test_a_shift_moves_the_threshold_to_the_middle(monkeypatch, prior, middle):
    offsets = []
    plain = training.Trainer._shift

    def watched(self, trunk):
        plain(self, trunk)
        offsets.append(trunk.offset.item())

    monkeypatch.setattr(training.Trainer, "_shift", watched)
    # a network that hardly learns, so that one threshold is the best all the time
    module = nn.Linear(5, 1)
    options = {"module": module, "warm_up": 0.5, "learning_rate": 1e-9, "weight_decay": 0.0, "prior": prior}
    before = quick(**options).fit(X, Y, validation=KEPT)
    after = quick(**options, shift=True).fit(X, Y, validation=KEPT)
    threshold = before.threshold_
    assert offsets == pytest.approx([math.log(middle / (1 - middle)) - math.log(threshold / (1 - threshold))], rel=1e-3)
    p = before.predict_proba(X)[KEPT, 1]
    moved = 1 / (1 + (1 - p) / p * math.exp(-offsets[0]))
    assert ((moved > middle) == (p > threshold)).all()
    # what is the best does not change, and the loss is that of what was moved
    assert after.best_score_ == before.best_score_
    assert after.history_[-1]["threshold"] != before.history_[-1]["threshold"]
    assert after.history_[-1]["loss"] != pytest.approx(before.history_[-1]["loss"], rel=1e-3)


def test_what_was_moved_stays_so_in_predictions(monkeypatch, tmp_path):
    offsets = []
    plain = training.Trainer._shift

    def watched(self, trunk):
        plain(self, trunk)
        offsets.append(trunk.offset.item())

    monkeypatch.setattr(training.Trainer, "_shift", watched)
    # looks at what tells nothing at first, and learns slowly
    table = np.random.default_rng(0).normal(size=(ROWS, 2)) + np.outer(Y, [2, 0])
    module = nn.Linear(2, 1)
    nn.init.constant_(module.weight[0, 1:], 2.0)
    model = quick("f1", module=module, warm_up=0.25, shift=True, learning_rate=0.2).fit(table, Y, validation=KEPT)
    best = max(model.history_, key=lambda one: one["value"])
    assert best["step"] > 4  # after the shift
    with torch.no_grad():
        logits = model.networks_[0](torch.from_numpy(table).float()).double()[:, 0].numpy()
    p = 1 / (1 + np.exp(-logits - offsets[0]))
    assert abs(offsets[0]) > 0.01
    assert model.predict_proba(table)[:, 1] == pytest.approx(p, rel=1e-6)
    model.save(tmp_path / "model")
    twin = ScoreClassifier.load(tmp_path / "model", module=module)
    assert twin.predict_proba(table).tolist() == model.predict_proba(table).tolist()


def test_patience():
    model = quick(steps=60, evaluations=60, patience=3, learning_rate=0.05).fit(X, Y, validation=KEPT)
    values = [one["value"] for one in model.history_]
    assert len(values) < 60
    first = values.index(max(values))
    assert len(values) - 1 - first == 3
    stale = [k - int(np.argmax(values[: k + 1])) for k in range(len(values))]
    assert max(stale[:-1]) < 3


@pytest.mark.parametrize("patience", [1, 2])
def test_patience_begins_after_the_warm_up(patience):
    """What happens in it, progress or none, is not counted."""
    table = np.random.default_rng(0).normal(size=(ROWS, 2)) + np.outer(Y, [2, 0])
    module = nn.Linear(2, 1)  # begins with the wrong sign, and so without progress
    nn.init.constant_(module.weight, -1.0)
    nn.init.zeros_(module.bias)
    options = {"steps": 32, "evaluations": 16, "warm_up": 0.5, "patience": patience, "learning_rate": 0.1}
    model = quick("f1", module=module, share=(0.5, 0.9), **options).fit(table, Y, validation=KEPT)

    def stale(share):
        values = [value for value, _ in of_share(model, share).values()]
        return [k - int(np.argmax(values[: k + 1])) for k in range(len(values))]

    assert sorted(of_share(model, 0.0)) == list(range(2, 17, 2))
    assert max(stale(0.0)) >= patience  # but it went on
    for share in (0.5, 0.9):
        assert min(of_share(model, share)) == 18
        assert max(stale(share)[:-1]) < patience
    assert stale(model.share_)[-1] == patience
    assert model.share_ in (0.5, 0.9)


def test_every_share_has_its_chance_though_the_warm_up_was_better():
    options = {"steps": 32, "evaluations": 32, "warm_up": 0.5, "patience": 1, "learning_rate": 0.02}
    model = quick("f1", share=(0.5, 0.9), **options).fit(X, Y, validation=KEPT)
    values = [value for value, _ in of_share(model, 0.0).values()]
    assert int(np.argmax(values)) < 14  # of 16: out of patience, if these were counted
    for share in (0.5, 0.9):
        assert sorted(of_share(model, share))[:2] == [17, 18]


def test_a_warm_up_is_one_step_at_least():
    model = quick(share=(0.5, 0.9), warm_up=0.01, evaluations=16).fit(X, Y)
    assert sorted(of_share(model, 0.0)) == [1]
    assert min(of_share(model, 0.5)) == 2


def test_chosen_is_what_predicts():
    for given in ({}, {"warm_up": 0.5}, {"warm_up": 0.5, "share": (0.2, 0.9)}):
        model = quick(ensemble="mean", ensemble_fraction=0.6, evaluations=16, **given).fit(X, Y, validation=KEPT)
        chosen = [one for one in model.history_ if one["chosen"]]
        assert len(chosen) == len(model.networks_) > 1
        (winner,) = {one["share"] for one in model.history_ if one["step"] == 16}
        way = [one for one in model.history_ if one["share"] == winner or ("warm_up" in given and one["step"] <= 8)]
        assert chosen == [one for one in way if one["value"] >= 0.6 * max(each["value"] for each in way)]


def test_the_learning_rate_rises_and_falls(monkeypatch):
    rates = []
    plain = training.Trainer._step

    def watched(self, *rest):
        loss = plain(self, *rest)
        rates.append(self._optimizer.param_groups[0]["lr"])
        return loss

    monkeypatch.setattr(training.Trainer, "_step", watched)
    quick(steps=100, learning_rate=0.01).fit(X, Y)
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert 2 <= top <= 6  # a twentieth
    assert rates[50] == pytest.approx(0.005)  # half a cosine is at its half
    assert max(rates) <= 0.01
    assert rates[-1] < 1e-5


def test_averages_of_weights(monkeypatch):
    """Judged and kept is a running average, made here from the weights after every step."""
    after = []
    plain = training.Trainer._step

    def watched(self, runner, *rest):
        loss = plain(self, runner, *rest)
        after.append(self.network.weight.detach().clone())
        return loss

    monkeypatch.setattr(training.Trainer, "_step", watched)
    model = quick(module=nn.Linear(5, 1), weight_average=0.7, steps=12, evaluations=1).fit(X, Y)
    average = after[0]
    for k in range(1, 12):
        rate = min(0.7, (1 + k) / (10 + k))
        average = rate * average + (1 - rate) * after[k]
    assert torch.allclose(model.networks_[0].weight, average, rtol=1e-5, atol=1e-7)  # float32
    assert not torch.allclose(model.networks_[0].weight, after[-1], rtol=1e-3, atol=1e-5)


# ------------------------------------------------------------------------------------------------------ interruptions


class Stops(nn.Module):
    """Calls a function in one of its training steps, counted over all copies."""

    steps, at, act = 0, math.inf, None

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        if self.training:
            Stops.steps += 1
            if Stops.steps == Stops.at:
                Stops.act()
        return self.layers(x)


def stopping(at, act):
    Stops.steps, Stops.at, Stops.act = 0, at, act


@pytest.fixture(autouse=True)
def _as_if_alone():
    """Networks that tests make begin the same, whatever ran before; and nothing stops."""
    torch.manual_seed(0)
    stopping(math.inf, None)


class Killed(BaseException):
    """Nobody expects it."""


def kill():
    raise Killed


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("done", [5, 8, 9, 15])
def test_interrupted_by_hand(done):
    whole = quick(module=Stops()).fit(X, Y, validation=KEPT)
    stopping(done + 1, interrupt)
    with pytest.warns(UserWarning, match="fit was interrupted: the best network so far is kept"):
        model = quick(module=Stops()).fit(X, Y, validation=KEPT)
    seen = done // 4

    def known(one):
        return [{**each, "seconds": 0, "chosen": None} for each in one.history_]

    assert [one["step"] for one in model.history_ if one["chosen"]] == [
        max(model.history_, key=lambda one: one["value"])["step"]
    ]
    assert known(model) == known(whole)[:seen]
    assert model.best_score_ == max(one["value"] for one in whole.history_[:seen])
    assert model.score(X[KEPT], Y[KEPT]) == pytest.approx(model.best_score_, rel=1e-12)


@pytest.mark.parametrize("given", [{}, {"share": (0.0, 0.9)}, {"warm_up": 0.5}, {"ensemble": "greedy"}], ids=repr)
@pytest.mark.parametrize("done", [0, 2])
def test_interrupted_before_anything_was_judged(done, given):
    stopping(done + 1, interrupt)
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = quick(module=Stops(), **given).fit(X, Y, validation=KEPT)
    assert [one["step"] for one in model.history_] == [done]
    assert math.isnan(model.history_[0]["loss"])
    assert model.score(X[KEPT], Y[KEPT]) == pytest.approx(model.best_score_, rel=1e-12)


@pytest.mark.parametrize("given", [{}, {"share": (0.0, 0.9)}, {"warm_up": 0.5}, {"ensemble": "vote"}], ids=repr)
@pytest.mark.parametrize("at", [1, 3, 6])
def test_interrupted_while_steps_are_measured(at, given):
    stopping(at, interrupt)
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = quick(module=Stops(), max_time=1e6, **given).fit(X, Y, validation=KEPT)
    assert Stops.steps == at
    assert len(model.history_) == 1
    assert model.score(X[KEPT], Y[KEPT]) == pytest.approx(model.best_score_, rel=1e-12)


@pytest.mark.parametrize("ensemble", [None, "mean", "vote"])
@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize("before", ["kept", "history"])
def test_interrupted_between_what_predicts_and_what_is_told_of_it(monkeypatch, before, at, ensemble):
    calls, refuse, plain = itertools.count(1), iter([True]), training.Trainer._evaluate

    class Kept(dict):
        def __setitem__(self, key, value):
            if next(refuse, False):
                raise KeyboardInterrupt
            super().__setitem__(key, value)

    class History(list):
        def append(self, value):
            if next(refuse, False):
                raise KeyboardInterrupt
            super().append(value)

    def watched(self, runner, loss):
        if next(calls) == at:
            setattr(runner, before, {"kept": Kept, "history": History}[before](getattr(runner, before)))
        plain(self, runner, loss)

    monkeypatch.setattr(training.Trainer, "_evaluate", watched)
    fraction = {} if ensemble is None else {"ensemble_fraction": 0.0}
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = quick(ensemble=ensemble, **fraction).fit(X, Y, validation=KEPT)
    assert len(model.history_) == max(1, at - 1)
    assert len(model.networks_) == (1 if ensemble is None else max(1, at - 1))
    assert model.score(X[KEPT], Y[KEPT]) == pytest.approx(model.best_score_, rel=1e-12)


FITS = {
    "plain": {},
    "race": {"share": (0.0, 0.5, 0.9), "ensemble": "vote", "ensemble_fraction": 0.5},
    "all": {
        "share": (0.2, 0.5, 0.9),
        "warm_up": 0.25,
        "shift": True,
        "weight_average": 0.8,
        "ensemble": "mean",
        "prior": (sw.priors.RaisedCosine(0.5, 0.5), sw.priors.RaisedCosine(0.5, 0.2)),
    },
    "patience": {"share": (0.0, 0.9), "evaluations": 16, "patience": 2},
    "greedy": {"warm_up": 0.5, "ensemble": "greedy"},
}


@pytest.mark.parametrize("name", FITS)
def test_killed_and_called_again(name, tmp_path):
    path = tmp_path / "folder" / "checkpoint"
    make = partial(quick, module=Stops(), **FITS[name])
    whole = told(make().fit(X, Y))
    steps = Stops.steps
    assert told(make().fit(X, Y, checkpoint=path)) == whole
    assert not list(path.parent.iterdir())
    for at in range(1, steps + 1, 3):
        stopping(at, kill)
        with pytest.raises(Killed):
            make().fit(X, Y, checkpoint=path)
        stopping(math.inf, None)
        assert told(make().fit(X, Y, checkpoint=path)) == whole
        assert not list(path.parent.iterdir()) if path.parent.exists() else at < 5
        assert Stops.steps < steps or at <= 5


def test_killed_again_and_again(tmp_path):
    make = partial(quick, module=Stops(), **FITS["all"])
    whole, path = told(make().fit(X, Y)), tmp_path / "checkpoint"
    for _ in range(100):
        stopping(6, kill)
        try:
            model = make().fit(X, Y, checkpoint=path)
        except Killed:
            continue
        break
    assert told(model) == whole


SCRIPT = """
import os, signal, sys
from tests.test_training import LABELS, X, quick, told
from scorewise.estimator.network import TableNetwork

steps, plain = 0, TableNetwork.forward

def forward(self, *inputs):
    global steps
    steps += self.training
    if steps == 18:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, *inputs)

TableNetwork.forward = forward
quick(share=(0.0, 0.9), warm_up=0.25, dropout=0.3).fit(X, LABELS, checkpoint=sys.argv[1])
"""


def test_killed_by_the_system(tmp_path):
    path = tmp_path / "checkpoint"
    killed = subprocess.run(  # noqa: S603  # our own
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(path)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert path.exists()
    model = quick(share=(0.0, 0.9), warm_up=0.25, dropout=0.3)
    trained = 0
    plain = TableNetwork.forward

    def forward(self, *inputs):
        nonlocal trained
        trained += self.training
        return plain(self, *inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableNetwork, "forward", forward)
        again = told(model.fit(X, LABELS, checkpoint=path))
        rest = trained
        whole = told(model.fit(X, LABELS))
    assert again == whole
    assert not path.exists()
    assert (rest, trained) == (6, 6 + 22)  # 4, twice 6, and 6


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    path = tmp_path / "checkpoint"

    def left_by(model, *data, **rest):
        stopping(10, kill)
        with pytest.raises(Killed):
            model.fit(*data, checkpoint=path, **rest)
        stopping(math.inf, None)

    make = partial(quick, module=Stops())
    left_by(make(), X, Y)
    other = np.where(np.arange(ROWS)[:, None] == 7, X + 1e-3, X)
    for model, data, rest in (
        (make(learning_rate=5e-3), (X, Y), {}),
        (make("f1"), (X, Y), {}),
        (make(random_state=1), (X, Y), {}),
        (make(), (other, Y), {}),
        (make(), (X, 1 - Y), {}),
        (make(), (X, Y, np.ones(ROWS)), {}),
        (make(), (X, Y), {"validation": KEPT}),
    ):
        with pytest.raises(ValueError, match="was left by a fit with other parameters or other data"):
            model.fit(*data, checkpoint=path, **rest)
    assert path.exists()
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match="is no checkpoint of a fit"):
        make().fit(X, Y, checkpoint=path)
    path.write_text("something else")
    with pytest.raises(ValueError, match="is no checkpoint of a fit"):
        make().fit(X, Y, checkpoint=path)
    assert path.read_text() == "something else"


def test_a_checkpoint_of_other_weights_to_begin_with_is_refused(tmp_path):
    path = tmp_path / "checkpoint"
    module, other = Stops(), Stops()
    assert repr(module) == repr(other)
    with torch.no_grad():
        other.layers[0].bias[3] += 0.01
    stopping(10, kill)
    with pytest.raises(Killed):
        quick(module=module).fit(X, Y, checkpoint=path)
    stopping(math.inf, None)
    with pytest.raises(ValueError, match="was left by a fit with other parameters or other data"):
        quick(module=other).fit(X, Y, checkpoint=path)
    assert path.exists()


def test_a_checkpoint_does_not_depend_on_where_it_is_and_who_looks(tmp_path, capsys):
    path = tmp_path / "checkpoint"
    whole = told(quick(module=Stops()).fit(X, Y))
    for changed in ({"progress": True}, {"fabric": Fabric(accelerator="cpu", devices=1)}):
        stopping(10, kill)
        with pytest.raises(Killed):
            quick(module=Stops()).fit(X, Y, checkpoint=path)
        stopping(math.inf, None)
        assert told(quick(module=Stops(), **changed).fit(X, Y, checkpoint=path)) == whole
        assert Stops.steps == 8  # of 16; 8 had been done
    capsys.readouterr()


def test_a_checkpoint_knows_functions_by_name(tmp_path):
    """In another process they are at another address."""
    path = tmp_path / "checkpoint"

    def at_another_address():
        def make(inputs, outputs):
            return Stops()

        return make

    keep = [at_another_address() for _ in range(2)]
    stopping(10, kill)
    with pytest.raises(Killed):
        quick(module=keep[0]).fit(X, Y, checkpoint=path)
    stopping(math.inf, None)
    quick(module=keep[1]).fit(X, Y, checkpoint=path)
    assert Stops.steps == 8  # of 16; 8 had been done


def test_a_checkpoint_without_random_state(tmp_path):
    """What was drawn is in the file."""
    path = tmp_path / "checkpoint"
    stopping(10, kill)
    with pytest.raises(Killed):
        quick(module=Stops(), random_state=None).fit(X, Y, checkpoint=path)
    stopping(math.inf, None)
    quick(module=Stops(), random_state=None).fit(X, Y, checkpoint=path)
    assert Stops.steps == 8


def test_a_failure_is_told():
    broken = nn.Linear(5, 1)
    nn.init.constant_(broken.bias, math.nan)
    with pytest.raises(ValueError, match="training failed: the loss is nan after 4 steps"):
        quick(module=broken).fit(X, Y)


# --------------------------------------------------------------------------------------------------------------- time


class Clock:
    """Seconds that pass only when told so."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


class Slow(nn.Module):
    """A training step takes as long as ``seconds`` says, by a clock."""

    clock, seconds, judging = Clock(), (), 0.0

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 1)

    def forward(self, x):
        Slow.clock.now += next(Slow.seconds) if self.training else Slow.judging
        return self.linear(x)


@pytest.fixture
def clock(monkeypatch):
    Slow.clock, Slow.judging = Clock(), 0.0
    for module in (training, classifier):
        monkeypatch.setattr(module, "time", Slow.clock)
    return Slow.clock


@pytest.mark.parametrize(("max_time", "steps"), [(1e6, 50), (26.0, 20), (16.0, 10)])
def test_fewer_steps_if_there_is_no_time_for_more(clock, max_time, steps):
    Slow.seconds = itertools.repeat(1.0)
    begun = clock.now
    model = quick(module=Slow(), steps=50, max_time=max_time).fit(X, Y)
    # six steps, to tell how long one takes, are part of the time
    assert model.history_[-1]["step"] == steps
    assert clock.now - begun == 6 + steps <= max_time


def test_time_is_counted_from_the_beginning_of_fit(clock, monkeypatch):
    """Rows are read and split before anything is trained, which takes time as well."""
    Slow.seconds = itertools.repeat(1.0)
    plain = classifier.holdout

    def slow(*given, **rest):
        clock.now += 10
        return plain(*given, **rest)

    monkeypatch.setattr(classifier, "holdout", slow)
    begun = clock.now
    model = quick(module=Slow(), steps=50, max_time=36.0).fit(X, Y)
    assert model.history_[-1]["step"] == 20
    assert model.history_[-1]["seconds"] == clock.now - begun == 36


def test_imports_take_no_time_of_it(clock, monkeypatch):
    """What trains may take longer to import than training is allowed."""
    Slow.seconds = itertools.repeat(1.0)
    plain = classifier._one_device

    def slow():
        clock.now += 1000
        return plain()

    monkeypatch.setattr(classifier, "_one_device", slow)
    assert quick(module=Slow(), steps=50, max_time=26.0).fit(X, Y).history_[-1]["step"] == 20


def test_a_network_that_is_untrained_for_want_of_time_is_told(clock):
    Slow.seconds = itertools.repeat(100.0)
    with pytest.warns(UserWarning, match=r"no step fitted into max_time=5 s: the network is untrained"):
        model = quick(module=Slow(), steps=50, max_time=5.0).fit(X, Y)
    assert model.history_[-1]["step"] == 0


def test_a_race_shares_the_time(clock):
    Slow.seconds = itertools.repeat(1.0)
    Slow.judging = 0.5
    begun = clock.now
    model = quick(module=Slow(), steps=500, share=(0.0, 0.5, 0.9), max_time=100.0).fit(X, Y)
    steps = max(one["step"] for one in model.history_)
    # the clock is looked at after each evaluation
    assert clock.now - begun <= 100 + math.ceil(steps / 4) + 1
    assert 40 <= steps <= 100 / 1.75 + 1  # 3/4 + 2/4 + 1/2 runs


def test_the_best_so_far_when_time_is_up(clock):
    """Steps that take longer than those that were measured."""
    Slow.seconds = itertools.chain(itertools.repeat(1.0, 10), itertools.repeat(10.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = quick(module=Slow(), steps=20, evaluations=10, max_time=60.0).fit(X, Y, validation=KEPT)
    steps = [one["step"] for one in model.history_]
    assert 2 < steps[-1] < 12
    assert model.best_score_ == max(one["value"] for one in model.history_)
    assert model.score(X[KEPT], Y[KEPT]) == pytest.approx(model.best_score_, rel=1e-12)


def test_seconds_are_told(clock):
    Slow.seconds = itertools.repeat(2.0)
    model = quick(module=Slow()).fit(X, Y)
    assert [one["seconds"] for one in model.history_] == [8.0, 16.0, 24.0, 32.0]


# ---------------------------------------------------------------------------------------------------------- batches


class Counts(nn.Module):
    """Keeps the size of every batch."""

    sizes = []  # noqa: RUF012  # of all copies

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 1)

    def forward(self, x):
        if self.training:
            Counts.sizes.append(len(x))
        return self.linear(x)


def test_batches_are_as_large_as_asked_for():
    Counts.sizes.clear()
    quick(module=Counts(), batch_size=50).fit(X, Y, validation=KEPT)
    assert len(Counts.sizes) == 16
    assert set(Counts.sizes) == {50}


def test_series_have_context_in_batches():
    """Four batches are all rows; with a weight that looks around, some come again beside their neighbours."""
    late = np.arange(ROWS) >= 150
    for weight, again in ((None, False), (Value([0.8, 0.5]), True)):
        Counts.sizes.clear()
        quick(module=Counts(), batch_size=40, weight=weight).fit(X, Y, times=np.arange(ROWS), validation=late)
        assert len(Counts.sizes) == 16
        assert (sum(Counts.sizes) > 4 * 150) == again


def test_rows_on_both_sides_of_a_hole_are_no_neighbours():
    """Rows without times, of which some in the middle are kept: as with times."""
    middle = (np.arange(ROWS) >= 80) & (np.arange(ROWS) < 120)
    model = quick(weight=Value([0.8, 0.5]), share=1.0)
    plain = told(model.fit(X, Y, validation=middle))
    assert plain == told(model.fit(X, Y, times=np.arange(ROWS), validation=middle))


# ----------------------------------------------------------------------------------------------- several processes

TRAINED = {
    "two": (Y, {}),
    "classes": (THREE, {}),
    "labels": (LABELS, {"average": "weighted"}),
    "race": (Y, {"share": (0.0, 0.5, 1.0), "warm_up": 0.25, "weight_average": 0.5}),
    "series": (Y, {"weight": Value([0.8, 0.5])}),
    "exact": (Y, {"exact": True, "score": "f1"}),
}


def fitted(fabric, name):
    targets, given = TRAINED[name]
    options = {"dropout": 0.0, "batch_size": 48, "fabric": fabric, "balance": 0.5, **given}
    model = quick(**options).fit(X, targets, np.linspace(0.5, 1.5, ROWS))
    weights = nn.utils.parameters_to_vector(model.networks_[0].parameters())
    return weights, model.predict_proba(X), model.threshold_, model.share_, [one["loss"] for one in model.history_]


def fabric_of(rank, world):
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import LightningEnvironment

    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}

    class Here(LightningEnvironment):
        """Processes that run already, and have met."""

        @property
        def creates_processes_externally(self):
            return True

        def world_size(self):
            return world

        def global_rank(self):
            return rank

    return Fabric(accelerator="cpu", devices=world, strategy="ddp", plugins=[Here()])


def in_processes(name, rank, world):
    fabric = fabric_of(rank, world)
    fabric.launch()
    assert fabric.world_size == world
    return fitted(fabric, name)


def without_random_state(rank, world):
    fabric = fabric_of(rank, world)
    fabric.launch()
    model = quick(fabric=fabric, random_state=None).fit(X, Y)
    return model.predict_proba(X).tolist()


def with_little_time(rank, world):
    """One is faster than the other, by its own clock."""
    fabric = fabric_of(rank, world)
    fabric.launch()
    Slow.clock, Slow.seconds = Clock(), itertools.repeat(1.0 + rank)
    training.time = classifier.time = Slow.clock
    try:
        model = quick(module=Slow(), fabric=fabric, steps=50, max_time=26.0).fit(X, Y)
    finally:
        import time

        training.time = classifier.time = time
    return [one["step"] for one in model.history_]


def entropies(rank, world):
    found = {}
    for name, (shape, targets, weights, rest) in ENTROPIES.items():
        mine = slice(0, 13) if rank == 0 else slice(13, N)
        logits = numbers(*shape).requires_grad_()
        loss = MeanCrossEntropy(weights, sync=True)(
            logits[mine], targets[mine], **{key: value[mine] for key, value in rest.items()}
        )
        found[name] = loss.item(), torch.autograd.grad(loss, logits)[0]
    return found


def every_case():
    fits = {f"fit {name}": functools.partial(in_processes, name) for name in TRAINED}
    rest = (without_random_state, with_little_time, entropies)
    return fits | {case.__name__: case for case in rest}


@pytest.fixture(scope="module")
def ranks():
    return together(2, every_case)


@pytest.mark.parametrize("name", TRAINED)
def test_two_processes_train_as_one(ranks, name):
    weights, p, threshold, share, losses = fitted(None, name)
    for found in results(ranks[f"fit {name}"]):
        # float32, whose sums are of other parts
        assert torch.allclose(found[0], weights, rtol=0, atol=1e-5)
        assert found[1] == pytest.approx(p, abs=1e-5)
        assert np.asarray(found[2]) == pytest.approx(np.asarray(threshold), abs=1e-5)
        assert found[3] == share
        assert found[4] == pytest.approx(losses, abs=1e-5)


def test_processes_draw_the_same(ranks):
    one, other = results(ranks["without_random_state"])
    assert one == other


def test_processes_take_the_same_steps(ranks):
    one, other = results(ranks["with_little_time"])
    assert one == other
    assert one[-1] < 50


def test_cross_entropy_of_processes(ranks):
    found = results(ranks["entropies"])
    for name, (shape, targets, weights, rest) in ENTROPIES.items():
        logits = numbers(*shape).requires_grad_()
        whole = by_loop(logits, targets, weights.double(), **rest)
        gradient = torch.autograd.grad(whole, logits)[0]
        for one in found:
            assert one[name][0] == pytest.approx(whole.item(), rel=1e-12)
        # the mean over processes, which is what wrappers of models make, is the gradient
        assert torch.allclose((found[0][name][1] + found[1][name][1]) / 2, gradient, rtol=1e-10, atol=1e-15)


# ------------------------------------------------------------------------------------------------------------- files


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "file"
    write(path, lambda file: file.write(b"old"))

    def fails(file):
        file.write(b"new")
        raise Killed

    with pytest.raises(Killed):
        write(path, fails)
    assert path.read_bytes() == b"old"
    write(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 2.5, "text", [1, [2.0]], (1, "a", (2,)), {"a": 1, 2: (3,)}, math.inf, -math.inf, []),
        *(sw.priors.RaisedCosine(0.5, 0.2), (sw.priors.Uniform(), sw.priors.Uniform(0.1, 0.9))),
        *(sw.priors.Mixture([sw.priors.Uniform(), sw.priors.Beta(2.0, 3.0)], [0.5, 0.5]), sw.scores.get("hss")),
        *(Cost(fp=2.0), Value([0.8, 0.5], isolated=2.0), Cost(fn=3.0) * sw.weights.ClassFrequency()),
    ],
    ids=repr,
)
def test_described_and_restored(value):
    found = restored(json.loads(json.dumps(described(value, "value"))))
    assert repr(found) == repr(value)  # priors are not compared by value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "score",
    [
        *(sw.scores.fbeta(2.0), sw.scores.cost(fp=2.0, fn=5.0), sw.scores.get("hss")),
        0.3 * sw.scores.get("tss") + 0.7 * sw.scores.fbeta(0.5),
    ],
    ids=lambda score: score.name,
)
def test_scores_are_restored(score):
    found = restored(json.loads(json.dumps(described(score, "score"))))
    matrix = sw.ConfusionMatrix(*torch.tensor([50.0, 7.0, 3.0, 11.0]))
    assert found(matrix) == score(matrix)
    assert (found.name, found.range, found.greater_is_better) == (score.name, score.range, score.greater_is_better)


def test_numbers_of_numpy_are_plain():
    for value in (np.float64(2.5), np.int64(3), np.bool_(True)):
        assert json.dumps(described(value, "value")) == json.dumps(value.item())


def test_nan_is_restored():
    assert math.isnan(restored(described(math.nan, "value")))


def test_nothing_but_the_package_is_asked_for():
    for odd, message in (
        ({"$object": "os:system", "fields": {}}, "none of scorewise"),
        ({"$object": "scorewise.estimator.descriptions:described", "fields": {}}, "does not have"),
        ({"$object": "scorewise.estimator.descriptions:os.system", "fields": {}}, "does not have"),
        ({"$object": "scorewise.priors:Nonsense", "fields": {}}, "does not have"),
    ):
        with pytest.raises(ValueError, match=message):
            restored(odd)
    with pytest.raises(TypeError, match="weight cannot be saved: a file without code cannot hold function"):
        described(lambda: None, "weight")


def test_runners_are_plain():
    """A checkpoint is read as numbers and texts: no other kind of thing may be in a runner."""
    kinds = {one.name for one in dataclasses.fields(training.Runner)}
    assert kinds == {
        *("share", "trunk", "step", "network", "optimizer", "average", "noise", "offset", "history", "kept"),
    }


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere to write model into"):
        write(tmp_path / "nowhere" / "model", lambda file: file.write(b"numbers"))
