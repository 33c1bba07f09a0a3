"""Options that several commands have, so that they are called and told the same."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """What a file is."""

    csv = "csv"
    parquet = "parquet"


Table = Annotated[str, typer.Argument(help="A table, CSV or Parquet, gzipped or not; - is stdin.")]
FileFormat = Annotated[Format | None, typer.Option("--format", help="What the file is. [default: by its content]")]
Gzip = Annotated[bool | None, typer.Option("--gzip/--no-gzip", help="Whether it is gzipped. [default: by its content]")]
Separator = Annotated[str, typer.Option(help="What stands between the columns of a CSV file.")]

Weight = Annotated[str | None, typer.Option(help="What an error costs: see `scorewise weights`.")]
Prior = Annotated[
    str | None, typer.Option(help="Which thresholds matter: see `scorewise priors`.", show_default="uniform")
]
Step = Annotated[
    str | None,
    typer.Option(help="The length of one lag: 10min, 1h, 1d; or a number. [default: the least difference]"),
]
SampleWeight = Annotated[str | None, typer.Option(help="The column of how much each row counts.")]
Positive = Annotated[str | None, typer.Option(help="The label of an event; all others are none. [default: 1 or true]")]

Report = Annotated[Path | None, typer.Option(help="Write a page to look at, HTML.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for machines.")]
