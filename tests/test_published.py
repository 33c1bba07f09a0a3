"""The published experiments: their rows and rule, that nothing is learnt from test rows, and what is kept and told."""

import contextlib
import importlib.util
import json
import math
import re
import signal
import statistics
import threading
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

import scorewise as sw
from benchmarks import command, regression
from benchmarks.published import data, levels, linear, lstm, methods, pages, quick, repeated, run
from benchmarks.published.data import GOALS, PAST, WEIGHT, Experiment
from benchmarks.published.methods import METHODS, Effort, Method, Outcome
from benchmarks.quality import files, results

ROOT = Path(__file__).parent.parent
SMALL = Effort(epochs=2, corrections=10, published=20)


def made_up(seed=0, name="pollution"):
    """A level that wanders, and events where its next value is high: 300 rows to fit, 150 to choose, 150 to judge."""
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(PAST + 601, generator=g, dtype=torch.float64)
    level = torch.zeros_like(noise)
    for i in range(1, len(level)):
        level[i] = 0.9 * level[i - 1] + noise[i]
    y = (level[PAST + 1 :] > 2.5).float()
    other = torch.randn(PAST + 600, generator=g, dtype=torch.float64)
    columns = torch.stack([level[:-1], other], 1)
    levels = (2.0, 2.5)
    sizes = (300, 150, 150)
    return Experiment(
        name=name,
        windows=torch.stack([columns[PAST - 1 : -1], columns[PAST:]], 1).float(),
        steps=columns.float(),
        table=columns[PAST:],
        reading=level[PAST:-1],
        y=y,
        levels=levels,
        above=torch.stack([level[PAST + 1 :] > one for one in levels], 1).float(),
        judged=1,
        amounts=columns[PAST:, :1].exp(),
        changes=columns[PAST:, :1],
        rest=columns[PAST:, 1:],
        times=torch.arange(600),
        sizes=sizes,
        events=tuple(int(part.sum()) for part in y.split(sizes)),
        block=20,
    )


# ----------------------------------------------------------------------------------------------------- the rows


def test_the_pollution_experiment_has_the_published_rows_and_events():
    experiment = data.pollution()
    parts = experiment.parts()
    assert [len(part.rows) for part in parts] == [13_104, 4_320, 26_375]
    assert [int(part.y.sum()) for part in parts] == [107, 15, 148]
    assert experiment.times[0] == 24  # the first 24 hours are dropped
    hours = sw.datasets.beijing_pm25(event=450, horizon=1, missing="zero", skip=24)
    assert torch.equal(experiment.y, hours.targets)
    assert torch.equal(experiment.reading, hours.features[:, 0].double())
    # a row's own step is the last that it may read; the label is that of the step after it
    pm25 = experiment.steps[PAST:, 0]
    assert torch.equal(pm25[1:] > 450, experiment.y[:-1] == 1)
    # measurements are carried forward in the table, and 0 where they are missing in the steps
    missing = hours.features[:, 1] == 0
    assert (pm25[missing] == 0).all()
    assert (experiment.table[missing, 0] > 0).float().mean() > 0.9
    # the highest of the last day, this hour included and the next one not; what was missing is known by test_beijing
    every = sw.datasets.beijing_pm25(event=450, horizon=1, missing="zero")
    measured = (every.features[:, 1] == 1).unfold(0, PAST, 1).all(1)[1:]
    highest = every.features[:, 0].double().unfold(0, PAST, 1).amax(1)[1:]
    assert measured.float().mean() > 0.8
    assert torch.equal(experiment.amounts[measured, 1], highest[measured])
    assert torch.equal(experiment.changes[1:, 0], experiment.amounts[:, 0].diff())
    change = experiment.steps[PAST:, 1] - experiment.steps[PAST - 3 : -3, 1]
    assert torch.equal(experiment.rest[:, 0], change.double())
    clock = [every.feature_names.index(name) for name in ("hour_sin", "hour_cos")]
    assert torch.equal(experiment.rest[:, 1:], every.features[PAST:, clock].double())
    for level, above in zip(experiment.levels, experiment.above.T, strict=True):
        assert torch.equal(pm25[1:] > level, above[:-1] == 1)
    # the first and the last row that the published notebook shows
    for row, shown in ((0, [129, -16, -4, 1020, 2, 1.79, 0, 0]), (-1, [8, -22, -4, 1034, 1, 246.72, 0, 0])):
        assert experiment.windows[row].tolist() == [pytest.approx(shown, rel=1e-6)]


