"""What a classifier is trained by: a share of a score, and cross entropy for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from scorewise.parallel.processes import check_sync
from scorewise.parallel.sums import SummedLoss, Sums

if TYPE_CHECKING:
    from scorewise.parallel.processes import Sync


class MeanCrossEntropy(SummedLoss):
    r"""Cross entropy of classes or of labels, a mean over all samples that count, with a weight for each class.

    .. math:: \ell = \frac{\sum_i v_i w_{y_i} \left(-\log p_{i, y_i}\right)}{\sum_i v_i w_{y_i}}

    It is a function of two sums, and so exact over processes and micro-batches, where a mean of means is not.

    Args:
        weights: Of the classes, (m,), or of 0 and 1 for each label, (labels, 2); (2,) without labels.
        sync: Whether a batch is spread over processes, as for `ScoreLoss`.

    Example:
        >>> loss = MeanCrossEntropy(torch.tensor([1.0, 3.0]))
        >>> loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]))  # (1·log 2 + 3·log(1 + 1/e)) / 4
        tensor(0.4082)
    """

    _width = 2

    def __init__(self, weights: Tensor, *, sync: Sync = False) -> None:
        super().__init__()
        check_sync(sync)
        self.register_buffer("weights", weights.float(), persistent=False)
        self.sync = sync

    def forward(self, logits: Tensor, targets: Tensor, **rest: Any) -> Tensor:
        """The loss of a batch.

        Args:
            logits: (n,) or (n, labels) for labels 0/1 of that shape, float; (n, m) for classes, (n,) int64.
            targets: The labels or classes.
            **rest: As for `ScoreLoss`: mask, sample_weight and costs matter, and order in time does not.
        """
        return self._loss(logits, targets, **rest)

    def _sums(
        self,
        logits: Tensor,
        targets: Tensor,
        *,
        mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
        costs: Tensor | None = None,
        groups: object = None,  # a mean does not see order
        times: object = None,  # as above
    ) -> Sums:
        weights: Any = self.weights
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        if targets.is_floating_point():
            each = functional.binary_cross_entropy_with_logits(logits, targets.to(logits), reduction="none")
            amount = torch.lerp(weights[..., 0].to(logits), weights[..., 1].to(logits), targets.to(logits))
            if costs is not None:
                amount = amount * torch.lerp(costs[..., 0].to(logits), costs[..., 1].to(logits), targets.to(logits))
        else:
            each = functional.cross_entropy(logits, targets, reduction="none")
            amount = weights.to(logits)[targets]
        for factor in (mask, sample_weight):
            if factor is not None:
                amount = amount * (factor[:, None] if amount.dim() > factor.dim() else factor)
        return (each * amount).sum().double(), amount.sum().double()

    def _of(self, sums: Sums) -> Tensor:
        total, amount = sums
        return total / _some(amount)


class PerSample(SummedLoss):
    """A loss that grows with the number of samples, such as a cost, divided by how many count.

    Args:
        loss: The loss.

    Example:
        >>> from scorewise import ScoreLoss
        >>> logits, targets = torch.zeros(8), torch.tensor([0.0, 1.0] * 4)
        >>> ScoreLoss("cost")(logits, targets), PerSample(ScoreLoss("cost"))(logits, targets)
        (tensor(4.), tensor(0.5000))
    """

    def __init__(self, loss: SummedLoss) -> None:
        super().__init__()
        self.loss = loss
        self.sync = loss.sync

    def forward(self, logits: Tensor, targets: Tensor, **rest: Any) -> Tensor:
        """The loss of a batch, for the arguments of the loss itself."""
        if getattr(self.loss, "exact", False):
            (count,) = self._shared((counted(targets, rest).sum(),))
            value: Tensor = self.loss(logits, targets, **rest)
            return value / _some(count).to(value)
        return self._loss(logits, targets, **rest)

    def _sums(self, logits: Tensor, targets: Tensor, **rest: Any) -> Sums:
        return (*self.loss._sums(logits, targets, **rest), counted(targets, rest).sum())

    def _of(self, sums: Sums) -> Tensor:
        return self.loss._of(sums[:-1]) / _some(sums[-1])

    @property
    def _width(self) -> int:
        return self.loss._width + 1


def counted(targets: Tensor, rest: Mapping[str, Any]) -> Tensor:
    """How much each sample counts, whatever its error costs: (n,) float64.

    Args:
        targets: Of these samples.
        rest: What else is known of them: mask and sample_weight matter here.
    """
    amount = torch.ones(len(targets), dtype=torch.float64, device=targets.device)
    for name in ("mask", "sample_weight"):
        if rest.get(name) is not None:
            amount = amount * rest[name]
    return amount


def _some(count: Tensor) -> Tensor:
    return count.clamp(min=torch.finfo(count.dtype).tiny)


def class_weights(targets: Tensor, counted: Tensor | None, balance: float, classes: int | None) -> Tensor:
    """One over the class's share, to the power of ``balance``, for `MeanCrossEntropy`; 1 for classes without samples.

    Args:
        targets: Labels 0/1, (n,) or (n, labels) float, or classes, (n,) int64.
        counted: How much each sample counts, (n,); None: all alike.
        balance: 0 for weights of 1, and 1 for classes that weigh the same in all.
        classes: How many classes there are; None for labels.
    """
    amount = torch.ones(len(targets), dtype=torch.float64) if counted is None else counted.double()
    whole = _some(amount.sum())
    if classes is None:
        positive = (targets.double() * (amount if targets.dim() == 1 else amount[:, None])).sum(0) / whole
        shares = torch.stack([1 - positive, positive], -1)
    else:
        shares = torch.bincount(targets, weights=amount, minlength=classes) / whole
    known = shares > 0
    weights = torch.where(known, shares.masked_fill(~known, 1.0) ** -balance, 1.0)
    return (weights / _some((weights * shares).sum(-1, keepdim=True))).float()
