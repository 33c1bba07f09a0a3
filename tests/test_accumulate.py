"""Sums over parts of a batch: matrices, tangents, whole steps in little memory, and running averages."""

import contextlib
import copy
import io
from collections.abc import Sequence

import pytest
import torch
from torch import nn

import scorewise as sw
from scorewise.series import ChronologicalBatchSampler
from tests.cases import half_of_all

N, FEATURES, LABELS, T = 48, 4, 3, 3
G = torch.Generator().manual_seed(17)


def _random(*shape):
    return torch.rand(*shape, generator=G, dtype=torch.float64)


X = torch.randn(N, FEATURES, dtype=torch.float64, generator=G)
Z = torch.randn(N, dtype=torch.float64, generator=G)
ZS = torch.randn(N, LABELS, dtype=torch.float64, generator=G)
Y, YS = (_random(N) < 0.4).double(), (_random(N, LABELS) < 0.4).double()
SOFT, SOFTS = _random(N), _random(N, LABELS)
CLASSES = torch.randint(LABELS, (N,), generator=G)
GIVEN = {"sample_weight": _random(N), "costs": _random(N, 2), "mask": _random(N) < 0.8}
GIVEN_LABELS = {"sample_weight": _random(N, LABELS), "costs": _random(N, LABELS, 2), "mask": _random(N, LABELS) < 0.8}
TIMES = torch.tensor([1, 1, 1, 2, 1, 1, 5, 1]).repeat(N // 8).cumsum(0)

FREQUENCY, CE, COST = sw.weights.ClassFrequency(), sw.weights.CrossEntropy(1.0, 3.0), sw.weights.Cost(2.0, 5.0)
MARGIN, VALUE = sw.weights.Margin(1.5), sw.weights.Value([0.5, 0.3, 0.1], isolated=2.0)
BALANCED = {
    "frequency": FREQUENCY,
    "cost * frequency": COST * FREQUENCY,
    "cross entropy * frequency": CE * FREQUENCY,
    "frequency twice": FREQUENCY * FREQUENCY,
    "frequency thrice": FREQUENCY * COST * FREQUENCY * FREQUENCY,
    "margin * frequency": MARGIN * FREQUENCY,
}
EACH = [FREQUENCY, None, COST * FREQUENCY * FREQUENCY]
PRIORS = [sw.priors.Beta(2.0, 5.0), None, sw.priors.Triangular(0.1, 0.3, 0.9)]


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def splits(seed):
    """Samples dealt at random to four parts, one of which is empty, in the order of time."""
    generator = torch.Generator().manual_seed(seed)
    part = torch.randint(3, (N,), generator=generator)
    return [*((part == k).nonzero().squeeze(1) for k in range(3)), torch.arange(0)]


def rows_of(given, rows):
    return {name: value[rows] for name, value in given.items()}


# ----------------------------------------------------------------------------------------------------------- matrices


def of_loss(logits, targets, weight, **rest):
    return sw.ScoreLoss("hss", weight=weight).matrix(logits, targets, **rest)


def expected(logits, targets, weight, **rest):
    return sw.expected_confusion_matrix(logits, targets, PRIORS[2], weight, from_logits=True, **rest)


def at_a_threshold(logits, targets, weight, **rest):
    return sw.confusion_matrix(logits, targets, 0.4, weight, from_logits=True, **rest)


each_way = pytest.mark.parametrize("make", [of_loss, expected, at_a_threshold])


@each_way
@pytest.mark.parametrize("given", [{}, GIVEN], ids=["plain", "given"])
@pytest.mark.parametrize("targets", [Y, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize("weight", BALANCED.values(), ids=BALANCED.keys())
def test_matrices_add_up(make, weight, targets, given):
    whole = make(Z, targets, weight, **given)
    for seed in range(4):
        parts = [make(Z[rows], targets[rows], weight, **rows_of(given, rows)) for rows in splits(seed)]
        for added in (sum(parts), parts[3] + ((parts[2] + parts[0]) + parts[1])):
            close(added.tensor(), whole.tensor())
            close(sw.scores.hss(added), sw.scores.hss(whole))


@each_way
@pytest.mark.parametrize("weight", [FREQUENCY, COST * FREQUENCY, EACH], ids=["one", "product", "each its own"])
@pytest.mark.parametrize("targets", [YS, SOFTS], ids=["hard", "soft"])
def test_matrices_of_labels_add_up(make, weight, targets):
    whole = make(ZS, targets, weight, **GIVEN_LABELS)
    for seed in range(4):
        parts = [make(ZS[rows], targets[rows], weight, **rows_of(GIVEN_LABELS, rows)) for rows in splits(seed)]
        close(sum(parts).tensor(), whole.tensor())


@each_way
@pytest.mark.parametrize("weight", [FREQUENCY, FREQUENCY * FREQUENCY], ids=str)
def test_parts_that_lack_a_class_add_up(make, weight):
    whole = make(Z, Y, weight).tensor()
    positive, negative = (make(Z[Y == k], Y[Y == k], weight) for k in (1, 0))
    assert float(positive.fp) == float(negative.fn) == 0.0
    for added in (positive + negative, negative + positive):
        close(added.tensor(), whole)


def test_class_frequencies_of_a_sum_by_hand():
    a = sw.confusion_matrix([0.9, 0.1, 0.2, 0.7], [0, 0, 0, 1], weight=FREQUENCY)  # one false alarm of 3 negatives
    b = sw.confusion_matrix([0.9, 0.1, 0.2], [1, 1, 0], weight=FREQUENCY)  # one miss of 2 positives
    # together 4 negatives and 3 positives: an error of a negative weighs 7/8, one of a positive 7/6
    close((a + b).tensor(), torch.tensor([[3.0, 7 / 8], [7 / 6, 2.0]], dtype=torch.float64))


def test_value_weights_times_frequencies_add_up():
    loss = sw.ScoreLoss("hss", weight=VALUE * FREQUENCY)
    parts = [loss.matrix(Z[rows], Y[rows], **rest) for rows, rest in stretches(5)]
    close(sum(parts).tensor(), loss.matrix(Z, Y, times=TIMES).tensor())


@pytest.mark.parametrize("weight", [FREQUENCY, COST * FREQUENCY * FREQUENCY], ids=str)
def test_gradients_go_through_a_sum(weight):
    found = []
    for parts in ([torch.arange(N)], splits(1)):
        z, w = Z.clone().requires_grad_(), GIVEN["sample_weight"].clone().requires_grad_()
        matrix = sum(of_loss(z[rows], SOFT[rows], weight, sample_weight=w[rows]) for rows in parts)
        found.append(torch.autograd.grad(sw.scores.hss(matrix), [z, w]))
    close(found[1], found[0])


def test_a_sum_keeps_adding_up_after_copies():
    parts = [of_loss(Z[rows], Y[rows], FREQUENCY) for rows in splits(2)]
    close(sum(copy.deepcopy(part) for part in parts).tensor(), of_loss(Z, Y, FREQUENCY).tensor())


OTHERS = {
    "none": of_loss(Z, Y, None),
    "cost": of_loss(Z, Y, COST),
    "by hand": sw.ConfusionMatrix(tn=3, fp=1, fn=2, tp=4),
    "twice": of_loss(Z, Y, FREQUENCY * FREQUENCY),
    "weighted labels": sw.ScoreLoss("f1", average="weighted").matrix(Z, Y),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_a_matrix_with_class_frequencies_and_one_without_are_not_added(other):
    balanced = of_loss(Z, Y, FREQUENCY)
    for a, b in ((balanced, other), (other, balanced)):
        with pytest.raises(ValueError, match=r"weighted by class frequencies.*same weight"):
            a + b


def test_labels_with_frequencies_in_other_places_are_not_added():
    a, b = (of_loss(ZS, YS, weight) for weight in ([FREQUENCY, None, None], [None, FREQUENCY, None]))
    with pytest.raises(ValueError, match="weighted by class frequencies"):
        a + b


def test_matrices_that_merely_remember_counts_can_be_added_to_any():
    remembers, plain = sw.ScoreLoss("f1", average="weighted").matrix(ZS, YS), sw.ScoreLoss("f1").matrix(ZS, YS)
    for added in (remembers + plain, plain + remembers):
        close(added.tensor(), 2 * plain.tensor())


# ----------------------------------------------------------------------------------------------------------- tangents


def stretches(parts):
    """Rows of a part of the series, with context; and the loss's arguments that tell of it."""
    found = []
    for counted in torch.arange(N).tensor_split(parts):
        lag = TIMES[:, None] - TIMES[counted]
        rows = (lag.abs() <= T).any(1).nonzero().squeeze(1)
        mask = (rows >= counted[0]) & (rows <= counted[-1])
        found.append((rows, {"mask": mask, "times": TIMES[rows]}))
    return found


def sliced(given):
    return [(rows, rows_of(given, rows)) for rows in splits(3)]


def tangent_and_loss(loss, logits, targets, parts, given, *, by=()):
    """The gradients by logits, and by arguments of these names: of a tangent, summed over parts, and of the loss."""
    rows_and_rest = parts
    found = []
    for kind in ("tangent", "loss"):
        z = logits.clone().requires_grad_()
        whole = given | {name: given[name].clone().requires_grad_() for name in by}
        leaves = [z, *(whole[name] for name in by)]
        if kind == "loss":
            value = loss(z, targets, **whole)
            toward = torch.linspace(0.5, 2.0, value.numel(), dtype=torch.float64).reshape(value.shape)
            found.append((value.detach(), torch.autograd.grad((toward * value).sum(), leaves)))
            continue
        with torch.no_grad():
            matrix = sum(loss.matrix(z[rows], targets[rows], **rest) for rows, rest in rows_and_rest)
        tangent = loss.linearize(matrix)
        assert isinstance(tangent, sw.parallel.LinearizedLoss)
        assert not tangent.value.requires_grad
        assert tangent.value.dtype == torch.float64
        value, added = tangent.value, [torch.zeros_like(leaf) for leaf in leaves]
        for rows, rest in rows_and_rest:
            own = rest | {name: whole[name][rows] for name in by}
            term = tangent(z[rows], targets[rows], **own)
            assert term.shape == value.shape
            toward = torch.linspace(0.5, 2.0, term.numel(), dtype=torch.float64).reshape(term.shape)
            parts_of_it = torch.autograd.grad((toward * term).sum(), leaves)
            added = [total + part for total, part in zip(added, parts_of_it, strict=True)]
        found.append((value, tuple(added)))
    return found


def check_tangent(loss, logits, targets, parts, given, *, by=()):
    found, wanted = tangent_and_loss(loss, logits, targets, parts, given, by=by)
    close(found, wanted)
    assert any(bool(gradient.any()) for gradient in wanted[1])


TANGENT_WEIGHTS = {
    "none": None,
    "cross entropy": CE,
    "cost * frequency": COST * FREQUENCY,
    "frequency twice": FREQUENCY * FREQUENCY,
    "margin": MARGIN,
}
SERIES_WEIGHTS = {
    "value": VALUE,
    "value * frequency": VALUE * FREQUENCY,
    "prod": sw.weights.Value([0.1, 0.5, 0.3], "prod", isolated=2.0),
    "any g": sw.weights.Value([0.0] * T, half_of_all),
}
EVERY_SCORE = [*sw.scores.names(), sw.scores.fbeta(2), sw.scores.cost(fp=1.0, fn=3.0)]
every_score = pytest.mark.parametrize("score", EVERY_SCORE, ids=lambda s: s if isinstance(s, str) else s.name)


@every_score
@pytest.mark.parametrize("weight", TANGENT_WEIGHTS.values(), ids=TANGENT_WEIGHTS.keys())
def test_tangents(score, weight):
    check_tangent(sw.ScoreLoss(score, weight=weight), Z, Y, sliced(GIVEN), GIVEN)


@every_score
@pytest.mark.parametrize("weight", SERIES_WEIGHTS.values(), ids=SERIES_WEIGHTS.keys())
def test_tangents_with_context(score, weight):
    check_tangent(sw.ScoreLoss(score, weight=weight), Z, Y, stretches(5), {"times": TIMES})


@every_score
@pytest.mark.parametrize("average", ["macro", None])
def test_tangents_of_labels(score, average):
    loss = sw.ScoreLoss(score, average=average, weight=EACH, prior=PRIORS)
    check_tangent(loss, ZS, YS, sliced(GIVEN_LABELS), GIVEN_LABELS)


@pytest.mark.parametrize(
    "average",
    ["macro", "weighted", "min", "micro", None, torch.prod],
    ids=lambda one: one if isinstance(one, str) else "none" if one is None else "prod",
)
@pytest.mark.parametrize("weight", [None, FREQUENCY, EACH], ids=["none", "one", "each its own"])
def test_tangents_of_averages(average, weight):
    check_tangent(sw.ScoreLoss("hss", average=average, weight=weight), ZS, YS, sliced(GIVEN_LABELS), GIVEN_LABELS)


def test_tangents_of_labels_with_scores_of_their_own():
    loss = sw.ScoreLoss(["tss", "f1", "error_rate"], average="weighted", weight=[VALUE, FREQUENCY, None])
    check_tangent(loss, ZS, YS, stretches(5), {"times": TIMES})


@pytest.mark.parametrize("weight", [FREQUENCY, COST * FREQUENCY * FREQUENCY, VALUE * FREQUENCY], ids=str)
@pytest.mark.parametrize("score", ["f1", "hss", "cost"])
def test_tangents_by_sample_weights_and_costs(score, weight):
    given = GIVEN | {"times": TIMES}
    if weight.reach:
        parts = [
            (rows, rows_of(given, rows) | rest | {"mask": rest["mask"] & given["mask"][rows]})
            for rows, rest in stretches(5)
        ]
    else:
        parts = sliced(given)
    check_tangent(sw.ScoreLoss(score, weight=weight), Z, Y, parts, given, by=("sample_weight", "costs"))


@pytest.mark.parametrize("weight", [FREQUENCY, COST * FREQUENCY * FREQUENCY], ids=str)
def test_class_counts_have_a_gradient(weight):
    loss, w = sw.ScoreLoss("hss", weight=weight), GIVEN["sample_weight"].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda w: loss(Z, SOFT, sample_weight=w), w)
    tangent = loss.linearize(loss.matrix(Z, SOFT, sample_weight=w))
    close(
        torch.autograd.grad(tangent(Z, SOFT, sample_weight=w), w),
        torch.autograd.grad(loss(Z, SOFT, sample_weight=w), w),
    )


def test_tangents_by_sample_weights_of_labels():
    loss = sw.ScoreLoss("hss", weight=EACH, average="weighted")
    check_tangent(loss, ZS, YS, sliced(GIVEN_LABELS), GIVEN_LABELS, by=("sample_weight",))


def test_tangents_by_soft_labels():
    loss, found = sw.ScoreLoss("hss", weight=COST * FREQUENCY), []
    y = SOFT.clone().requires_grad_()
    (whole,) = torch.autograd.grad(loss(Z, y), y)
    tangent = loss.linearize(loss.matrix(Z, SOFT))
    found = sum(torch.autograd.grad(tangent(Z[rows], y[rows]), y)[0] for rows in splits(0))
    close(found, whole)


SIMPLEX = {"sample_weight": GIVEN["sample_weight"], "mask": GIVEN["mask"]}


@pytest.mark.parametrize(
    "score", [*sw.multiclass.scores.names(), sw.multiclass.scores.cost(1.0 - torch.eye(3))], ids=str
)
def test_tangents_on_the_simplex(score):
    check_tangent(sw.SimplexLoss(score), ZS, CLASSES, sliced(SIMPLEX), SIMPLEX, by=("sample_weight",))


@pytest.mark.parametrize("average", ["weighted", "min", "micro"])
def test_tangents_of_averages_on_the_simplex(average):
    check_tangent(sw.SimplexLoss("f1", average=average), ZS, CLASSES, sliced(SIMPLEX), SIMPLEX)


@pytest.mark.parametrize("average", ["macro", "weighted", "min", "micro", None])
def test_tangents_of_classes_against_the_rest(average):
    loss = sw.OneVsRestLoss("csi", average=average, weight=EACH, prior=PRIORS)
    check_tangent(loss, ZS, CLASSES, sliced(SIMPLEX), SIMPLEX)


def test_a_tangent_of_probabilities():
    loss = sw.ScoreLoss("f1", weight=CE * FREQUENCY, from_logits=False)
    check_tangent(loss, torch.sigmoid(Z), Y, sliced(GIVEN), GIVEN)


def test_a_tangent_in_float32():
    loss, z = sw.ScoreLoss("hss", weight=COST * FREQUENCY), Z.float().requires_grad_()
    (whole,) = torch.autograd.grad(loss(z, Y), z)
    tangent = loss.linearize(sum(loss.matrix(z[rows], Y[rows]) for rows in splits(0)))
    terms = [tangent(z[rows], Y[rows]) for rows in splits(0)]
    assert {term.dtype for term in terms} == {torch.float32}
    (found,) = torch.autograd.grad(sum(terms), z)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-9)  # slopes in float64, samples in float32


def test_a_tangent_where_no_cell_has_a_slope():
    loss = sw.ScoreLoss("tss")
    z = torch.zeros(4, requires_grad=True)  # no positives: TSS has terms without a gradient
    tangent = loss.linearize(loss.matrix(z, torch.zeros(4)))
    close(tangent.value, loss(z, torch.zeros(4)).detach().double())
    (found,) = torch.autograd.grad(tangent(z, torch.zeros(4)), z)
    close(found, torch.autograd.grad(loss(z, torch.zeros(4)), z)[0])


def test_a_tangent_of_a_score_that_is_constant():
    loss = sw.ScoreLoss(sw.scores.Score("seven", lambda tn, fp, fn, tp: torch.full_like(tn, 7.0)))
    z = Z.clone().requires_grad_()
    tangent = loss.linearize(loss.matrix(z, Y))
    assert float(tangent.value) == -7.0
    assert not torch.autograd.grad(tangent(z, Y), z)[0].any()


@pytest.mark.parametrize("inside", [False, True])
def test_a_tangent_at_matrices_of_inference_mode(inside):
    loss, z = sw.ScoreLoss("hss", weight=FREQUENCY), Z.clone().requires_grad_()
    with torch.inference_mode():
        matrix = sum(loss.matrix(Z[rows], Y[rows]) for rows in splits(0))
        tangent = loss.linearize(matrix) if inside else None
    tangent = tangent or loss.linearize(matrix)
    found = torch.autograd.grad(sum(tangent(z[rows], Y[rows]) for rows in splits(0)), z)
    close(found, torch.autograd.grad(loss(z, Y), z))


MATRIX = sw.ConfusionMatrix(tn=3, fp=1, fn=2, tp=4)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: sw.ScoreLoss("f1", exact=True).linearize(MATRIX), ValueError, "exact"),
        (lambda: sw.OneVsRestLoss("f1", exact=True).linearize(MATRIX), ValueError, "exact"),
        (lambda: sw.ScoreLoss("f1").linearize(torch.zeros(2, 2)), TypeError, "ConfusionMatrix.*saw Tensor"),
        (lambda: sw.ScoreLoss("f1").linearize(0), TypeError, "ConfusionMatrix.*saw int"),
        (lambda: sw.OneVsRestLoss("f1").linearize(torch.zeros(2)), TypeError, "ConfusionMatrix.*saw Tensor"),
        (lambda: sw.SimplexLoss("f1").linearize(MATRIX), TypeError, "MulticlassMatrix.*saw ConfusionMatrix"),
        (
            lambda: sw.ScoreLoss("f1").linearize(sw.multiclass.MulticlassMatrix([[1, 2], [3, 4]])),
            TypeError,
            "ConfusionMatrix.*saw MulticlassMatrix",
        ),
        (
            lambda: sw.ScoreLoss("f1", weight=FREQUENCY).linearize(MATRIX),
            ValueError,
            "class counts.*sum of loss.matrix",
        ),
        (
            lambda: sw.ScoreLoss("f1", weight=FREQUENCY).linearize(of_loss(Z, Y, FREQUENCY * FREQUENCY)),
            ValueError,
            "sum of loss.matrix",
        ),
        (lambda: sw.ScoreLoss("f1").linearize(of_loss(Z, Y, FREQUENCY)), ValueError, "sum of loss.matrix"),
        (
            lambda: sw.ScoreLoss("f1", average="weighted").linearize(of_loss(ZS, YS, None)),
            ValueError,
            "class counts.*sum of loss.matrix",
        ),
        (lambda: sw.ScoreLoss(["f1", "tss"]).linearize(of_loss(ZS, YS, None)), ValueError, r"2 labels.*\(3,\)"),
        (lambda: sw.ScoreLoss("f1", prior=PRIORS).linearize(MATRIX), ValueError, r"3 labels.*\(\)"),
        (lambda: sw.SimplexLoss("f1", average=None).linearize(_classes()), ValueError, "another average"),
        (lambda: sw.ScoreLoss("f1").linearize(of_loss(ZS, YS, None))(Z, Y), ValueError, "other labels"),
        (lambda: sw.ScoreLoss("f1").linearize(MATRIX)(ZS, YS), ValueError, "other labels"),
        (
            lambda: sw.ScoreLoss("f1").linearize(of_loss(ZS, YS, None))(ZS[:, :2], YS[:, :2]),
            ValueError,
            "other labels",
        ),
        (lambda: sw.SimplexLoss("hss").linearize(_classes())(ZS[:, :2], CLASSES % 2), ValueError, "other labels"),
    ],
)
def test_refused_tangents(make, error, match):
    with pytest.raises(error, match=match):
        make()


