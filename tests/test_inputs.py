import copy
import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

import scorewise as sw
from scorewise.scores import get, names

NAN, INF = math.nan, math.inf

FROM_PROBABILITIES = {
    "confusion_matrix": sw.confusion_matrix,
    "expected_confusion_matrix": sw.expected_confusion_matrix,
    "ScoreLoss": sw.ScoreLoss("tss", from_logits=False),
    "ScoreLoss.matrix": sw.ScoreLoss("tss", from_logits=False).matrix,
}
FROM_LOGITS = {
    "confusion_matrix": lambda *a, **k: sw.confusion_matrix(*a, from_logits=True, **k),
    "expected_confusion_matrix": lambda *a, **k: sw.expected_confusion_matrix(*a, from_logits=True, **k),
    "ScoreLoss": sw.ScoreLoss("tss"),
    "ScoreLoss.matrix": sw.ScoreLoss("tss").matrix,
}
UNCHECKED = {"ScoreLoss without validation": sw.ScoreLoss("tss", from_logits=False, validate=False)}
probabilities_into = pytest.mark.parametrize("call", FROM_PROBABILITIES.values(), ids=FROM_PROBABILITIES)
logits_into = pytest.mark.parametrize("call", FROM_LOGITS.values(), ids=FROM_LOGITS)
anything_into = pytest.mark.parametrize(
    "call",
    [*FROM_PROBABILITIES.values(), *FROM_LOGITS.values(), *UNCHECKED.values()],
    ids=[*FROM_PROBABILITIES, *(f"{name} of logits" for name in FROM_LOGITS), *UNCHECKED],
)

P, Y = torch.tensor([0.1, 0.6, 0.7, 0.2]), torch.tensor([0, 1, 0, 1])


# ------------------------------------------------------------------------------------------------------ shapes


@anything_into
@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        ((4, 1), (4,), r"same shape, saw \(4, 1\) and \(4,\)\. .*pass (logits|predictions)\.squeeze\(-1\)"),
        ((4,), (4, 1), r"same shape, saw \(4,\) and \(4, 1\)\. .*pass targets\.squeeze\(-1\)"),
        ((4,), (5,), r"same shape, saw \(4,\) and \(5,\)"),
        ((4,), (1,), r"same shape, saw \(4,\) and \(1,\)"),
        ((4,), (), r"same shape, saw \(4,\) and \(\)"),
        ((4, 3), (3, 4), r"same shape, saw \(4, 3\) and \(3, 4\)"),
        ((4, 3), (4, 1), r"same shape, saw \(4, 3\) and \(4, 1\)"),
        ((4, 3), (3,), r"same shape, saw \(4, 3\) and \(3,\)"),
        ((), (), r"\(n,\) or \(n, labels\), saw \(\)"),
        ((2, 3, 4), (2, 3, 4), r"\(n,\) or \(n, labels\), saw \(2, 3, 4\)"),
        ((4, 0), (4, 0), r"at least one label, saw the shape \(4, 0\)"),
    ],
)
def test_shapes_must_agree_exactly(call, x, y, told):
    with pytest.raises(ValueError, match=told):
        call(torch.zeros(x), torch.zeros(y))


def test_the_hint_names_what_the_caller_passed():
    with pytest.raises(ValueError, match=r"pass predictions\.squeeze"):
        sw.confusion_matrix(torch.zeros(4, 1), torch.zeros(4))
    with pytest.raises(ValueError, match=r"pass logits\.squeeze"):
        sw.ScoreLoss("tss")(torch.zeros(4, 1), torch.zeros(4))


@anything_into
@pytest.mark.parametrize("argument", ["mask", "sample_weight"])
@pytest.mark.parametrize(
    ("x", "other", "told"),
    [
        ((4,), (4, 1), r"shape \(4,\) like the (logits|predictions), saw \(4, 1\)"),
        ((4,), (1,), r"shape \(4,\) like the (logits|predictions), saw \(1,\)"),
        ((4,), (), r"shape \(4,\) like the (logits|predictions), saw \(\)"),
        ((4, 3), (3,), r"shape \(4, 3\) or \(4,\) like the (logits|predictions), saw \(3,\)"),
        ((4, 3), (4, 1), r"shape \(4, 3\) or \(4,\) like the (logits|predictions), saw \(4, 1\)"),
        ((4, 3), (1, 3), r"shape \(4, 3\) or \(4,\) like the (logits|predictions), saw \(1, 3\)"),
    ],
)
def test_masks_and_weights_are_not_broadcast(call, argument, x, other, told):
    with pytest.raises(ValueError, match=f"{argument} must have the {told}"):
        call(torch.zeros(x), torch.zeros(x), **{argument: torch.ones(other, dtype=torch.bool)})


# ------------------------------------------------------------------------------------------------------- types


