"""Losses and matrices of events, fed with random batches."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import scorewise as sw
from benchmarks.robustness.batches import DTYPES, GRID, SCORES, Batch, batch, made, weight_for
from benchmarks.robustness.flaws import Arguments, arguments, spoiled
from benchmarks.robustness.fuzz import Target, Try, require, require_close
from tests.cases import ALL_PRIORS, PriorCase
from tests.curve_oracles import CURVED, averaged, scored, sees_prediction
from tests.oracles import mass
from tests.weight_oracles import Series, WeightCase, expected, matrix_at

FLAWED = 0.25
"""The share of inputs that are spoiled, if they can be."""
WIDE, NARROW = 1e-9, 2e-5
"""Tolerances, as shares of all that is summed. In float64 that of the priors themselves, which are tested to 1e-9 of an
integral. Else that of float32, 6e-8, times the steepest density, about 20, and some for sums."""


def _allowed(batch: Batch) -> float:
    """By how much a cell may differ from an oracle's."""
    wide = batch.x.dtype == torch.float64
    return (WIDE if wide else NARROW) * max(batch.scale, 1e-300) * 10


def _cells(matrix: sw.ConfusionMatrix) -> list[list[float]]:
    """TN, FP, FN, TP of each label."""
    table = torch.stack([matrix.tn, matrix.fp, matrix.fn, matrix.tp], -1).detach().double()
    rows: list[list[float]] = table.reshape(-1, 4).tolist()
    return rows


def _require_cells(matrix: sw.ConfusionMatrix, batch: Batch) -> None:
    cells = _cells(matrix)
    require(len(cells) == (batch.labels or 1), f"there are {len(cells)} matrices for {batch.labels} labels")
    require(all(math.isfinite(c) and c >= 0 for row in cells for c in row), f"cells are {cells}")


def require_range(values: Sequence[float], low: float, high: float, slack: float) -> None:
    """Raise unless all are finite and in a range."""
    inside = all(math.isfinite(v) and low - slack <= v <= high + slack for v in values)
    require(inside, f"the score is {list(values)}, expected finite numbers in [{low:g}, {high:g}]")


def goodness_range(score: sw.scores.Score) -> tuple[float, float]:
    """The least and greatest of a score, negated if less is better."""
    low, high = score.range
    return (low, high) if score.greater_is_better else (-high, -low)


def _require_gradient(x: Tensor, batch: Batch, again: Callable[[], Tensor], *, windows: bool) -> None:
    """Raise unless a gradient is there, finite, and 0 where nothing counts.

    Args:
        x: Predictions that have one.
        batch: What they are of.
        again: The same predictions in float64, with their gradient: it may be larger than a narrow dtype has numbers.
        windows: Whether predictions that do not count are seen by others.
    """
    gradient = x.grad
    if gradient is None:
        require(False, "there is no gradient")
        return
    finite = gradient.isfinite()
    if not bool(finite.all()) and x.dtype != torch.float64:
        wide = again().grad
        finite |= torch.zeros_like(finite) if wide is None else wide.abs() > torch.finfo(x.dtype).max
    require(bool(finite.all()), f"the gradient is {gradient.tolist()}")
    hidden = batch.x.isnan() if windows else ~batch.keep
    require(not bool(gradient[hidden].any()), f"what does not count has the gradient {gradient.tolist()}")


# ------------------------------------------------------------------------------------------------------- loss


