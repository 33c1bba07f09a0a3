"""Results on disk: fits as `benchmarks.quality.results` keeps them, and counts of inputs in the same table.

The table, results/robustness.json, has two more fields than that of quality: ``fuzz``, a record for each target, and
``machine``. A record is replaced when its target has been run again; a fit is kept in a small file of its own at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
    return {str(record["target"]): record for record in _field(folder, "fuzz", [])}


def machine(folder: Path) -> str:
    """The machine of the last run, in words."""
    return str(_field(folder, "machine", ""))


def gather(folder: Path, new: Mapping[str, Record]) -> None:
    """Write the table of all fits and all records, a line for each.

    Args:
        folder: Where fits are kept.
        new: Records by target, to replace those that there are.
    """
    rows = list(results.read(folder).values())
    known = sorted({str(row["versions"]) for row in rows})
    fits = ([known.index(str(row[c])) if c == "versions" else row[c] for c in results.COLUMNS] for row in rows)
    counts = records(folder) | dict(new)
    parts = {
        "columns": json.dumps(results.COLUMNS),
        "versions": _lines(known),
        "machine": json.dumps(f"{provenance.machine()}, one core used"),
        "fuzz": _lines(counts.values()),
        "rows": _lines(fits),
    }
    text = "{" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "}\n"
    _files.write(results.table(folder), lambda file: file.write(text.encode()))


def versions() -> str:
    """What runs: Python, the package with its commit, and the libraries beneath it."""
    return provenance.versions("torch", "scikit-learn", "numpy", "polars", "torchmetrics")


def _lines(values: Iterable[object]) -> str:
    return "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in values) + "\n]"


def _field(folder: Path, name: str, default: object) -> Any:
    path = results.table(folder)
    return json.loads(path.read_text()).get(name, default) if path.exists() else default
