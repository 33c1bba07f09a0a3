"""The page in a real browser: what moves, what it shows then, and that it asks nothing of any network."""

import dataclasses

import pytest
import torch

import scorewise as sw
from scorewise import report
from scorewise.evaluation import evaluate
from tests import browsers
from tests import report_cases as cases

pytestmark = browsers.needed

EVIL = (
    "<script>alert(1)</script>",
    "<b>x</b> & &lt;i&gt;",
    '<a href="javascript:alert(1)">y</a>',
    "</script><img src=x onerror=alert(1)>",
    '"it\'s" %{x} ${1}',
    "🚨 storm",
    "אזעקה שווא",
)


@pytest.fixture(scope="module")
def browser():
    with browsers.started() as found:
        yield found


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A page with everything, as a file."""
    path = tmp_path_factory.mktemp("report") / "full.html"
    report.write(path, cases.full(), title="A title", history=cases.history(), facts=cases.FACTS)
    return path


@pytest.fixture
def visit(browser):
    """Opens a file; whatever goes wrong meanwhile, or is asked of a network, fails the test."""
    contexts, wrong = [], []

    def open_it(path, **options):
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda one: wrong.append(f"console: {one.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda one: (wrong.append(f"dialog: {one.message}"), one.dismiss()))
        page.on("request", lambda one: wrong.append(f"request: {one.url}") if one.url != path.as_uri() else None)
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_function(
                "[...document.querySelectorAll('.plot')].every((one) => one.querySelector('.main-svg'))"
            )
            settle(page)
        return page

    yield open_it
    for context in contexts:
        for page in context.pages:
            page.wait_for_timeout(50)
        context.close()
    assert wrong == []


def settle(page):
    """Let what waits for the next frame be drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown(text):
    """A number as it stands there, and how far it may be from the true one."""
    plain = text.replace(",", "").replace("−", "-")
    places = len(plain.partition(".")[2])
    return float(plain), 0.5 * 10.0**-places


def agrees(text, value, largest):
    number, half = shown(text)
    # what is shown is rounded, after the page's data have been, to seven digits of the largest of a column
    return abs(number - value) <= half + 0.6e-6 * largest


def check(page, curve, place):
    """All numbers of the threshold section are those of the curve at a place."""
    for kind, cells, columns in (
        ("plain", curve.plain, curve.plain_scores),
        ("weighted", curve.weighted, curve.weighted_scores),
    ):
        if cells is None:
            continue
        for i in range(4):
            text = page.text_content(f"#matrix-{kind} [data-cell='{i}']")
            assert agrees(text, cells[place][i], max(row[i] for row in cells)), (kind, i, text)
        texts = page.eval_on_selector_all(
            f"#score-table [data-kind={kind}]", "found => found.map(one => [one.dataset.score, one.textContent])"
        )
        assert [name for name, _ in texts] == ["tss", *(name for name in cases.SCORES if name != "tss")]
        for name, text in texts:
            assert agrees(text, columns[name][place], max(map(abs, columns[name]))), (kind, name, text)
    settle(page)
    at = page.evaluate("document.getElementById('plot-curves').layout.shapes[0].x0")
    assert at == pytest.approx(curve.thresholds[place])
    assert agrees(page.text_content("#readout").split(":")[0].split()[1], curve.thresholds[place], 1)


def below(curve, value):
    return max(i for i, one in enumerate(curve.thresholds) if one <= value)


def slide(page, value):
    page.eval_on_selector(
        "#slider",
        "(one, value) => { one.value = value; one.dispatchEvent(new Event('input', {bubbles: true})); }",
        value,
    )


# ------------------------------------------------------------------------------------------------------- slider


def test_the_slider_moves_all_numbers(visit, full):
    page, model = visit(full), cases.full().models[0]
    check(page, model.curve, below(model.curve, model.threshold))  # it begins there
    for judged, kind in ((model.plain, "plain"), (model.weighted, "weighted")):
        text = page.text_content(f"#score-table [data-kind={kind}][data-score=hss]")
        assert text == f"{judged.scores['hss']:.3f}"
    for value in (0, 0.001, 0.123, 0.5, 0.777, 1):
        slide(page, value)
        check(page, model.curve, below(model.curve, value))


