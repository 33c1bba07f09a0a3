"""Batches that are spread over processes: the same as one process that holds all of it."""

import copy
import functools
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import scorewise as sw
from tests.cases import half_of_all, smooth_weight
from tests.ranks import results, together

N, FEATURES, LABELS, T = 41, 4, 3, 3
G = torch.Generator().manual_seed(38)


def _series():
    """Three interleaved series with gaps: groups and times, in the order of time."""
    rows = []
    for group, length in enumerate((18, 12, 11)):
        steps = torch.tensor([1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 6, 1, 1, 1, 1, 1, 1, 2])[:length].roll(group)
        rows += [(int(time), group) for time in steps.cumsum(0)]
    rows.sort()
    return torch.tensor([group for _, group in rows]), torch.tensor([time for time, _ in rows])


def _random(*shape):
    return torch.rand(*shape, generator=G, dtype=torch.float64)


X = torch.randn(N, FEATURES, dtype=torch.float64, generator=G)
TABLE = torch.randint(12, (N,), generator=G)
EVENTS = (_random(N) < 0.4).double()
MANY = (_random(N, LABELS) < 0.4).double()
SOFT = _random(N, LABELS)
CLASSES = torch.randint(LABELS, (N,), generator=G)
GROUPS, TIMES = _series()
WEIGHT, COSTS, MASK = _random(N), _random(N, 2), _random(N) < 0.7
WEIGHTS, ALL_COSTS, MASKS = _random(N, LABELS), _random(N, LABELS, 2), _random(N, LABELS) < 0.7
NEUTRAL = {"sample_weight": 1.0, "costs": 1.0, "mask": True}

# How many samples each process has. They are dealt in the order of series and time, so that series are split.
SIZES = {
    "uneven": {2: (7, 34), 3: (7, 0, 34)},
    "the first is empty": {2: (0, 41), 3: (0, 30, 11)},
    "none is empty": {2: (14, 27), 3: (7, 16, 18)},
}
ORDER = torch.tensor(sorted(range(N), key=lambda row: (int(GROUPS[row]), int(TIMES[row]))))


def around(counted, before=T, after=T):
    """Rows that count, and those of their series so many steps of time before and after; and which of them count."""
    lag = TIMES[:, None] - TIMES[counted]
    near = (GROUPS[:, None] == GROUPS[counted]) & (-before <= lag) & (lag <= after)
    here = torch.zeros(N, dtype=torch.bool)
    here[counted] = True
    rows = (here | near.any(1)).nonzero().squeeze(1)
    return rows, here[rows]


def dealt(rank, world, sizes="uneven"):
    """The rows of a process."""
    return ORDER.split(SIZES[sizes][world])[rank]


class Table(nn.Module):
    """Logits to look up, of which different ones are equal."""

    def __init__(self):
        super().__init__()
        logits = torch.randn(6, LABELS, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
        self.logits = nn.Parameter(logits.repeat(2, 1))

    def forward(self, rows):
        return self.logits[rows]


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, LABELS)).double()


@dataclass(eq=False)
class Problem:
    """A loss, given ``sync``, and all its data. Who is ``only`` is the one process that passes what is ``given``."""

    loss: Callable[[object], nn.Module]
    targets: torch.Tensor = EVENTS
    given: dict[str, torch.Tensor] = field(default_factory=dict)
    series: bool = False
    only: int | None = None
    sizes: str = "uneven"
    ties: bool = False

    def model(self):
        return Table() if self.ties else network()

    def batch(self, counted, *, passed=True):
        """Inputs, targets and the loss's other arguments."""
        rows, mask = around(counted) if self.series else (counted, None)
        rest = {name: value[rows] for name, value in self.given.items()} if passed else {}
        if self.series:
            own = rest.get("mask", torch.ones(len(rows), dtype=torch.bool))
            rest["mask"] = own & (mask if own.dim() == 1 else mask[:, None])
            rest |= {"groups": GROUPS[rows], "times": TIMES[rows]}
        return (TABLE if self.ties else X)[rows], self.targets[rows], rest

    def share(self, rank, world):
        return self.batch(dealt(rank, world, self.sizes), passed=self.only in {None, rank})

    def whole(self, world):
        given = dict(self.given)
        if self.only is not None:
            for name, value in given.items():
                given[name] = torch.full_like(value, NEUTRAL[name])
                own = dealt(self.only, world, self.sizes)
                given[name][own] = value[own]
        return Problem(**(vars(self) | {"given": given})).batch(torch.arange(N))

    def logits(self, model, x):
        """As many as the targets need."""
        return model(x)[:, 0] if self.targets is EVENTS else model(x)


