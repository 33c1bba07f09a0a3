"""The expected matrix and the loss over every prior and score, against brute force and against what is known."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from scorewise._cells import expected_cells
from scorewise.priors.base import tails
from tests.cases import ALL_PRIORS
from tests.oracles import expected_matrix, expected_score

each_prior = pytest.mark.parametrize("case", ALL_PRIORS, ids=repr)
each_score = pytest.mark.parametrize("name", sw.scores.names())

# ties, the ends of [0, 1], ends and corners of supports, and points outside every inner support
PREDICTIONS = [0.0, 0.03, 0.21, 0.21, 0.25, 0.4, 0.47, 0.5, 0.5, 0.58, 0.6, 0.83, 0.97, 1.0]
LABELS = [0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]
SOFT = [0.0, 0.1, 0.25, 1.0, 0.0, 0.9, 0.5, 0.3, 1.0, 0.8, 0.2, 1.0, 0.0, 0.7]


def cells(matrix):
    return [matrix.tn.item(), matrix.fp.item(), matrix.fn.item(), matrix.tp.item()]


@each_prior
@pytest.mark.parametrize("targets", [LABELS, SOFT], ids=["hard", "soft"])
def test_expected_matrix_is_the_average_over_the_threshold(case, targets):
    exact = expected_matrix(case, PREDICTIONS, targets)
    x, y = torch.tensor(PREDICTIONS, dtype=torch.float64), torch.tensor(targets, dtype=torch.float64)
    assert cells(sw.expected_confusion_matrix(x, y, case.prior)) == pytest.approx(exact, abs=1e-9)


@each_prior
def test_expected_matrix_from_logits_is_the_average_over_the_threshold(case):
    z = [-6.0, -2.0, -1.1, -0.4, -0.4, 0.0, 0.2, 0.9, 1.7, 5.0]
    y = [0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    exact = expected_matrix(case, [1 / (1 + math.exp(-v)) for v in z], y)
    matrix = sw.expected_confusion_matrix(
        torch.tensor(z, dtype=torch.float64), torch.tensor(y), case.prior, from_logits=True
    )
    assert cells(matrix) == pytest.approx(exact, abs=1e-9)


@each_prior
def test_expected_matrix_with_mask_and_weights_is_the_average_over_the_threshold(case):
    weight = [1.0, 2.5, 0.0, 1.0, 3.0, 0.5, 1.0, 1.0, 2.0, 1.0, 0.25, 4.0, 1.0, 1.0]
    keep = [i % 3 != 1 for i in range(len(LABELS))]
    exact = [0.0] * 4
    for p, y, w, k in zip(PREDICTIONS, LABELS, weight, keep, strict=True):
        one = expected_matrix(case, [p], [y])
        exact = [e + w * k * c for e, c in zip(exact, one, strict=True)]
    matrix = sw.expected_confusion_matrix(
        torch.tensor(PREDICTIONS, dtype=torch.float64),
        torch.tensor(LABELS),
        case.prior,
        mask=torch.tensor(keep),
        sample_weight=torch.tensor(weight),
    )
    assert cells(matrix) == pytest.approx(exact, abs=1e-9)


@each_prior
@each_score
def test_gradient_of_every_score_under_every_prior(case, name):
    # inside the support, where the loss depends on the logits, and clear of its corners
    u = torch.tensor([0.12, 0.27, 0.33, 0.46, 0.55, 0.64, 0.78, 0.91], dtype=torch.float64)
    z = torch.logit(case.prior.icdf(u)).clamp(-30, 30).requires_grad_()
    y = torch.tensor([0, 1, 0, 0, 1, 1, 0, 1])
    loss = sw.ScoreLoss(name, prior=case.prior)
    assert torch.autograd.gradcheck(lambda z: loss(z, y), (z,))
    (grad,) = torch.autograd.grad(loss(z, y), z)
    assert grad.abs().max() > 0


@each_prior
def test_second_derivatives(case):
    u = torch.tensor([0.12, 0.33, 0.55, 0.78], dtype=torch.float64)
    z = torch.logit(case.prior.icdf(u)).clamp(-30, 30).requires_grad_()
    loss = sw.ScoreLoss("hss", prior=case.prior)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, torch.tensor([0, 1, 0, 1])), (z,))


@each_prior
@pytest.mark.parametrize("from_logits", [True, False])
def test_the_fused_path_equals_the_plain_one(case, from_logits):
    """Labels that require a gradient go the plain way, through autograd."""
    g = torch.Generator().manual_seed(3)
    x = torch.rand(400, dtype=torch.float64, generator=g)
    x = (torch.logit(x) if from_logits else x).requires_grad_()
    y = (torch.rand(400, dtype=torch.float64, generator=g) < 0.3).double()
    w = torch.rand(400, dtype=torch.float64, generator=g)
    loss = sw.ScoreLoss("mcc", prior=case.prior, from_logits=from_logits)
    results = []
    for targets in (y, y.clone().requires_grad_()):
        value = loss(x, targets, sample_weight=w)
        results.append((value.detach(), *torch.autograd.grad(value, x)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-15)


@each_prior
@pytest.mark.parametrize("name", [n for n in sw.scores.names() if sw.scores.get(n).linearity != "none"])
def test_loss_of_linear_scores_is_minus_the_expected_score(case, name):
    score = sw.scores.get(name)

    def of_floats(*counts):
        return score(sw.ConfusionMatrix(*counts)).item()

    exact = expected_score(case, of_floats, PREDICTIONS, LABELS)
    sign = -1 if score.greater_is_better else 1
    loss = sw.ScoreLoss(name, prior=case.prior, from_logits=False)
    value = loss(torch.tensor(PREDICTIONS, dtype=torch.float64), torch.tensor(LABELS))
    assert value.item() == pytest.approx(sign * exact, abs=1e-9)


def test_loss_of_other_scores_is_not_the_expected_score():
    """The theorem's equality needs linearity: F1 shows that the test above can tell."""
    exact = expected_score(ALL_PRIORS[0], lambda tn, fp, fn, tp: 2 * tp / (2 * tp + fp + fn), PREDICTIONS, LABELS)
    value = sw.ScoreLoss("f1", from_logits=False)(torch.tensor(PREDICTIONS, dtype=torch.float64), torch.tensor(LABELS))
    assert abs(-value.item() - exact) > 1e-3


