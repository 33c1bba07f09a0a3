"""Metrics: whatever the batches and processes, the score of one matrix of all samples."""

import copy
import pickle
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import scorewise as sw
from tests.cases import EVERY_WEIGHT
from tests.ranks import results, together

pytest.importorskip("torchmetrics", reason="the extra metrics is not installed")

from torchmetrics import MetricCollection

from scorewise import metrics
from scorewise.metrics import MulticlassScore, WeightedScore
from scorewise.metrics import base as metrics_base

# Sums of fewer than 100 terms of order 1, in two orders, and ratios of them.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
WEIGHTS = {"none": None, "frequency*cost": sw.weights.ClassFrequency() * sw.weights.Cost(1.0, 3.0), **EVERY_WEIGHT}
VALUE = sw.weights.Value([0.5, 0.25, 0.1])
N, L = 60, 3
G = torch.Generator().manual_seed(5)


def _series():
    """Three interleaved series with gaps, in the order of time."""
    rows = []
    for group, length in enumerate((25, 20, 15)):
        steps = torch.tensor([1, 1, 2, 1, 5, 1, 1, 1, 1, 1] * 3)[:length].roll(group)
        rows += [(int(time), group) for time in steps.cumsum(0)]
    rows.sort()
    return torch.tensor([10 * group - 7 for _, group in rows]), torch.tensor([time for time, _ in rows])


GROUPS, TIMES = _series()
P = torch.rand(N, L, generator=G, dtype=torch.float64)
Y = (torch.rand(N, L, generator=G) < 0.4).double()
MASK = torch.rand(N, generator=G) < 0.8
MASKS = torch.rand(N, L, generator=G) < 0.8
WEIGHT = torch.rand(N, generator=G, dtype=torch.float64)
COSTS = torch.rand(N, L, 2, generator=G, dtype=torch.float64)
ONE = {"mask": MASK, "sample_weight": WEIGHT, "costs": COSTS[:, 0], "groups": GROUPS, "times": TIMES}
MANY = {"mask": MASKS, "sample_weight": WEIGHT, "costs": COSTS, "groups": GROUPS, "times": TIMES}


def parts(rows, cuts):
    """Rows cut into batches, of which some may be empty."""
    cuts = sorted(cuts)
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def batches(seed, shuffled=False):
    """Random batches of all rows, some of them empty."""
    generator = random.Random(seed)  # noqa: S311  # no secret
    rows = list(range(N))
    if shuffled:
        generator.shuffle(rows)
    cuts = [generator.randint(0, N) for _ in range(generator.randint(0, 5))]
    return parts(rows, [*cuts, *cuts[:1]])


def feed(metric, pieces, preds, target, **rest):
    for rows in pieces:
        metric.update(preds[rows], target[rows], **{name: value[rows] for name, value in rest.items()})
    return metric


def tensors(metric):
    """Of all states."""
    return [part for state in metric.metric_state.values() for part in (state if isinstance(state, list) else [state])]


def same(metric, matrix):
    mine = metric.matrix()
    for name in ("tn", "fp", "fn", "tp"):
        torch.testing.assert_close(getattr(mine, name), getattr(matrix, name), **CLOSE)


# -------------------------------------------------------------------------------------------- any batching


@pytest.mark.parametrize("name", WEIGHTS)
def test_every_score_is_that_of_all_samples_at_once(name):
    weight, x, y = WEIGHTS[name], P[:, 0], Y[:, 0]
    whole = sw.confusion_matrix(x, y, 0.45, weight, **ONE)
    for k, score in enumerate(sw.scores.names()):
        metric = feed(WeightedScore(score, 0.45, weight), batches(k, shuffled=True), x, y, **ONE)
        value = metric.compute()
        assert value.dtype == torch.float64
        torch.testing.assert_close(value, sw.scores.get(score)(whole), **CLOSE)
    same(metric, whole)


@pytest.mark.parametrize("name", WEIGHTS)
def test_without_times_the_order_of_updates_is_the_order_of_time(name):
    weight, x, y = WEIGHTS[name], P[:, 0], Y[:, 0]
    for groups in ({}, {"groups": GROUPS}):
        metric = feed(WeightedScore("csi", 0.45, weight), batches(3), x, y, **groups)
        same(metric, sw.confusion_matrix(x, y, 0.45, weight, **groups))


