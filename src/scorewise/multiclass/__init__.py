"""Classes that exclude each other: the threshold on the simplex, its m × m matrix, scores and losses."""

from scorewise.multiclass import scores
from scorewise.multiclass.losses import OneVsRestLoss, SimplexLoss
from scorewise.multiclass.matrix import MulticlassMatrix, confusion_matrix, expected_confusion_matrix
from scorewise.multiclass.search import best_tau
from scorewise.multiclass.simplex import class_chances, decide

__all__ = [
    "MulticlassMatrix",
    "OneVsRestLoss",
    "SimplexLoss",
    "best_tau",
    "class_chances",
    "confusion_matrix",
    "decide",
    "expected_confusion_matrix",
    "scores",
]
