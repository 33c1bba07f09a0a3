"""Whether a weight can be trained with: the paper's Definition 3, checked numerically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from scorewise._inputs import Batch, prepare
from scorewise._values import number
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.priors.base import tails
from scorewise.weights.base import Chances, Product, Weight
from scorewise.weights.custom import Custom, core_of

_SAMPLES = 16
_GRID = 65


@dataclass(frozen=True)
class Admissibility:
    """The answer of `admissible`, true or false in a condition.

    Attributes:
        holds: Whether the weight is admissible.
        reason: Why not, or what was tried.
        integration_error: By how much the expected errors move, relative to the largest, when a `Custom` is given twice
            as many points; 0 for weights with a closed form. If it is not small, give it more.
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
    reason = _jump(errors, predictions) or _wrong_slope(errors, predictions, g)
    doubled, moved = _doubled(weight), 0.0
    if doubled is not weight:
        refined = errors(predictions[:, None], doubled).detach()
        moved = float((refined - values).abs().max() / values.max().clamp(min=1e-300))
    tried = f"no jump and no wrong derivative among {_SAMPLES} predictions that moved from 0 to 1."
    return Admissibility(not reason, reason or tried, moved)


def _errors(weight: Weight, batch: Batch, prior: ThresholdPrior) -> tuple[Tensor, Tensor]:
    cdf, sf = tails(prior, batch.predictions, from_logits=False)
    core = core_of(weight)
    alarm, quiet = (cdf, sf) if core is None else core(batch, Chances(cdf, sf, prior=prior))
    factors, scales = weight._factors(batch) or (1.0, 1.0), weight._scales(batch)
    return alarm * factors[0] * scales[0], quiet * factors[1] * scales[1]


def _jump(errors: Callable[[Tensor], Tensor], predictions: Tensor) -> str:
    """Where W_P or W_N jumps as one prediction moves, in words; nothing if nowhere."""
    for sample in range(_SAMPLES):

        def along(t: Tensor, sample: int = sample) -> Tensor:
            p = predictions[:, None].repeat(1, len(t))
            p[sample] = t
            return errors(p).detach()

        t = torch.linspace(0.01, 0.99, _GRID, dtype=torch.float64)
        change = along(t).diff(dim=-1).abs().amax((0, 1))
        # A jump stays where its interval is halved, and what is steep does not.
        for k in change.topk(3).indices.tolist():
            low, high = t[k], t[k + 1]
            for _ in range(40):
                middle = (low + high) / 2
                first, second = along(torch.stack([low, middle, high])).diff(dim=-1).abs().amax((0, 1))
                low, high = (low, middle) if first >= second else (middle, high)
            steps = along(torch.stack([low, high])).diff(dim=-1).abs().amax((1, 2))
            if float(steps.max()) > 1e-6:
                which = "W_P" if steps[0] >= steps[1] else "W_N"
                return f"{which} jumps by {float(steps.max()):.3g} where a prediction passes {float(high):.6g}."
    return ""


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
        if abs(slope - quotient) > 1e-4 * (1 + abs(quotient)):
            return (
                f"autograd finds the derivative {slope:.6g} where the values change at a rate of {quotient:.6g}: is a "
                "step of the function not differentiable, or detached?"
            )
    return ""


def _doubled(weight: Weight) -> Weight:
    """The same weight with twice as many points, where it is integrated."""
    if isinstance(weight, Custom):
        return replace(weight, points=2 * weight.points)
    if isinstance(weight, Product):
        parts = tuple(_doubled(part) for part in weight.weights)
        return Product(parts) if any(a is not b for a, b in zip(parts, weight.weights, strict=True)) else weight
    return weight
