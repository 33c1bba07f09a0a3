"""How to train: the numbers, and whether they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from scorewise._values import is_number, is_whole
from scorewise.estimator.problems import Labels, Problem
from scorewise.priors import ThresholdPrior, as_prior

# measured on tables of 900 to 20,000 rows: 300 steps are enough for 1,000 rows, and 900 for 20,000
_STEPS, _GROWTH = 300, 0.367
_BATCH = 256

_RANGES = {
    "balance": (0, 1),
    "warm_up": (0, 1),
    "learning_rate": (1e-9, 10),
    "weight_decay": (0, 1e3),
    "weight_average": (0, 1),
    "ensemble_fraction": (0, 1),
    "dropout": (0, 1),
}
GOOD_ENOUGH = 0.97
"""The default share of the best score that an evaluation must have to be in a mean or a vote."""
OF_TABM: Mapping[str, Any] = {"members": 4, "width": 128, "depth": 2, "dropout": 0.1}
"""The defaults of parameters that mean nothing to other networks."""

_LEAST = {"evaluations": 1, "members": 1, "width": 1, "depth": 1, "horizon": 0}
_LEAST_IF_GIVEN = {"batch_size": 1, "steps": 1, "patience": 1}


@dataclass(frozen=True)
class Recipe:
    """How to train; see `scorewise.ScoreClassifier` for what each of these is."""

    shares: tuple[float, ...]
    prior: tuple[ThresholdPrior, ThresholdPrior] | None
    exact: bool
    balance: float
    warm_up: float
    shift: bool
    batch_size: int
    steps: int
    evaluations: int
    patience: int | None
    learning_rate: float
    weight_decay: float
    weight_average: float
    ensemble_fraction: float | None
    max_time: float | None
    seed: int

    @classmethod
    def of(cls, params: Mapping[str, Any], problem: Problem, rows: int, seed: int) -> Recipe:
        """What a classifier's parameters mean for so many rows."""
        batch = params["batch_size"] or min(_BATCH, max(32, rows // 4))
        given = {one.name: params[one.name] for one in fields(cls) if one.name in params}
        return cls(
            **given
            | {
                "shares": tuple(sorted(map(float, _shares(params["share"])))),
                "prior": _priors(params["prior"]) if isinstance(problem, Labels) else None,
                "batch_size": max(batch, 2 * problem.outputs),  # room for every class
                "steps": params["steps"] or max(100, round(_STEPS * (rows / 1000) ** _GROWTH)),
                "ensemble_fraction": _good_enough(params["ensemble"], params["ensemble_fraction"]),
                "seed": seed,
            }
        )

    @property
    def runs(self) -> float:
        """How many runs a race takes in all."""
        warm, alive, done, total = self.warm_up, len(self.shares), 0.0, 0.0
        for mark in self.marks:
            total += alive * (mark - done)
            alive, done = -(-alive // 2), mark
        return warm + (1 - warm) * total

    @property
    def marks(self) -> list[float]:
        """The moments at which the worse half drops out, as shares of a run, and its end."""
        halvings = max(len(self.shares) - 1, 0).bit_length()
        return [2.0**-k for k in range(halvings, -1, -1)]


def check(params: Mapping[str, Any]) -> None:
    """Raise if a parameter is not what it can be."""
    shares = _shares(params["share"])
    if not shares or not all(is_number(one) and 0 <= one <= 1 for one in shares):
        raise ValueError(f"share must be a number from 0 to 1, or several to choose from; saw {params['share']!r}.")
    for name, (low, high) in _RANGES.items():
        if not is_number(params[name]) or not low <= params[name] <= high:
            raise ValueError(f"{name} must be a number from {low:g} to {high:g}, saw {params[name]!r}.")
    for name, least in (_LEAST | _LEAST_IF_GIVEN).items():
        value = params[name]
        if (value is not None or name in _LEAST) and (not is_whole(value) or value < least):
            raise ValueError(f"{name} must be a whole number of at least {least}, saw {value!r}.")
    _check_kinds(params)
    _check_decisions(params)
    if (seconds := params["max_time"]) is not None and (not is_number(seconds) or not seconds > 0):
        raise ValueError(f"max_time must be a number of seconds greater than 0, saw {seconds!r}.")
    if not is_number(kept := params["validation_fraction"]) or not 0 < kept < 1:
        raise ValueError(f"validation_fraction must be a number between 0 and 1, saw {kept!r}.")
    if params["shift"] and not params["warm_up"]:
        raise ValueError("shift moves the logits after the warm up, but there is none: pass warm_up=0.3, say.")


def _check_decisions(params: Mapping[str, Any]) -> None:
    if params["ensemble"] not in (None, "greedy", "mean", "vote"):
        raise ValueError(f"ensemble must be 'greedy', 'mean', 'vote' or None, saw {params['ensemble']!r}.")
    if params["tune"] not in ("between", "best", "plug_in"):
        raise ValueError(f"tune must be 'between', 'best' or 'plug_in', saw {params['tune']!r}.")
    if params["tune"] == "plug_in" and params["at_least"] is not None:
        raise ValueError(
            "tune='plug_in' takes what probabilities ask for, which may not be what at_least asks for: pass 'best'."
        )
    if params["ensemble"] == "vote" and params["tune"] == "plug_in":
        raise ValueError(
            "tune='plug_in' takes a threshold of probabilities, but ensemble='vote' goes by the majority: pass "
            "ensemble='mean'."
        )
    if params["ensemble"] not in ("mean", "vote") and params["ensemble_fraction"] != GOOD_ENOUGH:
        raise ValueError(
            f"ensemble_fraction is for ensemble='mean' and 'vote', but ensemble is {params['ensemble']!r}: pass one of "
            "those, or no ensemble_fraction."
        )


def _check_kinds(params: Mapping[str, Any]) -> None:
    for name in ("exact", "shift"):
        if not isinstance(params[name], bool | np.bool):
            raise TypeError(f"{name} must be True or False, saw {params[name]!r}.")
    if not isinstance(params["progress"], bool | np.bool | None):
        raise TypeError(f"progress must be True, False or None, saw {params['progress']!r}.")
    if params["fabric"] is not None and not hasattr(params["fabric"], "setup"):  # a class of two packages
        raise TypeError(f"fabric must be a lightning.fabric.Fabric, saw {type(params['fabric']).__name__}.")
    if params["module"] is not None:
        own = [name for name, default in OF_TABM.items() if params[name] != default]
        if own:
            raise ValueError(f"{own[0]} is of the network for tables, but module is a network of your own.")
    if params["module"] is not None and not callable(params["module"]):
        seen = type(params["module"]).__name__
        raise TypeError(f"module must be a torch.nn.Module or a function that makes one, saw {seen}.")


def between(first: ThresholdPrior, last: ThresholdPrior, progress: float) -> ThresholdPrior:
    """A prior on the way from one to another of the same kind: every parameter moves at the same pace."""
    if first is last:
        return first
    names = _names(first)
    moved = {k: (1 - progress) * getattr(first, k) + progress * getattr(last, k) for k in names}
    return type(first)(**moved)


def _good_enough(ensemble: str | None, fraction: float) -> float | None:
    """Which evaluations to keep: None for the best alone; those of a greedy choice need only not be on the other side.

    They are chosen for what they add, not for how good they are.
    """
    return None if ensemble is None else 0.0 if ensemble == "greedy" else fraction


def _shares(share: Any) -> list[Any]:
    several = isinstance(share, Sequence | np.ndarray) and not isinstance(share, str)
    return list(dict.fromkeys(share)) if several else [share]


def _priors(prior: Any) -> tuple[ThresholdPrior, ThresholdPrior]:
    """The first and the last; the same twice if there is one."""
    if not isinstance(prior, tuple):
        made = as_prior(prior)
        return made, made
    if len(prior) != 2 or type(prior[0]) is not type(prior[1]) or not isinstance(prior[0], ThresholdPrior):
        raise TypeError(f"prior must be one, or a pair of the same kind to begin and to end with; saw {prior!r}.")
    first, last = prior
    if odd := [k for k in _names(first) if not is_number(getattr(first, k)) or not is_number(getattr(last, k))]:
        raise TypeError(f"a pair of priors must have numbers for parameters, but {odd[0]} of {first} is none.")
    return first, last


def _names(prior: ThresholdPrior) -> list[str]:
    return [one.name for one in fields(prior) if one.init]  # type: ignore[arg-type]  # every prior is a dataclass
