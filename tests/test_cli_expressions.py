"""Scores, priors and weights written as text: what they stand for, and that nothing else is understood."""

import math

import pytest
import torch

import scorewise as sw
from scorewise.cli import expressions
from scorewise.cli.errors import InputError
from scorewise.cli.formulas import plain

MATRIX = sw.ConfusionMatrix(tn=2680, fp=72, fn=23, tp=28)  # Finley's tornadoes
GRID = torch.linspace(0, 1, 101, dtype=torch.float64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((name, sw.scores.get(name)) for name in sw.scores.names()),
        ("Threat score", sw.scores.csi),
        ("threat-score", sw.scores.csi),
        ("Youden's J", sw.scores.tss),
        ("TSS", sw.scores.tss),
        ("BalancedAccuracy", sw.scores.balanced_accuracy),
        (" tss ", sw.scores.tss),
        ("fbeta(2)", sw.scores.fbeta(2)),
        ("FBeta(beta=1/2)", sw.scores.fbeta(0.5)),
        ("cost(fp=1, fn=5)", sw.scores.cost(fp=1, fn=5)),
        ("cost()", sw.scores.cost()),
        ("0.7*tss + 0.3*hss", 0.7 * sw.scores.tss + 0.3 * sw.scores.hss),
        ("tss - error_rate", sw.scores.tss - sw.scores.error_rate),
        ("tss-error_rate", sw.scores.tss - sw.scores.error_rate),
        ("(heidke + ets) / 2", (sw.scores.hss + sw.scores.gss) / 2),
        ("-cost(fn=+3)", -sw.scores.cost(fn=3)),
        ("tss + 1", sw.scores.tss + 1),
    ],
)
def test_scores(text, expected):
    found = expressions.score(text)
    assert found.name == expected.name
    assert float(found(MATRIX)) == float(expected(MATRIX))
    assert found.greater_is_better == expected.greater_is_better


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uniform", sw.priors.Uniform()),
        ("Uniform(0.2, high=0.8)", sw.priors.Uniform(0.2, 0.8)),
        ("beta(2, 8)", sw.priors.Beta(2, 8)),
        ("raised_cosine(0.5, 0.1)", sw.priors.RaisedCosine(0.5, 0.1)),
        ("RaisedCosine()", sw.priors.RaisedCosine()),
        ("kumaraswamy(2, 3)", sw.priors.Kumaraswamy(2, 3)),
        ("triangular(0, 0.25, 1)", sw.priors.Triangular(0, 0.25, 1)),
        ("truncated_normal(mean=0.3, std=0.1)", sw.priors.TruncatedNormal(0.3, 0.1)),
        ("logistic(0.4, 0.1)", sw.priors.Logistic(0.4, 0.1)),
        (
            "mixture([uniform, beta(2, 8)], [0.25, 3/4])",
            sw.priors.Mixture([sw.priors.Uniform(), sw.priors.Beta(2, 8)], [0.25, 0.75]),
        ),
    ],
)
def test_priors(text, expected):
    found = expressions.prior(text)
    assert type(found) is type(expected)
    assert torch.equal(found.cdf(GRID), expected.cdf(GRID))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cost(fn=5)", sw.weights.Cost(fn=5)),
        ("cost", sw.weights.Cost()),
        ("cross_entropy(positive=2)", sw.weights.CrossEntropy(positive=2)),
        ("Margin(2)", sw.weights.Margin(2)),
        ("ClassFrequency", sw.weights.ClassFrequency()),
        ("value", sw.weights.Value(sw.weights.PUBLISHED)),
        ("value()", sw.weights.Value(sw.weights.PUBLISHED)),
        ("published", sw.weights.Value(sw.weights.PUBLISHED, isolated=2)),
        ("value(omega=[0.5, 0.25], isolated=2)", sw.weights.Value([0.5, 0.25], isolated=2)),
        ("value((0.5, 1/4))", sw.weights.Value([0.5, 0.25])),
        ('value(geometric(3, 0.4), g="prod")', sw.weights.Value(sw.weights.geometric(3, 0.4), "prod")),
        ("value(half_life(4, half_life=2))", sw.weights.Value(sw.weights.half_life(4, 2))),
        ("value(linear(3))", sw.weights.Value(sw.weights.linear(3))),
        ("cost(fn=5) * class_frequency()", sw.weights.Cost(fn=5) * sw.weights.ClassFrequency()),
        ("published * cost(2)", sw.weights.Value(sw.weights.PUBLISHED, isolated=2) * sw.weights.Cost(2)),
    ],
)
def test_weights(text, expected):
    assert repr(expressions.weight(text)) == repr(expected)


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        ("score", "tsss", "Did you mean tss"),
        ("score", "", "not understood"),
        ("score", "1", "is no score, but a number"),
        ("score", "'nothing'", "is no score, but a text"),
        ("score", "[tss]", "is no score, but a list"),
        ("score", "tss(3)", "takes no arguments"),
        ("score", "fbeta", "fbeta(beta)"),
        ("score", "fbeta(2, 3)", "fbeta(beta)"),
        ("score", "f2", "pass fbeta(2)"),
        ("score", "fbeta(-1)", "greater than 0"),
        ("score", "fbeta(beta=1/0)", "division by zero"),
        ("score", "tss * hss", "multiplied by a number"),
        ("score", "tss + cost(fp=1) - error_rate + nothing", "no score 'nothing'"),
        ("score", "tss + error_rate", "opposite directions"),
        ("score", "tss - tss", "cancel"),
        ("score", "tss ** 2", "stands for nothing"),
        ("score", "tss.function", "stands for nothing"),
        ("score", "tss[0]", "stands for nothing"),
        ("score", "(lambda: 1)()", "stands for nothing"),
        ("score", "__import__('os')", "no score '__import__'"),
        ("score", "cost(*[1, 2])", "holds a *"),
        ("score", "cost(**{'fp': 1})", "holds a *"),
        ("score", "cost(fp=True)", "holds True"),
        ("score", "cost(fp=None)", "holds None"),
        ("score", "cost(fp=1j)", "holds 1j"),
        ("score", "tss; hss", "not understood"),
        ("score", "tss := 1", "not understood"),
        ("score", "(tss if 1 else hss)", "stands for nothing"),
        ("score", "f'{tss}'", "stands for nothing"),
        ("score", "'a' * 3", "no number"),
        ("score", "[1] * 1000000000", "no number"),
        ("score", "fbeta(1e400)", "too large"),
        ("score", "fbeta(" + "9" * 500 + ")", "too large"),
        ("score", "(" * 300 + "tss" + ")" * 300, "not understood"),
        ("score", "tss + " * 500 + "tss", "at most 1,000"),
        ("score", "tss\0", "not understood"),
        ("prior", "tss", "There are: uniform"),
        ("prior", "beta", "beta(alpha, beta)"),
        ("prior", "beta(2)", "beta(alpha, beta)"),
        ("prior", "beta(2, 8, low=0)", "unexpected keyword argument 'low'"),
        ("prior", "beta(-1, 2)", "saw alpha=-1"),
        ("prior", "beta('a', 2)", "alpha must be"),
        ("prior", "uniform * 2", "no number"),
        ("prior", "mixture([uniform], [0.5])", "sum to 1"),
        ("prior", "mixture(3, 4)", "list of priors"),
        ("prior", "density(x)", "There are: uniform"),
        ("weight", "custom", "There are: cost"),
        ("weight", "value(omega=[2])", "below 1"),
        ("weight", "value(omega=3)", "list"),
        ("weight", "value(g='sum')", "'max', 'prod'"),
        ("weight", "geometric(3)", "is no weight, but a list"),
        ("weight", "cost * 2", "multiplied by a weight"),
        ("weight", "cost(fn=-1)", "at least 0"),
        ("weight", "published(2)", "takes no arguments"),
        ("weight", "tss", "no weight 'tss'"),
    ],
)
def test_what_is_not_understood_is_told(read, text, told):
    with pytest.raises(InputError) as error:
        getattr(expressions, read)(text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_at_least():
    assert expressions.at_least([]) is None
    assert expressions.at_least(["precision=0.9", " Threat score = 0.25"]) == {"precision": 0.9, "Threat score": 0.25}


@pytest.mark.parametrize(
    "text", ["precision", "precision=", "=0.5", "precision=much", "precision=nan", "precision=inf"]
)
def test_what_at_least_does_not_understand(text):
    with pytest.raises(InputError, match="NAME=VALUE"):
        expressions.at_least([text])


def test_every_prior_and_weight_that_can_be_written_has_a_name():
    without = {"Density", "Truncated", "ThresholdPrior"}  # they are made of functions and objects
    made = {name for name in sw.priors.__all__ if name[0].isupper() and name != "Parameter"}
    assert {one.__name__ for one in expressions.PRIORS.values()} == made - without
    kinds = {name for name in sw.weights.__all__ if isinstance(getattr(sw.weights, name), type)}
    written = {type(expressions.weight(text)).__name__ for text in ("cost", "cross_entropy", "margin(1)", "value")}
    assert written | {"ClassFrequency"} == kinds - {"Custom", "Product", "Weight", "Admissibility"}


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (sw.scores.tss.formula, "TP / (TP + FN) + TN / (TN + FP) - 1"),
        (sw.scores.mcc.formula, "(TP · TN - FP · FN) / (√((TP + FP)(TP + FN)(TN + FP)(TN + FN)))"),
        (sw.scores.f1.formula, "(2 TP) / (2 TP + FP + FN)"),
        (sw.priors.Kumaraswamy.formula, "F(x) = 1 - (1 - x^a)^b"),
        (sw.weights.ClassFrequency.formula, "w = (1-y) n / (2N_0) + y n / (2N_1)"),
        (sw.weights.Margin.formula, "w = 1 + κ |y\u0302 - τ|"),
    ],
)
def test_formulas_in_one_line(latex, expected):
    assert plain(latex) == expected


def test_no_formula_keeps_latex():
    formulas = [sw.scores.get(name).formula for name in sw.scores.names()]
    formulas += [one.formula for one in expressions.PRIORS.values()]
    formulas += [getattr(sw.weights, name).formula for name in ("Cost", "CrossEntropy", "Margin", "Value", "Product")]
    for one in map(plain, formulas):
        assert not set("\\{}") & set(one)
        assert one.count("(") == one.count(")")


def test_a_formula_as_text_has_the_value_of_the_score():
    cells = {"TN": 2680, "FP": 72, "FN": 23, "TP": 28, "log": math.log}
    for name in ("accuracy", "precision", "tss", "csi", "yule_q", "recall", "npv"):
        text = plain(sw.scores.get(name).formula).replace("·", "*")
        assert eval(text, {"__builtins__": {}}, cells) == pytest.approx(float(sw.scores.get(name)(MATRIX)), rel=1e-12)  # noqa: S307  # of our own formulas
