"""The command line: `scorewise`, or `python -m scorewise.cli`."""

from __future__ import annotations

import sys

_PACKAGES = {"jinja2", "narwhals", "numpy", "plotly", "polars", "rich", "safetensors", "sklearn", "typer"}
"""What the extra brings."""


def main() -> None:
    """Run the command that the arguments name."""
    try:
        from scorewise.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        sys.stderr.write(
            f"error: the command line needs {error.name}, which is not installed: pip install 'scorewise[cli]'.\n"
        )
        raise SystemExit(2) from None
    app(prog_name="scorewise")