def test_f1_with_the_uniform_prior_is_soft_dice():
    g = torch.Generator().manual_seed(0)
    p = torch.rand(100, dtype=torch.float64, generator=g)
    y = (torch.rand(100, dtype=torch.float64, generator=g) < 0.3).double()
    soft_dice = 2 * (p * y).sum() / (p.sum() + y.sum())
    assert -sw.ScoreLoss("dice", from_logits=False)(p, y).item() == pytest.approx(soft_dice.item(), abs=1e-14)


def test_csi_with_the_uniform_prior_is_soft_jaccard():
    g = torch.Generator().manual_seed(0)
    p = torch.rand(100, dtype=torch.float64, generator=g)
    y = (torch.rand(100, dtype=torch.float64, generator=g) < 0.3).double()
    soft_jaccard = (p * y).sum() / (p + y - p * y).sum()
    assert -sw.ScoreLoss("jaccard", from_logits=False)(p, y).item() == pytest.approx(soft_jaccard.item(), abs=1e-14)


def test_the_logistic_prior_is_anylosss_matrix_normalised():
    """AnyLoss passes predictions through a sigmoid of steepness L = 73 around 1/2, from almost 0 to almost 1."""
    steepness = 73.0
    g = torch.Generator().manual_seed(0)
    p = torch.rand(100, dtype=torch.float64, generator=g)
    y = (torch.rand(100, dtype=torch.float64, generator=g) < 0.3).double()
    amplified = 1 / (1 + torch.exp(-steepness * (p - 0.5)))
    first, last = 1 / (1 + math.exp(steepness / 2)), 1 / (1 + math.exp(-steepness / 2))
    normalised = (amplified - first) / (last - first)
    matrix = sw.expected_confusion_matrix(p, y, sw.priors.Logistic(0.5, 1 / steepness))
    exact = [
        ((1 - y) * (1 - normalised)).sum(),
        ((1 - y) * normalised).sum(),
        (y * (1 - normalised)).sum(),
        (y * normalised).sum(),
    ]
    assert cells(matrix) == pytest.approx([e.item() for e in exact], abs=1e-12)


def test_a_narrow_prior_is_a_threshold():
    g = torch.Generator().manual_seed(0)
    p = torch.rand(500, dtype=torch.float64, generator=g)
    p = p[(p - 0.37).abs() > 1e-3]
    y = torch.rand(len(p), generator=g) < 0.3
    narrow = sw.expected_confusion_matrix(p, y, sw.priors.Uniform(0.3695, 0.3705))
    assert cells(narrow) == pytest.approx(cells(sw.confusion_matrix(p, y, 0.37)), abs=1e-9)


def test_uniform_gradient_far_out_is_not_zero():
    z = torch.tensor([40.0, -40.0, 40.0, -40.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 0, 1, 1])
    (grad,) = torch.autograd.grad(sw.ScoreLoss("tss")(z, y), z)
    exact = math.exp(-40) / (1 + math.exp(-40)) ** 2 / 2
    assert grad.tolist() == pytest.approx([exact, exact, -exact, -exact], rel=1e-14)