@pytest.mark.parametrize("seed", range(6))
def test_windows_reach_over_borders_of_batches(seed):
    # by a loop: half of a miss is forgiven if there was an alarm one step before, of a false alarm for an event after
    x, y, weight = P[:, 0], Y[:, 0], sw.weights.Value([0.5])
    metric = feed(WeightedScore("tss", 0.5, weight), batches(seed, shuffled=True), x, y, groups=GROUPS, times=TIMES)
    places = list(zip(GROUPS.tolist(), TIMES.tolist(), strict=True))
    alarms = {place for place, p in zip(places, x.tolist(), strict=True) if p > 0.5}
    events = {place for place, event in zip(places, y.tolist(), strict=True) if event}
    misses = [0.5 if (group, time - 1) in alarms else 1.0 for group, time in events - alarms]
    false = [0.5 if (group, time + 1) in events else 1.0 for group, time in alarms - events]
    assert {0.5, 1.0} == set(misses) == set(false)
    assert metric.matrix().fn == sum(misses)
    assert metric.matrix().fp == sum(false)


AVERAGES = ["macro", "weighted", "min", "micro", None, torch.prod]
OPTIONS = {
    "one": {},
    "thresholds": {"threshold": [0.2, 0.5, 0.7]},
    "weights": {"weight": [None, VALUE, sw.weights.Cost(1.0, 4.0)]},
    "frequency": {"weight": [None, sw.weights.ClassFrequency(), None], "threshold": [0.2, 0.5, 0.7]},
    "cost": {"weight": sw.weights.Cost(1.0, 4.0)},
    "value": {"weight": VALUE, "threshold": [0.2, 0.5, 0.7]},
}


def averaged(values, average, positives):
    if average == "macro":
        return sum(values) / len(values)
    if average == "weighted":
        return sum(v * p for v, p in zip(values, positives, strict=True)) / sum(positives)
    return {"min": min(values), None: torch.stack(values), torch.prod: values[0] * values[1] * values[2]}[average]


@pytest.mark.parametrize("average", AVERAGES, ids=["macro", "weighted", "min", "micro", "none", "product"])
@pytest.mark.parametrize("name", OPTIONS)
def test_labels_are_each_as_if_alone_and_then_averaged(name, average):
    options = OPTIONS[name]
    metric = WeightedScore("f1", **options, average=average, num_labels=L)
    feed(metric, batches(8), P, Y, **MANY)
    alone = []
    for j in range(L):
        own = {key: option[j] if isinstance(option, list) else option for key, option in options.items()}
        where = {key: value[:, j] if value.dim() > 1 else value for key, value in MANY.items()}
        alone.append(sw.confusion_matrix(P[:, j], Y[:, j], own.get("threshold", 0.5), own.get("weight"), **where))
    if average == "micro":
        expected = sw.scores.get("f1")(
            sw.ConfusionMatrix(*(sum(getattr(m, c) for m in alone) for c in ("tn", "fp", "fn", "tp")))
        )
    else:
        positives = [(Y[:, j] * MASKS[:, j] * WEIGHT).sum() for j in range(L)]
        expected = averaged([sw.scores.get("f1")(m) for m in alone], average, positives)
    torch.testing.assert_close(metric.compute(), expected, **CLOSE)
    assert metric.matrix().tn.shape == (L,)


def test_labels_may_have_a_score_each():
    names = ["tss", "error_rate", "f1"]
    values = [sw.scores.get(name)(sw.confusion_matrix(P[:, j], Y[:, j])) for j, name in enumerate(names)]
    each = feed(WeightedScore(names, average=None, num_labels=L), batches(1), P, Y)
    torch.testing.assert_close(each.compute(), torch.stack(values), **CLOSE)
    assert each.higher_is_better is None
    mean = feed(WeightedScore(names, num_labels=L), batches(1), P, Y)
    torch.testing.assert_close(mean.compute(), (values[0] - values[1] + values[2]) / 3, **CLOSE)
    assert mean.higher_is_better is True


def test_the_worst_error_rate_is_the_greatest():
    metric = feed(WeightedScore("error_rate", average="min", num_labels=L), batches(1), P, Y)
    errors = [float(((P[:, j] > 0.5) != (Y[:, j] == 1)).double().mean()) for j in range(L)]
    assert float(metric.compute()) == pytest.approx(max(errors), abs=1e-12)
    assert metric.higher_is_better is False


def test_logits_and_dtypes_are_compared_as_the_functions_do():
    # float32(0.3) is greater than 0.3: the threshold is rounded too
    x, y = torch.tensor([0.3, 0.30000004, 0.9]), torch.tensor([0, 1, 1])
    for weight in (None, VALUE):
        metric = feed(WeightedScore("accuracy", 0.3, weight), [[0, 1], [2]], x, y)
        assert metric.matrix().tensor().tolist() == [[1.0, 0.0], [0.0, 2.0]]
        z = torch.logit(P[:, 0])
        metric = feed(WeightedScore("tss", 0.3, weight, from_logits=True), batches(2), z, Y[:, 0])
        same(metric, sw.confusion_matrix(z, Y[:, 0], 0.3, weight, from_logits=True))
        half = P[:, 0].bfloat16()
        metric = feed(WeightedScore("tss", 0.3, weight), batches(2), half, Y[:, 0])
        same(metric, sw.confusion_matrix(half, Y[:, 0], 0.3, weight))


