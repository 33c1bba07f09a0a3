"""What methods are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

import scorewise as sw


@dataclass(frozen=True, eq=False)
class Goal:
    """A score, and what an error weighs; ``weight`` None where every error counts the same."""

    name: str
    score: sw.scores.Score
    weight: sw.weights.Weight | None = None

    def matrix(
        self, decisions: np.ndarray, y: np.ndarray, groups: np.ndarray | None, times: np.ndarray | None
    ) -> sw.ConfusionMatrix:
        """The weighted confusion matrix of 0/1 decisions."""
        return sw.confusion_matrix(decisions.astype(np.float64), y, 0.5, self.weight, groups=groups, times=times)

    def value(self, matrix: sw.ConfusionMatrix, rows: int) -> float:
        """The score, greater is better; a cost is one per row, so that sets of any size can be averaged."""
        value = float(self.score(matrix))
        return value / rows if self.name == "cost" else value


_VALUE = sw.weights.Value(sw.weights.PUBLISHED)
TABLE = tuple(Goal(name, sw.scores.get(name)) for name in ("tss", "hss", "f1", "csi"))
TABLE += (Goal("cost", sw.scores.cost(fp=1, fn=5)),)
SERIES = tuple(Goal(f"w{name}", sw.scores.get(name), _VALUE) for name in ("tss", "hss", "csi"))


def names() -> list[str]:
    """All scores."""
    return [goal.name for goal in (*TABLE, *SERIES)]


def of(kind: Literal["table", "series"]) -> tuple[Goal, ...]:
    """The scores of tables, or of series: those are value-weighted."""
    return SERIES if kind == "series" else TABLE
