"""The speed harness: that it times fairly, tells the spread, names who is absent, and fails on wrong results.

No test asserts a time.
"""

import itertools
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import linregress

import scorewise as sw
from benchmarks import (
    aims,
    bandwidth,
    checks,
    exponents,
    figure,
    imports,
    loss_peers,
    page,
    peers,
    provenance,
    speed,
    timing,
    weights,
)
from benchmarks.timing import Times

ROOT = Path(__file__).parent.parent


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a call says so."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def takes(seconds):
        passing = itertools.cycle(seconds)

        def call():
            now[0] += next(passing)

        return call

    return takes


# ----------------------------------------------------------------------------------------------------- timing


@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_quartiles_are_those_of_numpy(n):
    seconds = np.random.default_rng(n).random(n)
    found = Times.of(seconds.tolist())
    np.testing.assert_allclose([found.low, found.median, found.high], np.quantile(seconds, [0.25, 0.5, 0.75]))
    assert found.runs == n


def test_a_single_time_has_no_spread():
    assert Times.of([0.5]) == Times(0.5, 0.5, 0.5, 1)


def test_turns_go_on_for_the_time_that_was_given_and_give_each_call_the_same_number(clock):
    found = timing.take_turns({"quick": clock([0.1]), "slow": clock([0.2])}, 6.0, "cpu")
    # 0.3 s a turn
    assert found["quick"].runs == found["slow"].runs == 20
    assert found["slow"].median == pytest.approx(0.2)


def test_there_are_enough_turns_even_of_slow_calls_and_one_only_where_no_time_was_given(clock):
    assert timing.take_turns({"slow": clock([100.0])}, 1.0, "cpu")["slow"].runs == timing.LEAST
    assert timing.take_turns({"slow": clock([100.0])}, 0, "cpu")["slow"].runs == 1


def test_first_calls_are_not_counted(clock):
    # Two to warm up, where they are quick, then as many as there are turns.
    found = timing.take_turns({"cold at first": clock([0.2, 0.2, *[0.001] * 100])}, 0.0075, "cpu")
    assert found["cold at first"] == Times(*[pytest.approx(0.001)] * 3, 8)


def test_rows_tell_spread_and_the_ratio_to_the_first():
    first, second = timing.rows(8, {"base": Times(1e-6, 2e-6, 3e-6, 7), "other": Times(4e-6, 5e-6, 9e-6, 7)})
    assert first == {"n": 8, "what": "base", "microseconds": 2.0, "low": 1.0, "high": 3.0, "runs": 7, "ratio": 1.0}
    assert (second["ratio"], second["low"], second["high"]) == (2.5, 4.0, 9.0)


def test_a_step_returns_the_gradient_of_this_step_alone():
    z = torch.zeros(3, requires_grad=True)
    call = timing.step(lambda z, y: (z * y).sum(), z, torch.tensor([1.0, 2.0, 3.0]))
    call()
    torch.testing.assert_close(call(), torch.tensor([1.0, 2.0, 3.0]))


# -------------------------------------------------------------------------------------------------- exponents


@pytest.mark.parametrize("b", [0.5, 1.0, 1.3, 2.0])
def test_the_exponent_of_a_power_is_found_without_error(b):
    sizes = [1 << k for k in range(10, 21)]
    found = exponents.exponent(sizes, [3e-6 * n**b for n in sizes])
    assert found["b"] == pytest.approx(b, abs=1e-4)
    assert found["error"] == 0
    assert found["to"] == 1 << 20


def test_exponents_and_their_errors_are_those_of_scipy():
    rng = np.random.default_rng(0)
    sizes = np.array([1 << k for k in range(8, 20)])
    times = 1e-6 * sizes**1.1 * np.exp(0.1 * rng.normal(size=12))
    found = exponents.exponent(sizes.tolist(), times.tolist())
    inside = sizes >= found["from"]
    expected = linregress(np.log(sizes[inside]), np.log(times[inside]))
    assert found["points"] == inside.sum() >= 8
    assert (found["b"], found["error"]) == pytest.approx((expected.slope, expected.stderr), abs=1e-4)


