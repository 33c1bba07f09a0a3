"""The robustness harness: that it notices what goes wrong, and counts what it tries."""

import json
import random
import warnings
from types import SimpleNamespace

import pytest
import torch

import scorewise as sw
from benchmarks import command, provenance
from benchmarks.quality import results
from benchmarks.robustness import batches, collapse, files, flaws, fuzz, keep, run, tables
from benchmarks.robustness.fuzz import PropertyError, Try, judge, kind_of
from tests.curve_oracles import PLAIN
from tests.weight_oracles import ALL_WEIGHTS

TARGETS = run.targets()

# ---------------------------------------------------------------------------------------------------- collapse

NEVER, ALWAYS = [1800, 0, 200, 0], [0, 1800, 0, 200]


@pytest.mark.parametrize("score", collapse.SCORES)
@pytest.mark.parametrize("constant", [NEVER, ALWAYS], ids=["never", "always"])
def test_a_constant_decision_has_collapsed(score, constant):
    assert collapse.collapsed(score, constant)


@pytest.mark.parametrize("score", collapse.SCORES)
def test_a_good_decision_has_not(score):
    assert not collapse.collapsed(score, [1750, 50, 60, 140])


def test_no_better_than_a_constant_decision_has_collapsed():
    # as many more hits as false alarms: accuracy is that of no alarm at all, and so is 0.9
    assert collapse.collapsed("accuracy", [1790, 10, 190, 10])
    assert not collapse.collapsed("accuracy", [1790, 10, 189, 11])
    # of both classes a tenth are alarms
    assert collapse.collapsed("balanced_accuracy", [1620, 180, 180, 20])
    assert not collapse.collapsed("balanced_accuracy", [1620, 180, 179, 21])
    assert collapse.collapsed("balanced_accuracy", [180, 1620, 20, 180])


def test_the_trivial_score():
    assert collapse.trivial("accuracy", [1750, 50, 60, 140]) == pytest.approx(0.9, abs=1e-15)
    assert collapse.trivial("accuracy", [100, 20, 5, 300]) == pytest.approx(305 / 425, abs=1e-15)
    assert collapse.trivial("balanced_accuracy", [1750, 50, 60, 140]) == 0.5


def test_rows_are_cut_with_the_same_rate():
    parts = collapse.rows(3)
    assert [len(part.y) for part in parts] == [6400, 1600, 2000]
    rates = [part.y.mean() for part in parts]
    assert max(rates) - min(rates) < 1 / 1600
    assert rates[0] == pytest.approx(0.1, abs=0.01)
    rows = {tuple(row) for part in parts for row in part.X.tolist()}
    assert len(rows) == 10_000


@pytest.mark.parametrize("way", collapse.ways(3), ids=lambda way: way.name)
def test_every_way_decides_all_rows(way, monkeypatch):
    monkeypatch.setattr(collapse, "EPOCHS", 1)
    row = collapse.outcome(way, "balanced_accuracy", 0, 400)
    assert list(row) == list(results.COLUMNS)
    tn, fp, fn, tp = row["matrix"]
    assert (tn + fp + fn + tp, fn + tp) == (80, 8)
    assert row["test"] == pytest.approx((tp / 8 + tn / 72) / 2, abs=1e-6)
    assert way.ours == way.name.startswith("scorewise")
    assert row == collapse.outcome(way, "balanced_accuracy", 0, 400) | {"seconds": row["seconds"]}


class Given(collapse.Way):
    """Decides as it is told."""

    def __init__(self, name, alarms, *, ours):
        self.name = self.words = name
        self.alarms, self.ours = alarms, ours

    def fit(self, train, validation, score, seed):
        return (lambda X: torch.full((len(X),), self.alarms).numpy()), 0.5


def test_ours_must_not_collapse_and_others_may(capsys):
    fits = []
    assert collapse.rows(0, 400)
    assert run.collapses([Given("theirs", False, ours=False)], 2, {}, fits.append, 400)
    assert [row["seed"] for row in fits] == [0, 1, 0, 1]
    assert not run.collapses([Given("ours", False, ours=True)], 1, {}, fits.append, 400)
    told = capsys.readouterr().out
    assert "theirs: accuracy 0.9" in told
    assert "2 of 2 collapsed" in told
    assert "COLLAPSED: ours, accuracy, seeds [0]" in told


