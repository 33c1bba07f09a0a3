"""Every page of the documentation has examples, and they run as printed."""

import re
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
