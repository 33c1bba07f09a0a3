"""The page as text: what is in it, what is not, that it is valid and safe, and how large it is."""

import base64
import dataclasses
import hashlib
import itertools
import json
import math
import re
import sys
from html.parser import HTMLParser
from importlib import resources

import pytest

from scorewise import priors, report, scores
from scorewise.report import headline, packing, page, tables, words
from scorewise.report.data import payload
from tests import report_cases as cases

HALF = 0.5e-6 * (1 + 1e-9)  # of the seventh digit of the largest number, and of float64's last
NASTY = {
    "script": "<script>alert(1)</script>",
    "bold": "<b>x</b>",
    "link": '<a href="javascript:alert(1)">y</a>',
    "end": "</script><img src=x onerror=alert(1)>",
    "quotes": '"it\'s" `${1}` {{ 7 * 7 }} %{x}',
    "entity": "&lt;i&gt; &amp; &#60;",
    "emoji": "🚨 storm 👩‍🚀",
    "right to left": "אזעקה שווא",
    "comment": "<!-- <script> -->",
    "lines": "a\u2028b\u2029c\nd",
}


class Page(HTMLParser):
    """A page's elements, in order, with their texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self._open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in {"meta", "link", "input", "img", "br"}:
            self._open.append(len(self.tags) - 1)

    def handle_endtag(self, tag):
        while self._open and self.tags[self._open.pop()][0] != tag:
            pass

    def handle_data(self, data):
        for place in self._open:
            self.texts[place] += data

    def all(self, tag, **wanted):
        found = zip(self.tags, self.texts, strict=True)
        return [
            text
            for (name, attrs), text in found
            if name == tag and all(attrs.get(key) == value for key, value in wanted.items())
        ]

    @property
    def data(self):
        (found,) = self.all("script", type="application/json")
        return json.loads(found, parse_constant=pytest.fail)

    @property
    def policy(self):
        return next(attrs["content"] for tag, attrs in self.tags if attrs.get("http-equiv"))


def unpacked(column):
    sums = itertools.accumulate(0 if step is None else step for step in column["d"])
    return [None if step is None else one / 10 ** column["k"] for step, one in zip(column["d"], sums, strict=True)]


def small(**more):
    return cases.evaluation([cases.model("only", 1.5, points=40, weighted=False)], weighted=False, **more)


@pytest.fixture(scope="module")
def whole():
    text = report.render(
        cases.full(), title="A title", summary="A summary", history=cases.history(), facts=cases.FACTS, notes=["A note"]
    )
    return Page(text)


# ------------------------------------------------------------------------------------------------ what is in it


def test_headings_are_in_order(whole):
    levels = [tag for tag, _ in whole.tags if re.fullmatch("h[1-6]", tag)]
    assert levels == ["h1"] + ["h2"] * 8
    assert whole.all("h1") == ["A title"]
    assert whole.all("title") == ["A title"]
    assert whole.tags[0] == ("html", {"lang": "en"})


def test_the_nav_leads_to_every_section(whole):
    ids = [attrs["id"] for tag, attrs in whole.tags if tag == "section"]
    links = [attrs["href"] for tag, attrs in whole.tags if tag == "a" and attrs["href"] != "#main"]
    assert links == [f"#{one}" for one in ids]
    assert ids == ["scores", "threshold", "curves", "timeline", "reliability", "by-1", "training", "made"]


def test_sections_without_content_are_absent():
    models = [dataclasses.replace(cases.model("only", 1.5, points=40, weighted=False), reliability=())]
    found = Page(report.render(cases.evaluation(models, weighted=False, resampled=False), title="t"))
    assert [attrs["id"] for tag, attrs in found.tags if tag == "section"] == ["scores", "threshold", "curves"]
    assert not any(attrs.get("id") == "matrix-weighted" for _, attrs in found.tags)
    assert not any("model" in (attrs.get("class") or "").split() for _, attrs in found.tags)  # there is but one
    assert not any(attrs.get("id") == "judged" for _, attrs in found.tags)


def test_the_headline(whole):
    text = whole.all("header")[0]
    best = cases.full().models[0]
    for told in ("8,000", "12 more unknown", "640", "8.00 % of the rows", f"{best.weighted.scores['tss']:.3f}"):
        assert told in text
    low, high = best.weighted.intervals["tss"]
    assert f"{low:.3f} to {high:.3f}" in text
    assert "expect about 0.004 less on new ones" in text
    assert "“\u2068scorewise\u2069” is the best of 3 models" in text
    assert "95 % of 1,000 resamples of blocks of 20 samples" in text
    assert "Value(omega=(0.5, 0.3333, 0.25), g='max', isolated=2)" in text
    assert "A note" in text
    assert "A summary" in text


def test_the_headline_names_the_best_model_not_the_first():
    models = [cases.model("first", 1.0, points=40), cases.model("second", 2.0, points=40)]
    found = cases.evaluation(models)
    figures, told = headline.headline(found)
    assert figures[0][1] == words.score(models[1].weighted.scores["tss"])
    assert told[0].startswith("“\u2068second\u2069” is the best of 2")
    assert "less “\u2068second\u2069”, the best: +0.010" in told[1]
    assert "may be chance" in told[1]
    clear = tuple(dataclasses.replace(one, interval=(0.001, 0.02)) for one in found.differences)
    assert "does not hold 0" in headline.headline(dataclasses.replace(found, differences=clear))[1][1]


def test_of_a_score_where_less_is_better_the_least_is_best():
    models = [
        cases.model("first", 2.0, points=40, weighted=False),
        cases.model("second", 1.0, points=40, weighted=False),
    ]
    found = dataclasses.replace(cases.evaluation(models, weighted=False), score=scores.error_rate)
    expected = min(models, key=lambda one: one.plain.scores["error_rate"])
    assert headline.best_model(found) is expected
    assert "0.004 more on new ones" in headline.optimism(found, models[0])
    given = dataclasses.replace(models[0], chosen=False)
    shown = payload(dataclasses.replace(found, models=(given,)), None, points=4000, stretches=1)["models"][0]
    rates = given.curve.plain_scores["error_rate"]
    assert rates[shown["best"]] == min(rates) < rates[shown["judged"]]


@pytest.mark.parametrize(
    ("chosen", "gain", "told"),
    [
        (False, None, "was given, not chosen"),
        (True, None, "was not estimated"),
        (True, 0.0001, "by less than 0.001"),
        (True, -0.003, "shows no gain"),
        (True, 0.02, "expect about 0.020 less"),
    ],
)
def test_the_optimism_in_words(chosen, gain, told):
    found = cases.evaluation([dataclasses.replace(cases.model("m", 1.5, points=20), chosen=chosen, optimism=gain)])
    assert told in headline.optimism(found, found.models[0])


def test_the_tables_are_there_without_a_script(whole):
    evaluation = cases.full()
    captions = whole.all("caption")
    assert "The score that matters, at each model's threshold" in captions
    assert sum(caption.startswith("By “\u2068station") for caption in captions) == 3
    for judged, kind in ((evaluation.models[0].plain, "plain"), (evaluation.models[0].weighted, "weighted")):
        text = whole.all("table", id=f"matrix-{kind}")[0]
        assert all(words.cell(cell) in text for cell in judged.cells)
        shown = whole.all("td", **{"data-kind": kind})
        assert shown == [words.score(judged.scores[name]) for name in ("tss", *(n for n in cases.SCORES if n != "tss"))]
    (made,) = whole.all("section", id="made")
    assert all(name in made and value in made for name, value in cases.FACTS.items())
    assert "need JavaScript" in whole.all("noscript")[0]


def test_all_scores_of_all_models_with_their_intervals():
    evaluation = cases.full()
    table = tables.all_scores(evaluation)
    assert table.over == (("scorewise", 2), ("cross entropy", 2), ("boosted trees", 2))
    rows = {row[0].text: row[1:] for row in table.rows}
    assert len(rows) == 4 + len(cases.SCORES)
    third = evaluation.models[2].weighted
    assert rows["HSS"][5].text == f"{third.scores['hss']:.3f}"
    assert rows["HSS"][5].small == " to ".join(f"{end:.3f}" for end in third.intervals["hss"])
    assert rows["false positives"][4].text == words.cell(evaluation.models[2].plain.cells[1])


def test_differences_are_of_every_score_the_main_one_first():
    table = tables.differences(cases.full())
    assert len(table.rows) == 2 * 2 * len(cases.SCORES)
    assert [entry.text for entry in table.rows[0]] == ["TSS", "plain", "cross entropy", "+0.010", "93.0 %"]
    assert table.rows[0][3].small == "−0.005 to 0.030"
    row = tables.comparison(cases.full()).rows[1]
    assert [entry.text for entry in row[-2:]] == ["+0.010", "93.0 %"]
    assert row[0].text == "cross entropy"


def test_a_column_with_many_values_is_cut_and_says_so():
    many = {"station": tuple(f"s{i}" for i in range(1500))}
    found = cases.evaluation([cases.model("m", 1.5, points=20, parts=many)])
    ((_, (table,)),) = tables.parts(found)
    assert len(table.rows) == 1000
    assert table.note == "The first 1,000 of 1,500 values are shown."
    ((_, (table,)),) = tables.parts(cases.evaluation([cases.model("m", 1.5, points=20, parts={"a": ("x", "y")})]))
    assert table.note == ""
    assert [entry.text for entry in table.rows[0][-2:]] == ["–", "–"]  # of one class only: no threshold
    assert [entry.text for entry in table.rows[1][-2:]] == ["0.3", "0.800"]


def test_what_is_not_on_the_curve_is_told(monkeypatch):
    def told(**more):
        return report.render(cases.evaluation([cases.model("m", 1.5, points=20, **more)]), title="t")

    assert "Of 1,000,000 thresholds in the data of “\u2068m\u2069”, 20 are here" in told(of=1_000_000)
    text = told(of=65_538, bound={"tss": 0.000123})
    assert "Of 65,538 edges of bins of “\u2068m\u2069”, 20 are here" in text
    assert "weighted TSS is better than the best here by more than 0.00012." in text
    assert "weighted TSS is better than the best here." in told(bound={"tss": 0.0})
    assert "thresholds in the data" not in told()
    assert "from bins" not in told()
    monkeypatch.setattr(page, "_SIZES", ((15, 1),))  # thinned by the page itself
    assert "Of 40 thresholds in the data of “\u2068only\u2069”, " in report.render(small(), title="t")


def test_the_race():
    table = tables.training(cases.history())
    assert [row[0].text for row in table.rows] == ["0 %", "50 %", "100 %"]
    assert [row[4].text for row in table.rows] == ["–", "3 evaluations", "–"]
    found = payload(small(), cases.history(shares=(0.5,), steps=5000), points=10, stretches=1)["history"][0]
    assert len(found["steps"]) <= 1003
    assert [found["steps"][i] for i in found["chosen"]] == [50 * 4998, 50 * 4999, 50 * 5000]


# ----------------------------------------------------------------------------------------------- what it carries


def test_where_less_is_better_the_race_is_told_as_the_score_is():
    # the classifier keeps such scores negated, so that more is better
    ran = [{**one, "value": -0.1 * (k + 1)} for k, one in enumerate(cases.history(shares=(0.5,), steps=3))]
    best = tables.training(ran, greater_is_better=False).rows[0][1].text
    assert best == "0.100"
    one = dataclasses.replace(small(), score=scores.get("error_rate"))
    found = payload(one, ran, points=10, stretches=1)["history"][0]
    assert found["values"] == [0.1, 0.2, 0.3]


def test_the_data_are_the_curve(whole):
    for shown, model in zip(whole.data["models"], cases.full().models, strict=True):
        curve = model.curve
        assert shown["thresholds"] == list(curve.thresholds)
        for kind, cells, columns in (
            ("plain", curve.plain, curve.plain_scores),
            ("weighted", curve.weighted, curve.weighted_scores),
        ):
            for i in range(4):
                # seven digits of the largest
                wanted = [row[i] for row in cells]
                assert unpacked(shown[kind]["cells"][i]) == pytest.approx(wanted, rel=0, abs=HALF * max(wanted))
            assert set(shown[kind]["scores"]) == set(cases.SCORES)
            for name, column in shown[kind]["scores"].items():
                wanted = columns[name]
                assert unpacked(column) == pytest.approx(list(wanted), rel=0, abs=HALF * max(map(abs, wanted)))
        assert curve.thresholds[shown["judged"]] == model.threshold
        assert curve.thresholds[shown["half"]] == 0.5


def test_the_best_place_is_the_threshold_if_it_was_chosen_else_the_top_of_the_curve(whole):
    for shown, model in zip(whole.data["models"], cases.full().models, strict=True):
        values = model.curve.weighted_scores["tss"]
        assert values[shown["best"]] == max(values)
        assert (shown["best"] == shown["judged"]) == model.chosen


def test_a_stretch(whole):
    shown, stretch = whole.data["models"][0]["stretches"][1], cases.full().models[0].stretches[1]
    assert shown["times"] == list(stretch.times)
    assert unpacked(shown["steps"]) == list(stretch.steps)
    assert unpacked(shown["predictions"])[5] is None
    assert unpacked(shown["predictions"])[6:] == pytest.approx(stretch.predictions[6:], abs=1e-6)
    assert [("tn", "fp", "fn", "tp", "unknown")[i] for i in shown["outcomes"]] == list(stretch.outcomes)
    assert shown["reasons"] == [one for one in stretch.reasons if one]
    assert shown["costs"] == [cost for cost in stretch.costs if cost]
    assert len(shown["errors"]) == len(shown["reasons"]) > 10
    assert shown["label"] == f"station 1: {stretch.times[0]} to {stretch.times[-1]}, cost {words.cell(stretch.cost)}"


def test_steps_begin_with_zero():
    stretch = dataclasses.replace(cases.stretch(0, 30), steps=tuple(range(7, 37)))
    found = payload(
        cases.evaluation([cases.model("m", 1.5, points=20, stretches=[stretch])]), None, points=9, stretches=1
    )
    assert unpacked(found["models"][0]["stretches"][0]["steps"]) == list(range(30))


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.5, 1.0],
        [1.0, 5.0, 12_345_678_901.0],
        [-3.25, 1e-9, 1e9],
        [1.5e300, -1e300],
        [2e-310, 1e-310],
        [math.nan, 0.25, math.inf, 0.5, -math.inf],
        [math.nan],
        [],
    ],
)
def test_columns_survive_packing(values):
    column = packing.packed(values)
    json.dumps(column, allow_nan=False)
    found = (
        unpacked(column) if column["k"] >= 0 else [s * 10.0 ** -column["k"] for s in itertools.accumulate(column["d"])]
    )
    largest = max((abs(one) for one in values if math.isfinite(one)), default=0.0)
    for one, shown in zip(values, found, strict=True):
        if not math.isfinite(one):
            assert shown is None
        elif one == round(one) and largest < 2**53 and all(v == round(v) for v in values if math.isfinite(v)):
            assert shown == one
        else:
            assert shown == pytest.approx(one, rel=0, abs=max(HALF * largest, 1e-300))


def test_what_is_no_number_is_null():
    model = cases.model("m", 1.5, points=20, weighted=False)
    curve = model.curve
    columns = curve.plain_scores | {"hss": (math.nan, math.inf, *curve.plain_scores["hss"][2:])}
    plain = dataclasses.replace(model.plain, scores=model.plain.scores | {"hss": math.nan})
    bad = dataclasses.replace(
        model,
        curve=dataclasses.replace(curve, plain_scores=columns),
        plain=plain,
        expected=math.nan,
        reliability=(dataclasses.replace(model.reliability[0], observed=math.nan),),
    )
    found = Page(
        report.render(
            cases.evaluation([bad], weighted=False), title="t", history=[{**cases.history()[0], "value": math.nan}]
        )
    )
    assert unpacked(found.data["models"][0]["plain"]["scores"]["hss"])[:2] == [None, None]
    assert unpacked(found.data["models"][0]["plain"]["scores"]["hss"])[2] == pytest.approx(columns["hss"][2], abs=1e-6)
    assert found.data["models"][0]["reliability"]["observed"] == [None]
    assert found.data["history"][0]["values"] == [None]
    assert "–" in found.all("td", **{"data-score": "hss"})[0]


def test_a_density_that_is_infinite_at_the_ends():
    found = payload(dataclasses.replace(small(), prior=priors.Beta(0.5, 0.5)), None, points=9, stretches=1)["prior"]
    assert found[0] is found[-1] is None
    assert found[200] == pytest.approx(2 / math.pi, abs=1e-6)


# ---------------------------------------------------------------------------------------------------- safe text


@pytest.mark.parametrize("name", NASTY)
def test_text_of_the_user_is_text(name):
    text = NASTY[name]
    shown = text.replace("\n", " ").replace("\u2028", "\u2028")
    model = cases.model(
        text,
        1.5,
        points=20,
        parts={text: (text,)},
        stretches=[
            dataclasses.replace(cases.stretch(0, 20, stamp=text.replace("{", "{{").replace("}", "}}")), series=text)
        ],
    )
    other = dataclasses.replace(model, name=f"{text} again")
    raw = report.render(
        cases.evaluation([model, other]),
        title=text,
        summary=text,
        facts={text: text},
        notes=[text],
        history=cases.history(),
    )
    found = Page(raw)
    assert [attrs for tag, attrs in found.tags if tag == "script"] == [
        {"type": "application/json", "id": "data"},
        {},
        {},
    ]
    assert not any(tag in {"img", "b", "i"} for tag, _ in found.tags)
    assert not any(key.startswith("on") for _, attrs in found.tags for key in attrs)
    assert all(attrs["href"].startswith("#") for tag, attrs in found.tags if tag == "a")
    assert found.all("h1") == [shown]
    assert found.all("option")[:2] == [shown, f"{shown} again"]
    assert shown in found.all("section", id="made")[0]
    assert found.all("h2", id="by-1-title") == [f"By {shown}"]
    assert found.data["models"][0]["name"] == shown
    assert found.data["models"][0]["stretches"][0]["times"][0] == shown[:39] + ("…" if len(shown) > 40 else shown[39:])
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', raw, flags=re.DOTALL)
    assert not set(data) & set("<>&\u2028\u2029")


def test_long_names_are_cut():
    found = Page(report.render(cases.evaluation([cases.model("n" * 5000, 1.5, points=20)]), title="t" * 5000))
    assert found.all("h1") == ["t" * 199 + "…"]
    assert found.data["models"][0]["name"] == "n" * 119 + "…"


def test_half_a_surrogate_pair_can_be_written(tmp_path):
    report.write(tmp_path / "page.html", small(), title="broken \ud83d name", facts={"file": "a\udcff.csv"})
    assert "<h1><bdi>broken   name</bdi></h1>" in (tmp_path / "page.html").read_text("utf-8")


def test_only_these_scripts_may_run_and_nothing_is_asked_of_a_network(whole):
    scripts = [
        text for (tag, attrs), text in zip(whole.tags, whole.texts, strict=True) if tag == "script" and not attrs
    ]
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    rules = dict(rule.strip().split(" ", 1) for rule in whole.policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == [f"'sha256-{one}'" for one in hashes]
    assert set(rules) == {"default-src", "script-src", "style-src", "img-src"}
    assert "connect" not in whole.policy
    for name in ("page.js", "page.css", "page.html"):
        assert "//" not in re.sub(
            r"(?m)^\s*//.*$", "", resources.files("scorewise.report").joinpath(name).read_text("utf-8")
        )


def test_a_script_cannot_end_itself():
    assert page._script("a = '</SCRIPT>' + '<!--'\r\n") == "a = '\\x3C/SCRIPT>' + '\\x3C!--'\n"


# --------------------------------------------------------------------------------------------------------- size


def large(models, points, stretches):
    """Noise everywhere, so that nothing is shorter than it can be."""
    found = []
    for k in range(models):
        one = cases.model(f"model {k}", 1.2 + 0.1 * (k % 7), points=points)
        steps = tuple((i * 2654435761 + k * 97) % 10**9 / 1e12 for i in range(points))
        noisy = {
            kind: {name: tuple(v + e for v, e in zip(values, steps, strict=True)) for name, values in columns.items()}
            for kind, columns in (
                ("plain_scores", one.curve.plain_scores),
                ("weighted_scores", one.curve.weighted_scores),
            )
        }
        spans = tuple(cases.stretch(j + k, 600, series=f"station {j}") for j in range(stretches))
        found.append(dataclasses.replace(one, curve=dataclasses.replace(one.curve, **noisy), stretches=spans))
    return cases.evaluation(found)


def test_the_largest_usual_page_stays_within_ten_megabytes():
    text = report.render(large(5, 3000, 12), title="t", history=cases.history(), facts=cases.FACTS)
    assert len(text.encode()) <= 10_000_000
    shown = Page(text).data["models"]
    assert [len(one["stretches"]) for one in shown] == [12] * 5
    assert min(len(one["thresholds"]) for one in shown) >= 1900


def test_of_too_many_points_the_best_stay():
    evaluation = large(2, 6000, 1)
    for points in (500, 10):
        found = payload(evaluation, None, points=points, stretches=1)
        for shown, model in zip(found["models"], evaluation.models, strict=True):
            n = len(shown["thresholds"])
            assert n <= max(points, 4 + 4 * len(cases.SCORES))
            assert set(shown["thresholds"]) <= set(model.curve.thresholds)
            assert shown["thresholds"] == sorted(shown["thresholds"])
            assert shown["thresholds"][shown["judged"]] == model.threshold
            assert shown["thresholds"][shown["half"]] == 0.5
            for kind, columns in (("plain", model.curve.plain_scores), ("weighted", model.curve.weighted_scores)):
                for name, values in columns.items():
                    column = unpacked(shown[kind]["scores"][name])
                    near = HALF * max(map(abs, values))
                    assert max(column) == pytest.approx(max(values), rel=0, abs=near)
                    assert min(column) == pytest.approx(min(values), rel=0, abs=near)


def test_more_than_that_is_thinned_and_much_more_refused(monkeypatch):
    evaluation = large(3, 3000, 4)
    usual = len(report.render(evaluation, title="t").encode())
    monkeypatch.setattr(page, "LIMIT", usual - 500_000)
    text = report.render(evaluation, title="t")
    assert len(text.encode()) <= usual - 500_000
    assert len(Page(text).data["models"][0]["thresholds"]) < 3000
    monkeypatch.setattr(page, "LIMIT", 4_900_000)
    with pytest.raises(ValueError, match=r"larger than 5 MB, with 3 models .* Report fewer models"):
        report.render(evaluation, title="t")


# ------------------------------------------------------------------------------------------------ files, errors


def test_the_file_is_the_page(tmp_path):
    path = tmp_path / "page.html"
    more = {"title": "t", "summary": "s", "history": cases.history(), "facts": cases.FACTS, "notes": ["n"]}
    report.write(path, small(), **more)
    assert path.read_text("utf-8") == report.render(small(), **more)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        report.write(tmp_path / "not there" / "page.html", small(), title="t")
    with pytest.raises(ValueError, match="no model"):
        report.write(path, dataclasses.replace(small(), models=()), title="t")
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_what_cannot_be_reported_is_refused():
    with pytest.raises(ValueError, match="there is no model to report on"):
        report.render(dataclasses.replace(small(), models=()), title="t")
    with pytest.raises(ValueError, match=r"the score 'fbeta\(2\)' is not among those found of the model 'only'"):
        report.render(dataclasses.replace(small(), score=scores.fbeta(2)), title="t")
    model = small().models[0]
    nothing = dataclasses.replace(model.curve, thresholds=())
    with pytest.raises(ValueError, match="has no thresholds"):
        report.render(cases.evaluation([dataclasses.replace(model, curve=nothing)], weighted=False), title="t")


@pytest.mark.parametrize("missing", ["jinja2", "plotly.offline"])
def test_a_missing_extra_says_what_to_install(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"reports need .*pip install 'scorewise\[report\]'"):
        report.render(small(), title="t")


# --------------------------------------------------------------------------------------------- numbers, colours


def test_numbers():
    assert [words.score(v) for v in (0.0625, -0.5, 0.0, -0.0001, 123.456, -1234.5678, None, math.nan)] == [
        "0.063",
        "−0.500",
        "0.000",
        "0.000",
        "123.5",
        "−1,234.6",
        "–",
        "–",
    ]
    assert [words.cell(v) for v in (3.0, 12345.0, 0.125, 999.994, 1234.56, math.inf)] == [
        "3",
        "12,345",
        "0.13",
        "999.99",
        "1,234.6",
        "–",
    ]
    assert [words.threshold(v) for v in (0.5, 0.28667, 0.0, 1.0, -1.0, 0.000012345, 0.9999871, None)] == [
        "0.5",
        "0.2867",
        "0",
        "1",
        "−1",
        "0.000012",
        "0.999987",
        "–",
    ]
    assert [words.signed(v) for v in (0.01, -0.01, 0.0, 0.0001)] == ["+0.010", "−0.010", "0.000", "0.000"]
    assert words.plural(1, "model") == "1 model"
    assert words.plural(1200, "model") == "1,200 models"


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_told_from_the_paper():
    css = resources.files("scorewise.report").joinpath("page.css").read_text("utf-8")
    palettes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r"\{[^{}]*--paper:[^{}]*\}", css)
    ]
    assert len(palettes) == 4  # light, dark by the system, dark by the button, print
    assert palettes[1] == palettes[2]
    for one in palettes:
        assert set(one) == set(palettes[0])
        for text, on in (
            ("ink", "paper"),
            ("soft", "paper"),
            ("accent", "paper"),
            ("wrong", "paper"),
            ("ink", "panel"),
        ):
            assert contrast(one[text], one[on]) >= 4.5, (text, on)
        for mark in ("c0", "c1", "c2", "c3", "c4", "c5", "high", "event-ink", "alarm"):
            assert contrast(one[mark], one["paper"]) >= 3, mark
        assert contrast(one["soft"], one["event"]) >= 3  # the line of predictions, on events
