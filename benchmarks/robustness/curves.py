"""Curves over all thresholds, and the best of them, fed with random batches."""

from __future__ import annotations

import itertools
import random

import torch

import scorewise as sw
from benchmarks.robustness.batches import SCORES, batch, made, weight_for
from benchmarks.robustness.binary import FLAWED, require_range, sees_value
from benchmarks.robustness.flaws import arguments, spoiled
from benchmarks.robustness.fuzz import Target, Try, require, require_close
from tests.cases import ALL_PRIORS
from tests.curve_oracles import CURVED, each_scored, scored
from tests.weight_oracles import Series, matrix_at


def curve(r: random.Random) -> Try:
    """score_curve, best_threshold, with a floor for another score or without, and the mean over a prior."""
    curved = r.random() < 0.95
    kind = weight_for(r, curved=curved)
    one = batch(r, kind, labelled=False)
    score, case = r.choice(SCORES), r.choice(ALL_PRIORS)
    floor = (r.choice(SCORES), r.choice((-0.5, 0.0, 0.3, 0.5, 0.9, 1.0))) if r.random() < 0.3 else None
    at_least: dict[str | sw.scores.Score, float] | None = None if floor is None else {floor[0]: floor[1]}
    directly = r.random() < 0.3
    given = arguments(one)
    flaw = None if kind in CURVED else "a curve with a weight that sees the threshold"
    if floor is not None and not floor[0].greater_is_better:
        flaw = "a floor for what should be small"
    if flaw is None and r.random() < FLAWED:
        flaw = spoiled(r, one, given, hard=True, windows=kind.reads_windows)
        flaw = None if flaw == "no labels" else flaw
        given = arguments(one) if flaw is None else given

    def call() -> tuple[sw.ScoreCurve, float, float, float]:
        rest = dict(given)
        x, y = rest.pop("x"), rest.pop("y")
        found = sw.score_curve(x, y, score, made(kind), from_logits=one.from_logits, **rest)
        threshold, value = found.best(at_least=at_least)
        if directly:
            again = sw.best_threshold(
                *(x, y, score, made(kind)), at_least=at_least, from_logits=one.from_logits, **rest
            )
            require(float(again) == threshold, f"best_threshold is {again}, and the curve's best {threshold}")
        return found, threshold, value, float(found.expected(case.prior))

    def check(found: tuple[sw.ScoreCurve, float, float, float]) -> bool:
        curve, threshold, value, mean = found
        taus, values = curve.thresholds.double().tolist(), curve.values.tolist()
        require(all(a < b for a, b in itertools.pairwise(taus)), f"thresholds are {taus}")
        require_range([*values, value, mean], *score.range, 1e-9)
        if sees_value(kind) and (one.exact is None or (one.from_logits and one.x.dtype != torch.float64)):
            return False
        (series,) = one.decided
        rows = [matrix_at(series, kind.oracle, tau) for tau in [*taus, threshold]]
        allowed = 1e-9 * max([1.0, *(abs(v) for v in values)])
        if not _tiny(series):
            require_close([*values, value], each_scored(score, rows), allowed, "the curve")
        sign = 1 if score.greater_is_better else -1
        open_to = [v for v, row in zip(values, rows, strict=False) if floor is None or _meets(row, *floor)]
        require(bool(open_to), "a threshold was found where none is allowed")
        require(
            sign * value >= max(sign * v for v in open_to) - allowed, f"the best of {open_to} is said to be {value}"
        )
        return True

    return Try(call, check, flaw, "no threshold has" if floor is not None else None)


def _tiny(series: Series) -> bool:
    """Whether weights are so small that products of cells are no normal numbers any more."""
    return series.sample_weight is not None and 0 < max(series.sample_weight, default=0.0) < 1e-100


def _meets(row: list[float], score: sw.scores.Score, least: float) -> bool:
    return scored(score, row) >= least - 1e-9


TARGETS: dict[str, Target] = {"curves": curve}
