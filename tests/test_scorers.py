"""Scorers for scikit-learn: on each fold, what the functions of the package say of it."""

import pickle

import numpy as np
import pytest
import torch

import scorewise as sw

pytest.importorskip("sklearn", reason="the extra sklearn is not installed")

from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier

from scorewise.metrics import make_scorer

RNG = np.random.default_rng(4)
N = 90
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 0.4).astype(int)
# three: of two, scikit-learn takes the probabilities of OneVsRestClassifier for those of two classes
MANY = np.stack([Y, *(X[:, 1:].T + RNG.normal(size=(2, N)) > 0.3).astype(int)], 1)
GROUPS = np.repeat(["c", "a", "b"], [40, 30, 20])
TIMES = np.concatenate([np.cumsum(RNG.integers(1, 3, size=n)) for n in (40, 30, 20)])
WEIGHT = RNG.uniform(size=N)
COSTS = RNG.uniform(size=(N, 2))
VALUE = sw.weights.Value([0.5, 0.25, 0.1])
MODEL = LogisticRegression(C=0.3)


def score_of(name, x, y, threshold=0.5, weight=None, **rest):
    """Of predictions that are in order; greater is better."""
    score = sw.scores.get(name)
    value = float(score(sw.confusion_matrix(np.asarray(x, float), np.asarray(y, float), threshold, weight, **rest)))
    return value if score.greater_is_better else -value


@pytest.mark.parametrize("name", sw.scores.names())
def test_every_score_of_every_fold(name):
    folds = list(KFold(3).split(X))
    found = cross_val_score(MODEL, X, Y, scoring=make_scorer(name), cv=folds)
    expected = [score_of(name, MODEL.fit(X[a], Y[a]).predict(X[b]), Y[b]) for a, b in folds]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