def _classes():
    return sw.SimplexLoss("f1").matrix(ZS, CLASSES)


def test_a_matrix_by_hand_is_enough_without_class_frequencies():
    tangent = sw.ScoreLoss("tss").linearize(MATRIX)
    close(tangent.value, -sw.scores.tss(MATRIX))


# ---------------------------------------------------------------------------------------------------------- whole steps


class Noisy(nn.Module):
    """Drops out, and keeps what it dropped."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        kept = torch.bernoulli(torch.full_like(x, 0.7)) if self.training else torch.ones_like(x)
        self.seen.append(kept)
        return x * kept


def network(*middle, seed=1, outputs=LABELS):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(FEATURES, 6), *middle, nn.Tanh(), nn.Linear(6, outputs)).double()


def first(model, x):
    return model(x)[:, 0]


def gradients(model):
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def rows_in_parts(targets, given=None, parts=4):
    """Micro-batches one after the other, one of them empty."""
    rows = [*torch.arange(N).tensor_split(parts), torch.arange(0)]
    return [(X[r], targets[r]) if given is None else (X[r], targets[r], rows_of(given, r)) for r in rows]


def in_one(loss, model, targets, given, forward):
    """The loss of the whole batch and its gradients, the plain way."""
    value = loss(forward(model, X), targets, **given)
    value.sum().backward()
    return value.detach(), gradients(model)


LOSSES = {
    "plain": (sw.ScoreLoss("f1"), Y, GIVEN),
    "frequency": (sw.ScoreLoss("hss", weight=COST * FREQUENCY), Y, GIVEN),
    "soft": (sw.ScoreLoss("hss", weight=CE * FREQUENCY), SOFT, GIVEN),
    "labels": (sw.ScoreLoss("csi", weight=EACH, prior=PRIORS, average="weighted"), YS, GIVEN_LABELS),
    "each label": (sw.ScoreLoss("csi", weight=EACH, average=None), YS, GIVEN_LABELS),
    "simplex": (sw.SimplexLoss("mcc"), CLASSES, SIMPLEX),
    "simplex, cost": (sw.SimplexLoss(sw.multiclass.scores.cost(1.0 - torch.eye(3))), CLASSES, SIMPLEX),
    "one against the rest": (sw.OneVsRestLoss("f1", weight=EACH, average="min"), CLASSES, SIMPLEX),
    "combined": (
        sw.CombinedLoss(
            [
                (0.2, sw.ScoreLoss("f1", weight=FREQUENCY)),
                (0.5, sw.ScoreLoss("cost", weight=CE)),
                (0.3, sw.CombinedLoss([(1.0, sw.ScoreLoss("tss", weight=COST * FREQUENCY))])),
            ]
        ),
        Y,
        GIVEN,
    ),
    "combined, classes": (
        sw.CombinedLoss([(0.5, sw.SimplexLoss("hss")), (0.5, sw.OneVsRestLoss("tss", weight=FREQUENCY))]),
        CLASSES,
        SIMPLEX,
    ),
}


@pytest.mark.parametrize(("loss", "targets", "given"), LOSSES.values(), ids=LOSSES.keys())
def test_a_step_in_parts_is_the_whole_step(loss, targets, given):
    forward = (lambda model, x: model(x)) if targets is CLASSES or targets.dim() == 2 else first
    model = network()
    value = sw.parallel.accumulate(loss, model, rows_in_parts(targets, given), forward=forward)
    assert not value.requires_grad
    close((value, gradients(model)), in_one(loss, network(), targets, given, forward))


@pytest.mark.parametrize("weight", SERIES_WEIGHTS.values(), ids=SERIES_WEIGHTS.keys())
def test_a_step_in_stretches_of_time(weight):
    loss, model = sw.ScoreLoss("hss", weight=weight), network()
    parts = [(X[rows], Y[rows], rest) for rows, rest in stretches(5)]
    value = sw.parallel.accumulate(loss, model, parts, forward=first)
    close((value, gradients(model)), in_one(loss, network(), Y, {"times": TIMES}, first))


@pytest.mark.parametrize("weight", [VALUE * FREQUENCY, SERIES_WEIGHTS["prod"]], ids=str)
def test_a_step_in_batches_of_a_sampler(weight):
    groups = torch.arange(N) % 2
    loss, model = sw.ScoreLoss("hss", weight=weight), network()
    sampler = ChronologicalBatchSampler(10, groups=groups, times=TIMES, context=T, stretch=7)
    parts = [(X[b.index], Y[b.index], {"mask": b.mask, "groups": b.groups, "times": b.times}) for b in sampler]
    assert len(parts) == 5
    value = sw.parallel.accumulate(loss, model, parts, forward=first)
    close((value, gradients(model)), in_one(loss, network(), Y, {"groups": groups, "times": TIMES}, first))


def test_a_model_with_one_output_needs_no_more_than_itself():
    model = nn.Sequential(network(outputs=1), nn.Flatten(0))
    loss = sw.ScoreLoss("f1")
    value = sw.parallel.accumulate(loss, model, rows_in_parts(Y))
    whole = nn.Sequential(network(outputs=1), nn.Flatten(0))
    close((value, gradients(model)), in_one(loss, whole, Y, {}, lambda m, x: m(x)))


def test_both_passes_see_the_same_noise():
    noise, loss = Noisy(), sw.ScoreLoss("hss", weight=FREQUENCY)
    model, parts = network(noise), rows_in_parts(YS)
    torch.manual_seed(4)
    value = sw.parallel.accumulate(loss, model, parts)
    state, seen = torch.get_rng_state(), noise.seen
    assert len(seen) == 2 * len(parts)
    for early, late in zip(seen[: len(parts)], seen[len(parts) :], strict=True):
        assert torch.equal(early, late)
    assert not torch.equal(seen[0], seen[1])

    plain = network(Noisy())
    torch.manual_seed(4)
    logits = torch.cat([plain(x) for x, _ in parts])
    assert torch.equal(torch.get_rng_state(), state)
    whole = loss(logits, YS)
    whole.backward()
    close((value, gradients(model)), (whole.detach(), gradients(plain)))


def test_noise_of_pytorch_itself():
    loss, parts = sw.ScoreLoss("hss"), rows_in_parts(YS)
    found = []
    for whole in (False, True):
        model = network(nn.Dropout(0.4))
        torch.manual_seed(8)
        if whole:
            value = loss(torch.cat([model(x) for x, _ in parts]), YS)
            value.backward()
        else:
            value = sw.parallel.accumulate(loss, model, parts)
        found.append((value.detach(), gradients(model), torch.get_rng_state()))
    close(*found)


def test_who_draws_random_numbers_in_between_disturbs_nobody():
    noise, parts = Noisy(), rows_in_parts(YS)

    def backward(value):
        torch.rand(7)
        value.backward()

    sw.parallel.accumulate(sw.ScoreLoss("f1"), network(noise), parts, backward=backward)
    for early, late in zip(noise.seen[: len(parts)], noise.seen[len(parts) :], strict=True):
        assert torch.equal(early, late)


def test_batch_norms_are_updated_once():
    loss, model, plain = sw.ScoreLoss("hss", weight=FREQUENCY), network(nn.BatchNorm1d(6)), network(nn.BatchNorm1d(6))
    parts = rows_in_parts(YS)[:-1]  # PyTorch's batch norm has no mean of nothing
    value = sw.parallel.accumulate(loss, model, parts)
    whole = loss(torch.cat([plain(x) for x, _ in parts]), YS)
    whole.backward()
    close((value, gradients(model)), (whole.detach(), gradients(plain)))
    for found, once in zip(model.buffers(), plain.buffers(), strict=True):
        assert torch.equal(found, once)
    assert int(model[1].num_batches_tracked) == len(parts)


class Counting(nn.Module):
    """A buffer that is replaced at each call, not changed, and that what comes out depends on."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        self.calls = self.calls + 1
        return x * self.calls


