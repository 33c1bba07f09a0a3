"""Files and arguments that cannot be judged: each is told in one line, with exit code 2, and leaves nothing behind."""

import errno
import gzip
import io
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from scorewise import _files
from scorewise.cli import files
from scorewise.cli.app import app
from scorewise.cli.errors import InputError

GOOD = b"time,station,target,mine,weight\n" + b"".join(
    f"2024-01-01 {hour:02}:00,{'ab'[hour % 2]},{int(hour % 5 == 0)},{(hour * 7 % 24) / 24},0.{hour + 1:02}\n".encode()
    for hour in range(24)
)
LINES = GOOD.decode().splitlines()


def with_line(place, text):
    """The good file with another line in one place; 0 is the header."""
    return "\n".join([*LINES[:place], text, *LINES[place + 1 :]]).encode() + b"\n"


def with_column(name, values):
    """A file with labels and one other column."""
    rows = [f"{i % 2},{values[i % len(values)]}" for i in range(10)]
    return "\n".join([f"target,{name}", *rows]).encode() + b"\n"


def parquet(frame):
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def labels(*values):
    return ("target,mine\n" + "".join(f"{one},0.{k + 1}\n" for k, one in enumerate(values))).encode()


def run(*args, stdin=None):
    return CliRunner().invoke(app, ["evaluate", *map(str, args)], input=stdin)


def refused(result, *told):
    """One line on stderr, nothing on stdout, exit code 2."""
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    assert "Traceback" not in result.stderr
    for one in told:
        assert one in result.stderr, result.stderr


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
FRAME = pl.DataFrame({"target": [0, 1, 0, 1], "mine": [0.1, 0.9, 0.3, 0.4]})
PARQUET = parquet(FRAME)
GARBAGE = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8).tobytes()

