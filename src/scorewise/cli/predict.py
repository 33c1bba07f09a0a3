"""`scorewise predict`: what a model makes of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scorewise.cli import options
from scorewise.cli.errors import InputError, guarded

if TYPE_CHECKING:
    import polars as pl

    from scorewise.estimator import ScoreClassifier


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict")(predict)


def predict(
    model: Annotated[Path, typer.Argument(help="A model, as `scorewise train` has written it.")],
    table: options.Table,
    *,
    out: Annotated[Path | None, typer.Option(help="The file to write, CSV or Parquet.", show_default="stdout")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column of the table to write beside them.")] = None,
    file_format: options.FileFormat = None,
    gzip: options.Gzip = None,
    separator: options.Separator = ",",
) -> None:
    """Write a probability for each row of a table, and whether it is an alarm: 1 if it is above the model's threshold.

    The table needs the columns that the model was trained on; others are ignored. Rows stay in their order. The
    probabilities order the rows, and are not calibrated. Exit codes: 0, or 2 for what you can mend.
    """
    from scorewise.cli import columns, files, learning, outputs

    outputs.check(out, "--out", model, table)
    if len(separator.encode()) != 1:
        raise InputError(f"--separator must be one character, saw {separator!r}.")
    found = _load(model)
    names = [str(name) for name in found.feature_names_in_]
    frame = files.read(table, format=None if file_format is None else file_format.value, gzip=gzip, separator=separator)
    if missing := [name for name in names if name not in frame.columns]:
        raise InputError(
            f"{table} lacks {len(missing):,} of the {len(names):,} columns that the model was trained on: "
            f"{columns.listed(missing)}. The columns are {columns.listed(frame.columns)}."
        )
    for name in keep or []:
        columns.require(frame.columns, name, "--keep")
    inputs = _as_trained(frame.select(names), found, table)
    with guarded(f"cannot predict from {table}"):
        made = learning.decided(found, inputs, frame.select(list(dict.fromkeys(keep or []))))
    if out is not None:
        files.write_table(made, out)
    else:
        sys.stdout.write(made.write_csv())


def _as_trained(frame: pl.DataFrame, model: ScoreClassifier, name: str) -> pl.DataFrame:
    """The columns as a model knows them: a file may hold nothing but numbers where there were texts, or the reverse."""
    import polars as pl

    from scorewise.cli import columns

    encoder, names = model._encoder, frame.columns
    for place in {*encoder.numeric, *encoder.gaps}:
        values = columns.numbers(frame[names[place]], name)
        frame = frame.with_columns(pl.Series(names[place], values))
    for place, known in encoder.categories.items():
        if all(isinstance(one, str) for one in known) and frame.schema[names[place]] != pl.Categorical:
            frame = frame.with_columns(pl.col(names[place]).cast(pl.String))
    return frame


def _load(path: Path) -> ScoreClassifier:
    """A model from a file, which holds no code."""
    from scorewise import ScoreClassifier

    if path.is_dir():
        raise InputError(f"{path} is a folder: expected a model, as `scorewise train` writes it.")
    with guarded():
        try:
            model = ScoreClassifier.load(path)
        except (KeyError, IndexError, AttributeError, RuntimeError) as error:  # a file of this kind with other things
            raise InputError(f"{path} is no model that `scorewise train` has written, or is damaged.") from error
    if not hasattr(model, "feature_names_in_"):
        raise InputError(
            f"{path} was fitted with an array of {model.n_features_in_} columns without names: it cannot tell which "
            "columns of a table it needs. Fit it with a data frame."
        )
    return model