def test_what_comes_out_may_depend_on_buffers():
    loss, model, plain, parts = sw.ScoreLoss("hss"), network(Counting()), network(Counting()), rows_in_parts(YS)
    value = sw.parallel.accumulate(loss, model, parts)
    whole = loss(torch.cat([plain(x) for x, _ in parts]), YS)
    whole.backward()
    close((value, gradients(model)), (whole.detach(), gradients(plain)))
    assert float(model[1].calls) == len(parts)


@pytest.mark.parametrize("where", ["model", "loss", "batch"])
def test_buffers_are_put_back_if_the_first_pass_raises(where):
    model = network(nn.BatchNorm1d(6))
    before = copy.deepcopy(model.state_dict())
    parts = rows_in_parts(YS)[:-1]

    def forward(model, x):
        logits = model(x)
        if where == "model" and torch.equal(x, parts[2][0]):
            raise ArithmeticError("on purpose")
        return logits

    bad = list(parts)
    if where == "loss":
        bad[2] = (parts[2][0], parts[2][1] + 5)
    if where == "batch":
        bad[2] = parts[2][0]
    with pytest.raises((ArithmeticError, ValueError, TypeError)):
        sw.parallel.accumulate(sw.ScoreLoss("f1"), model, bad, forward=forward)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    assert not any(bool(part.any()) for part in gradients(model))


