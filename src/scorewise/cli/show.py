"""What was found, for people and for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scorewise.cli.errors import printable

if TYPE_CHECKING:
    from scorewise.evaluation import Evaluation, Judged, Model, Part
    from scorewise.evaluation.results import Interval

CELLS = ("tn", "fp", "fn", "tp")
_WIDTH = 120  # where there is no terminal to ask


class _Console(Console):
    """A console that tells of a broken pipe as everything else does; rich's own would exit here."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Where results are printed; nothing in a text is taken for markup."""
    wide = None if sys.stdout.isatty() else _WIDTH
    return _Console(file=sys.stdout, width=wide, markup=False, highlight=False, emoji=False)


def line(text: str = "", style: str = "") -> None:
    """Print a line."""
    console().print(Text(printable(text), style), soft_wrap=True)


def progress(label: str) -> Callable[[Iterable[Any]], Iterable[Any]] | None:
    """Wraps a loop with a bar on stderr; None where nobody looks at it."""
    if not sys.stderr.isatty():
        return None
    from rich.progress import track

    bar = Console(file=sys.stderr)
    return lambda steps: track(steps, description=label, console=bar, transient=True)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
    """Print a table.

    Args:
        title: What it is.
        head: The names of its columns.
        rows: Its cells.
        left: How many columns hold text; the others hold numbers, and stand to the right.
    """
    found = Table(title=Text(printable(title)), title_justify="left", title_style="bold", header_style="bold")
    for k, name in enumerate(head):
        found.add_column(Text(printable(name)), justify="left" if k < left else "right", overflow="fold")
    for row in rows:
        found.add_row(*(Text(printable(cell)) for cell in row))
    console().print(found)


def number(value: float | None) -> str:
    """A score or a threshold."""
    if value is None:
        return "–"
    return f"{value:z.4f}" if abs(value) < 1000 else f"{value:,.6g}"


def threshold(value: float | None) -> str:
    """A threshold: of small ones, as those of rare events are, as many decimals as it takes to see three digits."""
    if value == -1:
        return "-1 (alarms everywhere)"
    if value is None or not 0 < abs(value) < 0.01:
        return number(value)
    return f"{value:.3g}"


