"""Many classes: thresholds on the simplex, matrices, scores, losses and the best thresholds, against plain oracles."""

import copy
import itertools
import math
import pickle
import re

import numpy as np
import pytest
import sklearn.metrics as skm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

import scorewise as sw

mc = sw.multiclass
NAN = math.nan

# ------------------------------------------------------------------------------------------------------ oracles


# Of Gauss and Legendre: exact for polynomials of a degree up to 19.
NODES = np.polynomial.legendre.leggauss(10)


def chance_by_integral(p, j):
    """The chance of class j, integrated over its own threshold t; the others are then uniform on a smaller simplex."""
    m = len(p)

    def room(t):
        return 1 - t - sum(max(t - p[j] + p[k], 0.0) for k in range(m) if k != j)

    total = 0.0
    kinks = sorted({p[j] - p[k] for k in range(m) if 0 < p[j] - p[k] < 1})
    for low, high in itertools.pairwise([0.0, *kinks, 1.0]):
        # The room shrinks linearly from one kink to the next, until there is none.
        left, right = room(low), room(high)
        if left > 0:
            end = high if right >= 0 else low + (high - low) * left / (left - right)
            for node, weight in zip(*NODES, strict=True):
                t = low + (end - low) * (node + 1) / 2
                total += (end - low) * weight / 2 * (m - 1) * room(t) ** (m - 2)
    return total


def chances_by_integral(p):
    return [chance_by_integral(p, j) for j in range(len(p))]


def chances_by_counting(p, draws, generator):
    """How often each class wins, of so many thresholds drawn uniformly from the simplex."""
    exponentials = generator.exponential(size=(draws, len(p)))
    tau = exponentials / exponentials.sum(axis=1, keepdims=True)
    return np.bincount((np.asarray(p) - tau).argmax(axis=1), minlength=len(p)) / draws


def expected_by_loop(p, y, weight=None):
    """The expected matrix, sample by sample."""
    m = len(p[0])
    cells = [[0.0] * m for _ in range(m)]
    for i, row in enumerate(p):
        for j, chance in enumerate(chances_by_integral(row)):
            cells[y[i]][j] += chance * (1.0 if weight is None else weight[i])
    return cells


def decide_by_loop(p, tau):
    called = []
    for row in p:
        best = 0
        for j in range(1, len(row)):
            if row[j] - tau[j] > row[best] - tau[best]:
                best = j
        called.append(best)
    return called


def count_by_loop(called, y, m, weight=None):
    cells = [[0.0] * m for _ in range(m)]
    for i, (j, k) in enumerate(zip(called, y, strict=True)):
        cells[k][j] += 1.0 if weight is None else weight[i]
    return cells


def binary_by_loop(cells):
    """(TN, FP, FN, TP) of every class against the rest."""
    m = len(cells)
    found = []
    for c in range(m):
        tn = fp = fn = tp = 0.0
        for i in range(m):
            for j in range(m):
                if i == c and j == c:
                    tp += cells[i][j]
                elif i == c:
                    fn += cells[i][j]
                elif j == c:
                    fp += cells[i][j]
                else:
                    tn += cells[i][j]
        found.append((tn, fp, fn, tp))
    return found


def binary_scores(name, cells):
    """A binary score of every class against the rest."""
    return [sw.scores.get(name)(sw.ConfusionMatrix(*four)).item() for four in binary_by_loop(cells)]


def by_sklearn(cells, function, **keywords):
    """A function of scikit-learn's, of a matrix: one sample for each cell, which counts as much as that says."""
    cells = np.asarray(cells)
    truth, called = np.indices(cells.shape)
    return function(truth.ravel(), called.ravel(), sample_weight=cells.ravel(), **keywords)


SKLEARN = {
    "accuracy": lambda c: by_sklearn(c, skm.accuracy_score),
    "error_rate": lambda c: 1 - by_sklearn(c, skm.accuracy_score),
    "kappa": lambda c: by_sklearn(c, skm.cohen_kappa_score),
    "hss": lambda c: by_sklearn(c, skm.cohen_kappa_score),
    "mcc": lambda c: by_sklearn(c, skm.matthews_corrcoef),
    "f1": lambda c: by_sklearn(c, skm.f1_score, average="macro"),
    "precision": lambda c: by_sklearn(c, skm.precision_score, average="macro"),
    "recall": lambda c: by_sklearn(c, skm.recall_score, average="macro"),
    "csi": lambda c: by_sklearn(c, skm.jaccard_score, average="macro"),
    "jaccard": lambda c: by_sklearn(c, skm.jaccard_score, average="macro"),
}
MULTICLASS = ["accuracy", "error_rate", "kappa", "hss", "mcc"]
BINARY_ONLY = [name for name in sw.scores.names() if name not in MULTICLASS]
COSTS = [[0.0, 1.0, 2.5], [3.0, 0.0, 0.5], [7.0, 1.5, 0.25]]

# Sums of a few dozen numbers in another order: 1e-14 or so.
EXACT = 1e-12
# The integral is of a polynomial in every piece, so that it is as good as its rounding; a few dozen of them are added.
CLOSE = 1e-11


# ------------------------------------------------------------------------------------------------------ helpers


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def random_problem(n, m, seed, bias=0.0):
    """Probabilities (float64) and classes that go with them; every class occurs among both, for n well above m."""
    g = torch.Generator().manual_seed(seed)
    y = torch.cat([torch.arange(m), torch.randint(m, (n - m,), generator=g)])
    z = torch.randn(n, m, dtype=torch.float64, generator=g) + 1.2 * one_hot(y, m)
    z[:, 0] += bias
    return torch.softmax(z, -1), y


def matrix_of(counts):
    """The matrix with these cells, made of one sure sample for each, which counts so much."""
    counts = torch.as_tensor(counts, dtype=torch.float64)
    m = len(counts)
    truth, called = torch.arange(m).repeat_interleave(m), torch.arange(m).repeat(m)
    return mc.confusion_matrix(one_hot(called, m).double(), truth, sample_weight=counts.reshape(-1))


def value_and_gradient(loss, z, y, **arguments):
    z = z.detach().clone().requires_grad_()
    value = loss(z, y, **arguments)
    return value.detach(), *torch.autograd.grad(value.sum(), z)


def any_multiclass_score(m):
    """Every score of m classes: multiclass, binary ones of each class, averages of these, a cost matrix."""
    cost = torch.arange(float(m * m)).reshape(m, m)
    return {
        **{name: name for name in [*MULTICLASS, *BINARY_ONLY]},
        **{f"binary {name}": mc.scores.one_vs_rest(name) for name in MULTICLASS},
        "weighted": mc.scores.one_vs_rest("f1", average="weighted"),
        "min": mc.scores.one_vs_rest("f1", average="min"),
        "micro": mc.scores.one_vs_rest("csi", average="micro"),
        "callable": mc.scores.one_vs_rest("f1", average=torch.prod),
        "cost matrix": mc.scores.cost(cost),
    }


SCORES_OF_3 = [
    *MULTICLASS,
    *BINARY_ONLY,
    *(f"binary {name}" for name in MULTICLASS),
    *("weighted", "min", "micro", "callable", "cost matrix"),
]
each_score_of_3 = pytest.mark.parametrize("case", SCORES_OF_3)


def score_of_3(case):
    scores = any_multiclass_score(3)
    assert list(scores) == SCORES_OF_3
    return scores[case]


# ------------------------------------------------------------------------------------------------ class_chances


@pytest.mark.parametrize("m", range(2, 11))
def test_chances_are_how_often_a_class_wins(m):
    generator = np.random.default_rng(m)
    draws = 400_000
    for p in generator.dirichlet([0.7] * m, size=3):
        exact = mc.class_chances(f64(p)).numpy()
        found = chances_by_counting(p, draws, generator)
        # Five standard deviations of a frequency: 26 times 3 × 2..10 frequencies miss that once in 10 000 seeds.
        assert np.all(np.abs(exact - found) <= 5 * np.sqrt(exact * (1 - exact) / draws))


@pytest.mark.parametrize(
    "p",
    [
        [0.5, 0.3, 0.2],
        [0.2, 0.5, 0.3],
        [0.4, 0.4, 0.2],
        [0.1, 0.8, 0.1],
        [1 / 3, 1 / 3, 1 / 3],
        [1.0, 0.0, 0.0],
        [0.5, 0.0, 0.5],
        [0.97, 0.02, 0.01],
        [0.1, 0.2, 0.3, 0.4],
        [0.7, 0.1, 0.1, 0.1],
        [0.25, 0.25, 0.0, 0.5],
        [0.05, 0.3, 0.15, 0.2, 0.3],
        [0.01, 0.02, 0.03, 0.04, 0.2, 0.1, 0.6],
        [0.02, 0.08, 0.15, 0.05, 0.1, 0.12, 0.03, 0.2, 0.18, 0.07],
    ],
)
def test_chances_are_an_integral_over_the_threshold_of_the_class(p):
    assert mc.class_chances(f64(p)).tolist() == pytest.approx(chances_by_integral(p), rel=0, abs=CLOSE)


@given(st.lists(st.sampled_from([0, 0, 1, 1, 2, 5, 9, 40]), min_size=3, max_size=8).filter(any))
@settings(max_examples=50)
def test_chances_with_ties_and_zeros(counts):
    p = [count / sum(counts) for count in counts]
    assert mc.class_chances(f64(p)).tolist() == pytest.approx(chances_by_integral(p), rel=0, abs=CLOSE)


@pytest.mark.parametrize("m", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 10.0])
def test_chances_are_a_distribution(m, sharpness):
    g = torch.Generator().manual_seed(m)
    p = torch.softmax(sharpness * torch.randn(50, m, dtype=torch.float64, generator=g), -1)
    chances = mc.class_chances(p)
    assert chances.shape == p.shape
    assert chances.dtype == torch.float64
    assert chances.min() >= 0
    torch.testing.assert_close(chances.sum(-1), torch.ones(50, dtype=torch.float64), rtol=0, atol=1e-9)