@anything_into
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (None, "must be a tensor or an array of numbers, saw NoneType"),
        ("0.5", "must be a tensor or an array of numbers, saw str"),
        ({0.5}, "must be a tensor or an array of numbers, saw set"),
        (["a", "b", "c", "d"], "must be a tensor or an array of numbers, saw list"),
        ([[0.1], [0.2, 0.3]], "must be a tensor or an array of numbers, saw list"),
        (np.array(["a", "b", "c", "d"]), "must be an array of numbers, saw dtype <U1"),
        (np.array([0, 1, None, 1]), "must be an array of numbers, saw dtype object"),
        (np.array([0, 1, 0, 1], dtype="datetime64[D]"), r"must be an array of numbers, saw dtype datetime64\[D\]"),
        (torch.zeros(4, dtype=torch.complex64), r"must be .*, saw torch\.complex64"),
        (np.zeros(4, dtype=complex), "must be .*, saw .*complex128"),
    ],
)
def test_what_is_no_array_of_numbers(call, wrong, told):
    with pytest.raises(TypeError, match=f"(logits|predictions) {told}"):
        call(wrong, Y)
    with pytest.raises(TypeError, match=f"targets {told}"):
        call(P, wrong)
    if wrong is not None:  # which is no weight
        with pytest.raises(TypeError, match=f"sample_weight {told}"):
            call(P, Y, sample_weight=wrong)


@pytest.mark.parametrize("call", [*list(FROM_PROBABILITIES.values())[1:], *FROM_LOGITS.values(), *UNCHECKED.values()])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_classes_are_no_model_output(call, dtype):
    with pytest.raises(TypeError, match=f"(logits|predictions) must be floating point, saw {dtype}.*not classes"):
        call(Y.to(dtype), Y)


@anything_into
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
def test_a_mask_is_boolean(call, dtype):
    with pytest.raises(TypeError, match=rf"mask must be boolean \(True: counted\), saw {dtype}.*mask == 1"):
        call(P, Y, mask=torch.ones(4, dtype=dtype))


@anything_into
def test_tensors_on_two_devices(call):
    elsewhere = torch.empty(4, device="meta")
    with pytest.raises(ValueError, match="targets are on meta, but the predictions are on cpu"):
        call(P, elsewhere)
    with pytest.raises(ValueError, match="mask are on meta, but the predictions are on cpu"):
        call(P, Y, mask=elsewhere.bool())
    with pytest.raises(ValueError, match="sample_weight are on meta, but the predictions are on cpu"):
        call(P, Y, sample_weight=elsewhere)


@anything_into
def test_a_masked_array_is_not_taken_for_a_plain_one(call):
    masked = np.ma.array(P.numpy(), mask=[False, True, False, True])
    with pytest.raises(ValueError, match=r"saw a masked one with 2 of 4 masked.*mask=~array\.mask"):
        call(masked, Y)
    call(np.ma.array(P.numpy()), Y)


# ------------------------------------------------------------------------------------------------------ values


@probabilities_into
@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ([0.5, -0.25, 1.5, 0.0], "2 of 4 are not: the first, at index 1, is -0.25"),
        ([0.5, 0.25, 1.5, 0.0], "1 of 4 are not: the first, at index 2, is 1.5"),
        ([NAN, 0.25, 0.5, 0.0], "1 of 4 are not: the first, at index 0, is nan"),
        ([0.5, 0.25, 0.5, INF], "1 of 4 are not: the first, at index 3, is inf"),
        ([0.5, -INF, NAN, 7.0], "3 of 4 are not: the first, at index 1, is -inf"),
        ([0.5, 0.25, 0.5, 1 + 2**-23], "1 of 4 are not: the first, at index 3, is 1.000000119"),
        ([0.5, 0.25, 0.5, -1e-30], "1 of 4 are not: the first, at index 3, is -1e-30"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_outside_their_range(call, bad, told, dtype):
    expected = f"predictions must be probabilities in \\[0, 1\\], but {told}.*from_logits=True for logits.*mask="
    with pytest.raises(ValueError, match=expected):
        call(torch.tensor(bad, dtype=dtype), Y)


@logits_into
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_logits_that_are_not_finite(call, bad):
    logits = torch.tensor([[0.5, -7.0], [bad, 3.0], [bad, bad]])
    told = rf"logits must be finite, but 3 of 6 are not: the first, at index \(1, 0\), is {bad:g}.*mask="
    with pytest.raises(ValueError, match=told):
        call(logits, torch.zeros(3, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@logits_into
def test_every_finite_logit_is_legal(call, dtype):
    most = torch.finfo(dtype).max
    call(torch.tensor([-most, most, 0.0, -0.0], dtype=dtype), Y)


@anything_into
@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ([0, 1, 2, 1], "1 of 4 are not: the first, at index 2, is 2"),
        ([0, 1, 255, 7], "2 of 4 are not: the first, at index 2, is 255"),
        ([0.0, 1.0, 1.5, 1.0], "1 of 4 are not: the first, at index 2, is 1.5"),
        ([0.0, 1.0, 0.5, -0.5], "1 of 4 are not: the first, at index 3, is -0.5"),
        ([0.0, NAN, 0.5, NAN], "2 of 4 are not: the first, at index 1, is nan"),
        ([0.0, INF, 0.5, 1.0], "1 of 4 are not: the first, at index 1, is inf"),
        ([-1, 1, 1, -1], r"2 of 4 are not: the first, at index 0, is -1\. .*pass \(targets \+ 1\) / 2"),
    ],
)
def test_labels_outside_their_range(call, bad, told):
    if call in UNCHECKED.values():
        call(P, torch.tensor(bad))
        return
    told = f"targets must be 0 or 1, or soft labels between, but {told}.*mask="
    for labels in (bad, torch.tensor(bad), np.array(bad)):
        with pytest.raises(ValueError, match=told):
            call(P, labels)
    with pytest.raises(ValueError, match=told):
        call(P.half(), torch.tensor(bad))


def test_a_large_label_is_named_whatever_the_predictions_dtype():
    with pytest.raises(ValueError, match="at index 1, is 70000"):
        sw.confusion_matrix(P.half(), torch.tensor([0, 70_000, 0, 1]))


@probabilities_into
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.float64])
def test_labels_of_any_dtype(call, dtype):
    for result, reference in zip(flat(call(P, Y.to(dtype))), flat(call(P, Y.float())), strict=True):
        torch.testing.assert_close(result, reference, rtol=0, atol=0)


