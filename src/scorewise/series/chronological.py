"""Batches of samples that follow each other in time, with those around them that a loss looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from scorewise._timeline import FAR, timeline
from scorewise._values import as_tensor
from scorewise.series.context import SeriesBatch
from scorewise.series.epochs import EpochSampler, whole

_LONGEST = (1 << 31) - 1  # steps of time: as many of them as there are samples still add up in 64 bits


class ChronologicalBatchSampler(EpochSampler[SeriesBatch]):
    """Batches of stretches of time, each with the samples around it that a weight with windows looks at.

    Each epoch cuts every series into stretches of ``stretch`` samples, from a random offset, so that the borders move;
    shuffles the stretches of all series; lays them end to end, and divides that stream into batches of nearly equal
    size. A stretch comes with all samples of its series that are at most ``context`` steps of time before its first or
    after its last. These have ``mask`` False. Every sample counts exactly once in an epoch, over all processes, and
    with a context of the weight's T steps it sees what it would see in the whole series: the matrices of an epoch's
    batches add up to the matrix of all data.

    Steps are the same for any number of processes with the same global batch, ``batch_size`` · ``num_replicas``.

    Args:
        batch_size: The most samples that a batch counts; context comes on top.
        groups: The series of each sample, (n,) ints or strings, in any order; None: one series.
        times: The time of each sample, (n,) integers, no two the same in a series, in any order; None: a sample's place
            in its series. See `lags` for timestamps.
        samples: How many samples there are, if neither groups nor times tell.
        context: How many steps of time a sample is looked at from, on both sides: the T of a value weight, the window
            of a custom one.
        stretch: How many samples a stretch has at most. None: 16 times the context, but at least 64 and at most the
            global batch; without shuffling, that.
        max_gap: The longest step of time within a stretch. None: the context, or 1 if there is none.
        shuffle: Whether to shuffle the stretches. Otherwise they come in the order of series and time.
        seed: With the epoch, what the order depends on.
        num_replicas: How many processes share the batches; None: as many as torch.distributed knows of, or 1.
        rank: Which of them this one is. Where there are fewer samples than processes, some get a batch of one sample
            that does not count.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If a number is out of its range, shapes disagree, or a series has the same time twice.

    Example:
        >>> stations, hours = ["a", "a", "a", "a", "b", "b", "b"], [0, 1, 2, 3, 0, 1, 7]
        >>> sampler = ChronologicalBatchSampler(4, groups=stations, times=hours, context=1, shuffle=False)
        >>> for batch in sampler:
        ...     print(list(batch), batch.mask.int().tolist(), batch.groups.tolist())
        [0, 1, 2, 3] [1, 1, 1, 0] [0, 0, 0, 0]
        [2, 3, 4, 5, 6] [0, 1, 1, 1, 1] [0, 0, 1, 1, 2]
    """

    def __init__(
        self,
        batch_size: int,
        *,
        groups: object = None,
        times: object = None,
        samples: int | None = None,
        context: int = 0,
        stretch: int | None = None,
        max_gap: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(batch_size, shuffle=shuffle, seed=seed, num_replicas=num_replicas, rank=rank)
        self.context = whole(context, "context", 0, _LONGEST)
        self.max_gap = max(self.context, 1) if max_gap is None else whole(max_gap, "max_gap", 1, _LONGEST)
        self.stretch = None if stretch is None else whole(stretch, "stretch", 1, _LONGEST)

        self._rows, self._series, self._times, steps = _in_order(groups, times, samples)
        self._places = _places(self._series)
        self._breaks = torch.cat([torch.tensor([True], device="cpu"), steps > self.max_gap])
        # A time that goes on from series to series; what lies further apart than anyone looks need not be measured.
        self._ticks = torch.cat([torch.tensor([0], device="cpu"), steps.clamp(max=self.context + 1).cumsum(0)])

    def _steps(self, replicas: int) -> int:
        return -(-len(self._rows) // (self.batch_size * replicas))

    def _parts(self, generator: torch.Generator, steps: int, replicas: int) -> Callable[[int], SeriesBatch]:
        # of the global batch, and not of each process's, so that all numbers of processes have the same steps
        most = self.batch_size * replicas
        stretch = self.stretch or (min(most, max(64, 16 * self.context)) if self.shuffle else most)
        places = self._places
        if self.shuffle:
            series = int(self._series[-1]) + 1
            places = places + torch.randint(stretch, (series,), generator=generator, device="cpu")[self._series]
        starts = (self._breaks | (places % stretch == 0)).nonzero().squeeze(1)
        sizes = torch.diff(starts, append=starts.new_tensor([len(places)]))
        if self.shuffle:
            order = torch.randperm(len(starts), generator=generator, device="cpu")
            starts, sizes = starts[order], sizes[order]
        ends = sizes.cumsum(0)
        n, parts = len(places), steps * replicas
        return lambda part: self._batch(starts, sizes, ends, part * n // parts, (part + 1) * n // parts)

    def _batch(self, starts: Tensor, sizes: Tensor, ends: Tensor, low: int, high: int) -> SeriesBatch:
        """The samples from ``low`` to ``high`` of a stream of stretches that end at ``ends``, and their context."""
        counted = high > low
        high, context = (high, self.context) if counted else (low + 1, 0)
        bounds = torch.tensor([low, high - 1], device="cpu")
        first, last = torch.searchsorted(ends, bounds, right=True).tolist()
        here = slice(first, last + 1)
        before = ends[here] - sizes[here]  # of the stream, before each stretch
        begin = starts[here] + (low - before).clamp(min=0)
        end = starts[here] + torch.minimum(sizes[here], high - before)
        left = torch.searchsorted(self._ticks, self._ticks[begin] - context)
        right = torch.searchsorted(self._ticks, self._ticks[end - 1] + context, right=True)
        groups = torch.repeat_interleave(right - left)
        places = torch.arange(len(groups), device="cpu") + (right - (right - left).cumsum(0))[groups]
        mask = (places >= begin[groups]) & (places < end[groups]) & counted
        return SeriesBatch(self._rows[places], mask, groups, self._times[places])


def _in_order(groups: Any, times: Any, samples: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The rows, in the order of their series and of time; of each its series and its time; and the steps between."""
    n = _number(groups, times, samples)
    like = torch.empty(n, 0, device="cpu")
    rows = torch.arange(n, device="cpu")
    series = torch.zeros_like(rows)
    line = timeline(_at_hand(groups), None, like)
    if line is not None and line.steps is not None:
        rows = rows if line.order is None else line.order
        series[1:] = (line.steps == FAR).cumsum(0)
    if times is None:
        ticks = _places(series)
    else:
        timeline(None, _at_hand(times), like)  # refuses what the losses would refuse
        ticks = _at_hand(as_tensor(times, "times")).long()[rows]
    together = series[1:] == series[:-1]
    if bool((together & (ticks[1:] < ticks[:-1])).any()):
        order = torch.argsort(ticks, stable=True)
        order = order[torch.argsort(series[order], stable=True)]
        rows, ticks = rows[order], ticks[order]  # the series stand in this order already
    same = together & (ticks[1:] == ticks[:-1])
    if bool(same.any()):
        k = int(torch.where(same, rows[1:], n).argmin())
        hint = " If there are several series, tell them apart with groups=." if groups is None else ""
        raise ValueError(
            f"times must differ within a group, but {int(same.sum())} of {n} repeat an earlier one: rows "
            f"{int(rows[k])} and {int(rows[k + 1])} are both at {int(ticks[k])}.{hint}"
        )
    steps = ticks[1:] - ticks[:-1]
    # times increase: a step below 0 is one too long for 64 bits
    return rows, series, ticks, torch.where(together & (steps > 0), steps, FAR)


def _number(groups: Any, times: Any, samples: int | None) -> int:
    n = None if samples is None else whole(samples, "samples", 0)
    for name, value in (("groups", groups), ("times", times)):
        if n is None and value is not None:
            try:
                n = len(value)
            except TypeError as error:
                raise TypeError(f"{name} must have one value for each sample, saw {type(value).__name__}.") from error
    if n is None:
        raise ValueError("One of groups, times and samples must be passed, to tell how many samples there are.")
    if n == 0:
        raise ValueError("There must be at least one sample to make batches of, saw none.")
    return n


def _places(series: Tensor) -> Tensor:
    """The place of each sample in its series, where these lie end to end."""
    firsts = torch.searchsorted(series, torch.arange(int(series[-1]) + 1, device="cpu"))
    return torch.arange(len(series), device="cpu") - firsts[series]


def _at_hand(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, Tensor) else value
