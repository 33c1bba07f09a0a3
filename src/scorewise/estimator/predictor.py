"""What a fitted classifier predicts with: a network, or several, and a threshold."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from scorewise.curves.choice import InfeasibleError
from scorewise.estimator.problems import Classes, Labels, Problem
from scorewise.estimator.runner import Runner, place
from scorewise.estimator.samples import Samples, logits_of
from scorewise.estimator.tables import Inputs
from scorewise.estimator.tuning import Tune

By = Literal["greedy", "mean", "vote"]

_CHOICES = 6  # of a greedy ensemble


@dataclass(frozen=True, eq=False)
class Member:
    """A network, what its logits are moved by, its own best threshold, the step it is of, and how often it counts."""

    network: nn.Module
    offset: Tensor | None
    threshold: Tensor
    step: int
    count: int


@dataclass(frozen=True, eq=False)
class Predictor:
    """Networks that predict together.

    Attributes:
        problem: What they tell apart.
        members: The networks.
        by: How they become one: the mean of their probabilities, with a count for each where the choice was greedy, or
            the share of those that vote for it.
    """

    problem: Problem
    members: tuple[Member, ...]
    by: By

    @classmethod
    def of(cls, winner: Runner, network: nn.Module, problem: Problem, by: By | None, kept: Samples) -> Predictor:
        """The networks of a race's winner: its best, or, to be combined, all that were kept or some of these."""
        best = winner.best()
        assert best is not None  # noqa: S101  # a winner has one; for the type checker
        by = by if best.value > -math.inf else None  # no network met at_least, as its choice of a threshold will tell
        thresholds = {one.step: one.threshold for one in winner.history}
        counts = dict.fromkeys(sorted(winner.kept.keys() & thresholds) if by else [best.step], 1)
        if by == "greedy":
            said = {step: winner.kept[step][2] for step in counts}
            counts = dict(sorted(greedy(said, best.step, lambda mean: standing(problem, mean, kept)).items()))
        members = []
        for step, count in counts.items():
            state, offset, _ = winner.kept[step]
            twin = copy.deepcopy(network)
            twin.load_state_dict(state)
            own = torch.tensor(thresholds[step], dtype=torch.float64)
            members.append(Member(twin.eval().requires_grad_(requires_grad=False), offset, own, step, count))
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
            parts.append(one.double() * member.count)
        return torch.stack(parts).sum(0) / sum(member.count for member in self.members)

    def choose(self, kept: Samples, how: Tune) -> tuple[Tensor, float]:
        """The threshold, and how good it is on rows that were kept for this."""
        probabilities = self.probabilities(kept.inputs)
        if self.by == "vote":  # the majority
            shares = self.problem.outputs if isinstance(self.problem, Classes) else 2
            threshold = torch.full_like(self.members[0].threshold, 1 / shares)
        else:
            best = self.problem.choose(probabilities, kept.targets, kept.context)
            threshold = self.problem.tuned(best, probabilities, kept.targets, kept.context, how)
        decisions = self.problem.decide(probabilities, threshold)
        if self.by == "vote" and isinstance(self.problem, Labels):
            self.problem.check(decisions, kept.targets, kept.context)
        return threshold, self.problem.goodness(decisions, kept.targets, kept.context)


def greedy(said: Mapping[int, Tensor], best: int, goodness: Callable[[Tensor], Any]) -> Counter[int]:
    """Which of some predictions to take the mean of, and how often each: one after another, that which helps most.

    R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes: Ensemble selection from libraries of models. ICML 2004.

    Args:
        said: Predictions of the same rows, by their names.
        best: The name of those to begin with.
        goodness: How good predictions are: whatever can be compared.

    Example:
        >>> said = {1: torch.tensor([0.0, 4.0]), 2: torch.tensor([3.0, 0.0]), 3: torch.tensor([9.0, 9.0])}
        >>> greedy(said, 1, lambda mean: -float((mean - 2).square().sum()))
        Counter({1: 3, 2: 3})
    """
    chosen = Counter([best])
    total = said[best].double()
    for size in range(2, _CHOICES + 1):
        name = max(said, key=lambda name: goodness((total + said[name]) / size))
        chosen[name] += 1
        total = total + said[name]
    return chosen


def standing(problem: Problem, probabilities: Tensor, kept: Samples) -> tuple[float, float]:
    """How good probabilities are, at the threshold that is best for them; greater is better.

    Args:
        problem: What is told apart.
        probabilities: Of these rows.
        kept: The rows; of their inputs nothing is used.
    """
    try:
        threshold = problem.choose(probabilities, kept.targets, kept.context)
        value = problem.goodness(problem.decide(probabilities, threshold), kept.targets, kept.context)
    except InfeasibleError:
        value = -math.inf
    return place(value, problem.log_loss(probabilities, kept.targets, kept.context))