def test_two_classes_give_the_probabilities_back():
    p1 = torch.cat([torch.linspace(0, 1, 101, dtype=torch.float64), f64([1e-12, 1 - 1e-12])])
    p = torch.stack([1 - p1, p1], -1)
    torch.testing.assert_close(mc.class_chances(p), p, rtol=0, atol=1e-15)


@pytest.mark.parametrize("m", [2, 3, 7, 1000])
def test_the_uniform_and_the_sure(m):
    uniform = torch.full((m,), 1 / m, dtype=torch.float64)
    torch.testing.assert_close(mc.class_chances(uniform), uniform, rtol=0, atol=EXACT)
    sure = torch.eye(m, dtype=torch.float64)
    torch.testing.assert_close(mc.class_chances(sure), sure, rtol=0, atol=EXACT)


@pytest.mark.parametrize("m", [2, 3, 6, 30])
def test_chances_follow_a_permutation(m):
    g = torch.Generator().manual_seed(m)
    p = torch.softmax(torch.randn(20, m, dtype=torch.float64, generator=g), -1)
    order = torch.randperm(m, generator=g)
    torch.testing.assert_close(mc.class_chances(p[:, order]), mc.class_chances(p)[:, order], rtol=0, atol=1e-14)


@pytest.mark.parametrize("m", [2, 3, 6, 10])
def test_of_two_classes_the_likelier_has_the_larger_chance(m):
    g = torch.Generator().manual_seed(m)
    p = torch.softmax(torch.randn(50, m, dtype=torch.float64, generator=g), -1)
    chances = mc.class_chances(p)
    larger = p.unsqueeze(-1) > p.unsqueeze(-2)
    assert (chances.unsqueeze(-1) > chances.unsqueeze(-2))[larger].all()
    assert larger.sum() == 50 * m * (m - 1) / 2  # no ties among them


def test_equal_probabilities_have_equal_chances():
    chances = mc.class_chances(f64([0.1, 0.35, 0.2, 0.35])).tolist()
    assert chances[1] == pytest.approx(chances[3], rel=0, abs=1e-15)


def test_chances_of_any_leading_shape():
    p = torch.softmax(torch.randn(2, 3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), -1)
    chances = mc.class_chances(p)
    assert chances.shape == p.shape
    for i, j, k in np.ndindex(2, 3, 5):
        torch.testing.assert_close(chances[i, j, k], mc.class_chances(p[i, j, k]), rtol=0, atol=1e-15)
    assert mc.class_chances(p[:0]).shape == (0, 3, 5, 4)


TIED_LOGITS = {
    "all different": [[0.3, -1.0, 0.8, 0.1], [2.0, 0.5, -0.7, -1.5]],
    "two equal": [[0.3, 0.3, 0.8, 0.1], [2.0, -0.7, 0.5, -0.7]],
    "three equal": [[0.3, 0.3, 0.3, 1.0], [0.3, 0.3, 0.3, -1.0]],
    "uniform": [[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]],
}


@pytest.mark.parametrize("logits", TIED_LOGITS.values(), ids=TIED_LOGITS)
@pytest.mark.parametrize("m", [2, 3, 4])
def test_gradient_of_chances_also_where_they_are_tied(logits, m):
    """The chances have a continuous derivative: at a tie it is one number, whichever way the sort goes."""
    z = f64(logits)[:, :m].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: mc.class_chances(torch.softmax(z, -1)), (z,))


@pytest.mark.parametrize("m", [6, 10])
def test_gradient_of_chances_of_many_classes(m):
    z = torch.randn(3, m, dtype=torch.float64, generator=torch.Generator().manual_seed(m)).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: mc.class_chances(torch.softmax(z, -1)), (z,))


@pytest.mark.parametrize(
    "p",
    [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1 / 3] * 3, [0.5, 0.5], [1.0, 0.0]],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_of_chances_are_finite(p, dtype):
    p = torch.tensor(p, dtype=dtype, requires_grad=True)
    for chance in mc.class_chances(p):
        (grad,) = torch.autograd.grad(chance, p, retain_graph=True)
        assert grad.isfinite().all()


# ------------------------------------------------------------------------------------------------------- decide


@pytest.mark.parametrize("m", [2, 3, 5, 20])
def test_decisions(m):
    g = torch.Generator().manual_seed(m)
    p = torch.softmax(torch.randn(40, m, dtype=torch.float64, generator=g), -1)
    tau = torch.softmax(torch.randn(m, dtype=torch.float64, generator=g), -1)
    called = mc.decide(p, tau)
    assert called.dtype == torch.int64
    assert called.tolist() == decide_by_loop(p.tolist(), tau.tolist())
    plain = mc.decide(p)
    assert plain.dtype == torch.int64
    assert plain.tolist() == decide_by_loop(p.tolist(), [0.0] * m)
    assert plain.tolist() != called.tolist()
    assert mc.decide(p, torch.full((m,), 1 / m, dtype=torch.float64)).tolist() == plain.tolist()


