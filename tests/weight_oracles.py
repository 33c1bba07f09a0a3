"""Weights as their definitions have them: one sample, one threshold, windows looked up by series and time.

Plain loops over Python numbers, no closed form. Between two neighbouring predictions no alarm changes, so that a
matrix averaged over the threshold is a sum over such stretches: of the matrix at a midpoint times the probability of
the stretch, or, for weights that see the threshold itself, of an integral with the textbook density.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import mpmath
import numpy as np
import torch
from hypothesis import strategies as st

import scorewise as sw
from tests.cases import PriorCase
from tests.oracles import mass

# ------------------------------------------------------------------------------------------------------ series


@dataclass(frozen=True)
class Series:
    """Samples, each with its series, its time and whether it counts. NaN is unknown: neither event nor alarm."""

    predictions: Sequence[float]
    targets: Sequence[float]
    groups: Sequence[int | str] | None = None
    times: Sequence[int] | None = None
    mask: Sequence[bool] | None = None
    sample_weight: Sequence[float] | None = None
    costs: Sequence[tuple[float, float]] | None = None

    def __len__(self) -> int:
        return len(self.predictions)

    @functools.cached_property
    def places(self) -> list[tuple[int | str, int]]:
        """Series and time of each sample; without times, the number of samples of its series before it."""
        groups = [0] * len(self) if self.groups is None else list(self.groups)
        times = [groups[:i].count(groups[i]) for i in range(len(self))] if self.times is None else self.times
        return list(zip(groups, times, strict=True))

    def counted(self, i: int) -> float:
        if self.mask is not None and not self.mask[i]:
            return 0.0
        return self.sample_weight[i] if self.sample_weight is not None else 1.0

    def keywords(self) -> dict[str, object]:
        """The context as the package takes it."""
        kinds = {"times": torch.int64, "mask": torch.bool, "sample_weight": torch.float64, "costs": torch.float64}
        given = {
            name: torch.tensor(list(getattr(self, name)), dtype=dtype)
            for name, dtype in kinds.items()
            if getattr(self, name) is not None
        }
        if "costs" in given:
            given["costs"] = given["costs"].reshape(len(self), 2)
        if self.groups is not None:
            strings = any(isinstance(group, str) for group in self.groups)
            given["groups"] = list(self.groups) if strings else torch.tensor(list(self.groups), dtype=torch.int64)
        return given

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        return (
            torch.tensor(list(self.predictions), dtype=torch.float64),
            torch.tensor(list(self.targets), dtype=torch.float64),
        )

    def picked(self, indices: Sequence[int]) -> "Series":
        """Some of the samples, in this order, with all that belongs to them."""
        fields = ("predictions", "targets", "groups", "times", "mask", "sample_weight", "costs")
        kept = {name: getattr(self, name) for name in fields}
        return Series(**{name: None if v is None else [v[i] for i in indices] for name, v in kept.items()})

    def timed(self) -> "Series":
        """The same, with the times written out."""
        return replace(self, times=[time for _, time in self.places])

    def at(self, tau: float, weight: object = None, **options: object) -> list[float]:
        """The package's matrix at a threshold."""
        return cells(sw.confusion_matrix(*self.tensors(), tau, weight, **self.keywords(), **options))

    def expected(self, prior: object = None, weight: object = None, **options: object) -> list[float]:
        """The package's expected matrix."""
        return cells(sw.expected_confusion_matrix(*self.tensors(), prior, weight, **self.keywords(), **options))


def cells(matrix: sw.ConfusionMatrix) -> list:
    return [matrix.tn.tolist(), matrix.fp.tolist(), matrix.fn.tolist(), matrix.tp.tolist()]


class View:
    """What a weight may look at: a series at one threshold."""

    def __init__(self, series: Series, tau, alarms: Sequence[bool]):
        self.series, self.tau, self._alarms = series, tau, alarms
        self._who = {place: i for i, place in enumerate(series.places)}

    def with_threshold(self, tau) -> "View":
        """The same alarms at another threshold of the same stretch."""
        other = object.__new__(View)
        other.series, other.tau, other._alarms, other._who = self.series, tau, self._alarms, self._who
        return other

    def alarm(self, i: int, lag: int) -> float:
        """1 if the sample ``lag`` time units after sample i is an alarm; 0 if it is not, or is not there."""
        other = self._neighbour(i, lag)
        return float(other is not None and self._alarms[other])

    def event(self, i: int, lag: int) -> float:
        other = self._neighbour(i, lag)
        return float(other is not None and self.series.targets[other] == 1)

    def _neighbour(self, i: int, lag: int) -> int | None:
        group, time = self.series.places[i]
        return self._who.get((group, time + lag))


