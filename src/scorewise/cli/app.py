"""The commands, put together."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scorewise.cli import catalogue, demo, evaluate, predict, train
from scorewise.cli.errors import ended


class _Commands(TyperGroup):
    """Commands that all end in one way."""

    def invoke(self, ctx: Any) -> Any:
        with ended():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # a [name] in a text is a name
    help="Train a classifier for the score it will be judged by, and judge any model's predictions.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from scorewise import __version__

        typer.echo(f"scorewise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What can stand before a command."""


for _module in (demo, evaluate, train, predict, catalogue):
    _module.register(app)
