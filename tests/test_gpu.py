"""On an accelerator: the same numbers as on the CPU, and no waiting for the device."""

import os
import subprocess
import sys

import pytest
import torch

import scorewise as sw
from scorewise._timeline import Timeline, timeline
from scorewise.weights.spread import Terms, _one_kernel, spread
from scorewise.weights.windows import Windows
from tests.cases import ALL_PRIORS, EVERY_WEIGHT, STEP_WEIGHTS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]

BATCHED = sw.priors.Beta(torch.tensor([2.0, 0.5]), torch.tensor([5.0, 3.0]))


@pytest.fixture
def no_waiting():
    """Any operation that makes the host wait for the device is an error."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def batch(n=5000, labels=None, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    shape = (n,) if labels is None else (n, labels)
    return torch.randn(shape, dtype=dtype, generator=g), torch.rand(shape, generator=g) < 0.3


def value_and_gradient(loss, z, y, **arguments):
    z = z.detach().requires_grad_()
    value = loss(z, y, **arguments)
    return value.detach().cpu(), torch.autograd.grad(value, z)[0].cpu()


@pytest.mark.parametrize("name", sw.scores.names())
def test_every_score_agrees_with_the_cpu(name):
    z, y = batch()
    loss = sw.ScoreLoss(name)
    torch.testing.assert_close(
        value_and_gradient(loss, z.cuda(), y.cuda()), value_and_gradient(loss, z, y), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("case", ALL_PRIORS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_prior_agrees_with_the_cpu(case, dtype):
    if case.name.startswith("torch-"):
        pytest.skip("a torch distribution stays on the device where its user put its parameters")
    z, y = batch(dtype=dtype)
    loss = sw.ScoreLoss("hss", prior=case.prior)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(
        value_and_gradient(loss, z.cuda(), y.cuda()),
        value_and_gradient(loss, z, y),
        rtol=tolerance,
        atol=tolerance * 1e-2,
    )


def test_a_distribution_on_the_device():
    z, y = batch()
    mean, std = torch.tensor(0.4, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)
    here, there = (
        sw.ScoreLoss("csi", prior=torch.distributions.Normal(m, s)) for m, s in ((mean, std), (mean.cuda(), std.cuda()))
    )
    torch.testing.assert_close(value_and_gradient(there, z.cuda(), y.cuda()), value_and_gradient(here, z, y))


@pytest.mark.parametrize("case", [c for c in ALL_PRIORS if not c.name.startswith("torch-")], ids=repr)
def test_no_prior_waits_for_the_device(case, no_waiting):
    torch.cuda.set_sync_debug_mode("default")
    z, y = batch(dtype=torch.float32)
    z, y = z.cuda().requires_grad_(), y.cuda()
    mask, weight = torch.ones_like(y), torch.ones_like(z)
    loss = sw.ScoreLoss("tss", prior=case.prior)
    loss(z, y, mask=mask, sample_weight=weight).backward()  # tables and pinned memory are made once
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    for _ in range(3):
        loss(z, y, mask=mask, sample_weight=weight).backward()


def test_batched_parameters_do_not_wait_for_the_device(no_waiting):
    torch.cuda.set_sync_debug_mode("default")
    z, y = batch(labels=2, dtype=torch.float32)
    z, y = z.cuda().requires_grad_(), y.cuda()
    loss = sw.ScoreLoss("tss", prior=BATCHED)
    loss(z, y).backward()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    loss(z, y).backward()


def test_bad_values_are_reported_without_waiting():
    z, y = batch()
    z, y = z.cuda(), y.cuda()
    loss = sw.ScoreLoss("tss")
    loss(z, y)
    torch.cuda.synchronize()
    z[7] = torch.nan
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(z, y)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with pytest.raises(ValueError, match="logits with NaN among them"):
        loss.raise_if_invalid()
    loss.raise_if_invalid()


def test_bad_values_are_reported_by_a_later_call():
    z, y = batch()
    z, y = z.cuda(), y.double().cuda()
    loss = sw.ScoreLoss("tss")
    loss(z, y + 1)
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="targets from 0 to 2, expected"):
        loss(z, y)


@pytest.mark.parametrize("prior", [None, sw.priors.Beta(2.0, 5.0)], ids=["uniform", "beta"])
def test_nan_does_not_break_the_device(prior):
    """A table must not be read out of its bounds: on a device that is the end of the process."""
    z, y = batch()
    z = z.cuda()
    z[3] = torch.nan
    value = sw.ScoreLoss("tss", prior=prior)(z, y.cuda())
    torch.cuda.synchronize()
    assert value.isnan()


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # as PyTorch warms its graphs up
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("prior", [None, sw.priors.Beta(2.0, 5.0)], ids=["uniform", "beta"])
def test_compiled(mode, prior):
    torch.compiler.reset()
    z, y = batch(dtype=torch.float32)
    loss = sw.ScoreLoss("hss", prior=prior)
    compiled = torch.compile(loss, fullgraph=True, mode=mode)
    expected = value_and_gradient(loss, z, y)
    for _ in range(4):
        torch.testing.assert_close(value_and_gradient(compiled, z.cuda(), y.cuda()), expected, rtol=1e-4, atol=1e-7)
    loss.raise_if_invalid()
    compiled(z.cuda() * torch.inf, y.cuda())
    with pytest.raises(ValueError, match="logits"):
        loss.raise_if_invalid()


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # as above
@pytest.mark.parametrize("times", [False, True], ids=["plain", "gaps"])
@pytest.mark.parametrize("g", ["max", "prod"])
def test_a_value_weight_compiles_into_graphs_that_are_captured(g, times):
    torch.compiler.reset()
    z, y = batch(dtype=torch.float32)
    t = torch.arange(len(z)) * 3 // 2 if times else None
    weights = [sw.weights.Value([0.25, 0.125 + first / 1024], g, isolated=1.5) for first in range(70)]  # never seen
    expected = [value_and_gradient(sw.ScoreLoss("tss", weight=weight), z, y, times=t) for weight in weights]
    z, y, t = z.cuda(), y.cuda(), None if t is None else t.cuda()
    _without_tables()
    compiled = torch.compile(sw.ScoreLoss("tss", weight=weights[0]), fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        found = value_and_gradient(compiled, z, y, times=t)
        torch.testing.assert_close(found, expected[0], rtol=1e-4, atol=1e-7)
    for weight, wanted in zip(weights, expected, strict=True):  # others meanwhile
        found = value_and_gradient(sw.ScoreLoss("tss", weight=weight), z, y, times=t)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-7)
    found = value_and_gradient(compiled, z, y, times=t)
    torch.testing.assert_close(found, expected[0], rtol=1e-4, atol=1e-7)


def test_counts_are_exact():
    n = 2**25 + 1
    p = torch.ones(n, device="cuda")
    matrix = sw.confusion_matrix(p, p)
    assert matrix.tp.item() == n
    assert sw.expected_confusion_matrix(p, p).tp.item() == n


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_logits(dtype):
    z, y = batch(dtype=torch.float32)
    value, grad = value_and_gradient(sw.ScoreLoss("mcc"), (z * 30).to("cuda", dtype), y.cuda())
    assert value.dtype == torch.float32
    assert value.isfinite()
    assert grad.isfinite().all()


def test_autocast_changes_nothing():
    z, y = batch(dtype=torch.float32)
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 5.0))
    plain = value_and_gradient(loss, z.cuda(), y.cuda())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = value_and_gradient(loss, z.cuda(), y.cuda())
    torch.testing.assert_close(inside, plain, rtol=0, atol=0)


def test_arguments_on_different_devices():
    z, y = batch()
    with pytest.raises(ValueError, match="targets are on cpu, but the predictions are on cuda"):
        sw.ScoreLoss("tss")(z.cuda(), y)
    with pytest.raises(ValueError, match="mask"):
        sw.ScoreLoss("tss")(z.cuda(), y.cuda(), mask=y)


def _without_tables():
    """Forget what the kernel of value weights keeps: made anew it is a copy from the host, which no graph can hold."""
    fused = pytest.importorskip("scorewise.weights.fused", reason="Triton is not there, and so no kernel")
    fused._tables.cache_clear()


@pytest.mark.parametrize(
    "weight",
    [None, sw.weights.Value([0.5, 0.21]), sw.weights.Value([0.5, 0.21], "prod", isolated=2)],
    ids=["plain", "max", "prod, isolated"],
)
def test_a_loss_in_a_captured_graph(weight):
    z, y = batch(dtype=torch.float32)
    z, y = z.cuda().requires_grad_(), y.float().cuda()
    t = torch.arange(len(z), device="cuda") * 3 // 2
    loss = sw.ScoreLoss("tss", weight=weight)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.autograd.grad(loss(z, y, times=t), z)
    torch.cuda.synchronize()
    _without_tables()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss(z, y, times=t)
        (gradient,) = torch.autograd.grad(value, z)
    for _ in range(2):
        with torch.no_grad():
            z.neg_()
        graph.replay()
        torch.cuda.synchronize()
        found = value.detach().cpu(), gradient.cpu()
        expected = value_and_gradient(loss, z.cpu(), y.cpu(), times=t.cpu())
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


VALUE = EVERY_WEIGHT["value"]
each_weight = pytest.mark.parametrize("weight", EVERY_WEIGHT.values(), ids=EVERY_WEIGHT.keys())


def with_everything(n, labels=None):
    g = torch.Generator().manual_seed(1)
    return {
        "groups": torch.randint(0, 5, (n,), generator=g),
        "times": torch.randint(1, 3, (n,), generator=g).cumsum(0),
        "mask": torch.rand(n, generator=g) < 0.8,
        "sample_weight": torch.rand(n, generator=g),
        "costs": torch.rand((n, 2) if labels is None else (n, labels, 2), generator=g),
    }


@each_weight
@pytest.mark.parametrize("labels", [None, 2])
@pytest.mark.parametrize("everything", [False, True])
def test_every_weight_agrees_with_the_cpu(weight, labels, everything):
    z, y = batch(400, labels)
    arguments = with_everything(400, labels) if everything else {}
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=weight)
    there = {name: value.cuda() for name, value in arguments.items()}
    torch.testing.assert_close(
        value_and_gradient(loss, z.cuda(), y.cuda(), **there),
        value_and_gradient(loss, z, y, **arguments),
        rtol=1e-9,
        atol=1e-12,
    )
    p = torch.sigmoid(z)
    torch.testing.assert_close(
        sw.confusion_matrix(p.cuda(), y.cuda(), 0.4, weight, **there).tensor().cpu(),
        sw.confusion_matrix(p, y, 0.4, weight, **arguments).tensor(),
        rtol=1e-12,
        atol=1e-12,
    )


@each_weight
def test_no_weight_waits_for_the_device(weight, no_waiting):
    torch.cuda.set_sync_debug_mode("default")
    z, y = batch(400, dtype=torch.float32)
    z, y = z.cuda().requires_grad_(), y.cuda()
    arguments = {name: value.cuda() for name, value in with_everything(400).items()}
    loss = sw.ScoreLoss("tss", weight=weight)
    loss(z, y, **arguments).backward()  # tables and pinned memory are made once
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    for _ in range(3):
        loss(z, y, **arguments).backward()


@each_weight
def test_every_weight_compiles_for_the_device(weight):
    torch.compiler.reset()
    z, y = batch(400)
    arguments = {name: value.cuda() for name, value in with_everything(400).items()}
    loss = sw.ScoreLoss("hss", weight=weight)
    eager = value_and_gradient(loss, z.cuda(), y.cuda(), **arguments)
    compiled = value_and_gradient(torch.compile(loss, fullgraph=True), z.cuda(), y.cuda(), **arguments)
    torch.testing.assert_close(compiled, eager, rtol=1e-9, atol=1e-12)


def arranged(how, n):
    """An order in time: one series, one with gaps, or some that are interleaved and have gaps."""
    g = torch.Generator().manual_seed(3)
    times = torch.randint(1, 4, (n,), generator=g).cumsum(0)
    groups = torch.randint(0, 3, (n,), generator=g)
    arguments = {"plain": (None, None), "gaps": (None, times), "interleaved": (groups, times)}[how]
    return timeline(*arguments, torch.empty(n))


WORTHS = {
    "falling": (0.6, 0.4, 0.4, 0.1, 0.0),
    "rising": (0.1, 0.0, 0.3, 0.3, 0.5),
    "nothing": (0.0, 0.0),
    "long": sw.weights.half_life(40, 10, first=0.9),
}


@pytest.mark.parametrize("n", [1, 3, 700])
@pytest.mark.parametrize("labels", [None, 3])
@pytest.mark.parametrize("how", ["plain", "gaps", "interleaved"])
@pytest.mark.parametrize("isolated", [1.0, 2.0])
@pytest.mark.parametrize("worths", WORTHS)
@pytest.mark.parametrize("g", ["max", "prod"])
def test_one_kernel_spreads_as_steps_of_lags_do(g, worths, isolated, how, labels, n):
    omega = WORTHS[worths] if g == "max" else tuple(w / 50 for w in WORTHS[worths])
    terms = Terms(omega, g, isolated)
    x, y = batch(n, labels)
    x, y = (x * 4).round() / 4, y.double()  # with ties
    generator = torch.Generator().manual_seed(4)
    silent = torch.rand(x.shape, generator=generator) < 0.1
    amounts = ((1 - y) * torch.rand(x.shape, generator=generator), y * torch.rand(x.shape, generator=generator))
    line = arranged(how, n)
    there = Timeline(*(None if t is None else t.cuda() for t in (line.order, line.steps))) if line else None
    kernel = _one_kernel(terms, Windows(y.cuda(), there, terms.reach))
    assert (kernel is None) == (g == "max" and worths == "rising" and how != "plain")
    for dtype, tolerance in ((torch.float64, 1e-14), (torch.float32, 1e-6)):  # sums of at most 2T + 1 shares
        given = [t.to(dtype) for t in (x, y, *amounts)]
        expected = spread(terms, given[0], given[1], silent, line, tuple(given[2:]))
        given = [t.cuda() for t in given]
        found = spread(terms, given[0], given[1], silent.cuda(), there, tuple(given[2:]))
        torch.testing.assert_close([t.cpu() for t in found], list(expected), rtol=8 * tolerance, atol=8 * tolerance)
        without = spread(terms, given[0], given[1], None, there, None)
        expected = spread(terms, x.to(dtype), y.to(dtype), None, line, None)
        torch.testing.assert_close([t.cpu() for t in without], list(expected), rtol=8 * tolerance, atol=8 * tolerance)


def test_deterministic_sums_are_made_step_by_step():
    z, y = batch(20_000, dtype=torch.float32)
    z, y = z.cuda(), y.cuda()
    loss = sw.ScoreLoss("tss", weight=sw.weights.Value(sw.weights.linear(16)))
    fused = value_and_gradient(loss, z, y)
    torch.use_deterministic_algorithms(True)
    try:
        once, again = (value_and_gradient(loss, z, y) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(once, again, rtol=0, atol=0)
    torch.testing.assert_close(fused, once, rtol=1e-5, atol=1e-9)


def test_without_a_compiler_the_steps_are_taken_and_somebody_is_told(tmp_path):
    script = """
