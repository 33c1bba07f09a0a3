"""What an error weighs: each kind of weight against its definition, and what all of them must have in common."""

import math
import pickle

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

import scorewise as sw
from tests.cases import ALL_PRIORS
from tests.weight_oracles import (
    ALL_WEIGHTS,
    GRID,
    OMEGA,
    Series,
    cells,
    class_frequency,
    cost,
    cross_entropy,
    expected,
    largest,
    margin,
    matrix_at,
    none,
    product,
    random_series,
    value,
)

PRIORS = {case.name: case for case in ALL_PRIORS}
UNIFORM = PRIORS["uniform"]
each_prior = pytest.mark.parametrize("case", ALL_PRIORS, ids=repr)
each_weight = pytest.mark.parametrize("kind", ALL_WEIGHTS, ids=repr)

# Sums of a few dozen numbers of at most 10: 1e-14 or so. The priors themselves are tested to 1e-9.
CLOSE = 1e-9

# ties, points outside of every inner support, nothing at 0 or 1, where cross entropy may be infinite
PREDICTIONS = [0.5, 0.03, 0.83, 0.21, 0.21, 0.6, 0.4, 0.97, 0.25, 0.58]
LABELS = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
SOFT = [0.0, 0.1, 0.25, 1.0, 0.0, 0.9, 0.5, 0.3, 1.0, 0.8]
MASK = [True, True, True, False, True, True, False, True, True, True]
WEIGHT = [1.0, 2.5, 1.0, 1.0, 0.5, 1.0, 1.0, 0.25, 3.0, 1.0]
COSTS = [
    (1.0, 2.0),
    (0.5, 3.0),
    (2.0, 0.0),
    (1.0, 1.0),
    (0.0, 1.0),
    (4.0, 0.25),
    (9.0, 9.0),
    (1.5, 2.5),
    (1.0, 0.5),
    (3, 2),
]

SAMPLES = Series(PREDICTIONS, LABELS)
COUNTED = Series(PREDICTIONS, LABELS, None, None, MASK, WEIGHT, COSTS)
# Two series that interleave, with gaps.
CHRONICLE = Series(
    PREDICTIONS,
    LABELS,
    ["x", "y", "x", "x", "y", "x", "x", "y", "x", "y"],
    [0, 0, 1, 2, 1, 4, 5, 4, 6, 5],
    MASK,
    WEIGHT,
)


def close(exact, tolerance=CLOSE):
    return pytest.approx(exact, rel=0, abs=tolerance)


def leaf(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


# ------------------------------------------------------------------------------------------------------ definitions


@each_weight
@pytest.mark.parametrize("series", [SAMPLES, COUNTED, CHRONICLE], ids=["samples", "counted", "chronicle"])
def test_at_a_threshold_every_weight_is_its_definition(kind, series):
    for tau in (-1.0, 0.0, 0.21, 0.45, 0.5, 0.9, 1.0):
        assert series.at(tau, kind.make()) == close(matrix_at(series, kind.oracle, tau)), tau


@pytest.mark.parametrize(
    ("kind", "series", "name"),
    [
        *((kind, SAMPLES, "uniform-inside") for kind in ALL_WEIGHTS),
        *((kind, COUNTED, "uniform") for kind in ALL_WEIGHTS),
        *((kind, CHRONICLE, "uniform") for kind in ALL_WEIGHTS),
        # what is integrated numerically: below, with the tolerance of that
        *((kind, CHRONICLE, "triangular") for kind in ALL_WEIGHTS if not (kind.integrated and kind.sees_threshold)),
    ],
    ids=lambda part: "" if isinstance(part, Series) else str(part),
)
def test_expected_every_weight_is_its_definition_averaged(kind, series, name):
    case = PRIORS[name]
    exact = expected(case, series, kind.oracle, sees_threshold=kind.sees_threshold)
    assert series.expected(case.prior, kind.make()) == close(exact)


@pytest.mark.parametrize("kind", [k for k in ALL_WEIGHTS if not k.sees_threshold], ids=repr)
@settings(max_examples=40)
@given(series=random_series(values=GRID[1:-1]), name=st.sampled_from(("uniform", "uniform-inside", "cosine", "beta")))
def test_random_batches(kind, series, name):
    case = PRIORS[name]
    assert series.expected(case.prior, kind.make()) == close(expected(case, series, kind.oracle, cuts=GRID))
    assert series.at(0.45, kind.make()) == close(matrix_at(series, kind.oracle, 0.45))


@pytest.mark.parametrize("kind", [k for k in ALL_WEIGHTS if k.soft], ids=repr)
def test_soft_labels_are_errors_of_both_kinds(kind):
    soft = Series(PREDICTIONS, SOFT, None, None, MASK, WEIGHT, COSTS)
    exact = expected(UNIFORM, soft, kind.oracle, sees_threshold=kind.sees_threshold)
    assert soft.expected(None, kind.make()) == close(exact)
    assert soft.at(0.45, kind.make()) == close(matrix_at(soft, kind.oracle, 0.45))


def test_every_kind_of_weight_is_in_the_table():
    def kinds(weight_class):
        for inner in weight_class.__subclasses__():
            yield inner
            yield from kinds(inner)

    public = {name for name in sw.weights.__all__ if isinstance(getattr(sw.weights, name), type)}
    weights = {inner.__name__ for inner in kinds(sw.weights.Weight)} & public
    assert {"ClassFrequency", "Cost", "CrossEntropy", "Custom", "Margin", "Value"} <= weights
    assert weights <= {type(kind.make()).__name__ for kind in ALL_WEIGHTS}


# ------------------------------------------------------------------------------------------------------------ costs


def test_a_cost_multiplies_its_cell():
    plain = SAMPLES.expected()
    weighted = SAMPLES.expected(None, sw.weights.Cost(fp=3.0, fn=0.5))
    assert weighted == pytest.approx([plain[0], 3 * plain[1], 0.5 * plain[2], plain[3]], rel=1e-14)
    loss = sw.ScoreLoss(sw.scores.cost(), weight=sw.weights.Cost(fp=3.0, fn=0.5), from_logits=False)
    assert loss(*SAMPLES.tensors()).item() == pytest.approx(3 * plain[1] + 0.5 * plain[2], rel=1e-14)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("beta", [0.7, 1.0, 5.0])
def test_csi_with_costs_is_tversky(alpha, beta):
    x, y = SAMPLES.tensors()
    tversky = (x * y).sum() / ((x * y).sum() + alpha * (x * (1 - y)).sum() + beta * ((1 - x) * y).sum())
    loss = sw.ScoreLoss("csi", weight=sw.weights.Cost(alpha, beta), from_logits=False)
    assert -loss(x, y).item() == pytest.approx(tversky.item(), rel=1e-13)


MATRICES = [
    [[0.0, 1.0], [1.0, 0.0]],
    [[0.0, 1.0], [9.0, 0.0]],
    [[0.5, 3.0], [7.0, 2.0]],
    [[0.0, 2.0], [1.0, 0.75]],
]


@pytest.mark.parametrize("costs", MATRICES, ids=str)
@pytest.mark.parametrize("name", ["uniform", "beta"])
def test_the_total_of_a_cost_matrix(costs, name):
    weight, prior = sw.weights.Cost.from_matrix(costs), PRIORS[name].prior
    x, y = SAMPLES.tensors()
    flat = [c for row in costs for c in row]
    for plain, weighted in (
        (sw.confusion_matrix(x, y, 0.45), sw.confusion_matrix(x, y, 0.45, weight)),
        (sw.expected_confusion_matrix(x, y, prior), sw.expected_confusion_matrix(x, y, prior, weight)),
    ):
        exact = -math.fsum(c * cell for c, cell in zip(flat, cells(plain), strict=True))
        assert weight.score(weighted).item() == pytest.approx(exact, rel=1e-14)
    loss = sw.ScoreLoss(weight.score, prior=prior, weight=weight, from_logits=False)
    assert loss(x, y).item() == pytest.approx(-exact, rel=1e-14)
    z = torch.logit(x).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: sw.ScoreLoss(weight.score, prior=prior, weight=weight)(z, y), z)


