"""All that is to be known of predictions that are there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from scorewise import scores
from scorewise._values import is_number, is_whole
from scorewise.curves import Bootstrap, ScoreCurve, score_curve
from scorewise.curves.choice import AtLeast, constraints
from scorewise.curves.sweep import check_weight
from scorewise.evaluation.parts import parts
from scorewise.evaluation.reliability import reliability
from scorewise.evaluation.resampling import Progress, Resampled
from scorewise.evaluation.results import Difference, Evaluation, Model, Stretch
from scorewise.evaluation.rows import (
    Rows,
    in_all,
    judged,
    named,
    names_of,
    of_model,
    probabilities_or_logits,
    scores_for,
    summed,
)
from scorewise.evaluation.stretches import stretches
from scorewise.evaluation.thinned import Stairs, thinned
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.scores import Score
from scorewise.weights import Weight
from scorewise.weights.base import as_weight

_MOST_TO_CHOOSE_AGAIN = 2_000_000  # samples; of more, the choice of a threshold gains next to nothing


def evaluate(
    predictions: Mapping[str, Any],
    targets: Any,
    *,
    score: str | Score = "tss",
    weight: Weight | None = None,
    prior: Any = None,
    threshold: float | Mapping[str, float] | None = None,
    at_least: AtLeast | None = None,
    from_logits: bool = False,
    groups: Any = None,
    times: Any = None,
    mask: Any = None,
    sample_weight: Any = None,
    stamps: Sequence[str] | None = None,
    by: Mapping[str, Sequence[object]] | None = None,
    draws: int | None = None,
    block: int | Literal["series"] | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Judge the predictions of one or more models on the same samples.

    Args:
        predictions: Probabilities (or logits) by the name of the model, (n,) each.
        targets: Labels 0/1, (n,).
        score: The score that matters: a name (see `scorewise.scores.names`) or a `Score`.
        weight: What an error costs, an object of `scorewise.weights` that `score_curve` takes. Everything is told
            without it, too.
        prior: Which thresholds matter, for the expected score; None: all alike.
        threshold: What is greater is an alarm: one for all models, or one for each by its name. None: for each model
            the best on these very samples, which flatters it: see `Model.optimism`.
        at_least: What other scores must reach at the best threshold, as {"precision": 0.9}.
        from_logits: Whether predictions are logits; thresholds are probabilities all the same.
        groups: The series that each sample belongs to, integers or strings.
        times: When, in whole units of one lag, increasing within a group.
        mask: True where a sample counts; elsewhere predictions and labels may be NaN.
        sample_weight: How much each sample counts, at least 0.
        stamps: How to print each sample's time.
        by: Columns by their names, a value for each sample: the samples of each value are judged for themselves.
        draws: How many resamples to draw for intervals; 0: none; None: 1000, or fewer of more than 200,000 samples.
            What is drawn is told in `Resampling.unit`.
        block: How many consecutive samples are drawn together, or "series", as for `ScoreCurve.bootstrap`. Blocks
            should be longer than an event lasts.
        level: The share of them in an interval.
        seed: Of the random numbers.
        progress: Wraps loops over draws, as `tqdm.tqdm` does.

    Raises:
        ValueError: If an argument does not fit, or no threshold meets ``at_least``.
        TypeError: If one is of the wrong kind.

    Example:
        >>> found = evaluate({"mine": [0.1, 0.4, 0.35, 0.8]}, [0, 0, 1, 1], score="csi", draws=0)
        >>> mine = found.models[0]
        >>> round(mine.threshold, 3), mine.plain.cells, round(mine.plain.scores["csi"], 3)
        (0.225, (1.0, 1.0, 0.0, 2.0), 0.667)
    """
    main, weight = scores.get(score), as_weight(weight)
    check_weight(weight, main)
    _check_draws(draws, level, seed, progress)
    _check_thresholds(predictions, threshold, at_least)
    rows = Rows.of(targets, groups=groups, times=times, mask=mask, sample_weight=sample_weight, from_logits=from_logits)
    rows.check(weight)
    counted = rows.counted
    if not bool(counted.any()):
        none = f": none of {len(rows)} counts" if len(rows) else ""
        raise ValueError(f"there are no samples to evaluate{none}.")
    task = _Task(
        rows,
        main,
        weight,
        as_prior(prior),
        (scores_for(main), scores_for(main, weight)),
        at_least,
        _columns(by, len(rows)),
        [""] if rows.groups is None else names_of(groups, rows.groups),
        None if stamps is None else _each_has("stamps", stamps, len(rows)),
        block,
        timed=groups is not None or times is not None or (weight is not None and weight.reach > 0),
    )
    given = threshold if isinstance(threshold, Mapping) else dict.fromkeys(predictions, threshold)
    looks = [task.look(name, one, given.get(name)) for name, one in predictions.items()]
    resampled = None
    if draws != 0:
        each = [look.each for look in looks]
        how: Any = {"draws": draws, "block": block, "level": level, "seed": seed}
        resampled = Resampled(rows, each, weight, **how, progress=progress)
    models = [task.model(place, look, resampled, progress) for place, look in enumerate(looks)]
    counts = torch.ones_like(rows.targets) if rows.sample_weight is None else rows.sample_weight
    return Evaluation(
        main,
        weight,
        task.prior,
        rows=int(counted.sum()),
        events=float((rows.targets[counted].double() * counts[counted].double()).sum()),
        unknown=int((~counted).sum()),
        series=len(task.series),
        timed=task.timed,
        models=tuple(models),
        differences=task.differences(models, resampled),
        resampling=None if resampled is None else resampled.how,
    )


