"""`scorewise demo`."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import scorewise as sw
from scorewise.cli import demo
from scorewise.cli.app import app
from scorewise.datasets import beijing_pm25
from scorewise.evaluation import evaluate

HOURS = {"quick": (34_824, (3600, 1800)), "whole": (0, (2 * 365 * 24, 366 * 24))}
VALUE = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)


def parts(which="quick"):
    skip, sizes = HOURS[which]
    return beijing_pm25(skip=skip).split(*sizes)


def run(*args):
    return CliRunner().invoke(app, ["demo", "--quick", *map(str, args)])


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One run for all tests: what it printed, the page, and the networks."""
    folder = tmp_path_factory.mktemp("demo")
    made = []
    with pytest.MonkeyPatch.context() as patch:
        train = demo._train
        patch.setattr(demo, "_train", lambda *args: made.append(train(*args)) or made[-1])
        result = run("--json", "--report", folder / "page.html", "--seed", 4)
    assert result.exit_code == 0, (result.output, result.exception)
    assert result.stderr == ""
    return json.loads(result.stdout), folder / "page.html", made[0]


def test_numbers_are_those_of_the_held_out_years(quick):
    found, _, ways = quick
    test = parts()[-1].known()
    models = {model["name"]: model for model in found["evaluation"]["models"]}
    assert list(models) == [demo._OURS, demo._PLAIN, demo._TUNED, demo._BALANCED]
    assert models[demo._PLAIN]["threshold"] == 0.5
    assert models[demo._TUNED]["threshold"] == ways[demo._TUNED].model.threshold_
    for name, model in models.items():
        p = ways[name].model.predict_proba(test.features.numpy())[:, 1]
        plain = sw.confusion_matrix(p, test.targets, model["threshold"])
        weighted = sw.confusion_matrix(p, test.targets, model["threshold"], VALUE, times=test.times)
        for score in ("tss", "hss", "csi", "f1"):
            assert model["plain"]["scores"][score] == pytest.approx(float(sw.scores.get(score)(plain)), abs=1e-9)
            assert model["weighted"]["scores"][score] == pytest.approx(float(sw.scores.get(score)(weighted)), abs=1e-9)


class Enough(Exception):  # noqa: N818  # no error
    """All was seen."""


def test_without_quick_the_last_two_years_are_held_out(tmp_path, monkeypatch):
    seen = []

    def train(*args):
        seen.append(args)
        raise Enough

    monkeypatch.setattr(demo, "_train", train)
    result = CliRunner().invoke(app, ["demo", "--report", str(tmp_path / "page.html")])
    assert isinstance(result.exception, Enough)
    ((given, weight, how),) = seen
    assert [(one.timestamps()[0].year, one.timestamps()[-1].year) for one in given] == [
        (2010, 2011),
        (2012, 2012),
        (2013, 2014),
    ]
    assert repr(weight) == repr(VALUE)
    assert how["steps"] == demo.STEPS


def test_all_have_the_same_network_and_budget(quick):
    _, _, ways = quick
    params = {name: way.model.get_params() for name, way in ways.items()}
    own = {"share", "balance"}
    for one in params.values():
        assert {k: repr(v) for k, v in one.items() if k not in own} == {
            k: repr(v) for k, v in params[demo._OURS].items() if k not in own
        }
    assert params[demo._PLAIN]["share"] == params[demo._BALANCED]["share"] == 0.0
    assert params[demo._BALANCED]["balance"] == 1.0
    assert params[demo._OURS]["share"] == sw.ScoreClassifier().share
    assert params[demo._OURS]["random_state"] == 4
    assert ways[demo._PLAIN].model is ways[demo._TUNED].model


