"""Any classifier with the exactly best threshold, found on predictions for rows that it was not fitted on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, assert_all_finite, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split, available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, check_random_state, column_or_1d, has_fit_parameter

from scorewise import scores
from scorewise._values import as_tensor, is_whole
from scorewise.confusion import confusion_matrix, decide
from scorewise.curves import score_curve
from scorewise.curves.choice import AtLeast, constraints
from scorewise.curves.sweep import check_weight
from scorewise.estimator.parameter import ParameterAndMethod, ScoreParameter
from scorewise.estimator.splits import Split, folds
from scorewise.weights import Weight
from scorewise.weights.base import as_weight

Array = NDArray[Any]

_ROUNDING = 1e-6  # how far beyond [0, 1] a probability may lie that was rounded, in float32


def _inner_has(name: str) -> Callable[[ScoreThresholdClassifier], bool]:
    def check(self: ScoreThresholdClassifier) -> bool:
        getattr(self.estimator, name)  # its own AttributeError says why not
        return True

    return check


# scikit-learn has no types, and so its classes and decorators are anything.
class ScoreThresholdClassifier(ScoreParameter, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # as above
    """A classifier of two classes, whose threshold is the best for a score.

    The estimator is fitted on all folds but one and predicts that one. Over all these predictions together, in their
    series, every threshold is tried: the score is that of one matrix, not the mean of several. Then the estimator is
    fitted on all rows. An estimator in a `sklearn.frozen.FrozenEstimator` is fitted already: it predicts all rows at
    once, which should be others than it was fitted on.

    Folds keep together what belongs together. With ``times``, or a weight that looks around in time, they are stretches
    of time, and rows within the weight's window plus ``horizon`` of a fold's are not fitted on; without times several
    groups stay whole. With ``groups`` only, they are whole groups. Else every fold has some of both classes. Where
    there are too few rows of a class, groups or moments, there are fewer folds.

    What is greater than ``threshold_`` is positive: the probability of the positive class, or, of estimators without
    ``predict_proba``, the decision function.

    Args:
        estimator: A classifier with ``predict_proba`` or ``decision_function``; see `sklearn.frozen.FrozenEstimator`
            for one that is fitted already.
        score: A name (see `scorewise.scores.names`) or a `Score`.
        weight: What an error costs, an object of `scorewise.weights` that sees the threshold through alarms only.
        at_least: What other scores must reach, as {"precision": 0.9}.
        cv: How many folds, made as told above; or a scikit-learn splitter, or a list of (train, test), that tests each
            row once at most. Rows that are never tested do not count, but their labels are seen by those that do. A
            frozen estimator needs no folds: for it a number has no effect.
        horizon: How many units of time ahead labels look: rows as near to a fold are not fitted on. It tells that rows
            are series, in order. A splitter of your own has to see to that itself.
        pos_label: The positive class; None: the greater of the two.
        n_jobs: How many folds to fit at a time.
        random_state: Of the folds, where they are drawn.

    Attributes:
        estimator_: The estimator, fitted on all rows.
        threshold_: The threshold, of probabilities or of decisions. Of decisions, -inf where it is best to call
            everything positive, and inf where it is best to call nothing so.
        best_score_: The score there, of the predictions for rows that were not fitted on; negated if less is better.
        curve_: The score at every threshold, a `ScoreCurve`, which keeps all these predictions; of decisions, on a
            scale on which 0 is the least and 1 the greatest of them.
        classes_: The two classes.
        n_features_in_: How many columns were seen, if the estimator tells.
        feature_names_in_: Their names, if the estimator tells.

    Example:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(n_samples=500, weights=[0.9], random_state=0)
        >>> model = ScoreThresholdClassifier(LogisticRegression(), "tss", random_state=0).fit(X, y)
        >>> round(model.threshold_, 3), round(model.best_score_, 3)
        (0.157, 0.678)
        >>> round(model.score(X, y), 3)
        0.722
    """

    def __init__(
        self,
        estimator: Any,
        score: str | scores.Score = "tss",
        *,
        weight: Weight | None = None,
        at_least: AtLeast | None = None,
        cv: Any = 5,
        horizon: int = 0,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.score = score
        self.weight = weight
        self.at_least = at_least
        self.cv = cv
        self.horizon = horizon
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        times: Any = None,
        costs: Any = None,
    ) -> Self:
        """Fit the estimator, and find the threshold.

        What the estimator's own ``fit`` takes of these by name is passed on to it; with metadata routing, what it
        requests.

        Args:
            X: The table, as the estimator takes it: it is passed on as it is.
            y: Two classes, (n,).
            sample_weight: How much each row counts, at least 0.
            groups: The series that each row belongs to, or whatever else must not be torn apart.
            times: When, in whole units of one lag, increasing within a group.
            costs: What an error of each row costs, (n, 2): as a false positive, and as a false negative.

        Raises:
            InfeasibleError: If no threshold has what ``at_least`` asks for.
            TypeError: If an argument is of the wrong kind.
            ValueError: If an argument does not fit, or there are no folds with both classes in all rows to fit on.
        """
        score, weight = self._score, as_weight(self.weight)
        check_weight(weight, score)
        constraints(self.at_least)
        if not hasattr(self.estimator, "predict_proba") and not hasattr(self.estimator, "decision_function"):
            name = type(self.estimator).__name__
            raise TypeError(f"estimator must have predict_proba or decision_function, saw {name}, which has neither.")
        if not is_whole(self.horizon) or self.horizon < 0:
            raise ValueError(f"horizon must be a whole number of at least 0, saw {self.horizon!r}.")
        X, y = indexable(X, y)
        y = self._read_classes(y)
        given = {"sample_weight": sample_weight, "groups": groups, "times": times, "costs": costs}
        context: dict[str, Any] = {name: np.asarray(value) for name, value in given.items() if value is not None}
        targets = torch.from_numpy(y == self._positive)
        score_curve(torch.full((len(y),), 0.5), targets, score, weight, **context)  # what is wrong is told at once

        fit_params, split_params = self._routed(context)
        splits = self._splits(X, y, weight, context, split_params)
        answers = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_and_respond)(clone(self.estimator), X, y, split, params=fit_params, positive=self._positive)
            for split in splits
        )
        response = np.full(len(y), np.nan, dtype=np.result_type(np.float16, *answers))
        tested = np.zeros(len(y), dtype=bool)
        for split, answer in zip(splits, answers, strict=True):
            response[split.test], tested[split.test] = answer, True
        of_decisions = not hasattr(self.estimator, "predict_proba")
        scaled = _onto_unit(response, tested) if of_decisions else _unrounded(response)
        if not tested.all():
            context["mask"] = tested
        self.curve_ = score_curve(as_tensor(scaled, "predictions"), targets, score, weight, **context)
        threshold, best = self.curve_.best(at_least=self.at_least)
        self.best_score_ = best if score.greater_is_better else -best
        self.threshold_ = _between(response, scaled, threshold) if of_decisions else threshold

        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> Array:
        """The class of each row: the positive one if the estimator's answer is greater than the threshold.

        Args:
            X: The table, as the estimator takes it.
        """
        alarms = self._alarms(X).numpy()
        positive = int(self.classes_[1] == self._positive)
        return self.classes_[np.where(alarms, positive, 1 - positive)]

    @available_if(_inner_has("predict_proba"))  # type: ignore[untyped-decorator]  # as above
    def predict_proba(self, X: Any) -> Array:
        """The estimator's probabilities of both classes, (n, 2).

        Args:
            X: The table, as the estimator takes it.
        """
        check_is_fitted(self)
        probabilities: Array = self.estimator_.predict_proba(X)
        return probabilities

    @available_if(_inner_has("predict_log_proba"))  # type: ignore[untyped-decorator]  # as above
    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms, (n, 2).

        Args:
            X: The table, as the estimator takes it.
        """
        check_is_fitted(self)
        logarithms: Array = self.estimator_.predict_log_proba(X)
        return logarithms

    @available_if(_inner_has("decision_function"))  # type: ignore[untyped-decorator]  # as above
    def decision_function(self, X: Any) -> Array:
        """The estimator's decision function, (n,): the greater, the more it is for the greater class.

        Args:
            X: The table, as the estimator takes it.
        """
        check_is_fitted(self)
        decisions: Array = self.estimator_.decision_function(X)
        return decisions

    @ParameterAndMethod
    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        times: Any = None,
        costs: Any = None,
    ) -> float:
        """The score of the predictions, weighted as in `fit`; negated if less is better.

        Args:
            X: The table, as the estimator takes it.
            y: The classes, (n,).
            sample_weight: How much each row counts.
            groups: The series that each row belongs to, if the weight looks around in time.
            times: When, in whole units of one lag.
            costs: What an error of each row costs, (n, 2).
        """
        alarms = self._alarms(X)
        y = column_or_1d(y)
        if not np.isin(y, self.classes_).all():
            raise ValueError(f"y must be of the classes {self.classes_.tolist()}, saw {np.unique(y).tolist()[:5]}.")
        matrix = confusion_matrix(
            *(alarms.double(), y == self._positive, 0.5, as_weight(self.weight)),
            groups=groups,
            times=times,
            sample_weight=sample_weight,
            costs=costs,
        )
        value = float(self._score(matrix))
        return value if self._score.greater_is_better else -value

    def get_metadata_routing(self) -> MetadataRouter:
        """What is passed on to the estimator and to the splitter, as scikit-learn asks for it."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        inner = get_tags(self.estimator).input_tags
        for name in ("sparse", "allow_nan", "pairwise"):
            setattr(tags.input_tags, name, getattr(inner, name))
        return tags

    @property
    def _score(self) -> scores.Score:
        return scores.get(vars(self)["score"])

    @property
    def _positive(self) -> Any:
        return self.classes_[1] if self.pos_label is None else self.pos_label

    def _read_classes(self, y: Any) -> Array:
        classes: Array = column_or_1d(y, warn=True)
        assert_all_finite(classes, input_name="y")
        kind = type_of_target(classes, input_name="y")
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. Unknown label type: {kind}.")
        self.classes_ = np.unique(classes)
        if len(self.classes_) < 2:
            seen = f"1 class, {self.classes_[0]}," if len(classes) else "none"
            raise ValueError(f"y must have two classes, saw {seen} in {len(classes)} rows.")
        if self._positive not in self.classes_:
            raise ValueError(f"pos_label must be one of {self.classes_.tolist()}, saw {self.pos_label!r}.")
        return classes

    def _alarms(self, X: Any) -> torch.Tensor:
        check_is_fitted(self)
        dtype = self.curve_.thresholds.dtype
        response = as_tensor(_respond(self.estimator_, X, self._positive), "predictions").to(dtype)
        return decide(response, torch.tensor(self.threshold_, dtype=dtype))

    def _routed(self, context: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """What the estimator's fit and the splitter get."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **context)
            return routed.estimator.fit, routed.splitter.split
        taken = {name: value for name, value in context.items() if has_fit_parameter(self.estimator, name)}
        if "sample_weight" in context.keys() - taken and not isinstance(self.estimator, FrozenEstimator):
            warnings.warn(
                f"{type(self.estimator).__name__}.fit takes no sample_weight by name: only the threshold depends on it."
                " With scikit-learn's metadata routing it reaches the steps of a pipeline.",
                stacklevel=3,
            )
        return taken, {name: value for name, value in context.items() if name == "groups"}

    def _splits(
        self, X: Any, y: Array, weight: Weight | None, context: Mapping[str, Array], split_params: Mapping[str, Array]
    ) -> list[Split]:
        rows = np.arange(len(y))
        if is_whole(self.cv):
            if isinstance(self.estimator, FrozenEstimator):
                return [Split(rows[:0], rows)]
            gap = self.horizon + (0 if weight is None else weight.reach)
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            groups, times = context.get("groups"), context.get("times")
            return folds(y, self.cv, ordered=gap > 0, groups=groups, times=times, gap=gap, seed=seed)
        if self.horizon:
            raise ValueError(f"horizon is for folds that are made here, with cv=5; saw cv={self.cv!r}.")
        splits = check_cv(self.cv, y, classifier=True).split(X, y, **split_params)
        own = [Split(rows[train], rows[test]) for train, test in splits]
        again = np.bincount(np.concatenate([split.test for split in own]), minlength=len(y)) > 1
        if again.any():
            raise ValueError(f"cv must test each row once at most, but tests {again.sum()} of {len(y)} rows again.")
        return own


