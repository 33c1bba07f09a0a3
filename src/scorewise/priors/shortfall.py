"""How far a threshold lies below or above a prediction on average: the integrals of a prior's two tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from scorewise.priors.base import ThresholdPrior, as_pair, tails
from scorewise.priors.tables import Table, evaluate, fit

_DEGREE = 8
_TOLERANCE = 1e-15  # of each piece's part of the integral, which is at most 1
_THINNEST = 2.0**-50


def shortfalls(prior: ThresholdPrior, x: Tensor, *, from_logits: bool) -> tuple[Tensor, Tensor]:
    """E(p - threshold)₊ and E(threshold - p)₊ at predictions or logits, differentiable in ``x``.

    They are the integral of the cdf up to p and of the sf from p on, so that their derivatives are cdf and -sf.
    """
    prior._place(x)
    if not _is_closed(prior):
        if prior._integral is None and torch.compiler.is_compiling():
            raise RuntimeError(
                "this prior has not been integrated yet, which cannot be done inside a compiled graph. Make the "
                "ScoreLoss outside of it, or call the function once before compiling it."
            )
        tabulate(prior)
        assert prior._integral is not None  # noqa: S101  # made above; for the type checker
        prior._integral.like(x)
    both: Callable[..., tuple[Tensor, Tensor]] = _Shortfalls.apply
    return both(x, prior, from_logits)


def tabulate(prior: ThresholdPrior) -> None:
    """Integrate a prior's cdf once, into pieces as thin as its corners and poles need, and keep it with the prior."""
    if prior._integral is None and not _is_closed(prior):
        with torch.device("cpu"), torch.inference_mode(False), torch.no_grad():
            object.__setattr__(prior, "_integral", _table(prior))


def _is_closed(prior: ThresholdPrior) -> bool:
    return type(prior)._shortfalls is not ThresholdPrior._shortfalls


class _Shortfalls(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, prior: ThresholdPrior, from_logits: bool) -> tuple[Tensor, Tensor]:
        p, q = as_pair(x, from_logits=from_logits)
        closed = prior._shortfalls(p, q)
        if closed is not None:
            return closed
        assert prior._integral is not None  # noqa: S101  # made before; for the type checker
        ends, scale, mean, before, *coefficients = prior._integral.like(x)
        piece = torch.bucketize(p.detach().contiguous(), ends[1:-1], right=True)
        t = (p - ends[piece]) * scale[piece]
        if prior.batch_shape:
            # one row of the table for each piece, one column for each label
            piece = piece * before.shape[-1] + torch.arange(before.shape[-1], device=x.device)
        inner = evaluate(tuple(c.reshape(-1) for c in coefficients), piece, t)
        below = (before.reshape(-1)[piece] + inner * t).clamp(min=0)
        return below, (below - p + mean).clamp(min=0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ThresholdPrior, bool], output: tuple[Tensor, Tensor]) -> None:
        x, ctx.prior, ctx.from_logits = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        cdf, sf = tails(ctx.prior, x, from_logits=ctx.from_logits)
        grad = grads[0] * cdf - grads[1] * sf
        if ctx.from_logits:
            p, q = as_pair(x, from_logits=True)
            grad = grad * p * q
        return grad, None, None


def _table(prior: ThresholdPrior) -> Table:
    """Ends of the pieces, one over their widths, the mean, the integral before each piece, and its polynomial in it."""

    def cdf(t: Tensor) -> Tensor:
        return prior.cdf(t.reshape(*t.shape, *[1] * len(prior.batch_shape)).expand(*t.shape, *prior.batch_shape))

    left = torch.arange(16, dtype=torch.float64) / 16
    width = torch.full_like(left, 1 / 16)
    probes = (torch.arange(7, dtype=torch.float64) + 0.5) / 7
    lefts, widths, pieces = [], [], []
    while left.numel():
        polynomials = fit(cdf, left, width, _DEGREE)
        powers = probes[:, None] ** torch.arange(_DEGREE + 1, dtype=torch.float64)
        fitted = torch.einsum("kd,d...->k...", powers, polynomials)
        error = (fitted - cdf(left + width * probes[:, None])).abs().amax(0).reshape(len(left), -1).amax(1) * width
        done = (error <= _TOLERANCE) | (width <= _THINNEST)
        lefts.append(left[done])
        widths.append(width[done])
        pieces.append(polynomials[:, done])
        left, width = left[~done], width[~done] / 2
        left, width = torch.cat([left, left + width]), torch.cat([width, width])
    left, order = torch.cat(lefts).sort()
    width, polynomials = torch.cat(widths)[order], torch.cat(pieces, 1)[:, order]

    column = (-1, *[1] * len(prior.batch_shape))
    powers = torch.arange(1, _DEGREE + 2, dtype=torch.float64).reshape(-1, 1, *[1] * len(prior.batch_shape))
    integral = polynomials * width.reshape(column) / powers
    parts = integral.sum(0)
    before = parts.cumsum(0) - parts
    mean = 1 - parts.sum(0)
    return Table([torch.cat([left, left.new_ones(1)]), 1 / width, mean, before, *integral])