def gradients(model):
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def trained(problem, loss, model, x, y, rest):
    """The loss, and the gradients that it leaves."""
    value = loss(problem.logits(model, x), y, **rest)
    value.sum().backward()
    return value.detach(), gradients(model)


def alone(problem, world):
    """What one process finds that holds all samples."""
    return _alone(problem, None if problem.only is None else world)


@functools.cache
def _alone(problem, world):
    return trained(problem, problem.loss(False), problem.model(), *problem.whole(world))


def wrapped(problem, rank, world):
    """What a process finds within DistributedDataParallel."""
    model = DistributedDataParallel(problem.model())
    return trained(problem, problem.loss(True), model, *problem.share(rank, world))


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def score(*args, kind=sw.ScoreLoss, **options):
    return lambda sync: kind(*args, sync=sync, **options)


def combined(*pairs):
    return lambda sync: sw.CombinedLoss([(beta, make(sync)) for beta, make in pairs])


# ------------------------------------------------------------------------------------------------ one call of a loss

FREQUENCY, CE, COST = sw.weights.ClassFrequency(), sw.weights.CrossEntropy(1.0, 3.0), sw.weights.Cost(2.0, 5.0)
MAX = sw.weights.Value([0.5, 0.3, 0.1], isolated=2.0)
PROD = sw.weights.Value([0.1, 0.5, 0.3], "prod", isolated=2.0)
PLAIN_WEIGHTS = {
    "no weight": None,
    "cost": COST,
    "cross entropy": CE,
    "frequency": FREQUENCY,
    "cost * frequency": COST * FREQUENCY,
    "cross entropy * frequency": CE * FREQUENCY,
    "frequency twice": FREQUENCY * FREQUENCY,
    "margin": sw.weights.Margin(1.5),
}
SERIES_WEIGHTS = {
    "max": MAX,
    "prod": PROD,
    "any g": sw.weights.Value([0.0] * T, half_of_all, isolated=2.0),
    "max * frequency": MAX * FREQUENCY,
    "cross entropy * max": CE * MAX,
    "margin * max": sw.weights.Margin(1.0) * MAX,
    "custom": sw.weights.Custom(smooth_weight, window=T, points=4),
}
PRIORS = [sw.priors.Beta(2.0, 5.0), None, sw.priors.Triangular(0.1, 0.3, 0.9)]
BATCHED = sw.priors.Beta(*torch.tensor([[2.0, 1.0, 0.5], [5.0, 1.0, 3.0]], dtype=torch.float64))
AVERAGES = {"macro": "macro", "weighted": "weighted", "min": "min", "micro": "micro", "each": None}
LISTS = {
    "same": {},
    "priors": {"prior": PRIORS},
    "weights": {"weight": [FREQUENCY, COST * FREQUENCY * FREQUENCY, None]},
    "series": {"weight": [MAX, PROD * FREQUENCY, CE], "prior": PRIORS},
}


