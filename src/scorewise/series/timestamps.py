"""Real timestamps, as whole numbers of lags."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from scorewise._timeline import FAR, timeline
from scorewise._values import as_tensor, is_number, number

_SECONDS = {"W": Fraction(604_800), "D": Fraction(86_400), "h": Fraction(3_600), "m": Fraction(60), "s": Fraction(1)}
_SECONDS |= {name: Fraction(1, 1000**k) for k, name in enumerate(("ms", "us", "ns", "ps", "fs", "as"), start=1)}
_MISSING = ("", "NaT", "nan", "None", "<NA>")  # None, NaN, NaT and pandas' NA, as str writes them
_LARGEST = torch.iinfo(torch.int64).max
_REPEATS_NAIVE = " Local times repeat when daylight saving ends: if these are local, pass time-zone-aware ones."
_REPEATS_AWARE = " Where daylight saving ends, only fold=1 tells the second of two equal local times from the first."


def lags(timestamps: object, step: object, *, groups: object = None) -> Tensor:
    """Turn real timestamps into integer times: how many steps each lies after the earliest, (s − min s) / step.

    Lags are elapsed time. Time-zone-aware timestamps are compared in UTC: the hour that the clock repeats is no
    duplicate, and the one that it leaves out no gap. Naive ones are taken as they stand.

    Args:
        timestamps: The time of each sample, (n,), in any order, which is kept: datetimes (all naive or all aware),
            dates, ISO 8601 strings, datetime64, columns of pandas or polars, or plain numbers such as epoch seconds.
        step: The length of one lag, above 0: a ``datetime.timedelta`` or ``numpy.timedelta64``; for plain numbers, a
            number in their unit.
        groups: The series of each sample, (n,) ints or strings; None: one series. All count from the same zero, but
            each may have its own minute: a series that lies between steps is counted from the step before it begins.

    Returns:
        Times for ``times=``, (n,) int64. Dates and integers are exact. Floats may be off the grid by 1e-6 of a step,
        and by what numbers of their size and dtype cannot resolve, up to 0.01 of a step.

    Raises:
        TypeError: If the timestamps are of no known kind, or the step is not of theirs.
        ValueError: If a timestamp is missing, off its series' grid of steps, or twice in it; if naive and aware ones
            are mixed; if the step is not above 0; if a shape is wrong.

    Example:
        >>> from datetime import datetime, timedelta
        >>> from zoneinfo import ZoneInfo
        >>> night = [datetime(2024, 3, 31, hour, tzinfo=ZoneInfo("Europe/Rome")) for hour in (0, 1, 3, 4)]
        >>> lags(night, timedelta(hours=1))  # 2 o'clock did not exist
        tensor([0, 1, 2, 3])
        >>> lags([1_700_000_600, 1_700_000_000, 1_700_000_000], 300, groups=["a", "a", "b"])
        tensor([2, 0, 0])
        >>> lags(["2024-01-01T00:20", "2024-01-01T01:20", "2024-01-01T00:50"], timedelta(hours=1), groups=[1, 1, 2])
        tensor([0, 1, 0])
    """
    return counted(timestamps, step, groups)


def counted(timestamps: object, step: object, groups: object, *, one_grid: bool = False) -> Tensor:
    """The same; with ``one_grid`` all series lie on that of the earliest timestamp."""
    stamps = _read(timestamps)
    length, exact = _step(step, stamps)
    device = timestamps.device if isinstance(timestamps, Tensor) else None
    series = _series(groups, len(stamps.ticks), device).cpu()
    grids = torch.zeros_like(series) if one_grid else series
    times = _count(stamps, length, grids, exact=exact) if len(series) else torch.zeros(0, dtype=torch.int64)
    _refuse_repeats(times, series, stamps, told=groups is not None)
    return times if device is None else times.to(device)


@dataclass(frozen=True)
class _Stamps:
    """Timestamps as numbers, (n,) on the CPU: int64, or floating point as given.

    ``unit`` is the length of one tick in seconds, None for plain numbers. For messages, ``items`` are the timestamps
    as passed, and ``repeats`` says why some may be the same.
    """

    ticks: Tensor
    unit: Fraction | None
    items: Any
    repeats: str = ""

    def at(self, index: int) -> str:
        return f"index {index} ({self.items[index]})"

    def text(self, length: Fraction) -> str:
        if self.unit is None:
            return str(length) if length.denominator == 1 else number(float(length))
        if (length * 10**6).denominator == 1 and length < timedelta.max.total_seconds():
            return str(timedelta(microseconds=int(length * 10**6)))
        return f"{number(float(length))} s"


def _read(value: Any) -> _Stamps:
    if len(getattr(value, "shape", (1,))) != 1:
        raise ValueError(f"timestamps must have the shape (n,), saw {tuple(value.shape)}.")
    if isinstance(value, Tensor):
        return _from_numbers(value)
    if hasattr(value, "__array__"):
        import numpy as np  # whoever passes an array has NumPy; the core does not need it

        array = np.asarray(value)
        if isinstance(value, np.ma.MaskedArray):  # asarray drops the mask
            _refuse_missing(np.ma.getmaskarray(value).nonzero()[0].tolist(), value)
        if array.dtype.kind == "M":
            return _from_datetime64(array)
        return _from_list(array.tolist()) if array.dtype.kind in "OUT" else _from_numbers(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _from_list(list(value))
    raise TypeError(
        f"timestamps must be a list, an array or a column of dates, strings or numbers, saw {type(value).__name__}."
    )


def _from_list(items: list[Any]) -> _Stamps:
    if any(isinstance(x, list | tuple) for x in items):
        raise ValueError("timestamps must have the shape (n,), saw lists within a list.")
    _refuse_missing([i for i, x in enumerate(items) if type(x) not in (int, datetime) and str(x) in _MISSING], items)
    if any(isinstance(x, date | str) for x in items):
        return _from_datetimes(items)
    if items and _numpy_kind(items[0]) == "M":
        import numpy as np

        return _read(np.array(items))
    return _from_numbers(items)


def _from_numbers(value: object) -> _Stamps:
    ticks = as_tensor(value, "timestamps").detach().cpu()
    if ticks.is_complex() or ticks.dtype == torch.bool:
        raise TypeError(f"timestamps must be dates or real numbers, saw {ticks.dtype}.")
    if not ticks.is_floating_point():
        ticks = ticks.to(torch.int64)
    _refuse_missing((~ticks.isfinite()).nonzero().flatten().tolist(), ticks)
    return _Stamps(ticks, None, ticks)


def _from_datetime64(array: Any) -> _Stamps:
    import numpy as np

    _refuse_missing(np.isnat(array).nonzero()[0].tolist(), array)
    if np.datetime_data(array.dtype)[0] in {"Y", "M"}:
        array = array.astype("M8[D]")  # years and months differ in length, their first days do not
    unit = _unit(array.dtype, "timestamps") if len(array) else Fraction(1)
    ticks = torch.from_numpy(array.astype(np.int64, order="C"))
    return _Stamps(ticks, unit, array, _REPEATS_NAIVE if unit < _SECONDS["D"] else "")


def _from_datetimes(items: list[Any]) -> _Stamps:
    ticks, aware = [], []
    for i, item in enumerate(items):
        stamp, fine = _parse(item, i) if isinstance(item, str) else (item, getattr(item, "nanosecond", 0))
        if not isinstance(stamp, date):
            raise TypeError(f"timestamps must be all dates or all numbers, saw {type(item).__name__} at index {i}.")
        since, offset = timedelta(stamp.toordinal()), None
        if isinstance(stamp, datetime):
            since += timedelta(0, stamp.second, stamp.microsecond, 0, stamp.minute, stamp.hour)
            # not differences of datetimes: within one zone Python takes them by the clock on the wall
            offset = stamp.utcoffset()
        ticks.append((since - (offset or timedelta())) // timedelta(microseconds=1) * 1000 + fine)
        aware.append(offset is not None)
    if any(aware) and not all(aware):
        raise ValueError(
            f"timestamps must be all naive or all time-zone-aware, saw {aware.count(False)} naive, the first at index "
            f"{aware.index(False)}, and {aware.count(True)} aware, the first at index {aware.index(True)}."
        )
    # 64 bits hold the nanoseconds of 292 years, but the microseconds of the whole calendar
    tick = 1 if any(t % 1000 for t in ticks) else 1000
    earliest = min(ticks)
    _check_span(Fraction(max(ticks) - earliest, tick))
    relative = torch.tensor([(t - earliest) // tick for t in ticks])
    naive = _REPEATS_NAIVE if any(isinstance(item, datetime | str) for item in items) else ""
    return _Stamps(relative, tick * _SECONDS["ns"], items, _REPEATS_AWARE if all(aware) else naive)


def _parse(text: str, index: int) -> tuple[datetime, int]:
    """A datetime, whose microseconds Python cuts short, and the nanoseconds beyond them."""
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError as error:
        wanted = "ISO 8601, such as 2024-01-31T18:00:00+01:00"
        raise ValueError(f"timestamps must be {wanted}, saw {text!r} at index {index}.") from error
    beyond = re.search(r"[.,]\d{6}(\d+)", text)
    digits = beyond[1].rstrip("0") if beyond else ""
    if len(digits) > 3:
        raise ValueError(f"timestamps must be no finer than nanoseconds, saw {text!r} at index {index}.")
    return stamp, int(digits.ljust(3, "0"))


def _refuse_missing(bad: list[int], items: Any) -> None:
    if bad:
        first = items[bad[0]]
        value = first.item() if isinstance(first, Tensor) else first
        raise ValueError(
            f"timestamps must be known and finite, but {len(bad)} of {len(items)} are not: the first, at index "
            f"{bad[0]}, is {value!r}. Leave those samples out: without a time there is no lag."
        )


def _check_span(span: Fraction) -> None:
    if span >= _LARGEST:
        raise ValueError("timestamps lie too far apart: 64-bit integers cannot count so many steps.")


def _numpy_kind(value: object) -> str | None:
    return getattr(getattr(value, "dtype", None), "kind", None)


def _unit(dtype: Any, name: str) -> Fraction:
    import numpy as np

    unit, count = np.datetime_data(dtype)
    if unit not in _SECONDS:
        raise ValueError(
            f"{name} must have a unit of fixed length, saw {dtype}. Months and years differ in length: for these pass "
            "numbers, 12 * year + month, and step=1."
        )
    return _SECONDS[unit] * count


def _step(step: Any, stamps: _Stamps) -> tuple[Fraction, bool]:
    """The step, in seconds or in the numbers' unit, and whether times can be counted without rounding."""
    is_duration, is_whole = True, isinstance(step, Integral)
    if isinstance(step, timedelta):
        length = step // timedelta(microseconds=1) * _SECONDS["us"] + getattr(step, "nanoseconds", 0) * _SECONDS["ns"]
    elif _numpy_kind(step) == "m":  # before numbers, of which NumPy's timedelta is one
        length = int(step.astype("int64")) * _unit(step.dtype, "step")  # NaT is the smallest integer
    elif is_number(step):
        is_duration = False
        length = Fraction(int(step) if is_whole else float(step) if math.isfinite(step) else 0)
    else:
        raise TypeError(f"step must be a datetime.timedelta or, for plain numbers, a number, saw {step!r}.")
    if len(stamps.ticks) and is_duration != (stamps.unit is not None):
        number_wanted = "a number in the timestamps' unit, as these are numbers (for seconds, step.total_seconds())"
        duration_wanted = "a datetime.timedelta such as timedelta(hours=1), as the timestamps are dates"
        raise TypeError(f"step must be {number_wanted if is_duration else duration_wanted}, saw {step!r}.")
    if length <= 0:
        raise ValueError(f"step must be finite and above 0, saw {step!r}.")
    # 3600.0 is a whole number, but the 0.1 of a float is no tenth
    return length, (is_duration or length.denominator == 1) and not stamps.ticks.is_floating_point()


