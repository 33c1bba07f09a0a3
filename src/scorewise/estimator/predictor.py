"""What a fitted classifier predicts with: a network, or several, and a threshold."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from scorewise.estimator.problems import Classes, Labels, Problem
from scorewise.estimator.runner import Runner
from scorewise.estimator.samples import Samples, logits_of
from scorewise.estimator.tables import Inputs

By = Literal["mean", "vote"]


@dataclass(frozen=True, eq=False)
class Member:
    """A network, what its logits are moved by, and its own best threshold."""

    network: nn.Module
    offset: Tensor | None
    threshold: Tensor


@dataclass(frozen=True, eq=False)
class Predictor:
    """Networks that predict together.

    Attributes:
        problem: What they tell apart.
        members: The networks.
        by: How they become one: the mean of their probabilities, or the share of those that vote for it.
    """

    problem: Problem
    members: tuple[Member, ...]
    by: By

    @classmethod
    def of(cls, winner: Runner, network: nn.Module, problem: Problem, by: By | None) -> Predictor:
        """The networks of a race's winner: its best, or, to be combined, all that were kept."""
        best = winner.best()
        assert best is not None  # noqa: S101  # a winner has one; for the type checker
        by = by if best.value > -math.inf else None  # no network met at_least, as its choice of a threshold will tell
        thresholds = {one.step: one.threshold for one in winner.history}
        members = []
        for step in sorted(winner.kept.keys() & thresholds) if by else [best.step]:
            state, offset = winner.kept[step]
            twin = copy.deepcopy(network)
            twin.load_state_dict(state)
            own = torch.tensor(thresholds[step], dtype=torch.float64)
            members.append(Member(twin.eval().requires_grad_(requires_grad=False), offset, own))
        return cls(problem, tuple(members), by or "mean")

    def probabilities(self, inputs: Inputs) -> Tensor:
        """What the threshold is compared with, float64."""
        parts = []
        for member in self.members:
            logits = logits_of(member.network, inputs)
            one = self.problem.probabilities(logits if member.offset is None else logits + member.offset)
            if self.by == "vote":
                one = self.problem.decide(one, member.threshold)
                if isinstance(self.problem, Classes):
                    one = nn.functional.one_hot(one, self.problem.outputs)
            parts.append(one.double())
        return torch.stack(parts).mean(0)

    def choose(self, kept: Samples) -> tuple[Tensor, float]:
        """The threshold, and how good it is on rows that were kept for this."""
        probabilities = self.probabilities(kept.inputs)
        if self.by == "vote":  # the majority
            shares = self.problem.outputs if isinstance(self.problem, Classes) else 2
            threshold = torch.full_like(self.members[0].threshold, 1 / shares)
        else:
            threshold = self.problem.choose(probabilities, kept.targets, kept.context)
        decisions = self.problem.decide(probabilities, threshold)
        if self.by == "vote" and isinstance(self.problem, Labels):
            self.problem.check(decisions, kept.targets, kept.context)
        return threshold, self.problem.goodness(decisions, kept.targets, kept.context)
