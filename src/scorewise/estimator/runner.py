"""A network in the race between shares of the score, and how good it has been."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from scorewise.ensemble import least

State = dict[str, Tensor]

_FEW = 3  # evaluations to rank a runner by


@dataclass(frozen=True)
class Evaluation:
    """How good a network was on the validation rows, at the threshold that is best for them.

    Attributes:
        share: The share of the score in the loss.
        step: How many steps were done.
        loss: The mean of the loss since the evaluation before.
        value: The score on the validation rows, negated if less is better.
        log_loss: Cross entropy on these rows.
        threshold: The best threshold; of labels or classes, one for each.
        seconds: Since the beginning.
    """

    share: float
    step: int
    loss: float
    value: float
    log_loss: float
    threshold: float | list[float]
    seconds: float

    @property
    def place(self) -> tuple[float, float]:
        """Greater is better."""
        return place(self.value, self.log_loss)


def place(value: float, log_loss: float) -> tuple[float, float]:
    """What to compare networks by: the score, and of equal scores, which small tables have many of, the log loss.

    Args:
        value: The score, greater is better. What is left of it by rounding is no difference.
        log_loss: Less is better.
    """
    return round(value, 12), -log_loss


@dataclass
class Runner:
    """A network in the race, trained with a share of the score."""

    share: float
    trunk: bool = False  # whether others are to branch off
    step: int = 0
    network: State = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    average: State = field(default_factory=dict)
    noise: list[Tensor] = field(default_factory=list)
    offset: Tensor | None = None
    history: list[Evaluation] = field(default_factory=list)
    # of good evaluations, by their steps: the network, what its logits are moved by, what it says of validation rows
    kept: dict[int, tuple[State, Tensor | None, Tensor]] = field(default_factory=dict)

    def best(self) -> Evaluation | None:
        """The best evaluation."""
        return max(self.history, key=lambda one: one.place, default=None)

    def forget(self, fraction: float | None) -> None:
        """Keep no networks but the best one and, if there is a fraction, those that have as much of its score.

        Args:
            fraction: As of `scorewise.EpochEnsemble`; None: the best alone.
        """
        best = max(self.history, key=lambda one: one.place)
        good = {best.step}
        if fraction is not None and best.value > -math.inf:
            bar = least(best.value, fraction)
            good |= {one.step for one in self.history if one.value >= bar}
        self.kept = {step: kept for step, kept in self.kept.items() if step in good}

    def standing(self, after: int, until: int) -> float:
        """How good it was in a part of the race: the mean of its best few evaluations, since one may be luck."""
        values = sorted((one.value for one in self.history if after < one.step <= until), reverse=True)[:_FEW]
        return sum(values) / len(values) if values else -math.inf

    def stale(self, after: int) -> int:
        """How many evaluations in a row have not been better than one before, since a step."""
        seen = [one for one in self.history if one.step > after]
        best = max(seen, key=lambda one: one.value, default=None)
        return 0 if best is None else sum(one.step > best.step for one in seen)