# ----------------------------------------------------------------------------------------------------- weights

Pointwise = Callable[[View, int, int], float]
"""The weight of sample i at a threshold as a false positive (0) or as a false negative (1)."""


def none(view, i, kind):
    return 1.0


def cost(fp: float, fn: float) -> Pointwise:
    return lambda view, i, kind: fn if kind else fp


def cross_entropy(negative: float, positive: float) -> Pointwise:
    def weight(view, i, kind):
        p = view.series.predictions[i]
        if kind:
            return positive * (-math.log(p) / (1 - p) if p < 1 else 1.0)
        return negative * (-math.log1p(-p) / p if p > 0 else 1.0)

    return weight


def margin(kappa: float) -> Pointwise:
    return lambda view, i, kind: 1 + kappa * abs(view.series.predictions[i] - view.tau)


def class_frequency(view, i, kind):
    negatives = positives = 0.0
    for k in range(len(view.series)):
        if view.series.counted(k):
            positives += view.series.counted(k) * view.series.targets[k]
            negatives += view.series.counted(k) * (1 - view.series.targets[k])
    return (negatives + positives) / (2 * (positives if kind else negatives))


def value(g: Callable[[list[float]], float], steps: int, isolated: float = 1.0) -> Pointwise:
    def weight(view, i, kind):
        seen = view.alarm if kind else view.event
        near = [seen(i, -lag if kind else lag) for lag in range(1, steps + 1)]
        around = [seen(i, lag) for lag in range(-steps, steps + 1)]
        return 1 - g(near) + (isolated - 1) * (not any(around))

    return weight


def largest(omega: Sequence[float]) -> Callable[[list[float]], float]:
    return lambda near: max(w * z for w, z in zip(omega, near, strict=True))


def total(omega: Sequence[float]) -> Callable[[list[float]], float]:
    return lambda near: sum(w * z for w, z in zip(omega, near, strict=True))


def product(*weights: Pointwise) -> Pointwise:
    return lambda view, i, kind: math.prod(weight(view, i, kind) for weight in weights)


class SetFunction:
    """A random g: a table over the sets of lags, made monotone; for tensors, and for lists."""

    def __init__(self, steps: int, seed: int, most: float = 0.95):
        numbers = np.random.default_rng(seed)
        sets = list(itertools.product((0.0, 1.0), repeat=steps))
        raw = {near: float(numbers.random()) if any(near) else 0.0 for near in sets}
        top = {
            near: max(raw[part] for part in sets if all(p <= n for p, n in zip(part, near, strict=True)))
            for near in sets
        }
        highest = max(top.values())
        self.table = {near: most * top[near] / highest for near in sets}
        self.steps = steps

    def __repr__(self) -> str:
        return f"SetFunction({self.steps})"

    def of_list(self, near: list[float]) -> float:
        return self.table[tuple(near)]

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        flat = torch.tensor([self.table[near] for near in sorted(self.table)], dtype=z.dtype)
        places = torch.tensor([2 ** (self.steps - 1 - j) for j in range(self.steps)])
        return flat[(z.long() * places).sum(-1)]


# -------------------------------------------------------------------------------------------------- the matrix


def matrix_at(series: Series, weight: Pointwise, tau: float) -> list[float]:
    """TN, FP, FN, TP at a threshold, the errors weighted; soft labels belong to both classes."""
    return [float(cell) for cell in _count(series, weight, View(series, tau, _alarms(series, tau)))]


