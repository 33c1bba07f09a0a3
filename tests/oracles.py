"""Slow and obviously right: what the closed forms are compared with."""

import functools
import itertools

import mpmath

from tests.cases import PriorCase


def mass(case: PriorCase, start: float, stop: float) -> mpmath.mpf:
    """Probability that the threshold lies in [start, stop], by integrating the textbook density."""
    with mpmath.workdps(case.digits):
        return _integral(case, max(start, 0.0), min(stop, 1.0)) / _integral(case, 0.0, 1.0)


def expected_matrix(case: PriorCase, predictions: list[float], targets: list[float]) -> tuple[float, ...]:
    """TN, FP, FN, TP averaged over the threshold: count at one threshold of each interval on which nothing changes."""
    tn = fp = fn = tp = mpmath.mpf(0)
    ends = sorted({0.0, 1.0, *(p for p in predictions if 0 < p < 1)})
    for start, stop in itertools.pairwise(ends):
        threshold = (start + stop) / 2
        probability = mass(case, start, stop)
        for prediction, target in zip(predictions, targets, strict=True):
            if prediction > threshold:
                tp += probability * target
                fp += probability * (1 - target)
            else:
                fn += probability * target
                tn += probability * (1 - target)
    return float(tn), float(fp), float(fn), float(tp)


def expected_score(case: PriorCase, score, predictions: list[float], targets: list[float]) -> float:
    """A score averaged over the threshold; ``score`` takes TN, FP, FN, TP as floats."""
    value = mpmath.mpf(0)
    ends = sorted({0.0, 1.0, *(p for p in predictions if 0 < p < 1)})
    for start, stop in itertools.pairwise(ends):
        threshold = (start + stop) / 2
        tn = fp = fn = tp = 0.0
        for prediction, target in zip(predictions, targets, strict=True):
            if prediction > threshold:
                tp += target
                fp += 1 - target
            else:
                fn += target
                tn += 1 - target
        value += mass(case, start, stop) * score(tn, fp, fn, tp)
    return float(value)


@functools.cache
def _integral(case: PriorCase, start: float, stop: float) -> mpmath.mpf:
    if start >= stop:
        return mpmath.mpf(0)
    inside = [b for b in case.breaks if start < b < stop]
    # tanh-sinh: exact to all digits even where the density is infinite at an end
    return mpmath.quad(case.density, [start, *inside, stop])
