"""The score averaged over thresholds, exactly, as a curve's number and as a loss, and how far its approximation is."""

import copy
import itertools
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import scorewise as sw
from tests.cases import ALL_PRIORS
from tests.curve_oracles import (
    CROSS_ENTROPY_VALUE,
    CURVED,
    PLAIN,
    SAMPLES,
    SMOOTH,
    STATIONS,
    averaged,
    each_scored,
    in_sight,
    moments,
    reach,
    scored,
    second_order,
    sees_prediction,
    stretches,
)
from tests.weight_oracles import GRID, OMEGA, Series, cells, matrix_at, random_series

SCORES = sw.scores.names()
SEVERAL = ["tss", "mcc", "sedi", "error_rate", "cost"]
PRIORS = {case.name: case for case in ALL_PRIORS}
UNIFORM = PRIORS["uniform"]
KINDS = {kind.name: kind for kind in CURVED}
each_score = pytest.mark.parametrize("name", SCORES)
each_prior = pytest.mark.parametrize("case", ALL_PRIORS, ids=repr)
each_weight = pytest.mark.parametrize("kind", CURVED, ids=repr)
VALUE = sw.weights.Value(OMEGA)

# Sums of a few dozen numbers of at most 100. The priors themselves are tested to 1e-9 of the integral of their density.
CLOSE = 1e-9


def close(exact, tolerance=CLOSE):
    return pytest.approx(exact, rel=0, abs=tolerance)


def leaf(values, dtype=torch.float64):
    return torch.as_tensor(values, dtype=dtype).clone().requires_grad_()


def exact_loss(name, **arguments):
    return sw.ScoreLoss(name, exact=True, **arguments)


def sign_of(name):
    return -1 if sw.scores.get(name).greater_is_better else 1


def value_and_gradient(loss, x, y, **context):
    x = x.detach().clone().requires_grad_()
    value = loss(x, y, **context)
    (grad,) = torch.autograd.grad(value, x)
    return value.detach(), grad


# ---------------------------------------------------------------------------------------------------------- values


@each_prior
@each_weight
def test_every_expected_score_is_the_average_over_thresholds(case, kind):
    parts = stretches(case, STATIONS, kind.oracle)
    names = SCORES if case.name in ("uniform", "beta-bathtub") else SEVERAL
    curves = sw.score_curve(*STATIONS.tensors(), names, kind.make(), **STATIONS.keywords())
    for name, curve in curves.items():
        value = curve.expected(case.prior)
        assert value.shape == ()
        assert value.dtype == torch.float64
        assert value.item() == close(averaged(parts, curve.score)), name


@each_score
@each_weight
def test_every_exact_loss_is_minus_the_expected_score(name, kind):
    case = PRIORS["beta"]
    parts = stretches(case, STATIONS, kind.oracle)
    x, y = STATIONS.tensors()
    exact = sign_of(name) * averaged(parts, sw.scores.get(name))
    loss = exact_loss(name, prior=case.prior, weight=kind.make(), from_logits=False)
    assert loss(x, y, **STATIONS.keywords()).item() == close(exact)
    loss = exact_loss(name, prior=case.prior, weight=kind.make())
    assert loss(torch.logit(x), y, **STATIONS.keywords()).item() == close(exact)


@each_prior
def test_the_exact_loss_under_every_prior(case):
    x, y = SAMPLES.tensors()
    parts = stretches(case, SAMPLES, PLAIN.oracle)
    for name in SCORES:
        exact = sign_of(name) * averaged(parts, sw.scores.get(name))
        assert exact_loss(name, prior=case.prior, from_logits=False)(x, y).item() == close(exact), name


@each_weight
@settings(max_examples=20)
@given(series=random_series(values=GRID[1:-1]), name=st.sampled_from(("uniform", "uniform-inside", "cosine", "beta")))
def test_random_batches(kind, series, name):
    case = PRIORS[name]
    padded = Series([*GRID], [0.0] * len(GRID))  # the probabilities of stretches between these are computed only once
    parts = [
        (probability, matrix_at(series, kind.oracle, (start + stop) / 2))
        for (probability, _), start, stop in zip(
            stretches(case, padded, PLAIN.oracle), GRID[:-1], GRID[1:], strict=True
        )
    ]
    for score, curve in sw.score_curve(
        *series.tensors(), ["hss", "error_rate", "sedi"], kind.make(), **series.keywords()
    ).items():
        exact = averaged(parts, curve.score)
        assert curve.expected(case.prior).item() == close(exact)
        loss = exact_loss(score, prior=case.prior, weight=kind.make(), from_logits=False)
        x, y = series.tensors()
        assert loss(x, y, **series.keywords()).item() == close(sign_of(score) * exact)


