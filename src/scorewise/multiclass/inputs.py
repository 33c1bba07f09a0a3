"""Forecasts of classes, made ready or refused."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from scorewise._inputs import DTYPES, located
from scorewise._values import alongside, as_tensor, shape_of
from scorewise._watch import Limit, ends

_UNBALANCED = 1e-3


@dataclass(frozen=True)
class Forecasts:
    """Logits or probabilities (n, m), the class (n,) that each turned out to be, and how much each counts.

    Where a sample is masked its class is 0 and its forecast the same for all classes. ``unlike`` is how far one-hot
    labels are from 0 and 1, and from one 1 in each row; ``tolerance`` how far probabilities may be from 1 together.
    """

    x: Tensor
    targets: Tensor
    count: Tensor | None
    from_logits: bool
    unlike: Tensor | None
    tolerance: float

    @property
    def classes(self) -> int:
        """How many there are."""
        return self.x.shape[1]

    @property
    def probabilities(self) -> Tensor:
        """The forecasts as probabilities."""
        return torch.softmax(self.x, -1) if self.from_logits else self.x

    @property
    def weights(self) -> Tensor:
        """How much each sample counts, in float64; nothing, if its class does not exist."""
        wide = torch.float32 if self.x.device.type == "mps" else torch.float64
        there = (self.targets >= 0) & (self.targets < self.classes)
        return there.to(wide) if self.count is None else there * self.count


def prepare(
    predictions: object, targets: object, *, from_logits: bool, mask: object = None, sample_weight: object = None
) -> Forecasts:
    """Turn a call's arguments into `Forecasts`; raise a TypeError or ValueError that says what was seen."""
    name = "logits" if from_logits else "predictions"
    if not isinstance(from_logits, bool):
        raise TypeError(f"from_logits must be True or False, saw {from_logits!r}.")
    x = as_tensor(predictions, name)
    if x.dtype not in DTYPES:
        raise TypeError(f"{name} must be floating point, saw {x.dtype}. Pass the model's output, not classes.")
    if x.dim() != 2 or x.shape[1] < 2:
        raise ValueError(f"{name} must have the shape (n, classes), with two classes or more; saw {shape_of(x)}.")
    tolerance = max(_UNBALANCED, 2 * torch.finfo(x.dtype).eps)
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y, unlike = _classes(alongside(targets, "targets", x), x, name)
    wide = torch.float32 if x.device.type == "mps" else torch.float64
    count = None
    if sample_weight is not None:
        count = _one_each(alongside(sample_weight, "sample_weight", x), "sample_weight", x).to(wide)
    if mask is not None:
        keep = _one_each(alongside(mask, "mask", x), "mask", x)
        if keep.dtype != torch.bool:
            raise TypeError(f"mask must be boolean (True: counted), saw {keep.dtype}. Make it so: mask == 1.")
        # where, not a product: NaN * 0 is NaN, in the value and in the gradient.
        x = torch.where(keep[:, None], x, 0.0 if from_logits else 1 / x.shape[1])
        y = torch.where(keep, y, 0)
        unlike = None if unlike is None else torch.where(keep, unlike, 0.0)
        count = keep.to(wide) if count is None else torch.where(keep, count, 0.0)
    return Forecasts(x, y, count, from_logits, unlike, tolerance)


def _classes(y: Tensor, x: Tensor, name: str) -> tuple[Tensor, Tensor | None]:
    n, m = x.shape
    if y.shape == (n,):
        if y.is_floating_point() or y.dtype == torch.bool or y.is_complex():
            raise TypeError(f"targets must be class indices, integers from 0 to {m - 1}, or one-hot, saw {y.dtype}.")
        return y.long(), None
    if y.shape != (n, m):
        raise ValueError(
            f"targets must be class indices of shape ({n},) or one-hot of shape ({n}, {m}), beside {name} of "
            f"{shape_of(x)}; saw {shape_of(y)}."
        )
    hot = y.double() if y.device.type != "mps" else y.float()
    # how far each label is from 0 or 1, whichever is nearer, and each row's sum from 1
    off = (hot - hot.round().clamp(0, 1)).abs().amax(1) if n else hot.new_zeros(0)
    return hot.nan_to_num(0.0).argmax(1), torch.maximum(off, (hot.sum(1) - 1).abs())