def test_keys_and_buttons_move_it(visit, full):
    page, evaluation = visit(full), cases.full()
    model = evaluation.models[0]
    best = below(model.curve, model.threshold)
    page.click("#half")
    check(page, model.curve, below(model.curve, 0.5))
    assert page.input_value("#slider") == "0.5"
    page.focus("#slider")
    page.keyboard.press("ArrowRight")
    assert page.input_value("#slider") == "0.501"
    page.keyboard.press("End")
    check(page, model.curve, len(model.curve.thresholds) - 1)
    page.click("#best")
    check(page, model.curve, best)
    page.click("#next")
    check(page, model.curve, best + 1)
    page.click("#previous")
    page.click("#previous")
    check(page, model.curve, best - 1)
    assert page.get_attribute("#slider", "aria-valuetext") == page.text_content("#readout").split(":")[0].split()[1]
    assert page.get_attribute("#readout", "aria-live") == "polite"


def test_another_model(visit, full):
    page, evaluation = visit(full), cases.full()
    page.select_option("#model-threshold", "1")
    model = evaluation.models[1]
    check(page, model.curve, below(model.curve, model.threshold))
    page.click("#best")  # its threshold was given, and is not the best
    values = model.curve.weighted_scores["tss"]
    check(page, model.curve, values.index(max(values)))
    page.click("#judged")
    check(page, model.curve, below(model.curve, model.threshold))
    assert page.input_value("#model-timeline") == page.input_value("#model-by-1") == "1"
    visible = page.eval_on_selector_all("[data-model]", "all => all.map(one => one.checkVisibility())")
    assert visible == [False, True, False]


def test_the_numbers_are_those_of_the_library(visit, tmp_path):
    g = torch.Generator().manual_seed(0)
    p = torch.rand(400, generator=g, dtype=torch.float64)
    y = (torch.rand(400, generator=g) < p**2).long()
    where = {"groups": ["Rome"] * 200 + ["Oslo"] * 200, "times": torch.arange(200).repeat(2)}
    value = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)
    found = evaluate(
        {"mine": p, "other": 1 - p}, y, score="hss", weight=value, draws=20, by={"city": where["groups"]}, **where
    )
    report.write(tmp_path / "p.html", found, title="t")
    page = visit(tmp_path / "p.html")
    for threshold in (found.models[0].threshold, 0.123, 0.5, 0.9):
        if threshold != found.models[0].threshold:
            slide(page, threshold)
        for kind, weight in (("plain", None), ("weighted", value)):
            matrix = sw.confusion_matrix(p, y, threshold, weight, **where)
            for i, cell in enumerate((matrix.tn, matrix.fp, matrix.fn, matrix.tp)):
                assert agrees(page.text_content(f"#matrix-{kind} [data-cell='{i}']"), float(cell), 400)
            for name in ("hss", "csi", "tss", "cost"):
                text = page.text_content(f"#score-table [data-kind={kind}][data-score={name}]")
                assert agrees(text, float(sw.scores.get(name)(matrix)), 400)
    stretch = found.models[0].stretches[0]
    rows = page.eval_on_selector_all("#error-table tbody tr", "all => all.map((row) => row.cells[4].textContent)")
    assert rows == [one for one in stretch.reasons if one]


def test_a_threshold_below_zero_is_told(visit, tmp_path):
    model = cases.model("m", 1.5, points=30)
    curve = dataclasses.replace(model.curve, thresholds=(-1.0, *model.curve.thresholds[1:]))
    report.write(
        tmp_path / "p.html", cases.evaluation([dataclasses.replace(model, curve=curve, threshold=-1.0)]), title="t"
    )
    page = visit(tmp_path / "p.html")
    assert page.text_content("#readout").startswith("Threshold −1 (everything is an alarm): weighted TSS 0.000")


# -------------------------------------------------------------------------------------------------------- plots