def test_a_cost_matrix_is_read_by_rows_of_truth():
    weight = sw.weights.Cost.from_matrix(np.array([[0.5, 3.0], [7.0, 2.0]]))
    same = sw.weights.Cost(3.0, 7.0, tn=0.5, tp=2.0)
    for w in (weight, same):
        assert SAMPLES.at(0.45, w) == close(matrix_at(SAMPLES, cost(3.0, 7.0), 0.45), 1e-14)
        assert w.optimal_threshold == pytest.approx((3 - 0.5) / ((3 - 0.5) + (7 - 2)), rel=1e-15)
    matrix = sw.ConfusionMatrix(1, 10, 100, 1000)
    assert weight.score(matrix).item() == same.score(matrix).item() == -(0.5 + 10 + 100 + 2000)
    assert sw.scores.cost(3, 7, tn=0.5, tp=2)(matrix).item() == -(0.5 + 30 + 700 + 2000)


def test_only_its_own_score_counts_a_cost_of_being_right():
    for diagonal in ({"tn": 1.0}, {"tp": 0.5}, {"tn": 1.0, "tp": 1.0}):
        weight = sw.weights.Cost(1.0, 5.0, **diagonal)
        for score in ("tss", sw.scores.cost(), sw.scores.cost(1, 5)):
            with pytest.raises(ValueError, match=r"weight\.score|\.score"):
                sw.ScoreLoss(score, weight=weight)
        sw.ScoreLoss(weight.score, weight=weight)
    sw.ScoreLoss("tss", weight=sw.weights.Cost(1.0, 5.0))


@pytest.mark.parametrize("costs", [*MATRICES, [[0.25, 1.0], [3.0, 0.25]]], ids=str)
def test_elkan_s_threshold_is_the_cheapest(costs):
    """With calibrated probabilities a sample that is positive with probability p has the soft label p."""
    weight = sw.weights.Cost.from_matrix(costs)
    p = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    grid = torch.linspace(0, 1, 501, dtype=torch.float64).tolist()
    spent = [-weight.score(sw.confusion_matrix(p, p, tau, weight)).item() for tau in grid]
    best = grid[min(range(501), key=spent.__getitem__)]
    (c00, c01), (c10, c11) = costs
    exact = (c01 - c00) / ((c01 - c00) + (c10 - c11))
    assert weight.optimal_threshold == pytest.approx(exact, rel=1e-15)
    assert best == pytest.approx(weight.optimal_threshold, abs=1 / 500)


@pytest.mark.parametrize("kind", [None, *ALL_WEIGHTS], ids=repr)
def test_costs_of_samples_multiply_every_weight(kind):
    weight, oracle, sees = (None, none, False) if kind is None else (kind.make(), kind.oracle, kind.sees_threshold)
    bare = Series(PREDICTIONS, LABELS, CHRONICLE.groups, CHRONICLE.times, MASK, WEIGHT)
    priced = Series(PREDICTIONS, LABELS, CHRONICLE.groups, CHRONICLE.times, MASK, WEIGHT, COSTS)
    assert priced.at(0.45, weight) == close(matrix_at(priced, oracle, 0.45))
    exact = expected(UNIFORM, priced, oracle, sees_threshold=sees)
    assert priced.expected(None, weight) == close(exact)
    assert abs(exact[1] - bare.expected(None, weight)[1]) > 1e-2
    x, y = priced.tensors()
    loss = sw.ScoreLoss("csi", weight=weight, from_logits=False)
    assert -loss(x, y, **priced.keywords()).item() == pytest.approx(exact[3] / sum(exact[1:]), abs=1e-9)
    assert cells(loss.matrix(x, y, **priced.keywords())) == close(exact)


@pytest.mark.parametrize("weight", [None, "value"])
def test_costs_of_samples_with_labels(weight):
    weight = sw.weights.Value(OMEGA) if weight else None
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(12, 3, generator=generator, dtype=torch.float64)
    y = (torch.rand(12, 3, generator=generator) < 0.5).double()
    own = torch.rand(12, 3, 2, generator=generator, dtype=torch.float64) * 3
    each = sw.expected_confusion_matrix(x, y, None, weight, costs=own)
    shared = sw.expected_confusion_matrix(x, y, None, weight, costs=own[:, 0])
    for k in range(3):
        alone = sw.expected_confusion_matrix(x[:, k], y[:, k], None, weight, costs=own[:, k])
        assert [cell[k] for cell in cells(each)] == pytest.approx(cells(alone), rel=1e-13)
        alone = sw.expected_confusion_matrix(x[:, k], y[:, k], None, weight, costs=own[:, 0])
        assert [cell[k] for cell in cells(shared)] == pytest.approx(cells(alone), rel=1e-13)


def test_costs_of_samples_are_never_broadcast():
    """Two samples and two labels: (2, 2) is one pair for each sample, by contract and not by chance."""
    x, y = torch.tensor([[0.2, 0.7], [0.6, 0.9]]), torch.tensor([[0, 0], [1, 0]])
    matrix = sw.confusion_matrix(x, y, 0.5, costs=[[10.0, 100.0], [1000.0, 10000.0]])
    assert cells(matrix) == [[1, 0], [0, 1010], [0, 0], [1, 0]]


def test_costs_of_masked_samples_may_be_unknown():
    costs = [(math.nan, math.nan) if not kept else pair for kept, pair in zip(MASK, COSTS, strict=True)]
    unknown = Series(PREDICTIONS, LABELS, None, None, MASK, WEIGHT, costs)
    assert unknown.expected() == COUNTED.expected()
    assert unknown.at(0.45) == COUNTED.at(0.45)


# ---------------------------------------------------------------------------------------------------- cross entropy

FAR = [-800.0, -40.0, -3.0, -0.1, 0.0, 1e-8, 0.7, 5.0, 36.0, 800.0]


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.25, 3.0)])
@pytest.mark.parametrize("prior", [None, sw.priors.Uniform()], ids=["none", "uniform"])
def test_the_cost_score_with_cross_entropy_is_cross_entropy(weights, prior):
    negative, positive = weights
    z = leaf(FAR + FAR)
    y = torch.tensor([0.0] * 10 + [1.0] * 10, dtype=torch.float64)
    loss = sw.ScoreLoss(sw.scores.cost(), prior=prior, weight=sw.weights.CrossEntropy(negative, positive))
    reference = binary_cross_entropy_with_logits(
        z.detach(), y, weight=negative * (1 - y) + positive * y, reduction="sum"
    )
    assert loss(z, y).item() == pytest.approx(reference.item(), rel=1e-9)
    for i in range(20):  # one at a time: beside 800 the small ones could be anything
        one = loss(z[i : i + 1], y[i : i + 1])
        exact = negative * softplus(z[i]) if i < 10 else positive * softplus(-z[i])
        assert one.item() == pytest.approx(exact.item(), rel=1e-9)
    (grad,) = torch.autograd.grad(loss(z, y), z)
    exact = torch.where(y == 0, negative * torch.sigmoid(z), -positive * torch.sigmoid(-z))
    torch.testing.assert_close(grad, exact.detach(), rtol=1e-9, atol=0)


