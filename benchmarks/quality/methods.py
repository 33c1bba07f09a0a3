"""What is compared: each method fits on some rows, chooses on others, and then decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

import scorewise as sw
from benchmarks.quality import losses
from benchmarks.quality.deciding import Decider, Threshold, Tuned, best, chosen, cost_search, half, together
from benchmarks.quality.goals import Goal
from benchmarks.quality.networks import FocalClassifier, Loss, fitted, moments, raced
from benchmarks.quality.rows import Rows

Fit = Callable[[Rows, Rows, Sequence[Goal], int], list[Decider]]
"""From rows to fit on, rows to choose by, scores, and a seed: a decider for each score."""


@dataclass(frozen=True)
class Method:
    """A way to a decider.

    Attributes:
        name: What results are filed under.
        fit: Fits, for several scores at once.
        shared: Whether one fit serves all scores. If not, each score has a fit of its own.
        costs: Whether it is for costs alone.
    """

    name: str
    fit: Fit
    shared: bool = True
    costs: bool = False

    def key(self, goal: Goal) -> str:
        """Scores with the same key are given to one fit."""
        return "" if self.shared else goal.name

    def serves(self, goal: Goal) -> bool:
        """Whether it can be fitted for a score."""
        return not self.costs or goal.name == "cost"


# ------------------------------------------------------------------------------------------------ scikit-learn

Make = Callable[[Rows, Rows, int], Any]
"""From rows to fit on and validation rows, of one label, and a seed: a classifier that is fitted."""
Tune = Callable[[Any, Rows, Goal], float]
"""From a classifier that is fitted, and validation rows of one label: a threshold."""


def _classifier(
    train: Rows, validation: Rows, goals: Sequence[Goal], seed: int, *, make: Make, tune: Tune
) -> list[Decider]:
    """A scikit-learn classifier, one for each label, and for each score its thresholds."""
    columns = [Rows(validation.X, y, validation.groups, validation.times) for y in _columns(validation.y)]
    models = [make(Rows(train.X, y), rows, seed) for y, rows in zip(_columns(train.y), columns, strict=True)]

    def probability(X: pd.DataFrame) -> np.ndarray:
        return np.stack([model.predict_proba(X)[:, 1] for model in models], axis=1).reshape(len(X), *train.y.shape[1:])

    deciders: list[Decider] = []
    for goal in goals:
        thresholds = [tune(model, rows, goal) for model, rows in zip(models, columns, strict=True)]
        deciders.append(Tuned(probability, thresholds[0] if train.y.ndim == 1 else np.array(thresholds)))
    return deciders


def _columns(y: np.ndarray) -> list[np.ndarray]:
    return [y] if y.ndim == 1 else list(y.T)


def _exactly(model: Any, validation: Rows, goal: Goal) -> float:
    return float(best(model.predict_proba(validation.X)[:, 1], validation, goal)[0])


def _by_scikit_learn(model: Any, validation: Rows, goal: Goal) -> float:
    """One of a hundred thresholds, by scikit-learn's own search."""

    def score(y: np.ndarray, decisions: np.ndarray) -> float:
        return goal.value(goal.matrix(decisions, y, **validation.context), len(y))

    search = TunedThresholdClassifierCV(FrozenEstimator(model), scoring=make_scorer(score), cv="prefit", refit=False)
    # it decides by "at least", and everything here by "greater"
    return float(np.nextafter(search.fit(validation.X, validation.y).best_threshold_, -np.inf))


def _trees(
    train: Rows, validation: Rows, seed: int, balance: Literal["balanced"] | None = None
) -> HistGradientBoostingClassifier:
    """As many trees as the validation rows ask for, which weigh what the others do; a hundred at most."""
    trees = HistGradientBoostingClassifier(class_weight=balance, early_stopping=True, random_state=seed)
    amounts = compute_sample_weight(balance, validation.y)
    return trees.fit(train.X, train.y, X_val=validation.X, y_val=validation.y, sample_weight_val=amounts)


_balanced_trees = partial(_trees, balance="balanced")


def _logistic(train: Rows, _: Rows, seed: int) -> Pipeline:
    linear = LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed)
    return make_pipeline(_numbers(), linear).fit(train.X, train.y)


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


# ----------------------------------------------------------------------------------------------------- Empulse

_COSTS = {"fp_cost": 1.0, "fn_cost": 5.0}  # as of the goal


def _cost_logistic(train: Rows, *_: Any) -> Pipeline:  # there is nothing random in it
    from empulse.models import CSLogitClassifier  # for this and the next alone it must be installed

    return make_pipeline(_numbers(), CSLogitClassifier(**_COSTS)).fit(train.X, train.y)


def _cost_trees(train: Rows, _: Rows, seed: int) -> Pipeline:
    from empulse.models import CSBoostClassifier  # as above
    from lightgbm import LGBMClassifier  # as above

    trees = LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)
    return make_pipeline(_numbers(), CSBoostClassifier(trees, **_COSTS)).fit(train.X, train.y)


# ---------------------------------------------------------------------------------------------------- networks


def _network(
    train: Rows, validation: Rows, goals: Sequence[Goal], seed: int, *, decide: Any = chosen, **trained: Any
) -> list[Decider]:
    """A network of one training, which serves all scores; for each score its best moment, or moments."""
    found, seconds = moments(train, validation, seed, **trained)
    return list(decide(found, validation, goals, seconds))