@pytest.mark.parametrize("m", [2, 3, 8, 64, 500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ties_go_to_the_lowest_index(m, dtype):
    assert mc.decide(torch.full((5, m), 1 / m, dtype=dtype)).tolist() == [0] * 5
    # two equal ones anywhere among zeros
    for first in {0, (m - 1) // 2, m - 2}:
        for second in {first + 1, m - 1}:
            p = torch.zeros(1, m, dtype=dtype)
            p[0, first] = p[0, second] = 0.5
            assert mc.decide(p).tolist() == [first]
            assert mc.decide(p, torch.full((m,), 1 / m, dtype=dtype)).tolist() == [first]


def test_ties_that_the_thresholds_make():
    tau = f64([0.5, 0.25, 0.25])
    assert mc.decide(f64([[0.625, 0.375, 0.0], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]), tau).tolist() == [0, 1, 0]
    assert mc.decide(f64([[0.5, 0.25, 0.25], [0.25, 0.375, 0.375]]), tau).tolist() == [0, 1]


def test_with_two_classes_the_threshold_is_the_one_of_the_second():
    p1 = torch.linspace(0.005, 0.995, 100, dtype=torch.float64)
    p = torch.stack([1 - p1, p1], -1)
    for t in (0.0, 0.123, 0.5, 0.777, 1.0):
        assert mc.decide(p, f64([1 - t, t])).tolist() == (p1 > t).long().tolist()


# ----------------------------------------------------------------------------------------------------- matrices


@pytest.mark.parametrize("m", [2, 3, 5, 10])
def test_the_matrix_is_that_of_sklearn(m):
    p, y = random_problem(80, m, seed=m)
    matrix = mc.confusion_matrix(p, y)
    assert isinstance(matrix, mc.MulticlassMatrix)
    assert matrix.cells.shape == (m, m)
    assert matrix.cells.dtype == torch.float64
    called = p.numpy().argmax(1)
    exact = skm.confusion_matrix(y.numpy(), called, labels=range(m))
    np.testing.assert_array_equal(np.asarray(matrix), exact)
    assert matrix.cells.tolist() == exact.tolist()
    assert matrix.hits.tolist() == exact.diagonal().tolist()
    assert matrix.truth.tolist() == exact.sum(1).tolist()
    assert matrix.called.tolist() == exact.sum(0).tolist()
    assert matrix.total.item() == 80
    for by in ("true", "pred", "all"):
        shares = skm.confusion_matrix(y.numpy(), called, labels=range(m), normalize=by)
        np.testing.assert_allclose(np.asarray(matrix.normalized(by)), shares, rtol=0, atol=1e-15)
    each = skm.multilabel_confusion_matrix(y.numpy(), called, labels=range(m))
    binary = matrix.one_vs_rest()
    assert isinstance(binary, sw.ConfusionMatrix)
    assert binary.tp.shape == (m,)
    np.testing.assert_array_equal(np.asarray(binary), each)


def test_the_matrix_with_thresholds_mask_and_weights():
    g = torch.Generator().manual_seed(1)
    p, y = random_problem(60, 4, seed=1)
    tau = f64([0.1, 0.4, 0.3, 0.2])
    keep, weight = torch.rand(60, generator=g) < 0.7, torch.rand(60, generator=g, dtype=torch.float64) * 3
    called = decide_by_loop(p.tolist(), tau.tolist())
    exact = count_by_loop(called, y.tolist(), 4, (weight * keep).tolist())
    matrix = mc.confusion_matrix(p, y, tau, mask=keep, sample_weight=weight)
    assert matrix.cells.flatten().tolist() == pytest.approx(np.ravel(exact).tolist(), rel=0, abs=EXACT)
    same = mc.confusion_matrix(p.log() + 3, y, tau, from_logits=True, mask=keep, sample_weight=weight)
    torch.testing.assert_close(same.cells, matrix.cells, rtol=0, atol=EXACT)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_the_expected_matrix_is_that_of_a_loop(m):
    g = torch.Generator().manual_seed(m)
    p, y = random_problem(12, m, seed=m)
    matrix = mc.expected_confusion_matrix(p, y)
    assert isinstance(matrix, mc.MulticlassMatrix)
    assert matrix.cells.shape == (m, m)
    assert matrix.cells.dtype == torch.float64
    exact = expected_by_loop(p.tolist(), y.tolist())
    np.testing.assert_allclose(np.asarray(matrix), exact, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(matrix.truth, np.bincount(y, minlength=m), rtol=0, atol=CLOSE)

    keep, weight = torch.rand(12, generator=g) < 0.7, torch.rand(12, generator=g, dtype=torch.float64) * 3
    weighed = expected_by_loop(p.tolist(), y.tolist(), (weight * keep).tolist())
    for x, from_logits in ((p, False), (p.log() - 2, True)):
        matrix = mc.expected_confusion_matrix(x, y, from_logits=from_logits, mask=keep, sample_weight=weight)
        np.testing.assert_allclose(np.asarray(matrix), weighed, rtol=0, atol=CLOSE)


def test_the_expected_matrix_has_a_gradient():
    _, y = random_problem(6, 3, seed=0)
    z = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: mc.expected_confusion_matrix(z, y, from_logits=True).cells, (z,))


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
each_matrix = pytest.mark.parametrize(
    "function", [mc.confusion_matrix, mc.expected_confusion_matrix], ids=["at tau", "expected"]
)


@each_matrix
def test_any_way_to_write_the_targets(function):
    p, y = random_problem(30, 4, seed=3)
    exact = function(p, y).cells
    hot = one_hot(y, 4)
    assert exact.trace() > 0
    for dtype in INTEGERS:
        assert torch.equal(function(p, y.to(dtype)).cells, exact)
    for dtype in [*INTEGERS, torch.bool, torch.float16, torch.float32, torch.float64]:
        torch.testing.assert_close(function(p, hot.to(dtype)).cells, exact, rtol=0, atol=EXACT)
    assert torch.equal(function(p.numpy(), y.numpy()).cells, exact)
    for dtype in (np.uint8, np.int32, np.uint16, np.uint32, np.uint64):
        assert torch.equal(function(p.numpy(), y.numpy().astype(dtype)).cells, exact)


@each_matrix
def test_matrices_are_added(function):
    p, y = random_problem(30, 4, seed=3)
    whole = function(p, y).cells
    parts = [function(p[i : i + 10], y[i : i + 10]) for i in (0, 10, 20)]
    torch.testing.assert_close((parts[0] + parts[1] + parts[2]).cells, whole, rtol=0, atol=EXACT)
    torch.testing.assert_close(sum(parts).cells, whole, rtol=0, atol=EXACT)
    assert isinstance(sum(parts), mc.MulticlassMatrix)
    with pytest.raises(ValueError, match=r"4.*3|3.*4"):
        parts[0] + function(p[:, :3] / p[:, :3].sum(1, keepdim=True), y.clamp(max=2))
    with pytest.raises(TypeError):
        parts[0] + 1.0


@each_matrix
def test_masked_samples_are_in_no_cell(function):
    p, y = random_problem(20, 3, seed=4)
    keep = torch.arange(20) % 3 != 0
    exact = function(p[keep], y[keep]).cells
    unknown = torch.where(keep.unsqueeze(1), p, NAN)
    torch.testing.assert_close(function(unknown, y, mask=keep).cells, exact, rtol=0, atol=EXACT)
    hot = torch.where(keep.unsqueeze(1), one_hot(y, 3).double(), NAN)
    torch.testing.assert_close(function(unknown, hot, mask=keep).cells, exact, rtol=0, atol=EXACT)
    for nowhere in (-1, -100, 3):  # as the ignore_index of other losses
        classes = torch.where(keep, y, nowhere)
        torch.testing.assert_close(function(p, classes, mask=keep).cells, exact, rtol=0, atol=EXACT)


@each_matrix
def test_no_samples(function):
    for matrix in (
        function(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)),
        function(torch.zeros(0, 3), torch.zeros(0, 3)),
        function(torch.full((2, 3), 1 / 3), torch.tensor([0, 1]), mask=torch.tensor([False, False])),
    ):
        assert matrix.cells.tolist() == [[0.0] * 3] * 3
        for by in ("true", "pred", "all"):
            assert matrix.normalized(by).cells.tolist() == [[0.0] * 3] * 3


def test_a_sum_over_many_samples_does_not_round():
    """Counts are exact beyond 2^24, where float32 stops counting."""
    weight = torch.tensor([2.0**24, 1.0, 1.0, 1.0])
    p = torch.tensor([[1.0, 0.0, 0.0]]).expand(4, 3)
    for matrix in (
        mc.confusion_matrix(p, torch.zeros(4, dtype=torch.int64), sample_weight=weight),
        mc.expected_confusion_matrix(p, torch.zeros(4, dtype=torch.int64), sample_weight=weight),
    ):
        assert matrix.total.item() == 2**24 + 3


@each_matrix
@pytest.mark.parametrize(
    ("dtype", "m"),
    [(torch.float32, 1000), (torch.float32, 3), (torch.float16, 10), (torch.bfloat16, 3), (torch.bfloat16, 10)],
    ids=str,
)
def test_a_softmax_is_a_distribution_in_narrow_numbers_too(function, dtype, m):
    """Its rows sum to 1 up to a rounding of each probability, and must not be refused for that."""
    z = torch.randn(50, m, generator=torch.Generator().manual_seed(m))
    p = torch.softmax(z.to(dtype), -1)
    matrix = function(p, torch.arange(50) % m)
    # At most half an ulp of 1 for the probabilities together. A count is a count; an expected one is off by that.
    assert matrix.total.item() == pytest.approx(50, rel=torch.finfo(dtype).eps)


def test_a_matrix_normalized_by_nonsense():
    with pytest.raises(ValueError, match=r"'true', 'pred' or 'all'.*'rows'"):
        matrix_of([[1, 2], [3, 4]]).normalized("rows")


# ------------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("name", SKLEARN)
@pytest.mark.parametrize("m", [2, 3, 6])
@pytest.mark.parametrize("expected", [False, True], ids=["counts", "expected"])
def test_scores_are_those_of_sklearn(name, m, expected):
    p, y = random_problem(90, m, seed=10 + m)
    matrix = mc.expected_confusion_matrix(p, y) if expected else mc.confusion_matrix(p, y)
    assert matrix.truth.min() > 0
    assert matrix.called.min() > 0
    value = mc.scores.get(name)(matrix)
    assert value.shape == ()
    assert value.item() == pytest.approx(SKLEARN[name](matrix.cells.numpy()), rel=0, abs=EXACT)


@pytest.mark.parametrize("name", MULTICLASS)
def test_multiclass_scores_are_functions_too(name):
    matrix = matrix_of([[5, 2, 1], [0, 3, 4], [2, 2, 6]])
    value = getattr(mc.scores, name)(matrix).item()
    assert value == pytest.approx(SKLEARN[name](matrix.cells.numpy()), rel=0, abs=EXACT)
    assert mc.scores.get(getattr(mc.scores, name))(matrix).item() == value


def test_scores_by_hand():
    matrix = matrix_of([[2, 1, 1], [0, 3, 1], [0, 0, 4]])
    assert mc.scores.get("accuracy")(matrix).item() == pytest.approx(9 / 12)
    assert mc.scores.get("error_rate")(matrix).item() == pytest.approx(3 / 12)
    # called 2, 4, 6 and 4 each in truth: by chance (2 + 4 + 6) * 4 / 144 = 1/3
    assert mc.scores.get("kappa")(matrix).item() == pytest.approx((3 / 4 - 1 / 3) / (1 - 1 / 3))
    assert mc.scores.get("hss")(matrix).item() == pytest.approx((3 / 4 - 1 / 3) / (1 - 1 / 3))
    # 9 hits of 12 and 48 by chance; the squares of what was called sum to 56, those of the truth to 48
    assert mc.scores.get("mcc")(matrix).item() == pytest.approx(60 / math.sqrt(88 * 96))
    # F1: 4/6, 6/8, 8/10
    assert mc.scores.get("f1")(matrix).item() == pytest.approx((4 / 6 + 6 / 8 + 8 / 10) / 3)
    assert mc.scores.one_vs_rest("f1", average="min")(matrix).item() == pytest.approx(4 / 6)
    # -(1*1 + 2.5*1 + 0.5*1 + 0.25*4), row = truth
    assert mc.scores.cost(f64(COSTS))(matrix).item() == pytest.approx(-5.0)


@pytest.mark.parametrize("name", sw.scores.names())
def test_averages_of_binary_scores(name):
    cells = [[5.0, 2.0, 1.5], [0.25, 3.0, 4.0], [2.0, 2.5, 16.0]]
    matrix = matrix_of(cells)
    exact = binary_scores(name, cells)
    truth = [sum(row) for row in cells]
    pooled = [sum(four) for four in zip(*binary_by_loop(cells), strict=True)]
    for score in (name, sw.scores.get(name)):
        each = mc.scores.one_vs_rest(score, average=None)(matrix)
        assert each.shape == (3,)
        assert each.tolist() == pytest.approx(exact, rel=0, abs=EXACT)
        for average, value in {
            "macro": sum(exact) / 3,
            "weighted": sum(t * s for t, s in zip(truth, exact, strict=True)) / sum(truth),
            "min": max(exact) if name == "error_rate" else min(exact),  # that of the worst class
            "micro": sw.scores.get(name)(sw.ConfusionMatrix(*pooled)).item(),
            torch.median: sorted(exact)[1],
        }.items():
            found = mc.scores.one_vs_rest(score, average=average)(matrix)
            assert found.shape == ()
            assert found.item() == pytest.approx(value, rel=0, abs=EXACT)
        assert mc.scores.one_vs_rest(score)(matrix).item() == pytest.approx(sum(exact) / 3, rel=0, abs=EXACT)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("f1", skm.f1_score),
        ("precision", skm.precision_score),
        ("recall", skm.recall_score),
        ("jaccard", skm.jaccard_score),
        ("csi", skm.jaccard_score),
    ],
)
@pytest.mark.parametrize("average", ["macro", "weighted", "micro", None])
@pytest.mark.parametrize("m", [2, 3, 6])
def test_averages_are_those_of_sklearn(name, function, average, m):
    p, y = random_problem(90, m, seed=20 + m)
    weight = torch.rand(90, dtype=torch.float64, generator=torch.Generator().manual_seed(m))
    matrix = mc.confusion_matrix(p, y, sample_weight=weight)
    exact = function(y.numpy(), p.numpy().argmax(1), average=average, labels=range(m), sample_weight=weight.numpy())
    found = mc.scores.one_vs_rest(name, average=average)(matrix)
    np.testing.assert_allclose(found, exact, rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", BINARY_ONLY)
def test_a_binary_name_means_the_mean_over_classes(name):
    cells = [[5.0, 2.0, 1.5], [0.25, 3.0, 4.0], [2.0, 2.5, 16.0]]
    exact = binary_scores(name, cells)
    assert mc.scores.get(name)(matrix_of(cells)).item() == pytest.approx(sum(exact) / 3, rel=0, abs=EXACT)


def test_synonyms_of_binary_scores():
    matrix = matrix_of([[5, 2, 1], [0, 3, 4], [2, 2, 6]])
    assert mc.scores.get("dice")(matrix).item() == mc.scores.get("f1")(matrix).item()
    assert mc.scores.one_vs_rest("pss")(matrix).item() == mc.scores.one_vs_rest("tss")(matrix).item()


@pytest.mark.parametrize("m", [2, 3, 5])
def test_a_perfect_forecast(m):
    matrix = matrix_of(np.diag(np.arange(1, m + 1)))
    exact = {"accuracy": 1, "error_rate": 0, "kappa": 1, "hss": 1, "mcc": 1, "f1": 1, "tss": 1, "csi": 1}
    assert {name: mc.scores.get(name)(matrix).item() for name in exact} == pytest.approx(exact, rel=0, abs=EXACT)


@pytest.mark.parametrize(
    "cells",
    [
        [[0.0] * 3] * 3,
        [[7.0, 0.0, 0.0], [0.0] * 3, [0.0] * 3],
        [[0.0, 7.0, 0.0], [0.0] * 3, [0.0] * 3],
        [[4.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
        [[4.0, 2.0, 1.0], [0.0] * 3, [0.0] * 3],
    ],
    ids=["empty", "one hit", "one error", "one class called", "one class in truth"],
)
def test_a_zero_denominator_gives_zero(cells):
    matrix = matrix_of(cells)
    assert mc.scores.get("mcc")(matrix).item() == 0
    for name in ("kappa", "hss"):
        # (hits - chance) / (total - chance), and chance is hits, or total, or there is nothing to be divided.
        assert mc.scores.get(name)(matrix).item() == 0
    total = sum(map(sum, cells))
    hits = sum(cells[i][i] for i in range(3))
    assert mc.scores.get("accuracy")(matrix).item() == pytest.approx(hits / total if total else 0.0)
    assert mc.scores.get("error_rate")(matrix).item() == pytest.approx(1 - hits / total if total else 0.0)
    for average in ("macro", "weighted", "micro", "min"):
        value = mc.scores.one_vs_rest("f1", average=average)(matrix).item()
        if total:
            exact = by_sklearn(cells, skm.f1_score, average=None, labels=range(3), zero_division=0)
            truth = np.sum(cells, 1)
            expected = {
                "macro": exact.mean(),
                "weighted": (exact * truth).sum() / total,
                "micro": hits / total,
                "min": exact.min(),
            }[average]
            assert value == pytest.approx(expected, rel=0, abs=EXACT)
        else:
            assert value == 0


@pytest.mark.parametrize("m", [3, 8, 20])
def test_a_cell_that_is_zero_stays_zero(m):
    """With weights, sums in two orders differ by a rounding error; a division by that is no score."""
    generator = np.random.default_rng(m)
    for _ in range(40):
        c = generator.integers(m)
        only_called, cross, never_called = np.zeros((m, m)), np.zeros((m, m)), generator.random((m, m))
        only_called[:, c] = cross[:, c] = generator.random(m)
        cross[c, :] = generator.random(m)
        never_called[:, c] = 0
        for cells in (only_called, cross, only_called.T, never_called):
            matrix = matrix_of(cells)
            exact = np.array(binary_by_loop(cells.tolist()))
            binary = matrix.one_vs_rest()
            found = torch.stack([binary.tn, binary.fp, binary.fn, binary.tp], -1).numpy()
            np.testing.assert_array_equal(found == 0, exact == 0)
            np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)
            for name in ("npv", "yule_q", "recall", "precision", "gmean"):
                each = mc.scores.one_vs_rest(name, average=None)(matrix).tolist()
                assert each == pytest.approx(binary_scores(name, cells.tolist()), rel=0, abs=1e-10), name


@pytest.mark.parametrize("m", [3, 8, 20])
def test_one_class_called_has_no_skill_whatever_the_weights(m):
    generator = torch.Generator().manual_seed(m)
    for _ in range(40):
        cells = torch.zeros(m, m, dtype=torch.float64)
        cells[:, 1] = torch.rand(m, dtype=torch.float64, generator=generator)
        for one in (cells, cells.T.contiguous()):
            for name in ("kappa", "hss", "mcc"):
                assert abs(mc.scores.get(name)(matrix_of(one)).item()) < EXACT, name


def test_unknown_scores():
    for call in (mc.scores.get, sw.SimplexLoss):
        with pytest.raises(ValueError, match="nonsense") as told:
            call("nonsense")
        for name in ("accuracy", "kappa", "mcc", "f1"):
            assert re.search(rf"\b{name}\b", str(told.value))
    with pytest.raises(TypeError):
        mc.scores.get(7)
    with pytest.raises(ValueError, match="nonsense"):
        mc.scores.one_vs_rest("nonsense")


@pytest.mark.parametrize("average", ["nonsense", "Macro", 3, True])
def test_unknown_averages(average):
    for call in (mc.scores.one_vs_rest, sw.SimplexLoss, sw.OneVsRestLoss):
        with pytest.raises((ValueError, TypeError), match=rf"average.*{average}"):
            call("f1", average=average)


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ([1.0, 2.0], r"\(2,\)"),
        ([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]], r"\(2, 3\)|2 × 3|2 x 3"),
        ([[0.0, -1.0], [1.0, 0.0]], "-1"),
        ([[0.0, NAN], [1.0, 0.0]], "(?i)nan"),
        ([[0.0, math.inf], [1.0, 0.0]], "inf"),
    ],
)
def test_costs_that_are_none(costs, told):
    with pytest.raises(ValueError, match=told):
        mc.scores.cost(f64(costs))