class Watched(Sequence):
    """Micro-batches that are made when they are asked for, and count how often that is."""

    def __init__(self, parts):
        self.parts, self.asked = parts, []

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, k):
        if k >= len(self.parts):
            raise IndexError(k)
        self.asked.append(k)
        return self.parts[k]


def test_a_sequence_is_read_twice_and_an_iterator_once():
    parts, loss = rows_in_parts(YS), sw.ScoreLoss("f1")
    sequence, drawn = Watched(parts), []

    def one_by_one():
        for k, part in enumerate(parts):
            drawn.append(k)
            yield part

    found = []
    for given in (parts, tuple(parts), sequence, one_by_one(), iter(parts)):
        model = network()
        found.append((sw.parallel.accumulate(loss, model, given), gradients(model)))
    order = list(range(len(parts)))
    assert sequence.asked == order * 2
    assert drawn == order
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=0)


def test_a_loader():
    data = torch.utils.data.TensorDataset(X, YS)
    torch.manual_seed(0)
    model, loader = network(), torch.utils.data.DataLoader(data, batch_size=10, shuffle=True)
    value = sw.parallel.accumulate(sw.ScoreLoss("f1"), model, loader)  # shuffled once, not twice
    close((value, gradients(model)), in_one(sw.ScoreLoss("f1"), network(), YS, {}, lambda m, x: m(x)))


