"""A classifier that is trained for a score, as users of scikit-learn see it."""

import contextlib
import inspect
import io
import json
import math
import pickle
import random
import re
import warnings
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from lightning_fabric import Fabric
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, f1_score, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import scorewise as sw
from scorewise.curves.choice import InfeasibleError
from scorewise.estimator.classifier import ScoreClassifier
from scorewise.estimator.problems import Labels
from tests.weight_oracles import smooth


def quick(*given, **options):
    """A classifier that is small, and so is its network, if it is no other one."""
    own = {"members": 2, "width": 16, "depth": 1} if options.get("module") is None else {}
    rest = {"steps": 16, "evaluations": 4, "warm_up": 0.0, "ensemble": None, "tune": "best", "progress": False}
    return ScoreClassifier(*given, **rest | own | {"random_state": 0} | options)


ROWS = 200
KEPT = np.arange(ROWS) % 4 == 1  # rows for validation
KINDS = ["two", "classes", "labels"]


@pytest.fixture(autouse=True)
def _as_if_alone():
    """Networks that tests make begin the same, whatever ran before."""
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def X():  # noqa: N802  # as scikit-learn calls it
    return make_classification(ROWS, n_features=5, weights=[0.7], flip_y=0.1, random_state=0)[0]


@pytest.fixture(scope="module")
def y():
    return make_classification(ROWS, n_features=5, weights=[0.7], flip_y=0.1, random_state=0)[1]


def targets_of(kind, X, y):
    if kind == "two":
        return y
    if kind == "classes":
        return np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + y, [-0.5, 0.9])]
    return np.stack([y, X[:, 1] > 0.5, X[:, 2] > 0], 1).astype(int)


def without_seconds(history):
    return [{name: value for name, value in one.items() if name != "seconds"} for one in history]


def told(model, X):
    """All that two fits can differ in, but for time."""
    return repr((model.predict_proba(X).tolist(), model.threshold_, model.best_score_, without_seconds(model.history_)))


def tss(truth, decided):
    return 2 * balanced_accuracy_score(truth, decided) - 1


def thresholds_between(p):
    values = np.unique(p)
    return [values[0] - 1, *(values[1:] + values[:-1]) / 2, values[-1] + 1]


# ---------------------------------------------------------------------------------------------------- scikit-learn


def known_failures(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": "rows are drawn for validation and for batches: one of weight "
        "2 is one row, and two rows may be in different batches",
    }


@parametrize_with_checks(
    [ScoreClassifier(steps=20, evaluations=4, share=0.5, progress=False)], expected_failed_checks=known_failures
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_not_fitted(X, y, method, tmp_path):
    with pytest.raises(NotFittedError):
        getattr(quick(), method)(X)
    with pytest.raises(NotFittedError):
        quick().score(X, y)
    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        quick().networks_  # noqa: B018  # to read it is what is tested


@pytest.mark.parametrize("before", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("why", ["targets", "split", "training", "at_least"])
def test_not_fitted_after_a_fit_that_failed(X, y, why, before, tmp_path):
    """Nothing is predicted with what is half new, and nothing with what was fitted before."""
    model = quick(module=nn.Linear(5, 1))
    if before:
        model.fit(X, y).predict(X)
    broken, given = nn.Linear(5, 1), {}
    if why == "training":
        nn.init.constant_(broken.bias, math.nan)
        model.set_params(module=broken)
    elif why == "at_least":
        model.set_params(at_least={"precision": 1.0, "recall": 1.0})
    elif why == "split":
        given = {"validation": np.zeros(ROWS, bool)}
    with pytest.raises((ValueError, InfeasibleError)):
        model.fit(X, np.zeros(ROWS) if why == "targets" else y, **given)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError):
            method(X)
    with pytest.raises(NotFittedError):
        model.score(X, y)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")


def test_pipeline_search_and_cross_validation(X, y):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), quick("f1")), {"scoreclassifier__score": ["f1", "csi"]}, cv=2
    ).fit(X, y)
    assert set(search.cv_results_["param_scoreclassifier__score"]) == {"f1", "csi"}
    folds = StratifiedKFold(2)
    found = cross_val_score(quick("f1"), X, y, cv=folds)
    by_hand = [
        f1_score(y[test], quick("f1").fit(X[train], y[train]).predict(X[test])) for train, test in folds.split(X, y)
    ]
    assert found == pytest.approx(by_hand, rel=1e-12)


def test_in_other_processes(X, y):
    # loky sends the classifier, and what it became, by pickle
    models = joblib.Parallel(n_jobs=2)(joblib.delayed(quick(random_state=k).fit)(X, y) for k in (0, 1))
    assert told(models[0], X) == told(quick(random_state=0).fit(X, y), X)
    assert told(models[1], X) != told(models[0], X)


@pytest.mark.parametrize("kind", KINDS)
def test_pickle_and_clone(X, y, kind):
    model = quick().fit(X, targets_of(kind, X, y))
    twin = pickle.loads(pickle.dumps(model))  # noqa: S301  # our own
    assert told(twin, X) == told(model, X)
    assert np.array_equal(twin.predict(X), model.predict(X))
    assert twin.score(X, targets_of(kind, X, y)) == model.score(X, targets_of(kind, X, y))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "classes_")


def test_calibration(X, y):
    model = CalibratedClassifierCV(quick("hss"), cv=2).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (ROWS, 2)
    assert p.sum(1) == pytest.approx(1)
    assert p[:, 1].mean() == pytest.approx(y.mean(), abs=0.1)  # of the other class it would be 0.7


def test_the_parameter_and_the_method_have_one_name(X, y):
    model = quick("csi")
    assert model.get_params()["score"] == "csi"
    assert "score='csi'" in repr(model)
    assert model.set_params(score="f1").fit(X, y).score(X, y) == pytest.approx(f1_score(y, model.predict(X)), rel=1e-12)


# ---------------------------------------------------------------------------------------------- what is predicted


@pytest.mark.parametrize("score", ["tss", "f1", "hss"])
def test_the_threshold_is_the_best_of_all(X, y, score):
    formula = {
        "tss": tss,
        "f1": partial(f1_score, zero_division=0),
        "hss": cohen,
    }[score]
    model = quick(score).fit(X, y, validation=KEPT)
    p = model.predict_proba(X)[:, 1]
    values = [formula(y[KEPT], (p[KEPT] > tau).astype(int)) for tau in thresholds_between(p[KEPT])]
    assert model.best_score_ == pytest.approx(max(values), rel=1e-12)
    assert formula(y[KEPT], model.predict(X)[KEPT]) == pytest.approx(max(values), rel=1e-12)
    assert model.predict(X).tolist() == (p > model.threshold_).astype(int).tolist()


def cohen(truth, decided):
    (tn, fp), (fn, tp) = confusion_matrix(truth, decided, labels=[0, 1]).astype(float)
    n = tn + fp + fn + tp
    chance = ((tn + fp) * (tn + fn) + (fn + tp) * (fp + tp)) / n**2
    return 0.0 if chance == 1 else ((tn + tp) / n - chance) / (1 - chance)