def test_costs_of_another_number_of_classes():
    with pytest.raises(ValueError, match=r"3.*2|2.*3"):
        mc.scores.cost(f64(COSTS))(matrix_of([[1, 2], [3, 4]]))
    with pytest.raises(ValueError, match=r"3.*2|2.*3"):
        sw.SimplexLoss(mc.scores.cost(f64(COSTS)))(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0]))


# -------------------------------------------------------------------------------------------------- SimplexLoss


@pytest.mark.parametrize("name", SKLEARN)
def test_the_loss_is_minus_the_score_of_the_expected_matrix(name):
    p, y = random_problem(15, 3, seed=30)
    exact = SKLEARN[name](expected_by_loop(p.tolist(), y.tolist()))
    sign = 1 if name == "error_rate" else -1
    value = sw.SimplexLoss(name)(p.log() + 0.5, y)
    assert value.shape == ()
    assert value.item() == pytest.approx(sign * exact, rel=0, abs=CLOSE)
    assert sw.SimplexLoss(name, from_logits=False)(p, y).item() == pytest.approx(sign * exact, rel=0, abs=CLOSE)
    hot = sw.SimplexLoss(name)(p.log(), one_hot(y, 3).float())
    assert hot.item() == pytest.approx(sign * exact, rel=0, abs=CLOSE)


@pytest.mark.parametrize("average", ["macro", "weighted", "min", "micro", None])
def test_the_loss_of_an_average(average):
    p, y = random_problem(15, 3, seed=31)
    cells = expected_by_loop(p.tolist(), y.tolist())
    each = by_sklearn(cells, skm.f1_score, average=None)
    exact = each.min() if average == "min" else by_sklearn(cells, skm.f1_score, average=average)
    for score in ("f1", sw.scores.get("f1"), mc.scores.one_vs_rest("f1", average=average)):
        given = {} if callable(score) and not isinstance(score, sw.scores.Score) else {"average": average}
        value = sw.SimplexLoss(score, **given)(p.log(), y)
        assert value.shape == (() if average else (3,))
        np.testing.assert_allclose(value, -exact, rtol=0, atol=CLOSE)


def test_the_loss_of_a_sum_of_binary_scores():
    p, y = random_problem(15, 3, seed=32)
    cells = expected_by_loop(p.tolist(), y.tolist())
    exact = 0.7 * np.mean(binary_scores("tss", cells)) + 0.3 * np.mean(binary_scores("f1", cells))
    score = 0.7 * sw.scores.get("tss") + 0.3 * sw.scores.get("f1")
    assert sw.SimplexLoss(score)(p.log(), y).item() == pytest.approx(-exact, rel=0, abs=CLOSE)


def test_one_against_the_rest_of_a_score_that_has_a_multiclass_definition():
    p, y = random_problem(15, 3, seed=33)
    cells = expected_by_loop(p.tolist(), y.tolist())
    for name in ("mcc", "kappa", "accuracy"):
        each = binary_scores(name, cells)
        assert abs(np.mean(each) - SKLEARN[name](cells)) > 1e-4
        for score in (mc.scores.one_vs_rest(name), mc.scores.one_vs_rest(sw.scores.get(name))):
            assert sw.SimplexLoss(score)(p.log(), y).item() == pytest.approx(-np.mean(each), rel=0, abs=CLOSE)
        value = sw.SimplexLoss(name, average=None)(p.log(), y)
        assert value.tolist() == pytest.approx([-one for one in each], rel=0, abs=CLOSE)


def test_the_loss_of_costs():
    p, y = random_problem(15, 3, seed=34)
    cells = expected_by_loop(p.tolist(), y.tolist())
    exact = sum(COSTS[i][j] * cells[i][j] for i in range(3) for j in range(3))
    assert sw.SimplexLoss(mc.scores.cost(f64(COSTS)))(p.log(), y).item() == pytest.approx(exact, rel=0, abs=1e-8)


