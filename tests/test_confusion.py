import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import metrics

import scorewise as sw
from scorewise import _blocks
from scorewise._sums import _compensated

ORDER = ("tn", "fp", "fn", "tp")


def cells(matrix):
    return [getattr(matrix, cell).tolist() for cell in ORDER]


def sample(n, *labels, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    predictions = torch.rand(n, *labels, generator=generator, dtype=torch.float64).to(dtype)
    targets = (torch.rand(n, *labels, generator=generator) < 0.3).long()
    weights = torch.rand(n, *labels, generator=generator, dtype=torch.float64) * 3
    return predictions, targets, weights


def assert_same(a, b, rtol=1e-12, atol=1e-12):
    torch.testing.assert_close(a.tensor(), b.tensor(), rtol=rtol, atol=atol)


# ---------------------------------------------------------------------------------------------- at a threshold


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.5, 0.77, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learn_counts_the_same(threshold, weighted):
    predictions, targets, weights = sample(500)
    weights = weights if weighted else None
    ours = np.asarray(sw.confusion_matrix(predictions, targets, threshold, sample_weight=weights))
    called = (predictions > threshold).long()
    theirs = metrics.confusion_matrix(targets, called, labels=[0, 1], sample_weight=weights)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5, 0.7, 1 / 3])
def test_a_prediction_at_the_threshold_is_negative_in_every_dtype(dtype, threshold):
    at = torch.tensor(threshold, dtype=dtype)
    above = torch.nextafter(at, torch.tensor(2.0, dtype=dtype))
    below = torch.nextafter(at, torch.tensor(-1.0, dtype=dtype))
    matrix = sw.confusion_matrix(torch.stack([below, at, above]), torch.ones(3), threshold)
    assert cells(matrix) == [0, 0, 2, 1]


def test_the_threshold_is_rounded_to_the_predictions_dtype():
    single = torch.tensor([0.1])
    assert single.double() > 0.1
    assert cells(sw.confusion_matrix(single, [1], 0.1)) == [0, 0, 1, 0]
    assert cells(sw.confusion_matrix(single, [1], torch.tensor(0.1, dtype=torch.float64))) == [0, 0, 1, 0]
    assert cells(sw.confusion_matrix(single.double(), [1], 0.1)) == [0, 0, 0, 1]
    # A tensor of one threshold per label would promote the predictions to its own dtype.
    two = single.expand(1, 2), torch.ones(1, 2), torch.tensor([0.1, 0.1], dtype=torch.float64)
    assert cells(sw.confusion_matrix(*two)) == [[0, 0], [0, 0], [1, 1], [0, 0]]


@pytest.mark.parametrize("threshold", [-1e-9, -1, -math.inf])
def test_below_zero_everything_is_positive(threshold):
    matrix = sw.confusion_matrix(torch.tensor([0.0, 0.5, 1.0]), [0, 1, 1], threshold)
    assert cells(matrix) == [0, 1, 0, 2]