def test_cross_entropy_has_its_second_derivative():
    z = leaf([-4.0, -1.0, 0.3, 2.0, -0.7, 3.0])
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    loss = sw.ScoreLoss(sw.scores.cost(), weight=sw.weights.CrossEntropy())
    assert torch.autograd.gradgradcheck(lambda z: loss(z, y), z)
    (first,) = torch.autograd.grad(loss(z, y), z, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), z)
    torch.testing.assert_close(second, (torch.sigmoid(z) * torch.sigmoid(-z)).detach(), rtol=1e-9, atol=0)


def test_cross_entropy_in_float32():
    z = leaf(FAR + FAR, torch.float32)
    y = torch.tensor([0.0] * 10 + [1.0] * 10)
    loss = sw.ScoreLoss(sw.scores.cost(), weight=sw.weights.CrossEntropy(0.25, 3.0))
    wide, labels = z.detach().double(), y.double()
    exact = torch.where(labels == 0, 0.25 * softplus(wide), 3 * softplus(-wide))
    # a softplus, a sigmoid, a quotient, a product and a weight: each at most a few roundings
    most = 16 * torch.finfo(torch.float32).eps
    value = loss(z, y)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(exact.sum().item(), rel=most)
    for i in range(20):
        assert loss(z[i : i + 1], y[i : i + 1]).item() == pytest.approx(exact[i].item(), rel=most, abs=1e-37)
    (grad,) = torch.autograd.grad(value, z)
    slope = torch.where(labels == 0, 0.25 * torch.sigmoid(wide), -3 * torch.sigmoid(-wide))
    torch.testing.assert_close(grad.double(), slope, rtol=most, atol=1e-37)


def test_cross_entropy_of_soft_labels():
    z, y = torch.linspace(-5, 5, 11, dtype=torch.float64), torch.linspace(0, 1, 11, dtype=torch.float64)
    loss = sw.ScoreLoss(sw.scores.cost(), weight=sw.weights.CrossEntropy())(z, y)
    assert loss.item() == pytest.approx(binary_cross_entropy_with_logits(z, y, reduction="sum").item(), rel=1e-12)


def test_cross_entropy_of_probabilities():
    x = leaf([0.0, 1e-300, 1e-12, 0.3, 0.999, 1e-12, 0.3, 0.999, 1.0])
    y = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
    loss = sw.ScoreLoss(sw.scores.cost(), weight=sw.weights.CrossEntropy(0.5, 2.0), from_logits=False)(x, y)
    exact = -(0.5 * torch.log1p(-x[:5])).sum() - (2 * torch.log(x[5:])).sum()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-12)
    (grad,) = torch.autograd.grad(loss, x)
    slope = torch.cat([0.5 / (1 - x[:5]), -2 / x[5:]])
    torch.testing.assert_close(grad, slope.detach(), rtol=1e-9, atol=0)
    exact = [
        matrix_at(Series([p], [t]), cross_entropy(0.5, 2.0), 0.4) for p, t in zip(x.tolist(), y.tolist(), strict=True)
    ]
    matrix = sw.confusion_matrix(x.detach(), y, 0.4, sw.weights.CrossEntropy(0.5, 2.0))
    assert cells(matrix) == pytest.approx([math.fsum(c) for c in zip(*exact, strict=True)], rel=1e-12)


@each_prior
def test_cross_entropy_with_every_prior(case):
    weight = sw.weights.CrossEntropy(0.5, 2.0)
    exact = expected(case, SAMPLES, cross_entropy(0.5, 2.0))
    assert SAMPLES.expected(case.prior, weight) == close(exact)
    x, y = SAMPLES.tensors()
    of_logits = sw.expected_confusion_matrix(torch.logit(x), y, case.prior, weight, from_logits=True)
    assert cells(of_logits) == close(exact)


def test_below_the_support_cross_entropy_has_no_value_and_no_gradient():
    z = leaf([-800.0, -40.0, -3.0, 3.0, 40.0, 800.0])
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    matrix = sw.expected_confusion_matrix(z, y, sw.priors.RaisedCosine(), sw.weights.CrossEntropy(), from_logits=True)
    assert cells(matrix) == [3, 0, 0, 3]
    (grad,) = torch.autograd.grad(matrix.fp + matrix.fn, z)
    assert grad.tolist() == [0.0] * 6
    wrong = sw.expected_confusion_matrix(
        z, 1 - y, sw.priors.RaisedCosine(), sw.weights.CrossEntropy(), from_logits=True
    )
    exact = math.fsum((softplus(v) / torch.sigmoid(v)).item() for v in -z.detach()[:3])
    assert cells(wrong) == pytest.approx([0, exact, exact, 0], rel=1e-12)


# ------------------------------------------------------------------------------------------------ margin, frequency


@each_prior
def test_margin_with_every_prior(case):
    few = SAMPLES.picked([0, 1, 2, 3, 5, 6])
    exact = expected(case, few, margin(2.0), sees_threshold=True)
    weight = sw.weights.Margin(2.0)
    assert few.expected(case.prior, weight) == close(exact)
    x, y = few.tensors()
    of_logits = sw.expected_confusion_matrix(torch.logit(x), y, case.prior, weight, from_logits=True)
    assert cells(of_logits) == close(exact)


@each_prior
def test_gradients_of_margin_with_every_prior(case):
    u = torch.tensor([0.12, 0.33, 0.55, 0.78], dtype=torch.float64)
    z = torch.logit(case.prior.icdf(u)).clamp(-30, 30).requires_grad_()
    loss = sw.ScoreLoss("hss", prior=case.prior, weight=sw.weights.Margin(2.0))
    assert torch.autograd.gradcheck(lambda z: loss(z, torch.tensor([0, 1, 0, 1])), z)


def test_margin_by_hand():
    weight = sw.weights.Margin(4.0)
    x, y = torch.tensor([0.9, 0.1], dtype=torch.float64), torch.tensor([0, 1])
    assert cells(sw.confusion_matrix(x, y, 0.5, weight)) == pytest.approx([0, 1 + 4 * 0.4, 1 + 4 * 0.4, 0], rel=1e-14)
    # with the uniform prior, ∫_0^x F = x²/2
    half = 0.9 + 4 * 0.81 / 2
    assert cells(sw.expected_confusion_matrix(x, y, None, weight)) == pytest.approx([0.1, half, half, 0.1], rel=1e-13)
    assert SAMPLES.expected(None, sw.weights.Margin(0)) == pytest.approx(SAMPLES.expected(), rel=1e-14)


@pytest.mark.parametrize("series", [SAMPLES, COUNTED, CHRONICLE], ids=["samples", "counted", "chronicle"])
def test_class_frequencies_make_the_classes_equal(series):
    """Without any skill each class contributes n/2 to the errors of always calling it wrong."""
    weight = sw.weights.ClassFrequency()
    assert series.expected(None, weight) == close(expected(UNIFORM, series, class_frequency))
    total = math.fsum(series.counted(i) for i in range(10))
    unpriced = Series(
        *[getattr(series, f) for f in ("predictions", "targets", "groups", "times", "mask", "sample_weight")]
    )
    assert unpriced.at(-1.0, weight)[1] == pytest.approx(total / 2, rel=1e-14)
    assert unpriced.at(2.0, weight)[2] == pytest.approx(total / 2, rel=1e-14)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_class_that_is_not_there_is_finite(label, n):
    x = torch.full((n,), 0.3, dtype=torch.float64, requires_grad=True)
    y = torch.full((n,), label)
    weight = sw.weights.ClassFrequency()
    matrix = sw.expected_confusion_matrix(x, y, None, weight)
    # the class that is there is all there is: n/(2n)
    exact = [0.7 * n, 0.15 * n, 0, 0] if label == 0 else [0, 0, 0.35 * n, 0.3 * n]
    assert cells(matrix) == pytest.approx(exact, rel=1e-14)
    (grad,) = torch.autograd.grad(matrix.tensor().sum(), x)
    assert grad.isfinite().all()


