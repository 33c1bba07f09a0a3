"""The command line: what it prints is what the library finds."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import scorewise as sw
from scorewise.cli import columns, errors, files, moments, show
from scorewise.cli.app import app
from scorewise.cli.errors import InputError
from scorewise.evaluation import evaluate

N = 400
VALUE = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)


def table(seed=0):
    """Two stations, hour by hour, one row after the other; the first two labels are unknown."""
    draw = np.random.default_rng(seed)
    good = draw.beta(1, 3, N)
    events = (draw.random(N) < good).astype(int).tolist()
    start = datetime(2024, 3, 1)
    return pl.DataFrame(
        {
            "time": [(start + timedelta(hours=i // 2)).isoformat(" ") for i in range(N)],
            "station": ["north", "south"] * (N // 2),
            "target": [None, None, *events[2:]],
            "mine": good,
            "other": np.clip(good + draw.normal(0, 0.2, N), 0, 1),
            "weight": draw.integers(1, 4, N) / 4,
        }
    )


TABLE = table()
MODELS = ["--prediction", "mine", "--prediction", "other"]
SERIES = ["--time", "time", "--group", "station"]


def run(*args, stdin=None):
    return CliRunner().invoke(app, [*map(str, args)], input=stdin)


@pytest.fixture
def path(tmp_path):
    where = tmp_path / "predictions.csv"
    TABLE.write_csv(where)
    return where


def found(path, *args, stdin=None):
    """The JSON of an evaluation."""
    result = run("evaluate", path, "--json", *args, stdin=stdin)
    assert result.exit_code == 0, (result.output, result.exception)
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def arrays(frame=TABLE):
    y = frame["target"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return {name: frame[name].to_numpy() for name in ("mine", "other")}, y, ~np.isnan(y)


def told(one):
    """A matrix with its scores, as JSON has it."""
    cells = dict(zip(show.CELLS, one.cells, strict=True))
    return json.loads(json.dumps({"cells": cells, "scores": one.scores, "intervals": one.intervals}))


def test_json_is_what_the_library_finds(path):
    frame = TABLE.sort("station", "time")
    x, y, known = arrays(frame)
    groups = frame["station"].to_list()
    times = list(range(N // 2)) * 2
    expected = evaluate(
        x, y, score="hss", weight=VALUE, prior=sw.priors.Beta(2, 8), groups=groups, times=times, mask=known,
        by={"station": groups}, draws=20, level=0.8, seed=3,
    )  # fmt: skip
    options = ["--score", "hss", "--weight", "published", "--prior", "beta(2, 8)", "--by", "station"]
    seen = found(path, *MODELS, *SERIES, *options, "--draws", "20", "--level", "0.8", "--seed", "3")
    assert seen["data"] == {
        "name": str(path),
        "sha256": seen["data"]["sha256"],
        "rows": N - 2,
        "events": TABLE["target"].sum(),
        "unknown": 2,
        "series": 2,
    }
    assert len(seen["data"]["sha256"]) == 64
    assert (seen["score"], seen["main"], seen["weight"]) == ("hss", "whss", repr(VALUE))
    assert seen["resampling"] == vars(expected.resampling)
    for model, own in zip(expected.models, seen["models"], strict=True):
        assert own["name"] == model.name
        assert own["threshold"] == model.threshold
        assert own["chosen"] is True
        assert own["threshold_interval"] == list(model.threshold_interval)
        assert own["optimism"] == model.optimism
        assert own["expected"] == model.expected
        assert own["plain"] == told(model.plain)
        assert own["weighted"] == told(model.weighted)
        assert own["curve"] == {"thresholds": model.curve.of, "bound": None}
        assert [one["observed"] for one in own["reliability"]] == [one.observed for one in model.reliability]
        for part, listed in zip(model.parts["station"], own["parts"]["station"], strict=True):
            assert listed["name"] == part.name
            assert (listed["rows"], listed["events"]) == (part.rows, part.events)
            assert (listed["threshold"], listed["value"]) == (part.threshold, part.value)
            assert listed["weighted"] == told(part.weighted)
    assert [one["value"] for one in seen["differences"]] == [one.value for one in expected.differences]
    assert [one["interval"] for one in seen["differences"]] == [list(one.interval) for one in expected.differences]


def test_the_matrix_is_that_of_the_library(path):
    x, y, known = arrays()
    seen = found(path, *MODELS, "--threshold", "0.4", "--draws", "0", "--sample-weight", "weight")
    for name, one in zip(x, seen["models"], strict=True):
        weights = TABLE["weight"].to_numpy()
        matrix = sw.confusion_matrix(torch.tensor(x[name]), torch.tensor(y), 0.4, mask=known, sample_weight=weights)
        assert list(one["plain"]["cells"].values()) == [float(getattr(matrix, cell)) for cell in show.CELLS]
        assert one["chosen"] is False
        assert one["plain"]["intervals"] == {}
    assert seen["differences"] == []


def test_rows_with_times_may_be_in_any_order(path, tmp_path):
    shuffled = tmp_path / "shuffled.csv"
    TABLE.sample(fraction=1, shuffle=True, seed=5).write_csv(shuffled)
    options = [*MODELS, *SERIES, "--weight", "published", "--draws", "10", "--by", "station"]
    one, other = found(path, *options), found(shuffled, *options)
    assert one.pop("data") != other.pop("data")
    assert one == other


def test_without_times_rows_are_in_order_and_that_is_told(path):
    frame = TABLE.sort("station", maintain_order=True)
    x, y, known = arrays(frame)
    expected = evaluate(x, y, weight=VALUE, groups=frame["station"].to_list(), mask=known, draws=0)
    seen = found(path, *MODELS, "--group", "station", "--weight", "published", "--draws", "0")
    for one, other in zip(seen["models"], expected.models, strict=True):
        assert one["weighted"]["cells"] == pytest.approx(told(other.weighted)["cells"], rel=1e-12)  # another order
    assert seen["notes"] == ["without --time the rows are taken to be in order within each series, one step apart."]
    assert found(path, *MODELS, "--draws", "0")["notes"] == []


@pytest.mark.parametrize(("step", "hours"), [("1h", 1), ("30min", 0.5), ("0.5h", 0.5), ("60min", 1)])
def test_the_step_is_the_length_of_a_lag(path, step, hours):
    frame = TABLE.sort("station", "time")
    x, y, known = arrays(frame)
    times = (np.arange(N) % (N // 2) / hours).astype(int)
    expected = evaluate(
        x, y, weight=VALUE, groups=frame["station"].to_list(), times=times, mask=known, draws=0, threshold=0.3
    )
    options = ["--weight", "published", "--draws", "0", "--threshold", "0.3"]
    seen = found(path, *MODELS, *SERIES, "--step", step, *options)
    assert [one["weighted"]["cells"] for one in seen["models"]] == [told(m.weighted)["cells"] for m in expected.models]
    assert (seen == found(path, *MODELS, *SERIES, *options)) == (hours == 1)  # one hour is the least difference


@pytest.mark.parametrize(
    ("kind", "change"),
    [("percent", lambda p: p * 100), ("logit", lambda p: np.log(p) - np.log1p(-p)), ("probability", lambda p: p)],
)
def test_kinds(kind, change, tmp_path):
    where = tmp_path / "p.csv"
    TABLE.select("target", mine=change(TABLE["mine"].to_numpy())).write_csv(where)
    plain = tmp_path / "plain.csv"
    TABLE.select("target", "mine").write_csv(plain)
    one, other = (found(file, "--kind", k, "--draws", "0") for file, k in ((where, kind), (plain, "probability")))
    assert one["models"][0]["plain"] == other["models"][0]["plain"]
    # both thresholds lie midway between two predictions: of probabilities, or of logits
    assert one["models"][0]["threshold"] == pytest.approx(other["models"][0]["threshold"], abs=1e-3)


def test_decisions(tmp_path):
    where = tmp_path / "p.csv"
    hard = TABLE.select("target", mine=(pl.col("mine") > 0.3).cast(int))
    hard.write_csv(where)
    x, y, known = arrays()
    matrix = sw.confusion_matrix(torch.tensor(x["mine"]), torch.tensor(y), 0.3, mask=known)
    seen = found(where, "--kind", "hard", "--draws", "0")
    told = run("evaluate", where, "--kind", "hard", "--draws", "0").stdout
    assert "Threshold 0.5000, between the decisions 0 and 1." in told
    assert seen["models"][0]["threshold"] == 0.5
    assert seen["models"][0]["chosen"] is False
    assert list(seen["models"][0]["plain"]["cells"].values()) == [float(getattr(matrix, cell)) for cell in show.CELLS]
    assert seen["notes"] == []
    assert "--kind hard" in found(where, "--draws", "0")["notes"][0]


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (("no", "yes"), "yes"),
        ((3, 7), "7"),
        ((3.5, 7.25), "7.25"),
        (("false", "true"), None),
        (("False", "True"), None),
        (("0", "1"), None),
        (("0.0", "1.0"), None),
        (("true", "false"), "false"),
        (("0", "1"), "1"),
    ],
)
def test_labels_of_all_kinds(labels, positive, tmp_path):
    where = tmp_path / "p.csv"
    rest = [] if positive is None else ["--positive", positive]
    text = [None if one is None else str(labels[one]) for one in TABLE["target"]]
    TABLE.select(target=pl.Series(text), mine="mine").write_csv(where)
    seen = found(where, "--draws", "0", *rest)
    assert (seen["data"]["events"], seen["data"]["unknown"]) == (TABLE["target"].sum(), 2)
    plain = tmp_path / "plain.csv"
    TABLE.select("target", "mine").write_csv(plain)
    assert seen["models"] == found(plain, "--draws", "0")["models"]


def test_one_class_against_all_others_is_told(tmp_path):
    where = tmp_path / "p.csv"
    where.write_text("target,mine\nC,0.1\nM,0.5\nX,0.9\nC,0.2\n")
    seen = found(where, "--positive", "X", "--draws", "0")
    assert seen["data"]["events"] == 1
    assert seen["notes"] == ["the label 'X' is the event, and all others are none: 'C', 'M'."]


def test_unknown_labels_may_have_no_prediction(tmp_path):
    where = tmp_path / "p.csv"
    where.write_text("target,mine\n0,0.1\n,\n1,0.9\nNA,0.5\n0,0.2\n")
    assert found(where, "--draws", "0")["data"]["unknown"] == 2


def test_all_columns_of_numbers_are_models_unless_they_are_named(path):
    names = [one["name"] for one in found(path, "--draws", "0")["models"]]
    assert names == ["mine", "other", "weight"]
    seen = found(path, "--draws", "0", "--sample-weight", "weight", "--by", "station", "--draws", "0")
    assert [one["name"] for one in seen["models"]] == ["mine", "other"]
    assert seen["notes"] == ["not used, since they hold no numbers: 'time'."]


def test_at_least(path):
    seen = found(path, "--prediction", "mine", "--draws", "0", "--at-least", "precision=0.7")
    x, y, known = arrays()
    best = sw.best_threshold(x["mine"], np.nan_to_num(y), "tss", mask=known, at_least={"precision": 0.7})
    assert seen["models"][0]["threshold"] == pytest.approx(best)
    assert seen["models"][0]["plain"]["scores"]["precision"] >= 0.7


def test_stdin_and_parquet_and_gzip_give_the_same(path, tmp_path):
    parquet, packed = tmp_path / "p.parquet", tmp_path / "p.csv.gz"
    TABLE.write_parquet(parquet)
    packed.write_bytes(__import__("gzip").compress(path.read_bytes()))
    options = [*MODELS, "--draws", "10"]
    models = found(path, *options)["models"]
    assert found(parquet, *options)["models"] == models
    assert found(packed, *options)["models"] == models
    assert found("-", *options, stdin=path.read_bytes())["models"] == models
    assert found("-", *options, stdin=parquet.read_bytes())["models"] == models


# Streams.


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("weight", [[], ["--weight", "published"]])
def test_a_stream_has_the_exact_matrix(suffix, weight, tmp_path, monkeypatch):
    where = tmp_path / f"p.{suffix}"
    getattr(TABLE, f"write_{suffix}")(where)
    monkeypatch.setattr("scorewise.cli.files.batches.__kwdefaults__", {"format": None, "separator": ",", "rows": 37})
    options = [*MODELS, *SERIES, "--step", "1h", *weight, "--threshold", "0.3"]
    stream, whole = found(where, *options, "--stream"), found(where, *options, "--no-stream", "--draws", "0")
    for one, other in zip(stream["models"], whole["models"], strict=True):
        assert one["plain"] == other["plain"]
        assert (one["weighted"] is None) == (not weight)
        if weight:
            cells = other["weighted"]["cells"]
            assert one["weighted"]["cells"] == pytest.approx(cells, rel=1e-12)  # sums in another order
    assert stream["data"] == whole["data"]


def test_batches_of_a_stream_count_times_from_the_same_zero(tmp_path, monkeypatch):
    where = tmp_path / "p.parquet"
    north, south = TABLE.filter(station="north"), TABLE.filter(station="south")
    # the later station first, so that times before the first row come in the middle of the file
    later = north.with_columns(time=(pl.col("time").str.to_datetime() + timedelta(days=9)).dt.strftime("%F %T"))
    pl.concat([later, south]).write_parquet(where)
    monkeypatch.setattr("scorewise.cli.files.batches.__kwdefaults__", {"format": None, "separator": ",", "rows": 37})
    options = [*MODELS, *SERIES, "--step", "1h", "--weight", "published", "--threshold", "0.3"]
    stream, whole = found(where, *options, "--stream"), found(where, *options, "--draws", "0")
    for one, other in zip(stream["models"], whole["models"], strict=True):
        assert one["weighted"]["cells"] == pytest.approx(other["weighted"]["cells"], rel=1e-12)


def test_series_have_minutes_of_their_own(tmp_path):
    """An alarm an hour before an event costs a half, whatever the minute. A stream wants one grid, and says so."""
    rows = ["00:00,A,0,0.1", "01:00,A,0,0.2", "00:30,B,0,0.9", "01:30,B,1,0.1"]
    (tmp_path / "p.csv").write_text("\n".join(["hour,gauge,target,m", *(f"2024-01-01T{row}" for row in rows)]))
    how = ["--time", "hour", "--group", "gauge", "--weight", "Value([1/2, 1/3, 1/4])", "--threshold", "0.5"]
    for step in ([], ["--step", "1h"]):
        (model,) = found(tmp_path / "p.csv", *how, *step, "--draws", "0")["models"]
        assert list(model["weighted"]["cells"].values()) == [2, 0.5, 0.5, 0]
    refused = run("evaluate", tmp_path / "p.csv", *how, "--step", "1h", "--stream")
    assert refused.exit_code == 2
    assert "whole steps of 1h after the earliest" in refused.stderr


def test_a_stream_says_how_much_better_another_threshold_could_be(path):
    seen = found(path, "--prediction", "mine", "--stream")["models"][0]
    best = found(path, "--prediction", "mine", "--draws", "0")["models"][0]["plain"]["scores"]["tss"]
    assert seen["curve"]["bound"]["tss"] >= best - seen["plain"]["scores"]["tss"] >= 0
    printed = run("evaluate", path, "--prediction", "mine", "--stream").stdout
    assert "Read as a stream" in printed


def test_large_parquet_files_are_streamed(tmp_path, monkeypatch):
    where = tmp_path / "p.parquet"
    TABLE.write_parquet(where)
    assert found(where, *MODELS, "--draws", "0")["models"][0]["curve"]["bound"] is None
    monkeypatch.setattr("scorewise.cli.evaluate.STREAM_FROM", N - 1)
    assert found(where, *MODELS)["models"][0]["curve"]["bound"] is not None
    assert found(where, *MODELS, "--no-stream", "--draws", "0")["models"][0]["curve"]["bound"] is None
    monkeypatch.setattr("scorewise.cli.evaluate.STREAM_FROM", N)
    assert found(where, *MODELS, "--draws", "0")["models"][0]["curve"]["bound"] is None


# What people see.


def test_all_that_was_found_is_printed(path):
    options = [*MODELS, *SERIES, "--weight", "published", "--by", "station", "--draws", "20"]
    result = run("evaluate", path, *options)
    assert result.exit_code == 0
    seen = found(path, *options)
    for text in (
        f"{N - 2} rows, {TABLE['target'].sum()} events",
        "2 unknown, 2 series",
        "the best for wtss on these rows",
        "looks better than on new ones",
        "Uniform(low=0.0, high=1.0)",
        "mine less each other model",
        "mine, by station",
        "north",
    ):
        assert text in result.stdout
    for model in seen["models"]:
        assert f"Threshold {model['threshold']:.4f}" in result.stdout
        assert f"is {model['expected']:.4f} on average" in result.stdout
        for kind in ("plain", "weighted"):
            for name, value in model[kind]["scores"].items():
                assert show.number(value) in result.stdout, name
            for low, high in model[kind]["intervals"].values():
                assert show.between((low, high)) in result.stdout
    main = [one for one in seen["differences"] if one["score"] == "tss"]
    assert [one["weighted"] for one in main] == [False, True]
    for one in main:
        assert show.number(one["value"]) in result.stdout
        assert show.between(one["interval"]) in result.stdout


def test_alarms_everywhere_can_be_the_best_and_be_asked_for(tmp_path):
    where = tmp_path / "p.csv"
    where.write_text("target,p\n1,0\n0,0\n1,0.3\n0,0\n", encoding="utf-8")
    options = [where, "--score", "cost(fn=100)", "--draws", "0"]
    assert "Threshold -1 (alarms everywhere), the best" in run("evaluate", *options).stdout
    best, given = found(*options), found(*options, "--threshold", "-1")
    assert best["models"][0]["threshold"] == -1
    assert best["models"][0]["plain"] == given["models"][0]["plain"]
    assert given["models"][0]["plain"]["cells"] == {"tn": 0, "fp": 2, "fn": 0, "tp": 2}


def test_blocks_are_drawn_as_one_says(path):
    assert found(path, *MODELS, "--draws", "5", "--block", "9")["resampling"]["unit"] == "blocks of 9 samples"
    series = found(path, *MODELS, *SERIES, "--draws", "5", "--block", "series")
    assert series["resampling"]["unit"] == "2 series"


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "[bold red]x[/]", ":smile:", "a\x1b[31mb", "[link=x]y"])
def test_names_are_printed_as_they_are(name, tmp_path):
    where = tmp_path / "p.csv"
    parts = pl.lit(name) + pl.col("station")
    TABLE.select("target", **{name: "mine", f"{name}2": "other", f"{name}3": parts}).write_csv(where)
    result = run("evaluate", where, "--draws", "5", "--by", f"{name}3")
    assert result.exit_code == 0, result.output
    assert result.stdout.count(errors.printable(name)) >= 8  # models, their titles, the column and its values
    assert f"{errors.printable(name)}north" in result.stdout
    assert "\x1b" not in result.stdout
    assert found(where, "--draws", "0")["models"][0]["name"] == name


def test_the_report_tells_how_it_was_made(path, tmp_path):
    report = tmp_path / "report.html"
    result = run("evaluate", path, *MODELS, "--weight", "published", "--draws", "5", "--report", report)
    assert result.exit_code == 0, result.output
    assert f"The report is in {report}." in result.stdout
    page = report.read_text()
    sha = found(path, "--draws", "0")["data"]["sha256"]
    for text in (sha, sw.__version__, torch.__version__.split("+")[0], "--weight published --draws 5", "in order"):
        assert text in page
    assert sorted(tmp_path.iterdir()) == [path, report]


# The catalogues.


def test_scores_are_listed_with_their_facts():
    listed = json.loads(run("scores", "--json").stdout)["scores"]
    assert [one["name"] for one in listed] == [*sw.scores.names(), "fbeta(2)"]
    for one in listed[:-1]:
        score = sw.scores.get(one["name"])
        assert one["formula"] == score.formula
        assert one["synonyms"] == list(score.synonyms)
        assert one["range"] == [end if np.isfinite(end) else None for end in score.range]
        assert (one["perfect"], one["linearity"]) == (score.perfect, score.linearity)
    printed = run("scores").stdout
    for name in sw.scores.names():
        assert name in printed


def test_one_score_is_told_with_all_of_it():
    printed = run("scores", "threat score").stdout
    for text in (
        "csi",
        "critical_success_index",
        "TP / (TP + FP + FN)",
        r"\frac{TP}{TP + FP + FN}",
        "0 to 1",
        "not linear",
    ):
        assert text in printed
    assert json.loads(run("scores", "0.5*tss + 0.5*hss", "--json").stdout)["name"] == "0.5·tss + 0.5·hss"
    assert run("scores", "beauty").exit_code == 2


@pytest.mark.parametrize(
    ("command", "name", "arguments"),
    [("priors", "beta", "alpha, beta"), ("priors", "uniform", "low=0, high=1"), ("weights", "margin", "kappa")],
)
def test_priors_and_weights_are_listed(command, name, arguments):
    listed = {one["name"]: one for one in json.loads(run(command, "--json").stdout)[command]}
    assert listed[name]["arguments"] == arguments
    assert all(one["formula"] and one["description"] for one in listed.values())
    printed = run(command).stdout
    for one in listed:
        assert one in printed
    assert ":math:" not in printed


# The frame.


def test_help_and_version():
    assert run("--version").stdout == f"scorewise {sw.__version__}\n"
    for args in ([], ["evaluate", "--help"], ["scores", "--help"]):
        result = run(*args)
        assert "Usage: " in result.output
    assert "--install-completion" in run("--help").stdout


def test_columns_of_several_groups_are_told_apart():
    frame = pl.DataFrame({"a": ["x · y", "x", "x"], "b": ["z", "y · z", "y · z"]})
    joined = columns.groups(frame, ["a", "b"])
    assert joined[0] != joined[1] == joined[2]
    assert columns.groups(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), ["a", "b"]) == ["1 · x", "2 · y"]
    assert columns.groups(frame, []) is None


def test_times_of_all_kinds():
    naive = [datetime(2024, 3, 31, hour) for hour in (3, 0, 1)]
    expected = [3, 0, 1]
    frame = pl.DataFrame(
        {
            "datetime": naive,
            "text": [str(one) for one in naive],
            "iso": [one.isoformat() for one in naive],
            "zone": [f"{one.isoformat()}+01:00" for one in naive],
            "number": [30, 0, 10],
            "float": [0.3, 0.0, 0.1],
            "date": [datetime(2024, 1, 1 + k).date() for k in expected],
        }
    )
    for name in frame.columns:
        ticks, stamps = columns.times(frame, name, None, None)
        assert ticks.tolist() == expected, name
        assert len(stamps) == 3
        assert stamps[0] == stamps[-3] == stamps[0:1][0]
    assert columns.times(frame, "datetime", None, None)[1][0] == "2024-03-31 03:00:00"
    zoned = frame.select(z=pl.col("datetime").dt.replace_time_zone("Europe/Rome"))
    assert columns.times(zoned, "z", None, None)[0].tolist() == [2, 0, 1]  # 2 o'clock did not exist
    assert columns.times(zoned, "z", None, None)[1][0] == "2024-03-31 03:00:00+02:00"


def test_times_with_zones_are_read_as_python_reads_them():
    draw = np.random.default_rng(5)
    start = datetime(2023, 12, 30)
    texts, expected = [], []
    for minutes, ahead in zip(draw.permutation(4000)[:300], draw.integers(-48, 57, 300), strict=True):
        zone = timezone(timedelta(minutes=15 * int(ahead)))
        one = (start + timedelta(minutes=int(minutes))).replace(tzinfo=UTC).astimezone(zone)
        texts.append(one.isoformat(" ").replace("+00:00", "Z"))
        expected.append(int(minutes))
    assert any(text.endswith("Z") for text in texts)
    ticks, stamps = columns.times(pl.DataFrame({"t": texts}), "t", "1min", None)
    assert ticks.tolist() == [one - min(expected) for one in expected]
    assert list(stamps) == texts


def test_hours_without_minutes_are_times():
    frame = pl.DataFrame({"t": ["2024-01-01 01", "2024-01-01 02", "2024-01-01 04"]})
    assert columns.times(frame, "t", None, None)[0].tolist() == [0, 1, 3]


def test_stamps_are_printed_many_at_once(monkeypatch):
    asked = []
    real = moments._printed
    monkeypatch.setattr(moments, "_printed", lambda series: asked.append(len(series)) or real(series))
    stamps = moments.Stamps(pl.Series(range(100_000)))
    assert list(stamps) == [str(k) for k in range(100_000)]
    assert asked == [1 << 16, 100_000 - (1 << 16)]


@pytest.mark.parametrize("streamed", [False, True])
def test_times_that_are_wrong_are_told_by_the_rows_of_the_file(tmp_path, streamed):
    def refused(times, *more):
        rows = {"t": times, "target": [0, 1, 0, 1], "p": [0.1, 0.7, 0.2, 0.6]}
        where = tmp_path / "table.csv"
        pl.DataFrame(rows).write_csv(where)
        how = ("--stream", "--step", "1h") if streamed else ()
        result = run("evaluate", where, "--time", "t", "--weight", "published", *how, *more)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert "index" not in result.stderr
        return result.stderr

    hours = [f"2024-01-01 0{hour}:00" for hour in range(4)]
    twice = refused([*hours[:3], hours[2]])
    assert "row 3" in twice
    assert "row 4" in twice
    assert "--group" in twice
    assert "row 4" in refused([*hours[:3], "2024-01-32 00:00"])
    uneven = refused([*hours[:3], "2024-01-01 03:07"])
    assert "row 4" in uneven or "row 2" in uneven  # without a step it is the least difference, which row 2 is not
    assert "such as 1min" in uneven or "such as 7min" in uneven
    assert "Pass a --step" in uneven


def test_rows_of_later_batches_are_told_as_the_file_has_them(tmp_path, monkeypatch):
    times = [f"2024-01-01 {hour:02}:00" for hour in (0, 1, 2, 3, 5, 4)]
    where = tmp_path / "table.parquet"
    pl.DataFrame({"t": times, "target": [0, 1] * 3, "p": [0.2, 0.8] * 3}).write_parquet(where)
    real = files.batches
    monkeypatch.setattr(files, "batches", lambda *args, **how: real(*args, **how, rows=4))
    result = run("evaluate", where, "--stream", "--time", "t", "--step", "1h", "--weight", "published")
    assert result.exit_code == 2
    assert "from row 5 to row 6" in result.stderr


def test_dates_that_are_numbers_are_noted(tmp_path):
    def notes(times):
        where = tmp_path / "table.csv"
        pl.DataFrame({"t": times, "target": [0, 1, 0], "p": [0.1, 0.7, 0.2]}).write_csv(where)
        return found(where, "--time", "t", "--draws", 0)["notes"]

    for dated in (
        [20240130, 20240131, 20240201],
        [2024013122, 2024013123, 2024020100],
        [202401312358, 202401312359, 202402010000],
    ):
        assert "look like dates" in " ".join(notes(dated)), dated
    for other in (
        [0, 1, 2],
        [1706659200, 1706662800, 1706666400],
        [1704110100, 1704110101, 1704110102],
        [20240130, 20240131, 20240132],
    ):
        assert notes(other) == []


def test_names_of_columns_may_hold_quotes_line_breaks_and_separators(tmp_path):
    names = ['say "hi"', "a\nb", "c, d", " e "]
    where = tmp_path / "table.csv"
    frame = pl.DataFrame({"target": [0, 1, 0, 1]} | {name: [0.1 * k, 0.6, 0.2, 0.9] for k, name in enumerate(names)})
    frame.write_csv(where)
    for more in (("--draws", 0), ("--stream",)):
        assert [one["name"] for one in found(where, *more)["models"]] == names
        assert [one["name"] for one in found(where, "--prediction", names[0], *more)["models"]] == names[:1]


def test_of_weighted_rows_the_share_of_events_is_weighted(tmp_path):
    where = tmp_path / "table.csv"
    pl.DataFrame({"target": [1, 0, 0], "p": [0.9, 0.2, 0.1], "w": [6, 1, 1]}).write_csv(where)
    result = run("evaluate", where, "--sample-weight", "w", "--draws", 0)
    assert "3 rows, 6 events (75.00%), 0 unknown" in result.stdout


def test_small_thresholds_can_be_read(tmp_path):
    where = tmp_path / "table.csv"
    pl.DataFrame({"target": [1, 0, 0], "p": [5e-5, 3e-5, 1e-5]}).write_csv(where)
    assert "Threshold 4e-05, the best" in run("evaluate", where, "--draws", 0).stdout
    assert show.threshold(0.25) == "0.2500"
    assert show.threshold(0.0) == "0.0000"


def test_what_was_asked_for_at_least_is_told_with_the_threshold(path, tmp_path):
    bound = ("--at-least", "precision=0.6", "--prediction", "mine", "--draws", 0)
    page = tmp_path / "page.html"
    assert (
        "the best for tss with precision at least 0.6 on these rows"
        in run("evaluate", path, *bound, "--report", page).stdout
    )
    assert "with precision at least 0.6" in found(path, *bound)["notes"][-1]
    assert "with precision at least 0.6" in page.read_text("utf-8")


def test_a_stream_says_that_it_makes_nothing_of_a_prior(path):
    told = found(path, "--prediction", "mine", "--stream", "--prior", "beta(2, 8)")["notes"]
    assert any("--prior" in one for one in told)
    assert not any("--prior" in one for one in found(path, "--prediction", "mine", "--stream")["notes"])


def test_usage_errors_end_as_sentences_do(path):
    assert run("evaluat", path).stderr == "error: No such command 'evaluat'. Did you mean 'evaluate'? See --help.\n"
    assert run("evaluate", path, "--kind", "x").stderr.startswith(
        "error: Invalid value for '--kind': 'x' is not one of"
    )


def test_guarded_turns_what_is_refused_into_one_line():
    for error in (ValueError("bad"), TypeError("bad"), OSError("bad"), pl.exceptions.ComputeError("bad\n\nmore")):
        with pytest.raises(InputError, match=r"^here: bad$"), errors.guarded("here"):
            raise error
    with pytest.raises(InputError, match="memory"), errors.guarded():
        raise MemoryError
    for kind in (KeyError, KeyboardInterrupt, BrokenPipeError):
        with pytest.raises(kind), errors.guarded():
            raise kind


# In a process of its own.


def start(*args, code=None, **kwargs):
    program = ["-m", "scorewise.cli"] if code is None else ["-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | kwargs
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, *program, *map(str, args)], env=env, **pipes)  # noqa: S603  # our own


def test_exit_codes(tmp_path):
    with start("evaluate", tmp_path / "nothing.csv") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err == f"error: there is no file {tmp_path / 'nothing.csv'}.\n"


def test_a_broken_pipe_is_quiet():
    with start("scores") as process:
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=120)
    assert (process.returncode, err) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
def test_a_full_disk_is_told():
    with open("/dev/full", "w") as full, start("scores", stdout=full) as process:  # noqa: PTH123  # a device
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (2, "error: there is no space left on the device.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_ctrl_c_leaves_nothing_behind(path, tmp_path):
    code = """