def loss(r: random.Random) -> Try:
    """ScoreLoss: any score, prior and weight, exact or not, one label or several."""
    kind = weight_for(r)
    one = batch(r, kind)
    each = one.labels is not None and r.random() < 0.3
    count = one.labels or 1
    scores = [r.choice(SCORES) for _ in range(count)] if each else [r.choice(SCORES)] * count
    cases = [r.choice(ALL_PRIORS) for _ in range(count)] if each else [r.choice(ALL_PRIORS)] * count
    average = r.choice(("macro", "weighted", "min", "micro", None)) if one.labels else "macro"
    exact = r.random() < 0.15
    options: Arguments = {
        "score": scores if each else scores[0],
        "prior": [case.prior for case in cases] if each else cases[0].prior,
        "weight": made(kind),
        "from_logits": one.from_logits,
        "exact": exact,
        "average": average,
    }
    flaw = None
    if average == "micro" and (each or exact):
        flaw = "a micro average of what has no common matrix"
    elif exact and kind not in CURVED:
        flaw = "an exact loss with a weight that sees the threshold"
    elif r.random() < 0.04:
        name, bad = r.choice(_BAD_OPTIONS)
        options[name] = bad
        flaw = f"a {name} that is none"
    given = arguments(one)
    if flaw is None and r.random() < FLAWED:
        flaw = spoiled(r, one, given, hard=False, windows=kind.reads_windows)

    def call(dtype: torch.dtype | None = None) -> tuple[sw.ScoreLoss, Tensor, Tensor]:
        x, y, rest = _leaf(given, dtype)
        module = sw.ScoreLoss(options["score"], **{name: one for name, one in options.items() if name != "score"})
        value = module(x, y, **rest)
        value.sum().backward()
        return module, value, x

    def check(found: tuple[sw.ScoreLoss, Tensor, Tensor]) -> bool:
        module, value, x = found
        shape = (one.labels,) if one.labels and average is None else ()
        require(value.shape == shape, f"the loss has the shape {tuple(value.shape)}, expected {shape}")
        _require_gradient(x, one, lambda: call(torch.float64)[2], windows=kind.reads_windows)
        lows, highs = zip(*map(goodness_range, scores), strict=True)
        goodness = (-value.detach()).reshape(-1).tolist()
        narrow = value.dtype != torch.float64
        require_range(goodness, min(lows), max(highs), 1e-6 if narrow else 1e-12)
        return _compare(module, goodness, _Asked(one, kind, scores, cases, average))

    return Try(call, check, flaw)


_BAD_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("score", "tsss"),
    ("score", 3),
    ("score", None),
    ("score", []),
    ("prior", "uniform"),
    ("prior", 0.5),
    ("weight", "value"),
    ("weight", 2.0),
    ("weight", []),
    ("exact", "yes"),
    ("from_logits", 1),
    ("average", "mean"),
    ("average", 0.5),
)


def _leaf(given: Arguments, dtype: torch.dtype | None = None) -> tuple[Any, Any, Arguments]:
    """Predictions with a gradient, in a dtype of their own or in another, labels, and the rest."""
    rest = dict(given)
    x, y = rest.pop("x"), rest.pop("y")
    if isinstance(x, Tensor) and x.is_floating_point():
        x = x.to(dtype or x.dtype, copy=True).requires_grad_()
    return x, y, rest


