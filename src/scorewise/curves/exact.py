r"""The exact expected score: :math:`\mathbb{E}_\tau[s(wCM(\tau))]`, and its gradient.

Let :math:`s_0, …, s_n` be the scores while the j samples with the smallest predictions are no alarms. The threshold
lies between the predictions j and j + 1 with probability :math:`F(v_{j+1}) - F(v_j)`, so that, summed by parts,

.. math:: \mathbb{E}_\tau[s] = s_n + \sum_j F(v_j)\,(s_{j-1} - s_j).

The factors :math:`s_{j-1} - s_j`, what it is worth that sample j is an alarm, depend on nothing but the order of the
predictions. So the gradient is the density times them, and any function of the matrix will do for a score: none of its
own derivatives is needed. (Where coefficients depend on predictions or learn themselves, as those of cross entropy do,
autograd goes through the sums and the score as well.)
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import torch
from torch import Tensor

from scorewise._cells import Plan, check_labels, expected_under, plan_for
from scorewise._inputs import Batch
from scorewise.curves.sweep import ascending, cells_along, matters, score_along
from scorewise.priors import ThresholdPrior
from scorewise.scores import Score
from scorewise.weights import Weight
from scorewise.weights.base import transformed


def expected_score(batch: Batch, score: Score, prior: ThresholdPrior, weight: Weight | None) -> Tensor:
    """The expected score of a batch that is known to be sound, one for each label; differentiable."""
    return expected_score_under(batch, score, prior, plan_for(batch, weight))


def expected_score_under(batch: Batch, score: Score, prior: ThresholdPrior, plan: Plan) -> Tensor:
    """The same, with errors weighted as a plan says."""
    x = batch.predictions
    check_labels(prior, x)
    keys, order = ascending(x)
    with contextlib.nullcontext() if plan.learns else torch.no_grad():
        values = score_along(score, cells_along(batch, plan, order))
        some, counted = matters(batch, plan), None
        if some is not None and batch.count is not None:
            some = some.gather(0, order)
            if plan.coefficients is not None:
                counted = (batch.count != 0).expand_as(order).gather(0, order)
        steps = _shared(values, keys, some, counted)
        worth = torch.zeros_like(steps).scatter(0, order, steps)
        # F of those whose alarm does harm, 1 - S of those it is good for: so all terms are errors, small where the
        # predictions are good, and have all their digits.
        if_quiet = worth * (worth > 0)
        if_alarm = if_quiet - worth
        flawless = values[-1] + if_quiet.sum(0)
    coefficients = if_alarm.to(x.dtype), if_quiet.to(x.dtype)
    errors = Plan(coefficients=coefficients, learns=plan.learns)
    _, false_alarms, misses, _ = expected_under(replace(batch, count=None), prior, errors)
    return flawless - false_alarms - misses


def _shared(values: Tensor, keys: Tensor, some: Tensor | None, counted: Tensor | None) -> Tensor:
    """What each alarm is worth, in the order of the predictions.

    Equal predictions are alarms together: what all of them are worth is shared by those that count, or, if none does,
    by those that matter at all. So it is all the same whether a sample's neighbour in time is there once, or also as a
    copy that is context only, in another process.
    """
    n = keys.shape[0]
    equal = keys[1:] == keys[:-1]
    eager = keys.device.type == "cpu" and not transformed()
    if n < 2 or (eager and not bool(equal.any())):
        return values[:-1] - values[1:]
    if eager and keys.dim() == 1:
        edge = torch.ones_like(equal[:1])
        ends = torch.cat([edge, ~equal, edge]).nonzero().squeeze(1)
        sizes = ends.diff()

        def change(running: Tensor) -> Tensor:
            return running[ends].diff().repeat_interleave(sizes, output_size=n)
    else:  # the same in shapes that do not depend on values
        rows = keys.mT.contiguous() if keys.dim() == 2 else keys
        first, last = (torch.searchsorted(rows, rows, side=side) for side in ("left", "right"))
        start, stop = (first.mT, last.mT) if keys.dim() == 2 else (first, last)

        def change(running: Tensor) -> Tensor:
            return running.gather(0, stop) - running.gather(0, start)

    def among_equals(which: Tensor) -> Tensor:
        return change(torch.cat([torch.zeros_like(which[:1], dtype=torch.int64), which.cumsum(0)]))

    together = -change(values)
    if some is None:
        return together / among_equals(torch.ones_like(keys, dtype=torch.bool))
    if counted is not None:
        some = torch.where(among_equals(counted) > 0, counted, some)
    return together / among_equals(some).clamp(min=1) * some