def _series(groups: Any, n: int, device: torch.device | None) -> Tensor:
    """The series of each timestamp, as numbers from 0 on."""
    series = torch.zeros(n, dtype=torch.int64, device=device)
    # as the losses read groups; but of an empty list, whose elements have no type, there is nothing to read
    line = None if groups is None or len(groups) == n == 0 else timeline(groups, None, series)
    if line is not None and line.steps is not None:
        place = torch.arange(n, device=device) if line.order is None else line.order
        series[place[1:]] = (line.steps == FAR).cumsum(0)
    return series


def _count(stamps: _Stamps, length: Fraction, series: Tensor, *, exact: bool) -> Tensor:
    """How many steps each timestamp lies after the earliest; raise if one lies between two steps of its series."""
    floating = stamps.ticks.is_floating_point()
    ticks = stamps.ticks.double() if floating else stamps.ticks
    unit = stamps.unit or Fraction(1)
    ratio = unit / length
    low, high = (end.item() for end in torch.aminmax(ticks))
    _check_span((Fraction(high) - Fraction(low)) * (ratio if floating else max(ratio, Fraction(1))))
    distance, coarse = ticks - low, ""
    begins = torch.full_like(distance, high - low).scatter_reduce(0, series, distance, "amin")[series]
    if exact:
        # clipped to what a tensor can hold: no distance is as long as that
        p, q = min(ratio.numerator, _LARGEST), min(ratio.denominator, _LARGEST)
        times, off = distance // q * p, (distance - begins) % q != 0
    else:
        dtype = stamps.ticks.dtype if floating else torch.float64
        spacing = torch.finfo(dtype).eps * (max(abs(low), abs(high)) if floating else high - low)
        # half a spacing in each of two timestamps, up to a whole one in their difference, the quotient and the step
        rounding = 4 * spacing / float(length)
        tolerance = min(1e-6 + rounding, 0.01)
        quotient, begun = distance.double() / float(length), begins.double() / float(length)
        between = torch.where((begun - begun.round()).abs() > tolerance, begun - begun.floor(), 0.0)
        times = (quotient - between).round().to(torch.int64)
        off = (quotient - between - times).abs() > tolerance
        if rounding > 0.01:
            coarse = f" Numbers of this size are up to {number(spacing)} apart in {dtype}: pass integers."
    if off.any():
        i = int(off.nonzero()[0])
        after = distance - begins
        past = stamps.text(Fraction(after[i].item()) * unit % length)
        whole = after.to(torch.int64)
        gcd = f", such as {stamps.text(math.gcd(*whole.tolist()) * unit)}" if bool((whole == after).all()) else ""
        own = (series == series[i]).nonzero().squeeze(1)
        of = " of their series" if len(own) < len(series) else ""
        raise ValueError(
            f"timestamps must lie whole steps of {stamps.text(length)} after the earliest{of}, "
            f"{stamps.at(int(own[ticks[own].argmin()]))}, but {int(off.sum())} of {len(off)} do not: the first, "
            f"{stamps.at(i)}, is {past} past a step. Pass a step that divides all distances{gcd}, which is one "
            f"lag then, or round the timestamps first.{coarse}"
        )
    return times


def _refuse_repeats(times: Tensor, series: Tensor, stamps: _Stamps, *, told: bool) -> None:
    order = torch.argsort(times, stable=True)
    order = order[torch.argsort(series[order], stable=True)]
    first, second = order[:-1], order[1:]
    same = (times[first] == times[second]) & (series[first] == series[second])
    if same.any():
        k = int(torch.where(same, second, len(times)).argmin())
        hint = "" if told else " If there are several series, tell them apart with groups=."
        raise ValueError(
            f"timestamps must differ within a series, but {int(same.sum())} of {len(times)} repeat an earlier one: "
            f"{stamps.at(int(first[k]))} and {stamps.at(int(second[k]))} are the same time.{stamps.repeats}{hint}"
        )