def test_arrays_and_classes_are_accepted():
    x, y = np.array([1, 0, 1, 1]), np.array([True, False, False, True])
    for weight in (None, VALUE):
        metric = WeightedScore("precision", weight=weight)
        metric.update(x, y, groups=np.array([1, 1, 2, 2]), times=np.array([1, 2, 1, 9]))
        assert metric.matrix().tensor().tolist() == [[1.0, 1.0], [0.0, 2.0]]


def test_unknown_samples_are_neither_events_nor_alarms():
    x, y = P[:, 0].clone(), Y[:, 0].clone()
    x[~MASK], y[~MASK] = float("nan"), float("nan")
    for weight in (None, VALUE):
        metric = feed(WeightedScore("tss", 0.5, weight), batches(4, shuffled=True), x, y, **ONE)
        same(metric, sw.confusion_matrix(x, y, 0.5, weight, **ONE))


# ------------------------------------------------------------------------------------------------- context


def test_context_that_batches_bring():
    x, y = P[:, 0], Y[:, 0]
    sampler = sw.series.ChronologicalBatchSampler(16, groups=GROUPS, times=TIMES, context=3, stretch=7, seed=1)
    metric = WeightedScore("tss", 0.45, VALUE, context="given")
    for batch in sampler:
        rows = batch.index
        metric.update(x[rows], y[rows], mask=batch.mask, groups=batch.groups, times=batch.times)
    same(metric, sw.confusion_matrix(x, y, 0.45, VALUE, groups=GROUPS, times=TIMES))
    assert set(metric.state_dict()) == {"tn", "fp", "fn", "tp"}


@pytest.mark.parametrize("unsure", [float("nan"), 0.5], ids=["unknown", "otherwise"])
def test_copies_that_do_not_count_give_way(unsure):
    x, y = P[:, 0], Y[:, 0]
    rows = torch.arange(N).repeat(3)[torch.randperm(3 * N, generator=torch.Generator().manual_seed(2))]
    first = torch.zeros(3 * N, dtype=torch.bool)
    first[list({row: k for k, row in enumerate(rows.tolist())}.values())] = True  # the last copy counts
    counted = first & (rows != 4)  # of which one counts nowhere
    preds = torch.where(counted | (rows == 4), x[rows], unsure)
    metric = feed(
        WeightedScore("tss", 0.45, VALUE),
        parts(list(range(3 * N)), [20, 90]),
        preds,
        y[rows],
        mask=counted,
        groups=GROUPS[rows],
        times=TIMES[rows],
    )
    here = torch.arange(N) != 4
    same(metric, sw.confusion_matrix(x, y, 0.45, VALUE, mask=here, groups=GROUPS, times=TIMES))


def test_of_copies_that_do_not_count_the_known_one_is_seen():
    y, times = torch.tensor([0.0, 1.0]), torch.tensor([0, 1])
    for first, second in ((0.9, float("nan")), (float("nan"), 0.9)):
        metric = WeightedScore("tss", 0.5, VALUE)
        metric.update(torch.tensor([first, 0.1]), y, mask=torch.tensor([False, True]), times=times)
        metric.update(torch.tensor([second]), y[:1], mask=torch.tensor([False]), times=times[:1])
        assert float(metric.matrix().fn) == float(
            sw.confusion_matrix(torch.tensor([0.9, 0.1]), y, 0.5, VALUE, mask=torch.tensor([False, True])).fn
        )


def test_samples_that_count_twice_are_refused():
    metric = WeightedScore("tss", 0.5, VALUE)
    for _ in range(2):
        metric.update(torch.tensor([0.2, 0.7]), torch.tensor([0, 1]), times=torch.tensor([4, 5]))
    with pytest.raises(ValueError, match=r"2 samples count twice: the first has the group 0 and the time 4.*Chronolog"):
        metric.compute()


def test_copies_that_differ_are_refused():
    metric = WeightedScore("tss", 0.5, VALUE)
    for label, counted in ((1, True), (0, False)):
        metric.update(torch.tensor([0.2]), torch.tensor([label]), times=torch.tensor([4]), mask=torch.tensor([counted]))
    with pytest.raises(ValueError, match=r"different labels.*group 0 and the time 4.*context='given'"):
        metric.compute()