@pytest.mark.parametrize("threshold", [1, 1.5, math.inf])
def test_from_one_on_nothing_is_positive(threshold):
    matrix = sw.confusion_matrix(torch.tensor([0.0, 0.5, 1.0]), [0, 1, 1], threshold)
    assert cells(matrix) == [1, 0, 2, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_are_judged_as_probabilities(dtype):
    logits = torch.linspace(-6, 6, 41, dtype=dtype)
    targets = torch.arange(41) % 2
    for threshold in (0.2, 0.5, 0.9):
        from_logits = sw.confusion_matrix(logits, targets, threshold, from_logits=True)
        assert_same(from_logits, sw.confusion_matrix(torch.sigmoid(logits), targets, threshold), 0, 0)
    assert sw.confusion_matrix(logits, targets, from_logits=True).tp == (targets * (logits > 0)).sum()


@pytest.mark.parametrize(
    "classes",
    [
        torch.tensor([0, 1, 1, 0]),
        torch.tensor([0, 1, 1, 0], dtype=torch.uint8),
        torch.tensor([False, True, True, False]),
        np.array([0, 1, 1, 0], dtype=np.int8),
        np.array([False, True, True, False]),
        [0, 1, 1, 0],
        [False, True, True, False],
    ],
)
def test_hard_predictions(classes):
    assert cells(sw.confusion_matrix(classes, [0, 0, 1, 1])) == [1, 1, 1, 1]


def test_one_threshold_per_label():
    predictions, targets, weights = sample(60, 3)
    thresholds = [0.2, 0.5, 0.8]
    together = sw.confusion_matrix(predictions, targets, torch.tensor(thresholds), sample_weight=weights)
    assert together.tp.shape == (3,)
    for label, threshold in enumerate(thresholds):
        alone = sw.confusion_matrix(
            predictions[:, label], targets[:, label], threshold, sample_weight=weights[:, label]
        )
        assert [cell[label] for cell in cells(together)] == pytest.approx(cells(alone), rel=1e-14)


@pytest.mark.parametrize(
    ("shape", "threshold", "expected"),
    [
        ((4,), [0.5, 0.5, 0.5, 0.5], r"must be one number, saw the shape \(4,\)"),
        ((4, 3), [0.5, 0.5], r"one number, or one for each of 3 labels, saw the shape \(2,\)"),
        ((4, 3), [[0.5] * 3] * 4, r"one number, or one for each of 3 labels, saw the shape \(4, 3\)"),
    ],
)
def test_thresholds_of_a_wrong_shape(shape, threshold, expected):
    with pytest.raises(ValueError, match=expected):
        sw.confusion_matrix(torch.zeros(shape), torch.zeros(shape), threshold)


def test_impossible_thresholds():
    with pytest.raises(ValueError, match="threshold must be a number, saw NaN"):
        sw.confusion_matrix([0.5], [1], math.nan)
    with pytest.raises(TypeError, match=r"threshold must be .* saw str"):
        sw.confusion_matrix([0.5], [1], "half")
    with pytest.raises(TypeError, match=r"threshold must be real, saw torch\.complex64"):
        sw.confusion_matrix([0.5], [1], torch.tensor(0.5j))


def test_a_weight_is_not_rounded_to_the_predictions_dtype():
    weights = torch.tensor([0.1, 16_777_217.0], dtype=torch.float64)
    for predictions in (torch.tensor([0, 1]), torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]).half()):
        assert cells(sw.confusion_matrix(predictions, [0, 1], sample_weight=weights)) == [0.1, 0, 0, 16_777_217]


def test_a_soft_label_is_not_rounded_to_the_predictions_dtype():
    targets = torch.tensor([0.1, 0.7], dtype=torch.float64)
    matrix = sw.confusion_matrix(torch.tensor([0.0, 1.0]).half(), targets)
    assert cells(matrix) == [0.9, 1 - 0.7, 0.1, 0.7]


def test_odd_weights_add_up_exactly():
    weights = torch.randint(0, 1 << 20, (40_000,), generator=torch.Generator().manual_seed(0))
    matrix = sw.confusion_matrix(torch.ones(40_000), torch.ones(40_000), sample_weight=weights.float())
    assert matrix.tp == weights.sum()


# ---------------------------------------------------------------------------------------------------- expected


def test_with_the_uniform_prior_a_prediction_is_its_own_share():
    predictions, targets, _ = sample(200)
    matrix = sw.expected_confusion_matrix(predictions, targets)
    y = targets.double()
    expected = [((1 - y) * (1 - predictions)), (1 - y) * predictions, y * (1 - predictions), y * predictions]
    assert cells(matrix) == pytest.approx([math.fsum(cell.tolist()) for cell in expected], rel=1e-14)


