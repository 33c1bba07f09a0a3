"""The threshold of any classifier, against all thresholds tried in turn on scikit-learn's own predictions."""

import itertools
import math
import pickle
import re

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import scorewise as sw
from scorewise.curves.choice import InfeasibleError
from scorewise.estimator.splits import folds
from scorewise.estimator.threshold import ScoreThresholdClassifier
from tests.curve_oracles import scored
from tests.weight_oracles import Series, cost, largest, matrix_at, none, product, value

OMEGA = (0.8, 0.5)


class Given(ClassifierMixin, BaseEstimator):
    """Answers with the first column, whatever it was fitted on; tells a log which rows (second column) it has seen."""

    def __init__(self, log=None):
        self.log = log

    def __sklearn_clone__(self):
        return type(self)(self.log)  # the same log

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.fitted_on_ = X[:, 1].astype(int).tolist()
        return self

    def _answer(self, X):
        if self.log is not None:
            self.log.append((self.fitted_on_, X[:, 1].astype(int).tolist()))
        return X[:, 0]

    def predict_proba(self, X):
        p = self._answer(X)
        return np.stack([1 - p, p], 1)


class Decides(Given):
    predict_proba = property()  # it has none

    def decision_function(self, X):
        return self._answer(X)


def table(predictions, dtype=np.float64):
    return np.stack([predictions, np.arange(len(predictions))], 1).astype(dtype)


def candidates(predictions):
    """A threshold below all, one between each two that are neighbours, and one above all."""
    known = sorted({float(p) for p in predictions if p == p})
    return [-1.0, *((a + b) / 2 for a, b in itertools.pairwise(known)), known[-1]]


def best_of_all(series, score="tss", weight=none, at_least=()):
    """The best value, and the values, over all thresholds that make a difference."""
    score = sw.scores.get(score)
    sign = 1 if score.greater_is_better else -1
    matrices = [matrix_at(series, weight, tau) for tau in candidates(series.predictions)]
    allowed = [m for m in matrices if all(scored(sw.scores.get(name), m) >= bound for name, bound in at_least)]
    return sign * max(sign * scored(score, matrix) for matrix in allowed)


def value_at(series, score, weight, tau):
    return scored(sw.scores.get(score), matrix_at(series, weight, tau))


def close(x):
    # A score is a few operations on sums of fewer than a thousand numbers in float64.
    return pytest.approx(x, rel=1e-12, abs=1e-12)


@pytest.fixture(scope="module")
def data():
    return make_classification(n_samples=240, weights=[0.8], flip_y=0.1, random_state=3)


SPLITTER = StratifiedKFold(4, shuffle=True, random_state=1)

# -------------------------------------------------------------------------------------------------- exactly best


@pytest.mark.parametrize("score", ["tss", "f1", "csi", "hss", "mcc", "error_rate"])
@pytest.mark.parametrize(
    "inner",
    [LogisticRegression(), DecisionTreeClassifier(max_depth=2, random_state=0)],
    ids=lambda one: type(one).__name__,
)
def test_no_threshold_is_better(data, score, inner):
    X, y = data
    model = ScoreThresholdClassifier(inner, score, cv=SPLITTER).fit(X, y)
    series = Series(cross_val_predict(inner, X, y, cv=SPLITTER, method="predict_proba")[:, 1].tolist(), y.tolist())
    sign = -1 if score == "error_rate" else 1
    assert sign * model.best_score_ == close(best_of_all(series, score))
    assert value_at(series, score, none, model.threshold_) == close(sign * model.best_score_)
    predicted = clone(inner).fit(X, y).predict_proba(X)[:, 1]
    assert model.predict(X).tolist() == [int(p > model.threshold_) for p in predicted]
    assert model.score(X, y) == close(
        sign * value_at(Series(predicted.tolist(), y.tolist()), score, none, model.threshold_)
    )