@pytest.mark.parametrize("name", ["groups", "times"])
def test_groups_and_times_come_always_or_never(name):
    metric = WeightedScore("tss", 0.5, VALUE)
    metric.update(P[:2, 0], Y[:2, 0], **{name: torch.tensor([1, 2])})
    metric.update(P[2:4, 0], Y[2:4, 0])
    with pytest.raises(ValueError, match=f"{name} must be passed to all updates or to none, saw them in 1 of 2"):
        metric.compute()


def test_predictions_of_several_dtypes_are_refused():
    metric = WeightedScore("tss", 0.5, VALUE)
    metric.update(P[:2, 0], Y[:2, 0])
    metric.update(P[2:4, 0].float(), Y[2:4, 0])
    with pytest.raises(ValueError, match=r"same dtype in all updates.*float32.*float64"):
        metric.compute()


def test_names_of_groups_are_for_metrics_that_keep_nothing():
    x, y, names = P[:3, 0], Y[:3, 0], ["a", "b", "a"]
    with pytest.raises(TypeError, match=r"integers in a metric that keeps samples.*return_inverse"):
        WeightedScore("tss", 0.5, VALUE).update(x, y, groups=names)
    for metric in (WeightedScore("tss"), WeightedScore("tss", 0.5, VALUE, context="given")):
        metric.update(x, y, groups=names)
        assert float(metric.matrix().total) > 0


def test_whoever_does_not_look_around_does_not_mind_the_order():
    metric = WeightedScore("tss")
    metric.update(P[:3, 0], Y[:3, 0], times=torch.tensor([3, 1, 2]))
    same(metric, sw.confusion_matrix(P[:3, 0], Y[:3, 0]))
    with pytest.raises(TypeError, match="times must be integers"):
        metric.update(P[:3, 0], Y[:3, 0], times=torch.tensor([3.5, 1, 2]))
    with pytest.raises(ValueError, match="groups must have one value for each"):
        metric.update(P[:3, 0], Y[:3, 0], groups=torch.tensor([1, 2]))


@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
def test_bad_batches_are_refused_when_they_come(weight):
    metric = WeightedScore("tss", 0.5, weight)
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\].*at index 1, is 2"):
        metric.update(torch.tensor([0.5, 2.0]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="exactly the same shape"):
        metric.update(torch.tensor([0.5, 0.2]), torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match=r"preds must have the shape \(n,\), saw \(2, 3\). Pass num_labels=3"):
        metric.update(P[:2], Y[:2])
    with pytest.raises(ValueError, match=r"preds must have the shape \(n, 2\), saw \(2, 3\)"):
        WeightedScore("tss", 0.5, weight, num_labels=2).update(P[:2], Y[:2])
    with pytest.raises(TypeError, match="times must be integers"):
        metric.update(P[:2, 0], Y[:2, 0], times=torch.tensor([0.5, 1.0]))
    with pytest.raises(ValueError, match="groups must have one value for each"):
        metric.update(P[:2, 0], Y[:2, 0], groups=torch.tensor([1]))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"threshold": [0.1, 0.2]}, "threshold must be one number"),
        ({"threshold": [0.1, 0.2], "num_labels": 3}, "one for each of 3 labels"),
        ({"threshold": float("nan")}, "NaN"),
        ({"weight": [None, VALUE]}, "2 labels, but num_labels is None"),
        ({"score": ["tss", "f1"], "num_labels": 3}, "2 labels, but num_labels is 3"),
        ({"num_labels": 0}, "num_labels must be a whole number"),
        ({"average": "mean"}, "average must be"),
        ({"average": torch.mean, "score": ["tss", "error_rate"], "num_labels": 2}, "Negate some"),
        ({"average": "micro", "score": ["tss", "f1"], "num_labels": 2}, "list of scores"),
        ({"weight": sw.weights.Cost(1.0, 2.0, tn=1.0)}, "right decisions cost"),
        ({"context": "none"}, "context must be 'keep' or 'given'"),
        ({"what": 3}, "Unexpected keyword"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_arguments_that_have_no_meaning_are_refused(arguments, told):
    with pytest.raises(ValueError, match=told):
        WeightedScore(**{"score": "tss", **arguments})


# ------------------------------------------------------------------------------------------ a torchmetrics metric

KINDS = {
    "sums": lambda: WeightedScore("hss", 0.45, sw.weights.ClassFrequency()),
    "given": lambda: WeightedScore("hss", 0.45, VALUE, context="given"),
    "kept": lambda: WeightedScore("hss", 0.45, VALUE),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_going_on_from_a_state_gives_the_same_bits(kind, tmp_path):
    x, y, pieces = P[:, 0], Y[:, 0], parts(list(range(N)), [10, 25, 40])
    through = feed(KINDS[kind](), pieces, x, y, **ONE)
    before = feed(KINDS[kind](), pieces[:2], x, y, **ONE)
    torch.save(before.state_dict(), tmp_path / "state.pt")
    for loaded in (before.state_dict(), torch.load(tmp_path / "state.pt", weights_only=True)):
        kept = copy.deepcopy(loaded)
        after = KINDS[kind]()
        after.update(x[:5], y[:5], **{name: value[:5] for name, value in ONE.items()})
        after.compute()  # what was computed must be forgotten
        after.load_state_dict(loaded)
        assert torch.equal(after.compute(), before.compute())
        feed(after, pieces[2:], x, y, **ONE)
        assert torch.equal(after.compute(), through.compute())
        after.reset()
        for name, value in kept.items():  # what was loaded is not changed
            assert len(value) == len(loaded[name]) if isinstance(value, list) else torch.equal(value, loaded[name])


@each_kind
def test_copies_pickles_and_resets(kind):
    x, y, pieces = P[:, 0], Y[:, 0], parts(list(range(N)), [10, 25, 40])
    metric = feed(KINDS[kind](), pieces[:2], x, y, **ONE)
    half = metric.compute()
    others = [metric.clone(), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))]  # noqa: S301  # our own
    feed(metric, pieces[2:], x, y, **ONE)
    for other in others:
        assert torch.equal(other.compute(), half)
        feed(other, pieces[2:], x, y, **ONE)
        assert torch.equal(other.compute(), metric.compute())
    whole = metric.compute()
    metric.reset()
    feed(metric, pieces, x, y, **ONE)
    assert torch.equal(metric.compute(), whole)
    assert not torch.equal(half, whole)


