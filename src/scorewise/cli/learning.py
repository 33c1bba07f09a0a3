"""A table to learn from: which columns tell what, which rows are held out, and the training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scorewise.cli import columns, moments
from scorewise.cli.errors import InputError, guarded, note, of_system
from scorewise.evaluation import Evaluation, evaluate
from scorewise.priors import ThresholdPrior
from scorewise.scores import Score
from scorewise.weights import Weight

if TYPE_CHECKING:
    from scorewise.estimator import ScoreClassifier


@dataclass(frozen=True)
class Asked:
    """What is to be learned, and how: the options of `scorewise train`, read."""

    target: str
    score: Score
    prior: ThresholdPrior | None = None
    weight: Weight | None = None
    time: str | None = None
    step: str | None = None
    groups: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    horizon: int = 0
    positive: str | None = None
    sample_weight: str | None = None
    at_least: Mapping[Any, float] | None = None
    test_fraction: float = 0.2
    max_time: float | None = None
    steps: int | None = None
    share: tuple[float, ...] = ()
    seed: int = 0

    @property
    def gap(self) -> int:
        """How many steps of time must lie between rows to learn from and rows to judge by."""
        return self.horizon + (0 if self.weight is None else self.weight.reach)

    @property
    def ordered(self) -> bool:
        """Whether rows are series."""
        return self.time is not None or self.gap > 0


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table whose label is known, in the order of series and of time if there is time.

    Attributes:
        frame: All columns.
        features: Which of them are learned from.
        targets: 1 for an event, else 0.
        groups: The name of each row's series.
        times: When, in whole numbers of lags.
        sample_weight: How much each row counts.
        time: The column that tells when.
    """

    frame: pl.DataFrame
    features: list[str]
    targets: NDArray[np.int64]
    groups: list[str] | None
    times: NDArray[np.int64] | None
    sample_weight: NDArray[Any] | None
    time: str | None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def X(self) -> pl.DataFrame:  # noqa: N802  # as scikit-learn calls it
        """What is learned from."""
        return self.frame.select(self.features)

    @property
    def stamps(self) -> Sequence[str] | None:
        """How to print each row's time."""
        return None if self.time is None else moments.Stamps(self.frame[self.time])

    @property
    def context(self) -> dict[str, Any]:
        """What else is known of the rows."""
        return {"groups": self.groups, "times": self.times, "sample_weight": self.sample_weight}

    def __getitem__(self, rows: NDArray[Any]) -> Rows:
        """Some of the rows, by a mask or their numbers, in that order."""
        places = np.flatnonzero(rows) if rows.dtype == bool else rows
        return replace(
            self,
            frame=self.frame[places],
            targets=self.targets[places],
            groups=None if self.groups is None else [self.groups[place] for place in places.tolist()],
            times=None if self.times is None else self.times[places],
            sample_weight=None if self.sample_weight is None else self.sample_weight[places],
        )


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows to learn from, and rows to judge by.

    Attributes:
        train: Those to learn from.
        test: Those to judge by; None: there are none.
        unknown: How many rows had no label, and are in neither.
        between: How many are in neither since they are too near in time.
    """

    train: Rows
    test: Rows | None
    unknown: int
    between: int


def parts(frame: pl.DataFrame, asked: Asked) -> Parts:
    """A table's rows, with the last ones in time, or some of each class, held out."""
    rows, known = _rows(frame, asked)
    unknown = int((~known).sum())
    events = int(rows.targets[known].sum())
    if events in {0, int(known.sum())}:
        kind = "labels that are known" if not known.any() else "events" if not events else "other labels than events"
        seen = columns.values_of(frame[asked.target])
        raise InputError(f"--target: there are no {kind} in the column {asked.target!r}, saw {seen or 'nothing'}.")
    if rows.times is None and asked.gap and unknown:
        if rows.groups is not None:
            raise InputError(
                f"--target: {unknown:,} rows have no label, and leave gaps in the series: pass --time, which tells "
                "how far apart the others are."
            )
        rows = replace(rows, times=np.arange(len(rows)))
    rows = rows[known]
    if rows.times is not None:
        names = np.zeros(len(rows)) if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
        rows = rows[np.lexsort((rows.times, names))]
    if not asked.test_fraction:
        return Parts(rows, None, unknown, 0)

    from scorewise.estimator.splits import holdout

    with guarded("--test-fraction"):
        split = holdout(
            rows.targets,
            fraction=asked.test_fraction,
            ordered=asked.ordered,
            groups=rows.groups,
            times=rows.times,
            gap=asked.gap,
            seed=asked.seed,
        )
    return Parts(rows[split.train], rows[split.test], unknown, len(rows) - len(split.train) - len(split.test))


def notes(frame: pl.DataFrame, asked: Asked) -> list[str]:
    """What was assumed."""
    if asked.time is not None:
        return moments.numbered_dates(frame[asked.time])
    if not asked.gap:
        return []
    within = " within each series" if asked.groups else ""
    return [f"without --time the rows are taken to be in order{within}, one step apart."]