BOTH = [
    pytest.param(lambda p, y, **k: sw.confusion_matrix(p, y, 0.4, **k), id="at a threshold"),
    pytest.param(lambda p, y, **k: sw.expected_confusion_matrix(p, y, sw.priors.Beta(2.0, 3.0), **k), id="expected"),
]


@pytest.mark.parametrize("matrix_of", BOTH)
@pytest.mark.parametrize("labels", [(), (3,)])
def test_cells_add_up_to_what_was_counted(matrix_of, labels):
    predictions, targets, weights = sample(300, *labels)
    assert matrix_of(predictions, targets).total.tolist() == pytest.approx([300] * 3 if labels else 300, rel=1e-13)
    mask = torch.rand(300, *labels, generator=torch.Generator().manual_seed(9)) < 0.5
    counted = matrix_of(predictions, targets, mask=mask, sample_weight=weights)
    torch.testing.assert_close(counted.total, (mask * weights).sum(0), rtol=1e-13, atol=0)
    positives = (mask * weights * targets).sum(0)
    torch.testing.assert_close(counted.positives, positives, rtol=1e-13, atol=0)
    torch.testing.assert_close(counted.negatives, counted.total - positives, rtol=1e-12, atol=0)


@pytest.mark.parametrize("matrix_of", BOTH)
@pytest.mark.parametrize("labels", [(), (2,)])
def test_the_matrix_of_the_whole_is_the_sum_of_its_parts(matrix_of, labels):
    predictions, targets, weights = sample(1000, *labels)
    whole = matrix_of(predictions, targets, sample_weight=weights)
    cuts = [0, 1, 1, 130, 999, 1000]
    parts = [matrix_of(predictions[a:b], targets[a:b], sample_weight=weights[a:b]) for a, b in itertools.pairwise(cuts)]
    assert_same(sum(parts), whole)


@pytest.mark.parametrize("matrix_of", BOTH)
def test_soft_labels_count_for_both_classes(matrix_of):
    predictions, _, _ = sample(50)
    soft = sample(50, seed=5)[0]
    ones, zeros = torch.ones(50), torch.zeros(50)
    as_weights = matrix_of(predictions, ones, sample_weight=soft) + matrix_of(
        predictions, zeros, sample_weight=1 - soft
    )
    assert_same(matrix_of(predictions, soft), as_weights)


@pytest.mark.parametrize("matrix_of", BOTH)
def test_a_weight_is_a_number_of_repetitions(matrix_of):
    predictions, targets, _ = sample(40)
    times = torch.arange(40) % 4
    repeated = matrix_of(predictions.repeat_interleave(times), targets.repeat_interleave(times))
    assert_same(matrix_of(predictions, targets, sample_weight=times), repeated)


@pytest.mark.parametrize("matrix_of", BOTH)
def test_what_is_masked_is_not_there_whatever_it_holds(matrix_of):
    predictions, targets, weights = sample(30)
    mask = torch.arange(30) % 3 != 0
    wild = [predictions.clone(), targets.double(), weights.clone()]
    junks = [math.nan, math.inf, -7], [math.nan, 9, -1], [math.nan, -2, math.inf]
    for tensor, junk in zip(wild, junks, strict=True):
        tensor[~mask] = torch.tensor(junk, dtype=torch.float64).repeat(4)[:10]
    masked = matrix_of(wild[0], wild[1], mask=mask, sample_weight=wild[2])
    assert_same(masked, matrix_of(predictions[mask], targets[mask], sample_weight=weights[mask]))


@pytest.mark.parametrize("matrix_of", BOTH)
def test_masks_and_weights_of_samples_hold_for_all_labels(matrix_of):
    predictions, targets, _ = sample(20, 3)
    mask, weights = torch.arange(20) % 2 == 0, torch.arange(20.0)
    narrow = matrix_of(predictions, targets, mask=mask, sample_weight=weights)
    wide = matrix_of(
        predictions, targets, mask=mask[:, None].expand(20, 3), sample_weight=weights[:, None].expand(20, 3)
    )
    assert_same(narrow, wide, 0, 0)
    mixed = matrix_of(predictions, targets, mask=mask[:, None].expand(20, 3), sample_weight=weights)
    assert_same(narrow, mixed, 0, 0)


