"""The scores.

Each is written with as few divisions as it allows, because each can be by zero and some have no gradient there: F1 as
2TP / (2TP + FP + FN) still learns at TP = 0, as a ratio of precision and recall it does not. A term with a zero
denominator is 0 and has no gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from scorewise._values import is_number, number
from scorewise.scores.base import Score, ratio, root


def _accuracy(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp + tn, tp + tn + fp + fn)


def _error_rate(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(fp + fn, tp + tn + fp + fn)


def _precision(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp, tp + fp)


def _recall(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp, tp + fn)


def _specificity(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tn, tn + fp)


def _npv(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tn, tn + fn)


@dataclass(frozen=True)
class _FBeta:
    beta: float

    def __call__(self, tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
        square = self.beta * self.beta
        # (1 + beta^2) divided out: neither a huge nor a tiny beta leaves the range of numbers.
        on_fp = 1 / (1 + square)
        return ratio(tp, tp + on_fp * fp + (1 - on_fp) * fn)


def _tss(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp, tp + fn) + ratio(tn, tn + fp) - 1


def _balanced_accuracy(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return (ratio(tp, tp + fn) + ratio(tn, tn + fp)) / 2


def _gmean(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return root(ratio(tp, tp + fn) * ratio(tn, tn + fp))


def _hss(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(2 * (tp * tn - fp * fn), (tp + fn) * (fn + tn) + (tp + fp) * (fp + tn))


def _csi(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp, tp + fp + fn)


def _gss(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    # (TP - r) / (TP + FP + FN - r) with r = (TP+FP)(TP+FN)/n hits by chance, times n above and below
    gain = tp * tn - fp * fn
    return ratio(gain, gain + (fp + fn) * (tp + tn + fp + fn))


def _mcc(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp * tn - fp * fn, root((tp + fp) * (tp + fn)) * root((tn + fp) * (tn + fn)))


def _fowlkes_mallows(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp, root(tp + fp) * root(tp + fn))


def _yule_q(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    return ratio(tp * tn - fp * fn, tp * tn + fp * fn)


def _sedi(tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
    # With H = TP/P and F = FP/N the index is (log wrong - log right) / (log wrong + log right), where
    # wrong = F(1-H) and right = H(1-F). As wrong -> 0 it tends to 1, as right -> 0 to -1; where both are 0 it has no
    # limit and is 0, as every term without a value is.
    both = ratio(torch.stack([fp * fn, tp * tn]), (tp + fn) * (tn + fp))
    none = both < torch.finfo(both.dtype).tiny
    log_wrong, log_right = both.masked_fill(none, 1.0).log().unbind()
    inside = ratio(log_right - log_wrong, -log_wrong - log_right)
    no_wrong, no_right = none.unbind()
    return torch.where(no_wrong | no_right, no_wrong.to(both.dtype) - no_right.to(both.dtype), inside)


@dataclass(frozen=True)
class _Cost:
    fp: float
    fn: float
    tn: float
    tp: float

    def __call__(self, tn: Tensor, fp: Tensor, fn: Tensor, tp: Tensor) -> Tensor:
        errors = self.fp * fp + self.fn * fn
        return -(errors + self.tn * tn + self.tp * tp) if self.tn or self.tp else -errors


accuracy = Score(
    "accuracy",
    _accuracy,
    r"\frac{TP + TN}{TP + TN + FP + FN}",
    (0.0, 1.0),
    linearity="totals",
    synonyms=("acc", "accuracy_score", "fraction_correct", "proportion_correct", "percent_correct"),
)
error_rate = Score(
    "error_rate",
    _error_rate,
    r"\frac{FP + FN}{TP + TN + FP + FN}",
    (0.0, 1.0),
    greater_is_better=False,
    linearity="totals",
    synonyms=("zero_one_loss", "misclassification_rate"),
)
precision = Score(
    "precision",
    _precision,
    r"\frac{TP}{TP + FP}",
    (0.0, 1.0),
    synonyms=("precision_score", "ppv", "positive_predictive_value", "success_ratio"),
)
recall = Score(
    "recall",
    _recall,
    r"\frac{TP}{TP + FN}",
    (0.0, 1.0),
    linearity="totals",
    synonyms=(
        "recall_score",
        "sensitivity",
        "pod",
        "probability_of_detection",
        "hit_rate",
        "tpr",
        "true_positive_rate",
    ),
)
specificity = Score(
    "specificity",
    _specificity,
    r"\frac{TN}{TN + FP}",
    (0.0, 1.0),
    linearity="totals",
    synonyms=("tnr", "true_negative_rate", "selectivity"),
)
npv = Score("npv", _npv, r"\frac{TN}{TN + FN}", (0.0, 1.0), synonyms=("negative_predictive_value",))
f1 = Score(
    "f1",
    _FBeta(1.0),
    r"\frac{2\,TP}{2\,TP + FP + FN}",
    (0.0, 1.0),
    synonyms=("f1_score", "f_score", "f_measure", "dice", "sorensen", "sorensen_dice"),
)
tss = Score(
    "tss",
    _tss,
    r"\frac{TP}{TP + FN} + \frac{TN}{TN + FP} - 1",
    (-1.0, 1.0),
    linearity="totals",
    synonyms=(
        "true_skill_statistic",
        "youden_j",
        "youdens_j",
        "youden",
        "pss",
        "peirce",
        "peirce_skill_score",
        "hanssen_kuipers",
        "hanssen_and_kuipers_discriminant",
        "hkd",
        "kss",
        "informedness",
        "bookmaker_informedness",
    ),
    empty_value=-1.0,
)
hss = Score(
    "hss",
    _hss,
    r"\frac{2(TP \cdot TN - FP \cdot FN)}{(TP + FN)(FN + TN) + (TP + FP)(FP + TN)}",
    (-1.0, 1.0),
    synonyms=("heidke", "heidke_skill_score"),
)
kappa = replace(hss, name="kappa", synonyms=("cohen_kappa", "cohens_kappa", "cohen_kappa_score"))
csi = Score(
    "csi",
    _csi,
    r"\frac{TP}{TP + FP + FN}",
    (0.0, 1.0),
    synonyms=("threat_score", "ts", "critical_success_index"),
)
jaccard = replace(csi, name="jaccard", synonyms=("jaccard_index", "jaccard_score", "iou", "tanimoto"))
gss = Score(
    "gss",
    _gss,
    r"\frac{TP - r}{TP + FP + FN - r},\quad r = \frac{(TP + FP)(TP + FN)}{TP + TN + FP + FN}",
    (-1 / 3, 1.0),
    synonyms=("ets", "equitable_threat_score", "gilbert", "gilbert_skill_score", "gilberts_skill_score"),
)
mcc = Score(
    "mcc",
    _mcc,
    r"\frac{TP \cdot TN - FP \cdot FN}{\sqrt{(TP + FP)(TP + FN)(TN + FP)(TN + FN)}}",
    (-1.0, 1.0),
    synonyms=("matthews", "matthews_corrcoef", "matthews_correlation", "phi", "phi_coefficient"),
)
balanced_accuracy = Score(
    "balanced_accuracy",
    _balanced_accuracy,
    r"\frac12\left(\frac{TP}{TP + FN} + \frac{TN}{TN + FP}\right)",
    (0.0, 1.0),
    linearity="totals",
    synonyms=("balanced_accuracy_score", "bacc", "bac"),
)
gmean = Score(
    "gmean",
    _gmean,
    r"\sqrt{\frac{TP}{TP + FN} \cdot \frac{TN}{TN + FP}}",
    (0.0, 1.0),
    synonyms=("g_mean", "geometric_mean"),
)
fowlkes_mallows = Score(
    "fowlkes_mallows",
    _fowlkes_mallows,
    r"\frac{TP}{\sqrt{(TP + FP)(TP + FN)}}",
    (0.0, 1.0),
    synonyms=("fowlkes_mallows_index", "fm", "fmi", "g_measure"),
)
yule_q = Score(
    "yule_q",
    _yule_q,
    r"\frac{TP \cdot TN - FP \cdot FN}{TP \cdot TN + FP \cdot FN}",
    (-1.0, 1.0),
    synonyms=("yules_q", "orss", "odds_ratio_skill_score"),
)
sedi = Score(
    "sedi",
    _sedi,
    r"\frac{\log F - \log H - \log(1 - F) + \log(1 - H)}{\log F + \log H + \log(1 - F) + \log(1 - H)},"
    r"\quad H = \frac{TP}{TP + FN},\ F = \frac{FP}{FP + TN}",
    (-1.0, 1.0),
    synonyms=("symmetric_extremal_dependence_index",),
)


def fbeta(beta: float) -> Score:
    """The F score that values recall ``beta`` times as much as precision.

    Args:
        beta: Greater than 0; 1 gives F1.

    Example:
        >>> fbeta(2).name
        'fbeta(2)'
    """
    if not is_number(beta) or not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"fbeta: beta must be a finite number greater than 0, saw {beta!r}.")
    square = number(beta * beta)
    return Score(
        f"fbeta({number(beta)})",
        _FBeta(float(beta)),
        rf"\frac{{(1 + {square})\,TP}}{{(1 + {square})\,TP + {square}\,FN + FP}}",
        (0.0, 1.0),
    )


def cost(fp: float = 1.0, fn: float = 1.0, *, tn: float = 0.0, tp: float = 0.0) -> Score:
    """Minus the total cost; 0 is perfect, or, if right decisions cost something too, out of reach.

    Args:
        fp: Cost of a false positive, at least 0.
        fn: Cost of a false negative, at least 0.
        tn: Cost of a true negative, at least 0.
        tp: Cost of a true positive, at least 0.

    Example:
        >>> cost(fp=1, fn=20).name
        'cost(fp=1, fn=20)'
    """
    costs = {"fp": fp, "fn": fn, "tn": tn, "tp": tp}
    for name, value in costs.items():
        if not is_number(value) or not (math.isfinite(value) and value >= 0):
            raise ValueError(f"cost: {name} must be a finite number of at least 0, saw {value!r}.")
    told = {name: number(value) for name, value in costs.items() if name in {"fp", "fn"} or value}
    return Score(
        "cost" if fp == fn == 1 and len(told) == 2 else f"cost({', '.join(f'{k}={v}' for k, v in told.items())})",
        _Cost(float(fp), float(fn), float(tn), float(tp)),
        "-(" + " + ".join(rf"{value}\,{name.upper()}" for name, value in told.items()) + ")",
        (-math.inf, 0.0),
        linearity="cells",
    )


ALL = (
    accuracy,
    error_rate,
    precision,
    recall,
    specificity,
    npv,
    f1,
    tss,
    hss,
    csi,
    gss,
    mcc,
    balanced_accuracy,
    gmean,
    fowlkes_mallows,
    kappa,
    jaccard,
    yule_q,
    sedi,
    cost(),
)
"""Every score that needs no arguments."""
