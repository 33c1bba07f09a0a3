"""How far the score of the expected matrix is from the expected score."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from scorewise import scores
from scorewise._cells import expected_cells, plan_for
from scorewise._inputs import Batch
from scorewise._values import number, shape_of
from scorewise.confusion import read
from scorewise.curves.exact import expected_score
from scorewise.curves.sweep import ascending, cells_along, check_weight, in_float64
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.priors.base import tails
from scorewise.weights import Weight
from scorewise.weights.base import as_weight


@dataclass(frozen=True)
class TheoremGap:
    r"""The two sides of the paper's Theorem 1.

    Attributes:
        expected: :math:`\mathbb{E}_\tau[s(wCM)]`, what ``ScoreLoss(exact=True)`` maximises.
        first_order: :math:`s(\mathbb{E}_\tau[wCM])`, what ``ScoreLoss()`` maximises.
        second_order: The next term of the theorem's Taylor series, half of the sum of the score's second derivatives at
            the expected matrix times the covariances of the cells. Where it is far from the gap the series has not
            converged yet, and the first-order loss is the worse for it.
    """

    expected: float
    first_order: float
    second_order: float

    @property
    def gap(self) -> float:
        """``expected - first_order``."""
        return self.expected - self.first_order

    def __repr__(self) -> str:
        facts = ("expected", "first_order", "gap", "second_order")
        return f"TheoremGap({', '.join(f'{name}={number(getattr(self, name))}' for name in facts)})"


def theorem_gap(
    predictions: Tensor,
    targets: Tensor,
    score: str | scores.Score,
    prior: object = None,
    weight: Weight | None = None,
    *,
    from_logits: bool = False,
    groups: object = None,
    times: Tensor | None = None,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
    costs: Tensor | None = None,
) -> TheoremGap:
    r"""Whether averaging the matrix instead of the score matters: :math:`\mathbb{E}[s] - s(\mathbb{E})`.

    Args:
        predictions: As for `score_curve`, and so are the arguments that are not named here.
        targets: Labels 0/1, or soft labels in [0, 1], (n,).
        score: A name (see `scorewise.scores.names`) or a `Score`.
        prior: A `scorewise.priors` object, a `torch.distributions` object with a cdf, a density function on [0, 1], or
            None for the uniform prior.
        weight: What an error costs.
        from_logits: Whether ``predictions`` are logits.
        groups: The series that each sample belongs to.
        times: When, in whole units of one lag.
        mask: True where a sample counts.
        sample_weight: How much each sample counts, at least 0.
        costs: What an error of each sample costs.

    Example:
        >>> import torch
        >>> predictions, targets = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
        >>> theorem_gap(predictions, targets, "csi")
        TheoremGap(expected=0.433333, first_order=0.46, gap=-0.0266667, second_order=-0.02688)
        >>> theorem_gap(predictions, targets, "tss")  # linear, so that both are the same
        TheoremGap(expected=0.325, first_order=0.325, gap=0, second_order=0)
    """
    score, prior, weight = scores.get(score), as_prior(prior), as_weight(weight)
    check_weight(weight, score)
    rest = {"groups": groups, "times": times, "mask": mask, "sample_weight": sample_weight, "costs": costs}
    with torch.no_grad():
        batch = in_float64(read(predictions, targets, weight, from_logits=from_logits, hard=True, **rest))
        if batch.predictions.dim() != 1:
            raise ValueError(
                f"theorem_gap is of one label, predictions of shape (n,), saw {shape_of(batch.predictions)}. Pass the "
                "columns one by one: predictions[:, j], targets[:, j]."
            )
        mean = torch.stack(expected_cells(batch, prior, weight))
        expected = expected_score(batch, score, prior, weight)
        spread = _covariance(batch, prior, weight)
    with torch.inference_mode(False), torch.enable_grad():  # whatever the caller is in
        curvature = torch.autograd.functional.hessian(lambda cells: score.function(*cells.unbind()), mean.clone())
    assert isinstance(curvature, Tensor)  # noqa: S101  # one input, one output; for the type checker
    return TheoremGap(float(expected), float(score.function(*mean.unbind())), float((curvature * spread).sum() / 2))


def _covariance(batch: Batch, prior: ThresholdPrior, weight: Weight | None) -> Tensor:
    """The covariance of the four cells over the threshold, (4, 4)."""
    keys, order = ascending(batch.predictions)
    cells = torch.stack(cells_along(batch, plan_for(batch, weight), order))
    cdf = tails(prior, keys, from_logits=batch.from_logits)[0]
    mass = torch.cat([cdf.new_zeros(1), cdf, cdf.new_ones(1)]).diff()
    deviation = cells - (cells * mass).sum(1, keepdim=True)
    return (deviation * mass) @ deviation.T