def test_what_is_known_is_not_fitted_again():
    way, fits = Given("theirs", True, ours=False), []
    run.collapses([way], 2, {}, fits.append, 400)
    known = {results.key(row): row for row in fits[1:]}
    run.collapses([way], 2, known, fits.append, 400)
    assert [(row["score"], row["seed"]) for row in fits[4:]] == [("accuracy", 0)]


def test_fits_of_another_version_or_machine_are_made_again_and_leave_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(collapse, "ways", lambda steps=None: [Given("theirs", True, ours=False)])
    small = collapse.rows(0, 400)
    monkeypatch.setattr(collapse, "rows", lambda seed, n: small)
    folder = tmp_path / "robustness"
    results.prepare(folder)
    old = collapse.outcome(Given("theirs", True, ours=False), "accuracy", 0)
    for changed in ({"seed": 0}, {"seed": 1}, {"method": "no more"}):
        results.put(folder, old | {"versions": "python 1.0"} | changed)
    keep.gather(folder, results.read(folder).values(), {})
    run.main(["--only", "collapse", "--seeds", "1", "--out", str(folder)])
    kept = json.loads(results.table(folder).read_text())
    assert kept["versions"] == [keep.versions()]
    assert provenance.machine() in keep.versions()
    assert [row[1:4] for row in kept["rows"]] == [[score, "theirs", 0] for score in collapse.SCORES]


def test_the_claim_is_about_what_users_get():
    ours = [way for way in collapse.ways() if way.ours]
    assert [way.steps for way in ours] == [None, None]
    assert [way.words for way in ours] == [
        "ScoreClassifier(score)",
        "ScoreClassifier(score, prior=RaisedCosine(0.5, 0.1))",
    ]


# -------------------------------------------------------------------------------------------------------- fuzz


def ours():
    return sw.confusion_matrix(torch.tensor([0.5, 2.0]), torch.tensor([0, 1]))


def raising(error):
    def call():
        raise error

    return call


def warning():
    warnings.warn("beware", stacklevel=1)


def tried(call, check=lambda found: True, **rest):
    return judge(lambda r: Try(call, check, **rest), "made up", 0)


def test_what_may_come_of_an_input():
    assert tried(lambda: 1) == (None, True)
    assert tried(lambda: 1, lambda found: False) == (None, False)
    (flaw, message), compared = tried(ours, flaw="a probability of 2")
    assert (flaw, compared) == ("a probability of 2", False)
    assert message.startswith("predictions must be probabilities")
    assert tried(ours, allowed="must be probabilities")[0][0] == "what cannot be had"


@pytest.mark.parametrize(
    ("call", "rest", "told"),
    [
        (ours, {}, "refused, though sound"),
        (ours, {"allowed": "something else"}, "refused, though sound"),
        (lambda: 1, {"flaw": "something"}, "accepted in spite of something"),
        (lambda: int("x"), {"flaw": "something"}, "ValueError of another's"),
        (lambda: torch.zeros(2) + torch.zeros(3), {"flaw": "something"}, "RuntimeError"),
        (raising(IndexError("out")), {"flaw": "something"}, "IndexError"),
        (raising(SystemExit(3)), {"flaw": "something"}, "SystemExit"),
        (raising(UnicodeDecodeError("utf-8", b"x", 0, 1, "bad")), {"flaw": "something"}, "UnicodeDecodeError"),
        (warning, {}, "UserWarning"),
        (raising(fuzz.RefusedError("two\nlines")), {"flaw": "something"}, "not one line"),
        (raising(fuzz.RefusedError("")), {"flaw": "something"}, "not one line"),
        (lambda: 1, {"check": lambda found: found.nothing}, "cannot be checked"),
    ],
)
def test_all_else_is_a_failure(call, rest, told):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as outside of tests: it is the harness that makes them errors
        with pytest.raises(PropertyError, match=told):
            tried(call, **rest)


@pytest.mark.parametrize("pressed", [KeyboardInterrupt, command.Stopped])
def test_ctrl_c_ends_a_run(pressed):
    with pytest.raises(pressed):
        tried(raising(pressed()))