def test_the_matrix_of_the_loss():
    p, y = random_problem(15, 3, seed=35)
    keep, weight = torch.arange(15) % 4 != 1, torch.linspace(0.1, 3, 15, dtype=torch.float64)
    matrix = sw.SimplexLoss("mcc").matrix(p.log(), y, mask=keep, sample_weight=weight)
    assert isinstance(matrix, mc.MulticlassMatrix)
    exact = expected_by_loop(p.tolist(), y.tolist(), (weight * keep).tolist())
    np.testing.assert_allclose(np.asarray(matrix), exact, rtol=0, atol=CLOSE)
    value = sw.SimplexLoss("mcc")(p.log(), y, mask=keep, sample_weight=weight).item()
    assert value == pytest.approx(-SKLEARN["mcc"](exact), rel=0, abs=CLOSE)


def binary_problem():
    g = torch.Generator().manual_seed(6)
    return 2 * torch.randn(40, 2, dtype=torch.float64, generator=g), (torch.rand(40, generator=g) < 0.3).long()


@pytest.mark.parametrize("name", ["accuracy", "error_rate", "tss", "hss", "kappa", "mcc"])
@pytest.mark.parametrize("weighed", [False, True])
def test_two_classes_are_the_binary_loss(name, weighed):
    logits, y = binary_problem()
    keep, weight = torch.arange(40) % 5 != 2, torch.linspace(0, 2, 40, dtype=torch.float64)
    arguments = {"mask": keep, "sample_weight": weight} if weighed else {}
    value, grad = value_and_gradient(sw.SimplexLoss(name), logits, y, **arguments)
    binary, slope = value_and_gradient(sw.ScoreLoss(name), logits[:, 1] - logits[:, 0], y, **arguments)
    assert slope.abs().max() > 1e-4
    torch.testing.assert_close(value, binary, rtol=0, atol=EXACT)
    torch.testing.assert_close(grad, torch.stack([-slope, slope], -1), rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["f1", "csi", "precision", "recall", "gmean", "sedi"])
def test_two_classes_are_the_mean_of_both_binary_losses(name):
    logits, y = binary_problem()
    value, grad = value_and_gradient(sw.SimplexLoss(name), logits, y)
    z = logits[:, 1] - logits[:, 0]
    one, slope = value_and_gradient(sw.ScoreLoss(name), z, y)
    other, other_slope = value_and_gradient(sw.ScoreLoss(name), -z, 1 - y)
    slope = (slope - other_slope) / 2
    torch.testing.assert_close(value, (one + other) / 2, rtol=0, atol=EXACT)
    torch.testing.assert_close(grad, torch.stack([-slope, slope], -1), rtol=0, atol=EXACT)


@each_score_of_3
def test_gradient_of_every_score(case):
    _, y = random_problem(7, 3, seed=40)
    z = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(40)).requires_grad_()
    loss = sw.SimplexLoss(score_of_3(case))
    assert torch.autograd.gradcheck(lambda z: loss(z, y), (z,))
    (grad,) = torch.autograd.grad(loss(z, y), z)
    assert grad.abs().max() > 1e-4


@pytest.mark.parametrize("average", ["weighted", "min", "micro", None, torch.prod])
def test_gradient_of_every_average(average):
    _, y = random_problem(7, 3, seed=40)
    z = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(41)).requires_grad_()
    weight, keep = torch.linspace(0.5, 2, 7, dtype=torch.float64), torch.arange(7) != 4
    loss = sw.SimplexLoss("tss", average=average)
    assert torch.autograd.gradcheck(lambda z: loss(z, y, mask=keep, sample_weight=weight), (z,))


def test_gradient_at_ties():
    """Where logits are equal, as at the start of training."""
    z = f64([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.5, 0.5, -1.0], [0.0, 0.0, 0.0]]).requires_grad_()
    for name in ("accuracy", "kappa", "mcc", "f1"):
        loss = sw.SimplexLoss(name)
        assert torch.autograd.gradcheck(lambda z, loss=loss: loss(z, torch.tensor([0, 1, 2, 2])), (z,))


def test_equal_logits_learn():
    z, y = torch.zeros(6, 4), torch.tensor([0, 1, 2, 3, 3, 3])
    for name in ("accuracy", "kappa", "mcc", "f1"):
        _, grad = value_and_gradient(sw.SimplexLoss(name), z, y)
        assert (grad[range(6), y] < 0).all()  # a step against it raises the logit of the truth


@each_score_of_3
def test_masked_rows_may_be_nan_and_have_no_gradient(case):
    _, y = random_problem(12, 3, seed=50)
    z = torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(50))
    keep = torch.arange(12) % 3 != 1
    loss = sw.SimplexLoss(score_of_3(case))
    exact, slope = value_and_gradient(loss, z[keep], y[keep])
    for targets in (y, torch.where(keep.unsqueeze(1), one_hot(y, 3).double(), NAN)):
        unknown = torch.where(keep.unsqueeze(1), z, NAN)
        value, grad = value_and_gradient(loss, unknown, targets, mask=keep)
        torch.testing.assert_close(value, exact, rtol=0, atol=EXACT)
        torch.testing.assert_close(grad[keep], slope, rtol=0, atol=EXACT)
        assert (grad[~keep] == 0).all()


def test_masked_classes_may_be_anything():
    p, y = random_problem(12, 3, seed=51)
    keep = torch.arange(12) % 3 != 1
    exact = sw.SimplexLoss("mcc")(p[keep].log(), y[keep])
    for nowhere in (-1, -100, 3):
        value = sw.SimplexLoss("mcc")(p.log(), torch.where(keep, y, nowhere), mask=keep)
        torch.testing.assert_close(value, exact, rtol=0, atol=EXACT)


HARD_CASES = {
    "empty": (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)),
    "one class": (torch.tensor([[0.3, 1.0, -1.0], [0.5, 0.2, 0.1]]), torch.tensor([1, 1])),
    "a class absent": (torch.tensor([[0.3, 1.0, -1.0], [0.5, 0.2, 0.1]]), torch.tensor([2, 0])),
    "sure and right": (1600 * torch.eye(3) - 800, torch.tensor([0, 1, 2])),
    "sure and wrong": (1600 * torch.eye(3) - 800, torch.tensor([1, 2, 0])),
    "sure of one class": (torch.tensor([[800.0, -800.0, -800.0]] * 4), torch.tensor([0, 1, 2, 0])),
    "sure of two": (torch.tensor([[800.0, 800.0, -800.0]] * 3), torch.tensor([0, 1, 2])),
    "equal": (torch.zeros(5, 3), torch.tensor([0, 1, 2, 0, 0])),
    "equal and one class": (torch.zeros(5, 3), torch.tensor([1] * 5)),
    "no weight": (torch.tensor([[0.3, 1.0, -1.0], [0.5, 0.2, 0.1]]), torch.tensor([2, 0])),
}


@each_score_of_3
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_values_and_gradients_are_finite(case, dtype):
    loss = sw.SimplexLoss(score_of_3(case))
    for name, (z, y) in HARD_CASES.items():
        arguments = {"sample_weight": torch.zeros(len(z))} if name == "no weight" else {}
        value, grad = value_and_gradient(loss, z.to(dtype), y, **arguments)
        assert value.isfinite(), name
        assert grad.isfinite().all(), name
        assert grad.shape == z.shape
        assert grad.dtype == dtype


@pytest.mark.parametrize("name", MULTICLASS)
def test_values_of_hard_cases(name):
    loss = sw.SimplexLoss(name)
    exact = {
        "empty": 0.0,
        "no weight": 0.0,
        "sure and right": 0.0 if name == "error_rate" else -1.0,
        # three errors of three; kappa and MCC by chance 1/3, so -(0 - 1/3) / (1 - 1/3)
        "sure and wrong": {"accuracy": 0.0, "error_rate": 1.0}.get(name, 0.5),
        "sure of one class": {"accuracy": -0.5, "error_rate": 0.5}.get(name, 0.0),
    }
    for case, value in exact.items():
        z, y = HARD_CASES[case]
        arguments = {"sample_weight": torch.zeros(len(z))} if case == "no weight" else {}
        assert loss(z.double(), y, **arguments).item() == pytest.approx(value, rel=0, abs=EXACT), case


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", [*MULTICLASS, "f1", "tss"])
def test_narrow_logits(name, dtype):
    """Computed in float32 at least: as good as float64 would be with these same logits."""
    _, y = random_problem(60, 5, seed=60)
    z = (2 * torch.randn(60, 5, generator=torch.Generator().manual_seed(60))).to(dtype)
    value, grad = value_and_gradient(sw.SimplexLoss(name), z, y)
    exact, slope = value_and_gradient(sw.SimplexLoss(name), z.double(), y)
    assert value.dtype == torch.float32
    assert grad.dtype == dtype
    # A softmax and a fourth power, in float32: some dozens of 6e-8. The gradient is then rounded to its dtype.
    assert value.item() == pytest.approx(exact.item(), rel=0, abs=3e-6)
    torch.testing.assert_close(grad.double(), slope, rtol=2 * torch.finfo(dtype).eps, atol=3e-6)


@pytest.fixture
def _fresh_compiler():
    torch.compiler.reset()


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("case", ["error_rate", "kappa", "mcc", "sedi", "micro", "weighted", "min", "cost matrix"])
def test_compiled(case):
    p, y = random_problem(20, 3, seed=70)
    arguments = {"mask": torch.arange(20) % 5 != 2, "sample_weight": torch.linspace(0.1, 2, 20, dtype=torch.float64)}
    loss = sw.SimplexLoss(score_of_3(case))
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    exact = value_and_gradient(loss, p.log(), y, **arguments)
    for _ in range(2):  # the second call has state from the first
        found = value_and_gradient(compiled, p.log(), y, **arguments)
        torch.testing.assert_close(found, exact, rtol=0, atol=EXACT)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("hot", [False, True])
def test_compiled_with_probabilities(hot):
    p, y = random_problem(20, 3, seed=71)
    y = one_hot(y, 3) if hot else y
    loss = sw.SimplexLoss("accuracy", from_logits=False)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(value_and_gradient(compiled, p, y), value_and_gradient(loss, p, y), rtol=0, atol=EXACT)