def _problems():
    found = {}
    for weights, series in ((PLAIN_WEIGHTS, False), (SERIES_WEIGHTS, True)):
        for weight_name, weight in weights.items():
            for name in ("f1", "hss", "tss"):
                loss = score(name, weight=weight, prior=sw.priors.Beta(2.0, 3.0) if name == "hss" else None)
                found[f"{name}, {weight_name}"] = Problem(loss, series=series)
    for given in ({"sample_weight": WEIGHT}, {"costs": COSTS}, {"mask": MASK}):
        (argument,) = given
        for only in (None, 0, 1):
            told = f"{argument} of {'all' if only is None else only}"
            found[told] = Problem(score("hss", weight=COST * FREQUENCY), given=given, only=only, sizes="none is empty")
            found[f"exact, {told}"] = Problem(
                score("hss", weight=COST * FREQUENCY, exact=True), given=given, only=only, sizes="none is empty"
            )
    every = {"sample_weight": WEIGHT, "costs": COSTS, "mask": MASK}
    found["series, everything given"] = Problem(score("csi", weight=MAX * FREQUENCY), given=every, series=True)
    found["probabilities"] = Problem(
        lambda sync: _OfProbabilities(sw.ScoreLoss("f1", weight=CE * FREQUENCY, from_logits=False, sync=sync))
    )
    labels = {"sample_weight": WEIGHTS, "costs": ALL_COSTS, "mask": MASKS}
    for average_name, average in AVERAGES.items():
        for option_name, options in LISTS.items():
            found[f"labels, {average_name}, {option_name}"] = Problem(
                score("hss", average=average, **options),
                MANY,
                labels if option_name == "priors" else {},
                series=option_name == "series",
            )
            if average != "micro":
                found[f"exact labels, {average_name}, {option_name}"] = Problem(
                    score("csi", average=average, exact=True, **options),
                    MANY,
                    labels if option_name == "priors" else {},
                    series=option_name == "series",
                )
    for exact in (False, True):
        told = "exact labels" if exact else "labels"
        found[f"{told}, given for samples"] = Problem(
            score("hss", weight=FREQUENCY, average="weighted", exact=exact), MANY, every
        )
        found[f"{told}, a prior for all of them"] = Problem(score("hss", prior=BATCHED, exact=exact), MANY)
        found[f"{told}, soft"] = Problem(score("hss", weight=CE * FREQUENCY, exact=exact), SOFT)
    found["labels, scores, given of 0"] = Problem(
        score(["tss", "f1", "error_rate"], average="weighted"), MANY, labels, only=0
    )
    found["labels, a function"] = Problem(score("tss", average=lambda s: s.prod()), MANY)
    exact = {name: weight for name, weight in PLAIN_WEIGHTS.items() if name != "margin"}
    exact |= {name: weight for name, weight in SERIES_WEIGHTS.items() if name not in {"margin * max", "custom"}}
    for weight_name, weight in exact.items():
        series = weight_name in SERIES_WEIGHTS
        for name in ("f1", "hss"):
            found[f"exact {name}, {weight_name}"] = Problem(score(name, weight=weight, exact=True), series=series)
        found[f"exact ties, {weight_name}"] = Problem(score("hss", weight=weight, exact=True), series=series, ties=True)
    found["exact ties, labels"] = Problem(
        score("f1", average="weighted", exact=True, weight=LISTS["weights"]["weight"]), MANY, ties=True
    )
    for sizes in SIZES:
        found[f"{sizes}: frequency"] = Problem(score("f1", weight=FREQUENCY), sizes=sizes)
        found[f"{sizes}: series"] = Problem(score("hss", weight=MAX * FREQUENCY), series=True, sizes=sizes)
        found[f"{sizes}: exact series"] = Problem(score("hss", weight=MAX, exact=True), series=True, sizes=sizes)
        found[f"{sizes}: labels"] = Problem(
            score("f1", average="weighted", **LISTS["series"]), MANY, series=True, sizes=sizes
        )
        found[f"{sizes}: simplex"] = Problem(score("mcc", kind=sw.SimplexLoss), CLASSES, sizes=sizes)
    table = [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [5.0, 1.0, 0.0]]
    for name, loss in {
        "hss": score("hss", kind=sw.SimplexLoss),
        "cost": score(sw.multiclass.scores.cost(table), kind=sw.SimplexLoss),
        **{f"f1, {name}": score("f1", average=average, kind=sw.SimplexLoss) for name, average in AVERAGES.items()},
    }.items():
        found[f"simplex, {name}"] = Problem(loss, CLASSES, {"sample_weight": WEIGHT, "mask": MASK})
    for name, average in AVERAGES.items():
        found[f"one against the rest, {name}"] = Problem(
            score("tss", average=average, weight=MAX * FREQUENCY, kind=sw.OneVsRestLoss),
            CLASSES,
            {"sample_weight": WEIGHT},
            series=True,
        )
    found["one against the rest, exact"] = Problem(
        score("f1", average="weighted", exact=True, weight=COST, prior=PRIORS, kind=sw.OneVsRestLoss), CLASSES
    )
    found["combined"] = Problem(
        combined(
            (0.25, score("f1", weight=MAX * FREQUENCY)),
            (0.35, score("hss")),
            (0.4, score("tss", weight=CE, exact=True)),
        ),
        given={"mask": MASK},
        series=True,
    )
    found["combined, classes"] = Problem(
        combined((0.5, score("hss", kind=sw.SimplexLoss)), (0.5, score("f1", weight=FREQUENCY, kind=sw.OneVsRestLoss))),
        CLASSES,
        {"sample_weight": WEIGHT},
    )
    return found


class _OfProbabilities(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, logits, *args, **rest):
        return self.loss(torch.sigmoid(logits), *args, **rest)


PROBLEMS = _problems()
CASES = {}


def in_processes(case):
    """Register a case of its own."""
    CASES[case.__name__] = case
    return case


def every_case():
    return {name: functools.partial(wrapped, problem) for name, problem in PROBLEMS.items()} | CASES


@pytest.fixture(scope="module", params=[2, 3], ids=["2 processes", "3 processes"])
def ranks(request):
    """What every case found, in so many processes."""
    return together(request.param, every_case)