def test_folds_are_drawn_by_the_random_state(data):
    X, y = data
    model = ScoreThresholdClassifier(LogisticRegression(), "f1", cv=3, random_state=8).fit(X, y)
    seed = np.random.RandomState(8).randint(2**31 - 1)
    splits = [(split.train, split.test) for split in folds(y, 3, ordered=False, seed=seed)]
    p = cross_val_predict(LogisticRegression(), X, y, cv=splits, method="predict_proba")[:, 1]
    assert model.best_score_ == close(best_of_all(Series(p.tolist(), y.tolist()), "f1"))
    again = clone(model).fit(X, y)
    other = clone(model).set_params(random_state=9).fit(X, y)
    assert again.threshold_ == model.threshold_ != other.threshold_


@pytest.mark.parametrize(
    ("name", "metric"), [("f1", f1_score), ("balanced_accuracy", balanced_accuracy_score)], ids=["f1", "balanced"]
)
@pytest.mark.parametrize("seed", range(4))
def test_never_worse_than_a_grid_of_a_hundred(name, metric, seed):
    X, y = make_classification(n_samples=200, weights=[0.85], flip_y=0.15, random_state=seed)
    grid = TunedThresholdClassifierCV(LogisticRegression(), scoring=name, cv=SPLITTER, store_cv_results=True).fit(X, y)
    model = ScoreThresholdClassifier(LogisticRegression(), name, cv=SPLITTER).fit(X, y)
    p = cross_val_predict(LogisticRegression(), X, y, cv=SPLITTER, method="predict_proba")[:, 1]
    tried = [*grid.cv_results_["thresholds"], grid.best_threshold_]
    assert len(tried) == 101
    assert model.best_score_ >= max(metric(y, p >= tau) for tau in tried) - 1e-12  # roundings, as in `close`
    assert model.best_score_ == close(metric(y, p > model.threshold_))


# ------------------------------------------------------------------------------------------- time, series, costs