@pytest.mark.parametrize("labels", [(), (2,)])
@pytest.mark.parametrize("matrix_of", BOTH)
def test_empty_batches_have_empty_matrices(matrix_of, labels):
    matrix = matrix_of(torch.zeros(0, *labels), torch.zeros(0, *labels))
    assert matrix.total.shape == labels
    assert matrix.tensor().abs().sum() == 0


def test_a_prior_s_parameters_belong_to_labels():
    two = sw.priors.Beta(torch.tensor([1.0, 2.0]), 3.0)
    with pytest.raises(ValueError, match=r"have the shape \(2,\), but there are no labels"):
        sw.expected_confusion_matrix([0.2, 0.7], [0, 1], two)
    with pytest.raises(ValueError, match=r"have the shape \(2,\), but there are 3 labels.*one value per label"):
        sw.expected_confusion_matrix(torch.zeros(2, 3), torch.zeros(2, 3), two)
    predictions, targets, _ = sample(9, 2)
    together = sw.expected_confusion_matrix(predictions, targets, two)
    for label, alpha in enumerate((1.0, 2.0)):
        alone = sw.expected_confusion_matrix(predictions[:, label], targets[:, label], sw.priors.Beta(alpha, 3.0))
        assert [cell[label] for cell in cells(together)] == pytest.approx(cells(alone), rel=1e-12)


# -------------------------------------------------------------------------------------------------- the object


def test_order_and_array():
    matrix = sw.ConfusionMatrix(tn=1, fp=2, fn=3, tp=4)
    np.testing.assert_array_equal(np.asarray(matrix), [[1, 2], [3, 4]])
    assert np.asarray(matrix).dtype == np.float64
    assert np.asarray(matrix, dtype=np.int32).dtype == np.int32
    assert matrix.tensor().tolist() == [[1, 2], [3, 4]]
    assert (matrix.negatives, matrix.positives, matrix.total) == (3, 7, 10)


def test_labels_come_first():
    matrix = sw.ConfusionMatrix(tn=[1, 5], fp=[2, 6], fn=[3, 7], tp=[4, 8])
    assert matrix.tensor().tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert np.asarray(matrix).shape == (2, 2, 2)


@pytest.mark.parametrize(
    "four",
    [
        [1, 2, 3, 4],
        [1.0, 2.0, 3.0, 4.0],
        [torch.tensor(i) for i in (1, 2, 3, 4)],
        list(torch.tensor([1, 2, 3, 4], dtype=torch.uint8)),
        list(np.array([1, 2, 3, 4], dtype=np.int16)),
    ],
)
def test_cells_of_any_kind_become_float64(four):
    matrix = sw.ConfusionMatrix(*four)
    assert {getattr(matrix, cell).dtype for cell in ORDER} == {torch.float64}
    assert sw.scores.get("tss")(matrix).item() == pytest.approx(4 / 7 + 1 / 3 - 1)


def test_cells_that_are_no_cells():
    with pytest.raises(ValueError, match=r"one shape, saw \[\(2,\), \(\), \(\), \(\)\]"):
        sw.ConfusionMatrix([1, 2], 1, 1, 1)
    with pytest.raises(TypeError, match=r"fn must be .*saw str"):
        sw.ConfusionMatrix(1, 2, "3", 4)
    with pytest.raises(TypeError, match=r"tn must be real, saw torch\.complex64"):
        sw.ConfusionMatrix(1j, 2, 3, 4)


