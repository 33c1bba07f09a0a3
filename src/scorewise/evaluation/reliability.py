"""How often events follow a prediction: the points of a reliability diagram."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from scorewise.evaluation.results import Bin, Interval

BINS = 15
_NORMAL = 1.959963984540054  # of which 95 % of a normal distribution lie within


def reliability(probabilities: Tensor, targets: Tensor, counted: Tensor) -> tuple[Bin, ...]:
    """Bins with about equally many samples; equal predictions are in the same one, alone if there are few such values.

    Args:
        probabilities: Predictions, (n,).
        targets: Labels 0/1.
        counted: Where a sample counts; how much does not matter here.
    """
    p, order = probabilities[counted].double().sort()
    y = targets[counted].double()[order]
    n = len(p)
    if not n:
        return ()
    tops = torch.unique_consecutive(p)
    if len(tops) > BINS:
        last = torch.arange(1, BINS + 1) * n // BINS - 1
        tops = torch.unique_consecutive(p[last.clamp(min=0)])
    places = torch.searchsorted(tops, p)
    rows = torch.bincount(places)
    predicted, observed = (torch.bincount(places, weights=t) / rows for t in (p, y))
    told = zip(rows.tolist(), predicted.tolist(), observed.tolist(), strict=True)
    return tuple(Bin(x, share, wilson(share, count), count) for count, x, share in told)


def wilson(share: float, rows: int) -> Interval:
    """Where a share lies that was observed so in independent samples."""
    z = _NORMAL**2 / rows
    middle = (share + z / 2) / (1 + z)
    half = math.sqrt(share * (1 - share) * z + z * z / 4) / (1 + z)
    return max(0.0, middle - half), min(1.0, middle + half)