def test_class_frequencies_are_counted_for_each_label():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(12, 2, generator=generator, dtype=torch.float64)
    y = torch.stack([torch.arange(12) < 2, torch.arange(12) < 9], 1).double()
    mask = torch.rand(12, 2, generator=generator) < 0.7
    both = sw.expected_confusion_matrix(x, y, None, sw.weights.ClassFrequency(), mask=mask)
    for k in range(2):
        one = sw.expected_confusion_matrix(x[:, k], y[:, k], None, sw.weights.ClassFrequency(), mask=mask[:, k])
        assert [cell[k] for cell in cells(both)] == pytest.approx(cells(one), rel=1e-13)


# ----------------------------------------------------------------------------------------------------------- custom


def say_cost(tau, targets, predictions, label_window, alarm_window):
    return torch.where(targets == 1, 5.0, 2.0)


def say_cross_entropy(tau, targets, predictions, label_window, alarm_window):
    missed, false = -predictions.log() / (1 - predictions), -torch.log1p(-predictions) / predictions
    return torch.where(targets == 1, missed, false)


def say_margin(tau, targets, predictions, label_window, alarm_window):
    return 1 + 1.5 * (predictions - tau).abs()


def say_value(tau, targets, predictions, label_window, alarm_window):
    omega = tau.new_tensor(OMEGA)
    past, future = alarm_window[..., :3].flip(-1), label_window[..., 4:]
    return 1 - torch.where(targets == 1, (omega * past).amax(-1), (omega * future).amax(-1))


def say_isolated(tau, targets, predictions, label_window, alarm_window):
    near = torch.where(targets[..., None] == 1, alarm_window, label_window)
    return say_value(tau, targets, predictions, label_window, alarm_window) + (near.sum(-1) == 0)


SAID = [
    (say_cost, 0, lambda: sw.weights.Cost(2.0, 5.0)),
    (say_cross_entropy, 0, sw.weights.CrossEntropy),
    (say_margin, 0, lambda: sw.weights.Margin(1.5)),
    (say_value, 3, lambda: sw.weights.Value(OMEGA)),
    (say_isolated, 3, lambda: sw.weights.Value(OMEGA, isolated=2.0)),
]


@pytest.mark.parametrize(("fn", "window", "other"), SAID, ids=[fn.__name__ for fn, _, _ in SAID])
@pytest.mark.parametrize("series", [SAMPLES, COUNTED, CHRONICLE], ids=["samples", "counted", "chronicle"])
def test_a_function_can_say_every_other_weight(fn, window, other, series):
    custom = sw.weights.Custom(fn, window=window)
    for tau in (0.2, 0.45, 0.6):
        assert series.at(tau, custom) == pytest.approx(series.at(tau, other()), rel=1e-12)
    for prior in (None, sw.priors.Uniform(0.25, 0.7)):
        assert series.expected(prior, custom) == pytest.approx(series.expected(prior, other()), rel=1e-12)
    x, y = series.tensors()
    gradients = []
    for weight in (custom, other()):
        # clear of ties: there each weight may choose its side
        z = torch.logit(x + 1e-3 * torch.arange(10)).requires_grad_()
        loss = sw.ScoreLoss("csi", prior=sw.priors.Uniform(0.22, 0.7), weight=weight)
        gradients += torch.autograd.grad(loss(z, y, **series.keywords()), z)
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("fn", [say_cost, say_value, say_isolated])
@pytest.mark.parametrize("points", [1, 2, 5])
@pytest.mark.parametrize("name", ["beta", "cosine", "kumaraswamy-bathtub", "density-jump"])
def test_one_point_is_enough_for_what_sees_only_alarms(fn, points, name):
    window = 0 if fn is say_cost else 3
    oracle = {
        say_cost: cost(2.0, 5.0),
        say_value: value(largest(OMEGA), 3),
        say_isolated: value(largest(OMEGA), 3, 2.0),
    }
    exact = expected(PRIORS[name], CHRONICLE, oracle[fn])
    assert CHRONICLE.expected(PRIORS[name].prior, sw.weights.Custom(fn, window=window, points=points)) == close(exact)


SMOOTH = {
    "linear": (lambda t, y, p, *_: 0.5 + t + 0 * p, lambda t, y, p: mpmath.mpf(0.5) + t),
    "exponential": (lambda t, y, p, *_: torch.exp(2 * t) * (1 + y), lambda t, y, p: mpmath.exp(2 * t) * (1 + y)),
    "wave": (lambda t, y, p, *_: 1.5 + torch.sin(9 * t + p), lambda t, y, p: 1.5 + mpmath.sin(9 * t + p)),
    "distance": (lambda t, y, p, *_: (p - t) ** 2, lambda t, y, p: (p - t) ** 2),
    "pole": (lambda t, y, p, *_: 1 / (0.3 + t), lambda t, y, p: 1 / (mpmath.mpf(0.3) + t)),
}


SHAPES = [
    "cosine",
    "triangular",
    "triangular-rising",
    "beta",
    "kumaraswamy",
    "normal",
    "logistic",
    "mixture",
    "density",
]


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        *((fn, name) for fn in SMOOTH for name in ("uniform", "uniform-inside", "normal")),
        *(("wave", name) for name in SHAPES if name != "normal"),
    ],
)
def test_smooth_functions_of_the_threshold(fn, name):
    of_tensors, of_numbers = SMOOTH[fn]
    case, weight = PRIORS[name], sw.weights.Custom(of_tensors)

    def oracle(view, i, kind):
        return of_numbers(view.tau, kind, view.series.predictions[i])

    exact = expected(case, COUNTED, oracle, sees_threshold=True)
    assert COUNTED.expected(case.prior, weight) == close(exact, 1e-8)
    assert COUNTED.at(0.45, weight) == close(matrix_at(COUNTED, oracle, 0.45))


@pytest.mark.parametrize("window", [0, 1, 3])
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("labels", [(), (2,)])
def test_what_a_function_is_given(window, from_logits, labels):
    calls = []

    def look(tau, targets, predictions, label_window, alarm_window):
        calls.append(tau.shape)
        n, points = tau.shape
        assert targets.shape == predictions.shape == (n, 1)
        assert label_window.shape == alarm_window.shape == (n, points, 2 * window + 1)
        for tensor in (tau, targets, predictions, label_window, alarm_window):
            assert tensor.is_floating_point()
        for indicator in (targets, label_window, alarm_window):
            assert ((indicator == 0) | (indicator == 1)).all()
        assert ((predictions >= 0) & (predictions <= 1)).all()
        # the centre is the sample itself
        assert (label_window[..., window] == targets).all()
        return torch.ones_like(tau)

    generator = torch.Generator().manual_seed(0)
    z = torch.randn(9, *labels, generator=generator, dtype=torch.float64) * 3
    y = (torch.rand(9, *labels, generator=generator) < 0.5).double()
    x = z if from_logits else torch.sigmoid(z)
    weight = sw.weights.Custom(look, window=window)
    for matrix, plain in (
        (
            sw.expected_confusion_matrix(x, y, None, weight, from_logits=from_logits),
            sw.expected_confusion_matrix(x, y, from_logits=from_logits),
        ),
        (
            sw.confusion_matrix(x, y, 0.4, weight, from_logits=from_logits),
            sw.confusion_matrix(x, y, 0.4, from_logits=from_logits),
        ),
    ):
        torch.testing.assert_close(matrix.tensor(), plain.tensor(), rtol=1e-13, atol=1e-15)
    assert calls


