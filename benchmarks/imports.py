"""What it takes to import the core, beside PyTorch alone and scikit-learn: seconds in fresh processes."""

from __future__ import annotations

import random
import subprocess
import sys

from benchmarks.timing import Rows, Times, rows

BASE = "import torch"
STATEMENTS = {
    BASE: BASE,
    "import scorewise": "import scorewise",
    "import scorewise; scorewise.ScoreLoss": "import scorewise; scorewise.ScoreLoss",
    "import sklearn": "import sklearn",
}
_CODE = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"


def compare(runs: int) -> tuple[Rows, dict[str, str]]:
    """Seconds of the statements, without the interpreter's own start; and those that fail here, with the reason.

    Args:
        runs: How many processes for each statement; they take turns. One more comes first, which reads the files; with
            a single run it is that one.
    """
    seconds: dict[str, list[float]] = {}
    absent: dict[str, str] = {}
    for what, statement in STATEMENTS.items():
        try:
            first = _once(statement)
        except subprocess.CalledProcessError as error:
            absent[what] = error.stderr.strip().splitlines()[-1]
        else:
            seconds[what] = [first] if runs == 1 else []
    order = list(seconds)
    shuffle = random.Random(0).shuffle  # noqa: S311  # no secret
    for _ in range(runs if runs > 1 else 0):
        shuffle(order)
        for what in order:
            seconds[what].append(_once(STATEMENTS[what]))
    return rows(0, {what: Times.of(taken) for what, taken in seconds.items()}), absent


def _once(statement: str) -> float:
    """Seconds of a statement in a process of its own."""
    command = [sys.executable, "-c", _CODE.format(statement)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603  # ours