@pytest.mark.parametrize("sizes", [sizes for of_world in SIZES.values() for sizes in of_world.values() if min(sizes)])
def test_every_split_needs_all_of_its_context(sizes):
    loss, logits = sw.ScoreLoss("hss", weight=MAX), X[:, 0]

    def cells(rows, mask=None):
        return loss.matrix(logits[rows], EVENTS[rows], mask=mask, groups=GROUPS[rows], times=TIMES[rows]).tensor()

    whole = cells(torch.arange(N))
    for before, after, enough in ((T, T, True), (T - 1, T - 1, False), (0, T, False), (T, 0, False)):
        parts = torch.stack([cells(*around(counted, before, after)) for counted in ORDER.split(sizes)])
        assert torch.allclose(parts.sum(0), whole, rtol=0, atol=1e-3) == enough


@pytest.mark.parametrize("name", PROBLEMS)
def test_as_one_process(ranks, name):
    found = results(ranks[name])
    for one in found:
        close(one, alone(PROBLEMS[name], len(found)))


# ---------------------------------------------------------------------------------------------- cases of their own


@in_processes
def gradients_are_not_averaged(rank, world):
    return {
        name: trained(
            PROBLEMS[name], PROBLEMS[name].loss(True), PROBLEMS[name].model(), *PROBLEMS[name].share(rank, world)
        )
        for name in UNAVERAGED
    }


UNAVERAGED = [
    "f1, cost * frequency",
    "hss, max * frequency",
    "labels, weighted, series",
    "exact hss, max",
    "exact labels, each, priors",
    "simplex, hss",
    "one against the rest, min",
    "combined",
]


def test_the_sum_of_gradients_is_as_many_times_the_whole(ranks):
    found = results(ranks["gradients_are_not_averaged"])
    for name in UNAVERAGED:
        value, whole = alone(PROBLEMS[name], len(found))
        for one in found:
            close(one[name][0], value)
        added = [torch.stack(parts).sum(0) for parts in zip(*(one[name][1] for one in found), strict=True)]
        close(added, [len(found) * gradient for gradient in whole])


@in_processes
def one_goes_back_alone(rank, world):
    """All but one evaluate only; a backward pass that waited for them would wait forever."""
    found = {}
    for name in ("hss, max * frequency", "exact hss, max", "simplex, hss"):
        problem, model = PROBLEMS[name], PROBLEMS[name].model()
        x, y, rest = problem.share(rank, world)
        with torch.set_grad_enabled(rank == world - 1):
            value = problem.loss(True)(problem.logits(model, x), y, **rest)
        if rank == world - 1:
            value.backward()
        found[name] = gradients(model)
    return found


def test_nobody_waits_in_a_backward_pass(ranks):
    found = results(ranks["one_goes_back_alone"])
    expected = results(ranks["gradients_are_not_averaged"])[-1]
    for name, gradient in found[-1].items():
        close(gradient, expected[name][1])
        assert any(bool(part.any()) for part in gradient)


@in_processes
def messages(rank, world):
    """How many messages a call takes, and how many its backward pass."""
    problem, sent = PROBLEMS["labels, weighted, series"], []
    loss, (x, y, rest) = problem.loss(True), problem.share(rank, world)
    logits = network()(x)
    send = distributed.all_reduce
    try:
        distributed.all_reduce = lambda *args, **options: (sent.append(args[0].numel()), send(*args, **options))[1]
        value = loss(logits, y, **rest)
        forward = len(sent)
        value.backward()
    finally:
        distributed.all_reduce = send
    return forward, len(sent)


def test_one_message_is_enough(ranks):
    assert set(results(ranks["messages"])) == {(1, 1)}


def _between(world):
    """The first and the last process, as a group."""
    members = sorted({0, world - 1})
    return members, distributed.new_group(members)


GROUPED = ["none is empty: frequency", "none is empty: series", "none is empty: exact series", "none is empty: simplex"]


@in_processes
def some_processes(rank, world):
    members, group = _between(world)
    if rank not in members:
        try:
            return sw.ScoreLoss("f1", sync=group)
        except TypeError as error:
            return str(error)
    found = {}
    for name in GROUPED:
        problem = PROBLEMS[name]
        model = DistributedDataParallel(problem.model(), process_group=group)
        found[name] = trained(problem, problem.loss(group), model, *problem.share(rank, world))
    problem = PROBLEMS[GROUPED[1]]
    x, y, rest = problem.share(rank, world)
    loss = problem.loss(group)
    matrix = loss.matrix(x[:, 0], y, **rest)
    return found, loss.linearize(matrix).value, sw.parallel.summed(matrix, sync=group).tensor()


