"""The page's tables, which are there without a script too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scorewise.evaluation.results import Difference, Evaluation, Judged, Part
from scorewise.report.data import score_names
from scorewise.report.words import NONE, between, cell, label, percent, plural, quoted, score, short, signed, threshold

_PARTS = 1000  # rows of all tables of parts together


@dataclass(frozen=True)
class Entry:
    """A cell of a table: a text, and a smaller one beneath it."""

    text: str
    small: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first entry of each row is its heading.

    Attributes:
        caption: What it shows.
        head: The headings of the columns, the first that of the rows' headings.
        rows: The rows.
        over: Headings over several columns each, with how many; empty: none.
        strong: How many rows, from the first, are what matters.
        note: A word beneath it.
        model: The place of the model that it is of, if it is of one only.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    over: tuple[tuple[str, int], ...] = ()
    strong: int = 0
    note: str = ""
    model: int | None = None


def comparison(evaluation: Evaluation) -> Table:
    """The models side by side, by the score that matters."""
    main, weighted = evaluation.score.name, evaluation.weight is not None
    name = label(main)
    head = ["Model", *([f"Weighted {name}"] if weighted else []), f"Plain {name}" if weighted else name]
    head += ["Expected over the prior", "Threshold"]
    models = evaluation.models
    first = models[0]
    beside = [one for one in evaluation.differences if one.score == main and one.weighted == weighted]
    if beside:
        head += [f"{quoted(first.name)} less this", "Share of resamples in which it is better"]
    rows = []
    for model in models:
        row = [Entry(short(model.name))]
        row += [_judged(one, main) for one in (model.weighted, model.plain) if one is not None]
        small = "given" if not model.chosen else ""
        if model.threshold_interval is not None:
            small = " to ".join(threshold(end) for end in model.threshold_interval)
        row += [Entry(score(model.expected)), Entry(threshold(model.threshold), small)]
        if beside:
            other = next((one for one in beside if one.other == model.name), None)
            row += _difference(other)
        rows.append(tuple(row))
    return Table("The score that matters, at each model's threshold", tuple(head), tuple(rows))


def all_scores(evaluation: Evaluation) -> Table:
    """Matrices and all scores of all models."""
    models, weighted = evaluation.models, evaluation.weight is not None
    kinds = [(model, kind) for model in models for kind in (False, True)[: 1 + weighted]]
    columns = [model.weighted if kind else model.plain for model, kind in kinds]
    rows = [
        (Entry(cell_name), *(Entry(NONE if one is None else cell(one.cells[i])) for one in columns))
        for i, cell_name in enumerate(("true negatives", "false positives", "false negatives", "true positives"))
    ]
    rows += [
        (Entry(label(name)), *(Entry(NONE) if one is None else _judged(one, name) for one in columns))
        for name in score_names(evaluation)
    ]
    head = ("", *("weighted" if kind else "plain" for _, kind in kinds))
    over = tuple((short(model.name), 1 + weighted) for model in models)
    return Table("Matrices and all scores at each model's threshold", head, tuple(rows), over)


def differences(evaluation: Evaluation) -> Table | None:
    """The first model less each other, in every score."""
    if not evaluation.differences:
        return None
    places = {name: i for i, name in enumerate(score_names(evaluation))}
    found = sorted(evaluation.differences, key=lambda one: places.get(one.score, len(places)))
    rows = tuple(
        (
            Entry(label(one.score)),
            *([Entry("weighted" if one.weighted else "plain")] if evaluation.weight is not None else []),
            Entry(short(one.other)),
            *_difference(one),
        )
        for one in found
    )
    kind = ("Matrix",) if evaluation.weight is not None else ()
    head = ("Score", *kind, "Other model", "Difference", "Share of resamples in which it is better")
    return Table(f"{quoted(evaluation.models[0].name)} less each other model", head, rows)


def parts(evaluation: Evaluation) -> list[tuple[str, list[Table]]]:
    """For each column the tables of all models."""
    columns = list(dict.fromkeys(name for model in evaluation.models for name in model.parts))
    most = max(20, _PARTS // max(1, len(columns) * len(evaluation.models)))
    return [
        (
            short(name),
            [
                _parts(evaluation, i, model.parts[name], name, most)
                for i, model in enumerate(evaluation.models)
                if name in model.parts
            ],
        )
        for name in columns
    ]


def reliability(evaluation: Evaluation) -> list[Table]:
    """The points of the reliability diagram, for each model."""
    head = ("Mean prediction", "Share of events", "Where it lies", "Rows")
    return [
        Table(
            f"Reliability of {quoted(model.name)}",
            head,
            tuple(
                (
                    Entry(threshold(one.predicted)),
                    Entry(score(one.observed)),
                    Entry(between(one.interval)),
                    Entry(cell(one.rows)),
                )
                for one in model.reliability
            ),
        )
        for model in evaluation.models
        if model.reliability
    ]


def training(history: Sequence[Mapping[str, Any]], *, greater_is_better: bool = True) -> Table:
    """The best evaluation of each share of the score.

    Args:
        history: Evaluations while training, in which more is better: the values of other scores are negated there.
        greater_is_better: Whether that is so of the score.
    """
    sign = 1 if greater_is_better else -1
    rows = []
    for share in sorted({float(one["share"]) for one in history}):
        own = [one for one in history if float(one["share"]) == share]
        best = max(own, key=lambda one: float(one["value"]))
        used = sum(bool(one.get("chosen")) for one in own)
        rows.append(
            (
                Entry(percent(share, 0)),
                Entry(score(sign * float(best["value"]))),
                Entry(cell(int(best["step"]))),
                Entry(cell(len(own))),
                Entry(plural(used, "evaluation") if used else NONE),
            )
        )
    head = ("Share of the score in the loss", "Best validation score", "At step", "Evaluations", "Chosen")
    return Table("Shares of the score in training", head, tuple(rows))


def facts(given: Mapping[str, str]) -> Table:
    """What is needed to make the page again."""
    rows = tuple((Entry(short(name)), Entry(short(value, 4000))) for name, value in given.items())
    return Table("Versions, arguments and data", ("What", "Value"), rows)


def _parts(evaluation: Evaluation, place: int, found: Sequence[Part], column: str, most: int) -> Table:
    main, weighted = evaluation.score.name, evaluation.weight is not None
    name, model = label(main), evaluation.models[place]
    own = (f"Weighted {name}", f"Plain {name}") if weighted else (name,)
    head = (
        short(column),
        "Rows",
        "Events",
        "TN",
        "FP",
        "FN",
        "TP",
        *own,
        "Its own best threshold",
        f"{own[0]} there",
    )
    rows = tuple(
        (
            Entry(short(one.name)),
            Entry(cell(one.rows)),
            Entry(cell(one.events)),
            *(Entry(cell(value)) for value in one.plain.cells),
            *([] if one.weighted is None else [Entry(score(one.weighted.scores[main]))]),
            Entry(score(one.plain.scores[main])),
            Entry(threshold(one.threshold)),
            Entry(score(one.value)),
        )
        for one in found[:most]
    )
    of = f" of {quoted(model.name)}" if len(evaluation.models) > 1 else ""
    caption = f"By {quoted(column)}, at the threshold {threshold(model.threshold)}{of}"
    note = f"The first {most:,} of {len(found):,} values are shown." if len(found) > most else ""
    return Table(caption, head, rows, note=note, model=place)


def _judged(judged: Judged, name: str) -> Entry:
    return Entry(score(judged.scores.get(name)), between(judged.intervals.get(name)))


def _difference(one: Difference | None) -> tuple[Entry, Entry]:
    if one is None:
        return Entry(NONE), Entry(NONE)
    return Entry(signed(one.value), between(one.interval)), Entry(percent(one.share))
