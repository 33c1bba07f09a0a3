"""The beta distribution, with the incomplete beta function that PyTorch lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import threshold

from scorewise.priors.base import (
    Parameter,
    ThresholdPrior,
    edge_densities,
    parameters,
    require,
    safe_log,
    unfold,
    with_edges,
)
from scorewise.priors.tables import Table, evaluate, fit

_DEGREE = 5


@dataclass(frozen=True, eq=False)
class Beta(ThresholdPrior):
    r"""The beta distribution: any single-peaked, rising, falling or U-shaped belief about the threshold.

    Below the split (a + 1) / (a + b + 2) the cdf, and above it the sf with a and b exchanged, is

    .. math:: I_p(a, b) = p^a \cdot \frac{q^b}{a\,B(a, b)}\,K(p),

    where only the continued fraction K is slow. Unlike p^a, the rest is smooth on its side of the split; its logarithm
    is tabulated once, over theta = arcsin(sqrt(p)), in which a beta distribution is about equally wide everywhere.
    The error is below 1e-12 in float64, and about 1e-7 times the larger parameter in float32. Parameters go up to 1000,
    a standard deviation of about 0.01; narrower than that, `TruncatedNormal` serves.

    Example:
        >>> Beta(2.0, 2.0).cdf(torch.tensor([0.5, 1.0]))
        tensor([0.5000, 1.0000])
    """

    formula: ClassVar[str] = (
        r"F(x) = I_x(\alpha, \beta) = \frac{1}{B(\alpha,\beta)}\int_0^x t^{\alpha-1}(1-t)^{\beta-1}dt"
    )

    alpha: Parameter
    beta: Parameter
    _table: Table = field(init=False, repr=False)
    _pieces: int = field(init=False, repr=False)

    def _setup(self) -> Sequence[Tensor]:
        a, b = torch.broadcast_tensors(*parameters("Beta", alpha=self.alpha, beta=self.beta))
        # Rounding errors grow with the parameters: 1e-12 at ten times the upper limit.
        limits = (a >= 1e-3) & (b >= 1e-3) & (a <= 1e3) & (b <= 1e3)
        require(limits, "Beta", "0.001 <= alpha, beta <= 1000", alpha=a, beta=b)
        mean, split, peak = a / (a + b), (a + 1) / (a + b + 2), _log_peak(a, b)

        pieces = 256 + 48 * math.ceil(float((a + b).max()) ** 0.5)
        # Two sides, (*batch, 2, 1): p below the split with (a, b), and q above it with (b, a).
        own, other, centre, end = (
            torch.stack(pair, -1).unsqueeze(-1) for pair in ((a, b), (b, a), (mean, 1 - mean), (split, 1 - split))
        )
        reach = torch.asin(end.sqrt())

        def logarithm(theta: Tensor) -> Tensor:
            x = torch.sin(theta) ** 2
            kernel = other * torch.log1p((centre - x) / (1 - centre)) - own * centre.log() + peak[..., None, None]
            return kernel + torch.log(_continued_fraction(own, other, x) / own)

        left = reach / pieces * torch.arange(pieces, dtype=torch.float64)
        # (powers, *batch, side, piece), flattened so that one index finds label, side and piece
        powers = fit(logarithm, left, (reach / pieces).expand_as(left), _DEGREE)
        object.__setattr__(self, "_table", Table([c.flatten() for c in powers]))
        object.__setattr__(self, "_pieces", pieces)
        label = torch.arange(a.numel(), dtype=torch.float64).reshape(a.shape) * (2 * pieces)
        below, above = (pieces / reach).squeeze(-1).unbind(-1)
        zero, one = torch.zeros_like(a), torch.ones_like(a)
        return zero, one, a, b, mean, split, peak, label, below, above, *edge_densities(a, b)

    def _place(self, x: Tensor) -> None:
        super()._place(x)
        self._table.like(x)

    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        _, _, a, b, _, split, _, label, below, above, _, _ = self._constants.like(p)
        upper = (p > split).to(p.dtype)
        near = torch.lerp(p, q, upper)  # exactly p where upper is 0, and q where it is 1
        place = torch.asin(torch.sqrt(near)) * (below + upper * (above - below))
        # A NaN too must find a piece to look up; log(near) keeps the result NaN.
        place = place.nan_to_num(0.0).clamp(0, self._pieces * (1 - torch.finfo(p.dtype).eps))
        index = place.int() + (upper * self._pieces + label).int()
        log_rest = evaluate(self._table.like(p), index, place.frac())
        log_small = torch.addcmul(log_rest, a + upper * (b - a), torch.log(near))
        # Straight to 0: arithmetic on numbers below the normal ones is many times slower.
        log_small = threshold(log_small, math.log(torch.finfo(p.dtype).tiny), -math.inf)
        return unfold(upper, torch.exp(log_small))

    def _log_kernel(self, p: Tensor, q: Tensor) -> Tensor:
        """log of p^a q^b / B(a, b), relative to the mean so that the large terms cancel where the mass is."""
        _, _, a, b, mean, _, peak, *_ = self._constants.like(p)
        return peak + a * safe_log(p / mean) + b * safe_log(q / (1 - mean))

    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        *_, at_zero, at_one = self._constants.like(p)
        inside = torch.exp(self._log_kernel(p, q) - safe_log(p) - safe_log(q))
        return with_edges(p, q, inside, at_zero, at_one)

    def _slope(self, p: Tensor, q: Tensor) -> Tensor:
        return torch.exp(self._log_kernel(p, q)) * ((p > 0) & (q > 0))

    def _mean(self) -> Tensor:
        return self._constants.values[4]


def _log_peak(a: Tensor, b: Tensor) -> Tensor:
    """log of m^a (1-m)^b / B(a, b) at the mean m = a / (a + b).

    By Stirling's formula the large terms of the three log-gammas cancel on paper instead of in floating point.
    """
    return (a.log() + b.log() - (a + b).log() - math.log(2 * math.pi)) / 2 + (
        _stirling_rest(a + b) - _stirling_rest(a) - _stirling_rest(b)
    )


def _stirling_rest(x: Tensor) -> Tensor:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)."""
    direct = torch.lgamma(x) - ((x - 0.5) * x.log() - x + math.log(2 * math.pi) / 2)
    i = 1 / (x * x)
    series = (1 / 12 - i * (1 / 360 - i * (1 / 1260 - i * (1 / 1680 - i * (1 / 1188 - i * 691 / 360360))))) / x
    return torch.where(x > 12, series, direct)


def _continued_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The continued fraction of I_x(a, b), for x below (a + 1) / (a + b + 2) (DLMF 8.17.22), by Lentz's method.

    It converges in about sqrt(max(a, b)) steps there, and its partial numerators are small enough that no
    denominator vanishes.
    """
    c = torch.ones_like(x)
    d = 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 20_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / (1 + even * d), 1 + even / c
        value = value * d * c
        d, c = 1 / (1 + odd * d), 1 + odd / c
        step = d * c
        value = value * step
        if bool(((step - 1).abs() < 2e-15).all()):
            return value
    raise RuntimeError("the incomplete beta function did not converge")  # cannot happen within the limits of Beta