def test_sizes_at_which_fixed_costs_dominate_do_not_count():
    sizes = [1 << k for k in range(10, 23)]
    times = [1e-3 + 1e-9 * n for n in sizes]
    found = exponents.exponent(sizes, times)
    # 1 ms + n ns is 4 ms where n is 3 million
    assert found is None
    longer = [1 << k for k in range(10, 27)]
    found = exponents.exponent(longer, [1e-3 + 1e-9 * n for n in longer])
    assert (found["from"], found["points"]) == (1 << 22, 5)
    assert 0.9 < found["b"] < 1


@pytest.mark.parametrize(("first", "last"), [(1 << 10, 1 << 20), (1 << 27, 1 << 29)])
def test_the_exponent_of_sorting_is_that_of_its_power_between_two_sizes(first, last):
    b = exponents.of_sorting(first, last)
    assert last * math.log(last) == pytest.approx(first * math.log(first) * (last / first) ** b)
    assert 1 < b < 1.2


def test_a_dip_after_the_limit_begins_the_range_anew():
    # 8 s, then 1.5 s again: only what follows counts
    assert exponents.exponent([1, 2, 4, 8, 16, 32], [1, 8, 1.5, 8, 16, 32])["from"] == 8


def test_all_that_grows_has_an_exponent_or_says_that_it_has_none():
    grows = [{"n": n, "what": "tss", "microseconds": 1.0 * n} for n in (1, 4, 16, 64, 256)]
    flat = [{"n": n, "what": "flat", "microseconds": 5.0} for n in (1, 4, 16)]
    lost = [{"n": 4, "what": "flat", "left_out": "slow"}]
    lags = [{"over": "T", "n": 7, "T": t, "microseconds": 2.0 * t**2} for t in (1, 2, 4, 8, 16)]
    found = exponents.fitted({"peers": grows + flat + lost, "growth": lags})
    assert [(row["what"], row["over"], row["b"]) for row in found] == [
        ("tss", "n", 1.0),
        ("flat", "n", None),
        ("", "T", 2.0),
    ]


# ------------------------------------------------------------------------------------------------------ peers


@pytest.mark.parametrize("package", ["monai", "libauc", "torchmetrics"])
def test_a_peer_that_is_not_installed_is_named(package, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)  # what makes an import of it fail
    if package == "torchmetrics":
        rows, absent = loss_peers.metrics(64, 0, "cpu")
        assert {row["what"] for row in rows} == {"scorewise"}
    else:
        rows, absent = loss_peers.compare([64], 0, "cpu")
        assert not any(package in row["what"].lower() for row in rows)
        assert {name for name in absent if package in name.lower()} == {
            name for name in loss_peers._MAKERS if package in name.lower()
        }
    assert any(package in why for why in absent.values())


def test_who_would_take_too_long_is_left_out_and_named(monkeypatch):
    def slow(_):
        return lambda z, _: z.sum()

    monkeypatch.setattr(loss_peers, "_MAKERS", {"slow": slow})

    def told(calls, seconds, device):
        assert seconds == 2
        return {what: Times.of([0.3 if what == "slow" else 0.001]) for what in calls}

    monkeypatch.setattr(loss_peers, "take_turns", told)
    rows, absent = loss_peers.compare([64, 128, 256], 2, "cpu")
    assert absent == {}
    assert [row for row in rows if row["what"] == "slow" and "left_out" not in row] == [
        {"n": 64, "what": "slow", "microseconds": 3e5, "low": 3e5, "high": 3e5, "runs": 1, "ratio": 300.0}
    ]
    assert [(row["n"], row["left_out"]) for row in rows if "left_out" in row] == [
        (128, "a step took 0.3 s at n = 64"),
        (256, "a step took 0.3 s at n = 64"),
    ]
    assert sum(row["what"] == "tss" and "ratio" in row for row in rows) == 3


