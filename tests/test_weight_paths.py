"""One weight, several ways to it: fused, step by step, compiled, under torch.func, copied, in half precision."""

import copy
import pickle

import pytest
import torch

import scorewise as sw
from scorewise._timeline import Timeline
from scorewise.weights import spread
from scorewise.weights.spread import Terms, spread_operator
from tests.cases import CLOSED_WEIGHTS, EVERY_WEIGHT, INTEGRATED_WEIGHTS, half_of_all, smooth_weight

VALUE = EVERY_WEIGHT["value"]


each_weight = pytest.mark.parametrize("weight", EVERY_WEIGHT.values(), ids=EVERY_WEIGHT.keys())
each_value = pytest.mark.parametrize(
    "weight",
    [w for name, w in EVERY_WEIGHT.items() if name.startswith("value")],
    ids=[n for n in EVERY_WEIGHT if n.startswith("value")],
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
    loss = sw.ScoreLoss("tss", prior=sw.priors.Beta(2.0, 3.0), weight=EVERY_WEIGHT[name])
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(value_and_gradient(compiled, **MORE), value_and_gradient(loss, **MORE))


@pytest.mark.parametrize("g", ["max", "prod"])
@pytest.mark.parametrize("names", [(), ("times",), ("mask",), tuple(MORE)], ids=" ".join)
def test_a_whole_step_compiles(g, names):
    """What goes in is then the graph's own, which the compiler takes to be aligned: so must be what comes out."""
    torch.compiler.reset()
    model = torch.nn.Linear(5, 1)
    features = torch.randn(N, 5, generator=torch.Generator().manual_seed(0))
    loss = sw.ScoreLoss("tss", weight=sw.weights.Value([0.5, 0.25], g))
    arguments = {name: MORE[name] for name in names}

    def step(features, targets):
        return loss(model(features).squeeze(-1), targets, **arguments)

    found, expected = [], []
    for call, kept in ((torch.compile(step, fullgraph=True), found), (step, expected)):
        value = call(features, TARGETS)
        kept += [value.detach(), *torch.autograd.grad(value, model.parameters())]
    torch.testing.assert_close(found, expected)


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


@pytest.mark.parametrize("g", ["max", "prod", VALUE.__class__([0.0] * 3, half_of_all)._name])
@pytest.mark.parametrize("silent", [False, True], ids=["known", "silent"])
@pytest.mark.parametrize("ordered", [False, True], ids=["as it comes", "in order"])
@pytest.mark.parametrize("timed", [False, True], ids=["no gaps", "gaps"])
@pytest.mark.parametrize("shape", [(0,), (1,), (N,), (0, 3), (N, 3)], ids=str)
def test_the_operator_keeps_pytorch_s_rules(g, silent, ordered, timed, shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    y = (torch.rand(shape, generator=generator) < 0.3).double()
    unknown = torch.rand(shape, generator=generator) < 0.2 if silent else None
    order = torch.randperm(shape[0], generator=generator) if ordered else None
    steps = torch.randint(1, 5, (max(shape[0] - 1, 0),), generator=generator) if timed else None
    torch.library.opcheck(spread_operator, (x, y, unknown, 1 - y, y, order, steps, [0.3, 0.2, 0.1], g, 2.0))


class Standing(torch.Tensor):
    """As tensors that only stand in for others are: of a class of their own."""


def test_what_stands_in_for_a_tensor_gets_no_kernel(monkeypatch):
    """A kernel reads memory, which a fake tensor has none of, and would keep its tables for batches that are real."""
    asked = []
    monkeypatch.setattr(spread, "_one_kernel", lambda terms, windows: asked.append(terms))
    p, y = torch.sigmoid(LOGITS), TARGETS.double()
    arguments = y, None, Timeline(None, None), (1 - y, y)
    terms = Terms([0.5, 0.25], "max", 1.0)
    expected = spread.spread(terms, p, *arguments)
    assert asked == [terms]
    torch.testing.assert_close(spread.spread(terms, p.as_subclass(Standing), *arguments), expected)
    assert asked == [terms]


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


@pytest.mark.parametrize("weight", CLOSED_WEIGHTS.values(), ids=CLOSED_WEIGHTS.keys())
def test_second_derivatives(weight):
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=weight)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, TARGETS, **MORE), LOGITS.clone().requires_grad_())


@pytest.mark.parametrize("weight", INTEGRATED_WEIGHTS.values(), ids=INTEGRATED_WEIGHTS.keys())
def test_integrated_weights_say_that_they_have_no_second_derivatives(weight):
    z = LOGITS.clone().requires_grad_()
    (grad,) = torch.autograd.grad(sw.ScoreLoss("tss", weight=weight)(z, TARGETS), z, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivatives.*Cost, CrossEntropy, Margin"):
        grad.sum().backward()


# --------------------------------------------------------------------------------------------- memory


@each_value
@pytest.mark.parametrize("steps", [1, 64])
def test_no_window_is_kept_for_the_backward_pass(weight, steps):
    g = weight.g if isinstance(weight.g, str) else half_of_all
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
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=INTEGRATED_WEIGHTS["custom"])
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