@pytest.mark.parametrize(
    "fn",
    [
        lambda tau, targets, predictions, *_: 2 + 0 * tau,
        lambda tau, targets, predictions, *_: 2 + 0 * targets,
        lambda tau, targets, predictions, *_: tau.new_full((1, 1), 2.0),
        lambda tau, targets, predictions, *_: tau.new_tensor(2.0),
        lambda tau, targets, predictions, *_: tau.new_full((tau.shape[1],), 2.0),
    ],
    ids=["(N, P)", "(N, 1)", "(1, 1)", "()", "(P,)"],
)
def test_a_function_s_result_is_broadcast(fn):
    plain = CHRONICLE.expected()
    exact = [plain[0], 2 * plain[1], 2 * plain[2], plain[3]]
    assert CHRONICLE.expected(None, sw.weights.Custom(fn)) == pytest.approx(exact, rel=1e-13)


# --------------------------------------------------------------------------------------------------------- products


def test_a_product_is_the_product_of_its_weights():
    """Every two kinds, in both orders: at a threshold, where each error has one weight, and averaged."""
    basic = [kind for kind in ALL_WEIGHTS if "*" not in kind.name]
    for a in basic:
        for b in basic:
            both = a.make() * b.make()
            exact = matrix_at(CHRONICLE, product(a.oracle, b.oracle), 0.45)
            assert CHRONICLE.at(0.45, both) == close(exact), (a, b)
            swapped = b.make() * a.make()
            assert CHRONICLE.expected(None, both) == pytest.approx(CHRONICLE.expected(None, swapped), rel=1e-12), (a, b)


ALARMS_ONLY = [kind for kind in ALL_WEIGHTS if "*" not in kind.name and not kind.sees_threshold]


@pytest.mark.parametrize("name", ["uniform-inside", "beta"])
def test_products_averaged(name):
    case = PRIORS[name]
    for a in ALARMS_ONLY:
        for b in ALARMS_ONLY:
            exact = expected(case, CHRONICLE, product(a.oracle, b.oracle))
            assert CHRONICLE.expected(case.prior, a.make() * b.make()) == close(exact), (a, b)


def test_products_of_what_sees_the_threshold_averaged():
    seeing = [kind for kind in ALL_WEIGHTS if "*" not in kind.name and kind.sees_threshold]
    others = ("margin", "custom-smooth", "value-max", "value-max-unordered-isolated", "value-prod", "custom-window")
    for a in seeing:
        for b in [kind for kind in ALL_WEIGHTS if kind.name in others]:
            exact = expected(UNIFORM, CHRONICLE, product(a.oracle, b.oracle), sees_threshold=True)
            assert CHRONICLE.expected(None, a.make() * b.make()) == close(exact, 1e-8), (a, b)


@pytest.mark.parametrize("name", SHAPES)
def test_margin_times_value_under_priors_of_any_shape(name):
    case = PRIORS[name]
    exact = expected(case, CHRONICLE, product(margin(2.0), value(largest(OMEGA), 3)), sees_threshold=True)
    weight = sw.weights.Margin(2.0) * sw.weights.Value(OMEGA)
    assert CHRONICLE.expected(case.prior, weight) == close(exact, 1e-8)


def test_products_associate_and_have_a_one():
    a, b, c = sw.weights.Cost(2.0, 3.0), sw.weights.Value(OMEGA), sw.weights.Margin(1.0)
    first, second = CHRONICLE.expected(None, (a * b) * c), CHRONICLE.expected(None, a * (b * c))
    assert first == pytest.approx(second, rel=1e-12)
    assert CHRONICLE.expected(None, b * sw.weights.Cost()) == pytest.approx(CHRONICLE.expected(None, b), rel=1e-13)


@pytest.mark.parametrize("other", [2.0, "value", None, sw.scores.tss])
def test_a_weight_is_multiplied_by_weights_only(other):
    weight = sw.weights.Cost(1.0, 2.0)
    with pytest.raises(TypeError):
        weight * other
    with pytest.raises(TypeError):
        other * weight


# --------------------------------------------------------------------------------------------- what all must have

LONG = 24


