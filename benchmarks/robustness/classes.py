"""Losses and matrices of classes that exclude each other, and metrics over many batches, fed with random batches."""

from __future__ import annotations

import math
import random
from typing import Any, Literal

import torch
from torch import Tensor

import scorewise as sw
from benchmarks.robustness.batches import DTYPES, GRID, SCORES, batch, made, weight_for
from benchmarks.robustness.binary import FLAWED, NARROW, WIDE, goodness_range, sees_value
from benchmarks.robustness.flaws import arguments, spoiled
from benchmarks.robustness.fuzz import Target, Try, require, require_close
from tests.curve_oracles import scored
from tests.test_multiclass import count_by_loop, decide_by_loop, expected_by_loop
from tests.weight_oracles import matrix_at

# ---------------------------------------------------------------------------------------------------- classes


def classes(r: random.Random) -> Try:
    """SimplexLoss, OneVsRestLoss, the matrix of classes and best_tau."""
    n, m = r.choice((0, 1, 2, 3, 5, 8)), r.choice((2, 3, 3, 4, 6))
    logits, dtype = r.random() < 0.5, r.choice(DTYPES)
    x = torch.tensor([_logit(r) for _ in range(n * m)], dtype=torch.float64).reshape(n, m)
    x = (x if logits else torch.softmax(x, 1)).to(dtype)
    y = torch.tensor([r.randrange(r.choice((1, m))) for _ in range(n)], dtype=torch.int64)
    given: dict[str, Any] = {"x": x, "y": y}
    keep = torch.ones(n, dtype=torch.bool)
    if r.random() < 0.3:
        keep = given["mask"] = torch.tensor([r.random() < 0.6 for _ in range(n)], dtype=torch.bool)
        x[~keep] = math.nan
    weights = [1.0] * n
    if r.random() < 0.3:
        weights = [r.choice((0.0, 0.5, 1.0, 3.0)) for _ in range(n)]
        given["sample_weight"] = torch.tensor(weights, dtype=torch.float64)
    if r.random() < 0.2:
        given["y"] = torch.nn.functional.one_hot(y, m)
    what = r.choice(("SimplexLoss", "SimplexLoss", "OneVsRestLoss", "confusion_matrix", "best_tau"))
    averages: tuple[Literal["macro", "weighted", "min", "micro"], ...] = ("macro", "weighted", "min", "micro")
    score, average = r.choice(SCORES[:20]), r.choice(averages)
    if what == "OneVsRestLoss" and not logits:
        x[keep] = x[keep].clamp(0, 1)
    flaw = _spoil_classes(r, given, keep, m, logits=logits) if r.random() < FLAWED else None

    def call() -> tuple[Any, Any]:
        rest = dict(given)
        x, y = rest.pop("x"), rest.pop("y")
        if what == "confusion_matrix":
            return sw.multiclass.confusion_matrix(x, y, from_logits=logits, **rest), None
        if what == "best_tau":
            return sw.multiclass.best_tau(x, y, score, from_logits=logits, average=average, starts=2, **rest)
        leaf = x.clone().requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x
        make: Any = sw.SimplexLoss if what == "SimplexLoss" else sw.OneVsRestLoss
        loss = make(score, from_logits=logits, average=average)
        value = loss(leaf, y, **rest)
        value.backward()
        return value, leaf

    def check(found: tuple[Any, Any]) -> bool:
        first, second = found
        p = (torch.softmax(x, 1) if logits else x).tolist()
        kept = [i for i in range(n) if bool(keep[i])]
        rows, truth, count = [p[i] for i in kept], [int(y[i]) for i in kept], [weights[i] for i in kept]
        if what == "confusion_matrix":
            exact = count_by_loop(decide_by_loop(rows, [0.0] * m), truth, m, count)
            require_close(
                first.cells.flatten().tolist(),
                [cell for row in exact for cell in row],
                1e-12 * (1 + sum(count)),
                "the matrix",
            )
            return True
        low, high = goodness_range(score)
        low = -math.inf if score.name in {"hss", "kappa"} else low  # of several classes, without a bound
        goodness = -float(first.detach()) if what != "best_tau" else second * (1 if score.greater_is_better else -1)
        require(low - 1e-5 <= goodness <= high + 1e-5, f"the score is {goodness}, expected [{low:g}, {high:g}]")
        if what == "best_tau":
            _require_tau(first, m)
            return False
        require(bool(second.grad.isfinite().all()), f"the gradient is {second.grad.tolist()}")
        require(not bool(second.grad[~keep].any()), f"what does not count has the gradient {second.grad.tolist()}")
        if what == "OneVsRestLoss":
            return False
        return _compare_simplex(x, given, m, (rows, truth, count), logits=logits)

    return Try(call, check, flaw)


def _logit(r: random.Random) -> float:
    """A logit, often a strange one."""
    return r.choice((0.0, 1e-8, 1.0, 3.0, 30.0, 6e4)) * r.choice((-1, 1)) if r.random() < 0.4 else r.gauss(0, 2)


