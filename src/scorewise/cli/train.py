"""`scorewise train`: a table, learned from for a score."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scorewise.cli import config, options
from scorewise.cli.errors import INTERRUPTED, InputError, guarded, note, say

if TYPE_CHECKING:
    from scorewise.cli.learning import Asked, Rows


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train")(train)


def train(
    ctx: typer.Context,
    table: options.Table,
    *,
    target: Annotated[str, typer.Option(help="The column of labels. Rows without one are left out.")],
    score: Annotated[str, typer.Option(help="What to train for: see `scorewise scores`.")] = "tss",
    prior: options.Prior = None,
    weight: options.Weight = None,
    time: Annotated[
        str | None, typer.Option(help="The column of times; the latest rows are held out then. Not learned from.")
    ] = None,
    step: options.Step = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A column that tells series apart, as a station. Not learned from.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column not to learn from.")] = None,
    horizon: Annotated[int, typer.Option(help="How many steps ahead labels look.", min=0)] = 0,
    positive: options.Positive = None,
    sample_weight: options.SampleWeight = None,
    at_least: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What another score must reach at the threshold."),
    ] = None,
    test_fraction: Annotated[float, typer.Option(help="The share of rows to hold out and to judge by; 0: none.")] = 0.2,
    max_time: Annotated[float | None, typer.Option(help="How many seconds training may take.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="How many steps a run takes. [default: by the number of rows]", min=1)
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(help="The share of the score in the loss; several to choose from. [default: 0 and 0.5]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="The file for the model. [default: the table's name, .safetensors]")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Write what is made of the held-out rows, CSV or Parquet.")
    ] = None,
    report: options.Report = None,
    config_file: Annotated[  # noqa: ARG001  # its callback reads it
        str | None,
        typer.Option(
            "--config",
            callback=config.apply,
            is_eager=True,
            help="Options in a TOML file, by their names; the command line has the last word.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was killed.")] = False,
    as_json: options.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    file_format: options.FileFormat = None,
    gzip: options.Gzip = None,
    separator: options.Separator = ",",
) -> None:
    """Train a classifier on a table, for a score, and judge it on rows that are held out.

    All columns that no option names are learned from: numbers, texts, some of them missing. With --time the latest rows
    are held out, and those before them that are within the horizon and the weight's window are left out; with --group
    only, whole groups are; else rows of each class are drawn. The model is for `scorewise predict`, and for
    `ScoreClassifier.load` in Python; the file holds no code.

    While it runs there is a checkpoint beside the model, for --resume. Ctrl-C keeps the best so far. Exit codes: 0, or
    2 for what you can mend, 130 after Ctrl-C.
    """
    from scorewise.cli import expressions, files, learning, outputs, telling

    asked = learning.Asked(
        target=target,
        score=expressions.score(score),
        prior=None if prior is None else expressions.prior(prior),
        weight=None if weight is None else expressions.weight(weight),
        time=time,
        step=step,
        groups=tuple(group or ()),
        drop=tuple(drop or ()),
        horizon=horizon,
        positive=positive,
        sample_weight=sample_weight,
        at_least=expressions.at_least(at_least or []),
        test_fraction=test_fraction,
        max_time=max_time,
        steps=steps,
        share=tuple(share or ()),
        seed=seed,
    )
    model_file = out if out is not None else _beside(table)
    outputs.check(model_file, "--out", table)
    outputs.check(predictions, "--predictions", table, model_file)
    outputs.check_report(report, table, model_file, predictions)
    _check(asked, predictions, report)
    checkpoint = _checkpoint(model_file, resume=resume)
    if len(separator.encode()) != 1:
        raise InputError(f"--separator must be one character, saw {separator!r}.")
    source = files.source(table)
    frame = files.read(
        source, format=None if file_format is None else file_format.value, gzip=gzip, separator=separator
    )
    told = telling.Training(ctx, asked, source, len(frame), model_file, shown=not quiet and not as_json)
    parts = learning.parts(frame, asked)
    told.begin(parts)
    if not quiet:
        for one in learning.notes(frame, asked):
            note(one)
    begun = clock.monotonic()
    model, interrupted = learning.fit(parts.train, asked, checkpoint, progress=False if quiet else None)
    seconds = clock.monotonic() - begun
    with guarded(f"cannot write {model_file}"):
        model.save(model_file)
    if interrupted:
        more = " --resume goes on where it stopped." if checkpoint.exists() else ""
        say(f"interrupted: the best network so far is in {model_file}.{more}")
        raise typer.Exit(INTERRUPTED)
    told.trained(model, seconds)
    found = None
    if parts.test is not None:
        found = learning.judge(model, parts.test, asked, model_file.stem, told.progress("resampling"))
        if predictions is not None:
            files.write_table(learning.decided(model, parts.test.X, _kept(parts.test, asked)), predictions)
        if report is not None:
            told.report(report, model, found, parts)
    told.end(model, found, parts, seconds, {"predictions": predictions, "report": report}, as_json=as_json)


def _beside(table: str) -> Path:
    """The name of the model if none is given."""
    if table == "-":
        raise InputError("--out must name a file for the model, since a table from stdin has no name.")
    name = Path(table).name.removesuffix(".gz")
    return Path(name).with_suffix(".safetensors")


def _check(asked: Asked, predictions: Path | None, report: Path | None) -> None:
    """Refuse what does not go together, or could not be saved in the end, before anything is read."""
    from scorewise.estimator.descriptions import described

    if not 0 <= asked.test_fraction < 1:
        raise InputError(f"--test-fraction must be at least 0 and below 1, saw {asked.test_fraction:g}.")
    for path, option in ((predictions, "--predictions"), (report, "--report")):
        if path is not None and not asked.test_fraction:
            raise InputError(f"{option} is of rows that are held out, but --test-fraction 0 holds none out.")
    if bad := [one for one in asked.share if not 0 <= one <= 1]:
        raise InputError(f"--share must be from 0 to 1, saw {bad[0]:g}.")
    if asked.max_time is not None and not asked.max_time > 0:
        raise InputError(f"--max-time must be a number of seconds greater than 0, saw {asked.max_time:g}.")
    if asked.seed >= 1 << 32:
        raise InputError(f"--seed must be below 2^32, saw {asked.seed}.")
    with guarded():
        for name in ("score", "prior", "weight"):
            described(getattr(asked, name), f"--{name}")


def _checkpoint(model_file: Path, *, resume: bool) -> Path:
    """Where training leaves what it has, to go on from."""
    found = model_file.with_name(f"{model_file.name}.checkpoint")
    if found.exists() and not resume:
        raise InputError(
            f"{found} was left by a training that did not end: pass --resume to go on, or remove it to begin anew."
        )
    if resume and not found.exists():
        note(f"there is no {found} to go on from: training begins anew.")
    return found


def _kept(rows: Rows, asked: Asked) -> Any:
    """The columns that tell rows apart, their labels and how much they count: what `scorewise evaluate` needs."""
    named = [asked.time, *asked.groups, asked.target, asked.sample_weight]
    return rows.frame.select(list(dict.fromkeys(name for name in named if name is not None)))
