"""Every Python block and every command of the README runs as printed; its figures and its links are there."""

import re
from pathlib import Path

import pytest

from tests import pages

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = pages.blocks(README)
COMMANDS = pages.consoles(README)


def test_there_are_examples():
    assert len(BLOCKS) >= 3
    assert all(printed for _, printed in BLOCKS)
    assert README.count("```python") == len(BLOCKS)


@pytest.mark.parametrize(("code", "printed"), BLOCKS, ids=range(len(BLOCKS)))
def test_block(code, printed):
    pages.run(code, printed, "README.md", {"__name__": "__main__"})  # each for itself: it may be copied alone


@pytest.mark.parametrize("block", COMMANDS, ids=range(len(COMMANDS)))
def test_commands(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.type_in(block)


def test_there_are_commands():
    assert COMMANDS


def test_the_first_example_has_ten_lines():
    assert len([line for line in BLOCKS[0][0].splitlines() if line]) == 10


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (ROOT / name).read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), target


HEADLINE = {
    "`ScoreClassifier` with its defaults": "scorewise",
    "focal loss, tuned threshold": "focal_tuned",
    "cross entropy, plug-in threshold": "plug_in",
    "cross entropy, tuned threshold": "bce_tuned",
    "weighted cross entropy, tuned threshold": "wbce_tuned",
    "boosted trees, tuned threshold": "hgb_tuned",
    "score-oriented loss as published, uniform prior": "sol_uniform",
}


def test_the_headline_table_is_that_of_the_results():
    from benchmarks.quality import results, tables  # 8,000 results: not to be read while tests are collected

    used = [name for name in tables.EVERYWHERE if name not in tables.BORROWING]
    scores = tables.grid(results.read(results.FOLDER).values(), used)
    ranks = dict(zip(used, tables.mean_ranks(scores), strict=True))
    gains = {duel.other: duel.gain for duel in tables.duels(scores, "scorewise")}
    told = re.findall(r"^\| (.*?) \| ([\d.]+) \| ([+−\d.]*) ?\|$", README, flags=re.MULTILINE)
    assert [name for name, *_ in told] == list(HEADLINE)
    for name, rank, gain in told:
        method = HEADLINE[name]
        assert float(rank) == pytest.approx(ranks[method], abs=0.05 + 1e-9)
        assert float(gain.replace("−", "-") or 0) == pytest.approx(gains.get(method, 0.0), abs=0.0005 + 1e-9)
