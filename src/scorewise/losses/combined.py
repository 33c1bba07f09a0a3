"""Several losses at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from scorewise._values import is_number, number
from scorewise.parallel.sums import SummedLoss, Sums


class CombinedLoss(SummedLoss):
    r"""A convex combination of losses, for more than one objective: :math:`\sum_k \beta_k \ell_k`.

    Args:
        losses: Pairs (beta, loss); each beta at least 0, their sum 1.

    Every loss is called with the same arguments. Over processes and micro-batches it is what its losses are; those that
    are none of this package can be had from a whole batch only (cross entropy is
    ``ScoreLoss("cost", weight=weights.CrossEntropy())``).

    Example:
        >>> from scorewise import ScoreLoss
        >>> loss = CombinedLoss([(0.7, ScoreLoss("tss")), (0.3, ScoreLoss("f1"))])
        >>> loss(torch.tensor([-2.0, 0.5, 3.0]), torch.tensor([0, 1, 1]))
        tensor(-0.7236)
    """

    def __init__(self, losses: Sequence[tuple[float, nn.Module]]) -> None:
        super().__init__()
        if not isinstance(losses, Iterable) or isinstance(losses, str | Mapping):
            seen = type(losses).__name__
            raise TypeError(f"CombinedLoss: expected a list of pairs (beta, loss), saw {seen}.")
        betas, parts = [], []
        for pair in losses:
            try:
                beta, loss = pair
            except (TypeError, ValueError) as error:
                raise TypeError(f"CombinedLoss: expected pairs (beta, loss), saw {pair!r}.") from error
            if not is_number(beta) or not isinstance(loss, nn.Module):
                seen = f"({type(beta).__name__}, {type(loss).__name__})"
                raise TypeError(f"CombinedLoss: expected pairs (number, loss module), saw {seen}.")
            betas.append(float(beta))
            parts.append(loss)
        if not all(beta >= 0 for beta in betas) or not math.isclose(sum(betas), 1.0, abs_tol=1e-6):
            raise ValueError(
                f"CombinedLoss: the betas must be at least 0 and sum to 1, saw {betas} with the sum "
                f"{number(sum(betas))}."
            )
        self.betas = tuple(betas)
        self.losses = nn.ModuleList(parts)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The weighted sum of the losses, each called with these arguments."""
        return self._combined([_called(loss, args, kwargs) for loss in self.losses])

    def _combined(self, values: Sequence[Tensor]) -> Tensor:
        for value, loss in zip(values, self.losses, strict=True):
            if value.dim():
                raise ValueError(
                    f"CombinedLoss: every loss must return a scalar, but {type(loss).__name__} returned "
                    f"{value.numel()} numbers. Give it a reduction, or an average."
                )
        return torch.stack([beta * value for beta, value in zip(self.betas, values, strict=True)]).sum()

    def _sums(self, *args: Any, **kwargs: Any) -> Sums:
        return tuple(term for loss in self._summed() for term in loss._sums(*args, **kwargs))

    def _of(self, sums: Sums) -> Tensor:
        return self._combined([loss._of(own) for loss, own in self._split(sums)])

    def _shared(self, sums: Sums) -> Sums:
        return tuple(term for loss, own in self._split(sums) for term in loss._shared(own))

    @property
    def _width(self) -> int:
        return sum(loss._width for loss in self._summed())

    def _summed(self) -> list[SummedLoss]:
        for loss in self.losses:
            if not isinstance(loss, SummedLoss):
                raise TypeError(
                    f"CombinedLoss: {type(loss).__name__} is no function of a matrix, and cannot be had from sums over "
                    'micro-batches. Cross entropy is ScoreLoss("cost", weight=weights.CrossEntropy()).'
                )
        return [loss for loss in self.losses if isinstance(loss, SummedLoss)]

    def _split(self, sums: Sums) -> list[tuple[SummedLoss, Sums]]:
        """Each loss with its own sums."""
        parts, start = [], 0
        for loss in self._summed():
            parts.append((loss, sums[start : start + loss._width]))
            start += loss._width
        return parts

    def raise_if_invalid(self) -> None:
        """Pass the question on to the losses that can answer it; see `ScoreLoss.raise_if_invalid`."""
        errors = []
        for loss in self.losses:
            ask = getattr(loss, "raise_if_invalid", None)
            if ask is not None:
                try:
                    ask()
                except ValueError as error:
                    errors.append(error)
        # All were asked, and so have forgotten: the losses saw the same batch, which is one error, not one for each.
        if errors:
            raise errors[0]

    def extra_repr(self) -> str:
        """The weights, for the module's repr."""
        return f"betas={self.betas}"


def _called(loss: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A loss of these arguments; where it is not ours, say which it does not know."""
    try:
        return loss(*args, **kwargs)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        names = ", ".join(f"{name}=" for name in kwargs)
        raise TypeError(
            f"CombinedLoss: every loss is called with the same arguments, here with {names}, but "
            f"{type(loss).__name__} does not take all of them: {error}. Wrap it in a module that uses or drops them."
        ) from error