def batch(kind, dtype=torch.float64, seed=0):
    """Predictions clear of 0 and 1, with context for the weights that look at it."""
    generator = torch.Generator().manual_seed(seed)
    x = (0.05 + 0.9 * torch.rand(LONG, generator=generator, dtype=torch.float64)).float().to(dtype)
    y = (torch.rand(LONG, generator=generator) < 0.4).to(dtype)
    context = {}
    if kind.reads_windows:
        context = {"groups": torch.arange(LONG) % 3, "times": torch.arange(LONG) + torch.arange(LONG) // 5}
    return x, y, context


@each_weight
@pytest.mark.parametrize("name", ["uniform", "uniform-inside", "cosine", "beta-bathtub"])
def test_cells_are_finite_and_not_negative(kind, name):
    x, y, context = batch(kind)
    for dtype in (torch.float64, torch.float32):
        z = torch.logit(x).to(dtype).requires_grad_()
        matrix = sw.expected_confusion_matrix(z, y, PRIORS[name].prior, kind.make(), from_logits=True, **context)
        assert matrix.tensor().isfinite().all()
        assert (matrix.tensor() >= 0).all()
        assert matrix.tensor().sum() > 0
        (grad,) = torch.autograd.grad(matrix.tensor().sum(), z)
        assert grad.isfinite().all()
        at = sw.confusion_matrix(z.detach(), y, 0.4, kind.make(), from_logits=True, **context).tensor()
        assert at.isfinite().all()
        assert (at >= 0).all()


@each_weight
def test_order_does_not_matter_where_series_and_time_travel_along(kind):
    x, y, context = batch(kind)
    generator = torch.Generator().manual_seed(4)
    counts = torch.rand(LONG, generator=generator)
    mask = torch.rand(LONG, generator=generator) < 0.8
    costs = torch.rand(LONG, 2, generator=generator)
    order = torch.randperm(LONG, generator=generator)
    if kind.reads_windows:
        # series interleave anew, but each keeps its order, as times must
        lots = torch.rand(LONG, generator=generator)
        for group in range(3):
            lots[group::3] = lots[group::3].sort().values
        order = lots.argsort()
        assert order.tolist() != list(range(LONG))
    weight = kind.make()

    def matrices(index):
        own = {"mask": mask[index], "sample_weight": counts[index], "costs": costs[index]}
        own |= {name: v[index] for name, v in context.items()}
        return [
            sw.expected_confusion_matrix(x[index], y[index], sw.priors.Uniform(0.2, 0.9), weight, **own).tensor(),
            sw.confusion_matrix(x[index], y[index], 0.4, weight, **own).tensor(),
        ]

    for one, other in zip(matrices(torch.arange(LONG)), matrices(order), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", [k for k in ALL_WEIGHTS if not k.reads_batch], ids=repr)
def test_matrices_of_series_add_up(kind):
    x, y, context = batch(kind)
    weight, groups = kind.make(), torch.arange(LONG) % 3
    whole = sw.expected_confusion_matrix(x, y, None, weight, **context).tensor()
    at = sw.confusion_matrix(x, y, 0.4, weight, **context).tensor()
    parts, at_parts = [], []
    for group in range(3):
        own = {name: v[groups == group] for name, v in context.items()}
        mine = x[groups == group], y[groups == group]
        parts.append(sw.expected_confusion_matrix(*mine, None, weight, **own))
        at_parts.append(sw.confusion_matrix(*mine, 0.4, weight, **own))
    torch.testing.assert_close(sum(parts).tensor(), whole, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(sum(at_parts).tensor(), at, rtol=1e-12, atol=1e-13)


@each_weight
@pytest.mark.parametrize("from_logits", [False, True])
def test_the_unknown_has_no_gradient_and_no_share(kind, from_logits):
    x, y, context = batch(kind)
    x = torch.logit(x) if from_logits else x
    unknown = torch.arange(LONG) % 5 == 2
    x[unknown], y[unknown] = math.nan, math.nan
    x.requires_grad_()
    matrix = sw.expected_confusion_matrix(x, y, None, kind.make(), from_logits=from_logits, mask=~unknown, **context)
    assert matrix.tensor().isfinite().all()
    (grad,) = torch.autograd.grad(matrix.tensor().square().sum(), x)
    assert grad[unknown].tolist() == [0.0] * int(unknown.sum())
    assert grad.isfinite().all()
    assert grad[~unknown].abs().max() > 0
    known = {name: v[~unknown] for name, v in context.items()}
    alone = sw.expected_confusion_matrix(x[~unknown], y[~unknown], None, kind.make(), from_logits=from_logits, **known)
    torch.testing.assert_close(matrix.tensor(), alone.tensor(), rtol=1e-12, atol=1e-13)


@each_weight
def test_batches_with_nothing_in_them(kind):
    for labels in ((), (2,)):
        x = torch.zeros(0, *labels, dtype=torch.float64, requires_grad=True)
        context = {"groups": [], "times": []} if kind.reads_windows else {}
        for around in (context, {}):
            matrix = sw.expected_confusion_matrix(x, torch.zeros(0, *labels), None, kind.make(), **around)
            assert matrix.tensor().shape == (*labels, 2, 2)
            assert matrix.tensor().abs().sum() == 0
            at = sw.confusion_matrix(x.detach(), torch.zeros(0, *labels), 0.5, kind.make(), **around)
            assert at.tensor().abs().sum() == 0
        loss = sw.ScoreLoss("tss", weight=kind.make())(x, torch.zeros(0, *labels))
        assert loss.isfinite()
        loss.backward()


@each_weight
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_only(kind, label):
    x, y, context = batch(kind)
    y = torch.full_like(y, label)
    x.requires_grad_()
    for name in ("tss", "hss", "csi", "mcc", "cost"):
        loss = sw.ScoreLoss(name, weight=kind.make(), from_logits=False)(x, y, **context)
        assert loss.isfinite()
        (grad,) = torch.autograd.grad(loss, x)
        assert grad.isfinite().all()
    matrix = sw.expected_confusion_matrix(x, y, None, kind.make(), **context)
    assert (matrix.positives if label == 0 else matrix.negatives).item() == 0
    assert (matrix.fn if label else matrix.fp).item() > 0


@each_weight
def test_all_masked(kind):
    x, y, context = batch(kind)
    x[::2], y[::3] = math.nan, math.nan
    x.requires_grad_()
    mask = torch.zeros(LONG, dtype=torch.bool)
    assert sw.expected_confusion_matrix(x, y, None, kind.make(), mask=mask, **context).tensor().abs().sum() == 0
    assert sw.confusion_matrix(x.detach(), y, 0.5, kind.make(), mask=mask, **context).tensor().abs().sum() == 0
    for name in ("tss", "csi", "cost"):
        loss = sw.ScoreLoss(name, weight=kind.make(), from_logits=False)(x, y, mask=mask, **context)
        assert loss.isfinite()
        (grad,) = torch.autograd.grad(loss, x)
        assert grad.tolist() == [0.0] * LONG


@each_weight
@pytest.mark.parametrize("from_logits", [False, True])
def test_float32_is_close_to_float64(kind, from_logits):
    x, y, context = batch(kind)
    narrow = (torch.logit(x) if from_logits else x).float()
    wide = narrow.double()
    results = []
    for values in (narrow, wide):
        z = values.clone().requires_grad_()
        matrix = sw.expected_confusion_matrix(z, y, None, kind.make(), from_logits=from_logits, **context)
        (grad,) = torch.autograd.grad(matrix.fp + 2 * matrix.fn, z)
        at = sw.confusion_matrix(values, y, 0.4, kind.make(), from_logits=from_logits, **context)
        results.append((matrix.tensor().detach(), at.tensor(), grad.double()))
    # each sample's weight is at most 25 or so, and the outcome of some ten roundings
    most = LONG * 25 * 10 * torch.finfo(torch.float32).eps / 8
    for short, long in zip(*results, strict=True):
        torch.testing.assert_close(short, long, rtol=0, atol=most)


@each_weight
@pytest.mark.parametrize("factor", [0.25, 3.0, 1e6])
def test_cells_are_as_large_as_their_samples_count(kind, factor):
    x, y, context = batch(kind)
    counts = torch.rand(LONG, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    counts[3] = 0
    once, often = (
        sw.expected_confusion_matrix(x, y, None, kind.make(), sample_weight=c, **context).tensor()
        for c in (counts, factor * counts)
    )
    torch.testing.assert_close(often, factor * once, rtol=1e-12, atol=0)
    once, often = (
        sw.confusion_matrix(x, y, 0.4, kind.make(), sample_weight=c, **context).tensor()
        for c in (counts, factor * counts)
    )
    torch.testing.assert_close(often, factor * once, rtol=1e-12, atol=0)


@each_weight
def test_logits_are_probabilities(kind):
    x, y, context = batch(kind)
    z = torch.logit(x)
    p = torch.sigmoid(z)
    for prior in (None, sw.priors.Uniform(0.25, 0.7), sw.priors.Beta(2.0, 3.0)):
        of_logits = sw.expected_confusion_matrix(z, y, prior, kind.make(), from_logits=True, **context)
        of_probabilities = sw.expected_confusion_matrix(p, y, prior, kind.make(), **context)
        torch.testing.assert_close(of_logits.tensor(), of_probabilities.tensor(), rtol=1e-11, atol=1e-12)
    at = sw.confusion_matrix(z, y, 0.4, kind.make(), from_logits=True, **context)
    torch.testing.assert_close(at.tensor(), sw.confusion_matrix(p, y, 0.4, kind.make(), **context).tensor())


@pytest.mark.parametrize(
    ("kind", "prior"),
    [
        *((kind, None) for kind in ALL_WEIGHTS),
        *(
            (kind, sw.priors.Beta(2.0, 3.0))
            for kind in ALL_WEIGHTS
            if not kind.integrated or kind.name == "value*value"
        ),
    ],
    ids=str,
)
def test_gradients_of_every_weight(kind, prior):
    """And second derivatives, or a plain word that there are none."""
    x, y, context = batch(kind, seed=6)
    z = torch.logit(x[:8]).requires_grad_()
    context = {name: v[:8] for name, v in context.items()}
    assert z.sort().values.diff().min() > 1e-4  # far enough apart for differences to be taken

    def matrix(z):
        mask = torch.arange(8) != 4
        return sw.expected_confusion_matrix(
            z, y[:8], prior, kind.make(), from_logits=True, mask=mask, **context
        ).tensor()

    assert torch.autograd.gradcheck(matrix, z)
    if kind.integrated:
        (first,) = torch.autograd.grad(matrix(z).sum(), z, create_graph=True)
        with pytest.raises(RuntimeError, match="no second derivatives"):
            torch.autograd.grad(first.sum(), z)
    else:
        assert torch.autograd.gradgradcheck(matrix, z)


@each_weight
@pytest.mark.parametrize("labels", [2, 3])
def test_labels_are_independent(kind, labels):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(14, labels, generator=generator, dtype=torch.float64)
    y = (torch.rand(14, labels, generator=generator) < 0.5).double()
    prior = sw.priors.Uniform(torch.linspace(0, 0.2, labels), torch.linspace(0.8, 1.0, labels))
    weight = kind.make()
    context = {"groups": [i % 2 for i in range(14)], "times": list(range(14))} if kind.reads_windows else {}
    both = sw.expected_confusion_matrix(x, y, prior, weight, **context)
    at = sw.confusion_matrix(x, y, torch.linspace(0.3, 0.6, labels), weight, **context)
    for k in range(labels):
        own = sw.priors.Uniform(prior.support[0][k], prior.support[1][k])
        one = sw.expected_confusion_matrix(x[:, k], y[:, k], own, weight, **context)
        assert [cell[k] for cell in cells(both)] == pytest.approx(cells(one), rel=1e-12)
        one = sw.confusion_matrix(x[:, k], y[:, k], torch.linspace(0.3, 0.6, labels)[k], weight, **context)
        assert [cell[k] for cell in cells(at)] == pytest.approx(cells(one), rel=1e-12)


@each_weight
def test_the_loss_is_minus_the_score_of_its_matrix(kind):
    x, y, context = batch(kind)
    z = torch.logit(x)
    prior = sw.priors.Beta(2.0, 3.0)
    loss = sw.ScoreLoss("hss", prior=prior, weight=kind.make())
    matrix = loss.matrix(z, y, **context)
    assert loss(z, y, **context).item() == pytest.approx(-sw.scores.hss(matrix).item(), rel=1e-14)
    same = sw.expected_confusion_matrix(z, y, prior, kind.make(), from_logits=True, **context)
    torch.testing.assert_close(matrix.tensor(), same.tensor(), rtol=1e-14, atol=0)


@each_weight
def test_repr_says_what_it_is(kind):
    weight = kind.make()
    inner = type(weight).__name__ if "*" not in kind.name else "*"
    assert inner in repr(weight)
    assert "object at 0x" not in repr(weight)
    assert repr(weight) in repr(sw.ScoreLoss("tss", weight=weight))


@each_weight
def test_a_weight_can_be_pickled(kind):
    x, y, context = batch(kind)
    again = pickle.loads(pickle.dumps(kind.make()))  # noqa: S301
    assert cells(sw.expected_confusion_matrix(x, y, None, again, **context)) == cells(
        sw.expected_confusion_matrix(x, y, None, kind.make(), **context)
    )


# ------------------------------------------------------------------------------------------------------- admissible


@each_weight
def test_every_weight_of_the_package_is_admissible(kind):
    prior = sw.priors.Triangular(0.1, 0.4, 0.9) if kind.reads_windows else None
    verdict = sw.weights.admissible(kind.make(), prior)
    assert verdict, verdict.reason
    assert isinstance(verdict.reason, str)


NOT_ADMISSIBLE = {
    "jumps in the prediction": lambda tau, targets, predictions, *_: 1 + (predictions > 0.5).to(tau.dtype),
    "jumps elsewhere": lambda tau, targets, predictions, *_: torch.where(predictions > 0.27, 0.5, 2.0),
    "rounds": lambda tau, targets, predictions, *_: 1 + (4 * predictions).round(),
    "detached": lambda tau, targets, predictions, *_: 1 + predictions.detach() ** 2,
    "negative": lambda tau, targets, predictions, *_: predictions - 0.5,
    "nan": lambda tau, targets, predictions, *_: torch.log(predictions - 0.5),
    "jumps for misses only": lambda tau, targets, predictions, *_: 1 + targets * (predictions > 0.6).to(tau.dtype),
}


@pytest.mark.parametrize("why", NOT_ADMISSIBLE)
def test_functions_that_are_not_admissible(why):
    verdict = sw.weights.admissible(sw.weights.Custom(NOT_ADMISSIBLE[why]))
    assert not verdict
    assert isinstance(verdict.reason, str)
    assert len(verdict.reason) > 10


def test_a_jump_is_found_behind_a_product_and_under_another_prior():
    jump = sw.weights.Custom(NOT_ADMISSIBLE["jumps in the prediction"])
    assert not sw.weights.admissible(sw.weights.Cost(1.0, 2.0) * jump)
    assert not sw.weights.admissible(jump, sw.priors.Triangular(0.0, 0.5, 1.0))


ADMISSIBLE = {
    "of the threshold": lambda tau, *_: 1 + tau**2,
    "of the prediction": lambda tau, targets, predictions, *_: torch.exp(-predictions),
    "of the distance": lambda tau, targets, predictions, *_: 1 + (predictions - tau).abs(),
    "of the alarms": lambda tau, targets, predictions, labels, alarms: 2 - alarms.amax(-1),
    "a constant": lambda tau, *_: torch.ones_like(tau),
}


@pytest.mark.parametrize("why", ADMISSIBLE)
def test_functions_that_are_admissible(why):
    verdict = sw.weights.admissible(sw.weights.Custom(ADMISSIBLE[why], window=2))
    assert verdict, verdict.reason


@pytest.mark.parametrize("weight", ["value", 2.0, lambda *_: 1.0])
def test_only_weights_are_admissible(weight):
    with pytest.raises(TypeError, match="weight"):
        sw.weights.admissible(weight)


# ---------------------------------------------------------------------------------------------------------- refused

X, Y = torch.tensor([0.2, 0.7, 0.6, 0.4]), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize("weight", ["value", 2.0, (0.5, 0.3), sw.scores.tss, torch.ones(4), dict, lambda *_: 1.0])
def test_weights_that_are_none(weight):
    with pytest.raises(TypeError, match="weight"):
        sw.confusion_matrix(X, Y, 0.5, weight)
    with pytest.raises(TypeError, match="weight"):
        sw.expected_confusion_matrix(X, Y, None, weight)
    with pytest.raises(TypeError, match="weight"):
        sw.ScoreLoss("tss", weight=weight)


@pytest.mark.parametrize("bad", [-1.0, -1e-9, math.nan, math.inf, "1", None, True, [1.0, 2.0]], ids=str)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: sw.weights.Cost(fp=v), "fp"),
        (lambda v: sw.weights.Cost(fn=v), "fn"),
        (lambda v: sw.weights.Cost(tn=v), "tn"),
        (lambda v: sw.weights.Cost(tp=v), "tp"),
        (lambda v: sw.weights.CrossEntropy(negative=v), "negative"),
        (lambda v: sw.weights.CrossEntropy(positive=v), "positive"),
        (sw.weights.Margin, "kappa"),
        (lambda v: sw.scores.cost(tn=v), "tn"),
        (lambda v: sw.scores.cost(tp=v), "tp"),
    ],
    ids=["fp", "fn", "tn", "tp", "negative", "positive", "kappa", "score-tn", "score-tp"],
)
def test_parameters_are_finite_and_not_negative(make, name, bad):
    seen = str(bad) if isinstance(bad, float) else ""
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b.*{seen}"):
        make(bad)


@pytest.mark.parametrize(
    "matrix",
    [[[0, 1]], [1, 2, 3, 4], [[0, 1, 2], [3, 4, 5]], [[0, -1], [2, 0]], [[0, math.nan], [1, 0]], "cheap", None, 3.0],
    ids=str,
)
def test_cost_matrices_that_are_refused(matrix):
    with pytest.raises((ValueError, TypeError)):
        sw.weights.Cost.from_matrix(matrix)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (torch.ones(4), r"costs.*\(4,\)"),
        (torch.ones(4, 3), r"costs.*\(4, 3\)"),
        (torch.ones(3, 2), r"costs.*\(3, 2\)"),
        (torch.ones(2, 4), r"costs.*\(2, 4\)"),
        (torch.ones(4, 1, 2), r"costs.*\(4, 1, 2\)"),
        (torch.tensor([[1.0, 1], [1, 1], [1, -0.5], [1, 1]]), r"costs.*2.*-0\.5"),
        (torch.tensor([[1.0, 1], [math.nan, 1], [1, 1], [1, 1]]), r"costs.*1.*nan"),
        (torch.tensor([[1.0, 1], [1, 1], [1, 1], [math.inf, 1]]), r"costs.*3.*inf"),
        ("cheap", "costs"),
        (2.0, "costs"),
    ],
    ids=["(4,)", "(4, 3)", "(3, 2)", "(2, 4)", "(4, 1, 2)", "negative", "nan", "inf", "str", "number"],
)
@pytest.mark.parametrize("weight", [None, "cost", "value"])
def test_costs_of_samples_that_are_refused(costs, message, weight):
    weight = {None: None, "cost": sw.weights.Cost(1.0, 2.0), "value": sw.weights.Value((0.5,))}[weight]
    with pytest.raises((ValueError, TypeError), match=message):
        sw.confusion_matrix(X, Y, 0.5, weight, costs=costs)
    with pytest.raises((ValueError, TypeError), match=message):
        sw.expected_confusion_matrix(X, Y, None, weight, costs=costs)
    with pytest.raises((ValueError, TypeError), match=message):
        sw.ScoreLoss("tss", weight=weight)(X, Y, costs=costs)


