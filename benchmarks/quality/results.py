"""Results on disk: one small file for each while a run lasts, one table that gathers them.

The small files lie in a folder, and the table beside it: results/quality/ and results/quality.json. The table is what
is committed; the folder tells Git to ignore what is in it. A result is known if either holds it; of two, that of the
folder is the newer.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import command
from scorewise._files import write

FOLDER = Path(__file__).parent.parent / "results" / "quality"

Key = tuple[str, str, str, int]
Row = dict[str, Any]
"""One result: the fields of COLUMNS. A fit that broke has an error and no scores."""

KEY = {"set": str, "score": str, "method": str, "seed": int}
COLUMNS = (
    *KEY,
    *("test", "validation", "threshold", "matrix", "weighted", "seconds", "versions", "date", "error"),
)


def key(row: Row) -> Key:
    """What tells one result from another."""
    return row["set"], row["score"], row["method"], row["seed"]


def table(folder: Path) -> Path:
    """The table that belongs to a folder."""
    return folder.with_name(folder.name + ".json")


def put(folder: Path, row: Row) -> None:
    """Keep a result, whole or not at all; after Ctrl-C none: see `benchmarks.command`."""
    command.go_on()
    _write(folder / ("--".join(str(part) for part in key(row)) + ".json"), json.dumps(row) + "\n")


def read(folder: Path) -> dict[Key, Row]:
    """All results, sorted.

    Raises:
        ValueError: If a file that should hold some holds something else.
    """
    found = _held(table(folder), _of_table) if table(folder).exists() else {}
    for path in folder.glob("*.json"):
        found |= _held(path, lambda row: [row])
    return dict(sorted(found.items()))


def durations(known: Mapping[Key, Row]) -> dict[tuple[str, str], float]:
    """Median seconds of a fit by (set, method)."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for (name, _, method, _), row in known.items():
        if row["error"] is None:
            seconds.setdefault((name, method), []).append(float(row["seconds"]))
    return {pair: statistics.median(some) for pair, some in seconds.items()}


def gather(folder: Path) -> None:
    """Write the table, a line for each result; versions, which are few, stand once."""
    rows = list(read(folder).values())
    versions = sorted({str(row["versions"]) for row in rows})
    lines = [
        json.dumps([versions.index(str(row[name])) if name == "versions" else row[name] for name in COLUMNS])
        for row in rows
    ]
    text = f'{{"columns": {json.dumps(COLUMNS)},\n"versions": {json.dumps(versions)},\n"rows": [\n'
    _write(table(folder), text + ",\n".join(lines) + "\n]}\n")


def prepare(folder: Path) -> None:
    """Make the folder, with a note for Git that its files are not to be committed.

    Raises:
        ValueError: If there can be none.
    """
    note = folder / ".gitignore"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not note.exists():
            note.write_text("*\n")
    except OSError as error:
        why = error.strerror or error
        raise ValueError(f"{folder} cannot be a folder for results: {why}. Name another with --out.") from error


def _held(path: Path, rows: Callable[[Any], list[Row]]) -> dict[Key, Row]:
    """The results of a file.

    Args:
        path: The file.
        rows: From what is in it to results.
    """
    text = path.read_text()
    try:
        told = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}. Delete it, and what it held is made anew.") from error
    try:
        found = rows(told)
        keyed = all(isinstance(row[name], kind) for row in found for name, kind in KEY.items())
    except (KeyError, IndexError, TypeError, ValueError):
        keyed = False
    if not keyed:
        raise ValueError(
            f"{path} holds no results, which have a {', a '.join(KEY)}: saw {text[:60]!r}. Move it elsewhere, or name "
            "another folder with --out."
        )
    return {key(row): {name: row.get(name) for name in COLUMNS} for row in found}


def _of_table(kept: Any) -> list[Row]:
    rows = [dict(zip(kept["columns"], values, strict=True)) for values in kept["rows"]]
    return [row | {"versions": kept["versions"][row["versions"]]} for row in rows]


def _write(path: Path, text: str) -> None:
    write(path, lambda file: file.write(text.encode()))
