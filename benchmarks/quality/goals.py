"""What methods are judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import scorewise as sw
from benchmarks.quality.data import Kind


@dataclass(frozen=True, eq=False)
class Goal:
    """A score, and what an error weighs; ``weight`` None where every error counts the same."""

    name: str
    score: sw.scores.Score
    weight: sw.weights.Weight | None = None

    def matrix(
        self,
        decisions: np.ndarray,
        y: np.ndarray,
        groups: np.ndarray | None = None,
        times: np.ndarray | None = None,
    ) -> sw.ConfusionMatrix:
        """The weighted confusion matrix of 0/1 decisions; of labels, all of theirs."""
        return sw.confusion_matrix(decisions.astype(np.float64), y, 0.5, self.weight, groups=groups, times=times)

    def value(self, matrix: sw.ConfusionMatrix, rows: int) -> float:
        """The score, greater is better, of labels their mean; a cost is one per row, for sets of any size."""
        value = float(self.score(matrix).mean())
        return value / rows if self.name == "cost" else value

    def __repr__(self) -> str:
        return self.name


_VALUE = sw.weights.Value(sw.weights.PUBLISHED)
TABLE = tuple(Goal(name, sw.scores.get(name)) for name in ("tss", "hss", "f1", "csi"))
TABLE += (Goal("cost", sw.scores.cost(fp=1, fn=5)),)
SERIES = tuple(Goal(f"w{name}", sw.scores.get(name), _VALUE) for name in ("tss", "hss", "csi"))


def names() -> list[str]:
    """All scores."""
    return [goal.name for goal in (*TABLE, *SERIES)]


def of(kind: Kind) -> tuple[Goal, ...]:
    """The scores of sets of a kind: those of series are value-weighted."""
    return SERIES if kind == "series" else TABLE