def flat(result):
    return [result.tensor()] if isinstance(result, sw.ConfusionMatrix) else [result]


@anything_into
@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ([1.0, -0.5, 1.0, -1.0], "2 of 4 are not: the first, at index 1, is -0.5"),
        ([1.0, 0.0, 1.0, NAN], "1 of 4 are not: the first, at index 3, is nan"),
        ([INF, 0.0, 1.0, 1.0], "1 of 4 are not: the first, at index 0, is inf"),
    ],
)
def test_weights_outside_their_range(call, bad, told):
    if call in UNCHECKED.values():
        call(P, Y, sample_weight=torch.tensor(bad))
        return
    with pytest.raises(ValueError, match=f"sample_weight must be finite and at least 0, but {told}"):
        call(P, Y, sample_weight=torch.tensor(bad))


def test_without_validation_bad_values_pass_through():
    loss = sw.ScoreLoss("tss", validate=False)
    assert loss(torch.tensor([0.5, NAN]), torch.tensor([0, 1])).isnan()
    loss.raise_if_invalid()


@pytest.mark.parametrize("score", ["tsss", "", "acuracy"])
def test_a_loss_of_an_unknown_score(score):
    with pytest.raises(ValueError, match=f"there is no score {score!r}.* There are: accuracy, error_rate, "):
        sw.ScoreLoss(score)


@pytest.mark.parametrize("prior", ["uniform", 0.5, [0.1, 0.9], sw.priors.Uniform])
def test_a_loss_with_what_is_no_prior(prior):
    with pytest.raises(TypeError, match=r"a prior must be an object of scorewise\.priors, .*; saw"):
        sw.ScoreLoss("tss", prior=prior)


def test_a_loss_of_what_is_no_score():
    with pytest.raises(TypeError, match=r"a score must be a name or a scorewise\.scores\.Score, saw NoneType"):
        sw.ScoreLoss(None)


# -------------------------------------------------------------------------------------------------- degenerate

NARROW = sw.priors.RaisedCosine(0.5, 0.1)
DEGENERATE = {
    "empty": ([], [], {}),
    "one sample": ([0.3], [1], {}),
    "only positives": ([-2.0, 0.5, 3.0], [1, 1, 1], {}),
    "only negatives": ([-2.0, 0.5, 3.0], [0, 0, 0], {}),
    "all masked": ([-2.0, NAN, 3.0], [0, 1, NAN], {"mask": [False] * 3}),
    "one class left": ([-2.0, 0.5, 3.0], [0, 1, 1], {"mask": [False, True, True]}),
    "no weight": ([-2.0, 0.5, 3.0], [0, 1, 1], {"sample_weight": [0.0] * 3}),
    "all below the support": ([-9.0, -5.0, -7.0], [0, 1, 1], {}),
    "all above the support": ([9.0, 5.0, 7.0], [0, 1, 1], {}),
    "perfect": ([-9.0, 9.0, 7.0], [0, 1, 1], {}),
    "all wrong": ([9.0, -9.0, -7.0], [0, 1, 1], {}),
    "saturated": ([-1e4, 1e4, 1e4], [0, 1, 1], {}),
    "saturated and wrong": ([1e4, -1e4, -1e4], [0, 1, 1], {}),
    "on the edge of float32's exponents": ([88.7, 88.7, 88.7], [0, 1, 1], {}),
    "on its other edge": ([-88.7, -88.7, -88.7], [0, 1, 1], {}),
    "all at 1/2": ([0.0, 0.0, 0.0], [0, 1, 1], {}),
}


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("prior", [None, NARROW, sw.priors.Beta(0.5, 0.5)], ids=str)
def test_degenerate_batches_are_finite(prior, name):
    low, high = get(name).range
    for case, (z, y, arguments) in DEGENERATE.items():
        for dtype, from_logits in itertools.product((torch.float32, torch.float64), (True, False)):
            logits = torch.tensor(z, dtype=dtype)
            leaf = (logits if from_logits else torch.sigmoid(logits)).clone().requires_grad_()
            loss = sw.ScoreLoss(name, prior=prior, from_logits=from_logits)(leaf, torch.tensor(y), **arguments)
            loss.backward()
            score = -loss.item() if get(name).greater_is_better else loss.item()
            assert math.isfinite(score), case
            assert low - 1e-6 <= score <= high + 1e-6, case
            assert leaf.grad.isfinite().all(), case


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("case", ["empty", "all masked", "no weight"])
def test_where_nothing_counts_the_loss_is_the_empty_value(case, name):
    z, y, arguments = DEGENERATE[case]
    logits = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    loss = sw.ScoreLoss(name)(logits, torch.tensor(y), **arguments)
    loss.backward()
    sign = -1 if get(name).greater_is_better else 1
    assert loss.item() == sign * get(name).empty_value
    assert logits.grad.abs().sum() == 0


