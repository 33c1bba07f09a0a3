"""The case in which training for a score is known to collapse: all decisions become those of one class.

The data are scikit-learn's ``make_classification(n_samples=10_000, weights=[0.9, 0.1], random_state=seed)``, defaults
otherwise: 20 features, of which 2 are informative and 2 redundant, and 1 % of labels drawn anew. Rows are cut at
random, with the same rate of events in each part, into 6,400 to fit, 1,600 to choose by and 2,000 to judge by; the seed
is that of the data, of the cut and of the network.

The published way is a network with two layers of 64, trained from a random start with ``ScoreLoss(score,
prior=RaisedCosine(0.5, 0.1))`` alone, by Adam for 20 epochs, and decided at 0.5. A prior that narrow is flat outside of
[0.4, 0.6]: rows that have left it have no gradient any more, and do not come back.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks.quality import results
from benchmarks.robustness import keep

SET = "make_classification"
SCORES = ("accuracy", "balanced_accuracy")
N = 10_000
EPOCHS = 20

Matrix = Sequence[float]
"""TN, FP, FN, TP."""


# ------------------------------------------------------------------------------------------------- definition


def value(score: str, matrix: Matrix) -> float:
    """A score of TN, FP, FN, TP."""
    return float(sw.scores.get(score)(sw.ConfusionMatrix(*(torch.tensor(float(cell)).double() for cell in matrix))))


def trivial(score: str, matrix: Matrix) -> float:
    """The score of the better of two constant decisions, alarms everywhere or nowhere, on the same rows."""
    tn, fp, fn, tp = matrix
    return max(value(score, (tn + fp, 0, fn + tp, 0)), value(score, (0, tn + fp, 0, fn + tp)))


def collapsed(score: str, matrix: Matrix) -> bool:
    """Whether a model has collapsed, by its decisions on held-out rows.

    It has if all of its decisions are of one class, or if its score is no better than that of the better constant
    decision: for accuracy the share of the larger class, for balanced accuracy 0.5.

    Args:
        score: The score that it was trained for.
        matrix: TN, FP, FN, TP of the held-out rows, of both classes.
    """
    tn, fp, fn, tp = matrix
    return tn + fn == 0 or fp + tp == 0 or value(score, matrix) <= trivial(score, matrix) + 1e-12


# ------------------------------------------------------------------------------------------------------- data


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of the data."""

    X: np.ndarray
    y: np.ndarray

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """The same, in float32."""
        return torch.from_numpy(self.X).float(), torch.from_numpy(self.y).float()


@cache
def rows(seed: int, n: int = N) -> tuple[Rows, Rows, Rows]:
    """Rows to fit, to choose by and to judge by."""
    X, y = make_classification(n_samples=n, weights=[0.9, 0.1], random_state=seed)
    rest, test, y_rest, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    train, validation, y_train, y_validation = train_test_split(
        rest, y_rest, test_size=0.2, stratify=y_rest, random_state=seed
    )
    return Rows(train, y_train), Rows(validation, y_validation), Rows(test, y_test)


# ------------------------------------------------------------------------------------------------------- ways

Decide = Callable[[np.ndarray], np.ndarray]


class Way(ABC):
    """A way to a classifier.

    Attributes:
        name: What results are filed under.
        words: What tables call it.
        ours: Whether it must not collapse.
    """

    name: str
    words: str
    ours: bool = False

    @abstractmethod
    def fit(self, train: Rows, validation: Rows, score: str, seed: int) -> tuple[Decide, float]:
        """What decides, and its threshold.

        Args:
            train: Rows to fit.
            validation: Rows to choose by.
            score: What it is to be good at.
            seed: Of all that is random.
        """


def _network(columns: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(columns, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)
    )


