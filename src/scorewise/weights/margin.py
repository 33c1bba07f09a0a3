"""Errors that weigh more the further a prediction lies from the threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from scorewise._inputs import Batch
from scorewise.priors import ThresholdPrior
from scorewise.priors.base import as_pair
from scorewise.priors.shortfall import integrate_once, shortfalls
from scorewise.weights.base import Chances, Pair, Weight
from scorewise.weights.samplewise import nonnegative


@dataclass(frozen=True, eq=False)
class Margin(Weight):
    r"""An error by much weighs more than one by a little: :math:`1 + \kappa|\hat y - \tau|`.

    Averaged over the threshold, :math:`W_P = F(\hat y) + \kappa\,E(\hat y - \tau)_+` and
    :math:`W_N = 1 - F(\hat y) + \kappa\,E(\tau - \hat y)_+`.

    Args:
        kappa: What a whole unit of distance adds to the weight, at least 0.

    Example:
        >>> import torch, scorewise as sw
        >>> sw.confusion_matrix(torch.tensor([0.75, 1.0]), torch.tensor([0, 0]), weight=Margin(2))
        ConfusionMatrix(tn=0, fp=3.5, fn=0, tp=0)
    """

    formula: ClassVar[str] = r"w = 1 + \kappa\,|\hat y - \tau|"

    kappa: float

    def __post_init__(self) -> None:
        nonnegative("Margin", "kappa", self.kappa)

    def _cores(self) -> tuple[Weight, ...]:
        return (self,)

    def _ready(self, prior: ThresholdPrior) -> None:
        integrate_once(prior)

    def _errors(self, batch: Batch, chances: Chances) -> Pair:
        x, from_logits = batch.predictions, batch.from_logits
        if chances.prior is None:
            assert chances.threshold is not None  # noqa: S101  # one of both is there; for the type checker
            weight = 1 + self.kappa * (as_pair(x, from_logits=from_logits)[0] - chances.threshold).abs()
            return weight * chances.cdf, weight * chances.sf
        above, below = shortfalls(chances.prior, x, from_logits=from_logits)
        return chances.cdf + self.kappa * above, chances.sf + self.kappa * below

    def _at(self, tau: Tensor, targets: Tensor, predictions: Tensor, labels: Tensor, alarms: Tensor) -> Tensor:
        return 1 + self.kappa * (predictions - tau).abs()
