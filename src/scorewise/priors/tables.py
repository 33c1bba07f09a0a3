"""Piecewise polynomials: functions too slow to evaluate at every prediction, tabulated once in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def chebyshev_nodes(degree: int) -> Tensor:
    """The degree + 1 Chebyshev points of [0, 1], in float64."""
    k = torch.arange(degree + 1, dtype=torch.float64)
    return (1 - torch.cos(math.pi * (k + 0.5) / (degree + 1))) / 2


def fit(function: Callable[[Tensor], Tensor], left: Tensor, width: Tensor, degree: int) -> Tensor:
    """Coefficients of the polynomials that interpolate ``function`` on the pieces [left, left + width].

    Args:
        function: Elementwise, float64.
        left: Left ends of the pieces, any shape.
        width: Their widths, same shape.
        degree: Degree of each polynomial.

    Returns:
        The coefficients of t^0, t^1, ..., t in [0, 1] along the piece, stacked before the shape of ``left``.
    """
    t = chebyshev_nodes(degree)
    column = t.reshape(-1, *[1] * left.dim())
    values = function(left + width * column)
    powers = t[:, None] ** torch.arange(degree + 1, dtype=torch.float64)
    coefficients: Tensor = torch.linalg.solve(powers, values.flatten(1))
    return coefficients.reshape(values.shape)


def evaluate(coefficients: tuple[Tensor, ...], piece: Tensor, t: Tensor) -> Tensor:
    """Horner's rule, one gathered coefficient at a time so that no (n, degree) tensor is made.

    Args:
        coefficients: One flat tensor per power, the constant first.
        piece: Which polynomial each element uses.
        t: Where along its piece, in [0, 1].
    """
    # index_select on flat indices is twice as fast as indexing.
    flat, t = piece.flatten(), t.expand_as(piece).flatten()
    value = coefficients[-1].index_select(0, flat)
    for coefficient in reversed(coefficients[:-1]):
        value = torch.addcmul(coefficient.index_select(0, flat), value, t)
    return value.reshape(piece.shape)


class Table:
    """Tensors kept in float64 and handed out in each dtype and on each device that asks.

    They are moved once, not at every step: a copy from ordinary host memory makes the host wait for the device.
    """

    def __init__(self, values: Sequence[Tensor]) -> None:
        self.values = tuple(v.detach().double().cpu() for v in values)
        self._placed: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def like(self, x: Tensor) -> tuple[Tensor, ...]:
        """The tensors in the dtype and on the device of ``x``."""
        key = (x.device, x.dtype)
        placed = self._placed.get(key)
        if placed is None:
            if torch.compiler.is_compiling():
                placed = tuple(v.to(x.device, x.dtype) for v in self.values)
            else:
                # Whoever asks first may be evaluating, and whoever asks next may be training.
                with torch.inference_mode(False):
                    placed = tuple(v.to(x.device, x.dtype) for v in self.values)
            # What stands in for a tensor while a program is exported must not stay when that is over.
            if not torch.compiler.is_exporting() and all(type(v) is Tensor for v in placed):
                self._placed[key] = placed
        return placed

    def __getstate__(self) -> tuple[Tensor, ...]:
        return self.values

    def __setstate__(self, values: tuple[Tensor, ...]) -> None:
        self.__init__(values)  # type: ignore[misc]  # copies on devices are made anew where it is loaded