@pytest.fixture(scope="module")
def stations():
    """Three stations that report at the same hours, with gaps, interleaved."""
    rng = np.random.default_rng(5)
    rows = sorted((int(time), f"s{name}") for name in range(3) for time in rng.choice(60, 40, replace=False))
    events = {(t, g) for t, g in rows if (t // 4 + int(g[1])) % 4 == 0}
    targets = [int(row in events) for row in rows]
    predictions = np.round(np.clip(0.3 * np.array(targets) + rng.random(len(rows)) * 0.7, 0, 1), 2)  # with ties
    return Series(
        predictions.tolist(),
        targets,
        [g for _, g in rows],
        [t for t, _ in rows],
        None,
        rng.integers(0, 4, len(rows)).tolist(),
        [tuple(pair) for pair in rng.integers(1, 6, (len(rows), 2)).tolist()],
    )


def context(series, *names):
    return {name: list(getattr(series, name)) for name in names}


def only(series, *names):
    kept = {
        name: getattr(series, name) if name in names else None for name in ("groups", "times", "sample_weight", "costs")
    }
    return Series(
        series.predictions, series.targets, kept["groups"], kept["times"], None, kept["sample_weight"], kept["costs"]
    )


@pytest.mark.parametrize(
    ("names", "weight", "oracle"),
    [
        (("groups", "times"), sw.weights.Value(OMEGA), value(largest(OMEGA), 2)),
        (("groups",), sw.weights.Value(OMEGA), value(largest(OMEGA), 2)),
        ((), sw.weights.Value(OMEGA), value(largest(OMEGA), 2)),
        (("groups", "times", "sample_weight"), sw.weights.Value(OMEGA), value(largest(OMEGA), 2)),
        (("costs",), None, none),
        (("sample_weight", "costs"), sw.weights.Cost(fp=1, fn=3), cost(1, 3)),
        (
            ("groups", "times", "sample_weight", "costs"),
            sw.weights.Value(OMEGA) * sw.weights.Cost(fp=2, fn=1),
            product(value(largest(OMEGA), 2), cost(2, 1)),
        ),
    ],
    ids=["value", "value without times", "value of one series", "value, weighted", "costs", "cost, weighted", "all"],
)
@pytest.mark.filterwarnings("ignore:Given.fit takes no sample_weight")  # it learns nothing
def test_weighted_thresholds(stations, names, weight, oracle):
    series = only(stations, *names)
    X, y = table(series.predictions), np.array(series.targets)
    model = ScoreThresholdClassifier(Given(), "csi", weight=weight, cv=3, random_state=0)
    model.fit(X, y, **context(series, *names))
    assert model.best_score_ == close(best_of_all(series, "csi", oracle))
    assert value_at(series, "csi", oracle, model.threshold_) == close(model.best_score_)
    assert model.score(X, y, **context(series, *names)) == close(model.best_score_)


def test_constraints(stations):
    series = only(stations, "groups", "times")
    X, y = table(series.predictions), np.array(series.targets)
    model = ScoreThresholdClassifier(Given(), "csi", weight=sw.weights.Value(OMEGA), at_least={"recall": 0.9}, cv=3)
    model.fit(X, y, **context(series, "groups", "times"))
    oracle = value(largest(OMEGA), 2)
    expected = best_of_all(series, "csi", oracle, [("recall", 0.9)])
    assert model.best_score_ == close(expected)
    assert expected < best_of_all(series, "csi", oracle)
    assert value_at(series, "recall", oracle, model.threshold_) >= 0.9
    with pytest.raises(InfeasibleError, match=r"no threshold has precision of at least 1 with recall of at least 0\.9"):
        model.set_params(at_least={"recall": 0.9, "precision": 1}).fit(X, y)


def judged_rows(log):
    return sorted(row for _, judged in log for row in judged)


@pytest.mark.parametrize(("weight", "horizon"), [(sw.weights.Value(OMEGA), 0), (sw.weights.Value(OMEGA), 3), (None, 3)])
def test_nothing_is_fitted_on_near_to_what_is_judged(stations, weight, horizon):
    if weight is not None and horizon:
        weight = sw.weights.Cost(fp=2, fn=1) * weight  # a product looks as far as its parts
    log = []
    model = ScoreThresholdClassifier(Given(log), weight=weight, horizon=horizon, cv=4)
    X, y, times = table(stations.predictions), np.array(stations.targets), np.array(stations.times)
    model.fit(X, y, **context(stations, "groups", "times"))
    gap = horizon + (0 if weight is None else 2)
    assert len(log) == 4
    assert judged_rows(log) == list(range(len(y)))
    for fitted, judged in log:
        expected = [row for row in range(len(y)) if min(abs(times[row] - times[judged])) > gap]
        assert fitted == expected
        assert max(times[judged]) - min(times[judged]) < 20  # of 60
    assert model.estimator_.fitted_on_ == list(range(len(y)))


def test_rows_are_in_order_where_something_looks_around():
    rng = np.random.default_rng(0)
    X, y = table(rng.random(40)), np.arange(40) % 4 // 3
    for params in ({"weight": sw.weights.Value(OMEGA)}, {"horizon": 2}):
        log = []
        ScoreThresholdClassifier(Given(log), cv=2, **params).fit(X, y)
        assert log == [(list(range(22, 40)), list(range(20))), (list(range(18)), list(range(20, 40)))]
        log.clear()
        groups = np.arange(40) % 4 // 2  # two series
        ScoreThresholdClassifier(Given(log), cv=2, **params).fit(X, np.arange(40) // 2 % 3 // 2, groups=groups)
        assert sorted(log) == sorted(
            (np.flatnonzero(groups == g).tolist(), np.flatnonzero(groups != g).tolist()) for g in (0, 1)
        )


def test_groups_stay_whole():
    rng = np.random.default_rng(1)
    X, y, groups = table(rng.random(60)), rng.integers(0, 2, 60), rng.integers(0, 9, 60)
    log = []
    ScoreThresholdClassifier(Given(log), cv=3).fit(X, y, groups=groups)
    assert judged_rows(log) == list(range(60))
    for fitted, judged in log:
        assert not set(groups[fitted]) & set(groups[judged])
        assert len(fitted) + len(judged) == 60


def test_a_splitter_of_ones_own():
    rng = np.random.default_rng(2)
    X, y, groups = table(rng.random(60)), rng.integers(0, 2, 60), np.arange(60) // 6
    log = []
    ScoreThresholdClassifier(Given(log), cv=GroupKFold(5)).fit(X, y, groups=groups)
    expected = [(train.tolist(), test.tolist()) for train, test in GroupKFold(5).split(X, y, groups)]
    assert log == expected
    log.clear()
    masks = [(np.arange(60) < 30, np.arange(60) >= 30), (np.arange(60) >= 30, np.arange(60) < 30)]
    ScoreThresholdClassifier(Given(log), cv=masks).fit(X, y)
    assert [judged for _, judged in log] == [list(range(30, 60)), list(range(30))]
    with pytest.raises(ValueError, match="cv must test each row once at most, but tests 60 of 60 rows again"):
        ScoreThresholdClassifier(Given(), cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2)).fit(X, y)


@pytest.mark.parametrize("weight", [None, sw.weights.Value(OMEGA)], ids=["plain", "value"])
def test_rows_that_are_never_judged_do_not_count(stations, weight):
    X, y = table(stations.predictions), np.array(stations.targets)
    model = ScoreThresholdClassifier(Given(), "f1", weight=weight, cv=TimeSeriesSplit(3)).fit(X, y)
    tested = np.concatenate([test for _, test in TimeSeriesSplit(3).split(X)])
    known = [i in tested for i in range(len(y))]
    assert not all(known)
    predictions = [p if k else math.nan for p, k in zip(stations.predictions, known, strict=True)]
    series = Series(predictions, stations.targets, mask=known)
    oracle = none if weight is None else value(largest(OMEGA), 2)
    assert model.best_score_ == close(best_of_all(series, "f1", oracle))


# ------------------------------------------------------------------------------------------------------ numerics


def test_what_is_fitted_already_is_not_fitted_again(data):
    X, y = data
    fitted = LogisticRegression().fit(X[:120], y[:120])
    coefficients = fitted.coef_.copy()
    model = ScoreThresholdClassifier(FrozenEstimator(fitted), "hss").fit(X[120:], y[120:], sample_weight=np.ones(120))
    series = Series(fitted.predict_proba(X[120:])[:, 1].tolist(), y[120:].tolist())
    assert model.best_score_ == close(best_of_all(series, "hss"))
    assert (fitted.coef_ == coefficients).all()
    log = []
    given = Given(log).fit(table([0.2, 0.3]), [0, 1])
    ScoreThresholdClassifier(FrozenEstimator(given)).fit(table([0.1, 0.2, 0.3]), [0, 0, 1])  # too few for folds
    assert log == [([0, 1], [0, 1, 2])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [Given, Decides])
def test_neighbours_in_their_own_dtype_are_told_apart(kind, dtype):
    low = dtype(0.3)
    high = np.nextafter(low, dtype(1))
    answers = np.array([low] * 10 + [high] * 10, dtype)
    X, y = np.stack([answers, np.arange(20, dtype=dtype)], 1), np.arange(20) // 10
    model = ScoreThresholdClassifier(kind(), cv=2, random_state=0).fit(X, y)
    assert model.best_score_ == 1
    assert low <= model.threshold_ < high
    assert model.predict(X).tolist() == y.tolist()
    assert model.score(X, y) == 1


def test_float32_stays_float32():
    p = np.linspace(0.1, 0.9, 20, dtype=np.float32)
    model = ScoreThresholdClassifier(Given(), cv=2, random_state=0).fit(table(p, np.float32), np.arange(20) // 7 // 2)
    assert model.curve_.thresholds.dtype == torch.float32
    assert np.float32(model.threshold_) == model.threshold_
    between = np.nextafter(np.float64(model.threshold_), 1)  # as float32 it is the threshold, which is not greater
    assert model.predict(np.array([[between, 0]])).tolist() == [0]


def test_all_predictions_equal():
    for kind in (Given, Decides):
        model = ScoreThresholdClassifier(kind(), "csi", cv=2, random_state=0).fit(table([0.4] * 20), np.arange(20) % 2)
        assert model.best_score_ == 0.5  # everything positive: 10 of 20
        assert model.predict(table([0.4])).tolist() == [1]


def test_everything_or_nothing_can_be_best():
    y = np.array([1, 1, 1, 0] * 5)
    against = np.where(y == 1, 0.2, 0.7)  # the wrong way round
    X = table(against)
    everything = ScoreThresholdClassifier(Given(), "accuracy", cv=2, random_state=0).fit(X, y)
    assert everything.best_score_ == 0.75
    assert everything.threshold_ == 0.1  # midway between 0 and the least
    assert everything.predict(X).all()
    zeros = ScoreThresholdClassifier(Given(), "accuracy", cv=2, random_state=0).fit(table(against - 0.2), y)
    assert zeros.threshold_ < 0
    assert zeros.predict(table([0.0])).tolist() == [1]
    decided = ScoreThresholdClassifier(Decides(), "accuracy", cv=2, random_state=0).fit(X, y)
    assert decided.threshold_ == -math.inf
    assert decided.predict(table([-1e9])).tolist() == [1]
    nothing = ScoreThresholdClassifier(Given(), "accuracy", cv=2, random_state=0).fit(table(1 - against), 1 - y)
    assert nothing.best_score_ == 0.75
    assert nothing.threshold_ == pytest.approx(0.9)  # midway between the greatest and 1
    decided = ScoreThresholdClassifier(Decides(), "accuracy", cv=2, random_state=0).fit(table(-against), 1 - y)
    assert decided.threshold_ == math.inf
    assert decided.predict(table([1e9])).tolist() == [0]


def test_large_decisions_are_not_all_the_same():
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 80)
    decisions = 1000 + 30 * rng.normal(size=80) + 20 * y  # a logistic function would make all of them 1
    model = ScoreThresholdClassifier(Decides(), "tss", cv=2, random_state=0).fit(table(decisions), y)
    values = [np.mean(decisions[y == 1] > t) - np.mean(decisions[y == 0] > t) for t in decisions]
    assert model.best_score_ == close(max(values))
    assert model.best_score_ == close(
        np.mean(decisions[y == 1] > model.threshold_) - np.mean(decisions[y == 0] > model.threshold_)
    )
    assert decisions.min() < model.threshold_ < decisions.max()
    assert model.predict(table(decisions)).tolist() == (decisions > model.threshold_).astype(int).tolist()


def test_rounded_probabilities_are_taken_and_others_are_not():
    y = np.arange(20) // 10
    rounded = np.where(y == 1, np.nextafter(1, 2), -1e-17)
    assert ScoreThresholdClassifier(Given(), cv=2, random_state=0).fit(table(rounded), y).best_score_ == 1
    with pytest.raises(ValueError, match=r"predictions must be probabilities in \[0, 1\]"):
        ScoreThresholdClassifier(Given(), cv=2).fit(table(rounded * 1.1), y)
    with pytest.raises(ValueError, match="decision_function must be finite, but 10 of 20 are not"):
        ScoreThresholdClassifier(Decides(), cv=2).fit(table(np.where(y == 1, math.nan, 0)), y)
    X = 1e3 * np.random.default_rng(0).normal(size=(200, 3)) + np.arange(200)[:, None]
    assert ScoreThresholdClassifier(GaussianNB(), cv=3, random_state=0).fit(X, np.arange(200) // 100).best_score_ > 0


# -------------------------------------------------------------------------------------------------------- classes


@pytest.mark.parametrize("inner", [LogisticRegression(), LinearSVC()], ids=lambda one: type(one).__name__)
def test_any_two_classes(data, inner):
    X, y = data
    names = np.array(["no", "yes"])[y]
    plain = ScoreThresholdClassifier(inner, "csi", cv=SPLITTER).fit(X, y)
    named = ScoreThresholdClassifier(inner, "csi", cv=SPLITTER).fit(X, pd.Series(names))
    assert named.classes_.tolist() == ["no", "yes"]
    assert named.threshold_ == plain.threshold_
    assert named.predict(X).tolist() == np.array(["no", "yes"])[plain.predict(X)].tolist()
    turned = ScoreThresholdClassifier(inner, "csi", cv=SPLITTER, pos_label="no").fit(X, names)
    same = ScoreThresholdClassifier(inner, "csi", cv=[*SPLITTER.split(X, y)]).fit(X, 1 - y)
    assert turned.best_score_ == same.best_score_ > plain.best_score_
    assert turned.predict(X).tolist() == np.array(["yes", "no"])[same.predict(X)].tolist()
    assert turned.score(X, names) == close(same.score(X, 1 - y))
    with pytest.raises(ValueError, match=r"pos_label must be one of \['no', 'yes'\], saw 'maybe'"):
        turned.set_params(pos_label="maybe").fit(X, names)
    with pytest.raises(ValueError, match=r"y must be of the classes \['no', 'yes'\], saw \['maybe', 'no'\]"):
        named.score(X[:2], ["no", "maybe"])


# ---------------------------------------------------------------------------------------------------- scikit-learn


def known_failures(estimator):
    return {
        "check_classifiers_train": "it wants the class of the greater probability, or of the decision's sign; the "
        "threshold is what is chosen here"
    }


@parametrize_with_checks(
    [ScoreThresholdClassifier(LogisticRegression()), ScoreThresholdClassifier(LinearSVC())],
    expected_failed_checks=known_failures,
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_the_parameter_and_the_method_have_one_name(data):
    X, y = data
    model = ScoreThresholdClassifier(LogisticRegression(), "f1", cv=3, random_state=0)
    assert model.get_params()["score"] == "f1"
    assert "score='f1'" in repr(model)
    assert clone(model).get_params()["score"] == "f1"
    model.set_params(score="csi").fit(X, y)
    assert model.get_params(deep=False)["score"] == "csi"
    assert model.best_score_ == pytest.approx(best_of_all(Series(*oof(model, X, y)), "csi"))
    assert callable(model.score)
    assert ScoreThresholdClassifier.score.__doc__.startswith("The score of the predictions")
    ours = 0.5 * sw.scores.get("tss") + 0.5 * sw.scores.get("f1")
    assert clone(model).set_params(score=ours).fit(X, y).score(X, y) > 0


def oof(model, X, y):
    """Predictions that the curve was made of, and targets."""
    seed = np.random.RandomState(model.random_state).randint(2**31 - 1)
    splits = [(split.train, split.test) for split in folds(y, model.cv, ordered=False, seed=seed)]
    return cross_val_predict(model.estimator, X, y, cv=splits, method="predict_proba")[:, 1].tolist(), y.tolist()


def test_in_pipelines_and_searches(data):
    X, y = data
    model = ScoreThresholdClassifier(make_pipeline(StandardScaler(), LogisticRegression()), "tss", random_state=0)
    inside = make_pipeline(StandardScaler(), ScoreThresholdClassifier(LogisticRegression(), "tss", random_state=0))
    assert inside.fit(X, y).score(X, y) == inside[-1].score(inside[0].transform(X), y)
    search = GridSearchCV(model, {"estimator__logisticregression__C": [1e-3, 1.0], "score": ["tss", "csi"]}, cv=2)
    search.fit(X, y)
    assert set(search.best_params_) == {"estimator__logisticregression__C", "score"}
    outer = StratifiedKFold(3)
    expected = [clone(model).fit(X[a], y[a]).score(X[b], y[b]) for a, b in outer.split(X, y)]
    assert cross_val_score(model, X, y, cv=outer).tolist() == expected
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(y), 2)
    around = ScoreThresholdClassifier(CalibratedClassifierCV(LinearSVC(), cv=2), "tss", cv=2).fit(X, y)
    assert 0 < around.threshold_ < 1


@pytest.mark.parametrize("inner", [LogisticRegression(), RidgeClassifier()], ids=lambda one: type(one).__name__)
def test_kept_and_read_again(data, inner, tmp_path):
    X, y = data
    groups, times = np.arange(len(y)) % 3, np.arange(len(y)) // 3
    model = ScoreThresholdClassifier(
        inner, "tss", weight=sw.weights.Value(OMEGA), at_least={"recall": 0.1}, cv=3, random_state=0
    ).fit(X, y, groups=groups, times=times)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):  # noqa: S301  # our own
        assert again.threshold_ == model.threshold_
        assert again.predict(X).tolist() == model.predict(X).tolist()
        assert again.curve_.best(at_least={"recall": 0.1}) == model.curve_.best(at_least={"recall": 0.1})
        assert again.score(X, y, groups=groups, times=times) == model.score(X, y, groups=groups, times=times)
    with joblib.parallel_config("threading"):
        beside = clone(model).set_params(n_jobs=2).fit(X, y, groups=groups, times=times)
    assert beside.threshold_ == model.threshold_


def test_tables_reach_the_estimator_as_they_are(data):
    X, y = data
    frame = pd.DataFrame({"x": X[:, 0], "name": np.array(["a", "b", "c"])[np.arange(len(y)) % 3]})
    inner = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["name"]), remainder="passthrough"), LogisticRegression()
    )
    model = ScoreThresholdClassifier(inner, cv=3, random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["x", "name"]
    assert model.n_features_in_ == 2
    assert model.predict(frame).shape == y.shape
    assert not hasattr(ScoreThresholdClassifier(LinearSVC()), "predict_proba")
    assert not hasattr(ScoreThresholdClassifier(DecisionTreeClassifier()), "decision_function")
    kernel = X @ X.T
    precomputed = ScoreThresholdClassifier(SVC(kernel="precomputed"), cv=SPLITTER).fit(kernel, y)
    plain = ScoreThresholdClassifier(SVC(kernel="linear"), cv=SPLITTER).fit(X, y)
    assert precomputed.best_score_ == plain.best_score_


class Weighted(LogisticRegression):
    """Tells which weights it was fitted with."""

    log: list = []  # noqa: RUF012  # shared by clones on purpose

    def fit(self, X, y, sample_weight=None):
        self.log.append(None if sample_weight is None else sample_weight.tolist())
        return super().fit(X, y, sample_weight)


def test_weights_of_samples_reach_the_estimator(data):
    X, y = data
    weights = np.random.default_rng(0).random(len(y))
    Weighted.log.clear()
    model = ScoreThresholdClassifier(Weighted(), "csi", cv=SPLITTER).fit(X, y, sample_weight=weights)
    expected = [weights[train].tolist() for train, _ in SPLITTER.split(X, y)]
    assert Weighted.log == [*expected, weights.tolist()]
    p = cross_val_predict(
        LogisticRegression(), X, y, cv=SPLITTER, method="predict_proba", params={"sample_weight": weights}
    )[:, 1]
    series = Series(p.tolist(), y.tolist(), sample_weight=weights.tolist())
    assert model.best_score_ == close(best_of_all(series, "csi"))
    piped = ScoreThresholdClassifier(make_pipeline(StandardScaler(), LogisticRegression()), cv=2)
    with pytest.warns(UserWarning, match=r"Pipeline.fit takes no sample_weight by name: only the threshold depends"):
        piped.fit(X, y, sample_weight=weights)


def test_metadata_is_routed(data):
    X, y = data
    weights, groups = np.random.default_rng(0).random(len(y)), np.arange(len(y)) % 7
    with sklearn.config_context(enable_metadata_routing=True):
        Weighted.log.clear()
        inner = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False), Weighted().set_fit_request(sample_weight=True)
        )
        model = ScoreThresholdClassifier(inner, cv=GroupKFold(3)).fit(X, y, sample_weight=weights, groups=groups)
        expected = [weights[train].tolist() for train, _ in GroupKFold(3).split(X, y, groups)]
        assert Weighted.log == [*expected, weights.tolist()]
        model.set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=True, groups=False)
        found = cross_val_score(model, X, y, cv=GroupKFold(2), params={"sample_weight": weights, "groups": groups})
        for value_there, (a, b) in zip(found, GroupKFold(2).split(X, y, groups), strict=True):
            there = clone(model).fit(X[a], y[a], sample_weight=weights[a], groups=groups[a])
            assert value_there == there.score(X[b], y[b], sample_weight=weights[b])
        refused = ScoreThresholdClassifier(Weighted().set_fit_request(sample_weight=False), cv=2)
        Weighted.log.clear()
        refused.fit(X, y, sample_weight=weights, times=np.arange(len(y)))
        assert Weighted.log == [None] * 3
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            ScoreThresholdClassifier(LogisticRegression(), cv=2).fit(X, y, sample_weight=weights)


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("params", "arguments", "kind", "message"),
    [
        ({"score": "nonsense"}, {}, ValueError, "there is no score 'nonsense'"),
        ({"weight": sw.weights.Margin(2.0)}, {}, ValueError, "sees the threshold itself"),
        ({"weight": "value"}, {}, TypeError, "a weight must be an object of scorewise.weights"),
        ({"at_least": 0.5}, {}, TypeError, "at_least must be a dict"),
        ({"horizon": -1}, {}, ValueError, "horizon must be a whole number of at least 0, saw -1"),
        ({"horizon": 2, "cv": SPLITTER}, {}, ValueError, "horizon is for folds that are made here"),
        ({"cv": 1}, {}, ValueError, "the number of folds must be a whole number of at least 2, saw 1"),
        ({"cv": "five"}, {}, ValueError, "Expected `cv` as an integer"),
        ({"estimator": LinearRegression()}, {}, TypeError, "saw LinearRegression, which has neither"),
        ({}, {"y": np.zeros(240)}, ValueError, "y must have two classes, saw 1 class, 0.0, in 240 rows"),
        ({}, {"y": np.arange(240) % 3}, ValueError, "Only binary classification is supported"),
        ({}, {"y": np.arange(240) // 239}, ValueError, "rows of each class: {0: 239, 1: 1}"),
        ({}, {"times": np.zeros(240, int)}, ValueError, "times must increase within a group"),
        ({}, {"groups": [1, 2]}, ValueError, "groups must have one value for each of the 240 samples"),
        ({}, {"costs": np.ones(240)}, ValueError, "costs must have the shape (240, 2)"),
        ({}, {"sample_weight": -np.ones(240)}, ValueError, "sample_weight must be finite and at least 0"),
        (
            {"cv": [(range(120), range(120, 240))]},
            {"y": np.arange(240) // 120},
            ValueError,
            "This solver needs samples of at least 2 classes",
        ),
        (
            {"cv": [(range(120), range(120, 240))], "estimator": GaussianNB()},
            {"y": np.arange(240) // 120},
            ValueError,
            "the estimator must know two classes",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_what_is_wrong_is_told(data, params, arguments, kind, message):
    X, y = data
    model = ScoreThresholdClassifier(LogisticRegression(), random_state=0).set_params(**params)
    with pytest.raises(kind, match=re.escape(message)):
        model.fit(X, **{"y": y} | arguments)


def test_not_fitted_yet(data):
    model = ScoreThresholdClassifier(LogisticRegression())
    for method in (model.predict, model.predict_proba, model.decision_function, model.predict_log_proba):
        with pytest.raises(NotFittedError):
            method(data[0])
