"""How to find a score by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from scorewise.scores.base import Score
from scorewise.scores.catalogue import ALL, cost, fbeta

_BY_NAME: Mapping[str, Score] = {score.name: score for score in ALL}
_BY_SYNONYM: Mapping[str, str] = {synonym: score.name for score in _BY_NAME.values() for synonym in score.synonyms}
_WITH_ARGUMENTS: Mapping[str, str] = dict.fromkeys(("fbeta", "f_beta", "fbeta_score"), "scorewise.scores.fbeta(2)")


def names() -> list[str]:
    """The names of all scores that `get` gives without further arguments, without synonyms."""
    return list(_BY_NAME)


def get(score: object) -> Score:
    """The score with a name or synonym; case, spaces and hyphens do not matter. A `Score` is returned as it is.

    Example:
        >>> get("Threat score")
        <score csi>
    """
    if isinstance(score, Score):
        return score
    if not isinstance(score, str):
        if score in (fbeta, cost):
            raise TypeError(f"the score {score.__name__} needs its arguments: pass {score.__name__}(...).")
        raise TypeError(
            f"a score must be a name or a scorewise.scores.Score, saw {type(score).__name__}. A function of the four "
            "cells becomes one as Score('name', function)."
        )
    name = re.sub(r"[\s\-]+", "_", score.strip().lower()).replace("'", "").replace("’", "")
    name = _BY_SYNONYM.get(name, name)
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in _WITH_ARGUMENTS:
        raise ValueError(f"the score {score!r} needs an argument: pass {_WITH_ARGUMENTS[name]}.")
    if match := re.fullmatch(r"f_?(\d+(?:\.\d+)?)(?:_score)?", name):
        raise ValueError(f"there is no score {score!r} by name: pass scorewise.scores.fbeta({match[1]}).")
    close = difflib.get_close_matches(name, [*_BY_NAME, *_BY_SYNONYM], n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ValueError(f"there is no score {score!r}.{hint} There are: {', '.join(_BY_NAME)}.")