@each_kind
def test_a_call_is_the_score_of_a_batch_and_an_update(kind):
    x, y, pieces = P[:, 0].clone().requires_grad_(), Y[:, 0], parts(list(range(N)), [10, 25, 40])
    metric, updated = KINDS[kind](), KINDS[kind]()
    for rows in pieces:
        where = {name: value[rows] for name, value in ONE.items()}
        value = metric(x[rows], y[rows], **where)
        torch.testing.assert_close(
            value, sw.scores.get("hss")(sw.confusion_matrix(x[rows], y[rows], 0.45, metric.weight, **where)), **CLOSE
        )
        updated.update(x[rows], y[rows], **where)
    assert torch.equal(metric.compute(), updated.compute())
    assert not value.requires_grad
    assert not any(part.requires_grad for part in tensors(metric))


@each_kind
def test_states_of_two_metrics_merge(kind):
    x, y = P[:, 0], Y[:, 0]
    one, two = parts(torch.randperm(N, generator=torch.Generator().manual_seed(1)).tolist(), [23])
    one, two = sorted(one), sorted(two)
    mine, theirs = feed(KINDS[kind](), [one], x, y, **ONE), feed(KINDS[kind](), [two], x, y, **ONE)
    expected = feed(KINDS[kind](), [one, two], x, y, **ONE).compute()
    mine.compute()  # what was computed must be forgotten
    for incoming in (theirs, theirs.metric_state, theirs.state_dict()):
        metric, fresh = mine.clone(), KINDS[kind]()
        metric.merge_state(incoming)
        torch.testing.assert_close(metric.compute(), expected, **CLOSE)
        fresh.merge_state(incoming)
        assert torch.equal(fresh.compute(), theirs.compute())


def test_kept_samples_without_times_do_not_merge():
    one, two = WeightedScore("tss", 0.5, VALUE), WeightedScore("tss", 0.5, VALUE)
    for metric in (one, two):
        metric.update(P[:9, 0], Y[:9, 0])
    for incoming in (two, two.metric_state):
        with pytest.raises(ValueError, match=r"order of samples from metrics that are merged.*Pass times"):
            one.merge_state(incoming)
    fresh = WeightedScore("tss", 0.5, VALUE)
    fresh.merge_state(one)
    assert torch.equal(fresh.compute(), one.compute())