def expected(
    case: PriorCase,
    series: Series,
    weight: Pointwise,
    *,
    sees_threshold: bool = False,
    cuts: Sequence[float] = (),
) -> list[float]:
    """The matrix averaged over the threshold.

    Args:
        case: The threshold's prior.
        series: The samples.
        weight: The weight of an error.
        sees_threshold: Whether the weight sees the threshold itself and not only alarms; then it is integrated.
        cuts: More points to cut [0, 1] at: the probabilities of stretches between them are computed only once.
    """
    ends = sorted({0.0, 1.0, *cuts, *(p for p in series.predictions if 0 < p < 1)})
    sums = [mpmath.mpf(0)] * 4
    for start, stop in itertools.pairwise(ends):
        probability = mass(case, start, stop)
        if not probability:
            continue
        middle = (start + stop) / 2
        view = View(series, middle, _alarms(series, middle))
        tn, fp, fn, tp = _count(series, weight, view)
        if sees_threshold:
            fp, fn = _average(case, series, weight, view, start, stop)
        else:
            fp, fn = probability * fp, probability * fn
        sums = [s + c for s, c in zip(sums, (probability * tn, fp, fn, probability * tp), strict=True)]
    return [float(cell) for cell in sums]


def _alarms(series: Series, tau: float) -> list[bool]:
    return [p > tau for p in series.predictions]  # NaN is greater than nothing


def _count(series: Series, weight: Pointwise, view: View) -> list:
    tn = fp = fn = tp = 0.0
    for i, target in enumerate(series.targets):
        count = series.counted(i)
        if not count:
            continue
        fp_cost, fn_cost = series.costs[i] if series.costs is not None else (1.0, 1.0)
        if view.alarm(i, 0):
            tp += count * target
            if target < 1:
                fp += count * (1 - target) * fp_cost * weight(view, i, 0)
        else:
            tn += count * (1 - target)
            if target > 0:
                fn += count * target * fn_cost * weight(view, i, 1)
    return [tn, fp, fn, tp]


def _average(case: PriorCase, series: Series, weight: Pointwise, view: View, start: float, stop: float):
    def both(tau):
        _, fp, fn, _ = _count(series, weight, view.with_threshold(tau))
        return case.density(tau) * mpmath.mpc(fp, fn)

    inside = [b for b in case.breaks if start < b < stop]
    with mpmath.workdps(case.digits):
        integral = mpmath.quad(both, [start, *inside, stop]) / _whole(case)
    return integral.real, integral.imag


@functools.cache
def _whole(case: PriorCase):
    return mpmath.quad(case.density, [0.0, *case.breaks, 1.0])


# ------------------------------------------------------------------------------ the paper's theorems, literally


@dataclass(frozen=True)
class PowerIntervals:
    """Of the T predictions before a sample, nearest first; everything is numbered from 1, as in the paper.

    Attributes:
        intervals: I_j as (start, stop), closed below and open above; None where it is empty.
        precursors: k(j), the index of the actual precursor of a prediction whose interval is not empty; None for j = 1.
        subset: t_1, …, t_S.
    """

    intervals: dict[int, tuple[float, float] | None]
    precursors: dict[int, int | None]
    subset: list[int]


def power_intervals(past: Sequence[float], a: float) -> PowerIntervals:
    """Definitions 5 and 6 and the subset of section 7.5, for predictions inside the support (a, b)."""
    y = dict(enumerate(past, 1))
    intervals: dict[int, tuple[float, float] | None] = {}
    precursors: dict[int, int | None] = {}
    for j, mine in y.items():
        # xi in I_j iff mine > xi and y_s <= xi for every s < j
        nearer = [y[s] for s in range(1, j)]
        start = max([a, *nearer])
        intervals[j] = (start, mine) if start < mine else None
        if j == 1:
            precursors[j] = None
        elif intervals[j] is not None:
            precursors[j] = min(s for s in range(1, j) if y[s] == start)  # of equal ones, that with an interval
    subset = [1] if y else []
    while True:
        following = [
            j for j in y if j > 1 and intervals[j] is not None and y[subset[-1]] < y[j] and precursors[j] == subset[-1]
        ]
        if not following:
            return PowerIntervals(intervals, precursors, subset)
        (only,) = following
        subset.append(only)


def _cdf(case: PriorCase, x: float):
    return mass(case, 0.0, x)


def _difference(case: PriorCase, predictions: Sequence[float], i: int, j: int):
    """D_i(j) of Theorem 2."""
    return _cdf(case, predictions[i - j]) - _cdf(case, min(predictions[i], predictions[i - j]))