import sys, time
from scorewise.cli import judging, main
def slow(*args, **kwargs):
    print("ready", file=sys.stderr, flush=True)
    time.sleep(120)
judging.evaluate = slow
main()
"""
    with start("evaluate", path, *MODELS, "--report", tmp_path / "report.html", code=code) as process:
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "interrupted.\n")
    assert list(tmp_path.iterdir()) == [path]


def test_words_are_completed():
    variables = {"_SCOREWISE_COMPLETE": "complete_bash", "COMP_WORDS": "scorewise ev", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "scorewise.cli"]
    own = os.environ | variables
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)  # noqa: S603  # our own
    assert done.stdout.split() == ["evaluate"]


def test_help_does_not_load_torch():
    code = """
import sys
from scorewise.cli import main
try:
    main()
finally:
    loaded = {"torch", "polars", "numpy", "sklearn", "plotly"} & set(sys.modules)
    print("loaded:", sorted(loaded), file=sys.stderr)
"""
    with start("evaluate", "--help", code=code) as process:
        out, err = process.communicate(timeout=120)
    assert "Usage: scorewise evaluate" in out
    assert err == "loaded: []\n"


def test_a_missing_package_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from scorewise.cli import main; main()"
    with start(code=code) as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err == "error: the command line needs typer, which is not installed: pip install 'scorewise[cli]'.\n"


def test_nothing_is_not_negative():
    assert show.number(-0.0) == "0.0000"
    assert show.number(-1e-9) == "0.0000"
    assert show.number(-0.00006) == "-0.0001"