def _comparable(one: Batch, kind: WeightCase) -> list[Series] | None:
    """The samples for an oracle of expected matrices, if there is one that does not take long."""
    if one.exact is None or kind.sees_threshold or (one.from_logits and one.x.dtype not in DTYPES[:2]):
        return None
    return one.exact


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a loss is asked for: of each label its score and its prior."""

    batch: Batch
    kind: WeightCase
    scores: list[sw.scores.Score]
    cases: list[PriorCase]
    average: str | None


def _compare(module: sw.ScoreLoss, goodness: list[float], asked: _Asked) -> bool:
    """A loss beside the oracle, where there is one."""
    one, kind, scores, cases, average = asked.batch, asked.kind, asked.scores, asked.cases, asked.average
    samples = _comparable(one, kind)
    allowed = _allowed(one)
    ways = [1.0 if score.greater_is_better else -1.0 for score in scores]
    if module.exact:
        if samples is None:
            return False
        parts = [_parts(case, series, kind) for case, series in zip(cases, samples, strict=True)]
        values = [way * averaged(part, score) for way, part, score in zip(ways, parts, scores, strict=True)]
        tolerance = (WIDE if one.x.dtype == torch.float64 else NARROW) * 10
        tolerance *= max(1.0, allowed / tolerance if any("cost" in score.name for score in scores) else 1.0)
    else:
        x, y, rest = _leaf(arguments(one))
        matrix = module.matrix(x, y, **rest)
        _require_cells(matrix, one)
        rows = _cells(matrix)
        if samples is not None:
            for row, case, series in zip(rows, cases, samples, strict=True):
                require_close(row, expected(case, series, kind.oracle, cuts=GRID), allowed, "the matrix")
        # the loss itself is a function of that matrix: only the cast to float32 lies between
        values = [way * scored(score, row) for way, score, row in zip(ways, scores, rows, strict=True)]
        if average == "micro":
            values = [ways[0] * scored(scores[0], [sum(column) for column in zip(*rows, strict=True)])]
        tolerance = max(1e-6, 1e-6 * max(map(abs, values))) if one.x.dtype != torch.float64 else 1e-9
        tolerance = max(tolerance, 1e-9 * max(map(abs, values)))
    if average == "weighted":
        return samples is not None
    if average == "macro":
        values = [math.fsum(values) / len(values)]
    elif average == "min":
        values = [min(values)]
    require_close(goodness, values, tolerance, "the score")
    return samples is not None


def _parts(case: PriorCase, series: Series, kind: WeightCase) -> list[tuple[float, list[float]]]:
    """The probability of each stretch of thresholds of the grid, and the matrix on it."""
    return [
        (float(mass(case, low, high)), matrix_at(series, kind.oracle, (low + high) / 2))
        for low, high in itertools.pairwise(GRID)
    ]


# --------------------------------------------------------------------------------------------------- matrices


def expected_matrix(r: random.Random) -> Try:
    """expected_confusion_matrix, and the gradient of its cells."""
    kind, case = weight_for(r), r.choice(ALL_PRIORS)
    one = batch(r, kind)
    given = arguments(one)
    flaw = spoiled(r, one, given, hard=False, windows=kind.reads_windows) if r.random() < FLAWED else None

    def call(dtype: torch.dtype | None = None) -> tuple[sw.ConfusionMatrix, Tensor]:
        x, y, rest = _leaf(given, dtype)
        matrix = sw.expected_confusion_matrix(x, y, case.prior, made(kind), from_logits=one.from_logits, **rest)
        (matrix.tensor() * torch.tensor([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
        return matrix, x

    def check(found: tuple[sw.ConfusionMatrix, Tensor]) -> bool:
        matrix, x = found
        _require_cells(matrix, one)
        _require_gradient(x, one, lambda: call(torch.float64)[1], windows=kind.reads_windows)
        samples = _comparable(one, kind)
        for row, series in zip(_cells(matrix), samples or [], strict=samples is not None):
            require_close(row, expected(case, series, kind.oracle, cuts=GRID), _allowed(one), "the matrix")
        return samples is not None

    return Try(call, check, flaw)


_THRESHOLDS = (0.5, 0.5, 0.0, 1.0, -1.0, 2.0, -math.inf, math.inf, 1e-300, 1e30, *GRID, *(p + 1 / 64 for p in GRID))


def matrix(r: random.Random) -> Try:
    """confusion_matrix at any threshold."""
    kind = weight_for(r)
    one = batch(r, kind)
    each = one.labels is not None and r.random() < 0.4
    taus = [r.choice(_THRESHOLDS) for _ in range(one.labels or 1)] if each else [r.choice(_THRESHOLDS)]
    given = arguments(one)
    flaw = spoiled(r, one, given, hard=True, windows=kind.reads_windows) if r.random() < FLAWED else None
    threshold: Any = torch.tensor(taus, dtype=torch.float64) if each else taus[0]
    if flaw is None and r.random() < 0.03:
        threshold = r.choice((math.nan, "high", None, torch.zeros(7), 1j, [[0.5]]))
        flaw = "a threshold that is none"
    if flaw is None and r.random() < 0.2 and one.x.dtype != torch.bfloat16:
        given |= {name: given[name].numpy() for name in ("x", "y")}

    def call() -> sw.ConfusionMatrix:
        rest = dict(given)
        x, y = rest.pop("x"), rest.pop("y")
        return sw.confusion_matrix(x, y, threshold, made(kind), from_logits=one.from_logits, **rest)

    def check(found: sw.ConfusionMatrix) -> bool:
        _require_cells(found, one)
        if sees_value(kind) and (one.exact is None or (one.from_logits and one.x.dtype != torch.float64)):
            return False  # decided in a narrow dtype, weighted in float64: two probabilities
        if kind.sees_threshold and any(math.isinf(tau) or abs(tau) > 1 for tau in taus):
            return False
        for k, (row, series) in enumerate(zip(_cells(found), one.decided, strict=True)):
            tau = float(torch.tensor(taus[k % len(taus)], dtype=torch.float64).to(one.x.dtype))
            require_close(row, matrix_at(series, kind.oracle, tau), WIDE * max(one.scale, 1e-300), "the matrix")
        return True

    # what an infinite distance to the threshold costs is not for a matrix to say, nor whether a function looks at it
    sees = kind.sees_threshold or kind.integrated
    far = sees and bool(torch.tensor(taus, dtype=torch.float64).to(one.x.dtype).isinf().any())
    return Try(call, check, flaw, "threshold" if far else None)


def sees_value(kind: WeightCase) -> bool:
    """Whether a weight sees predictions themselves."""
    return sees_prediction(kind) or kind.sees_threshold


TARGETS: dict[str, Target] = {
    "ScoreLoss": loss,
    "confusion_matrix": matrix,
    "expected_confusion_matrix": expected_matrix,
}