def test_addition():
    a, b = sw.ConfusionMatrix(1, 2, 3, 4), sw.ConfusionMatrix(10, 20, 30, 40)
    assert cells(a + b) == [11, 22, 33, 44]
    assert cells(sum([a, b, a])) == [12, 24, 36, 48]
    assert cells(sum([a])) == [1, 2, 3, 4]
    for other in (1, None, "b"):
        with pytest.raises(TypeError):
            a + other
        with pytest.raises(TypeError):
            other + a


def test_matrices_of_different_labels_cannot_be_added():
    one, two = sw.ConfusionMatrix(1, 2, 3, 4), sw.ConfusionMatrix([1, 1], [2, 2], [3, 3], [4, 4])
    with pytest.raises(ValueError, match=r"\(2,\) and \(\) labels cannot be added"):
        two + one
    with pytest.raises(ValueError, match="cannot be added"):
        sum([one, two])


@pytest.mark.parametrize("by", ["true", "pred", "all"])
def test_normalisation_is_scikit_learn_s(by):
    predictions, targets, _ = sample(90)
    ours = sw.confusion_matrix(predictions, targets).normalized(by)
    theirs = metrics.confusion_matrix(targets, (predictions > 0.5).long(), normalize=by)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-14)


@pytest.mark.parametrize(
    ("matrix", "by", "expected"),
    [
        ((0, 0, 1, 3), "true", [0, 0, 0.25, 0.75]),
        ((1, 0, 3, 0), "pred", [0.25, 0, 0.75, 0]),
        ((0, 0, 0, 0), "true", [0] * 4),
        ((0, 0, 0, 0), "pred", [0] * 4),
        ((0, 0, 0, 0), "all", [0] * 4),
        ((1, 3, 0, 0), "all", [0.25, 0.75, 0, 0]),
    ],
)
def test_normalisation_of_nothing_is_zero(matrix, by, expected):
    assert cells(sw.ConfusionMatrix(*matrix).normalized(by)) == expected


def test_normalisation_by_something_else():
    with pytest.raises(ValueError, match="expected 'true', 'pred' or 'all', saw 'rows'"):
        sw.ConfusionMatrix(1, 2, 3, 4).normalized("rows")


def test_repr():
    assert repr(sw.ConfusionMatrix(1, 2, 3, 4)) == "ConfusionMatrix(tn=1, fp=2, fn=3, tp=4)"
    assert repr(sw.ConfusionMatrix(33_554_433, 1 / 3, 0, 0)) == "ConfusionMatrix(tn=33554433, fp=0.333333, fn=0, tp=0)"
    assert "tp=[4, 8]" in repr(sw.ConfusionMatrix([1, 5], [2, 6], [3, 7], [4, 8]))


def test_a_matrix_can_be_pickled():
    matrix = pickle.loads(pickle.dumps(sw.ConfusionMatrix(1, 2, 3, 4)))  # noqa: S301
    assert cells(matrix) == [1, 2, 3, 4]


def test_a_differentiable_matrix_is_an_array_too():
    predictions = torch.tensor([0.25, 0.75], requires_grad=True)
    matrix = sw.expected_confusion_matrix(predictions, [0, 1])
    np.testing.assert_array_equal(np.asarray(matrix), [[0.75, 0.25], [0.25, 0.75]])
    assert "tp=0.75" in repr(matrix)


# ---------------------------------------------------------------------------------------------------- counting


@pytest.mark.parametrize("count", [2**24 + 1, 2**25])
def test_more_samples_than_float32_can_count(count):
    ones = torch.ones(1).expand(count)
    for matrix in (
        sw.confusion_matrix(ones, ones),
        sw.expected_confusion_matrix(ones, ones),
        sw.ScoreLoss("tss", validate=False).matrix(ones * 100, ones),
    ):
        assert cells(matrix) == [0, 0, 0, count]


def test_many_float32_samples_of_many_labels():
    ones = torch.ones(1, 1).expand(2**24 + 1, 2)
    assert cells(sw.confusion_matrix(ones, ones)) == [[0, 0], [0, 0], [0, 0], [2**24 + 1] * 2]


