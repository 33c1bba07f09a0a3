"""Neighbours in time: who was how many steps before or after whom, in the same series."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from scorewise._timeline import Timeline

_PER_THREAD = (
    1 << 15
)  # rows that are worked on at a time, on a CPU: some vectors of so many numbers fit in a core's cache


class Windows:
    """Samples laid out in the order of their series and of time, with room before and after.

    A layout is a flat tensor: for each label the samples in order, between ``reach`` places of padding on both sides.
    So a step of up to ``reach`` from any sample stays inside, and never gets from one label to another. Where series or
    gaps lie within a label, ``ticks`` tells how far apart in time two places are.

    Args:
        like: A tensor of the batch's shape, (n,) or (n, labels), and device.
        timeline: The order in time; None if the samples are one series without gaps.
        reach: The longest lag.
    """

    def __init__(self, like: Tensor, timeline: Timeline | None, reach: int) -> None:
        self.reach = reach
        self.shape = like.shape
        self.device = like.device
        self.order = None if timeline is None else timeline.order
        self.ticks: Tensor | None = None
        if timeline is not None and timeline.steps is not None and like.shape[0]:
            # What is longer than a window need not be measured; and what is no step at all must not break anything.
            steps = timeline.steps.clamp(1, reach + 1)
            ticks = steps.cumsum(0)
            outside = steps.new_full((reach,), reach + 1)
            last = ticks[-1:].sum()  # 0 if there is one sample alone
            padded = torch.cat([-outside, steps.new_zeros(1), ticks, last + outside])
            self.ticks = padded.expand(self.labels, -1).reshape(-1)

    @property
    def labels(self) -> int:
        """How many labels there are; one if the batch has no such axis."""
        return self.shape[1] if len(self.shape) == 2 else 1

    def flat(self, t: Tensor) -> Tensor:
        """A tensor of the batch's shape as one line in this order, without padding."""
        t = t.expand(self.shape)
        if self.order is not None:
            t = t.index_select(0, self.order)
        return t.reshape(self.shape[0], self.labels).t().reshape(-1)

    def lay(self, t: Tensor, fill: float) -> Tensor:
        """A tensor of the batch's shape in this layout, with ``fill`` in the padding."""
        return self.padded(self.flat(t), fill)

    def padded(self, flat: Tensor, fill: float) -> Tensor:
        """The same, from what `flat` gives."""
        room = flat.new_full((self.labels, self.reach), fill)
        return torch.cat([room, flat.reshape(self.labels, self.shape[0]), room], 1).reshape(-1)

    def blank(self, like: Tensor) -> Tensor:
        """Zeros in this layout."""
        return like.new_zeros(self.labels * (self.shape[0] + 2 * self.reach))

    def strip(self, laid: Tensor) -> Tensor:
        """A layout without its padding, as `flat` gives it."""
        n = self.shape[0]
        return laid.reshape(self.labels, n + 2 * self.reach)[:, self.reach : self.reach + n].reshape(-1)

    def lift(self, laid: Tensor) -> Tensor:
        """The way back: a tensor of the batch's shape from one in this layout."""
        return self.back(self.strip(laid))

    def back(self, flat: Tensor) -> Tensor:
        """The same, from one as `flat` gives it."""
        t = flat.reshape(self.labels, self.shape[0]).t()
        if self.order is not None:
            t = torch.empty_like(t).index_copy_(0, self.order, t)
        return t.reshape(self.shape)

    def places(self, which: Tensor) -> Tensor:
        """Where in this layout samples lie that are given by their index in `flat`."""
        if self.labels == 1:
            return which + self.reach
        return which + self.reach + which // max(1, self.shape[0]) * (2 * self.reach)

    def everyone(self) -> Tensor:
        """The index in `flat` of all samples."""
        return torch.arange(self.shape[0] * self.labels, device=self.device)

    @property
    def picks(self) -> bool:
        """Whether samples can be picked by a value of theirs; not where asking for it would make the host wait."""
        return self.device.type == "cpu" and not torch.compiler.is_compiling()

    def marked(self, flat: Tensor) -> Tensor:
        """The index in `flat` of the samples with a positive mark, or of all, if they cannot be picked."""
        return (flat > 0).nonzero().squeeze(1) if self.picks else self.everyone()

    def blocks(self, which: Tensor) -> Iterator[tuple[Tensor, Neighbours]]:
        """Samples in parts that suit the device, and their neighbours; first those whose neighbours are all there."""
        if torch.compiler.is_compiling():
            yield which, self.around(self.places(which))
            return
        at_once = max(_PER_THREAD, (1 << 26) // self.reach)
        if self.device.type == "cpu":
            at_once = _PER_THREAD * torch.get_num_threads()
        for alike, even in self._divided(which):
            for some in alike.split(at_once):
                yield some, Neighbours(self, self.places(some), even=even)

    def _divided(self, which: Tensor) -> list[tuple[Tensor, bool]]:
        """Samples around whom each step of time has a sample of their series, True, and the others, False."""
        if self.ticks is None or not self.picks or which.shape[0] < _PER_THREAD:
            return [(which, self.ticks is None)]
        rows = self.places(which)
        # a step takes at least one tick: there are as many as that only if each takes one
        apart = self.ticks.index_select(0, rows + self.reach) - self.ticks.index_select(0, rows - self.reach)
        even = apart == 2 * self.reach
        return [(some, kind) for some, kind in ((which[even], True), (which[~even], False)) if some.shape[0]]

    def around(self, rows: Tensor) -> Neighbours:
        """The neighbours of some places."""
        return Neighbours(self, rows, even=self.ticks is None)


class Neighbours:
    """The samples at given lags from some places of a layout.

    Args:
        windows: The layout.
        rows: The places.
        even: Whether a lag is as many places, for each of them.
    """

    def __init__(self, windows: Windows, rows: Tensor, *, even: bool) -> None:
        self._windows = windows
        self.rows = rows
        self.even = even
        self._slots: dict[int, Tensor] = {}

    def at(self, lag: int) -> Tensor:
        """The place of whoever was ``lag`` steps of time before each row (after it, if negative), or some padding."""
        if self.even:
            return self.rows - lag
        side = 1 if lag > 0 else -1
        if side not in self._slots:
            self._slots[side] = self._by_lag(side)
        return self._slots[side][abs(lag) - 1]

    def _by_lag(self, side: int) -> Tensor:
        """(reach + 1, rows): who is at each lag on one side; the last line takes those who are too far away."""
        windows, rows = self._windows, self.rows
        assert windows.ticks is not None  # noqa: S101  # asked before; for the type checker
        # `index_select` takes a quarter of the time that brackets take
        here = windows.ticks.index_select(0, rows)
        slots = rows.new_zeros(windows.reach + 1, rows.shape[0])  # place 0 is padding
        for k in range(1, windows.reach + 1):
            there = rows - side * k
            lag = windows.ticks.index_select(0, there).sub_(here).abs_().clamp_(max=windows.reach + 1)
            slots.scatter_(0, lag.sub_(1)[None], there[None])
        return slots