def test_the_curves_are_those_of_the_chosen_score(visit, full):
    page, evaluation = visit(full), cases.full()
    for kind, name in (("weighted", "tss"), ("plain", "hss")):
        page.select_option("#curve-score", f"{kind}:{name}")
        traces = page.evaluate(
            """() => document.getElementById('plot-curves').data.filter((one) => one.line && one.line.shape === 'hv')
                .map((one) => [Array.from(one.x), Array.from(one.y)])"""
        )
        assert len(traces) == 3
        for (x, y), model in zip(traces, evaluation.models, strict=True):
            columns = model.curve.plain_scores if kind == "plain" else model.curve.weighted_scores
            assert x == [*model.curve.thresholds, 1]
            assert y == pytest.approx([*columns[name], columns[name][-1]], abs=1e-6)
    title = page.evaluate("document.getElementById('plot-curves').layout.yaxis.title.text")
    assert title == "plain HSS"
    prior = page.evaluate("Array.from(document.getElementById('plot-curves').data.at(-1).y)")
    assert max(prior) == pytest.approx(1 / 0.3, rel=1e-6)  # a raised cosine of that width, at its middle
    marked = page.evaluate(
        """() => document.getElementById('plot-history').data.filter((one) => one.mode === 'markers')
            .map((one) => Array.from(one.x))"""
    )
    assert marked == [[], [900, 950, 1000], []]  # what was chosen while training


def test_a_click_on_a_curve_moves_the_slider(visit, full):
    page, curve = visit(full), cases.full().models[2].curve
    page.evaluate("document.getElementById('plot-curves').emit('plotly_click', {points: [{data: {meta: 2}, x: 0.7}]})")
    assert page.input_value("#model-threshold") == "2"
    check(page, curve, below(curve, 0.7))


def hover(page, plot, trace, point):
    """The text over a point of a trace, which has a name or a place."""
    page.evaluate(
        """async ([plot, trace, point]) => {
            const found = document.getElementById(plot), gone = () => !found.querySelector('.hovertext');
            Plotly.Fx.unhover(found);
            while (!gone()) await new Promise((done) => setTimeout(done, 10));
            const curveNumber = found.data.findIndex((one, place) => one.name === trace || place === trace);
            Plotly.Fx.hover(found, [{curveNumber, pointNumber: point}], 'xy');
        }""",
        [plot, trace, point],
    )
    page.wait_for_selector(f"#{plot} .hoverlayer .hovertext")
    return page.eval_on_selector_all(
        f"#{plot} .hovertext tspan, #{plot} .hovertext text:not(:has(tspan))",
        "all => all.map((one) => one.textContent).join(' ')",
    )


def test_stretches_and_why_their_errors_cost_what_they_cost(visit, full):
    page, evaluation = visit(full), cases.full()
    for model, place in ((0, 0), (0, 2), (2, 1)):
        page.select_option("#model-timeline", str(model))
        page.select_option("#stretch", str(place))
        stretch = evaluation.models[model].stretches[place]
        wrong = [i for i, one in enumerate(stretch.outcomes) if one in {"fp", "fn"}]
        rows = page.eval_on_selector_all(
            "#error-table tbody tr", "all => all.map(row => [...row.cells].map(c => c.textContent))"
        )
        assert len(rows) == len(wrong) > 5
        for row, i in zip(rows, wrong, strict=True):
            kind = {"fp": "false alarm", "fn": "missed event"}[stretch.outcomes[i]]
            assert (row[0], row[1], row[4]) == (stretch.times[i], kind, stretch.reasons[i])
            assert agrees(row[2], stretch.predictions[i], 1)
            assert agrees(row[3], stretch.costs[i], 1)
        for name, outcome in (("false alarm", "fp"), ("missed event", "fn")):
            own = [i for i in wrong if stretch.outcomes[i] == outcome]
            drawn = page.evaluate(
                """name => {
                    const one = document.getElementById('plot-timeline').data.find((trace) => trace.name === name);
                    return [Array.from(one.x), Array.from(one.marker.color), one.marker.symbol];
                }""",
                name,
            )
            assert drawn[0] == [stretch.steps[i] for i in own]
            assert drawn[1] == [stretch.costs[i] for i in own]
            assert drawn[2] == {"fp": "triangle-up", "fn": "x"}[outcome]
            text = hover(page, "plot-timeline", name, 1)
            assert stretch.reasons[own[1]] in text
            assert stretch.times[own[1]] in text
    gaps = page.evaluate(
        "Array.from(document.getElementById('plot-timeline').data[0].y).filter((y) => y === null).length"
    )
    assert gaps == 2  # one in time, one unknown
    assert "false alarms (triangles)" in page.get_attribute("#plot-timeline", "aria-label")


