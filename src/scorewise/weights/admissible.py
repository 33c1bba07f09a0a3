"""Whether a weight can be trained with: the paper's Definition 3, checked numerically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from scorewise._inputs import Batch, prepare
from scorewise._values import number
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.priors.base import tails
from scorewise.weights.base import Chances, Weight
from scorewise.weights.custom import Custom, core_of

_SAMPLES = 16
_MOVED = (3, 4, 5, 9, 10, 11)  # those whose predictions are moved, from 0 to 1: events, and samples around them
_GRID = 33


@dataclass(frozen=True)
class Admissibility:
    """The answer of `admissible`, true or false in a condition.

    Attributes:
        holds: Whether the weight is admissible.
        reason: Why not, or what was tried.
        integration_error: By how much the expected errors move, relative to the largest, when an integrated weight is
            given twice as many points; 0 for weights with a closed form. If it is not small, give it more; a product
            of others takes them from a factor ``Custom(lambda *_: 1.0, points=…)``.
    """

    holds: bool
    reason: str
    integration_error: float = 0.0

    def __bool__(self) -> bool:
        return self.holds


def admissible(weight: Weight, prior: object = None) -> Admissibility:
    """Check that the expected weighted errors can be differentiated by the predictions (Definition 3 of the paper).

    A random series of predictions with both labels is tried: the weights must be finite and at least 0; as one
    prediction after the other moves from 0 to 1, W_P and W_N must not jump anywhere; and the derivatives that autograd
    finds must be those of the values. Corners are allowed where two predictions cross, as those of `Value` have them.
    A weight that passes may still fail for other data; one that does not pass cannot be trained with.

    Args:
        weight: Any weight; meant for a `Custom`.
        prior: As for `scorewise.ScoreLoss`.

    Example:
        >>> def fn(tau, targets, predictions, label_window, alarm_window):
        ...     return 1.0 + (predictions > 0.5)
        >>> answer = admissible(Custom(fn))
        >>> bool(answer)
        False
        >>> answer.reason
        'W_P jumps by 0.5 where a prediction passes 0.5.'
    """
    if not isinstance(weight, Weight):
        raise TypeError(f"admissible: expected a weight, saw {type(weight).__name__}.")
    prior = as_prior(prior)
    if prior.batch_shape:
        raise ValueError(
            f"admissible: expected a prior for one label, saw parameters of shape {tuple(prior.batch_shape)}."
        )
    weight._ready(prior)
    g = torch.Generator().manual_seed(0)
    predictions = torch.rand(_SAMPLES, generator=g, dtype=torch.float64) * 0.96 + 0.02
    targets = (torch.arange(_SAMPLES) % 3 == 1).double()
    times = torch.arange(_SAMPLES) + (torch.arange(_SAMPLES) > _SAMPLES // 2) * 2

    def errors(p: Tensor, weight: Weight = weight) -> Tensor:
        """(2, samples, series): W_P and W_N of series that differ in their predictions, (samples, series)."""
        n, m = p.shape
        groups = torch.arange(m).repeat_interleave(n)
        batch = prepare(
            *(p.t().reshape(-1), targets.repeat(m)),
            from_logits=False,
            groups=groups,
            times=times.repeat(m),
            context=weight.reach > 0,
        )
        return torch.stack([w.reshape(m, n).t() for w in _errors(weight, batch, prior)])

    try:
        values = errors(predictions[:, None]).detach()
    except (TypeError, ValueError) as error:
        return Admissibility(False, str(error))
    if not bool((values.isfinite() & (values >= 0)).all()):
        bad = values[~(values.isfinite() & (values >= 0))][0]
        return Admissibility(False, f"an expected error is {number(float(bad))}, not a finite number of at least 0.")
    doubled, moved = _doubled(weight), 0.0
    if doubled is not weight:
        refined = errors(predictions[:, None], doubled).detach()
        moved = float((refined - values).abs().max() / values.max().clamp(min=1e-300))
    if moved > 1e-5:
        reason = (
            f"the integral over the threshold is off by about {moved:.1g} of the largest expected error: the function "
            "is not smooth in tau, or has too few points."
        )
        return Admissibility(False, reason, moved)
    reason = _jump(errors, predictions) or _wrong_slope(errors, predictions, g)
    tried = f"no jump and no wrong derivative as {len(_MOVED)} predictions in a series moved from 0 to 1."
    return Admissibility(not reason, reason or tried, moved)


def _errors(weight: Weight, batch: Batch, prior: ThresholdPrior) -> tuple[Tensor, Tensor]:
    cdf, sf = tails(prior, batch.predictions, from_logits=False)
    core = core_of(weight)
    alarm, quiet = (cdf, sf) if core is None else core(batch, Chances(cdf, sf, prior=prior))
    factors, scales = weight._factors(batch) or (1.0, 1.0), weight._scales()
    return alarm * factors[0] * scales[0], quiet * factors[1] * scales[1]


def _jump(errors: Callable[[Tensor], Tensor], predictions: Tensor) -> str:
    """Where W_P or W_N jumps as one prediction moves, in words; nothing if nowhere."""
    movers = len(_MOVED)

    def change(t: Tensor) -> Tensor:
        """(2, movers, steps): how much W_P and W_N change, at most, along each row of t, a place for one mover."""
        steps = t.shape[1]
        p = predictions[:, None, None].repeat(1, movers, steps)
        p[_MOVED, range(movers)] = t
        values = errors(p.reshape(_SAMPLES, -1)).detach().reshape(2, _SAMPLES, movers, steps)
        return values.diff(dim=-1).abs().amax(1)

    grid = torch.linspace(0.01, 0.99, _GRID, dtype=torch.float64)
    steepest = change(grid.expand(movers, -1)).amax(0).argmax(1)
    low, high = grid[steepest], grid[steepest + 1]
    # A jump stays where its interval is halved, and what is only steep does not.
    for _ in range(30):
        middle = (low + high) / 2
        first, second = change(torch.stack([low, middle, high], 1)).amax(0).unbind(1)
        low, high = torch.where(first >= second, low, middle), torch.where(first >= second, middle, high)
    jumps = change(torch.stack([low, high], 1))[..., 0]
    if float(jumps.max()) <= 1e-6:
        return ""
    cell, mover = divmod(int(jumps.argmax()), movers)
    which = "W_N" if cell else "W_P"
    return f"{which} jumps by {float(jumps.max()):.3g} where a prediction passes {float(high[mover]):.6g}."


def _wrong_slope(errors: Callable[[Tensor], Tensor], predictions: Tensor, g: torch.Generator) -> str:
    """Where autograd and the difference quotient disagree, in words; nothing if nowhere."""
    for _ in range(8):
        base = predictions + 0.01 * (torch.rand(_SAMPLES, generator=g, dtype=torch.float64) - 0.5)
        direction = torch.randn(_SAMPLES, generator=g, dtype=torch.float64)
        mix = torch.randn(2, _SAMPLES, generator=g, dtype=torch.float64)
        point = base.clone().requires_grad_()
        (grad,) = torch.autograd.grad((errors(point[:, None])[..., 0] * mix).sum(), point)
        slope = float(grad @ direction)
        h = 1e-5
        steps = h * torch.tensor([-2.0, -1.0, 1.0, 2.0], dtype=torch.float64)
        f = (errors(base[:, None] + direction[:, None] * steps).detach() * mix[..., None]).sum((0, 1))
        quotient = float((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h))  # of fourth order in h
        if not abs(slope - quotient) <= 1e-4 * (1 + abs(quotient)):
            return (
                f"autograd finds the derivative {slope:.6g} where the values change at a rate of {quotient:.6g}: is a "
                "step of the function not differentiable, or detached?"
            )
    return ""


def _one(tau: Tensor, *_: Tensor) -> Tensor:
    return torch.ones_like(tau)


def _doubled(weight: Weight) -> Weight:
    """The same weight with twice as many points, if it is integrated."""
    cores = weight._cores()
    points = [core.points for core in cores if isinstance(core, Custom)]
    if not points and len(cores) < 2:
        return weight
    return weight * Custom(_one, points=2 * max([32, *points] if len(cores) > 1 else points))