def test_costs_of_labels_that_are_refused():
    x, y = torch.rand(4, 3), torch.zeros(4, 3)
    for shape in ((4, 3), (4, 2, 2), (3, 2), (4, 3, 3), (4, 3, 1)):
        with pytest.raises(ValueError, match=r"costs.*\("):
            sw.expected_confusion_matrix(x, y, costs=torch.ones(shape))


BAD_FUNCTIONS = {
    "shape": (lambda tau, *_: torch.ones(7, 3, 5), "shape"),
    "rows": (lambda tau, *_: torch.ones(tau.shape[0] + 1, 1), "shape"),
    "columns": (lambda tau, *_: torch.ones(tau.shape[0], tau.shape[1] + 2), "shape"),
    "window": (lambda tau, y, p, labels, alarms: alarms, "shape"),
    "nan": (lambda tau, *_: tau * math.nan, "(?i:nan)"),
    "infinite": (lambda tau, *_: 1 / (0 * tau), "inf"),
    "negative": (lambda tau, *_: -1 - tau, "-1|negative|at least 0"),
    "somewhere negative": (lambda tau, targets, predictions, *_: predictions - 0.65, "-|negative|at least 0"),
    "text": (lambda tau, *_: "much", "tensor.*str"),
    "array": (lambda tau, *_: np.ones(tau.shape), "tensor.*(ndarray|array)"),
    "none": (lambda tau, *_: None, "tensor.*None"),
    "complex": (lambda tau, *_: tau + 1j, "complex|real"),
}


