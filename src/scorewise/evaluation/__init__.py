"""Predictions of any model, judged: at a threshold and at every one, over time, part by part, against each other."""

from scorewise.evaluation.evaluate import evaluate
from scorewise.evaluation.results import (
    Bin,
    Curve,
    Difference,
    Evaluation,
    Judged,
    Model,
    Part,
    Resampling,
    Stretch,
)
from scorewise.evaluation.streaming import StreamingEvaluation

__all__ = [
    "Bin",
    "Curve",
    "Difference",
    "Evaluation",
    "Judged",
    "Model",
    "Part",
    "Resampling",
    "StreamingEvaluation",
    "Stretch",
    "evaluate",
]
