"""Every Python block and every command of the README runs as printed and prints what is printed below it."""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scorewise.cli.app import app

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
BLOCKS = re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", README, flags=re.DOTALL)


def test_there_are_examples():
    assert len(BLOCKS) >= 3
    assert all(printed for _, printed in BLOCKS)


@pytest.mark.parametrize(("code", "printed"), BLOCKS, ids=range(len(BLOCKS)))
def test_block(code, printed):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102  # our own README
    assert out.getvalue() == printed


@pytest.mark.parametrize("block", COMMANDS, ids=range(len(COMMANDS)))
def test_commands(block, tmp_path, monkeypatch):
    """`cat` shows a file that is there for the commands after it; a line of three dots stands for any lines."""
    monkeypatch.chdir(tmp_path)
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


def test_there_are_commands():
    assert COMMANDS


def test_the_first_example_has_ten_lines():
    assert len([line for line in BLOCKS[0][0].splitlines() if line]) == 10
