"""The published recipe, as far as its own code tells; with another loss, exactly best thresholds, or more trainings.

An LSTM is trained for a hundred epochs, on batches in the order of time. After each epoch a threshold is chosen on the
rows that it was trained on. Epochs that are good on the validation rows vote, and a tie is an alarm.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks.published import lstm
from benchmarks.published.data import WEIGHT, Experiment, Part
from benchmarks.quality.goals import Goal
from scorewise.parallel import RunningLoss
from scorewise.series import ChronologicalBatchSampler, SeriesBatch

UNITS, BATCH, RATE = 50, 72, 1e-3
"""Units of the layer, rows of a batch, the step of Adam."""
STEPS = 100
"""How many steps the published search for a threshold divides the range of probabilities into."""
GOOD = {"pollution": (0.9, 0.0), "stock": (0.0, 0.95)}
"""What the validation score of an epoch that votes must be above: a score, or a share of the best."""

Search = Literal["steps", "exact"]


class Network(nn.Module):
    """An LSTM layer that reads the window of a row, and a number from its last state; begins as Keras would."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(inputs, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, 1)
        nn.init.xavier_uniform_(self.layer.weight_ih_l0)
        nn.init.orthogonal_(self.layer.weight_hh_l0)
        nn.init.zeros_(self.layer.bias_ih_l0)
        nn.init.ones_(self.layer.bias_ih_l0[UNITS : 2 * UNITS])  # of the gate that forgets
        nn.init.zeros_(self.layer.bias_hh_l0).requires_grad_(False)  # PyTorch has two where Keras has one
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, windows: Tensor) -> Tensor:
        """From (n, steps, inputs) to logits, (n,)."""
        return self.head(self.layer(windows)[0][:, -1]).squeeze(-1)


@dataclass(frozen=True, eq=False)
class Epochs:
    """What each epoch of some trainings says of all rows.

    Attributes:
        probabilities: (trainings, epochs, n) float32.
        seconds: Of the trainings.
    """

    probabilities: Tensor
    seconds: float


def batches(part: Part) -> list[SeriesBatch]:
    """Rows of a part in the order of time, with those around them that a value weight looks at."""
    return list(ChronologicalBatchSampler(BATCH, times=part.times, context=WEIGHT.reach, stretch=BATCH, shuffle=False))


def trained(experiment: Experiment, goal: Goal | None, seed: int, epochs: int) -> Epochs:
    """Train on the rows to fit.

    Args:
        experiment: The experiment.
        goal: None: by cross entropy, as published. Or a score: by cross entropy for the first half of the epochs, then
            by half of it and half of the score, which is how ScoreClassifier is trained. A batch has hardly any events,
            so that the score is that of the matrices of about an epoch.
        seed: Of the network's first weights; batches come in the order of time.
        epochs: How long.
    """
    started = time.perf_counter()
    part = experiment.parts()[0]
    in_order = batches(part)
    score = None
    if goal is not None:
        score = RunningLoss(sw.ScoreLoss(goal.score, weight=goal.weight), decay=1 - 1 / len(in_order))
    network = lstm.seeded(seed, lambda: Network(experiment.windows.shape[-1]))
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=RATE, eps=1e-7)
    found = []
    for epoch in range(epochs):
        for batch in in_order:
            rows = part.rows[batch.index]
            optimizer.zero_grad()
            z, y = network(experiment.windows[rows]), experiment.y[rows]
            loss = binary_cross_entropy_with_logits(z[batch.mask], y[batch.mask])
            if score is not None and 2 * epoch >= epochs:
                own = score(z, y, mask=batch.mask, groups=batch.groups, times=batch.times)
                loss = (loss + own) / 2
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            found.append(torch.sigmoid(network(experiment.windows)))
    return Epochs(torch.stack(found)[None], time.perf_counter() - started)


@lru_cache(maxsize=3)  # thresholds are searched for in two ways, one method after the other
def together(experiment: Experiment, goal: Goal | None, seeds: tuple[int, ...], epochs: int) -> Epochs:
    """Train once with each seed."""
    found = [trained(experiment, goal, seed, epochs) for seed in seeds]
    return Epochs(torch.cat([one.probabilities for one in found]), sum(one.seconds for one in found))


def threshold(probabilities: Tensor, part: Part, goal: Goal, search: Search) -> float:
    """Where an alarm begins, chosen on some rows.

    Args:
        probabilities: Of these rows.
        part: The rows.
        goal: The score.
        search: "steps", as published, the best of 99 thresholds between the least and the greatest probability, the
            first of several; or "exact", the best of all.
    """
    curve = sw.score_curve(probabilities, part.y, goal.score, goal.weight, times=part.times)
    if search == "exact":
        return curve.best()[0]
    low, high = probabilities.min(), probabilities.max()
    tried = low + torch.arange(1, STEPS) / STEPS * (high - low)
    # a threshold has the score of the stretch that it lies in
    values = curve.values[torch.searchsorted(curve.thresholds, tried, right=True) - 1]
    return float(tried[values.argmax()])


@dataclass(frozen=True)
class Votes:
    """Which epochs decided.

    Attributes:
        good: How many were good enough; if none was, the best voted, of which the published code says nothing.
        voters: How many voted.
        late: How many of these are of the second half of their training.
    """

    good: int
    voters: int
    late: int


def decided(experiment: Experiment, epochs: Epochs, goal: Goal, search: Search) -> tuple[Tensor, Votes]:
    """1 or 0 for each row: what most of the good epochs say, and how many these are."""
    train, validation, _ = experiment.parts()
    alarms, scores = [], []
    for probabilities in epochs.probabilities.flatten(0, 1):
        own = (probabilities > threshold(probabilities[train.rows], train, goal, search)).long()
        matrix = sw.confusion_matrix(
            own[validation.rows].double(), validation.y, 0.5, goal.weight, times=validation.times
        )
        alarms.append(own)
        scores.append(float(goal.score(matrix)))
    least, share = GOOD[experiment.name]
    level = max(least, share * max(scores))
    good = sum(score > level for score in scores)
    voting = torch.tensor([score > level if good else score == max(scores) for score in scores])
    voters = int(voting.sum())
    trainings, length, _ = epochs.probabilities.shape
    late = int(voting.view(trainings, length)[:, length // 2 :].sum())
    return (2 * torch.stack(alarms)[voting].sum(0) >= voters).long(), Votes(good, voters, late)