def test_a_group_of_some_processes(ranks):
    found = results(ranks["some_processes"])
    world = len(found)
    members = sorted({0, world - 1})
    for rank in set(range(world)) - set(members):
        assert "process group that this process belongs to" in found[rank]
    for name in GROUPED:
        problem = PROBLEMS[name]
        rows = torch.cat([dealt(rank, world, problem.sizes) for rank in members])
        expected = trained(problem, problem.loss(False), problem.model(), *problem.batch(rows))
        for rank in members:
            close(found[rank][0][name], expected)
    problem = PROBLEMS[GROUPED[1]]
    x, y, rest = problem.batch(torch.cat([dealt(rank, world, problem.sizes) for rank in members]))
    for rank in members:
        close(found[rank][1], problem.loss(False)(x[:, 0], y, **rest))
        close(found[rank][2], problem.loss(False).matrix(x[:, 0], y, **rest).tensor())


@in_processes
def each_for_itself(rank, world):
    own = [distributed.new_group([member]) for member in range(world)][rank]
    found = []
    for name in GROUPED:
        problem = PROBLEMS[name]
        found.append(
            [
                trained(problem, problem.loss(sync), problem.model(), *problem.share(rank, world))
                for sync in (own, False)
            ]
        )
    return found


def test_a_group_of_one(ranks):
    for found in results(ranks["each_for_itself"]):
        for grouped, plain in found:
            torch.testing.assert_close(grouped, plain, rtol=0, atol=0)


@in_processes
def nobody_has_samples(rank, world):
    found = {}
    for name in EMPTY:
        problem = PROBLEMS[name]
        nothing = problem.batch(torch.arange(0))
        model = DistributedDataParallel(problem.model())
        found[name] = trained(problem, problem.loss(True), model, *nothing)
    return found


EMPTY = [
    "f1, no weight",
    "hss, cost * frequency",
    "tss, max * frequency",
    "labels, weighted, series",
    "exact hss, max",
    "exact labels, weighted, priors",
    "simplex, f1, weighted",
    "one against the rest, weighted",
    "combined",
]


def test_nobody_has_samples(ranks):
    for found in results(ranks["nobody_has_samples"]):
        for name in EMPTY:
            problem = PROBLEMS[name]
            value, gradient = found[name]
            assert value.isfinite().all()
            assert not any(bool(part.any()) for part in gradient)
            expected = trained(problem, problem.loss(False), problem.model(), *problem.batch(torch.arange(0)))
            close((value, gradient), expected)


@in_processes
def sums_of_matrices(rank, world):
    found = []
    for name in MATRICES:
        problem = PROBLEMS[name]
        x, y, rest = problem.share(rank, world)
        with torch.no_grad():
            matrix = problem.loss(True).matrix(problem.logits(network(), x), y, **rest)
        found.append(
            (_cells(matrix), _cells(sw.parallel.summed(matrix)), _cells(sw.parallel.summed(matrix, sync=False)))
        )
    return found


MATRICES = ["hss, cost * frequency", "labels, weighted, series", "one against the rest, min", "simplex, hss"]


@torch.no_grad()
def _cells_of(problem, x, y, rest):
    return _cells(problem.loss(False).matrix(problem.logits(network(), x), y, **rest))


def _cells(matrix):
    return matrix.cells if isinstance(matrix, sw.multiclass.MulticlassMatrix) else matrix.tensor()


def test_a_matrix_is_of_ones_own_samples_until_it_is_summed(ranks):
    found = results(ranks["sums_of_matrices"])
    world = len(found)
    for k, name in enumerate(MATRICES):
        whole = _cells_of(PROBLEMS[name], *PROBLEMS[name].whole(world))
        for rank in range(world):
            own, summed, not_summed = found[rank][k]
            close(own, _cells_of(PROBLEMS[name], *PROBLEMS[name].share(rank, world)))
            close(not_summed, own)
            close(summed, whole)


@in_processes
def what_samples_count_learns(rank, world):
    return [_weight_gradient(sync, dealt(rank, world), exact) for sync, exact in ((True, False), (True, True))]


def _weight_gradient(sync, rows, exact):
    """The gradient by sample weights."""
    weight = WEIGHT[rows].requires_grad_()
    loss = sw.ScoreLoss("hss", weight=COST * FREQUENCY, exact=exact, sync=sync)
    value = loss(X[rows, 0], EVENTS[rows], sample_weight=weight)
    return torch.autograd.grad(value, weight)[0]


def test_gradients_by_sample_weights(ranks):
    found = results(ranks["what_samples_count_learns"])
    world = len(found)
    for k, exact in enumerate((False, True)):
        whole = _weight_gradient(False, torch.arange(N), exact)
        for rank in range(world):
            close(found[rank][k], world * whole[dealt(rank, world)])


@in_processes
def in_float32(rank, world):
    rows = dealt(rank, world)
    found = []
    for exact in (False, True):
        logits = X[rows, 0].float().requires_grad_()
        value = sw.ScoreLoss("hss", weight=CE * FREQUENCY, exact=exact, sync=True)(logits, EVENTS[rows])
        found.append((value.detach(), torch.autograd.grad(value, logits)[0]))
    return found


