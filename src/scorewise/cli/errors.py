"""What is the user's to mend: one line and an exit code. What is not keeps its traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn, cast

import typer

BAD_INPUT = 2
"""The exit code of whatever the user can mend."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, 128 + SIGINT, as shells have it."""
BROKEN_PIPE = 141
"""The exit code if nobody reads on, 128 + SIGPIPE: of `scorewise … | head` nobody sees it."""

_USAGE = cast("type[Exception]", typer.BadParameter.__mro__[1])  # UsageError: click's, or that of typer's copy of it


class InputError(Exception):
    """Something that the user can mend, told in one line."""


@contextlib.contextmanager
def guarded(where: str = "") -> Iterator[None]:
    """Turn what is refused into an `InputError`: around the places where what a user passed is read or used.

    That is ValueError and TypeError, OSError, MemoryError, and what polars raises. It belongs around such a place
    only, not around a whole command: there it would hide defects.

    Args:
        where: What it is about, to stand before the message.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InputError(_told(where, str(error))) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(_told(where, of_system(error))) from error
    except MemoryError as error:
        raise InputError(_told(where, _NO_MEMORY)) from error
    except BaseException as error:
        # By name: polars takes a while to load, and not all who come here have loaded it. Its panics are no Exception.
        if not type(error).__module__.startswith(("polars", "pyo3_runtime")):
            raise
        raise InputError(_told(where, first_line(error))) from error


@contextlib.contextmanager
def in_rows(shift: int) -> Iterator[None]:
    """Name rows as the file has them where an `InputError` has the indices of arrays.

    Args:
        shift: The row of the file, counted from 1, that has the index 0.
    """
    try:
        yield
    except InputError as error:
        named = re.sub(
            r"\b(at )?index (\d+)",
            lambda found: f"{'in ' * bool(found[1])}row {max(int(found[2]) + shift, 1):,}",
            str(error),
        )
        raise InputError(named) from error


@contextlib.contextmanager
def ended() -> Iterator[None]:
    """End a command as all of them do: an `InputError` is one line on stderr and exit code 2."""
    try:
        yield
        sys.stdout.flush()
    except InputError as error:
        fail(str(error))
    except BrokenPipeError:
        _forget_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except OSError as error:
        fail(of_system(error))
    except MemoryError:
        fail(_NO_MEMORY)
    except KeyboardInterrupt:
        say("interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    except _USAGE as error:
        told = cast(Any, error).format_message().rstrip(".").replace(": Value error, ", ": ")
        fail(f"{told}{'' if told.endswith('?') else '.'} See --help.")


def fail(message: str) -> NoReturn:
    """Print an error and exit."""
    say(f"error: {message}")
    raise typer.Exit(BAD_INPUT) from None


def say(message: str) -> None:
    """Print one line on stderr."""
    with contextlib.suppress(OSError):  # nobody reads it
        sys.stderr.write(one_line(message) + "\n")
        sys.stderr.flush()


def note(message: str) -> None:
    """Tell something that is no error, on stderr."""
    say(f"note: {message}")


def one_line(text: str) -> str:
    """A text in one line: line breaks are spaces, and control characters, which a terminal would obey, are written."""
    return printable(" ".join(text.split("\n"))).strip()


def printable(text: str) -> str:
    """A text in which control characters and what is no character are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def first_line(error: BaseException) -> str:
    """The first line of an error's message; what polars adds to it is about calls of its own."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def of_system(error: OSError) -> str:
    """What the system refused, in words."""
    if error.errno is None:
        return str(error)
    known = {
        errno.ENOENT: "there is no such file or folder",
        errno.EACCES: "there is no permission for it",
        errno.EPERM: "there is no permission for it",
        errno.EISDIR: "it is a folder",
        errno.ENOSPC: "there is no space left on the device",
        errno.EROFS: "it is on a device that can only be read",
    }
    told = known.get(error.errno, error.strerror or "the system refused it")
    return f"{error.filename}: {told}." if error.filename is not None else f"{told}."


_NO_MEMORY = "there is not enough memory for this. evaluate --stream needs little, whatever the size of the file."


def _told(where: str, message: str) -> str:
    return f"{where}: {message}" if where else message


def _forget_output() -> None:
    """Have nothing written any more: else Python complains of the broken pipe once again as it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
