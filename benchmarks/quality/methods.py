"""What is compared: each method fits on some rows, chooses on others, and then decides."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks.quality.data import Task
from benchmarks.quality.goals import Goal


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a set."""

    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray | None
    times: np.ndarray | None

    @classmethod
    def of(cls, task: Task, rows: np.ndarray) -> Rows:
        """The rows of a set with these numbers."""
        groups, times = (None if a is None else a[rows] for a in (task.groups, task.times))
        return cls(task.X.iloc[rows].reset_index(drop=True), task.y[rows], groups, times)


class Decider(Protocol):
    """What a method makes for one score."""

    @property
    def threshold(self) -> float | None:
        """Above which probability there is an alarm; None if it does not tell."""

    def decide(self, X: pd.DataFrame, groups: np.ndarray | None, times: np.ndarray | None) -> np.ndarray:
        """An alarm or none for each row: 1 or 0."""


Fit = Callable[[Rows, Rows, Sequence[Goal], int], list[Decider]]
"""From rows to fit on, rows to choose by, scores, and a seed: a decider for each score."""


@dataclass(frozen=True)
class Method:
    """A way to a decider.

    Attributes:
        name: What results are filed under.
        fit: Fits, for several scores at once.
        shared: Whether one fit serves all scores. If not, each score has a fit of its own.
    """

    name: str
    fit: Fit
    shared: bool = True

    def key(self, goal: Goal) -> str:
        """Scores with the same key are given to one fit."""
        return "" if self.shared else goal.name


# ------------------------------------------------------------------------------------------------- thresholds


@dataclass(frozen=True, eq=False)
class Tuned:
    """Alarms where a probability is above a threshold."""

    probability: Callable[[pd.DataFrame], np.ndarray]
    threshold: float | None

    def decide(self, X: pd.DataFrame, groups: np.ndarray | None, times: np.ndarray | None) -> np.ndarray:
        """An alarm or none for each row."""
        return (self.probability(X) > self.threshold).astype(np.int64)


def best(probabilities: np.ndarray, validation: Rows, goal: Goal) -> tuple[float, float]:
    """The exactly best threshold on the validation rows, and the score there."""
    curve = sw.score_curve(
        probabilities, validation.y, goal.score, goal.weight, groups=validation.groups, times=validation.times
    )
    return curve.best()


def _classifier(
    make: Callable[[int], Any], train: Rows, validation: Rows, goals: Sequence[Goal], seed: int
) -> list[Decider]:
    """A scikit-learn classifier, and for each score its best threshold."""
    model = make(seed).fit(train.X, train.y)

    def probability(X: pd.DataFrame) -> np.ndarray:
        return model.predict_proba(X)[:, 1]

    predictions = probability(validation.X)
    return [Tuned(probability, best(predictions, validation, goal)[0]) for goal in goals]


def _trees(seed: int, class_weight: str | None = None) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(class_weight=class_weight, random_state=seed)


def _logistic(seed: int) -> Pipeline:
    return make_pipeline(_numbers(), LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed))


def _numbers() -> Pipeline:
    """Missing numbers become the median, with a column that says so; categories become columns; all standardised."""
    return make_pipeline(
        make_column_transformer(
            (SimpleImputer(strategy="median", add_indicator=True), make_column_selector(dtype_exclude="category")),
            # a category that is missing is one more category
            (
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                make_column_selector(dtype_include="category"),
            ),
        ),
        StandardScaler(),
    )


# --------------------------------------------------------------------------------------------------- networks

_EPOCHS, _PATIENCE = 100, 15