def test_float32(ranks):
    found = results(ranks["in_float32"])
    world = len(found)
    for k, exact in enumerate((False, True)):
        logits = X[:, 0].float().requires_grad_()
        value = sw.ScoreLoss("hss", weight=CE * FREQUENCY, exact=exact)(logits, EVENTS)
        (whole,) = torch.autograd.grad(value, logits)
        for rank in range(world):
            assert found[rank][k][0].dtype == found[rank][k][1].dtype == torch.float32
            # sums are in float64, so that only what each process rounds is left: a few units in the last place
            torch.testing.assert_close(found[rank][k][0], value.detach(), rtol=1e-6, atol=1e-7)
            torch.testing.assert_close(found[rank][k][1], world * whole[dealt(rank, world)], rtol=1e-5, atol=1e-8)


# ------------------------------------------------------------------------------------------------------ micro-batches


def cut(problem, rank, world):
    """The micro-batches of a process: one more than its rank, the first of which is empty if there are several."""
    rows = dealt(rank, world, problem.sizes)
    parts = [rows] if rank == 0 else [rows[:0], *rows.tensor_split(rank)]
    return [problem.batch(part) for part in parts]


LINEAR = [
    "f1, no weight",
    "hss, cost * frequency",
    "hss, max * frequency",
    "labels, weighted, series",
    "labels, each, weights",
    "labels, micro, weights",
    "simplex, hss",
    "simplex, cost",
    "one against the rest, min",
]


@in_processes
def tangents(rank, world):
    found = {}
    for name in LINEAR:
        problem, model = PROBLEMS[name], PROBLEMS[name].model()
        loss, parts = problem.loss(True), cut(problem, rank, world)
        with torch.no_grad():
            matrix = sum(loss.matrix(problem.logits(model, x), y, **rest) for x, y, rest in parts)
        tangent = loss.linearize(matrix)
        for x, y, rest in parts:
            tangent(problem.logits(model, x), y, **rest).sum().backward()
        found[name] = tangent.value, gradients(model)
    return found


@pytest.mark.parametrize("name", LINEAR)
def test_tangents(ranks, name):
    found = results(ranks["tangents"])
    world = len(found)
    value, whole = alone(PROBLEMS[name], world)
    for one in found:
        close(one[name][0], value)
    added = [torch.stack(parts).sum(0) for parts in zip(*(one[name][1] for one in found), strict=True)]
    close(added, [world * gradient for gradient in whole])


STEPS = [*LINEAR, "combined, no exact"]
PROBLEMS_OF_STEPS = {name: PROBLEMS[name] for name in LINEAR} | {
    "combined, no exact": Problem(
        combined((0.3, score("f1", weight=MAX * FREQUENCY)), (0.7, score("hss", weight=CE))), series=True
    )
}


def steps(model, step):
    """Two steps of a plain descent: what each of them returned, the gradients, and the parameters."""
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(2):
        optimizer.zero_grad()
        found.append((step(model), gradients(model)))
        optimizer.step()
    return found, [parameter.detach().clone() for parameter in model.parameters()]


def _accumulate(problem, loss, parts, model):
    return sw.parallel.accumulate(loss, model, parts, forward=problem.logits)


@in_processes
def accumulated(rank, world):
    found = {}
    for name, problem in PROBLEMS_OF_STEPS.items():
        loss, parts = problem.loss(True), cut(problem, rank, world)
        model = DistributedDataParallel(problem.model())
        step = functools.partial(_accumulate, problem, loss, parts)
        found[name] = steps(model, step)
    return found


@pytest.mark.parametrize("name", PROBLEMS_OF_STEPS)
def test_accumulated(ranks, name):
    found = results(ranks["accumulated"])
    problem = PROBLEMS_OF_STEPS[name]
    loss, (x, y, rest) = problem.loss(False), problem.whole(len(found))

    def step(model):
        value = loss(problem.logits(model, x), y, **rest)
        value.sum().backward()
        return value.detach()

    expected = steps(problem.model(), step)
    for one in found:
        close(one[name], expected)


@in_processes
def accumulated_each_for_itself(rank, world):
    problem = PROBLEMS["hss, max * frequency"]
    model = DistributedDataParallel(problem.model())
    parts = [problem.batch(part) for part in dealt(rank, world).tensor_split(rank + 1)]
    value = sw.parallel.accumulate(problem.loss(False), model, parts, forward=problem.logits)
    return value, gradients(model)


def test_without_sync_it_is_the_mean_of_everyones_own(ranks):
    found = results(ranks["accumulated_each_for_itself"])
    world, problem = len(found), PROBLEMS["hss, max * frequency"]
    own = [trained(problem, problem.loss(False), problem.model(), *problem.share(rank, world)) for rank in range(world)]
    mean = [torch.stack(parts).mean(0) for parts in zip(*(gradient for _, gradient in own), strict=True)]
    for one, (value, _) in zip(found, own, strict=True):
        close(one, (value, mean))