@pytest.mark.parametrize("name", names())
def test_a_label_without_events_does_not_disturb_the_others(name):
    logits = torch.tensor([[-1.0, 0.3], [2.0, 0.1], [0.5, -2.0]], dtype=torch.float64)
    targets = torch.tensor([[0, 0], [1, 0], [1, 0]])
    both, alone = logits.clone().requires_grad_(), logits[:, 0].clone().requires_grad_()
    sw.ScoreLoss(name)(both, targets).backward()
    sw.ScoreLoss(name)(alone, targets[:, 0]).backward()
    assert both.grad.isfinite().all()
    torch.testing.assert_close(both.grad[:, 0], alone.grad / 2, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    ("prior", "center"),
    [
        (sw.priors.Beta(10.0, 10.0), 10.3),
        (sw.priors.Beta(30.0, 30.0), 4.4),
        (sw.priors.Kumaraswamy(8.0, 8.0), 12.0),
        (sw.priors.Uniform(), 88.5),
    ],
    ids=str,
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_ratios_of_cells_below_float32_are_not_too_steep(name, prior, center, sign):
    # All predictions lie where the prior has about 1e-40 left: a ratio of such cells has a slope beyond float32.
    offsets = torch.linspace(-0.7, 0.7, 57)
    logits = (sign * center + offsets[:, None] + torch.tensor([0.0, 0.05, 0.1, 0.15])).T.contiguous()
    targets = torch.tensor([0, 0, 1, 1])[:, None].expand_as(logits)
    weights = torch.tensor([1.0, 30.0, 50.0, 2.0])
    for leaf, more in ((logits, {}), (logits.clone(), {"sample_weight": weights})):
        leaf.requires_grad_()
        value = get(name)(sw.expected_confusion_matrix(leaf, targets, prior, from_logits=True, **more))
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        assert value.isfinite().all()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["precision", "sedi"])
def test_nor_are_they_too_steep_where_weights_learn(name):
    logits = torch.tensor([-10.3, -10.25, -10.2, -10.15], requires_grad=True)
    weights = torch.ones(4, requires_grad=True)
    loss = sw.ScoreLoss(name, prior=sw.priors.Beta(10.0, 10.0))
    gradients = torch.autograd.grad(loss(logits, Y.sort().values, sample_weight=weights), [logits, weights])
    assert all(gradient.isfinite().all() for gradient in gradients)


# -------------------------------------------------------------------------------------------------------- mask


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("prior", [None, sw.priors.Beta(2.0, 3.0)], ids=str)
@pytest.mark.parametrize("from_logits", [True, False])
def test_masked_samples_get_no_gradient_and_change_no_other(name, prior, from_logits):
    z = torch.tensor([-1.2, 0.4, 2.0, -0.3, 1.1, 0.2], dtype=torch.float64)
    x = z if from_logits else torch.sigmoid(z)
    y, w = torch.tensor([0.0, 0, 1, 1, 0, 1]), torch.tensor([1.0, 2, 3, 1, 0.5, 2])
    mask = torch.tensor([True, True, True, False, False, True])
    loss = sw.ScoreLoss(name, prior=prior, from_logits=from_logits)

    wild = [tensor.clone() for tensor in (x, y, w)]
    for tensor, junk in zip(wild, ([NAN, INF], [NAN, 5.0], [NAN, -1.0]), strict=True):
        tensor[~mask] = torch.tensor(junk, dtype=tensor.dtype)
    wild[0].requires_grad_()
    masked = loss(wild[0], wild[1], mask=mask, sample_weight=wild[2])
    masked.backward()

    kept = x[mask].clone().requires_grad_()
    without = loss(kept, y[mask], sample_weight=w[mask])
    without.backward()
    torch.testing.assert_close(masked, without, rtol=1e-14, atol=0)
    assert wild[0].grad[~mask].tolist() == [0, 0]
    torch.testing.assert_close(wild[0].grad[mask], kept.grad, rtol=1e-13, atol=1e-17)


def test_what_is_masked_may_be_anything_in_a_compiled_graph_too(compiled):
    loss = sw.ScoreLoss("f1")
    logits = torch.tensor([0.5, NAN, -1.0], requires_grad=True)
    mask = torch.tensor([True, False, True])
    value = compiled(loss)(logits, torch.tensor([1.0, NAN, 0.0]), mask=mask)
    value.backward()
    loss.raise_if_invalid()
    torch.testing.assert_close(value, loss(logits[mask], torch.tensor([1.0, 0.0])))
    assert logits.grad.isfinite().all()
    assert logits.grad[1] == 0