@pytest.mark.skipif(importlib.util.find_spec("arch") is None, reason="the package arch holds the data")
def test_the_stock_experiment_has_the_published_days():
    experiment = data.stock()
    parts = experiment.parts()
    assert [len(part.rows) for part in parts] == [1728, 504, 277]
    assert [int(part.y.sum()) for part in parts] == [240, 130, 41]
    assert experiment.steps.isfinite().all()
    assert experiment.table.isfinite().all()
    assert torch.equal(experiment.steps[PAST + 1 :, 0] < -1, experiment.y[:-1] == 1)
    returns, ranges = experiment.steps[:, :2].double().T
    # the days that are forecast are those from 2001-01-10 on; what was known is that of the day before
    table = files.table("arch", "data/sp500/sp500.csv.gz")
    falls = 100 * table["Adj Close"].pct_change() < -1
    decade = pd.to_datetime(table["Date"], format="%m/%d/%Y").between("2001-01-10", "2011-01-01")
    assert falls[decade].tolist() == experiment.y.bool().tolist()
    # the published network reads five days, shifted and scaled by known rows
    lags = torch.stack([returns[PAST - lag : len(returns) - lag] for lag in range(5)], 1)
    own = lags[:2232]
    expected = (lags - own.mean(0)) / own.std(0, correction=0)
    assert torch.allclose(experiment.windows[..., 0].double(), expected, rtol=1e-4, atol=1e-5)
    # all that a row reads of returns, ranges and how they spread ends with its own day
    for lag in range(5):
        assert torch.allclose(
            experiment.changes[:, lag], returns[PAST - lag : len(returns) - lag], rtol=1e-6, atol=1e-6
        )
    now, of_5, of_20, of_60, mean_5, mean_20 = experiment.amounts.T
    assert torch.allclose(now, ranges[PAST:], rtol=1e-6)
    for span, spread in ((5, of_5), (20, of_20), (60, of_60)):
        last = returns.unfold(0, span, 1).std(-1)[-len(spread) :]
        assert torch.allclose(spread[-len(last) :], last, rtol=1e-5)
    for span, mean in ((5, mean_5), (20, mean_20)):
        assert torch.allclose(mean, ranges.unfold(0, span, 1).mean(-1)[-len(mean) :], rtol=1e-5)
    for level, above in zip(experiment.levels, experiment.above.T, strict=True):
        assert torch.equal(experiment.steps[PAST + 1 :, 0] < -level, above[:-1] == 1)


def test_an_experiment_with_other_rows_or_events_is_refused():
    with pytest.raises(ValueError, match=r"must have \(1, 2, 3\) events, saw"):
        replace(made_up(), events=(1, 2, 3))
    with pytest.raises(ValueError, match="600 labels, but"):
        replace(made_up(), sizes=(300, 150, 149))
    with pytest.raises(ValueError, match="events must be what is above 2, place 0"):
        replace(made_up(), judged=0)


# ----------------------------------------------------------------------------------------------------- the rule


def by_hand(alarms, events):
    """The published matrix, sample by sample: (TN, wFP, wFN, TP)."""
    tn = wfp = wfn = tp = 0.0
    n = len(events)
    for i in range(n):
        around = [j for j in range(i - 3, i + 4) if 0 <= j < n]
        if alarms[i] and events[i]:
            tp += 1
        elif not alarms[i] and not events[i]:
            tn += 1
        elif alarms[i]:
            if not any(events[j] for j in around):
                wfp += 2
            else:
                wfp += 1 - max(
                    [w for lag, w in ((1, 1 / 2), (2, 1 / 3), (3, 1 / 4)) if i + lag < n and events[i + lag]] or [0]
                )
        elif not any(alarms[j] for j in around):
            wfn += 2
        else:
            wfn += 1 - max(
                [w for lag, w in ((1, 1 / 2), (2, 1 / 3), (3, 1 / 4)) if i >= lag and alarms[i - lag]] or [0]
            )
    return tn, wfp, wfn, tp


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_errors_weigh_what_was_published(rate):
    g = torch.Generator().manual_seed(int(100 * rate))
    events, alarms = (torch.rand(2, 400, generator=g) < rate).long()
    matrix = sw.confusion_matrix(alarms.double(), events, 0.5, WEIGHT)
    expected = by_hand(alarms.tolist(), events.tolist())
    # sums of some hundred halves, thirds and quarters
    assert [float(c) for c in (matrix.tn, matrix.fp, matrix.fn, matrix.tp)] == pytest.approx(expected, rel=1e-12)


# -------------------------------------------------------------------------------------------------- the network


def test_stretches_are_read_from_the_past_on_and_never_from_the_future():
    steps = made_up().steps
    network = lstm.seeded(0, lambda: lstm.Network(2)).eval()
    rows = torch.cat([torch.arange(40, 60), torch.arange(590, 600), torch.arange(0, 7)])
    groups = torch.tensor([0] * 20 + [1] * 10 + [2] * 7)
    with torch.no_grad():
        found = lstm.logits(network, steps, rows, groups)
        for place, first, row in ((0, 40, 40), (19, 40, 59), (29, 590, 599), (30, 0, 0), (36, 0, 6)):
            alone = network(steps[None, first : row + PAST + 1])[0, -1]
            assert float(found[place]) == pytest.approx(float(alone), abs=1e-6)  # float32, in another order
        later = steps.clone()
        later[PAST + 50 :] += 1
        changed = lstm.logits(network, later, rows[:20], groups[:20])
    assert torch.equal(changed[:10], found[:10])
    assert not torch.equal(changed[10:], found[10:20])


def test_a_network_can_begin_as_a_linear_model():
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    network = lstm.seeded(0, lambda: lstm.Network(2, first=torch.tensor([2.0, -1.0, 0.5])))
    assert torch.allclose(network(x), 2 * x[..., 0] - x[..., 1] + 0.5, atol=1e-6)


def test_training_minimises_its_loss_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    experiment = made_up()
    train = experiment.parts()[0]
    steps = lstm.scaled(experiment, experiment.steps, train)
    network = lstm.seeded(0, lambda: lstm.Network(2))
    loss = sw.ScoreLoss("tss", weight=WEIGHT)

    def value():
        return float(loss(lstm.predict(network, steps, train), train.y, times=train.times))

    first = value()
    for _ in lstm.training(network, steps, train, lstm.score_loss(GOALS[1]), epochs=20, seed=0):
        pass
    assert value() < first - 0.2
    assert torch.equal(before, torch.get_rng_state())


