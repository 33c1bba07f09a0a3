import copy
import itertools
import math
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scores.categorical import BasicContingencyManager
from sklearn import metrics

from scorewise import ConfusionMatrix, scores
from scorewise.scores import Score, cost, fbeta, get, names

NAMES = names()
FINLEY = (2680, 72, 23, 28)  # TN, FP, FN, TP
WITH_ARGUMENTS = [fbeta(0.5), fbeta(2), cost(fp=1, fn=20), cost(fp=3, fn=0)]
EVERY_SCORE = [*(get(name) for name in NAMES), *WITH_ARGUMENTS, 0.7 * get("tss") + 0.3 * get("hss")]
ids = {"ids": lambda value: value.name if isinstance(value, Score) else None}

repeatable = settings(max_examples=60, deadline=None, derandomize=True, database=None)
positive_cells = st.tuples(*[st.floats(1e-3, 1e4)] * 4)
any_cells = st.tuples(*[st.one_of(st.just(0.0), st.floats(1e-6, 1e6))] * 4)


def matrix(cells):
    return ConfusionMatrix(*(torch.as_tensor(cell, dtype=torch.float64) for cell in cells))


def value(score, cells):
    return score(matrix(cells)).item()


# ------------------------------------------------------------------------------ definitions, from the textbooks


def hit_rate(tn, fp, fn, tp):
    return 1 - Fraction(fn, tp + fn)


def false_alarm_rate(tn, fp, fn, tp):
    return Fraction(fp, fp + tn)


def success_ratio(tn, fp, fn, tp):
    return 1 - Fraction(fp, tp + fp)


def peirce(*cells):
    return hit_rate(*cells) - false_alarm_rate(*cells)


def heidke(tn, fp, fn, tp):
    n = tn + fp + fn + tp
    by_chance = Fraction((tp + fn) * (tp + fp) + (tn + fn) * (tn + fp), n)
    return (tp + tn - by_chance) / (n - by_chance)


def cohen(tn, fp, fn, tp):
    n = tn + fp + fn + tp
    agree = Fraction(tp + tn, n)
    expected = Fraction(tp + fn, n) * Fraction(tp + fp, n) + Fraction(tn + fn, n) * Fraction(tn + fp, n)
    return 1 - (1 - agree) / (1 - expected)


def gilbert(tn, fp, fn, tp):
    random_hits = Fraction((tp + fn) * (tp + fp), tn + fp + fn + tp)
    return (tp - random_hits) / (tp + fp + fn - random_hits)


def roebber(*cells):
    """CSI in the performance diagram (Roebber 2009)."""
    return 1 / (1 / success_ratio(*cells) + 1 / hit_rate(*cells) - 1)


def matthews(tn, fp, fn, tp):
    """The geometric mean of informedness and markedness, which share their sign."""
    marked = Fraction(tp, tp + fp) - Fraction(fn, tn + fn)
    informed = peirce(tn, fp, fn, tp)
    return math.copysign(math.sqrt(marked * informed), informed)


def harmonic(beta):
    def score(*cells):
        weight = Fraction(beta) ** 2
        return (1 + weight) / (weight / hit_rate(*cells) + 1 / success_ratio(*cells))

    return score


def yule(tn, fp, fn, tp):
    odds = Fraction(tp, fn) / Fraction(fp, tn)
    return (odds - 1) / (odds + 1)


def ferro_stephenson(*cells):
    """SEDI, Ferro and Stephenson (2011), equation 2."""
    h, f = hit_rate(*cells), false_alarm_rate(*cells)
    log_f, log_h, log_not_f, log_not_h = (math.log(x) for x in (f, h, 1 - f, 1 - h))
    return (log_f - log_h - log_not_f + log_not_h) / (log_f + log_h + log_not_f + log_not_h)


