"""What every threshold prior shares: the public methods, the exact derivative, and its constants.

A family of priors says only three things: its constants, its two tails and its density. All three are written in the
pair ``(p, q)`` with ``q = 1 - p`` given on its own, because from logits ``q = sigmoid(-z)`` is known far below the
rounding error of ``1 - p``, and the upper tail of the prior lives there.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from scorewise._blocks import rows_per_block
from scorewise._values import as_tensor, describe
from scorewise.priors.tables import Table

Parameter = float | Tensor
"""A parameter of a prior: a number, or a tensor with one value per label (anything that broadcasts)."""


class ThresholdPrior(ABC):
    """Distribution of the decision threshold on [0, 1].

    ``cdf``, ``sf`` and ``pdf`` are total: they are defined for every real number, take any float dtype and device,
    and broadcast against the prior's parameters. The derivative of ``cdf`` is exactly ``pdf`` (and of ``sf`` exactly
    ``-pdf``), and can be differentiated again wherever the density can. At an end of the support where the density is
    infinite the derivative is taken to be zero.
    """

    formula: ClassVar[str]
    """The cumulative distribution function on the support, in LaTeX."""

    _constants: Constants
    # Made when a weight asks for them: the integral of the cdf, and where to cut an integral over the threshold.
    _integral: ClassVar[Table | None] = None
    _stretches: ClassVar[Table | None] = None

    def __post_init__(self) -> None:
        # Constants are made once, here, in float64, whatever the default device is. (The compiler cannot enter that
        # context, and has no need to.)
        with contextlib.nullcontext() if torch.compiler.is_compiling() else torch.device("cpu"):
            object.__setattr__(self, "_constants", Constants(self._setup()))

    # What a family says.

    @abstractmethod
    def _setup(self) -> Sequence[Tensor]:
        """Check the parameters; return the support's two ends and what else the methods below need, in float64."""

    @abstractmethod
    def _tails(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """P(threshold < p) and P(threshold >= p), for p in [0, 1] and q = 1 - p."""

    @abstractmethod
    def _pdf(self, p: Tensor, q: Tensor) -> Tensor:
        """The density at p in [0, 1], zero outside the support."""

    # What a family may say better.

    def _place(self, x: Tensor) -> None:
        """Have the tensors ready beside ``x``: inside an autograd function the compiler could not keep them."""
        self._constants.like(x)

    def _slope(self, p: Tensor, q: Tensor) -> Tensor:
        """The derivative of the cdf with respect to the logit of p: the density times p times q."""
        density = self._pdf(p, q)
        # An infinite density at p = 0 or 1 meets p * q = 0 there; the product's limit is 0.
        finite = ((p * q) > 0) & density.isfinite()
        return torch.where(finite, torch.where(finite, density, 0.0) * (p * q), 0.0)

    def _shortfalls(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor] | None:
        """The integrals of the cdf up to p and of the sf from p on; None where a table has to be made of them."""
        return None

    def _cuts(self) -> Tensor:
        """Thresholds between which the density is smooth and of one size, in float64, stacked."""
        u = torch.tensor([0, 1e-12, 1e-6, 0.02, 0.5, 0.98, 1 - 1e-6, 1 - 1e-12, 1], dtype=torch.float64)
        return self.icdf(u.reshape(-1, *[1] * len(self.batch_shape)))

    def _icdf(self, u: Tensor) -> Tensor:
        """The smallest p with cdf(p) >= u, by bisection over the representable numbers of [0, 1].

        Non-negative floats are ordered as the integers that share their bits are, so halving the integers reaches the
        answer in as many steps as the dtype has bits, with full relative precision however small the answer is.
        """
        bits = torch.int64 if u.dtype == torch.float64 else torch.int32
        low, high = (end.expand_as(u).contiguous().view(bits) for end in self._constants.tensors_like(u)[:2])
        for _ in range(torch.iinfo(bits).bits):
            middle = low + (high - low) // 2
            p = middle.view(u.dtype)
            enough = self._tails(p, 1 - p)[0] >= u
            high = torch.where(enough, middle, high)
            low = torch.where(enough, low, torch.minimum(middle + 1, high))
        return high.view(u.dtype)

    # What users call.

    @property
    def support(self) -> tuple[Parameter, Parameter]:
        """The smallest and the largest threshold: numbers, or tensors where a parameter is batched."""
        low, high = self._constants.values[:2]
        return (low.item(), high.item()) if low.dim() == high.dim() == 0 else (low, high)

    @property
    def mean(self) -> Tensor:
        """The expected threshold, in float64."""
        with torch.device("cpu"):
            return self._mean().expand(self.batch_shape)

    def _mean(self) -> Tensor:
        """By integrating sf between the quantiles 2^-k and 1 - 2^-k, so that panels follow the distribution.

        Each panel is cut into 32, because a density of the user's may have a corner anywhere.
        """
        halves = 0.5 ** torch.arange(60, 0, -1, dtype=torch.float64)
        u = torch.cat([halves, 1 - halves.flip(0)[1:]]).reshape(-1, *[1] * len(self.batch_shape))
        low, high = (end.expand(1, *self.batch_shape) for end in self._constants.values[:2])
        quantiles = torch.cat([low, self.icdf(u), high])
        cuts = torch.arange(32, dtype=torch.float64).reshape(-1, *[1] * len(self.batch_shape)) / 32
        ends = torch.cat([(quantiles[:-1, None] + quantiles.diff(dim=0)[:, None] * cuts).flatten(0, 1), high])
        nodes, weights = gauss_legendre(8)
        nodes, weights = (t.reshape(-1, *[1] * ends.dim()) for t in (nodes, weights))
        widths = ends.diff(dim=0)
        return low[0] + (self.sf(ends[:-1] + widths * nodes) * widths * weights).sum((0, 1))

    @property
    def batch_shape(self) -> torch.Size:
        """The common shape of the parameters; empty when all are numbers."""
        return self._constants.shape

    def cdf(self, x: Tensor) -> Tensor:
        """Probability that the threshold lies below ``x``, which is then called positive."""
        return self._evaluate(x)[0]

    def sf(self, x: Tensor) -> Tensor:
        """Probability that the threshold is at least ``x``: 1 - cdf(x), without the subtraction's loss."""
        return self._evaluate(x)[1]

    def pdf(self, x: Tensor) -> Tensor:
        """Density of the threshold at ``x``; zero outside the support."""
        x = _floating(x, "x")
        work = widened(x)
        return density(self, work).to(x.dtype)

    def icdf(self, u: Tensor) -> Tensor:
        """The threshold below which the prior has probability ``u``; NaN where ``u`` is outside [0, 1]."""
        u = _floating(u, "u")
        quantile: Callable[..., Tensor] = _Quantile.apply
        return quantile(widened(u), self).to(u.dtype)

    def sample(self, shape: int | Sequence[int] = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw thresholds of the given shape, followed by the prior's ``batch_shape``, in float64."""
        if isinstance(shape, int):
            shape = (shape,)
        device = generator.device if generator is not None else None
        u = torch.rand((*shape, *self.batch_shape), generator=generator, dtype=torch.float64, device=device)
        return self.icdf(u)

    def _evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = _floating(x, "x")
        below, above = tails(self, widened(x), from_logits=False)
        return below.to(x.dtype), above.to(x.dtype)


def keep(prior: ThresholdPrior, name: str, make: Callable[[], Table]) -> Table:
    """A table that is made of a prior when it is first asked for, and kept with it."""
    table: Table | None = getattr(prior, name)
    if table is None:
        if torch.compiler.is_compiling():
            raise RuntimeError(
                "this prior has not been integrated yet, which cannot be done inside a compiled graph. Make the "
                "ScoreLoss outside of it, or call the function once before compiling it."
            )
        with torch.device("cpu"), torch.inference_mode(False), torch.no_grad():
            table = make()
        object.__setattr__(prior, name, table)
    return table


def tails(prior: ThresholdPrior, x: Tensor, *, from_logits: bool) -> tuple[Tensor, Tensor]:
    """The prior's cdf and sf at predictions or logits, differentiable in ``x``."""
    prior._place(x)
    both: Callable[..., tuple[Tensor, Tensor]] = _Tails.apply
    return both(x, prior, from_logits)


def slope(prior: ThresholdPrior, x: Tensor, *, from_logits: bool) -> Tensor:
    """The derivative of the prior's cdf with respect to predictions or logits."""
    if from_logits:
        return prior._slope(*as_pair(x, from_logits=True))
    value = density(prior, x)
    return torch.where(value.isinf(), 0.0, value)


def density(prior: ThresholdPrior, x: Tensor) -> Tensor:
    """The prior's pdf on the whole real line."""
    outside = (x < 0) | (x > 1)
    return torch.where(outside, 0.0, prior._pdf(*as_pair(x, from_logits=False)))


def as_pair(x: Tensor, *, from_logits: bool) -> tuple[Tensor, Tensor]:
    """Probabilities p in [0, 1] and q = 1 - p, each with its own digits."""
    if from_logits:
        # Not in place: compiled by PyTorch 2.11, an output made so loses its gradient.
        return torch.sigmoid(x), torch.sigmoid(-x)
    return x.clamp(0, 1), (1 - x).clamp(0, 1)


class _Tails(torch.autograd.Function):
    """cdf and sf, whose derivatives are plus and minus the density rather than those of the formulas for the tails."""

    @staticmethod
    def forward(x: Tensor, prior: ThresholdPrior, from_logits: bool) -> tuple[Tensor, Tensor]:
        rows = rows_per_block(x)
        if prior.batch_shape or x.dim() == 0 or rows >= x.shape[0]:
            return prior._tails(*as_pair(x, from_logits=from_logits))
        cdf, sf = torch.empty_like(x), torch.empty_like(x)
        for part, below, above in zip(x.split(rows), cdf.split(rows), sf.split(rows), strict=True):
            b, a = prior._tails(*as_pair(part, from_logits=from_logits))
            below.copy_(b)
            above.copy_(a)
        return cdf, sf

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ThresholdPrior, bool], output: tuple[Tensor, Tensor]) -> None:
        x, ctx.prior, ctx.from_logits = inputs
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None]:
        of_cdf, of_sf = grads
        of_quiet = None if of_sf is None else -of_sf
        grad = of_quiet if of_cdf is None else of_cdf if of_quiet is None else of_cdf + of_quiet
        if grad is None:
            return None, None, None
        (x,) = ctx.saved_tensors
        return (grad * slope(ctx.prior, x, from_logits=ctx.from_logits)).sum_to_size(x.shape), None, None


