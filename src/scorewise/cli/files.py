"""Tables in files: CSV and Parquet, gzipped or not, from stdin, whole or batch by batch."""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip as gzips
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import polars as pl

from scorewise import _files
from scorewise.cli.csvs import MISSING, blank_lines, header
from scorewise.cli.errors import InputError, first_line, guarded
from scorewise.cli.kinds import HEAD, is_gzip, is_parquet, refuse_other_kinds

Format = Literal["csv", "parquet"]
_PARQUET = {".parquet", ".pq"}
"""How the names of such files end."""


@dataclass(frozen=True)
class Source:
    """Where a table is: a file, or what came through stdin.

    Attributes:
        name: What to call it.
        path: The file; None: stdin.
        content: What came through stdin.
    """

    name: str
    path: Path | None
    content: bytes | None = None

    @property
    def origin(self) -> Path | BinaryIO:
        """What polars reads it from."""
        return self.open() if self.path is None else self.path

    def open(self) -> BinaryIO:
        """Its bytes, from the beginning."""
        return io.BytesIO(self.content or b"") if self.path is None else self.path.open("rb")


def source(path: str | Path | Source) -> Source:
    """Where a table is; "-" is stdin, which is read here, once and for all."""
    if isinstance(path, Source):
        return path
    if str(path) == "-":
        return Source("stdin", None, sys.stdin.buffer.read())
    found = Path(path)
    if found.is_dir():
        raise InputError(f"{found} is a folder: expected a file with a table, CSV or Parquet.")
    if not found.exists():
        raise InputError(f"there is no file {found}.")
    if not found.is_file():  # a pipe, as of <(…) in a shell, can be read once only
        with guarded():
            return Source(str(found), None, found.read_bytes())
    return Source(str(found), found)


def read(
    path: str | Path | Source,
    *,
    columns: Sequence[str] | None = None,
    format: Format | None = None,  # noqa: A002  # as the option is called
    gzip: bool | None = None,
    separator: str = ",",
) -> pl.DataFrame:
    """A table, whole.

    Args:
        path: A file, or "-" for stdin.
        columns: Which columns; those that are not there are not missed here. None: all.
        format: What it is; None: Parquet if it begins as such a file does, else CSV.
        gzip: Whether it is gzipped; None: if it begins as such a file does.
        separator: What stands between two columns of a CSV file.
    """
    found = unpacked(source(path), gzip=gzip)
    kind = kind_of(found, format)
    with _reading(found, kind):
        if kind == "parquet":
            frame = pl.read_parquet(found.origin, glob=False) if columns is None else _some(found, columns)
        else:
            frame = _read_csv(found, columns, separator)
    if not len(frame):
        raise InputError(f"{found.name} has a header, but no rows.")
    return frame


def lazy(
    path: str | Path | Source,
    *,
    format: Format | None = None,  # noqa: A002  # as above
    separator: str = ",",
) -> pl.LazyFrame:
    """A table in a file, of which nothing is read yet."""
    found = source(path)
    if found.path is None or is_gzip(_head(found)):
        kind = "stdin" if found.path is None else "a gzipped file"
        raise InputError(
            f"{found.name} cannot be streamed: {kind} is read into memory. Unpack it, or pass --no-stream."
        )
    kind = kind_of(found, format)
    with _reading(found, kind):
        if kind == "parquet":
            return pl.scan_parquet(found.path, glob=False)
        names = header(found.name, _head(found), separator)
        frame = pl.scan_csv(found.path, separator=separator, null_values=MISSING, infer_schema_length=None, glob=False)
        # by place: polars leaves a quote within a name doubled
        return frame.rename(dict(zip(frame.collect_schema().names(), names, strict=True)))


def batches(
    path: str | Path | Source,
    *,
    columns: Sequence[str],
    format: Format | None = None,  # noqa: A002  # as above
    separator: str = ",",
    rows: int = 1 << 20,
) -> Iterator[pl.DataFrame]:
    """A table of any size, some rows at a time, in their order.

    Args:
        path: A file.
        columns: Which columns.
        format: What it is; None: Parquet if it begins as such a file does, else CSV.
        separator: What stands between two columns of a CSV file.
        rows: How many rows at a time.
    """
    found = source(path)
    frame = lazy(found, format=format, separator=separator)
    kind = kind_of(found, format)
    last = None
    with _reading(found, kind):
        if kind == "csv":
            last = frame.collect_schema().names()[-1]
            columns = [*columns, *({last} - set(columns))]
        parts = iter(frame.select(columns).collect_batches(chunk_size=rows, maintain_order=True))
    unsure = last is not None
    while True:
        with _reading(found, kind):
            part = next(parts, None)
        if part is None:
            return
        if unsure and last is not None and part[last].null_count():
            if _blanks(found, separator):
                raise InputError(f"{found.name} has blank lines between its rows: take them out, or pass --no-stream.")
            unsure = False
        yield part


def schema(path: str | Path | Source) -> Mapping[str, pl.DataType] | None:
    """The columns of a Parquet file with their types; None for other files, of which that takes reading them."""
    found = source(path)
    if not is_parquet(_head(found)):
        return None
    with _reading(found, "parquet"):
        return pl.read_parquet_schema(found.origin)