def test_by_hand():
    # below 1/4 both are called positive, F1 = 2/3; up to 3/4 only the event is, F1 = 1; above nothing is
    x, y = leaf([0.25, 0.75]), torch.tensor([0, 1])
    value = exact_loss("f1", from_logits=False)(x, y)
    assert value.item() == close(-(0.25 * 2 / 3 + 0.5), 1e-15)
    value.backward()
    assert x.grad.tolist() == close([1 - 2 / 3, -1.0], 1e-15)


def test_any_prior_as_everywhere():
    x, y = SAMPLES.tensors()
    curve = sw.score_curve(x, y, "f1")
    assert curve.expected().item() == curve.expected(None).item() == curve.expected(sw.priors.Uniform()).item()
    parts = stretches(PRIORS["density"], SAMPLES, PLAIN.oracle)
    assert curve.expected(lambda t: torch.exp(-8 * (t - 0.3) ** 2)).item() == close(averaged(parts, sw.scores.f1))
    beta = curve.expected(sw.priors.Beta(2.0, 8.0)).item()
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (0.4, 0.3))
    parts = stretches(PRIORS["torch-normal"], SAMPLES, PLAIN.oracle)
    assert curve.expected(torch.distributions.Normal(*numbers)).item() == close(averaged(parts, sw.scores.f1))
    assert beta != curve.expected().item()
    with pytest.raises(TypeError, match=r"a prior must be an object of scorewise\.priors"):
        curve.expected("beta")
    with pytest.raises(ValueError, match="no labels"):
        curve.expected(sw.priors.Beta(torch.tensor([1.0, 2.0]), 2.0))


@each_weight
def test_what_is_linear_in_cells_is_the_ordinary_loss(kind):
    x, y = STATIONS.tensors()
    for case in ALL_PRIORS:
        exact, ordinary = (
            sw.ScoreLoss(
                sw.scores.cost(2.0, 0.5), prior=case.prior, weight=kind.make(), from_logits=False, exact=exact
            )(x, y, **STATIONS.keywords()).item()
            for exact in (True, False)
        )
        assert exact == close(ordinary), case


@each_prior
@pytest.mark.parametrize("name", [n for n in SCORES if sw.scores.get(n).linearity != "none"])
def test_what_is_linear_for_fixed_totals_is_the_ordinary_loss(case, name):
    """In its gradients too, where there are no ties."""
    x, y = SMOOTH.tensors()
    context = {key: v for key, v in SMOOTH.keywords().items() if key in ("mask", "sample_weight")}
    for from_logits in (False, True):
        z = torch.logit(x) if from_logits else x
        (exact, slope), (ordinary, ordinary_slope) = (
            value_and_gradient(sw.ScoreLoss(name, prior=case.prior, from_logits=from_logits, exact=e), z, y, **context)
            for e in (True, False)
        )
        assert exact.item() == close(ordinary.item(), 1e-12)
        torch.testing.assert_close(slope, ordinary_slope, rtol=1e-9, atol=1e-11)


def test_other_scores_are_not_the_ordinary_loss():
    """The tests above can tell: F1 with or without a weight, and TSS with one, are different."""
    x, y = SAMPLES.tensors()
    for name, weight in (("f1", None), ("f1", VALUE), ("tss", VALUE)):
        exact, ordinary = (
            sw.ScoreLoss(name, weight=weight, from_logits=False, exact=e)(x, y).item() for e in (True, False)
        )
        assert abs(exact - ordinary) > 1e-3


# -------------------------------------------------------------------------------------------------------- gradients


def inputs(kind, from_logits=True):
    x, y = SMOOTH.tensors()
    context = SMOOTH.keywords()
    return (torch.logit(x) if from_logits else x).requires_grad_(), y, context


@each_score
@each_weight
def test_gradients_of_every_score_and_weight(name, kind):
    z, y, context = inputs(kind)
    loss = exact_loss(name, prior=sw.priors.Beta(2.0, 3.0), weight=kind.make())
    assert torch.autograd.gradcheck(lambda z: loss(z, y, **context), (z,))


