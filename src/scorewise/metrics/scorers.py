"""Scorers for scikit-learn's cross validation and searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from torch import Tensor

from scorewise._averages import Average
from scorewise._labels import LabelScores
from scorewise._values import as_tensor
from scorewise.confusion import confusion_matrix
from scorewise.metrics.counts import class_counts
from scorewise.scores import Score
from scorewise.weights import Weight


def make_scorer(
    score: str | Score | Sequence[str | Score],
    *,
    weight: Weight | Sequence[Weight | None] | None = None,
    threshold: float | Sequence[float] | None = None,
    average: Average = "macro",
    pos_label: Any = None,
) -> Callable[..., float]:
    """A scorer for scikit-learn: ``cross_val_score(estimator, X, y, scoring=make_scorer("tss"))``.

    Greater is always better: scores of which less is better (error_rate) are negated.

    Scorers take ``sample_weight``, ``groups``, ``times`` and ``costs`` as `confusion_matrix` does, and rows may come in
    any order if there are times. scikit-learn passes them on by metadata routing, after
    ``sklearn.set_config(enable_metadata_routing=True)`` and ``scorer.set_score_request(groups=True, times=True)``.

    Args:
        score: A name (see `scorewise.scores.names`) or a `Score`; or a list of one for each label.
        weight: What an error costs: an object of `scorewise.weights`, or None; or a list of one for each label. Windows
            end where the rows of a fold end: split series into stretches of time, rather than row by row.
        threshold: None: the estimator decides, by its ``predict``, so that tuned thresholds count. A number, or a list
            of one for each label: its ``predict_proba`` is compared with that. Weights that look at predictions
            (CrossEntropy, Margin, Custom) want a threshold, as they see 0 and 1 otherwise.
        average: How the scores of labels become one, as for `ScoreLoss`; not None.
        pos_label: The positive class, where classes are not 0 and 1 or -1 and 1.

    Returns:
        A scorer of scikit-learn, ``scorer(estimator, X, y)``.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]
        >>> make_scorer("tss", pos_label="yes")(LogisticRegression().fit(X, y), X, y)
        1.0
    """
    if average is None:
        raise ValueError("average must make one number of the labels' scores for a scorer, saw None.")
    function = _Scored(LabelScores(score, average), weight, threshold)
    options = {} if pos_label is None else {"pos_label": pos_label}
    method = "predict" if threshold is None else "predict_proba"
    scorer: Callable[..., float] = metrics.make_scorer(function, response_method=method, **options)
    return scorer


@dataclass(frozen=True)
class _Scored:
    """What scikit-learn asks for: a function of labels and predictions. It reads the names of arguments."""

    scores: LabelScores
    weight: Weight | Sequence[Weight | None] | None
    threshold: float | Sequence[float] | None

    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        pos_label: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        times: Any = None,
        costs: Any = None,
    ) -> float:
        y = _events(y_true, pos_label)
        x = _events(y_pred, pos_label) if self.threshold is None else np.asarray(y_pred)
        rest = {"sample_weight": sample_weight, "groups": groups, "times": times, "costs": costs}
        columns: dict[str, Any] = {name: np.asarray(column) for name, column in rest.items() if column is not None}
        if times is not None:
            order = np.argsort(columns["times"], kind="stable")
            x, y, columns = x[order], y[order], {name: column[order] for name, column in columns.items()}
        preds, target = as_tensor(x, "predictions"), as_tensor(y, "y")
        threshold = as_tensor(0.5 if self.threshold is None else self.threshold, "threshold")
        matrix = confusion_matrix(preds, target, threshold, self.weight, **columns)
        weighted = self.scores.average == "weighted"
        counts = class_counts(target, sample_weight=columns.get("sample_weight")) if weighted else None
        value: Tensor = self.scores.goodness((matrix.tn, matrix.fp, matrix.fn, matrix.tp), counts)
        return float(value)

    @property
    def __name__(self) -> str:  # scikit-learn asks functions for it
        return repr(self)

    def __repr__(self) -> str:
        score = self.scores.score
        name = [one.name for one in score] if isinstance(score, tuple) else score.name
        weight = "" if self.weight is None else f", weight={self.weight}"
        return f"{name}{weight}" + ("" if self.threshold is None else f", threshold={self.threshold}")


def _events(y: Any, pos_label: Any) -> Any:
    """Classes as 0 and 1."""
    array = np.asarray(y)
    if pos_label is not None:
        return (array == pos_label).astype(np.float64)
    if array.dtype.kind not in "biuf" or not (np.isin(array, (0, 1)).all() or np.isin(array, (-1, 1)).all()):
        seen = np.unique(array)[:4].tolist()
        raise ValueError(
            f"classes must be 0 and 1, or -1 and 1, saw {seen}{'…' if len(np.unique(array)) > 4 else ''}. Pass "
            "pos_label for other classes; of more than two that is one against the rest."
        )
    return (array == 1).astype(np.float64)
