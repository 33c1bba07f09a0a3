"""Vectors ω for `scorewise.weights.Value`: what an alarm one, two, three steps early is still worth."""

from __future__ import annotations

import math

from scorewise._values import is_number, is_whole

PUBLISHED = (1 / 2, 1 / 3, 1 / 4)
"""The weights of the published value-weighted skill scores, which go with ``g="max"`` and ``isolated=2``.

Reference:
    S. Guastavino, M. Piana, F. Benvenuto: Bad and good errors: value-weighted skill scores in deep ensemble learning.
    IEEE Transactions on Neural Networks and Learning Systems, 2022.
"""


def geometric(steps: int, ratio: float = 0.5) -> tuple[float, ...]:
    """ratio, ratio², ratio³, …: each step further away is worth the same share of the one before.

    For ``g="prod"``, whose ω must sum to less than 1, ratios below 1/2 do, and 1/2 up to 50 steps.

    Example:
        >>> geometric(3)
        (0.5, 0.25, 0.125)
    """
    _check("geometric", steps, ratio=ratio)
    return tuple(ratio**j for j in range(1, steps + 1))


def linear(steps: int, first: float = 0.5) -> tuple[float, ...]:
    """From ``first``, at a distance of one step, in equal steps down to 0 one step beyond the last.

    They sum to first · (steps + 1) / 2, which for ``g="prod"`` must be less than 1.

    Example:
        >>> linear(2)
        (0.5, 0.25)
    """
    _check("linear", steps, first=first)
    return tuple(first * (steps + 1 - j) / steps for j in range(1, steps + 1))


def half_life(steps: int, half_life: float, first: float = 0.5) -> tuple[float, ...]:
    """``first`` at a distance of one step, and half as much with every ``half_life`` steps more.

    Example:
        >>> half_life(5, half_life=2, first=0.8)[::2]
        (0.8, 0.4, 0.2)
    """
    _check("half_life", steps, first=first)
    if not is_number(half_life) or not (math.isfinite(half_life) and half_life > 0):
        raise ValueError(f"half_life: half_life must be a number of steps greater than 0, saw {half_life!r}.")
    return tuple(first * 2.0 ** (-(j - 1) / half_life) for j in range(1, steps + 1))


def _check(maker: str, steps: object, **share: object) -> None:
    if not is_whole(steps) or steps < 1:
        raise ValueError(f"{maker}: steps must be a whole number of at least 1, saw {steps!r}.")
    for name, value in share.items():
        if not is_number(value) or not 0 <= value < 1:
            raise ValueError(f"{maker}: {name} must be a number in [0, 1), saw {value!r}.")
