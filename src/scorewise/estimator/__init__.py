"""scikit-learn estimators (extra: sklearn)."""

from typing import TYPE_CHECKING

from scorewise._extras import loader

if TYPE_CHECKING:
    from scorewise.estimator.classifier import ScoreClassifier
    from scorewise.estimator.threshold import ScoreThresholdClassifier

__all__ = ["ScoreClassifier", "ScoreThresholdClassifier"]

__getattr__ = loader(
    __name__,
    {"ScoreClassifier": ("classifier", "sklearn"), "ScoreThresholdClassifier": ("threshold", "sklearn")},
)
