"""Objects as text that no code is needed to read."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from scorewise import scores

_OWN = "scorewise."


def described(value: Any, name: str) -> Any:  # noqa: PLR0911  # one for each kind of thing
    """An object as JSON: numbers, texts, lists, and the package's own scores, priors and weights.

    Args:
        value: The object.
        name: What to call it where it cannot be described.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.generic):
        return described(value.item(), name)
    if isinstance(value, list | np.ndarray):
        return [described(one, name) for one in value]
    if isinstance(value, tuple):
        return {"$tuple": [described(one, name) for one in value]}
    if isinstance(value, Mapping):
        return {"$dict": [[described(key, name), described(one, name)] for key, one in value.items()]}
    if isinstance(value, scores.Score) and value.name in scores.names() and scores.get(value.name) is value:
        return {"$score": value.name}
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith(_OWN):
        own = {one.name: described(getattr(value, one.name), name) for one in dataclasses.fields(kind) if one.init}
        return {"$object": f"{kind.__module__}:{kind.__qualname__}", "fields": own}
    raise TypeError(
        f"{name} cannot be saved: a file without code cannot hold {kind.__name__}. Pickle the classifier instead, and "
        "load that only from where you trust."
    )


def restored(found: Any) -> Any:  # noqa: PLR0911  # as above
    """The object of what `described` returned. No code is run but that of the package's own dataclasses."""
    if isinstance(found, list):
        return [restored(one) for one in found]
    if not isinstance(found, dict):
        return found
    if "$float" in found:
        return float(found["$float"])
    if "$tuple" in found:
        return tuple(restored(one) for one in found["$tuple"])
    if "$dict" in found:
        return {restored(key): restored(one) for key, one in found["$dict"]}
    if "$score" in found:
        return scores.get(found["$score"])
    module, _, name = found["$object"].partition(":")
    if not module.startswith(_OWN):
        raise ValueError(f"the file asks for {module}, which is none of scorewise: it was not saved by it.")
    kind = getattr(importlib.import_module(module), name, None)
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise ValueError(f"the file asks for {found['$object']}, which this version of scorewise does not have.")
    return kind(**{key: restored(one) for key, one in found["fields"].items()})