@dataclass(frozen=True, eq=False)
class _Look:
    """One model at first sight: curves without the weight and with it, the threshold, what samples add there."""

    name: str
    x: Tensor
    plain: ScoreCurve
    own: ScoreCurve
    threshold: float
    chosen: bool
    each: tuple[Tensor, Tensor | None]


@dataclass(frozen=True, eq=False)
class _Task:
    """What is asked of every model."""

    rows: Rows
    score: Score
    weight: Weight | None
    prior: ThresholdPrior
    wanted: tuple[dict[str, Score], dict[str, Score]]
    at_least: AtLeast | None
    columns: dict[str, tuple[list[str], Tensor]]
    series: list[str]
    stamps: Sequence[str] | None
    block: int | Literal["series"] | None
    timed: bool

    def look(self, name: str, predictions: object, threshold: float | None) -> _Look:
        """Find or take the threshold of a model."""
        rows, weight = self.rows, self.weight
        with of_model(name):
            x = probabilities_or_logits(predictions, len(rows))
            plain = score_curve(x, rows.targets, self.score, None, **rows.context)
            own = plain if weight is None else score_curve(x, rows.targets, self.score, weight, **rows.context)
            at = own.best(at_least=self.at_least)[0] if threshold is None else float(threshold)
        each = rows.each(x, at, None), None if weight is None else rows.each(x, at, weight)
        return _Look(name, x, plain, own, at, threshold is None, each)

    def model(self, place: int, look: _Look, resampled: Resampled | None, progress: Progress | None) -> Model:
        """All that is told of a model."""
        rows, weight, (plain, own) = self.rows, self.weight, look.each
        sums = plain.sum(0)
        again = None if resampled is None else self._chosen_again(look, resampled, progress)
        without = {} if resampled is None else resampled.intervals(place, self.wanted[0], weighted=False)
        weighted = None
        if own is not None:
            intervals = {} if resampled is None else resampled.intervals(place, self.wanted[1], weighted=True)
            weighted = judged(summed(sums, own.sum(0), weight), self.wanted[1], intervals)
        asked: Any = {"score": self.score, "weight": weight, "at_least": self.at_least}
        return Model(
            look.name,
            look.threshold,
            look.chosen,
            None if again is None else again.threshold,
            None if again is None else again.optimism,
            judged(summed(sums, sums, None), self.wanted[0], without),
            weighted,
            float(look.own.expected(self.prior)),
            thinned(
                Stairs.of(look.plain), None if weight is None else Stairs.of(look.own), self.wanted, look.threshold
            ),
            reliability(rows.probabilities(look.x), rows.targets, rows.counted),
            {
                name: parts(rows, look.x, (name, *column), look.each, self.wanted, **asked)
                for name, column in self.columns.items()
            },
            self._stretches(look) if self.timed else (),
        )

    def _chosen_again(self, look: _Look, resampled: Resampled, progress: Progress | None) -> Bootstrap | None:
        """The choice of a threshold in resamples, if there was one."""
        n, how = len(self.rows), resampled.how
        if not look.chosen or n > _MOST_TO_CHOOSE_AGAIN:
            return None
        draws = _draws_to_choose(how.draws, n)
        rest: Any = {"level": how.level, "at_least": self.at_least, "seed": how.seed, "progress": progress}
        try:
            return look.own.bootstrap(draws, block=self.block, **rest)
        except ValueError:
            if self.at_least is None:
                raise
            return None  # what was asked for at least can be had in the data, and in none of the resamples

    def _stretches(self, look: _Look) -> tuple[Stretch, ...]:
        plain, own = look.each
        costs = plain if own is None else in_all(plain, own, self.weight)
        how: Any = {"names": self.series, "stamps": self.stamps}
        return stretches(self.rows, look.x, look.threshold, costs, self.weight, **how)

    def differences(self, models: list[Model], resampled: Resampled | None) -> tuple[Difference, ...]:
        """The first model less each other, for every score."""
        if resampled is None:
            return ()
        found, names = [], [model.name for model in models]
        for other in range(1, len(models)):
            for weighted in (False, True)[: 1 if self.weight is None else 2]:
                for name, score in self.wanted[weighted].items():
                    pair = [models[k].weighted if weighted else models[k].plain for k in (0, other)]
                    first, second = (one.scores[name] for one in pair if one is not None)
                    found.append(resampled.difference(names, other, score, (first, second), weighted=weighted))
        return tuple(found)