DEFINITIONS = {
    "accuracy": lambda tn, fp, fn, tp: Fraction(tp + tn, tn + fp + fn + tp),
    "error_rate": lambda tn, fp, fn, tp: 1 - Fraction(tp + tn, tn + fp + fn + tp),
    "precision": success_ratio,
    "recall": hit_rate,
    "specificity": lambda *cells: 1 - false_alarm_rate(*cells),
    "npv": lambda tn, fp, fn, tp: 1 - Fraction(fn, fn + tn),
    "f1": harmonic(1),
    "tss": peirce,
    "hss": heidke,
    "kappa": cohen,
    "csi": roebber,
    "jaccard": lambda tn, fp, fn, tp: Fraction(tp, (tn + fp + fn + tp) - tn),
    "gss": gilbert,
    "mcc": matthews,
    "balanced_accuracy": lambda *cells: (1 + peirce(*cells)) / 2,
    "gmean": lambda *cells: math.sqrt(hit_rate(*cells) * (1 - false_alarm_rate(*cells))),
    "fowlkes_mallows": lambda *cells: math.sqrt(hit_rate(*cells) * success_ratio(*cells)),
    "yule_q": yule,
    "sedi": ferro_stephenson,
    "cost": lambda tn, fp, fn, tp: -fp - fn,
}


def random_matrices(count=60, largest=500):
    generator = np.random.default_rng(20)
    return [tuple(int(cell) for cell in row) for row in generator.integers(1, largest, (count, 4))]


def test_the_contract_s_names_and_no_others():
    contract = (
        "accuracy error_rate precision recall specificity npv f1 tss hss csi gss mcc balanced_accuracy gmean "
        "fowlkes_mallows kappa jaccard yule_q sedi cost"
    )
    assert sorted(NAMES) == sorted(contract.split())
    assert set(DEFINITIONS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_value_is_the_definition_s(name):
    for cells in [FINLEY, (1, 1, 1, 1), (10**6, 3, 2, 1), *random_matrices()]:
        assert value(get(name), cells) == pytest.approx(float(DEFINITIONS[name](*cells)), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("beta", [0.25, 1, 2, 7])
def test_fbeta_is_the_weighted_harmonic_mean(beta):
    for cells in random_matrices():
        assert value(fbeta(beta), cells) == pytest.approx(float(harmonic(beta)(*cells)), rel=1e-13)


def test_fbeta_tends_to_recall_and_precision():
    cells = (7, 5, 3, 2)
    assert value(fbeta(1e200), cells) == pytest.approx(2 / 5, rel=1e-15)
    assert value(fbeta(1e-200), cells) == pytest.approx(2 / 7, rel=1e-15)


def test_cost_weighs_the_errors():
    assert value(cost(fp=2, fn=30), (7, 5, 3, 2)) == -(2 * 5 + 30 * 3)
    assert cost().name == "cost"


# Wilks, Statistical Methods in the Atmospheric Sciences, section 8.2 (table 8.1); Murphy, Wea. Forecasting 11 (1996).
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("percent_correct", 0.966),
        ("threat_score", 0.228),
        ("pod", 0.549),
        ("success_ratio", 1 - 0.720),
        ("hss", 0.355),
        ("peirce", 0.523),
        ("gss", 0.216),
        ("orss", 0.957),
    ],
)
def test_finley_s_tornadoes(name, published):
    assert value(get(name), FINLEY) == pytest.approx(published, abs=5e-4)


def labels_and_predictions(cells):
    return np.repeat([0, 0, 1, 1], cells), np.repeat([0, 1, 0, 1], cells)