def test_thresholds_are_those_of_the_classifiers_and_good_in_the_validation_year(quick):
    _, _, ways = quick
    kept = parts()[1].known()
    assert ways[demo._PLAIN].threshold == 0.5
    for name in (demo._TUNED, demo._BALANCED, demo._OURS):
        model = ways[name].model
        assert ways[name].threshold == model.threshold_
        decided = torch.from_numpy(model.predict(kept.features.numpy())).double()
        at = sw.scores.tss(sw.confusion_matrix(decided, kept.targets, 0.5, VALUE, times=kept.times))
        assert float(at) == pytest.approx(model.best_score_, abs=1e-9)


def test_a_page_is_written_with_all_that_is_told(quick):
    found, page, _ = quick
    text = page.read_text()
    for one in (demo._OURS, demo._PLAIN, demo._TUNED, demo._BALANCED, "CC BY 4.0", "scorewise demo", "PM2.5 above 250"):
        assert one in text
    assert found["report"] == str(page)
    assert found["verdict"] in text.replace("&#39;", "'")
    assert page.stat().st_size < 10_000_000


def test_what_is_printed(quick, tmp_path, monkeypatch):
    found, _, ways = quick
    monkeypatch.setattr(demo, "_train", lambda *args: ways)
    monkeypatch.chdir(tmp_path)
    result = run("--seed", 4)
    assert result.exit_code == 0, (result.output, result.exception)
    out = result.stdout
    assert "Will PM2.5 in Beijing be above 250 µg/m³ in 6 hours?" in out
    assert "held out      2014-08-04 to 2014-12-31" in out
    assert found["verdict"] in out
    assert "The report is in scorewise-demo.html." in out
    assert [path.name for path in tmp_path.iterdir()] == ["scorewise-demo.html"]
    rows = [line for line in out.splitlines() if line.startswith("│ ")]
    assert [row.split("│")[1].strip() for row in rows] == list(ways)
    for row in rows:
        name, threshold, *values = (cell.strip() for cell in row.strip("│").split("│"))
        model = next(one for one in found["evaluation"]["models"] if one["name"] == name)
        assert threshold == f"{model['threshold']:.3f}"
        expected = [model[kind]["scores"][score] for kind in ("plain", "weighted") for score in demo._SHOWN]
        assert values == [f"{value:.3f}" for value in expected]


def judged(quality, *, noise):
    """An evaluation of four made-up models: the greater the number, the better they are."""
    draws = np.random.default_rng(0)
    y = (draws.random(400) < 0.3).astype(float)
    common = draws.normal(size=400)
    names = [demo._OURS, demo._PLAIN, demo._TUNED, demo._BALANCED]
    p = {
        name: 1 / (1 + np.exp(-(good * (2 * y - 1) + common + noise * draws.normal(size=400))))
        for name, good in zip(names, quality, strict=True)
    }
    return evaluate(p, y, score="tss", weight=VALUE, threshold=0.5, times=np.arange(400), draws=50)


def test_the_verdict_is_what_the_numbers_say():
    best = demo._verdict(judged((3, 1, 0.5, 0.2), noise=0.1))
    assert "scorewise is the best of the four" in best
    assert f"{demo._PLAIN} comes next" in best
    assert "more than chance makes" in best
    worst = demo._verdict(judged((0.2, 1, 3, 0.5), noise=0.1))
    assert "scorewise is not the best here, but number 4 of the four" in worst
    assert f"{demo._TUNED} has" in worst
    assert "difference from cross entropy, tuned is -" in worst
    same = judged((1, 1, 0.2, 0.2), noise=0.0)
    assert f"scorewise is as good as {demo._PLAIN}" in demo._verdict(same)
    assert "which may be chance" in demo._verdict(same)
    without = demo._verdict(replace(same, differences=()))
    assert "chance" not in without


@pytest.mark.parametrize("where", ["no/page.html", "."])
def test_a_page_that_cannot_be_written_is_told_before_training(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_train", lambda *args: pytest.fail("it was trained"))
    result = run("--report", where)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "folder" in result.stderr
    assert not list(tmp_path.iterdir())