# ---------------------------------------------------------------------------------------------------- deferred


@pytest.fixture
def compiled():
    torch.compiler.reset()
    yield lambda function: torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("from_logits", "x", "y", "weight", "told"),
    [
        (True, [0.5, NAN, 1.0], [0.0, 1.0, 1.0], None, "logits with NaN among them, expected finite numbers"),
        (True, [0.5, INF, 1.0], [0.0, 1.0, 1.0], None, "logits from .* to inf, expected finite numbers"),
        (False, [0.5, -0.5, 1.5], [0.0, 1.0, 1.0], None, r"predictions from -0.5 to 1.5, expected \[0, 1\]"),
        (False, [0.5, 0.5, 1 + 2**-23], [0.0, 1.0, 1.0], None, r"predictions from .* to 1.000000119"),
        (True, [0.5, 0.5, 1.0], [0.0, 2.0, 1.0], None, r"targets from .* to 2, expected \[0, 1\]"),
        (True, [0.5, 0.5, 1.0], [0.0, -1.0, 1.0], None, r"targets from -1 to 1, expected \[0, 1\]"),
        (True, [0.5, 0.5, 1.0], [0.0, NAN, 1.0], None, "targets with NaN among them"),
        (True, [0.5, 0.5, 1.0], [0.0, 1.0, 1.0], [1.0, -3.0, 1.0], "sample_weight from -3 to 1, .*at least 0"),
        (True, [0.5, 0.5, 1.0], [0.0, 1.0, 1.0], [1.0, INF, 1.0], "sample_weight from .* to inf"),
    ],
)
def test_a_compiled_loss_tells_later_and_once(compiled, from_logits, x, y, weight, told):
    loss = sw.ScoreLoss("tss", from_logits=from_logits)
    call = compiled(loss)
    good = torch.tensor([0.25, 0.5, 0.75]), torch.tensor([0.0, 1.0, 1.0])
    weights = {} if weight is None else {"sample_weight": torch.tensor(weight)}
    ones = {} if weight is None else {"sample_weight": torch.ones(3)}

    call(torch.tensor(x), torch.tensor(y), **weights)
    call(*good, **ones)
    with pytest.raises(ValueError, match=f"an earlier call was given {told}"):
        loss.raise_if_invalid()
    loss.raise_if_invalid()
    torch.testing.assert_close(call(*good, **ones), loss(*good, **ones))
    loss.raise_if_invalid()


def test_a_compiled_loss_names_only_what_was_bad(compiled):
    loss = sw.ScoreLoss("tss")
    compiled(loss)(torch.tensor([0.5, 1.0]), torch.tensor([0.0, 3.0]))
    with pytest.raises(ValueError, match="earlier call") as caught:
        loss.raise_if_invalid()
    assert "logits" not in str(caught.value)
    assert "sample_weight" not in str(caught.value)


def test_a_compiled_loss_checks_shapes_at_once(compiled):
    with pytest.raises((ValueError, torch._dynamo.exc.TorchDynamoException), match=r"saw \(4, 1\) and \(4,\)"):
        compiled(sw.ScoreLoss("tss"))(torch.zeros(4, 1), torch.zeros(4))


def test_a_compiled_loss_without_validation_tells_nothing(compiled):
    loss = sw.ScoreLoss("tss", validate=False)
    assert compiled(loss)(torch.tensor([0.5, NAN]), torch.tensor([0.0, 1.0])).isnan()
    loss.raise_if_invalid()


def test_an_eager_error_leaves_nothing_for_later():
    loss = sw.ScoreLoss("tss")
    with pytest.raises(ValueError, match="index 1"):
        loss(torch.tensor([0.5, NAN]), torch.tensor([0, 1]))
    loss.raise_if_invalid()


@pytest.mark.parametrize("function", [sw.expected_confusion_matrix, sw.confusion_matrix])
def test_compiled_matrices_of_bad_values_are_nan(compiled, function):
    matrix = compiled(lambda p, y: function(p, y).tensor())
    y = torch.tensor([0.0, 1.0, 1.0])
    torch.testing.assert_close(matrix(P[:3], y), function(P[:3], y).tensor())
    for bad, labels in ((torch.tensor([0.5, 1.5, 0.1]), y), (P[:3], y * 2), (torch.tensor([0.5, NAN, 0.1]), y)):
        assert matrix(bad, labels).isnan().all()


@pytest.mark.parametrize("name", ["precision", "sedi"])
def test_compiled_ratios_are_not_too_steep_either(compiled, name):
    logits = torch.tensor([-10.3, -10.25, -10.2, -10.15], requires_grad=True)
    loss = sw.ScoreLoss(name, prior=sw.priors.Beta(10.0, 10.0))
    compiled(loss)(logits, torch.tensor([0.0, 0.0, 1.0, 1.0])).backward()
    assert logits.grad.isfinite().all()


# ---------------------------------------------------------------------------------------------------- combined


