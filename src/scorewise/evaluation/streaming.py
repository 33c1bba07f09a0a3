"""The same for what does not fit into memory: batch after batch, with matrices on a grid of thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scorewise import scores
from scorewise._cells import Tally
from scorewise._values import is_number, is_whole
from scorewise.curves.choice import AtLeast, choose, constraints, where_allowed
from scorewise.curves.sweep import check_weight, score_along
from scorewise.evaluation.bins import Bins
from scorewise.evaluation.results import Evaluation, Model
from scorewise.evaluation.rows import Rows, judged, names_of, of_model, probabilities_or_logits, scores_for
from scorewise.evaluation.thinned import Stairs, thinned
from scorewise.priors import as_prior
from scorewise.priors.base import widened
from scorewise.scores import Score
from scorewise.weights import Weight
from scorewise.weights.base import as_weight


class StreamingEvaluation:
    """Judge predictions that come batch after batch.

    Matrices are exact, at a threshold that is given and at every multiple of one over ``bins``; the best threshold is
    sought among these, and `Curve.bound` tells how much better another one could be. There are no intervals, nothing by
    parts and nothing over time, for which all samples would have to be there.

    Rows may come in any order, unless the weight looks around in time: then, in the order of time within each group. A
    few rows of each group are kept from batch to batch, so that no window is cut. Predictions in half precision are
    compared as float32.

    Args:
        models: Their names.
        score: The score that matters.
        weight: What an error costs, as for `evaluate`.
        prior: Which thresholds matter; it is told, and nothing is made of it here.
        threshold: What is greater is an alarm; None: for each model the best one.
        at_least: What other scores must reach at the best threshold.
        from_logits: Whether predictions are logits.
        bins: How many, a power of 2.

    Example:
        >>> stream = StreamingEvaluation(["mine"], score="csi")
        >>> stream.update({"mine": [0.1, 0.4]}, [0, 0])
        >>> stream.update({"mine": [0.35, 0.8]}, [1, 1])
        >>> mine = stream.result().models[0]
        >>> mine.plain.cells, mine.curve.bound["csi"]
        ((1.0, 1.0, 0.0, 2.0), 0.0)
    """

    def __init__(
        self,
        models: Sequence[str],
        *,
        score: str | Score = "tss",
        weight: Weight | None = None,
        prior: Any = None,
        threshold: float | None = None,
        at_least: AtLeast | None = None,
        from_logits: bool = False,
        bins: int = 1 << 16,
    ) -> None:
        self.score, self.weight, self.prior = scores.get(score), as_weight(weight), as_prior(prior)
        if not models or len(set(models)) < len(models):
            raise ValueError(f"models must be one or more different names, saw {list(models)}.")
        if not is_whole(bins) or not 2 <= bins <= 1 << 24 or bins & (bins - 1):
            raise ValueError(f"bins must be a power of 2, from 2 to 2^24, saw {bins!r}.")
        if threshold is not None and (not is_number(threshold) or threshold != threshold):  # noqa: PLR0124  # NaN
            raise ValueError(f"threshold must be a number, saw {threshold!r}.")
        if threshold is not None and at_least is not None:
            raise ValueError("at_least is for a threshold that is chosen here, but one was given.")
        check_weight(self.weight, self.score)
        self.threshold, self.from_logits = threshold, from_logits
        self._bounds = constraints(at_least)
        self._wanted = scores_for(self.score), scores_for(self.score, self.weight)
        kinds = [None] if self.weight is None else [None, self.weight]
        self._bins = {name: [Bins(bins, kind, threshold) for kind in kinds] for name in models}
        self._reach = 0 if self.weight is None else self.weight.reach
        self._held: dict[str, Tensor] | None = None
        self._numbers: dict[str, int] = {}
        self._seen = torch.zeros(0, dtype=torch.int64)  # how many rows of each group came
        self._last = torch.zeros(0, dtype=torch.int64)  # the time of the last of them
        self._rows = self._unknown = 0
        self._given: tuple[bool, bool] | None = None  # whether batches come with groups, and with times
        self._dtypes: dict[str, torch.dtype] = {}
        self._over = False

    def update(
        self,
        predictions: Mapping[str, Any],
        targets: Any,
        *,
        groups: Any = None,
        times: Any = None,
        mask: Any = None,
        sample_weight: Any = None,
    ) -> None:
        """Add a batch; the arguments are those of `evaluate`.

        Args:
            predictions: Probabilities or logits by the name of the model.
            targets: Labels 0/1.
            groups: The series that each sample belongs to, called the same in every batch.
            times: When, counted from the same zero in every batch.
            mask: True where a sample counts.
            sample_weight: How much each sample counts.
        """
        self._check_call(predictions, groups, times)
        rows = Rows.of(
            targets, groups=groups, times=times, mask=mask, sample_weight=sample_weight, from_logits=self.from_logits
        )
        if not self._reach:
            rows = replace(rows, times=None)  # rows may come in any order
        rows.check(self.weight)
        x = {}
        for name, one in predictions.items():
            with of_model(name):
                # the borders of bins are no numbers of half precision
                x[name] = self._checked(name, widened(probabilities_or_logits(one, len(rows))), rows)
        names = [""] if rows.groups is None else names_of(groups, rows.groups)
        new = [name for name in names if name not in self._numbers]
        numbers = self._numbers | {name: len(self._numbers) + k for k, name in enumerate(new)}
        own = torch.tensor([numbers[name] for name in names], dtype=torch.int64)
        ids = own.expand(len(rows)) if rows.groups is None else own[rows.groups]
        last = torch.cat([self._last, torch.full((len(new),), torch.iinfo(torch.int64).min)])
        if self._reach and rows.times is not None:
            _check_order(ids, rows.times, last, list(numbers))

        # all that can be refused was refused: from here on things change
        self._numbers, self._last = numbers, last
        self._seen = torch.cat([self._seen, torch.zeros(len(new), dtype=torch.int64)])
        self._given = groups is not None, times is not None
        if len(rows):
            self._dtypes = {name: one.dtype for name, one in x.items()}
        counted = rows.counted
        self._rows += int(counted.sum())
        self._unknown += int((~counted).sum())
        if self._reach:
            self._hold(x, replace(rows, groups=ids))
            self._release(last=False)
        else:
            self._add(x, rows, counted)

    def _check_call(self, predictions: object, groups: object, times: object) -> None:
        """Raise if a batch is not like those before it."""
        if self._over:
            raise ValueError("the result was asked for already, after which no batch can be added.")
        if not isinstance(predictions, Mapping) or set(predictions) != set(self._bins):
            seen = list(predictions) if isinstance(predictions, Mapping) else type(predictions).__name__
            raise ValueError(f"predictions must be a dict of the models {list(self._bins)}, saw {seen}.")
        for before, name, now in zip(self._given or (), ("groups", "times"), (groups, times), strict=False):
            if before != (now is not None):
                now_they_are = "missing" if before else "new"
                raise ValueError(f"{name} must be passed with all batches or with none; now they are {now_they_are}.")

    def _checked(self, name: str, x: Tensor, rows: Rows) -> Tensor:
        """A model's predictions, if they can be judged."""
        before = self._dtypes.get(name, x.dtype)
        if len(x) and x.dtype != before:
            raise TypeError(
                f"predictions must have the same dtype in all batches, in which they are compared; saw {before}, and "
                f"now {x.dtype}."
            )
        rows.batch(x, self.weight)
        return x.to(before)

    def _hold(self, x: Mapping[str, Tensor], rows: Rows) -> None:
        """Keep rows until their windows are whole."""
        n, ids = len(rows), rows.groups
        assert ids is not None  # noqa: S101  # the caller numbered them; for the type checker
        ticks = self._places(ids) if rows.times is None else rows.times
        new = {
            "y": rows.targets.double(),
            "ids": ids,
            "ticks": ticks,
            "mask": torch.ones(n, dtype=torch.bool) if rows.mask is None else rows.mask,
            "weights": torch.ones(n).double() if rows.sample_weight is None else rows.sample_weight.double(),
            "done": torch.zeros(n, dtype=torch.bool),
        } | {f"x {name}": one for name, one in x.items()}
        self._last = self._last.scatter_reduce(0, ids, ticks, "amax")
        held = self._held
        self._held = new if held is None else {name: torch.cat([held[name], new[name]]) for name in new}

    def _release(self, *, last: bool) -> None:
        """Count the rows whose windows are whole, and forget those that no window needs any more."""
        held = self._held
        if held is None:
            return
        reach, ids, ticks = self._reach, held["ids"], held["ticks"]
        latest = self._last[ids]
        ready = ~held["done"]
        if not last:
            ready &= ticks <= latest - reach
        gated = torch.where(ready, held["weights"], 0.0)
        rows = Rows(held["y"], ids, ticks, held["mask"], gated, self.from_logits)
        x = {name: held[f"x {name}"] for name in self._bins}
        self._add(x, rows, ready & held["mask"] & (held["weights"] > 0))
        held["done"] |= ready
        kept = ticks > latest - 2 * reach - 1
        self._held = {name: column[kept] for name, column in held.items()}

    def _add(self, x: Mapping[str, Tensor], rows: Rows, counted: Tensor) -> None:
        for name, kinds in self._bins.items():
            for one in kinds:
                one.add(rows.batch(x[name], one.weight), counted)

    def _places(self, ids: Tensor) -> Tensor:
        """The place of each row in its group, counted over all batches."""
        order = torch.argsort(ids, stable=True)
        counts = torch.bincount(ids, minlength=len(self._seen))
        begins = counts.cumsum(0) - counts
        places = torch.empty_like(ids)
        places[order] = torch.arange(len(ids)) - begins[ids[order]] + self._seen[ids[order]]
        self._seen = self._seen + counts
        return places

    def result(self) -> Evaluation:
        """What was found; no more batches can be added after it."""
        if not self._rows:
            none = f": none of {self._unknown} counts" if self._unknown else ""
            raise ValueError(f"there are no samples to evaluate{none}.")
        self._over = True
        self._release(last=True)
        self._held = None
        models = []
        for name in self._bins:
            with of_model(name):
                models.append(self._model(name))
        return Evaluation(
            self.score,
            self.weight,
            self.prior,
            rows=self._rows,
            events=float(next(iter(self._bins.values()))[0].counts[1]),
            unknown=self._unknown,
            series=len(self._numbers),
            timed=self._reach > 0 or self._given not in {None, (False, False)},
            models=tuple(models),
        )

    def _model(self, name: str) -> Model:
        plain, own = self._bins[name][0], self._bins[name][-1]
        stairs: list[Stairs] = [one.stairs() for one in self._bins[name]]
        chosen = self.threshold is None
        if self.threshold is None:
            at = stairs[-1]
            allowed = where_allowed(at.thresholds, at.cells, self._bounds)
            place = choose(self.score, at.thresholds, score_along(self.score, at.cells), allowed)
            # the border itself, where the matrix is known, and not the middle of the bin above it
            threshold = float(at.thresholds[place])
            cells = [_at(one.cells, place) for one in stairs]
        else:
            threshold = float(self.threshold)
            cells = [one.at_threshold() for one in self._bins[name]]
            stairs = [one.with_one(threshold, own) for one, own in zip(stairs, cells, strict=True)]
        weighted = None if self.weight is None else judged(cells[1], self._wanted[1])
        bound = {title: own.bound(score) for title, score in self._wanted[len(stairs) - 1].items()}
        return Model(
            name,
            threshold,
            chosen,
            None,
            None,
            judged(cells[0], self._wanted[0]),
            weighted,
            None,
            thinned(stairs[0], stairs[1] if len(stairs) > 1 else None, self._wanted, threshold, bound),
            plain.reliability(),
        )


def _at(cells: Tally, place: int) -> Tally:
    tn, fp, fn, tp = (cell[place] for cell in cells)
    return tn, fp, fn, tp


def _check_order(ids: Tensor, ticks: Tensor, last: Tensor, names: list[str]) -> None:
    """Raise a ValueError if a time is not after all those of its group in former batches."""
    late = (ticks <= last[ids]).nonzero()
    if len(late):
        row = int(late[0])
        group = int(ids[row])
        series = f" of the group {names[group]!r}" if names[group] else ""
        raise ValueError(
            f"times must increase within a group, also from batch to batch, but the sample at index {row}{series} has "
            f"the time {int(ticks[row])}, and {int(last[group])} was before. Sort each series by time."
        )
