"""Scores at every threshold by trying them one after the other: no sorting trick, no running sum, no formula."""

import itertools
from collections.abc import Sequence

import torch

import scorewise as sw
from tests.cases import PriorCase
from tests.oracles import mass
from tests.weight_oracles import (
    ALL_WEIGHTS,
    GRID,
    OMEGA,
    Pointwise,
    Series,
    WeightCase,
    cross_entropy,
    largest,
    matrix_at,
    none,
    product,
    value,
)

# ----------------------------------------------------------------------------------------------------- weights

PLAIN = WeightCase("none", lambda: None, none)
CROSS_ENTROPY_VALUE = WeightCase(
    "cross-entropy*value",
    lambda: sw.weights.CrossEntropy(0.5, 3.0) * sw.weights.Value(OMEGA),
    product(cross_entropy(0.5, 3.0), value(largest(OMEGA), 3)),
    reads_windows=True,
    soft=False,
)


def _through_alarms(kind: WeightCase) -> bool:
    """Whether the threshold enters through alarms only, and so that no two windows have to be multiplied."""
    return not (kind.sees_threshold or kind.integrated)


CURVED = [PLAIN, *filter(_through_alarms, ALL_WEIGHTS), CROSS_ENTROPY_VALUE]
REFUSED = [kind for kind in ALL_WEIGHTS if not _through_alarms(kind)]


def sees_prediction(kind: WeightCase) -> bool:
    return "cross-entropy" in kind.name


def values_for(kind: WeightCase) -> Sequence[float]:
    """Predictions for random series: not those of which cross entropy is infinite."""
    return GRID[1:-1] if sees_prediction(kind) else GRID


def reach(kind: WeightCase) -> int:
    weight = kind.make()
    return 0 if weight is None else weight.reach


# ------------------------------------------------------------------------------------------------------ series

# Ties, points outside of every inner support, nothing at 0 or 1, where cross entropy may be infinite.
_PREDICTIONS = [0.5, 0.03, 0.83, 0.21, 0.21, 0.6, 0.4, 0.97, 0.25, 0.5, 0.47, 0.58]
_TARGETS = [0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1]
_MASK = [True, True, True, False, True, True, False, True, True, True, True, True]

SAMPLES = Series(_PREDICTIONS, _TARGETS)
# Two stations that interleave, with gaps and context that does not count.
STATIONS = Series(
    _PREDICTIONS,
    _TARGETS,
    ["x", "y", "x", "x", "y", "x", "x", "y", "x", "y", "x", "y"],
    [0, 0, 1, 2, 1, 4, 5, 4, 6, 5, 7, 8],
    _MASK,
    [1.0, 2.5, 1.0, 1.0, 0.5, 1.0, 1.0, 0.25, 3.0, 1.0, 1.0, 1.5],
    [(1, 2), (0.5, 3), (2, 1), (1, 1), (0.25, 1), (4, 0.25), (9, 9), (1.5, 2.5), (1, 0.5), (3, 2), (1, 1), (1, 1)],
)
# Distinct and far enough apart for differences to be taken, clear of the corners of priors.
SMOOTH = Series(
    [0.52, 0.31, 0.66, 0.44, 0.37, 0.58, 0.48, 0.28],
    [0, 1, 0, 1, 1, 0, 1, 0],
    [0, 1, 0, 0, 1, 0, 1, 1],
    [0, 0, 1, 2, 1, 4, 2, 4],
    [True, True, False, True, True, True, True, True],
    [1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 3.0, 1.0],
    [(1, 2), (0.5, 3), (2, 1), (1, 1.5), (0.25, 1), (4, 0.25), (2, 3), (1.5, 2.5)],
)


def scored(score: sw.scores.Score, cells: Sequence[float]) -> float:
    """A score of four numbers."""
    return each_scored(score, [cells])[0]


def each_scored(score: sw.scores.Score, matrices: Sequence[Sequence[float]]) -> list[float]:
    """A score of many matrices, of four numbers each."""
    columns = torch.tensor(matrices, dtype=torch.float64).unbind(-1)
    return score(sw.ConfusionMatrix(*columns)).tolist()


# -------------------------------------------------------------------------------------------------- thresholds


def what_matters(series: Series, weight: Pointwise) -> list[float]:
    """The predictions at which the matrix changes, found by looking at it on both sides of each."""
    ends = [-1.0, *sorted({p for p in series.predictions if p == p})]
    return [
        p for before, p in itertools.pairwise(ends) if matrix_at(series, weight, before) != matrix_at(series, weight, p)
    ]


def in_sight(series: Series, steps: int) -> list[float]:
    """The predictions of samples that count, or that are within so many steps in time of one that does."""
    counted = [series.places[i] for i in range(len(series)) if series.counted(i)]
    return sorted(
        {
            p
            for p, (group, time) in zip(series.predictions, series.places, strict=True)
            if p == p and any(group == other and abs(time - when) <= steps for other, when in counted)
        }
    )


def thresholds_of(distinct: Sequence[float]) -> list[float]:
    """One threshold below all of the predictions that matter, and each of them."""
    if not distinct:
        return [0.0]
    return [0.0 if distinct[0] > 0 else -1.0, *distinct]


def intervals_of(thresholds: Sequence[float]) -> list[tuple[float, float]]:
    """From each threshold to the next, of those in [0, 1]; below 0 there is none, so it is a point."""
    return [(low, low if low < 0 else high) for low, high in zip(thresholds, [*thresholds[1:], 1.0], strict=True)]


# ---------------------------------------------------------------------------------------------------- averages


def stretches(case: PriorCase, series: Series, weight: Pointwise) -> list[tuple[float, list[float]]]:
    """The probability of each stretch of thresholds between neighbouring predictions, and the matrix on it."""
    ends = sorted({0.0, 1.0, *(p for p in series.predictions if 0 < p < 1)})
    return [
        (float(mass(case, start, stop)), matrix_at(series, weight, (start + stop) / 2))
        for start, stop in itertools.pairwise(ends)
    ]


def averaged(parts: Sequence[tuple[float, list[float]]], score: sw.scores.Score) -> float:
    """The score averaged over stretches."""
    values = each_scored(score, [cells for _, cells in parts])
    return sum(probability * value for (probability, _), value in zip(parts, values, strict=True))


def moments(parts: Sequence[tuple[float, list[float]]]) -> tuple[list[float], list[list[float]]]:
    """The mean matrix, and the covariances of its four cells."""
    mean = [sum(p * cells[i] for p, cells in parts) for i in range(4)]
    covariance = [
        [sum(p * (cells[i] - mean[i]) * (cells[j] - mean[j]) for p, cells in parts) for j in range(4)] for i in range(4)
    ]
    return mean, covariance


def second_order(parts: Sequence[tuple[float, list[float]]], score: sw.scores.Score) -> float:
    """Half the sum of second derivatives, at the mean matrix, times covariances."""
    mean, covariance = moments(parts)
    hessian = torch.autograd.functional.hessian(
        lambda cells: score.function(*cells.unbind()), torch.tensor(mean, dtype=torch.float64)
    )
    return sum(hessian[i, j].item() * covariance[i][j] for i in range(4) for j in range(4)) / 2
