"""Thresholds of labels for which few validation rows are enough.

The threshold that is best on validation rows is best by chance in part, the more so the fewer events there are. What
probabilities themselves ask for depends on far less, but on whether they are right. Half-way between them neither error
counts in full. Among the ingredients of benchmarks/quality none of the three is ahead by more than chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from scorewise.confusion import ConfusionMatrix, confusion_matrix
from scorewise.estimator.objective import counted
from scorewise.scores import Score
from scorewise.weights import Weight

Tune = Literal["between", "best", "plug_in"]

_TURNS = 30  # to find costs; a few are enough
_EDGE = 1e-9  # nearer to 0 or 1 probabilities are not told apart here
_FAR = math.log((1 - _EDGE) / _EDGE)  # the same in log-odds
_WEAK = 1e-6  # how much a slope is held back: it could grow for ever if classes can be told apart


@dataclass(frozen=True, eq=False)
class Rows:
    """What is known of rows of one label: probabilities, labels, and their context."""

    probabilities: Tensor
    targets: Tensor
    context: dict[str, Any]

    @property
    def counted(self) -> Tensor:
        """How much each row counts."""
        return counted(self.targets, self.context)


def tuned(rows: Rows, score: Score, weight: Weight | None, best: float, how: Tune) -> float:
    """A threshold.

    Args:
        rows: Validation rows.
        score: What to decide well for.
        weight: What an error costs.
        best: The threshold that is best on these rows.
        how: "best": that one. "plug_in": the one that the probabilities ask for, after they were calibrated on these
            rows. "between": half-way between both, in log-odds.

    Example:
        >>> import scorewise as sw
        >>> p = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
        >>> y = torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
        >>> rows, f1 = Rows(p, y, {}), sw.scores.get("f1")
        >>> [round(tuned(rows, f1, None, 0.25, how), 2) for how in ("best", "plug_in", "between")]
        [0.25, 0.5, 0.37]
    """
    slope, offset = _calibration(rows) if how != "best" else (0.0, 0.0)
    if not slope > 0:  # what is called more probable happens less often: nothing to ask these
        return best
    calibrated = torch.sigmoid(slope * _logit(rows.probabilities) + offset)
    asked = _asked_for(Rows(calibrated, rows.targets, rows.context), score, weight)
    here, asked_here = _logit(torch.tensor([best, asked], dtype=torch.float64)).tolist()
    there = min(max((asked_here - offset) / slope, -_FAR), _FAR)  # a slope of almost nothing asks for anything
    return 1 / (1 + math.exp(-(there if how == "plug_in" else (here + there) / 2)))


def _logit(p: Tensor) -> Tensor:
    return torch.logit(p.double().clamp(_EDGE, 1 - _EDGE))


def _calibration(rows: Rows) -> tuple[float, float]:
    """Slope and offset by which log-odds become those of the events that happened.

    J. Platt: Probabilistic outputs for support vector machines. 1999.
    """
    amount = rows.counted.numpy()
    some = amount > 0
    x, y = _logit(rows.probabilities).numpy()[some, None], rows.targets.numpy()[some]
    if not some.any() or (y == y[0]).all():
        return 0.0, 0.0
    share = amount[some] / amount[some].sum()  # what all count together makes no difference
    middle = float(x[:, 0] @ share)  # from there, slope and offset are told apart well
    found = LogisticRegression(C=1 / _WEAK, max_iter=1000).fit(x - middle, y, share)
    slope = float(found.coef_[0, 0])
    return slope, float(found.intercept_[0]) - slope * middle


def _asked_for(rows: Rows, score: Score, weight: Weight | None) -> float:
    """The threshold that probabilities ask for.

    Around a confusion matrix a score is linear, a sum of costs, and for costs the best threshold is known. The matrix
    there gives other costs, and so on; the best threshold on the way is taken.

    H. Narasimhan, H. Ramaswamy, A. Saha, S. Agarwal: Consistent multiclass algorithms for complex performance measures.
    ICML 2015.
    """
    sign = 1.0 if score.greater_is_better else -1.0
    threshold = float(rows.targets.double() @ rows.counted / rows.counted.sum())
    false_alarm, miss = _prices(rows, weight)
    tried: dict[float, float] = {}
    for _ in range(_TURNS):
        matrix = confusion_matrix(rows.probabilities, rows.targets, threshold, weight, **rows.context)
        cells = [cell.detach().double().requires_grad_() for cell in (matrix.tn, matrix.fp, matrix.fn, matrix.tp)]
        value = sign * score(ConfusionMatrix(*cells))
        tried[threshold] = float(np.nan_to_num(value.item(), nan=-np.inf))
        tn, fp, fn, tp = torch.autograd.grad(value, cells, materialize_grads=True)
        # what the right decision gains where there is no event, or one
        quiet, alarm = float(tn - false_alarm * fp), float(tp - miss * fn)
        if not quiet + alarm > 0 or (threshold := quiet / (quiet + alarm)) in tried:
            break
    return max(tried, key=lambda one: tried[one])


def _prices(rows: Rows, weight: Weight | None) -> tuple[float, float]:
    """What a false alarm and a miss weigh on average, in units of an ordinary one.

    Of a weight that looks at the threshold, or at alarms around, none is told: there it depends on what is decided.
    """
    told = None if weight is not None and weight._cores() else weight
    plain = {name: values for name, values in rows.context.items() if name != "costs"}
    prices = []
    for cell, threshold in (("fp", -1.0), ("fn", 2.0)):  # alarms everywhere, and nowhere
        priced, ordinary = (
            float(getattr(confusion_matrix(rows.probabilities, rows.targets, threshold, one, **context), cell))
            for one, context in ((told, rows.context), (None, plain))
        )
        prices.append(priced / ordinary if ordinary > 0 else 1.0)
    return prices[0], prices[1]
