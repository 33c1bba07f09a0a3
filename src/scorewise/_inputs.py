"""What users pass, made ready or refused: the one place that reads arguments.

Shapes and dtypes are always checked. Values are checked at once where that costs nothing but time (CPU, eager). On an
accelerator, or inside a compiled graph, looking at a value would make the host wait for the device at every step, so
the extreme values stay there in a `Watch`, and are judged later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from scorewise._timeline import Timeline, check_times, timeline
from scorewise._values import alongside, as_tensor, number, shape_of
from scorewise._watch import Limit, ends

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Batch:
    """Predictions and labels of one dtype and device, with no NaN left where they are masked.

    ``count`` is how much each sample counts (mask times sample weight); None means one each. With labels it may have
    the shape (n, 1). ``costs`` are what an error of each sample costs, a false positive and a false negative.
    ``silent`` is True where a prediction is unknown: no alarm, at any threshold, to those who look around. Such
    weights need labels that are events or not: ``hard_labels``. ``checked`` tells whether values are to be judged.
    """

    predictions: Tensor
    targets: Tensor
    count: Tensor | None
    from_logits: bool
    costs: tuple[Tensor, Tensor] | None = None
    silent: Tensor | None = None
    timeline: Timeline | None = None
    hard_labels: bool = False
    checked: bool = True


def prepare(
    predictions: object,
    targets: object,
    *,
    from_logits: bool,
    mask: object = None,
    sample_weight: object = None,
    costs: object = None,
    groups: object = None,
    times: object = None,
    hard: bool = False,
    context: bool = False,
    checked: bool = True,
) -> Batch:
    """Turn a call's arguments into a `Batch`; raise a TypeError or ValueError that says what was seen.

    Args:
        predictions: Logits or probabilities, (n,) or (n, labels).
        targets: Labels in [0, 1], of the same shape.
        from_logits: Whether ``predictions`` are logits.
        mask: Booleans, True where a sample counts.
        sample_weight: Non-negative weights.
        costs: Non-negative costs of a false positive and a false negative, (n, 2) or (n, labels, 2).
        groups: The series that each sample belongs to.
        times: Integers that increase within a group.
        context: Whether masked samples are seen by others: then only what is NaN there is unknown, and labels are hard.
        checked: Whether values are to be judged, not only shapes and dtypes.
        hard: Whether integer or boolean predictions are accepted, and the predictions' own dtype is kept.
            Labels and weights keep theirs too: half-precision predictions are no reason to round a weight.
    """
    name = "logits" if from_logits else "predictions"
    x = _predictions(predictions, name, from_logits=from_logits, hard=hard)
    y = alongside(targets, "targets", x)
    if y.shape != x.shape:
        raise ValueError(
            f"{name} and targets must have exactly the same shape, saw {shape_of(x)} and {shape_of(y)}."
            f"{_reshape_hint(x, y, name)}"
        )
    widest = torch.float32 if x.device.type == "mps" else torch.float64
    if hard:
        y = y.to(widest if y.dtype == torch.float64 else torch.promote_types(x.dtype, torch.float32))
    else:
        y = y.to(x.dtype)

    keep = None
    if mask is not None:
        keep = _per_sample(alongside(mask, "mask", x), "mask", x, name)
        if keep.dtype != torch.bool:
            raise TypeError(
                f"mask must be boolean (True: counted), saw {keep.dtype}. Weights belong in sample_weight; make a 0/1 "
                "mask boolean: mask == 1."
            )
    weight = None
    if sample_weight is not None:
        weight = _per_sample(alongside(sample_weight, "sample_weight", x), "sample_weight", x, name)
        weight = weight.to(widest)

    pair = None if costs is None else _costs(costs, x, name)

    silent = None
    if keep is not None:
        # where, not a product: NaN * 0 is NaN, in the value and in the gradient.
        if context:
            silent, unlabelled = x.isnan() & ~keep, y.isnan() & ~keep
            x, y = torch.where(silent, 0.0, x), torch.where(unlabelled, 0.0, y)
        else:
            x, y = torch.where(keep, x, 0.0), torch.where(keep, y, 0.0)
        weight = keep.to(y.dtype) if weight is None else torch.where(keep, weight, 0.0)
        if pair is not None:
            pair = torch.where(keep, pair[0], 0.0), torch.where(keep, pair[1], 0.0)
    order = timeline(groups, times, x)
    return Batch(x, y, weight, from_logits, pair, silent, order, hard_labels=context, checked=checked)


def _costs(costs: object, x: Tensor, x_name: str) -> tuple[Tensor, Tensor]:
    tensor = alongside(costs, "costs", x)
    if tensor.shape not in ((x.shape[0], 2), (*x.shape, 2)):
        expected = f"({x.shape[0]}, 2)" if x.dim() == 1 else f"({x.shape[0]}, 2) or ({x.shape[0]}, {x.shape[1]}, 2)"
        raise ValueError(
            f"costs must have the shape {expected} beside {x_name} of {shape_of(x)}: what "
            f"each sample costs as a false positive and as a false negative; saw {shape_of(tensor)}."
        )
    tensor = tensor.to(torch.float32 if x.device.type == "mps" else torch.float64)
    if tensor.dim() == 2 and x.dim() == 2:
        tensor = tensor.unsqueeze(1)
    return tensor[..., 0], tensor[..., 1]


def _predictions(predictions: object, name: str, *, from_logits: bool, hard: bool) -> Tensor:
    if not isinstance(from_logits, bool):
        raise TypeError(f"from_logits must be True or False, saw {from_logits!r}.")
    x = as_tensor(predictions, name)
    if not x.is_floating_point():
        if not hard or from_logits or x.is_complex():
            raise TypeError(f"{name} must be floating point, saw {x.dtype}. Pass the model's output, not classes.")
        x = x.to(torch.get_default_dtype())
    if x.dtype not in DTYPES or x.layout != torch.strided:
        raise TypeError(f"{name} must be dense float16, bfloat16, float32 or float64, saw {x.dtype}, {x.layout}.")
    if not hard and x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    if x.dim() not in (1, 2):
        raise ValueError(f"{name} must have the shape (n,) or (n, labels), saw {shape_of(x)}.")
    if x.dim() == 2 and x.shape[1] == 0:
        raise ValueError(f"{name} must have at least one label, saw the shape {shape_of(x)}.")
    return x


def check_now(batch: Batch) -> None:
    """Raise a ValueError that counts and locates the bad values of a batch, if there are any."""
    x, y, w = batch.predictions, batch.targets, batch.count
    seen = " This weight sees masked samples too: where they are unknown, pass NaN." if batch.silent is not None else ""
    if batch.from_logits:
        if not _within(x, -math.inf, math.inf):
            raise ValueError(
                f"logits must be finite, but {located(~x.isfinite(), x)}. Mark unknown samples with mask=; otherwise "
                f"look for a diverging model or missing values in its input.{seen}"
            )
    elif not _within(x, 0, 1):
        raise ValueError(
            f"predictions must be probabilities in [0, 1], but {located(~((x >= 0) & (x <= 1)), x)}. Pass "
            f"from_logits=True for logits, and mark unknown samples with mask=.{seen}"
        )
    if not _within(y, 0, 1):
        bad = ~((y >= 0) & (y <= 1))
        minus = " For labels -1 and 1 pass (targets + 1) / 2." if bool((y == -1).any()) else ""
        raise ValueError(
            f"targets must be 0 or 1, or soft labels between, but {located(bad, y)}.{minus} Mark unknown labels "
            f"with mask=.{seen}"
        )
    if w is not None and not _within(w, 0, math.inf):
        w = w.squeeze(1) if w.dim() == 2 and w.shape[1] != x.shape[1] else w  # one for each sample: located by its row
        raise ValueError(f"sample_weight must be finite and at least 0, but {located(~((w >= 0) & w.isfinite()), w)}.")
    if batch.costs is not None and not all(_within(cost, 0, math.inf) for cost in batch.costs):
        both = torch.stack(batch.costs, -1)
        both = both.squeeze(1) if both.dim() == 3 and both.shape[1] != x.shape[1] else both
        raise ValueError(f"costs must be finite and at least 0, but {located(~((both >= 0) & both.isfinite()), both)}.")
    if batch.hard_labels and bool((soft := (y > 0) & (y < 1)).any()):
        raise ValueError(
            f"targets must be 0 or 1, since this weight looks at events around a sample, but {located(soft, y)}.{seen}"
        )
    if batch.timeline is not None:
        check_times(batch.timeline)


def extremes(batch: Batch) -> Tensor:
    """What is judged of a batch by its `limits`, as a (6, 2) tensor on its device; NaN stays NaN.

    (-min, max) of predictions, targets, counts and costs; then by how much a step in time falls short of 1, and
    how soft a label is where it must not be. Zero is always legal, so it stands for what is absent or empty, and the
    elementwise maximum of two such tensors describes both batches.
    """
    x, y = batch.predictions.detach(), batch.targets.detach()
    costs = None if batch.costs is None else torch.stack(batch.costs)
    rows = [ends(t, like=x) for t in (x, y, batch.count, costs)]
    steps = None if batch.timeline is None else batch.timeline.steps
    short = None if steps is None or steps.numel() == 0 else (1 - steps.min()).clamp(min=0)
    soft = (y * (1 - y)).amax() if batch.hard_labels and y.numel() else None
    return torch.stack([*rows, ends(short, like=x), ends(soft, like=x)])


def limits(*, from_logits: bool) -> tuple[Limit, ...]:
    """What `extremes` may be."""
    amount = "finite numbers of at least 0"
    soft = "soft targets, where the weight looks at events around a sample and expects 0 or 1"
    return (
        Limit(-math.inf, math.inf, "logits {span}, expected finite numbers")
        if from_logits
        else Limit(0.0, 1.0, "predictions {span}, expected [0, 1]"),
        Limit(0.0, 1.0, "targets {span}, expected [0, 1]"),
        Limit(0.0, math.inf, f"sample_weight {{span}}, expected {amount}"),
        Limit(0.0, math.inf, f"costs {{span}}, expected {amount}"),
        Limit(0.0, 0.0, "times that do not increase within a group"),
        Limit(0.0, 0.0, soft),
    )


def _per_sample(tensor: Tensor, name: str, x: Tensor, x_name: str) -> Tensor:
    if tensor.shape == x.shape:
        return tensor
    if x.dim() == 2 and tensor.shape == x.shape[:1]:
        return tensor.unsqueeze(1)
    expected = shape_of(x) if x.dim() == 1 else f"{shape_of(x)} or ({x.shape[0]},)"
    raise ValueError(f"{name} must have the shape {expected} like the {x_name}, saw {shape_of(tensor)}.")


def _within(t: Tensor, low: float, high: float) -> bool:
    if t.numel() == 0:
        return True
    smallest, largest = (end.item() for end in torch.aminmax(t.detach()))  # NaN if any value is
    return math.isfinite(smallest) and math.isfinite(largest) and smallest >= low and largest <= high


def located(bad: Tensor, t: Tensor) -> str:
    """How many values are bad, and which is the first, in words."""
    where = bad.nonzero()
    first = where[0].tolist()
    index = first[0] if len(first) == 1 else tuple(first)
    value = t.detach()[tuple(first)].item()
    return f"{len(where)} of {t.numel()} are not: the first, at index {index}, is {number(value)}"


def _reshape_hint(x: Tensor, y: Tensor, name: str) -> str:
    if x.shape == (*y.shape, 1):
        return f" If there is one label, pass {name}.squeeze(-1)." if x.dim() == 2 else ""
    if y.shape == (*x.shape, 1):
        return " If there is one label, pass targets.squeeze(-1)."
    if x.dim() == 2 and y.shape == x.shape[:1]:
        return " If the targets are numbers of classes, see SimplexLoss and OneVsRestLoss."
    return ""
