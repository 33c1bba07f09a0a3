"""A table of predictions, judged: whole, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from scorewise.cli import columns, files, moments
from scorewise.cli.errors import InputError, guarded, in_rows
from scorewise.evaluation import Evaluation, StreamingEvaluation, evaluate
from scorewise.priors import ThresholdPrior
from scorewise.scores import Score
from scorewise.weights import Weight
from scorewise.weights.base import looks_around

Progress = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Asked:
    """What is to be judged, and how: the options of `scorewise evaluate`, read."""

    source: files.Source
    target: str | None = None
    predictions: tuple[str, ...] = ()
    kind: columns.Kind = "probability"
    score: Score | str = "tss"
    weight: Weight | None = None
    prior: ThresholdPrior | None = None
    threshold: float | None = None
    at_least: Mapping[str, float] | None = None
    time: str | None = None
    step: str | None = None
    groups: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    sample_weight: str | None = None
    positive: str | None = None
    draws: int | None = None
    block: int | Literal["series"] | None = None
    level: float = 0.95
    seed: int = 0
    format: files.Format | None = None
    gzip: bool | None = None
    separator: str = ","

    @property
    def how(self) -> dict[str, Any]:
        """What both ways of judging are told."""
        # of decisions every threshold between 0 and 1 makes the same alarms
        threshold = 0.5 if self.kind == "hard" and self.threshold is None else self.threshold
        return {
            "score": self.score,
            "weight": self.weight,
            "prior": self.prior,
            "threshold": threshold,
            "at_least": self.at_least,
            "from_logits": self.kind == "logit",
        }


@dataclass(frozen=True)
class Found:
    """What was found, how many rows were read, and what must be known of how they were."""

    evaluation: Evaluation
    rows: int
    notes: list[str] = field(default_factory=list)


def whole(asked: Asked, progress: Progress | None = None) -> Found:
    """Judge a table that fits into memory."""
    source = files.unpacked(asked.source, gzip=asked.gzip)
    schema = files.schema(source)
    wanted = None if schema is None else _used(asked, *chosen(schema, asked))
    frame = files.read(source, columns=wanted, format=asked.format, separator=asked.separator)
    schema = frame.schema if schema is None else schema
    target, models = chosen(schema, asked)
    rows = _Rows.of(frame, asked, target, models)
    notes = _notes(schema, asked, target, models)
    if asked.positive is not None:
        notes += _others(frame[target], asked.positive)
    _refuse_one_class(rows.events, rows.known, target)
    stamps: Sequence[str] | None = None
    order = None
    if asked.time is not None:
        notes += moments.numbered_dates(frame[asked.time])
        ticks, stamps = columns.times(frame, asked.time, asked.step, rows.groups)
        rows.times = ticks
        order = np.lexsort((ticks, moments.codes(rows.groups, len(ticks))))
        stamps = moments.Stamps(frame[asked.time][order])
    by = {name: columns.texts(frame[name], "--by").fill_null("(missing)") for name in asked.by}
    del frame
    if order is not None:
        rows = rows.ordered(order)
        by = {name: one[order] for name, one in by.items()}
    notes += _hints(rows.predictions, asked.kind)
    with guarded():
        found = evaluate(
            rows.predictions,
            rows.targets,
            **rows.context,
            **asked.how,
            stamps=stamps,
            by={name: columns.shared(one) for name, one in by.items()} or None,
            draws=asked.draws,
            block=asked.block,
            level=asked.level,
            seed=asked.seed,
            progress=progress,
        )
    return Found(found, len(rows.targets), notes)


def streamed(asked: Asked, progress: Progress | None = None) -> Found:
    """Judge a table of any size, with what a stream has: no intervals, no parts, and a curve with an error bound."""
    if asked.by:
        raise InputError("--by needs the whole table in memory: leave it out, or pass --no-stream.")
    for option, value in (("--draws", asked.draws), ("--block", asked.block)):
        if value:
            raise InputError(f"{option} needs the whole table in memory: leave it out, or pass --no-stream.")
    if asked.time is not None and asked.step is None:
        raise InputError("--time needs --step where a table is streamed, as --step 1h: nobody can look ahead.")
    how: dict[str, Any] = {"format": asked.format, "separator": asked.separator}
    with guarded(f"cannot read {asked.source.name}"):
        lazy = files.lazy(asked.source, **how)
        schema, some = lazy.collect_schema(), lazy.head(1).collect()
    if not len(some):
        raise InputError(f"{asked.source.name} has a header, but no rows.")
    target, models = chosen(schema, asked)
    parts = files.batches(asked.source, columns=_used(asked, target, models), **how)
    with guarded():
        stream = StreamingEvaluation(models, **asked.how)
    notes = _notes(schema, asked, target, models)
    if asked.prior is not None:
        notes.append("of a stream there is no average over the thresholds: --prior is for the report's picture only.")
    seen, classes = 0, [0.0, 0.0]
    origin: pl.Series | None = None
    for frame in parts if progress is None else progress(parts):
        rows = _Rows.of(frame, asked, target, models, first=seen)
        if asked.time is not None and asked.step is not None:
            found = moments.moments(frame[asked.time])
            if origin is None:
                origin = found[:1]
                notes += moments.numbered_dates(found)
            rows.times = moments.times_since(found, origin, asked.step, rows.groups, first=seen)
        with in_rows(seen + 1), guarded():
            stream.update(rows.predictions, rows.targets, **rows.context)
        seen += len(frame)
        classes[0] += float((rows.targets[rows.known] == 0).sum())
        classes[1] += rows.events
    _refuse_one_class(classes[1], np.ones(int(sum(classes)), np.bool_), target)
    with guarded():
        return Found(stream.result(), seen, notes)


def chosen(schema: Mapping[str, pl.DataType], asked: Asked) -> tuple[str, list[str]]:
    """The column of labels, and those of predictions; raise if there is not what was asked for."""
    there = list(schema)
    if len(there) == 1:
        raise InputError(
            f"{asked.source.name} has one column only, {there[0]!r}: expected labels and predictions. Pass --separator "
            "if columns are not separated by commas."
        )
    if asked.target is None and "target" not in there:
        raise InputError(
            f"--target: there is no column 'target', so name the column of labels. The columns are "
            f"{columns.listed(there)}."
        )
    target = "target" if asked.target is None else asked.target
    named = [(target, "--target"), (asked.time, "--time"), (asked.sample_weight, "--sample-weight")]
    named += [(name, "--group") for name in asked.groups] + [(name, "--by") for name in asked.by]
    named += [(name, "--prediction") for name in asked.predictions]
    for name, what in named:
        if name is not None:
            columns.require(there, name, what)
    if asked.predictions:
        if target in asked.predictions:
            raise InputError(f"--prediction: the column {target!r} holds the labels.")
        return target, list(dict.fromkeys(asked.predictions))
    used = {name for name, _ in named}
    free = [name for name in there if name not in used]
    models = [name for name in free if schema[name].is_numeric() or schema[name] == pl.Boolean]
    if not models:
        rest = f": {columns.listed(free)} {'holds' if len(free) == 1 else 'hold'} text" if free else ""
        raise InputError(f"{asked.source.name} has no column of numbers that could be predictions{rest}.")
    return target, models


def _used(asked: Asked, target: str, models: Sequence[str]) -> list[str]:
    """The columns that are needed."""
    named = [target, *models, *asked.groups, *asked.by, asked.time, asked.sample_weight]
    return list(dict.fromkeys(name for name in named if name is not None))


@dataclass
class _Rows:
    """Columns as arrays."""

    predictions: dict[str, columns.Floats]
    targets: np.ndarray[Any, np.dtype[np.float64]]
    known: np.ndarray[Any, np.dtype[np.bool_]]
    groups: list[str] | None
    sample_weight: columns.Floats | None
    times: np.ndarray[Any, np.dtype[np.int64]] | None = None

    @classmethod
    def of(
        cls, frame: pl.DataFrame, asked: Asked, target: str, models: Sequence[str], first: int | None = None
    ) -> _Rows:
        """What a table holds; ``first`` is how many rows came before, None if these are all."""
        before = first or 0
        y, known = columns.labels(frame[target], asked.positive, first=before, partial=first is not None)
        x = {}
        for name in models:
            try:
                x[name] = columns.predictions(frame[name], asked.kind, first=before)
                _refuse_missing(x[name], known, f"--prediction: the column {name!r}", before)
            except InputError as error:
                if asked.predictions:
                    raise
                raise InputError(f"{error} If it holds none, name those that do with --prediction.") from error
        weights = None
        if asked.sample_weight is not None:
            what = f"--sample-weight: the column {asked.sample_weight!r}"
            weights = columns.numbers(frame[asked.sample_weight], "--sample-weight", first=before)
            _refuse_missing(weights, known, what, before)
            if (weights < 0).any():
                row = int((weights < 0).argmax())
                raise InputError(
                    f"{what} must be at least 0, but {int((weights < 0).sum()):,} of {len(weights):,} values are not: "
                    f"the first, in row {before + row + 1:,}, is {weights[row]:g}."
                )
            weights = np.where(np.isnan(weights), 0.0, weights)
        return cls(x, y, known, columns.groups(frame, asked.groups, first=before), weights)

    @property
    def events(self) -> float:
        return float(self.targets[self.known].sum())

    @property
    def context(self) -> dict[str, Any]:
        """What goes with predictions and labels."""
        mask = None if self.known.all() else self.known
        return {"groups": self.groups, "times": self.times, "mask": mask, "sample_weight": self.sample_weight}

    def ordered(self, order: np.ndarray[Any, np.dtype[np.intp]]) -> _Rows:
        """The same rows in another order."""
        return _Rows(
            {name: values[order] for name, values in self.predictions.items()},
            self.targets[order],
            self.known[order],
            None if self.groups is None else [self.groups[place] for place in order.tolist()],
            None if self.sample_weight is None else self.sample_weight[order],
            None if self.times is None else self.times[order],
        )


def _refuse_missing(values: columns.Floats, known: np.ndarray[Any, Any], what: str, first: int) -> None:
    bad = np.isnan(values) & known
    if bad.any():
        raise InputError(
            f"{what} must have a value wherever there is a label, but {int(bad.sum()):,} of {int(known.sum()):,} are "
            f"missing: the first in row {first + int(bad.argmax()) + 1:,}. Leave those rows or their labels out."
        )


def _refuse_one_class(events: float, known: np.ndarray[Any, Any], target: str) -> None:
    count = int(known.sum())
    if count == 0:
        raise InputError(f"--target: the column {target!r} has no label that is known.")
    if events in {0, count}:
        raise InputError(
            f"--target: all {count:,} labels in the column {target!r} are of one class, "
            f"{'events' if events else 'no events'}: there is nothing to tell apart."
        )


def _notes(schema: Mapping[str, pl.DataType], asked: Asked, target: str, models: Sequence[str]) -> list[str]:
    """What was assumed."""
    notes = []
    if looks_around(asked.weight) and asked.time is None:
        within = " within each series" if asked.groups else ""
        notes.append(f"without --time the rows are taken to be in order{within}, one step apart.")
    unused = [name for name in schema if name not in _used(asked, target, models)]
    if unused and not asked.predictions:
        notes.append(f"not used, since they hold no numbers: {columns.listed(unused)}.")
    return notes


def _others(series: pl.Series, positive: str) -> list[str]:
    rest = series.filter(~columns.matches(series, positive).fill_null(value=True))
    if rest.n_unique() < 2:
        return []
    return [f"the label {positive!r} is the event, and all others are none: {columns.values_of(rest)}."]


def _hints(predictions: Mapping[str, columns.Floats], kind: columns.Kind) -> list[str]:
    return list(_hint(predictions, kind))


def _hint(predictions: Mapping[str, columns.Floats], kind: columns.Kind) -> Iterator[str]:
    for name, values in predictions.items():
        known = values[~np.isnan(values)]
        if kind == "probability" and np.isin(known, (0, 1)).all():
            yield f"the column {name!r} has no values but 0 and 1. If they are decisions, pass --kind hard."
        if kind == "percent" and (known <= 0.01).all():
            yield f"the column {name!r} has no value above 1. If they are probabilities, leave --kind out."