def one_hot(x: Tensor, targets: object, mask: object, *, checked: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The labels of classes against all others, (n, m), which rows of them are sound, and their `extremes`.

    Raise a ValueError, if values are to be checked and can be, unless a mask hides what is not sound.
    """
    if x.dim() != 2 or x.shape[1] < 2:
        raise ValueError(f"logits must have the shape (n, classes), with two classes or more; saw {shape_of(x)}.")
    y, unlike = _classes(alongside(targets, "targets", x), x, "logits")
    n, m = x.shape
    good = (y >= 0) & (y < m) if unlike is None else unlike == 0
    known = None if mask is None else alongside(mask, "mask", x)
    # a mask of another shape is refused by those who use it
    fits = known is not None and known.shape in ((n,), (n, m))
    bad = ~good
    if known is not None and fits:
        bad &= (known if known.dim() == 1 else known.any(1)).bool()
    if checked and x.device.type == "cpu" and not torch.compiler.is_compiling():
        _check_classes(y, bad if unlike is None else None, None if unlike is None else bad, m)
    hot = (y[:, None] == torch.arange(m, device=x.device)).to(torch.get_default_dtype())
    seen = torch.stack([ends(bad.long() if mine else None, like=x) for mine in (unlike is None, unlike is not None)])
    return hot, good, seen


def _check_classes(y: Tensor, beyond: Tensor | None, unlike: Tensor | None, m: int) -> None:
    if beyond is not None and bool(beyond.any()):
        raise ValueError(
            f"targets must be class indices from 0 to {m - 1}, since there are {m} classes, but {located(beyond, y)}."
        )
    if unlike is not None and bool(unlike.any()):
        raise ValueError(
            f"one-hot targets must be 0 or 1 with one 1 in each row, but {int(unlike.sum())} of {len(unlike)} rows are "
            f"not: the first is row {int(unlike.nonzero()[0])}."
        )


def _one_each(t: Tensor, name: str, x: Tensor) -> Tensor:
    if t.shape != x.shape[:1]:
        raise ValueError(f"{name} must have one value for each sample, shape ({x.shape[0]},), saw {shape_of(t)}.")
    return t


def check_now(forecasts: Forecasts) -> None:
    """Raise a ValueError that counts and locates the bad values, if there are any."""
    x, y, m = forecasts.x.detach(), forecasts.targets, forecasts.classes
    if forecasts.from_logits:
        if not bool(x.isfinite().all()):
            raise ValueError(f"logits must be finite, but {located(~x.isfinite(), x)}. Mark unknown ones with mask=.")
    else:
        bad = ~((x >= 0) & (x <= 1))
        if bool(bad.any()):
            raise ValueError(
                f"predictions must be probabilities in [0, 1], but {located(bad, x)}. Pass from_logits=True for "
                "logits, and mark unknown samples with mask=."
            )
        sums = x.sum(1)
        off = (sums - 1).abs() > forecasts.tolerance
        if bool(off.any()):
            raise ValueError(
                f"the probabilities of a sample's classes must sum to 1, but {located(off, sums)}. Pass "
                "from_logits=True for logits; for labels that do not exclude each other use ScoreLoss."
            )
    _check_classes(y, (y < 0) | (y >= m), None if forecasts.unlike is None else ~(forecasts.unlike == 0), m)
    count = forecasts.count
    if count is not None and bool((bad := ~((count >= 0) & count.isfinite())).any()):
        raise ValueError(f"sample_weight must be finite and at least 0, but {located(bad, count)}.")


def extremes(forecasts: Forecasts) -> Tensor:
    """What is judged of forecasts by their `limits`, on their device."""
    x, y = forecasts.x.detach(), forecasts.targets
    sums = None if forecasts.from_logits else (x.sum(1) - 1) / forecasts.tolerance
    beyond = torch.maximum(-y, y - (forecasts.classes - 1)).clamp(min=0)
    return torch.stack([ends(t, like=x) for t in (x, sums, beyond, forecasts.unlike, forecasts.count)])


def limits(*, from_logits: bool) -> tuple[Limit, ...]:
    """What `extremes` may be."""
    return (
        Limit(-math.inf, math.inf, "logits {span}, expected finite numbers")
        if from_logits
        else Limit(0.0, 1.0, "predictions {span}, expected [0, 1]"),
        Limit(-1.0, 1.0, "probabilities that do not sum to 1"),
        *class_limits(),
        Limit(0.0, math.inf, "sample_weight {span}, expected finite numbers of at least 0"),
    )


def class_limits() -> tuple[Limit, Limit]:
    """Of the two kinds of labels, indices and one-hot: what there is of bad ones."""
    return (
        Limit(0.0, 0.0, "targets that are no class indices"),
        Limit(0.0, 0.0, "one-hot targets that are not 0 or 1, or not one in each row"),
    )