# --------------------------------------------------------------------------------------------------- no peeking


@pytest.mark.parametrize("name", METHODS)
def test_methods_learn_nothing_from_test_rows(name):
    experiment = made_up()
    y = experiment.y.clone()
    y[450:] = 1 - y[450:]
    first, second, *_ = experiment.events
    above = experiment.above.clone()
    above[450:] = 1 - above[450:]
    other = replace(experiment, y=y, above=above, events=(first, second, int(y[450:].sum())))
    # inputs of the last rows, too: none of what is shifted or scaled may depend on them
    fields = ("windows", "steps", "table", "reading", "amounts", "changes", "rest")
    moved = {field: getattr(experiment, field).clone() for field in fields}
    for value in moved.values():
        value[-100:] = 0
    inputs = replace(experiment, **moved)
    alarms = [METHODS[name].fit(one, GOALS, 1, SMALL) for one in (experiment, other, inputs)]
    for whole, labels, shifted in zip(*alarms, strict=True):
        assert whole.alarms.shape == (300,)
        assert set(whole.alarms.tolist()) == {0, 1}
        assert torch.equal(whole.alarms, labels.alarms)
        assert whole.threshold == labels.threshold
        assert torch.equal(whole.alarms[:200], shifted.alarms[:200])
        assert whole.threshold == shifted.threshold


def test_what_levels_share_is_fitted_without_any_number_of_a_test_row():
    experiment = made_up()
    g = torch.Generator().manual_seed(1)
    changed = {}
    for field in ("amounts", "changes", "rest"):
        changed[field] = getattr(experiment, field).clone()
        changed[field][450:] = torch.rand(changed[field][450:].shape, generator=g, dtype=torch.float64)
    above = experiment.above.clone()
    above[450:] = (torch.rand(150, 2, generator=g) < 0.3).float()
    y = above[:, 1].clone()
    events = (*experiment.events[:2], int(y[450:].sum()))
    other = replace(experiment, above=above, y=y, events=events, **changed)
    found = []
    for one in (experiment, other):
        part = levels.known(one)
        x = levels.inputs(one, part)
        b = levels.for_score(x, part, GOALS[1], 1e-3)
        z = levels.corrected(x, part, b, GOALS[1], 0, epochs=2, last=1)
        found.append((b, x[:450], z[:450]))
    for mine, its in zip(*found, strict=True):
        assert torch.equal(mine, its)
    assert not torch.equal(x, levels.inputs(experiment, levels.known(experiment)))


# --------------------------------------------------------------------------------------------------- levels


def test_levels_share_what_they_know_and_see_what_is_large_relative_to_themselves():
    experiment = made_up()
    part = levels.known(experiment)
    x = levels.inputs(experiment, part)
    assert x.shape == (600, 2, 4)
    seen = x[:450].flatten(0, 1)
    assert torch.allclose(seen.mean(0), torch.zeros(4).double(), atol=1e-9)
    assert torch.allclose(seen.std(0), torch.ones(4).double())
    assert (x[:, 0, 0] > x[:, 1, 0]).all()  # an amount is larger beside the lower level
    assert torch.equal(x[:, 0, 2], x[:, 1, 2])  # the rest is the same
    # twice as much of everything, judged by levels twice as high, is the same
    both = {field: 2 * getattr(experiment, field) for field in ("amounts", "changes")}
    double = replace(experiment, levels=tuple(2 * one for one in experiment.levels), **both)
    assert torch.allclose(levels.inputs(double, part), x)


def test_the_loss_of_levels_is_the_mean_of_theirs():
    experiment = made_up()
    part = levels.known(experiment)
    x = levels.inputs(experiment, part)
    first = levels.logistic(x[:450], part.y)
    b = levels.for_score(x, part, GOALS[1], 1e-3)
    own = sw.ScoreLoss("tss", weight=WEIGHT)

    def value(coefficients):
        z = linear.logits(x[:450], coefficients)
        each = [float(own(z[:, k], part.y[:, k], times=part.times)) for k in range(2)]
        return sum(each) / 2 + 1e-3 * float(coefficients[:-1].square().sum())

    least = value(b)
    assert least < value(first)
    for k in range(len(b)):
        for step in (-0.05, 0.05):
            beside = b.clone()
            beside[k] += step
            assert value(beside) > least


def test_a_network_of_levels_begins_as_their_linear_model_and_reads_each_by_itself():
    experiment = made_up()
    part = levels.known(experiment)
    x = levels.inputs(experiment, part).float()
    first = levels.logistic(x[:450].double(), part.y)
    network = levels.Shared(lstm.seeded(0, lambda: lstm.Network(4, first=first.float())))
    with torch.no_grad():
        z = network(x[None, :50])
        assert torch.allclose(z[0].double(), linear.logits(x[:50].double(), first), atol=1e-4)
        network.network.head.weight.fill_(0.1)
        z = network(x[None, :50])
        other = x[:50].clone()
        other[:, 1] += 1
        found = network(other[None])
    assert torch.equal(found[..., 0], z[..., 0])
    assert not torch.equal(found[..., 1], z[..., 1])