@pytest.mark.parametrize("steps", [2, 64])
def test_neither_is_one_kept_where_another_weight_or_a_cost_learns(steps):
    n = 2000
    z, y = torch.randn(n, generator=G).requires_grad_(), torch.arange(n) % 3 == 0
    value = sw.weights.Value(sw.weights.linear(steps))
    kept = []

    def note(t):
        kept.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        sw.ScoreLoss("tss", weight=sw.weights.CrossEntropy() * value)(z, y)
        sw.ScoreLoss("tss", weight=value)(z, y, costs=torch.rand(n, 2, generator=G).requires_grad_())
    assert sum(kept) < 60 * n


# ------------------------------------------------------------------- priors that are hard to integrate over


HARD = {
    "both-ends-infinite": sw.priors.Beta(0.5, 0.5),
    "very-infinite": sw.priors.Beta(0.05, 0.05),
    "infinite-and-steep": sw.priors.Beta(0.3, 20.0),
    "kumaraswamy": sw.priors.Kumaraswamy(0.3, 4.0),
    "kumaraswamy-high": sw.priors.Kumaraswamy(30.0, 0.2),
    "mixture": sw.priors.Mixture([sw.priors.Uniform(0.1, 0.2), sw.priors.Beta(0.5, 2.0)], [0.5, 0.5]),
    "narrow-normal": sw.priors.TruncatedNormal(0.5, 1e-4),
    "narrow-beta": sw.priors.Beta(900.0, 900.0),
    "narrow-cosine": sw.priors.RaisedCosine(0.5, 1e-4),
    "narrow-triangle": sw.priors.Triangular(0.4999, 0.5, 0.5001),
}


@pytest.mark.parametrize("prior", HARD.values(), ids=HARD.keys())
def test_an_integrated_margin_is_the_tabulated_one(prior):
    # Two ways that share nothing: a table of the integrated cdf, and nodes weighted by the density.
    p = torch.cat([torch.rand(40, dtype=torch.float64, generator=G), 0.5 + 1e-4 * torch.linspace(-2, 2, 21)])
    y = torch.arange(len(p)) % 2
    closed, custom = (
        sw.expected_confusion_matrix(p, y, prior, weight).tensor()
        for weight in (sw.weights.Margin(3.0), sw.weights.Custom(lambda tau, y, p, *_: 1 + 3 * (p - tau).abs()))
    )
    # 1e-10 for each of some thirty samples; the worst prior has most of its mass where 1 - p is below 1e-16
    torch.testing.assert_close(custom, closed, rtol=0, atol=1e-8)


@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("mu", [0.5, 0.4375, 0.3])
def test_a_narrow_prior_s_margin(mu, delta):
    # E(mu - threshold)₊ of a raised cosine around mu is delta (1/4 - 1/pi²); it is what Margin(1) adds to the cdf
    prior, p = sw.priors.RaisedCosine(mu, delta), torch.tensor([mu], dtype=torch.float64)
    matrix = sw.expected_confusion_matrix(p, torch.tensor([0]), prior, sw.weights.Margin(1))
    assert float(matrix.fp - prior.cdf(p)) == pytest.approx(delta * (0.25 - 1 / torch.pi**2), abs=1e-15)


# ------------------------------------------------------------------------------------ what users pass


def test_group_ids_of_64_bits():
    value = sw.weights.Value([0.5, 0.25])
    p, y = torch.tensor([0.9, 0.2, 0.6, 0.1, 0.8, 0.3], dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0, 1])
    ids = [0, 6 * 10**18, -6 * 10**18] * 2  # their differences do not fit into 64 bits
    far, near = (sw.expected_confusion_matrix(p, y, None, value, groups=g).tensor() for g in (ids, [0, 1, 2] * 2))
    torch.testing.assert_close(far, near)
    with pytest.raises(ValueError, match="index"):
        sw.series.lags([0] * 6, 1, groups=ids)


def test_times_of_64_bits():
    value = sw.weights.Value([0.5])
    ends = torch.tensor([-(2**63), 2**63 - 1])
    matrix = sw.confusion_matrix(torch.tensor([1.0, 0.0]), torch.tensor([0, 1]), weight=value, times=ends)
    assert (matrix.fp, matrix.fn) == (1, 1)  # too far apart to matter
    with pytest.raises(ValueError, match="times must increase"):
        sw.confusion_matrix(torch.tensor([1.0, 0.0]), torch.tensor([0, 1]), weight=value, times=ends.flip(0))


def test_functions_that_change_their_arguments():
    def g(z):
        z.mul_(0.5)
        return z.amax(-1)

    with pytest.raises(ValueError, match="g must not change its arguments in place"):
        sw.weights.Value([0.5, 0.25], g)
    with pytest.raises(ValueError, match="fn must not change its arguments in place"):
        sw.ScoreLoss("tss", weight=sw.weights.Custom(lambda tau, *_: tau.mul_(0) + 1))(LOGITS, TARGETS)


