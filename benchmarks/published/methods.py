"""What is compared. A method sees the rows to fit and to choose, and decides about all rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

import scorewise as sw
from benchmarks.published import levels, linear, lstm, repeated
from benchmarks.published.data import Experiment
from benchmarks.quality.goals import Goal


@dataclass(frozen=True)
class Effort:
    """How much work a network may be.

    Attributes:
        epochs: Of a network whose epochs are chosen by the rows to choose.
        corrections: Epochs of a network that corrects a linear model; the last ten are averaged.
        published: Epochs of the published recipe.
    """

    epochs: int = 60
    corrections: int = 20
    published: int = 100


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method made for one goal.

    Attributes:
        alarms: 1 or 0 for each row of the validation and the test part, in this order.
        threshold: Where an alarm begins: a probability, a share of votes, or a level.
        seconds: Of the fit.
        votes: Which epochs of the published recipe decided.
    """

    alarms: Tensor
    threshold: float
    seconds: float
    votes: repeated.Votes | None = None


ALONE = 1000
"""Seeds below are those of single trainings."""
Fit = Callable[[Experiment, Sequence[Goal], int, Effort], list[Outcome]]


@dataclass(frozen=True)
class Method:
    """A way from known rows to alarms.

    Attributes:
        name: What results are filed under.
        words: What it is, for the page.
        fit: For several goals at once.
        random: Whether it depends on the seed.
    """

    name: str
    words: str
    fit: Fit
    random: bool = False

    @property
    def network(self) -> bool:
        """Whether a network decides: what depends on the seed, for that is of its first weights."""
        return self.random


def _later(experiment: Experiment) -> Tensor:
    """The rows of the validation and the test part."""
    return torch.arange(experiment.sizes[0], len(experiment.y))


def _persistence(experiment: Experiment, goals: Sequence[Goal], _seed: int, _effort: Effort) -> list[Outcome]:
    """Alarm while the reading is above a threshold."""
    found = []
    for goal in goals:
        started = time.perf_counter()
        z, shift, scale = linear.standardised(experiment)
        known = experiment.known()
        threshold = linear.best_threshold(z[known.rows], known, goal)
        alarms = (torch.sigmoid(z) > threshold).long()[_later(experiment)]
        in_units = shift + scale * float(torch.logit(torch.tensor(threshold, dtype=torch.float64)))
        found.append(Outcome(alarms, in_units, time.perf_counter() - started))
    return found


def _logistic(experiment: Experiment, goals: Sequence[Goal], _seed: int, _effort: Effort) -> list[Outcome]:
    """Balanced logistic regression, its threshold tuned on the rows that it was fitted to."""
    started = time.perf_counter()
    z = linear.logits(*linear.logistic(experiment))
    known = experiment.known()
    found = []
    for goal in goals:
        threshold = linear.best_threshold(z[known.rows], known, goal)
        alarms = (torch.sigmoid(z) > threshold).long()[_later(experiment)]
        found.append(Outcome(alarms, threshold, time.perf_counter() - started))
    return found


def _at_half(
    experiment: Experiment, goals: Sequence[Goal], seed: int, effort: Effort, *, logits: Callable[..., Tensor]
) -> list[Outcome]:
    """What is trained for each score by itself, and decides at 0.5: nothing is chosen afterwards."""
    found = []
    for goal in goals:
        started = time.perf_counter()
        alarms = (logits(experiment, goal, seed, effort) > 0).long()[_later(experiment)]
        found.append(Outcome(alarms, 0.5, time.perf_counter() - started))
    return found


def _linear_score(experiment: Experiment, goal: Goal, _seed: int, _effort: Effort, *, penalty: float) -> Tensor:
    """A linear model trained for the score."""
    return linear.logits(*linear.for_score(experiment, goal, penalty))


def _epochs(
    experiment: Experiment,
    goals: Sequence[Goal],
    seed: int,
    effort: Effort,
    *,
    which: Literal["best", "good"],
    by_score: bool,
) -> list[Outcome]:
    """An LSTM by cross entropy or for the score; its best epoch or its good ones together."""
    part = experiment.part(_later(experiment))
    found = []
    for goal in goals:
        if by_score:
            fitted = lstm.fitted(experiment, goal, (goal,), effort.epochs, seed)
        else:
            fitted = lstm.fitted(experiment, None, tuple(goals), effort.epochs, seed)
        ensemble = getattr(fitted, which)[goal.name]
        threshold = ensemble.members[0].threshold if which == "best" else ensemble.threshold
        found.append(Outcome(lstm.decisions(experiment, fitted, ensemble, part), threshold, fitted.seconds))
    return found


def _corrected(experiment: Experiment, goal: Goal, seed: int, effort: Effort, *, penalty: float) -> Tensor:
    """The linear model for the score, and an LSTM that corrects it for the same score."""
    _, first = linear.for_score(experiment, goal, penalty)
    return lstm.corrected(experiment, first, goal, seed, epochs=effort.corrections, last=10)