@pytest.mark.parametrize("name", METHODS)
def test_methods_find_what_is_there(name):
    experiment = made_up()
    outcomes = METHODS[name].fit(experiment, GOALS, 0, replace(SMALL, epochs=15))
    test = experiment.parts()[2]
    for goal, outcome in zip(GOALS, outcomes, strict=True):
        value = float(goal.score(goal.matrix(outcome.alarms[150:].numpy(), test.y.numpy(), None, test.times.numpy())))
        assert value > 0.4  # chance has 0


# -------------------------------------------------------------------------------------- the recipe, repeated


def test_the_published_network_begins_as_keras_would_make_it():
    network = lstm.seeded(0, lambda: repeated.Network(8))
    layer, units = network.layer, 50
    assert layer.bias_ih_l0.reshape(4, units).tolist() == [[float(gate == 1)] * units for gate in range(4)]
    assert not layer.bias_hh_l0.any()
    assert not layer.bias_hh_l0.requires_grad
    assert not network.head.bias.any()
    # sums of 200 products of float32
    assert torch.allclose(layer.weight_hh_l0.T @ layer.weight_hh_l0, torch.eye(units), atol=200 * 1.2e-7)
    for weight in (layer.weight_ih_l0, network.head.weight):
        limit = math.sqrt(6 / sum(weight.shape))  # Glorot's, of all four gates together
        assert 0.9 * limit < weight.abs().max() <= limit
    # the stock notebook prints how many parameters it has, of one input
    assert sum(p.numel() for p in repeated.Network(1).parameters() if p.requires_grad) == 10_451


def test_the_published_network_reads_a_window_to_its_end():
    network = lstm.seeded(0, lambda: repeated.Network(2))
    windows = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    state = cell = torch.zeros(3, 50)
    own = network.layer
    for step in windows.unbind(1):
        gates = step @ own.weight_ih_l0.T + state @ own.weight_hh_l0.T + own.bias_ih_l0
        first, forget, new, last = gates.chunk(4, 1)
        cell = forget.sigmoid() * cell + first.sigmoid() * new.tanh()
        state = last.sigmoid() * cell.tanh()
    expected = state @ network.head.weight[0] + network.head.bias
    assert torch.allclose(network(windows), expected, atol=1e-5)  # some hundred products of float32, five times


def test_batches_have_the_published_rows():
    for rows, count in ((13_104, 182), (1728, 24)):
        part = data.Part(torch.arange(rows), torch.zeros(rows), torch.arange(rows))
        found = repeated.batches(part)
        assert [batch.index[batch.mask].tolist() for batch in found] == [
            list(range(72 * k, 72 * k + 72)) for k in range(count)
        ]
        # a value weight looks three hours around
        assert found[1].index.tolist() == list(range(69, 147))