def test_a_command_that_was_interrupted_is_no_failure(monkeypatch):
    # polars takes Ctrl-C while it works
    ended = SimpleNamespace(exception=SystemExit(130), exit_code=130, stderr="interrupted.\n", stdout="")
    monkeypatch.setattr(files, "CliRunner", lambda: SimpleNamespace(invoke=lambda *_: ended))
    with pytest.raises(KeyboardInterrupt):
        judge(files.command, "command line", 0)


@pytest.mark.parametrize("found", [[1.0, 2.1], [1.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_numbers_that_are_not_close(found):
    fuzz.require_close([1.0, 2.0 + 1e-10], [1.0, 2.0], 1e-9, "it")
    with pytest.raises(PropertyError, match="it is"):
        fuzz.require_close(found, [1.0, 2.0], 1e-9, "it")


def test_kinds_of_messages_have_no_particulars():
    def message(values):
        with pytest.raises(ValueError, match="must be") as caught:
            sw.confusion_matrix(torch.tensor(values), torch.zeros(len(values)))
        return str(caught.value)

    one, other = message([0.5, 2.0]), message([0.5, 0.5, -7.25])
    assert one != other
    assert kind_of(one) == kind_of(other) == "predictions must be probabilities in [#, #]"
    assert len(kind_of("word " * 100)) == fuzz.LONGEST


def test_counts():
    def target(r):
        k = r.randrange(3)
        return Try([lambda: 1, ours, raising(RuntimeError("no"))][k], lambda found: True, "a flaw" if k == 1 else None)

    told = []
    tally = fuzz.run("made up", target, range(60), lambda seed, what: told.append(seed))
    refused = sum(tally.refused.values())
    assert tally.inputs == 60 == tally.accepted + refused + len(tally.failures)
    assert min(tally.accepted, refused, len(tally.failures)) > 5
    assert tally.compared == tally.accepted
    assert tally.flaws == {"a flaw": refused}
    assert told == list(tally.failures)
    # any can be made again by itself
    for seed in range(60):
        if seed in tally.failures:
            with pytest.raises(PropertyError, match="RuntimeError"):
                judge(target, "made up", seed)
        else:
            judge(target, "made up", seed)
    record = tally.record()
    assert record["failures"].keys() == {str(seed) for seed in told}
    assert {"versions", "date", "seconds"} <= record.keys()


# ------------------------------------------------------------------------------------------------------ inputs


def rng(seed):
    return random.Random(seed)  # noqa: S311  # no secret


def test_a_batch_is_made_again_by_its_seed():
    one, other, third = (batches.batch(rng(seed), PLAIN) for seed in (5, 5, 6))
    assert torch.equal(one.x, other.x)
    assert one.decided == other.decided
    assert one.x.shape != third.x.shape or not torch.equal(one.x, third.x)


def test_batches_are_of_all_kinds():
    some = [batches.batch(rng(seed), kind) for kind in (PLAIN, *ALL_WEIGHTS[:5]) for seed in range(150)]
    assert {one.x.dtype for one in some} == set(batches.DTYPES)
    assert {one.labels for one in some} == {None, 1, 2, 3}
    assert {one.x.shape[0] for one in some} == set(batches.SIZES)
    names = {name for one in some for name in one.context}
    assert names == {"groups", "times", "mask", "sample_weight", "costs"}
    assert any(one.x.numel() and not one.keep.any() for one in some)
    assert any(one.x.isnan().any() for one in some)
    assert any(one.x.abs().nan_to_num(0, 0, 0).max() > 1e29 for one in some if one.x.numel())
    assert any(bool(one.y.double().gt(0).logical_and(one.y.double().lt(1)).any()) for one in some)
    for one in some:  # what counts is known
        assert one.x[one.keep].isfinite().all()
        assert one.y[one.keep].double().isfinite().all()


@pytest.mark.parametrize("name", list(flaws.FLAWS))
def test_every_flaw_is_refused(name):
    value = next(kind for kind in ALL_WEIGHTS if kind.reads_windows and not kind.integrated)
    spoiled = 0
    for seed in range(30):
        r = rng(seed)
        one = batches.batch(r, value, from_logits=True)
        given = flaws.arguments(one)
        if not flaws.FLAWS[name].spoil(r, one, given):
            continue
        spoiled += 1
        x, y = given.pop("x"), given.pop("y")
        with pytest.raises((ValueError, TypeError)) as caught:
            sw.expected_confusion_matrix(x, y, None, value.make(), from_logits=True, **given)
        assert fuzz.ours(caught.value)
    assert spoiled > 3


@pytest.mark.parametrize("name", list(TARGETS))
def test_inputs_of_every_target(name):
    count = {"command line": 12, "evaluate": 25}.get(name, 60)
    tally = fuzz.run(name, TARGETS[name], range(count))
    assert not tally.failures
    assert tally.accepted > 0
    assert sum(tally.refused.values()) > 0
    assert (tally.compared > 0) == (name != "command line")  # which has no oracle


@pytest.mark.parametrize(
    ("name", "where", "what"),
    [
        ("confusion_matrix", "confusion_matrix", "the matrix is"),
        ("expected_confusion_matrix", "expected_confusion_matrix", "the matrix is"),
    ],
)
def test_a_wrong_matrix_is_noticed(name, where, what, monkeypatch):
    right = getattr(sw, where)

    def wrong(x, y, *args, **rest):
        found = right(x, y, *args, **rest)
        return sw.ConfusionMatrix(found.tn, found.fp, found.tp, found.fn)

    monkeypatch.setattr(sw, where, wrong)
    tally = fuzz.run(name, TARGETS[name], range(60))
    assert any(failure.startswith(what) for failure in tally.failures.values())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda value: value + 0.01, "the score is"),
        (lambda value: value * float("nan"), "the gradient is"),
        (lambda value: value.detach().requires_grad_(), "there is no gradient"),
        (lambda value: value - 1e3, "the score is"),
        (lambda value: value[None], "the loss has the shape"),
    ],
)
def test_a_wrong_loss_is_noticed(change, what, monkeypatch):
    right = sw.ScoreLoss.forward
    monkeypatch.setattr(sw.ScoreLoss, "forward", lambda self, *args, **rest: change(right(self, *args, **rest)))
    tally = fuzz.run("ScoreLoss", TARGETS["ScoreLoss"], range(40))
    assert any(failure.startswith(what) for failure in tally.failures.values())


