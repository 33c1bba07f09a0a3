"""What stands on a page of Markdown: Python blocks and commands, run as printed, against what is printed below them."""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from scorewise.cli.app import app

_FENCED = re.compile(r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", flags=re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def blocks(text):
    """Python blocks, each with what is printed below it."""
    return _FENCED.findall(text)


def consoles(text):
    """Blocks of commands with what they print."""
    return _CONSOLE.findall(text)


def run(code, printed, name, namespace):
    """Run a block; a line of three dots stands for any lines."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), namespace)  # noqa: S102  # our own pages
    assert doctest.OutputChecker().check_output(printed, out.getvalue(), doctest.ELLIPSIS), out.getvalue()


def type_in(block):
    """Type the commands of a block; `cat` shows a file that is there for the commands after it."""
    for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
        program, *arguments = shlex.split(command)
        if program == "cat":
            Path(arguments[0]).write_text(printed, encoding="utf-8")
            continue
        assert program == "scorewise"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.stderr
        seen = "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())
        assert doctest.OutputChecker().check_output(printed, seen, doctest.ELLIPSIS), seen