@each_prior
def test_gradients_of_every_score_under_every_prior(case):
    """Of three samples, inside the support, where the loss depends on them, and clear of its corners."""
    u = torch.tensor([0.55, 0.33, 0.12], dtype=torch.float64)
    z = torch.logit(case.prior.icdf(u)).clamp(-30, 30).requires_grad_()
    y = torch.tensor([1, 0, 1])
    for name in SCORES:
        loss = exact_loss(name, prior=case.prior)
        assert torch.autograd.gradcheck(lambda z, loss=loss: loss(z, y), (z,)), name
        (grad,) = torch.autograd.grad(loss(z, y), z)
        assert grad.abs().max() > 0, name


@each_weight
@pytest.mark.parametrize("name", ["hss", "error_rate"])
def test_gradients_by_probabilities_weights_and_costs(kind, name):
    x, y, context = inputs(kind, from_logits=False)
    w, c = leaf(context.pop("sample_weight")), leaf(context.pop("costs"))
    loss = exact_loss(name, prior=sw.priors.Triangular(0.1, 0.46, 0.9), weight=kind.make(), from_logits=False)

    def of_all(x, w, c):
        return loss(x, y, sample_weight=w, costs=c, **context)

    assert torch.autograd.gradcheck(of_all, (x, w, c))
    grads = torch.autograd.grad(of_all(x, w, c), (x, w, c))
    assert all(grad.abs().max() > 1e-4 for grad in grads)


@each_weight
def test_the_curve_s_gradients_are_the_loss_s(kind):
    x, y, context = inputs(kind, from_logits=False)
    w, c = leaf(context.pop("sample_weight")), leaf(context.pop("costs"))
    prior = sw.priors.Beta(2.0, 3.0)
    loss = exact_loss("hss", prior=prior, weight=kind.make(), from_logits=False)
    values = (
        sw.score_curve(x, y, "hss", kind.make(), sample_weight=w, costs=c, **context).expected(prior),
        -loss(x, y, sample_weight=w, costs=c, **context),
    )
    results = [[value.detach(), *torch.autograd.grad(value, (x, w, c))] for value in values]
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["none", "value-max", "value-any-isolated", "cross-entropy", "cross-entropy*value"])
@pytest.mark.parametrize("name", ["hss", "f1", "error_rate"])
def test_second_derivatives(kind, name):
    z, y, context = inputs(KINDS[kind])
    loss = exact_loss(name, prior=sw.priors.Beta(2.0, 3.0), weight=KINDS[kind].make())
    assert torch.autograd.gradgradcheck(lambda z: loss(z, y, **context), (z,))
    (first,) = torch.autograd.grad(loss(z, y, **context), z, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), z)
    assert second.abs().max() > 1e-4


def jumps(series, kind, score, density):
    """For each prediction, the density there times by how much the score changes; shared by all who have it."""
    ends = [-1.0, *sorted({p for p in series.predictions if p == p})]
    slopes = {}
    for before, p in itertools.pairwise(ends):
        below, above = each_scored(score, [matrix_at(series, kind.oracle, tau) for tau in (before, p)])
        slopes[p] = density(p) * (below - above)
    return slopes


TIED = Series(
    [0.5, 0.25, 0.5, 0.75, 0.5, 0.25, 0.625, 0.625, 0.5, 0.25],
    [0, 1, 1, 1, 0, 0, 1, 0, 1, 1],
)


@pytest.mark.parametrize("kind", [kind for kind in CURVED if not sees_prediction(kind)], ids=repr)
@each_score
def test_tied_predictions_share_their_gradient(kind, name):
    x, y = TIED.tensors()
    score = sw.scores.get(name)
    slopes = jumps(TIED, kind, score, lambda t: 12 * t * (1 - t) ** 2)
    exact = [sign_of(name) * slopes[p] / TIED.predictions.count(p) for p in TIED.predictions]
    loss = exact_loss(name, prior=sw.priors.Beta(2.0, 3.0), weight=kind.make(), from_logits=False)
    _, grad = value_and_gradient(loss, x, y)
    assert grad.tolist() == close(exact, 1e-11)
    # moving all that are tied together is a derivative like any other
    for p, slope in slopes.items():
        up, down = (loss(torch.where(x == p, x + step, x), y).item() for step in (1e-6, -1e-6))
        assert sign_of(name) * (up - down) / 2e-6 == close(slope, 1e-6)