def test_a_loss_that_does_not_take_an_argument_is_named():
    both = sw.CombinedLoss([(0.5, sw.ScoreLoss("tss")), (0.5, torch.nn.BCEWithLogitsLoss())])
    logits, targets = torch.randn(4, generator=torch.Generator().manual_seed(0)), torch.tensor([0.0, 1.0, 0.0, 1.0])
    assert both(logits, targets).isfinite()
    told = r"called with the same arguments, here with mask=, but BCEWithLogitsLoss does not take .*'mask'.* Wrap it"
    with pytest.raises(TypeError, match=told):
        both(logits, targets, mask=targets > 0)
    with pytest.raises(TypeError, match=r"^\S*forward\(\) missing"):  # whatever else is wrong is told as it is
        sw.CombinedLoss([(1.0, torch.nn.GaussianNLLLoss())])(logits, targets)


def test_classes_in_numbers_are_led_to_the_losses_for_them():
    with pytest.raises(ValueError, match=r"numbers of classes, see SimplexLoss and OneVsRestLoss"):
        sw.ScoreLoss("tss")(torch.zeros(5, 3), torch.tensor([0, 1, 2, 1, 0]))


def test_a_combined_loss_is_the_weighted_sum():
    a, b = sw.ScoreLoss("tss"), sw.ScoreLoss("error_rate", prior=NARROW)
    logits = torch.randn(20, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets = torch.arange(20) % 2
    both = sw.CombinedLoss([(0.7, a), (0.3, b)])(logits, targets)
    torch.testing.assert_close(both, 0.7 * a(logits, targets) + 0.3 * b(logits, targets), rtol=1e-15, atol=0)
    (gradient,) = torch.autograd.grad(both, logits)
    parts = [torch.autograd.grad(loss(logits, targets), logits)[0] for loss in (a, b)]
    torch.testing.assert_close(gradient, 0.7 * parts[0] + 0.3 * parts[1], rtol=1e-13, atol=1e-17)


@pytest.mark.parametrize(
    ("betas", "told"),
    [
        ([1.5, -0.5], r"at least 0 and sum to 1, saw \[1.5, -0.5\] with the sum 1\."),
        ([0.5, 0.4], r"saw \[0.5, 0.4\] with the sum 0.9\."),
        ([0.5, 0.500002], r"saw \[0.5, 0.500002\] with the sum 1.0000019"),
        ([0.5, NAN], r"saw \[0.5, nan\] with the sum nan"),
        ([INF, 0.0], r"saw \[inf, 0.0\] with the sum inf"),
        ([], r"saw \[\] with the sum 0\."),
    ],
)
def test_betas_that_are_no_convex_combination(betas, told):
    with pytest.raises(ValueError, match=told):
        sw.CombinedLoss([(beta, sw.ScoreLoss("tss")) for beta in betas])


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ([sw.ScoreLoss("tss")], r"expected pairs \(beta, loss\), saw ScoreLoss"),
        ([(1.0, sw.ScoreLoss("tss"), 3)], r"expected pairs \(beta, loss\), saw \(1.0, ScoreLoss"),
        ([(sw.ScoreLoss("tss"), 1.0)], r"expected pairs \(number, loss module\), saw \(ScoreLoss, float\)"),
        ([("1", sw.ScoreLoss("tss"))], r"saw \(str, ScoreLoss\)"),
        ([(True, sw.ScoreLoss("tss"))], r"saw \(bool, ScoreLoss\)"),
        ([(1.0, "tss")], r"saw \(float, str\)"),
        ([(1.0, torch.abs)], r"saw \(float, builtin_function_or_method\)"),
        (None, r"expected a list of pairs \(beta, loss\), saw NoneType"),
        (sw.ScoreLoss("tss"), r"expected a list of pairs \(beta, loss\), saw ScoreLoss"),
    ],
)
def test_what_cannot_be_combined(losses, told):
    with pytest.raises(TypeError, match=f"CombinedLoss: .*{told}"):
        sw.CombinedLoss(losses)


def test_thirds_and_numpy_s_numbers_are_betas():
    for third in (1 / 3, np.float32(1 / 3), np.float64(1 / 3)):
        sw.CombinedLoss([(third, sw.ScoreLoss(name)) for name in ("tss", "hss", "f1")])
    sw.CombinedLoss([(np.int64(1), sw.ScoreLoss("tss")), (0, sw.ScoreLoss("hss"))])


def test_a_combined_loss_passes_arguments_on():
    tss = sw.ScoreLoss("tss")
    combined = sw.CombinedLoss([(0.5, tss), (0.5, sw.ScoreLoss("tss"))])
    arguments = {"mask": Y == 1, "sample_weight": torch.arange(4.0)}
    assert combined(P, Y, **arguments) == tss(P, Y, **arguments)


def test_a_combined_loss_asks_all_of_its_parts(compiled):
    # The innermost and last part alone has seen the bad batch.
    parts = [sw.ScoreLoss("tss", validate=False), nn.L1Loss(), sw.ScoreLoss("f1")]
    inner = sw.CombinedLoss([(0.5, parts[1]), (0.5, parts[2])])
    combined = sw.CombinedLoss([(0.5, parts[0]), (0.5, inner)])
    compiled(combined)(torch.tensor([0.5, NAN]), torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="logits with NaN among them"):
        combined.raise_if_invalid()
    combined.raise_if_invalid()