def row_count(path: str | Path | Source) -> int | None:
    """How many rows a Parquet file has, of which that can be told without reading it; None for other files."""
    found = source(path)
    if found.path is None or not is_parquet(_head(found)):
        return None
    with _reading(found, "parquet"):
        return int(pl.scan_parquet(found.path, glob=False).select(pl.len()).collect().item())


def write_table(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table: Parquet if the name ends so, else CSV, gzipped if it ends with .gz. It is whole or not there."""
    where = Path(path)
    if where.suffix in _PARQUET:
        content = functools.partial(_write_parquet, frame)
    elif where.suffix == ".gz":
        content = functools.partial(_write_gzip, frame)
    else:
        content = functools.partial(_write_csv, frame)
    with guarded(f"cannot write {where}"):
        _files.write(where, content)


def digest(path: str | Path | Source) -> str:
    """The SHA-256 of a file, by which it is known again."""
    with guarded(), source(path).open() as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it is readable


def unpacked(found: Source, *, gzip: bool | None) -> Source:
    """The same, unpacked if it is gzipped."""
    head = _head(found)
    if not is_gzip(head):
        named = found.path is not None and found.path.suffix == ".gz"
        if gzip or (named and gzip is None):
            why = "--gzip was passed" if gzip else "it is called .gz"
            raise InputError(f"{found.name} is not gzipped, though {why}. --no-gzip reads it as it is.")
        return found
    if gzip is False:
        raise InputError(f"{found.name} is gzipped, but --no-gzip was passed.")
    try:
        with guarded(), found.open() as file, gzips.GzipFile(fileobj=file) as inner:
            return Source(found.name, None, inner.read())
    except (EOFError, zlib.error) as error:
        raise InputError(f"{found.name} is a gzipped file that is cut off or damaged ({error}).") from error


def kind_of(found: Source, wanted: Format | None) -> Format:
    """Whether a file is CSV or Parquet; whatever else it may be is refused."""
    head = _head(found)
    if not head:
        raise InputError(f"{found.name} is empty: expected a table, with a header and rows.")
    named = found.path is not None and found.path.suffix in _PARQUET
    if is_parquet(head):
        if wanted == "csv":
            raise InputError(f"{found.name} is a Parquet file, but --format csv was passed.")
        return "parquet"
    refuse_other_kinds(found.name, head)
    if wanted == "parquet" or (wanted is None and named):
        why = "--format parquet was passed" if wanted else "it is called so"
        raise InputError(f"{found.name} is no Parquet file, though {why}. If it is CSV, pass --format csv.")
    return "csv"


def _head(found: Source) -> bytes:
    with guarded(), found.open() as file:
        return file.read(HEAD)


def _some(found: Source, columns: Sequence[str]) -> pl.DataFrame:
    there = pl.read_parquet_schema(found.origin)
    return pl.read_parquet(found.origin, columns=[name for name in there if name in set(columns)], glob=False)


def _read_csv(found: Source, columns: Sequence[str] | None, separator: str) -> pl.DataFrame:
    names = header(found.name, _head(found), separator)
    kept = names if columns is None else [name for name in names if name in set(columns)]
    wanted = [*kept, *({names[-1]} - set(kept))]
    frame = pl.read_csv(
        found.origin,
        columns=[names.index(name) for name in wanted],  # by place: polars leaves a quote within a name doubled
        separator=separator,
        null_values=MISSING,
        infer_schema_length=None,
        glob=False,
    )
    frame.columns = wanted
    if frame[names[-1]].null_count():  # a row that is too short ends with a missing value
        blank = _blanks(found, separator)
        frame = frame.filter(~pl.int_range(len(frame), eager=True).is_in(blank))
    return frame.select(kept)


def _blanks(found: Source, separator: str) -> list[int]:
    with found.open() as file:
        return blank_lines(found.name, file, separator)


@contextlib.contextmanager
def _reading(found: Source, kind: Format) -> Iterator[None]:
    """Tell what polars, which reads, refuses."""
    try:
        with guarded(f"cannot read {found.name}"):
            try:
                yield
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeError) as error:
                raise InputError(f"{found.name} cannot be read as {kind}: {_why(first_line(error))}") from error
    except csv.Error as error:
        raise InputError(f"{found.name} cannot be read as {kind}: {error}.") from error


def _why(message: str) -> str:
    """What polars said, in the words of this interface."""
    if "more fields than defined" in message:
        return "a line has more values than the header has columns. If commas stand within numbers, write 0.5 for 0,5."
    if "invalid utf-8" in message:
        return "it is not UTF-8. Save it as UTF-8."
    if message.startswith('could not parse `"'):
        return f"{message}. Is there a quote that does not end?"
    message = message.removeprefix("parquet: ")
    return message if message.endswith(".") else f"{message}."


def _write_parquet(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_parquet(file)


def _write_csv(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_csv(file)


def _write_gzip(frame: pl.DataFrame, file: BinaryIO) -> None:
    with gzips.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(frame.write_csv().encode())
