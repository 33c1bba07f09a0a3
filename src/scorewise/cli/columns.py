"""Columns of a table, made into what is judged: labels, predictions, series and times."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scorewise.cli.errors import InputError
from scorewise.cli.moments import times_of

Kind = Literal["probability", "percent", "logit", "hard"]
Floats = NDArray[np.float64] | NDArray[np.float32]

_MOST_NAMES = 30
_BETWEEN = " · "


def column(frame: pl.DataFrame, name: str, what: str) -> pl.Series:
    """A column of a table; one that is not there is told with those that are.

    Args:
        frame: The table.
        name: The column.
        what: What it is wanted for, as "--target".
    """
    require(frame.columns, name, what)
    return frame[name]


def require(there: Sequence[str], name: str, what: str) -> None:
    """Raise an `InputError` if there is no such column.

    Args:
        there: The columns that there are.
        name: The column.
        what: What it is wanted for, as "--target".
    """
    if name in there:
        return
    fold = {one.strip().casefold(): one for one in there}
    close = difflib.get_close_matches(name.strip().casefold(), list(fold), n=1)
    hint = f" Did you mean {fold[close[0]]!r}?" if close else ""
    raise InputError(f"{what}: there is no column {name!r}.{hint} The columns are {listed(there)}.")


def listed(names: Sequence[object]) -> str:
    """Names, and of very many the first."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else shown


def numbers(series: pl.Series, what: str, *, first: int = 0) -> Floats:
    """Numbers, NaN where missing.

    Args:
        series: The column.
        what: What it is wanted for, for messages.
        first: How many rows came before these, for messages.
    """
    kind = series.dtype
    if kind == pl.String:
        series = _parsed(series, what, first)
    elif kind.is_decimal() or kind.is_integer() or kind in {pl.Boolean, pl.Null}:
        series = series.cast(pl.Float64)
    elif not kind.is_float():
        raise InputError(f"{what}: the column {series.name!r} must hold numbers, saw {kind}.")
    elif kind not in {pl.Float32, pl.Float64}:
        series = series.cast(pl.Float32)
    values: Floats = series.fill_null(float("nan")).to_numpy()
    _refuse(np.isinf(values), values, f"{what}: the column {series.name!r} must be finite", first)
    return values


def predictions(series: pl.Series, kind: Kind, *, first: int = 0) -> Floats:
    """Predictions of a model: probabilities, or logits if that is their kind; NaN where missing.

    Args:
        series: The column.
        kind: What the numbers are.
        first: How many rows came before these, for messages.
    """
    what = f"--prediction: the column {series.name!r}"
    values = numbers(series, "--prediction", first=first)
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    if kind == "hard":
        strange = ~np.isin(values, (0, 1)) & ~np.isnan(values)
        _refuse(strange, values, f"{what} must be 0 or 1 (--kind hard)", first)
        return values
    if kind in {"logit", "percent"} and low < high and bool(np.isin(known, (0, 1)).all()):
        raise InputError(f"{what} has no values but 0 and 1: they are no {kind}s. Pass --kind hard.")
    if kind == "logit":
        return values
    most = 100 if kind == "percent" else 1
    other = "percent if these are percentages" if 0 <= low and high <= 100 else "logit if these are logits"
    outside = (values < 0) | (values > most)
    _refuse(outside, values, f"{what} must lie in [0, {most}] (--kind {kind})", first, f" Pass --kind {other}.")
    return values / 100 if kind == "percent" else values


