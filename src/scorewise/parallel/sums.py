"""Losses that know of a batch nothing but sums over its samples, and what follows from it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from scorewise.parallel.processes import Matrix, check_own, shared

if TYPE_CHECKING:
    from typing import Self

    from scorewise.parallel.processes import Sync

Sums = tuple[Tensor, ...]
"""Sums over samples: the cells of a matrix before it is balanced, and class counts where they are needed."""


class SummedLoss(nn.Module, ABC):
    """A loss that knows of a batch nothing but sums over its samples: f(Σ a, Σ b, …).

    So it is exact over processes (``sync``) and over micro-batches (`accumulate`), and can be averaged over time
    (`RunningLoss`).
    """

    sync: Sync = False

    @abstractmethod
    def _sums(self, *args: Any, **kwargs: Any) -> Sums:
        """The sums of a batch, given the arguments of a call. Raise if the loss is no function of them."""

    @abstractmethod
    def _of(self, sums: Sums) -> Tensor:
        """The loss, given the sums over all samples that belong together."""

    @property
    @abstractmethod
    def _width(self) -> int:
        """How many sums there are."""

    def _shared(self, sums: Sums) -> Sums:
        """The sums over all processes, given those of this one."""
        return shared(sums, self.sync)

    def _loss(self, logits: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The loss of a batch, with all that other processes have."""
        return as_loss(self._of(self._shared(self._sums(logits, *args, **kwargs))), logits)

    def _linear_at(self, matrix: Matrix, sums: Sums) -> LinearizedLoss:
        """Linearized at a matrix, which is made of those sums."""
        if self.sync is not False:
            check_own(matrix)
        return self._linear(sums)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A process group is nothing of the loss's own.
        memo[id(self.sync)] = self.sync
        twin = memo[id(self)] = type(self).__new__(type(self))
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self.sync, bool):
            raise TypeError(
                "a loss with a process group cannot be pickled, as groups belong to running processes. Pickle it with "
                "loss.sync = True, and set the group where it is loaded."
            )
        return dict(self.__dict__)

    def _linear(self, sums: Sums) -> LinearizedLoss:
        """Linearized at all that processes have, given the sums of this one."""
        with torch.inference_mode(False), torch.enable_grad():  # whatever the caller is in, and the sums come from
            leaves = tuple(term.detach().clone().requires_grad_() for term in sums)
            value = self._of(self._shared(leaves))
            # cells that the score does not look at, or all of them, have none
            slopes = torch.autograd.grad(value.sum() + 0 * leaves[0].sum(), leaves, materialize_grads=True)
        return LinearizedLoss(self, value.detach(), slopes)


class LinearizedLoss(nn.Module):
    r"""A loss's tangent at a whole batch, for its micro-batches: :math:`\lambda \cdot wCM_{micro}`.

    Its gradients, summed over the micro-batches, are the gradient of the loss of the whole batch. Its values are no
    losses: for a ratio of cells they sum to about 0. `linearize` makes it.

    Attributes:
        value: The loss of the whole batch, float64, without a gradient.
    """

    def __init__(self, loss: SummedLoss, value: Tensor, slopes: Sums) -> None:
        super().__init__()
        self.loss = loss
        self.value = value
        self._slopes = slopes

    def forward(self, logits: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The tangent's value for a micro-batch, given what the loss itself takes.

        A scalar; of a loss that has one number for each label, as many.
        """
        sums = self.loss._sums(logits, *args, **kwargs)
        check_alike(sums, self._slopes)
        if self.value.dim():
            each = torch.stack(self._slopes) * torch.stack(sums)
            return as_loss(each.sum(0), logits)
        return as_loss(_flat(self._slopes) @ _flat(sums), logits)

    def extra_repr(self) -> str:
        """The loss of the whole batch, for the module's repr."""
        return f"value={self.value.tolist()}"


def check_alike(sums: Sums, others: Sums) -> None:
    """Raise a ValueError if sums are not of as many labels or classes as others."""
    seen, expected = ([tuple(term.shape) for term in terms] for terms in (sums, others))
    if seen != expected:
        raise ValueError(
            f"a micro-batch has other labels or classes than the rest of its batch: its sums have the shapes {seen}, "
            f"theirs {expected}."
        )


def _flat(terms: Sums) -> Tensor:
    return torch.cat([term.reshape(-1) for term in terms])


def as_loss(value: Tensor, logits: object) -> Tensor:
    """A value computed in float64, as wide as the logits are, float32 at least."""
    wide = isinstance(logits, Tensor) and logits.dtype == torch.float64
    return value if wide else value.float()
