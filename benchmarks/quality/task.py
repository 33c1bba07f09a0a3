"""One set: what is known, what happens, and where there is time, when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

Kind = Literal["table", "series", "labels"]


@dataclass(frozen=True, eq=False)
class Task:
    """One set: raw features, events, and where there is time, when.

    A set with labels has several kinds of events, each of which happens or not.

    Attributes:
        name: What the set is called here.
        X: One row per sample: numbers, and columns of dtype category. Missing values are NaN.
        y: 1 where the event happened, else 0; (n,) or (n, labels) int64.
        groups: The series each row belongs to, (n,) int64; None if there is one, or no time.
        times: When, in steps, increasing within a group; (n,) int64. None if there is no time.
        horizon: How many steps ahead the event lies; 0 if there is no time.
        kind: "table", "series" whose rows have a time, or "labels".
        source: Whom the data come from, and the licence.
        blocks: Of a table, which rows must stay in one part, since they tell of each other: (n,) numbers, the same for
            rows that belong together. None if each may stand alone. Only splits ask for them; no method sees them.
    """

    name: str
    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray | None
    times: np.ndarray | None
    horizon: int
    kind: Kind
    source: str
    blocks: np.ndarray | None = None

    def __post_init__(self) -> None:
        n = len(self.X)
        for name in ("y", "groups", "times", "blocks"):
            array = getattr(self, name)
            several = name == "y" and self.kind == "labels"
            if array is not None and (array.shape[:1] != (n,) or array.ndim != 1 + several):
                wanted = f"({n}, labels)" if several else f"({n},)"
                raise ValueError(f"{self.name}: {name} must have the shape {wanted}, saw {array.shape}.")
        if not set(np.unique(self.y)) == {0, 1}:
            raise ValueError(f"{self.name}: y must hold both 0 and 1, saw {np.unique(self.y)[:5]}.")
        if (self.kind == "series") != (self.times is not None):
            raise ValueError(f"{self.name}: a series has times and a table has none.")
        if self.blocks is not None and self.kind != "table":
            raise ValueError(f"{self.name}: blocks are for tables, and this is a set of the kind {self.kind!r}.")

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.y):,} × {self.X.shape[1]}, {self.y.mean():.1%} events>"


def categories(X: pd.DataFrame) -> pd.DataFrame:
    """Features as a task has them: text becomes categories, and rows are numbered."""
    text = [c for c in X.columns if not pd.api.types.is_numeric_dtype(X[c].dtype)]
    return X.reset_index(drop=True).astype(dict.fromkeys(text, "category")).rename(columns=str)