def _levels(experiment: Experiment, goal: Goal, seed: int, effort: Effort, *, network: bool) -> Tensor:
    """A linear model trained for the score at several levels, or an LSTM that corrects it at all of them."""
    part = levels.known(experiment)
    x = levels.inputs(experiment, part)
    b = levels.for_score(x, part, goal, levels.PENALTIES[experiment.name])
    z = linear.logits(x, b)
    if network:
        z = levels.corrected(x, part, b, goal, seed, epochs=effort.corrections, last=10)
    return z[:, experiment.judged]


def _repeated(
    experiment: Experiment,
    goals: Sequence[Goal],
    seed: int,
    effort: Effort,
    *,
    by_score: bool,
    search: repeated.Search = "steps",
    trainings: int = 1,
) -> list[Outcome]:
    """The published recipe, with its loss or half of it and half of ours, its thresholds or the exactly best.

    Of several trainings all good epochs vote; none of these has a seed of a single training.
    """
    seeds = (seed,) if trainings == 1 else tuple(range((seed + 1) * ALONE, (seed + 1) * ALONE + trainings))
    found = []
    for goal in goals:
        epochs = repeated.together(experiment, goal if by_score else None, seeds, effort.published)
        alarms, votes = repeated.decided(experiment, epochs, goal, search)
        found.append(Outcome(alarms[_later(experiment)], 0.5, epochs.seconds, votes))  # half of the votes
    return found


def _classifier(experiment: Experiment, goals: Sequence[Goal], seed: int, _effort: Effort) -> list[Outcome]:
    """The estimator with its defaults, on what the published network reads."""
    known = experiment.known()
    x = experiment.windows.flatten(1).numpy()
    found = []
    for goal in goals:
        started = time.perf_counter()
        model = sw.ScoreClassifier(
            goal.score, weight=goal.weight, horizon=1, pos_label=1.0, random_state=seed, progress=False
        ).fit(x[known.rows], known.y.numpy(), times=known.times.numpy())
        alarms = torch.from_numpy(model.predict(x)).long()[_later(experiment)]
        found.append(Outcome(alarms, float(model.threshold_), time.perf_counter() - started))
    return found


def _by(logits: Callable[..., Tensor], **options: object) -> Fit:
    return partial(_at_half, logits=partial(logits, **options))


METHODS = {
    method.name: method
    for method in (
        Method("persistence", "one number above a threshold", _persistence),
        Method("logistic", "balanced logistic regression, tuned", _logistic),
        Method(
            "lstm_bce",
            "LSTM by cross entropy, best epoch, tuned",
            partial(_epochs, which="best", by_score=False),
            random=True,
        ),
        Method(
            "lstm_bce_ensemble",
            "the same, good epochs vote",
            partial(_epochs, which="good", by_score=False),
            random=True,
        ),
        Method(
            "lstm_score",
            "LSTM by our loss, best epoch, tuned",
            partial(_epochs, which="best", by_score=True),
            random=True,
        ),
        Method(
            "lstm_score_ensemble",
            "the same, good epochs vote",
            partial(_epochs, which="good", by_score=True),
            random=True,
        ),
        Method("linear_score", "linear model by our loss, at 0.5", _by(_linear_score, penalty=linear.FIRST)),
        Method("lstm_corrected", "LSTM that begins as it, at 0.5", _by(_corrected, penalty=linear.FIRST), random=True),
        Method(
            "linear_second",
            "linear model by our loss, second penalty, at 0.5",
            _by(_linear_score, penalty=linear.SECOND),
        ),
        Method(
            "lstm_second",
            "LSTM that begins as the second, at 0.5",
            _by(_corrected, penalty=linear.SECOND),
            random=True,
        ),
        Method("linear_levels", "linear model by our loss at several levels, at 0.5", _by(_levels, network=False)),
        Method(
            "lstm_levels",
            "LSTM that begins as that of several levels, at 0.5",
            _by(_levels, network=True),
            random=True,
        ),
        Method("repeated", "published recipe, repeated", partial(_repeated, by_score=False), random=True),
        Method(
            "repeated_exact",
            "published recipe, exactly best thresholds",
            partial(_repeated, by_score=False, search="exact"),
            random=True,
        ),
        Method(
            "repeated_score",
            "published recipe, half by our loss",
            partial(_repeated, by_score=True),
            random=True,
        ),
        Method(
            "repeated_score_exact",
            "published recipe, half by our loss, exactly best thresholds",
            partial(_repeated, by_score=True, search="exact"),
            random=True,
        ),
        Method(
            "repeated_together",
            "published recipe, ten trainings vote",
            partial(_repeated, by_score=False, trainings=10),
            random=True,
        ),
        Method(
            "repeated_score_together",
            "published recipe, half by our loss, ten trainings vote",
            partial(_repeated, by_score=True, trainings=10),
            random=True,
        ),
        Method("classifier", "`ScoreClassifier` on the published inputs", _classifier, random=True),
    )
}
