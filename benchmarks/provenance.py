"""What results were made with, to be kept beside them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from scorewise import __version__

SAME_PACKAGE = {"adce054": "d61ad20", "28f13a0": "d61ad20"}
"""Commits that results were made with and that are in no published history, and one of it with the same package."""


@cache
def versions(*packages: str) -> str:
    """Python, this code with its commit, and packages; those that are not installed are left out.

    Args:
        *packages: Names of distributions.
    """
    told = [f"python {platform.python_version()}", f"scorewise {__version__} ({_commit()})"]
    return ", ".join(told + [f"{name} {found}" for name in packages if (found := installed(name)) is not None])


def installed(package: str) -> str | None:
    """Which version is installed, None if none is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def unpublished(told: Iterable[str]) -> str:
    """What to say of commits that nobody can look up; nothing, if all can be.

    Args:
        told: What `versions` told of results.
    """
    named = {commit for text in told for commit in re.findall(r"scorewise [\d.]+ \((\w+)", text)}
    lines = [
        f"{commit} is not in the published history: the package was as it is in {SAME_PACKAGE[commit]}."
        for commit in sorted(named & set(SAME_PACKAGE))
    ]
    return " ".join(lines)


def machine() -> str:
    """This machine in words: its processor, how many cores, and what it runs."""
    told = Path("/proc/cpuinfo")  # Linux; elsewhere platform knows
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}"


def span(seconds: float) -> str:
    """A time to read."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _commit() -> str:
    """Which code it is; a plus: with changes that are not committed.

    SCOREWISE_COMMIT tells it better, if it is set: where code was copied to another machine, there may be no checkout,
    or one that stands elsewhere.
    """
    if given := os.environ.get("SCOREWISE_COMMIT"):
        return given
    git = ("git", "-C", str(Path(__file__).parent))
    try:
        told = [
            subprocess.run([*git, *words], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603  # fixed words
            for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--", "../src", "*.py"))
        ]
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout
        return "unknown commit"
    return f"{told[0]}{'+' if told[1] else ''}"
