"""Options in a file: TOML, with the names that they have on the command line, which has the last word."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

import typer

from scorewise.cli.errors import InputError, guarded

_NOT_IN_FILES = {"config", "help"}


def apply(ctx: typer.Context, path: str | None) -> str | None:
    """Read a command's options from a file; what stands on the command line comes before them.

    It is the callback of an eager option, so that options that follow find their defaults.

    Args:
        ctx: Of the command.
        path: The file; None: there is none.
    """
    if path is not None and not ctx.resilient_parsing:  # completion of a word asks for nothing but words
        ctx.default_map = _options(ctx, Path(path))
    return path


def _options(ctx: typer.Context, path: Path) -> dict[str, Any]:
    """The options in a file, by the names of their parameters."""
    several = {one.name: one.nargs != 1 or getattr(one, "multiple", False) for one in ctx.command.params}
    named = {max(one.opts, key=len).lstrip("-").replace("_", "-"): one.name for one in ctx.command.params}
    known = {name: parameter for name, parameter in named.items() if name not in _NOT_IN_FILES}
    found: dict[str, Any] = {}
    for key, value in _read(path).items():
        name = key.replace("_", "-")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InputError(f"{path}: there is no option {key!r}.{hint} There are {', '.join(sorted(known))}.")
        if known[name] in found:
            raise InputError(f"{path}: {key!r} is there twice, with a dash and with an underscore.")
        found[known[name]] = _value(value, path, key, several=several[known[name]])
    return found


def _read(path: Path) -> dict[str, Any]:
    with guarded(f"--config {path}"):
        if path.is_dir():
            raise InputError(f"--config {path} is a folder: expected a TOML file.")
        text = path.read_bytes().decode("utf-8-sig")
        return tomllib.loads(text)


def _value(value: object, path: Path, key: str, *, several: bool) -> Any:
    """What an option takes: one value as text, as it would stand on the command line; a truth value; or a list."""
    if isinstance(value, dict) and several:  # at_least = {precision = 0.9}
        value = [f"{name}={_text(one, path, key)}" for name, one in value.items()]
    if isinstance(value, list) != several:
        if isinstance(value, list):
            raise InputError(f"{path}: {key!r} must be one value, saw a list.")
        value = [value]
    if isinstance(value, list):
        return [_text(one, path, key) for one in value]
    return value if isinstance(value, bool) else _text(value, path, key)


def _text(value: object, path: Path, key: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{path}: {key!r} must be a text or a number, saw {value!r}.")
    return str(value)
