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


def test_what_is_said_of_the_comparison_is_what_the_results_say():
    from benchmarks.quality import pages as quality  # as above
    from benchmarks.quality import results, tables

    known = [row for row in results.read(results.FOLDER).values() if row["method"] in tables.EVERYWHERE]
    used, every = quality.methods(known)
    sets = quality.of_sets(known)
    began, free = [*sets["chosen"], *sets["others"]], [*sets["others"], *sets["later"]]
    weighted, plain = (quality.of_scores(known)[f"{kind} scores"] for kind in ("value-weighted", "plain"))
    weighted_free = quality.of_scores(free)["value-weighted scores"]

    def duels(rows, methods=every, reference="scorewise"):
        return {duel.other: duel for duel in tables.duels(tables.grid(rows, methods), reference)}

    def places(rows):
        ranks = sorted(zip(tables.mean_ranks(tables.grid(rows, used)), used, strict=True))
        assert ranks[0][1] == "scorewise"
        return f"({ranks[0][0]:.1f}, then {ranks[1][0]:.1f})"

    def sure(rows):
        return sum(duel.by_set_holm < quality.LEVEL and duel.gain > 0 for duel in duels(rows, used).values())

    def count(rows):
        return len({row["set"] for row in rows})

    def pairs(duel):
        return duel.wins + duel.ties + duel.losses

    def chance(duel, sets="sets", digits=2):
        over_pairs = f"p = {duel.p:.3f} over pairs, {duel.holm:.{digits}f} by Holm"
        return f"{over_pairs}; {duel.by_set:.2f} over {sets}, {duel.by_set_holm:.2f} by Holm)"

    of_free, of_all, of_weighted, of_plain, of_weighted_free = (
        duels(rows, some)
        for rows, some in ((free, used), (known, every), (weighted, every), (plain, every), (weighted_free, every))
    )
    moments, focal, score = duels(known, every, "bce_ensemble")["bce_tuned"], of_plain["focal_ensemble"], of_all
    ranks = dict(zip(every, tables.mean_ranks(tables.grid(known, every)), strict=True))
    network, weighing = (of_weighted[name] for name in ("bce_ensemble", "wbce_tuned"))
    network_free, weighing_free = (of_weighted_free[name] for name in ("bce_ensemble", "wbce_tuned"))
    low, high = (f"{end:+.3f}".replace("-", "−") for end in score["bce_ensemble"].interval)
    alike = "against the same network by cross entropy"
    lines = f"""
        On the {count(free)} others it is first, too {places(free)}, and of what it gains on the other {len(of_free)}
            methods {sure(free)} gains are more than chance makes (over sets, by Holm)
        may be chance (p = {of_free["focal_tuned"].by_set_holm:.2f} each)
        may be chance (p = {of_free["wbce_tuned"].by_set_holm:.2f} each)
        {count(sets["later"])} of these {count(free)}, all of them series, were added when the first {count(began)}
        on the {count(began)} it is first {places(began)}, and {sure(began)} of the {len(of_free)} gains are more
        ({moments.gain:+.3f}, {moments.wins} of {pairs(moments)} pairs won; p = {moments.by_set:.3f} over sets,
            {moments.by_set_holm:.2f} by Holm)
        ({ranks["focal_ensemble"]:.1f} and {ranks["scorewise"]:.1f} of {len(every)})
        over all ({score["bce_ensemble"].gain:+.3f}, from {low} to {high})
        it wins {network.wins} of {pairs(network)} pairs {alike} ({network.gain:+.3f};
            {chance(network, f"the {count(weighted)} sets")}
        and {weighing.wins} against weighted cross entropy with a tuned threshold ({weighing.gain:+.3f};
            {chance(weighing)}
        on the {count(weighted_free)} of these sets that chose no default, {network_free.wins} of {pairs(network_free)}
            and {weighing_free.wins} of {pairs(weighing_free)} ({network_free.gain:+.3f} and {weighing_free.gain:+.3f};
            p = {network_free.by_set:.2f} and {weighing_free.by_set:.2f} over sets,
            {weighing_free.by_set_holm:.2f} each by Holm)
        ({focal.losses} of {pairs(focal)} pairs won, {focal.wins} lost, by {-focal.gain:.3f}; {chance(focal, digits=3)}
    """
    expected = [" ".join(one.split()) for one in re.split(r"\n {8}(?! )", lines) if one.strip()]
    told = " ".join(README.split())
    assert len(expected) == 12
    assert [fact for fact in expected if fact not in told] == []
    assert network_free.by_set_holm == weighing_free.by_set_holm
