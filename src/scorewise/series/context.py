"""A batch that knows which of its samples count, in what stretch of time each stands, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, overload

import torch
from torch import Tensor
from torch.utils.data import Dataset


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """A batch as a `ChronologicalBatchSampler` makes it; to a DataLoader, a sequence of the samples' numbers.

    With all data in memory: ``loss(model(x[b.index]), y[b.index], mask=b.mask, groups=b.groups, times=b.times)``.

    Attributes:
        index: Which samples, (n,) int64.
        mask: False where one is there to be looked at only, (n,) bool.
        groups: Which stretch of the batch, (n,) int64: no window reaches from one stretch into another.
        times: When, (n,) int64.
    """

    index: Tensor
    mask: Tensor
    groups: Tensor
    times: Tensor

    def to(self, device: torch.device | str) -> SeriesBatch:
        """The same batch on another device."""
        return SeriesBatch(*(getattr(self, field.name).to(device) for field in fields(self)))

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[int]:
        return iter(self.index.tolist())

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> SeriesBatch: ...
    def __getitem__(self, place: int | slice) -> int | SeriesBatch:
        if isinstance(place, slice):
            return SeriesBatch(*(getattr(self, field.name)[place] for field in fields(self)))
        return int(self.index[place])

    def __reduce__(self) -> tuple[Any, ...]:
        # As lists: on the way to a loader's worker each tensor would take a file of shared memory.
        return _unpickled, tuple(getattr(self, field.name).tolist() for field in fields(self))


def _unpickled(index: list[int], mask: list[bool], groups: list[int], times: list[int]) -> SeriesBatch:
    kinds = torch.int64, torch.bool, torch.int64, torch.int64
    parts = zip((index, mask, groups, times), kinds, strict=True)
    return SeriesBatch(*(torch.tensor(part, dtype=dtype, device="cpu") for part, dtype in parts))


class WithContext(Dataset[Any]):
    """A dataset whose samples come with what a loss must know of them: mask, groups and times.

    A sample (x, y) becomes (x, y, {"mask": …, "groups": …, "times": …}); a dictionary gets these three keys; anything
    else becomes (sample, {…}). The default collation of a DataLoader makes tensors of them. What else a loss must know
    of a sample can be there already: (x, y, {"mask": known, "sample_weight": …}) gets the other keys, and counts where
    it is known and no context.

    Args:
        dataset: A map-style dataset; its ``__getitems__`` is used where it has one.

    Example:
        >>> import scorewise as sw
        >>> from scorewise.series import ChronologicalBatchSampler, WithContext
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> x, y = torch.linspace(-2, 2, 100), (torch.arange(100) % 10 == 0).float()
        >>> sampler = ChronologicalBatchSampler(32, samples=100, context=2, shuffle=False)
        >>> loader = DataLoader(WithContext(TensorDataset(x, y)), batch_sampler=sampler)
        >>> loss = sw.ScoreLoss("tss", weight=sw.weights.Value([0.5, 0.25]))
        >>> whole = loss.matrix(x, y)
        >>> parts = [loss.matrix(logits, events, **where) for logits, events, where in loader]
        >>> bool(torch.isclose(sum(parts[1:], parts[0]).fn, whole.fn))
        True
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # as long as a map-style dataset is

    def __getitem__(self, index: object) -> Any:
        raise _no_batch(index)

    def __getitems__(self, batch: SeriesBatch) -> list[Any]:
        """The samples of a batch, for a DataLoader."""
        if not isinstance(batch, SeriesBatch):
            raise _no_batch(batch)
        rows = list(batch)
        fetch = getattr(self.dataset, "__getitems__", None)
        samples = fetch(rows) if fetch else [self.dataset[row] for row in rows]
        wheres = zip(batch.mask.tolist(), batch.groups.tolist(), batch.times.tolist(), strict=True)
        keyed = [dict(zip(_KEYS, where, strict=True)) for where in wheres]
        return [_joined(sample, where) for sample, where in zip(samples, keyed, strict=True)]


_KEYS = ("mask", "groups", "times")


def _joined(sample: Any, where: dict[str, Any]) -> Any:
    if isinstance(sample, Mapping):
        if taken := [key for key in ("groups", "times") if key in sample]:
            raise ValueError(
                f"WithContext adds mask, groups and times to a sample, but {taken[0]!r} is there already. The sampler "
                "knows them: leave it out."
            )
        return {**sample, **where, "mask": sample.get("mask", True) & where["mask"]}
    if isinstance(sample, tuple | list):
        *first, last = sample or (None,)
        return (*first, _joined(last, where)) if isinstance(last, Mapping) else (*sample, where)
    return (sample, where)


def _no_batch(index: object) -> TypeError:
    return TypeError(
        f"WithContext must be indexed with a batch of a ChronologicalBatchSampler, saw {type(index).__name__}. Pass "
        "DataLoader(…, batch_sampler=ChronologicalBatchSampler(…)), and neither batch_size nor shuffle."
    )
