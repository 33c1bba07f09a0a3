"""Every Python block of the README runs as printed and prints what is printed below it."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
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


def test_the_first_example_has_ten_lines():
    assert len([line for line in BLOCKS[0][0].splitlines() if line]) == 10