def test_how_the_model_is_called_and_gone_back_through():
    parts, model, events = rows_in_parts(YS)[:3], network(), []

    def forward(given, inputs):
        assert given is model
        events.append(("forward", torch.is_grad_enabled()))
        return given(inputs["x"])

    def backward(value):
        assert value.dim() == 0
        assert value.requires_grad
        events.append("backward")
        value.backward()

    @contextlib.contextmanager
    def no_sync():
        events.append("enter")
        yield
        events.append("leave")

    loss = sw.ScoreLoss("csi", average=None)
    parts = [({"x": x}, y, {}) for x, y in parts]
    sw.parallel.accumulate(loss, model, parts, forward=forward, backward=backward, no_sync=no_sync)
    with_gradient = ("forward", True)
    assert events == [
        *[("forward", False)] * 3,
        *["enter", with_gradient, "backward", "leave"] * 2,
        *[with_gradient, "backward"],
    ]
    plain = network()
    loss(plain(X[:36]), YS[:36]).sum().backward()
    close(gradients(model), gradients(plain))


def test_scaled_gradients():
    model, scaler = network(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    loss, parts = sw.ScoreLoss("hss"), rows_in_parts(YS)
    value = sw.parallel.accumulate(loss, model, parts, backward=lambda value: scaler.scale(value).backward())
    whole = in_one(loss, network(), YS, {}, lambda m, x: m(x))
    close(value, whole[0])
    close(gradients(model), [1024 * gradient for gradient in whole[1]])


def test_gradients_are_added_to_those_that_are_there():
    model, loss = network(), sw.ScoreLoss("hss")
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    sw.parallel.accumulate(loss, model, rows_in_parts(YS))
    whole = in_one(loss, network(), YS, {}, lambda m, x: m(x))[1]
    close(gradients(model), [1 + gradient for gradient in whole])


def test_float32():
    loss, model, plain = sw.ScoreLoss("hss", weight=FREQUENCY), network().float(), network().float()
    parts = [(x.float(), y.float()) for x, y in rows_in_parts(YS)]
    value = sw.parallel.accumulate(loss, model, parts)
    assert value.dtype == torch.float64
    whole = loss(plain(X.float()), YS.float())
    whole.backward()
    torch.testing.assert_close(value.float(), whole.detach(), rtol=1e-6, atol=1e-7)
    # gradients of 48 samples summed in float32, in another order
    torch.testing.assert_close(gradients(model), gradients(plain), rtol=1e-5, atol=1e-7)


def test_autocast():
    loss, model, plain = sw.ScoreLoss("hss", weight=FREQUENCY), network().float(), network().float()
    parts = [(x.float(), y.float()) for x, y in rows_in_parts(YS)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = sw.parallel.accumulate(loss, model, parts)
    # without its cache, which would add up the gradients of micro-batches in bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        logits = torch.cat([plain(x) for x, _ in parts])
        assert logits.dtype == torch.bfloat16
        whole = loss(logits, YS.float())
    whole.backward()
    torch.testing.assert_close(value.float(), whole.detach(), rtol=1e-6, atol=1e-7)
    for found, wanted in zip(gradients(model), gradients(plain), strict=True):
        # where a gradient by a logit differs in the last digit of float32, it may be rounded otherwise to 8 bits
        assert wanted.any()
        torch.testing.assert_close(found, wanted, rtol=0, atol=2**-8 * float(wanted.abs().max()))


def test_training_in_parts_is_training():
    loss, models = sw.ScoreLoss("hss", weight=FREQUENCY), (network(), network())
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.05) for model in models]
    for _ in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        sw.parallel.accumulate(loss, models[0], rows_in_parts(YS))
        loss(models[1](X), YS).backward()
        for optimizer in optimizers:
            optimizer.step()
    close([p.detach() for p in models[0].parameters()], [p.detach() for p in models[1].parameters()])


