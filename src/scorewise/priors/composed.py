"""Priors made of something else: other priors, a distribution of PyTorch's, a density function."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution

from scorewise._values import describe
from scorewise.priors.base import ThresholdPrior, parameters, require, with_edges
from scorewise.priors.families import Uniform
from scorewise.priors.tables import Table, evaluate, fit


@dataclass(frozen=True, eq=False)
class Mixture(ThresholdPrior):
    """A weighted mixture of priors, for thresholds of more than one kind of user.

    Args:
        priors: The components.
        probabilities: How likely each is; non-negative, sum 1.

    Example:
        >>> from scorewise.priors import Uniform
        >>> Mixture([Uniform(0.0, 0.5), Uniform(0.5, 1.0)], [0.8, 0.2]).cdf(torch.tensor([0.5, 1.0]))
        tensor([0.8000, 1.0000])
    """

    formula: ClassVar[str] = r"F(x) = \sum_k \pi_k F_k(x)"

    priors: Sequence[ThresholdPrior]
    probabilities: Sequence[float] | Tensor

    def _setup(self) -> Sequence[Tensor]:
        if not isinstance(self.priors, Sequence):
            raise TypeError(f"Mixture: priors must be a list of priors, saw {type(self.priors).__name__}.")
        object.__setattr__(self, "priors", tuple(as_prior(p) for p in self.priors))
        (weights,) = parameters("Mixture", probabilities=self.probabilities)
        if weights.dim() != 1 or len(weights) != len(self.priors) or not self.priors:
            raise ValueError(
                f"Mixture: expected one probability for each of at least one prior, saw {len(self.priors)} priors and "
                f"probabilities of shape {tuple(weights.shape)}."
            )
        fair = (weights >= 0).all() & ((weights.sum() - 1).abs() < 1e-6)
        require(fair, "Mixture", "probabilities at least 0 that sum to 1", probabilities=weights)
        weights = weights / weights.sum()
        shape = torch.broadcast_shapes(*(p.batch_shape for p in self.priors))
        lows, highs = (torch.stack([p._constants.values[end].expand(shape) for p in self.priors]) for end in (0, 1))
        return lows.amin(0), highs.amax(0), *weights

    def _place(self, x: Tensor) -> None:
        super()._place(x)
        for prior in self.priors:
            prior._place(x)

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        weights = self._constants.like(p)[2:]
        pairs = [prior._tails(p, q) for prior in self.priors]
        cdf, sf = (sum(w * pair[i] for w, pair in zip(weights, pairs, strict=True)) for i in (0, 1))
        return torch.as_tensor(cdf), torch.as_tensor(sf)

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        weights = self._constants.like(p)[2:]
        return torch.as_tensor(sum(w * prior._pdf(p, q) for w, prior in zip(weights, self.priors, strict=True)))

    def _slope(self, p: Tensor, q: Tensor) -> Tensor:
        weights = self._constants.like(p)[2:]
        return torch.as_tensor(sum(w * prior._slope(p, q) for w, prior in zip(weights, self.priors, strict=True)))

    def _cuts(self) -> Tensor:
        return torch.cat([super()._cuts(), *(p._cuts().expand(-1, *self.batch_shape) for p in self.priors)])

    def _mean(self) -> Tensor:
        weights = self._constants.values[2:]
        return torch.as_tensor(sum(w * prior.mean for w, prior in zip(weights, self.priors, strict=True)))


@dataclass(frozen=True, eq=False)
class Truncated(ThresholdPrior):
    """Any distribution of `torch.distributions` that has a cdf, cut off at 0 and 1 and renormalised.

    PyTorch's distributions give no upper tail: here ``sf`` is a difference of cdfs, and loses its digits where the cdf
    is almost 1. The priors of this package do not.

    Example:
        >>> Truncated(torch.distributions.Normal(0.5, 0.2)).cdf(torch.tensor([0.5, 1.0]))
        tensor([0.5000, 1.0000])
    """

    formula: ClassVar[str] = r"F(x) = \frac{G(x) - G(0)}{G(1) - G(0)}"

    distribution: Distribution
    _quiet: Distribution = field(init=False, repr=False)

    def _setup(self) -> Sequence[Tensor]:
        name = f"Truncated({type(self.distribution).__name__})"
        if self.distribution.event_shape:
            raise ValueError(
                f"{name}: a threshold is one number, but the distribution's events have the shape "
                f"{tuple(self.distribution.event_shape)}."
            )
        # Its own argument check would refuse predictions outside its support; here they are simply far away.
        quiet = _quiet(self.distribution)
        object.__setattr__(self, "_quiet", quiet)
        constraint = self.distribution.support
        low = _bound(constraint, "lower_bound", 0.0).clamp(0, 1)
        high = _bound(constraint, "upper_bound", 1.0).clamp(0, 1)
        low, high = torch.broadcast_tensors(low, high)
        try:
            first, last = (quiet.cdf(end).detach().double().cpu() for end in (low, high))
        except NotImplementedError as error:
            instead = " Use scorewise.priors.Beta." if type(self.distribution).__name__ == "Beta" else ""
            raise TypeError(f"{name}: this distribution has no cdf, so it cannot be a prior.{instead}") from error
        require(last - first > 1e-9, name, "probability between 0 and 1", cdf_at_0=first, cdf_at_1=last)
        low, high = (end.expand(first.shape) for end in (low, high))
        scale = 1 / (last - first)
        return low, high, first, last, scale, *(self._limit(end, low, high) * scale for end in (low, high))

    def _limit(self, end: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The density towards an end of the support, where some distributions know none.

        A density that still grows by a twentieth as the distance halves for the last time has no finite limit.
        """
        at, near, next_to = (
            self._quiet.log_prob(_inside(end, low, high, steps)).detach().double().cpu() for steps in (0, 1, 2)
        )
        limit = torch.where(near > next_to + 0.05, math.inf, near)
        return torch.exp(torch.where(at.isnan(), limit, at))

    def _place(self, x: Tensor) -> None:
        self._constants.tensors_like(x)

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        low, high, first, last, scale, _, _ = self._constants.tensors_like(p)
        value = self._quiet.cdf(torch.minimum(torch.maximum(p, low), high)).to(p.dtype)
        cdf, sf = ((value - first) * scale).clamp(0, 1), ((last - value) * scale).clamp(0, 1)
        # The distribution's own rounding may differ between one number and many.
        return with_edges(p - low, high - p, cdf, 0.0, 1.0), with_edges(p - low, high - p, sf, 1.0, 0.0)

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        low, high, _, _, scale, at_low, at_high = self._constants.tensors_like(p)
        outside = (p < low) | (p > high)
        inner = torch.exp(self._quiet.log_prob(_inside(p, low, high, 1)).to(p.dtype)) * scale
        return torch.where(outside, 0.0, with_edges(p - low, high - p, inner, at_low, at_high))