def test_every_label_has_the_best_threshold(X, y):
    labels = targets_of("labels", X, y)
    model = quick(["tss", "f1", "f1"]).fit(X, labels, validation=KEPT)
    p = model.predict_proba(X)
    best = []
    for j, formula in enumerate([tss, f1_score, f1_score]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scores without a positive
            values = [formula(labels[KEPT, j], p[KEPT, j] > tau) for tau in thresholds_between(p[KEPT, j])]
        best.append(max(values))
        assert formula(labels[KEPT, j], model.predict(X)[KEPT, j]) == pytest.approx(best[-1], rel=1e-12)
    assert model.best_score_ == pytest.approx(np.mean(best), rel=1e-12)
    assert model.threshold_.shape == (3,)


def test_classes_are_decided_by_the_threshold(X, y):
    classes = targets_of("classes", X, y)
    model = quick("accuracy").fit(X, classes, validation=KEPT)
    p = model.predict_proba(X)
    assert model.classes_[(p - model.threshold_).argmax(1)].tolist() == model.predict(X).tolist()
    assert model.best_score_ == pytest.approx(accuracy_score(classes[KEPT], model.predict(X)[KEPT]), rel=1e-12)
    assert model.best_score_ >= accuracy_score(classes[KEPT], model.classes_[p[KEPT].argmax(1)]) - 1e-12


def test_a_weight_that_sees_the_threshold(X, y):
    weight = sw.weights.Custom(smooth, window=0)
    model = quick("csi", weight=weight).fit(X, y, validation=KEPT)
    p, truth = torch.from_numpy(model.predict_proba(X)[KEPT, 1]), torch.from_numpy(y[KEPT])
    csi = sw.scores.get("csi")
    values = [csi(sw.confusion_matrix(p, truth, float(tau), weight)).item() for tau in thresholds_between(p.numpy())]
    chosen = csi(sw.confusion_matrix(p, truth, model.threshold_, weight)).item()
    assert chosen == pytest.approx(max(values), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ensemble", [None, "greedy", "mean", "vote"])
def test_shapes_and_signs(X, y, kind, ensemble):
    targets = targets_of(kind, X, y)
    model = quick(ensemble=ensemble).fit(X, targets)
    decided, p, far = model.predict(X), model.predict_proba(X), model.decision_function(X)
    assert decided.shape == targets.shape
    assert p.shape == (ROWS, {"two": 2, "classes": 3, "labels": 3}[kind])
    assert p.dtype == far.dtype == np.float64
    assert ((p >= 0) & (p <= 1)).all()
    if kind == "classes":
        assert far.shape == (ROWS, 3)
        assert model.classes_[far.argmax(1)].tolist() == decided.tolist()
    else:
        assert far.shape == targets.shape
        assert (far > 0).astype(int).tolist() == decided.tolist()


@pytest.mark.parametrize(
    "names", [["no", "yes"], [False, True], [-1, 1], [2.0, 3.0]], ids=["str", "bool", "int", "float"]
)
def test_two_classes_of_any_name(X, y, names):
    names = np.array(names)
    plain, named = quick("f1").fit(X, y), quick("f1").fit(X, names[y])
    assert named.classes_.dtype == names.dtype
    assert named.predict(X).tolist() == names[plain.predict(X)].tolist()
    assert named.score(X, names[y]) == plain.score(X, y)
    assert named.predict_proba(X).tolist() == plain.predict_proba(X).tolist()


def test_the_lesser_class_may_be_the_positive_one(X, y):
    names = np.array(["bad", "good"])
    turned = quick("f1", pos_label="bad").fit(X, names[y])
    same = quick("f1").fit(X, 1 - y)
    assert turned.classes_.tolist() == ["bad", "good"]
    assert turned.best_score_ == same.best_score_
    assert turned.score(X, names[y]) == same.score(X, 1 - y)
    assert turned.predict(X).tolist() == names[1 - same.predict(X)].tolist()
    assert turned.predict_proba(X)[:, 0].tolist() == same.predict_proba(X)[:, 1].tolist()
    assert (turned.predict(X) == "good").tolist() == (turned.decision_function(X) >= 0).tolist()
    with pytest.raises(ValueError, match=r"pos_label must be one of \['bad', 'good'\], saw 'ugly'"):
        quick(pos_label="ugly").fit(X, names[y])
    for kind in ("classes", "labels"):
        with pytest.raises(ValueError, match="pos_label is for two classes"):
            quick(pos_label=1).fit(X, targets_of(kind, X, y))


def test_many_rows_are_predicted_some_at_a_time(X, y):
    model = quick().fit(X, y)
    many = np.tile(X, (100, 1))
    assert model.predict_proba(many).reshape(100, ROWS, 2) == pytest.approx(
        np.broadcast_to(model.predict_proba(X), (100, ROWS, 2)), abs=1e-6
    )  # float32


# --------------------------------------------------------------------------------------------------- what is judged


def test_score_is_the_functional_one(X, y):
    weight, times = sw.weights.Value([0.8, 0.5]), np.random.default_rng(0).permutation(ROWS)
    groups, amounts = np.arange(ROWS) % 2, np.linspace(0, 2, ROWS)
    model = quick("hss", weight=weight).fit(X, y, groups=groups, times=times)
    found = model.score(X, y, amounts, groups=groups, times=times)
    order = np.lexsort([times, groups])
    rest = {"groups": groups[order], "times": times[order], "sample_weight": amounts[order]}
    matrix = sw.confusion_matrix(model.predict(X)[order].astype(float), y[order], 0.5, weight, **rest)
    assert found == pytest.approx(sw.scores.hss(matrix).item(), rel=1e-12)
    assert found != model.score(X, y)


def test_scores_where_less_is_better_are_negated(X, y):
    model = quick("error_rate").fit(X, y, validation=KEPT)
    wrong = (model.predict(X) != y).astype(float)
    assert model.score(X, y) == pytest.approx(-wrong.mean(), rel=1e-12)
    assert model.best_score_ == pytest.approx(-wrong[KEPT].mean(), rel=1e-12)
    assert model.best_score_ == max(one["value"] for one in model.history_)


def test_score_of_classes_and_of_labels(X, y):
    classes, labels = targets_of("classes", X, y), targets_of("labels", X, y)
    amounts = np.linspace(0.5, 2, ROWS)
    model = quick("f1").fit(X, classes)
    assert model.score(X, classes, amounts) == pytest.approx(
        f1_score(classes, model.predict(X), average="macro", sample_weight=amounts), rel=1e-12
    )
    for average in ("macro", "micro", "weighted"):
        model = quick("f1", average=average).fit(X, labels)
        expected = f1_score(labels, model.predict(X), average=average, sample_weight=amounts, zero_division=0)
        assert model.score(X, labels, amounts) == pytest.approx(expected, rel=1e-12)


def test_costs_of_rows_count(X, y):
    costs = np.random.default_rng(0).uniform(0.1, 3, (ROWS, 2))
    model = quick(sw.scores.cost()).fit(X, y, costs=costs)
    decided = model.predict(X)
    by_hand = sum(costs[i, 0] * (decided[i] > y[i]) + costs[i, 1] * (decided[i] < y[i]) for i in range(ROWS))
    assert model.score(X, y, costs=costs) == pytest.approx(-by_hand, rel=1e-9)
    assert told(model, X) != told(quick(sw.scores.cost()).fit(X, y), X)
    labels = targets_of("labels", X, y)
    each = np.random.default_rng(0).uniform(0.1, 3, (ROWS, 3, 2))
    of_labels = quick(sw.scores.cost()).fit(X, labels, costs=each)
    assert math.isfinite(of_labels.score(X, labels, costs=each))
    for odd in (-costs, np.where(costs > 1, np.nan, costs), np.full_like(costs, np.inf)):
        with pytest.raises(ValueError, match=r"costs must be numbers of at least 0, but [0-9]+ of 400 are not"):
            quick().fit(X, y, costs=odd)
    for odd in (costs[:, 0], costs[:, :1], costs[:, :, None], costs[:, None], costs[:-1], 1.0, each):
        shape = re.escape(str(np.shape(odd)))
        with pytest.raises(ValueError, match=rf"costs must have the shape \(200, 2\), saw {shape}"):
            quick().fit(X, y, costs=odd)
        with pytest.raises(ValueError, match=rf"costs must have the shape \(200, 2\), saw {shape}"):
            model.score(X, y, costs=odd)
    for odd in (costs, each[:, :2], each[:, 0], each[..., 0]):
        shape = re.escape(str(np.shape(odd)))
        with pytest.raises(ValueError, match=rf"costs must have the shape \(200, 3, 2\), saw {shape}"):
            quick().fit(X, labels, costs=odd)
    classes = targets_of("classes", X, y)
    for refused in (
        partial(quick(share=0.0).fit, X, classes, costs=costs),
        partial(quick().fit(X, classes).score, X, classes, costs=costs),
    ):
        with pytest.raises(ValueError, match="costs are for two classes or for labels, but there are 3 classes"):
            refused()


def test_rows_of_weight_0_are_absent(X, y):
    """Whatever their targets are, kept for validation or not, they change nothing but what is drawn."""
    absent = np.arange(ROWS) % 5 == 0
    amounts = np.where(absent, 0.0, 1.0)
    order = np.arange(ROWS)  # in series nothing is drawn by class
    flipped = np.where(absent, 1 - y, y)
    one, other = (quick(horizon=1).fit(X, each, amounts, times=order, validation=KEPT) for each in (y, flipped))
    assert told(one, X) == told(other, X)
    assert one.best_score_ == pytest.approx(tss(y[KEPT & ~absent], one.predict(X)[KEPT & ~absent]), rel=1e-12)
    assert told(one, X) != told(quick(horizon=1).fit(X, y, times=order, validation=KEPT), X)


def test_what_is_told_of_a_fit(X, y):
    model = quick(share=(0.0, 0.5, 0.9), evaluations=8).fit(X, y, validation=KEPT)
    own = [one for one in model.history_ if one["share"] == model.share_]
    best = min(own, key=lambda one: (-one["value"], one["log_loss"]))
    assert (model.best_score_, model.threshold_) == (best["value"], best["threshold"])
    assert {one["share"] for one in model.history_} == {0.0, 0.5, 0.9}
    assert set(best) == {"share", "step", "loss", "value", "log_loss", "threshold", "seconds", "chosen"}
    assert [one for one in model.history_ if one["chosen"]] == [best]
    assert all(math.isfinite(one["loss"]) for one in model.history_)
    assert model.n_features_in_ == 5
    assert len(model.networks_) == 1
    assert not any(parameter.requires_grad for parameter in model.networks_[0].parameters())


# ----------------------------------------------------------------------------------------- which rows are kept


class Watched(nn.Module):
    """Keeps which rows (the first column) it was trained on and judged by; all copies in one place."""

    trained, judged = set(), set()

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 1)

    def forward(self, x):
        if self.training:
            self.trained.update(x[:, 0].int().tolist())
        elif len(x) > 2:  # two are tried before
            self.judged.update(x[:, 0].int().tolist())
        return self.linear(x / ROWS)


@pytest.fixture
def watched(X):
    Watched.trained.clear()
    Watched.judged.clear()
    return np.column_stack([np.arange(ROWS), X[:, 1:]])


def test_a_mask_or_numbers_of_rows(watched, y):
    quick(module=Watched()).fit(watched, y, validation=KEPT)
    assert Watched.judged == set(np.flatnonzero(KEPT))
    assert Watched.trained == set(np.flatnonzero(~KEPT))
    numbers = quick().fit(watched, y, validation=np.flatnonzero(KEPT))
    assert told(numbers, watched) == told(quick().fit(watched, y, validation=KEPT), watched)


def test_by_class(watched, y):
    quick(module=Watched(), validation_fraction=0.3).fit(watched, y)
    assert not Watched.trained & Watched.judged
    assert Watched.trained | Watched.judged == set(range(ROWS))
    kept = y[sorted(Watched.judged)]
    assert [(kept == k).sum() for k in (0, 1)] == [round(0.3 * (y == k).sum()) for k in (0, 1)]


def test_groups_are_not_torn_apart(watched, y):
    groups = np.array([f"station {k}" for k in np.arange(ROWS) // 20])
    quick(module=Watched()).fit(watched, y, groups=groups)
    assert not set(groups[sorted(Watched.trained)]) & set(groups[sorted(Watched.judged)])
    assert len(Watched.judged) == 40


@pytest.mark.parametrize(
    ("weight", "horizon", "gap"), [(None, 0, 0), (None, 3, 3), ([0.8, 0.5], 0, 2), ([0.8, 0.5], 3, 5)]
)
def test_the_latest_are_kept_and_those_near_are_left_out(watched, y, weight, horizon, gap):
    times = np.random.default_rng(0).permutation(ROWS)
    value = None if weight is None else sw.weights.Value(weight)
    assert value is None or value.reach == len(weight)
    quick(module=Watched(), weight=value, horizon=horizon).fit(watched, y, times=times)
    assert Watched.judged == set(np.flatnonzero(times >= 160))
    assert Watched.trained == set(np.flatnonzero(times < 160 - gap))


def test_with_a_horizon_rows_are_in_order(watched, y):
    quick(module=Watched(), horizon=4).fit(watched, y)
    assert Watched.judged == set(range(160, 200))
    assert Watched.trained == set(range(156))


def test_series_in_any_order_are_the_same(X, y):
    shuffled = np.random.default_rng(0).permutation(ROWS)
    groups, times = np.arange(ROWS) // 50, np.arange(ROWS) % 50
    model = quick(weight=sw.weights.Value([0.8, 0.5]))
    one = told(model.fit(X, y, groups=groups, times=times), X)
    other = model.fit(X[shuffled], y[shuffled], groups=groups[shuffled], times=times[shuffled])
    assert told(other, X) == one


@pytest.mark.parametrize(
    ("validation", "error", "message"),
    [
        (np.ones(3, bool), ValueError, "validation must tell for each of 200 rows, saw 3"),
        (np.ones(ROWS, bool), ValueError, "of 200 rows 200 are kept, and the 0 to train on have none"),
        (np.zeros(ROWS, bool), ValueError, "of 200 rows 0 are kept, and the 0 kept for validation have none"),
        (np.ones(ROWS), TypeError, r"a mask of rows, or their numbers; saw float64 of shape \(200,\)"),
        (np.ones((ROWS, 1), bool), TypeError, r"a mask of rows, or their numbers; saw bool of shape \(200, 1\)"),
        ([1, 500], ValueError, "numbers of rows from 0 to 199, saw 1 to 500"),
        ([-1, 5], ValueError, "numbers of rows from 0 to 199, saw -1 to 5"),
    ],
    ids=["length", "all", "none", "float", "2-D", "beyond", "negative"],
)
@pytest.mark.parametrize("horizon", [0, 2])
def test_validation_is_checked(X, y, validation, error, message, horizon):
    message = message.replace(" are kept,", " are kept, 0 more being too near to those,") if horizon else message
    with pytest.raises(error, match=message):
        quick(horizon=horizon).fit(X, y, validation=validation)


def test_both_parts_have_two_classes(X, y):
    ones, zeros = np.flatnonzero(y), np.flatnonzero(y == 0)
    for kept, message in (
        (zeros[:20], "of 200 rows 20 are kept, and the 20 kept for validation have one class only"),
        (ones[:20], "of 200 rows 20 are kept, and the 20 kept for validation have one class only"),
        (
            np.r_[ones, zeros[:5]],
            rf"{len(ones) + 5} are kept, and the {len(zeros) - 5} to train on have one class only",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            quick().fit(X, y, validation=kept)
    with pytest.raises(ValueError, match=r"50 are kept, 150 more being too near to those, and the 0 to train on"):
        quick(horizon=2).fit(X, y, validation=KEPT)


def near(rows, gap, places, groups):
    """Rows that are no more than a gap away from some that are kept, by a loop over both."""
    return {
        i for i in range(ROWS) for j in rows if groups[i] == groups[j] and abs(int(places[i]) - int(places[j])) <= gap
    }


@pytest.mark.parametrize(
    ("weight", "horizon", "gap"), [(None, 0, 0), (None, 2, 2), ([0.8, 0.5], 0, 2), ([0.8, 0.5], 3, 5)]
)
@pytest.mark.parametrize("given", ["times", "times and groups", "groups", "neither"])
def test_rows_near_those_of_the_user_are_left_out(watched, y, given, weight, horizon, gap):
    """By time whatever the group; without times, by the place within the group."""
    draw = np.random.default_rng(0)
    groups = np.array(["b", "a", "c"])[draw.integers(0, 3, ROWS)]
    times = (
        draw.permutation(ROWS) if given == "times" else draw.permutation(np.arange(ROWS) // 3 * 5 + np.arange(ROWS) % 3)
    )
    kept = draw.choice(ROWS, 12, replace=False)
    context = {name: value for name, value in (("groups", groups), ("times", times)) if name in given}
    places = np.arange(ROWS)
    if given == "groups":
        places = np.array([(groups[:i] == groups[i]).sum() for i in range(ROWS)])
    elif given != "neither":
        places = times
    value = None if weight is None else sw.weights.Value(weight)
    model = quick(module=Watched(), weight=value, horizon=horizon, steps=60)
    model.fit(watched, y, validation=kept, **context)
    out = near(kept, gap, places, groups if given == "groups" else np.zeros(ROWS)) if gap else set(kept)
    assert Watched.judged == set(kept)
    assert Watched.trained == set(range(ROWS)) - out
    assert (len(out) > len(kept)) == (gap > 0)


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.zeros(ROWS)), "at least two classes, saw 1 class"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples: X has 200, y 199"),
        (lambda X, y: (np.where(X > 2, np.inf, X), y), "contains infinity"),
        (lambda X, y: (X, np.where(y, np.nan, 0)), "Input y contains NaN"),
        (lambda X, y: (X, np.where(y, np.inf, 0)), "Input y contains infinity"),
        (lambda X, y: (X, X[:, 0]), "Unknown label type: continuous"),
        (lambda X, y: (X, np.stack([y, y + 1], 1)), "1d array"),
        (lambda X, y: (X[:, 0], y), "Expected 2D array, got 1D array instead"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:, :, None], y), "dim 3"),
        (lambda X, y: (X, None), "requires y to be passed, but the target y is None"),
    ],
    ids=[
        "one class",
        "length",
        "inf",
        "y NaN",
        "y inf",
        "continuous",
        "outputs",
        "1-D",
        "columns",
        "rows",
        "3-D",
        "no y",
    ],
)
def test_bad_data(X, y, change, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(*change(X, y))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"sample_weight": np.ones(3)}, ValueError, "X has 200, sample_weight 3"),
        ({"sample_weight": -np.ones(ROWS)}, ValueError, "Negative values in data passed to `sample_weight`"),
        ({"groups": np.ones(3)}, ValueError, "X has 200, groups 3"),
        ({"times": np.arange(3)}, ValueError, "X has 200, times 3"),
        ({"times": np.arange(ROWS) / 2}, TypeError, "times must be whole numbers"),
        ({"times": np.arange(ROWS) // 2}, ValueError, "times must differ within a group"),
        ({"costs": np.ones((3, 2))}, ValueError, r"costs must have the shape \(200, 2\), saw \(3, 2\)"),
        ({"groups": [None] * 100 + ["a"] * 100}, TypeError, "groups must be ids of one kind"),
    ],
    ids=["weights", "negative", "groups", "times", "float times", "equal times", "costs", "no group"],
)
def test_bad_context(X, y, given, error, message):
    with pytest.raises(error, match=message):
        quick().fit(X, y, **given)


