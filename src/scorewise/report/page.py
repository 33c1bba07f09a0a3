"""The page: its template filled, and its size."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from scorewise import _files
from scorewise.evaluation.results import Evaluation, Model
from scorewise.report import tables
from scorewise.report.data import main_label, payload, score_names
from scorewise.report.headline import best_model, headline, judged_by_main
from scorewise.report.packing import to_json
from scorewise.report.words import cell, label, plural, quoted, score, short, threshold

LIMIT = 10_000_000
"""Bytes that a page may have."""
# Points of a curve and stretches of time of each model: the first that fits.
_SIZES = ((4000, 12), (3000, 12), (2500, 12), (2000, 12), (1500, 12), (1000, 8), (500, 4), (250, 2), (100, 1), (50, 0))


def render(
    evaluation: Evaluation,
    *,
    title: str,
    summary: str = "",
    history: Sequence[Mapping[str, Any]] | None = None,
    facts: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The page as text: HTML with all that it needs, which asks nothing of any network.

    Args:
        evaluation: What was found.
        title: The page's heading.
        summary: A sentence or two beneath it.
        history: Evaluations while training, as `ScoreClassifier.history_` has them.
        facts: What is needed to make the page again, by name: versions, arguments, the data's hash.
        notes: What the reader must know before trusting the numbers.

    Raises:
        ValueError: If there is no model, the score that matters is not among those found, or the page would be larger
            than 10 MB with as little as can be left.
        ImportError: If jinja2 or plotly are missing.
    """
    _check(evaluation)
    plotly, environment = _libraries()
    script = _script(_resource("page.js"))
    content = _content(evaluation, history, facts) | {
        "title": short(title, 200),
        "summary": short(summary, 1000),
        "notes": [short(one, 1000) for one in notes],
        "policy": _policy(plotly, script),
        "plotly": plotly,
        "script": script,
        "css": _safe(_resource("page.css")),
    }
    template = environment.get_template("page.html")
    for points, stretches in _SIZES:
        found = payload(evaluation, history, points=points, stretches=stretches)
        data = to_json(found)
        if len(plotly) + len(data) > LIMIT:
            continue
        kept = [len(model["thresholds"]) for model in found["models"]]
        whole: str = template.render(content | {"curve_notes": _curve_notes(evaluation, kept), "data": _safe(data)})
        if len(whole.encode("utf-8", "replace")) <= LIMIT:
            return whole
    raise ValueError(
        f"the report would be larger than {LIMIT / 1e6:.0f} MB, with {plural(len(evaluation.models), 'model')} and as "
        "little of each as can be. Report fewer models, or fewer columns to judge by."
    )


