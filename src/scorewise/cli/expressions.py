"""Scores, priors and weights, written as text: names, numbers and calls; nothing else is understood, or run."""

from __future__ import annotations

import ast
import contextlib
import difflib
import inspect
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from scorewise import priors, scores, weights
from scorewise.cli.errors import InputError
from scorewise.priors import ThresholdPrior
from scorewise.scores import Score
from scorewise.weights import Weight

_LONGEST = 1000
_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def published() -> Weight:
    """The value weights of the published skill scores: an alarm 1, 2, 3 steps early is worth 1/2, 1/3, 1/4."""
    return weights.Value(weights.PUBLISHED, isolated=2)


def value(omega: Any = weights.PUBLISHED, g: str = "max", isolated: float = 1.0) -> Weight:
    """Errors close in time weigh less: 1 - ω of a false alarm so many steps early, and of a miss after an alarm.

    This is `scorewise.weights.Value`, with the published ω unless told otherwise.
    """
    return weights.Value(omega, g, isolated)  # type: ignore[arg-type]  # it says which g there are


SCORES: Mapping[str, Any] = {name: scores.get(name) for name in scores.names()} | {
    "fbeta": scores.fbeta,
    "cost": scores.cost,
}
PRIORS: Mapping[str, Any] = {
    "uniform": priors.Uniform,
    "raised_cosine": priors.RaisedCosine,
    "beta": priors.Beta,
    "kumaraswamy": priors.Kumaraswamy,
    "triangular": priors.Triangular,
    "truncated_normal": priors.TruncatedNormal,
    "logistic": priors.Logistic,
    "mixture": priors.Mixture,
}
WEIGHTS: Mapping[str, Any] = {
    "cost": weights.Cost,
    "cross_entropy": weights.CrossEntropy,
    "margin": weights.Margin,
    "class_frequency": weights.ClassFrequency,
    "value": value,
    "published": published,
}
LAGS: Mapping[str, Any] = {
    "geometric": weights.geometric,
    "linear": weights.linear,
    "half_life": weights.half_life,
}
"""What makes an ω, as an argument of value()."""


def score(text: str) -> Score:
    """A score: "tss", "Threat score", "fbeta(2)", "cost(fp=1, fn=5)", "0.7*tss + 0.3*hss"."""
    with contextlib.suppress(ValueError):
        return scores.get(text)
    if re.fullmatch(r"[^\W\d][\w\s'’]*", text.strip()) and snake(text) not in SCORES:
        return _named_score(text.strip())
    found = _Reader("score", text, SCORES, {}, _named_score).read()
    if not isinstance(found, Score):
        raise InputError(f"--score {text!r} is no score, but a {_kind(found)}.")
    return found


def prior(text: str) -> ThresholdPrior:
    """A prior: "uniform", "beta(2, 8)", "raised_cosine(0.5, 0.1)", "mixture([uniform, beta(2, 8)], [0.5, 0.5])"."""
    found: ThresholdPrior = _made("prior", text, PRIORS, {}, ThresholdPrior)
    return found


def weight(text: str) -> Weight:
    """A weight: "value", "published", "value(omega=[0.5, 0.25], isolated=2)", "cost(fn=5) * class_frequency()"."""
    found: Weight = _made("weight", text, WEIGHTS, LAGS, Weight)
    return found


def at_least(texts: list[str]) -> dict[str, float] | None:
    """What scores must reach: of ["precision=0.9"], {"precision": 0.9}; None of nothing."""
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name.strip() or not math.isfinite(found[name.strip()]):
            raise InputError(f"--at-least {text!r} is not understood: write NAME=VALUE, as precision=0.9.")
        _named_score(name.strip())
    return found or None