def _rows(frame: pl.DataFrame, asked: Asked) -> tuple[Rows, NDArray[np.bool_]]:
    """All rows of a table as they are, and where the label is known."""
    target = columns.column(frame, asked.target, "--target")
    for name in asked.drop:
        columns.require(frame.columns, name, "--drop")
    groups = columns.groups(frame, asked.groups)
    times = None
    if asked.time is not None:
        times, _ = columns.times(frame, asked.time, asked.step, groups)
    elif asked.step is not None:
        raise InputError("--step is the length of a lag, and needs --time.")
    targets, known = columns.labels(target, asked.positive)
    weights = None
    if asked.sample_weight is not None:
        weights = columns.numbers(columns.column(frame, asked.sample_weight, "--sample-weight"), "--sample-weight")
        weights = np.where(known, weights, 0.0)  # the others are left out
        if not (weights >= 0).all():
            row = int((~(weights >= 0)).argmax())
            raise InputError(
                f"--sample-weight: the column {asked.sample_weight!r} must hold numbers of at least 0, but row "
                f"{row + 1:,} has {weights[row]:g}."
            )
    numbers = np.where(known, targets, 0).astype(np.int64)
    return Rows(frame, _features(frame, asked), numbers, groups, times, weights, asked.time), known


def _features(frame: pl.DataFrame, asked: Asked) -> list[str]:
    """The columns to learn from: all that no option names."""
    named = {asked.target, asked.time, asked.sample_weight, *asked.groups, *asked.drop}
    features = [name for name in frame.columns if name not in named]
    if not features:
        raise InputError(f"there is no column left to learn from. The columns are {columns.listed(frame.columns)}.")
    for name in features:
        kind = frame.schema[name]
        if kind.is_temporal() or moments.written_dates(frame[name]):
            raise InputError(
                f"the column {name!r} holds times, which cannot be learned from. Pass --time {name} if it "
                f"tells the order of rows, or --drop {name}."
            )
        if kind.is_nested() or kind in {pl.Binary, pl.Object}:
            raise InputError(f"the column {name!r} holds {kind}, which cannot be learned from. Pass --drop {name}.")
    return features


def fit(rows: Rows, asked: Asked, checkpoint: Path, *, progress: bool | None) -> tuple[ScoreClassifier, bool]:
    """Train on rows; and whether that was interrupted, so that it is the best so far.

    Args:
        rows: Those to learn from, of which some are kept to choose by.
        asked: How.
        checkpoint: The file to go on from, and to leave.
        progress: Whether to show a bar; None: if somebody looks.
    """
    from scorewise import ScoreClassifier

    given: dict[str, Any] = {"share": asked.share} if asked.share else {}
    model = ScoreClassifier(
        asked.score,
        prior=asked.prior,
        weight=asked.weight,
        steps=asked.steps,
        max_time=asked.max_time,
        at_least=asked.at_least,
        horizon=asked.horizon,
        progress=progress,
        random_state=asked.seed,
        **given,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with guarded():
            try:
                model.fit(rows.X, rows.targets, **rows.context, checkpoint=checkpoint)
            except RuntimeError as error:
                if not isinstance(error.__context__, OSError):
                    raise
                # a full disk, as torch tells of it
                raise InputError(f"cannot write {checkpoint}: {of_system(error.__context__)}") from error
    told = [str(one.message) for one in caught if one.category is UserWarning]
    interrupted = any("interrupted" in one for one in told)
    for one in dict.fromkeys(told):
        if "interrupted" not in one:
            note(one)
    return model, interrupted


def positive(model: ScoreClassifier) -> int:
    """Which of two classes is the event: its place among them."""
    return 1 if model.pos_label is None else int(np.flatnonzero(model.classes_ == model.pos_label)[0])


def threshold(model: ScoreClassifier) -> float:
    """What is greater is an alarm, of two classes."""
    return float(model.threshold_)


def judge(model: ScoreClassifier, rows: Rows, asked: Asked, name: str, progress: Any) -> Evaluation:
    """Judge a model at its threshold, on rows that it has not seen."""
    with guarded():
        return evaluate(
            {name: model.predict_proba(rows.X)[:, positive(model)]},
            rows.targets,
            score=asked.score,
            weight=asked.weight,
            prior=asked.prior,
            threshold=threshold(model),
            **rows.context,
            stamps=rows.stamps,
            seed=asked.seed,
            progress=progress,
        )


def decided(model: ScoreClassifier, frame: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Columns to keep, and beside them what a model makes of rows: a probability, and whether that is an alarm.

    Of more than two classes there is a probability of each, and the class; of labels, a probability and an alarm of
    each.

    Args:
        model: The model.
        frame: The columns it was fitted with.
        kept: Other columns of the same rows.
    """
    made: dict[str, NDArray[Any]] = {}
    shares, chosen = model.predict_proba(frame), model.predict(frame)
    if chosen.ndim == 2:
        for k in range(shares.shape[1]):
            made |= {f"probability {k}": shares[:, k], f"alarm {k}": chosen[:, k].astype(np.int8)}
    elif shares.shape[1] > 2:
        made = {f"probability {name}": shares[:, k] for k, name in enumerate(model.classes_)} | {"class": chosen}
    else:
        event = positive(model)
        made = {"probability": shares[:, event], "alarm": (chosen == model.classes_[event]).astype(np.int8)}
    if twice := [name for name in kept.columns if name in made]:
        raise InputError(f"the column {twice[0]!r} cannot be kept: a column of the predictions is called so.")
    return pl.DataFrame({**kept.to_dict(), **made})