def write(
    path: str | os.PathLike[str],
    evaluation: Evaluation,
    *,
    title: str,
    summary: str = "",
    history: Sequence[Mapping[str, Any]] | None = None,
    facts: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the page into a file, whole or not at all.

    Args:
        path: The file.
        evaluation: What was found.
        title: As for `render`.
        summary: As for `render`.
        history: As for `render`.
        facts: As for `render`.
        notes: As for `render`.
    """
    page = render(evaluation, title=title, summary=summary, history=history, facts=facts, notes=notes)
    # half a pair of UTF-16, from a broken file, has no place in UTF-8
    _files.write(Path(path), lambda file: file.write(page.encode("utf-8", "replace")))


def _check(evaluation: Evaluation) -> None:
    if not evaluation.models:
        raise ValueError("there is no model to report on; expected at least one.")
    main = evaluation.score.name
    for model in evaluation.models:
        curve = model.curve
        columns = curve.plain_scores if curve.weighted_scores is None else curve.weighted_scores
        if main not in model.plain.scores or main not in judged_by_main(model).scores or main not in columns:
            raise ValueError(f"the score {main!r} is not among those found of the model {model.name!r}.")
        if not curve.thresholds:
            raise ValueError(f"the curve of the model {model.name!r} has no thresholds; expected at least one.")


def _libraries() -> tuple[Any, Any]:
    """The plotting script, and the environment of templates."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(
            f"reports need {error.name}, which is not installed: pip install 'scorewise[report]'."
        ) from error
    environment = Environment(
        loader=PackageLoader("scorewise", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
    )
    return _script(get_plotlyjs()), environment


def _resource(name: str) -> str:
    return resources.files("scorewise.report").joinpath(name).read_text("utf-8")


def _script(source: str) -> Any:
    """A script as it may stand in a page: nothing in it ends it, and lines end as the browser has them."""
    return _safe(re.sub(r"<(?=/script|!--)", r"\\x3C", source.replace("\r\n", "\n"), flags=re.IGNORECASE))


def _safe(text: str) -> Any:
    """Text that the template takes as it is."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  # our own files, plotly's script, and JSON without < > &


def _policy(*scripts: str) -> str:
    """What the browser may do: run these scripts and no others, and ask nothing of any network."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts)
    # plotly places its elements by style attributes, and makes pictures of plots in memory
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"


def _content(
    evaluation: Evaluation, history: Sequence[Mapping[str, Any]] | None, facts: Mapping[str, str] | None
) -> dict[str, Any]:
    """All that the template shows, but for the user's texts."""
    figures, sentences = headline(evaluation)
    first = evaluation.models[0]
    by = tables.parts(evaluation)
    has_time = any(model.stretches for model in evaluation.models)
    reliability = tables.reliability(evaluation)
    sections = [
        ("scores", "Comparison" if len(evaluation.models) > 1 else "Scores"),
        ("threshold", "Threshold"),
        ("curves", "Curves"),
        *([("timeline", "Timeline")] if has_time else []),
        *([("reliability", "Reliability")] if reliability else []),
        *((f"by-{i}", f"By {short(name, 30)}") for i, (name, _) in enumerate(by, 1)),
        *([("training", "Training")] if history else []),
        *([("made", "How this was made")] if facts else []),
    ]
    return {
        "models": [short(model.name) for model in evaluation.models],
        "figures": figures,
        "sentences": sentences,
        "judged": {
            "score": label(evaluation.score.name),
            "weight": "none: every error counts one" if evaluation.weight is None else _told(evaluation.weight),
            "prior": _told(evaluation.prior),
        },
        "sections": sections,
        "comparison": tables.comparison(evaluation),
        "all_scores": tables.all_scores(evaluation),
        "differences": tables.differences(evaluation),
        "given": any(not model.chosen for model in evaluation.models),
        "readout": threshold(first.threshold),
        "cells": {
            "plain": [cell(one) for one in first.plain.cells],
            "weighted": None if first.weighted is None else [cell(one) for one in first.weighted.cells],
        },
        "score_rows": [
            {
                "name": name,
                "label": label(name),
                "plain": score(first.plain.scores.get(name)),
                "weighted": "" if first.weighted is None else score(first.weighted.scores.get(name)),
            }
            for name in score_names(evaluation)
        ],
        "alternatives": _alternatives(evaluation, history),
        "has": {"timeline": has_time},
        "reliability": reliability,
        "parts": by,
        "training": tables.training(history, greater_is_better=evaluation.score.greater_is_better) if history else None,
        "facts": tables.facts(facts) if facts else None,
    }


def _told(thing: object) -> str:
    """A weight or a prior, without the digits that nobody reads."""
    return short(re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.4g}", repr(thing)), 300)


def _curve_notes(evaluation: Evaluation, kept: Sequence[int]) -> list[str]:
    """What is not on the curves, of which so many points are kept."""
    notes = []
    for model, points in zip(evaluation.models, kept, strict=True):
        curve, of = model.curve, quoted(model.name)
        there = max(curve.of, len(curve.thresholds))
        if there > points:
            what = "thresholds in the data" if curve.bound is None else "edges of bins"
            notes.append(
                f"Of {cell(there)} {what} of {of}, {cell(points)} are here, with the best of every score among them."
            )
        bound = (curve.bound or {}).get(evaluation.score.name)
        if bound is not None:
            most = f"better than the best here by more than {bound:.2g}" if bound else "better than the best here"
            notes.append(f"The curve of {of} was made from bins: no threshold's {main_label(evaluation)} is {most}.")
    return notes


def _alternatives(evaluation: Evaluation, history: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    """What the plots show, for those who do not see them."""
    name = main_label(evaluation)

    def best(model: Model) -> str:
        value = judged_by_main(model).scores[evaluation.score.name]
        return f"{quoted(model.name)} has {score(value)} at {threshold(model.threshold)}"

    told = "; ".join(best(model) for model in evaluation.models[:8])
    leader = best_model(evaluation)
    bins = leader.reliability
    off = max((abs(one.predicted - one.observed) for one in bins), default=0.0)
    return {
        "curves": f"{name[:1].upper()}{name[1:]} over the threshold: {told}.",
        "reliability": f"Reliability diagram. The predictions of {quoted(leader.name)} and the observed shares of "
        f"events differ by at most {score(off)}.",
        "history": ""
        if not history
        else "Validation score over the steps of training; the table beneath has the best of each share.",
    }
