"""Raw tables: what a network is given, against the same made by hand."""

import datetime as dt
import math
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse, stats
from sklearn.base import BaseEstimator
from sklearn.preprocessing import QuantileTransformer

from scorewise.estimator.classifier import ScoreClassifier
from scorewise.estimator.tables import MOST_CATEGORIES, TableEncoder, read

ROWS = 120
EVERY = np.arange(ROWS)
quick = partial(
    ScoreClassifier,
    steps=4,
    evaluations=2,
    share=0.5,
    members=2,
    width=8,
    depth=1,
    progress=False,
    random_state=0,
)


def draw(seed=0):
    return np.random.default_rng(seed)


def columns_of(table):
    return read(BaseEstimator(), table, reset=True)


def inputs_of(table, rows=EVERY):
    """What a network is given of a table, after its rows were learned from."""
    columns = columns_of(table)
    return TableEncoder.fit(columns, rows).transform(columns)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# ---------------------------------------------------------------------------------------------------------- numbers


def test_numbers_have_their_ranks_normal_scores():
    x = np.exp(3 * draw().normal(size=(ROWS, 2)))
    numbers, codes = inputs_of(x)
    assert numbers.dtype == torch.float32
    assert codes.shape == (ROWS, 0)
    for j in range(2):
        rank = stats.rankdata(x[:, j]) - 1
        inner = (rank > 0) & (rank < ROWS - 1)
        scores = stats.norm.ppf(rank[inner] / (ROWS - 1))
        # quantiles of as many points as rows are these, up to the rounding of float32
        assert numbers[inner, j].numpy() == pytest.approx(scores, abs=1e-6)
        assert numbers[~inner, j].abs().min() > 5
    assert numbers.isfinite().all()


def test_units_and_outliers_do_not_matter():
    x = draw().normal(size=(ROWS, 1))
    far = np.where(x == x.max(), 1e12, x)
    assert same(inputs_of(x), inputs_of(far))
    assert inputs_of(x)[0] == pytest.approx(inputs_of(1e-3 * x + 5)[0], abs=1e-4)


def test_numbers_beyond_those_seen_are_at_the_end():
    x = np.arange(ROWS, dtype=float)[:, None]
    encoder = TableEncoder.fit(columns_of(x), EVERY)
    low, high, first, last = encoder.transform([np.array([-1e300, 1e300, 0, ROWS - 1])])[0][:, 0].tolist()
    assert (low, high) == (first, last)