@each_weight
def test_permuting_samples_permutes_gradients(kind):
    """Ties and all, where each has a place in time of its own and so can travel."""
    x, y = TIED.tensors()
    loss = exact_loss("mcc", prior=sw.priors.Beta(2.0, 3.0), weight=kind.make(), from_logits=False)
    costs = torch.arange(20, dtype=torch.float64).reshape(10, 2) / 7
    if kind.reads_windows:
        # two series; any order of samples that leaves each in its own
        groups = torch.tensor([0, 1] * 5)
        order = torch.tensor([0, 2, 1, 3, 5, 4, 6, 8, 7, 9])
    else:
        groups, order = torch.arange(10), torch.randperm(10, generator=torch.Generator().manual_seed(3))
    value, grad = value_and_gradient(loss, x, y, costs=costs, groups=groups)
    permuted, permuted_grad = value_and_gradient(loss, x[order], y[order], costs=costs[order], groups=groups[order])
    assert permuted.item() == close(value.item(), 1e-13)
    assert permuted_grad.tolist() == close(grad[order].tolist(), 1e-13)
    assert grad.abs().max() > 1e-3


@each_weight
def test_of_equal_samples_each_has_the_same_gradient(kind):
    """Each a series of its own, tied in pairs with one of its own class."""
    x, y = leaf([0.25, 0.75, 0.25, 0.5, 0.75, 0.5, 0.875]), torch.tensor([1, 0, 1, 0, 0, 0, 1])
    loss = exact_loss("f1", prior=sw.priors.Beta(2.0, 3.0), weight=kind.make(), from_logits=False)
    (grad,) = torch.autograd.grad(loss(x, y, groups=torch.arange(7)), x)
    for one, other in ((0, 2), (1, 4), (3, 5)):
        assert grad[one].item() == close(grad[other].item(), 1e-14)
        assert abs(grad[one].item()) > 1e-3


@each_weight
@pytest.mark.parametrize("given_as", ["mask", "sample_weight"])
def test_what_does_not_count_has_no_gradient_and_takes_no_share(kind, given_as):
    """Each a series of its own, so that nobody sees another: the masked ones, tied with others, are not there."""
    counted = torch.tensor([True, False, True, True, False, True, True, False, True, True])
    x, y = TIED.tensors()
    loss = exact_loss("hss", weight=kind.make(), from_logits=False)
    context = {"groups": torch.arange(10), given_as: counted if given_as == "mask" else counted.double()}
    value, grad = value_and_gradient(loss, x, y, **context)
    alone, alone_grad = value_and_gradient(loss, x[counted], y[counted], groups=torch.arange(7))
    assert grad[~counted].tolist() == [0.0] * 3
    assert value.item() == close(alone.item(), 1e-14)
    assert grad[counted].tolist() == close(alone_grad.tolist(), 1e-13)
    if given_as == "mask":
        unknown = torch.where(counted, x, math.nan)
        again, again_grad = value_and_gradient(loss, unknown, torch.where(counted, y, math.nan), **context)
        assert again.item() == value.item()
        assert again_grad.tolist() == grad.tolist()


def test_what_does_not_count_but_is_seen_has_a_gradient():
    """An alarm in the context, one step before an event that counts, is worth half of a miss to it."""
    x, y = leaf([0.75, 0.25, 0.5]), torch.tensor([0, 1, 0])
    loss = exact_loss("cost", weight=sw.weights.Value([0.5]), from_logits=False)
    mask = torch.tensor([False, True, False])
    value = loss(x, y, mask=mask)
    # a hit below 1/4, half a miss up to 3/4, a whole one above
    assert value.item() == close(0.5 * 0.5 + 0.25, 1e-15)
    (grad,) = torch.autograd.grad(value, x)
    assert grad.tolist() == close([-0.5, -0.5, 0.0], 1e-15)


def test_context_that_is_tied_with_what_counts():
    # as above, but both at 1/2: together they move the matrix from a hit to a miss, in one step
    x, y = leaf([0.5, 0.5, 0.5]), torch.tensor([0, 1, 0])
    loss = exact_loss("cost", weight=sw.weights.Value([0.5]), from_logits=False)
    value = loss(x, y, mask=torch.tensor([False, True, False]), groups=[0, 0, 1])
    assert value.item() == close(0.5, 1e-15)
    (grad,) = torch.autograd.grad(value, x)
    assert grad[:2].sum().item() == close(-1, 1e-15)
    assert grad[1] < 0
    assert grad[2] == 0


