"""Scores of many batches, for torchmetrics (extra: metrics), and as scorers of scikit-learn (extra: sklearn)."""

from typing import TYPE_CHECKING

from scorewise._extras import loader

if TYPE_CHECKING:
    from scorewise.metrics.classes import MulticlassScore
    from scorewise.metrics.scorers import make_scorer
    from scorewise.metrics.weighted import WeightedScore

__all__ = ["MulticlassScore", "WeightedScore", "make_scorer"]

# Each when it is asked for: whoever has one extra need not have the other.
__getattr__ = loader(
    __name__,
    {
        "MulticlassScore": ("classes", "metrics"),
        "WeightedScore": ("weighted", "metrics"),
        "make_scorer": ("scorers", "sklearn"),
    },
)


def __dir__() -> list[str]:
    return __all__
