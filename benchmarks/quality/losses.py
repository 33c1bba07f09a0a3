"""Losses of others, of logits and labels (n,) or (n, labels)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

GAMMA = 2.0
"""Of the focal loss, as its authors recommend; their weight of a class is left to the threshold."""


def focal(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy that counts less where it is small already.

    T.-Y. Lin, P. Goyal, R. Girshick, K. He, P. Dollár: Focal loss for dense object detection. ICCV 2017.
    """
    each = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return ((1 - torch.exp(-each)) ** GAMMA * each).mean()


def dice(logits: Tensor, targets: Tensor) -> Tensor:
    """One minus F1, with probabilities for decisions: soft Dice. One is added to keep an empty batch from 0/0.

    F. Milletari, N. Navab, S.-A. Ahmadi: V-Net. 3DV 2016; there with squares below the line.
    """
    p = logits.sigmoid()
    return (1 - (2 * (p * targets).sum(0) + 1) / (p.sum(0) + targets.sum(0) + 1)).mean()


def aucm(logits: Tensor, targets: Tensor) -> Tensor:
    """LibAUC's loss for the area under the ROC curve, with squared margins.

    It is a saddle point in three numbers besides the network, which has a closed form: the means of both classes, and
    by how much these miss the margin. They are set to it for each batch, so that any optimiser will do.

    Z. Yuan, Y. Yan, M. Sonka, T. Yang: Large-scale robust deep AUC maximization. ICCV 2021.
    """
    p = logits.sigmoid()
    if p.dim() == 2:
        return torch.stack([_aucm(*column) for column in zip(p.T, targets.T, strict=True)]).mean()
    return _aucm(p, targets)


def _aucm(p: Tensor, targets: Tensor) -> Tensor:
    from libauc.losses import AUCMLoss  # for this alone it must be installed

    loss = AUCMLoss(device=p.device)
    events = targets == 1
    if events.all() or not events.any():
        return 0.0 * p.sum()  # there is no pair to put in order
    with torch.no_grad():
        loss.a.fill_(p[events].mean())
        loss.b.fill_(p[~events].mean())
        loss.alpha.fill_((loss.margin + p[~events].mean() - p[events].mean()).clamp(min=0))
    value: Tensor = loss(p[:, None], targets[:, None])
    return value.sum()  # of one number