@pytest.mark.parametrize("share", [0.1, 0.7, 1 / 3])
def test_the_sum_of_many_float32_shares_is_as_good_as_one_rounding(share):
    n = 1_000_000
    shares = torch.full((n,), share)
    matrix = sw.expected_confusion_matrix(shares, torch.ones(n))
    assert matrix.tp.item() == pytest.approx(n * shares[0].item(), rel=torch.finfo(torch.float32).eps)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, 65_537])
@pytest.mark.parametrize("labels", [(), (3,)])
def test_compensated_float32_sums_are_the_exact_ones_rounded(n, labels):
    generator = torch.Generator().manual_seed(n)
    # Over many orders of magnitude, where a plain float32 sum loses the small ones.
    x = 10 ** (torch.rand(n, *labels, generator=generator) * 12 - 6)
    total = _compensated(x)
    assert total.dtype == torch.float32
    columns = x.double().reshape(n, math.prod(labels)).T
    exact = torch.tensor([math.fsum(column.tolist()) for column in columns], dtype=torch.float64)
    half_a_unit = torch.finfo(torch.float32).eps / 2
    torch.testing.assert_close(total.double().reshape(-1), exact, rtol=1.001 * half_a_unit, atol=0)


def test_compensated_counts_to_the_end_of_what_float32_can_say():
    assert _compensated(torch.ones(2**22 + 3)) == 2**22 + 3
    assert _compensated(torch.tensor([2.0**24, 1.0, 1.0])) == 2**24 + 2
    assert _compensated(torch.tensor([2.0**24, *[0.25] * 8])) == 2**24 + 2
    assert _compensated(torch.tensor([0.75, 2.0**24, 0.5, 0.0])) == 2**24 + 2


# ------------------------------------------------------------------------------------------------------ blocks


@pytest.mark.parametrize("labels", [(), (3,)])
@pytest.mark.parametrize("prior", [None, sw.priors.Beta(2.0, 3.0), sw.priors.RaisedCosine(0.5, 0.3)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_results_do_not_depend_on_the_size_of_a_block(monkeypatch, labels, prior, weighted):
    predictions, targets, weights = sample(203, *labels)
    weights = weights if weighted else None
    results = []
    for size in (_blocks._PER_THREAD, 1, 7, 64):
        monkeypatch.setattr(_blocks, "_PER_THREAD", size)
        logits = torch.logit(predictions).requires_grad_()
        loss = sw.ScoreLoss("hss", prior=prior)(logits, targets, sample_weight=weights)
        loss.backward()
        matrix = sw.expected_confusion_matrix(predictions, targets, prior, sample_weight=weights)
        results.append((loss.detach(), logits.grad, matrix.tensor()))
    for result in results[1:]:
        for value, reference in zip(result, results[0], strict=True):
            torch.testing.assert_close(value, reference, rtol=1e-12, atol=1e-15)


def test_blocks_of_one_prior_per_label(monkeypatch):
    prior = sw.priors.Beta(torch.tensor([1.0, 2.0, 5.0]), 3.0)
    predictions, targets, _ = sample(101, 3)
    gradients = []
    for size in (_blocks._PER_THREAD, 5):
        monkeypatch.setattr(_blocks, "_PER_THREAD", size)
        leaf = predictions.clone().requires_grad_()
        sw.ScoreLoss("mcc", prior=prior, from_logits=False)(leaf, targets).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-15)


def test_blocks_can_be_differentiated_twice(monkeypatch):
    monkeypatch.setattr(_blocks, "_PER_THREAD", 2)
    logits = torch.logit(sample(9)[0]).requires_grad_()
    targets = torch.arange(9) % 2
    loss = sw.ScoreLoss("f1", prior=sw.priors.Beta(2.0, 3.0))
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), logits)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, targets), logits)


