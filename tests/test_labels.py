"""Several labels: each as if it were alone, and then averaged."""

import copy
import pickle

import pytest
import torch

import scorewise as sw
from tests.cases import EVERY_WEIGHT, STEP_WEIGHTS

G = torch.Generator().manual_seed(11)
N, L = 40, 3
Z = torch.randn(N, L, dtype=torch.float64, generator=G)
P = torch.sigmoid(Z)
Y = (torch.rand(N, L, generator=G) < 0.4).double()
MASK = torch.rand(N, L, generator=G) < 0.8  # a label may be unknown for a sample
WEIGHT = torch.rand(N, L, generator=G, dtype=torch.float64)
COSTS = torch.rand(N, L, 2, generator=G, dtype=torch.float64)
TIMES = torch.randint(1, 3, (N,), generator=G).cumsum(0)
GROUPS = torch.randint(0, 3, (N,), generator=G)
CONTEXT = {"mask": MASK, "sample_weight": WEIGHT, "costs": COSTS, "times": TIMES, "groups": GROUPS}

SCORES = ["tss", "f1", "error_rate"]
PRIORS = [sw.priors.Beta(2.0, 5.0), None, sw.priors.Triangular(0.1, 0.3, 0.9)]
WEIGHTS = [None, sw.weights.Value([0.5, 0.25]), sw.weights.Cost(1.0, 4.0)]


def alone(j, context=CONTEXT):
    """The context of one label."""
    return {
        name: value[:, j] if name in {"mask", "sample_weight", "costs"} else value for name, value in context.items()
    }


def goodness(j, **options):
    """The score of one label by a binary loss; greater is better."""
    own = {name: option[j] if isinstance(option, list) else option for name, option in options.items()}
    score = own.pop("score", "hss")
    context = own.pop("context", CONTEXT)
    return -sw.ScoreLoss(score, **own)(Z[:, j], Y[:, j], **alone(j, context))


def losses(**options):
    """All of a multilabel loss, whatever the average."""
    arguments = dict(options)
    return sw.ScoreLoss(arguments.pop("score", "hss"), average=None, **arguments)(Z, Y, **CONTEXT)


each_option = pytest.mark.parametrize(
    "options",
    [
        {},
        {"score": SCORES},
        {"prior": PRIORS},
        {"weight": WEIGHTS},
        {"score": SCORES, "prior": PRIORS, "weight": WEIGHTS},
        {"prior": [PRIORS[0], None, PRIORS[0]], "weight": [None, WEIGHTS[1], None]},  # two that share everything
    ],
    ids=["nothing", "scores", "priors", "weights", "all", "shared"],
)


@each_option
@pytest.mark.parametrize("exact", [False, True])
def test_each_label_is_as_if_alone(options, exact):
    expected = torch.stack([-goodness(j, exact=exact, **options) for j in range(L)])
    torch.testing.assert_close(losses(exact=exact, **options), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weight", EVERY_WEIGHT.values(), ids=EVERY_WEIGHT.keys())
def test_every_weight_beside_another(weight):
    own = [weight, None, weight]
    expected = torch.stack([-goodness(j, weight=own) for j in range(L)])
    torch.testing.assert_close(losses(weight=own), expected, rtol=1e-10, atol=1e-12)


@each_option
@pytest.mark.parametrize("exact", [False, True])
def test_averages(options, exact):
    options = options | {"exact": exact}
    values = torch.stack([goodness(j, **options) for j in range(L)])
    positives = torch.stack([(Y[:, j] * MASK[:, j] * WEIGHT[:, j]).sum() for j in range(L)])
    score = options.get("score", "hss")
    rest = {name: option for name, option in options.items() if name != "score"}
    wanted = {
        "macro": values.mean(),
        "weighted": (values * positives).sum() / positives.sum(),
        "min": values.min(),
    }
    for average, expected in wanted.items():
        found = sw.ScoreLoss(score, average=average, **rest)(Z, Y, **CONTEXT)
        torch.testing.assert_close(found, -expected, rtol=1e-12, atol=1e-12)
    if not isinstance(score, list):
        softest = sw.ScoreLoss(score, average=lambda s: -torch.logsumexp(-5 * s, -1) / 5, **rest)(Z, Y, **CONTEXT)
        torch.testing.assert_close(softest, torch.logsumexp(-5 * values, -1) / 5, rtol=1e-12, atol=1e-12)


def test_a_function_is_given_the_scores_themselves():
    rates = torch.stack([-goodness(j, score="error_rate") for j in range(L)])
    loss = sw.ScoreLoss("error_rate", average=lambda s: s.prod())
    torch.testing.assert_close(loss(Z, Y, **CONTEXT), rates.prod(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"prior": PRIORS}, {"prior": PRIORS, "weight": WEIGHTS}], ids=["same", "priors", "both"]
)
@pytest.mark.parametrize("score", ["hss", "error_rate"])
def test_micro_adds_the_matrices(options, score):
    loss = sw.ScoreLoss(score, average="micro", **options)
    added = None
    for j in range(L):
        own = {name: option[j] for name, option in options.items()}
        matrix = sw.ScoreLoss(score, **own).matrix(Z[:, j], Y[:, j], **alone(j))
        added = matrix if added is None else added + matrix
    sign = -1 if score == "hss" else 1
    torch.testing.assert_close(loss(Z, Y, **CONTEXT), sign * sw.scores.get(score)(added), rtol=1e-12, atol=1e-12)