def test_a_batch_that_all_parts_saw_is_told_once(compiled):
    combined = sw.CombinedLoss([(0.5, sw.ScoreLoss("tss")), (0.5, sw.ScoreLoss("f1"))])
    compiled(combined)(torch.tensor([0.5, NAN]), torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="logits with NaN among them"):
        combined.raise_if_invalid()
    combined.raise_if_invalid()


# ----------------------------------------------------------------------------------------------------- copying

LOSSES = [
    sw.ScoreLoss("tss"),
    sw.ScoreLoss(sw.scores.fbeta(2), prior=sw.priors.Beta(2.0, 3.0)),
    sw.ScoreLoss(0.7 * get("tss") + 0.3 * get("hss"), prior=NARROW, validate=False),
    sw.CombinedLoss([(0.25, sw.ScoreLoss("csi")), (0.75, sw.ScoreLoss(sw.scores.cost(fp=1, fn=9)))]),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])  # noqa: S301
def test_losses_can_be_copied_and_pickled(loss, duplicate):
    before = loss(P, Y)
    twin = duplicate(loss)
    assert twin(P, Y) == before
    assert repr(twin) == repr(loss)
    twin.raise_if_invalid()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_losses_have_no_state_to_load(loss):
    assert loss.state_dict() == {}
    assert list(loss.parameters()) == []
    module = nn.ModuleDict({"model": nn.Linear(2, 1), "loss": loss})
    module.load_state_dict(nn.ModuleDict({"model": nn.Linear(2, 1), "loss": copy.deepcopy(loss)}).state_dict())


def test_a_copy_has_not_seen_what_the_original_saw(compiled):
    loss = sw.ScoreLoss("tss")
    compiled(loss)(torch.tensor([0.5, NAN]), torch.tensor([0.0, 1.0]))
    copy.deepcopy(loss).raise_if_invalid()
    pickle.loads(pickle.dumps(loss)).raise_if_invalid()  # noqa: S301
    with pytest.raises(ValueError, match="NaN"):
        loss.raise_if_invalid()


# --------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("prior", [None, sw.priors.Beta(2.0, 3.0)], ids=str)
def test_targets_and_weights_have_gradients(name, prior):
    generator = torch.Generator().manual_seed(4)
    z, u, w = torch.rand(3, 6, dtype=torch.float64, generator=generator)
    inputs = (z * 4 - 2, u * 0.8 + 0.1, w + 0.5)
    mask = torch.tensor([True] * 5 + [False])
    loss = sw.ScoreLoss(name, prior=prior)

    def call(logits, targets, weights):
        return loss(logits, targets, sample_weight=weights, mask=mask)

    leaves = tuple(tensor.detach().requires_grad_() for tensor in inputs)
    assert torch.autograd.gradcheck(call, leaves)
    for tensor in torch.autograd.grad(call(*leaves), leaves):
        assert tensor[5] == 0
    for i in range(3):
        alone = [tensor.detach() for tensor in inputs]
        alone[i].requires_grad_()
        (only,) = torch.autograd.grad(call(*alone), alone[i])
        torch.testing.assert_close(only, torch.autograd.grad(call(*leaves), leaves[i])[0], rtol=1e-12, atol=1e-15)


def test_weights_of_samples_have_gradients_over_all_labels():
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(5, 3, dtype=torch.float64, generator=generator).requires_grad_()
    targets = (torch.rand(5, 3, generator=generator) < 0.5).double()
    weights = (torch.rand(5, dtype=torch.float64, generator=generator) + 0.5).requires_grad_()
    loss = sw.ScoreLoss("hss")
    assert torch.autograd.gradcheck(lambda z, w: loss(z, targets, sample_weight=w), (logits, weights))


