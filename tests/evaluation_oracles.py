"""Records to judge, beside the same by loops over samples: who is an alarm, what each error costs, and why."""

from dataclasses import replace

import numpy as np
import torch

import scorewise as sw
from tests.curve_oracles import CROSS_ENTROPY_VALUE, CURVED
from tests.weight_oracles import OMEGA, RANDOM, UNORDERED, Series, View, largest, total

SCORES = sw.scores.names()
VALUE = sw.weights.Value(OMEGA)

# Of each weight that looks around, what neighbours at lags 1, 2, 3 are worth together.
WORTH = {
    "value-max": largest(OMEGA),
    "value-max-unordered-isolated": largest(UNORDERED),
    "value-prod": total(OMEGA),
    "value-any-isolated": RANDOM.of_list,
    "cost*value": largest(OMEGA),
    CROSS_ENTROPY_VALUE.name: largest(OMEGA),
}
LOOKING = [kind for kind in CURVED if kind.reads_windows]


class Record:
    """Samples as a user has them, in some dtype and maybe as logits, and as plain numbers.

    ``x`` is what is passed, and ``series`` the same with probabilities, of which a weight may be a function.
    """

    def __init__(self, series: Series, dtype: torch.dtype = torch.float64, from_logits: bool = False):
        p, self.y = series.tensors()
        self.x = (torch.logit(p) if from_logits else p).to(dtype)
        # as they are compared with a threshold: in their own dtype
        self._compared = torch.sigmoid(self.x) if from_logits else self.x
        exact = torch.sigmoid(self.x.double()) if from_logits else self.x.double()
        self.series = replace(series, predictions=exact.tolist(), costs=None)
        self.context = self.series.keywords() | {"from_logits": from_logits}

    def __len__(self) -> int:
        return len(self.series)

    def alarms(self, tau: float) -> list[bool]:
        return (self._compared > torch.tensor(tau, dtype=self.x.dtype)).tolist()  # NaN is greater than nothing

    def each(self, oracle, tau: float) -> list[list[float]]:
        """What each sample adds to TN, FP, FN and TP, by the definition of the weight."""
        view, added = View(self.series, tau, self.alarms(tau)), []
        for i, target in enumerate(self.series.targets):
            count, alarm = self.series.counted(i), bool(view.alarm(i, 0))
            cells = [0.0] * 4
            if count:
                kind = int(target)
                right = (alarm, kind) in {(True, 1), (False, 0)}
                cells[2 * kind + alarm] = count * (1.0 if right else oracle(view, i, kind))
            added.append(cells)
        return added

    def matrix(self, oracle, tau: float) -> list[float]:
        return [sum(column) for column in zip(*self.each(oracle, tau), strict=True)]

    def package(self, tau: float, weight=None, **other) -> sw.ConfusionMatrix:
        """The package's own matrix, which has tests of its own."""
        return sw.confusion_matrix(self.x, self.y, tau, weight, **(self.context | other))

    def curve(self, score, weight=None, **other):
        return sw.score_curve(self.x, self.y, score, weight, **(self.context | other))


def stations(seed: int, n: int = 90, names: str = "xyz", ties: bool = False) -> Series:
    """Series that interleave, with gaps, samples that do not count, known or not, and weights, some of them 0."""
    numbers = np.random.default_rng(seed)
    groups = numbers.choice(list(names), n).tolist()
    times, clock = [], dict.fromkeys(names, 0)
    for group, step in zip(groups, numbers.choice([1, 1, 1, 1, 2, 5], n).tolist(), strict=True):
        clock[group] += step
        times.append(clock[group])
    p = numbers.uniform(0.02, 0.98, n)
    p = p.round(1).clip(0.1, 0.9) if ties else p
    y = (numbers.random(n) < 0.2 + 0.5 * p).astype(float)
    fate = numbers.choice(["counted"] * 8 + ["known", "no label", "no prediction", "neither"], n)
    p = np.where((fate == "no prediction") | (fate == "neither"), np.nan, p)
    y = np.where((fate == "no label") | (fate == "neither"), np.nan, y)
    weights = numbers.choice([0.0, 0.5, 1.0, 1.0, 1.7], n)
    return Series(p.tolist(), y.tolist(), groups, times, (fate == "counted").tolist(), weights.tolist())


def plain(series: Series) -> Series:
    """The same predictions and labels without series, time, masks or weights, where they are known."""
    known = [i for i in range(len(series)) if not np.isnan([series.predictions[i], series.targets[i]]).any()]
    return Series([series.predictions[i] for i in known], [series.targets[i] for i in known])


def numbers_of(score: sw.scores.Score, cells) -> float:
    return float(score(sw.ConfusionMatrix(*cells)))


def four(matrix: sw.ConfusionMatrix) -> list[float]:
    return [float(cell) for cell in (matrix.tn, matrix.fp, matrix.fn, matrix.tp)]
