"""Formulas in LaTeX, as one line of text."""

from __future__ import annotations

import re

_SIGNS = {
    "alpha": "α",
    "beta": "β",
    "delta": "δ",
    "kappa": "κ",
    "mu": "μ",
    "omega": "ω",
    "pi": "π",
    "sigma": "σ",
    "tau": "τ",
    "Phi": "Φ",
    "cdot": "·",
    "cdots": "⋯",
    "ldots": "…",
    "le": "≤",
    "log": "log ",
    "sin": "sin ",
    "int": "∫",
    "sum": "Σ",
    "quad": "  ",
    "left": "",
    "right": "",
    "mathbb": "",
}
_HAT = "\u0302"  # on the letter before it


def plain(latex: str) -> str:
    r"""A formula as text.

    Example:
        >>> plain(r"\frac{TP}{TP + FN} + \frac{TN}{TN + FP} - 1")
        'TP / (TP + FN) + TN / (TN + FP) - 1'
    """
    return re.sub(r"(?<=\() | (?=\))", "", re.sub(r" +", " ", _text(latex))).strip()


def _text(latex: str) -> str:
    found = ""
    while latex:
        match = re.match(r"\\([A-Za-z]+|.)|[{}_^]", latex)
        if match is None:
            found, latex = found + latex[0], latex[1:]
            continue
        rest, name = latex[match.end() :], match[1] or match[0]
        if name in {"frac", "tfrac"}:
            (top, rest), before = _argument(rest), found
            bottom, rest = _argument(rest)
            found = f"{before}{_grouped(top)} / {_grouped(bottom)}{' ' * (rest[:1] not in {'', ',', ')', '}'})}"
        elif name in {"sqrt", "hat", "_", "^", "{"}:
            inner, rest = _argument(match[0] * (name == "{") + rest)
            shown = {"sqrt": f"√({inner})", "hat": inner + _HAT, "{": inner}
            found += shown.get(name, name + _grouped(inner))
        else:
            found += _SIGNS.get(name, name if name.isalpha() else " ")
        latex = rest
    return found


def _argument(latex: str) -> tuple[str, str]:
    """What stands in braces, or the one thing that stands without, as text; and the rest."""
    latex = latex.lstrip()
    if not latex.startswith("{"):
        end = re.match(r"\\[A-Za-z]+|.", latex)
        stop = end.end() if end is not None else 0
        return _text(latex[:stop]), latex[stop:]
    depth = 0
    for place, letter in enumerate(latex):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if not depth:
            return _text(latex[1:place]), latex[place + 1 :]
    return _text(latex[1:]), ""


def _grouped(text: str) -> str:
    """A part in parentheses, if it needs them."""
    text = text.strip()
    return text if re.fullmatch(rf"\d+|[^\W\d]\w*{_HAT}?", text) else f"({text})"