# --------------------------------------------------------------------------------- colours, phones, paper, ears


def colours(page):
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate("document.getElementById('plot-curves').layout.font.color")
    line = page.evaluate("document.getElementById('plot-curves').data[0].line.color")
    return paper, ink, line


def test_dark_and_light(visit, full):
    page = visit(full)
    by_day = colours(page)
    assert by_day[0] == "rgb(255, 255, 255)"
    assert page.text_content("#theme") == "Dark"
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("[data-shade=dark]", state="attached")  # the page is told a moment later
    by_night = colours(page)
    assert all(a != b for a, b in zip(by_day, by_night, strict=True))
    assert page.text_content("#theme") == "Light"
    page.click("#theme")
    assert colours(page) == by_day
    page.click("#theme")
    assert colours(page) == by_night
    page.emulate_media(color_scheme="light")
    settle(page)
    assert colours(page) == by_night  # the button has the last word


def test_nothing_is_wider_than_a_phone(visit, full):
    page = visit(full, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    for width in (360, 768):
        page.set_viewport_size({"width": width, "height": 740})
        page.wait_for_timeout(300)  # plots wait a little before they follow
        assert page.evaluate("document.documentElement.scrollWidth") == width
        over = page.evaluate(
            """width => [...document.querySelectorAll('main *, header *, nav *')]
                .filter((one) => !one.closest('.scroll table, nav ul, .plot svg'))
                .filter((one) => one.getBoundingClientRect().right > width + 1)
                .map((one) => one.outerHTML.slice(0, 80))""",
            width,
        )
        assert over == []


def test_long_words_do_not_widen_a_phone(visit, tmp_path):
    word = "w" * 400
    model = cases.model(
        word, 1.5, points=20, parts={word: (word,)}, stretches=[dataclasses.replace(cases.stretch(0, 40), series=word)]
    )
    other = dataclasses.replace(model, name=word[:50])
    report.write(
        tmp_path / "p.html",
        cases.evaluation([model, other]),
        title=word,
        summary=word,
        facts={word: word},
        notes=[word],
    )
    page = visit(tmp_path / "p.html", viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_on_paper(visit, full):
    page = visit(full, color_scheme="dark")
    assert page.is_visible("nav")
    before = page.eval_on_selector_all("details", "all => all.map(one => one.open)")
    assert not any(before)
    page.emulate_media(media="print")
    settle(page)
    assert not page.is_visible("nav")
    assert all(page.eval_on_selector_all("details", "all => all.map(one => one.open)"))
    assert colours(page)[0] == "rgb(255, 255, 255)"
    assert colours(page)[1] == "#000000"
    clipped = page.eval_on_selector_all(".scroll", "all => all.map(one => getComputedStyle(one).overflowX)")
    assert set(clipped) == {"visible"}
    widths = page.eval_on_selector_all(
        ".plot .main-svg:first-child", "all => all.map(one => one.getBoundingClientRect().width)"
    )
    assert len(widths) == 4
    assert max(widths) <= 690  # what A4 has between its margins
    assert all(page.eval_on_selector_all("[data-model]", "all => all.map(one => one.checkVisibility())"))
    page.emulate_media(media="screen")
    settle(page)
    assert page.is_visible("nav")
    assert page.eval_on_selector_all("details", "all => all.map(one => one.open)") == before
    assert colours(page)[0] != "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_everything_has_a_name(visit, full):
    page = visit(full)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('input, select, button')]
            .filter((one) => !(one.labels && one.labels.length))
            .filter((one) => !one.getAttribute('aria-label') && !one.textContent.trim()).map((one) => one.id)"""
    )
    assert unnamed == []
    assert (
        page.eval_on_selector_all(
            ".plot", "all => all.map((one) => [one.getAttribute('role'), one.getAttribute('aria-label').length > 30])"
        )
        == [["img", True]] * 4
    )
    assert page.eval_on_selector_all(
        "table", "all => all.every((one) => one.caption && one.caption.textContent.trim())"
    )
    assert page.eval_on_selector_all("th", "all => all.every((one) => one.scope)")
    assert page.eval_on_selector_all("[id]", "all => new Set(all.map((one) => one.id)).size === all.length")
    assert page.eval_on_selector_all(
        "[aria-labelledby]", "all => all.every((one) => document.getElementById(one.getAttribute('aria-labelledby')))"
    )
    assert page.locator("h1").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#best")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_without_a_script_the_tables_are_there(visit, full):
    page = visit(full, java_script_enabled=False)
    assert page.locator("#matrix-plain").is_visible()
    assert page.locator("#score-table").is_visible()
    assert page.locator("#by-1 table").first.is_visible()
    assert page.locator("#made table").is_visible()
    assert page.locator("noscript p").is_visible()
    assert not page.locator("#slider").is_visible()
    assert not page.locator("#curves").is_visible()


# ----------------------------------------------------------------------------------------------- text is text


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "evil.html"
    models = []
    for name in EVIL:
        stretch = cases.stretch(0, 60)
        stretch = dataclasses.replace(
            stretch,
            series=name,
            times=(name,) * 60,
            reasons=tuple(f"{one} {name}" if one else "" for one in stretch.reasons),
        )
        models.append(cases.model(name, 1.5, points=20, parts={name: (name,)}, stretches=[stretch]))
    text = " ".join(EVIL)
    facts = {name: name for name in EVIL}
    report.write(
        path, cases.evaluation(models), title=text, summary=text, facts=facts, notes=EVIL, history=cases.history()
    )
    return path


def test_names_are_shown_as_they_are(visit, evil):
    page = visit(evil)
    assert page.text_content("h1") == " ".join(EVIL)
    assert page.title() == " ".join(EVIL)
    legend = page.eval_on_selector_all("#plot-curves .legendtext", "all => all.map((one) => one.textContent)")
    assert legend == list(EVIL)
    options = page.eval_on_selector_all("#model-threshold option", "all => all.map((one) => one.textContent)")
    assert options == list(EVIL)
    assert page.evaluate("document.images.length") == 0
    assert page.eval_on_selector_all("svg a", "all => all.length") == 0
    assert page.eval_on_selector_all("a", "all => all.every((one) => one.getAttribute('href').startsWith('#'))")
    for place, name in enumerate(EVIL):
        page.select_option("#model-timeline", str(place))
        assert page.eval_on_selector("#stretch", "one => one.selectedOptions[0].textContent").startswith(f"{name}: ")
        assert name in hover(page, "plot-timeline", "false alarm", 0)
        assert page.text_content("#error-table tbody th") == name
        ticks = page.eval_on_selector_all("#plot-timeline .xtick text", "all => all.map((one) => one.textContent)")
        assert all(one == name.replace(" ", "", 1) for one in ticks)  # the first space is a new line
        assert page.eval_on_selector_all("svg a", "all => all.length") == 0
    for place, name in enumerate(EVIL):  # of each model a curve and a trace of counts
        assert name in hover(page, "plot-reliability", 2 * place, 1)
        assert name in hover(page, "plot-curves", 2 * place, 5)


def test_a_script_that_got_in_would_not_run(browser, full, tmp_path):
    text = full.read_text("utf-8")
    broken = text.replace("<main", '<script>document.title = "broken"</script><main', 1)
    (tmp_path / "broken.html").write_text(broken, "utf-8")
    (tmp_path / "open.html").write_text(broken.replace("Content-Security-Policy", "x"), "utf-8")
    page, said = browser.new_page(), []
    page.on("console", lambda one: said.append(one.text))
    page.goto((tmp_path / "broken.html").as_uri())
    assert page.title() == "A title"
    assert any("Content Security Policy" in one for one in said)
    page.goto((tmp_path / "open.html").as_uri())
    assert page.title() == "broken"  # without the policy it would have
    page.close()