def test_in_a_collection_only_equal_metrics_share_states():
    # after the first batch all of these matrices are equal
    first = (torch.tensor([0.1, 0.9]), torch.tensor([0, 1]))
    second = (torch.tensor([0.4, 0.6, 0.3]), torch.tensor([1, 0, 0]))
    made = {
        "tss": WeightedScore("tss"),
        "csi": WeightedScore("csi"),
        "low": WeightedScore("tss", 0.35),
        "close": WeightedScore("tss", 0.5 + 1e-7),
        "cost": WeightedScore("csi", 0.5, sw.weights.Cost(2.0, 3.0)),
        "dear": WeightedScore("csi", 0.5, sw.weights.Cost(4.0, 3.0)),
        "high": WeightedScore("tss", 0.6),
        "logits": WeightedScore("tss", 0.6, from_logits=True),
        "value": WeightedScore("csi", 0.5, VALUE),
        "lower": WeightedScore("csi", 0.35, VALUE),
        "given": WeightedScore("csi", 0.5, VALUE, context="given"),
        "worth": WeightedScore("csi", 0.5, sw.weights.Value([0.9]), context="given"),
    }
    alone = {name: metric.clone() for name, metric in made.items()}
    collection = MetricCollection(made)
    for batch in (first, second):
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    groups = [set(members) for members in collection.compute_groups.values() if len(members) > 1]
    assert groups == [{"tss", "csi"}, {"lower", "value"}]
    found = collection.compute()
    for name, metric in alone.items():
        assert torch.equal(found[name], metric.compute()), name
    collection.reset()
    assert float(collection["tss"].tn) == 0


def test_a_collection_passes_groups_and_times_on():
    x, y = P[:, 0], Y[:, 0]
    collection = MetricCollection({"value": WeightedScore("tss", 0.5, VALUE), "tss": WeightedScore("tss")})
    for rows in batches(2, shuffled=True):
        collection(x[rows], y[rows], groups=GROUPS[rows], times=TIMES[rows])
    found = collection.compute()
    for name, weight in (("value", VALUE), ("tss", None)):
        matrix = sw.confusion_matrix(x, y, 0.5, weight, groups=GROUPS, times=TIMES)
        torch.testing.assert_close(found[name], sw.scores.get("tss")(matrix), **CLOSE)


@each_kind
def test_no_samples_make_an_empty_matrix(kind):
    metric = KINDS[kind]()
    with pytest.warns(UserWarning, match="before the ``update``"):
        assert float(metric.compute()) == 0
    metric.update(P[:0, 0], Y[:0, 0])
    assert float(metric.compute()) == 0
    assert float(metric.matrix().total) == 0


def test_what_it_tells_of_itself():
    assert WeightedScore("tss").higher_is_better is True
    assert WeightedScore("error_rate").higher_is_better is False
    assert WeightedScore("tss").is_differentiable is False
    assert WeightedScore("tss").plot_lower_bound == -1
    assert WeightedScore("cost").plot_lower_bound is None
    assert "'hss', threshold=0.45, weight=ClassFrequency()" in repr(KINDS["sums"]())


def test_plots():
    pytest.importorskip("matplotlib", reason="the extra plot is not installed").use("agg")
    metric = WeightedScore("tss")
    values = [metric(P[rows, 0], Y[rows, 0]) for rows in parts(list(range(N)), [20, 40])]
    _, axes = metric.plot(values)
    assert axes.lines[0].get_ydata().tolist() == pytest.approx([float(value) for value in values])


@each_kind
def test_where_there_is_no_float64_states_are_float32(kind, monkeypatch):
    monkeypatch.setattr(metrics_base, "_NO_DOUBLE", {"meta"})
    metric = feed(KINDS[kind](), [list(range(20))], P[:, 0], Y[:, 0], **ONE).to("meta")
    states = tensors(metric)
    assert states
    assert {part.dtype for part in states} <= {torch.float32, torch.int64, torch.uint8}
    metric.reset()
    assert all(part.dtype != torch.float64 for part in tensors(metric))


# ------------------------------------------------------------------------------------------------- classes

M = 4
SHARE = torch.softmax(3 * torch.randn(N, M, generator=G, dtype=torch.float64), 1)
CLASSES = torch.randint(M, (N,), generator=G)
TAU = [0.1, 0.5, 0.2, 0.2]
PRICES = (1 - torch.eye(M)) * torch.arange(1.0, M + 1)


def counted(share, tau, weight):
    """The m × m matrix, by a loop."""
    cells = np.zeros((M, M))
    for p, truth, w in zip(share.tolist(), CLASSES.tolist(), weight.tolist(), strict=True):
        margins = [a - b for a, b in zip(p, tau, strict=True)]
        cells[truth, margins.index(max(margins))] += w
    return cells


