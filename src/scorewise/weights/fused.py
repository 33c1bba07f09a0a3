"""`spread` as one kernel, for graphics cards: every sample reads its window once or twice, and nothing else moves.

A step for each lag, as `spread` takes it elsewhere, reads and writes a whole batch several times over.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from scorewise.weights.windows import Windows

_BLOCK = 256
"""Samples of one program of the kernel."""
_OLDEST = (7, 0)
"""The least compute capability that Triton makes kernels for."""


@cache
def runs_on(device: torch.device) -> bool:
    """Whether a graphics card is new enough and Triton can compile for it, which one sample tells."""
    if torch.cuda.get_device_capability(device) < _OLDEST:
        return False
    one, omega, isolated = torch.zeros(1, device=device, dtype=torch.float32), (0.5,), 1.0
    _tables(omega, isolated, timed=False, device=device)  # a copy may fail for reasons of its own
    try:
        spread(omega, isolated, Windows(one, None, 1), one, one, (one, one), largest=True)
    except Exception as error:  # compilers fail in many ways, and there is another way to the same sums
        told = (str(error).strip() or "no reason given").splitlines()[0]
        # Triton has no class for this one
        if isinstance(error, (torch.OutOfMemoryError, torch.AcceleratorError)) or "out of memory" in told:
            raise
        warnings.warn(
            f"Value weights are slower than they could be on {device}: Triton cannot compile their kernel "
            f"({type(error).__name__}: {told}). It needs a C compiler, such as gcc, and Python's headers.",
            stacklevel=2,
        )
        return False
    return True


def spread(
    omega: Sequence[float],
    isolated: float,
    windows: Windows,
    x: Tensor,
    y: Tensor,
    amounts: tuple[Tensor, Tensor],
    *,
    largest: bool,
) -> tuple[Tensor, Tensor]:
    """The coefficients that `scorewise.weights.spread.spread` tells of.

    Args:
        omega: Worths by lag. Where there are gaps, or series within a label, they do not grow with the lag if the
            largest counts.
        isolated: What an error weighs if there is nothing around it.
        windows: The order in time.
        x: The predictions, minus infinity where there is none.
        y: The labels.
        amounts: Of each sample, as a false positive and as a miss.
        largest: Whether the largest worth counts, "max", or their sum, "prod".
    """
    now, events, for_fp, for_fn = (windows.flat(t).contiguous() for t in (x, y, *amounts))
    a, r = torch.empty_like(for_fp), torch.zeros_like(for_fn)
    timed = windows.ticks is not None
    lags, worths = _tables(tuple(omega), isolated, timed, now.device)
    ticks = lags if windows.ticks is None else windows.ticks[windows.reach : windows.reach + windows.shape[0]]
    programs = triton.cdiv(now.numel(), _BLOCK)
    with torch.cuda.device(now.device):
        _kernel[(programs,)](
            *(now, events, for_fp, for_fn, ticks, lags, worths, a, r),
            *(windows.shape[0], now.numel(), lags.numel(), windows.reach),
            LARGEST=largest,
            TIMED=timed,
            ISOLATED=isolated > 1,
            BLOCK=_BLOCK,
        )
    return windows.back(a), windows.back(r)


@cache
def _tables(omega: tuple[float, ...], isolated: float, timed: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Lags and their worths, from the greatest down; of a layout with gaps, in the order of time.

    After the worths comes what an isolated error costs more than others do.

    Kept, since a copy to the device would make the host wait for it at every step; and for good, since a kernel on
    another stream may still be reading it.
    """
    pairs = list(enumerate(omega, 1))
    if not timed:
        pairs = sorted((pair for pair in pairs if pair[1] > 0), key=lambda pair: -pair[1])
    lags, worths = [lag for lag, _ in pairs], [*(worth for _, worth in pairs), isolated - 1]
    return torch.tensor(lags, device=device, dtype=torch.int64), torch.tensor(
        worths, device=device, dtype=torch.float64
    )