class _Quantile(torch.autograd.Function):
    """The inverse of the cdf, whose derivative is one over the density."""

    @staticmethod
    def forward(u: Tensor, prior: ThresholdPrior) -> Tensor:
        u = u.expand(torch.broadcast_shapes(u.shape, prior.batch_shape))
        low, high = prior._constants.tensors_like(u)[:2]
        # Rounding may make a cdf 0 or 1 before its ends.
        value = torch.where(u <= 0, low, torch.where(u >= 1, high, prior._icdf(u.clamp(0, 1))))
        return torch.where((u >= 0) & (u <= 1), value, math.nan)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ThresholdPrior], output: Tensor) -> None:
        u, ctx.prior = inputs
        ctx.shape = u.shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (value,) = ctx.saved_tensors
        return (grads[0] / density(ctx.prior, value)).sum_to_size(ctx.shape), None


class Constants:
    """A prior's constants: Python numbers where nothing is batched, since those need no transfer, else tensors."""

    def __init__(self, values: Sequence[Tensor]) -> None:
        # not broadcast_shapes: that imports SymPy, which takes longer than importing all of ours
        spread = torch.broadcast_tensors(*values)
        self.shape: torch.Size = spread[0].shape if spread else torch.Size()
        self._table = Table(spread)
        self.values = self._table.values
        self._numbers = tuple(v.item() for v in self.values) if self.shape == torch.Size() else None

    def like(self, x: Tensor) -> tuple[Tensor, ...]:
        """The constants, ready to be combined with ``x``: if they can be, numbers, which pass for tensors there."""
        return self._table.like(x) if self._numbers is None else cast("tuple[Tensor, ...]", self._numbers)

    def tensors_like(self, x: Tensor) -> tuple[Tensor, ...]:
        """The constants as tensors, in the dtype and on the device of ``x``."""
        return self._table.like(x)


