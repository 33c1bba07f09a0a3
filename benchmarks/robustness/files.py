"""Evaluations of predictions in memory, and of files whose bytes are mangled by chance."""

from __future__ import annotations

import atexit
import json
import math
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

import scorewise as sw
from benchmarks.robustness.batches import SCORES, batch, made, weight_for
from benchmarks.robustness.binary import FLAWED, sees_value
from benchmarks.robustness.flaws import arguments, spoiled
from benchmarks.robustness.fuzz import PropertyError, RefusedError, Target, Try, require, require_close
from scorewise.cli.app import app
from scorewise.cli.errors import INTERRUPTED
from scorewise.evaluation import Evaluation, evaluate
from tests.cases import ALL_PRIORS
from tests.weight_oracles import matrix_at

# ----------------------------------------------------------------------------------------------------- memory


def evaluation(r: random.Random) -> Try:
    """`evaluate`: one or two models, with and without resamples, thresholds that are chosen or given."""
    kind = weight_for(r, curved=True)
    one = batch(r, kind, labelled=False)
    given = arguments(one)
    given.pop("costs", None)
    score = r.choice(SCORES)
    options: dict[str, Any] = {"score": score, "weight": made(kind), "prior": r.choice(ALL_PRIORS).prior}
    options["draws"] = r.choice((0, 0, 0, 2, 5))
    options["threshold"] = r.choice((None, None, 0.5, -1.0, 0.25))
    if r.random() < 0.2:
        options["by"] = {"part": [r.choice("ab") for _ in range(one.x.shape[0])]}
    flaw = spoiled(r, one, given, hard=True, windows=True) if r.random() < FLAWED else None
    if "costs" in given or flaw == "an integer for a prediction":  # the one it does not take, the other it does
        flaw, given = None, {name: value for name, value in arguments(one).items() if name != "costs"}
    (series,) = one.decided
    counted = [target for i, target in enumerate(series.targets) if series.counted(i)]
    if flaw is None and not counted:
        flaw = "nothing that counts"
    soft = any(0 < target < 1 for target, kept in zip(series.targets, one.keep.tolist(), strict=True) if kept)
    if flaw is None and soft:
        flaw = "a soft label"

    def call() -> Evaluation:
        rest = dict(given)
        x, y = rest.pop("x"), rest.pop("y")
        return evaluate({"mine": x}, y, from_logits=one.from_logits, **rest, **options)

    def check(found: Evaluation) -> bool:
        (model,) = found.models
        judged = [model.plain, *([] if model.weighted is None else [model.weighted])]
        for some in judged:
            require(all(map(math.isfinite, (*some.cells, *some.scores.values()))), f"scores are {some.scores}")
            for name, (low, high) in some.intervals.items():
                require(low <= high, f"the interval of {name} is {(low, high)}")
        require(model.expected is None or math.isfinite(model.expected), f"the expected score is {model.expected}")
        if sees_value(kind) and (one.exact is None or (one.from_logits and one.x.dtype != torch.float64)):
            return False
        tau = float(torch.tensor(model.threshold, dtype=torch.float64).to(one.x.dtype))
        scale = max(1e-300, sum(series.counted(i) for i in range(len(series))))
        plain = type(series)(*(getattr(series, name) for name in _FIELDS))
        require_close(judged[-1].cells, matrix_at(plain, kind.oracle, tau), 1e-9 * scale, "the matrix")
        return True

    return Try(call, check, flaw)


_FIELDS = ("predictions", "targets", "groups", "times", "mask", "sample_weight")

# ------------------------------------------------------------------------------------------------------ files