@pytest.mark.parametrize("score", ["mcc", "f1"])
def test_losses_can_be_copied_and_saved(score):
    p, y = random_problem(20, 3, seed=72)
    for loss in (sw.SimplexLoss(score), sw.OneVsRestLoss(score)):
        for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):  # noqa: S301  # our own
            assert other(p.log(), y).item() == loss(p.log(), y).item()


def test_a_thousand_classes():
    g = torch.Generator().manual_seed(80)
    z, y = torch.randn(256, 1000, generator=g), torch.randint(1000, (256,), generator=g)
    for score in ("accuracy", "kappa", "mcc", "f1", mc.scores.one_vs_rest("tss", average="weighted")):
        value, grad = value_and_gradient(sw.SimplexLoss(score), z, y)
        exact, slope = value_and_gradient(sw.SimplexLoss(score), z.double(), y)
        assert grad.isfinite().all()
        assert grad.abs().max() > 0
        # The 999th power of what float32 knows to some 6e-8: 1e-4 of it.
        assert value.item() == pytest.approx(exact.item(), rel=2e-3, abs=1e-6)
        assert torch.nn.functional.cosine_similarity(grad.double().flatten(), slope.flatten(), dim=0) > 0.999


def test_a_step_along_the_gradient_improves_the_score():
    """End to end: a linear model learns classes of which one is rare."""
    g = torch.Generator().manual_seed(90)
    y = torch.cat([torch.zeros(150), torch.ones(40), torch.full((10,), 2.0)]).long()
    x = torch.randn(200, 2, generator=g) + f64([[0.0, 0.0], [2.0, 0.0], [0.0, 2.5]]).float()[y]
    model = torch.nn.Linear(2, 3)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    loss = sw.SimplexLoss("mcc")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    called = model(x).argmax(1)
    assert skm.matthews_corrcoef(y.numpy(), called.numpy()) > 0.5  # 0 without learning
    assert set(called.tolist()) == {0, 1, 2}


# ------------------------------------------------------------------------------------------------ OneVsRestLoss


def columns(score, z, y, *, mask=None, sample_weight=None, **keywords):
    """The binary loss of every class against the rest, one after the other."""
    arguments = {"mask": mask, "sample_weight": sample_weight}
    return torch.stack([sw.ScoreLoss(score, **keywords)(z[:, j], y == j, **arguments) for j in range(z.shape[1])])


@pytest.mark.parametrize("name", sw.scores.names())
def test_one_against_the_rest_is_the_mean_of_binary_losses(name):
    _, y = random_problem(25, 4, seed=100)
    z = torch.randn(25, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(100))
    value, grad = value_and_gradient(sw.OneVsRestLoss(name), z, y)
    exact, slope = value_and_gradient(lambda z, y: columns(name, z, y).mean(), z, y)
    assert value.shape == ()
    torch.testing.assert_close(value, exact, rtol=0, atol=EXACT)
    torch.testing.assert_close(grad, slope, rtol=0, atol=EXACT)
    plain, _ = value_and_gradient(sw.ScoreLoss(name), z, one_hot(y, 4))
    torch.testing.assert_close(value, plain, rtol=0, atol=EXACT)
    hot, _ = value_and_gradient(sw.OneVsRestLoss(name), z, one_hot(y, 4).double())
    torch.testing.assert_close(value, hot, rtol=0, atol=EXACT)


@pytest.mark.parametrize(
    "keywords",
    [
        {"prior": sw.priors.RaisedCosine(0.4, 0.3)},
        {"weight": sw.weights.Cost(fp=1.0, fn=3.0)},
        {"prior": sw.priors.Beta(2.0, 3.0), "exact": True},
    ],
    ids=["prior", "weight", "exact"],
)
def test_one_against_the_rest_with_everything_a_score_loss_takes(keywords):
    _, y = random_problem(25, 4, seed=101)
    z = torch.randn(25, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(101))
    context = {"mask": torch.arange(25) % 4 != 1, "sample_weight": torch.linspace(0.1, 2, 25, dtype=torch.float64)}
    exact = columns("hss", z, y, **context, **keywords).mean()
    torch.testing.assert_close(sw.OneVsRestLoss("hss", **keywords)(z, y, **context), exact, rtol=0, atol=EXACT)
    assert abs(exact - columns("hss", z, y).mean()) > 1e-4
    p = torch.sigmoid(z)
    value = sw.OneVsRestLoss("hss", from_logits=False, **keywords)(p, y, **context)
    torch.testing.assert_close(value, exact, rtol=0, atol=1e-10)


def test_one_against_the_rest_in_time():
    _, y = random_problem(24, 3, seed=102)
    z = torch.randn(24, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(102))
    weight = sw.weights.Value([0.5, 0.25])
    groups, times = torch.arange(24) // 12, torch.arange(24) % 12 * 2
    costs = torch.rand(24, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(103))
    context = {"groups": groups, "times": times, "costs": costs}
    value = sw.OneVsRestLoss("tss", weight=weight)(z, y, **context)
    exact = sum(sw.ScoreLoss("tss", weight=weight)(z[:, j], (y == j).long(), **context) for j in range(3)) / 3
    torch.testing.assert_close(value, exact, rtol=0, atol=EXACT)


def geometric_mean(values):
    """Not odd, so that it tells the scores from minus the scores."""
    return values.abs().log().mean().exp()


@pytest.mark.parametrize("name", ["f1", "error_rate"])
def test_averages_of_one_against_the_rest(name):
    _, y = random_problem(25, 4, seed=104)
    z = torch.randn(25, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(104))
    sign = 1 if name == "error_rate" else -1
    each = sign * columns(name, z, y)
    assert sw.OneVsRestLoss(name, average=None)(z, y).tolist() == pytest.approx((sign * each).tolist(), abs=EXACT)
    pooled = sum(
        (sw.expected_confusion_matrix(z[:, j], (y == j).long(), from_logits=True) for j in range(4)),
        start=sw.ConfusionMatrix(0, 0, 0, 0),
    )
    for average, exact in {
        "macro": each.mean(),
        "weighted": (each * y.bincount(minlength=4)).sum() / 25,
        "min": each.max() if name == "error_rate" else each.min(),  # that of the worst class
        "micro": sw.scores.get(name)(pooled),
        geometric_mean: each.log().mean().exp(),  # of the scores themselves
    }.items():
        value = sw.OneVsRestLoss(name, average=average)(z, y)
        assert value.shape == ()
        assert value.item() == pytest.approx(sign * exact.item(), rel=0, abs=EXACT), average


def test_one_against_the_rest_masked_and_compiled():
    _, y = random_problem(12, 3, seed=105)
    z = torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(105))
    keep = torch.arange(12) % 3 != 1
    loss = sw.OneVsRestLoss("f1")
    exact, slope = value_and_gradient(loss, z[keep], y[keep])
    torch.compiler.reset()
    for call in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
        value, grad = value_and_gradient(call, torch.where(keep.unsqueeze(1), z, NAN), y, mask=keep)
        torch.testing.assert_close(value, exact, rtol=0, atol=EXACT)
        torch.testing.assert_close(grad[keep], slope, rtol=0, atol=EXACT)
        assert (grad[~keep] == 0).all()


# ----------------------------------------------------------------------------------------------------- best_tau


def assert_is_on_the_simplex(tau, m):
    assert tau.shape == (m,)
    assert tau.dtype == torch.float64
    assert tau.min() >= 0
    assert tau.sum().item() == pytest.approx(1, rel=0, abs=1e-12)


@pytest.mark.parametrize("name", ["accuracy", "error_rate", "kappa", "mcc", "f1", "tss"])
@pytest.mark.parametrize("m", [2, 3, 4, 8])
def test_the_best_thresholds_are_what_they_say(name, m):
    p, y = random_problem(60, m, seed=110 + m, bias=1.5)
    tau, value = mc.best_tau(p, y, name)
    assert_is_on_the_simplex(tau, m)
    assert isinstance(value, float)
    called = decide_by_loop(p.tolist(), tau.tolist())
    score = mc.scores.get(name)
    found = score(matrix_of(count_by_loop(called, y.tolist(), m))).item()
    assert value == pytest.approx(found, rel=0, abs=EXACT)
    assert value == pytest.approx(score(mc.confusion_matrix(p, y, tau)).item(), rel=0, abs=EXACT)
    plain = score(mc.confusion_matrix(p, y)).item()
    assert value <= plain if name == "error_rate" else value >= plain
    if name in ("mcc", "f1", "kappa"):
        assert value > plain + 0.01  # the bias is there to be mended


@pytest.mark.parametrize("name", ["accuracy", "error_rate", "kappa", "mcc", "f1", "csi"])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_thresholds_are_no_worse_than_random_ones(name, seed):
    n = 50
    p, y = random_problem(n, 3, seed=120 + seed, bias=float(seed))
    drawn = np.random.default_rng(seed).dirichlet([1.0, 1.0, 1.0], size=2000)
    called = (p.numpy() - drawn[:, None, :]).argmax(-1)
    seen = {tuple(np.bincount(3 * y.numpy() + row, minlength=9)) for row in called}
    assert len(seen) > 50
    values = [mc.scores.get(name)(matrix_of(np.reshape(cells, (3, 3)))).item() for cells in seen]
    _, value = mc.best_tau(p, y, name)
    if name == "error_rate":
        assert value <= min(values) + EXACT
    else:
        assert value >= max(values) - EXACT


def test_the_best_thresholds_for_costs():
    p, y = random_problem(50, 3, seed=130)
    score = mc.scores.cost(f64(COSTS))
    drawn = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], size=2000)
    costs = np.asarray(COSTS)[y.numpy(), (p.numpy() - drawn[:, None, :]).argmax(-1)].sum(1)
    tau, value = mc.best_tau(p, y, score)
    assert value >= -costs.min() - EXACT
    assert value == pytest.approx(score(mc.confusion_matrix(p, y, tau)).item(), rel=0, abs=EXACT)


