"""One model of several levels, trained for the mean of their scores: a level has few events, its neighbours have more.

What is large is compared with a level, so that all levels share their coefficients: near 360 a model learns what it
needs near 450.
"""

from __future__ import annotations

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from benchmarks.published import linear, lstm
from benchmarks.published.data import PAST, Experiment, Part
from benchmarks.quality.goals import Goal

PENALTIES = {"pollution": 1e-4, "stock": 1e-3}
"""Of the squares of the coefficients, beside a score; chosen by cross-validation over the known rows."""


def inputs(experiment: Experiment, part: Part) -> Tensor:
    """What is known at each row, as each level sees it, (n, levels, F); shifted and scaled by the rows of a part."""
    levels = torch.tensor(experiment.levels, dtype=torch.float64)[:, None]
    near = ((experiment.amounts[:, None] + 0.1 * levels) / levels).log()
    changes = experiment.changes[:, None] / levels
    rest = experiment.rest[:, None].expand(-1, len(levels), -1)
    # a lower level is exceeded more often, and its errors weigh less
    own = levels.log().expand(len(rest), -1, -1)
    x = torch.cat([near, changes, rest, own], -1)
    seen = x[part.rows].flatten(0, 1)
    return (x - seen.mean(0)) / seen.std(0)


def known(experiment: Experiment) -> Part:
    """All rows that may be looked at before the end, labelled for each level."""
    part = experiment.known()
    return Part(part.rows, experiment.above[part.rows], part.times)


def logistic(x: Tensor, y: Tensor) -> Tensor:
    """Coefficients of logistic regression, the intercept last, with the two classes of each level balanced."""
    positive = y.double().mean(0)
    weights = torch.where(y > 0, 0.5 / positive, 0.5 / (1 - positive)) / y.shape[1]
    model = LogisticRegression(max_iter=5000).fit(
        x.flatten(0, 1).numpy(), y.flatten().numpy(), sample_weight=weights.flatten().numpy()
    )
    return torch.cat([torch.from_numpy(model.coef_[0]), torch.from_numpy(model.intercept_)])


def for_score(x: Tensor, part: Part, goal: Goal, penalty: float) -> Tensor:
    """Coefficients, the intercept last, that are trained for the mean score of the levels."""
    own = x[part.rows]
    return linear.trained(logistic(own, part.y), own, part, goal, penalty)


class Shared(nn.Module):
    """A network that reads the inputs of each level by itself."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """From (stretches, steps, levels, F) to logits, (stretches, steps, levels)."""
        stretches, _, levels, _ = x.shape
        z = self.network(x.transpose(1, 2).flatten(0, 1))
        return z.unflatten(0, (stretches, levels)).transpose(1, 2)


def corrected(x: Tensor, part: Part, first: Tensor, goal: Goal, seed: int, *, epochs: int, last: int) -> Tensor:
    """Logits of all rows, (n, levels): a linear model, and what a network learns to add to it.

    Args:
        x: Inputs of all rows, (n, levels, F).
        part: Rows to fit to, labelled for each level.
        first: Coefficients of the linear model, the intercept last.
        goal: The score to train for.
        seed: Of the network.
        epochs: How long to train.
        last: How many of the last epochs to average over.
    """
    steps = torch.cat([x[:1].expand(PAST, -1, -1), x]).float()
    network = lstm.seeded(seed, lambda: Shared(lstm.Network(x.shape[-1], first=first.float())))
    loss = lstm.score_loss(goal)
    run = lstm.training(network, steps, part, loss, epochs=epochs, seed=seed, rate=lstm.GENTLE)
    return lstm.late(network, steps, run, epochs - last)