import torch, warnings
import scorewise as sw
z, y = torch.randn(300, dtype=torch.float64), torch.rand(300) < 0.3
loss = sw.ScoreLoss("tss", weight=sw.weights.Value([0.5, 0.25]))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    there = [loss(z.cuda(), y.cuda()).item() for _ in range(2)]
assert abs(there[0] - loss(z, y).item()) < 1e-12 and there[0] == there[1], there
print(*[one.message for one in told], sep="\\n")
"""
    nobody = str(tmp_path / "nobody")
    environment = os.environ | {"CC": nobody, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603  # ours
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "Value weights are slower than they could be on cuda:0" in done.stdout
    assert nobody in done.stdout


def test_predictions_that_are_no_numbers_do_not_break_the_device():
    z, y = batch(5000)
    z[::7] = torch.nan
    for isolated in (1.0, 2.0):
        weight = sw.weights.Value(sw.weights.linear(9), isolated=isolated)
        assert sw.ScoreLoss("tss", weight=weight, validate=False)(z.cuda(), y.cuda()).isnan()
    torch.cuda.synchronize()


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"times": torch.zeros(50, dtype=torch.long)}, "times that do not increase"),
        ({"costs": -torch.ones(50, 2)}, "costs from -1 to 0, expected"),
    ],
)
def test_bad_times_and_costs_are_reported_without_waiting(bad, match):
    z, y = batch(50)
    loss = sw.ScoreLoss("tss", weight=VALUE)
    loss(z.cuda(), y.cuda(), **{name: value.cuda() for name, value in bad.items()})
    with pytest.raises(ValueError, match=match):
        loss.raise_if_invalid()


def test_soft_labels_are_reported_without_waiting():
    z, y = batch(50)
    loss = sw.ScoreLoss("tss", weight=VALUE)
    loss(z.cuda(), y.double().cuda() * 0.5)
    with pytest.raises(ValueError, match="soft targets"):
        loss.raise_if_invalid()


def test_an_integrated_weight_that_is_negative_makes_the_loss_nan():
    z, y = batch(50)
    loss = sw.ScoreLoss("tss", weight=sw.weights.Custom(lambda tau, *_: tau - 0.5))
    assert loss(z.cuda(), y.cuda()).isnan()


each_step_weight = pytest.mark.parametrize("weight", STEP_WEIGHTS.values(), ids=STEP_WEIGHTS.keys())


@each_step_weight
@pytest.mark.parametrize("labels", [None, 2])
@pytest.mark.parametrize("everything", [False, True])
def test_the_exact_loss_agrees_with_the_cpu(weight, labels, everything):
    z, y = batch(400, labels)
    z = (z * 20).round() / 20  # with ties
    arguments = with_everything(400, labels) if everything else {}
    loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2.0, 3.0), weight=weight, exact=True)
    there = {name: value.cuda() for name, value in arguments.items()}
    torch.testing.assert_close(
        value_and_gradient(loss, z.cuda(), y.cuda(), **there),
        value_and_gradient(loss, z, y, **arguments),
        rtol=1e-9,
        atol=1e-12,
    )


@each_step_weight
def test_the_exact_loss_does_not_wait_for_the_device(weight, no_waiting):
    torch.cuda.set_sync_debug_mode("default")
    z, y = batch(400, dtype=torch.float32)
    z, y = z.cuda().requires_grad_(), y.cuda()
    arguments = {name: value.cuda() for name, value in with_everything(400).items()}
    loss = sw.ScoreLoss("tss", weight=weight, exact=True)
    loss(z, y, **arguments).backward()  # tables and pinned memory are made once
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    for _ in range(3):
        loss(z, y, **arguments).backward()


@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
def test_the_exact_loss_compiles_for_the_device(weight):
    torch.compiler.reset()
    z, y = batch(400)
    arguments = {name: value.cuda() for name, value in with_everything(400).items()}
    loss = sw.ScoreLoss("hss", weight=weight, exact=True)
    eager = value_and_gradient(loss, z.cuda(), y.cuda(), **arguments)
    compiled = value_and_gradient(torch.compile(loss, fullgraph=True), z.cuda(), y.cuda(), **arguments)
    torch.testing.assert_close(compiled, eager, rtol=1e-9, atol=1e-12)


def test_nan_in_an_exact_loss_does_not_break_the_device():
    z, y = batch()
    z = z.cuda()
    z[3] = torch.nan
    value = sw.ScoreLoss("tss", exact=True)(z, y.cuda())
    torch.cuda.synchronize()
    assert value.isnan()


@each_step_weight
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_every_curve_agrees_with_the_cpu(weight, dtype):
    z, y = batch(400)
    p = torch.sigmoid(z).to(dtype)
    arguments = with_everything(400)
    here = sw.score_curve(p, y, "hss", weight, **arguments)
    there = sw.score_curve(p.cuda(), y.cuda(), "hss", weight, **{name: v.cuda() for name, v in arguments.items()})
    assert there.values.is_cuda
    torch.testing.assert_close(there.thresholds.cpu(), here.thresholds, rtol=0, atol=0)
    torch.testing.assert_close(there.values.cpu(), here.values, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(there.expected().cpu(), here.expected(), rtol=1e-11, atol=1e-12)
    assert there.best() == pytest.approx(here.best(), abs=1e-11)
    for one, other in zip(there.bootstrap(20).values, here.bootstrap(20).values, strict=True):
        assert one.item() == pytest.approx(other.item(), abs=1e-11)


def test_a_gap_on_the_device():
    z, y = batch(400)
    here, there = (
        sw.theorem_gap(z, y, "csi", from_logits=True),
        sw.theorem_gap(z.cuda(), y.cuda(), "csi", from_logits=True),
    )
    assert there.gap == pytest.approx(here.gap, abs=1e-12)
    assert there.second_order == pytest.approx(here.second_order, abs=1e-12)


PER_LABEL = {
    "score": ["tss", "f1"],
    "prior": [sw.priors.Beta(2.0, 5.0), sw.priors.Uniform(0.2, 0.8)],
    "weight": [None, VALUE],
}


@pytest.mark.parametrize("average", ["macro", "weighted", "min", None])
@pytest.mark.parametrize("exact", [False, True])
def test_labels_of_their_own_agree_with_the_cpu(average, exact):
    z, y = batch(400, 2)
    arguments = with_everything(400, 2)
    loss = sw.ScoreLoss(**PER_LABEL, average=average, exact=exact)
    there = {name: value.cuda() for name, value in arguments.items()}

    def summed(*given, **more):
        return loss(*given, **more).sum()

    torch.testing.assert_close(
        value_and_gradient(summed, z.cuda(), y.cuda(), **there),
        value_and_gradient(summed, z, y, **arguments),
        rtol=1e-9,
        atol=1e-12,
    )


def test_labels_of_their_own_do_not_wait_for_the_device(no_waiting):
    torch.cuda.set_sync_debug_mode("default")
    z, y = batch(400, 2, dtype=torch.float32)
    z, y = z.cuda().requires_grad_(), y.cuda()
    loss = sw.ScoreLoss(**PER_LABEL, average="weighted")
    loss(z, y).backward()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    for _ in range(3):
        loss(z, y).backward()


def classes(n=300, m=7):
    g = torch.Generator().manual_seed(2)
    return torch.randn(n, m, dtype=torch.float64, generator=g), torch.randint(0, m, (n,), generator=g)


CLASS_SCORES = ["accuracy", "hss", "mcc", "f1", sw.multiclass.scores.cost(torch.rand(7, 7).tolist())]


@pytest.mark.parametrize("score", CLASS_SCORES, ids=["accuracy", "hss", "mcc", "f1", "cost"])
def test_simplex_losses_agree_with_the_cpu(score):
    z, y = classes()
    loss = sw.SimplexLoss(score)
    torch.testing.assert_close(
        value_and_gradient(loss, z.cuda(), y.cuda()), value_and_gradient(loss, z, y), rtol=1e-9, atol=1e-12
    )
    rest = sw.OneVsRestLoss("f1")
    torch.testing.assert_close(
        value_and_gradient(rest, z.cuda(), y.cuda()), value_and_gradient(rest, z, y), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "score"),
    [(sw.SimplexLoss, "hss"), (sw.SimplexLoss, "f1"), (sw.SimplexLoss, CLASS_SCORES[-1]), (sw.OneVsRestLoss, "hss")],
)
def test_losses_of_classes_do_not_wait_for_the_device(make, score, no_waiting):
    torch.cuda.set_sync_debug_mode("default")
    z, y = classes()
    z, y = z.float().cuda().requires_grad_(), y.cuda()
    loss = make(score)
    mask = torch.ones_like(y, dtype=torch.bool)
    loss(z, y, mask=mask).backward()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    for _ in range(3):
        loss(z, y, mask=mask).backward()


@pytest.mark.parametrize("wrong", [-1, 7, 10**6])
@pytest.mark.parametrize("make", [sw.SimplexLoss, sw.OneVsRestLoss])
def test_classes_out_of_range_do_not_break_the_device(make, wrong):
    z, y = classes()
    y[3] = wrong
    loss = make("hss")
    assert loss(z.cuda(), y.cuda()).isfinite()
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="no class indices"):
        loss.raise_if_invalid()


def test_matrices_and_thresholds_of_classes_on_the_device():
    z, y = classes()
    mc = sw.multiclass
    here, there = (
        [
            mc.confusion_matrix(x, t, from_logits=True).cells.cpu(),
            mc.expected_confusion_matrix(x, t, from_logits=True).cells.cpu(),
            mc.best_tau(x, t, "hss", from_logits=True, starts=2)[0].cpu(),
        ]
        for x, t in ((z, y), (z.cuda(), y.cuda()))
    )
    torch.testing.assert_close(there, here, rtol=1e-9, atol=1e-9)


def test_thresholds_of_labels_on_the_device():
    z, y = batch(400, 2)
    p = torch.sigmoid(z)
    thresholds = sw.best_threshold(p.cuda(), y.cuda(), "hss")
    assert thresholds.is_cuda
    torch.testing.assert_close(thresholds.cpu(), sw.best_threshold(p, y, "hss"))
    assert sw.scores.hss(sw.confusion_matrix(p.cuda(), y.cuda(), thresholds)).isfinite().all()


def noisy(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
    )
    return torch.nn.Sequential(model, torch.nn.Flatten(0)).double().to(device)


def micro_batches(device):
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(900, 6, dtype=torch.float64, generator=g), torch.rand(900, generator=g) < 0.2
    return [(a.to(device), b.to(device)) for a, b in zip(x.split(200), y.split(200), strict=True)]


@pytest.mark.parametrize("weight", [None, sw.weights.ClassFrequency()], ids=repr)
def test_accumulated_steps_repeat_the_noise_of_the_device(weight):
    """Against one graph over all micro-batches, with the noise of one pass."""
    loss, parts = sw.ScoreLoss("hss", weight=weight), micro_batches("cuda")
    model, whole = noisy("cuda"), noisy("cuda")
    torch.manual_seed(7)
    value = sw.parallel.accumulate(loss, model, parts)
    after = torch.cuda.get_rng_state()
    torch.manual_seed(7)
    expected = loss(torch.cat([whole(x) for x, _ in parts]), torch.cat([y for _, y in parts]))
    expected.backward()
    assert torch.equal(torch.cuda.get_rng_state(), after)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=0)
    for mine, theirs in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-9, atol=1e-12)
    for mine, theirs in zip(model.buffers(), whole.buffers(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("running", [False, True])
def test_no_step_waits_for_the_device(running, no_waiting):
    torch.cuda.set_sync_debug_mode("default")
    loss, model, parts = sw.ScoreLoss("csi", average="weighted"), noisy("cuda"), micro_batches("cuda")
    state = sw.parallel.RunningLoss(loss)

    def step():
        if running:
            state(model(parts[0][0]), parts[0][1]).backward()
        else:
            sw.parallel.accumulate(loss, model, parts)

    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    step()


def test_a_running_average_comes_from_the_cpu_to_the_device():
    here, there = (sw.parallel.RunningLoss(sw.ScoreLoss("f1"), decay=0.5) for _ in range(2))
    z, y = batch(200)
    here(z, y)
    there.load_state_dict(here.state_dict())
    torch.testing.assert_close(there(z.cuda().neg(), y.cuda()).cpu(), here(z.neg(), y))


# ------------------------------------------------------------------------------------- metrics and estimators


@pytest.mark.parametrize("name", sorted(EVERY_WEIGHT))
def test_a_metric_agrees_with_the_cpu(name):
    pytest.importorskip("torchmetrics", reason="the extra metrics is not installed")
    z, y = batch(n=600)
    metrics = [
        sw.metrics.WeightedScore("csi", 0.4, EVERY_WEIGHT[name], from_logits=True).to(d) for d in ("cuda", "cpu")
    ]
    for part, event in zip(z.split(250), y.split(250), strict=True):
        metrics[0].update(part.cuda(), event.cuda())
        metrics[1].update(part, event)
    assert metrics[0].compute().device.type == "cuda"
    torch.testing.assert_close(metrics[0].compute().cpu(), metrics[1].compute(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weight", [None, sw.weights.Value([0.5, 0.25])], ids=["plain", "value"])
def test_a_classifier_is_fitted_on_the_device_and_predicts_on_the_cpu(weight):
    pytest.importorskip("tabm", reason="the extra sklearn is not installed")
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 5, generator=g)
    y = (x[:, 0] + 0.3 * torch.randn(400, generator=g) > 1).long()
    model = sw.ScoreClassifier("csi", weight=weight, steps=60, share=0.5, random_state=0, progress=False)
    model.fit(x.numpy(), y.numpy())
    again = sw.ScoreClassifier("csi", weight=weight, steps=60, share=0.5, random_state=0, progress=False)
    again.fit(x.numpy(), y.numpy())
    assert {p.device.type for p in model.networks_[0].parameters()} == {"cpu"}
    assert model.best_score_ > 0.5  # an alarm always has about 0.16
    assert abs(model.best_score_ - again.best_score_) < 0.1