def _trained(train: Rows, loss: Callable[[Tensor, Tensor], Tensor], seed: int, rate: float, batch: int) -> nn.Module:
    """A network after some epochs of Adam."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x, y = train.tensors
        network = _network(x.shape[1])
        optimizer = torch.optim.Adam(network.parameters(), lr=rate)
        for _ in range(EPOCHS):
            for some in torch.randperm(len(y)).split(batch):
                optimizer.zero_grad()
                loss(network(x[some]), y[some]).backward()
                optimizer.step()
    return network


def _probability(network: nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = network(torch.from_numpy(X).float()).double().sigmoid().numpy()
        return found


def _above(network: nn.Module, threshold: float) -> tuple[Decide, float]:
    return lambda X: _probability(network, X) > threshold, threshold


class Published(Way):
    """The score alone, with the narrow prior, at 0.5.

    Args:
        rate: Adam's learning rate.
        batch: Rows of a batch.
    """

    def __init__(self, rate: float, batch: int) -> None:
        self.rate, self.batch = rate, batch
        self.name = f"published_{rate:g}_{batch}"
        self.words = f"as published, Adam {rate:g}, batches of {batch}"

    def fit(self, train: Rows, validation: Rows, score: str, seed: int) -> tuple[Decide, float]:
        """See `Way.fit`."""
        loss = sw.ScoreLoss(score, prior=sw.priors.RaisedCosine(0.5, 0.1))
        return _above(_trained(train, loss, seed, self.rate, self.batch), 0.5)


class CrossEntropy(Way):
    """Cross entropy, at 0.5 or at the threshold that is best on the validation rows.

    Args:
        tuned: Whether the threshold is chosen.
    """

    def __init__(self, *, tuned: bool) -> None:
        self.tuned = tuned
        self.name = "bce_tuned" if tuned else "bce_half"
        self.words = "cross entropy, tuned threshold" if tuned else "cross entropy at 0.5"

    def fit(self, train: Rows, validation: Rows, score: str, seed: int) -> tuple[Decide, float]:
        """See `Way.fit`."""
        network = _trained(train, binary_cross_entropy_with_logits, seed, 1e-3, 128)
        if not self.tuned:
            return _above(network, 0.5)
        probabilities = torch.from_numpy(_probability(network, validation.X))
        threshold = sw.best_threshold(probabilities, torch.from_numpy(validation.y), score)
        return _above(network, float(threshold))


class Recipe(Way):
    """ScoreClassifier, which is told which rows to choose by.

    Args:
        steps: How many it takes; None for its default.
        cosine: Whether it has the narrow prior, too.
    """

    ours = True

    def __init__(self, steps: int | None, *, cosine: bool) -> None:
        self.steps, self.cosine = steps, cosine
        self.name = f"scorewise{'_cosine' * cosine}_{'default' if steps is None else steps}"
        prior = ", prior=RaisedCosine(0.5, 0.1)" if cosine else ""
        self.words = f"ScoreClassifier(score{prior}){'' if steps is None else f', {steps} steps'}"

    def fit(self, train: Rows, validation: Rows, score: str, seed: int) -> tuple[Decide, float]:
        """See `Way.fit`."""
        X, y = np.concatenate([train.X, validation.X]), np.concatenate([train.y, validation.y])
        prior = sw.priors.RaisedCosine(0.5, 0.1) if self.cosine else None
        model = sw.ScoreClassifier(score, prior=prior, steps=self.steps, progress=False, random_state=seed)
        model.fit(X, y, validation=np.arange(len(y)) >= len(train.y))
        return lambda X: np.asarray(model.predict(X)) == 1, float(model.threshold_)


OPTIMISERS = ((1e-3, 128), (1e-3, 512), (1e-2, 128), (1e-2, 512), (1e-3, 32))
"""Learning rate and batch size, the common ones first."""


def ways(steps: int | None = None) -> list[Way]:
    """All ways.

    Args:
        steps: Of a ScoreClassifier; None for its default, which is what users get.
    """
    return [
        *(Published(rate, batch) for rate, batch in OPTIMISERS),
        CrossEntropy(tuned=False),
        CrossEntropy(tuned=True),
        Recipe(steps, cosine=False),
        Recipe(steps, cosine=True),
    ]


def outcome(way: Way, score: str, seed: int, n: int = N) -> results.Row:
    """Fit, decide, judge: one result, as `benchmarks.quality.results` keeps it."""
    train, validation, test = rows(seed, n)
    row: results.Row = dict.fromkeys(results.COLUMNS)
    row |= {"set": SET, "score": score, "method": way.name, "seed": seed}
    row |= {"versions": keep.versions(), "date": datetime.now(UTC).date().isoformat()}
    started = time.perf_counter()
    decide, row["threshold"] = way.fit(train, validation, score, seed)
    row["seconds"] = round(time.perf_counter() - started, 2)
    for part, some in (("validation", validation), ("test", test)):
        alarms = decide(some.X)
        row["matrix"] = [int(((alarms == d) & (some.y == y)).sum()) for y, d in ((0, 0), (0, 1), (1, 0), (1, 1))]
        row[part] = round(value(score, row["matrix"]), 6)
    return row  # the matrix is that of the test rows, the last of the two
