"""The directive ``facts``: tables of scores, priors and weights, told by the objects themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import scorewise as sw
from scorewise.scores import Score

_LINEAR = {
    "cells": "in the cells, so that its expected value is its value at the expected matrix, under every weight",
    "totals": "for fixed class totals, so that its expected value is its value at the expected matrix, without weights",
    "none": "no",
}


def scores() -> str:
    """An overview of all scores."""
    lines = ["| score | range | perfect | better | linear | synonyms |", "|---|---|---|---|---|---|"]
    lines += [
        f"| [`{one.name}`](#score-{_anchor(one)}) | {one.range[0]:.3g} to {one.range[1]:.3g} | {one.perfect:g} | "
        f"{'greater' if one.greater_is_better else 'less'} | {one.linearity} | {_synonyms(one)} |"
        for one in _every_score()
    ]
    return "\n".join(lines)


def formulas() -> str:
    """Each score with its formula."""
    return "\n".join(_score(one) for one in _every_score())


def _every_score() -> list[Score]:
    found = [sw.scores.get(name) for name in sw.scores.names()]
    found.insert(found.index(sw.scores.f1) + 1, sw.scores.fbeta(2))  # as an example of those with a number
    return found


def _score(score: Score) -> str:
    facts = {
        "Range": f"{score.range[0]:.3g} to {score.range[1]:.3g}",
        "Perfect": f"{score.perfect:g}",
        "Of an empty matrix": f"{score.empty_value:g}",
        "Linear": _LINEAR[score.linearity],
        "Synonyms": _synonyms(score) or "none",
    }
    told = "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
    named = vars(sw.scores).get(score.name) is score
    entry = f"```{{py:data}} scorewise.scores.{score.name}\n:no-typesetting:\n```\n" if named else ""
    return f"(score-{_anchor(score)})=\n### {score.name}\n\n{entry}\n$$\n{score.formula}\n$$\n\n{told}\n"


def _synonyms(score: Score) -> str:
    return ", ".join(f"`{one}`" for one in score.synonyms)


def _anchor(score: Score) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in score.name).strip("-")


def priors() -> str:
    """All priors, with their formulas."""
    return _classes(sw.priors, sw.priors.ThresholdPrior)


def weights() -> str:
    """All weights, with their formulas."""
    return _classes(sw.weights, sw.weights.Weight)


def _classes(module: Any, base: type) -> str:
    """The final classes of a module that have a formula."""
    lines = ["| name | formula | what it is |", "|---|---|---|"]
    for name in module.__all__:
        one = getattr(module, name)
        formula = inspect.isclass(one) and issubclass(one, base) and getattr(one, "formula", None)
        if isinstance(formula, str):
            first = (inspect.getdoc(one) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
            # a bar would end the cell
            lines.append(
                f"| {{py:class}}`~{module.__name__}.{name}` | ${formula.replace('|', chr(92) + 'vert ')}$ | "
                f"{_markdown(first)} |"
            )
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """A line of reStructuredText: its formulas and code as Markdown has them."""
    pieces = text.replace("``", "`").split(":math:`")
    told = pieces[0] + "".join("${}${}".format(*piece.split("`", maxsplit=1)) for piece in pieces[1:])
    return told.replace("|", "\\|")


TABLES: dict[str, Callable[[], str]] = {"scores": scores, "formulas": formulas, "priors": priors, "weights": weights}


class Facts(SphinxDirective):
    """What the objects of a kind know of themselves."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table."""
        return self.parse_text_to_nodes(TABLES[self.arguments[0]](), allow_section_headings=True)


ORDER = ("tss", "value", "costs", "multilabel", "multiclass", "network")
ORDER += ("ddp", "lightning", "transformers", "skorch", "keras")


def in_order(filename: str) -> int:
    """The place of an example in the gallery."""
    name = filename.removeprefix("plot_").removesuffix(".py")
    return ORDER.index(name) if name in ORDER else len(ORDER)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directive known."""
    app.add_directive("facts", Facts)
    return {"parallel_read_safe": True}
