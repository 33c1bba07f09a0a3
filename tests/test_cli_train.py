"""`scorewise train` and `scorewise predict`."""

import errno
import gzip
import io
import json
import os
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from typer.testing import CliRunner

import scorewise as sw
from scorewise.cli.app import app
from scorewise.datasets import stations
from scorewise.estimator import persistence
from scorewise.estimator.splits import holdout
from scorewise.estimator.training import Trainer

FAST = ("--steps", "4", "--share", "0.5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plain(rows=240, seed=0):
    """Numbers, a category and gaps, in no order."""
    noise = np.random.default_rng(seed)
    a, b = noise.normal(size=rows), noise.normal(size=rows)
    y = (a + 0.5 * b + 0.5 * noise.normal(size=rows) > 0.8).astype(int)
    kind = noise.choice(["low", "high"], rows)
    return pl.DataFrame({"a": a, "b": b, "kind": kind, "y": y}).with_columns(
        b=pl.when(pl.Series(noise.random(rows) < 0.1)).then(None).otherwise(pl.col("b"))
    )


def rivers():
    """Two gauges with gaps; the columns are named otherwise than those of other tests."""
    made = stations(2, hours=400, rate=0.15, seed=1)
    return pl.DataFrame(made.features.numpy(), schema=list(made.feature_names)).with_columns(
        gauge=pl.Series(made.groups),
        when=pl.Series(made.timestamps()),
        flood=pl.Series([None if value != value else int(value) for value in made.targets.tolist()]),
    )


RIVERS = ("--target", "flood", "--time", "when", "--group", "gauge", "--horizon", "3", "--weight", "published")


def run(*args, stdin=None):
    return CliRunner().invoke(app, [*map(str, args)], input=stdin)


def train(*args, stdin=None):
    return run("train", *args, stdin=stdin)


def good(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(result, *told, begun=False):
    """One line on stderr, exit code 2; and nothing on stdout, unless training had begun."""
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert ("columns to learn from" in result.stdout) if begun else result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    for one in told:
        assert one in lines[0]


def tensors(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping


def same(path, other):
    first, second = tensors(path), tensors(other)
    assert first.keys() == second.keys()
    return all(torch.equal(value, second[name]) for name, value in first.items())


# ---------------------------------------------------------------------------------------------------- what is learned


def test_the_model_is_what_the_classifier_makes_of_the_same_rows(folder):
    frame = plain()
    frame.write_parquet("table.parquet")
    found = json.loads(
        good(
            train(
                "table.parquet",
                "--target",
                "y",
                "--score",
                "hss",
                "--prior",
                "beta(2, 4)",
                "--seed",
                3,
                *FAST,
                "--json",
            )
        ).stdout
    )
    split = holdout(frame["y"].to_numpy(), fraction=0.2, ordered=False, seed=3)
    expected = sw.ScoreClassifier(
        "hss", prior=sw.priors.Beta(2, 4), steps=4, share=(0.5,), random_state=3, progress=False
    ).fit(frame[split.train].drop("y"), frame["y"].to_numpy()[split.train])
    model = sw.ScoreClassifier.load("table.safetensors")
    rest = frame[split.test].drop("y")
    np.testing.assert_array_equal(model.predict_proba(rest), expected.predict_proba(rest))
    assert found["threshold"] == model.threshold_ == expected.threshold_
    assert found["validation"] == expected.best_score_
    assert found["features"] == ["a", "b", "kind"]
    assert (found["trained_on"], found["held_out"], found["between"]) == (len(split.train), len(split.test), 0)
    (judged,) = found["evaluation"]["models"]
    matrix = sw.confusion_matrix(
        expected.predict_proba(rest)[:, 1], frame["y"].to_numpy()[split.test], model.threshold_
    )
    assert judged["threshold"] == model.threshold_
    assert not judged["chosen"]
    assert list(judged["plain"]["cells"].values()) == [float(getattr(matrix, c)) for c in ("tn", "fp", "fn", "tp")]
    assert judged["plain"]["scores"]["hss"] == pytest.approx(float(sw.scores.hss(matrix)))


def test_the_latest_rows_are_held_out_and_those_near_them_left_out(folder):
    frame = rivers()
    frame.write_csv("rivers.csv")
    told = ("--predictions", "held.csv", "--report", "page.html", "--json")
    found = json.loads(good(train("rivers.csv", *RIVERS, *FAST, *told)).stdout)
    unknown = frame["flood"].null_count()
    assert found["table"]["unknown"] == unknown > 0
    assert found["features"] == ["level", "rise", "rain", "wetness", "age"]
    assert found["trained_on"] + found["held_out"] + found["between"] == len(frame) - unknown
    assert found["main"] == "wtss"
    held = pl.read_csv("held.csv", try_parse_dates=True)
    assert held.columns == ["when", "gauge", "flood", "probability", "alarm"]
    assert len(held) == found["held_out"]
    known = frame.drop_nulls("flood")
    assert sorted(held["when"].to_list()) == sorted(known["when"].to_list())[-len(held) :]
    # within the horizon of 3 and the window of 3 hours
    first = held["when"].min()
    near = known.filter((pl.col("when") < first) & (pl.col("when") >= first - pl.duration(hours=6)))
    assert found["between"] == len(near) > 0
    (judged,) = found["evaluation"]["models"]
    times = ((held["when"] - held["when"].min()).dt.total_hours()).to_numpy()
    matrix = sw.confusion_matrix(
        held["alarm"].to_numpy().astype(float),
        held["flood"].to_numpy(),
        0.5,
        sw.weights.Value(sw.weights.PUBLISHED, isolated=2),
        groups=held["gauge"].to_list(),
        times=times,
    )
    assert judged["weighted"]["cells"]["fp"] == pytest.approx(float(matrix.fp))
    assert judged["weighted"]["cells"]["fn"] == pytest.approx(float(matrix.fn))
    page = (folder / "page.html").read_text()
    assert "<html" in page
    assert "gauge" in page


def test_order_of_rows_makes_no_difference_where_there_is_time(folder):
    frame = rivers()
    frame.write_csv("a.csv")
    frame.sample(fraction=1, shuffle=True, seed=1).write_csv("b.csv")
    for name in ("a.csv", "b.csv"):
        good(train(name, *RIVERS, *FAST))
    assert same("a.safetensors", "b.safetensors")


def test_seeds_decide(folder):
    plain().write_csv("t.csv")
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        good(train("t.csv", "--target", "y", *FAST, "--seed", seed, "--out", f"{out}.safetensors"))
    assert same("a.safetensors", "b.safetensors")
    assert not same("a.safetensors", "c.safetensors")


def test_columns_that_options_name_are_not_learned_from(folder):
    frame = rivers().with_columns(w=pl.lit(2.0), note=pl.lit("x"))
    frame.write_csv("t.csv")
    found = json.loads(
        good(train("t.csv", *RIVERS, *FAST, "--drop", "note", "--drop", "age", "--sample-weight", "w", "--json")).stdout
    )
    assert found["features"] == ["level", "rise", "rain", "wetness"]


def test_sample_weights_count(folder):
    frame = plain()
    for name, weights in (("a", 1.0 + np.arange(len(frame)) % 2), ("b", np.ones(len(frame)))):
        frame.with_columns(w=pl.Series(weights)).write_csv(f"{name}.csv")
        found = json.loads(good(train(f"{name}.csv", "--target", "y", "--sample-weight", "w", *FAST, "--json")).stdout)
        cells = found["evaluation"]["models"][0]["plain"]["cells"]
        assert (sum(cells.values()) > found["held_out"]) == (name == "a")
    assert not same("a.safetensors", "b.safetensors")


def test_a_label_that_is_named_is_the_event(folder):
    frame = plain()
    frame.write_csv("a.csv")
    frame.with_columns(y=pl.when(pl.col("y") == 1).then(pl.lit("storm")).otherwise(pl.lit("calm"))).write_csv("b.csv")
    good(train("a.csv", "--target", "y", *FAST))
    good(train("b.csv", "--target", "y", "--positive", "storm", *FAST))
    assert same("a.safetensors", "b.safetensors")


def test_nothing_is_held_out_if_nobody_wants_it(folder):
    plain().write_csv("t.csv")
    result = good(train("t.csv", "--target", "y", *FAST, "--test-fraction", 0))
    assert "on rows kept for validation" in result.stdout
    assert "held" not in result.stdout
    found = json.loads(good(train("t.csv", "--target", "y", *FAST, "--test-fraction", 0, "--json")).stdout)
    assert found["evaluation"] is None
    assert found["trained_on"] == 240


def test_scores_of_which_less_is_better_are_told_as_they_are(folder):
    plain().write_csv("t.csv")
    found = json.loads(good(train("t.csv", "--target", "y", "--score", "error_rate", *FAST, "--json")).stdout)
    assert 0 <= found["validation"] < 0.5


def test_scores_made_of_others_can_be_saved(folder):
    plain().write_csv("t.csv")
    good(train("t.csv", "--target", "y", "--score", "0.7*tss + 0.3*fbeta(2)", "--at-least", "recall=0.5", *FAST))
    model = sw.ScoreClassifier.load("t.safetensors")
    assert model.get_params()["score"].name == "0.7·tss + 0.3·fbeta(2)"
    assert model.at_least == {"recall": 0.5}


def test_what_is_printed(folder):
    plain().with_row_index("i").with_columns(y=pl.when(pl.col("i") < 7).then(None).otherwise("y")).drop("i").write_csv(
        "t.csv"
    )
    result = good(train("t.csv", "--target", "y", *FAST, "--predictions", "p.parquet"))
    assert "t.csv: 240 rows, 7 of them without a label, 3 columns to learn from." in result.stdout
    assert "with 50% of the score in the loss: tss" in result.stdout
    assert "The model is in t.safetensors." in result.stdout
    assert "The predictions are in p.parquet." in result.stdout
    assert len(pl.read_parquet("p.parquet")) > 30
    quiet = good(train("t.csv", "--target", "y", *FAST, "--quiet"))
    assert quiet.stdout == quiet.stderr == ""


@pytest.mark.parametrize("kind", ["gz", "stdin", "semicolon"])
def test_tables_of_other_kinds(folder, kind):
    frame = plain()
    frame.write_csv("plain.csv")
    good(train("plain.csv", "--target", "y", *FAST, "--out", "expected.safetensors"))
    content = frame.write_csv(separator=";" if kind == "semicolon" else ",").encode()
    if kind == "stdin":
        good(train("-", "--target", "y", *FAST, "--out", "other.safetensors", stdin=content))
    else:
        name = "other.csv.gz" if kind == "gz" else "other.csv"
        (folder / name).write_bytes(gzip.compress(content) if kind == "gz" else content)
        good(train(name, "--target", "y", *FAST, *(["--separator", ";"] if kind == "semicolon" else [])))
    assert same("expected.safetensors", "other.safetensors")


def test_names_are_shown_as_they_are(folder):
    name = "[bold]<script>alert(1)</script>"
    plain().rename({"y": name}).write_csv("t.csv")
    result = good(train("t.csv", "--target", name, *FAST, "--report", "page.html", "--predictions", "p.csv"))
    assert "Traceback" not in result.output
    assert "<script>alert(1)" not in (folder / "page.html").read_text()
    refused(train("t.csv", "--target", "[red]"), "there is no column '[red]'", name)


# -------------------------------------------------------------------------------------------------- going on


def test_a_training_that_was_killed_goes_on_to_the_same_model(folder):
    plain(400).write_csv("t.csv")
    arguments = ["t.csv", "--target", "y", "--steps", "150", "--share", "0.5", "--quiet"]
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    with subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-m", "scorewise.cli", "train", *arguments, "--out", "killed.safetensors"],
        env=os.environ | threads,
    ) as process:
        left = folder / "killed.safetensors.checkpoint"
        for _ in range(3000):
            if left.exists() or process.poll() is not None:
                break
            time.sleep(0.02)
        assert process.poll() is None, "it ended before it could be killed"
        process.kill()
    assert left.exists()
    assert not (folder / "killed.safetensors").exists()
    refused(train(*arguments, "--out", "killed.safetensors"), "pass --resume to go on, or remove it")
    done = int(torch.load(left, weights_only=True)["runners"][0]["step"])
    assert 0 < done < 150
    good(train(*arguments, "--out", "killed.safetensors", "--resume"))
    assert not left.exists()
    good(train(*arguments, "--out", "whole.safetensors"))
    assert same("killed.safetensors", "whole.safetensors")


def test_other_data_are_not_gone_on_with(folder):
    plain().write_csv("t.csv")
    (folder / "t.safetensors.checkpoint").write_bytes(b"nothing of ours")
    refused(train("t.csv", "--target", "y", *FAST, "--resume"), "is no checkpoint of a fit", begun=True)


def test_nothing_to_go_on_from_is_told(folder):
    plain().write_csv("t.csv")
    result = good(train("t.csv", "--target", "y", *FAST, "--resume"))
    assert "note: there is no t.safetensors.checkpoint to go on from" in result.stderr


def test_ctrl_c_keeps_the_best_so_far(folder, monkeypatch):
    plain().write_csv("t.csv")
    calls = []
    real = Trainer._check_time

    def interrupted(self):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt  # as Ctrl-C does, but where nobody can press it, signals may be ignored
        return real(self)

    monkeypatch.setattr(Trainer, "_check_time", interrupted)
    arguments = ("t.csv", "--target", "y", "--steps", 8, "--share", 0.5)
    result = train(*arguments, "--predictions", "p.csv")
    assert result.exit_code == 130
    assert "the best network so far is in t.safetensors. --resume goes on where it stopped." in result.stderr
    assert (folder / "t.safetensors.checkpoint").exists()
    assert not (folder / "p.csv").exists()
    good(run("predict", "t.safetensors", "t.csv"))
    good(train(*arguments, "--resume"))
    good(train(*arguments, "--out", "whole.safetensors"))
    assert same("t.safetensors", "whole.safetensors")


# -------------------------------------------------------------------------------------------------- options in a file


def test_options_in_a_file(folder):
    plain().write_csv("t.csv")
    (folder / "how.toml").write_text(
        'table = "t.csv"\ntarget = "y"\nscore = "csi"\nsteps = 4\nshare = [0.5]\ntest-fraction = 0.3\nquiet = true\n'
        'drop = "kind"\nseed = 5\n[at_least]\nrecall = 0.2\n'
    )
    assert good(train("--config", "how.toml")).output == ""
    model = sw.ScoreClassifier.load("t.safetensors")
    assert model.get_params()["score"].name == "csi"
    assert model.at_least == {"recall": 0.2}
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.random_state == 5
    options = ("--score", "csi", *FAST, "--test-fraction", 0.3, "--drop", "kind", "--at-least", "recall=0.2")
    good(train("t.csv", "--target", "y", *options, "--seed", 5, "--out", "b.safetensors"))
    assert same("t.safetensors", "b.safetensors")


def test_the_command_line_has_the_last_word(folder):
    plain().write_csv("t.csv")
    (folder / "how.toml").write_text('target = "nothing"\nsteps = 500\ndrop = ["kind"]\nscore = "csi"\nshare = 0.5\n')
    good(train("t.csv", "--config", "how.toml", "--target", "y", "--steps", 4, "--drop", "a"))
    model = sw.ScoreClassifier.load("t.safetensors")
    assert model.steps == 4
    assert model.get_params()["score"].name == "csi"
    assert list(model.feature_names_in_) == ["b", "kind"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('targett = "y"', ["no option 'targett'", "Did you mean 'target'?", "test-fraction"]),
        ('config = "x"', ["no option 'config'"]),
        ("test_fraction = 0.1\ntest-fraction = 0.2", ["is there twice"]),
        ("target = ", ["--config how.toml"]),
        ("seed = [1, 2]", ["'seed' must be one value, saw a list"]),
        ("score = 2020-01-01", ["'score' must be a text or a number"]),
        ("drop = [true]", ["'drop' must be a text or a number, saw True"]),
        ('target = "y"\nsteps = "many"', ["--steps"]),
        (b"\xff\xfe", ["--config how.toml"]),
    ],
)
def test_options_in_a_file_that_cannot_be(folder, content, told):
    (folder / "how.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(train("t.csv", "--config", "how.toml"), *told)


def test_files_of_options_that_are_not_there(folder):
    refused(train("t.csv", "--config", "how.toml"), "how.toml", "there is no such file")
    refused(train("t.csv", "--config", "."), "is a folder")


# ------------------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--target", "z"), ["--target: there is no column 'z'", "'a', 'b', 'kind', 'y'"]),
        (("--target", "y", "--drop", "knd"), ["--drop", "Did you mean 'kind'?"]),
        (("--target", "y", "--time", "t"), ["--time: there is no column 't'"]),
        (("--target", "y", "--step", "1h"), ["needs --time"]),
        (("--target", "y", "--group", "g"), ["--group: there is no column 'g'"]),
        (("--target", "y", "--sample-weight", "a"), ["--sample-weight", "at least 0"]),
        (("--target", "kind"), ["--positive"]),
        (("--target", "kind", "--positive", "hot"), ["no label in the column 'kind' is 'hot'", "'low'"]),
        (("--target", "y", "--drop", "a", "--drop", "b", "--drop", "kind"), ["no column left to learn from"]),
        (("--target", "y", "--score", "tsss"), ["tsss"]),
        (("--target", "y", "--weight", "valu"), ["valu"]),
        (("--target", "y", "--prior", "beta(2"), ["--prior"]),
        (("--target", "y", "--at-least", "precision"), ["NAME=VALUE"]),
        (("--target", "y", "--test-fraction", 1), ["--test-fraction must be at least 0 and below 1"]),
        (("--target", "y", "--test-fraction", "nan"), ["--test-fraction"]),
        (("--target", "y", "--test-fraction", 0, "--report", "r.html"), ["--report is of rows that are held out"]),
        (("--target", "y", "--test-fraction", 0, "--predictions", "p"), ["--predictions is of rows that are held"]),
        (("--target", "y", "--share", 2), ["--share must be from 0 to 1, saw 2"]),
        (("--target", "y", "--max-time", 0), ["--max-time must be"]),
        (("--target", "y", "--steps", 0), ["--steps"]),
        (("--target", "y", "--horizon", -1), ["--horizon"]),
        (("--target", "y", "--seed", 2**40), ["--seed must be below 2^32"]),
        (("--target", "y", "--separator", "ab"), ["--separator must be one character"]),
        (("--target", "y", "--out", "no/where.safetensors"), ["--out: there is no folder no"]),
        (("--target", "y", "--out", "."), ["--out: . is a folder"]),
        (("--target", "y", "--report", "no/r.html"), ["--report: there is no folder no"]),
        (("--target", "y", "--predictions", "no/p.csv"), ["--predictions: there is no folder no"]),
        ((), ["--target"]),
    ],
    ids=str,
)
def test_arguments_that_cannot_be(folder, arguments, told):
    plain().write_csv("t.csv")
    refused(train("t.csv", *arguments), *told)
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("frame", "arguments", "told"),
    [
        (plain().with_columns(y=pl.lit(1)), (), ["there are no other labels than events", "saw 1"]),
        (plain().with_columns(y=pl.lit(None, pl.Int64)), (), ["there are no labels that are known"]),
        (plain().with_columns(day=pl.date(2024, 1, 1)), (), ["'day' holds times", "--drop day"]),
        (plain().with_columns(many=pl.concat_list("a", "b")), (), ["'many' holds List", "--drop many"]),
        (plain().with_columns(a=pl.lit(float("inf"))), (), ["infinity"]),
        (plain(6).with_columns(y=pl.Series([1, 0, 0, 0, 0, 0])), (), ["two classes"]),
        (
            plain().with_columns(t=pl.lit(1)),
            ("--time", "t"),
            ["--time t", "repeat an earlier one"],
        ),
    ],
    ids=range(7),
)
def test_tables_that_cannot_be(folder, frame, arguments, told):
    frame.write_parquet("t.parquet")
    refused(train("t.parquet", "--target", "y", *FAST, *arguments), *told, begun=told == ["infinity"])
    assert [path.name for path in folder.iterdir()] == ["t.parquet"]