def test_unknown_classes_are_not_scored(X, y):
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match=r"y must be of the classes \[0, 1\], saw \[2\]"):
        model.score(X, y * 2)
    labels = quick().fit(X, targets_of("labels", X, y))
    with pytest.raises(ValueError, match="y must have 3 labels, saw 2"):
        labels.score(X, targets_of("labels", X, y)[:, :2])


def test_constant_columns_change_nothing(X, y):
    wide = np.column_stack([np.full(ROWS, 7.0), X, np.full(ROWS, np.nan)])
    assert told(quick().fit(wide, y), wide) == told(quick().fit(X, y), X)
    nothing = np.ones((ROWS, 2))
    assert np.ptp(quick().fit(nothing, y).predict_proba(nothing)[:, 1]) == 0


# ------------------------------------------------------------------------------------------------- every parameter

CHANGES = {
    "score": {"score": "f1"},
    "prior": {"prior": sw.priors.RaisedCosine(0.5, 0.2)},
    "weight": {"weight": sw.weights.Cost(fp=3.0)},
    "module": {"module": nn.Linear},
    "share": {"share": 0.9},
    "exact": {"exact": True},
    "balance": {"balance": 1.0},
    "warm_up": {"warm_up": 0.5},
    "shift": ({"warm_up": 0.5}, {"warm_up": 0.5, "shift": True}),
    "batch_size": {"batch_size": 20},
    "steps": {"steps": 20},
    "evaluations": {"evaluations": 2},
    "patience": ({"evaluations": 16}, {"evaluations": 16, "patience": 1}),
    "learning_rate": {"learning_rate": 5e-3},
    "weight_decay": {"weight_decay": 1.0},
    "weight_average": {"weight_average": 0.9},
    "ensemble": {"ensemble": "vote", "ensemble_fraction": 0.1},
    "tune": {"tune": "between"},
    "ensemble_fraction": (
        {"ensemble": "mean", "ensemble_fraction": 1.0},
        {"ensemble": "mean", "ensemble_fraction": 0.1},
    ),
    "members": {"members": 3},
    "width": {"width": 24},
    "depth": {"depth": 2},
    "dropout": {"dropout": 0.5},
    "at_least": {"at_least": {"recall": 0.95}},
    "validation_fraction": {"validation_fraction": 0.4},
    "horizon": {"horizon": 5},
    "pos_label": {"pos_label": 0},
    "fabric": {"fabric": Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")},
    "random_state": {"random_state": 1},
}
ELSEWHERE = {
    "average": "test_score_of_classes_and_of_labels",
    "max_time": "test_training.py",
    "progress": "test_progress",
}


def test_there_is_a_change_for_every_parameter():
    assert set(CHANGES) | set(ELSEWHERE) == set(inspect.signature(ScoreClassifier).parameters)


@pytest.mark.parametrize("name", CHANGES)
def test_every_parameter_matters(X, y, name):
    change = CHANGES[name]
    before, after = change if isinstance(change, tuple) else ({}, change)
    assert name in after
    assert told(quick(**after).fit(X, y), X) != told(quick(**before).fit(X, y), X)


def test_progress(X, y):
    for shown in (True, False, None):
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            quick(progress=shown).fit(X, y)
        assert ("ScoreClassifier" in stderr.getvalue()) == bool(shown)


def without_addresses(value):
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value)) if isinstance(value, dict) else None


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"score": "nonsense"}, ValueError, "nonsense"),
        ({"score": ["tss", "f1"]}, ValueError, "score must be one, or a list of one for each label; saw 2 for two"),
        ({"weight": [None, None]}, ValueError, "weight must be one, or a list of one for each label; saw 2 for two"),
        ({"prior": 3}, TypeError, "prior"),
        ({"prior": (sw.priors.Uniform(), sw.priors.RaisedCosine(0.5, 0.1))}, TypeError, "a pair of the same kind"),
        ({"prior": (sw.priors.Uniform(),)}, TypeError, "a pair of the same kind"),
        ({"weight": 3}, TypeError, "weight"),
        ({"module": 3}, TypeError, "module must be a torch.nn.Module or a function that makes one, saw int"),
        ({"module": lambda inputs, outputs: 3}, TypeError, "module must make a torch.nn.Module, but made int"),
        ({"share": 1.5}, ValueError, "share must be a number from 0 to 1"),
        ({"share": ()}, ValueError, "share must be a number from 0 to 1"),
        ({"share": "half"}, ValueError, "share must be a number from 0 to 1"),
        ({"share": (0.5, "half")}, ValueError, "share must be a number from 0 to 1"),
        ({"share": math.nan}, ValueError, "share must be a number from 0 to 1"),
        ({"exact": 1}, TypeError, "exact must be True or False, saw 1"),
        ({"balance": -1}, ValueError, "balance must be a number from 0 to 1, saw -1"),
        ({"warm_up": 2}, ValueError, "warm_up must be a number from 0 to 1"),
        ({"shift": "yes", "warm_up": 0.5}, TypeError, "shift must be True or False"),
        ({"shift": True}, ValueError, "shift moves the logits after the warm up, but there is none"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number of at least 1, saw 0"),
        ({"steps": 2.5}, ValueError, "steps must be a whole number of at least 1, saw 2.5"),
        ({"evaluations": None}, ValueError, "evaluations must be a whole number of at least 1, saw None"),
        ({"patience": 0}, ValueError, "patience must be a whole number of at least 1, saw 0"),
        ({"learning_rate": 0}, ValueError, "learning_rate must be a number from 1e-09 to 10, saw 0"),
        ({"weight_decay": -1}, ValueError, "weight_decay must be a number from 0 to 1000, saw -1"),
        ({"weight_average": "much"}, ValueError, "weight_average must be a number from 0 to 1, saw 'much'"),
        ({"ensemble": "median"}, ValueError, "ensemble must be 'greedy', 'mean', 'vote' or None, saw 'median'"),
        ({"tune": "exact"}, ValueError, "tune must be 'between', 'best' or 'plug_in', saw 'exact'"),
        ({"ensemble_fraction": 2}, ValueError, "ensemble_fraction must be a number from 0 to 1, saw 2"),
        (
            {"ensemble": "greedy", "ensemble_fraction": 0.5},
            ValueError,
            "ensemble_fraction is for ensemble='mean' and 'vote', but ensemble is 'greedy'",
        ),
        ({"tune": "plug_in", "at_least": {"recall": 0.5}}, ValueError, "may not be what at_least asks for"),
        ({"tune": "plug_in", "ensemble": "vote"}, ValueError, "ensemble='vote' goes by the majority"),
        ({"max_time": 0}, ValueError, "max_time must be a number of seconds greater than 0, saw 0"),
        ({"members": 0}, ValueError, "members must be a whole number of at least 1, saw 0"),
        ({"width": 0}, ValueError, "width must be a whole number of at least 1, saw 0"),
        ({"depth": 0}, ValueError, "depth must be a whole number of at least 1, saw 0"),
        ({"dropout": 2}, ValueError, "dropout must be a number from 0 to 1, saw 2"),
        ({"average": "median"}, ValueError, "average"),
        ({"at_least": {"nonsense": 0.5}}, ValueError, "nonsense"),
        ({"at_least": 0.5}, TypeError, "at_least"),
        ({"validation_fraction": 0}, ValueError, "validation_fraction must be a number between 0 and 1, saw 0"),
        ({"horizon": -1}, ValueError, "horizon must be a whole number of at least 0, saw -1"),
        ({"fabric": "cuda"}, TypeError, "fabric must be a lightning.fabric.Fabric, saw str"),
        ({"progress": "yes"}, TypeError, "progress must be True, False or None, saw 'yes'"),
        ({"random_state": "luck"}, ValueError, "luck"),
    ],
    ids=without_addresses,
)
def test_bad_parameters(X, y, given, error, message):
    with pytest.raises(error, match=message):
        quick(**given).fit(X, y)


