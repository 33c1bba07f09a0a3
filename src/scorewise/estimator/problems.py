"""What there is to tell apart, labels or classes: how it is trained for, judged and decided."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from scorewise import scores
from scorewise._averages import Average
from scorewise._labels import LabelScores, one_or_each
from scorewise.confusion import confusion_matrix, decide
from scorewise.curves import best_threshold
from scorewise.curves.choice import AtLeast, InfeasibleError, constraints
from scorewise.estimator.objective import PerSample, counted
from scorewise.estimator.tuning import Rows, Tune, tuned
from scorewise.losses import CombinedLoss, ScoreLoss
from scorewise.multiclass import SimplexLoss, best_tau
from scorewise.multiclass import confusion_matrix as class_matrix
from scorewise.multiclass import decide as decide_class
from scorewise.multiclass import scores as class_scores
from scorewise.parallel.sums import SummedLoss
from scorewise.weights import Weight
from scorewise.weights.base import as_weight, through_alarms

if TYPE_CHECKING:
    from scorewise.parallel.processes import Sync

Context = Mapping[str, Tensor]
"""What else is known of samples, where anything is: groups, times, sample_weight, costs, mask."""

_GRID = 255  # thresholds to try where a weight sees the threshold itself, so that no sort finds the best


class Problem(ABC):
    """What the outputs of a network mean: (n, k, outputs), of k members of an ensemble that have logits of their own.

    Attributes:
        outputs: How many logits a member has.
        reach: How many steps around a sample the weight looks at.
    """

    outputs: int
    reach: int

    @abstractmethod
    def score_loss(self, prior: Any, *, exact: bool, sync: Sync) -> SummedLoss:
        """Minus the score."""

    @abstractmethod
    def laid(self, logits: Tensor) -> Tensor:
        """Logits (n, outputs) as losses take them."""

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """The mean of all members' probabilities, float64: (n,), (n, labels) or (n, classes)."""

    @abstractmethod
    def choose(self, probabilities: Tensor, targets: Tensor, context: Context) -> Tensor:
        """The best threshold."""

    def tuned(self, best: Tensor, probabilities: Tensor, targets: Tensor, context: Context, how: Tune) -> Tensor:
        """The threshold to decide by, given the best one."""
        return best

    @abstractmethod
    def decide(self, probabilities: Tensor, threshold: Tensor) -> Tensor:
        """What is decided at a threshold: 0 or 1, or the class."""

    @abstractmethod
    def goodness(self, decisions: Tensor, targets: Tensor, context: Context) -> float:
        """How good decisions are: the score, negated if less is better."""

    @abstractmethod
    def happened(self, probabilities: Tensor, targets: Tensor) -> Tensor:
        """The probability of what was the case, (n,) or (n, labels)."""

    def log_loss(self, probabilities: Tensor, targets: Tensor, context: Context) -> float:
        """Cross entropy, a mean over what counts; a probability of 0 is as if it were the least above."""
        each = -self.happened(probabilities, targets).clamp(min=torch.finfo(torch.float64).eps).log()
        amount = counted(targets, context).to(each)
        each = each if each.dim() == 1 else each.mean(-1)
        return float((each * amount).sum() / amount.sum())

    def loss(self, share: float, cross_entropy: SummedLoss, prior: Any, *, exact: bool, sync: Sync) -> SummedLoss:
        """A share of the score's loss, and cross entropy for the rest."""
        if share == 0:
            return cross_entropy
        score = self.score_loss(prior, exact=exact, sync=sync)
        return score if share == 1 else CombinedLoss([(share, score), (1 - share, cross_entropy)])