def test_a_wrong_threshold_is_noticed(monkeypatch):
    right = sw.ScoreCurve.best
    monkeypatch.setattr(sw.ScoreCurve, "best", lambda self, **rest: (float(self.thresholds[0]), right(self, **rest)[1]))
    tally = fuzz.run("curves", TARGETS["curves"], range(60))
    assert any(failure.startswith(("the curve is", "best_threshold is")) for failure in tally.failures.values())


def test_errors_that_are_lost_are_noticed(monkeypatch):
    monkeypatch.setattr("scorewise.confusion.check_now", lambda batch: None)
    tally = fuzz.run("confusion_matrix", TARGETS["confusion_matrix"], range(150))
    assert any(failure.startswith("accepted in spite of") for failure in tally.failures.values())


# ----------------------------------------------------------------------------------------------------- running


@pytest.fixture
def small(monkeypatch):
    """One target, of which every seventh input fails."""

    def target(r):
        k = r.randrange(7)
        return Try(ours if k else raising(RuntimeError("no")), lambda found: True, "a flaw" if k else None)

    monkeypatch.setattr(run, "targets", lambda: {"made up": target})
    monkeypatch.setattr(run, "SHARES", {"made up": 0.5})


def test_a_failure_is_the_exit_code(small, tmp_path, capsys):
    with pytest.raises(SystemExit, match="1"):
        run.main(["--only", "fuzz", "--inputs", "200", "--out", str(tmp_path / "robustness")])
    told = capsys.readouterr().out
    assert "made up: 100 inputs" in told
    record = keep.records(tmp_path / "robustness")["made up"]
    assert record["inputs"] == 100
    seed = next(iter(record["failures"]))
    assert f"made up:{seed} RuntimeError" in told
    with pytest.raises(SystemExit, match="1"):
        run.main(["--replay", f"made up:{seed}"])
    assert f"made up:{seed} (sound) FAILED: RuntimeError" in capsys.readouterr().out


def test_a_replay_of_what_is_well(small, capsys):
    seed = next(k for k in range(50) if rng(f"made up:{k}").randrange(7))
    with pytest.raises(SystemExit, match="0"):
        run.main(["--replay", f"made up:{seed}"])
    assert f"made up:{seed} (a flaw) refused: predictions must be" in capsys.readouterr().out