@pytest.mark.parametrize("kind", [kind for kind in CURVED if not sees_prediction(kind)], ids=repr)
@settings(max_examples=40)
@given(series=random_series(values=GRID[1:-1]))
def test_equal_predictions_share_what_they_change_in_any_series(kind, series):
    """The density is 1 everywhere. Of those that do not count some have a share, if others see them."""
    x, y = series.tensors()
    loss = exact_loss("hss", weight=kind.make(), from_logits=False)
    _, grad = value_and_gradient(loss, x, y, **series.keywords())
    slopes = jumps(series, kind, sw.scores.hss, lambda t: 1.0)
    for p, slope in slopes.items():
        block = [i for i in range(len(series)) if series.predictions[i] == p]
        assert sum(grad[i].item() for i in block) == close(-slope, 1e-12)
        shares = [grad[i].item() for i in block if series.counted(i)]
        assert shares == close([shares[0]] * len(shares) if shares else [], 1e-12)
        if shares:
            for other in (grad[i].item() for i in block if not series.counted(i)):
                assert other in (0, close(shares[0], 1e-12))
    seen = set(in_sight(series, reach(kind)))
    assert all(grad[i] == 0 for i, p in enumerate(series.predictions) if p not in seen)


# ------------------------------------------------------------------------------------------------- nothing to divide by


@each_weight
@each_score
def test_degenerate_batches_are_finite(kind, name):
    """Empty, one class only, all masked, all tied, and logits far out."""
    batches = {
        "empty": (torch.zeros(0), torch.zeros(0), {}),
        "one": (torch.tensor([0.3]), torch.ones(1), {}),
        "negatives only": (torch.tensor([0.3, -1.0, 2.0]), torch.zeros(3), {}),
        "positives only": (torch.tensor([0.3, -1.0, 2.0]), torch.ones(3), {}),
        "all masked": (torch.tensor([0.3, math.nan]), torch.tensor([1.0, math.nan]), {"mask": torch.zeros(2) > 0}),
        "no weight": (torch.tensor([0.3, 0.4]), torch.tensor([1.0, 0.0]), {"sample_weight": torch.zeros(2)}),
        "all tied": (torch.full((5,), 0.7), torch.tensor([0.0, 1, 0, 1, 1]), {}),
        "far out": (torch.tensor([800.0, -800, 800, -800, 0, 88]), torch.tensor([0.0, 0, 1, 1, 1, 0]), {}),
    }
    loss = exact_loss(name, prior=sw.priors.Beta(0.5, 0.7), weight=kind.make())  # of infinite density at both ends
    for told, (z, y, context) in batches.items():
        value, grad = value_and_gradient(loss, z, y, **context)
        assert value.isfinite(), told
        assert grad.isfinite().all(), told
        if told in ("empty", "all masked", "no weight"):
            assert value.item() == close(sign_of(name) * loss.score.empty_value, 1e-12)
            assert grad.tolist() == [0.0] * len(z)


def test_all_tied_by_hand():
    # up to 1/2 everything is called positive, F1 = 6/8 with three events of five; above nothing is
    x = leaf([0.5] * 5)
    value = exact_loss("f1", from_logits=False)(x, torch.tensor([0, 1, 0, 1, 1]))
    assert value.item() == close(-0.375, 1e-15)
    value.backward()
    assert x.grad.tolist() == close([-0.75 / 5] * 5, 1e-15)


# ---------------------------------------------------------------------------------------------------- dtypes and ways


