"""torch.compile with fullgraph=True: every score and prior, and agreement with the eager loss."""

import copy

import pytest
import torch

import scorewise as sw
from tests.cases import ALL_PRIORS, STEP_WEIGHTS

G = torch.Generator().manual_seed(5)
LOGITS = torch.randn(60, dtype=torch.float64, generator=G)
TARGETS = torch.rand(60, generator=G) < 0.4
MASK = torch.rand(60, generator=G) < 0.8
WEIGHT = torch.rand(60, generator=G)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


def agree(loss, backend, dtype=torch.float64, **arguments):
    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    results = []
    for call in (compiled, compiled, loss):  # compiled twice: the second call has state from the first
        z = LOGITS.to(dtype, copy=True).requires_grad_()
        value = call(z, TARGETS, **arguments)
        results.append((value.detach(), *torch.autograd.grad(value, z)))
    rtol, atol = (1e-10, 1e-13) if dtype == torch.float64 else (1e-4, 1e-7)
    torch.testing.assert_close(results[0], results[2], rtol=rtol, atol=atol)
    torch.testing.assert_close(results[1], results[2], rtol=rtol, atol=atol)
    loss.raise_if_invalid()


@pytest.mark.parametrize("name", sw.scores.names())
def test_every_score(name):
    agree(sw.ScoreLoss(name), "aot_eager")


@pytest.mark.parametrize("case", ALL_PRIORS, ids=repr)
def test_every_prior(case):
    prior = copy.deepcopy(case.prior)  # one that has not been used outside a graph yet
    # float32, so that tables kept in float64 must be converted within the graph
    agree(sw.ScoreLoss("tss", prior=prior), "aot_eager", torch.float32, mask=MASK, sample_weight=WEIGHT)


@pytest.mark.parametrize("weight", STEP_WEIGHTS.values(), ids=STEP_WEIGHTS.keys())
@pytest.mark.parametrize("arguments", [{}, {"mask": MASK, "sample_weight": WEIGHT}], ids=["plain", "masked"])
def test_every_exact_loss(weight, arguments):
    agree(sw.ScoreLoss("hss", weight=weight, exact=True), "aot_eager", **arguments)


def test_an_exact_loss_with_ties_and_labels():
    loss = sw.ScoreLoss("csi", exact=True)
    z = torch.randint(-3, 4, (30, 2)).double()
    y = torch.rand(30, 2) < 0.4
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    gradients = []
    for call in (compiled, loss):
        x = z.clone().requires_grad_()
        gradients.append(torch.autograd.grad(call(x, y), x))
    torch.testing.assert_close(*gradients)


def test_combined_loss():
    agree(sw.CombinedLoss([(0.6, sw.ScoreLoss("tss")), (0.4, sw.ScoreLoss("f1"))]), "aot_eager")


def test_a_combination_of_scores():
    agree(sw.ScoreLoss(0.5 * sw.scores.tss + 0.5 * sw.scores.fbeta(2)), "aot_eager")


@pytest.mark.parametrize(
    "loss",
    [sw.ScoreLoss("hss"), sw.ScoreLoss("csi", prior=sw.priors.Beta(2.0, 5.0)), sw.ScoreLoss("hss", exact=True)],
    ids=["hss", "csi-beta", "exact"],
)
def test_inductor(loss):
    agree(loss, "inductor")


@pytest.mark.parametrize("labels", [1, 3])
def test_many_labels(labels):
    loss = sw.ScoreLoss("mcc", prior=sw.priors.Beta(torch.full((labels,), 2.0), torch.arange(1.0, labels + 1)))
    z = torch.randn(30, labels, dtype=torch.float64)
    y = torch.rand(30, labels) < 0.4
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(z, y), loss(z, y))


def test_batches_of_changing_size_do_not_recompile_for_each():
    count = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    loss = sw.ScoreLoss("tss")
    compiled = torch.compile(loss, fullgraph=True, backend=count)
    for n in (17, 33, 64, 100, 257):
        z, y = torch.randn(n), torch.rand(n) < 0.4
        torch.testing.assert_close(compiled(z, y), loss(z, y))
    assert count.frame_count <= 2


def test_functions():
    def by_hand(z, y):
        matrix = sw.expected_confusion_matrix(z, y, sw.priors.RaisedCosine(), from_logits=True)
        return sw.scores.tss(matrix)

    compiled = torch.compile(by_hand, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(LOGITS, TARGETS), by_hand(LOGITS, TARGETS))

    def at_threshold(p, y):
        return sw.scores.tss(sw.confusion_matrix(p, y, 0.4))

    compiled = torch.compile(at_threshold, fullgraph=True, backend="aot_eager")
    p = torch.sigmoid(LOGITS)
    torch.testing.assert_close(compiled(p, TARGETS), at_threshold(p, TARGETS))


def test_exported_and_then_eager():
    loss = sw.ScoreLoss("tss", prior=sw.priors.Beta(2.0, 3.0))
    z = LOGITS.float()
    program = torch.export.export(loss, (z, TARGETS))
    torch.testing.assert_close(program.module()(z, TARGETS), loss(z, TARGETS))
    assert type(loss(z, TARGETS)) is torch.Tensor