def test_micro_of_one_prior_is_the_pooled_loss():
    pooled = sw.ScoreLoss("csi")(Z.flatten(), Y.flatten(), mask=MASK.flatten(), sample_weight=WEIGHT.flatten())
    found = sw.ScoreLoss("csi", average="micro")(Z, Y, mask=MASK, sample_weight=WEIGHT)
    torch.testing.assert_close(found, pooled, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("average", ["macro", "weighted", "min", "micro", None])
def test_gradients(average):
    score = "hss" if average == "micro" else SCORES
    loss = sw.ScoreLoss(score, prior=PRIORS, weight=WEIGHTS, average=average)
    assert torch.autograd.gradcheck(lambda z: loss(z, Y, **CONTEXT), Z.clone().requires_grad_())


def test_unknown_labels_have_no_gradient():
    z = Z.masked_fill(~MASK, torch.nan).requires_grad_()
    y = Y.masked_fill(~MASK, torch.nan)
    loss = sw.ScoreLoss("tss", prior=PRIORS, average="weighted")
    value = loss(z, y, mask=MASK)
    (grad,) = torch.autograd.grad(value, z)
    assert value.isfinite()
    assert (grad[~MASK] == 0).all()
    assert (grad[MASK] != 0).any()


@pytest.mark.parametrize(
    ("average", "exact"),
    [("micro", False), *((a, e) for a in ("macro", "weighted", "min", None) for e in (False, True))],
)
def test_degenerate_batches(average, exact):
    loss = sw.ScoreLoss("f1", average=average, exact=exact)
    for z, y, mask in (
        (torch.zeros(0, 2), torch.zeros(0, 2), None),
        (torch.zeros(4, 2), torch.zeros(4, 2), None),  # no positives to weigh by
        (torch.zeros(4, 2), torch.ones(4, 2), torch.zeros(4, 2, dtype=torch.bool)),
    ):
        x = z.requires_grad_()
        value = loss(x, y, mask=mask)
        assert value.isfinite().all()
        assert torch.autograd.grad(value.sum(), x)[0].isfinite().all()


def test_one_label_needs_no_average():
    for average in ("macro", "weighted", "min", "micro", None):
        loss = sw.ScoreLoss("tss", average=average)
        torch.testing.assert_close(loss(Z[:, 0], Y[:, 0]), sw.ScoreLoss("tss")(Z[:, 0], Y[:, 0]))


def test_batched_and_listed_priors_are_the_same():
    batched = sw.priors.Beta(torch.tensor([2.0, 1.0, 0.5]), torch.tensor([5.0, 1.0, 3.0]))
    listed = [sw.priors.Beta(2.0, 5.0), sw.priors.Beta(1.0, 1.0), sw.priors.Beta(0.5, 3.0)]
    torch.testing.assert_close(sw.ScoreLoss("hss", prior=batched)(Z, Y), sw.ScoreLoss("hss", prior=listed)(Z, Y))


def test_matrices():
    loss = sw.ScoreLoss(SCORES, prior=PRIORS, weight=WEIGHTS)
    p, y = P, Y
    for found, make in (
        (
            loss.matrix(Z, Y, **CONTEXT),
            lambda j, **c: sw.expected_confusion_matrix(p[:, j], y[:, j], PRIORS[j], WEIGHTS[j], **c),
        ),
        (
            sw.expected_confusion_matrix(p, y, PRIORS, WEIGHTS, **CONTEXT),
            lambda j, **c: sw.expected_confusion_matrix(p[:, j], y[:, j], PRIORS[j], WEIGHTS[j], **c),
        ),
        (
            sw.confusion_matrix(p, y, 0.4, WEIGHTS, **CONTEXT),
            lambda j, **c: sw.confusion_matrix(p[:, j], y[:, j], 0.4, WEIGHTS[j], **c),
        ),
        (
            sw.confusion_matrix(p, y, torch.tensor([0.2, 0.5, 0.7]), WEIGHTS, **CONTEXT),
            lambda j, **c: sw.confusion_matrix(p[:, j], y[:, j], [0.2, 0.5, 0.7][j], WEIGHTS[j], **c),
        ),
    ):
        each = torch.stack([make(j, **alone(j)).tensor() for j in range(L)])
        torch.testing.assert_close(found.tensor(), each, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weight", [*STEP_WEIGHTS.values(), WEIGHTS], ids=[*STEP_WEIGHTS, "each its own"])
def test_curves_and_thresholds(weight):
    curves = sw.score_curve(P, Y, "hss", weight, **CONTEXT)
    assert len(curves) == L
    for j, curve in enumerate(curves):
        own = weight[j] if isinstance(weight, list) else weight
        single = sw.score_curve(P[:, j], Y[:, j], "hss", own, **alone(j))
        torch.testing.assert_close(curve.thresholds, single.thresholds, rtol=0, atol=0)
        torch.testing.assert_close(curve.values, single.values, rtol=0, atol=0)
        torch.testing.assert_close(curve.expected(), single.expected(), rtol=0, atol=0)
        assert curve.bootstrap(5).threshold == single.bootstrap(5).threshold
    thresholds = sw.best_threshold(P, Y, "hss", weight, **CONTEXT)
    assert thresholds.tolist() == [curve.best()[0] for curve in curves]
    matrix = sw.confusion_matrix(P, Y, thresholds, weight, **CONTEXT)
    torch.testing.assert_close(
        sw.scores.hss(matrix).tolist(), [curve.best()[1] for curve in curves], rtol=0, atol=1e-12
    )


def test_several_scores_of_several_labels():
    curves = sw.score_curve(P, Y, ["tss", "csi"])
    assert {name: len(of_labels) for name, of_labels in curves.items()} == {"tss": L, "csi": L}
    assert curves["csi"][2].best() == sw.score_curve(P[:, 2], Y[:, 2], "csi").best()


def test_thresholds_for_scores_of_their_own():
    thresholds = sw.best_threshold(P, Y, ["tss", sw.scores.f1, "tss"], weight=WEIGHTS)
    own = [sw.best_threshold(P[:, j], Y[:, j], ["tss", "f1", "tss"][j], WEIGHTS[j]) for j in range(L)]
    assert thresholds.tolist() == own


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_thresholds_of_labels_have_the_dtype_of_the_predictions(dtype):
    p = P.to(dtype)
    thresholds = sw.best_threshold(p, Y, "tss")
    assert thresholds.dtype == dtype
    values = sw.scores.tss(sw.confusion_matrix(p, Y, thresholds))
    for j in range(L):
        assert values[j].item() == sw.score_curve(p[:, j], Y[:, j], "tss").best()[1]


def test_a_constraint_that_one_label_cannot_meet():
    p = torch.tensor([[0.9, 0.2], [0.1, 0.8]])
    y = torch.tensor([[1, 1], [0, 0]])
    with pytest.raises(sw.curves.InfeasibleError, match="label 1: at_least: no threshold has precision"):
        sw.best_threshold(p, y, "tss", at_least={"precision": 0.9})


def test_compiled():
    loss = sw.ScoreLoss(SCORES, prior=PRIORS, weight=WEIGHTS, average="weighted")
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    results = []
    for call in (compiled, loss):
        z = Z.clone().requires_grad_()
        value = call(z, Y, **CONTEXT)
        results.append((value.detach(), *torch.autograd.grad(value, z)))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-13)


def test_kept_and_shown():
    loss = sw.ScoreLoss(SCORES, prior=PRIORS, weight=WEIGHTS, average="min")
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):  # noqa: S301  # our own bytes
        torch.testing.assert_close(other(Z, Y), loss(Z, Y))
    assert "['tss', 'f1', 'error_rate']" in repr(loss)
    assert "average='min'" in repr(loss)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: sw.ScoreLoss("tss", average="mean"), ValueError, "'macro', 'weighted', 'min', 'micro'.*saw 'mean'"),
        (lambda: sw.ScoreLoss([]), ValueError, "score: expected one for all labels.*empty list"),
        (lambda: sw.ScoreLoss("tss", prior=PRIORS, weight=WEIGHTS[:2]), ValueError, "3 for prior, 2 for weight"),
        (lambda: sw.ScoreLoss(SCORES, average="micro"), ValueError, "one score of the sum"),
        (lambda: sw.ScoreLoss(SCORES, average=torch.sum), ValueError, r"\['tss', 'f1', 'error_rate'\] more is better"),
        (lambda: sw.ScoreLoss("tss", average="micro", exact=True), ValueError, "a threshold each"),
        (lambda: sw.ScoreLoss("tss", weight=[None, sw.weights.Margin(1.0)], exact=True), ValueError, "Margin"),
        (lambda: sw.ScoreLoss("tss", prior=PRIORS)(Z[:, :2], Y[:, :2]), ValueError, "for 3 labels.*have 2 labels"),
        (lambda: sw.ScoreLoss("tss", prior=PRIORS)(Z[:, 0], Y[:, 0]), ValueError, "for 3 labels.*have no labels"),
        (lambda: sw.ScoreLoss("tss", average="micro", prior=PRIORS)(Z[:, 0], Y[:, 0]), ValueError, "have no labels"),
        (lambda: sw.confusion_matrix(P, Y, weight=WEIGHTS[:2]), ValueError, "for 2 labels.*have 3 labels"),
        (lambda: sw.score_curve(P, Y, "tss", WEIGHTS[:2]), ValueError, "for 2 labels.*have 3 labels"),
        (lambda: sw.score_curve(P[:, 0], Y[:, 0], "tss", WEIGHTS), ValueError, "for 3 labels.*have no labels"),
        (lambda: sw.ScoreLoss("tss", average=lambda s: s)(Z, Y), ValueError, "one number of 3"),
        (lambda: sw.ScoreLoss("tss", average=lambda s: 1.0)(Z, Y), ValueError, "one number of 3, a tensor; saw float"),
        (
            lambda: sw.ScoreLoss("tss", prior=sw.priors.Beta(torch.ones(3), torch.ones(3)), weight=WEIGHTS),
            ValueError,
            "Pass a list of priors, each for one label",
        ),
        (
            lambda: sw.expected_confusion_matrix(P, Y, [sw.priors.Beta(torch.ones(3), torch.ones(3))] * 3),
            ValueError,
            "Pass a list of priors, each for one label",
        ),
        (lambda: sw.theorem_gap(P, Y, "tss"), ValueError, "one label"),
        (lambda: sw.best_threshold(P, Y, ["tss", "f1"]), ValueError, "saw 2 for 3 labels"),
        (lambda: sw.best_threshold(P[:, 0], Y[:, 0], ["tss", "f1"]), ValueError, "saw 2 for no labels"),
    ],
)
def test_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()