def snake(name: str) -> str:
    """A name as it is listed: RaisedCosine and raised-cosine are raised_cosine."""
    return re.sub(r"[\s-]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())).lower()


def unknown(what: str, name: str, choices: Mapping[str, Any]) -> InputError:
    """The error for a name that there is not."""
    close = difflib.get_close_matches(snake(name), choices, n=2)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    return InputError(f"there is no {what} {name!r}.{hint} There are: {', '.join(choices)}.")


def arguments(made: Callable[..., Any]) -> str:
    """The arguments of a call, with their defaults, as text."""
    shown = []
    for one in inspect.signature(made).parameters.values():
        default = _short(one.default)
        shown.append(one.name if one.default is one.empty else f"{one.name}={default}")
    return ", ".join(shown)


def _short(default: object) -> str:
    if default == weights.PUBLISHED:
        return "[1/2, 1/3, 1/4]"
    return f"{default:g}" if isinstance(default, float) else repr(default).replace("'", '"')


def _named_score(name: str) -> Score:
    try:
        return scores.get(name)
    except ValueError as error:
        try:
            return scores.get(snake(name))
        except ValueError:
            raise InputError(str(error).replace("scorewise.scores.", "")) from error


def _made(what: str, text: str, names: Mapping[str, Any], inner: Mapping[str, Any], kind: type) -> Any:
    found = _Reader(what, text, names, inner).read()
    if not isinstance(found, kind):
        raise InputError(f"--{what} {text!r} is no {what}, but a {_kind(found)}.")
    return found


def _kind(found: object) -> str:
    return "list" if isinstance(found, list | tuple) else "text" if isinstance(found, str) else "number"


class _Reader:
    """Reads one expression: a tree of the few kinds of nodes that are known here.

    Args:
        what: "score", "prior" or "weight".
        text: The expression.
        names: What a name stands for, an object or what makes one.
        inner: What may stand only within a call.
        find: Finds what is not among the names.
    """

    def __init__(
        self,
        what: str,
        text: str,
        names: Mapping[str, Any],
        inner: Mapping[str, Any],
        find: Callable[[str], Any] | None = None,
    ) -> None:
        self._what, self._text, self._names, self._inner, self._find = what, text, names, inner, find

    def read(self) -> Any:
        """What the expression stands for."""
        if len(self._text) > _LONGEST:
            raise InputError(f"--{self._what} has {len(self._text):,} characters: at most {_LONGEST:,} are read.")
        try:
            tree = ast.parse(self._text.strip(), mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:  # ValueError: Python < 3.11.4, of NUL
            raise self._refused("is not understood") from error
        try:
            return self._value(tree.body)
        except RecursionError as error:
            raise self._refused("is not understood") from error
        except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
            raise InputError(f"--{self._what} {self._text!r}: {error}") from error

    def _value(self, node: ast.expr) -> Any:  # noqa: PLR0911  # one for each kind of node
        match node:
            case ast.Constant(value=bool() | complex() | bytes() | None):
                raise self._refused(f"holds {node.value!r}, which is no number")
            case ast.Constant(value=int() | float() as number):
                return self._number(number)
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name):
                return self._called(name, [], {})
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                if any(isinstance(one, ast.Starred) for one in args) or any(one.arg is None for one in keywords):
                    raise self._refused("holds a *, which stands for nothing here")
                return self._called(
                    name, [*map(self._value, args)], {str(k.arg): self._value(k.value) for k in keywords}
                )
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item) for item in items]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return self._combined(op, self._value(left), self._value(right))
        raise self._refused(f"holds {ast.unparse(node)!r}, which stands for nothing here")

    def _number(self, number: float) -> float:
        if abs(number) > 1e300:
            raise self._refused("holds a number that is too large")
        return number

    def _combined(self, op: ast.operator, left: Any, right: Any) -> Any:
        if any(isinstance(one, str | list | tuple | ThresholdPrior) for one in (left, right)):
            raise self._refused("calculates with what is no number")
        return _OPERATIONS[type(op)](left, right)

    def _called(self, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        key, choices = snake(name), {**self._names, **self._inner}
        bare = not args and not keywords
        if key not in choices:
            if self._find is not None and bare:
                return self._find(name)
            raise unknown(self._what, name, self._names)
        made = choices[key]
        if not callable(made) or isinstance(made, Score):
            if not bare:
                raise InputError(f"--{self._what} {self._text!r}: {key} takes no arguments.")
            return made
        try:
            inspect.signature(made).bind(*args, **keywords)
        except TypeError as error:
            takes = arguments(made)
            told = f"its arguments are {key}({takes})" if takes else "it takes no arguments"
            raise InputError(f"--{self._what} {self._text!r}: {error}: {told}.") from error
        return made(*args, **keywords)

    def _refused(self, why: str) -> InputError:
        examples = {
            "score": "0.7*tss + 0.3*fbeta(2)",
            "prior": "beta(2, 8)",
            "weight": "cost(fn=5) * class_frequency()",
        }
        return InputError(
            f"--{self._what} {self._text[:80]!r} {why}: write names, numbers and calls, as {examples[self._what]}."
        )