def test_loss_goes_down_and_the_score_goes_up():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 3, generator=g)
    y = (x @ torch.tensor([1.0, -2.0, 0.5]) + torch.randn(2000, generator=g) > 2.5).float()
    model = torch.nn.Linear(3, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    loss = sw.ScoreLoss("csi")
    step = torch.optim.Adam(model.parameters(), lr=0.05)
    values = []
    for _ in range(100):
        step.zero_grad()
        value = loss(model(x).squeeze(1), y)
        value.backward()
        step.step()
        values.append(value.item())
    matrix = sw.confusion_matrix(model(x).squeeze(1).detach(), y, from_logits=True)
    assert values[-1] < values[0] - 0.2
    assert sw.scores.csi(matrix) > 0.55


@settings(max_examples=50)
@given(
    n=st.integers(0, 40),
    labels=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_labels_are_independent_and_averaged(n, labels, seed):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, labels, dtype=torch.float64, generator=g)
    y = torch.rand(n, labels, generator=g) < 0.4
    loss = sw.ScoreLoss("hss")
    apart = torch.stack([loss(z[:, k], y[:, k]) for k in range(labels)])
    torch.testing.assert_close(loss(z, y), apart.mean())


def test_one_prior_per_label():
    z, y = torch.randn(30, 2, dtype=torch.float64), torch.rand(30, 2) < 0.4
    both = sw.ScoreLoss("csi", prior=sw.priors.Uniform(torch.tensor([0.0, 0.5]), torch.tensor([0.5, 1.0])))
    first, second = (sw.ScoreLoss("csi", prior=sw.priors.Uniform(*ends)) for ends in ((0.0, 0.5), (0.5, 1.0)))
    expected = (first(z[:, 0], y[:, 0]) + second(z[:, 1], y[:, 1])) / 2
    torch.testing.assert_close(both(z, y), expected)
    with pytest.raises(ValueError, match=r"shape \(2,\).*3 labels"):
        both(torch.randn(30, 3), torch.rand(30, 3) < 0.4)
    with pytest.raises(ValueError, match="no labels"):
        both(torch.randn(2), torch.rand(2) < 0.4)


def test_combined_loss_is_the_weighted_sum():
    z, y = torch.randn(50, dtype=torch.float64, requires_grad=True), torch.rand(50) < 0.3
    a, b = sw.ScoreLoss("tss"), sw.ScoreLoss("f1", prior=sw.priors.Beta(2.0, 5.0))
    combined = sw.CombinedLoss([(0.7, a), (0.3, b)])
    torch.testing.assert_close(combined(z, y), 0.7 * a(z, y) + 0.3 * b(z, y))
    assert torch.autograd.gradcheck(lambda z: combined(z, y), (z,))


def test_a_combination_of_scores_is_one_loss():
    z, y = torch.randn(50, dtype=torch.float64), torch.rand(50) < 0.3
    together = sw.ScoreLoss(0.7 * sw.scores.tss + 0.3 * sw.scores.f1)(z, y)
    apart = sw.CombinedLoss([(0.7, sw.ScoreLoss("tss")), (0.3, sw.ScoreLoss("f1"))])(z, y)
    torch.testing.assert_close(together, apart)


def test_combined_loss_takes_other_modules_too():
    class SummedEntropy(torch.nn.Module):
        def forward(self, logits, targets):
            return binary_cross_entropy_with_logits(logits, targets)

    z, y = torch.randn(50), (torch.rand(50) < 0.3).float()
    combined = sw.CombinedLoss([(0.5, sw.ScoreLoss("tss")), (0.5, SummedEntropy())])
    expected = (sw.ScoreLoss("tss")(z, y) + binary_cross_entropy_with_logits(z, y)) / 2
    torch.testing.assert_close(combined(z, y), expected)


def test_loss_matrix_is_the_matrix_behind_the_loss():
    z, y = torch.randn(50), torch.rand(50) < 0.3
    loss = sw.ScoreLoss("gss", prior=sw.priors.RaisedCosine(0.4, 0.3))
    matrix = loss.matrix(z, y)
    assert cells(matrix) == cells(sw.expected_confusion_matrix(z, y, loss.prior, from_logits=True))
    assert -loss.score(matrix).float() == loss(z, y)


def test_functional_gradients_work_through_torch_func():
    z, y = torch.randn(20, dtype=torch.float64), torch.rand(20) < 0.3
    loss = sw.ScoreLoss("hss")
    by_func = torch.func.grad(lambda z: loss(z, y))(z)
    z.requires_grad_()
    torch.testing.assert_close(by_func, torch.autograd.grad(loss(z, y), z)[0])


def test_tails_are_used_by_the_plain_path():
    """The plain path is built from `tails`; its sums are those of the fused one."""
    z = torch.randn(40, dtype=torch.float64)
    y = (torch.rand(40) < 0.5).double()
    from scorewise._inputs import prepare

    cdf, sf = tails(sw.priors.Beta(2.0, 3.0), z, from_logits=True)
    fused = expected_cells(prepare(z, y, from_logits=True), sw.priors.Beta(2.0, 3.0))
    plain = [((1 - y) * sf).sum(), ((1 - y) * cdf).sum(), (y * sf).sum(), (y * cdf).sum()]
    torch.testing.assert_close(list(fused), plain)


@pytest.mark.parametrize("weight", [None, sw.weights.Cost(1.0, 5.0), sw.weights.CrossEntropy()], ids=repr)
@pytest.mark.parametrize("tracked", [True, False], ids=["with a gradient", "without"])
def test_each_cell_can_be_changed_in_place(weight, tracked):
    x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=tracked)
    matrix, same = (sw.ScoreLoss("tss", weight=weight).matrix(x, torch.arange(9) % 2) for _ in range(2))
    for cell in ("tn", "fp", "fn", "tp"):
        getattr(matrix, cell).mul_(2)
    torch.testing.assert_close(matrix.tensor(), 2 * same.tensor())