# what it is: (content, arguments, what must be told)
CONTENTS = {
    "empty": (b"", [], ["is empty"]),
    "only a header": (b"target,mine\n", [], ["no rows"]),
    "blank lines only": (b"\n\n  \n\n", [], ["blank lines only"]),
    "begins with a blank line": (b"\n" + GOOD, [], ["begins with a blank line"]),
    "one column": (b"target\n0\n1\n", [], ["one column only", "'target'"]),
    "latin-1 in a value": (
        with_line(3, "2024-01-01 02:00,Orléans,0,0.5,1").decode().encode("latin-1"),
        [],
        ["UTF-8", "line 4"],
    ),
    "latin-1 in the header": ("target,préd\n0,0.5\n1,0.6\n".encode("latin-1"), [], ["UTF-8", "0xe9"]),
    "latin-1 far below": (
        ("target,mine,name\n" + "0,0.5,x\n1,0.6,y\n" * 100_000).encode() + "1,0.5,é\n".encode("latin-1"),
        [],
        ["UTF-8"],
    ),
    "UTF-16": (GOOD.decode().encode("utf-16"), [], ["UTF-16"]),
    "UTF-16 without a mark": (GOOD.decode().encode("utf-16-le"), [], ["zero bytes"]),
    "a row with too many values": (with_line(5, LINES[5] + ",7"), [], ["more values than the header"]),
    "a row with too few values": (with_line(5, "2024-01-01 04:00,a,0"), [], ["5 columns", "3 values", "line 6"]),
    "a quote that does not end": (with_line(5, '2024-01-01 04:00,"a,0,0.5,1'), [], ["cannot be read"]),
    "all one class": (labels(0, 0, 0), [], ["one class", "no events"]),
    "all the other class": (labels(1, 1, 1), [], ["one class"]),
    "no label known": (labels("", "", ""), [], ["no label that is known"]),
    "NaN predictions": (with_column("mine", [0.5, "NaN", 0.2]), [], ["must have a value", "3 of 10", "row 2"]),
    "missing predictions": (with_column("mine", [0.5, "", 0.2]), [], ["must have a value", "row 2"]),
    "no prediction at all": (b"target,mine\n0,\n1,\n", ["--prediction", "mine"], ["must have a value", "2 of 2"]),
    "text for predictions": (
        with_column("mine", [0.5, "high"]),
        ["--prediction", "mine"],
        ["must hold numbers", "row 2", "'high'"],
    ),
    "no column of numbers": (with_column("mine", ["low", "high"]), [], ["no column of numbers", "'mine'"]),
    "1e400": (with_column("mine", [0.5, "1e400"]), [], ["finite", "row 2"]),
    "1e308": (with_column("mine", [0.5, "1e308"]), [], ["[0, 1]", "1e+308"]),
    "an integer of fifty digits": (with_column("mine", [0.5, 9 * "123456"]), [], ["[0, 1]"]),
    "only integers of fifty digits": (with_column("mine", [9 * "123456"]), [], ["cannot be read"]),
    "infinite": (with_column("mine", [0.5, "inf"]), [], ["finite", "inf"]),
    "negative": (with_column("mine", [0.5, -0.25]), [], ["[0, 1]", "-0.25", "--kind logit"]),
    "percent without the flag": (with_column("mine", [50, 12.5]), [], ["[0, 1]", "--kind percent"]),
    "logits without the flag": (with_column("mine", [-3.5, 2]), [], ["--kind logit"]),
    "logits as percent": (with_column("mine", [-3.5, 2]), ["--kind", "percent"], ["[0, 100]", "--kind logit"]),
    "decisions as logits": (with_column("mine", [0, 1]), ["--kind", "logit"], ["--kind hard"]),
    "decisions as percent": (with_column("mine", [0, 1]), ["--kind", "percent"], ["--kind hard"]),
    "probabilities as decisions": (with_column("mine", [0, 0.5]), ["--kind", "hard"], ["0 or 1", "0.5"]),
    "a kind that there is not": (GOOD, ["--kind", "odds"], ["--kind", "odds"]),
    "an id among the columns": (with_column("id", [17, 180]), [], ["'id'", "name those that do with --prediction"]),
    "times twice": (with_line(2, LINES[1]), ["--time", "time"], ["same time"]),
    "times off the grid": (
        with_line(2, LINES[2].replace("01:00", "01:20")),
        ["--time", "time", "--step", "1h"],
        ["whole steps of 1h"],
    ),
    "times missing": (with_line(4, LINES[4].replace("2024-01-01 03:00", "")), ["--time", "time"], ["row 4", "time"]),
    "times that are no dates": (
        with_line(4, LINES[4].replace("2024-01-01 03:00", "noon")),
        ["--time", "time"],
        ["noon"],
    ),
    "a day that there is not": (with_line(4, LINES[4].replace("01-01", "02-31")), ["--time", "time"], ["row 4"]),
    "a step that is none": (GOOD, ["--time", "time", "--step", "often"], ["--step", "10min"]),
    "a step of a unit that there is not": (GOOD, ["--time", "time", "--step", "1y"], ["--step", "us, ms, s, min"]),
    "a number as step of dates": (GOOD, ["--time", "time", "--step", "1"], ["--step", "1h or 1d"]),
    "a unit as step of numbers": (GOOD, ["--time", "weight", "--step", "1h"], ["--step", "plain number"]),
    "a step of 0": (GOOD, ["--time", "weight", "--step", "0"], ["above 0"]),
    "a step without times": (GOOD, ["--step", "1h"], ["--time"]),
    "groups missing": (with_line(4, LINES[4].replace(",b,", ",,")), ["--group", "station"], ["row 4", "'station'"]),
    "columns twice": (b"target,mine,mine\n0,0.5,0.5\n1,0.5,0.5\n", [], ["more than one column", "'mine'"]),
    "no target": (b"label,mine\n0,0.5\n1,0.6\n", [], ["--target", "'label', 'mine'"]),
    "a column that is not there": (GOOD, ["--target", "Targets"], ["'Targets'", "Did you mean 'target'", "'station'"]),
    "a prediction that is not there": (GOOD, ["--prediction", "yours"], ["--prediction", "'mine'"]),
    "a group that is not there": (GOOD, ["--group", "city"], ["--group", "'station'"]),
    "labels as predictions": (GOOD, ["--prediction", "target"], ["holds the labels"]),
    "binary garbage": (GARBAGE, [], ["error"]),
    "a PNG": (PNG, [], ["PNG"]),
    "a PDF": (b"%PDF-1.7\n1 0 obj\n", [], ["PDF"]),
    "an Excel file": (b"PK\x03\x04" + GARBAGE, [], ["Excel", "CSV"]),
    "an old Excel file": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + GARBAGE, [], ["Excel", "CSV"]),
    "a pickle": (b"\x80\x04\x95\x10" + GARBAGE, [], ["pickle"]),
    "a NumPy array": (b"\x93NUMPY\x01\x00" + GARBAGE, [], ["NumPy"]),
    "JSON": (b'{"target": [0, 1], "mine": [0.1, 0.9]}', [], ["JSON"]),
    "JSON lines": (b'[{"target": 0, "mine": 0.1}]', [], ["JSON"]),
    "HTML": (b"<!DOCTYPE html>\n<html><body>404</body></html>", [], ["HTML"]),
    "semicolons": (GOOD.replace(b",", b";"), [], ["--separator ';'"]),
    "tabs": (GOOD.replace(b",", b"\t"), [], ["--separator $'\\t'"]),
    "decimal commas": (
        b"target;mine\n0;0,5\n1;0,6\n",
        ["--separator", ";", "--prediction", "mine"],
        ["'0,5'", "point"],
    ),
    "decimal commas among commas": (b"target,mine\n0,0,5\n1,0,6\n", [], ["more values", "0.5"]),
    "a separator of two characters": (GOOD, ["--separator", "::"], ["--separator"]),
    "zero bytes": (GOOD.replace(b"0.5", b"0\x00.5"), [], ["zero bytes"]),
    "one very long line": (b"x" * 3_000_000, [], ["no table"]),
    "a very long name": (b"target," + b"x" * 200_000 + b"\n0,0.5\n1,0.6\n", [], ["header"]),
    "carriage returns only": (GOOD.replace(b"\n", b"\r"), [], ["carriage return"]),
    "three classes": (labels(0, 1, 2), [], ["0, 1, 2", "--positive", "row 3"]),
    "text for labels": (labels("no", "yes", "no"), [], ["'no', 'yes'", "--positive"]),
    "labels that are nearly 0 and 1": (labels(0.0, 0.99, 1.0), [], ["0.99", "--positive"]),
    "a positive label that is not there": (labels("no", "yes", "no"), ["--positive", "Yes"], ["'Yes'", "'no', 'yes'"]),
    "a text as positive number": (labels(1, 2, 1), ["--positive", "two"], ["'two'", "1, 2"]),
    "a score that there is not": (GOOD, ["--score", "tsss"], ["Did you mean tss", "accuracy"]),
    "a prior that there is not": (GOOD, ["--prior", "betta(2, 8)"], ["Did you mean beta", "uniform"]),
    "a weight that there is not": (GOOD, ["--weight", "values"], ["Did you mean value", "margin"]),
    "a malformed expression": (GOOD, ["--score", "0.7*tss +"], ["not understood"]),
    "an expression that runs code": (GOOD, ["--weight", "__import__('os').getcwd()"], ["stands for nothing"]),
    "a weight that score curves do not take": (GOOD, ["--weight", "cost(tn=1)"], ["right decisions"]),
    "at least too much": (GOOD, ["--prediction", "mine", "--at-least", "precision=2"], ["precision"]),
    "at least without a number": (GOOD, ["--at-least", "precision"], ["NAME=VALUE"]),
    "at least of no score": (GOOD, ["--at-least", "beauty=0.5"], ["beauty"]),
    "at least with a threshold": (
        GOOD,
        ["--at-least", "precision=0.5", "--threshold", "0.5"],
        ["--threshold gives one"],
    ),
    "a threshold above 1": (GOOD, ["--threshold", "50"], ["[0, 1]", "50"]),
    "a threshold below 0": (GOOD, ["--threshold", "-0.5"], ["[0, 1]"]),
    "a threshold that is NaN": (GOOD, ["--threshold", "nan"], ["[0, 1]", "nan"]),
    "a threshold that is text": (GOOD, ["--threshold", "half"], ["--threshold", "number"]),
    "negative sample weights": (
        with_line(3, LINES[3][:-4] + "-0.7"),
        ["--sample-weight", "weight"],
        ["at least 0", "row 3"],
    ),
    "missing sample weights": (
        with_line(3, LINES[3][:-4]),
        ["--sample-weight", "weight"],
        ["must have a value", "row 3"],
    ),
    "-1 draws": (GOOD, ["--draws", "-1"], ["--draws"]),
    "1 draw": (GOOD, ["--draws", "1"], ["--draws"]),
    "blocks of no rows": (GOOD, ["--block", "0"], ["--block", "'0'"]),
    "blocks that are no number": (GOOD, ["--block", "week"], ["--block", "'week'"]),
    "blocks longer than the table": (GOOD, ["--block", "9999"], ["block must be", "9999"]),
    "a level of 95": (GOOD, ["--level", "95"], ["--level", "95"]),
    "a negative seed": (GOOD, ["--seed", "-1"], ["--seed"]),
    "an option that there is not": (GOOD, ["--thresold", "0.5"], ["--thresold", "--help"]),
    "gzipped, cut off": (gzip.compress(GOOD)[:-12], [], ["cut off or damaged"]),
    "gzipped, damaged": (gzip.compress(GOOD)[:60] + b"zzzz" + gzip.compress(GOOD)[64:], [], ["damaged"]),
    "not gzipped, though said so": (GOOD, ["--gzip"], ["not gzipped"]),
    "gzipped, though said not": (gzip.compress(GOOD), ["--no-gzip"], ["is gzipped"]),
    "a gzipped image": (gzip.compress(PNG), [], ["PNG"]),
    "gzipped nothing": (gzip.compress(b""), [], ["is empty"]),
    "Parquet, cut off": (PARQUET[:-20], [], ["cannot be read as parquet"]),
    "Parquet, no more than a beginning": (PARQUET[:6], [], ["cannot be read as parquet"]),
    "Parquet without rows": (parquet(FRAME[:0]), [], ["no rows"]),
    "Parquet, though said CSV": (PARQUET, ["--format", "csv"], ["is a Parquet file"]),
    "CSV, though said Parquet": (GOOD, ["--format", "parquet"], ["no Parquet file", "--format csv"]),
    "lists for predictions": (
        parquet(FRAME.with_columns(mine=pl.Series([[0.5]] * 4))),
        ["--prediction", "mine"],
        ["must hold numbers", "List"],
    ),
    "lists for labels": (parquet(FRAME.with_columns(target=pl.Series([[0]] * 4))), [], ["must hold labels", "List"]),
    "lists for groups": (
        parquet(FRAME.with_columns(g=pl.Series([[0]] * 4))),
        ["--group", "g", "--prediction", "mine"],
        ["List"],
    ),
    "durations for times": (
        parquet(FRAME.with_columns(t=pl.Series([1, 2, 3, 4]).cast(pl.Duration("us")))),
        ["--time", "t", "--prediction", "mine"],
        ["dates, times or numbers"],
    ),
    "a stream by parts": (PARQUET, ["--stream", "--by", "target"], ["--by", "--no-stream"]),
    "a stream with draws": (PARQUET, ["--stream", "--draws", "100"], ["--draws", "--no-stream"]),
    "a stream with times, without a step": (PARQUET, ["--stream", "--time", "mine"], ["--step"]),
    "a stream of a gzipped file": (gzip.compress(GOOD), ["--stream"], ["cannot be streamed", "Unpack"]),
    "a stream of one class": (parquet(FRAME.with_columns(target=0)), ["--stream"], ["one class"]),
    "a stream with a prediction too large": (
        parquet(FRAME.with_columns(mine=pl.Series([0.1, 0.2, 30, 0.4]))),
        ["--stream"],
        ["row 3", "--kind percent"],
    ),
    "a stream with a missing prediction": (
        parquet(FRAME.with_columns(mine=pl.Series([0.1, 0.2, None, 0.4]))),
        ["--stream"],
        ["must have a value", "row 3"],
    ),
    "a stream of rows that are too short": (with_line(5, "2024-01-01 04:00,a,0"), ["--stream"], ["line 6"]),
    "a stream without rows": (b"target,mine\n", ["--stream"], ["no rows"]),
    "a stream without its column": (PARQUET, ["--stream", "--target", "y"], ["'y'", "'target', 'mine'"]),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_is_wrong_is_told_in_one_line(name, tmp_path):
    content, args, told = CONTENTS[name]
    path = tmp_path / "predictions.csv"
    path.write_bytes(content)
    refused(run(path, "--report", tmp_path / "report.html", *args), *told)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["empty", "ragged", "a PNG", "gzipped, cut off", "Parquet, cut off"])