@in_processes
def linearized_at_the_sum(rank, world):
    """Without sync, at a matrix that is summed over processes; and with it, at one that is summed already."""
    problem = PROBLEMS["hss, max * frequency"]
    model, (x, y, rest) = DistributedDataParallel(problem.model()), problem.share(rank, world)
    loss = problem.loss(False)
    whole = sw.parallel.summed(loss.matrix(problem.logits(model, x), y, **rest))
    tangent = loss.linearize(whole)
    tangent(problem.logits(model, x), y, **rest).backward()
    told = []
    for twice in (problem.loss(True).linearize, sw.parallel.summed):
        try:
            twice(whole + loss.matrix(problem.logits(model, x), y, **rest))
        except ValueError as error:
            told.append(str(error))
    return tangent.value, gradients(model), told


def test_a_tangent_at_the_sum_of_all_has_the_number_of_processes_less(ranks):
    found = results(ranks["linearized_at_the_sum"])
    value, whole = alone(PROBLEMS["hss, max * frequency"], len(found))
    for one in found:
        close(one[:2], (value, [gradient / len(found) for gradient in whole]))
        assert len(one[2]) == 2
        assert all("summed over processes already" in told for told in one[2])


class Wrapped(nn.Module):
    """As engines and compilers wrap models."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)


@in_processes
def accumulated_within_a_wrapper(rank, world):
    problem = PROBLEMS["hss, max * frequency"]
    model = Wrapped(DistributedDataParallel(problem.model()))
    step = functools.partial(_accumulate, problem, problem.loss(True), cut(problem, rank, world))
    return steps(model, step)


def test_accumulated_within_a_wrapper(ranks):
    for one, bare in zip(results(ranks["accumulated_within_a_wrapper"]), results(ranks["accumulated"]), strict=True):
        close(one, bare["hss, max * frequency"])


@in_processes
def fully_sharded(rank, world):
    problem = PROBLEMS["hss, max * frequency"]
    parts, loss = cut(problem, rank, world), problem.loss(True)
    # in all processes as many micro-batches as in the one that has most: they talk in every forward pass
    parts += [problem.batch(torch.arange(0))] * (5 - len(parts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, about what its sharding does with CPUs
        model = fully_shard(problem.model(), mesh=init_device_mesh("cpu", (world,)))
        x, y, rest = problem.share(rank, world)
        found = [loss(problem.logits(model, x), y, **rest).detach()]
        loss(problem.logits(model, x), y, **rest).backward()
        whole = [p.grad.full_tensor().clone() for p in model.parameters()]
        model.zero_grad()
        found.append(sw.parallel.accumulate(loss, model, parts, forward=problem.logits))
        return found, whole, [p.grad.full_tensor() for p in model.parameters()]


def test_fully_sharded_models(ranks):
    found = results(ranks["fully_sharded"])
    value, whole = alone(PROBLEMS["hss, max * frequency"], len(found))
    for values, at_once, accumulated in found:
        close(values, [value, value])
        close(at_once, whole)
        close(accumulated, whole)


@in_processes
def copies_of_a_loss_with_a_group(rank, world):
    group = distributed.new_group(list(range(world)))
    loss = sw.ScoreLoss("f1", sync=group)
    twin = copy.deepcopy(sw.CombinedLoss([(1.0, loss)]))
    x, y, _ = PROBLEMS["f1, no weight"].share(rank, world)
    values = [one(x[:, 0], y).item() for one in (loss, twin)]
    try:
        pickle.dumps(loss)
    except TypeError as error:
        return twin.losses[0].sync is group, values, str(error)


def test_a_loss_with_a_group_can_be_copied_and_says_why_it_cannot_be_pickled(ranks):
    for same, (value, of_twin), told in results(ranks["copies_of_a_loss_with_a_group"]):
        assert same
        assert value == of_twin
        assert "loss.sync = True" in told


def _normalised():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, LABELS)).double()


def _normalised_parts(rank, world):
    rows = dealt(rank, world, "none is empty")
    return [(X[part], MANY[part]) for part in rows.tensor_split(rank + 1)]


@in_processes
def normalised_batches(rank, world):
    loss = sw.ScoreLoss("hss", weight=FREQUENCY, sync=True)
    model = DistributedDataParallel(_normalised())
    found = steps(model, lambda m: sw.parallel.accumulate(loss, m, _normalised_parts(rank, world)))
    return found, dict(model.module[1].named_buffers())


def test_batch_norms_hold_nobody_up(ranks):
    found = results(ranks["normalised_batches"])
    world = len(found)
    parts = [_normalised_parts(rank, world) for rank in range(world)]
    labels = torch.cat([y for of_rank in parts for _, y in of_rank])

    def step(model):
        logits = torch.cat([model(x) for of_rank in parts for x, _ in of_rank])
        value = sw.ScoreLoss("hss", weight=FREQUENCY)(logits, labels)
        value.backward()
        return value.detach()

    expected = steps(_normalised(), step)
    for rank, (one, buffers) in enumerate(found):
        close(one, expected)
        # The second step began with what the first process had after the first, as DistributedDataParallel has it.
        assert int(buffers["num_batches_tracked"]) == 1 + (rank + 1)


class Drifting(nn.Module):
    """What comes out depends on a buffer, and that on what came in before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(LABELS, dtype=torch.float64))

    def forward(self, x):
        self.mean.lerp_(x.detach().mean(0), 0.5)
        return x - self.mean