def labels(
    series: pl.Series, positive: str | None, *, first: int = 0, partial: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Labels 0/1, NaN where missing, and where they are known.

    Args:
        series: The column.
        positive: The label of an event; all others are none. None: labels are 0/1, or true/false.
        first: How many rows came before these, for messages.
        partial: Whether these are some of the rows only, so that the positive label need not be among them.
    """
    what = "--target"
    if series.dtype.is_float():
        series = series.fill_nan(None)
    known = series.is_not_null().to_numpy()
    if positive is not None:
        event = matches(series, positive)
        if not partial and not event.any():
            raise InputError(
                f"--positive: no label in the column {series.name!r} is {positive!r}. The labels are "
                f"{values_of(series)}."
            )
    else:
        if series.dtype == pl.String:
            texts = series.str.strip_chars().str.to_lowercase()
            event, none = texts.is_in(["1", "1.0", "true"]), texts.is_in(["0", "0.0", "false"])
        elif series.dtype == pl.Boolean:
            event, none = series, ~series
        elif series.dtype.is_numeric() or series.dtype == pl.Null:
            event, none = series == 1, series == 0
        else:
            raise InputError(f"{what}: the column {series.name!r} must hold labels, saw {series.dtype}.")
        strange = ~(event | none).fill_null(value=True)
        if strange.any():
            row = int(strange.arg_true()[0])
            raise InputError(
                f"{what}: the column {series.name!r} must hold 0 and 1, or true and false, saw {values_of(series)} "
                f"(row {first + row + 1:,} has {series[row]!r}). Name the label of an event with --positive, "
                "and leave unknown labels empty."
            )
    values = event.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return np.where(known, values, np.nan), known


def matches(series: pl.Series, positive: str) -> pl.Series:
    """Which labels are the positive one, null where missing."""
    if series.dtype == pl.Boolean:
        wanted = {"true": True, "1": True, "false": False, "0": False}.get(positive.strip().lower())
        return series == wanted if wanted is not None else series & ~series
    if series.dtype.is_numeric():
        try:
            return series == float(positive)
        except ValueError:
            return series != series  # noqa: PLR0124  # none, and null where missing
    return series.cast(pl.String).str.strip_chars() == positive.strip()


def values_of(series: pl.Series) -> str:
    """Different values of a column, the first few of them, for messages."""
    found = series.drop_nulls().unique(maintain_order=True)
    shown = ", ".join(repr(value)[:80] for value in found[:5].to_list())
    return f"{shown} and {len(found) - 5:,} more" if len(found) > 5 else shown


def groups(frame: pl.DataFrame, names: Sequence[str], *, first: int = 0) -> list[str] | None:
    """The name of each row's series, of one column or of several together; None without any.

    Args:
        frame: The table.
        names: The columns.
        first: How many rows came before these, for messages.
    """
    if not names:
        return None
    parts = []
    for name in names:
        part = column(frame, name, "--group")
        missing = part.is_null() if not part.dtype.is_float() else part.is_null() | part.is_nan()
        if missing.any():
            raise InputError(
                f"--group: the column {name!r} must tell every row's series, but {int(missing.sum()):,} of "
                f"{len(part):,} are missing: the first in row {first + int(missing.arg_true()[0]) + 1:,}."
            )
        parts.append(texts(part, "--group"))
    if len(parts) == 1:
        return shared(parts[0])
    table = pl.DataFrame([part.alias(str(k)) for k, part in enumerate(parts)])
    one = table.select(pl.concat_str(pl.all(), separator=_BETWEEN)).to_series()
    if one.n_unique() != table.n_unique():  # the separator stands within names: quotes tell them apart
        one = pl.Series([json.dumps(row, ensure_ascii=False) for row in table.iter_rows()])
    return shared(one)


def texts(series: pl.Series, what: str) -> pl.Series:
    """A column as text."""
    if series.dtype.is_nested() or series.dtype in {pl.Binary, pl.Object}:
        raise InputError(f"{what}: the column {series.name!r} must hold texts or numbers, saw {series.dtype}.")
    return series.cast(pl.String)


def shared(series: pl.Series) -> list[str]:
    """A column of texts as a list in which equal ones are one object: of ten million names there are a few."""
    known: dict[str, str] = {}
    return [known.setdefault(text, text) for text in series]


def times(
    frame: pl.DataFrame, name: str, step: str | None, groups: Sequence[str] | None
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """When each row is, in whole numbers of lags, and how to print it.

    Args:
        frame: The table, its rows in any order.
        name: The column: dates, times, or numbers.
        step: The length of a lag, as "1h", "10min", "1d", or, where times are numbers, "1". None: the least difference
            between two times of a series.
        groups: The name of each row's series.
    """
    return times_of(column(frame, name, "--time"), step, groups)


def _parsed(series: pl.Series, what: str, first: int) -> pl.Series:
    """Texts, read as numbers."""
    found = series.str.strip_chars()
    cast = found.cast(pl.Float64, strict=False)
    bad = found.is_not_null() & cast.is_null()
    if bad.any():
        row = int(bad.arg_true()[0])
        text = str(found[row])
        hint = " Write decimals with a point." if re.fullmatch(r"[+-]?\d*,\d+", text) else ""
        raise InputError(
            f"{what}: the column {series.name!r} must hold numbers, but {int(bad.sum()):,} of {len(series):,} values "
            f"are none: the first, in row {first + row + 1:,}, is {text[:80]!r}.{hint}"
        )
    return cast


def _refuse(bad: NDArray[Any], values: Floats, rule: str, first: int, hint: str = "") -> None:
    """Raise an `InputError` that counts and locates."""
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{rule}, but {int(bad.sum()):,} of {len(values):,} values are otherwise: the first, in row "
            f"{first + row + 1:,}, is {float(values[row]):g}.{hint}"
        )