@dataclass(frozen=True, eq=False)
class Labels(Problem):
    """0 or 1: of one label, with (n,) targets, or of ``several``, each with a threshold of its own."""

    outputs: int
    several: bool
    score: Any
    weight: Any
    average: Average
    at_least: AtLeast | None
    _scores: LabelScores = field(init=False)

    def __post_init__(self) -> None:
        if self.several and self.average is None:
            raise ValueError("average must make one number of the labels' scores, by which to choose; saw None.")
        object.__setattr__(self, "weight", one_or_each(self.weight, as_weight, "weight"))
        object.__setattr__(self, "_scores", LabelScores(self.score, self.average))
        constraints(self.at_least)
        if len({grows(one) for one in self._each}) > 1:
            told = [one.name for one in self._each]
            raise ValueError(
                f"of the scores {told} some grow with the number of samples and some do not: pass alike ones."
            )
        for name, each in (("score", self._scores.score), ("weight", self.weight)):
            if isinstance(each, tuple) and len(each) != self.outputs * self.several:
                seen = f"{self.outputs} labels" if self.several else "two classes"
                raise ValueError(f"{name} must be one, or a list of one for each label; saw {len(each)} for {seen}.")

    @property
    def _each(self) -> tuple[scores.Score, ...]:
        score = self._scores.score
        return score if isinstance(score, tuple) else (score,)

    @property
    def _weights(self) -> list[Weight]:
        weights = self.weight if isinstance(self.weight, tuple) else (self.weight,)
        return [weight for weight in weights if weight is not None]

    @property
    def reach(self) -> int:  # type: ignore[override]  # noqa: D102  # a number of all problems, and here found
        return max((weight.reach for weight in self._weights), default=0)

    def score_loss(self, prior: Any, *, exact: bool, sync: Sync) -> SummedLoss:  # noqa: D102  # as above
        options: Any = {"weight": self.weight, "exact": exact, "average": self.average, "sync": sync}
        loss = ScoreLoss(self._scores.score, prior=prior, validate=False, **options)
        return PerSample(loss) if any(map(grows, self._each)) else loss

    def laid(self, logits: Tensor) -> Tensor:  # noqa: D102  # as above
        return logits if self.several else logits[:, 0]

    def probabilities(self, logits: Tensor) -> Tensor:  # noqa: D102  # as above
        mean = logits.double().sigmoid().mean(1)
        return mean if self.several else mean[:, 0]

    def choose(self, probabilities: Tensor, targets: Tensor, context: Context) -> Tensor:  # noqa: D102  # as above
        search: Any = best_threshold if all(map(through_alarms, self._weights)) else self._searched
        score: Any = self.score
        found = search(probabilities, targets, score, self.weight, at_least=self.at_least, **context)
        return torch.as_tensor(found, dtype=torch.float64)

    def tuned(self, best: Tensor, probabilities: Tensor, targets: Tensor, context: Context, how: Tune) -> Tensor:  # noqa: D102  # as above
        if how == "best" or self.at_least is not None:  # which another might not meet
            return best
        scores = self._each * (self.outputs // len(self._each))
        weights = self.weight if isinstance(self.weight, tuple) else [self.weight] * self.outputs
        thresholds = [
            tuned(_of_label(probabilities, targets, context, j), score, weight, float(one), how)
            for j, (score, weight, one) in enumerate(zip(scores, weights, best.reshape(-1), strict=True))
        ]
        return torch.tensor(thresholds, dtype=torch.float64).reshape(best.shape)

    def decide(self, probabilities: Tensor, threshold: Tensor) -> Tensor:  # noqa: D102  # as above
        return decide(probabilities, threshold).long()

    def goodness(self, decisions: Tensor, targets: Tensor, context: Context) -> float:  # noqa: D102  # as above
        return self._good(decisions.double(), targets, 0.5, context)

    def happened(self, probabilities: Tensor, targets: Tensor) -> Tensor:  # noqa: D102  # told by Problem
        return torch.where(targets > 0, probabilities, 1 - probabilities)

    def check(self, decisions: Tensor, targets: Tensor, context: Context) -> None:
        """Raise an InfeasibleError if decisions do not have what ``at_least`` asks for."""
        rest: Any = context
        matrix = confusion_matrix(decisions.double(), targets, 0.5, self.weight, **rest)
        for score, least in constraints(self.at_least):
            if not bool((score(matrix) >= least).all()):
                raise InfeasibleError(
                    f"the vote of the ensemble does not have a {score.name} of {least:g} on the validation rows. "
                    "Pass ensemble='mean' or None, whose threshold can be chosen."
                )

    def _good(self, predictions: Tensor, targets: Tensor, threshold: Any, context: Context) -> float:
        rest: Any = context
        matrix = confusion_matrix(predictions, targets, threshold, self.weight, **rest)
        counts = None
        if self.average == "weighted":
            plain = confusion_matrix(predictions, targets, threshold, **rest)
            counts = plain.negatives, plain.positives
        return float(self._scores.goodness((matrix.tn, matrix.fp, matrix.fn, matrix.tp), counts))

    def _searched(self, probabilities: Tensor, targets: Tensor, *_: Any, **context: Any) -> Tensor:
        """A good threshold of the same kind for weights that see it: the best of some, of one label after another."""
        at_least = constraints(context.pop("at_least"))
        columns = probabilities if self.several else probabilities[:, None]
        threshold = torch.full((columns.shape[1],), 0.5, dtype=torch.float64)

        def found(tau: Tensor) -> tuple[bool, float]:
            own = tau if self.several else tau[0]
            matrix = confusion_matrix(probabilities, targets, own, self.weight, **context)
            allowed = all(bool((score(matrix) >= least).all()) for score, least in at_least)
            return allowed, self._good(probabilities, targets, own, context)

        best = found(threshold)
        for j, column in enumerate(columns.T):
            for tau in _grid(column):
                tried = threshold.clone()
                tried[j] = tau
                if (value := found(tried)) > best:
                    best, threshold = value, tried
        if not best[0]:
            raise InfeasibleError(f"at_least cannot be met at any of {_GRID} thresholds; saw {self.at_least!r}.")
        return threshold if self.several else threshold[0]


@dataclass(frozen=True, eq=False)
class Classes(Problem):
    """Classes that exclude each other, decided by a threshold on the simplex."""

    outputs: int
    score: Any
    average: Average
    reach: int = 0

    def __post_init__(self) -> None:
        if self.average is None:
            raise ValueError("average must make one number of the classes' scores, by which to choose; saw None.")
        class_scores.get(self.score, self.average)

    def score_loss(self, prior: Any, *, exact: bool, sync: Sync) -> SummedLoss:  # noqa: D102  # the simplex has one prior, and no exact loss; fit refuses others
        loss = SimplexLoss(self.score, average=self.average, sync=sync, validate=False)
        return PerSample(loss) if isinstance(loss.score, class_scores.Cost) else loss

    def laid(self, logits: Tensor) -> Tensor:  # noqa: D102  # as above
        return logits

    def probabilities(self, logits: Tensor) -> Tensor:  # noqa: D102  # as above
        return logits.double().softmax(-1).mean(1)

    def choose(self, probabilities: Tensor, targets: Tensor, context: Context) -> Tensor:  # noqa: D102  # as above
        rest: Any = _known_of_classes(context)
        return best_tau(probabilities, targets, self.score, average=self.average, starts=1, **rest)[0]

    def decide(self, probabilities: Tensor, threshold: Tensor) -> Tensor:  # noqa: D102  # as above
        return decide_class(probabilities, threshold)

    def goodness(self, decisions: Tensor, targets: Tensor, context: Context) -> float:  # noqa: D102  # as above
        score = class_scores.get(self.score, self.average)
        hot = torch.nn.functional.one_hot(decisions, self.outputs).double()
        value = float(score(class_matrix(hot, targets, **_known_of_classes(context))))
        return value if score.greater_is_better else -value

    def happened(self, probabilities: Tensor, targets: Tensor) -> Tensor:  # noqa: D102  # told by Problem
        return probabilities.gather(-1, targets[:, None])[:, 0]


def _of_label(probabilities: Tensor, targets: Tensor, context: Context, j: int) -> Rows:
    """What is known of one label, where there are several; else all."""

    def own(values: Tensor, axes: int = 1) -> Tensor:
        return values[:, j] if values.dim() > axes else values

    rest = {name: own(value, 2 if name == "costs" else 1) for name, value in context.items()}
    return Rows(own(probabilities), own(targets), rest)


def _known_of_classes(context: Context) -> Any:
    return {name: context[name] for name in ("sample_weight", "mask") if name in context}


def grows(score: scores.Score) -> bool:
    """Whether a score is twice as large of a matrix that is: a cost is, and a ratio of cells is not."""
    cells = [torch.tensor(value, dtype=torch.float64) for value in (70.0, 11.0, 5.0, 14.0)]
    one, two = score.function(*cells), score.function(*(2 * cell for cell in cells))
    return bool(one != 0) and bool(torch.isclose(two, 2 * one))


def _grid(predictions: Tensor) -> Tensor:
    """Thresholds between as many equal parts of the predictions, and one below all of them."""
    values = predictions.unique()
    between = torch.cat([values[:1] - 1, (values[1:] + values[:-1]) / 2, values[-1:]])
    places = np.linspace(0, len(between) - 1, min(_GRID, len(between))).round().astype(np.int64)
    return between[torch.from_numpy(places)]
