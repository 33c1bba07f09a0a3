"""Some rows of a set, as methods see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.quality.data import Task


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a set; see `Task` for what each of these is."""

    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray | None = None
    times: np.ndarray | None = None

    @classmethod
    def of(cls, task: Task, rows: np.ndarray) -> Rows:
        """The rows of a set with these numbers."""
        groups, times = (None if a is None else a[rows] for a in (task.groups, task.times))
        return cls(task.X.iloc[rows].reset_index(drop=True), task.y[rows], groups, times)

    def then(self, others: Rows) -> Rows:
        """These rows and others after them."""
        X = pd.concat([self.X, others.X], ignore_index=True)
        pairs = ((getattr(self, name), getattr(others, name)) for name in ("y", "groups", "times"))
        return Rows(X, *(None if a is None else np.concatenate([a, b]) for a, b in pairs))  # type: ignore[arg-type]  # y is there

    @property
    def context(self) -> dict[str, np.ndarray]:
        """Where and when, if there is a where and a when."""
        known = {"groups": self.groups, "times": self.times}
        return {name: array for name, array in known.items() if array is not None}