def test_peers_are_pinned_and_none_is_among_those_that_break_torch():
    lines = (ROOT / "benchmarks" / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert {re.fullmatch(r"([a-z-]+)==[\d.]+", pin)[1] for pin in pins} == {"libauc", "monai"}


def test_metrics_ask_the_same_of_both():
    pytest.importorskip("torchmetrics")
    rows, absent = loss_peers.metrics(2000, 0, "cpu")
    assert absent == {}
    for asked in {row["asked"] for row in rows}:
        ours, exact, *grid = [row["value"] for row in rows if row["asked"] == asked]
        assert exact == pytest.approx(ours, abs=1e-6)
        assert all(value <= ours + 1e-6 for value in grid)


# ------------------------------------------------------------------------------ the rest of what is measured


def test_imports_that_fail_are_named_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(imports, "STATEMENTS", {"json": "import json", "none": "import surely_not_there"})
    rows, absent = imports.compare(3)
    assert [(row["what"], row["runs"]) for row in rows] == [("json", 3)]
    assert absent == {"none": "ModuleNotFoundError: No module named 'surely_not_there'"}
    assert imports.compare(1)[0][0]["runs"] == 1


def test_bandwidth_is_what_must_move_over_time_and_a_share_of_the_copy(monkeypatch):
    monkeypatch.setattr(loss_peers, "_MAKERS", {"AUCM, LibAUC": lambda _: lambda z, _: z.sum()})
    copied = []

    def told(calls, seconds, device):
        copied.append(calls[bandwidth.COPY]())
        return {what: Times.of([1e-6 if what == bandwidth.COPY else 4e-6]) for what in calls}

    monkeypatch.setattr(bandwidth, "take_turns", told)
    copy, *losses, lost = bandwidth.compare(1000, 1, "cpu")
    assert copied[0].nbytes == 10_000  # read once and written once: 20 bytes a sample
    assert copied[0].eq(1).all()
    assert (copy["gb_per_s"], copy["share"]) == (20.0, 1.0)
    assert {(row["gb_per_s"], row["share"]) for row in losses} == {(5.0, 0.25)}
    assert {row["what"] for row in losses} == set(loss_peers.ours())
    assert lost["what"] == "AUCM, LibAUC"
    assert "Python" in lost["left_out"]


def test_a_graphics_card_that_is_too_small_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**9, 10**9))
    assert loss_peers.no_room(1 << 20, "cuda") == ""
    (row,) = bandwidth.compare(1 << 26, 1, "cuda")
    assert row["left_out"] == "needs 11 GB, 1 GB are free"


def test_memory_of_a_loss_is_measured_in_a_process_of_its_own():
    n = 1 << 20
    # A gradient of 4 MiB, one square of 4, and pages at the edges.
    assert 8 * n <= timing.peak_memory("lambda z, y: ((z - y) ** 2).sum()", n) <= 24 * n


def test_fits_take_turns_and_all_are_counted(monkeypatch):
    rows = peers.fits(120, 4, 3, steps=2)
    assert {row["what"] for row in rows} >= {"ScoreClassifier", "MLPClassifier"}
    assert {(row["runs"], row["columns"]) for row in rows} == {(3, 4)}
    assert all(row["low"] <= row["microseconds"] <= row["high"] for row in rows)
    assert rows[0]["ratio"] == 1
    monkeypatch.setattr(peers, "fits", lambda n, columns, times: [(n, times)])
    assert all(times >= 3 for _, times in speed.PARTS["fits"].measure("cpu", False)["fits"])


def test_a_commit_is_what_was_told_or_what_git_knows(monkeypatch):
    def nothing(*_, **__):
        raise OSError("no git")

    monkeypatch.delenv("SCOREWISE_COMMIT", raising=False)
    assert re.fullmatch(r"[0-9a-f]+\+?|unknown commit", provenance._commit())
    monkeypatch.setenv("SCOREWISE_COMMIT", "abc123")
    assert provenance._commit() == "abc123"  # a checkout that code was copied into may stand elsewhere
    monkeypatch.delenv("SCOREWISE_COMMIT")
    monkeypatch.setattr(provenance.subprocess, "run", nothing)
    assert provenance._commit() == "unknown commit"


