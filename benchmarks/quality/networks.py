"""One network under any loss: that of ScoreClassifier, trained as it trains.

Rows, batches, steps, learning rates and the moments at which a network is looked at are the same for all; the loss is
what differs. A training keeps the network of every moment, so that whoever trained it can choose.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import scorewise as sw
from benchmarks.quality.goals import Goal
from benchmarks.quality.losses import focal
from benchmarks.quality.rows import Rows
from scorewise.estimator.objective import MeanCrossEntropy
from scorewise.estimator.problems import Context, Labels
from scorewise.estimator.recipe import Recipe
from scorewise.estimator.samples import logits_of

Loss = Callable[[Tensor, Tensor], Tensor]
"""From logits and labels 0 or 1, both (n,) or (n, labels), to a number."""


@dataclass(frozen=True, eq=False)
class Moment:
    """A network at a moment of its training.

    Attributes:
        validation: What it says of the validation rows: probabilities, (n,) or (n, labels) float64.
        probability: What it says of other rows.
    """

    validation: np.ndarray
    probability: Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True, eq=False)
class _Problem(Labels):
    """Labels that are trained for by a loss of the caller's, if there is one; what is said of them is kept."""

    loss_of: Loss | None = None
    said: list[Tensor] = field(default_factory=list)

    def loss(self, *args: Any, **options: Any) -> Any:
        return super().loss(*args, **options) if self.loss_of is None else _Masked(self.loss_of)

    def choose(self, probabilities: Tensor, targets: Tensor, context: Context) -> Tensor:
        self.said.append(probabilities)
        return torch.full(probabilities.shape[1:], 0.5, dtype=torch.float64)

    def goodness(self, decisions: Tensor, targets: Tensor, context: Context) -> float:
        return 0.0  # no moment is better than another: all are kept


class _Masked(nn.Module):
    """A loss of the samples that count."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, targets: Tensor, *, mask: Tensor | None = None, **_: Any) -> Tensor:
        if mask is not None:
            logits, targets = logits[mask], targets[mask]
        return self.loss(logits, targets.to(logits))


class _Network(sw.ScoreClassifier):  # type: ignore[misc]  # scikit-learn has no types
    """ScoreClassifier with a loss of the caller's, if there is one."""

    loss_of: Loss | None = None

    def _problem(self) -> Any:
        own: Any = super()._problem()
        fields = (own.outputs, own.several, own.score, own.weight, own.average, own.at_least)
        self.problem = _Problem(*fields, loss_of=self.loss_of)
        return self.problem


class Raced(sw.ScoreClassifier):  # type: ignore[misc]  # as above
    """ScoreClassifier that remembers its race, so that one training serves all that can be made of it."""

    race: tuple[Any, ...] = ()

    def _settle(self, *race: Any) -> None:
        self.race = race
        super()._settle(*race)

    def settled(self, **params: Any) -> Raced:
        """What it would be had it been fitted with other parameters.

        Args:
            **params: Those that training does not ask for: ``ensemble`` and ``tune``.
        """
        if not params:
            return self
        if others := sorted(set(params) - {"ensemble", "tune"}):
            raise ValueError(f"{others[0]} is of training, which is over.")
        winner, runners, network, problem, kept = self.race
        twin = copy.copy(self).set_params(**params)
        winner = replace(winner)
        winner.forget(Recipe.of(twin.get_params(), problem, len(kept), 0).ensemble_fraction)
        twin._settle(winner, runners, network, problem, kept)
        twin.race = self.race  # with all networks that there were
        return twin


class FocalClassifier(sw.ScoreClassifier):  # type: ignore[misc]  # as above
    """ScoreClassifier with the focal loss in the place of cross entropy."""

    def _problem(self) -> Any:
        own: Any = super()._problem()
        return _WithFocal(own.outputs, own.several, own.score, own.weight, own.average, own.at_least)


@dataclass(frozen=True, eq=False)
class _WithFocal(Labels):
    def loss(self, share: float, cross_entropy: Any, *rest: Any, **options: Any) -> Any:
        return super().loss(share, _MeanFocal(cross_entropy.weights, sync=cross_entropy.sync), *rest, **options)