def theorem_2(case: PriorCase, predictions: Sequence[float], targets: Sequence[float], omega: Sequence[float]) -> float:
    """E[wFN] for g_prod, of one series."""
    wfn = mpmath.mpf(0)
    for i, y in enumerate(targets):
        lags = range(1, min(len(omega), i) + 1)
        reward = sum((omega[j - 1] * _difference(case, predictions, i, j) for j in lags), mpmath.mpf(0))
        wfn += y * (1 - _cdf(case, predictions[i]) - reward)
    return float(wfn)


def theorem_3(case: PriorCase, predictions: Sequence[float], targets: Sequence[float], omega: Sequence[float]) -> float:
    """E[wFN] for g_max, of one series; omega is non-increasing, and the predictions are inside the support."""
    a = max([b for b in case.breaks if not mass(case, 0.0, b)], default=0.0)
    wfn = mpmath.mpf(0)
    for i, y in enumerate(targets):
        past = [predictions[i - j] for j in range(1, min(len(omega), i) + 1)]
        t = power_intervals(past, a).subset
        at = [omega[j - 1] for j in t] + [0.0]
        reward = sum(
            ((at[s] - at[s + 1]) * _difference(case, predictions, i, t[s]) for s in range(len(t))), mpmath.mpf(0)
        )
        wfn += y * (1 - _cdf(case, predictions[i]) - reward)
    return float(wfn)


# --------------------------------------------------------------------------------------------- every kind of weight


def smooth(tau, targets, predictions, label_window, alarm_window):
    """A weight that sees the threshold, the prediction and the label, all smoothly."""
    return torch.exp(-tau) * (1 + targets) + (predictions - tau) ** 2


def smooth_at(view, i, kind):
    return mpmath.exp(-view.tau) * (1 + kind) + (view.series.predictions[i] - view.tau) ** 2


# Generic numbers: two different windows have different sums.
LABEL_SHARES = (0.05, 0.11, 0.07, 0.023, 0.17)
ALARM_SHARES = (0.031, 0.19, 0.013, 0.087, 0.041)


def windowed(tau, targets, predictions, label_window, alarm_window):
    """A weight from which both windows can be read off."""
    labels, alarms = (tau.new_tensor(shares) for shares in (LABEL_SHARES, ALARM_SHARES))
    return 0.1 + (label_window * labels).sum(-1) + (alarm_window * alarms).sum(-1)


def windowed_at(view, i, kind):
    lags = range(-2, 3)
    labels = sum(share * view.event(i, lag) for share, lag in zip(LABEL_SHARES, lags, strict=True))
    alarms = sum(share * view.alarm(i, lag) for share, lag in zip(ALARM_SHARES, lags, strict=True))
    return 0.1 + labels + alarms


OMEGA = (0.5, 0.3, 0.15)
UNORDERED = (0.2, 0.0, 0.6)
RANDOM = SetFunction(3, seed=5)


@dataclass(frozen=True)
class WeightCase:
    """A weight beside its definition."""

    name: str
    make: Callable[[], object]
    oracle: Pointwise
    sees_threshold: bool = False  # itself, and not only through alarms
    integrated: bool = False  # numerically: any function, and products of two that change with the threshold
    reads_batch: bool = False  # so that matrices of parts do not add up
    reads_windows: bool = False
    soft: bool = True  # whether soft labels mean something

    def __repr__(self) -> str:
        return self.name