def parameters(family: str, **values: object) -> list[Tensor]:
    """Parameters as float64 tensors, checked to be finite numbers.

    Args:
        family: The prior's name, for messages.
        values: What the user passed, by parameter name.
    """
    out = []
    for name, value in values.items():
        tensor = as_tensor(value, f"{family}: {name}")
        if tensor.requires_grad:
            raise ValueError(
                f"{family}: {name} requires grad, but a prior's parameters are fixed: they say which thresholds "
                f"matter, and a loss would move them to wherever the score is easiest. Pass {name}.detach()."
            )
        if tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"{family}: {name} must be a real number or a tensor of them, saw {tensor.dtype}.")
        tensor = tensor.detach().double()
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{family}: {name} must be finite, saw {describe(tensor)}.")
        out.append(tensor.cpu())
    try:
        torch.broadcast_tensors(*out)
    except RuntimeError as error:
        seen = ", ".join(f"{name} {tuple(t.shape)}" for name, t in zip(values, out, strict=True))
        raise ValueError(f"{family}: the parameters' shapes must fit each other, saw {seen}.") from error
    return out


def require(condition: Tensor, family: str, expected: str, **values: Tensor) -> None:
    """Raise a ValueError that shows the parameters unless ``condition`` holds everywhere."""
    if not bool(condition.all()):
        seen = ", ".join(f"{name}={describe(value)}" for name, value in values.items())
        raise ValueError(f"{family}: expected {expected}, saw {seen}.")


