"""Results on disk: fits as `benchmarks.quality.results` keeps them, and counts of inputs in the same table.

The table, results/robustness.json, has one more field than that of quality: ``fuzz``, a record for each target. A
record is replaced when its target has been run again; a fit is kept in a small file of its own at once. Both tell with
what and where they were made.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import provenance
from benchmarks.quality import results
from scorewise import _files

FOLDER = results.FOLDER.with_name("robustness")

Record = dict[str, Any]
"""What random inputs of one target came to; see `benchmarks.robustness.fuzz.Tally.record`."""


def records(folder: Path) -> dict[str, Record]:
    """The records of a table, by target."""
    path = results.table(folder)
    kept = json.loads(path.read_text()).get("fuzz", []) if path.exists() else []
    return {str(record["target"]): record for record in kept}


def gather(folder: Path, rows: Collection[results.Row], new: Mapping[str, Record]) -> None:
    """Write the table of fits and records, a line for each.

    Args:
        folder: Where fits are kept.
        rows: The fits.
        new: Records by target, to replace those that there are.
    """
    known = sorted({str(row["versions"]) for row in rows})
    fits = ([known.index(str(row[c])) if c == "versions" else row[c] for c in results.COLUMNS] for row in rows)
    counts = records(folder) | dict(new)
    parts = {
        "columns": json.dumps(results.COLUMNS),
        "versions": _lines(known),
        "fuzz": _lines(counts.values()),
        "rows": _lines(fits),
    }
    text = "{" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "}\n"
    _files.write(results.table(folder), lambda file: file.write(text.encode()))


def versions() -> str:
    """What runs: Python, the package with its commit, the libraries beneath it; and where."""
    packages = provenance.versions("torch", "scikit-learn", "numpy", "polars", "torchmetrics")
    return f"{packages}, one core of {provenance.machine()}"


def current(one: results.Row | Record) -> bool:
    """Whether a fit or a record was made with what runs now, and here."""
    return bool(one["versions"] == versions())


def _lines(values: Iterable[object]) -> str:
    return "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in values) + "\n]"
