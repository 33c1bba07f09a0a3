"""`scorewise evaluate`: any model's predictions, judged."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scorewise.cli import options
from scorewise.cli.errors import InputError, guarded, note

if TYPE_CHECKING:
    from scorewise.cli.files import Source
    from scorewise.cli.judging import Asked, Found

STREAM_FROM = 20_000_000
"""Rows of a Parquet file from which on it is streamed, if nobody says otherwise."""


class Kind(StrEnum):
    """What the numbers are."""

    probability = "probability"
    percent = "percent"
    logit = "logit"
    hard = "hard"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate)


def evaluate(
    ctx: typer.Context,
    predictions: options.Table,
    *,
    target: Annotated[str | None, typer.Option(help="The column of labels.", show_default="target")] = None,
    prediction: Annotated[
        list[str] | None,
        typer.Option(help="A column of predictions, one for each model. [default: all other columns of numbers]"),
    ] = None,
    kind: Annotated[Kind, typer.Option(help="What the predictions are; hard is decisions, 0 or 1.")] = Kind.probability,
    score: Annotated[str, typer.Option(help="The score that matters: see `scorewise scores`.")] = "tss",
    weight: options.Weight = None,
    prior: options.Prior = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="What is greater is an alarm: a probability, whatever the kind. [default: for each model the best]"
        ),
    ] = None,
    at_least: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What another score must reach at the best threshold."),
    ] = None,
    time: Annotated[str | None, typer.Option(help="The column of times; rows may be in any order then.")] = None,
    step: options.Step = None,
    group: Annotated[list[str] | None, typer.Option(help="A column that tells series apart, as a station.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="A column, each value of which is judged for itself.")] = None,
    sample_weight: options.SampleWeight = None,
    positive: options.Positive = None,
    draws: Annotated[
        int | None, typer.Option(help="Resamples for intervals; 0: none. [default: 1000, fewer of many rows]")
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            help="Rows that are drawn together, longer than an event lasts; or series. [default: by the data]",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="The share of resamples in an interval.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    as_json: options.Json = False,
    report: options.Report = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help=f"Batch by batch, for what does not fit into memory. [default: Parquet of over {STREAM_FROM:,} rows]",
        ),
    ] = None,
    file_format: options.FileFormat = None,
    gzip: options.Gzip = None,
    separator: options.Separator = ",",
) -> None:
    """Judge the predictions of one or more models, in one file.

    A row without a label counts nowhere; one with a label must have a prediction of every model. All thresholds are
    probabilities. Exit codes: 0, or 2 for what you can mend, 130 after Ctrl-C.
    """
    from scorewise.cli import expressions, files, judging, outputs, show

    asked = judging.Asked(
        source=_source(predictions, separator),
        target=target,
        predictions=tuple(prediction or ()),
        kind=kind.value,
        score=expressions.score(score),
        weight=None if weight is None else expressions.weight(weight),
        prior=None if prior is None else expressions.prior(prior),
        threshold=threshold,
        at_least=expressions.at_least(at_least or []),
        time=time,
        step=step,
        groups=tuple(group or ()),
        by=tuple(by or ()),
        sample_weight=sample_weight,
        positive=positive,
        draws=draws,
        block=_block(block),
        level=level,
        seed=seed,
        format=None if file_format is None else file_format.value,
        gzip=gzip,
        separator=separator,
    )
    _check(asked)
    outputs.check_report(report, asked.source.path)
    rows = files.row_count(asked.source) if stream is None else None
    streaming = stream or (rows is not None and rows > STREAM_FROM)
    judge = judging.streamed if streaming else judging.whole
    found = judge(asked, show.progress("reading" if streaming else "resampling"))
    digest = files.digest(asked.source) if as_json or report is not None else ""
    notes = found.notes
    if asked.at_least is not None:  # what is printed says so where it names the threshold
        notes = [*notes, f"A threshold is the best for {found.evaluation.main}{show.expressed(asked.at_least)}."]
    if report is not None:
        _write_report(report, ctx, asked, found, digest=digest, notes=notes)
    if as_json:
        show.write_json(show.as_json(found.evaluation, name=asked.source.name, sha256=digest, notes=notes))
        return
    for one in found.notes:
        note(one)
    given = "as given" if asked.threshold is not None else "between the decisions 0 and 1"
    show.evaluation(found.evaluation, asked.source.name, at_least=asked.at_least, given=given)
    if report is not None:
        show.line(f"The report is in {report}.")


def _source(path: str, separator: str) -> Source:
    from scorewise.cli import files

    if len(separator.encode()) != 1:
        raise InputError(f"--separator must be one character, saw {separator!r}.")
    return files.source(path)


def _block(text: str | None) -> int | Literal["series"] | None:
    if text is None:
        return None
    if text == "series":
        return "series"
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--block must be a number of rows, or series, saw {text!r}.")
    return int(text)


def _check(asked: Asked) -> None:
    """Refuse what does not go together before anything is read."""
    if asked.threshold is not None and not (asked.threshold == -1 or 0 <= asked.threshold <= 1):
        raise InputError(
            f"--threshold must be a probability in [0, 1], or -1 for alarms everywhere, saw {asked.threshold:g}."
        )
    if asked.at_least is not None and (asked.threshold is not None or asked.kind == "hard"):
        why = "--threshold gives one" if asked.threshold is not None else "decisions (--kind hard) have none"
        raise InputError(f"--at-least is for a threshold that is chosen here, but {why}.")
    if asked.draws is not None and (asked.draws < 0 or asked.draws == 1):
        raise InputError(f"--draws must be at least 2, or 0 for none, saw {asked.draws}.")
    if math.isnan(asked.level) or not 0 < asked.level < 1:
        raise InputError(f"--level must be between 0 and 1, saw {asked.level:g}.")
    if not 0 <= asked.seed < 1 << 63:
        raise InputError(f"--seed must be a whole number of at least 0, below 2^63, saw {asked.seed}.")
    if asked.step is not None and asked.time is None:
        raise InputError("--step is the step of --time, which is not given.")


def _write_report(path: Path, ctx: typer.Context, asked: Asked, found: Found, *, digest: str, notes: list[str]) -> None:
    from scorewise import report
    from scorewise.cli.facts import facts

    with guarded("--report"):
        report.write(
            path,
            found.evaluation,
            title=f"Predictions in {Path(asked.source.name).name}",
            facts=facts(ctx, asked.source, found.rows, digest),
            notes=notes,
        )
