"""Train a classifier for the score it will be judged by.

>>> import scorewise as sw
>>> loss = sw.ScoreLoss("tss")  # minus the true skill statistic, expected over the threshold
"""

from typing import TYPE_CHECKING

from scorewise import curves, datasets, metrics, multiclass, parallel, priors, scores, series, weights
from scorewise._extras import loader
from scorewise.confusion import ConfusionMatrix, confusion_matrix, expected_confusion_matrix
from scorewise.curves import ScoreCurve, best_threshold, score_curve, theorem_gap
from scorewise.ensemble import EpochEnsemble
from scorewise.losses import CombinedLoss, ScoreLoss
from scorewise.multiclass import OneVsRestLoss, SimplexLoss

if TYPE_CHECKING:
    from scorewise.estimator import ScoreClassifier, ScoreThresholdClassifier

__version__ = "0.1.0"

__all__ = [
    "CombinedLoss",
    "ConfusionMatrix",
    "EpochEnsemble",
    "OneVsRestLoss",
    "ScoreClassifier",
    "ScoreCurve",
    "ScoreLoss",
    "ScoreThresholdClassifier",
    "SimplexLoss",
    "best_threshold",
    "confusion_matrix",
    "curves",
    "datasets",
    "expected_confusion_matrix",
    "metrics",
    "multiclass",
    "parallel",
    "priors",
    "score_curve",
    "scores",
    "series",
    "theorem_gap",
    "weights",
]

__getattr__ = loader(
    __name__,
    {
        "ScoreClassifier": ("estimator.classifier", "sklearn"),
        "ScoreThresholdClassifier": ("estimator.threshold", "sklearn"),
    },
)
