"""Files to be written: what could not be written in the end is refused in the beginning."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scorewise.cli.errors import InputError, guarded

if TYPE_CHECKING:
    from scorewise.evaluation import Evaluation


def check(path: Path | None, option: str, *others: str | Path | None) -> None:
    """Raise an `InputError` if a file cannot be written there, or would take the place of another one.

    Args:
        path: The file; None: none is to be written.
        option: What it was given by, as "--out".
        others: Files that are read, or written besides.
    """
    if path is None:
        return
    for other in others:
        if other is not None and str(other) != "-" and _same(path, Path(other)):
            raise InputError(
                f"{option}: {path} would overwrite a file that this command reads or writes: name another."
            )
    if path.is_dir():
        raise InputError(f"{option}: {path} is a folder: expected the name of a file.")
    if not path.parent.is_dir():
        raise InputError(f"{option}: there is no folder {path.parent} to write {path.name} into.")


def _same(one: Path, other: Path) -> bool:
    with guarded():
        return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def check_report(path: Path | None, *others: str | Path | None) -> None:
    """The same for a report, which needs more packages."""
    check(path, "--report", *others)
    for name in ("jinja2", "plotly") if path is not None else ():
        if importlib.util.find_spec(name) is None:
            raise InputError(f"--report needs {name}, which is not installed: pip install 'scorewise[cli]'.")


def write_report(
    path: Path,
    found: Evaluation,
    *,
    title: str,
    summary: str,
    history: Sequence[Mapping[str, Any]],
    facts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> None:
    """Write a report, as `scorewise.report.write` does."""
    from scorewise import report

    with guarded("--report"):
        report.write(path, found, title=title, summary=summary, history=history, facts=facts, notes=notes)