def test_every_commit_of_a_result_can_be_looked_up_or_is_told():
    told = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    named = {commit for text in told.values() for commit in re.findall(r"scorewise [\d.]+ \((\w+)\+?\)", text)}
    assert named

    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)  # noqa: S603, S607  # fixed words

    def published(commit):
        return git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("this is no checkout, or one without its history")
    assert {commit for commit in named if not published(commit)} == set(provenance.SAME_PACKAGE)
    for commit, same in provenance.SAME_PACKAGE.items():
        assert published(same)
        assert f"{commit} is not in the published history" in provenance.unpublished(told.values())
    assert provenance.unpublished(["scorewise 0.1.0 (d61ad20), torch"]) == ""


# ----------------------------------------------------------------------------------------------------- checks


def test_what_is_timed_is_right():
    wrong, unchecked = checks.run("cpu")
    assert wrong == []
    assert all(told.startswith("peers: ") for told in unchecked)  # MONAI and LibAUC may not be there


def test_what_is_no_number_is_apart_from_all():
    assert list(checks._apart("this", [1.0, math.nan], [1.0, 2.0], 1e-3))
    assert not list(checks._apart("this", [1.0, 2.0], [1.0, 2.0005], 1e-3))


class Off(sw.ScoreLoss):
    """A loss that is a little off."""

    def forward(self, *arguments, **more):
        return 1.0001 * super().forward(*arguments, **more)


@pytest.mark.parametrize("check", ["scores", "value", "exact"])
def test_a_loss_that_is_a_little_off_is_seen(check, monkeypatch):
    monkeypatch.setattr(sw, "ScoreLoss", Off)
    assert any("differs by" in told for told in getattr(checks, check)("cpu"))


class Flat(sw.ScoreLoss):
    """A loss whose gradient is nothing."""

    def forward(self, logits, *arguments, **more):
        return super().forward(logits, *arguments, **more).detach() + 0 * logits.sum()


class Broken(sw.ScoreLoss):
    """A loss whose gradient is no number."""

    def forward(self, logits, *arguments, **more):
        return super().forward(logits, *arguments, **more) + (0 * logits).sqrt().sum()


@pytest.mark.parametrize("loss", [Flat, Broken])
def test_gradients_that_are_nothing_or_no_numbers_are_seen(loss, monkeypatch):
    monkeypatch.setattr(sw, "ScoreLoss", loss)
    told = list(checks.gradients("cpu"))
    assert {f"the result of scores, score {name} must be finite and not all zero" for name in sw.scores.names()} <= {
        *told
    }
    assert not any("cross entropy" in line for line in told)


@pytest.mark.parametrize("value", [False, True])
def test_a_threshold_that_is_not_the_best_is_seen(value, monkeypatch):
    best = sw.best_threshold

    def worse(p, y, score, weight=None, **more):
        return best(p, y, score, weight, **more) + (0.02 if (weight is not None) == value else 0)

    monkeypatch.setattr(sw, "best_threshold", worse)
    (told,) = checks.thresholds("cpu")
    assert ("value-weighted" in told) == value


def test_what_was_found_stays_when_the_rest_cannot_be_checked(monkeypatch):
    def half(_):
        yield "this is wrong"
        raise ImportError("that is not installed")

    monkeypatch.setattr(checks, "scores", half)
    for name in ("value", "exact", "gradients", "thresholds", "metrics", "peers", "parts", "fits", "lazy"):
        monkeypatch.setattr(checks, name, lambda _: iter(()))
    assert checks.run("cpu") == (["half: this is wrong"], ["half: that is not installed"])


