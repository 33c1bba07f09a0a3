"""One weight, several ways to it: fused, step by step, compiled, under torch.func, copied, in half precision."""

import copy
import pickle

import pytest
import torch

import scorewise as sw
from scorewise.weights.spread import spread_operator


def _half_of_all(z):
    return 0.5 * z.mean(-1)


def _smooth(tau, targets, predictions, label_window, alarm_window):
    return 1 + (predictions - tau) ** 2 + alarm_window.sum(-1) * targets


VALUE = sw.weights.Value([0.5, 0.25, 0.1])
CLOSED = {
    "cost": sw.weights.Cost(2.0, 5.0),
    "cross-entropy": sw.weights.CrossEntropy(1.0, 3.0),
    "margin": sw.weights.Margin(1.5),
    "class-frequency": sw.weights.ClassFrequency(),
    "value": VALUE,
    "value-unordered-isolated": sw.weights.Value([0.1, 0.5, 0.3], isolated=2.0),
    "value-prod": sw.weights.Value([0.1, 0.5, 0.3], "prod", isolated=2.0),
    "value-any": sw.weights.Value([0.0] * 3, _half_of_all),
    "cross-entropy*value": sw.weights.CrossEntropy() * VALUE,
}
INTEGRATED = {
    "custom": sw.weights.Custom(_smooth, window=1, points=4),
    "margin*value": sw.weights.Margin(1.0) * VALUE,
}
EVERY = CLOSED | INTEGRATED
each_weight = pytest.mark.parametrize("weight", EVERY.values(), ids=EVERY.keys())
each_value = pytest.mark.parametrize(
    "weight",
    [w for name, w in EVERY.items() if name.startswith("value")],
    ids=[n for n in EVERY if n.startswith("value")],
)

N = 60
G = torch.Generator().manual_seed(3)
LOGITS = torch.randn(N, dtype=torch.float64, generator=G)
TARGETS = torch.rand(N, generator=G) < 0.3
MORE = {
    "groups": torch.randint(0, 3, (N,), generator=G),
    "times": torch.randint(1, 3, (N,), generator=G).cumsum(0),
    "mask": torch.rand(N, generator=G) < 0.8,
    "sample_weight": torch.rand(N, generator=G, dtype=torch.float64),
    "costs": torch.rand(N, 2, generator=G, dtype=torch.float64),
}


def value_and_gradient(loss, **arguments):
    z = LOGITS.clone().requires_grad_()
    value = loss(z, TARGETS, **arguments)
    return value.detach(), torch.autograd.grad(value, z)[0]


# ------------------------------------------------------------------------------------------------- compiled


@each_weight
@pytest.mark.parametrize("arguments", [{}, MORE], ids=["plain", "everything"])
def test_compiled(weight, arguments):
    torch.compiler.reset()
    loss = sw.ScoreLoss("hss", weight=weight)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(value_and_gradient(compiled, **arguments), value_and_gradient(loss, **arguments))
    loss.raise_if_invalid()


@pytest.mark.parametrize("name", ["value", "value-any"])
def test_inductor(name):
    torch.compiler.reset()
    loss = sw.ScoreLoss("tss", prior=sw.priors.Beta(2.0, 3.0), weight=EVERY[name])
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(value_and_gradient(compiled, **MORE), value_and_gradient(loss, **MORE))


def test_compiled_for_batches_of_any_size():
    torch.compiler.reset()
    loss = sw.ScoreLoss("tss", weight=VALUE)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (60, 17, 41):
        torch.testing.assert_close(compiled(LOGITS[:n], TARGETS[:n]), loss(LOGITS[:n], TARGETS[:n]))


def test_compiled_matrices():
    torch.compiler.reset()
    p = torch.sigmoid(LOGITS)

    def both(p, y):
        at, expected = (f(p, y, weight=VALUE) for f in (sw.confusion_matrix, sw.expected_confusion_matrix))
        return at.tensor(), expected.tensor()

    torch.testing.assert_close(
        torch.compile(both, fullgraph=True, backend="aot_eager")(p, TARGETS.double()), both(p, TARGETS.double())
    )


def test_a_compiled_graph_tells_of_bad_times_later():
    torch.compiler.reset()
    loss = sw.ScoreLoss("tss", weight=VALUE)
    torch.compile(loss, fullgraph=True, backend="aot_eager")(LOGITS, TARGETS, times=torch.zeros(N, dtype=torch.long))
    with pytest.raises(ValueError, match="times that do not increase within a group"):
        loss.raise_if_invalid()


def test_an_unknown_integral_in_a_compiled_graph():
    torch.compiler.reset()
    prior = sw.priors.Beta(2.0, 3.0)

    def matrix(p):
        return sw.expected_confusion_matrix(p, TARGETS.double(), prior, sw.weights.Margin(1.0)).tensor()

    with pytest.raises(Exception, match="has not been integrated yet"):
        torch.compile(matrix, fullgraph=True, backend="aot_eager")(torch.sigmoid(LOGITS))


@pytest.mark.parametrize("g", ["max", "prod", VALUE.__class__([0.0] * 3, _half_of_all)._name])
@pytest.mark.parametrize("silent", [None, torch.rand(N, generator=G) < 0.2], ids=["known", "silent"])
def test_the_operator_keeps_pytorch_s_rules(g, silent):
    y = TARGETS.double()
    steps = torch.randint(1, 5, (N - 1,), generator=G)
    torch.library.opcheck(
        spread_operator, (LOGITS, y, silent, 1 - y, y, torch.randperm(N, generator=G), steps, [0.3, 0.2, 0.1], g, 2.0)
    )


