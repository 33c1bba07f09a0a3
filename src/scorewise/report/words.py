"""Numbers and names as the page shows them. The page's script has the same rules for numbers: see `page.js`."""

from __future__ import annotations

import math
import unicodedata
from decimal import ROUND_HALF_UP, Decimal

NONE = "–"
"""Where there is no number."""

_ACRONYMS = {"csi", "f1", "gss", "hss", "mcc", "npv", "sedi", "tss"}
_ISOLATE, _END = "\u2068", "\u2069"  # what is between them does not turn the direction of what is around


def short(text: object, most: int = 120) -> str:
    """A text of the user's: without control characters, and no longer than there is room for."""
    plain = "".join(" " if unicodedata.category(c) in {"Cc", "Cs"} else c for c in str(text)[: most + 1])
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def quoted(text: str) -> str:
    """A name in a sentence, written from whichever side."""
    return f"“{_ISOLATE}{short(text, 60)}{_END}”"


def label(name: str) -> str:
    """A score's name for people."""
    return name.upper() if name in _ACRONYMS else short(name.replace("_", " "))


def decimals(value: float, places: int) -> str:
    """A number with so many decimals; halves are rounded up, as browsers do."""
    if not math.isfinite(value):
        return NONE
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    text = f"{abs(rounded):,}"
    return f"−{text}" if rounded < 0 else text


def score(value: float | None) -> str:
    """The value of a score: three decimals, fewer of large costs."""
    if value is None:
        return NONE
    return decimals(value, 3 if abs(value) < 100 else 1)


def signed(value: float) -> str:
    """A difference of scores, with its sign."""
    text = score(value)
    return f"+{text}" if value > 0 and text.strip("0.") else text


def cell(value: float) -> str:
    """A cell of a matrix: whole numbers as they are."""
    if not math.isfinite(value) or value == round(value):
        return decimals(value, 0)
    return decimals(value, 2 if abs(value) < 1000 else 1)


def threshold(value: float | None) -> str:
    """A threshold: four decimals, and of small ones as many as it takes to see two digits."""
    if value is None or not math.isfinite(value):
        return NONE
    near = min(abs(value), abs(1 - value))
    places = 4 if near == 0 or near >= 0.001 else min(12, 1 - math.floor(math.log10(near)))
    text = decimals(value, places)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float, places: int = 1) -> str:
    """A share."""
    return f"{decimals(100 * value, places)} %" if math.isfinite(value) else NONE


def between(interval: tuple[float, float] | None) -> str:
    """An interval of scores."""
    return "" if interval is None else f"{score(interval[0])} to {score(interval[1])}"


def plural(count: float, noun: str) -> str:
    """So many of something."""
    return f"{cell(count)} {noun if count == 1 or noun.endswith('s') else noun + 's'}"
