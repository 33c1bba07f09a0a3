"""Losses of others, of logits and labels (n,) or (n, labels)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

GAMMA = 2.0
"""Of the focal loss, as its authors recommend; their weight of a class is left to the threshold."""
MARGIN = 1.0
"""Of LibAUC's loss, its default."""


def focal(logits: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Cross entropy that counts less where it is small already.

    T.-Y. Lin, P. Goyal, R. Girshick, K. He, P. Dollár: Focal loss for dense object detection. ICCV 2017.

    Args:
        logits: Of the samples.
        targets: Their labels.
        reduction: "mean", or "none" for the loss of each.
    """
    entropy = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    each = (1 - torch.exp(-entropy)) ** GAMMA * entropy
    return each.mean() if reduction == "mean" else each


def dice(logits: Tensor, targets: Tensor) -> Tensor:
    """One minus F1, with probabilities for decisions: soft Dice. One is added to keep an empty batch from 0/0.

    F. Milletari, N. Navab, S.-A. Ahmadi: V-Net. 3DV 2016; there with squares below the line.
    """
    p = logits.sigmoid()
    return (1 - (2 * (p * targets).sum(0) + 1) / (p.sum(0) + targets.sum(0) + 1)).mean()


def aucm(logits: Tensor, targets: Tensor) -> Tensor:
    """LibAUC's loss for the area under the ROC curve, with squared margins, version 1.

    It is a saddle point in three numbers besides the network: the means of both classes, and by how much these miss the
    margin. With each at its optimum for the batch, any optimiser will do, and what is left has the closed form below:
    LibAUC's values and gradients (a test holds it against these), without its sum in Python, sample by sample.

    Z. Yuan, Y. Yan, M. Sonka, T. Yang: Large-scale robust deep AUC maximization. ICCV 2021.
    """
    p, y = logits.sigmoid().reshape(len(logits), -1), targets.reshape(len(targets), -1)
    positive, negative = y.sum(0), (1 - y).sum(0)
    above = (p * y).sum(0) / positive.clamp(min=1)
    below = (p * (1 - y)).sum(0) / negative.clamp(min=1)
    spread = ((p - above) ** 2 * y).sum(0) / positive.clamp(min=1)
    spread = spread + ((p - below) ** 2 * (1 - y)).sum(0) / negative.clamp(min=1)
    missed = MARGIN + below - above  # never negative: probabilities differ by less than the margin
    # of one class alone there is no pair to put in order, and this is 0
    return (positive * negative / len(y) ** 2 * (spread + missed**2)).mean()