def _fit_and_respond(
    model: Any, X: Any, y: Array, split: Split, *, params: Mapping[str, Array], positive: object
) -> Array:
    """What a model that is fitted on one part answers to the other."""
    if not len(split.train):
        return _respond(model, X, positive)
    X_train, y_train = _safe_split(model, X, y, split.train)
    model.fit(X_train, y_train, **{name: value[split.train] for name, value in params.items()})
    return _respond(model, _safe_split(model, X, None, split.test, split.train)[0], positive)


def _respond(model: Any, X: Any, positive: object) -> Array:
    """A model's probabilities of the positive class, or its decisions for it."""
    classes = np.asarray(model.classes_).tolist()
    if len(classes) != 2 or positive not in classes:
        raise ValueError(f"the estimator must know two classes, {positive} and another, but knows {classes}.")
    place = classes.index(positive)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X))[:, place]
    decisions = np.asarray(model.decision_function(X))
    return decisions if place == 1 else -decisions


def _unrounded(p: Array) -> Array:
    """Probabilities, without what rounding has added beyond 0 and 1; what is further beyond stays, to be refused."""
    clipped = p.clip(0, 1)
    return np.where(np.abs(p - clipped) <= _ROUNDING, clipped, p)


def _onto_unit(decisions: Array, tested: Array) -> Array:
    """Decisions on a scale from 0 to 1. Not by the logistic function, which makes all large ones equal."""
    known = decisions[tested].astype(np.float64)
    if not np.isfinite(known).all():
        bad = (~np.isfinite(known)).sum()
        raise ValueError(f"the estimator's decision_function must be finite, but {bad} of {len(known)} are not.")
    low, high = float(known.min()), float(known.max())
    return np.asarray((decisions.astype(np.float64) - low) / (high - low if high > low else 1.0))


def _between(decisions: Array, scaled: Array, threshold: float) -> float:
    """A threshold of decisions that parts them as one of scaled decisions does."""
    below, above = decisions[scaled <= threshold], decisions[scaled > threshold]
    if not len(below) or not len(above):
        return float("inf") if len(below) else -float("inf")
    low, high = float(below.max()), float(above.min())
    middle = low + (high - low) / 2
    return middle if middle < high else low