@pytest.mark.parametrize("tau", [None, TAU], ids=["most-probable", "tau"])
def test_scores_of_classes_are_those_of_all_samples(tau):
    cells = counted(SHARE, tau or [0.0] * M, WEIGHT * MASK)
    whole = sw.multiclass.MulticlassMatrix(cells)
    options = [(name, "macro") for name in sw.multiclass.scores.names()] + [
        ("f1", "weighted"),
        ("f1", "min"),
        ("f1", "micro"),
        ("f1", None),
        ("error_rate", torch.mean),
        (sw.multiclass.scores.cost(PRICES), "macro"),
    ]
    for k, (score, average) in enumerate(options):
        metric = MulticlassScore(score, M, tau=tau, average=average)
        feed(metric, batches(k), SHARE, CLASSES, mask=MASK, sample_weight=WEIGHT)
        expected = sw.multiclass.scores.get(score, average)
        torch.testing.assert_close(metric.compute(), expected(whole), **CLOSE)
        assert metric.higher_is_better == expected.greater_is_better
    np.testing.assert_allclose(np.asarray(metric.matrix()), cells, rtol=1e-12)


def test_logits_of_classes():
    metric = feed(MulticlassScore("hss", M, from_logits=True), batches(1), SHARE.log(), CLASSES)
    np.testing.assert_array_equal(np.asarray(metric.matrix()), counted(SHARE, [0.0] * M, torch.ones(N)))


def test_classes_state_pickle_merge_and_collection():
    pieces = parts(list(range(N)), [10, 25])
    through = feed(MulticlassScore("hss", M), pieces, SHARE, CLASSES)
    before = feed(MulticlassScore("hss", M), pieces[:2], SHARE, CLASSES)
    after = MulticlassScore("hss", M)
    after.load_state_dict(before.state_dict())
    again = pickle.loads(pickle.dumps(before))  # noqa: S301  # our own
    last = feed(MulticlassScore("hss", M), pieces[2:], SHARE, CLASSES)
    before.merge_state(last)
    for metric in (feed(after, pieces[2:], SHARE, CLASSES), feed(again, pieces[2:], SHARE, CLASSES), before):
        assert torch.equal(metric.compute(), through.compute())
    collection = MetricCollection({"a": MulticlassScore("hss", M), "b": MulticlassScore("hss", M, tau=TAU)})
    # equal at first
    collection.update(torch.eye(M), torch.arange(M))
    collection.update(SHARE, CLASSES)
    assert len(collection.compute_groups) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"num_classes": 1}, "num_classes must be a whole number of at least 2"),
        ({"num_classes": 3, "tau": [0.5, 0.5]}, "one threshold for each of the 3 classes"),
        ({"num_classes": 3, "score": sw.multiclass.scores.cost(PRICES)}, "costs for 4 classes"),
        ({"num_classes": 3, "average": "mean"}, "average must be"),
    ],
    ids=["classes", "tau", "costs", "average"],
)
def test_arguments_of_classes_that_have_no_meaning_are_refused(arguments, told):
    with pytest.raises(ValueError, match=told):
        MulticlassScore(**{"score": "hss", **arguments})
    with pytest.raises(ValueError, match=r"preds must have the shape \(n, 4\), saw \(3, 3\)"):
        MulticlassScore("hss", 4).update(torch.eye(3), torch.arange(3))


# ----------------------------------------------------------------------------------------------- processes

SHARES = {
    "uneven": {2: (13, 47), 3: (13, 0, 47)},
    "the first is empty": {2: (0, 60), 3: (0, 40, 20)},
    "even": {2: (30, 30), 3: (20, 20, 20)},
    "nobody has any": {2: (0, 0), 3: (0, 0, 0)},
}
LABELLED = {"threshold": [0.2, 0.5, 0.7], "weight": [None, VALUE, sw.weights.ClassFrequency()], "num_labels": L}
SPREAD = {
    "plain": lambda: WeightedScore("tss", 0.45),
    "frequency": lambda: WeightedScore("csi", 0.45, sw.weights.ClassFrequency()),
    "value": lambda: WeightedScore("tss", 0.45, VALUE),
    "labels": lambda: WeightedScore("f1", **LABELLED),
    "labels-sums": lambda: WeightedScore("f1", average="weighted", num_labels=L),
    "classes": lambda: MulticlassScore("mcc", M),
}


def data_of(name):
    """Predictions, labels and what else goes with them."""
    if name == "classes":
        return SHARE, CLASSES, {"mask": MASK, "sample_weight": WEIGHT}
    return (P, Y, MANY) if name.startswith("labels") else (P[:, 0], Y[:, 0], ONE)


DEALT = torch.randperm(N, generator=torch.Generator().manual_seed(4))  # so that series are split between processes


def dealt(rank, world, share):
    sizes = SHARES[share][world]
    return DEALT[sum(sizes[:rank]) : sum(sizes[: rank + 1])].tolist()


