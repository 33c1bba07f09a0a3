"""Values that could not be looked at when they came, judged once they are on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from scorewise._values import number


@dataclass(frozen=True)
class Limit:
    """The least and the greatest legal value of something, and what to say of others; ``{span}`` is what was seen."""

    low: float
    high: float
    told: str


def ends(t: Tensor | None, *, like: Tensor) -> Tensor:
    """(-min, max) of a tensor, on the device of another, as wide as that device can; zeros for nothing."""
    wide = torch.float32 if like.device.type == "mps" else torch.float64
    if t is None or t.numel() == 0:
        return like.new_zeros(2, dtype=wide)
    low, high = torch.aminmax(t.detach())
    return torch.stack((-low, high)).to(wide)


def is_valid(seen: Tensor, limits: Sequence[Limit]) -> Tensor:
    """Whether rows of `ends` are legal, as a tensor on their device."""
    return (seen <= seen.new_tensor(_legal(limits, seen.dtype))).all()  # a NaN is not


def _legal(limits: Sequence[Limit], dtype: torch.dtype) -> list[list[float]]:
    """The largest legal `ends`; infinity is none."""
    most = torch.finfo(dtype).max
    return [[min(-limit.low, most), min(limit.high, most)] for limit in limits]


class Watch:
    """The extreme values that a loss has seen where it could not look at them."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self.limits = tuple(limits)
        self.seen = torch.zeros(len(self.limits), 2, dtype=torch.float64, device="cpu")
        self._host: Tensor | None = None
        self._event: Any = None

    def record(self, new: Tensor) -> None:
        """Add rows of `ends`, without waiting for the device. Raise if earlier ones are known to have been bad."""
        # asked in this order: the compiler cannot trace the question about a stream
        eager = not torch.compiler.is_compiling() and not (new.is_cuda and torch.cuda.is_current_stream_capturing())
        if eager and self._event is not None and self._event.query():
            self._event = None
            self._judge(self._host)
        if self.seen.device != new.device:
            self.seen = self.seen.to(new.device, new.dtype)
        self.seen.copy_(torch.maximum(self.seen, new))
        if eager and new.is_cuda and self._event is None:
            # Pinned memory lets the copy run beside the host; the event tells a later call that it has arrived.
            if self._host is None:
                self._host = torch.empty(self.seen.shape, dtype=torch.float64, pin_memory=True)
            self._host.copy_(self.seen, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def raise_if_invalid(self) -> None:
        """Wait for the device and raise if any batch so far was bad."""
        self._event = None
        self._judge(self.seen)

    def _judge(self, seen: Tensor | None) -> None:
        if seen is None:
            return
        told = [
            limit.told.format(span=_span(-row[0], row[1]))
            for limit, row, legal in zip(self.limits, seen.tolist(), _legal(self.limits, seen.dtype), strict=True)
            if not all(value <= most for value, most in zip(row, legal, strict=True))
        ]
        if told:
            self.seen.zero_()  # told once: a caller that mends its data can go on with the same loss
            raise ValueError(
                f"an earlier call was given {'; '.join(told)}. Compiled or on an accelerator, values are judged after "
                "the fact; the same call with CPU tensors, not compiled, says which samples they are."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"limits": self.limits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # what was seen belongs to the process that saw it


def _span(low: float, high: float) -> str:
    return (
        "with NaN among them" if math.isnan(low) or math.isnan(high) else f"from {number(low + 0.0)} to {number(high)}"
    )  # + 0.0: never "-0"