@pytest.mark.parametrize(
    "given",
    [
        {"prior": sw.priors.Uniform()},
        {"weight": sw.weights.Cost(fp=2.0)},
        {"at_least": {"recall": 0.5}},
        {"exact": True},
        {"shift": True, "warm_up": 0.5},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_is_not_for_classes(X, y, given):
    with pytest.raises(ValueError, match=f"{next(iter(given))} is for two classes or for labels, but there are 3"):
        quick(**given).fit(X, targets_of("classes", X, y))


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_there_must_be_one_number(X, y, kind):
    with pytest.raises(ValueError, match=f"average must make one number of the {kind}' scores"):
        quick("f1", average=None).fit(X, targets_of(kind, X, y))


def test_one_for_each_label_or_one_for_all(X, y):
    with pytest.raises(ValueError, match="score must be one, or a list of one for each label; saw 2 for 3 labels"):
        quick(["tss", "f1"]).fit(X, targets_of("labels", X, y))


def test_at_least(X, y):
    free, bound = quick("f1").fit(X, y, validation=KEPT), quick("f1", at_least={"recall": 0.95})
    bound.fit(X, y, validation=KEPT)

    def recall(model):
        return (model.predict(X) & y)[KEPT].sum() / y[KEPT].sum()

    assert recall(bound) >= 0.95 > recall(free)
    p = bound.predict_proba(X)[KEPT, 1]
    allowed = [
        f1_score(y[KEPT], p > tau)
        for tau in thresholds_between(p)
        if ((p > tau) & y[KEPT]).sum() >= 0.95 * y[KEPT].sum()
    ]
    assert bound.best_score_ == pytest.approx(max(allowed), rel=1e-12)


def test_at_least_need_not_be_met_from_the_beginning(y):
    """The first networks know nothing yet; the last one does."""
    X = np.where(y == 1, 1.0, -1.0)[:, None] + np.zeros((1, 5))

    def backwards(inputs, outputs):  # begins with the worst there is
        network = nn.Linear(inputs, outputs)
        nn.init.constant_(network.weight, -1.0)
        return network

    model = quick(module=backwards, at_least={"precision": 0.9}, learning_rate=0.2).fit(X, y, validation=KEPT)
    assert model.history_[0]["value"] == -math.inf
    assert model.best_score_ == 1
    with pytest.raises(InfeasibleError, match="at_least"):
        quick(at_least={"precision": 0.9}).fit(np.random.default_rng(0).normal(size=(ROWS, 2)), y)


@pytest.mark.parametrize("ensemble", [None, "greedy", "mean", "vote"])
def test_at_least_that_no_network_meets(y, ensemble):
    noise = np.random.default_rng(0).normal(size=(ROWS, 2))
    with pytest.raises(InfeasibleError, match="at_least"):
        quick(at_least={"precision": 0.9}, ensemble=ensemble).fit(noise, y)


@pytest.mark.parametrize("ensemble", ["mean", "vote"])
@pytest.mark.parametrize("fraction", [0.0, 0.9])
def test_networks_that_did_not_meet_at_least_take_no_part(y, ensemble, fraction):
    X = np.where(y == 1, 1.0, -1.0)[:, None] + np.zeros((1, 5))
    module = nn.Linear(5, 1)
    nn.init.constant_(module.weight, -1.0)
    model = quick(
        "f1",
        module=module,
        at_least={"precision": 0.9},
        ensemble=ensemble,
        ensemble_fraction=fraction,
        learning_rate=0.2,
        evaluations=16,
    ).fit(X, y, validation=KEPT)
    values = [one["value"] for one in model.history_]
    assert values[0] == -math.inf
    met = [one["value"] > -math.inf for one in model.history_]
    assert [one["chosen"] for one in model.history_] == met
    assert 1 < len(model.networks_) == sum(met) < 16
    assert model.best_score_ == 1
    assert model.predict(X).tolist() == y.tolist()


@pytest.mark.parametrize("several", [False, True], ids=["one", "labels"])
def test_a_vote_must_meet_at_least_itself(several):
    """That each member does at a threshold of its own does not tell that the majority does."""
    problem = Labels(2 if several else 1, several, "f1", None, "macro", {"recall": 0.75})
    truth = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    enough, too_few = torch.tensor([1, 1, 1, 0, 0, 0]), torch.tensor([1, 1, 0, 0, 0, 0])
    if several:
        truth = torch.stack([truth, truth], 1)
        enough, too_few = torch.stack([enough, enough], 1), torch.stack([enough, too_few], 1)
    problem.check(enough, truth, {})
    with pytest.raises(InfeasibleError, match=r"the vote of the ensemble does not have a recall of 0\.75"):
        problem.check(too_few, truth, {})


def test_a_vote_is_checked(X, y, monkeypatch):
    seen = []
    monkeypatch.setattr(Labels, "check", lambda self, decisions, targets, context: seen.append((decisions, targets)))
    model = quick(ensemble="vote", at_least={"recall": 0.1}).fit(X, y, validation=KEPT)
    ((decisions, targets),) = seen
    assert targets.tolist() == y[KEPT].tolist()
    assert decisions.tolist() == model.predict(X)[KEPT].tolist()


# -------------------------------------------------------------------------------------------------------- chance


@pytest.mark.parametrize("kind", KINDS)
def test_repeatable(X, y, kind):
    targets = targets_of(kind, X, y)
    one, other = (told(quick(share=(0.0, 0.9)).fit(X, targets), X) for _ in range(2))
    assert one == other
    assert one != told(quick(share=(0.0, 0.9), random_state=1).fit(X, targets), X)
    states = [np.random.RandomState(3) for _ in range(2)]  # what scikit-learn takes
    assert len({told(quick(random_state=state).fit(X, targets), X) for state in states}) == 1


def test_chance_elsewhere_is_as_it_was(X, y):
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002  # the state that is to be left alone
    random.seed(7)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002  # as above
    model = quick(ensemble="mean", warm_up=0.5).fit(X, y)
    model.predict(X)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002  # as above
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    torch.manual_seed(8)
    assert told(quick(ensemble="mean", warm_up=0.5).fit(X, y), X) == told(model, X)


# ------------------------------------------------------------------------------------------------ networks of users


class Reads(nn.Module):
    """A sequence (n, time, columns) by an LSTM."""

    def __init__(self, outputs=1):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.Linear(4, outputs)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def test_a_module_is_not_changed(X, y):
    module = nn.Linear(5, 1)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = quick(module=module).fit(X, y)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert not torch.equal(model.networks_[0].weight, module.weight)
    with torch.no_grad():
        p = torch.sigmoid(model.networks_[0](torch.from_numpy(X).float()).double())[:, 0]
    assert model.predict_proba(X)[:, 1].tolist() == p.tolist()


def test_a_function_is_told_how_wide(X, y):
    asked = []

    def make(inputs, outputs):
        asked.append((inputs, outputs))
        return nn.Linear(inputs, outputs)

    for kind in KINDS:
        model = quick(module=make).fit(X, targets_of(kind, X, y))
        assert model.predict(X).shape == targets_of(kind, X, y).shape
    assert asked == [(5, 1), (5, 3), (5, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_sequences(X, y, kind):
    targets = targets_of(kind, X, y)
    series = np.random.default_rng(0).normal(size=(ROWS, 6, 3)) + y[:, None, None]
    model = quick(module=Reads(1 if kind == "two" else 3), learning_rate=0.05).fit(series, targets)
    assert model.predict(series).shape == targets.shape
    assert model.score(series, targets) > 0.1
    with pytest.raises(ValueError, match="NaN"):
        quick(module=Reads()).fit(np.where(series > 2, np.nan, series), y)


def test_flat_logits_and_members(X, y):
    flat = quick(module=nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)), share=0.9)
    column = quick(module=flat.module[0], share=0.9)
    assert told(flat.fit(X, y), X) == told(column.fit(X, y), X)
    ensemble = quick(module=nn.Sequential(nn.Linear(5, 3), nn.Unflatten(1, (3, 1)))).fit(X, y)
    with torch.no_grad():
        logits = ensemble.networks_[0](torch.from_numpy(X).float()).double()
    assert ensemble.predict_proba(X)[:, 1] == pytest.approx(logits.sigmoid().mean(1)[:, 0].numpy(), rel=1e-12)


@pytest.mark.parametrize(("kind", "width"), [("two", 2), ("classes", 1), ("labels", 2)])
def test_a_module_of_the_wrong_width(X, y, kind, width):
    with pytest.raises(ValueError, match=rf"module must give [13] logits for each sample.*has {width}\."):
        quick(module=nn.Linear(5, width)).fit(X, targets_of(kind, X, y))


def test_a_module_that_returns_no_logits(X, y):
    with pytest.raises(TypeError, match="module must return a tensor of logits, but returned tuple"):
        quick(module=nn.LSTM(5, 1)).fit(X, y)


@pytest.mark.parametrize("precision", ["bf16-true", "64-true", "bf16-mixed"])
@pytest.mark.parametrize("given", ["table", "module", "all"])
def test_trained_in_any_precision(X, y, precision, given):
    """What is predicted with after that is float32."""
    options = {"fabric": Fabric(accelerator="cpu", devices=1, precision=precision)}
    if given == "module":
        options["module"] = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    if given == "all":
        options |= {"share": (0.0, 0.9), "warm_up": 0.5, "shift": True, "weight_average": 0.5, "ensemble": "mean"}
    model = quick(**options).fit(X, y, validation=KEPT)
    for network in model.networks_:
        kinds = {value.dtype for value in network.state_dict().values() if value.is_floating_point()}
        assert kinds == {torch.float32}
        assert {parameter.device.type for parameter in network.parameters()} == {"cpu"}
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert model.score(X[KEPT], y[KEPT]) == pytest.approx(model.best_score_, rel=1e-12)
    assert model.score(X, y) > 0.2


# ------------------------------------------------------------------------------------------------------- ensembles


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["mean", "vote"])
def test_an_ensemble_is_a_loop_over_networks(X, y, kind, by):
    targets = targets_of(kind, X, y)
    model = quick(
        module=nn.Linear(5, 1 if kind == "two" else 3), ensemble=by, ensemble_fraction=0.3, learning_rate=0.05
    ).fit(X, targets, validation=KEPT)
    bar = 0.3 * max(one["value"] for one in model.history_)
    good = [one for one in model.history_ if one["value"] >= bar]
    assert len(model.networks_) == len(good) > 1
    x, votes = torch.from_numpy(X).float(), []
    for network, one in zip(model.networks_, good, strict=True):
        with torch.no_grad():
            logits = network(x).double()
        p = (logits.softmax(1) if kind == "classes" else logits.sigmoid()).numpy()
        if by == "vote" and kind == "classes":
            p = np.eye(3)[(p - one["threshold"]).argmax(1)]
        elif by == "vote":
            p = (p > one["threshold"]).astype(float)
        votes.append(p)
    mean = np.mean(votes, 0)
    found = model.predict_proba(X)
    assert found[:, 1:] == pytest.approx(mean if kind == "two" else mean[:, 1:], rel=1e-12, abs=1e-15)
    if by == "vote" and kind != "classes":
        majority = (mean > 0.5).astype(int)
        assert model.predict(X).tolist() == (majority[:, 0] if kind == "two" else majority).tolist()
    if by == "vote" and kind == "classes":
        assert model.predict(X).tolist() == model.classes_[mean.argmax(1)].tolist()


@pytest.mark.parametrize("warm_up", [0.0, 0.5])
def test_a_greedy_ensemble_is_what_a_loop_chooses(X, y, warm_up):
    """Begin with the best; five times add the one with which the best TSS of all thresholds is greatest.

    Where it is the same, the log loss decides.
    """
    y = np.where(np.arange(ROWS) % 5 == 2, 1 - y, y)  # so that none is right always
    options = {"evaluations": 8, "warm_up": warm_up, "learning_rate": 0.03}
    model = quick(ensemble="greedy", **options).fit(X, y, validation=KEPT)
    everyone = quick(ensemble="mean", ensemble_fraction=0.0, **options).fit(X, y, validation=KEPT)
    assert len(everyone.networks_) == 8
    said = []
    for network in everyone.networks_:
        with torch.no_grad():
            inputs = everyone._inputs(everyone._table(X, reset=False))
            said.append(network(*inputs).double().sigmoid().mean(1)[:, 0].numpy())

    def best_tss(p):
        return max((p > t)[y[KEPT] == 1].mean() - (p > t)[y[KEPT] == 0].mean() for t in [-1, *p])

    chosen = []
    while len(chosen) < 6:
        means = [np.mean([said[k][KEPT] for k in [*chosen, new]], 0) for new in range(8)]
        # a few roundings make no difference
        tried = [(round(best_tss(p), 12), -log_loss(y[KEPT], p)) for p in means]
        chosen.append(tried.index(max(tried)))
    assert len(set(chosen)) > 1
    assert model.predict_proba(X)[:, 1] == pytest.approx(np.mean([said[k] for k in chosen], 0), rel=1e-9)
    assert [one["chosen"] for one in model.history_] == [k in chosen for k in range(8)]
    assert len(model.networks_) == len(set(chosen))


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("score", ["tss", "error_rate"])
def test_what_is_good_enough(X, y, score, fraction):
    """A fraction of the best; where less is better, no more than 1 - fraction beyond it."""
    model = quick(score, ensemble="mean", ensemble_fraction=fraction, evaluations=16).fit(X, y)
    values = [abs(one["value"]) for one in model.history_]
    if score == "tss":
        good = [value for value in values if value >= fraction * max(values)]
    else:
        good = [value for value in values if value <= (2 - fraction) * min(values)]
    assert len(model.networks_) == len(good)
    assert fraction == 0 or len(good) < 16


# ------------------------------------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize("kind", ["two", "labels"])
def test_the_threshold_is_between_the_best_and_what_is_asked_for(X, y, kind):
    targets = targets_of(kind, X, y)
    score = ["tss", "f1", "hss"] if kind == "labels" else "f1"
    best, asked, between = (
        np.atleast_1d(quick(score, tune=how).fit(X, targets, validation=KEPT).threshold_)
        for how in ("best", "plug_in", "between")
    )
    log_odds = [np.log(t / (1 - t)) for t in (best, asked, between)]
    assert log_odds[2] == pytest.approx((log_odds[0] + log_odds[1]) / 2, rel=1e-6)
    assert not np.allclose(best, asked, rtol=1e-3)


def test_where_a_threshold_must_meet_something_it_is_the_best_that_does(X, y):
    at_least = {"recall": 0.8}
    models = [quick(tune=how, at_least=at_least).fit(X, y, validation=KEPT) for how in ("best", "between")]
    assert models[0].threshold_ == models[1].threshold_
    assert models[1].predict(X[KEPT])[y[KEPT] == 1].mean() >= 0.8


# ------------------------------------------------------------------------------------------------------------ files


@pytest.fixture(scope="module")
def frame(X, y):
    return pd.DataFrame(X, columns=list("abcde")).assign(
        kind=np.where(X[:, 0] > 0, "up", "down"), flag=X[:, 1] > 0, level=np.where(X[:, 2] > 1, np.nan, X[:, 2])
    )


@pytest.mark.parametrize("names", [["no", "yes"], [3, 5], [False, True]], ids=["str", "int", "bool"])
def test_saved_and_loaded(frame, y, names, tmp_path):
    model = quick(
        "f1",
        prior=(sw.priors.RaisedCosine(0.5, 0.4), sw.priors.RaisedCosine(0.5, 0.2)),
        weight=sw.weights.Cost(fp=2.0),
        share=(0.5, 1.0),
        warm_up=0.25,
        shift=True,
        ensemble="mean",
        ensemble_fraction=0.5,
        at_least={"recall": 0.1},
        pos_label=names[0],
    ).fit(frame, np.array(names)[y])
    path = tmp_path / "model"
    model.save(path)
    twin = ScoreClassifier.load(path)
    assert told(twin, frame) == told(model, frame)
    assert twin.history_ == model.history_
    assert twin.predict(frame).tolist() == model.predict(frame).tolist()
    assert twin.decision_function(frame).tolist() == model.decision_function(frame).tolist()
    assert twin.classes_.dtype == model.classes_.dtype
    assert twin.classes_.tolist() == model.classes_.tolist()
    assert twin.score(frame, np.array(names)[y]) == model.score(frame, np.array(names)[y])
    assert twin.share_ == model.share_
    assert twin.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert twin.n_features_in_ == 8
    unlike = {name for name, value in model.get_params().items() if repr(twin.get_params()[name]) != repr(value)}
    assert unlike <= {"progress"}
    again = clone(twin).set_params(progress=False).fit(frame, np.array(names)[y])
    assert told(again, frame) == told(model, frame)


@pytest.mark.parametrize("kind", ["classes", "labels"])
@pytest.mark.parametrize("ensemble", [None, "greedy", "vote"])
def test_classes_and_labels_are_saved(X, y, kind, ensemble, tmp_path):
    model = quick(["tss", "f1", "hss"] if kind == "labels" else "f1", ensemble=ensemble).fit(X, targets_of(kind, X, y))
    model.save(tmp_path / "model")
    twin = ScoreClassifier.load(tmp_path / "model")
    assert told(twin, X) == told(model, X)
    assert twin.predict(X).tolist() == model.predict(X).tolist()


def test_value_weights_are_saved(X, y, tmp_path):
    model = quick(weight=sw.weights.Value([0.8, 0.5], isolated=2.0) * sw.weights.ClassFrequency()).fit(X, y)
    model.save(tmp_path / "model")
    twin = ScoreClassifier.load(tmp_path / "model")
    assert twin.score(X, y) == model.score(X, y)


def test_a_saved_file_holds_no_code(X, y, tmp_path):
    path = tmp_path / "model"
    quick().fit(X, y).save(path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")  # a header in JSON, and then numbers
    header = json.loads(content[8 : 8 + size])
    numbers = [one["data_offsets"] for name, one in header.items() if name != "__metadata__"]
    assert sum(end - begin for begin, end in numbers) == len(content) - 8 - size
    # which of these depends on the length of the header, in which seconds are told
    with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, IndexError)):
        pickle.loads(content)  # noqa: S301  # of our own making