def test_stdin_is_told_the_same(name):
    content, args, told = CONTENTS.get(name, CONTENTS["a row with too many values"])
    refused(run("-", *args, stdin=content), "stdin", *told)


def test_at_least_40_kinds_of_bad_files_are_tried():
    assert len(CONTENTS) >= 40


def test_a_file_that_is_not_there(tmp_path):
    refused(run(tmp_path / "nothing.csv"), "there is no file", "nothing.csv")


def test_a_folder(tmp_path):
    refused(run(tmp_path), "is a folder")


def test_no_permission(tmp_path, monkeypatch):
    def forbidden(self):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))

    path = tmp_path / "predictions.csv"
    path.write_bytes(GOOD)
    monkeypatch.setattr(files.Source, "open", forbidden)  # who runs the tests may be allowed everything
    refused(run(path), "no permission", "predictions.csv")


def test_a_name_that_promises_something_else(tmp_path):
    for name, told in {"p.parquet": "no Parquet file", "p.csv.gz": "not gzipped"}.items():
        path = tmp_path / name
        path.write_bytes(GOOD)
        refused(run(path), told)


def test_names_of_files_and_columns_cannot_command_a_terminal(tmp_path):
    path = tmp_path / "a\x1b[31m\nb.csv"
    path.write_bytes(b"")
    result = run(path)
    refused(result, "a\\x1b[31m b.csv")
    assert "\x1b" not in result.stderr


