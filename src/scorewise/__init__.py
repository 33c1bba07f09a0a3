"""Train a classifier for the score it will be judged by.

>>> import scorewise as sw
>>> loss = sw.ScoreLoss("tss")  # minus the true skill statistic, expected over the threshold
"""

from scorewise import curves, datasets, multiclass, parallel, priors, scores, series, weights
from scorewise.confusion import ConfusionMatrix, confusion_matrix, expected_confusion_matrix
from scorewise.curves import ScoreCurve, best_threshold, score_curve, theorem_gap
from scorewise.losses import CombinedLoss, ScoreLoss
from scorewise.multiclass import OneVsRestLoss, SimplexLoss

__version__ = "0.1.0"

__all__ = [
    "CombinedLoss",
    "ConfusionMatrix",
    "OneVsRestLoss",
    "ScoreCurve",
    "ScoreLoss",
    "SimplexLoss",
    "best_threshold",
    "confusion_matrix",
    "curves",
    "datasets",
    "expected_confusion_matrix",
    "multiclass",
    "parallel",
    "priors",
    "score_curve",
    "scores",
    "series",
    "theorem_gap",
    "weights",
]