@pytest.mark.parametrize("name", ["accuracy", "error_rate", "kappa", "hss", "mcc", "tss", "f1", "csi"])
@pytest.mark.parametrize("seed", range(3))
def test_two_classes_have_the_exactly_best_threshold(name, seed):
    p, y = random_problem(40, 2, seed=140 + seed, bias=float(seed))
    sign = -1 if name == "error_rate" else 1
    edges = sorted(p[:, 1].tolist())
    middles = [edges[0] / 2, *((a + b) / 2 for a, b in itertools.pairwise(edges)), (1 + edges[-1]) / 2]
    each = []
    for t in middles:
        cells = count_by_loop([int(x > t) for x in p[:, 1].tolist()], y.tolist(), 2)
        each.append(sign * mc.scores.get(name)(matrix_of(cells)).item())
    _, value = mc.best_tau(p, y, name)
    assert sign * value == pytest.approx(max(each), rel=0, abs=EXACT)
    if name not in ("f1", "csi"):
        threshold = sw.best_threshold(p[:, 1], y, name)
        exact = sw.scores.get(name)(sw.confusion_matrix(p[:, 1], y, threshold)).item()
        assert value == pytest.approx(exact, rel=0, abs=EXACT)


def test_the_best_thresholds_with_mask_weights_and_logits():
    p, y = random_problem(60, 3, seed=150, bias=1.0)
    keep, weight = torch.arange(60) % 4 != 1, torch.linspace(0.1, 3, 60, dtype=torch.float64)
    unknown = torch.where(keep.unsqueeze(1), p, NAN)
    tau, value = mc.best_tau(unknown, y, "mcc", mask=keep, sample_weight=weight)
    exact = mc.scores.get("mcc")(mc.confusion_matrix(p, y, tau, mask=keep, sample_weight=weight)).item()
    assert value == pytest.approx(exact, rel=0, abs=EXACT)
    assert value > mc.scores.get("mcc")(mc.confusion_matrix(p, y, mask=keep, sample_weight=weight)).item()
    _, from_kept = mc.best_tau(p[keep], y[keep], "mcc", sample_weight=weight[keep])
    assert value == pytest.approx(from_kept, rel=0, abs=EXACT)

    logits = p.log() + 1
    tau, value = mc.best_tau(logits, y, "mcc", from_logits=True)
    exact = mc.scores.get("mcc")(mc.confusion_matrix(logits, y, tau, from_logits=True)).item()
    assert value == pytest.approx(exact, rel=0, abs=EXACT)
    assert_is_on_the_simplex(tau, 3)


def test_the_search_repeats_itself():
    p, y = random_problem(60, 4, seed=151, bias=1.0)
    before = torch.get_rng_state()
    (tau, value), (again, same) = (mc.best_tau(p, y, "f1", seed=3) for _ in range(2))
    assert torch.equal(tau, again)
    assert value == same
    assert torch.equal(torch.get_rng_state(), before)  # nobody else's random numbers are used
    _, more = mc.best_tau(p, y, "f1", starts=8, seed=3)
    assert more >= mc.scores.get("f1")(mc.confusion_matrix(p, y)).item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_the_best_thresholds_of_narrow_predictions(dtype):
    """Many ties among them, and yet what is found is what confusion_matrix finds."""
    p, y = random_problem(300, 3, seed=152, bias=1.0)
    p = p.to(dtype)
    tau, value = mc.best_tau(p, y, "f1")
    exact = mc.scores.get("f1")(mc.confusion_matrix(p, y, tau)).item()
    assert value == pytest.approx(exact, rel=0, abs=EXACT)
    assert value > mc.scores.get("f1")(mc.confusion_matrix(p, y)).item()


@pytest.mark.parametrize(
    ("p", "y"),
    [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)),
        (torch.eye(3), torch.tensor([0, 1, 2])),
        (torch.eye(3), torch.tensor([1, 2, 0])),
        (torch.full((4, 3), 1 / 3), torch.tensor([0, 1, 2, 2])),
        (torch.full((4, 3), 1 / 3), torch.tensor([1, 1, 1, 1])),
        (torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([0])),
    ],
    ids=["empty", "right", "wrong", "equal", "equal and one class", "one sample"],
)
def test_the_best_thresholds_of_hard_cases(p, y):
    for name in ("accuracy", "error_rate", "mcc", "f1"):
        tau, value = mc.best_tau(p, y, name)
        assert_is_on_the_simplex(tau, 3)
        score = mc.scores.get(name)
        assert value == pytest.approx(score(mc.confusion_matrix(p, y, tau)).item(), rel=0, abs=EXACT)
        sign = -1 if name == "error_rate" else 1
        assert sign * value >= sign * score(mc.confusion_matrix(p, y)).item()


# ------------------------------------------------------------------------------------------------------- errors

OF_PROBABILITIES = {
    "confusion_matrix": mc.confusion_matrix,
    "expected_confusion_matrix": mc.expected_confusion_matrix,
    "SimplexLoss": sw.SimplexLoss("mcc", from_logits=False),
    "SimplexLoss.matrix": sw.SimplexLoss("mcc", from_logits=False).matrix,
    "best_tau": lambda p, y, **k: mc.best_tau(p, y, "mcc", **k),
}
OF_LOGITS = {
    "confusion_matrix of logits": lambda *a, **k: mc.confusion_matrix(*a, from_logits=True, **k),
    "expected_confusion_matrix of logits": lambda *a, **k: mc.expected_confusion_matrix(*a, from_logits=True, **k),
    "SimplexLoss of logits": sw.SimplexLoss("mcc"),
    "SimplexLoss.matrix of logits": sw.SimplexLoss("mcc").matrix,
    "best_tau of logits": lambda p, y, **k: mc.best_tau(p, y, "mcc", from_logits=True, **k),
}
ONE_VS_REST = {
    "OneVsRestLoss of logits": sw.OneVsRestLoss("mcc"),
    "OneVsRestLoss": sw.OneVsRestLoss("mcc", from_logits=False),
}
UNCHECKED = {
    "SimplexLoss without validation": sw.SimplexLoss("mcc", validate=False),
    "OneVsRestLoss without validation": sw.OneVsRestLoss("mcc", validate=False),
}
WITH_SHAPES = {**OF_PROBABILITIES, **OF_LOGITS, **ONE_VS_REST, **UNCHECKED}
CHECKED = {**OF_PROBABILITIES, **OF_LOGITS, **ONE_VS_REST}
anything = pytest.mark.parametrize("call", WITH_SHAPES.values(), ids=WITH_SHAPES)
anything_checked = pytest.mark.parametrize("call", CHECKED.values(), ids=CHECKED)
of_probabilities = pytest.mark.parametrize("call", OF_PROBABILITIES.values(), ids=OF_PROBABILITIES)
of_logits = pytest.mark.parametrize("call", OF_LOGITS.values(), ids=OF_LOGITS)

P = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.125, 0.75], [0.25, 0.25, 0.5]])
Y = torch.tensor([0, 1, 2, 2])


@anything_checked
def test_good_arguments_are_accepted(call):
    """So that the errors below are about what is wrong there, and not about P and Y."""
    assert call(P, Y) is not None


@anything
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((4,), (4,)),
        ((), ()),
        ((4, 1), (4,)),
        ((4, 0), (4,)),
        ((2, 4, 3), (2, 4)),
        ((4, 3), (5,)),
        ((4, 3), (1,)),
        ((4, 3), ()),
        ((4, 3), (4, 1)),
        ((4, 3), (4, 2)),
        ((4, 3), (3, 4)),
        ((4, 3), (4, 3, 1)),
    ],
    ids=str,
)
def test_shapes_that_do_not_go_together(call, x, y):
    with pytest.raises(ValueError, match=r"shape|class") as told:
        call(torch.full(x, 0.5), torch.zeros(y, dtype=torch.int64))
    seen = x if x in {(4,), (), (4, 1), (4, 0), (2, 4, 3)} else y
    assert str(seen) in str(told.value)


@anything
@pytest.mark.parametrize("argument", ["mask", "sample_weight"])
@pytest.mark.parametrize("shape", [(3,), (5,), (1,), (), (4, 1)], ids=str)
def test_masks_and_weights_of_another_shape(call, argument, shape):
    other = torch.ones(shape, dtype=torch.bool if argument == "mask" else torch.float32)
    with pytest.raises(ValueError, match=argument):
        call(P, Y, **{argument: other})


@anything_checked
@pytest.mark.parametrize("index", [3, 5, 100, -1, -100])
def test_a_class_that_is_none(call, index):
    with pytest.raises(ValueError, match=rf"(?<!\d){index}\b") as told:
        call(P, torch.tensor([0, 1, index, 2]))
    assert re.search(r"\b3 classes\b|\b0 to 2\b|\[0, 2\]|\b0 \.\. 2\b|\b0, …, 2\b", str(told.value))


@anything_checked
def test_the_bad_class_is_located(call):
    with pytest.raises(ValueError, match=r"(?<!\d)7\b.*\b(index|row|sample) 2\b|\b(index|row|sample) 2\b.*(?<!\d)7\b"):
        call(P, torch.tensor([0, 1, 7, 2]))


@anything_checked
@pytest.mark.parametrize(
    "y",
    [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, -1.0], [0.0, 0.0, 1.0]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [NAN, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ],
    ids=["none", "two", "all", "soft", "negative", "NaN"],
)
def test_targets_that_are_not_one_hot(call, y):
    with pytest.raises(ValueError, match="targets"):
        call(P, torch.tensor(y))


@anything_checked
def test_integer_rows_that_are_not_one_hot(call):
    with pytest.raises(ValueError, match="targets"):
        call(P, torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]]))


@anything
def test_classes_must_be_integers(call):
    with pytest.raises((ValueError, TypeError), match="targets"):
        call(P, torch.tensor([0.0, 1.0, 2.0, 2.0]))
    with pytest.raises((ValueError, TypeError), match="targets"):
        call(P, torch.tensor([0.5, 1.0, 2.0, 2.0]))
    with pytest.raises((ValueError, TypeError), match="targets"):
        call(P, Y.to(torch.complex64))
    with pytest.raises((ValueError, TypeError)):
        call(P, ["cat", "dog", "cow", "cow"])


