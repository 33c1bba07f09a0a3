"""What others do, on the same data."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import (
    cohen_kappa_score,
    confusion_matrix_at_thresholds,
    make_scorer,
    metric_at_thresholds,
)
from sklearn.model_selection import TunedThresholdClassifierCV

import scorewise as sw
from benchmarks import curves
from benchmarks.timing import take_turns


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


def thresholds(small: int, large: int, seconds: float) -> list[dict[str, object]]:
    """Milliseconds and the HSS that is reached on the same predictions, of us and of scikit-learn."""
    kept: list[dict[str, object]] = []
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
        medians = take_turns(calls, seconds, "cpu")
        kept += [
            {
                "n": n,
                "what": what,
                "milliseconds": round(m * 1e3, 2),
                "ratio": round(m / medians["scorewise"], 2),
                "hss": calls[what](),
            }
            for what, m in medians.items()
        ]
    return kept
