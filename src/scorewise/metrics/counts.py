"""How many samples of each class count."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from scorewise.confusion import confusion_matrix
from scorewise.weights.base import Pair


def class_counts(target: Tensor, *, mask: Any = None, sample_weight: Any = None) -> Pair:
    """How many negatives and positives count, of each label: what they were called, and at what cost, is no matter."""
    nothing = torch.zeros(target.shape, device=target.device)
    matrix = confusion_matrix(nothing, target, mask=mask, sample_weight=sample_weight)
    return matrix.negatives, matrix.positives
