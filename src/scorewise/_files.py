"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write(path: Path, content: Callable[[BinaryIO], object]) -> None:
    """Write a file. Whatever happens meanwhile, there is the old one or the new one, and never half of one.

    Args:
        path: The file.
        content: Writes it.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into.")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            content(file)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