@in_processes
def buffers_that_drift(rank, world):
    loss = sw.ScoreLoss("hss", weight=FREQUENCY, sync=True)
    model = DistributedDataParallel(nn.Sequential(network(), Drifting()))
    parts, seen = _normalised_parts(rank, world), []

    def forward(given, x):
        seen.append(given(x))
        return seen[-1]

    steps(model, lambda given: sw.parallel.accumulate(loss, given, parts, forward=forward))
    return [logits.detach() for logits in seen]


def test_both_passes_begin_with_the_same_buffers(ranks):
    for seen in results(ranks["buffers_that_drift"]):
        half = len(seen) // 2
        for step in (seen[:half], seen[half:]):
            close(step[half // 2 :], step[: half // 2])


# ------------------------------------------------------------------------------------------------------ running losses


def _epoch(problem, loss, model, parts):
    optimizer, values = torch.optim.SGD(model.parameters(), lr=0.3), []
    for x, y, rest in parts:
        optimizer.zero_grad()
        value = loss(problem.logits(model, x), y, **rest)
        value.backward()
        optimizer.step()
        values.append(value.detach())
    state = [value.clone() for _, value in sorted(loss.state_dict().items())]
    return values, state, [parameter.detach().clone() for parameter in model.parameters()]


RUNNING = ["hss, cost * frequency", "labels, weighted, weights", "simplex, hss"]


@in_processes
def running(rank, world):
    found = {}
    for name in RUNNING:
        problem = PROBLEMS[name]
        loss = sw.parallel.RunningLoss(problem.loss(True), decay=0.6)
        model = DistributedDataParallel(problem.model())
        batches = [batch[batch % world == rank] for batch in torch.arange(N).tensor_split(4)]
        found[name] = _epoch(problem, loss, model, [problem.batch(batch) for batch in batches])
    return found


@pytest.mark.parametrize("name", RUNNING)
def test_running_losses(ranks, name):
    problem = PROBLEMS[name]
    loss = sw.parallel.RunningLoss(problem.loss(False), decay=0.6)
    parts = [problem.batch(batch) for batch in torch.arange(N).tensor_split(4)]
    expected = _epoch(problem, loss, problem.model(), parts)
    for one in results(ranks["running"]):
        close(one[name], expected)


# ------------------------------------------------------------------------------------------------- without processes


@pytest.mark.parametrize("name", ["hss, max * frequency", "exact hss, max", "labels, weighted, series", "simplex, hss"])
def test_where_there_is_only_one_process_nothing_changes(name):
    assert not distributed.is_initialized()
    problem = PROBLEMS[name]
    own, synced = (trained(problem, problem.loss(sync), problem.model(), *problem.whole(1)) for sync in (False, True))
    torch.testing.assert_close(synced, own, rtol=0, atol=0)
    if "exact" not in name:
        x, y, rest = problem.whole(1)
        loss = problem.loss(True)
        matrix = loss.matrix(problem.logits(network(), x), y, **rest)
        close(loss.linearize(matrix).value, own[0])
        close(_cells(sw.parallel.summed(matrix)), _cells(matrix))


@pytest.mark.parametrize("kind", [sw.ScoreLoss, sw.SimplexLoss, sw.OneVsRestLoss])
@pytest.mark.parametrize("sync", ["all", 1, None, 0.0])
def test_what_is_no_group_of_processes(kind, sync):
    with pytest.raises(TypeError, match=f"sync must be True, False, or a .*process group.*saw {sync!r}"):
        kind("f1", sync=sync)


def test_summed_refuses_what_is_no_group():
    with pytest.raises(TypeError, match="sync must be"):
        sw.parallel.summed(sw.ConfusionMatrix(tn=1, fp=1, fn=1, tp=1), sync="all")