def _network_for(
    train: Rows, validation: Rows, goals: Sequence[Goal], seed: int, *, weighted: bool = True, **params: Any
) -> list[Decider]:
    """For each score a network that was trained for it, with the threshold at 0.5."""
    deciders: list[Decider] = []
    for goal in goals:
        aim = {"score": goal.score, "weight": goal.weight if weighted else None}
        found, seconds = moments(train, validation, seed, name=f"{goal.name} {params}", share=1.0, **aim, **params)
        deciders += _at_half(found, validation, [goal], seconds)
    return deciders


_at_half = partial(chosen, choose=half)


def _by(loss: Loss, decide: Any = chosen) -> Fit:
    return partial(_network, name=loss.__name__, loss=loss, decide=decide)


# -------------------------------------------------------------------------------------------------- scorewise


@dataclass(frozen=True, eq=False)
class _Classifier:
    model: Any
    threshold: Threshold | None
    before: float = 0.0

    def decide(self, X: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict(X)).astype(np.int64)


def _score_classifier(
    params: dict[str, object], train: Rows, validation: Rows, goals: Sequence[Goal], seed: int, *, kind: Any = None
) -> list[Decider]:
    """One ScoreClassifier for each score, which chooses on the validation rows."""
    deciders: list[Decider] = []
    for goal in goals:
        model = (kind or sw.ScoreClassifier)(score=goal.score, weight=goal.weight, random_state=seed, **params)
        fitted(model, train, validation)
        deciders.append(_Classifier(model, getattr(model, "threshold_", None)))
    return deciders


def _settled(
    params: dict[str, object], train: Rows, validation: Rows, goals: Sequence[Goal], seed: int
) -> list[Decider]:
    """ScoreClassifier with its defaults, but for what is made of its race; one race for all of these."""
    deciders: list[Decider] = []
    for goal in goals:
        model, seconds = raced(train, validation, goal, seed)
        twin = model.settled(**params)
        deciders.append(_Classifier(twin, twin.threshold_, seconds))
    return deciders


def variant(name: str, kind: Any = None, **params: object) -> Method:
    """ScoreClassifier with some parameters changed.

    Args:
        name: What results are filed under.
        kind: The class; None: ScoreClassifier itself.
        **params: Its parameters.
    """
    return Method(name, partial(_score_classifier, params, kind=kind), shared=False)


_COSINE = sw.priors.RaisedCosine(0.5, 0.1)
_STEEP = sw.priors.Logistic(0.5, 1 / 73)  # AnyLoss amplifies probabilities by a sigmoid of this steepness

_ENTROPY = "cross entropy"

METHODS = {
    method.name: method
    for method in (
        variant("scorewise"),
        Method("bce_at_half", partial(_network, name=_ENTROPY, decide=_at_half)),
        Method("bce_tuned", partial(_network, name=_ENTROPY)),
        Method("bce_ensemble", partial(_network, name=_ENTROPY, decide=together)),
        Method("plug_in", partial(_network, name=_ENTROPY, decide=partial(chosen, choose=cost_search))),
        Method("wbce_tuned", partial(_network, name="balanced", balance=1.0)),
        Method("focal_tuned", _by(losses.focal)),
        Method("focal_ensemble", _by(losses.focal, together)),
        Method("dice_tuned", _by(losses.dice)),
        Method("aucm_tuned", _by(losses.aucm)),
        Method("anyloss", partial(_network_for, prior=_STEEP, weighted=False), shared=False),
        Method("sol_uniform", partial(_network_for), shared=False),
        Method("sol_cosine", partial(_network_for, prior=_COSINE), shared=False),
        Method("hgb_tuned", partial(_classifier, make=_trees, tune=_by_scikit_learn)),
        Method("hgb_balanced_tuned", partial(_classifier, make=_balanced_trees, tune=_by_scikit_learn)),
        Method("logistic_balanced_tuned", partial(_classifier, make=_logistic, tune=_exactly)),
        Method("empulse_logistic", partial(_classifier, make=_cost_logistic, tune=_exactly), costs=True),
        Method("empulse_boosting", partial(_classifier, make=_cost_trees, tune=_exactly), costs=True),
    )
}
MAIN = tuple(METHODS)
"""What is compared on all sets; the rest are ingredients of scorewise, one at a time."""

_MADE_OF_ONE_RACE: dict[str, dict[str, Any]] = {
    "defaults": {},
    "best_moment": {"ensemble": None},
    "mean_of_moments": {"ensemble": "mean"},
    "vote_of_moments": {"ensemble": "vote"},
    "best_threshold": {"tune": "best"},
    "plug_in_threshold": {"tune": "plug_in"},
    "best_moment_and_threshold": {"ensemble": None, "tune": "best"},
}
_TRAINED_OTHERWISE: dict[str, dict[str, Any]] = {
    "no_score": {"share": 0.0},
    "score_alone": {"share": 1.0},
    "score_alone_from_the_start": {"share": 1.0, "warm_up": 0.0},
    "race_of_shares": {"share": (0.0, 0.5, 0.9)},
    "no_warm_up": {"warm_up": 0.0},
    "balanced": {"balance": 1.0},
    "narrow": {"prior": _COSINE},
    "narrow_and_moved": {"prior": _COSINE, "shift": True},
    "annealed": {"prior": (sw.priors.RaisedCosine(0.5, 0.5), _COSINE)},
    "exact": {"exact": True},
    "average_of_weights": {"weight_average": 0.99},
    "focal_for_entropy": {"kind": FocalClassifier},
}
INGREDIENTS = (*_MADE_OF_ONE_RACE, *_TRAINED_OTHERWISE)
"""The defaults, made with the rest on one machine, and with one thing changed at a time."""
METHODS |= {name: Method(name, partial(_settled, params), shared=False) for name, params in _MADE_OF_ONE_RACE.items()}
METHODS |= {name: variant(name, **params) for name, params in _TRAINED_OTHERWISE.items()}
