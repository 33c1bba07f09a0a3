"""What a weight is, what it may look at, and products of weights."""

from __future__ import annotations

import contextlib
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from scorewise._inputs import Batch
from scorewise.priors import ThresholdPrior
from scorewise.priors.stretches import stretches_of

Pair = tuple[Tensor, Tensor]
"""Something for false positives, and the same for false negatives."""

PointWeight = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""A weight at given thresholds: see `scorewise.weights.Custom`."""


@dataclass(frozen=True)
class Chances:
    """How likely each sample is an alarm: ``cdf`` and ``sf`` of a prior, or 0 and 1 at a threshold; never of both."""

    cdf: Tensor
    sf: Tensor
    prior: ThresholdPrior | None = None
    threshold: Tensor | None = None


class Weight(ABC):
    """What an error costs, in units of an ordinary one: false positives and false negatives are multiplied by it.

    True positives and true negatives are never weighted: a perfect forecast has the same matrix under every weight.
    The product of two weights is a weight.
    """

    formula: ClassVar[str]
    """The weight w in LaTeX."""

    @property
    def reach(self) -> int:
        """How many time steps around a sample it looks at; 0 where order in time is no matter."""
        return 0

    # A weight says one of these five things.

    def _scales(self) -> tuple[float, float]:
        """What multiplies the whole of a cell, for false positives and false negatives."""
        return 1.0, 1.0

    def _balance(self) -> int:
        """How many times the errors of a class are divided by that class's share of the samples: see `balanced`.

        The only thing that is not a sum over samples. So it comes last, after the sums over all that belongs together.
        """
        return 0

    def _factors(self, batch: Batch) -> Pair | None:
        """What multiplies each sample, whatever the threshold."""
        return None

    def _spread(self, batch: Batch, amounts: Pair | None) -> Pair | None:
        """Coefficients a and r with wFP = Σ a·1{alarm} and wFN = Σ r·1{no alarm}, at every threshold.

        Only weights that see the threshold through alarms alone have them: between two neighbouring predictions nothing
        of theirs changes. ``amounts`` are what an ordinary error of each sample counts; None: 1 - y and y.
        """
        return None

    def _errors(self, batch: Batch, chances: Chances) -> Pair:
        """The paper's W_P and W_N of each sample: the weight times the alarm, or no alarm, averaged over thresholds."""
        return chances.cdf, chances.sf

    # Those that say the fourth or fifth are asked by these.

    def _cores(self) -> tuple[Weight, ...]:
        """The parts of it that see the threshold."""
        return ()

    def _at(self, tau: Tensor, targets: Tensor, predictions: Tensor, labels: Tensor, alarms: Tensor) -> Tensor:
        """The weight itself, as a `Custom` function has it, with windows of its own reach."""
        raise NotImplementedError  # asked of those that see the threshold only, and all of them say it

    def _ready(self, prior: ThresholdPrior) -> None:  # noqa: B027  # most weights need nothing
        """Have what it needs of a prior made, if that could not be made inside a compiled graph."""

    def __mul__(self, other: Weight) -> Weight:
        if not isinstance(other, Weight):
            raise TypeError(
                f"a weight can be multiplied by a weight, saw {type(other).__name__}. A number is Cost(fp=…, fn=…)."
            )
        parts = [
            part for weight in (self, other) for part in (weight.weights if isinstance(weight, Product) else (weight,))
        ]
        return Product(tuple(parts))

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False, repr=False)
class Product(Weight):
    """Several weights, multiplied.

    Parts that do not see the threshold multiply what the others cost on average. If two or more see it (Margin, Value,
    Custom), their product is integrated over the threshold as a `Custom` is, with the points of the `Custom` that has
    most of them, at least 32.

    Example:
        >>> from scorewise.weights import ClassFrequency, Cost
        >>> Cost(fp=1, fn=5) * ClassFrequency()
        Cost(fp=1, fn=5, tn=0, tp=0) * ClassFrequency()
    """

    formula: ClassVar[str] = r"w = w_1 w_2 \cdots"

    weights: tuple[Weight, ...]

    @property
    def reach(self) -> int:
        """The longest of its parts'."""
        return max(weight.reach for weight in self.weights)

    def _scales(self) -> tuple[float, float]:
        fp, fn = 1.0, 1.0
        for weight in self.weights:
            scales = weight._scales()
            fp, fn = fp * scales[0], fn * scales[1]
        return fp, fn

    def _balance(self) -> int:
        return sum([weight._balance() for weight in self.weights])  # a list: the compiler takes no generator

    def _factors(self, batch: Batch) -> Pair | None:
        both: Pair | None = None
        for weight in self.weights:
            both = multiplied(both, weight._factors(batch))
        return both

    def _cores(self) -> tuple[Weight, ...]:
        return tuple(core for weight in self.weights for core in weight._cores())

    def _ready(self, prior: ThresholdPrior) -> None:
        for weight in self.weights:
            weight._ready(prior)
        if len(self._cores()) > 1:
            stretches_of(prior)

    def __repr__(self) -> str:
        return " * ".join(map(repr, self.weights))


def as_weight(weight: object) -> Weight | None:
    """A weight, or None; raise a TypeError for what is neither."""
    if weight is None or isinstance(weight, Weight):
        return weight
    seen = f"the class {weight.__name__} (make an object of it)" if isinstance(weight, type) else repr(weight)
    raise TypeError(f"a weight must be an object of scorewise.weights, or None; saw {seen}.")


def looks_around(weight: Weight | tuple[Weight | None, ...] | None) -> bool:
    """Whether a weight sees other samples than the one in question, so that samples that do not count matter.

    Of labels with a weight each: whether any does.
    """
    if isinstance(weight, tuple):
        return any(map(looks_around, weight))
    return weight is not None and weight.reach > 0


def through_alarms(weight: Weight) -> bool:
    """Whether a weight sees the threshold through alarms only, and so has coefficients: see `Weight._spread`."""
    return len(weight._cores()) <= 1 and not sees_threshold(weight)


def sees_threshold(weight: Weight) -> bool:
    """Whether a weight sees the threshold itself, and not through alarms only."""
    return any(type(core)._spread is Weight._spread for core in weight._cores())


def transformed() -> bool:
    """Whether the code is being compiled or is under torch.func, which refuse functions that keep things by hand."""
    # PyTorch has no public way to ask for the latter.
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


@contextlib.contextmanager
def unchanged(name: str, given: Sequence[Tensor]) -> Iterator[None]:
    """Raise if a function of the user's changes its arguments in place: others see them too."""
    watched = [] if torch.compiler.is_compiling() else [t for t in given if not t.is_inference()]
    before = [t._version for t in watched]
    yield
    if [t._version for t in watched] != before:
        raise ValueError(f"{name} must not change its arguments in place; use steps that make new tensors.")


def multiplied(one: Pair | None, other: Pair | None) -> Pair | None:
    """The product of two pairs, of which None is the neutral one."""
    if one is None or other is None:
        return other if one is None else one
    return one[0] * other[0], one[1] * other[1]