def test_many_columns_are_not_all_listed(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(200)) + "\n" + ",".join("1" * 200) + "\n")
    result = run(path, "--target", "x")
    refused(result, "'c29' and 170 more")
    assert "'c30'" not in result.stderr


@pytest.mark.parametrize(
    ("where", "told"),
    [("missing/report.html", "there is no folder"), (".", "is a folder"), ("p.csv/r.html", "no folder")],
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_read(where, told, tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("it was read")

    path = tmp_path / "p.csv"
    path.write_bytes(GOOD)
    monkeypatch.setattr(files, "read", never)
    refused(run(path, "--report", tmp_path / where), told)
    assert list(tmp_path.iterdir()) == [path]


def write_half_of(error):
    """A report that fails when half of it is written."""

    def content(file):
        file.write(b"half")
        raise error

    return lambda path, *args, **kwargs: _files.write(path, content)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 2, "error: --report: there is no space left on the device."),
        (MemoryError(), 2, "error: --report: there is not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted."),
    ],
)
def test_what_fails_midway_leaves_no_half_file(error, code, told, there, tmp_path, monkeypatch):
    path, report = tmp_path / "p.csv", tmp_path / "report.html"
    path.write_bytes(GOOD)
    if there:
        report.write_text("old")
    monkeypatch.setattr("scorewise.report.write", write_half_of(error))
    result = run(path, "--prediction", "mine", "--draws", "0", "--report", report)
    assert result.exit_code == code
    assert told in result.stderr
    assert result.stdout == ""
    assert sorted(tmp_path.iterdir()) == [path, *([report] if there else [])]
    assert not there or report.read_text() == "old"