def gauss_legendre(points: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1], in float64.

    They are the eigenvalues of the Legendre polynomials' Jacobi matrix and the squares of its eigenvectors' first
    entries (Golub and Welsch, Math. Comp. 23, 1969).
    """
    k = torch.arange(1, points, dtype=torch.float64)
    off = k / (4 * k * k - 1).sqrt()
    values, vectors = torch.linalg.eigh(torch.diag(off, 1) + torch.diag(off, -1))
    return (values + 1) / 2, vectors[0] ** 2


def widened(x: Tensor) -> Tensor:
    """``x``, in float32 if its dtype is narrower than that."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _floating(x: object, name: str) -> Tensor:
    tensor = as_tensor(x, name)
    return tensor if tensor.is_floating_point() else tensor.double()


def unfold(upper: Tensor, small: Tensor) -> tuple[Tensor, Tensor]:
    """cdf and sf from the one that is computed directly: the sf where ``upper`` is 1, the cdf where it is 0.

    The direct one passes through exactly. Arithmetic, because `torch.where` costs four times as much.
    """
    rest = 1 - 2 * small
    return torch.addcmul(small, upper, rest), torch.addcmul(small, 1 - upper, rest)


def safe_log(x: Tensor) -> Tensor:
    """log(x) with a finite value and derivative at 0, where the caller puts the limit itself."""
    return torch.log(x.clamp_min(torch.finfo(x.dtype).tiny))


def log_of(p: Tensor, q: Tensor) -> Tensor:
    """log p to full relative precision on both sides of [0, 1]."""
    # clamped where the other branch is taken: an infinite derivative there would become NaN
    return torch.where(p < 0.5, safe_log(p), torch.log1p(-q.clamp(max=0.5)))


def edge_densities(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A beta-like density's limits at 0 and 1, where it behaves as x^(a-1) and (1-x)^(b-1)."""
    at_zero = torch.where(a < 1, math.inf, torch.where(a == 1, b, 0.0))
    at_one = torch.where(b < 1, math.inf, torch.where(b == 1, a, 0.0))
    return at_zero, at_one


def with_edges(p: Tensor, q: Tensor, inside: Tensor, at_zero: Any, at_one: Any) -> Tensor:
    """``inside`` on (0, 1), and the given limits at its ends."""
    return torch.where(p <= 0, at_zero, torch.where(q <= 0, at_one, inside))
