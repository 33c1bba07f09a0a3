"""What results were made with, to be kept beside them."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def versions(*packages: str) -> str:
    """Python, this code with its commit, and packages; those that are not installed are left out.

    Args:
        *packages: Names of distributions.
    """
    told = [f"python {platform.python_version()}", f"scorewise {version('scorewise')}{_commit()}"]
    for name in packages:
        try:
            told.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(told)


def _commit() -> str:
    """Which code it is, if that is known; a plus: with changes that are not committed."""
    git = ("git", "-C", str(Path(__file__).parent))
    try:
        told = [
            subprocess.run([*git, *words], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603  # fixed words
            for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--", "../src", "quality"))
        ]
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout
        return ""
    return f" ({told[0]}{'+' if told[1] else ''})"
