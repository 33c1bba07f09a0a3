"""Every page of the documentation has examples, and they run as printed."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import pages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if not {"_build", "auto_gallery"} & set(path.relative_to(DOCS).parts)
)


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def test_all_parts_are_there():
    assert {"index.md", "start.md", "choosing.md", "migrating.md"} <= set(PAGES)
    assert {page.split("/")[0] for page in PAGES if "/" in page} == {"api", "benchmarks", "recipes", "theory"}


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path, monkeypatch):
    """Its blocks go on from each other, in the checkout; its commands are typed into an empty folder."""
    text = text_of(page)
    blocks, namespace = pages.blocks(text), {"__name__": "__main__"}
    assert blocks, "a page without an example"
    assert text.count("```python") == len(blocks)
    monkeypatch.chdir(ROOT)
    for k, (code, printed) in enumerate(blocks):
        pages.run(code, printed, f"{page}, block {k}", namespace)
    monkeypatch.chdir(tmp_path)
    for block in pages.consoles(text):
        pages.type_in(block)


EXAMPLES = {"tss", "value", "costs", "multilabel", "multiclass", "network"}
EXAMPLES |= {"ddp", "lightning", "transformers", "skorch", "keras"}


def test_the_gallery_is_whole():
    """They run when the site is built: see test_site.py."""
    assert {path.stem.removeprefix("plot_") for path in (DOCS / "gallery").glob("plot_*.py")} == EXAMPLES


PUBLIC = ["", "curves", "datasets", "evaluation", "metrics", "multiclass", "parallel", "priors", "report", "scores"]
PUBLIC += ["series", "weights"]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_reference_has_everything_that_is_public(name):
    import importlib

    from docs._ext import facts

    whole = f"scorewise.{name}".rstrip(".")
    told = "".join(text_of(page) for page in PAGES if page.startswith("api/")) + facts.formulas()
    for public in importlib.import_module(whole).__all__:
        named = (f"{whole}.{public}", f"scorewise.{public}")
        assert any(f"{one}\n" in told for one in named), named


@pytest.mark.parametrize("name", ["scores", "priors", "weights"])
def test_tables_of_facts_hold_everything(name):
    import scorewise as sw
    from docs._ext import facts

    told = facts.TABLES[name]()
    if name == "scores":
        for one in map(sw.scores.get, sw.scores.names()):
            assert f"$$\n{one.formula}\n$$" in facts.formulas()
            assert all(f"`{synonym}`" in told for synonym in one.synonyms)
    else:
        kind = sw.priors.ThresholdPrior if name == "priors" else sw.weights.Weight
        module = getattr(sw, name)
        made = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, kind)]
        assert len(made) > 5
        for one in made:
            if isinstance(getattr(one, "formula", None), str):
                assert f"`~scorewise.{name}.{one.__name__}`" in told


GUIDE = {
    "focal loss, ensemble of moments": "focal_ensemble",
    "`ScoreClassifier`: cross entropy, then half and half; ensemble": "scorewise",
    "cross entropy, ensemble of moments": "bce_ensemble",
    "cross entropy | plug-in": "plug_in",
    "cross entropy | best on validation data": "bce_tuned",
    "weighted cross entropy": "wbce_tuned",
    "boosted trees": "hgb_tuned",
    "cross entropy | 0.5": "bce_at_half",
    "soft F1 (Dice) alone": "dice_tuned",
    "score-oriented loss alone, uniform prior": "sol_uniform",
}


def test_the_ranks_of_the_guide_are_those_of_the_results():
    from benchmarks.quality import results, tables  # 9,000 results: not to be read while tests are collected

    scores = tables.grid(results.read(results.FOLDER).values(), tables.EVERYWHERE)
    ranks = dict(zip(tables.EVERYWHERE, tables.mean_ranks(scores), strict=True))
    told = re.findall(
        r"^\| (.*) \| ([\d.]+) \|$", (DOCS / "choosing.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    found = {name: float(rank) for words, rank in told for start, name in GUIDE.items() if words.startswith(start)}
    assert found == {name: pytest.approx(ranks[name], abs=0.005 + 1e-9) for name in GUIDE.values()}


def test_what_pages_say_of_variants_is_what_the_results_say():
    from benchmarks.quality import data, pages, results, run, tables  # as above
    from benchmarks.quality.methods import INGREDIENTS

    rows = [row for row in results.read(results.FOLDER).values() if row["method"] in INGREDIENTS]
    whole = tables.grid(rows, INGREDIENTS)
    of = {"test": rows, "plain": pages.of_scores(rows)["plain scores"]}
    of["weighted"] = pages.of_scores(rows)["value-weighted scores"]
    ranks = {
        name: dict(zip(INGREDIENTS, tables.mean_ranks(tables.grid(some, INGREDIENTS)), strict=True))
        for name, some in of.items()
    }
    known = dict(zip(INGREDIENTS, tables.mean_ranks(tables.grid(rows, INGREDIENTS, of="validation")), strict=True))
    place = sorted(ranks["test"], key=ranks["test"].get)
    assert min(known, key=known.get) == "best_threshold"
    assert place[-1] == "score_alone_from_the_start"
    assert place[4] == "defaults"
    found = {duel.other: duel for duel in tables.duels(whole, "defaults")}
    assert [name for name, duel in found.items() if duel.by_set_holm < pages.LEVEL] == []
    assert [name for name, duel in found.items() if duel.holm < pages.LEVEL] == ["score_alone_from_the_start"]
    start, bare, score, exact, narrow = (
        found[name] for name in (place[-1], "best_moment_and_threshold", "no_score", "exact", "narrow")
    )
    same = [row[0] - row[INGREDIENTS.index("exact")] for (_, one), row in whole.values.items() if one == "tss"]
    assert max(map(abs, same)) == pytest.approx(0.002, abs=5e-4)  # as the page of the results says
    assert sum(abs(one) > tables.TIE for one in same) == len(same) / 2

    def between(duel):  # of the other against the defaults
        low, high = duel.interval
        return f"({-duel.gain:+.4f}, from {-high:+.4f} to {-low:+.4f}; p = {duel.by_set:.2f} over sets)".replace(
            "-", "−"
        )

    where = f"on {len(data.tried_on())} sets, two scores of each and {run.PARTLY_SEEDS} seeds"
    expected = {
        "docs/choosing.md": f"""
            is the last of {len(place)} variants, {where}: {start.gain:.3f} behind the defaults, {start.losses} of
                {len(whole.values)} pairs won (p = {start.holm:.3f} over pairs, {start.by_set_holm:.2f} over sets, both
                by Holm).
            not without the score ({score.wins} of {len(whole.values)} pairs lost, {score.losses} won), nor without the
                ensemble and the threshold rule ({bare.wins} lost, {bare.losses} won, −{bare.gain:.3f}; p =
                {bare.holm:.2f} over pairs, {bare.by_set_holm:.2f} over sets, both by Holm).
            narrow instead of uniform changes the mean by {between(narrow)[1:].replace(", from", " (from")}.
            (ranks {ranks["test"]["annealed"]:.1f} and {ranks["test"]["narrow"]:.1f} of {len(place)}).
            it wins {exact.losses} of {len(whole.values)} pairs, ties {exact.ties} and loses {exact.wins}
                {between(exact)[:-1]}); for plain TSS, which is {len(same)} of these pairs, both are the same loss.
            {where}, it has the best rank on the validation rows, {known["best_threshold"]:.1f} of {len(known)}, and on
                test rows {ranks["test"]["best_threshold"]:.1f}; plug-in has {ranks["test"]["plug_in_threshold"]:.1f}
                there and between {ranks["test"]["defaults"]:.1f}.
            ({ranks["weighted"]["plug_in_threshold"]:.1f}, best {ranks["weighted"]["best_threshold"]:.1f}), and on plain
                scores they are close ({ranks["plain"]["plug_in_threshold"]:.1f}, best
                {ranks["plain"]["best_threshold"]:.1f}).
        """,
        "README.md": f"""
            Of {len(found)} variants of it, on {len(data.tried_on())} sets with two scores and {run.PARTLY_SEEDS} seeds,
            the defaults are fifth of {len(place)}.
        """,
    }
    for page, lines in expected.items():
        told = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        facts = [" ".join(one.split()) for one in re.split(r"\n {12}(?! )", lines) if one.strip()]
        assert [fact for fact in facts if fact not in told] == []


def test_margins_of_the_quick_form_are_those_that_are_told():
    from benchmarks import regression  # as above
    from benchmarks.quality import quick

    kept = regression.read(quick.FIGURES)
    told = " ".join((DOCS / "benchmarks" / "index.md").read_text(encoding="utf-8").split())
    level, gain = (kept[figure.name]["margin"] for figure in quick.OURS)
    assert f"{quick.MOST} short stretches" in told
    assert f"a run is worse if it falls {level:.3f} below" in told
    assert gain == pytest.approx(level, abs=5e-4)
    networks = [kept[figure.name]["margin"] for figure in quick.BY_CHANCE if figure not in quick.OURS]
    assert (round(min(networks), 2), math.ceil(max(networks) * 100) / 100) == (0.02, 0.05)
    assert {kept[figure.name]["margin"] for figure in quick.WHAT if figure not in quick.BY_CHANCE} == {regression.LEAST}


@dataclass(frozen=True)
class Speeds:
    """What was measured on a device, to be told on pages."""

    kept: dict

    def row(self, section, what, **more):
        fits = {"what": what} | more
        (found,) = (row for row in self.kept[section] if all(row.get(name) == value for name, value in fits.items()))
        return found

    def ratio(self, section, what, digits=1, **more):
        return f"{self.row(section, what, **more)['ratio']:.{digits}f} ×"

    def seconds(self, what, n):
        took = self.row("fits", what, n=n)["microseconds"] / 1e6
        return f"{took:.0f} s" if took >= 10 else f"{took:.1f} s"


def speeds(device):
    return Speeds(json.loads((ROOT / "benchmarks" / "results" / f"speed-{device}.json").read_text(encoding="utf-8")))


def test_times_that_pages_tell_are_those_of_the_results():
    cpu, cuda = speeds("cpu"), speeds("cuda")
    few, many = {"n": 4_096}, {"n": 1_048_576}
    priors = [f"prior {name}" for name in ("Uniform()", "RaisedCosine()", "Beta(2, 8)")]
    uniform, cosine, beta = (cpu.ratio("times", name, **few) for name in priors)
    of_many = [cpu.ratio("times", name, **many) for name in priors]
    step, parts = (cpu.ratio("training", name, 2) for name in ("tss", "tss, accumulated, 4 × 1,024"))
    launched, launched_parts = (cuda.ratio("training", name, 2) for name in ("tss", "tss, accumulated, 4 × 1,024"))
    exact, usual = ([cpu.ratio("exact", name, **n) for n in (few, many)] for name in ("HSS, exact", "HSS"))
    search, theirs = (
        next(row["microseconds"] for row in cpu.kept["thresholds"] if (row["n"], row["what"]) == (131_072, name)) / 1e3
        for name in ("scorewise", "TunedThresholdClassifierCV, 100 thresholds")
    )
    ours, trees, tuned = "ScoreClassifier", "trees, ScoreThresholdClassifier", "trees, TunedThresholdClassifierCV"
    rows = {row["what"]: f"{row['seconds']:.0f} s" for row in cpu.kept["files"]}
    expected = {
        "docs/choosing.md": f"""
            {uniform} for the uniform prior, {cosine} for the raised cosine and {beta} for `Beta(2, 8)` at n = 4,096;
                {of_many[0]}, {of_many[1]} and {of_many[2]} at n = 1,048,576.
            a whole training step of a small network takes {step} as long with TSS.
            For HSS on a CPU it takes {exact[0]} as long as binary cross entropy at n = 4,096, where the other takes
                {usual[0]}, and {exact[1]} against {usual[1]} at n = 1,048,576.
            on a CPU a step takes {parts} the time of one by binary cross entropy where a whole batch takes {step}, and
                in 256 MiB the batch can be {cpu.row("largest", "tss, accumulated")["ratio"]:.0f} times as large.
            it is {launched_parts} where a whole batch takes {launched}.
        """,
        "docs/migrating.md": f"""
            | the search alone, 131,072 predictions, on two cores | {theirs:.0f} ms | {search:.1f} ms
            | a fit of boosted trees, 50,000 × 30, on two cores | {cpu.seconds(tuned, 50_000)} |
                {cpu.seconds(trees, 50_000)} |
            at n = 4,096, takes {cpu.row("loop", "a loop over samples")["ratio"]:.0f} × as long on a CPU.
        """,
        "README.md": f"""
            A fit takes {cpu.seconds(ours, 1_000)} for 1,000 × 10 numbers and {cpu.seconds(ours, 50_000)} for 50,000 ×
                30, on two cores, where boosted trees with a tuned threshold take {cpu.seconds(trees, 1_000)} and
                {cpu.seconds(trees, 50_000)}.
            Ten million rows take {rows["in memory, with a report"]}, value-weighted
                {rows["value-weighted, in memory, with a report"]}, and a report of them has about 5 MB
            with `--stream`, in {rows["streamed"]} and {rows["value-weighted, streamed"]} (
        """,
    }
    for page, lines in expected.items():
        told = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        facts = [" ".join(one.split()) for one in re.split(r"\n {12}(?! )", lines) if one.strip()]
        assert len(facts) >= 3
        assert [fact for fact in facts if fact not in told] == []