def test_a_model_without_a_name_is_refused(folder):
    refused(train("-", "--target", "y", stdin=plain().write_csv()), "--out must name a file")


def test_a_disk_that_is_full_leaves_no_half_of_a_file(folder, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    plain().write_csv("t.csv")
    monkeypatch.setattr(persistence, "write", full)
    result = train("t.csv", "--target", "y", *FAST)
    assert result.exit_code == 2
    assert "error: cannot write t.safetensors: there is no space left on the device." in result.stderr
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


# ------------------------------------------------------------------------------------------------------------ predict


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    frame = plain()
    made = sw.ScoreClassifier("csi", steps=4, share=0.5, random_state=0, progress=False)
    made.fit(frame.drop("y"), frame["y"].to_numpy()).save(path)
    return path


def test_predictions_are_those_of_the_model(folder, model):
    frame = plain(50, seed=9)
    frame.select("kind", "y", "b", "a").write_csv("t.csv")  # in another order, with a column more
    expected = sw.ScoreClassifier.load(model).predict_proba(frame.drop("y"))[:, 1]
    result = good(run("predict", model, "t.csv", "--keep", "y", "--keep", "kind"))
    found = pl.read_csv(io.StringIO(result.stdout))
    assert found.columns == ["y", "kind", "probability", "alarm"]
    # numbers pass through CSV, which is exact
    np.testing.assert_allclose(found["probability"].to_numpy(), expected, rtol=1e-6)
    threshold = sw.ScoreClassifier.load(model).threshold_
    assert found["alarm"].to_list() == (expected > threshold).astype(int).tolist()
    assert 0 < found["alarm"].sum() < 50
    assert found["y"].to_list() == frame["y"].to_list()
    good(run("predict", model, "t.csv", "--out", "p.parquet"))
    again = pl.read_parquet("p.parquet")
    assert again.columns == ["probability", "alarm"]
    assert again["alarm"].to_list() == found["alarm"].to_list()


def test_a_positive_class_of_ones_own(folder):
    frame = plain()
    y = np.where(frame["y"].to_numpy() == 1, "a storm", "calm")
    made = sw.ScoreClassifier("csi", pos_label="a storm", steps=4, share=0.5, random_state=0, progress=False)
    made.fit(frame.drop("y"), y).save("m.safetensors")
    frame.write_csv("t.csv")
    found = pl.read_csv(io.StringIO(good(run("predict", "m.safetensors", "t.csv")).stdout))
    assert found["alarm"].to_list() == (made.predict(frame.drop("y")) == "a storm").astype(int).tolist()
    assert (
        found.filter(pl.col("alarm") == 1)["probability"].min()
        > found.filter(pl.col("alarm") == 0)["probability"].max()
    )


def test_more_classes_and_labels(folder):
    frame = plain()
    X = frame.drop("y")
    three = np.where(frame["a"] > 0.5, "hot", np.where(frame["a"] < -0.5, "cold", "mild"))
    sw.ScoreClassifier("hss", steps=4, share=0.5, random_state=0, progress=False).fit(X, three).save("c.safetensors")
    X.write_csv("t.csv")
    found = pl.read_csv(io.StringIO(good(run("predict", "c.safetensors", "t.csv")).stdout))
    assert found.columns == ["probability cold", "probability hot", "probability mild", "class"]
    assert set(found["class"]) <= {"hot", "cold", "mild"}
    two = np.stack([frame["y"], (frame["a"] < 0).cast(int)], 1)
    sw.ScoreClassifier("tss", steps=4, share=0.5, random_state=0, progress=False).fit(X, two).save("l.safetensors")
    found = pl.read_csv(io.StringIO(good(run("predict", "l.safetensors", "t.csv")).stdout))
    assert found.columns == ["probability 0", "alarm 0", "probability 1", "alarm 1"]


def test_tables_without_what_the_model_needs(folder, model):
    frame = plain()
    frame.drop("a", "kind").write_csv("t.csv")
    refused(run("predict", model, "t.csv"), "lacks 2 of the 3 columns", "'a', 'kind'", "'b', 'y'")
    frame.write_csv("t.csv")
    refused(run("predict", model, "t.csv", "--keep", "z"), "--keep: there is no column 'z'")
    refused(run("predict", model, "t.csv", "--out", "no/p.csv"), "there is no folder no")
    refused(run("predict", model, "nothing.csv"), "there is no file nothing.csv")
    refused(run("predict", model, "t.csv", "--separator", "ab"), "--separator must be one character")
    frame.with_columns(a=pl.lit("much")).write_csv("t.csv")
    refused(run("predict", model, "t.csv"), "t.csv: the column 'a' must hold numbers", "row 1, is 'much'")
    frame.rename({"y": "alarm"}).write_csv("t.csv")
    refused(run("predict", model, "t.csv", "--keep", "alarm"), "the column 'alarm' cannot be kept")
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


def test_texts_that_look_like_numbers_are_texts_if_they_were(folder):
    frame = plain().with_columns(kind=pl.when(pl.col("a") > 0).then(pl.lit("1")).otherwise(pl.lit("x")))
    frame.write_csv("t.csv")
    good(train("t.csv", "--target", "y", *FAST))
    model = sw.ScoreClassifier.load("t.safetensors")
    ones = frame.filter(pl.col("kind") == "1")
    ones.write_csv("ones.csv")  # in which the column is read as numbers
    found = pl.read_csv(io.StringIO(good(run("predict", "t.safetensors", "ones.csv")).stdout))
    expected = model.predict_proba(ones.drop("y"))[:, 1]
    np.testing.assert_allclose(found["probability"].to_numpy(), expected, rtol=1e-6)
    assert not np.allclose(
        model.predict_proba(ones.drop("y").with_columns(kind=pl.lit("?")))[:, 1], expected, rtol=1e-4
    )


def test_files_that_are_no_model(folder, model):
    plain().write_csv("t.csv")
    refused(run("predict", "t.csv", "t.csv"), "t.csv is no classifier")
    refused(run("predict", "nothing", "t.csv"), "there is no file nothing")
    refused(run("predict", ".", "t.csv"), "is a folder")
    save_file({"x": torch.zeros(2)}, "other.safetensors")
    refused(run("predict", "other.safetensors", "t.csv"), "other.safetensors is no classifier")
    save_file({"x": torch.zeros(2)}, "odd.safetensors", {"scorewise": json.dumps({"format": persistence._FORMAT})})
    refused(run("predict", "odd.safetensors", "t.csv"), "odd.safetensors is no model")
    (folder / "half.safetensors").write_bytes(model.read_bytes()[:5000])
    refused(run("predict", "half.safetensors", "t.csv"), "half.safetensors is no classifier")
    made = sw.ScoreClassifier("csi", steps=2, share=0.5, random_state=0, progress=False)
    made.fit(plain().select("a").to_numpy(), plain()["y"].to_numpy()).save("array.safetensors")
    refused(run("predict", "array.safetensors", "t.csv"), "an array of 1 columns without names")


# ------------------------------------------------------------------------------------------- as a forecaster meets it


def test_rows_without_a_label_leave_their_place_in_the_series(folder):
    noise = np.random.default_rng(2)
    n = 300
    level = np.convolve(noise.normal(size=n + 4), np.ones(5) / 2, "valid")
    y = np.where(noise.random(n) < 0.4, np.nan, level > 0.8)
    frame = pl.DataFrame({"level": level + noise.normal(size=n), "y": y, "k": range(n)}).with_columns(
        pl.col("y").fill_nan(None).cast(pl.Int64)
    )
    frame.write_csv("table.csv")
    how = ("--target", "y", "--weight", "published", *FAST, "--json")
    without = train("table.csv", *how, "--drop", "k", "--out", "a.safetensors")
    timed = good(train("table.csv", *how, "--time", "k", "--step", "1", "--out", "b.safetensors"))
    assert "the rows are taken to be in order" in good(without).stderr
    first, second = (json.loads(one.stdout) for one in (without, timed))
    assert first["evaluation"]["models"][0]["weighted"] == second["evaluation"]["models"][0]["weighted"]
    assert first["between"] == second["between"]
    assert same("a.safetensors", "b.safetensors")


def test_in_groups_rows_without_a_label_need_times(folder):
    rivers().sort("gauge", "when").drop("when").write_csv("table.csv")
    refused(train("table.csv", "--target", "flood", "--group", "gauge", "--weight", "published", *FAST), "--time")


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"])
def test_dates_in_text_are_not_learned_from(folder, form):
    rivers().with_columns(pl.col("when").dt.strftime(form)).write_csv("table.csv")
    refused(train("table.csv", "--target", "flood", "--drop", "gauge", *FAST), "'when' holds times", "--time when")


def test_predictions_can_be_judged_as_they_were_here(folder):
    frame = rivers().with_columns(w=pl.Series(np.random.default_rng(0).uniform(0.5, 2, 800)[: len(rivers())]))
    frame = frame.with_columns(w=pl.when(pl.col("flood").is_null()).then(None).otherwise("w"))
    frame.write_csv("table.csv")
    more = ("--sample-weight", "w", "--predictions", "made.csv", "--json")
    first = json.loads(good(train("table.csv", *RIVERS, *FAST, *more)).stdout)
    again = [word for word in RIVERS if word not in {"--horizon", "3"}]
    how = ("--prediction", "probability", "--threshold", repr(first["threshold"]), "--sample-weight", "w", "--json")
    second = json.loads(good(run("evaluate", "made.csv", *again, *how)).stdout)
    ours, theirs = (one["models"][0]["weighted"] for one in (first["evaluation"], second))
    assert ours == theirs


def test_a_disk_that_is_full_while_training_is_one_line(folder, monkeypatch):
    plain().write_csv("table.csv")

    def full(state, file):
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise RuntimeError("unexpected pos 64 vs 0")  # noqa: B904  # as torch.save does

    monkeypatch.setattr(torch, "save", full)
    result = train("table.csv", "--target", "y", *FAST)
    refused(result, "table.safetensors.checkpoint", "no space left", begun=True)
    assert [one.name for one in folder.iterdir()] == ["table.csv"]


def test_nothing_is_written_over_what_is_read(folder):
    plain().write_csv("table.csv")
    before = (folder / "table.csv").read_bytes()
    (folder / "link.csv").symlink_to(folder / "table.csv")
    asked = ("table.csv", "--target", "y", *FAST)
    refused(train(*asked, "--out", "table.csv"), "--out: table.csv would overwrite")
    refused(train(*asked, "--report", folder / "table.csv"), "--report")
    refused(train(*asked, "--predictions", "link.csv"), "--predictions: link.csv")
    refused(train(*asked, "--out", "one", "--predictions", "one"), "--predictions: one")
    refused(train(*asked, "--out", "one", "--report", "./one"), "--report: one")
    good(train(*asked))
    refused(run("predict", "table.safetensors", "table.csv", "--out", "table.csv"), "--out: table.csv")
    refused(run("predict", "table.safetensors", "table.csv", "--out", "table.safetensors"), "--out: table.safetensors")
    refused(run("evaluate", "table.csv", "--target", "y", "--report", "link.csv"), "--report: link.csv")
    assert (folder / "table.csv").read_bytes() == before


def test_in_a_file_options_are_called_as_on_the_command_line(folder):
    plain().write_csv("table.csv")
    (folder / "options.toml").write_text('target = "y"\njson = true\nformat = "csv"\nsteps = 4\nshare = 0.5\n')
    assert json.loads(good(train("table.csv", "--config", "options.toml")).stdout)["model"] == "table.safetensors"
    (folder / "options.toml").write_text("as-json = true\n")
    refused(train("table.csv", "--config", "options.toml"), "no option 'as-json'", "format, ", "json, ")


def test_the_report_has_the_options_of_a_file(folder):
    plain().write_csv("table.csv")
    (folder / "options.toml").write_text('target = "y"\nsteps = 4\nshare = [0.5]\ndrop = ["b"]\nquiet = true\n')
    good(train("table.csv", "--config", "options.toml", "--report", "page.html"))
    page = (folder / "page.html").read_text("utf-8")
    told = "scorewise train table.csv --target y --drop b --steps 4 --share 0.5 --report page.html --quiet"
    assert f"<bdi>{told}</bdi>" in page


def test_a_table_called_pq_is_parquet(folder):
    plain().write_csv("table.csv")
    good(train("table.csv", "--target", "y", *FAST))
    good(run("predict", "table.safetensors", "table.csv", "--out", "made.pq"))
    assert pl.read_parquet("made.pq").columns == ["probability", "alarm"]
