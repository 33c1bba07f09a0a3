"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import secrets
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
    # tempfile would make it unreadable to others, whatever the user's umask says
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            content(file)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