def _accumulate(loss=None, model=None, parts=None):
    parts = rows_in_parts(YS) if parts is None else parts
    return sw.parallel.accumulate(loss or sw.ScoreLoss("f1"), model or network(), parts)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: _accumulate(sw.ScoreLoss("f1", exact=True)), ValueError, "exact"),
        (lambda: _accumulate(sw.OneVsRestLoss("f1", exact=True), parts=rows_in_parts(CLASSES)), ValueError, "exact"),
        (
            lambda: _accumulate(sw.CombinedLoss([(0.5, sw.ScoreLoss("f1")), (0.5, sw.ScoreLoss("f1", exact=True))])),
            ValueError,
            "exact",
        ),
        (lambda: _accumulate(nn.BCEWithLogitsLoss()), TypeError, "saw BCEWithLogitsLoss"),
        (lambda: _accumulate(lambda z, y: z.sum()), TypeError, "saw function"),
        (lambda: _accumulate(sw.parallel.RunningLoss(sw.ScoreLoss("f1"))), TypeError, "saw RunningLoss"),
        (
            lambda: _accumulate(sw.CombinedLoss([(0.5, sw.ScoreLoss("f1")), (0.5, nn.BCEWithLogitsLoss())])),
            TypeError,
            "BCEWithLogitsLoss.*CrossEntropy",
        ),
        (
            lambda: _accumulate(sw.SimplexLoss("f1", average=None), parts=rows_in_parts(CLASSES)),
            ValueError,
            "another average",
        ),
        (lambda: _accumulate(model=lambda x: x), TypeError, "torch.nn.Module.*forward="),
        (lambda: _accumulate(parts=[]), ValueError, "no micro-batches"),
        (lambda: _accumulate(parts=iter([])), ValueError, "no micro-batches"),
        (lambda: _accumulate(parts=[X]), TypeError, r"\(inputs, targets\).*saw Tensor"),
        (lambda: _accumulate(parts=[(X,)]), TypeError, r"\(inputs, targets\).*saw 1 things"),
        (lambda: _accumulate(parts=[(X, YS, YS)]), TypeError, r"\(inputs, targets\).*saw 3 things"),
        (lambda: _accumulate(parts=[(X, YS, {}, {})]), TypeError, r"\(inputs, targets\).*saw 4 things"),
        (lambda: _accumulate(parts={"x": X, "y": YS}), TypeError, r"\(inputs, targets\).*saw str"),
    ],
)
def test_refused_steps(make, error, match):
    with pytest.raises(error, match=match):
        make()


class Narrow(nn.Module):
    """As many outputs as the inputs have columns."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x):
        return x * self.scale


@pytest.mark.parametrize("labels", [(3, 2), (1, 3), (3, 1)], ids=str)
def test_micro_batches_with_different_labels_are_refused(labels):
    parts = [(ZS[:, :k], YS[:, :k]) for k in labels]
    model = Narrow()
    with pytest.raises(ValueError, match="labels"):
        sw.parallel.accumulate(sw.ScoreLoss("f1"), model, parts)
    assert model.scale.grad is None


# ------------------------------------------------------------------------------------------------------ running losses


def by_hand(batches, decay, score, balanced):
    """The value and the gradient at each batch's logits, from the definition; uniform prior."""
    average, found = torch.zeros(6, dtype=torch.float64), []
    for k, (z, y, weight) in enumerate(batches, start=1):
        x = z.clone().requires_grad_()
        alarm = torch.sigmoid(x)
        sums = torch.stack(
            [
                ((1 - y) * (1 - alarm) * weight).sum(),
                (2.0 * (1 - y) * alarm * weight).sum(),
                (5.0 * y * (1 - alarm) * weight).sum(),
                (y * alarm * weight).sum(),
                ((1 - y) * weight).sum(),
                (y * weight).sum(),
            ]
        )
        average = decay * average + (1 - decay) * sums.detach()
        at = (average / (1 - decay**k)).requires_grad_()
        tn, fp, fn, tp, negatives, positives = at
        if balanced:
            fp = fp * over(negatives + positives, 2 * negatives)
            fn = fn * over(negatives + positives, 2 * positives)
        value = -score(tn, fp, fn, tp)
        (slope,) = torch.autograd.grad(value, at)
        found.append((value.detach(), torch.autograd.grad(slope @ sums, x)[0]))
    return found


def over(a, b):
    return a / b if bool(b != 0) else 0 * a