# --------------------------------------------------------------------------------------- step by step


@each_value
@pytest.mark.parametrize("arguments", [{}, MORE], ids=["plain", "everything"])
def test_the_fused_path_and_the_plain_one_agree(weight, arguments):
    # A sample weight that learns cannot be a part of the coefficients.
    loss = sw.ScoreLoss("hss", weight=weight)
    learnt = arguments.get("sample_weight", torch.ones(N, dtype=torch.float64)).clone().requires_grad_()
    torch.testing.assert_close(
        value_and_gradient(loss, **arguments | {"sample_weight": learnt}), value_and_gradient(loss, **arguments)
    )


@each_weight
@pytest.mark.parametrize("name", ["sample_weight", "costs"])
def test_gradients_by_sample_weights_and_costs(weight, name):
    loss = sw.ScoreLoss("hss", weight=weight)
    rest = {key: value for key, value in MORE.items() if key != name}
    assert torch.autograd.gradcheck(
        lambda value: loss(LOGITS, TARGETS, **rest, **{name: value}), MORE[name].clone().requires_grad_()
    )


@each_weight
def test_torch_func(weight):
    loss = sw.ScoreLoss("hss", weight=weight)
    grad = torch.func.grad(lambda z: loss(z, TARGETS, **MORE))(LOGITS)
    torch.testing.assert_close(grad, value_and_gradient(loss, **MORE)[1])


@pytest.mark.parametrize("weight", CLOSED.values(), ids=CLOSED.keys())
def test_second_derivatives(weight):
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=weight)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, TARGETS, **MORE), LOGITS.clone().requires_grad_())


@pytest.mark.parametrize("weight", INTEGRATED.values(), ids=INTEGRATED.keys())
def test_integrated_weights_say_that_they_have_no_second_derivatives(weight):
    z = LOGITS.clone().requires_grad_()
    (grad,) = torch.autograd.grad(sw.ScoreLoss("tss", weight=weight)(z, TARGETS), z, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivatives.*Cost, CrossEntropy, Margin"):
        grad.sum().backward()


# --------------------------------------------------------------------------------------------- memory


@each_value
@pytest.mark.parametrize("steps", [1, 64])
def test_no_window_is_kept_for_the_backward_pass(weight, steps):
    g = weight.g if isinstance(weight.g, str) else _half_of_all
    long = sw.weights.Value([0.5 / steps] * steps, g, isolated=weight.isolated)
    n = 2000
    z = torch.randn(n, generator=G).requires_grad_()
    y = torch.arange(n) % 10 == 0
    kept = []

    def note(t):
        kept.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        sw.ScoreLoss("tss", weight=long)(z, y)
    # predictions, labels, slopes and two coefficients; the rest are cells
    assert 5 * n <= sum(kept) < 5 * n + 100


def test_a_large_integral_is_done_in_parts(monkeypatch):
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=INTEGRATED["custom"])
    whole = value_and_gradient(loss, **MORE)
    monkeypatch.setattr("scorewise.weights.custom._NUMBERS_AT_A_TIME", 1000)
    torch.testing.assert_close(value_and_gradient(loss, **MORE), whole)


@each_value
def test_a_large_batch_is_done_in_parts(weight, monkeypatch):
    whole = value_and_gradient(sw.ScoreLoss("hss", weight=weight), **MORE)
    monkeypatch.setattr("scorewise.weights.windows._PER_THREAD", 3)
    torch.testing.assert_close(value_and_gradient(sw.ScoreLoss("hss", weight=weight), **MORE), whole)


# ------------------------------------------------------------------------------------- copies and dtypes


@each_weight
def test_copies(weight):
    loss = sw.ScoreLoss("hss", weight=weight)
    expected = value_and_gradient(loss, **MORE)
    torch.testing.assert_close(value_and_gradient(copy.deepcopy(loss), **MORE), expected)
    torch.testing.assert_close(value_and_gradient(pickle.loads(pickle.dumps(loss)), **MORE), expected)  # noqa: S301  # ours


@each_weight
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(weight, dtype):
    z = LOGITS.to(dtype)
    loss = sw.ScoreLoss("hss", weight=weight)
    half, single = loss(z, TARGETS, **MORE), loss(z.float(), TARGETS, **MORE)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, single)
    p = torch.sigmoid(z)
    at = [sw.confusion_matrix(p.to(d), TARGETS, 0.5, weight, **MORE).tensor() for d in (dtype, torch.float64)]
    torch.testing.assert_close(*at, rtol=1e-12, atol=0.0)


def test_weights_at_a_threshold_are_exact_whatever_the_predictions_dtype():
    third = sw.weights.Value([1 / 3])
    matrix = sw.confusion_matrix(torch.tensor([0.9, 0.1]), torch.tensor([0.0, 1.0]), weight=third)
    assert matrix.fn.item() == matrix.fp.item() == 1 - 1 / 3


@each_weight
def test_shown(weight):
    shown = repr(sw.ScoreLoss("tss", weight=weight))
    assert "weight=" in shown
    assert type(weight).__name__ in shown or " * " in shown
    assert "_terms" not in shown
    assert "_rule" not in shown