# ------------------------------------------------------------------------------------------------------- arrays

P, Y = [0.1, 0.6, 0.7, 0.2], [0, 1, 0, 1]


def read_only(values):
    array = np.array(values)
    array.flags.writeable = False
    return array


ARRAYS = {
    "list": (P, Y),
    "tuple": (tuple(P), tuple(Y)),
    "array": (np.array(P), np.array(Y)),
    "not contiguous": (np.repeat(P, 3)[::3], np.repeat(Y, 2)[::2]),
    "backwards": (np.array(P[::-1])[::-1], np.array(Y[::-1])[::-1]),
    "read-only": (read_only(P), read_only(Y)),
    "big-endian": (np.array(P, dtype=">f8"), np.array(Y, dtype=">i4")),
    "long double": (np.array(P, dtype=np.longdouble), np.array(Y, dtype=np.longdouble)),
    "bool": (np.array(P), np.array(Y, dtype=bool)),
    "unsigned": (np.array(P), np.array(Y, dtype=np.uint16)),
    "series": (pd.Series(P, index=[3, 2, 1, 0]), pd.Series(Y, index=list("abcd"))),
    "nullable series": (pd.Series(P, dtype="Float64"), pd.Series(Y, dtype="Int64")),
    "mixed": (torch.tensor(P, dtype=torch.float64), pd.Series(Y)),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("matrix_of", BOTH)
def test_arrays_of_any_kind_count_as_tensors_do(matrix_of, kind):
    predictions, targets = ARRAYS[kind]
    reference = matrix_of(torch.tensor(P, dtype=torch.float64), torch.tensor(Y))
    assert_same(matrix_of(predictions, targets), reference, 1e-15, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("matrix_of", BOTH)
def test_narrow_arrays_keep_their_values(matrix_of, dtype):
    narrow = np.array(P, dtype=dtype)
    assert_same(matrix_of(narrow, Y), matrix_of(narrow.astype(np.float64), Y), 1e-6, 0)


@pytest.mark.parametrize("matrix_of", BOTH)
def test_masks_and_weights_may_be_arrays_or_lists(matrix_of):
    reference = matrix_of(torch.tensor(P[:3], dtype=torch.float64), Y[:3], sample_weight=torch.tensor([1, 2, 3]))
    for kind in (list, np.array, pd.Series):
        matrix = matrix_of(
            np.array(P), np.array(Y), mask=kind([True, True, True, False]), sample_weight=kind([1, 2, 3, 4])
        )
        assert_same(matrix, reference, 1e-15, 0)


def test_arrays_are_not_written_to():
    predictions, targets = np.array([0.1, math.nan]), np.array([0.0, math.nan])
    sw.confusion_matrix(predictions, targets, mask=np.array([True, False]))
    assert np.isnan(predictions[1])
    assert np.isnan(targets[1])


def test_frames_are_n_by_labels():
    frame = pd.DataFrame({"rain": [0.1, 0.9, 0.8], "wind": [0.4, 0.6, 0.2]})
    truth = pd.DataFrame({"rain": [0, 1, 0], "wind": [1, 1, 0]})
    assert cells(sw.confusion_matrix(frame, truth)) == [[1, 1], [1, 0], [0, 1], [1, 1]]


def test_tensors_of_any_memory_layout(monkeypatch):
    monkeypatch.setattr(_blocks, "_PER_THREAD", 16)
    predictions, targets, weights = sample(40, 3)
    reference = sw.expected_confusion_matrix(predictions, targets, sample_weight=weights)
    leaf = predictions.T.contiguous().T.requires_grad_()
    turned = sw.expected_confusion_matrix(leaf, targets.T.contiguous().T, sample_weight=weights.T.contiguous().T)
    assert_same(turned, reference)
    (gradient,) = torch.autograd.grad(turned.tp.sum(), leaf)
    torch.testing.assert_close(gradient, targets * weights)