def test_the_loop_over_samples_is_the_theorem():
    # One event, an alarm an hour before it: what FN loses is ω · (p_before − p_now)⁺, what FP keeps is 1 − ω.
    p, omega = [0.6, 0.2], [0.5]
    z = torch.tensor([math.log(q / (1 - q)) for q in p], dtype=torch.float64)
    found = weights.by_loop(z, torch.tensor([0.0, 1.0], dtype=torch.float64), omega)
    fn, fp = 0.8 - 0.5 * 0.4, 0.5 * 0.6
    assert found.item() == pytest.approx(-(0.2 / (0.2 + fn) + 0.4 / (0.4 + fp) - 1), abs=1e-12)


# ---------------------------------------------------------------------------------------------------- command


def quickly(monkeypatch, wrong=(), parts=("memory",)):
    """No checks, and parts that take no time."""
    monkeypatch.setattr(checks, "run", lambda device: (list(wrong), ["peers: not there"]))
    row = {"n": 4, "what": "tss", "bytes_per_sample": 8.0}
    part = speed.Part(lambda device, quick: {"memory": [row], "absent": {"MONAI": "not there"}}, 1)
    monkeypatch.setattr(speed, "PARTS", dict.fromkeys(parts, part))


def test_quick_fails_on_wrong_results_and_on_nothing_else(monkeypatch, capsys):
    quickly(monkeypatch)
    speed.main(["--quick"])
    assert "not checked: peers: not there" in capsys.readouterr().out
    quickly(monkeypatch, ["tss: differs"])
    with pytest.raises(SystemExit, match="results that are wrong:\ntss: differs"):
        speed.main(["--quick"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(page, "PAGE", tmp_path / "README.md")
    monkeypatch.setattr(page, "FIGURE", tmp_path / "figures" / "speed.svg")
    return tmp_path


def test_results_are_kept_with_machine_versions_and_date(folder, monkeypatch):
    quickly(monkeypatch)
    speed.main(["--write"])
    kept = json.loads((folder / "results" / "speed-cpu.json").read_text())
    assert kept["memory"] == [{"n": 4, "what": "tss", "bytes_per_sample": 8.0}]
    assert kept["torch"] == torch.__version__
    made = kept["measured"]["memory"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["date"])
    assert re.search(rf"scorewise {re.escape(sw.__version__)} \((unknown commit|[0-9a-f]+\+?)\), torch ", made["with"])
    assert "scikit-learn" in made["with"]
    told = (folder / "README.md").read_text()
    assert f"Measured on {kept['machine']}:\n\n- memory: {made['date']}, with {made['with']}\n" in told
    assert "Not there, and so not measured: MONAI (not there)." in told
    assert "| tss | 4 | 8.0 |" in told


def test_one_part_alone_keeps_the_others_unless_they_are_from_elsewhere(folder, monkeypatch, capsys):
    quickly(monkeypatch, parts=("memory", "other"))
    with pytest.raises(SystemExit):
        speed.main(["--write", "--only", "memory"])
    assert "there is no speed-cpu.json to add to" in capsys.readouterr().err
    path = folder / "results" / "speed-cpu.json"
    path.parent.mkdir()
    before = {"date": "2020-01-01", "with": "scorewise 0.0 (abcdef)"}
    old = speed.about("cpu") | {"imports": [], "measured": {"imports": before}}
    path.write_text(json.dumps(old | {"imports": [{"what": "x", "microseconds": 1.0, "runs": 1, "ratio": 1}]}))
    speed.main(["--write", "--only", "memory"])
    kept = json.loads(path.read_text())
    assert kept["imports"][0]["what"] == "x"
    # what was kept is not said to be of today's code
    assert kept["measured"] == {"imports": before, "memory": kept["measured"]["memory"]}
    told = (folder / "README.md").read_text()
    assert "- imports: 2020-01-01, with scorewise 0.0 (abcdef)\n" in told
    assert f"- memory: {kept['measured']['memory']['date']}, with python " in told
    path.write_text(json.dumps(old | {"torch": "1.0"}))
    with pytest.raises(SystemExit):
        speed.main(["--write", "--only", "memory"])
    assert f"measured with torch = 1.0, this is {torch.__version__}; measure all" in capsys.readouterr().err


@pytest.mark.parametrize("machine", ["another, 96 cores, Linux", None])
def test_parts_of_two_machines_are_not_mixed(machine, folder, monkeypatch, capsys):
    quickly(monkeypatch)
    path = folder / "results" / "speed-cpu.json"
    path.parent.mkdir()
    old = speed.about("cpu") | {"machine": machine, "measured": {}}
    path.write_text(json.dumps({name: value for name, value in old.items() if value is not None}))
    with pytest.raises(SystemExit):
        speed.main(["--write", "--only", "memory"])
    told = f"measured with machine = {machine or 'unknown'}, this is {provenance.machine()}; measure all"
    assert told in capsys.readouterr().err


def test_parts_that_know_no_device_are_refused_there(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        speed.main(["--device", "cuda", "--only", "fits", "imports"])
    assert "fits, imports: only with --device cpu." in capsys.readouterr().err


@pytest.mark.parametrize("how", [[], ["--quick"], ["--write"]])
def test_a_graphics_card_that_is_not_there_is_told(how, folder, monkeypatch, capsys):
    quickly(monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        speed.main([*how, "--device", "cuda"])
    seen = capsys.readouterr()
    told = f"--device cuda: PyTorch {torch.__version__} finds no graphics card here. Use --device cpu."
    assert told in seen.err.splitlines()[-1]
    assert not seen.out
    assert not list(folder.iterdir())


def test_a_whole_run_is_planned_for_less_than_ten_minutes():
    assert sum(part.seconds for part in speed.PARTS.values()) < 600


# ------------------------------------------------------------------------------------------------------- page


def made_up():
    """Results of a run, with all that a page can have of peers."""
    losses = {"binary cross entropy": (100.0, 0.005), "tss": (400.0, 0.006), "AUCM, LibAUC": (900.0, 3.0)}
    peers = [
        {"n": n, "what": what, "microseconds": t, "low": 0.9 * t, "high": 1.2 * t, "runs": 9, "ratio": t / 100}
        for n in (1 << k for k in range(10, 17))
        for what, (fixed, each) in losses.items()
        for t in [fixed + each * n]
    ]
    peers[-1] = {"n": 1 << 16, "what": "AUCM, LibAUC", "left_out": "a step took 0.5 s at n = 32,768"}
    moved = {"n": 64, "what": "tss", "microseconds": 5.0, "low": 4.0, "high": 6.0, "runs": 9}
    return speed.about("cpu") | {
        "measured": {
            "peers": {"date": "2026-01-02", "with": "scorewise 1 (abc)"},
            "scores": {"date": "2026-01-05", "with": "scorewise 1 (abc)"},
            "bandwidth": "2026-01-06",  # as it was kept once
        },
        "absent": {"peers": {"Dice, MONAI": "No module named 'monai'"}},
        "peers": peers,
        "exponents": exponents.fitted({"peers": peers}),
        "bandwidth": [moved | {"gb_per_s": 3.25, "share": 0.125}],
    }


def test_the_page_tells_spread_absence_and_growth():
    told = page.text([made_up()])
    assert "- peers, scores: 2026-01-02 to 2026-01-05, with scorewise 1 (abc)\n" in told
    assert "- bandwidth: 2026-01-06, with an unknown commit\n" in told
    assert "Dice, MONAI (No module named 'monai')" in told
    assert "| | n = 4,096 | n = 65,536 |" in told
    assert "| binary cross entropy | 120 µs (108–145) |" in told
    assert re.search(r"\| AUCM, LibAUC \| [\d.]+ × \([\d.]+–[\d.]+\) \|  \|", told)
    assert "Left out from n = 65,536 on: AUCM, LibAUC (a step took 0.5 s at n = 32,768)." in told
    assert re.search(r"\| a step: AUCM, LibAUC \| n \| [\d,]+ \| 32,768 \| \d \| 0\.9\d ± 0\.0\d \| 1\.\d\d \|", told)
    assert "| a step: tss | n | 1,024 | 65,536 | | too few | 1.11 |" in told
    assert "| tss | 64 | 0.01 (0.00–0.01) | 3.2 | 12.5% |" in told
    assert "](figures/speed.svg)" in told


def test_the_page_tells_which_aims_are_met_in_which_table():
    def row(what, ratio, n=aims.LARGE, **more):
        return {"n": n, "what": what, "microseconds": 2e6 * ratio, "ratio": ratio} | more

    times = [row(page.BASE, 1.0), row("score tss", 1.5), row("score f1", 1.51), row("prior Beta(2, 8)", 9.0)]
    kept = {
        "times": times,
        "peers": [row(page.BASE, 1.0), row("tss", 1.2), row("f1", 1.1), row("tss, validated", 7.0)],
        "growth": [row("", 9.0, n=aims.SMALL, over="T"), row("", 6.5, over="n")],
        "training": [row(page.BASE, 1.0, n=aims.SMALL), row("tss, accumulated, 4 × 1,024", 1.9, n=aims.SMALL)],
        "fits": [row("ScoreClassifier", 4.0, n=1_000), row("MLPClassifier", 90.0, n=1_000)],
    }
    assert aims.told(kept) == [
        "| a step, uniform prior | 1,048,576 | 1.5 × | scores | 1.50 to 1.51 × | **missed** by 1 of 2 |",
        "| a step, uniform prior | 1,048,576 | 1.5 × | losses of others | 1.10 to 1.20 × | met |",
        "| a step with a value weight of 8 lags | 1,048,576 | 6 × | growth over n | 6.50 × | **missed** by 1 of 1 |",
        "| a whole training step, accumulated | 4,096 | 2 × | a training step | 1.90 × | met |",
        "| a fit to 10 columns | 1,000 | 10 s | fits | 8.00 s | met |",
    ]
    assert aims.told({}) == []


def test_every_aim_is_measured_wherever_it_says():
    kept = json.loads((page.RESULTS / "speed-cpu.json").read_text())
    found = {
        (aim.words, aim.n, section): len(aim.measured(kept[section], names))
        for aim in aims.AIMS
        for section, names in aim.lines.items()
    }
    # growth is measured from a larger batch on
    assert {where for where, count in found.items() if not count} == {(aims.AIMS[3].words, aims.SMALL, "growth")}
    assert found[aims.AIMS[0].words, aims.LARGE, "times"] == len(sw.scores.names())
    assert found[aims.AIMS[3].words, aims.LARGE, "weights"] == 6


def test_the_page_in_the_repository_is_made_from_the_results_beside_it():
    kept = [json.loads(path.read_text()) for path in sorted(page.RESULTS.glob("speed-*.json"))]
    assert len(kept) == 2
    assert page.PAGE.read_text() == page.text(kept)
    assert page.FIGURE.exists() == page.drawn(kept)


def test_the_figure_is_the_same_for_the_same_results_and_another_for_others(tmp_path):
    kept = made_up()
    drawn = []
    for name, results in (("a", [kept]), ("b", [kept]), ("c", [kept, kept | {"device": "cuda"}])):
        figure.draw(results, tmp_path / "figures" / f"{name}.svg")
        drawn.append((tmp_path / "figures" / f"{name}.svg").read_text())
    assert drawn[0] == drawn[1] != drawn[2]
    assert "<dc:date>" not in drawn[0]


def test_labels_of_the_figure_stay_apart():
    ends = {"a": (8, 1.0), "b": (8, 1.1), "c": (8, 1.2), "early": (4, 1.1)}
    placed = dict(figure._places(ends, {"a": 0.5, "b": 0.51, "c": 0.52, "early": 0.51}))
    assert placed["early"] == 0.51
    assert placed["a"] == 0.5
    assert placed["b"] - placed["a"] >= figure.GAP <= placed["c"] - placed["b"] + 1e-12
