"""What scikit-learn does, on the same data."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import (
    cohen_kappa_score,
    confusion_matrix_at_thresholds,
    make_scorer,
    metric_at_thresholds,
)
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier

import scorewise as sw
from benchmarks import curves
from benchmarks.timing import Rows, Times, rows, take_turns


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are its input."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Given:
        """Only learn which classes there are."""
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The input."""
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """At 0.5."""
        return (X[:, 0] > 0.5).astype(int)


def all_matrices(p: torch.Tensor, y: torch.Tensor) -> float:
    """The best HSS of all matrices, as quick as scikit-learn and NumPy can."""
    tn, fp, fn, tp, _ = confusion_matrix_at_thresholds(y.numpy(), p.numpy())
    return float(np.max(2 * (tp * tn - fp * fn) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn))))


def every_threshold(p: torch.Tensor, y: torch.Tensor) -> float:
    """The best HSS by calling the metric, Cohen's kappa, at each threshold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a matrix with one row, at the end
        return float(np.nanmax(metric_at_thresholds(y.numpy(), p.numpy(), cohen_kappa_score)[0]))


def hundred_thresholds(p: torch.Tensor, y: torch.Tensor) -> float:
    """The best HSS of a grid, as scikit-learn tunes it."""
    X, labels = p.numpy()[:, None], y.int().numpy()
    scoring = make_scorer(cohen_kappa_score)
    tuned = TunedThresholdClassifierCV(Given().fit(X, labels), scoring=scoring, cv="prefit", refit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        return float(tuned.fit(X, labels).best_score_)


def thresholds(small: int, large: int, seconds: float) -> Rows:
    """Times, and the HSS that is reached on the same predictions, of us and of scikit-learn, pair by pair."""
    kept: Rows = []
    cases: list[tuple[int, str, Callable[[torch.Tensor, torch.Tensor], float]]] = [
        (small, "metric_at_thresholds", every_threshold),
        (large, "TunedThresholdClassifierCV, 100 thresholds", hundred_thresholds),
        (large, "confusion_matrix_at_thresholds, HSS in NumPy", all_matrices),
    ]
    for n, name, theirs in cases:
        p, y = curves.batch(n, "cpu")
        p = p.double()  # which scikit-learn turns it into anyway

        def ours(p: torch.Tensor = p, y: torch.Tensor = y) -> float:
            return sw.score_curve(p, y, "hss").best()[1]

        calls = {"scorewise": ours, name: lambda p=p, y=y, theirs=theirs: theirs(p, y)}
        kept += [row | {"hss": calls[row["what"]]()} for row in rows(n, take_turns(calls, seconds, "cpu"))]
    return kept


def fits(n: int, columns: int, times: int, **params: Any) -> Rows:
    """Seconds to fit classifiers to a table, in shuffled turns; the first includes no imports.

    Args:
        n: How many rows.
        columns: How many columns.
        times: How often each is fitted.
        **params: Of ScoreClassifier, which has its defaults otherwise.
    """
    X, y = make_classification(n, columns, weights=[0.9], random_state=0)
    trees = HistGradientBoostingClassifier(random_state=0)
    models = {
        "ScoreClassifier": sw.ScoreClassifier("tss", random_state=0, progress=False, **params),
        "MLPClassifier": MLPClassifier((128, 128), early_stopping=True, random_state=0),
        "trees, ScoreThresholdClassifier": sw.ScoreThresholdClassifier(trees, "balanced_accuracy", random_state=0),
        "trees, TunedThresholdClassifierCV": TunedThresholdClassifierCV(trees, random_state=0),
    }
    clone(models["ScoreClassifier"]).set_params(steps=2).fit(X[:200], y[:200])
    seconds: dict[str, list[float]] = {name: [] for name in models}
    order = list(models.items())
    shuffle = random.Random(0).shuffle  # noqa: S311  # no secret
    for _ in range(times):
        shuffle(order)
        for name, model in order:
            begun = time.perf_counter()
            clone(model).fit(X, y)
            seconds[name].append(time.perf_counter() - begun)
    found = rows(n, {name: Times.of(taken) for name, taken in seconds.items()})
    return [row | {"columns": columns} for row in found]