def command(r: random.Random) -> Try:
    """`scorewise evaluate` of a CSV file, sound or with bytes that something has eaten."""
    text, options = _table(r)
    content, sound = text.encode(), True
    if r.random() < 0.8:
        content, sound = _mangled(r, content), False
    path = _folder() / "table.csv"

    def call() -> dict[str, Any] | None:
        path.write_bytes(content)
        result = CliRunner().invoke(app, ["evaluate", str(path), "--json", "--draws", "0", *options])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code == INTERRUPTED:
            raise KeyboardInterrupt  # of polars, which the command has told
        told = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
        if result.exit_code == 0:
            require(not told, f"stderr has {told}")
            found: dict[str, Any] = json.loads(result.stdout, parse_constant=_no_constant)
            return found
        require(result.exit_code == 2, f"the exit code is {result.exit_code}")
        require(len(told) == 1 and told[0].startswith("error: "), f"stderr has {told}")
        raise RefusedError(told[0].removeprefix("error: ").replace(str(path), "FILE"))

    def check(found: dict[str, Any] | None) -> bool:
        require(isinstance(found, dict) and bool(found.get("models")), f"the JSON is {found}")
        return False

    return Try(call, check, None, "are of one class" if sound else "")


def _no_constant(name: str) -> float:
    raise PropertyError(f"the JSON has {name}")


@cache
def _folder() -> Path:
    """A folder for this process, which is removed at its end."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _table(r: random.Random) -> tuple[str, list[str]]:
    """A table of predictions, and options for it."""
    n = r.choice((1, 2, 5, 20))
    options = ["--score", r.choice(sw.scores.names())]
    if r.random() < 0.4:
        options += ["--time", "hour", "--group", "station"]
        options += ["--weight", "published"] if r.random() < 0.5 else []
    options += ["--sample-weight", "weight"] if r.random() < 0.3 else ["--prediction", "model"]
    options += ["--threshold", "0.5"] if r.random() < 0.3 else []
    options += ["--prediction", "model"] if "--prediction" not in options else []
    lines = ["station,hour,target,model,weight"]
    for k in range(n):
        label = r.choice(("0", "1", "1", "")) if k else r.choice("01")
        lines.append(f"{'north' if k % 2 else 'süd'},{k // 2},{label},{r.random():.3f},{r.choice((0.5, 1, 2))}")
    return "\n".join(lines) + "\n", options


_CELLS = (
    "",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1e-999",
    "abc",
    "-0",
    "１",
    "1_0",
    "0x1",
    "1,5",
    '"',
    '""',
    "true",
)
_ODD_BYTES = (b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n", b'"', b";", b"\t", b",", b"\x1a")


def _mangled(r: random.Random, content: bytes) -> bytes:
    """The bytes after one to three accidents."""
    for _ in range(r.choice((1, 1, 2, 3))):
        content = r.choice(_ACCIDENTS)(r, content)
    return content


def _place(r: random.Random, content: bytes) -> int:
    return r.randrange(len(content) + 1)


def _flipped(r: random.Random, content: bytes) -> bytes:
    i = _place(r, content)
    return content[:i] + bytes([r.randrange(256)]) + content[i + 1 :]


def _inserted(r: random.Random, content: bytes) -> bytes:
    i = _place(r, content)
    return content[:i] + r.choice(_ODD_BYTES) + content[i:]


def _cut(r: random.Random, content: bytes) -> bytes:
    i, j = sorted((_place(r, content), _place(r, content)))
    return r.choice((content[:i], content[i:], content[:i] + content[j:], content + content[i:j]))


def _cell(r: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    k = r.randrange(len(lines))
    cells = lines[k].split(b",")
    cells[r.randrange(len(cells))] = r.choice(_CELLS).encode()
    lines[k] = b",".join(cells)
    return b"\n".join(lines)


def _row(r: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    k = r.randrange(len(lines))
    return b"\n".join(r.choice((lines[:k] + lines[k + 1 :], [*lines, lines[k]], lines[::-1], [lines[k], *lines])))


def _other_form(r: random.Random, content: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    made: list[bytes] = [
        text.encode("utf-16"),
        text.encode("latin-1", "replace"),
        b"\xef\xbb\xbf" + content,
        content.replace(b"\n", b"\r\n"),
        content.replace(b"\n", b"\r"),
        b"\x1f\x8b" + content,
        b"PAR1" + content,
        b"",
        bytes(r.randrange(256) for _ in range(r.randrange(60))),
    ]
    return r.choice(made)


_ACCIDENTS = (_flipped, _flipped, _inserted, _cut, _cell, _cell, _row, _other_form)

TARGETS: dict[str, Target] = {"evaluate": evaluation, "command line": command}