def f1(tn, fp, fn, tp):
    return over(2 * tp, 2 * tp + fp + fn)


def tss(tn, fp, fn, tp):
    return over(tp, tp + fn) - over(fp, fp + tn)


BATCHES = [(Z[rows], Y[rows], GIVEN["sample_weight"][rows]) for rows in torch.arange(N).tensor_split(6)]


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("score", [f1, tss])
def test_running_losses(score, balanced, decay):
    loss = sw.ScoreLoss(score.__name__, weight=COST * FREQUENCY if balanced else COST)
    running = sw.parallel.RunningLoss(loss, decay)
    for (z, y, weight), wanted in zip(BATCHES, by_hand(BATCHES, decay, score, balanced), strict=True):
        x = z.clone().requires_grad_()
        value = running(x, y, sample_weight=weight)
        close((value.detach(), torch.autograd.grad(value, x)[0]), wanted)


def test_the_default_decay():
    running, same = sw.parallel.RunningLoss(sw.ScoreLoss("f1")), sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=0.99)
    for z, y, _ in BATCHES:
        assert torch.equal(running(z, y), same(z, y))


@pytest.mark.parametrize(("loss", "targets", "given"), LOSSES.values(), ids=LOSSES.keys())
def test_without_memory_it_is_the_loss(loss, targets, given):
    running = sw.parallel.RunningLoss(loss, decay=0.0)
    logits = ZS if targets is CLASSES or targets.dim() == 2 else Z
    for rows in splits(4):
        found = []
        for each in (running, loss):
            z = logits[rows].clone().requires_grad_()
            value = each(z, targets[rows], **rows_of(given, rows))
            found.append((value.detach(), torch.autograd.grad(value.sum(), z)[0]))
        close(*found)


@pytest.mark.parametrize(("loss", "targets", "given"), LOSSES.values(), ids=LOSSES.keys())
def test_the_same_batch_again_is_its_own_average(loss, targets, given):
    running = sw.parallel.RunningLoss(loss, decay=0.9)
    logits = ZS if targets is CLASSES or targets.dim() == 2 else Z
    for _ in range(3):
        close(running(logits, targets, **given), loss(logits, targets, **given))


def test_a_batch_without_positives_has_a_useful_gradient():
    running = sw.parallel.RunningLoss(sw.ScoreLoss("csi"), decay=0.9)
    running(Z, Y)
    z = Z[Y == 0].clone().requires_grad_()
    value = running(z, torch.zeros(len(z)))
    (gradient,) = torch.autograd.grad(value, z)
    assert value < 0
    assert (gradient > 0).all()  # fewer alarms are better


def test_it_is_as_wide_as_the_logits():
    running = sw.parallel.RunningLoss(sw.ScoreLoss("f1"))
    assert running(Z.float(), Y).dtype == torch.float32
    assert running(Z.bfloat16(), Y).dtype == torch.float32
    assert running(Z, Y).dtype == torch.float64


def test_earlier_batches_have_no_gradient():
    running = sw.parallel.RunningLoss(sw.ScoreLoss("f1", weight=FREQUENCY), decay=0.9)
    early, late = (Z[part].clone().requires_grad_() for part in (slice(20), slice(20, None)))
    running(early, Y[:20])
    (running(late, Y[20:])).backward()
    assert early.grad is None
    assert late.grad.any()


def test_to_evaluate_is_to_learn_nothing():
    loss = sw.ScoreLoss("hss", weight=FREQUENCY)
    running = sw.parallel.RunningLoss(loss, decay=0.9)
    running.eval()
    assert torch.equal(running(Z, Y), loss(Z, Y))  # before the first step
    assert not running.state_dict()
    running.train()
    running(*BATCHES[0][:2])
    state = copy.deepcopy(running.state_dict())
    running.eval()
    z = Z.clone().requires_grad_()
    value = running(z, Y)
    assert torch.equal(value, loss(Z, Y))
    close(torch.autograd.grad(value, z)[0], torch.autograd.grad(loss(z, Y), z)[0])
    assert state.keys() == running.state_dict().keys()
    for name, kept in running.state_dict().items():
        assert torch.equal(kept, state[name])


def _next(running, k):
    z = BATCHES[k][0].clone().requires_grad_()
    value = running(z, BATCHES[k][1])
    return value.detach(), torch.autograd.grad(value, z)[0]


def _saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("weight", [None, FREQUENCY], ids=str)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_fresh_object_goes_on_from_a_state(weight, steps):
    running, fresh, used = (sw.parallel.RunningLoss(sw.ScoreLoss("f1", weight=weight), decay=0.8) for _ in range(3))
    for k in range(steps):
        _next(running, k)
    _next(used, 5)
    state = _saved(running.state_dict())
    for other in (fresh, used):
        other.load_state_dict(state, strict=True)
    expected_next = [_next(running, k) for k in (3, 4)]
    for other in (fresh, used):
        torch.testing.assert_close([_next(other, k) for k in (3, 4)], expected_next, rtol=0, atol=0)


def test_a_state_is_not_shared():
    running, other = (sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=0.8) for _ in range(2))
    _next(running, 0)
    other.load_state_dict(running.state_dict())
    _next(other, 1)
    again = sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=0.8)
    _next(again, 0)
    torch.testing.assert_close(_next(running, 2), _next(again, 2), rtol=0, atol=0)


def test_it_is_kept_as_a_part_of_a_model():
    model, other = (nn.ModuleDict({"loss": sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=0.8)}) for _ in range(2))
    _next(model["loss"], 0)
    state = _saved(model.state_dict())
    assert len(state) == 2
    assert all(name.startswith("loss.") for name in state)
    other.load_state_dict(state)
    torch.testing.assert_close(_next(other["loss"], 1), _next(model["loss"], 1), rtol=0, atol=0)
    copied = copy.deepcopy(model)
    torch.testing.assert_close(_next(copied["loss"], 2), _next(model["loss"], 2), rtol=0, atol=0)


def test_a_state_with_something_else_in_it_is_refused():
    running = sw.parallel.RunningLoss(sw.ScoreLoss("f1"))
    with pytest.raises(RuntimeError, match="Unexpected key"):
        running.load_state_dict({"other": torch.zeros(())})


def _run(model, optimizer, running, start, stop):
    values = []
    for k in range(start, stop):
        rows = torch.arange(N).tensor_split(6)[k % 6]
        optimizer.zero_grad()
        value = running(model(X[rows]), YS[rows])
        value.backward()
        optimizer.step()
        values.append(value.detach())
    return values, [parameter.detach().clone() for parameter in model.parameters()]


