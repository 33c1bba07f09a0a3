"""Losses: minus a score of the expected confusion matrix, or minus the expected score; and several at once."""

from scorewise.losses.combined import CombinedLoss
from scorewise.losses.score import ScoreLoss

__all__ = ["CombinedLoss", "ScoreLoss"]