ALL_WEIGHTS = [
    WeightCase("cost", lambda: sw.weights.Cost(fp=2.0, fn=0.25), cost(2.0, 0.25)),
    WeightCase("cross-entropy", lambda: sw.weights.CrossEntropy(0.5, 3.0), cross_entropy(0.5, 3.0)),
    WeightCase("margin", lambda: sw.weights.Margin(1.5), margin(1.5), sees_threshold=True),
    WeightCase("class-frequency", sw.weights.ClassFrequency, class_frequency, reads_batch=True),
    WeightCase("value-max", lambda: sw.weights.Value(OMEGA), value(largest(OMEGA), 3), reads_windows=True, soft=False),
    WeightCase(
        "value-max-unordered-isolated",
        lambda: sw.weights.Value(UNORDERED, isolated=2.0),
        value(largest(UNORDERED), 3, 2.0),
        reads_windows=True,
        soft=False,
    ),
    WeightCase(
        "value-prod", lambda: sw.weights.Value(OMEGA, "prod"), value(total(OMEGA), 3), reads_windows=True, soft=False
    ),
    WeightCase(
        "value-any-isolated",
        lambda: sw.weights.Value(OMEGA, RANDOM, isolated=1.5),
        value(RANDOM.of_list, 3, 1.5),
        reads_windows=True,
        soft=False,
    ),
    WeightCase(
        "custom-smooth", lambda: sw.weights.Custom(smooth), smooth_at, integrated=True, sees_threshold=True, soft=False
    ),
    WeightCase(
        "custom-window",
        lambda: sw.weights.Custom(windowed, window=2),
        windowed_at,
        integrated=True,
        reads_windows=True,
        soft=False,
    ),
    WeightCase(
        "cost*value",
        lambda: sw.weights.Cost(2.0, 5.0) * sw.weights.Value(OMEGA),
        product(cost(2.0, 5.0), value(largest(OMEGA), 3)),
        reads_windows=True,
        soft=False,
    ),
    WeightCase(
        "class-frequency*cross-entropy",
        lambda: sw.weights.ClassFrequency() * sw.weights.CrossEntropy(),
        product(class_frequency, cross_entropy(1.0, 1.0)),
        reads_batch=True,
    ),
    WeightCase(
        "cross-entropy*margin",
        lambda: sw.weights.CrossEntropy() * sw.weights.Margin(0.5),
        product(cross_entropy(1.0, 1.0), margin(0.5)),
        sees_threshold=True,
    ),
    WeightCase(
        "margin*value",
        lambda: sw.weights.Margin(2.0) * sw.weights.Value(OMEGA),
        product(margin(2.0), value(largest(OMEGA), 3)),
        sees_threshold=True,
        integrated=True,
        reads_windows=True,
        soft=False,
    ),
    WeightCase(
        "value*value",
        lambda: sw.weights.Value(UNORDERED, isolated=2.0) * sw.weights.Value((0.4, 0.2), "prod"),
        product(value(largest(UNORDERED), 3, 2.0), value(total((0.4, 0.2)), 2)),
        integrated=True,
        reads_windows=True,
        soft=False,
    ),
    WeightCase(
        "custom*value*cost",
        lambda: sw.weights.Custom(windowed, window=2) * sw.weights.Value(OMEGA, "prod") * sw.weights.Cost(0.5, 2.0),
        product(windowed_at, value(total(OMEGA), 3), cost(0.5, 2.0)),
        integrated=True,
        reads_windows=True,
        soft=False,
    ),
]


# ------------------------------------------------------------------------------------------------ random series

# Ends of supports, points outside them, and few enough for ties.
GRID = (0.0, 0.03, 0.2, 0.25, 0.33, 0.4, 0.45, 0.5, 0.55, 0.62, 0.7, 0.83, 0.97, 1.0)


@st.composite
def random_series(draw, most: int = 12, values: Sequence[float] = GRID) -> Series:
    """Any structure: series that interleave, gaps, masked context known and unknown, weights, ties."""
    n = draw(st.integers(0, most))

    def each(strategy):
        return draw(st.lists(strategy, min_size=n, max_size=n))

    predictions, targets = each(st.sampled_from(values)), each(st.sampled_from((0.0, 1.0)))
    groups = draw(st.sampled_from((None, (0, 1), (7, -2, 10**12), ("a", "b"), ("Genova",))))
    groups = None if groups is None else each(st.sampled_from(groups))
    times = None
    if draw(st.booleans()):
        times, last = [], {}
        for group, step in zip(groups or [0] * n, each(st.integers(1, 3)), strict=True):
            last[group] = last.get(group, draw(st.sampled_from((-5, 0, 10**9)))) + step
            times.append(last[group])
    mask = None
    if draw(st.booleans()):
        fates = each(st.sampled_from(("counted", "counted", "known", "no label", "no prediction", "neither")))
        mask = [fate == "counted" for fate in fates]
        for i, fate in enumerate(fates):
            predictions[i] = math.nan if fate in ("no prediction", "neither") else predictions[i]
            targets[i] = math.nan if fate in ("no label", "neither") else targets[i]
    weight = each(st.sampled_from((0.0, 0.5, 1.0, 3.0))) if draw(st.booleans()) else None
    costs = each(st.tuples(*[st.sampled_from((0.0, 0.5, 1.0, 2.0))] * 2)) if draw(st.booleans()) else None
    return Series(predictions, targets, groups, times, mask, weight, costs)