@dataclass(frozen=True, eq=False)
class Density(ThresholdPrior):
    """Any density function on [0, 1], normalised here.

    The cdf is integrated once into a table; its derivative is the function itself. A peak narrower than about 1/200 can
    be missed: name places on both sides of it in ``breaks``.

    Args:
        function: Elementwise on float tensors, at least 0; need not integrate to 1.
        breaks: Where the function or a derivative of it jumps, if anywhere.

    Example:
        >>> Density(lambda t: t * (1 - t)).cdf(torch.tensor([0.5, 1.0]))
        tensor([0.5000, 1.0000])
    """

    formula: ClassVar[str] = r"F(x) = \int_0^x f(t)\,dt \Big/ \int_0^1 f(t)\,dt"

    function: Callable[[Tensor], Tensor]
    breaks: Sequence[float] = ()
    _table: Table = field(init=False, repr=False)
    _sections: Table = field(init=False, repr=False)
    _pieces: int = field(init=False, repr=False)

    def _setup(self) -> Sequence[Tensor]:
        if not callable(self.function):
            raise TypeError(f"Density: expected a function of a tensor, saw {type(self.function).__name__}.")
        if not isinstance(self.breaks, Sequence):
            raise TypeError(f"Density: breaks must be a list of numbers inside (0, 1), saw {self.breaks!r}.")
        inner = sorted({float(b) for b in self.breaks})
        if inner and not (inner[0] > 0 and inner[-1] < 1):
            raise ValueError(f"Density: breaks must lie inside (0, 1), saw {inner}.")
        ends = torch.tensor([0.0, *inner, 1.0], dtype=torch.float64)
        coarse = self._integrate(ends, 16)
        for pieces in (32, 64, 128, 256, 512, 1024):
            fine = self._integrate(ends, pieces)
            # a piece of the coarser table is two of the finer one
            moved = fine.sum(0).reshape(-1, 2).sum(1) - coarse.sum(0)
            error = float(moved.abs().sum() / fine.sum())
            if error < 1e-13:
                break
            coarse = fine
        else:
            raise ValueError(
                f"Density: the integral still moves by {error:.1e} of itself at {pieces} pieces. Name the places where "
                "the function jumps or has a corner in breaks=. Where it or its slope is infinite, as t**0.5 at 0, no "
                "table will do: use Beta or Kumaraswamy."
            )
        masses = fine.sum(0)
        before = masses.cumsum(0) - masses
        after = masses.flip(0).cumsum(0).flip(0)  # summed from above: total - before would lose the upper tail
        total = masses.sum()
        object.__setattr__(self, "_pieces", pieces)
        object.__setattr__(self, "_table", Table([part / total for part in (before, after, *fine)]))
        object.__setattr__(self, "_sections", Table([ends, pieces / ends.diff()]))
        return ends[0], ends[-1], 1 / total

    def _integrate(self, ends: Tensor, pieces: int) -> Tensor:
        """The integral along each piece as a polynomial without constant term: (powers, pieces), from t^1 on."""
        steps = torch.arange(pieces, dtype=torch.float64) / pieces
        left = (ends[:-1, None] + ends.diff()[:, None] * steps).flatten()
        width = (ends.diff() / pieces).repeat_interleave(pieces)
        polynomials = fit(self._checked, left, width, 7)
        powers = torch.arange(1, len(polynomials) + 1, dtype=torch.float64)[:, None]
        return polynomials * width / powers

    def _checked(self, t: Tensor) -> Tensor:
        value = self.function(t)
        if not isinstance(value, Tensor) or value.shape != t.shape:
            seen = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"Density: the function must return a tensor of its input's shape {tuple(t.shape)}, saw {seen}."
            )
        value = value.detach().double()
        if not bool((value.isfinite() & (value >= 0)).all()):
            bad = value[~(value.isfinite() & (value >= 0))]
            raise ValueError(f"Density: the function must be finite and at least 0 on (0, 1), saw {describe(bad)}.")
        if not bool((value > 0).any()):
            raise ValueError("Density: the function is zero everywhere on [0, 1].")
        return value

    def _place(self, x: Tensor) -> None:
        super()._place(x)
        self._table.like(x)
        self._sections.like(x)

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        before, after, *coefficients = self._table.like(p)
        ends, rate = self._sections.like(p)
        if self.breaks:
            section: Tensor | int = torch.bucketize(p.contiguous(), ends[1:-1], right=True)
            place = (p - ends[section]) * rate[section]
        else:
            section, place = 0, p * self._pieces
        step = place.long().clamp(0, self._pieces - 1)  # as integers: a NaN has a piece too
        piece, t = step + section * self._pieces, place - step
        part = evaluate(tuple(coefficients), piece, t) * t
        cdf, sf = (before[piece] + part).clamp(0, 1), (after[piece] - part).clamp(0, 1)
        return with_edges(p, q, cdf, 0.0, 1.0), with_edges(p, q, sf, 1.0, 0.0)

    def _cuts(self) -> Tensor:
        return torch.cat([super()._cuts(), self._sections.values[0]])

    def _mean(self) -> Tensor:
        # the integral of sf, piece by piece
        _, after, *coefficients = self._table.values
        parts = sum(c / (power + 1) for power, c in enumerate(coefficients, start=1))
        width = 1 / self._sections.values[1].repeat_interleave(self._pieces)
        return ((after - parts) * width).sum()

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        # In float64, like the table: a function that is not normalised may not fit into less.
        wide = p if p.device.type == "mps" else p.double()
        return (self.function(wide) * self._constants.like(wide)[2]).to(p.dtype)


