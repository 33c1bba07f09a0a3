"""Ways to spoil the arguments of a call, each of which must be noticed."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.robustness.batches import Batch

Arguments = dict[str, Any]
"""The arguments of a call by name, ``x`` and ``y`` among them."""


def arguments(batch: Batch) -> Arguments:
    """A batch's arguments, to be changed."""
    return {"x": batch.x, "y": batch.y, **batch.context}


def spoiled(r: random.Random, batch: Batch, given: Arguments, *, hard: bool, windows: bool) -> str | None:
    """Spoil a batch's arguments, if that is possible in the way that is drawn, and tell how.

    Args:
        r: The source of randomness.
        batch: The batch, sound.
        given: Its arguments, which are changed.
        hard: Whether classes are accepted for predictions.
        windows: Whether the weight looks around, so that labels must be events or not.
    """
    names = list(FLAWS)
    name = r.choice(names[:VALUES] if r.random() < 0.4 else names)
    if name == "an integer for a prediction" and hard and not batch.from_logits:
        return None
    if name == "a soft label beside others" and not windows:
        return None
    return name if FLAWS[name].spoil(r, batch, given) else None


def _somewhere(r: random.Random, keep: Tensor) -> tuple[int, ...] | None:
    """A place that counts."""
    places = keep.nonzero().tolist()
    return tuple(r.choice(places)) if places else None


class Flaw(ABC):
    """A way to spoil arguments."""

    @abstractmethod
    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        """Change arguments; whether that was possible."""


@dataclass(frozen=True)
class _Value(Flaw):
    """A bad value in ``x`` or ``y`` where it counts."""

    name: str
    bad: tuple[float, ...]

    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        place = _somewhere(r, batch.keep)
        if place is None:
            return False
        old = given[self.name]
        new = (old if old.is_floating_point() else old.double()).clone()
        new[place] = r.choice(self.bad)
        given[self.name] = new
        return True


class _Prediction(Flaw):
    """A prediction that is none: of logits not finite, of probabilities not even that far."""

    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        logits, probabilities = (math.nan, math.inf, -math.inf), (math.nan, math.inf, -0.25, 1.5, 30.0)
        return _Value("x", logits if batch.from_logits else probabilities).spoil(r, batch, given)


@dataclass(frozen=True)
class _Amount(Flaw):
    """A sample weight or a cost that is no amount, where it counts."""

    name: str

    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        place = _somewhere(r, batch.keep)
        if place is None:
            return False
        new = torch.ones((*batch.x.shape, 2) if self.name == "costs" else batch.x.shape, dtype=torch.float64)
        new[place] = r.choice((math.nan, math.inf, -1.0, -1e-300))
        given[self.name] = new
        return True


@dataclass(frozen=True)
class _Instead(Flaw):
    """Something else for an argument, made of the batch, if it has so many samples."""

    name: str
    make: Callable[[Batch], Any]
    least: int = 0

    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        if batch.x.shape[0] < self.least:
            return False
        given[self.name] = self.make(batch)
        return True


@dataclass(frozen=True)
class _Always(Flaw):
    """Something that is wrong for any batch."""

    name: str
    value: Any

    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        given[self.name] = self.value
        return True


class _Still(Flaw):
    """Times that do not increase, in one series."""

    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        n = batch.x.shape[0]
        if n < 2:
            return False
        times = sorted(r.sample(range(3 * n), n))
        i = r.randrange(1, n)
        times[i] = times[i - 1] - r.choice((0, 1, 10))
        given["times"] = torch.tensor(times)
        given.pop("groups", None)
        return True


class _UnknownGroup(Flaw):
    """Names of groups, of which one is missing."""

    def spoil(self, r: random.Random, batch: Batch, given: Arguments) -> bool:
        n = batch.x.shape[0]
        if n < 2:
            return False
        names: list[Any] = ["a"] * n
        names[r.randrange(n)] = r.choice((None, math.nan))
        given["groups"] = names
        return True


VALUES = 5
"""So many flaws, the first, are of single values; they are drawn more often."""


def _n(batch: Batch) -> int:
    return batch.x.shape[0]


FLAWS: dict[str, Flaw] = {
    "a prediction that is none": _Prediction(),
    "a label that is none": _Value("y", (math.nan, math.inf, 2.0, -1.0, 1.0001, -1e-30)),
    "a soft label beside others": _Value("y", (0.5, 0.999)),
    "a weight that is none": _Amount("sample_weight"),
    "a cost that is none": _Amount("costs"),
    "a label too few": _Instead("y", lambda b: b.y[:-1], 1),
    "labels in a column": _Instead("y", lambda b: b.y.unsqueeze(-1)),
    "predictions in a row": _Instead("x", lambda b: b.x.unsqueeze(0).unsqueeze(0)),
    "no axis": _Always("x", torch.tensor(0.5)),
    "no labels": _Instead("x", lambda b: torch.zeros(_n(b), 0)),
    "a mask too long": _Instead("mask", lambda b: torch.ones(_n(b) + 1, dtype=torch.bool)),
    "a weight too many": _Instead("sample_weight", lambda b: torch.ones(_n(b) + 1)),
    "three costs": _Instead("costs", lambda b: torch.ones(_n(b), 3)),
    "a group too many": _Instead("groups", lambda b: [0] * (_n(b) + 1)),
    "a time too many": _Instead("times", lambda b: torch.arange(_n(b) + 1)),
    "an unknown group": _UnknownGroup(),
    "groups with a fraction": _Instead("groups", lambda b: torch.full((_n(b),), 0.5), 1),
    "times with a fraction": _Instead("times", lambda b: torch.arange(_n(b)) + 0.5, 1),
    "times that stand still": _Still(),
    "a mask of numbers": _Instead("mask", lambda b: torch.ones(_n(b))),
    "an integer for a prediction": _Instead("x", lambda b: torch.zeros(b.x.shape, dtype=torch.int64)),
    "a complex prediction": _Instead("x", lambda b: torch.zeros(b.x.shape, dtype=torch.complex64)),
    "a complex label": _Instead("y", lambda b: torch.zeros(b.x.shape, dtype=torch.complex64)),
    "words for predictions": _Instead("x", lambda b: ["high"] * (_n(b) + 1)),
    "words for labels": _Instead("y", lambda b: ["yes"] * (_n(b) + 1)),
    "nothing for predictions": _Always("x", None),
    "nothing for labels": _Always("y", None),
    "rows of different lengths": _Always("x", [[0.1], [0.2, 0.3]]),
    "a dict for labels": _Always("y", {"a": 1}),
    "a sparse prediction": _Instead("x", lambda b: torch.zeros(b.x.shape, dtype=torch.float64).to_sparse()),
}
