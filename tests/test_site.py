"""The site as it was built by `make pages`: links, formulas, pictures and search, without a network."""

import html.parser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import scorewise as sw
from tests import browsers

SITE = Path(__file__).parent.parent / "docs" / "_build" / "html"
pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make pages")
PAGES = sorted(SITE.rglob("*.html"))


class Seen(html.parser.HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loads.append(found["src"])
        elif tag == "link" and found.get("href") and found.get("rel") != "canonical":
            self.loads.append(found["href"])


@pytest.fixture(scope="module")
def seen():
    return {path.resolve(): Seen(path.read_text(encoding="utf-8")) for path in PAGES}


def test_links_lead_somewhere(seen):
    broken = []
    for path, page in seen.items():
        for link in page.links:
            if urlsplit(link).scheme or link == "#":
                continue
            name, anchor = urldefrag(unquote(link))
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (anchor and target in seen and anchor not in seen[target].ids):
                broken.append((path.relative_to(SITE.resolve()).as_posix(), link))
    assert len(seen) > 30
    assert not broken


def test_nothing_is_loaded_from_elsewhere(seen):
    for path, page in seen.items():
        for name in page.loads:
            assert not urlsplit(name).netloc, (path, name)
            if not name.startswith("data:"):
                assert (path.parent / unquote(urlsplit(name).path)).exists(), (path, name)


def test_every_example_has_a_picture():
    examples = list((SITE / "auto_gallery").glob("plot_*.html"))
    assert len(examples) == 11
    for path in examples:
        assert "sphx-glr-single-img" in path.read_text(encoding="utf-8"), path


@pytest.fixture(scope="module")
def browser():
    with browsers.started() as found:
        yield found


@browsers.needed
def test_formulas_of_all_scores_are_set_without_a_network(browser):
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((SITE / "api" / "scores.html").as_uri())
        page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
        page.evaluate("() => MathJax.startup.promise")
        shown, failed = (page.locator(f"mjx-container{one}").count() for one in ("", " [data-mjx-error]"))
        assert shown >= len(sw.scores.names())
        assert failed == 0
        assert page.locator(".math:not(:has(mjx-container))").count() == 0
        assert all(url.startswith(("file:", "data:")) for url in asked), asked


@browsers.needed
@pytest.mark.parametrize("word", ["RaisedCosine", "threshold", "admissible"])
def test_search_works_from_the_file_system(browser, word):
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto(f"{(SITE / 'search.html').as_uri()}?q={word}")
        page.wait_for_selector("ul.search li a", timeout=20_000)
        assert page.locator("ul.search li a").count() >= 1


WIDTHS = (400, 800, 1000, 1060, 1100, 1180, 1240, 1320, 1366, 1440, 1536, 1600, 1660, 1664, 1680, 1920)
BOXES = """() => [...document.querySelectorAll("article, .toc-sticky, .content-icon-container")]
    .map((part) => part.getBoundingClientRect())
    .map((box) => [box.left, box.right, box.width])"""


@browsers.needed
@pytest.mark.parametrize("name", ["theory/value.html", "choosing.html", "benchmarks/quality.html"])
def test_no_window_cuts_a_page_off(browser, name):
    """The theme lets nobody scroll to the right: what is beyond the window is lost."""
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto((SITE / name).as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            # in a narrow window the second column waits beside it, and is moved in when it is asked for
            ends = [right for left, right, wide in page.evaluate(BOXES) if wide and left < width]
            assert 0 < max(ends) <= width, (width, ends)