@pytest.mark.parametrize("why", BAD_FUNCTIONS)
def test_functions_that_return_no_weight(why):
    fn, message = BAD_FUNCTIONS[why]
    weight = sw.weights.Custom(fn, window=1)
    x, y = torch.tensor([0.2, 0.7, 0.6, 0.4]), torch.tensor([0, 1, 0, 1])
    with pytest.raises((ValueError, TypeError), match=message):
        sw.confusion_matrix(x, y, 0.5, weight)
    with pytest.raises((ValueError, TypeError), match=message):
        sw.expected_confusion_matrix(x, y, None, weight)
    with pytest.raises((ValueError, TypeError), match=message):
        sw.ScoreLoss("tss", weight=weight, from_logits=False)(x, y)
    with pytest.raises((ValueError, TypeError), match=message):
        sw.expected_confusion_matrix(x, y, None, weight * sw.weights.Value((0.5,)))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"window": -1}, "window"),
        ({"window": 1.5}, "window"),
        ({"window": "1"}, "window"),
        ({"window": True}, "window"),
        ({"points": 0}, "points"),
        ({"points": -3}, "points"),
        ({"points": 2.5}, "points"),
        ({"points": None}, "points"),
        ({"fn": None}, "fn"),
        ({"fn": 2.0}, "fn"),
    ],
    ids=str,
)
def test_custom_weights_that_are_refused(arguments, name):
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b"):
        sw.weights.Custom(**{"fn": say_cost} | arguments)


def test_bad_values_are_located_beside_a_weight_too():
    weight = sw.weights.Value((0.5,))
    with pytest.raises(ValueError, match=r"predictions.*index 1, is nan"):
        sw.expected_confusion_matrix(torch.tensor([0.2, math.nan]), torch.tensor([0, 1]), None, weight)
    with pytest.raises(ValueError, match=r"targets.*index 0, is 2"):
        sw.expected_confusion_matrix(torch.tensor([0.2, 0.3]), torch.tensor([2, 1]), None, weight)
    with pytest.raises(ValueError, match="shape"):
        sw.expected_confusion_matrix(torch.rand(3, 1), torch.zeros(3), None, weight)


def test_margin_where_a_prior_is_infinitely_dense():
    """At 0, where Beta(0.3, 20) has its pole: what counts for nothing there must not become NaN in float32."""
    prior, weight = sw.priors.Beta(0.3, 20.0), sw.weights.Margin(1.0)
    x, y = torch.tensor([0.0, 1e-30, 0.3]), torch.tensor([1, 0, 1])
    narrow = sw.expected_confusion_matrix(x, y, prior, weight)
    wide = sw.expected_confusion_matrix(x.double(), y, prior, weight)
    for name in ("tn", "fp", "fn", "tp"):
        # roundings of float32 to 1 less a few
        assert float(getattr(narrow, name)) == pytest.approx(float(getattr(wide, name)), rel=1e-6, abs=1e-6)
    masked = sw.expected_confusion_matrix(x, y, prior, weight, mask=torch.tensor([True, True, False]))
    assert all(math.isfinite(getattr(masked, name)) for name in ("tn", "fp", "fn", "tp"))


@pytest.mark.parametrize("threshold", [math.inf, -math.inf, 1e30])
def test_an_infinite_threshold_is_for_weights_that_do_not_see_it(threshold):
    x, y = torch.tensor([0.25, 0.75], dtype=torch.float16), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"threshold must be finite for Margin\(kappa=1.0\), which sees it"):
        sw.confusion_matrix(x, y, threshold, sw.weights.Margin(1.0))
    matrix = sw.confusion_matrix(x, y, threshold, sw.weights.Value([0.5]))
    assert (matrix.tp, matrix.tn) == ((1, 0) if threshold < 0 else (0, 1))