_DEFAULT = Uniform()


def as_prior(prior: object) -> ThresholdPrior:
    """A prior from what users may pass for one.

    Args:
        prior: None (uniform on [0, 1]), a `ThresholdPrior`, a `torch.distributions` object, or a density function.
    """
    if prior is None:
        return _DEFAULT
    if isinstance(prior, ThresholdPrior):
        return prior
    if isinstance(prior, Distribution):
        return Truncated(prior)
    if callable(prior) and not isinstance(prior, type):
        return Density(prior)
    seen = f"the class {prior.__name__} (make an object of it)" if isinstance(prior, type) else repr(prior)
    raise TypeError(
        "a prior must be an object of scorewise.priors, a torch.distributions object with a cdf, a density function on "
        f"[0, 1], or None for the uniform prior; saw {seen}."
    )


def _inside(p: Tensor, low: Tensor, high: Tensor, steps: int) -> Tensor:
    """``p``, brought to at least so many steps of the dtype inside [low, high]."""
    step, tiny = steps * torch.finfo(p.dtype).eps, steps * torch.finfo(p.dtype).tiny
    return torch.minimum(torch.maximum(p, torch.maximum(low * (1 + step), low + tiny)), high * (1 - step))


def _quiet(distribution: Distribution) -> Distribution:
    """A copy that checks no arguments, down to the distributions that it is made of."""
    quiet = copy.copy(distribution)
    quiet._validate_args = False  # there is no public switch on an instance
    for part in ("base_dist", "_component_distribution", "_mixture_distribution"):
        inner = getattr(quiet, part, None)
        if isinstance(inner, Distribution):
            setattr(quiet, part, _quiet(inner))
    return quiet


def _bound(constraint: Any, name: str, default: float) -> Tensor:
    value = getattr(constraint, name, default)
    return torch.as_tensor(value, dtype=torch.float64).detach().cpu()
