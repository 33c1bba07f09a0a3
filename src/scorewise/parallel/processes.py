"""Sums over all processes, and predictions of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor, distributed

from scorewise._cells import Plan
from scorewise._inputs import Batch

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    Sync = bool | ProcessGroup
    """Whose samples belong together: this process's own, those of all processes, or those of a group of them."""


class Matrix(Protocol):
    """A matrix that is made of sums over samples."""

    @property
    def _whole(self) -> bool: ...
    def _sums(self) -> tuple[Tensor, ...]: ...
    def _made_of(self: M, sums: Sequence[Tensor], *, whole: bool) -> M: ...


M = TypeVar("M", bound=Matrix)


def check_sync(sync: object) -> None:
    """Raise a TypeError unless it is True, False, or a group of processes that this one belongs to."""
    if isinstance(sync, bool) or (distributed.is_available() and isinstance(sync, distributed.ProcessGroup)):
        return
    raise TypeError(
        f"sync must be True, False, or a torch.distributed process group that this process belongs to, saw {sync!r}."
    )


def _members(sync: Sync) -> tuple[Any, int]:
    """The group and its size; a size of 1 where there is nobody to share with."""
    if sync is False or not distributed.is_available() or not distributed.is_initialized():
        return None, 1
    group = None if sync is True else sync
    return group, distributed.get_world_size(group)


def shared(sums: Sequence[Tensor], sync: Sync) -> tuple[Tensor, ...]:
    """Tensors of one dtype, each summed over processes, in one message.

    A gradient comes back times the number of processes, as if theirs had been summed, which are all alike: nobody waits
    for others in a backward pass.
    """
    group, size = _members(sync)
    if size == 1:
        return tuple(sums)
    own = torch.cat([term.reshape(-1) for term in sums])
    whole = own.detach().clone()
    distributed.all_reduce(whole, group=group)
    if own.requires_grad:
        whole = whole + size * (own - own.detach())
    parts = whole.split([term.numel() for term in sums])
    return tuple(part.reshape(term.shape) for part, term in zip(parts, sums, strict=True))


def summed(matrix: M, *, sync: Sync = True) -> M:
    """A matrix summed over processes, each of which has one of its own samples and calls this.

    A process without samples passes the matrix of an empty batch, which has as many cells and counts as the others'.

    Args:
        matrix: A `ConfusionMatrix` or `MulticlassMatrix`.
        sync: True for all processes, or a process group. Where torch.distributed is not initialised nothing is done.

    Example:
        >>> import scorewise as sw
        >>> sw.parallel.summed(sw.ConfusionMatrix(tn=5, fp=1, fn=0, tp=2))  # alone
        ConfusionMatrix(tn=5, fp=1, fn=0, tp=2)
    """
    check_sync(sync)
    check_own(matrix)
    return matrix._made_of(shared(matrix._sums(), sync), whole=sync is not False)


def check_own(matrix: Matrix) -> None:
    """Raise a ValueError if a matrix is summed over processes already: all samples would count several times."""
    if matrix._whole:
        raise ValueError(
            "the matrix is summed over processes already. Pass that of this process's own samples, loss.matrix(…) or a "
            "sum of such."
        )


def gathered(batch: Batch, plan: Plan, sync: Sync) -> tuple[Batch, Plan]:
    """The samples of all processes, with the weights that their own processes have found: context stays at home.

    Gradients as of `shared`.
    """
    group, size = _members(sync)
    if size == 1:
        return batch, plan
    x, y = batch.predictions, batch.targets
    count = torch.ones_like(y) if batch.count is None else batch.count.expand_as(y)
    if_positive = y * count
    if_alarm, if_quiet = plan.coefficients or (count - if_positive, if_positive)
    x, y, count, if_alarm, if_quiet = _laid_together((x, y, count, if_alarm, if_quiet), group, size)
    everyone = Batch(x.to(batch.predictions.dtype), y.to(batch.targets.dtype), count, batch.from_logits)
    return everyone, replace(plan, coefficients=(if_alarm, if_quiet))


def _laid_together(columns: Sequence[Tensor], group: Any, size: int) -> list[Tensor]:
    """Columns of all processes in float64, each as long as all of them, in one message after one about lengths."""
    own = [column.double() for column in columns]
    rows = torch.stack([column.detach() for column in own], 1)
    lengths = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(size)]
    distributed.all_gather(lengths, torch.tensor([len(rows)], device=rows.device), group=group)
    sizes = [int(length) for length in lengths]
    longest = max(sizes)
    if longest == 0:
        return own
    padded = rows.new_zeros(longest, *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(size)]
    distributed.all_gather(parts, padded, group=group)
    me = distributed.get_rank(group)
    found = []
    for k, column in enumerate(own):
        pieces = [part[:length, k] for part, length in zip(parts, sizes, strict=True)]
        if column.requires_grad:
            pieces[me] = pieces[me] + size * (column - column.detach())
        found.append(torch.cat(pieces))
    return found
