"""What an evaluation finds: plain values, for whoever prints, draws or keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from scorewise.priors import ThresholdPrior
from scorewise.scores import Score
from scorewise.weights import Weight

Cells = tuple[float, float, float, float]
"""TN, FP, FN, TP."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Judged:
    """A confusion matrix and its scores.

    Attributes:
        cells: TN, FP, FN, TP.
        scores: The value of every score, by name.
        intervals: Where each lies in resampled data, by name; empty where nothing was resampled. They are of the
            threshold as it is: what choosing it on the same rows has gained is `Model.optimism`, and not taken off.
    """

    cells: Cells
    scores: dict[str, float]
    intervals: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """Matrices at thresholds: all that there are, or of many so many that the best of every score is among them.

    Attributes:
        thresholds: Ascending. A matrix stays what it is up to the next threshold of the data; thinned, up to the next
            one here something may happen.
        plain: The cells at each of them, without a weight.
        weighted: The cells with the weight; None without one.
        plain_scores: The scores at each of them, by name.
        weighted_scores: The same of the weighted cells.
        of: How many thresholds there are in the data; of a stream, how many were looked at.
        bound: At most how much better than the best value here that of any threshold is, by name of the score
            (weighted, if there is a weight); None where nothing is lost.
    """

    thresholds: tuple[float, ...]
    plain: tuple[Cells, ...]
    weighted: tuple[Cells, ...] | None
    plain_scores: dict[str, tuple[float, ...]]
    weighted_scores: dict[str, tuple[float, ...]] | None
    of: int
    bound: dict[str, float] | None = None


@dataclass(frozen=True)
class Bin:
    """One point of a reliability diagram.

    Attributes:
        predicted: The mean prediction.
        observed: The share of events.
        interval: Where that share lies, by Wilson's formula (samples that depend on each other make it too narrow).
        rows: How many samples.
    """

    predicted: float
    observed: float
    interval: Interval
    rows: int


@dataclass(frozen=True)
class Part:
    """The rows with one value in a column, judged for themselves.

    Attributes:
        name: The value.
        rows: How many samples count.
        events: How many of them are events.
        plain: Their matrix at the threshold of all.
        weighted: The same with the weight.
        threshold: The best threshold of their own; None if they are all of one class.
        value: The score there, with the weight if there is one.
    """

    name: str
    rows: int
    events: float
    plain: Judged
    weighted: Judged | None
    threshold: float | None
    value: float | None


@dataclass(frozen=True)
class Stretch:
    """Consecutive samples of one series at the threshold, each with what its error costs and why.

    Attributes:
        series: The name of the series; "" if there is one only.
        times: When, as the user's file has it, or the place in the series.
        predictions: Probabilities; None where unknown.
        outcomes: "tn", "fp", "fn", "tp", or "unknown".
        costs: What the error costs, weighted; 0 where there is none.
        reasons: Why, in words; "" where there is no error.
        steps: Whole numbers of lags since the first sample: places on the axis, with gaps.
        cost: The sum of all errors.
    """

    series: str
    times: tuple[str, ...]
    steps: tuple[int, ...]
    predictions: tuple[float | None, ...]
    outcomes: tuple[Literal["tn", "fp", "fn", "tp", "unknown"], ...]
    costs: tuple[float, ...]
    reasons: tuple[str, ...]
    cost: float


@dataclass(frozen=True)
class Model:
    """What is found of one model's predictions.

    Attributes:
        name: The model.
        threshold: What is greater is an alarm.
        chosen: Whether the threshold was chosen on these very rows: the best for the score.
        threshold_interval: Where the best thresholds of resamples lie, if it was chosen.
        optimism: How much better the score looks than on new rows since the threshold was chosen on these, in the sense
            of the score's direction; None if it was given.
        plain: Matrix and scores at the threshold, without a weight.
        weighted: The same with the weight; None without one.
        expected: The score averaged over the prior of the threshold, exactly; None if it cannot be.
        curve: Matrices over the threshold.
        reliability: The reliability diagram.
        parts: The rows by the values of a column, for each column asked for.
        stretches: Times to look at, the costliest first; empty if there is no time.
    """

    name: str
    threshold: float
    chosen: bool
    threshold_interval: Interval | None
    optimism: float | None
    plain: Judged
    weighted: Judged | None
    expected: float | None
    curve: Curve
    reliability: tuple[Bin, ...] = ()
    parts: dict[str, tuple[Part, ...]] = field(default_factory=dict)
    stretches: tuple[Stretch, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A score of one model less that of another, in the same resamples.

    Attributes:
        model: The one.
        other: The other.
        score: The score's name.
        weighted: Whether it is that of the weighted matrix.
        value: The difference.
        interval: Where it lies in resampled data.
        share: The share of resamples in which the one is better; ties count half.
    """

    model: str
    other: str
    score: str
    weighted: bool
    value: float
    interval: Interval
    share: float


@dataclass(frozen=True)
class Resampling:
    """How intervals were made.

    Attributes:
        draws: How many resamples.
        level: The share of them in an interval.
        unit: What was drawn, in words.
        seed: Of the random numbers.
    """

    draws: int
    level: float
    unit: str
    seed: int


@dataclass(frozen=True)
class Evaluation:
    """Predictions of one or more models, judged.

    Attributes:
        score: The score that matters.
        weight: What an error costs; None: one each.
        prior: Which thresholds matter.
        rows: How many samples count.
        events: How many of them are events (their weight, if samples have weights).
        unknown: How many do not count.
        series: How many series there are.
        timed: Whether samples have a place in time.
        models: What is found of each.
        differences: The first model less each other, for every score.
        resampling: How intervals were made; None: there are none.
    """

    score: Score
    weight: Weight | None
    prior: ThresholdPrior
    rows: int
    events: float
    unknown: int
    series: int
    timed: bool
    models: tuple[Model, ...]
    differences: tuple[Difference, ...] = ()
    resampling: Resampling | None = None

    @property
    def main(self) -> str:
        """The score that matters, as tables call it: with a w in front if it is weighted."""
        return self.score.name if self.weight is None else f"w{self.score.name}"