@of_probabilities
@pytest.mark.parametrize(
    "row",
    [[1.5, -0.25, -0.25], [-0.1, 0.6, 0.5], [1.2, 0.0, 0.0], [0.4, 0.4, 0.1], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5]],
)
def test_predictions_that_are_no_distribution(call, row):
    p = P.clone()
    p[2] = torch.tensor(row)
    with pytest.raises(ValueError, match="from_logits=True"):
        call(p, Y)


@anything_checked
@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_predictions_that_are_not_finite(call, bad):
    p = P.clone()
    p[2, 1] = bad
    with pytest.raises(ValueError, match=r"predictions|logits") as told:
        call(p, Y)
    assert re.search(r"\b2\b", str(told.value))  # it says where


@anything_checked
@pytest.mark.parametrize("bad", [NAN, math.inf, -1.0])
def test_weights_that_are_none(call, bad):
    with pytest.raises(ValueError, match="sample_weight"):
        call(P, Y, sample_weight=torch.tensor([1.0, bad, 1.0, 1.0]))


@anything
def test_a_mask_must_be_boolean(call):
    with pytest.raises(TypeError, match="mask"):
        call(P, Y, mask=torch.tensor([1, 0, 1, 1]))


@anything
def test_predictions_must_be_floating_point(call):
    with pytest.raises(TypeError, match=r"predictions|logits"):
        call(P.to(torch.complex64), Y)


@of_logits
def test_logits_need_not_sum_to_one(call):
    assert call(10 * P - 3, Y) is not None


def test_without_validation_values_are_not_looked_at():
    for make in (sw.SimplexLoss, sw.OneVsRestLoss):
        bad = torch.where(P > 0.7, NAN, P)
        make("mcc", validate=False)(bad, Y)
        with pytest.raises(ValueError, match="logits"):
            make("mcc")(bad, Y)


@pytest.mark.parametrize("tau", [[0.5, 0.5], [0.25] * 4, [[0.5, 0.25, 0.25]], 0.5, [NAN, 0.5, 0.5]], ids=str)
def test_thresholds_that_are_none(tau):
    for call in (lambda tau: mc.decide(P, tau), lambda tau: mc.confusion_matrix(P, Y, tau)):
        with pytest.raises(ValueError, match="tau"):
            call(torch.tensor(tau))


def test_chances_of_what_has_no_classes():
    with pytest.raises(ValueError, match=r"class|m >= 2|two|2"):
        mc.class_chances(torch.ones(3, 1))
    with pytest.raises(ValueError, match=r"class|m >= 2|two|2|shape"):
        mc.class_chances(torch.tensor(1.0))


@pytest.mark.parametrize("starts", [-1, 1.5, "four"])
def test_starts_that_are_none(starts):
    with pytest.raises((ValueError, TypeError), match="starts"):
        mc.best_tau(P, Y, "mcc", starts=starts)


@pytest.mark.parametrize("argument", ["from_logits", "validate"])
def test_switches_must_be_booleans(argument):
    for make in (sw.SimplexLoss, sw.OneVsRestLoss):
        with pytest.raises(TypeError, match=argument):
            make("mcc", **{argument: "yes"})


@pytest.mark.parametrize("p", [torch.tensor([[torch.nan, 0.5, 0.5]]), torch.tensor(1.0), torch.ones(3, 1)])
def test_decisions_about_what_is_no_forecast(p):
    with pytest.raises(ValueError, match="predictions must"):
        mc.decide(p)


@pytest.mark.parametrize("m", [2, 3])
def test_certain_forecasts_can_be_overruled_at_a_vertex(m):
    p = torch.eye(m)[[m - 1] * 3]
    tau, value = mc.best_tau(p, torch.zeros(3, dtype=torch.long), "accuracy")
    assert value == 1
    assert tau.tolist() == [0.0] * (m - 1) + [1.0]


@pytest.mark.parametrize("seed", range(10))
def test_two_classes_with_certain_forecasts(seed):
    """Every threshold on the simplex, by a grid that has a point in every stretch and on every edge."""
    g = torch.Generator().manual_seed(seed)
    second = torch.randint(0, 9, (12,), generator=g).double() / 8
    p = torch.stack([1 - second, second], 1)
    y = torch.randint(0, 2, (12,), generator=g)
    grid = torch.arange(33, dtype=torch.float64) / 32
    taus = torch.stack([1 - grid, grid], 1)
    best = max(mc.scores.get("csi")(mc.confusion_matrix(p, y, tau)).item() for tau in taus)
    assert mc.best_tau(p, y, "csi")[1] == pytest.approx(best, abs=1e-12)


def test_many_samples_are_searched_in_two_steps():
    g = torch.Generator().manual_seed(4)
    y = torch.randint(0, 4, (3000,), generator=g)
    p = torch.softmax(torch.nn.functional.one_hot(y, 4) + torch.randn(3000, 4, generator=g) + torch.arange(4) / 2, -1)
    tau, value = mc.best_tau(p, y, "hss")
    # the same whatever ran before: a search is not exact, and one draw in a great many is better
    drawn = torch.empty(300, 4).exponential_(generator=torch.Generator().manual_seed(5))
    drawn = drawn / drawn.sum(1, keepdim=True)
    assert value >= max(mc.scores.hss(mc.confusion_matrix(p, y, one)).item() for one in drawn)
    assert value == pytest.approx(mc.scores.hss(mc.confusion_matrix(p, y, tau)).item(), abs=1e-12)
    costs = mc.scores.cost(torch.rand(4, 4, generator=g).tolist())
    tau, value = mc.best_tau(p, y, costs)
    assert value >= max(costs(mc.confusion_matrix(p, y, one)).item() for one in drawn)


def test_the_progress_of_a_search():
    p, y = random_problem(10, 3, seed=2)
    seen = []

    def progress(starts):
        for k in starts:
            seen.append(k)
            yield k

    assert mc.best_tau(p, y, "f1", starts=3, progress=progress)[1] == mc.best_tau(p, y, "f1", starts=3)[1]
    assert seen == [0, 1, 2]


def test_a_search_for_any_average_of_one_number():
    p, y = random_problem(30, 3, seed=9)
    for average in ("min", "weighted", "micro", lambda s: s.prod()):
        tau, value = mc.best_tau(p, y, "f1", average=average)
        score = mc.scores.one_vs_rest("f1", average)
        assert value == pytest.approx(score(mc.confusion_matrix(p, y, tau)).item(), abs=1e-12)
        assert value >= score(mc.confusion_matrix(p, y)).item()
    with pytest.raises(ValueError, match="needs one number"):
        mc.best_tau(p, y, "f1", average=None)

    class Mine(mc.scores.MulticlassScore):
        name, greater_is_better = "mine", True

        def of(self, cells):
            return cells.trace()

    with pytest.raises(TypeError, match="best_tau: expected a name"):
        mc.best_tau(p, y, Mine())
    assert sw.SimplexLoss(Mine(), from_logits=False)(p, y).item() == -mc.expected_confusion_matrix(p, y).cells.trace()


@pytest.mark.parametrize("score", [2 * sw.scores.accuracy, 0.5 * sw.scores.hss + 0.5 * sw.scores.f1])
def test_sums_of_scores_that_mean_something_else_for_classes(score):
    with pytest.raises(ValueError, match="is not the mean over classes"):
        sw.SimplexLoss(score)
    sw.SimplexLoss(mc.scores.one_vs_rest(score))
    sw.SimplexLoss(0.5 * sw.scores.tss + 0.5 * sw.scores.f1)


def test_compiled_matrices_of_bad_values_are_nan():
    torch.compiler.reset()
    p, y = random_problem(6, 3, seed=1)
    for make in (mc.confusion_matrix, mc.expected_confusion_matrix):

        def cells(p, y, make=make):
            return make(p, y).cells

        compiled = torch.compile(cells, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(p, y), cells(p, y))
        assert compiled(p * torch.nan, y).isnan().all()
        assert compiled(p * 3, y).isnan().all()
        assert compiled(p, y + 4).isnan().all()


def test_classes_that_do_not_exist_count_for_nothing_if_nobody_checks():
    z, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 2, -1, 7])
    for make in (sw.SimplexLoss, sw.OneVsRestLoss):
        loss = make("f1", validate=False)
        torch.testing.assert_close(loss(z, y), loss(z[:3], y[:3]))
        torch.testing.assert_close(loss(z, y, mask=y >= 0), loss(z[:3], y[:3]))


def test_the_matrix_of_one_against_the_rest():
    p, y = random_problem(8, 3, seed=3)
    matrix = sw.OneVsRestLoss("f1", from_logits=False).matrix(p, y)
    expected = sw.expected_confusion_matrix(p, torch.nn.functional.one_hot(y, 3))
    torch.testing.assert_close(matrix.tensor(), expected.tensor())


@pytest.mark.parametrize("cells", [[[1, -1], [0, 2]], [[1.0, math.nan], [0.0, 2.0]]])
def test_impossible_cells(cells):
    with pytest.raises(ValueError, match="cells must be at least 0"):
        mc.MulticlassMatrix(cells)


def test_thresholds_are_rounded_as_predictions_are():
    p = torch.tensor([[0.9, 0.1]])
    tau = torch.tensor([0.9, 0.1], dtype=torch.float64)  # neither is a float32
    assert mc.decide(p, tau).item() == 0
    assert sw.confusion_matrix(p[:, 1], torch.tensor([1]), tau[1]).fn == 1


def test_costs_are_copied():
    table = torch.ones(2, 2, dtype=torch.float64)
    score = mc.scores.cost(table)
    table[0, 1] = 9
    assert score(mc.MulticlassMatrix([[0, 1], [0, 0]])) == -1
