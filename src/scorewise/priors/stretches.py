"""Integrals over the threshold: where to cut them, and Gauss-Legendre nodes that suit the density between two cuts."""

from __future__ import annotations

import torch
from torch import Tensor

from scorewise.priors.base import ThresholdPrior
from scorewise.priors.tables import Table


def tabulate(prior: ThresholdPrior) -> None:
    """Find once where a prior has to be cut and how it behaves at its ends, and keep that with it."""
    if prior._stretches is None:
        with torch.device("cpu"), torch.inference_mode(False), torch.no_grad():
            object.__setattr__(prior, "_stretches", _table(prior))


def stretches_of(prior: ThresholdPrior, x: Tensor) -> tuple[Tensor, ...]:
    """Cuts, their cdf and sf, the support's ends, and the powers there, in the dtype and on the device of ``x``."""
    if prior._stretches is None:
        if torch.compiler.is_compiling():
            raise RuntimeError(
                "this prior has not been cut into stretches yet, which cannot be done inside a compiled graph. Make "
                "the ScoreLoss outside of it, or call the function once before compiling it."
            )
        tabulate(prior)
    prior._place(x)
    assert prior._stretches is not None  # noqa: S101  # made above; for the type checker
    return prior._stretches.like(x)


def _table(prior: ThresholdPrior) -> Table:
    cuts = prior._cuts()
    low, high = (end.expand(prior.batch_shape) for end in prior._constants.values[:2])
    # Ends of [0, 1] are there in any case.
    inner = ((cuts > 0) & (cuts < 1)).reshape(len(cuts), -1).any(1)
    cuts = cuts[inner]
    # Towards an end the mass grows as some power of the distance. Only powers below 1 need care.
    h = (high - low) * 2.0**-30
    powers = h * prior.pdf(low + h) / prior.cdf(low + h), h * prior.pdf(high - h) / prior.sf(high - h)
    below_one = (torch.where(power < 0.99, power.clamp(min=1e-3), 1.0) for power in powers)
    return Table([cuts, prior.cdf(cuts), prior.sf(cuts), low, high, *below_one])


def spread_nodes(nodes: Tensor, starts: Tensor, ends: Tensor, facts: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Thresholds along stretches, and how densely they lie: the derivative of the threshold by the node.

    Evenly, but at an end of the support where the density is infinite by the power that makes it even.

    Args:
        nodes: Nodes in [0, 1], ready to be broadcast.
        starts: Where each stretch begins.
        ends: Where it ends.
        facts: The last four of `stretches_of`, ready to be broadcast.
    """
    low, high, from_low, from_high = facts
    length = ends - starts
    first, last = 1 / from_low, 1 / from_high
    at_low, at_high = (starts <= low) & (from_low < 1), (ends >= high) & (from_high < 1)
    along = torch.where(at_low, nodes**first, torch.where(at_high, 1 - (1 - nodes) ** last, nodes))
    pace = torch.where(
        at_low,
        first * nodes ** (first - 1),
        torch.where(at_high, last * (1 - nodes) ** (last - 1), torch.ones_like(nodes)),
    )
    return starts + length * along, length * pace
