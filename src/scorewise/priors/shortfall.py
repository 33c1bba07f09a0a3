"""How far a threshold lies below or above a prediction on average: the integrals of a prior's two tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from scorewise.priors.base import ThresholdPrior, as_pair, keep, tails
from scorewise.priors.tables import Table, evaluate, fit

_DEGREE = 8
_TOLERANCE = 1e-15  # of each piece's part of the integral, which is at most 1
_THINNEST = 2.0**-50
_STEEPEST = 1e38  # of float32


def shortfalls(prior: ThresholdPrior, x: Tensor, *, from_logits: bool) -> tuple[Tensor, Tensor]:
    """E(p - threshold)₊ and E(threshold - p)₊ at predictions or logits, differentiable in ``x``.

    They are the integral of the cdf up to p and of the sf from p on, so that their derivatives are cdf and -sf.
    """
    prior._place(x)
    if not _is_closed(prior):
        _integral_of(prior).like(x)
    both: Callable[..., tuple[Tensor, Tensor]] = _Shortfalls.apply
    return both(x, prior, from_logits)


def integrate_once(prior: ThresholdPrior) -> None:
    """Have the table ready, if one is needed: it cannot be made inside a compiled graph."""
    if not _is_closed(prior):
        _integral_of(prior)


def _integral_of(prior: ThresholdPrior) -> Table:
    return keep(prior, "_integral", lambda: _table(prior))


def _is_closed(prior: ThresholdPrior) -> bool:
    return type(prior)._shortfalls is not ThresholdPrior._shortfalls


class _Shortfalls(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, prior: ThresholdPrior, from_logits: bool) -> tuple[Tensor, Tensor]:
        p, q = as_pair(x, from_logits=from_logits)
        closed = prior._shortfalls(p, q)
        if closed is not None:
            return closed
        ends, scale, mean, before, *coefficients = _integral_of(prior).like(x)
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

    # Without the prior's own cuts a narrow one could hide between two nodes.
    edges = torch.cat([torch.arange(17, dtype=torch.float64) / 16, prior._cuts().flatten()]).unique()
    left, width = edges[:-1], edges.diff()
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
    # A piece so thin that float32 cannot tell one over its width has no integral that float32 could tell, either.
    scale = (1 / width).clamp(max=_STEEPEST)
    return Table([torch.cat([left, left.new_ones(1)]), scale, mean, before, *integral])
