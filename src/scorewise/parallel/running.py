"""A score of more than the batch at hand, for those who can have small batches only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from scorewise._values import is_number
from scorewise.parallel.sums import SummedLoss, as_loss


class RunningLoss(nn.Module):
    r"""The loss at a running average of the batches' matrices, with the gradient of the batch at hand.

    A batch with hardly any positives gives a poor gradient: the score's slopes λ are taken at a matrix that is mostly
    noise. Here they are taken at an exponential average of matrices, :math:`\lambda(\bar M) \cdot wCM_{batch}`.

    It is an approximation: matrices of earlier batches come from earlier parameters of the model, and have no gradient.
    Where memory allows it, `accumulate` has no such error. With ``decay=0`` it is the loss itself.

    Args:
        loss: A `ScoreLoss` (not exact), `SimplexLoss`, `OneVsRestLoss`, or a `CombinedLoss` of such. With ``sync`` the
            average is that of all processes' matrices.
        decay: How much of the average is kept from one batch to the next, in [0, 1): the average is over about
            1 / (1 - decay) batches. The first ones are weighted so that they do not count as zeros.

    In eval mode it is the loss itself, and learns nothing. Its state is in its ``state_dict``.

    Example:
        >>> import torch, scorewise as sw
        >>> loss = RunningLoss(sw.ScoreLoss("csi"), decay=0.9)
        >>> loss(torch.tensor([-2.0, 3.0]), torch.tensor([0.0, 1.0]))
        tensor(-0.8511)
        >>> loss(torch.tensor([-2.0, -3.0]), torch.tensor([0.0, 0.0]))  # a batch without positives
        tensor(-0.7303)
    """

    average: Tensor | None
    weight: Tensor | None

    def __init__(self, loss: SummedLoss, decay: float = 0.99) -> None:
        super().__init__()
        if not isinstance(loss, SummedLoss):
            raise TypeError(
                f"RunningLoss: expected a loss of this package, which knows a batch by its matrix; saw "
                f"{type(loss).__name__}."
            )
        if not is_number(decay) or not 0 <= decay < 1:
            raise ValueError(f"RunningLoss: decay must be at least 0 and below 1, saw {decay!r}.")
        self.loss = loss
        self.decay = float(decay)
        self.register_buffer("average", None)
        self.register_buffer("weight", None)

    def forward(self, logits: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The loss of a batch, given what the loss itself takes."""
        if not self.training:
            value: Tensor = self.loss(logits, *args, **kwargs)
            return value
        sums = self.loss._shared(self.loss._sums(logits, *args, **kwargs))
        new = torch.cat([term.detach().reshape(-1) for term in sums])
        if self.average is None or self.weight is None:
            self.average, self.weight = torch.zeros_like(new), new.new_zeros(())
        if self.average.shape != new.shape:
            raise ValueError(
                f"RunningLoss: the matrices so far had {self.average.numel()} cells and counts, this one has "
                f"{new.numel()}. The number of labels must not change; reset() begins anew."
            )
        self.average, self.weight = self.average.to(new), self.weight.to(new)
        self.average.mul_(self.decay).add_(new, alpha=1 - self.decay)
        self.weight.mul_(self.decay).add_(1 - self.decay)
        parts = (self.average / self.weight).split([term.numel() for term in sums])
        # the value of the average, the gradient of the batch
        mixed = tuple(part.reshape(term.shape) + (term - term.detach()) for part, term in zip(parts, sums, strict=True))
        return as_loss(self.loss._of(mixed), logits)

    def reset(self) -> None:
        """Forget all batches."""
        self.average = self.weight = None

    def raise_if_invalid(self) -> None:
        """As for `ScoreLoss`."""
        ask = getattr(self.loss, "raise_if_invalid", None)
        if ask is not None:
            ask()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # How long the average is, only a first batch can tell, or a state.
        for name in ("average", "weight"):
            state = state_dict.get(prefix + name)
            setattr(self, name, None if state is None else torch.empty_like(state))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """The arguments, for the module's repr."""
        return f"decay={self.decay}"