def test_networks_of_users_are_saved_without_code(X, y, tmp_path):
    def make(inputs, outputs):
        return nn.Linear(inputs, outputs)

    path = tmp_path / "model"
    for module in (make, nn.Linear(5, 1)):
        model = quick(module=module).fit(X, y)
        model.save(path)
        assert told(ScoreClassifier.load(path, module=module), X) == told(model, X)
    with pytest.raises(ValueError, match="a network of your own, and no code: pass module="):
        ScoreClassifier.load(path)


def test_what_cannot_be_saved(X, y, tmp_path):
    own = sw.scores.Score("own", lambda tn, fp, fn, tp: tp / (tp + fp + fn + 1))
    for name, model in {
        "score": quick(own),
        "weight": quick(weight=sw.weights.Custom(smooth, window=0)),
    }.items():
        model.fit(X, y)
        with pytest.raises(TypeError, match=f"{name} cannot be saved"):
            model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_files_that_are_none(X, y, tmp_path):
    path = tmp_path / "model"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ScoreClassifier.load(path)
    quick().fit(X, y).save(path)
    whole = path.read_bytes()
    for damaged in (whole[:-5], whole[:100], b"", b"no such thing", whole[:8] + b"\0" * 50 + whole[58:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"is no classifier that ScoreClassifier.save has written"):
            ScoreClassifier.load(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"is no classifier that ScoreClassifier.save has written"):
        ScoreClassifier.load(path)


@pytest.mark.parametrize("kind", ["two", "labels", "classes"])
def test_the_log_loss_of_every_evaluation_is_told(X, y, kind):
    """As scikit-learn has it, of the rows that were kept and count."""
    targets = targets_of(kind, X, y)
    amounts = np.where(np.arange(ROWS) % 3 == 0, 0.0, 1.0 + np.arange(ROWS) % 2)
    options = {"evaluations": 3, "ensemble": "mean", "ensemble_fraction": 0.0}
    model = quick(**options).fit(X, targets, amounts, validation=KEPT)
    assert len(model.networks_) == 3
    for network, one in zip(model.networks_, model.history_, strict=True):
        with torch.no_grad():
            logits = network(*model._inputs(model._table(X[KEPT], reset=False))).double()
        if kind == "classes":
            found = log_loss(targets[KEPT], logits.softmax(-1).mean(1).numpy(), sample_weight=amounts[KEPT])
        else:
            each = logits.sigmoid().mean(1).numpy().T
            columns = np.atleast_2d(targets[KEPT].T)
            pairs = zip(columns, each, strict=True)
            found = np.mean([log_loss(labels, p, sample_weight=amounts[KEPT]) for labels, p in pairs])
        assert one["log_loss"] == pytest.approx(found, rel=1e-9)


def test_of_networks_that_all_decide_well_the_surest_predicts():
    """Every moment separates the classes; the last has learnt most, and an average with the first would spoil it."""
    X = np.linspace(-1, 1, 200)[:, None]
    y = (X[:, 0] > 0).astype(int)
    model = quick(ensemble="greedy", evaluations=6).fit(X, y)
    assert len({one["value"] for one in model.history_}) == 1
    least = min(model.history_, key=lambda one: one["log_loss"])
    assert [one for one in model.history_ if one["chosen"]] == [least]
    assert least != model.history_[0]


@pytest.mark.parametrize("name", ["sample_weight", "costs"])
@pytest.mark.parametrize("part", ["to train on", "kept for validation"])
def test_rows_of_which_none_counts_are_refused(X, y, name, part):
    none = KEPT if part == "kept for validation" else ~KEPT
    amounts = np.where(none, 0.0, 1.0)
    given = {name: amounts if name == "sample_weight" else np.stack([amounts, amounts], 1)}
    told = f"{name} must be greater than 0 of some row {part}, but is 0 of all {none.sum()}"
    with pytest.raises(ValueError, match=told):
        quick().fit(X, y, validation=KEPT, **given)


def test_what_probabilities_ask_for_is_for_labels(X, y):
    with pytest.raises(ValueError, match="tune='plug_in' is for two classes or for labels, but there are 3 classes"):
        quick(tune="plug_in").fit(X, targets_of("classes", X, y))


@pytest.mark.parametrize("warm_up", [0.0, 0.3, 0.5])
def test_the_end_of_a_warm_up_is_no_evaluation_more(X, y, warm_up):
    """None drops out there, so that all have been looked at as often as was asked for."""
    model = quick(steps=23, evaluations=5, warm_up=warm_up).fit(X, y)
    assert [one["step"] for one in model.history_] == [5, 10, 15, 20, 23]