def _draws_to_choose(draws: int, n: int) -> int:
    """How many resamples to choose a threshold on: each takes as long as a running sum over all samples."""
    return max(2, min(draws, max(50, 20_000_000 // n)))


def _check_draws(draws: object, level: object, seed: object, progress: object) -> None:
    if draws is not None and (not is_whole(draws) or draws < 0 or draws == 1):
        raise ValueError(f"draws must be a whole number of at least 2, or 0 for none, saw {draws!r}.")
    if not is_number(level) or not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, saw {level!r}.")
    if not is_whole(seed):
        raise ValueError(f"seed must be a whole number, saw {seed!r}.")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function as tqdm.tqdm, saw {type(progress).__name__}.")


def _check_thresholds(predictions: object, threshold: object, at_least: AtLeast | None) -> None:
    if not isinstance(predictions, Mapping):
        raise TypeError(f'predictions must be a dict as {{"model": probabilities}}, saw {type(predictions).__name__}.')
    if not predictions:
        raise ValueError('predictions must be of at least one model, as {"model": probabilities}; saw an empty dict.')
    given = threshold if isinstance(threshold, Mapping) else dict.fromkeys(predictions, threshold)
    for one in given.values():
        if one is not None and (not is_number(one) or math.isnan(one)):
            raise ValueError(f"a threshold must be a number, saw {one!r}.")
    if unknown := set(given) - set(predictions):
        raise ValueError(f"there is a threshold for {sorted(unknown)}, but the models are {list(predictions)}.")
    constraints(at_least)
    if at_least is not None and all(given.get(name) is not None for name in predictions):
        raise ValueError("at_least is for thresholds that are chosen here, but they are given.")


def _columns(by: object, n: int) -> dict[str, tuple[list[str], Tensor]]:
    """The columns to judge by: of each its different values, and the place of each row's among them."""
    if by is None:
        return {}
    if not isinstance(by, Mapping):
        raise TypeError(f'by must be a dict as {{"station": names}}, saw {type(by).__name__}.')
    return {name: named(_each_has(f"the column {name!r}", values, n)) for name, values in by.items()}


def _each_has(what: str, values: Any, n: int) -> Sequence[Any]:
    if len(values) != n:
        raise ValueError(f"{what} must have one value for each of the {n} samples, saw {len(values)}.")
    return values if isinstance(values, Sequence) else list(values)  # a table's column may have an index of its own