def test_a_set_function_that_is_wrong_on_a_set_nobody_tried():
    rare = torch.zeros(13, dtype=torch.float64)
    rare[[0, 3, 4, 7, 11]] = 1

    def g(z):
        return 5.0 * (z == rare.to(z.dtype)).all(-1).to(z.dtype)

    weight = sw.weights.Value([0.0] * 13, g)
    y = torch.cat([torch.zeros(1), rare.float()])
    with pytest.raises(ValueError, match=r"g must be in \[0, 1\), saw 5"):
        sw.confusion_matrix(torch.ones(14), y, weight=weight)


def test_a_function_without_a_derivative_at_the_threshold():
    weight = sw.weights.Custom(lambda tau, y, p, *_: (p - tau).abs().sqrt())
    assert value_and_gradient(sw.ScoreLoss("tss", weight=weight))[1].isfinite().all()
    answer = sw.weights.admissible(weight)
    assert not answer
    assert "derivative" in answer.reason


def test_a_weight_that_is_positive_for_errors_only():
    weight = sw.weights.Custom(lambda tau, y, p, *_: torch.where(y > 0, tau - p, p - tau))
    matrix = sw.expected_confusion_matrix(
        torch.tensor([0.6, 0.3], dtype=torch.float64), torch.tensor([0, 1]), None, weight
    )
    assert float(matrix.fp) == pytest.approx(0.18, abs=1e-14)
    assert float(matrix.fn) == pytest.approx(0.245, abs=1e-14)


def test_a_diagonal_is_counted_by_an_equal_score():
    weight = sw.weights.Cost.from_matrix([[0, 1], [20, 3]])
    sw.ScoreLoss(weight.score, weight=copy.deepcopy(weight))
    sw.ScoreLoss(0.5 * weight.score + 0.5 * sw.scores.tss, weight=weight)
    with pytest.raises(ValueError, match="says what right decisions cost"):
        sw.ScoreLoss("tss", weight=weight)


def test_labels_that_learn_under_an_integrated_weight():
    soft = TARGETS.double().requires_grad_()
    with pytest.raises(ValueError, match=r"targets\.detach\(\)"):
        sw.ScoreLoss("tss", weight=sw.weights.Custom(lambda tau, y, *_: 1 + y + 0 * tau))(LOGITS, soft)


def test_a_masked_label_that_is_no_label():
    labels = TARGETS.double()
    labels[3] = -1
    mask = torch.arange(N) != 3
    sw.ScoreLoss("tss", weight=sw.weights.Cost())(LOGITS, labels, mask=mask)
    with pytest.raises(ValueError, match="sees masked samples too: where they are unknown, pass NaN"):
        sw.ScoreLoss("tss", weight=VALUE)(LOGITS, labels, mask=mask)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: 2 * sw.weights.Cost(), "a weight can be multiplied by a weight, saw int"),
        (lambda: sw.confusion_matrix(torch.sigmoid(LOGITS), TARGETS, sw.weights.Cost()), "Pass it as weight="),
        (lambda: sw.weights.Cost(0, 0).optimal_threshold, "every threshold costs the same"),
        (
            lambda: sw.weights.admissible(sw.weights.Margin(1), sw.priors.Beta(torch.ones(2), torch.ones(2))),
            "a prior for one label",
        ),
        (
            lambda: sw.ScoreLoss("tss")(LOGITS, TARGETS, groups=[None] * N),
            f"groups must be known, but {N} of {N} are missing",
        ),
    ],
)
def test_messages(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call()


def test_numbers_and_ids_of_any_kind():
    numpy = pytest.importorskip("numpy")
    assert sw.weights.geometric(numpy.int64(2)) == (0.5, 0.25)
    assert sw.weights.Custom(smooth_weight, window=numpy.int64(1)).window == 1
    expected = value_and_gradient(sw.ScoreLoss("tss", weight=VALUE), groups=[i % 2 for i in range(N)])
    for ids in ([("a", i % 2) for i in range(N)], [b"x" if i % 2 else b"y" for i in range(N)]):
        torch.testing.assert_close(value_and_gradient(sw.ScoreLoss("tss", weight=VALUE), groups=ids), expected)
    sw.ScoreLoss("tss", weight=VALUE)(LOGITS, TARGETS, times=list(numpy.arange(N)))


def test_a_default_device_without_data():
    with torch.device("meta"):
        weight = sw.weights.Value([0.5, 0.25], half_of_all)
        custom = sw.weights.Custom(smooth_weight)
    torch.testing.assert_close(
        value_and_gradient(sw.ScoreLoss("tss", weight=weight)),
        value_and_gradient(sw.ScoreLoss("tss", weight=sw.weights.Value([0.5, 0.25], half_of_all))),
    )
    assert custom.points == 32