def refused(capsys, *arguments):
    """What is said of arguments that cannot be meant."""
    with pytest.raises(SystemExit, match="2"):
        run.main(list(map(str, arguments)))
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("what", ["", "3", "nobody:3", "made up:", "made up:x", "made up:1-y", "made up:9-3"])
def test_a_replay_of_nothing(what, small, capsys):
    told = refused(capsys, "--replay", what)
    assert (
        f"--replay takes TARGET:NUMBER or TARGET:FIRST-LAST, the first no greater than the last, saw {what!r}" in told
    )


def test_a_replay_of_a_span(small, capsys):
    with pytest.raises(SystemExit):
        run.main(["--replay", "made up:7-7"])
    with pytest.raises(SystemExit):
        run.main(["--replay", "made up:8-10"])
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in told] == ["up:7", "up:8", "up:9", "up:10"]


@pytest.mark.parametrize(("only", "option"), [("fuzz", "--inputs"), ("collapse", "--seeds")])
@pytest.mark.parametrize("number", ["0", "-5", "few"])
def test_a_number_that_is_none_is_refused(only, option, number, small, tmp_path, capsys):
    told = refused(capsys, "--only", only, option, number, "--out", tmp_path / "robustness")
    assert f"argument {option}: must be a whole number of at least 1, saw '{number}'" in told
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("mine")
    for out, why in ((file, "File exists"), (file / "kept", "Not a directory")):
        told = refused(capsys, "--only", "fuzz", "--out", out)
        assert f"{out} cannot be a folder for results: {why}. Name another with --out." in told
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("only", ["fuzz", "collapse"])
def test_a_file_that_is_no_result_is_named(only, tmp_path, capsys):
    (tmp_path / "stray.json").write_text('{"seed": 3}')
    assert "stray.json holds no results" in refused(capsys, "--only", only, "--out", tmp_path)
    (tmp_path / "stray.json").unlink()
    tmp_path.with_suffix(".json").write_text("{")
    assert f"{tmp_path.name}.json is no JSON" in refused(capsys, "--only", only, "--out", tmp_path)
    assert not list(tmp_path.iterdir())


def test_known_counts_are_not_made_again(small, tmp_path, capsys):
    done = []
    run.fuzzed(40, {}, done.append)
    (record,) = done
    known = {"made up": record}
    for inputs, versions, again in ((40, record["versions"], 1), (40, "others", 2), (60, record["versions"], 3)):
        run.fuzzed(inputs, {"made up": known["made up"] | {"versions": versions}}, done.append)
        assert len(done) == again


@pytest.fixture
def committed(small, tmp_path, monkeypatch):
    """A table of inputs and fits where the committed one is, and its page."""
    monkeypatch.setattr(run, "targets", lambda: {"made up": lambda r: Try(ours, lambda found: True, "a flaw")})
    monkeypatch.setattr(collapse, "ways", lambda steps=None: [Given("theirs", True, ours=False)])
    cut = collapse.rows(0, 400)
    monkeypatch.setattr(collapse, "rows", lambda seed, n: cut)
    monkeypatch.setattr(keep, "FOLDER", tmp_path / "robustness")
    monkeypatch.setattr(tables, "PAGE", tmp_path / "ROBUSTNESS.md")
    run.main(["--inputs", "200", "--seeds", "2", "--out", str(keep.FOLDER)])
    assert tables.PAGE.exists()
    return keep.FOLDER


def test_the_committed_results_give_way_to_no_fewer(committed, tmp_path, monkeypatch, capsys):
    table = results.table(committed)
    before = table.read_bytes()
    fewer = [["--only", "fuzz", "--inputs", "198"], ["--inputs", "198", "--seeds", "2"]]
    for arguments in (arguments + more for arguments in fewer for more in ([], ["--again"])):
        told = refused(capsys, *arguments, "--out", committed)
        assert f"--inputs 198 makes 99 of made up, and 100 are kept in {committed}. Ask for no fewer, or name" in told
    for arguments in (["--only", "collapse", "--seeds", "1"], ["--inputs", "200", "--seeds", "1", "--again"]):
        assert "--seeds 1 makes 1 of each fit, and 2 are kept" in refused(capsys, *arguments, "--out", committed)
    monkeypatch.chdir(tmp_path)
    assert "are kept in robustness." in refused(capsys, "--inputs", 10, "--out", "robustness")
    assert table.read_bytes() == before
    # elsewhere, or of the other part, it may be as few as one likes
    for _ in range(2):
        run.main(["--inputs", "10", "--seeds", "1", "--out", str(tmp_path / "elsewhere")])
        run.main(["--inputs", "2", "--seeds", "1", "--out", str(tmp_path / "elsewhere")])
    run.main(["--quick", "--inputs", "10", "--only", "fuzz", "--out", str(committed)])
    run.main(["--only", "fuzz", "--inputs", "200", "--seeds", "1", "--out", str(committed)])
    run.main(["--only", "collapse", "--inputs", "1", "--seeds", "2", "--out", str(committed)])
    assert table.read_bytes() == before
    run.main(["--only", "fuzz", "--inputs", "400", "--out", str(committed)])
    assert keep.records(committed)["made up"]["inputs"] == 200


