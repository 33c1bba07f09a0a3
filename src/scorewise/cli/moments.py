"""A table's times, made into whole numbers of lags."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scorewise.cli.errors import InputError, guarded, in_rows

_UNITS = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86_400),
    "w": Fraction(604_800),
}
_DAY, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,6})?)?"
_ISO, _ZONE = rf"^{_DAY}({_CLOCK})?$", r"(?:Z|([+-])(\d{2}):(\d{2}))$"
_ZONED = rf"^{_DAY}{_CLOCK}{_ZONE}"
_LENGTH = re.compile(r"(?<![\dT:])(?:(\d+) days?, )?(\d+):(\d{2}):(\d{2})(\.\d+)?(?!\d)")  # str(timedelta)
_AT_ONCE = 1 << 16


class Stamps(Sequence[str]):
    """How to print each row's time: made when it is asked for, since few of very many are."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def __len__(self) -> int:
        return len(self._series)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return _printed(self._series[index]).to_list()
        return str(_printed(self._series[range(len(self))[index] :][:1])[0])

    def __iter__(self) -> Iterator[str]:
        # many at once: one by one takes a hundred times as long
        for begin in range(0, len(self), _AT_ONCE):
            yield from self[begin : begin + _AT_ONCE]


def times_of(
    found: pl.Series, step: str | None, groups: Sequence[str] | None
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """When each row is, in whole numbers of lags, and how to print it: see `scorewise.cli.columns.times`."""
    read, numbers = moments(found), codes(groups, len(found))
    with _told(found.name, 1, one_series=groups is None):
        length = least_step(read, numbers) if step is None else step_of(step, read)
        return _lags(read, length, numbers), Stamps(found)


def times_since(
    found: pl.Series, origin: pl.Series, step: str, groups: Sequence[str] | None, *, first: int = 0
) -> NDArray[np.int64]:
    """When each row of a batch is, in whole numbers of lags after a time that is the same for all batches.

    All series lie on the grid of that time: a batch does not tell which minute a series had in the one before.

    Args:
        found: The times, as `moments` gives them.
        origin: That time, a column of length 1.
        step: The length of a lag.
        groups: The name of each row's series.
        first: How many rows came before these, for messages.
    """
    # as one row more, in a series of its own
    numbers = np.concatenate([[-1], codes(groups, len(found))])
    with _told(found.name, first, one_series=groups is None):
        ticks = _lags(pl.concat([origin, found]), step_of(step, found), numbers, one_grid=True)
    since: NDArray[np.int64] = ticks[1:] - ticks[0]
    return since


def moments(found: pl.Series) -> pl.Series:
    """A column of times, as dates or numbers: text is read as ISO 8601, and time zones become UTC."""
    if found.dtype == pl.String:
        found = found.str.strip_chars()
        if found.str.contains(_ISO).all():
            return _read(found)
        return _in_utc(found) if found.str.contains(_ZONED).all() else found
    if isinstance(found.dtype, pl.Datetime):
        return found if found.dtype.time_zone is None else found.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if found.dtype == pl.Date or found.dtype.is_integer() or found.dtype.is_float():
        return found
    raise InputError(f"--time: the column {found.name!r} must hold dates, times or numbers, saw {found.dtype}.")


def written_dates(found: pl.Series) -> bool:
    """Whether a column of text holds nothing but dates or times."""
    if found.dtype != pl.String or found.null_count() == len(found):
        return False
    plain = found.str.strip_chars()
    return bool(plain.str.contains(_ISO).all() or plain.str.contains(_ZONED).all())


def numbered_dates(found: pl.Series) -> list[str]:
    """What must be known of times as 20240131 or 2024013118, which are numbers, and no dates; nothing of others."""
    if not found.dtype.is_integer() or not len(found):
        return []
    texts = found[:1000].cast(pl.String)
    read = texts.str.pad_end(14, "0").str.to_datetime("%Y%m%d%H%M%S", strict=False)
    if texts.str.len_chars().n_unique() > 1 or len(texts[0]) not in {8, 10, 12, 14} or read.null_count():
        return []
    if not read.dt.year().is_between(1900, 2099).all():
        return []
    text = (
        f"the times in {found.name!r} look like dates ({texts[0]}), but are taken as the numbers that they are: the "
        "first day of a month is many steps after the last of the one before. Write them as 2024-01-31 18:00."
    )
    return [text]


def _read(found: pl.Series) -> pl.Series:
    """Times in text without a time zone; null where there is no such day or hour."""
    try:
        return found.str.replace("T", " ").str.replace(",", ".").str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.ComputeError:  # not one of them can be read
        return pl.Series(found.name, [None] * len(found), pl.Datetime("us"))


def _in_utc(found: pl.Series) -> pl.Series:
    """Times in text with a time zone each."""
    sign, hours, minutes = (found.str.extract(_ZONE, k) for k in (1, 2, 3))
    ahead = hours.cast(pl.Int64) * 60 + minutes.cast(pl.Int64)
    ahead = (ahead * pl.select(pl.when(sign == "-").then(-1).otherwise(1)).to_series()).fill_null(0)  # Z is 0
    return _read(found.str.replace(_ZONE, "")) - (ahead * 60_000_000).cast(pl.Duration("us"))


def step_of(text: str, found: pl.Series) -> Any:
    """The length of a lag, for times of this kind."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*", text)
    dated = not found.dtype.is_numeric()
    if match is None or (match[2] and match[2] not in _UNITS):
        raise InputError(
            f"--step {text!r} is no length of time: write 10min, 1h or 1d (the units are {', '.join(_UNITS)}), or a "
            "plain number if times are numbers."
        )
    if dated != bool(match[2]):
        kind, wanted = ("dates", "a unit, as 1h or 1d") if dated else ("numbers", "a plain number, in their unit")
        raise InputError(f"--step {text!r} does not fit: the column {found.name!r} holds {kind}. Pass {wanted}.")
    if not dated:
        return int(match[1]) if match[1].isdigit() else float(match[1])
    length = Fraction(match[1]) * _UNITS[match[2]] * 10**6
    if length.denominator != 1:
        raise InputError(f"--step {text!r} is no whole number of microseconds.")
    with guarded("--step"):
        try:
            return timedelta(microseconds=int(length))
        except OverflowError as error:
            raise InputError(f"--step {text!r} is too long.") from error


def least_step(found: pl.Series, groups: NDArray[np.int64]) -> Any:
    """The least difference between two times of one series, as a step."""
    if found.dtype == pl.String:
        # the few that are not read at once, as 20240131T18: they are read one by one
        return timedelta(microseconds=_least(_microseconds(found), groups) or 1)
    if found.dtype.is_numeric():
        return _least(found.to_numpy(), groups) or 1
    ticks = found.cast(pl.Datetime("us")).to_physical()
    if ticks.null_count():  # told by whoever reads the times
        return timedelta(hours=1)
    return timedelta(microseconds=int(_least(ticks.to_numpy(), groups)) or 1)


def codes(groups: Sequence[str] | None, rows: int) -> NDArray[np.int64]:
    """Series as numbers, in the order of their names, so that the order of rows makes no difference."""
    if groups is None:
        return np.zeros(rows, np.int64)
    numbers = {name: number for number, name in enumerate(sorted(set(groups)))}
    return np.fromiter(map(numbers.__getitem__, groups), np.int64, len(groups))


def _least(ticks: NDArray[Any], groups: NDArray[np.int64]) -> Any:
    """The least difference above 0 between two numbers of one series; 0 if there are no two."""
    order = np.lexsort((ticks, groups))
    steps, same = np.diff(ticks[order]), np.diff(groups[order]) == 0
    steps = steps[same & (steps > 0)]
    return steps.min().item() if len(steps) else 0


def _microseconds(found: pl.Series) -> NDArray[np.int64]:
    """Times in text, as microseconds after the first."""
    from scorewise.series import lags

    # every row a series of its own: repeats are told later, with the real ones
    each = np.arange(len(found))
    return lags(found.to_list(), timedelta(microseconds=1), groups=each).numpy()


def _lags(found: pl.Series, step: Any, groups: NDArray[np.int64], *, one_grid: bool = False) -> NDArray[np.int64]:
    from scorewise.series.timestamps import counted

    if found.null_count():
        missing = found.is_null()
        raise ValueError(
            f"every row must have a time, but {int(missing.sum()):,} of {len(found):,} have none, or one that "
            f"cannot be read: the first is index {int(missing.arg_true()[0])}. Leave those rows out."
        )
    stamps = found.to_list() if found.dtype == pl.String else found.to_numpy()
    return counted(stamps, step, groups, one_grid=one_grid).numpy()


@contextlib.contextmanager
def _told(name: str, shift: int, *, one_series: bool) -> Iterator[None]:
    """Tell what is wrong with times in the words of the command line: rows of the file, and steps as --step has them.

    Args:
        name: The column.
        shift: The row of the file, counted from 1, that has the index 0.
        one_series: Whether rows are taken to be of one series.
    """
    with in_rows(shift):
        try:
            with guarded(f"--time {name}"):
                yield
        except InputError as error:
            text = _LENGTH.sub(_short_length, str(error)).replace("Pass a step", "Pass a --step")
            if one_series and "repeat an earlier one" in text:
                text += " If the file holds several series, name the column that tells them apart with --group."
            raise InputError(text) from error


def _short_length(found: re.Match[str]) -> str:
    """A length of time as --step takes it, of one as Python prints it."""
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    length = ((days * 24 + hours) * 60 + minutes) * 60 + seconds + Fraction(f"0{found[5] or '.0'}")
    unit = next(unit for unit in ("d", "h", "min", "s", "ms", "us") if not length % _UNITS[unit])
    return f"{length / _UNITS[unit]}{unit}"


def _printed(series: pl.Series) -> pl.Series:
    if isinstance(series.dtype, pl.Datetime):
        zone = "" if series.dtype.time_zone is None else "%:z"
        return series.dt.to_string(f"%Y-%m-%d %H:%M:%S%.f{zone}")
    return series.cast(pl.String)
