"""Sums over samples, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

_RUN = 128


def total(x: Tensor, axis: int = 0) -> Tensor:
    """The sum over samples, in float64: counts stay exact far beyond the 2^24 of float32.

    Args:
        x: Numbers.
        axis: That of the samples.
    """
    if x.device.type == "mps":
        return _compensated(x.movedim(axis, 0))
    n = x.shape[axis]
    if x.dtype == torch.float64 or n < 128 * _RUN or torch.compiler.is_compiling():
        return x.sum(axis, dtype=torch.float64)
    # PyTorch sums in another dtype by first copying all of the input. Short runs in float32 and their sums in float64
    # are faster, exact for counts, and for shares as good as about one more rounding of each.
    rest = n % _RUN
    if rest:
        return total(x.narrow(axis, 0, n - rest), axis) + total(x.narrow(axis, n - rest, rest), axis)
    runs = x.reshape(*x.shape[:axis], -1, _RUN, *x.shape[axis + 1 :]).sum(axis + 1)
    return runs.sum(axis, dtype=torch.float64)


def _compensated(x: Tensor) -> Tensor:
    """The sum over samples where a device has no float64: pairwise, with every rounding error kept and added last."""
    lost = x.new_zeros(1, *x.shape[1:])
    while x.shape[0] > 1:
        if x.shape[0] % 2:
            x = torch.cat([x, torch.zeros_like(x[:1])])
        a, b = x[0::2], x[1::2]
        x = a + b
        back = x - a
        lost = lost + ((a - (x - back)) + (b - back)).sum(0, keepdim=True)
    return (x.sum(0, keepdim=True) + lost)[0]
