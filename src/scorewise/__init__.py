"""Train a classifier for the score it will be judged by.

>>> import scorewise as sw
>>> loss = sw.ScoreLoss("tss")  # minus the true skill statistic, expected over the threshold
"""

from typing import TYPE_CHECKING

from scorewise._extras import loader

if TYPE_CHECKING:
    from scorewise import (
        curves,
        datasets,
        evaluation,
        metrics,
        multiclass,
        parallel,
        priors,
        report,
        scores,
        series,
        weights,
    )
    from scorewise.confusion import ConfusionMatrix, confusion_matrix, expected_confusion_matrix
    from scorewise.curves import ScoreCurve, best_threshold, score_curve, theorem_gap
    from scorewise.ensemble import EpochEnsemble
    from scorewise.estimator import ScoreClassifier, ScoreThresholdClassifier
    from scorewise.losses import CombinedLoss, ScoreLoss
    from scorewise.multiclass import OneVsRestLoss, SimplexLoss

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
    "evaluation",
    "expected_confusion_matrix",
    "metrics",
    "multiclass",
    "parallel",
    "priors",
    "report",
    "score_curve",
    "scores",
    "series",
    "theorem_gap",
    "weights",
]

# Loaded when they are asked for: the command line must not wait for PyTorch to complete a word.
_HOMES = {
    "confusion": ("ConfusionMatrix", "confusion_matrix", "expected_confusion_matrix"),
    "curves": ("ScoreCurve", "best_threshold", "curves", "score_curve", "theorem_gap"),
    "datasets": ("datasets",),
    "ensemble": ("EpochEnsemble",),
    "evaluation": ("evaluation",),
    "losses": ("CombinedLoss", "ScoreLoss"),
    "metrics": ("metrics",),
    "multiclass": ("OneVsRestLoss", "SimplexLoss", "multiclass"),
    "parallel": ("parallel",),
    "priors": ("priors",),
    "report": ("report",),
    "scores": ("scores",),
    "series": ("series",),
    "weights": ("weights",),
}
__getattr__ = loader(
    __name__,
    {name: (home, "") for home, names in _HOMES.items() for name in names}
    | {
        "ScoreClassifier": ("estimator.classifier", "sklearn"),
        "ScoreThresholdClassifier": ("estimator.threshold", "sklearn"),
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