# Compiled once for each dtype and kind of weight, not again for other sizes. Triton reads no annotations of pointers
# and numbers.
@triton.jit(do_not_specialize=["n", "total", "neighbours", "reach"])
def _kernel(
    x,
    y,
    for_fp,
    for_fn,
    ticks,
    lags,
    worths,
    a,
    r,
    n,
    total,
    neighbours,
    reach,
    LARGEST: tl.constexpr,
    TIMED: tl.constexpr,
    ISOLATED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    at = i % n  # within its label
    here = tl.load(x + i, mask=inside, other=0.0)
    amount = tl.load(for_fn + i, mask=inside, other=0.0)
    if_alarm = tl.load(for_fp + i, mask=inside, other=0.0)
    missed = inside & (amount != 0)
    nothing = float("-inf")
    if TIMED:
        tick = tl.load(ticks + at, mask=inside, other=0)

    # `holder` is who has to be silent for the miss to cost what is still `held`
    best, holder = here, i
    held, worth = tl.full([BLOCK], 1.0, amount.dtype), tl.zeros([BLOCK], if_alarm.dtype)
    for k in range(neighbours):
        if TIMED:
            step = k + 1
            was, comes = inside & (at >= step), inside & (at + step < n)
            lag_was = tick - tl.load(ticks + at - step, mask=was, other=0)
            lag_comes = tl.load(ticks + at + step, mask=comes, other=0) - tick
            was, comes = was & (lag_was <= reach), comes & (lag_comes <= reach)
            worth_was = tl.load(worths + lag_was - 1, mask=was, other=0.0).to(amount.dtype)
            worth_comes = tl.load(worths + lag_comes - 1, mask=comes, other=0.0).to(if_alarm.dtype)
        else:
            step = tl.load(lags + k)
            was, comes = inside & (at >= step), inside & (at + step < n)
            one = tl.load(worths + k)
            worth_was, worth_comes = one.to(amount.dtype), one.to(if_alarm.dtype)
        event = tl.load(y + i + step, mask=comes, other=0.0).to(if_alarm.dtype) * worth_comes
        value = tl.load(x + i - step, mask=was & missed, other=nothing)
        if LARGEST:
            worth = tl.maximum(worth, event)
            above = value > best
            tl.atomic_add(r + holder, amount * (held - worth_was), mask=above, sem="relaxed")
            held = tl.where(above, worth_was, held)
            holder = tl.where(above, i - step, holder)
            best = tl.where(above, value, best)
        else:
            worth += event
            above = value > here
            tl.atomic_add(r + i - step, amount * worth_was, mask=above, sem="relaxed")
            held -= tl.where(above, worth_was, 0.0)
    tl.atomic_add(r + holder, amount * held, mask=missed, sem="relaxed")

    if ISOLATED:
        extra = tl.load(worths + neighbours)
        top, peak = here, i
        around = tl.zeros([BLOCK], if_alarm.dtype)
        for k in range(2 * reach):
            # those to come first, from the farthest, and then those before, from the nearest
            step = tl.where(k < reach, reach - k, reach - k - 1).to(tl.int64)
            there = inside & (at + step >= 0) & (at + step < n)
            if TIMED:
                lag = tl.load(ticks + at + step, mask=there, other=0) - tick
                there = there & (tl.abs(lag) <= reach)
            value = tl.load(x + i + step, mask=there & missed, other=nothing)
            above = value > top
            top, peak = tl.where(above, value, top), tl.where(above, i + step, peak)
            around = tl.maximum(around, tl.load(y + i + step, mask=there, other=0.0).to(if_alarm.dtype))
        tl.atomic_add(r + peak, amount * extra.to(amount.dtype), mask=missed, sem="relaxed")
        worth -= extra.to(if_alarm.dtype) * (1 - around)
    tl.store(a + i, if_alarm * (1 - worth), mask=inside)
