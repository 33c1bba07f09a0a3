"""What must hold of a CSV file beyond what polars asks for: a header of different names, and no row too short."""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

from scorewise.cli.errors import InputError
from scorewise.cli.kinds import HEAD, text_of

MISSING = ["", "NA", "N/A", "<NA>", "NULL", "null", "None", "NaN", "nan", "NaT"]
"""What stands in a CSV file for a value that is not there."""


def header(name: str, head: bytes, separator: str) -> list[str]:
    """The names of the columns, which must differ.

    Args:
        name: What to call the file.
        head: Its beginning.
        separator: What stands between two columns.
    """
    text = text_of(name, head)
    if not text.strip():
        raise InputError(f"{name} has blank lines only: expected a table, with a header and rows.")
    if "\n" not in text:
        if len(text) >= HEAD // 4:
            raise InputError(f"{name} begins with a line of more than {len(text):,} characters: it is no table.")
        if "\r" in text:
            raise InputError(f"{name} has lines that end with a carriage return only: save it with line feeds.")
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
        if not names:
            raise InputError(f"{name} begins with a blank line: expected the names of the columns there.")
    except csv.Error as error:
        raise InputError(f"{name} has a header that cannot be read: {error}.") from error
    other = next((one for one in ";\t|," if one != separator and len(names) == 1 and one in text.split("\n")[0]), None)
    if other is not None:
        told = {"\t": "$'\\t'"}.get(other, f"'{other}'")
        raise InputError(
            f"{name} has one column only, {names[0]!r}, if {separator!r} separates columns. Pass --separator "
            f"{told} if {other!r} does."
        )
    twice = sorted({one for one in names if names.count(one) > 1})
    if twice:
        raise InputError(f"{name} has more than one column called {', '.join(map(repr, twice))}.")
    return names


def blank_lines(name: str, file: BinaryIO, separator: str) -> list[int]:
    """Which rows are blank lines; raise if a row has too few values. Slow, and asked only where one may have.

    Args:
        name: What to call the file.
        file: Its bytes.
        separator: What stands between two columns.
    """
    blank = []
    with io.TextIOWrapper(file, "utf-8", newline="") as text:
        rows = csv.reader(text, delimiter=separator)
        width = len(next(rows))
        for row, values in enumerate(rows):
            if not values:
                blank.append(row)
            elif len(values) < width:
                raise InputError(
                    f"{name} has {width} columns, but only {len(values)} value{'s' * (len(values) > 1)} in line "
                    f"{rows.line_num}."
                )
    return blank
