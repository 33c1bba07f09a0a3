"""Raw tables, made into what a network can take: numbers on one scale, and categories as codes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

MOST_CATEGORIES = 64
"""Of a column; those that are rarer than so many others are one more."""

_QUANTILES = 1000
_ENOUGH = 100_000  # rows to read quantiles off

Inputs = tuple[Tensor, ...]
"""What a network is called with: of a table, numbers (n, f) float32 and codes of categories (n, c) int64."""

Column = NDArray[Any]
"""Numbers, float64 with NaN where one is missing; or things of any kind, None where one is missing."""


def read(estimator: Any, X: Any, *, reset: bool) -> list[Column]:
    """The columns of a table, checked as scikit-learn checks them: pandas, polars, or an array.

    Columns of strings, categories or truth values are categories, and so are columns of objects that are not all
    numbers. Infinite numbers are refused; NaN is a number that is missing.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if min(frame.shape) == 0:
            check_array(np.empty(frame.shape), estimator=estimator)  # raises as scikit-learn would
        return [_of_series(frame.get_column(name), estimator) for name in frame.columns]
    array = validate_data(
        estimator, X, reset=reset, dtype=None, ensure_all_finite=False, accept_sparse=False, order="F"
    )
    if array.dtype.kind in "mM":
        raise _of_times("X", array.dtype)
    if array.dtype.kind in "OUSb":
        return [_of_objects(array[:, j], estimator) for j in range(array.shape[1])]
    numbers = check_array(array, dtype=np.float64, ensure_all_finite="allow-nan", estimator=estimator, input_name="X")
    return list(numbers.T)


def _of_times(what: str, kind: object) -> ValueError:
    return ValueError(
        f"{what} holds times ({kind}). Make numbers of what matters about them (the hour, the month), and pass the "
        "order of samples as times=."
    )


def _of_series(series: Any, estimator: Any) -> Column:
    if series.dtype.is_numeric():
        values = series.cast(nw.Float64).to_numpy().astype(np.float64)
        return _finite(values, estimator, series.name)
    if series.dtype.is_temporal():
        raise _of_times(f"the column {series.name!r}", series.dtype)
    values = np.empty(len(series), object)
    values[:] = series.to_list()
    return _of_objects(values, estimator, numbers=series.dtype not in (nw.Categorical, nw.Enum))


def _of_objects(values: NDArray[Any], estimator: Any, *, numbers: bool = True) -> Column:
    if values.dtype.kind == "b":
        return values.astype(object)
    missing = np.array([_is_missing(value) for value in values], bool)
    kinds = {type(value) for value in values[~missing]}
    plain = all(issubclass(kind, int | float | np.number) and not issubclass(kind, bool | np.bool) for kind in kinds)
    if numbers and plain:
        known = np.full(len(values), np.nan)
        known[~missing] = values[~missing].astype(np.float64)
        return _finite(known, estimator, "X")
    if odd := [kind for kind in kinds if not issubclass(kind, str | bytes | bool | np.bool | int | float | np.number)]:
        raise TypeError(f"argument must be a string or a number, saw {odd[0].__name__} in a column of X.")
    kept = values.astype(object)
    kept[missing] = None
    return kept


def _finite(values: NDArray[np.float64], estimator: Any, name: object) -> Column:
    check_array(values[:, None], ensure_all_finite="allow-nan", estimator=estimator, input_name=str(name))
    return values


def _is_missing(value: object) -> bool:
    # pandas.NA is equal to nothing, and has no truth value
    return (
        value is None
        or type(value).__name__ in {"NAType", "NaTType"}
        or (isinstance(value, float | np.floating) and math.isnan(value))
    )


