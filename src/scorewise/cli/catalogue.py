"""`scorewise scores`, `priors` and `weights`: what there is, told by the things themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from scorewise.cli import options

_LINEAR = {
    "cells": "linear in the cells",
    "totals": "linear for fixed class totals",
    "none": "not linear",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("scores")(show_scores)
    app.command("priors")(show_priors)
    app.command("weights")(show_weights)


def show_scores(
    name: Annotated[str | None, typer.Argument(help="One score, by name, synonym or expression: all of it.")] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """List the scores, with formulas, or tell all of one."""
    from scorewise.cli import expressions, show
    from scorewise.cli.formulas import plain

    if name is not None:
        facts = _score_facts(expressions.score(name))
        if as_json:
            show.write_json(facts)
        else:
            shown = facts | {"formula": plain(facts["formula"]), "LaTeX": facts["formula"]}
            show.table(facts["name"], ["fact", "value"], [[key, _told(value)] for key, value in shown.items()], left=2)
        return
    found = [_score_facts(expressions.score(one)) for one in _with_arguments(expressions.SCORES)]
    if as_json:
        show.write_json({"scores": found})
        return
    rows = [
        [
            one["name"],
            plain(one["formula"]),
            _told(one["range"]),
            _told(one["perfect"]),
            one["linearity"],
            _told(one["synonyms"]),
        ]
        for one in found
    ]
    show.table("Scores", ["name", "formula", "range", "perfect", "linear in", "synonyms"], rows, left=6)
    show.line("Sums are scores too: 0.7*tss + 0.3*fbeta(2). `scorewise scores NAME` tells all of one.")


def show_priors(*, as_json: options.Json = False) -> None:
    """List the priors: which thresholds matter."""
    from scorewise.cli import expressions

    _show(
        "priors", expressions.PRIORS, "As beta(2, 8), or mixture([uniform, beta(2, 8)], [0.5, 0.5]).", as_json=as_json
    )


def show_weights(*, as_json: options.Json = False) -> None:
    """List the weights: what an error costs."""
    from scorewise.cli import expressions

    inner = ", ".join(f"{name}({expressions.arguments(made)})" for name, made in expressions.LAGS.items())
    more = f"Products are weights too: cost(fn=5) * class_frequency(). An omega can be a list, or one of {inner}."
    _show("weights", expressions.WEIGHTS, more, as_json=as_json)


def _show(title: str, names: Mapping[str, Callable[..., Any]], more: str, *, as_json: bool) -> None:
    from scorewise.cli import expressions, show
    from scorewise.cli.formulas import plain

    found = [
        {
            "name": name,
            "arguments": expressions.arguments(made),
            "formula": _formula(made),
            "description": _description(made),
        }
        for name, made in names.items()
    ]
    if as_json:
        show.write_json({title: found})
        return
    rows = [[f"{one['name']}({one['arguments']})", plain(one["formula"]), one["description"]] for one in found]
    show.table(title.capitalize(), ["name and arguments", "formula", "what it is"], rows, left=3)
    show.line(more)


def _description(made: Any) -> str:
    """The first paragraph of what is written about it, without markup."""
    from scorewise.cli.formulas import plain

    text = (inspect.getdoc(made) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
    text = re.sub(r":math:`([^`]*)`", lambda match: plain(match[1]), text)
    return text.replace("`", "").replace("scorewise.weights.", "")


def _formula(made: Any) -> str:
    from scorewise.weights import Value

    found = getattr(made, "formula", None)
    return str(Value.formula if found is None else found)  # value() and published() make that one


def _with_arguments(names: Mapping[str, Any]) -> list[str]:
    """What to show of each: of those that need arguments, an example."""
    return [{"fbeta": "fbeta(2)"}.get(name, name) for name in names]


def _score_facts(score: Any) -> dict[str, Any]:
    return {
        "name": score.name,
        "synonyms": list(score.synonyms),
        "formula": score.formula,
        "range": list(score.range),
        "perfect": score.perfect,
        "greater_is_better": score.greater_is_better,
        "linearity": score.linearity,
        "meaning_of_linearity": _LINEAR[score.linearity],
        "empty_value": score.empty_value,
    }


def _told(value: object) -> str:
    if isinstance(value, list):
        numbers = all(isinstance(one, float) for one in value) and value
        return f"{value[0]:g} to {value[1]:g}" if numbers else ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
