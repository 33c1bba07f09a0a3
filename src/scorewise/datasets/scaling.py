"""Features of all parts on the scale of the first, the only one that is known when a model is fitted."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def standardized(features: Sequence[Tensor]) -> list[Tensor]:
    """Shift and scale by the mean and the standard deviation of the first.

    Args:
        features: Those of each part, (n, features).
    """
    deviation, mean = torch.std_mean(features[0], dim=0, correction=0)
    scale = torch.where(deviation > 0, deviation, 1.0)  # a constant feature becomes 0, not 0/0
    return [(x - mean) / scale for x in features]