class Always(ClassifierMixin, BaseEstimator):
    """Has a probability of 0.2 for everything, and calls it positive."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[1])

    def predict_proba(self, X):
        return np.tile([0.8, 0.2], (len(X), 1))


def test_the_estimator_decides_unless_there_is_a_threshold():
    model = Always().fit(X, Y)
    assert make_scorer("recall")(model, X, Y) == 1
    assert make_scorer("recall", threshold=0.3)(model, X, Y) == 0
    assert make_scorer("recall", threshold=0.1)(model, X, Y) == 1


def test_a_threshold_and_a_weight():
    model = MODEL.fit(X, Y)
    weight = sw.weights.CrossEntropy() * sw.weights.ClassFrequency()
    found = make_scorer("csi", threshold=0.3, weight=weight)(model, X, Y, sample_weight=WEIGHT)
    expected = score_of("csi", model.predict_proba(X)[:, 1], Y, 0.3, weight, sample_weight=WEIGHT)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_classes_with_other_names(threshold):
    options = {"threshold": threshold}
    expected = make_scorer("precision", **options)(MODEL.fit(X, Y), X, Y)
    signs = 2 * Y - 1
    assert make_scorer("precision", **options)(MODEL.fit(X, signs), X, signs) == pytest.approx(expected, abs=1e-12)
    names = np.where(Y == 1, "event", "none")  # the positive class comes first in the alphabet
    scorer = make_scorer("precision", pos_label="event", **options)
    assert scorer(MODEL.fit(X, names), X, names) == pytest.approx(expected, abs=1e-12)
    other = make_scorer("precision", pos_label="none", threshold=None if threshold is None else 1 - threshold)
    flipped = make_scorer("npv", **options)
    assert other(MODEL.fit(X, names), X, names) == pytest.approx(flipped(MODEL.fit(X, Y), X, Y), abs=1e-12)


def test_classes_that_are_not_clear_are_refused():
    names = np.where(Y == 1, "yes", "no")
    with pytest.raises(ValueError, match=r"classes must be 0 and 1, or -1 and 1, saw \['no', 'yes'\]. Pass pos_label"):
        make_scorer("tss")(MODEL.fit(X, names), X, names)
    with pytest.raises(ValueError, match=r"saw \[0, 1, 2\]"):
        make_scorer("tss")(MODEL.fit(X, Y), X, Y + (X[:, 1] > 1))
    with pytest.raises(ValueError, match="average must make one number"):
        make_scorer("tss", average=None)
    with pytest.raises(ValueError, match="there is no score"):
        make_scorer("tsss")


@pytest.mark.parametrize("average", ["macro", "weighted", "min"])
@pytest.mark.parametrize("threshold", [None, [0.3, 0.6, 0.5]], ids=["predict", "thresholds"])
def test_labels(threshold, average):
    model = OneVsRestClassifier(MODEL).fit(X, MANY)
    weights = [sw.weights.Cost(1.0, 3.0), None, sw.weights.ClassFrequency()]
    scorer = make_scorer("f1", weight=weights, threshold=threshold, average=average)
    x = model.predict(X) if threshold is None else model.predict_proba(X)
    limits = [0.5] * 3 if threshold is None else threshold
    each = [
        score_of("f1", x[:, j], MANY[:, j], limits[j], weights[j], sample_weight=WEIGHT, costs=COSTS) for j in range(3)
    ]
    positives = (MANY * WEIGHT[:, None]).sum(0)
    expected = {"macro": np.mean(each), "weighted": np.average(each, weights=positives), "min": min(each)}[average]
    with config_context(enable_metadata_routing=True):
        found = scorer(model, X, MANY, sample_weight=WEIGHT, costs=COSTS)
    assert found == pytest.approx(expected, abs=1e-12)


def test_labels_of_trees_whose_probabilities_come_as_a_list():
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, MANY)
    expected = np.mean([score_of("tss", p[:, 1], MANY[:, j], 0.3) for j, p in enumerate(model.predict_proba(X))])
    assert make_scorer("tss", threshold=0.3)(model, X, MANY) == pytest.approx(expected, abs=1e-12)


def folds_of(kind):
    splitter = {"blocks": KFold(3), "series": GroupKFold(3), "shuffled": ShuffleSplit(3, random_state=0)}[kind]
    return splitter, list(splitter.split(X, Y, GROUPS if kind == "series" else None))


def on(rows, x):
    """What is said of rows, each series in the order of time."""
    order = sorted(range(len(rows)), key=lambda k: (GROUPS[rows[k]], TIMES[rows[k]]))
    rows, x = rows[order], x[order]
    where = {"groups": GROUPS[rows], "times": TIMES[rows], "sample_weight": WEIGHT[rows], "costs": COSTS[rows]}
    return score_of("tss", x, Y[rows], weight=VALUE, **where)


@pytest.mark.parametrize("kind", ["blocks", "series", "shuffled"])
def test_series_arrive_by_routing(kind):
    splitter, folds = folds_of(kind)
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer("tss", weight=VALUE)
        scorer.set_score_request(groups=True, times=True, sample_weight=True, costs=True)
        params = {"groups": GROUPS, "times": TIMES, "sample_weight": WEIGHT, "costs": COSTS}
        model = LogisticRegression(C=0.3).set_fit_request(sample_weight=False)
        found = cross_validate(model, X, Y, scoring=scorer, cv=splitter, params=params, return_train_score=True)
    for which, side in (("test_score", 1), ("train_score", 0)):
        expected = [on(fold[side], MODEL.fit(X[fold[0]], Y[fold[0]]).predict(X[fold[side]])) for fold in folds]
        assert found[which].tolist() == pytest.approx(expected, abs=1e-12)


def test_series_arrive_in_a_search():
    splitter, folds = folds_of("blocks")
    grid = {"C": [0.01, 1.0]}
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer("tss", weight=VALUE)
        scorer.set_score_request(groups=True, times=True, sample_weight=True, costs=True)
        plain = make_scorer("tss").set_score_request(groups=False, times=False, sample_weight=False, costs=False)
        model = LogisticRegression().set_fit_request(sample_weight=False)
        search = GridSearchCV(model, grid, scoring={"value": scorer, "tss": plain}, cv=splitter, refit=False)
        search.fit(X, Y, groups=GROUPS, times=TIMES, sample_weight=WEIGHT, costs=COSTS)
    for k, C in enumerate(grid["C"]):
        for fold, (a, b) in enumerate(folds):
            calls = LogisticRegression(C=C).fit(X[a], Y[a]).predict(X[b])
            assert search.cv_results_[f"split{fold}_test_value"][k] == pytest.approx(on(b, calls), abs=1e-12)
            assert search.cv_results_[f"split{fold}_test_tss"][k] == pytest.approx(
                score_of("tss", calls, Y[b]), abs=1e-12
            )


def test_scorers_can_be_pickled_and_say_what_they_are():
    scorer = make_scorer("tss", weight=sw.weights.Cost(1.0, 2.0), threshold=0.3)
    model = MODEL.fit(X, Y)
    again = pickle.loads(pickle.dumps(scorer))  # noqa: S301  # our own
    assert again(model, X, Y) == scorer(model, X, Y)
    assert "tss, weight=Cost(fp=1" in repr(scorer)
    assert "threshold=0.3" in repr(scorer)


def test_scores_of_ones_own():
    mine = sw.scores.Score("hits", lambda tn, fp, fn, tp: tp)
    assert make_scorer(mine)(MODEL.fit(X, Y), X, Y) == ((MODEL.predict(X) == 1) & (Y == 1)).sum()
    assert isinstance(make_scorer(mine)(MODEL, X, torch.tensor(Y)), float)