SKLEARN = {
    "accuracy": metrics.accuracy_score,
    "error_rate": metrics.zero_one_loss,
    "precision": metrics.precision_score,
    "recall": metrics.recall_score,
    "specificity": lambda t, p: metrics.recall_score(t, p, pos_label=0),
    "npv": lambda t, p: metrics.precision_score(t, p, pos_label=0),
    "f1": metrics.f1_score,
    "csi": metrics.jaccard_score,
    "jaccard": metrics.jaccard_score,
    "mcc": metrics.matthews_corrcoef,
    "hss": metrics.cohen_kappa_score,
    "kappa": metrics.cohen_kappa_score,
    "balanced_accuracy": metrics.balanced_accuracy_score,
    "tss": lambda t, p: metrics.balanced_accuracy_score(t, p, adjusted=True),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learn_agrees(name):
    for cells in [FINLEY, *random_matrices(6, 60)]:
        expected = SKLEARN[name](*labels_and_predictions(cells))
        assert value(get(name), cells) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("beta", [0.5, 2, 3])
def test_scikit_learn_s_fbeta_agrees(beta):
    for cells in [FINLEY, *random_matrices(6, 60)]:
        expected = metrics.fbeta_score(*labels_and_predictions(cells), beta=beta)
        assert value(fbeta(beta), cells) == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("name", ["precision", "recall", "f1", "jaccard", "mcc"])
@pytest.mark.parametrize("present", list(itertools.product([0, 1], repeat=4))[1:])
def test_zero_denominators_as_scikit_learn_s_zero_division_0(name, present):
    cells = [cell * here for cell, here in zip((6, 4, 3, 5), present, strict=True)]
    options = {} if name == "mcc" else {"zero_division": 0}
    expected = SKLEARN[name](*labels_and_predictions(cells), **options)
    assert value(get(name), cells) == pytest.approx(expected, rel=1e-12, abs=1e-15)


SCORES_PACKAGE = {
    "accuracy": "accuracy fraction_correct",
    "precision": "precision success_ratio positive_predictive_value",
    "recall": "recall hit_rate probability_of_detection true_positive_rate sensitivity",
    "specificity": "specificity true_negative_rate",
    "npv": "negative_predictive_value",
    "f1": "f1_score",
    "tss": "peirce_skill_score true_skill_statistic hanssen_and_kuipers_discriminant",
    "hss": "heidke_skill_score",
    "kappa": "cohens_kappa",
    "csi": "threat_score critical_success_index",
    "gss": "equitable_threat_score gilberts_skill_score",
    "yule_q": "odds_ratio_skill_score yules_q",
    "sedi": "symmetric_extremal_dependence_index",
}


@pytest.mark.parametrize("name", SCORES_PACKAGE)
def test_the_scores_package_agrees_and_its_names_are_known(name):
    table = np.array([FINLEY, *random_matrices(20)])
    tn, fp, fn, tp = (xr.DataArray(column, dims="matrix") for column in table.T.astype(float))
    counts = {"tp_count": tp, "tn_count": tn, "fp_count": fp, "fn_count": fn, "total_count": tp + tn + fp + fn}
    manager = BasicContingencyManager(counts)
    for their_name in SCORES_PACKAGE[name].split():
        expected = getattr(manager, their_name)().to_numpy()
        ours = get(their_name)
        assert ours is get(name)
        np.testing.assert_allclose(ours(matrix(table.T)).numpy(), expected, rtol=1e-11, atol=1e-13)


# ---------------------------------------------------------------------------------------------- declared facts


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
@given(cells=any_cells)
@repeatable
def test_value_lies_in_the_declared_range(score, cells):
    low, high = score.range
    assert low - 1e-12 <= value(score, cells) <= high + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_declared_range_is_no_wider_than_need_be(name):
    score = get(name)
    if name == "cost":
        assert value(score, (1, 1e9, 1e9, 1)) < -1e9
        return
    extreme = [value(score, cells) for cells in [(0, 5, 5, 0), (5, 0, 0, 5), (1e-9, 5, 5, 1e-9)]]
    assert min(extreme) == pytest.approx(score.range[0], abs=1e-6)
    assert max(extreme) == pytest.approx(score.range[1], abs=1e-6)


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
def test_a_perfect_forecast_attains_perfect(score):
    assert value(score, (13, 0, 0, 4)) == pytest.approx(score.perfect, abs=1e-15)
    assert score.perfect in score.range


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
@given(cells=positive_cells, step=st.floats(1e-3, 1e4))
@repeatable
def test_direction_in_each_cell(score, cells, step):
    sign = 1 if score.greater_is_better else -1
    before = sign * value(score, cells)
    if "hss" in score.name or score.name in ("kappa", "gss"):
        assume(value(get("hss"), cells) >= 0)  # theory, section 4
    for cell, towards in enumerate((1, -1, -1, 1)):
        moved = list(cells)
        moved[cell] += step
        assert towards * (sign * value(score, moved) - before) >= -1e-12 * max(1, abs(before))


@pytest.mark.parametrize("name", ["hss", "kappa", "gss"])
def test_negative_skill_can_gain_from_more_false_positives(name):
    assert value(get(name), (1, 10, 10, 1)) < value(get(name), (1, 1000, 10, 1)) < 0


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
def test_each_score_moves_with_some_cell_in_its_direction(score):
    sign = 1 if score.greater_is_better else -1
    cells = (40.0, 7.0, 5.0, 20.0)
    changes = [
        sign * towards * (value(score, [c + (i == cell) for i, c in enumerate(cells)]) - value(score, cells))
        for cell, towards in enumerate((1, -1, -1, 1))
    ]
    assert max(changes) > 1e-4


def deviations_from_linearity(score, *, fixed_totals):
    generator = np.random.default_rng(3)
    for _ in range(20):
        positives, negatives = generator.uniform(1, 50, 2)
        ends = []
        for _ in range(2):
            if not fixed_totals:
                positives, negatives = generator.uniform(1, 50, 2)
            tp, tn = positives * generator.random(), negatives * generator.random()
            ends.append(np.array([tn, negatives - tn, positives - tp, tp]))
        middle = value(score, 0.3 * ends[0] + 0.7 * ends[1])
        yield abs(middle - 0.3 * value(score, ends[0]) - 0.7 * value(score, ends[1]))


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
def test_declared_linearity(score):
    in_cells = max(deviations_from_linearity(score, fixed_totals=False))
    in_totals = max(deviations_from_linearity(score, fixed_totals=True))
    linear = {"cells": (True, True), "totals": (False, True), "none": (False, False)}[score.linearity]
    for deviation, expected in zip((in_cells, in_totals), linear, strict=True):
        assert deviation < 1e-10 if expected else deviation > 1e-3


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
def test_empty_value_is_the_value_of_the_empty_matrix(score):
    assert value(score, (0, 0, 0, 0)) == score.empty_value


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_pattern_of_zero_cells_is_finite(score, dtype):
    patterns = torch.tensor(list(itertools.product([0, 1], repeat=4)), dtype=dtype)
    cells = (patterns * torch.tensor([6, 4, 3, 5], dtype=dtype)).T.clone().requires_grad_()
    values = score.function(*cells)
    (gradient,) = torch.autograd.grad(values.sum(), cells)
    assert values.dtype == dtype
    assert values.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
@pytest.mark.parametrize("size", [1e-3, 1e-100, 1e-153, 1e-300, 1e-308, 5e-324, 1e9, 1e100])
def test_tiny_and_huge_cells_are_finite(score, size):
    patterns = torch.tensor(list(itertools.product([0.0, 1.0, size], repeat=4)), dtype=torch.float64)
    cells = patterns.T.clone().requires_grad_()
    values = score.function(*cells)
    (gradient,) = torch.autograd.grad(values.sum(), cells)
    assert values.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"cost"}))