def _require_tau(tau: Tensor, m: int) -> None:
    require(tau.shape == (m,) and bool((tau >= 0).all()), f"tau is {tau.tolist()}")
    require(abs(float(tau.sum()) - 1) < 1e-6, f"tau is {tau.tolist()}, expected a sum of 1")


def _compare_simplex(
    x: Tensor, given: dict[str, Any], m: int, plain: tuple[list[Any], list[int], list[float]], *, logits: bool
) -> bool:
    """The expected matrix beside an integral for each class of each sample."""
    rows, truth, count = plain
    rest = {name: given[name] for name in ("mask", "sample_weight") if name in given}
    found = sw.multiclass.expected_confusion_matrix(x, given["y"], from_logits=logits, **rest)
    if not rows or x.dtype not in DTYPES[:2] or m > 4:
        require(bool(found.cells.isfinite().all()), f"the matrix is {found.cells.tolist()}")
        return False
    exact = expected_by_loop(rows, truth, count)
    tolerance = (WIDE if x.dtype == torch.float64 else NARROW) * (1 + sum(count))
    require_close(found.cells.flatten().tolist(), [cell for row in exact for cell in row], tolerance, "the matrix")
    return True


def _spoil_classes(r: random.Random, given: dict[str, Any], keep: Tensor, m: int, *, logits: bool) -> str | None:
    """Spoil arguments; None if nothing counts that could be."""
    x, y = given["x"], given["y"]
    n = len(y)
    shapes: dict[str, dict[str, Any]] = {
        "one class": {"x": torch.zeros(n, 1)},
        "no classes": {"x": torch.zeros(n)},
        "a class too many": {"y": torch.zeros(n + 1, dtype=torch.int64)},
        "classes with a fraction": {"y": torch.zeros(n)},
        "a mask of numbers": {"mask": torch.ones(n)},
        "a weight too many": {"sample_weight": torch.ones(n + 1)},
        "integer predictions": {"x": torch.zeros(n, m, dtype=torch.int64)},
        "words for predictions": {"x": ["high"] * (n + 1)},
        "nothing for labels": {"y": None},
    }
    kept = keep.nonzero().flatten().tolist()
    if not kept or r.random() < 0.5:
        name = r.choice(list(shapes))
        given |= shapes[name]
        return name
    i = r.choice(kept)
    name = r.choice(("a prediction that is none", "a class that is none", "a weight that is none"))
    if name == "a prediction that is none":
        given["x"] = x.clone()
        given["x"][i, 0] = r.choice((math.nan, math.inf) if logits else (math.nan, -0.5, 1.5))
    elif name == "a class that is none":
        given["y"] = (y if y.dim() == 1 else y.argmax(1)).clone()
        given["y"][i] = r.choice((-1, m, m + 10**6))
    else:
        given["sample_weight"] = torch.ones(n)
        given["sample_weight"][i] = r.choice((-1.0, math.nan, math.inf))
    return name


# ---------------------------------------------------------------------------------------------------- metrics


def metric(r: random.Random) -> Try:
    """WeightedScore: a batch in several updates is the matrix of all."""
    kind = weight_for(r)
    one = batch(r, kind, labelled=False, names=False)
    score, tau = r.choice(SCORES), r.choice((0.5, -1.0, *(p + 1 / 64 for p in GRID)))
    cut = r.randrange(one.x.shape[0] + 1)
    given = arguments(one)
    flaw = spoiled(r, one, given, hard=True, windows=kind.reads_windows) if r.random() < FLAWED else None
    if flaw == "times that stand still":  # batches come in any order
        flaw, given = None, arguments(one)
    whole = flaw is not None or (kind.reads_windows and "times" not in given)

    def call() -> tuple[float, sw.ConfusionMatrix]:
        metric = sw.metrics.WeightedScore(score, tau, made(kind), from_logits=one.from_logits)
        rest = dict(given)
        x, y = rest.pop("x"), rest.pop("y")
        for part in (slice(None),) if whole else (slice(cut, None), slice(0, cut)):
            some = rest if whole else {name: value[part] for name, value in rest.items()}
            metric.update(*((x, y) if whole else (x[part], y[part])), **some)
        return float(metric.compute()), metric.matrix()

    def check(found: tuple[float, sw.ConfusionMatrix]) -> bool:
        value, matrix = found
        low, high = score.range
        require(math.isfinite(value) and low - 1e-9 <= value <= high + 1e-9, f"the score is {value}")
        if sees_value(kind) and (one.exact is None or (one.from_logits and one.x.dtype != torch.float64)):
            return False
        (series,) = one.decided
        row = matrix_at(series, kind.oracle, float(torch.tensor(tau, dtype=torch.float64).to(one.x.dtype)))
        cells = [float(cell) for cell in (matrix.tn, matrix.fp, matrix.fn, matrix.tp)]
        require_close(cells, row, WIDE * max(one.scale, 1e-300), "the matrix")
        require_close([value], [scored(score, cells)], 1e-9 * max(1.0, abs(value)), "the score")
        return True

    return Try(call, check, flaw)


TARGETS: dict[str, Target] = {"classes": classes, "metrics": metric}