def test_the_defaults_are_no_fewer_than_are_committed():
    kept = keep.records(keep.FOLDER)
    assert {name: record["inputs"] for name, record in kept.items()} == {
        name: run._share(run.INPUTS, name) for name in run.SHARES
    }
    assert {seed for *_, seed in results.read(keep.FOLDER)} == set(range(run.SEEDS))


def test_the_quick_form_keeps_nothing(small, tmp_path, monkeypatch):
    monkeypatch.setattr(
        collapse, "ways", lambda steps=None: [Given("ours", True, ours=True), Given("theirs", 1, ours=False)]
    )
    monkeypatch.setattr(run, "QUICK_ROWS", 400)
    with pytest.raises(SystemExit, match="1"):
        run.main(["--quick", "--only", "collapse", "--out", str(tmp_path / "robustness")])
    assert not list(tmp_path.iterdir())


# -------------------------------------------------------------------------------------------------------- page


def test_a_table_and_its_page(tmp_path):
    folder = tmp_path / "robustness"
    results.prepare(folder)
    names = ["scorewise_default", "published_0.001_128", "gone_by_now", "bce_half"]
    for name in names:
        for seed in range(2):
            matrix = [1800, 0, 200, 0] if name == "published_0.001_128" and seed else [1750, 50, 60, 140]
            common = {"set": collapse.SET, "score": "accuracy", "method": name, "seed": seed, "matrix": matrix}
            value = round(collapse.value("accuracy", matrix), 6)
            results.put(folder, common | {"test": value, "seconds": 1.0, "versions": "v 1", "date": "2026-01-02"})
    tally = fuzz.run("made up", lambda r: Try(ours, lambda found: True, "a flaw"), range(1200))
    keep.gather(folder, results.read(folder).values(), {"made up": tally.record()})
    first = results.read(folder)
    for path in folder.glob("*.json"):
        path.unlink()
    assert results.read(folder) == first  # the table alone has all of it
    other = tally.record() | {"target": "other", "failures": {"7": "a | b"}, "versions": "v 2, elsewhere"}
    keep.gather(folder, first.values(), {"other": other})
    assert list(keep.records(folder)) == ["made up", "other"]

    text = tables.page(results.read(folder).values(), keep.records(folder))
    assert "| made up | 1,200 | 0 | 0 | 1,200 | 0 |" in text
    assert "| **all** | 2,400 | 0 | 0 | 2,400 | 1 |" in text
    assert "| predictions must be probabilities in [#, #] | 2,400 |" in text
    assert "| `other:7` | a \\| b |" in text
    assert "| as published, Adam 0.001, batches of 128 | 1 of 2 | 0.922 | 0.900 | 0.945 | 1.0 |" in text
    lines = ("| as published", "| cross entropy at 0.5", "| ScoreClassifier(score) |", "| gone_by_now |")
    places = [text.index(told) for told in lines]
    assert places == sorted(places)
    # with what and where each was made, wherever the table was gathered
    assert f"- 1 of 2 targets of random inputs, {other['date']}: {keep.versions()}\n" in text
    assert f"- 1 of 2 targets of random inputs, {other['date']}: v 2, elsewhere\n" in text
    assert "- 8 of 8 fits, 2026-01-02: v 1\n" in text


def test_a_page_of_nothing():
    assert "no results yet" in tables.page([], {})


def test_the_page_is_that_of_the_table():
    found = tables.page(results.read(keep.FOLDER).values(), keep.records(keep.FOLDER))
    assert found == tables.PAGE.read_text()