class _MeanFocal(MeanCrossEntropy):
    """The mean focal loss, as a function of two sums, of classes that weigh the same."""

    def _sums(self, logits: Tensor, targets: Tensor, *, mask: Tensor | None = None, **_: Any) -> Any:
        each = focal(logits, targets.to(logits), reduction="none")
        if mask is not None:
            each = each[mask]
        return each.sum().double(), each.new_tensor(each.numel()).double()


_RACED: WeakKeyDictionary[Rows, dict[tuple[str, int], tuple[Raced, float]]] = WeakKeyDictionary()


def raced(train: Rows, validation: Rows, goal: Goal, seed: int) -> tuple[Raced, float]:
    """ScoreClassifier with its defaults, fitted once for a score, and the seconds that it took.

    Args:
        train: Rows to fit on.
        validation: Rows to choose by.
        goal: The score.
        seed: Of weights and batches.
    """
    known = _RACED.setdefault(train, {})
    if (goal.name, seed) not in known:
        begun = time.perf_counter()
        model = Raced(score=goal.score, weight=goal.weight, random_state=seed)
        known[goal.name, seed] = fitted(model, train, validation), time.perf_counter() - begun
    return known[goal.name, seed]


def fitted(model: Any, train: Rows, validation: Rows) -> Any:
    """A ScoreClassifier that is fitted on some rows and chooses on others."""
    rows = train.then(validation)
    return model.fit(rows.X, rows.y, validation=np.arange(len(rows.y)) >= len(train.y), **rows.context)


_TRAINED: WeakKeyDictionary[Rows, dict[tuple[str, int], tuple[list[Moment], float]]] = WeakKeyDictionary()


def moments(
    train: Rows, validation: Rows, seed: int, *, name: str, loss: Loss | None = None, **params: Any
) -> tuple[list[Moment], float]:
    """Train, and return the network of every moment, and the seconds that it took.

    One run takes as many steps as the default ScoreClassifier takes in all, and its loss is the same from the first
    step to the last. Who asks for the same training of the same rows again gets it without waiting, with the seconds of
    the first time.

    Args:
        train: Rows to fit on.
        validation: Rows to choose by.
        seed: Of weights and batches.
        name: Tells trainings of the same rows apart.
        loss: What is trained for; None: what the parameters say.
        **params: Of ScoreClassifier.
    """
    known = _TRAINED.setdefault(train, {})
    if (name, seed) not in known:
        begun = time.perf_counter()
        known[name, seed] = _trained(train, validation, seed, loss, params), time.perf_counter() - begun
    return known[name, seed]


def _trained(train: Rows, validation: Rows, seed: int, loss: Loss | None, params: dict[str, Any]) -> list[Moment]:
    labels = Labels(1, several=False, score="tss", weight=None, average="macro", at_least=None)
    usual = Recipe.of(sw.ScoreClassifier().get_params(), labels, len(train.y), seed)
    model = _Network(
        **{"share": 0.0, "warm_up": 0.0, **params},
        steps=round(usual.runs * usual.steps),
        evaluations=round(usual.runs * usual.evaluations),
        ensemble="mean",  # so that all are kept
        tune="best",
        random_state=seed,
        progress=False,
    )
    model.loss_of = loss
    fitted(model, train, validation)
    said = [probabilities.numpy()[_places(validation)] for probabilities in model.problem.said]
    return [Moment(one, partial(_probability, model, network)) for one, network in zip(said, model.networks_)]  # noqa: B905  # what all of them say together comes last


def _places(rows: Rows) -> np.ndarray:
    """Where each row is once they are sorted by series and by time, as fit does."""
    if rows.times is None:
        return np.arange(len(rows.y))
    return np.argsort(np.lexsort([keys for keys in (rows.times, rows.groups) if keys is not None]))


def _probability(model: _Network, network: nn.Module, X: pd.DataFrame) -> np.ndarray:
    inputs = model._inputs(model._table(X, reset=False))
    return np.asarray(model.problem.probabilities(logits_of(network, inputs)))