def test_it_learns_from_some_rows_only():
    x = draw().normal(size=(ROWS, 1))
    some = EVERY[: ROWS // 2]
    changed = np.where(EVERY[:, None] < ROWS // 2, x, 1e6)
    one, other = (TableEncoder.fit(columns_of(each), some) for each in (x, changed))
    assert np.array_equal(one.quantiles, other.quantiles)
    assert not np.array_equal(one.quantiles, TableEncoder.fit(columns_of(changed), EVERY).quantiles)
    names = np.array(["a", "b"] * (ROWS // 4) + ["c", "d"] * (ROWS // 4), object)[:, None]
    assert TableEncoder.fit(columns_of(names), some).categories == {0: ["a", "b"]}


def test_missing_numbers_are_in_the_middle_and_told():
    x = draw().normal(size=(ROWS, 2))
    holed = x.copy()
    holed[::5, 1] = np.nan
    numbers, codes = inputs_of(holed)
    assert (numbers[::5, 1] == 0).all()
    assert codes[:, 0].tolist() == [int(i % 5 == 0) for i in range(ROWS)]
    scaled = QuantileTransformer(n_quantiles=ROWS, output_distribution="normal").fit_transform(holed)
    # up to the rounding of float32
    assert numbers.numpy() == pytest.approx(np.where(np.isnan(holed), 0, scaled), rel=1e-6)


def test_missing_for_the_first_time():
    x = draw().normal(size=(ROWS, 2))
    encoder = TableEncoder.fit(columns_of(x), EVERY)
    numbers, codes = encoder.transform([np.full(3, np.nan), x[:3, 1]])
    assert (numbers[:, 0] == 0).all()
    assert codes.shape == (3, 0)
    nobody_knows = encoder.transform(columns_of(pd.DataFrame({"a": [None] * 3, "b": x[:3, 1]})))
    assert same(nobody_knows, (numbers, codes))


@pytest.mark.parametrize(
    "column",
    [np.full(ROWS, 3.0), np.full(ROWS, np.nan), np.array(["a"] * ROWS, object), np.array([None] * ROWS, object)],
    ids=["number", "NaN", "text", "None"],
)
def test_columns_that_tell_nothing_are_left_out(column):
    x = draw().normal(size=ROWS)
    assert same(inputs_of(pd.DataFrame({"c": column, "x": x})), inputs_of(pd.DataFrame({"x": x})))
    alone = inputs_of(pd.DataFrame({"c": column}))
    assert alone[0].tolist() == [[0.0]] * ROWS
    assert alone[1].shape == (ROWS, 0)


def test_a_constant_that_is_sometimes_missing_tells_that():
    column = np.where(EVERY % 3 == 0, np.nan, 5.0)
    numbers, codes = inputs_of(column[:, None])
    assert numbers.shape == (ROWS, 0)
    assert codes[:, 0].tolist() == [int(i % 3 == 0) for i in range(ROWS)]


# ------------------------------------------------------------------------------------------------------- categories


def test_categories_are_coded_by_how_frequent_they_are():
    values = ["b"] * 60 + ["a"] * 30 + ["d"] * 15 + ["c"] * 15
    columns = columns_of(np.array(values, object)[:, None])
    encoder = TableEncoder.fit(columns, EVERY)
    assert encoder.categories == {0: ["b", "a", "c", "d"]}
    assert encoder.cardinalities == [5]
    asked = np.array(["a", "never seen", None, "b", "d", 7], object)
    # nothing is known of others, which are taken for the most frequent
    assert encoder.complete == [0]
    assert encoder.transform([asked])[1][:, 0].tolist() == [2, 1, 1, 1, 4, 1]
    holed = TableEncoder.fit(columns_of(np.array([None, *values[1:]], object)[:, None]), EVERY)
    assert holed.complete == []
    assert holed.transform([asked])[1][:, 0].tolist() == [2, 0, 0, 1, 4, 0]


def test_rare_categories_are_one():
    names = [f"n{k}" for k in range(MOST_CATEGORIES + 10)]
    values = np.array([name for k, name in enumerate(names) for _ in range(200 - k)], object)
    encoder = TableEncoder.fit([values], np.arange(len(values)))
    assert encoder.categories[0] == names[:MOST_CATEGORIES]
    assert encoder.complete == []
    codes = encoder.transform([np.array(names, object)])[1][:, 0].tolist()
    assert codes == [*range(1, MOST_CATEGORIES + 1), *[0] * 10]
    assert encoder.transform([np.array(["never seen", None], object)])[1][:, 0].tolist() == [0, 0]


TEXTS = ["u", "v", "w"] * (ROWS // 3)
KINDS = {
    "pandas object": pd.Series(TEXTS, dtype=object),
    "pandas string": pd.Series(TEXTS, dtype="string"),
    "pandas str": pd.Series(TEXTS),
    "pandas category": pd.Series(TEXTS, dtype="category"),
    "polars": pl.Series(TEXTS),
    "polars categorical": pl.Series(TEXTS, dtype=pl.Categorical),
    "polars enum": pl.Series(TEXTS, dtype=pl.Enum(["w", "v", "u"])),
    "numpy object": np.array(TEXTS, object),
    "numpy unicode": np.array(TEXTS),
}


def framed(series):
    if isinstance(series, pl.Series):
        return pl.DataFrame({"c": series})
    return pd.DataFrame({"c": series}) if isinstance(series, pd.Series) else series[:, None]


@pytest.mark.parametrize("name", KINDS)
def test_texts_are_categories_of_every_kind(name):
    _, codes = inputs_of(framed(KINDS[name]))
    assert codes[:, 0].tolist() == [1, 2, 3] * (ROWS // 3)


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([None, *TEXTS[1:]], dtype=object),
        pd.Series([math.nan, *TEXTS[1:]], dtype=object),
        pd.Series([pd.NA, *TEXTS[1:]], dtype="string"),
        pd.Series([None, *TEXTS[1:]]),
        pd.Series([None, *TEXTS[1:]], dtype="category"),
        pl.Series([None, *TEXTS[1:]]),
        np.array([None, *TEXTS[1:]], object),
    ],
    ids=["None", "NaN", "NA", "str", "category", "polars", "numpy"],
)
def test_texts_that_are_missing(series):
    _, codes = inputs_of(framed(series))
    # u is the rarest then
    assert codes[:, 0].tolist() == [0, 1, 2, *[3, 1, 2] * (ROWS // 3 - 1)]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([7, 3] * (ROWS // 2), dtype="category"),
        pd.Series([True, False] * (ROWS // 2)),
        pd.Series([True, False] * (ROWS // 2), dtype="boolean"),
        pl.Series([True, False] * (ROWS // 2)),
        np.array([True, False] * (ROWS // 2)),
        np.array([True, False] * (ROWS // 2), object),
        np.array([7, "x"] * (ROWS // 2), object),
    ],
    ids=["category of int", "bool", "boolean", "polars", "numpy bool", "numpy object", "mixed"],
)
def test_no_numbers_though_they_look_like_some(series):
    numbers, codes = inputs_of(framed(series))
    assert numbers.shape == (ROWS, 0)
    assert sorted(set(codes[:, 0].tolist())) == [1, 2]
    assert len(set(codes[::2, 0].tolist())) == 1


COUNTS = list(range(1, ROWS))


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([None, *COUNTS], dtype="Int64"),
        pd.Series([None, *COUNTS], dtype="Float64"),
        pd.Series([None, *COUNTS], dtype="float32"),
        pd.Series([None, *COUNTS], dtype="UInt8"),
        pd.Series([None, *COUNTS], dtype=object),
        pl.Series([None, *COUNTS]),
        pl.Series([None, *COUNTS], dtype=pl.Float32),
        np.array([None, *COUNTS], object),
        np.array([math.nan, *COUNTS]),
        np.array([math.nan, *COUNTS], np.float16),
    ],
    ids=["Int64", "Float64", "float32", "UInt8", "object", "polars", "polars float", "numpy object", "numpy", "half"],
)
def test_numbers_of_every_kind(series):
    plain = inputs_of(np.array([math.nan, *COUNTS])[:, None])
    assert same(inputs_of(framed(series)), plain)
    assert plain[1][:, 0].tolist() == [1, *[0] * (ROWS - 1)]


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (pd.DataFrame({"when": pd.date_range("2020", periods=3)}), ValueError, "the column 'when' holds times"),
        (pd.DataFrame({"gap": pd.to_timedelta([1, 2, 3], "h")}), ValueError, "the column 'gap' holds times"),
        (pl.DataFrame({"when": [dt.date(2020, 1, 1)]}), ValueError, "the column 'when' holds times"),
        (np.array([["2020-01-01"]], "M8[D]"), ValueError, "X holds times"),
        (np.array([[dt.date(2020, 1, 1)]], object), TypeError, "must be a string or a number, saw date"),
        (pd.DataFrame({"l": [[1], [2]]}), TypeError, "must be a string or a number, saw list"),
        (pl.DataFrame({"l": [[1], [2]]}), TypeError, "must be a string or a number"),
        (pd.DataFrame({"a": [1.0, math.inf]}), ValueError, "Input a contains infinity"),
        (pd.DataFrame({"a": pd.array([1.0, math.inf], "Float64")}), ValueError, "Input a contains infinity"),
        (pl.DataFrame({"a": [1.0, math.inf]}), ValueError, "Input a contains infinity"),
        (np.array([[1.0], [-math.inf]]), ValueError, "Input X contains infinity"),
        (np.array([[1.0, "a"], [math.inf, "b"]], object), ValueError, "contains infinity"),
        (np.array([[1 + 2j]]), ValueError, "Complex data not supported"),
        (sparse.eye(3).tocsr(), TypeError, "Sparse data was passed"),
        (pd.DataFrame({"a": []}), ValueError, "0 sample"),
        (pd.DataFrame(index=range(3)), ValueError, "0 feature"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "unique column names"),
        (pd.DataFrame([[1, 2]], columns=["a", 1]), TypeError, "names"),
        (np.zeros(3), ValueError, "Expected 2D array"),
        (np.zeros((3, 2, 2)), ValueError, "dim 3"),
        (3, ValueError, "Expected 2D array"),
    ],
    ids=[
        *("datetime", "timedelta", "date", "datetime64", "object date", "list", "polars list", "inf", "Float64 inf"),
        *("polars inf", "numpy inf", "object inf", "complex", "sparse", "no rows", "no columns", "equal names"),
        *("mixed names", "1-D", "3-D", "number"),
    ],
)
def test_refused(table, error, message):
    with pytest.raises(error, match=message):
        columns_of(table)


# ---------------------------------------------------------------------------------------------------- with a classifier


@pytest.fixture(scope="module")
def y():
    return (EVERY % 3 == 0).astype(int)


@pytest.fixture(scope="module")
def frame(y):
    x = draw().normal(size=(ROWS, 2))
    return pd.DataFrame(
        {
            "a": x[:, 0],
            "n": pd.array([None, *COUNTS], "Int64"),
            "c": pd.Categorical(TEXTS),
            "s": np.where(x[:, 1] > 0, "hot", "cold"),
            "b": x[:, 1] > 1,
        }
    )


def test_pandas_polars_and_arrays_give_the_same(frame, y):
    as_pandas = quick().fit(frame, y).predict_proba(frame)
    # through lists: polars itself would need pyarrow for it
    polars = pl.DataFrame({name: [None if pd.isna(value) else value for value in frame[name]] for name in frame})
    assert quick().fit(polars, y).predict_proba(polars).tolist() == as_pandas.tolist()
    array = frame.astype(object).to_numpy()
    assert quick().fit(array, y).predict_proba(array).tolist() == as_pandas.tolist()
    lists = frame.astype(object).to_numpy().tolist()
    assert quick().fit(array, y).predict_proba(np.array(lists, object)).tolist() == as_pandas.tolist()


def test_columns_are_known_by_name_and_place(frame, y):
    model = quick().fit(frame, y)
    assert model.feature_names_in_.tolist() == list("ancsb")
    for changed, message in (
        (frame[list("bscna")], "Feature names must be in the same order"),
        (frame.drop(columns="s"), "now missing"),
        (frame.rename(columns={"s": "t"}), "Feature names unseen at fit time"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(changed)
    plain = quick().fit(frame.astype(object).to_numpy(), y)
    with pytest.raises(ValueError, match="X has 4 features, but ScoreClassifier is expecting 5"):
        plain.predict(frame.astype(object).to_numpy()[:, :4])


def test_what_was_never_seen_can_be_predicted(frame, y):
    model = quick().fit(frame, y)
    known = model.predict_proba(frame)
    for change in ({"s": "new"}, {"s": None}, {"c": None}, {"a": math.nan}, {"a": None}, {"n": None}, {"b": None}):
        found = model.predict_proba(frame.assign(**change))
        assert np.isfinite(found).all()
        assert found.tolist() != known.tolist()
    rare, missing = (model.predict_proba(frame.assign(s=value)) for value in ("new", None))
    assert rare.tolist() == missing.tolist()


def test_what_was_never_seen_is_as_the_most_frequent_where_nothing_is_known_of_others(frame, y):
    names = np.where(EVERY % 4 == 0, "hot", "cold")
    never, sometimes = frame.assign(s=names), frame.assign(s=np.where(EVERY % 10 == 1, None, names))
    model = quick(steps=40).fit(never, y)
    frequent, rarer = (model.predict_proba(frame.assign(s=name)).tolist() for name in ("cold", "hot"))
    assert frequent != rarer
    for value in ("new", None):
        assert model.predict_proba(frame.assign(s=value)).tolist() == frequent
    model = quick(steps=40).fit(sometimes, y)
    others = [model.predict_proba(frame.assign(s=value)).tolist() for value in ("new", None)]
    assert others[0] == others[1]
    assert others[0] not in [model.predict_proba(frame.assign(s=name)).tolist() for name in ("cold", "hot")]


def test_a_text_where_numbers_were(frame, y):
    model = quick().fit(frame, y)
    with pytest.raises(ValueError, match="could not convert string to float: 'tall'"):
        model.predict(frame.assign(a="tall"))
    with pytest.raises(ValueError, match="contains infinity"):
        model.predict(frame.assign(a=math.inf))


def test_a_text_where_missing_numbers_were(frame, y):
    """Of a column of which only that it may be missing was learned."""
    holed = frame.assign(a=np.where(EVERY % 2, np.nan, 1.0))
    model = quick().fit(holed, y)
    with pytest.raises(ValueError, match="could not convert string to float: 'tall'"):
        model.predict(holed.assign(a="tall"))


def test_one_row(frame, y):
    model = quick().fit(frame, y)
    together = model.predict_proba(frame)
    alone = np.concatenate([model.predict_proba(frame[k : k + 1]) for k in range(5)])
    assert alone == pytest.approx(together[:5], abs=1e-6)  # float32, and other kernels for other sizes
    assert model.predict(frame[:1]).shape == (1,)