@dataclass
class TableEncoder:
    """What was learned of the columns of a training table.

    Numbers are put on a normal scale by their ranks, so that neither outliers nor units matter; one that is missing is
    in the middle, and a further column tells so. Categories are codes by how frequent they are; those that are rare,
    and those never seen in training, share code 0, which is also that of a missing one. Where there was neither in
    training, and so nothing is known of code 0, they are taken for the most frequent category. Columns that are
    constant in training are left out.

    Attributes:
        numeric: The places of columns of numbers.
        gaps: Those of them that lacked numbers in training.
        quantiles: Of each column of numbers, (q, f).
        categories: Of each column of categories, by its place: the categories in the order of their codes, from 1 on.
        complete: The places of those columns that had no code 0 in training.
    """

    numeric: list[int] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    quantiles: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    categories: dict[int, list[Any]] = field(default_factory=dict)
    complete: list[int] = field(default_factory=list)

    @classmethod
    def fit(cls, columns: list[Column], rows: NDArray[np.intp]) -> TableEncoder:
        """Learn from some rows of a table."""
        made = cls()
        kept = []
        for j, column in enumerate(columns):
            seen = column[rows]
            if seen.dtype == object:
                if names := _frequent(seen):
                    made.categories[j] = names
                    if (_codes(seen, names, 0) > 0).all():
                        made.complete.append(j)
                continue
            missing = np.isnan(seen)
            known = seen[~missing]
            if missing.any() and not missing.all():
                made.gaps.append(j)
            if len(known) and known.min() < known.max():
                made.numeric.append(j)
                kept.append(seen)
        if kept:
            table = np.stack(kept, 1)
            if len(table) > _ENOUGH:
                table = table[np.linspace(0, len(table) - 1, _ENOUGH).astype(np.intp)]
            grid = np.linspace(0, 1, min(_QUANTILES, len(table)))
            # monotone in spite of rounding
            made.quantiles = np.maximum.accumulate(np.nanquantile(table, grid, axis=0), axis=0)
        return made

    @property
    def cardinalities(self) -> list[int]:
        """How many codes each column of codes has."""
        return [2] * len(self.gaps) + [len(names) + 1 for names in self.categories.values()]

    @property
    def width(self) -> int:
        """How many columns of numbers there are: at least one, if there are no codes either."""
        return len(self.numeric) or int(not self.cardinalities)

    def transform(self, columns: list[Column]) -> Inputs:
        """A table's columns as a network's inputs."""
        n = len(columns[0])
        numbers = np.zeros((n, self.width))
        if self.numeric:
            numbers = np.nan_to_num(self._scale().transform(np.stack([columns[j] for j in self.numeric], 1)), nan=0.0)
        codes = [np.isnan(_as_numbers(columns[j])) for j in self.gaps]
        codes += [_codes(columns[j], names, int(j in self.complete)) for j, names in self.categories.items()]
        stacked = np.stack(codes, 1).astype(np.int64) if codes else np.zeros((n, 0), np.int64)
        return torch.from_numpy(numbers.astype(np.float32)), torch.from_numpy(stacked)

    def _scale(self) -> QuantileTransformer:
        scale = QuantileTransformer(n_quantiles=len(self.quantiles), output_distribution="normal")
        scale.n_quantiles_, scale.quantiles_ = len(self.quantiles), self.quantiles
        scale.references_ = np.linspace(0, 1, len(self.quantiles))
        scale.n_features_in_ = self.quantiles.shape[1]
        return scale


def _as_numbers(column: Column) -> NDArray[np.float64]:
    if column.dtype != object:
        return column
    return np.array([np.nan if value is None else value for value in column], np.float64)  # raises if there are texts


def _frequent(values: NDArray[Any]) -> list[Any]:
    """The categories worth a code of their own, the most frequent first; none if there is nothing to tell apart."""
    counts: dict[Any, int] = {}
    for value in values:
        if value is not None:
            counts[value] = counts.get(value, 0) + 1
    if len(counts) + (None in values) < 2:
        return []
    ranked = sorted(counts, key=lambda name: (-counts[name], str(name)))
    return ranked[:MOST_CATEGORIES]


def _codes(column: Column, names: list[Any], other: int) -> NDArray[np.int64]:
    codes = {name: k + 1 for k, name in enumerate(names)}
    return np.array([other if value is None else codes.get(value, other) for value in column.tolist()], np.int64)