def test_a_defect_keeps_its_traceback(tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise ValueError("a mistake of ours")

    path = tmp_path / "p.csv"
    path.write_bytes(GOOD)
    monkeypatch.setattr("scorewise.cli.show.evaluation", broken)
    result = run(path, "--prediction", "mine", "--draws", "0")
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)


# What can be read.


@pytest.mark.parametrize(
    ("name", "content", "args"),
    [
        ("p.csv", GOOD, []),
        ("p.txt", GOOD, []),
        ("p.csv", b"\xef\xbb\xbf" + GOOD, []),
        ("p.csv", GOOD.replace(b"\n", b"\r\n"), []),
        ("p.csv", GOOD.replace(b",", b";"), {"separator": ";"}),
        ("p.csv", GOOD.replace(b"\n2024-01-01 05", b"\n\n2024-01-01 05") + b"\n\n", []),
        ("p.csv.gz", gzip.compress(GOOD), []),
        ("p.csv", gzip.compress(GOOD), []),
        ("p.csv", gzip.compress(GOOD), {"gzip": True}),
        ("p.gz", GOOD, {"gzip": False}),
        ("p.parquet", parquet(pl.read_csv(GOOD)), []),
        ("p", parquet(pl.read_csv(GOOD)), []),
        ("p.parquet.gz", gzip.compress(parquet(pl.read_csv(GOOD))), []),
        ("p.parquet", GOOD, {"format": "csv"}),
    ],
)
def test_tables_are_read_alike_whatever_they_are_in(name, content, args, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    assert files.read(path, **dict(args)).equals(pl.read_csv(GOOD))


def test_columns_are_read_in_their_order_and_others_are_not_missed(tmp_path):
    for name, content in {"p.csv": GOOD, "p.parquet": parquet(pl.read_csv(GOOD))}.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert files.read(path, columns=["mine", "target", "nothing"]).columns == ["target", "mine"]


def test_a_number_far_below_makes_a_column_one_of_fractions(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("target,mine\n" + "0,1\n1,0\n" * 5000 + "1,0.25\n")
    assert files.read(path)["mine"][-1] == 0.25


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_what_is_written_can_be_read(suffix, tmp_path):
    path = tmp_path / f"p.{suffix}"
    files.write_table(FRAME, path)
    assert files.read(path).equals(FRAME)
    assert path.read_bytes()[:2] == {"csv": b"ta", "csv.gz": b"\x1f\x8b", "parquet": b"PA"}[suffix]


def test_a_table_is_not_written_into_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*: there is no folder"):
        files.write_table(FRAME, tmp_path / "missing" / "p.csv")


def test_batches_are_the_table(tmp_path):
    for name, content in {"p.csv": GOOD, "p.parquet": parquet(pl.read_csv(GOOD))}.items():
        path = tmp_path / name
        path.write_bytes(content)
        parts = list(files.batches(path, columns=["mine", "weight"], rows=7))
        assert len(parts) > 1 or name == "p.csv"  # polars reads a small CSV file at once
        assert pl.concat(parts).select("mine", "weight").equals(pl.read_csv(GOOD).select("mine", "weight"))


def test_the_digest_is_that_of_the_bytes(tmp_path):
    path = tmp_path / "p.csv"
    path.write_bytes(b"abc")
    assert files.digest(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = "import sys; open(sys.argv[1], 'wb').write(sys.argv[2].encode())"
    writer = subprocess.Popen([sys.executable, "-c", code, pipe, GOOD])  # noqa: S603  # our own interpreter
    result = run(pipe, "--prediction", "mine", "--draws", "0")
    writer.wait(timeout=30)
    assert result.exit_code == 0, result.output
    assert "24 rows" in result.stdout
