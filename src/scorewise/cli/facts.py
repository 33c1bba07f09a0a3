"""What is needed to make a result again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import typer

from scorewise.cli.files import Source

_PACKAGES = ("torch", "numpy", "polars", "scikit-learn")


def facts(ctx: typer.Context, source: Source, rows: int, digest: str) -> dict[str, str]:
    """The rows of "How this was made".

    Args:
        ctx: The command, with its arguments.
        source: The table.
        rows: How many rows it has.
        digest: Its SHA-256.
    """
    return {
        "Command": command_line(ctx),
        "Data": f"{source.name}, {rows:,} rows",
        "SHA-256 of the data": digest,
        **versions(),
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    from scorewise import __version__

    found = {"scorewise": __version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # some have it from elsewhere
            found[name] = "unknown"
    return found


def command_line(ctx: typer.Context) -> str:
    """The command with all arguments that are not what they would be without being told, also those from a file."""
    words = ["scorewise", ctx.info_name or ""]
    given: Mapping[str, Any] = ctx.params
    for parameter in ctx.command.params:
        value = given.get(str(parameter.name))
        if parameter.param_type_name == "argument":
            words += [] if value is None else [str(value)]
        elif parameter.name == "config_file":
            continue  # what is in it is here
        elif value != parameter.default and value not in (None, (), []):
            words += _option(parameter, value)
    return shlex.join(words)


def _option(parameter: Any, value: Any) -> list[str]:
    name = max(parameter.opts, key=len)
    if isinstance(value, bool):
        return [name if value else max(parameter.secondary_opts, key=len, default=name)]
    many = value if isinstance(value, list | tuple) else [value]
    return [word for one in many for word in (name, str(getattr(one, "value", one)))]