@each_weight
@pytest.mark.parametrize("from_logits", [False, True])
def test_float32_is_close_to_float64(kind, from_logits):
    x, y = STATIONS.tensors()
    narrow = (torch.logit(x) if from_logits else x).float()
    loss = exact_loss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=kind.make(), from_logits=from_logits)
    short, short_grad = value_and_gradient(loss, narrow, y, **STATIONS.keywords())
    # the same numbers in float64 are tied in the same way
    long, long_grad = value_and_gradient(loss, narrow.double(), y, **STATIONS.keywords())
    assert short.dtype == short_grad.dtype == torch.float32
    # a value of at most 1, of some twelve terms
    assert short.item() == close(long.item(), 12 * torch.finfo(torch.float32).eps)
    assert short_grad.tolist() == pytest.approx(long_grad.tolist(), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    z, y = torch.randn(40, generator=torch.Generator().manual_seed(0)).to(dtype), torch.arange(40) % 3 == 0
    loss = exact_loss("hss", weight=VALUE)
    value, grad = value_and_gradient(loss, z, y)
    wide, wide_grad = value_and_gradient(loss, z.float(), y)
    assert value.dtype == torch.float32
    assert value == wide
    assert grad.dtype == dtype
    torch.testing.assert_close(grad.float(), wide_grad, rtol=torch.finfo(dtype).eps, atol=1e-6)


@each_weight
def test_logits_are_probabilities(kind):
    x, y = STATIONS.tensors()
    z = torch.logit(x)
    for prior in (None, sw.priors.Uniform(0.25, 0.7), sw.priors.Beta(2.0, 3.0)):
        of_logits, of_probabilities = (
            exact_loss("gss", prior=prior, weight=kind.make(), from_logits=f)(t, y, **STATIONS.keywords()).item()
            for f, t in ((True, z), (False, torch.sigmoid(z)))
        )
        assert of_logits == close(of_probabilities, 1e-12)


FAR_OUT = [40.0, -40.0, 36.5, 1.0, -0.5, -36.5]
FAR_LABELS = [1, 0, 0, 1, 0, 1]


def far_out(name):
    """The score averaged over thresholds whose probability to be at least t is (1 - t)^0.1: a third beyond 1 - 2e-5.

    With q = 1 - sigmoid(z) to full precision, however close to 0 it is.
    """
    order = sorted(range(6), key=lambda i: FAR_OUT[i])
    above = [1 / (1 + math.exp(FAR_OUT[i])) for i in order]
    beyond = [1.0, *(q**0.1 for q in above), 0.0]
    total = 0.0
    for k in range(7):
        alarms = set(order[k:])
        counts = [0.0] * 4
        for i, label in enumerate(FAR_LABELS):
            counts[2 * label + (i in alarms)] += 1
        total += (beyond[k] - beyond[k + 1]) * scored(sw.scores.get(name), counts)
    return total


@each_score
def test_thresholds_beyond_the_last_digit_of_a_probability(name):
    prior = sw.priors.Kumaraswamy(1.0, 0.1)
    loss = exact_loss(name, prior=prior)
    z = leaf(FAR_OUT)
    assert loss(z, torch.tensor(FAR_LABELS)).item() == close(sign_of(name) * far_out(name), 1e-12)
    assert torch.autograd.gradcheck(lambda z: loss(z, torch.tensor(FAR_LABELS)), (z,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("from_logits", [False, True])
def test_a_curve_s_gradient_reaches_what_it_was_made_of(dtype, from_logits):
    x, y = SAMPLES.tensors()
    given = (torch.logit(x) if from_logits else x).to(dtype)
    z = given.clone().requires_grad_()
    value = sw.score_curve(z, y, "mcc", from_logits=from_logits).expected(sw.priors.Beta(2.0, 3.0))
    value.backward()
    assert value.dtype == torch.float64
    assert z.grad.dtype == dtype
    loss = exact_loss("mcc", prior=sw.priors.Beta(2.0, 3.0), from_logits=from_logits)
    wide, grad = value_and_gradient(loss, given.double(), y)
    assert value.item() == close(-wide.item(), 1e-12)
    torch.testing.assert_close(z.grad.double(), -grad, rtol=2 * torch.finfo(dtype).eps, atol=1e-7)


def test_minus_zero_and_zero_are_tied():
    z = leaf([0.0, -0.0, 1.0, -1.0])
    (grad,) = torch.autograd.grad(exact_loss("f1")(z, torch.tensor([0, 1, 1, 0])), z)
    assert grad[0] == grad[1]
    assert grad[0] != 0


def test_uniform_gradients_far_out_are_not_zero():
    """Nor are logits tied whose probabilities are the same to all digits."""
    z, y = leaf([40.0, 39.0, -40.0, -39.0]), torch.tensor([0, 1, 1, 0])
    _, grad = value_and_gradient(exact_loss("tss"), z, y)
    far, near = (math.exp(-v) / (1 + math.exp(-v)) ** 2 / 2 for v in (40, 39))
    assert grad.tolist() == pytest.approx([far, -near, -far, near], rel=1e-12)


def test_functional_gradients():
    z, y, context = inputs(PLAIN)
    for weight in (None, VALUE, CROSS_ENTROPY_VALUE.make()):
        loss = exact_loss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=weight)
        by_func = torch.func.grad(lambda z, loss=loss: loss(z, y, **context))(z.detach())
        torch.testing.assert_close(by_func, torch.autograd.grad(loss(z, y, **context), z)[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("weight", "dtype"),
    [
        (None, torch.float64),
        (sw.weights.ClassFrequency(), torch.float64),
        (sw.weights.CrossEntropy(), torch.float32),
        (VALUE, torch.float64),
        (sw.weights.Value(OMEGA, "prod", isolated=2.0), torch.float32),
    ],
    ids=str,
)
def test_compiled(weight, dtype):
    torch.compiler.reset()
    g = torch.Generator().manual_seed(5)
    z, y = torch.randn(40, dtype=torch.float64, generator=g).to(dtype), torch.rand(40, generator=g) < 0.4
    z[:20] = (4 * z[:20]).round() / 4  # some of which are tied
    mask = torch.rand(40, generator=g) < 0.8
    loss = exact_loss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=weight)
    compiled = torch.compile(loss, backend="aot_eager")
    rtol, atol = (1e-10, 1e-13) if dtype == torch.float64 else (1e-4, 1e-6)
    results = [value_and_gradient(call, z, y, mask=mask) for call in (compiled, loss)]
    torch.testing.assert_close(*results, rtol=rtol, atol=atol)


def test_labels_are_independent_and_averaged():
    g = torch.Generator().manual_seed(1)
    z, y = torch.randn(20, 3, dtype=torch.float64, generator=g).mul(3).round() / 3, torch.rand(20, 3, generator=g) < 0.4
    each = {
        "mask": torch.rand(20, 3, generator=g) < 0.8,
        "sample_weight": torch.rand(20, 3, generator=g, dtype=torch.float64),
        "costs": torch.rand(20, 3, 2, generator=g, dtype=torch.float64),
    }
    shared = {"groups": torch.arange(20) % 2, "times": torch.arange(20) + torch.arange(20) // 5}
    for weight in (None, VALUE, sw.weights.ClassFrequency(), sw.weights.CrossEntropy()):
        for name in ("hss", "error_rate"):
            loss = exact_loss(name, prior=sw.priors.Beta(torch.tensor([1.0, 2.0, 0.5]), 1.5), weight=weight)
            value, grad = value_and_gradient(loss, z, y, **shared, **each)
            total = 0.0
            for k, alpha in enumerate((1.0, 2.0, 0.5)):
                alone = exact_loss(name, prior=sw.priors.Beta(alpha, 1.5), weight=weight)
                own = {key: v[:, k] for key, v in each.items()}
                part, slope = value_and_gradient(alone, z[:, k], y[:, k], **shared, **own)
                total += part.item() / 3
                torch.testing.assert_close(grad[:, k], slope / 3, rtol=1e-10, atol=1e-14)
            assert value.item() == close(total, 1e-12)


def test_the_matrix_of_an_exact_loss_is_the_expected_one():
    x, y = STATIONS.tensors()
    z, context = torch.logit(x), STATIONS.keywords()
    loss = exact_loss("gss", prior=sw.priors.Beta(2.0, 3.0), weight=VALUE)
    expected = sw.expected_confusion_matrix(z, y, loss.prior, VALUE, from_logits=True, **context)
    assert cells(loss.matrix(z, y, **context)) == cells(expected)


@pytest.mark.parametrize("bad", [1, None, "yes", 0.0])
def test_exact_is_true_or_false(bad):
    with pytest.raises(TypeError, match="exact must be True or False, saw"):
        sw.ScoreLoss("tss", exact=bad)


def test_an_exact_loss_can_be_copied():
    x, y = SAMPLES.tensors()
    loss = exact_loss("f1", weight=VALUE, from_logits=False)
    assert copy.deepcopy(loss)(x, y) == pickle.loads(pickle.dumps(loss))(x, y) == loss(x, y)  # noqa: S301  # our own
    assert sw.CombinedLoss([(1.0, loss)])(x, y) == loss(x, y)


def test_an_exact_loss_says_so():
    assert "exact=True" in repr(exact_loss("tss"))
    assert "exact=True" not in repr(sw.ScoreLoss("tss"))


def test_bad_values_are_told_as_by_the_ordinary_loss():
    loss = exact_loss("tss")
    with pytest.raises(ValueError, match=r"logits must be finite, but 1 of 3 are not: the first, at index 1, is nan"):
        loss(torch.tensor([0.3, math.nan, 1.0]), torch.tensor([0, 1, 1]))
    with pytest.raises(ValueError, match=r"exactly the same shape, saw \(3,\) and \(3, 1\)"):
        loss(torch.zeros(3), torch.zeros(3, 1))
    with pytest.raises(ValueError, match=r"shape \(2,\).*3 labels"):
        exact_loss("tss", prior=sw.priors.Beta(torch.tensor([1.0, 2.0]), 1.0))(torch.zeros(4, 3), torch.zeros(4, 3))


def test_training_with_the_exact_loss_raises_the_score():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 3, generator=g)
    y = (x @ torch.tensor([1.0, -2.0, 0.5]) + torch.randn(1000, generator=g) > 2.5).float()
    model = torch.nn.Linear(3, 1)
    torch.nn.init.zeros_(model.weight)  # all tied at first
    torch.nn.init.zeros_(model.bias)
    loss = exact_loss("csi")
    step = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(100):
        step.zero_grad()
        loss(model(x).squeeze(1), y).backward()
        step.step()
    matrix = sw.confusion_matrix(model(x).squeeze(1).detach(), y, from_logits=True)
    assert sw.scores.csi(matrix) > 0.55


# ---------------------------------------------------------------------------------------------------- theorem's gap


def gap_of(series, name, case, kind):
    return sw.theorem_gap(*series.tensors(), name, case.prior, kind.make(), **series.keywords())


@each_score
@each_weight
def test_the_gap_is_what_it_says(name, kind):
    score = sw.scores.get(name)
    for case in (UNIFORM, PRIORS["beta-narrow"]):
        parts = stretches(case, STATIONS, kind.oracle)
        gap = gap_of(STATIONS, name, case, kind)
        expected, first_order = averaged(parts, score), scored(score, moments(parts)[0])
        assert float(gap.expected) == close(expected)
        assert float(gap.first_order) == close(first_order)
        assert float(gap.gap) == close(expected - first_order)
        assert float(gap.second_order) == close(second_order(parts, score))


@each_prior
def test_the_gap_under_every_prior(case):
    parts = stretches(case, SAMPLES, PLAIN.oracle)
    gap = gap_of(SAMPLES, "hss", case, PLAIN)
    assert float(gap.expected) == close(averaged(parts, sw.scores.hss))
    assert float(gap.gap) == close(averaged(parts, sw.scores.hss) - scored(sw.scores.hss, moments(parts)[0]))
    assert float(gap.second_order) == close(second_order(parts, sw.scores.hss))


@each_weight
def test_linear_scores_have_no_gap(kind):
    for case in ALL_PRIORS:
        gap = gap_of(STATIONS, "cost", case, kind)
        assert float(gap.gap) == close(0, 1e-12 * max(1, abs(float(gap.expected)))), case
        assert float(gap.second_order) == close(0, 1e-12), case
        assert abs(float(gap.expected)) > 0.1, case


@pytest.mark.parametrize("name", ["f1", "hss", "mcc", "precision"])
def test_the_second_order_explains_the_gap_of_a_narrow_prior(name):
    """The gap goes with the square of the prior's width, and what the second order leaves of it with the fourth."""
    n = 8000
    x = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    y = x**2  # soft labels, so that the matrix is a smooth function of the threshold but for steps of 1/n
    left = []
    for width in (0.2, 0.1, 0.05):
        gap = sw.theorem_gap(x, y, name, sw.priors.Uniform(0.5 - width, 0.5 + width))
        left.append(abs(float(gap.gap) - float(gap.second_order)) / abs(float(gap.gap)))
    assert left[1] < left[0] / 3
    assert left[2] < left[1] / 3
    assert left[2] < 0.02


@each_weight
def test_the_second_order_is_all_of_a_quadratic_score_s_gap(kind):
    """Whose series ends there. Unlike the registered ones it changes when all cells are multiplied by a number."""
    score = sw.scores.Score("squares", lambda tn, fp, fn, tp: tp * tn - fp * fn - 0.3 * fp**2)
    for case in (UNIFORM, PRIORS["beta-narrow"]):
        gap = sw.theorem_gap(*STATIONS.tensors(), score, case.prior, kind.make(), **STATIONS.keywords())
        assert float(gap.second_order) == close(float(gap.gap))
        assert abs(float(gap.gap)) > 1e-3


def test_the_gap_of_nothing_is_nothing():
    gap = sw.theorem_gap(torch.zeros(0), torch.zeros(0), "tss")
    assert float(gap.expected) == float(gap.first_order) == -1
    assert float(gap.gap) == float(gap.second_order) == 0


def test_the_gap_of_logits():
    x, y = STATIONS.tensors()
    of_probabilities = sw.theorem_gap(x, y, "gss", None, VALUE, **STATIONS.keywords())
    of_logits = sw.theorem_gap(torch.logit(x), y, "gss", None, VALUE, from_logits=True, **STATIONS.keywords())
    for part in ("expected", "first_order", "gap", "second_order"):
        assert float(getattr(of_logits, part)) == close(float(getattr(of_probabilities, part)), 1e-12)


def test_a_gap_in_inference_mode():
    x, y = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
    with torch.inference_mode():
        inside = sw.theorem_gap(x, y, "csi")
    assert inside == sw.theorem_gap(x, y, "csi")
    assert inside.second_order != 0
