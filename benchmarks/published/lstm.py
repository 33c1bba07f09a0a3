"""A network that reads a series step by step, and its training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks.published.data import PAST, WEIGHT, Experiment, Part
from benchmarks.quality.goals import Goal
from scorewise.series import ChronologicalBatchSampler, SeriesBatch

UNITS, STRETCH, BATCH = 50, 128, 4096
"""Units of the layer, rows of a stretch, the most rows of a batch."""
RATE, GENTLE = 0.005, 0.0003
"""Steps of the optimizer: from random weights, and from a model that is good already."""

Loss = Callable[[Tensor, Tensor, SeriesBatch], Tensor]


class Network(nn.Module):
    """One LSTM layer and a number at each step.

    With ``first``, coefficients of a linear model with the intercept last, it begins as that model, to which the layer
    adds nothing yet.
    """

    def __init__(self, inputs: int, *, first: Tensor | None = None) -> None:
        super().__init__()
        self.layer = nn.LSTM(inputs, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, 1)
        self.direct = None if first is None else nn.Linear(inputs, 1)
        if self.direct is not None and first is not None:
            with torch.no_grad():
                self.direct.weight.copy_(first[None, :-1])
                self.direct.bias.copy_(first[-1:])
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """From (stretches, steps, inputs) to logits, (stretches, steps)."""
        z = self.head(self.layer(x)[0])
        return (z if self.direct is None else z + self.direct(x)).squeeze(-1)


def logits(network: nn.Module, steps: Tensor, index: Tensor, groups: Tensor) -> Tensor:
    """Logits of rows, in stretches that are each read from PAST steps before its first row.

    Args:
        network: From (stretches, steps, inputs) to (stretches, steps).
        steps: Inputs, (PAST + n, F); row i is step i + PAST.
        index: The rows, (m,): consecutive within a stretch.
        groups: The stretch of each, (m,), those of one together.
    """
    _, lengths = torch.unique_consecutive(groups, return_counts=True)
    begins = index[lengths.cumsum(0) - lengths]
    longest = int(lengths.max())
    places = begins[:, None] + torch.arange(PAST + longest)
    # shorter stretches are read on beyond their end, and what follows the last row is its copy: none of it is kept
    found = network(steps[places.clamp(max=len(steps) - 1)])[:, PAST:]
    return found[torch.arange(longest) < lengths[:, None]]


def predict(network: nn.Module, steps: Tensor, part: Part) -> Tensor:
    """Logits of consecutive rows; no gradient."""
    with torch.no_grad():
        return logits(network, steps, part.rows, torch.arange(len(part.rows)) // STRETCH)


def scaled(experiment: Experiment, values: Tensor, part: Part) -> Tensor:
    """Inputs, shifted and scaled by mean and deviation of the steps of a part."""
    own = values[part.rows + (PAST if len(values) > len(experiment.y) else 0)]
    return (values - own.mean(0)) / own.std(0)


def cross_entropy(z: Tensor, y: Tensor, batch: SeriesBatch) -> Tensor:
    """The mean over the samples that count."""
    return binary_cross_entropy_with_logits(z[batch.mask], y[batch.mask])


def score_loss(goal: Goal) -> Loss:
    """Minus the score that is the goal."""
    own = sw.ScoreLoss(goal.score, weight=goal.weight)
    return lambda z, y, batch: own(z, y, mask=batch.mask, groups=batch.groups, times=batch.times)


def training(
    network: nn.Module, steps: Tensor, part: Part, loss: Loss, *, epochs: int, seed: int, rate: float = RATE
) -> Iterator[int]:
    """Train, and stop after each epoch to be looked at.

    Args:
        network: What is trained.
        steps: Its inputs.
        part: Rows to fit to.
        loss: What to minimise.
        epochs: How often to go through them.
        seed: Of the order of stretches.
        rate: The step of the optimizer.
    """
    sampler = ChronologicalBatchSampler(BATCH, times=part.times, context=WEIGHT.reach, stretch=STRETCH, seed=seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-3)
    for epoch in range(epochs):
        for batch in sampler:
            optimizer.zero_grad()
            z = logits(network, steps, part.rows[batch.index], batch.groups)
            loss(z, part.y[batch.index], batch).backward()
            optimizer.step()
        yield epoch


@dataclass(frozen=True, eq=False)
class Fitted:
    """A network after its training, and for each goal its best epoch and the ensemble of its good ones."""

    network: nn.Module
    best: dict[str, sw.EpochEnsemble]
    good: dict[str, sw.EpochEnsemble]
    seconds: float


@lru_cache(maxsize=4)  # the best epoch and the ensemble are two methods, one after the other, of the same training
def fitted(experiment: Experiment, objective: Goal | None, goals: tuple[Goal, ...], epochs: int, seed: int) -> Fitted:
    """Train on the rows to fit, and choose epochs and thresholds on the rows to choose.

    Args:
        experiment: The experiment.
        objective: The score to train for; None: cross entropy.
        goals: The scores to choose by.
        epochs: How long.
        seed: Of the network's first weights and of the order of stretches.
    """
    started = time.perf_counter()
    train, validation, _ = experiment.parts()
    steps = scaled(experiment, experiment.steps, train)
    network = seeded(seed, lambda: Network(steps.shape[1]))
    best = {goal.name: sw.EpochEnsemble(goal.score, goal.weight, fraction=1.0, at_most=1) for goal in goals}
    good = {goal.name: sw.EpochEnsemble(goal.score, goal.weight, fraction=0.95, at_most=20) for goal in goals}
    loss = cross_entropy if objective is None else score_loss(objective)
    for _ in training(network, steps, train, loss, epochs=epochs, seed=seed):
        z = predict(network, steps, validation)
        for ensemble in (*best.values(), *good.values()):
            ensemble.update(network, z, validation.y, times=validation.times)
    return Fitted(network, best, good, time.perf_counter() - started)


def decisions(experiment: Experiment, found: Fitted, ensemble: sw.EpochEnsemble, part: Part) -> Tensor:
    """What an ensemble of epochs decides on some rows."""
    steps = scaled(experiment, experiment.steps, experiment.parts()[0])
    return ensemble.decide(found.network, forward=lambda network: predict(network, steps, part))


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """What is made with random numbers of a seed; the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def corrected(experiment: Experiment, first: Tensor, goal: Goal, seed: int, *, epochs: int, last: int) -> Tensor:
    """Logits of all rows: a linear model, and what a network learns to add to it, over the last epochs' mean.

    Args:
        experiment: The experiment.
        first: Coefficients of the linear model of the table's columns, the intercept last.
        goal: The score to train for.
        seed: Of the network.
        epochs: How long to train, on all known rows.
        last: How many of the last epochs to average over.
    """
    known = experiment.known()
    table = scaled(experiment, experiment.table, known).float()
    steps = torch.cat([table[:1].expand(PAST, -1), table])
    network = seeded(seed, lambda: Network(steps.shape[1], first=first.float()))
    run = training(network, steps, known, score_loss(goal), epochs=epochs, seed=seed, rate=GENTLE)
    return late(network, steps, run, epochs - last)


def late(network: nn.Module, steps: Tensor, epochs: Iterator[int], early: int) -> Tensor:
    """Logits of all rows, the mean over the later epochs of a training.

    Args:
        network: What is trained.
        steps: Its inputs.
        epochs: The training.
        early: How many of the first epochs to leave out.
    """
    rows = torch.arange(len(steps) - PAST)
    everything = Part(rows, rows, rows)  # neither labels nor times are asked for
    kept = [predict(network, steps, everything).double() for epoch in epochs if epoch >= early]
    return torch.stack(kept).mean(0)