def count(value: float) -> str:
    """A number of samples, which need not be whole if they have weights."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def between(interval: Interval | None) -> str:
    """An interval."""
    return "" if interval is None else f"{number(interval[0])} to {number(interval[1])}"


def evaluation(
    found: Evaluation, name: str, *, at_least: Mapping[Any, float] | None = None, given: str = "as given"
) -> None:
    """Print all that was found.

    Args:
        found: It.
        name: Of the data.
        at_least: What other scores had to reach where thresholds were chosen.
        given: Where a threshold comes from that was not chosen on these rows.
    """
    total = sum(found.models[0].plain.cells)  # of the rows' weights, as events are
    parts = [
        f"{found.rows:,} row{'s' * (found.rows != 1)}",
        f"{count(found.events)} event{'s' * (found.events != 1)} ({found.events / total if total else math.nan:.2%})",
        f"{found.unknown:,} unknown",
    ]
    line(f"{name}: {', '.join(parts)}, {found.series:,} series.")
    if found.weight is not None:
        line(f"Errors are weighted by {found.weight!r}.")
    if found.resampling is not None:
        how = found.resampling
        line(f"Intervals hold {100 * how.level:g} % of {how.draws:,} resamples of {how.unit} (seed {how.seed}).")
    bounds = expressed(at_least)
    for model in found.models:
        _model(found, model, bounds, given)
    _differences(found)
    for model in found.models:
        for title, some in model.parts.items():
            _parts(found, model, title, some)


def expressed(at_least: Mapping[Any, float] | None) -> str:
    """What other scores had to reach, in words; nothing if that is nothing."""
    bounds = [f"{name} at least {bound:g}" for name, bound in (at_least or {}).items()]
    return f" with {' and '.join(bounds)}" if bounds else ""


def _model(found: Evaluation, model: Model, bounds: str, given: str) -> None:
    line()
    line(model.name, "bold")
    ends = model.threshold_interval
    where = "" if ends is None else " to ".join(map(threshold, ends))
    how = f"the best for {found.main}{bounds} on these rows" if model.chosen else given
    line(f"Threshold {threshold(model.threshold)}, {how}{f'; of resamples {where}' if where else ''}.")
    if model.optimism is not None:
        line(_optimism(found, model.optimism))
    if model.expected is not None:
        line(f"Over all thresholds, as {found.prior!r} has them, {found.main} is {number(model.expected)} on average.")
    both = [model.plain, *([model.weighted] if model.weighted is not None else [])]
    cells = [[("plain", "weighted")[k], *map(count, one.cells)] for k, one in enumerate(both)]
    table("Matrix", ["", *map(str.upper, CELLS)], cells)
    limited = found.resampling is not None
    head = ["score", "plain", *(["interval"] if limited else [])]
    if model.weighted is not None:
        head += ["weighted", *(["interval"] if limited else [])]
    table("Scores", head, [_scores(name, both, limited=limited) for name in model.plain.scores])
    if model.curve.bound is not None:
        bound = model.curve.bound.get(found.score.name, 0.0)
        line(f"Read as a stream: the best {found.main} of any threshold is at most {bound:.2g} better than that here.")


def _scores(name: str, both: Sequence[Judged], *, limited: bool) -> list[str]:
    row = [name]
    for one in both:
        row.append(number(one.scores.get(name)))
        if limited:
            row.append(between(one.intervals.get(name)))
    return row


def _optimism(found: Evaluation, optimism: float) -> str:
    if optimism <= 0:
        return f"It was chosen on these rows; resamples show no sign that this flatters {found.main}."
    return (
        f"Since it was chosen on these rows, {found.main} looks better than on new ones, by about {number(optimism)}."
    )


def _differences(found: Evaluation) -> None:
    """The score that matters, with the weight and without; the rest is for --json and for the report."""
    main = [one for one in found.differences if one.score == found.score.name]
    if not main:
        return
    line()
    rows = [
        [one.other, f"{'w' * one.weighted}{one.score}", number(one.value), between(one.interval), f"{one.share:.1%}"]
        for one in sorted(main, key=lambda one: not one.weighted)
    ]
    head = ["less", "score", "difference", "interval", "better in resamples"]
    table(f"{main[0].model} less each other model, in the same resamples", head, rows, left=2)
    line("Differences in the other scores are in --json and in the report.")


def _parts(found: Evaluation, model: Model, title: str, some: Sequence[Part]) -> None:
    line()
    name = found.score.name
    weighted = found.weight is not None
    head = [title, "rows", "events", *map(str.upper, CELLS), name, *([f"w{name}"] if weighted else [])]
    rows = [
        [
            part.name,
            f"{part.rows:,}",
            count(part.events),
            *map(count, part.plain.cells),
            number(part.plain.scores.get(name)),
            *([number(part.weighted.scores.get(name)) if part.weighted is not None else "–"] if weighted else []),
            threshold(part.threshold),
            number(part.value),
        ]
        for part in some
    ]
    table(f"{model.name}, by {title}", [*head, "own best threshold", f"{found.main} there"], rows)


def as_json(found: Evaluation, *, name: str, sha256: str, notes: Sequence[str]) -> dict[str, Any]:
    """All that was found, for machines. What has no value, or none that is finite, is null.

    The keys: ``data`` (name, sha256, rows, events, unknown, series), ``score``, ``weight``, ``prior``, ``main`` (what
    tables call the score that matters), ``resampling`` (draws, level, unit, seed), ``models``, ``differences`` (model,
    other, score, weighted, value, interval, share) and ``notes``. Each of ``models`` has name, threshold, chosen,
    threshold_interval, optimism, expected, plain, weighted, reliability (predicted, observed, interval, rows), curve
    (thresholds: how many there are; bound) and parts, by column: name, rows, events, plain, weighted, threshold, value.
    ``plain`` and ``weighted`` have cells (tn, fp, fn, tp), scores and intervals by name.
    """
    how = found.resampling
    return {
        "data": {
            "name": name,
            "sha256": sha256,
            "rows": found.rows,
            "events": found.events,
            "unknown": found.unknown,
            "series": found.series,
        },
        "score": found.score.name,
        "weight": None if found.weight is None else repr(found.weight),
        "prior": repr(found.prior),
        "main": found.main,
        "resampling": None if how is None else vars(how),
        "models": [_model_json(model) for model in found.models],
        "differences": [vars(one) for one in found.differences],
        "notes": list(notes),
    }


def write_json(content: object) -> None:
    """Print one JSON object, in full precision."""
    sys.stdout.write(json.dumps(_finite(content), ensure_ascii=False, allow_nan=False) + "\n")


def _model_json(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "threshold": model.threshold,
        "chosen": model.chosen,
        "threshold_interval": model.threshold_interval,
        "optimism": model.optimism,
        "expected": model.expected,
        "plain": _judged_json(model.plain),
        "weighted": _judged_json(model.weighted),
        "reliability": [vars(one) for one in model.reliability],
        "curve": {"thresholds": model.curve.of, "bound": model.curve.bound},
        "parts": {
            title: [
                {**vars(part), "plain": _judged_json(part.plain), "weighted": _judged_json(part.weighted)}
                for part in some
            ]
            for title, some in model.parts.items()
        },
    }


def _judged_json(one: Judged | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"cells": dict(zip(CELLS, one.cells, strict=True)), "scores": one.scores, "intervals": one.intervals}


def _finite(value: Any) -> Any:
    """The same, with null for what JSON has no number for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
