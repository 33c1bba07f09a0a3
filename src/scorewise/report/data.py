"""What the page's script needs: curves, stretches, reliability, history, as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from scorewise.evaluation.results import Curve, Evaluation, Model, Stretch
from scorewise.priors import ThresholdPrior
from scorewise.report.packing import packed, place, rounded, thinned
from scorewise.report.words import cell, label, short

_DENSITY = 401  # points of the prior's density
_HISTORY = 1000  # evaluations of a share in the picture
_OUTCOMES = ("tn", "fp", "fn", "tp", "unknown")


def payload(
    evaluation: Evaluation, history: Sequence[Mapping[str, Any]] | None, *, points: int, stretches: int
) -> dict[str, Any]:
    """All of it.

    Args:
        evaluation: What was found.
        history: Evaluations while training.
        points: How many thresholds of a model's curve there may be.
        stretches: How many stretches of time of each model.
    """
    names = score_names(evaluation)
    return {
        "main": {
            "name": evaluation.score.name,
            "weighted": evaluation.weight is not None,
            "label": main_label(evaluation),
        },
        "scores": [{"name": name, "label": label(name)} for name in names],
        "prior": _density(evaluation.prior),
        "models": [_model(evaluation, model, names, points, stretches) for model in evaluation.models],
        "history": _history(history or (), 1 if evaluation.score.greater_is_better else -1),
    }


def score_names(evaluation: Evaluation) -> list[str]:
    """The names of all scores, the one that matters first."""
    main = evaluation.score.name
    seen: dict[str, None] = {main: None}
    for model in evaluation.models:
        for judged in (model.plain, model.weighted):
            seen |= dict.fromkeys(judged.scores if judged is not None else ())
    return list(seen)


def main_label(evaluation: Evaluation) -> str:
    """The score that matters, for people."""
    name = label(evaluation.score.name)
    return name if evaluation.weight is None else f"weighted {name}"


def best_place(evaluation: Evaluation, curve: Curve) -> int:
    """Where on a curve the score that matters is best; the middle one of equals that are neighbours."""
    columns = curve.plain_scores if curve.weighted_scores is None else curve.weighted_scores
    sign = 1 if evaluation.score.greater_is_better else -1
    values = [sign * value if math.isfinite(value) else -math.inf for value in columns[evaluation.score.name]]
    first = last = values.index(max(values))
    while last + 1 < len(values) and values[last + 1] == values[first]:
        last += 1
    return (first + last) // 2


def _model(evaluation: Evaluation, model: Model, names: list[str], points: int, stretches: int) -> dict[str, Any]:
    curve = thinned(model.curve, points, (model.threshold, 0.5))
    best = place(curve, model.threshold) if model.chosen else best_place(evaluation, curve)

    def columns(scores: dict[str, tuple[float, ...]]) -> dict[str, Any]:
        return {name: packed(scores[name]) for name in names if name in scores}

    return {
        "name": short(model.name),
        "threshold": rounded(model.threshold),
        "thresholds": list(curve.thresholds),
        "judged": place(curve, model.threshold),
        "best": best,
        "half": place(curve, 0.5),
        "plain": {
            "cells": [packed(cells) for cells in zip(*curve.plain, strict=True)],
            "scores": columns(curve.plain_scores),
        },
        "weighted": None
        if curve.weighted is None
        else {
            "cells": [packed(cells) for cells in zip(*curve.weighted, strict=True)],
            "scores": columns(curve.weighted_scores or {}),
        },
        "reliability": {
            "predicted": [rounded(one.predicted) for one in model.reliability],
            "observed": [rounded(one.observed) for one in model.reliability],
            "low": [rounded(one.interval[0]) for one in model.reliability],
            "high": [rounded(one.interval[1]) for one in model.reliability],
            "rows": [one.rows for one in model.reliability],
        },
        "stretches": [_stretch(one) for one in model.stretches[:stretches]],
    }


def _stretch(stretch: Stretch) -> dict[str, Any]:
    """A stretch of time; of its errors what they cost and why, of the rest nothing."""
    errors = [i for i, outcome in enumerate(stretch.outcomes) if outcome in {"fp", "fn"}]
    first = stretch.steps[0] if stretch.steps else 0
    return {
        "label": _stretch_label(stretch),
        "times": [short(one, 40) for one in stretch.times],
        "steps": packed(step - first for step in stretch.steps),
        "predictions": packed(math.nan if one is None else one for one in stretch.predictions),
        "outcomes": [_OUTCOMES.index(one) for one in stretch.outcomes],
        "errors": errors,
        "costs": [rounded(stretch.costs[i]) for i in errors],
        "reasons": [short(stretch.reasons[i], 300) for i in errors],
    }


def _stretch_label(stretch: Stretch) -> str:
    """Whose it is, from when to when, and what its errors cost."""
    series = f"{short(stretch.series, 40)}: " if stretch.series else ""
    span = f"{short(stretch.times[0], 40)} to {short(stretch.times[-1], 40)}" if stretch.times else "no time"
    return f"{series}{span}, cost {cell(float(f'{stretch.cost:.6g}'))}"


def _density(prior: ThresholdPrior) -> list[float | None]:
    """The prior's density, evenly spaced from 0 to 1."""
    at = torch.linspace(0, 1, _DENSITY, dtype=torch.float64)
    return [rounded(one) for one in prior.pdf(at).tolist()]


def _history(history: Sequence[Mapping[str, Any]], sign: int) -> list[dict[str, Any]]:
    """Evaluations by the share of the score, each in the order of steps; where less is better, values are negated."""
    found = []
    for share in sorted({float(one["share"]) for one in history}):
        own = sorted((one for one in history if float(one["share"]) == share), key=lambda one: int(one["step"]))
        every = -(-len(own) // _HISTORY)
        own = [one for i, one in enumerate(own) if i % every == 0 or one.get("chosen")]
        found.append(
            {
                "share": rounded(share),
                "steps": [int(one["step"]) for one in own],
                "values": [rounded(sign * float(one["value"])) for one in own],
                "chosen": [i for i, one in enumerate(own) if one.get("chosen")],
            }
        )
    return found