# ------------------------------------------------------------------------------------------------------ dtypes


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite(name, dtype):
    most = torch.finfo(dtype).max
    logits = torch.tensor([-most, -30.0, -1.5, 0.25, 2.0, 40.0, most, -4.0], dtype=dtype, requires_grad=True)
    targets = torch.arange(8) % 2
    for prior in (None, NARROW):
        loss = sw.ScoreLoss(name, prior=prior)(logits, targets)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.dtype == torch.float32
        assert gradient.dtype == dtype
        assert loss.isfinite()
        assert gradient.isfinite().all()
        assert loss == sw.ScoreLoss(name, prior=prior)(logits.float(), targets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", names())
def test_the_loss_has_the_logits_dtype(name, dtype):
    for targets in (Y, Y.float(), Y.double()):
        logits = P.to(dtype).requires_grad_()
        loss = sw.ScoreLoss(name)(logits, targets, sample_weight=torch.ones(4, dtype=torch.float64))
        loss.backward()
        assert loss.dtype == dtype
        assert loss.shape == ()


@pytest.mark.parametrize("name", names())
def test_autocast_changes_nothing(name):
    logits = torch.randn(50, generator=torch.Generator().manual_seed(1)).requires_grad_()
    targets = torch.arange(50) % 2
    loss = sw.CombinedLoss([(0.5, sw.ScoreLoss(name)), (0.5, sw.ScoreLoss(name, prior=sw.priors.Beta(2.0, 3.0)))])
    plain = loss(logits, targets)
    (gradient,) = torch.autograd.grad(plain, logits)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = loss(logits, targets)
        (cast_gradient,) = torch.autograd.grad(cast, logits)
    assert cast.dtype == torch.float32
    assert torch.equal(cast, plain)
    assert torch.equal(cast_gradient, gradient)


def test_autocast_s_half_precision_logits_are_widened():
    weight = torch.randn(3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    features = torch.randn(40, 3, generator=torch.Generator().manual_seed(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = features @ weight
        loss = sw.ScoreLoss("tss")(logits, torch.arange(40) % 2)
    assert (logits.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
    loss.backward()
    assert weight.grad.abs().sum() > 0


@pytest.mark.parametrize("z", [-700.0, -100.0, -40.0, -1.0, 0.0, 2.5, 40.0, 100.0, 700.0])
@pytest.mark.parametrize("label", [0, 1])
def test_saturated_logits_still_learn(z, label, compiled):
    # torch's own sigmoid has the backward pass p (1 - p), which is 0 from 37 on.
    exact = float(1 / (2 + 2 * mpmath.cosh(mpmath.mpf(z))))
    logits = torch.tensor([z, 0.3, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([label, 0, 1, 1 - label])
    loss = sw.ScoreLoss("tss")
    for call in (loss, compiled(loss)) if abs(z) == 40 else (loss,):
        (gradient,) = torch.autograd.grad(call(logits, targets), logits)
        # TSS is the mean of F over two positives minus its mean over two negatives.
        assert gradient[0].item() == pytest.approx((-0.5 if label else 0.5) * exact, rel=1e-14)
        assert gradient[0] != 0


# ------------------------------------------------------------------------------------------- what is not accepted


@pytest.mark.parametrize(
    "arguments", [{"from_logits": "no"}, {"from_logits": None}, {"validate": "no"}, {"validate": 0}]
)
def test_switches_are_true_or_false(arguments):
    (name,) = arguments
    with pytest.raises(TypeError, match=f"{name} must be True or False, saw"):
        sw.ScoreLoss("tss", **arguments)


@pytest.mark.parametrize("bad", [torch.zeros(4).to(torch.float8_e4m3fn), torch.zeros(4).to_sparse()])
def test_dtypes_and_layouts_that_nothing_here_computes_in(bad):
    with pytest.raises(TypeError, match="must be dense float16, bfloat16, float32 or float64, saw"):
        sw.ScoreLoss("tss")(bad, torch.zeros(4))


def test_a_list_of_words_says_so():
    with pytest.raises(TypeError, match=r"targets must be .* saw list of str"):
        sw.ScoreLoss("tss")(torch.zeros(2), ["yes", "no"])


def test_a_score_that_returns_no_tensor():
    score = sw.scores.Score("mine", lambda tn, fp, fn, tp: 1.0)
    with pytest.raises(TypeError, match="the score mine must return a tensor, saw float"):
        sw.ScoreLoss(score)(torch.zeros(2), torch.zeros(2))


def test_combined_losses_are_scalars():
    combined = sw.CombinedLoss([(1.0, torch.nn.BCEWithLogitsLoss(reduction="none"))])
    with pytest.raises(ValueError, match=r"BCEWithLogitsLoss returned 4 numbers\. Give it a reduction"):
        combined(torch.zeros(4), torch.zeros(4))


def test_a_matrix_has_no_negative_cells():
    with pytest.raises(ValueError, match="tp must be at least 0, saw -4"):
        sw.ConfusionMatrix(1, 2, 3, -4)


def test_the_index_of_a_weight_is_its_sample_s():
    with pytest.raises(ValueError, match="at index 2, is -1"):
        sw.ScoreLoss("tss")(torch.zeros(3, 2), torch.zeros(3, 2), sample_weight=torch.tensor([1.0, 1.0, -1.0]))


def test_a_wrong_shape_says_so_in_a_compiled_graph_too():
    torch.compiler.reset()
    compiled = torch.compile(sw.ScoreLoss("tss"), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match=r"exactly the same shape, saw \(4, 1\) and \(4,\)"):
        compiled(torch.zeros(4, 1), torch.zeros(4))


def test_weights_are_counted_exactly():
    weight = torch.randint(1, 1 << 22, (65_536,), generator=torch.Generator().manual_seed(0))
    ones = torch.ones(65_536)
    assert sw.expected_confusion_matrix(ones, ones, sample_weight=weight).tp.item() == weight.sum().item()
    big = torch.tensor([16_777_217, 0])
    assert sw.expected_confusion_matrix(ones[:2], ones[:2], sample_weight=big).tp.item() == 16_777_217


def test_made_under_another_default_device():
    with torch.device("meta"):
        loss = sw.ScoreLoss("tss")
    assert loss(torch.zeros(2), torch.tensor([0, 1])).item() == 0