def _network(
    train: Rows, validation: Rows, goals: Sequence[Goal], seed: int, *, balanced: bool = False
) -> list[Decider]:
    """Two layers of 128 by cross entropy; for each score the epoch that did best on the validation rows.

    One training serves all scores: each stops to look when it has not improved for some epochs, and the training ends
    with the last of them. What a score gets does not depend on which others there are.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _trained(train, validation, goals, balanced=balanced)


def _trained(train: Rows, validation: Rows, goals: Sequence[Goal], *, balanced: bool) -> list[Decider]:
    inputs = _numbers().fit(train.X)
    x, y = _tensor(inputs, train.X), torch.from_numpy(train.y).float()
    network = nn.Sequential(
        nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1), nn.Flatten(0)
    )
    pos_weight = (1 - y).sum() / y.sum() if balanced else None
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    batch = min(256, max(32, len(y) // 50))  # small sets need steps, large ones speed
    chosen = _tensor(inputs, validation.X)
    kept: dict[str, tuple[float, float, nn.Module, int]] = {}
    for epoch in range(_EPOCHS):
        looking = [goal for goal in goals if goal.name not in kept or epoch - kept[goal.name][3] <= _PATIENCE]
        if not looking:
            break
        for rows in torch.randperm(len(y)).split(batch):
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(network(x[rows]), y[rows], pos_weight=pos_weight).backward()
            optimizer.step()
        predictions = _probability(network, chosen)
        snapshot = copy.deepcopy(network)
        for goal in looking:
            threshold, value = best(predictions, validation, goal)
            if goal.name not in kept or value > kept[goal.name][0]:
                kept[goal.name] = value, threshold, snapshot, epoch

    def decider(goal: Goal) -> Tuned:
        _, threshold, network, _ = kept[goal.name]
        return Tuned(lambda X: _probability(network, _tensor(inputs, X)), threshold)

    return [decider(goal) for goal in goals]


def _tensor(inputs: Pipeline, X: pd.DataFrame) -> torch.Tensor:
    return torch.from_numpy(inputs.transform(X)).float()


def _probability(network: nn.Module, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        # float64: float32 has few numbers close to 1
        return network(x).double().sigmoid().numpy()


# -------------------------------------------------------------------------------------------------- scorewise


@dataclass(frozen=True, eq=False)
class _Classifier:
    model: Any
    threshold: float | None

    def decide(self, X: pd.DataFrame, groups: np.ndarray | None, times: np.ndarray | None) -> np.ndarray:
        return np.asarray(self.model.predict(X)).astype(np.int64)


def _score_classifier(
    params: dict[str, object], train: Rows, validation: Rows, goals: Sequence[Goal], seed: int
) -> list[Decider]:
    """One ScoreClassifier for each score, which chooses on the validation rows."""
    X = pd.concat([train.X, validation.X], ignore_index=True)
    y = np.concatenate([train.y, validation.y])
    context = {
        name: np.concatenate([getattr(train, name), getattr(validation, name)])
        for name in ("groups", "times")
        if getattr(train, name) is not None
    }
    mask = np.arange(len(y)) >= len(train.y)
    deciders: list[Decider] = []
    for goal in goals:
        model = sw.ScoreClassifier(score=goal.score, weight=goal.weight, random_state=seed, **params)
        model.fit(X, y, validation=mask, **context)
        deciders.append(_Classifier(model, getattr(model, "threshold_", None)))
    return deciders


def variant(name: str, **params: object) -> Method:
    """ScoreClassifier with some parameters changed.

    Args:
        name: What results are filed under.
        **params: Parameters of ScoreClassifier.
    """
    return Method(name, partial(_score_classifier, params), shared=False)


METHODS = {
    method.name: method
    for method in (
        Method("hgb_tuned", partial(_classifier, _trees)),
        Method("hgb_balanced_tuned", partial(_classifier, partial(_trees, class_weight="balanced"))),
        Method("logistic_balanced_tuned", partial(_classifier, _logistic)),
        Method("mlp_bce_tuned", _network),
        Method("mlp_wbce_tuned", partial(_network, balanced=True)),
        variant("scorewise"),
        # its ingredients, one at a time
        variant("share_0", share=0.0),
        variant("share_half", share=0.5),
        variant("share_1", share=1.0),
        variant("share_of_three", share=(0.0, 0.5, 0.9)),
        variant("half_balanced", share=0.5, balance=1.0),
        variant("half_warm", share=0.5, warm_up=0.5),
        variant("half_warm_shift", share=0.5, warm_up=0.5, shift=True, prior=sw.priors.RaisedCosine(0.5, 0.1)),
        variant("half_narrow", share=0.5, prior=sw.priors.RaisedCosine(0.5, 0.1)),
        variant("half_annealed", share=0.5, prior=(sw.priors.RaisedCosine(0.5, 0.5), sw.priors.RaisedCosine(0.5, 0.1))),
        variant("half_exact", share=0.5, exact=True),
        variant("half_large_batch", share=0.5, batch_size=2048),
        variant("half_mean", share=0.5, ensemble="mean"),
        variant("half_vote", share=0.5, ensemble="vote"),
        variant("half_average", share=0.5, weight_average=0.99),
        variant("half_long", share=0.5, steps=1200),
    )
}
BASELINES = ("hgb_tuned", "hgb_balanced_tuned", "logistic_balanced_tuned", "mlp_bce_tuned", "mlp_wbce_tuned")
MAIN = (*BASELINES, "scorewise")
"""What a run fits unless it is told otherwise; the rest are ingredients of scorewise, one at a time."""
