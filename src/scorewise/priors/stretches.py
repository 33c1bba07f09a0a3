"""Integrals over the threshold: where to cut them, and Gauss-Legendre nodes that suit the density between two cuts."""

from __future__ import annotations

import torch
from torch import Tensor

from scorewise.priors.base import ThresholdPrior, keep
from scorewise.priors.tables import Table


def stretches_of(prior: ThresholdPrior) -> Table:
    """Cuts, their cdf and sf; then the support's ends and middle, and the powers at both ends, each with labels last.

    Towards an end the prior's mass grows as some power of the distance. A power below 1 is an infinite density; others
    are given as 1, since nothing has to be done about them.
    """
    return keep(prior, "_stretches", lambda: _table(prior))


def _table(prior: ThresholdPrior) -> Table:
    low, high = (end.expand(prior.batch_shape) for end in prior._constants.values[:2])
    middle = (low + high) / 2
    powers = []
    for end, side in ((low, 0), (1 - high, 1)):
        # At 0 and 1 the distance can be as small as it takes to see nothing but the power.
        h = torch.where(end == 0, 2.0**-200, (high - low) * 2.0**-30)
        near = end + h
        pair = (near, 1 - near) if side == 0 else (1 - near, near)
        power = h * prior._pdf(*pair) / prior._tails(*pair)[side]
        powers.append(torch.where(power < 0.99, power.clamp(min=1e-3), 1.0))  # NaN is not below
    cuts = prior._cuts()
    if any(bool((power < 1).any()) for power in powers):
        cuts = torch.cat([cuts, middle[None]])
    # Ends of [0, 1] are there in any case.
    cuts = cuts[((cuts > 0) & (cuts < 1)).reshape(len(cuts), -1).any(1)]
    return Table([cuts, prior.cdf(cuts), prior.sf(cuts), low, high, middle, *powers])


def spread_nodes(
    nodes: Tensor, starts: Tensor, ends: Tensor, facts: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Thresholds along stretches, 1 less them, and how densely they lie: the derivative of the threshold by the node.

    On each side of the middle they are even in that power of the distance from the support's end in which the mass is.

    Args:
        nodes: Nodes in [0, 1], ready to be broadcast.
        starts: Where each stretch begins.
        ends: Where it ends.
        facts: The last five of `stretches_of`, ready to be broadcast.
    """
    low, high, middle, from_low, from_high = facts
    lower = (ends + starts) / 2 < middle
    power = torch.where(lower, from_low, from_high)
    near, far = (torch.where(lower, t - low, high - t).clamp(min=0) for t in (starts, ends))
    first, last = near**power, far**power
    along = first + (last - first) * nodes
    distance = along ** (1 / power)
    pace = along ** (1 / power - 1) / power * (last - first)
    # Outside the support there is no mass, and any place will do.
    inside, evenly = (starts >= low) & (ends <= high), starts + (ends - starts) * nodes
    tau = torch.where(inside, torch.where(lower, low + distance, high - distance), evenly)
    rest = torch.where(inside & ~lower, 1 - high + distance, 1 - tau)
    return tau, rest, torch.where(inside, pace.abs(), ends - starts)