def test_training_goes_on_to_the_bit():
    def start():
        model = network(nn.Dropout(0.3))
        loss = sw.ScoreLoss("hss", weight=EACH, average="weighted")
        return model, torch.optim.Adam(model.parameters(), lr=0.03), sw.parallel.RunningLoss(loss, decay=0.9)

    torch.manual_seed(6)
    objects = start()
    _run(*objects, 0, 5)
    saved = _saved([one.state_dict() for one in objects]), torch.get_rng_state()
    through = _run(*objects, 5, 12)

    again = start()
    for one, state in zip(again, saved[0], strict=True):
        one.load_state_dict(state)
    torch.set_rng_state(saved[1])
    torch.testing.assert_close(_run(*again, 5, 12), through, rtol=0, atol=0)


def test_reset():
    running, fresh = (sw.parallel.RunningLoss(sw.ScoreLoss("f1", weight=FREQUENCY), decay=0.8) for _ in range(2))
    _next(running, 0)
    assert not torch.equal(_next(running, 1)[0], _next(fresh, 1)[0])
    running.reset()
    fresh.reset()
    assert not running.state_dict()
    torch.testing.assert_close(_next(running, 2), _next(fresh, 2), rtol=0, atol=0)


def test_the_number_of_labels_must_stay():
    running = sw.parallel.RunningLoss(sw.ScoreLoss("f1", average="weighted"), decay=0.8)
    running(ZS, YS)
    state = copy.deepcopy(running.state_dict())
    for z, y in ((ZS[:, :2], YS[:, :2]), (Z, Y)):
        with pytest.raises(ValueError, match=r"number of labels must not change.*reset\(\)"):
            running(z, y)
    for name, kept in running.state_dict().items():
        assert torch.equal(kept, state[name])
    running.reset()
    close(running(Z, Y), sw.ScoreLoss("f1")(Z, Y))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: sw.parallel.RunningLoss(nn.BCEWithLogitsLoss()), TypeError, "saw BCEWithLogitsLoss"),
        (lambda: sw.parallel.RunningLoss("f1"), TypeError, "saw str"),
        (lambda: sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=1.0), ValueError, r"decay.*saw 1\.0"),
        (lambda: sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=-0.1), ValueError, r"decay.*saw -0\.1"),
        (lambda: sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=float("nan")), ValueError, "decay.*saw nan"),
        (lambda: sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay="0.9"), ValueError, "decay.*saw '0.9'"),
        (lambda: sw.parallel.RunningLoss(sw.ScoreLoss("f1", exact=True))(Z, Y), ValueError, "exact"),
        (
            lambda: sw.parallel.RunningLoss(sw.CombinedLoss([(1.0, nn.BCEWithLogitsLoss())]))(Z, Y),
            TypeError,
            "BCEWithLogitsLoss",
        ),
    ],
)
def test_refused_running_losses(make, error, match):
    with pytest.raises(error, match=match):
        make()


# ---------------------------------------------------------------------------------------------- the loss of a matrix


@pytest.mark.parametrize("score", ["hss", "error_rate"])
@pytest.mark.parametrize("average", ["macro", "weighted", "min", "micro", None])
def test_the_loss_of_a_sum_of_matrices(score, average):
    loss = sw.ScoreLoss(score, weight=FREQUENCY, average=average)
    for z, y in ((Z, Y), (ZS, YS)):
        parts = [loss.matrix(z[rows], y[rows]) for rows in splits(0)]
        torch.testing.assert_close(loss.of(sum(parts)), loss(z, y), rtol=1e-10, atol=1e-12)


def test_the_loss_of_a_sum_of_matrices_of_classes():
    g = torch.Generator().manual_seed(3)
    z, y = torch.randn(60, 4, dtype=torch.float64, generator=g), torch.randint(4, (60,), generator=g)
    for loss in (sw.SimplexLoss("kappa"), sw.SimplexLoss("f1"), sw.OneVsRestLoss("tss")):
        matrix = loss.matrix(z[:25], y[:25]) + loss.matrix(z[25:], y[25:])
        torch.testing.assert_close(loss.of(matrix), loss(z, y), rtol=1e-10, atol=1e-12)
        with pytest.raises(TypeError, match="saw Tensor"):
            loss.of(z)


# --------------------------------------------------------------------------------------------- halves of a step


class Disturbed(nn.Module):
    """Remembers what it drew."""

    def __init__(self):
        super().__init__()
        self.layer, self.drawn = nn.Linear(2, 1).double(), []

    def forward(self, x):
        noise = torch.rand(len(x), 2, dtype=torch.float64)
        self.drawn.append(noise)
        return self.layer(x + noise)[:, 0]


class Drawn(Sequence):
    """Micro-batches that are drawn anew whenever they are read."""

    def __len__(self):
        return 3

    def __getitem__(self, k):
        if not 0 <= k < 3:
            raise IndexError(k)
        return torch.randn(20, 2, dtype=torch.float64), (torch.arange(20) % 4 == 0).double()


def test_the_halves_of_a_step_make_a_step():
    torch.manual_seed(0)
    model, loss = Disturbed(), sw.ScoreLoss("f1")
    parts = list(Drawn())
    first = sw.parallel.first_pass(loss, model, parts)
    assert model.layer.weight.grad is None
    for k in (2, 0, 1):  # in any order
        first.again(k)
        first.tangent(model(parts[k][0]), parts[k][1]).backward()
        assert torch.equal(model.drawn[-1], model.drawn[k])
    logits = torch.cat([model.layer(x + noise)[:, 0] for (x, _), noise in zip(parts, model.drawn, strict=False)])
    value = loss(logits, torch.cat([y for _, y in parts]))
    torch.testing.assert_close(first.tangent.value, value.detach(), rtol=1e-12, atol=0)
    expected = torch.autograd.grad(value, list(model.layer.parameters()))
    for mine, theirs in zip(model.layer.parameters(), expected, strict=True):
        torch.testing.assert_close(mine.grad, theirs, rtol=1e-10, atol=1e-12)


def test_micro_batches_that_are_drawn_anew_are_the_same_in_both_passes():
    torch.manual_seed(0)
    model, seen = nn.Linear(2, 1).double(), []

    def forward(model, x):
        seen.append(x)
        return model(x)[:, 0]

    sw.parallel.accumulate(sw.ScoreLoss("f1"), model, Drawn(), forward=forward)
    assert len(seen) == 6
    for one, other in zip(seen[:3], seen[3:], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("part", [sw.ScoreLoss("f1", average=None), sw.SimplexLoss("f1", average=None)])
def test_no_way_to_combine_several_numbers(part):
    loss, y = sw.CombinedLoss([(1.0, part)]), YS if isinstance(part, sw.ScoreLoss) else CLASSES
    ways = [loss, sw.parallel.RunningLoss(loss), lambda z, y: sw.parallel.accumulate(loss, nn.Identity(), [(z, y)])]
    for way in ways:
        with pytest.raises(ValueError, match="every loss must return a scalar"):
            way(ZS, y)
