"""Padded sequences, laid end to end."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from scorewise._values import alongside, as_tensor, shape_of


class Padded(NamedTuple):
    """Sequences laid end to end, as a loss takes them: ``loss(p.logits, p.targets, groups=p.groups, …)``.

    Attributes:
        logits: (batch · time,) or (batch · time, labels); NaN in the padding.
        targets: The same shape and dtype; NaN in the padding.
        groups: Which sequence, (batch · time,) int64.
        times: Which step of it, (batch · time,) int64.
        mask: False in the padding, (batch · time,) bool.
    """

    logits: Tensor
    targets: Tensor
    groups: Tensor
    times: Tensor
    mask: Tensor


def from_padded(logits: object, targets: object, lengths: object) -> Padded:
    """Lay padded sequences end to end, so that no window reaches from one into the next, nor into the padding.

    Row b · time + t of the result is step t of sequence b, and counts where t < lengths[b]. Elsewhere logits and
    targets become NaN, that is unknown, whatever they held, and the gradient into the padding is exactly 0.

    The result's shapes follow from the input's shapes alone: nothing waits for a device, and a compiled graph stays
    whole. There the values of lengths are not checked: one above the time means all of it, one below 0 none.

    Args:
        logits: Floating point, (batch, time) or (batch, time, labels); the dtype is kept.
        targets: Labels of any real dtype, of the same shape.
        lengths: How many steps of each sequence are real, (batch,) integers from 0 to time.

    Returns:
        Flat logits, targets, groups, times and mask.

    Raises:
        TypeError: If the logits are not floating point, the targets not real, or the lengths not integers.
        ValueError: If shapes or devices disagree, or a length is out of its range.

    Example:
        >>> logits = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, 0.0]])
        >>> targets = torch.tensor([[0, 0, 1], [1, 0, 0]])
        >>> flat = from_padded(logits, targets, lengths=[3, 1])
        >>> flat.logits
        tensor([ 0.5000, -1.0000,  2.0000,  1.5000,     nan,     nan])
        >>> flat.groups, flat.times
        (tensor([0, 0, 0, 1, 1, 1]), tensor([0, 1, 2, 0, 1, 2]))
        >>> flat.mask
        tensor([ True,  True,  True,  True, False, False])
    """
    x = as_tensor(logits, "logits")
    if not x.is_floating_point():
        raise TypeError(f"logits must be floating point, saw {x.dtype}. Pass the model's output, not classes.")
    if x.dim() not in (2, 3):
        alone = " A single sequence needs no padding: pass it directly." if x.dim() == 1 else ""
        raise ValueError(
            f"logits must have the shape (batch, time) or (batch, time, labels), saw {shape_of(x)}.{alone}"
        )
    y = alongside(targets, "targets", x)
    if y.shape != x.shape:
        raise ValueError(f"logits and targets must have exactly the same shape, saw {shape_of(x)} and {shape_of(y)}.")
    batch, time = x.shape[:2]
    n = alongside(lengths, "lengths", x)
    if n.shape != (batch,):
        swap = " If time comes first, swap it: logits.transpose(0, 1), targets too." if n.shape == (time,) else ""
        saw = f"as the logits' is {shape_of(x)}, saw {shape_of(n)}"
        raise ValueError(f"lengths must have the shape ({batch},), {saw}.{swap}")
    if batch and (n.is_floating_point() or n.dtype == torch.bool):  # [] becomes a float tensor
        raise TypeError(f"lengths must be integers, saw {n.dtype}.")
    n = n.to(torch.int64)
    if n.device.type == "cpu" and not torch.compiler.is_compiling():
        bad = ((n < 0) | (n > time)).nonzero().flatten().tolist()
        if bad:
            raise ValueError(
                f"lengths must be from 0 to {time}, the time of the logits, but {len(bad)} of {batch} are not: the "
                f"first, at index {bad[0]}, is {int(n[bad[0]])}."
            )

    steps = torch.arange(time, device=x.device).expand(batch, time)
    mask = (steps < n.unsqueeze(1)).flatten()
    keep = mask if x.dim() == 2 else mask.unsqueeze(1)
    return Padded(
        # where, not a product: NaN * 0 is NaN, in the value and in the gradient.
        torch.where(keep, x.flatten(0, 1), math.nan),
        torch.where(keep, y.to(x.dtype).flatten(0, 1), math.nan),
        torch.arange(batch, device=x.device).unsqueeze(1).expand(batch, time).flatten(),
        steps.flatten(),
        mask,
    )