def by_steps(experiment, goal, seed, epochs):
    """The training, written down: probabilities after each epoch, of a published network that is trained by hand."""
    network = lstm.seeded(seed, lambda: repeated.Network(2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.001, eps=1e-7)
    found, mean, told = [], torch.zeros(4, dtype=torch.float64), 0.0
    for epoch in range(epochs):
        for first in range(0, 300, 60):  # 300 rows make five batches that are alike
            own = torch.arange(first, first + 60)
            around = torch.arange(max(first - 3, 0), min(first + 63, 300))
            optimizer.zero_grad()
            p = torch.sigmoid(network(experiment.windows))
            loss = torch.nn.functional.binary_cross_entropy(p[own], experiment.y[own])
            if goal is not None and epoch >= epochs / 2:
                counted = (around >= first) & (around < first + 60)
                matrix = sw.expected_confusion_matrix(
                    p[around], experiment.y[around], None, goal.weight, mask=counted, times=around
                )
                cells = torch.stack([matrix.tn, matrix.fp, matrix.fn, matrix.tp])
                mean, told = 0.8 * mean + 0.2 * cells.detach(), 0.8 * told + 0.2  # 1 - 1/5: five batches are an epoch
                tn, fp, fn, tp = mean / told + cells - cells.detach()
                loss = (loss - (tp / (tp + fn) - fp / (fp + tn))) / 2
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            found.append(torch.sigmoid(network(experiment.windows)))
    return torch.stack(found)


@pytest.mark.parametrize("goal", [None, *GOALS], ids=str)
def test_the_training_is_what_is_written_down(goal):
    experiment = made_up()
    (found,) = repeated.trained(experiment, goal, 3, 4).probabilities
    # steps of Adam amplify the last digits of float32, by some dozens in twenty steps
    assert torch.allclose(found, by_steps(experiment, goal, 3, 4), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_threshold_is_the_best_of_99_or_of_all(weighted, seed):
    g = torch.Generator().manual_seed(seed)
    p, y = torch.rand(200, generator=g).square(), (torch.rand(200, generator=g) < 0.2).float()
    part = data.Part(torch.arange(200), y, torch.arange(200))

    def value(threshold):
        return tss_by_hand((p > threshold).tolist(), y.tolist(), weighted=weighted)

    low, high = float(p.min()), float(p.max())
    steps = [low + k / 100 * (high - low) for k in range(1, 100)]
    goal = GOALS[weighted]
    found = repeated.threshold(p, part, goal, "steps")
    assert value(found) == pytest.approx(max(value(step) for step in steps), rel=1e-12)
    # the first of several that are equally good; in float32
    assert found == pytest.approx(next(s for s in steps if value(s) >= value(found) - 1e-12), rel=1e-6)
    best = max(value(float(one)) for one in [*p, -1.0])
    assert value(repeated.threshold(p, part, goal, "exact")) == pytest.approx(best, rel=1e-12)


def tss_by_hand(alarms, events, *, weighted):
    if weighted:
        tn, fp, fn, tp = by_hand(alarms, events)
    else:
        pairs = [(bool(a), bool(e)) for a, e in zip(alarms, events, strict=True)]
        tn, fp, fn, tp = (pairs.count(cell) for cell in ((False, False), (True, False), (False, True), (True, True)))
    return tp / (tp + fn) - fp / (fp + tn)


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("name", ["pollution", "stock"])
def test_epochs_that_are_good_on_the_validation_rows_vote_with_thresholds_of_the_training_rows(name, goal):
    experiment = made_up(name=name)
    y, g = experiment.y, torch.Generator().manual_seed(5)
    # epochs that know more and less, on some rows more than on others
    epochs = []
    for sureness in torch.tensor([[9.0, 9.0], [9.0, 5.0], [2.0, 9.0], [9.0, 3.0], [9.0, 7.0], [4.0, 6.0]]):
        of_row = torch.where(torch.arange(600) < 300, *sureness)
        epochs.append(torch.sigmoid(of_row * (y - 0.3) + torch.randn(600, generator=g)))
    alarms, scores = [], []
    for p in epochs:
        low, high = p[:300].min(), p[:300].max()
        tried = [float(low + k / 100 * (high - low)) for k in range(1, 100)]
        of = [tss_by_hand((p[:300] > t).tolist(), y[:300].tolist(), weighted=goal.name == "wtss") for t in tried]
        alarms.append((p > tried[of.index(max(of))]).tolist())
        scores.append(tss_by_hand(alarms[-1][300:450], y[300:450].tolist(), weighted=goal.name == "wtss"))
    level = 0.9 if name == "pollution" else 0.95 * max(scores)
    voters = [k for k, score in enumerate(scores) if score > level]
    assert 1 < len(voters) < len(epochs)
    expected = [int(2 * sum(alarms[k][row] for k in voters) >= len(voters)) for row in range(600)]
    found, votes = repeated.decided(experiment, repeated.Epochs(torch.stack(epochs).view(2, 3, -1), 0.0), goal, "steps")
    assert found.tolist() == expected
    assert votes == repeated.Votes(len(voters), len(voters), sum(k in (1, 2, 4, 5) for k in voters))


def test_where_no_epoch_is_good_the_best_votes_and_a_tie_is_an_alarm():
    experiment = made_up()
    event = experiment.y
    poor = 0.2 + 0.6 * (torch.rand(600, generator=torch.Generator().manual_seed(0)) < 0.5) + 0.01 * event
    worse = torch.rand(600, generator=torch.Generator().manual_seed(1))
    found, votes = repeated.decided(
        experiment, repeated.Epochs(torch.stack([poor, worse])[None], 0.0), GOALS[0], "exact"
    )
    assert (votes.good, votes.voters) == (0, 1)
    assert set(found.tolist()) == {0, 1}
    wrong = event.clone()
    wrong[590] = 1 - wrong[590]
    both, votes = repeated.decided(
        experiment, repeated.Epochs(torch.stack([event, wrong])[None], 0.0), GOALS[0], "exact"
    )
    assert votes == repeated.Votes(2, 2, 1)
    assert torch.equal(both, torch.maximum(event, wrong).long())


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_several_trainings_vote_as_one_and_have_seeds_of_their_own(goal, monkeypatch):
    experiment, asked = made_up(), []

    def trained(_experiment, score, seed, epochs):
        asked.append((score, seed))
        g = torch.Generator().manual_seed(seed)
        return repeated.Epochs(torch.rand(1, epochs, 600, generator=g) / 2 + experiment.y / 4, 1.0)

    monkeypatch.setattr(repeated, "trained", trained)
    effort = methods.Effort(published=4)
    (found,) = methods.METHODS["repeated_score_together"].fit(experiment, [goal], 2, effort)
    assert asked == [(goal, seed) for seed in range(3000, 3010)]
    all_epochs = torch.cat([trained(experiment, goal, seed, 4).probabilities for seed in range(3000, 3010)])
    alarms, votes = repeated.decided(experiment, repeated.Epochs(all_epochs.view(1, 40, 600), 0.0), goal, "steps")
    assert torch.equal(found.alarms, alarms[300:])
    assert (found.votes.good, found.votes.voters) == (votes.good, votes.voters)
    assert found.seconds == 10


# ------------------------------------------------------------------------------------------------ what is kept


def row_of(method, tuned, seed, tss, wtss, name="pollution"):
    return dict.fromkeys(results.COLUMNS) | {
        "set": name,
        "score": tuned,
        "method": method,
        "seed": seed,
        "test": {"tss": tss, "wtss": wtss, "tss_interval": [tss - 0.1, 1.0], "wtss_interval": [wtss - 0.1, 1.0]},
        "validation": {"tss": tss, "wtss": wtss},
        "threshold": 0.5,
        "matrix": [100, 1, 2, 30],
        "weighted": [100.0, 1.5, 2.5, 30.0],
        "seconds": 60.0,
        "versions": "python 3",
        "date": "2026-01-02",
    }


def test_a_result_has_both_scores_and_both_matrices_of_the_test_rows():
    experiment = made_up()
    g = torch.Generator().manual_seed(3)
    alarms = (torch.rand(300, generator=g) < 0.3).long()
    job = run.Job("pollution", METHODS["persistence"], 0, GOALS)
    row = run.judged(experiment, job, GOALS[1], Outcome(alarms, 0.25, 1.0), draws=50)
    test = experiment.y[450:].tolist()
    tn, wfp, wfn, tp = by_hand(alarms[150:].tolist(), test)
    # kept with four digits
    assert row["weighted"] == pytest.approx([tn, wfp, wfn, tp], abs=1e-4)
    fp = sum(a and not e for a, e in zip(alarms[150:].tolist(), test, strict=True))
    fn = sum(e and not a for a, e in zip(alarms[150:].tolist(), test, strict=True))
    assert row["matrix"] == [tn, fp, fn, tp]
    assert row["test"]["tss"] == pytest.approx(tp / (tp + fn) - fp / (fp + tn), abs=1e-6)
    assert row["test"]["wtss"] == pytest.approx(tp / (tp + wfn) - wfp / (wfp + tn), abs=1e-6)
    low, high = row["test"]["wtss_interval"]
    assert low < row["test"]["wtss"] < high
    assert (row["score"], row["threshold"], row["seed"]) == ("wtss", 0.25, 0)
    assert set(row) == set(results.COLUMNS)


def test_only_what_is_missing_is_done_and_methods_without_chance_once():
    todo = run.jobs(["pollution"], 3, {})
    seeds = {method: [job.seed for job in todo if job.method.name == method] for method in METHODS}
    assert seeds["persistence"] == [0]
    assert seeds["lstm_score"] == [0, 1, 2]
    known = {results.key(row): row for row in (row_of("lstm_bce", "tss", 1, 0.9, 0.9),)}
    assert {job.method.name for job in run.jobs(["pollution"], 3, known, ["logistic", "lstm_bce"])} == {
        "logistic",
        "lstm_bce",
    }
    left = run.jobs(["pollution"], 3, known)
    assert [job.goals for job in left if job.method.name == "lstm_bce"] == [GOALS, GOALS[1:], GOALS]
    for row in known.values():
        row["error"] = "ValueError: broken"
    assert len(run.jobs(["pollution"], 3, known)) == len(todo)


def failing(experiment, goals, seed, effort):
    raise RuntimeError("as it happens")


def test_a_run_keeps_results_goes_on_where_it_was_and_survives_a_fit_that_breaks(tmp_path, monkeypatch, capsys):
    some = {name: METHODS[name] for name in ("persistence", "logistic")}
    some["lstm_bce"] = Method("lstm_bce", "breaks", failing)
    monkeypatch.setattr(run, "METHODS", some)
    monkeypatch.setattr(run, "EXPERIMENTS", {"pollution": made_up})
    folder = tmp_path / "published"
    assert run.main(["--out", str(folder), "--seeds", "2"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("3 fits, ")
    assert "left" in told
    assert "RuntimeError: as it happens" in told
    kept = json.loads((tmp_path / "published.json").read_text())
    assert len(kept["rows"]) == 6
    assert run.main(["--out", str(folder), "--seeds", "2"]) == 0
    assert capsys.readouterr().out.startswith("1 fits, ")  # the broken one


@pytest.mark.parametrize("number", ["0", "-1", "few"])
def test_a_number_of_seeds_that_is_none_is_refused(number, tmp_path, capsys):
    told = refused(capsys, tmp_path / "published", "--seeds", number)
    assert f"argument --seeds: must be a whole number of at least 1, saw '{number}'" in told
    assert not list(tmp_path.iterdir())


def refused(capsys, out, *arguments):
    """What is said of arguments that cannot be meant."""
    with pytest.raises(SystemExit, match="2"):
        run.main(["--out", str(out), *arguments])
    return capsys.readouterr().err.splitlines()[-1]


def test_a_folder_that_has_no_results_or_can_have_none_is_refused(tmp_path, capsys):
    file = tmp_path / "stray.json"
    file.write_text("{}")
    assert f"{file} holds no results" in refused(capsys, tmp_path)
    assert f"{file} cannot be a folder for results: File exists. Name another with --out." in refused(capsys, file)
    file.write_text("{")
    assert f"{file} is no JSON" in refused(capsys, tmp_path)
    assert list(tmp_path.iterdir()) == [file]


# ------------------------------------------------------------------------------------------------ what is told


def test_words_follow_from_numbers():
    assert pages.reached(0.95104, 0.9510) == "reached"
    assert pages.reached(0.9622, 0.9510) == "reached, and exceeded by 0.0112"
    assert pages.reached(0.9390, 0.9510) == "missed by 0.0120"


def test_the_page_tells_means_spread_and_whether_networks_are_beaten():
    rows = [row_of("linear_score", "wtss", 0, 0.96, 0.93)]
    rows += [row_of("lstm_score", "wtss", seed, tss, 0.9) for seed, tss in enumerate((0.92, 0.94))]
    text = pages.page(rows)
    assert "| 2 | 0.9300 | 0.9200, 0.9400 | 0.9000 | 0.9000, 0.9000 |" in text
    assert "0.9600, reached, and exceeded by 0.0090" in text
    assert "0.9300, missed by 0.0149" in text
    assert "no network beats it" in text
    worse = pages.page([*rows, row_of("lstm_score", "wtss", 2, 1.0, 1.0), row_of("lstm_score", "wtss", 3, 1.0, 1.0)])
    assert "the best network has 0.9650" in worse
    assert "Made on 2026-01-02, by python 3. Fits took 3 minutes, where" in text


def test_the_page_tells_who_votes_and_what_the_published_recipe_gives_when_it_is_repeated():
    rows = [row_of("linear_score", "wtss", 0, 0.94, 0.93)]
    for seed, (tss, good, late) in enumerate(((0.95, 4, 2), (0.96, 0, 1), (0.94, 5, 0))):
        row = row_of("repeated", "wtss", seed, tss, 0.94)
        row["validation"] |= {"good": good, "voters": max(good, 1), "late": late}
        rows.append(row)
    text = pages.page(rows)
    assert "| published recipe, repeated | 3.3 | 1.0 | 1 of 3 |" in text
    assert "repeated with 3 seeds: 0.9500 on average, from 0.9400 to 0.9600; above the published figure: 1." in text
    assert "Above that average are: none." in text
    assert "The best without a network has 0.9400: the best network has 0.9500." in text


def test_the_kept_results_and_the_page_are_of_one_piece():
    rows = list(results.read(run.FOLDER.with_name("published")).values())
    assert rows, "benchmarks/results/published.json is missing"
    for row in rows:
        assert row["error"] is None
        for name, key in (("matrix", "tss"), ("weighted", "wtss")):
            tn, fp, fn, tp = row[name]
            # cells are kept with four digits and scores with six
            assert row["test"][key] == pytest.approx(tp / (tp + fn) - fp / (fp + tn), abs=2e-6)
    seeds = {row["seed"] for row in rows if row["method"] == "lstm_score"}
    assert seeds == set(range(run.SEEDS))
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(rows)


PROSE = {
    "README.md": (
        "benchmarks/PUBLISHED.md",
        """tss published, wtss published; tss repeated, wtss repeated; tss repeated_together, wtss repeated_together;
        tss repeated_score_together, wtss repeated_score_together; tss linear_levels, wtss linear_levels, wtss missed;
        low linear_levels, high linear_levels; tss repeated_score, wtss repeated_score; tss repeated_exact,
        wtss repeated_exact; tss classifier, wtss classifier; stock published, stock repeated, stock least,
        stock most""",
    ),
    "docs/choosing.md": (
        "[published experiment](benchmarks/published.md)",
        """wtss linear_score, wtss logistic,
        wtss lstm_score_ensemble, wtss lstm_score, wtss lstm_bce; wtss repeated, wtss repeated_score;
        wtss linear_levels; wtss repeated_together, wtss repeated_score_together""",
    ),
    "docs/migrating.md": (
        "[The published table](benchmarks/published.md)",
        """tss published, wtss published; tss repeated,
        wtss repeated; tss repeated_together, wtss repeated_together; tss repeated_score_together,
        wtss repeated_score_together; tss linear_levels, wtss linear_levels, tss lstm_levels, wtss lstm_levels;
        stock published, stock repeated""",
    ),
}
"""By page: words that its paragraph on the experiments has, and what the numbers there are, one after the other."""


def figure(rows, what):
    """A number that a page tells, of pollution or of stocks: most are means of what was tuned for the weighted one."""
    key, name = what.split()
    experiment, score = ("stock", "wtss") if key == "stock" else ("pollution", "tss" if key == "tss" else "wtss")
    own = [row for row in rows if row["set"] == experiment]
    if name == "published":
        return data.PUBLISHED[experiment][score][1]
    if name == "missed":
        return data.PUBLISHED["pollution"]["wtss"][1] - round(figure(rows, "wtss linear_levels"), 4)
    if name in ("least", "most"):
        ours = [statistics.mean(pages.values(own, recipe, "wtss", score)) for recipe in pages.RECIPES]
        return min(ours) if name == "least" else max(ours)
    if key in ("low", "high"):
        row = next(row for row in own if (row["method"], row["score"]) == (name, "wtss"))
        return row["test"]["wtss_interval"][key == "high"]
    return statistics.mean(pages.values(own, name, "wtss", score))


@pytest.mark.parametrize("page", PROSE)
def test_pages_tell_the_figures_of_the_results(page):
    words, wanted = PROSE[page]
    rows = list(results.read(run.FOLDER.with_name("published")).values())
    paragraph = next(one for one in (ROOT / page).read_text(encoding="utf-8").split("\n\n") if words in one)
    told = re.findall(r"(?<![\d.])0\.(\d{2,4})\b", re.sub(r"at 0\.5|PM2\.5", "", paragraph))
    expected = [figure(rows, one.strip()) for one in re.split("[,;]", wanted)]
    assert [f"0.{digits}" for digits in told] == [
        f"{value:.{len(digits)}f}" for value, digits in zip(expected, told, strict=True)
    ]


# -------------------------------------------------------------------------------------------------- in short


def test_a_margin_is_that_of_a_prediction_interval():
    runs = [{"a tss": value, "b tss": 0.95} for value in (0.90, 0.92, 0.91, 0.905, 0.915)]
    kept = regression.figures(runs)
    # Student's t of 4 degrees of freedom, exceeded once in a thousand: from a table
    margin = 7.1732 * statistics.stdev(one["a tss"] for one in runs) * math.sqrt(1 + 1 / 5)
    assert kept["a tss"] == {"mean": 0.91, "margin": pytest.approx(margin, abs=1e-4)}
    assert kept["b tss"] == {"mean": 0.95, "margin": regression.LEAST}
    of_many = regression.figures(runs, {"a tss": 400, "b tss": 400})
    assert of_many["b tss"]["margin"] == regression.LEAST / 20
    assert of_many["a tss"] == kept["a tss"]
    with pytest.raises(ValueError, match="at least 2 are needed, saw 1"):
        regression.figures(runs[:1])


@pytest.mark.parametrize("runs", ["0", "1", "-3"])
def test_figures_of_one_run_are_refused_before_it_is_measured(runs, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["quick", "--write", "--runs", runs])
    with pytest.raises(SystemExit) as ended:
        regression.main("words", tmp_path / "quick.json", lambda run: pytest.fail("it was measured"), 6)
    assert ended.value.code == 2
    assert f"--runs must be at least 2, since one run has no spread; saw {runs}\n" in capsys.readouterr().err


def test_figures_that_ctrl_c_breaks_off_are_not_written(monkeypatch, capsys, tmp_path):
    """Whatever a fit makes of it: ScoreClassifier takes a KeyboardInterrupt, and has a result all the same."""

    def measure(run):
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        return {"a": 0.5}

    monkeypatch.setattr("sys.argv", ["quick", "--write"])
    monkeypatch.setattr(command, "_pressed", threading.Event())  # what is pressed stays so, as long as a command lasts
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests may have it ignored
    with pytest.raises(SystemExit) as ended:
        regression.main("words", tmp_path / "quick.json", measure, 2)
    signal.signal(signal.SIGINT, before)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped: the figures are as they were.\n"
    assert not list(tmp_path.iterdir())


def test_chance_crosses_a_margin_as_rarely_as_is_said(monkeypatch):
    monkeypatch.setattr(regression, "LEAST", 0.0)
    monkeypatch.setattr(regression, "CHANCE", 0.05)
    g = torch.Generator().manual_seed(0)
    crossed = 0
    for sample in torch.randn(2000, 6, generator=g, dtype=torch.float64).tolist():
        kept = regression.figures([{"a": value} for value in sample[1:]])
        crossed += bool(regression.worse({"a": sample[0]}, kept))
    # 100 are expected, with a standard deviation of 9.7
    assert 70 <= crossed <= 130


def test_a_regression_is_found_and_chance_is_not():
    kept = {"a tss": {"mean": 0.91, "margin": 0.05}, "b tss": {"mean": 0.95, "margin": 0.01}}
    good = {"a tss": 0.861, "b tss": 0.9401}
    assert regression.worse(good, kept) == []
    assert regression.worse(good | {"b tss": 0.9399}, kept) == ["b tss is 0.9399, expected at least 0.9400"]
    assert len(regression.worse(good | {"b tss": math.nan}, kept)) == 1
    assert "was not measured" in regression.worse({"a tss": 0.9}, kept)[0]
    assert "has no figure" in regression.worse(good | {"c tss": 1.0}, kept)[0]


def test_figures_are_written_whole_or_not_at_all(tmp_path, capsys):
    path = tmp_path / "quick.json"
    regression.write(path, lambda run: {"a": 0.5 + 0.1 * run}, 2)
    told = capsys.readouterr().out
    assert "run 1 of 2 ...\nrun 2 of 2 ...\n" in told
    assert "a: a margin of more than 0.06 finds nothing" in told
    before = path.read_text()
    with pytest.raises(TypeError):
        regression.write(path, lambda run: {"a": 0.5 if run == 0 else None}, 2)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_quick_form_ends_with_1_if_something_is_worse(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(quick, "pollution", made_up)
    monkeypatch.setattr(quick, "WHAT", {"persistence": 1})
    figures = tmp_path / "quick.json"
    monkeypatch.setattr(quick, "FIGURES", figures)
    assert run.main(["--quick"]) == 1
    (told,) = [line for line in capsys.readouterr().out.splitlines() if "no figures" in line]
    assert told.endswith(f"{figures} is made by python -m benchmarks.published.quick --write")
    regression.write(figures, quick.measure, 2)
    assert run.main(["--quick"]) == 0
    assert "nothing is worse than it was" in capsys.readouterr().out
    kept = json.loads(figures.read_text())
    kept["persistence wtss"]["mean"] += 0.02
    figures.write_text(json.dumps(kept))
    assert run.main(["--quick"]) == 1
    assert "persistence wtss is" in capsys.readouterr().out


def test_the_quick_form_takes_means_over_seeds_that_no_other_run_has(monkeypatch):
    seen = []

    def fit(experiment, goals, seed, effort):
        seen.append(seed)
        alarms = experiment.y[300:].long() if seed % 2 else torch.zeros(300, dtype=torch.long)
        return [Outcome(alarms, 0.5, 0.0) for _ in goals]

    monkeypatch.setattr(quick, "pollution", made_up)
    monkeypatch.setattr(quick, "METHODS", {"some": Method("some", "words", fit)})
    monkeypatch.setattr(quick, "WHAT", {"some": 2})
    assert [quick.measure(number) for number in (0, 1)] == [{"some tss": 0.5, "some wtss": 0.5}] * 2
    assert seen == [0, 1, 2, 3]


def test_figures_are_kept_for_all_that_the_quick_form_measures():
    kept = json.loads(quick.FIGURES.read_text())
    assert set(kept) == {f"{name} {goal.name}" for name in quick.WHAT for goal in GOALS}
    assert all(0 < one["margin"] <= regression.MOST < one["mean"] for one in kept.values())
