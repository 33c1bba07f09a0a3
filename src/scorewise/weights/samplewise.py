"""Weights that do not look at the threshold: of the label, the prediction, or the batch's class frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scorewise import scores
from scorewise._inputs import Batch
from scorewise._values import as_tensor, is_number, number, shape_of
from scorewise.weights.base import Pair, Product, Weight


@dataclass(frozen=True, eq=False, repr=False)
class Cost(Weight):
    """What a false positive and a false negative cost, in units of your choice.

    Costs that differ from sample to sample come with each call, ``costs=(n, 2)``, and multiply whatever weight there
    is.

    Args:
        fp: Cost of a false positive, at least 0.
        fn: Cost of a false negative, at least 0.
        tn: Cost of a true negative, if that is not 0. A weight never changes a right decision's cell, so that these
            two enter by the attribute ``score`` only.
        tp: Cost of a true positive; negative costs are not costs: subtract the smallest from all four.

    Attributes:
        score: Minus the total cost, as a score of the *weighted* matrix: -(tn·TN + wFP + wFN + tp·TP).

    Example:
        >>> import scorewise as sw
        >>> flood = Cost.from_matrix([[0, 1], [20, 3]])  # false alarms cost 1, missed floods 20, floods warned of 3
        >>> flood.optimal_threshold
        0.05555555555555555
        >>> loss = sw.ScoreLoss(flood.score, weight=flood)

    Reference:
        C. Elkan: The foundations of cost-sensitive learning. IJCAI 2001.
    """

    formula: ClassVar[str] = r"w = (1-y)\,C_{01} + y\,C_{10}"

    fp: float = 1.0
    fn: float = 1.0
    tn: float = field(default=0.0, kw_only=True)
    tp: float = field(default=0.0, kw_only=True)
    score: scores.Score = field(init=False)

    def __post_init__(self) -> None:
        for name in ("fp", "fn", "tn", "tp"):
            value = getattr(self, name)
            if isinstance(value, Tensor) and value.dim():
                raise TypeError(
                    f"Cost: {name} must be one number, saw a tensor of shape {shape_of(value)}. Costs of single "
                    "samples come with the call: costs=torch.stack([fp, fn], -1)."
                )
            nonnegative("Cost", name, value)
        object.__setattr__(self, "score", scores.cost(1.0, 1.0, tn=self.tn, tp=self.tp))

    @classmethod
    def from_matrix(cls, matrix: Sequence[Sequence[float]] | Tensor) -> Cost:
        """From the costs [[C00, C01], [C10, C11]], row = truth, in the order of a confusion matrix."""
        values = as_tensor(matrix, "Cost: matrix")
        if values.shape != (2, 2):
            raise ValueError(f"Cost: expected a 2 × 2 matrix, row = truth, saw the shape {shape_of(values)}.")
        (tn, fp), (fn, tp) = values.tolist()
        return cls(fp, fn, tn=tn, tp=tp)

    @property
    def optimal_threshold(self) -> float:
        """The threshold of least expected cost for calibrated probabilities (Elkan 2001)."""
        false_alarm, miss = self.fp - self.tn, self.fn - self.tp
        if false_alarm == miss == 0:
            raise ValueError("Cost: every threshold costs the same, since errors cost no more than right decisions.")
        if not (false_alarm >= 0 and miss >= 0):
            raise ValueError(
                f"Cost: no threshold is best where a wrong decision costs less than the right one: fp="
                f"{number(self.fp)} against tn={number(self.tn)}, fn={number(self.fn)} against tp={number(self.tp)}."
            )
        return false_alarm / (false_alarm + miss)

    def _scales(self) -> tuple[float, float]:
        return float(self.fp), float(self.fn)

    def __repr__(self) -> str:
        return "Cost(" + ", ".join(f"{name}={number(getattr(self, name))}" for name in ("fp", "fn", "tn", "tp")) + ")"


@dataclass(frozen=True, eq=False)
class CrossEntropy(Weight):
    r"""The weight that makes cross entropy of the sum of errors.

    With the score ``cost()``, which is -(FP + FN), and the uniform prior the loss is exactly the summed weighted binary
    cross entropy, so that both ends of a comparison can be had from one loss; with other scores and priors it is a
    score that minds how wrong a probability is. From probabilities the logarithm is cut off at -100, as PyTorch does.

    Args:
        negative: Weight of the samples whose label is 0, greater than 0.
        positive: Weight of the samples whose label is 1, greater than 0.

    Example:
        >>> import torch, scorewise as sw
        >>> logits, targets = torch.tensor([-1.0, 2.0]), torch.tensor([0.0, 1.0])
        >>> sw.ScoreLoss("cost", weight=CrossEntropy())(logits, targets)
        tensor(0.4402)
        >>> torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        tensor(0.4402)
    """

    formula: ClassVar[str] = (
        r"w = -\omega_0 (1-y) \frac{\log(1-\hat y)}{\hat y} - \omega_1\, y\, \frac{\log \hat y}{1-\hat y}"
    )

    negative: float = 1.0
    positive: float = 1.0

    def __post_init__(self) -> None:
        for name in ("negative", "positive"):
            nonnegative("CrossEntropy", name, getattr(self, name), zero=False)

    def _scales(self) -> tuple[float, float]:
        return float(self.negative), float(self.positive)

    def _factors(self, batch: Batch) -> Pair:
        x = batch.predictions
        if batch.from_logits:
            return _surprise(x), _surprise(-x)
        # Where numerator and denominator are 0 the quotient tends to 1.
        never, certain = x <= 0, x >= 1
        p = x.masked_fill(never | certain, 0.5)
        if_negative, if_positive = -torch.log1p(-p) / p, -torch.log(p).clamp(min=-100) / (1 - p)
        return (
            if_negative.masked_fill(never, 1.0).masked_fill(certain, 100.0),
            if_positive.masked_fill(never, 100.0).masked_fill(certain, 1.0),
        )


@dataclass(frozen=True, eq=False)
class ClassFrequency(Weight):
    """Errors of the rarer class weigh more, so that both classes' errors would weigh alike if all were errors.

    Counts are those of all samples of a matrix, with masks and sample weights. Matrices remember them, so that the sum
    of two batches' matrices is the matrix of both batches together.

    Example:
        >>> import torch, scorewise as sw
        >>> probabilities, targets = torch.tensor([0.9, 0.1, 0.1, 0.1]), torch.tensor([0, 0, 0, 1])
        >>> sw.confusion_matrix(probabilities, targets, weight=ClassFrequency())
        ConfusionMatrix(tn=2, fp=0.666667, fn=2, tp=0)
    """

    formula: ClassVar[str] = r"w = (1-y)\,\frac{n}{2N_0} + y\,\frac{n}{2N_1}"

    def _balance(self) -> int:
        return 1


def check_diagonal(weight: Weight, score: scores.Score) -> None:
    """Raise a ValueError if right decisions cost something that nobody would count."""
    for part in weight.weights if isinstance(weight, Product) else (weight,):
        if isinstance(part, Cost) and (part.tn or part.tp) and part.score not in scores.parts(score):
            raise ValueError(
                f"{part} says what right decisions cost, but a weight changes errors only, and the score {score.name} "
                "does not count the others. Pass the weight's own score, weight.score, or a Cost without tn and tp."
            )


def _surprise(z: Tensor) -> Tensor:
    """-log(1 - p) / p at p = sigmoid(z)."""
    # Below -40 it is 1 to all digits of float64, while numerator and denominator would both become 0 in the end.
    z = z.clamp(min=-40)
    return softplus(z, threshold=50.0) / torch.sigmoid(z)


def nonnegative(weight: str, name: str, value: object, *, zero: bool = True) -> None:
    """Raise unless a parameter is a finite number of at least 0, or greater than 0."""
    if not is_number(value) or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        expected = "of at least 0" if zero else "greater than 0"
        raise ValueError(f"{weight}: {name} must be a finite number {expected}, saw {value!r}.")
