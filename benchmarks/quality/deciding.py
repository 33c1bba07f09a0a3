"""From probabilities to decisions: thresholds, and how they are chosen on validation rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch

import scorewise as sw
from benchmarks.quality.goals import Goal
from benchmarks.quality.networks import Moment
from benchmarks.quality.rows import Rows
from scorewise.estimator.predictor import greedy, standing
from scorewise.estimator.problems import Labels
from scorewise.estimator.samples import Samples

Threshold = Any
"""A number, or of labels an array with one for each."""


class Decider(Protocol):
    """What a method makes for one score."""

    @property
    def threshold(self) -> Threshold | None:
        """Above which probability there is an alarm; None if it does not tell."""

    @property
    def before(self) -> float:
        """Seconds of a training that it shares with others, and that was done for one of these."""

    def decide(self, X: pd.DataFrame) -> np.ndarray:
        """An alarm or none for each row, and each label: 1 or 0."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """Alarms where a probability is above a threshold."""

    probability: Callable[[pd.DataFrame], np.ndarray]
    threshold: Threshold
    before: float = 0.0

    def decide(self, X: pd.DataFrame) -> np.ndarray:
        """An alarm or none for each row."""
        return (self.probability(X) > self.threshold).astype(np.int64)


Choice = Callable[[np.ndarray, Rows, Goal], tuple[Threshold, float]]
"""From probabilities of validation rows: a threshold, and how good it is there."""


def best(probabilities: np.ndarray, validation: Rows, goal: Goal) -> tuple[Threshold, float]:
    """The exactly best threshold on the validation rows, and the score there."""
    curves: Any = sw.score_curve(probabilities, validation.y, goal.score, goal.weight, **validation.context)
    if isinstance(curves, list):
        thresholds, values = zip(*(curve.best() for curve in curves), strict=True)
        return np.array(thresholds), float(np.mean(values))
    return curves.best()


def half(probabilities: np.ndarray, validation: Rows, goal: Goal) -> tuple[Threshold, float]:
    """The threshold 0.5, whatever the rows."""
    matrix = goal.matrix(probabilities > 0.5, validation.y, **validation.context)
    return 0.5, goal.value(matrix, len(validation.y))


def cost_search(probabilities: np.ndarray, validation: Rows, goal: Goal) -> tuple[Threshold, float]:
    """The threshold that probabilities themselves ask for, of costs that are found by turns.

    Around a confusion matrix a score is linear, a sum of costs, and for costs the best threshold is known. The matrix
    there gives other costs, and so on; the best threshold on the way is taken. (H. Narasimhan, H. Ramaswamy, A. Saha,
    S. Agarwal: Consistent multiclass algorithms for complex performance measures. ICML 2015.)
    """
    if probabilities.ndim == 2:
        found = [
            cost_search(column, Rows(validation.X, y), goal)
            for column, y in zip(probabilities.T, validation.y.T, strict=True)
        ]
        thresholds, values = zip(*found, strict=True)
        return np.array(thresholds), float(np.mean(values))
    threshold = float(validation.y.mean())
    tried: dict[float, float] = {}
    for _ in range(_TURNS):
        matrix = goal.matrix(probabilities > threshold, validation.y, **validation.context)
        tried[threshold] = float(goal.score(matrix))
        cells = [cell.clone().double().requires_grad_() for cell in (matrix.tn, matrix.fp, matrix.fn, matrix.tp)]
        tn, fp, fn, tp = torch.autograd.grad(goal.score(sw.ConfusionMatrix(*cells)), cells, materialize_grads=True)
        quiet, alarm = float(tn - fp), float(tp - fn)  # what the right decision gains where there is no event, or one
        if not quiet + alarm > 0 or (threshold := quiet / (quiet + alarm)) in tried:
            break
    threshold = max(tried, key=lambda one: tried[one])
    return threshold, tried[threshold]


_TURNS = 30


def chosen(
    moments: Sequence[Moment], validation: Rows, goals: Sequence[Goal], before: float, *, choose: Choice = best
) -> list[Decider]:
    """For each score the moment that does best on the validation rows, with its threshold there.

    Of several that do as well, which small tables have, it is the one with the least log loss, as in ScoreClassifier.
    """
    doubts = [_log_loss(moment.validation, validation.y) for moment in moments]
    deciders: list[Decider] = []
    for goal in goals:
        found = [choose(moment.validation, validation, goal) for moment in moments]
        k = max(range(len(found)), key=lambda k: (round(found[k][1], 12), -doubts[k]))
        deciders.append(Tuned(moments[k].probability, found[k][0], before))
    return deciders


def together(moments: Sequence[Moment], validation: Rows, goals: Sequence[Goal], before: float) -> list[Decider]:
    """For each score what ScoreClassifier would make of these moments: some of them, and a threshold in between."""
    deciders: list[Decider] = []
    several = validation.y.ndim == 2
    said = {k: torch.from_numpy(moment.validation).double() for k, moment in enumerate(moments)}
    context = {name: torch.from_numpy(values) for name, values in validation.context.items()}
    rows = Samples((), torch.from_numpy(validation.y).double(), context)
    for goal in goals:
        outputs = validation.y.shape[1] if several else 1
        labels = Labels(outputs, several, goal.score, goal.weight, "macro", at_least=None)
        place = partial(standing, labels, kept=rows)
        counts = greedy(said, max(said, key=lambda k: place(said[k])), place)
        mean = torch.stack([said[k] * count for k, count in counts.items()]).sum(0) / counts.total()
        highest = labels.choose(mean, rows.targets, rows.context)
        threshold = labels.tuned(highest, mean, rows.targets, rows.context, "between").numpy()
        probability = _Mean([(moments[k], count) for k, count in counts.items()])
        deciders.append(Tuned(probability, threshold if several else threshold.item(), before))
    return deciders


@dataclass(frozen=True, eq=False)
class _Mean:
    """What several moments say, each so many times."""

    parts: Sequence[tuple[Moment, int]]

    def __call__(self, X: pd.DataFrame) -> np.ndarray:
        total = sum(count * moment.probability(X) for moment, count in self.parts)
        return np.asarray(total / sum(count for _, count in self.parts))


def _log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    happened = np.where(y == 1, probabilities, 1 - probabilities)
    return -float(np.log(happened.clip(min=np.finfo(np.float64).eps)).mean())