def _one(name, share):
    def case(rank, world):
        rows = dealt(rank, world, share)
        x, y, where = data_of(name)
        metric = SPREAD[name]()
        with warnings.catch_warnings():
            # of those who have no samples
            warnings.filterwarnings("ignore", message=".*before the ``update``", category=UserWarning)
            for piece in parts(rows, [len(rows) // 3]) if rows else []:
                feed(metric, [piece], x, y, **where)
                if share == "even":
                    metric.compute()  # goes on after it was put together
            matrix = metric.matrix()
            return metric.compute(), np.asarray(matrix), matrix._whole

    return case


def _untimed(rank, world):
    metric = WeightedScore("tss", 0.5, VALUE)
    metric.update(P[:9, 0], Y[:9, 0])
    try:
        metric.compute()
    except ValueError as error:
        return str(error)


def _alone(rank, world):
    """Only the first has samples, and they have no times."""
    metric = WeightedScore("tss", 0.5, VALUE)
    if rank == 0:
        metric.update(P[:, 0], Y[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return metric.compute()


def cases():
    spread = {f"{name}, {share}": _one(name, share) for name in SPREAD for share in SHARES}
    return {**spread, "untimed": _untimed, "alone": _alone}


@pytest.fixture(scope="module", params=[2, 3], ids=["two", "three"])
def found(request):
    return together(request.param, cases)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", SPREAD)
def test_processes_have_the_score_of_all_samples(found, name, share):
    rows = [] if share == "nobody has any" else list(range(N))
    x, y, where = data_of(name)
    alone = feed(SPREAD[name](), [rows], x, y, **where)
    for value, matrix, whole in results(found[f"{name}, {share}"]):
        torch.testing.assert_close(value, alone.compute(), **CLOSE)
        np.testing.assert_allclose(matrix, np.asarray(alone.matrix()), **CLOSE)
        assert whole


def test_processes_with_samples_that_have_no_times_are_told(found):
    for told in results(found["untimed"]):
        assert "order of samples from several processes" in told


def test_one_process_with_samples_needs_no_times(found):
    whole = sw.scores.get("tss")(sw.confusion_matrix(P[:, 0], Y[:, 0], 0.5, VALUE))
    for value in results(found["alone"]):
        torch.testing.assert_close(value, whole, **CLOSE)


# ----------------------------------------------------------------------------------------------- elsewhere


def test_lightning_logs_it():
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.tss, self.value = WeightedScore("tss"), WeightedScore("tss", 0.5, VALUE)

        def validation_step(self, batch, _):
            x, y, groups, times = batch
            self.tss.update(x, y)
            self.value.update(x, y, groups=groups, times=times)
            self.log("tss", self.tss)
            self.log("value", self.value)

    rows = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    data = torch.utils.data.TensorDataset(P[rows, 0], Y[rows, 0], GROUPS[rows], TIMES[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lightning tells how loaders could be faster
        trainer = lightning.Trainer(
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        (told,) = trainer.validate(Model(), torch.utils.data.DataLoader(data, batch_size=16), verbose=False)
    for name, weight in (("tss", None), ("value", VALUE)):
        matrix = sw.confusion_matrix(P[:, 0], Y[:, 0], 0.5, weight, groups=GROUPS, times=TIMES)
        assert told[name] == pytest.approx(float(sw.scores.get("tss")(matrix)), abs=1e-6)  # logged in float32


@pytest.mark.parametrize(
    ("missing", "names", "extra", "other"),
    [
        ("torchmetrics", ["WeightedScore", "MulticlassScore"], "metrics", "make_scorer"),
        ("sklearn", ["make_scorer"], "sklearn", "WeightedScore"),
    ],
    ids=["torchmetrics", "sklearn"],
)
def test_a_missing_package_is_named_with_its_extra(missing, names, extra, other):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from scorewise import metrics
for name in {names}:
    assert name in dir(metrics)
    try:
        getattr(metrics, name)
    except ImportError as error:
        assert "pip install 'scorewise[{extra}]'" in str(error), error
    else:
        raise AssertionError(name)
metrics.{other}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603  # ours
    assert done.returncode == 0, done.stderr


def test_other_names_are_none():
    with pytest.raises(AttributeError, match="nothing"):
        metrics.nothing  # noqa: B018  # the asking is the test


def test_sums_at_other_thresholds_are_not_merged():
    metrics = [WeightedScore("tss", threshold=threshold) for threshold in (0.3, 0.3, 0.6)]
    for metric in metrics:
        metric.update(torch.tensor([0.2, 0.4, 0.9]), torch.tensor([0, 1, 1]))
    metrics[0].merge_state(metrics[1])
    assert metrics[0].matrix().tp == 4
    with pytest.raises(ValueError, match=r"\(0.3, False\) here and \(0.6, False\) there"):
        metrics[0].merge_state(metrics[2])
