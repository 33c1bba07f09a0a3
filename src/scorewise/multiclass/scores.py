"""Scores of an m × m confusion matrix."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from scorewise import scores
from scorewise._averages import Average, averaged, check_average
from scorewise._values import as_tensor, describe, shape_of
from scorewise.multiclass.inputs import Forecasts
from scorewise.multiclass.matrix import MulticlassMatrix, against_rest, expected_cells, expected_margins, margins
from scorewise.priors.tables import Table
from scorewise.scores import Score, ratio, root

__all__ = [
    "ByMargins",
    "Cost",
    "MulticlassScore",
    "accuracy",
    "cost",
    "error_rate",
    "get",
    "hss",
    "kappa",
    "mcc",
    "names",
    "one_vs_rest",
]


class MulticlassScore(ABC):
    """A function of an m × m confusion matrix, with its name and whether a good forecast has a large value."""

    name: str
    greater_is_better: bool

    @abstractmethod
    def of(self, cells: Tensor) -> Tensor:
        """The score of the cells (m, m), row = truth."""

    # What it needs of a matrix: all of it, unless a score says otherwise.

    def _sums(self, forecasts: Forecasts) -> tuple[Tensor, ...]:
        """What it needs of the expected matrix, as sums over forecasts."""
        return (expected_cells(forecasts),)

    def _sums_in(self, cells: Tensor) -> tuple[Tensor, ...]:
        """The same, of a matrix."""
        return (cells,)

    def _of(self, sums: tuple[Tensor, ...]) -> Tensor:
        """The score of such sums."""
        return self.of(*sums)

    def __call__(self, matrix: MulticlassMatrix) -> Tensor:
        """The score of a matrix."""
        if not isinstance(matrix, MulticlassMatrix):
            raise TypeError(f"a multiclass score takes a MulticlassMatrix, saw {type(matrix).__name__}.")
        return self.of(matrix.cells)

    def __repr__(self) -> str:
        return f"<multiclass score {self.name}>"


@dataclass(frozen=True, repr=False)
class ByMargins(MulticlassScore):
    """A score that is made of the hits, misses and false alarms of each class, (..., m) each."""

    name: str
    function: Callable[[Tensor, Tensor, Tensor], Tensor]
    formula: str
    range: tuple[float, float]
    greater_is_better: bool = True

    def of(self, cells: Tensor) -> Tensor:
        """The score of the cells (m, m), row = truth."""
        return self._of(self._sums_in(cells))

    def _sums(self, forecasts: Forecasts) -> tuple[Tensor, ...]:
        return expected_margins(forecasts)

    def _sums_in(self, cells: Tensor) -> tuple[Tensor, ...]:
        return margins(cells)

    def _of(self, sums: tuple[Tensor, ...]) -> Tensor:
        hits, misses, alarms = sums
        return self.function(hits, misses, alarms)


@dataclass(frozen=True, repr=False, eq=False)
class Cost(MulticlassScore):
    """Minus the cost of all decisions; `cost` makes it."""

    costs: Table
    name: str = "cost"
    greater_is_better: bool = True

    def of(self, cells: Tensor) -> Tensor:
        """The score of the cells (m, m), row = truth."""
        return -(self.like(cells) * cells).sum()

    def like(self, cells: Tensor) -> Tensor:
        """The costs, beside what they are to be combined with."""
        classes = self.costs.values[0].shape[0]
        if classes != cells.shape[-1]:
            raise ValueError(
                f"cost: there are costs for {classes} classes, but the predictions have {cells.shape[-1]}."
            )
        return self.costs.like(cells)[0]


def cost(costs: Sequence[Sequence[float]] | Tensor) -> Cost:
    """Minus the sum of what decisions cost, [[C_00, C_01, …], …], row = truth.

    Example:
        >>> matrix = MulticlassMatrix([[5, 1, 0], [2, 3, 0], [0, 0, 4]])
        >>> cost([[0, 1, 1], [5, 0, 1], [1, 1, 0]])(matrix)
        tensor(-11., dtype=torch.float64)
    """
    table = as_tensor(costs, "cost: costs").detach().double()
    if table.dim() != 2 or table.shape[0] != table.shape[1] or table.shape[0] < 2:
        raise ValueError(f"cost: costs must be m × m, row = truth, m at least 2; saw {shape_of(table)}.")
    if not bool((table.isfinite() & (table >= 0)).all()):
        raise ValueError(f"cost: costs must be finite and at least 0, saw {describe(table)}.")
    return Cost(Table([table.cpu().clone()]))


def one_vs_rest(score: str | Score, average: Average = "macro") -> ByMargins:
    """A binary score of each class against all others, averaged. A class that is absent counts, as what 0/0 = 0 makes.

    Args:
        score: A name or a binary `Score`.
        average: "macro", "weighted" (by how often a class occurs), "min" (the worst: the greatest where less is
            better), "micro" (of the sum of the m binary matrices), a function of the m scores, or None: all of them.

    Example:
        >>> one_vs_rest("f1")(MulticlassMatrix([[5, 1, 0], [2, 3, 0], [0, 0, 4]]))
        tensor(0.8120, dtype=torch.float64)
    """
    binary = scores.get(score)
    check_average(average)
    told = average if isinstance(average, str) else "each" if average is None else "averaged"
    function = _AgainstRest(binary, average)
    return ByMargins(f"{binary.name}, {told}", function, binary.formula, binary.range, binary.greater_is_better)


@dataclass(frozen=True)
class _AgainstRest:
    """The function of `one_vs_rest`."""

    binary: Score
    average: Average

    def __call__(self, hits: Tensor, misses: Tensor, alarms: Tensor) -> Tensor:
        tn, fp, fn, tp = against_rest(hits, misses, alarms)
        if self.average == "micro":
            return self.binary.function(tn.sum(-1), fp.sum(-1), fn.sum(-1), tp.sum(-1))
        up = self.binary.greater_is_better
        sign = 1 if up else -1
        goodness = sign * self.binary.function(tn, fp, fn, tp)
        if callable(self.average) and goodness.dim() > 1:  # a function of one matrix's scores
            each = [averaged(g, self.average, g, greater_is_better=up) for g in goodness]
            rows: Tensor = sign * torch.stack(each)
            return rows
        return sign * averaged(goodness, self.average, fn + tp, greater_is_better=up)


def _accuracy(hits: Tensor, misses: Tensor, alarms: Tensor) -> Tensor:
    return ratio(hits.sum(-1), (hits + misses).sum(-1))


def _error_rate(hits: Tensor, misses: Tensor, alarms: Tensor) -> Tensor:
    return ratio(misses.sum(-1), (hits + misses).sum(-1))


def _beyond_chance(hits: Tensor, misses: Tensor, alarms: Tensor) -> Tensor:
    """N² times the agreement beyond chance."""
    truth, called = hits + misses, hits + alarms
    return called.sum(-1) * hits.sum(-1) - (truth * called).sum(-1)


def _unlike(one: Tensor, other: Tensor) -> Tensor:
    """How often two draws differ, one from each distribution; where both are of one class it is exactly 0."""
    return (one * (other.sum(-1, keepdim=True) - other)).sum(-1)


def _kappa(hits: Tensor, misses: Tensor, alarms: Tensor) -> Tensor:
    return ratio(_beyond_chance(hits, misses, alarms), _unlike(hits + misses, hits + alarms))


def _mcc(hits: Tensor, misses: Tensor, alarms: Tensor) -> Tensor:
    truth, called = hits + misses, hits + alarms
    return ratio(_beyond_chance(hits, misses, alarms), root(_unlike(truth, truth)) * root(_unlike(called, called)))


accuracy = ByMargins("accuracy", _accuracy, r"\frac{\sum_i C_{ii}}{N}", (0.0, 1.0))
error_rate = ByMargins("error_rate", _error_rate, r"1 - \frac{\sum_i C_{ii}}{N}", (0.0, 1.0), greater_is_better=False)
kappa = ByMargins("kappa", _kappa, r"\frac{N \sum_i C_{ii} - \sum_i t_i c_i}{N^2 - \sum_i t_i c_i}", (-math.inf, 1.0))
hss = ByMargins("hss", _kappa, kappa.formula, kappa.range)
mcc = ByMargins(
    "mcc",
    _mcc,
    r"\frac{N \sum_i C_{ii} - \sum_i t_i c_i}{\sqrt{(N^2 - \sum_i t_i^2)(N^2 - \sum_i c_i^2)}}",
    (-1.0, 1.0),
)
_OWN: Mapping[str, ByMargins] = {score.name: score for score in (accuracy, error_rate, kappa, hss, mcc)}


def names() -> list[str]:
    """The names that `get` knows: those of binary scores, of which some have a definition of their own here."""
    return scores.names()


def get(score: object, average: Average = "macro") -> MulticlassScore:
    """A multiclass score from a name, a binary `Score`, or itself.

    Accuracy, error rate, kappa, HSS and MCC have a definition of their own for more than two classes, which is what
    they mean here; all others, and all with another average than "macro", are one against the rest.

    Example:
        >>> get("Heidke"), get("csi")
        (<multiclass score hss>, <multiclass score csi, macro>)
    """
    check_average(average)
    if isinstance(score, MulticlassScore):
        if average != "macro":
            raise ValueError(f"average={average!r} is for scores of one class against the rest; {score} has its own.")
        return score
    binary = scores.get(score)
    if len(scores.parts(binary)) > 1 or binary not in scores.parts(binary):
        ambiguous = [part.name for part in scores.parts(binary) if part.name in _OWN]
        if ambiguous and average == "macro":
            raise ValueError(
                f"{binary.name}: {' and '.join(ambiguous)} of more than two classes is not the mean over classes. Pass "
                "one_vs_rest(score) if that is meant, or a CombinedLoss of several losses."
            )
    own = _OWN.get(binary.name)
    if average == "macro" and own is not None and binary is getattr(scores, binary.name):
        return own
    return one_vs_rest(binary, average)