def test_scores_do_not_depend_on_the_unit_of_counting(name):
    for cells in random_matrices(10):
        assert value(get(name), np.array(cells) * 1e-6) == pytest.approx(value(get(name), cells), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
def test_a_batch_of_matrices_has_one_score_each(score):
    cells = torch.rand(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 9
    batch = score(ConfusionMatrix(*cells))
    assert batch.shape == (2, 3)
    one_by_one = [[value(score, cells[:, i, j]) for j in range(3)] for i in range(2)]
    torch.testing.assert_close(batch, torch.tensor(one_by_one, dtype=torch.float64), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
def test_gradcheck(score):
    generator = torch.Generator().manual_seed(1)
    cells = [(torch.rand(3, dtype=torch.float64, generator=generator) + 0.3).requires_grad_() for _ in range(4)]
    assert torch.autograd.gradcheck(score.function, cells)
    assert torch.autograd.gradgradcheck(score.function, cells)


@pytest.mark.parametrize("name", ["precision", "recall", "f1", "csi"])
def test_scores_learn_where_there_is_no_true_positive_yet(name):
    tp = torch.zeros((), dtype=torch.float64, requires_grad=True)
    other = [torch.tensor(cell, dtype=torch.float64) for cell in (6.0, 4.0, 3.0)]
    (gradient,) = torch.autograd.grad(get(name).function(*other, tp), tp)
    assert gradient > 0.1


def evaluate_latex(formula, **symbols):
    """The value of the little LaTeX that the formulas are written in: `a, \\quad name = b, \\ name = c`."""
    main, _, definitions = formula.partition(r",\quad")
    for definition in filter(None, definitions.split(r",\ ")):
        name, _, meaning = definition.partition("=")
        symbols[name.strip()] = evaluate_latex(meaning, **symbols)
    text = re.sub(r"\\(left|right)", "", main).replace(r"\cdot", "*").replace(r"\,", "*")
    text = re.sub(r"\\log (\w)", r"log(\1)", text).replace(r"\log", "log")
    text = re.sub(r"\\frac(\d)(\d)", r"(\1/\2)", text)
    while "{" in text:  # innermost first
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", text)
        text = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)
    text = re.sub(r"(?<=[\d)])\(", "*(", text)
    return eval(text, {"log": math.log, "sqrt": math.sqrt}, symbols)  # noqa: S307


@pytest.mark.parametrize("score", EVERY_SCORE, **ids)
def test_the_formula_of_the_documentation_is_the_function(score):
    for tn, fp, fn, tp in [FINLEY, *random_matrices(5)]:
        documented = evaluate_latex(score.formula, TN=tn, FP=fp, FN=fn, TP=tp)
        assert value(score, (tn, fp, fn, tp)) == pytest.approx(documented, rel=1e-12)


# ---------------------------------------------------------------------------------------------------- lookup


@pytest.mark.parametrize(
    ("synonym", "name"),
    [
        ("youden_j", "tss"),
        ("pss", "tss"),
        ("informedness", "tss"),
        ("threat_score", "csi"),
        ("ets", "gss"),
        ("heidke", "hss"),
        ("dice", "f1"),
        ("Youden's J", "tss"),
        ("Cohen’s kappa", "kappa"),
        ("Hanssen-Kuipers", "tss"),
        ("  F1-Score ", "f1"),
        ("Equitable Threat  Score", "gss"),
        ("MCC", "mcc"),
        ("IoU", "jaccard"),
        ("phi coefficient", "mcc"),
    ],
)
def test_synonyms_that_people_use(synonym, name):
    assert get(synonym) is get(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_and_synonym_is_found_however_it_is_written(name):
    score = get(name)
    assert score.name == name
    for known in (name, *score.synonyms):
        for written in (known, known.upper(), known.replace("_", "-"), known.replace("_", " ").title()):
            assert get(written) is score


def test_no_name_means_two_scores():
    everything = [known for name in NAMES for known in (name, *get(name).synonyms)]
    assert len(everything) == len(set(everything))


@pytest.mark.parametrize("name", NAMES)
def test_the_module_has_each_score_as_an_attribute(name):
    attribute = getattr(scores, name)
    assert (attribute() if name == "cost" else attribute).name == name


def test_a_score_is_its_own_name():
    mine = Score("mine", lambda tn, fp, fn, tp: tp)
    assert get(mine) is mine


def test_unknown_name_lists_the_choices_and_the_nearest():
    with pytest.raises(ValueError, match="'acuracy'") as caught:
        get("acuracy")
    assert "Did you mean accuracy" in str(caught.value)
    for name in NAMES:
        assert name in str(caught.value)


def test_unknown_name_without_a_near_one_suggests_nothing():
    with pytest.raises(ValueError, match=r"there is no score 'zzz'\. There are: accuracy, "):
        get("zzz")


@pytest.mark.parametrize("name", ["fbeta", "F-beta", "fbeta_score"])
def test_fbeta_by_name_says_how_to_give_beta(name):
    with pytest.raises(ValueError, match=r"needs an argument: pass scorewise\.scores\.fbeta\(2\)"):
        get(name)


@pytest.mark.parametrize("factory", [fbeta, cost])
def test_a_score_with_arguments_must_be_called(factory):
    with pytest.raises(TypeError, match=f"pass {factory.__name__}\\("):
        get(factory)


@pytest.mark.parametrize(("name", "beta"), [("f2", "2"), ("F0.5 score", "0.5"), ("f_3", "3")])
def test_f_scores_by_number_point_to_fbeta(name, beta):
    with pytest.raises(ValueError, match=rf"pass scorewise\.scores\.fbeta\({beta}\)"):
        get(name)


def test_an_array_is_not_a_matrix():
    with pytest.raises(TypeError, match=r"saw ndarray.*ConfusionMatrix\(\*array\.ravel\(\)\)"):
        get("tss")(np.ones((2, 2)))


@pytest.mark.parametrize("wrong", [None, 3, ["tss"], lambda tn, fp, fn, tp: tp])
def test_what_is_no_name_and_no_score_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=f"must be a name or a scorewise.scores.Score, saw {type(wrong).__name__}"):
        get(wrong)


@pytest.mark.parametrize("beta", [0, -1, math.nan, math.inf, "2", True, None])
def test_impossible_beta(beta):
    with pytest.raises(ValueError, match="beta must be a finite number greater than 0, saw"):
        fbeta(beta)


@pytest.mark.parametrize("wrong", [-1e-9, math.nan, math.inf, "1", True, None])
@pytest.mark.parametrize("argument", ["fp", "fn"])
def test_impossible_cost(argument, wrong):
    with pytest.raises(ValueError, match=f"cost: {argument} must be a finite number of at least 0, saw"):
        cost(**{argument: wrong})


def test_numbers_of_numpy_are_numbers():
    assert fbeta(np.int64(2)).name == "fbeta(2)"
    assert cost(fp=np.float32(0.5), fn=np.float64(2)).name == "cost(fp=0.5, fn=2)"
    assert (get("tss") * np.float32(0.5)).name == "0.5·tss"
    assert (np.float64(0.5) * get("tss")).name == "0.5·tss"


def test_names_tell_arguments_apart():
    assert cost(fp=1234567).name != cost(fp=1234568).name
    assert fbeta(2).name != fbeta(2.0000001).name


# --------------------------------------------------------------------------------------------------- algebra

tss, hss, f1, error_rate = (get(name) for name in ("tss", "hss", "f1", "error_rate"))
CELLS = (40, 7, 5, 20)


@pytest.mark.parametrize(
    ("combined", "expected"),
    [
        (0.7 * tss + 0.3 * hss, lambda: 0.7 * value(tss, CELLS) + 0.3 * value(hss, CELLS)),
        (tss * 2 - error_rate, lambda: 2 * value(tss, CELLS) - value(error_rate, CELLS)),
        (tss / 4 + f1 / 4, lambda: (value(tss, CELLS) + value(f1, CELLS)) / 4),
        (1 - error_rate, lambda: value(get("accuracy"), CELLS)),
        (1 - tss, lambda: 1 - value(tss, CELLS)),
        (tss - 1, lambda: value(tss, CELLS) - 1),
        (3 + tss + 4, lambda: 7 + value(tss, CELLS)),
        (-tss, lambda: -value(tss, CELLS)),
        (-(-tss + 2), lambda: value(tss, CELLS) - 2),
        (sum([tss, hss, f1]) / 3, lambda: sum(value(s, CELLS) for s in (tss, hss, f1)) / 3),
        (0.5 * (tss + 0.5 * (hss - 3)), lambda: 0.5 * value(tss, CELLS) + 0.25 * (value(hss, CELLS) - 3)),
        (cost(fp=2) - 3 * error_rate, lambda: -19 - 3 * value(error_rate, CELLS)),
    ],
    ids=lambda v: v.name if isinstance(v, Score) else "",
)
def test_combinations_are_what_they_say(combined, expected):
    assert isinstance(combined, Score)
    assert value(combined, CELLS) == pytest.approx(expected(), rel=1e-14)


def test_a_combination_s_facts_follow_from_its_parts():
    both = 0.7 * tss + 0.3 * get("sedi")
    assert both.name == "0.7·tss + 0.3·sedi"
    assert both.range == (-1, 1)
    assert both.greater_is_better
    assert both.linearity == "none"
    assert both.empty_value == pytest.approx(-0.7)
    linear = tss + get("recall")
    assert (linear.linearity, linear.range, linear.empty_value) == ("totals", (-1, 2), -1)
    costs = 2 * cost(fp=1, fn=5) + 3
    assert (costs.linearity, costs.range, costs.empty_value) == ("cells", (-math.inf, 3), 3)
    assert (costs + tss).linearity == "totals"


def test_minus_turns_the_direction_and_the_range():
    down = -get("gss")
    assert not down.greater_is_better
    assert down.range == (-1, 1 / 3)
    assert down.perfect == -1
    up = 1 - error_rate
    assert up.greater_is_better
    assert (up.range, up.perfect, up.empty_value) == ((0, 1), 1, 1)


def test_sums_are_flattened():
    nested = 0.5 * (tss + hss) + 0.5 * (tss + f1)
    assert nested.name == "tss + 0.5·hss + 0.5·f1"
    assert 0.5 * tss + 0.5 * tss is tss
    assert 2 * tss - tss is tss
    assert (tss + 1) - 1 is tss
    assert (fbeta(2) + fbeta(2)).name == "2·fbeta(2)"


def test_scores_that_share_a_name_stay_apart():
    a, b = Score("mine", lambda tn, fp, fn, tp: tp), Score("mine", lambda tn, fp, fn, tp: tn)
    assert value(a + b, CELLS) == 60
    assert value(cost(fp=1234567) + cost(fp=1234568), (0, 1, 0, 0)) == -(1234567 + 1234568)


@pytest.mark.parametrize("nothing", [lambda: tss - tss, lambda: 0.5 * (hss + f1) - hss / 2 - f1 / 2])
def test_what_cancels_is_no_score(nothing):
    with pytest.raises(ValueError, match="cancel"):
        nothing()


def test_terms_that_pull_together_after_a_sign():
    assert (tss - error_rate).greater_is_better
    assert not (error_rate - cost()).greater_is_better


@pytest.mark.parametrize("opposed", [lambda: tss - hss, lambda: tss + error_rate, lambda: tss + (1 - hss)])
def test_terms_that_pull_in_opposite_directions_are_refused(opposed):
    with pytest.raises(ValueError, match=r"the terms 1·tss, -?1·(hss|error_rate) pull in opposite directions"):
        opposed()


@pytest.mark.parametrize("factor", [0, 0.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("act", [lambda a: tss * a, lambda a: a * tss, lambda a: tss / a])
def test_impossible_factors(act, factor):
    with pytest.raises(ValueError, match="a finite number other than 0, saw"):
        act(factor)


@pytest.mark.parametrize("constant", [math.nan, math.inf])
@pytest.mark.parametrize("act", [lambda a: tss + a, lambda a: a + tss, lambda a: tss - a, lambda a: a - tss])
def test_impossible_constants(act, constant):
    with pytest.raises(ValueError, match="a finite number can be added to a score, saw"):
        act(constant)


@pytest.mark.parametrize("wrong", ["hss", None, True, tss])
@pytest.mark.parametrize("act", [lambda a: tss * a, lambda a: a * tss, lambda a: tss / a])
def test_factors_are_numbers(act, wrong):
    with pytest.raises(TypeError, match=f"by a number, saw {type(wrong).__name__}|unsupported operand"):
        act(wrong)


@pytest.mark.parametrize("wrong", ["hss", None, True])
@pytest.mark.parametrize("act", [lambda a: tss + a, lambda a: tss - a, lambda a: a + tss])
def test_summands_are_scores_or_numbers(act, wrong):
    with pytest.raises(TypeError, match=r"a score or a number, saw|can only concatenate"):
        act(wrong)


# -------------------------------------------------------------------------------------------------- copying


def true_positives(tn, fp, fn, tp):
    return tp


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])  # noqa: S301
@pytest.mark.parametrize("score", [*EVERY_SCORE, 1 - error_rate, Score("mine", true_positives)], **ids)
def test_copies_and_pickles_are_the_same_score(duplicate, score):
    twin = duplicate(score)
    assert twin == score
    assert value(twin, CELLS) == value(score, CELLS)


def test_a_user_s_score_that_takes_a_registered_name_keeps_its_function():
    mine = Score("tss", true_positives)
    twin = pickle.loads(pickle.dumps(mine))  # noqa: S301
    assert value(twin, CELLS) == 20


def test_scores_are_values():
    assert fbeta(2) == fbeta(2.0)
    assert fbeta(2) != fbeta(3)
    assert len({tss, get("pss"), hss, fbeta(2), fbeta(2)}) == 3
    with pytest.raises(AttributeError):
        tss.name = "other"
