"""Priors with a closed form of a line or two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scorewise.priors.base import (
    Parameter,
    ThresholdPrior,
    edge_densities,
    log_of,
    parameters,
    require,
    safe_log,
    unfold,
    with_edges,
)

NARROWEST = 1e-6
"""The least width of a prior: float32 predictions near 1 are 6e-8 apart."""


@dataclass(frozen=True, eq=False)
class Uniform(ThresholdPrior):
    """Every threshold in [low, high] alike; on [0, 1] the expected matrix is the soft (probabilistic) one.

    Example:
        >>> Uniform(0.25, 0.75).cdf(torch.tensor([0.0, 0.5, 1.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """

    formula: ClassVar[str] = r"F(x) = \frac{x - a}{b - a}"

    low: Parameter = 0.0
    high: Parameter = 1.0

    def _setup(self) -> Sequence[Tensor]:
        low, high = parameters("Uniform", low=self.low, high=self.high)
        ordered = (0 <= low) & (high - low >= NARROWEST) & (high <= 1)
        require(ordered, "Uniform", f"0 <= low < high <= 1, at least {NARROWEST:g} apart", low=low, high=high)
        return low, high, 1 - high, 1 / (high - low)

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        low, high, rest, scale = self._constants.like(p)
        if _is_whole(low, high):
            return p, q
        return ((p - low) * scale).clamp(0, 1), ((q - rest) * scale).clamp(0, 1)

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        low, high, _, scale = self._constants.like(p)
        return ((p >= low) & (p <= high)).to(p.dtype) * scale

    def _slope(self, p: Tensor, q: Tensor) -> Tensor:
        return p * q if _is_whole(*self._constants.like(p)[:2]) else super()._slope(p, q)

    def _shortfalls(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        low, high, rest, scale = self._constants.like(p)
        if _is_whole(low, high):
            return p * p / 2, q * q / 2
        # cdf² / 2 times the width, and the whole distance beyond the support
        below, above = ((p - low) * scale).clamp(0, 1), ((q - rest) * scale).clamp(0, 1)
        return below**2 / (2 * scale) + (p - high).clamp(min=0), above**2 / (2 * scale) + (low - p).clamp(min=0)

    def _cuts(self) -> Tensor:
        return torch.stack(self._constants.values[:2])

    def _icdf(self, u: Tensor) -> Tensor:
        low, high = self._constants.tensors_like(u)[:2]
        return torch.lerp(low, high, u)

    def _mean(self) -> Tensor:
        low, high = self._constants.values[:2]
        return (low + high) / 2


@dataclass(frozen=True, eq=False)
class RaisedCosine(ThresholdPrior):
    """A bell of cosine shape around ``mu`` that ends at ``mu - delta`` and ``mu + delta``.

    Example:
        >>> RaisedCosine(mu=0.5, delta=0.1).support
        (0.4, 0.6)
    """

    formula: ClassVar[str] = (
        r"F(x) = \tfrac12\left(1 + \frac{x-\mu}{\delta} + \frac1\pi\sin\frac{\pi(x-\mu)}{\delta}\right)"
    )

    mu: Parameter = 0.5
    delta: Parameter = 0.1

    def _setup(self) -> Sequence[Tensor]:
        mu, delta = parameters("RaisedCosine", mu=self.mu, delta=self.delta)
        # An end may miss 0 or 1 by the rounding of mu - delta; that is not a threshold outside [0, 1].
        inside = (mu - delta >= -1e-12) & (mu + delta <= 1 + 1e-12)
        expected = f"delta >= {NARROWEST:g}, mu - delta >= 0, mu + delta <= 1"
        require((delta >= NARROWEST) & inside, "RaisedCosine", expected, mu=mu, delta=delta)
        low, high = (mu - delta).clamp(min=0), (mu + delta).clamp(max=1)
        return low, high, 1 - high, mu, delta

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        low, _, rest, mu, delta = self._constants.like(p)
        lower = p <= mu
        # The bell is symmetric: both tails are one function of the distance to the nearer end.
        x = torch.where(lower, p - low, q - rest).clamp(min=0) * (math.pi / delta)
        x2 = x * x
        # x - sin(x) cancels for small x; the series' first term left out is below 1e-16 of the sum there.
        series = x * x2 / 6 * (1 - x2 / 20 * (1 - x2 / 42 * (1 - x2 / 72 * (1 - x2 / 110))))
        small = torch.where(x < 0.4, series, x - torch.sin(x)) / (2 * math.pi)
        return unfold((~lower).to(p.dtype), small)

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        _, _, _, mu, delta = self._constants.like(p)
        u = ((p - mu) / delta).clamp(-1, 1)
        return torch.cos(u * (math.pi / 2)) ** 2 * (u.abs() < 1) / delta  # the cosine of pi/2 is not quite 0

    def _mean(self) -> Tensor:
        return self._constants.values[3]


@dataclass(frozen=True, eq=False)
class Triangular(ThresholdPrior):
    """Density that rises linearly from ``low`` to ``mode`` and falls linearly to ``high``.

    Example:
        >>> Triangular(0.0, 0.5, 1.0).cdf(torch.tensor([0.25, 0.5]))
        tensor([0.1250, 0.5000])
    """

    formula: ClassVar[str] = (
        r"F(x) = \frac{(x-a)^2}{(b-a)(c-a)}\ (x \le c),\quad 1 - \frac{(b-x)^2}{(b-a)(b-c)}\ (x > c)"
    )

    low: Parameter
    mode: Parameter
    high: Parameter

    def _setup(self) -> Sequence[Tensor]:
        low, mode, high = parameters("Triangular", low=self.low, mode=self.mode, high=self.high)
        ordered = (0 <= low) & (low <= mode) & (mode <= high) & (high - low >= NARROWEST) & (high <= 1)
        sides = ((mode == low) | (mode - low >= NARROWEST)) & ((mode == high) | (high - mode >= NARROWEST))
        expected = f"0 <= low <= mode <= high <= 1, low < high, and what differs at least {NARROWEST:g} apart"
        require(ordered & sides, "Triangular", expected, low=low, mode=mode, high=high)
        width = high - low
        # A side without width holds no p but the mode itself, and `_rises` gives that one to the other side.
        rising = torch.where(mode > low, 1 / (width * (mode - low)), 0.0)
        falling = torch.where(high > mode, 1 / (width * (high - mode)), 0.0)
        return low, high, 1 - high, mode, rising, falling

    def _rises(self, p: Tensor) -> Tensor:
        low, high, _, mode, _, _ = self._constants.like(p)
        return (p <= mode) & (mode > low) | (mode >= high)

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        low, _, rest, _, rising, falling = self._constants.like(p)
        rises = self._rises(p)
        below, above = (p - low).clamp(min=0), (q - rest).clamp(min=0)
        small = torch.where(rises, below * below * rising, above * above * falling)
        cdf, sf = unfold((~rises).to(p.dtype), small)
        return cdf.clamp(0, 1), sf.clamp(0, 1)

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        low, high, rest, _, rising, falling = self._constants.like(p)
        density = 2 * torch.where(self._rises(p), (p - low) * rising, (q - rest) * falling)
        return torch.where((p < low) | (p > high), 0.0, density)

    def _cuts(self) -> Tensor:
        low, high, _, mode, _, _ = self._constants.values
        return torch.stack([low, mode, high])

    def _icdf(self, u: Tensor) -> Tensor:
        low, high, _, mode, _, _ = self._constants.like(u)
        left, right = (high - low) * (mode - low), (high - low) * (high - mode)
        return torch.where(u * (high - low) <= mode - low, low + (u * left).sqrt(), high - ((1 - u) * right).sqrt())

    def _mean(self) -> Tensor:
        low, high, _, mode, _, _ = self._constants.values
        return (low + mode + high) / 3


@dataclass(frozen=True, eq=False)
class Kumaraswamy(ThresholdPrior):
    """Much like a beta distribution, with elementary tails.

    Example:
        >>> Kumaraswamy(1.0, 2.0).cdf(torch.tensor([0.5, 1.0]))
        tensor([0.7500, 1.0000])
    """

    formula: ClassVar[str] = r"F(x) = 1 - (1 - x^a)^b"

    a: Parameter
    b: Parameter

    def _setup(self) -> Sequence[Tensor]:
        a, b = parameters("Kumaraswamy", a=self.a, b=self.b)
        limits = (a >= 1e-3) & (b >= 1e-3) & (a <= 1e3) & (b <= 1e3)
        require(limits, "Kumaraswamy", "0.001 <= a, b <= 1000", a=a, b=b)
        return torch.zeros_like(a), torch.ones_like(a), a, b, *edge_densities(a, b)

    def _logs(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """log p and log(1 - p^a), each to full relative precision."""
        log_p = log_of(p, q)
        power = self._constants.like(p)[2] * log_p
        near_one = power > -math.log(2)
        far = torch.log1p(-torch.exp(power.clamp(max=-math.log(2))))
        return log_p, torch.where(near_one, safe_log(-torch.expm1(power)), far)

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        log_sf = self._constants.like(p)[3] * self._logs(p, q)[1]
        log_sf = with_edges(p, q, log_sf, 0.0, -math.inf)
        return -torch.expm1(log_sf), torch.exp(log_sf)

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        _, _, a, b, at_zero, at_one = self._constants.like(p)
        log_p, log_rest = self._logs(p, q)
        return with_edges(p, q, a * b * torch.exp((a - 1) * log_p + (b - 1) * log_rest), at_zero, at_one)

    def _slope(self, p: Tensor, q: Tensor) -> Tensor:
        _, _, a, b, _, _ = self._constants.like(p)
        log_p, log_rest = self._logs(p, q)
        return a * b * torch.exp(a * log_p + (b - 1) * log_rest + log_of(q, p)) * ((p > 0) & (q > 0))

    def _icdf(self, u: Tensor) -> Tensor:
        _, _, a, b, _, _ = self._constants.like(u)
        return (-torch.expm1(torch.log1p(-u) / b)) ** (1 / a)

    def _mean(self) -> Tensor:
        _, _, a, b, _, _ = self._constants.values
        return torch.exp(b.log() + torch.lgamma(1 + 1 / a) + torch.lgamma(b) - torch.lgamma(1 + 1 / a + b))


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TruncatedNormal(ThresholdPrior):
    """A normal distribution cut off at ``low`` and ``high``.

    ``mean`` is what is passed for the normal distribution before it is cut, and is kept as ``location``; the
    property ``mean`` is, as for every prior, the expected threshold.

    Example:
        >>> TruncatedNormal(mean=0.5, std=0.2).cdf(torch.tensor([0.5, 1.0]))
        tensor([0.5000, 1.0000])
    """

    formula: ClassVar[str] = (
        r"F(x) = \frac{\Phi(\frac{x-\mu}{\sigma}) - \Phi(\frac{a-\mu}{\sigma})}"
        r"{\Phi(\frac{b-\mu}{\sigma}) - \Phi(\frac{a-\mu}{\sigma})}"
    )

    location: Parameter
    std: Parameter
    low: Parameter
    high: Parameter

    def __init__(self, mean: Parameter, std: Parameter, low: Parameter = 0.0, high: Parameter = 1.0) -> None:
        for name, value in (("location", mean), ("std", std), ("low", low), ("high", high)):
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"TruncatedNormal(mean={self.location}, std={self.std}, low={self.low}, high={self.high})"

    def _setup(self) -> Sequence[Tensor]:
        mu, std, low, high = parameters(
            "TruncatedNormal", mean=self.location, std=self.std, low=self.low, high=self.high
        )
        ordered = (0 <= low) & (high - low >= NARROWEST) & (high <= 1)
        expected = f"0 <= low < high <= 1, at least {NARROWEST:g} apart"
        require(ordered, "TruncatedNormal", expected, low=low, high=high)
        # Wider than that it is a uniform distribution to all digits that a difference of its tails leaves.
        fits = (std >= NARROWEST) & (std <= 100 * (high - low))
        require(fits, "TruncatedNormal", f"{NARROWEST:g} <= std <= 100 (high - low)", std=std, low=low, high=high)
        ends = [(end - mu) / std for end in (low, high)]
        first, last = ((end, *_normal_parts(end)) for end in ends)
        mass = _normal_mass(first, last)
        # Below this float32 could not hold the mass that everything is divided by.
        require(
            mass > 1e-30, "TruncatedNormal", "a normal distribution with mass between low and high", mean=mu, std=std
        )
        return low, high, mu, std, mass, torch.log(mass * std) + math.log(2 * math.pi) / 2, *first, *last

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        low, high, mu, std, mass, _, *ends = self._constants.like(p)
        u = (p.clamp(low, high) - mu) / std
        here = (u, *_normal_parts(u))
        cdf, sf = (_normal_mass(here, end) / mass for end in (ends[:3], ends[3:]))
        return cdf.clamp(max=1), sf.clamp(max=1)

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        low, high, mu, std, _, log_scale, *_ = self._constants.like(p)
        u = (p - mu) / std
        return torch.where((p < low) | (p > high), 0.0, torch.exp(-u * u / 2 - log_scale))


@dataclass(frozen=True, eq=False)
class Logistic(ThresholdPrior):
    """A logistic distribution cut off at 0 and 1: a sigmoid of steepness 1/scale, made to run from 0 to 1.

    Example:
        >>> Logistic(mu=0.5, scale=0.1).cdf(torch.tensor([0.0, 0.5]))
        tensor([0.0000, 0.5000])
    """

    formula: ClassVar[str] = (
        r"F(x) = \frac{\sigma(\frac{x-\mu}{s}) - \sigma(\frac{-\mu}{s})}"
        r"{\sigma(\frac{1-\mu}{s}) - \sigma(\frac{-\mu}{s})}"
    )

    mu: Parameter
    scale: Parameter

    def _setup(self) -> Sequence[Tensor]:
        mu, scale = parameters("Logistic", mu=self.mu, scale=self.scale)
        require(scale >= NARROWEST, "Logistic", f"scale >= {NARROWEST:g}", scale=scale)
        # Further out the density is exponential to all digits, and rounding errors grow with the distance.
        near = (mu >= -40 * scale) & (mu <= 1 + 40 * scale)
        require(near, "Logistic", "mu within 40 scales of [0, 1]", mu=mu, scale=scale)
        # sigma(x) - sigma(y) = sigma(x) sigma(-y) (1 - exp(y - x)): no subtraction of neighbours anywhere below.
        span = -torch.expm1(-1 / scale)
        at_one, at_zero = _log_sigmoid((1 - mu) / scale), _log_sigmoid(mu / scale)
        log_mass = at_one + at_zero + torch.log(span * scale)
        return torch.zeros_like(mu), torch.ones_like(mu), mu, scale, at_one, at_zero, span, log_mass

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        _, _, mu, scale, at_one, at_zero, span, _ = self._constants.like(p)
        u = (p - mu) / scale
        cdf = torch.exp(_log_sigmoid(u) - at_one) * (-torch.expm1(-p / scale) / span)
        sf = torch.exp(_log_sigmoid(-u) - at_zero) * (-torch.expm1(-q / scale) / span)
        return cdf, sf

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        _, _, mu, scale, _, _, _, log_mass = self._constants.like(p)
        u = (p - mu) / scale
        return torch.exp(_log_sigmoid(u) + _log_sigmoid(-u) - log_mass)


def _is_whole(low: object, high: object) -> bool:
    return isinstance(low, float) and low == 0.0 and high == 1.0


def _log_sigmoid(x: Tensor) -> Tensor:
    # PyTorch's own logsigmoid wakes every thread even for a handful of numbers. Beyond the threshold exp(-x) is lost.
    return -softplus(-x, threshold=50.0)


def _normal_parts(u: Tensor) -> tuple[Tensor, Tensor]:
    """Phi(u) - 1/2, and the smaller of the two tails at u: each is exact where the other one cancels."""
    return torch.erf(u * math.sqrt(0.5)) / 2, torch.erfc(u.abs() * math.sqrt(0.5)) / 2


def _normal_mass(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """The standard normal mass between two points, each given as u followed by `_normal_parts` of u."""
    u, middle, tail = one
    v, other_middle, other_tail = other
    # On one side of zero and away from it the tails are small and exact; elsewhere the middle parts are.
    apart = (u * v > 0) & ((abs(u) > 1) | (abs(v) > 1))
    return torch.where(apart, (tail - other_tail).abs(), (middle - other_middle).abs())
