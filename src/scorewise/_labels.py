"""Labels with a prior, a weight or a score of their own: which can be worked on together, and how good they all are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from scorewise import scores
from scorewise._averages import Average, averaged, check_average
from scorewise._inputs import Batch
from scorewise._values import shape_of
from scorewise.weights.base import Pair

Options = tuple[Any, ...]
"""Things that labels have: a tuple for each label where they differ, else the thing itself."""


def one_or_each(value: object, make: Callable[[object], Any], name: str) -> Any:
    """What users pass for all labels, or as a list for each: made, in a tuple if it was a list."""
    if not isinstance(value, list | tuple):
        return make(value)
    if not value:
        raise ValueError(f"{name}: expected one for all labels, or a list of one for each, saw an empty list.")
    return tuple(make(one) for one in value)


@dataclass(frozen=True)
class Groups:
    """Labels by what they have in common; none where all have everything in common."""

    labels: int
    parts: tuple[tuple[tuple[int, ...], Options], ...]


def group(**options: Any) -> Groups | None:
    """Which labels share all their options. Raise a ValueError if there are options for different numbers of labels."""
    lists = {name: len(option) for name, option in options.items() if isinstance(option, tuple)}
    if not lists:
        return None
    if len(set(lists.values())) > 1:
        told = ", ".join(f"{count} for {name}" for name, count in lists.items())
        raise ValueError(f"what is given for each label must be given for the same number of labels, saw {told}.")
    for option in options.values():
        for one in option if isinstance(option, tuple) else (option,):
            if getattr(one, "batch_shape", ()):
                raise ValueError(
                    f"{one} has parameters for several labels, which cannot be combined with lists for each label. "
                    "Pass a list of priors, each for one label."
                )
    labels = next(iter(lists.values()))
    rows = [tuple(o[j] if isinstance(o, tuple) else o for o in options.values()) for j in range(labels)]
    shared: dict[tuple[int, ...], list[int]] = {}
    for j, row in enumerate(rows):
        shared.setdefault(tuple(map(id, row)), []).append(j)
    return Groups(labels, tuple((tuple(which), rows[which[0]]) for which in shared.values()))


def over_labels(
    batch: Batch, groups: Groups | None, options: Options, work: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """``work(batch, *options)`` for all labels, where each has its own options: tensors with one entry for each."""
    if groups is None:
        return work(batch, *options)
    check_number(batch, groups)
    return joined(groups, lambda which, own: work(columns(batch, which), *own))


def joined(groups: Groups, work: Callable[[tuple[int, ...], Options], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """``work`` of the labels of each group, given which they are and what they share: one entry for each label."""
    found: dict[int, tuple[Tensor, ...]] = {}
    for which, own in groups.parts:
        results = work(which, own)
        for k, j in enumerate(which):
            found[j] = tuple(result[k] for result in results)
    return tuple(torch.stack(entries) for entries in zip(*(found[j] for j in range(groups.labels)), strict=True))


def check_number(batch: Batch, groups: Groups | None) -> None:
    """Raise a ValueError if a batch has another number of labels than there are options for."""
    x = batch.predictions
    if groups is not None and (x.dim() != 2 or x.shape[1] != groups.labels):
        seen = "no labels" if x.dim() == 1 else f"{x.shape[1]} labels"
        raise ValueError(
            f"there are scores, priors or weights for {groups.labels} labels, but the predictions of shape "
            f"{shape_of(x)} have {seen}."
        )


def columns(batch: Batch, which: Sequence[int]) -> Batch:
    """Some of the labels of a batch, as a batch with so many."""
    if len(which) == batch.predictions.shape[1]:
        return batch
    # stacked, not indexed: an index would have to travel to an accelerator
    return _picked(batch, lambda t: torch.stack([t[:, j] for j in which], 1))


def label(batch: Batch, j: int) -> Batch:
    """One label of a batch, as a batch without labels."""
    return _picked(batch, lambda t: t[:, j])


def _picked(batch: Batch, pick: Callable[[Tensor], Tensor]) -> Batch:
    like = batch.predictions

    def of(t: Tensor | None) -> Tensor | None:
        return None if t is None else pick(t.expand_as(like))

    costs = (
        None if batch.costs is None else (pick(batch.costs[0].expand_as(like)), pick(batch.costs[1].expand_as(like)))
    )
    return replace(
        batch,
        predictions=pick(batch.predictions),
        targets=pick(batch.targets),
        count=of(batch.count),
        silent=of(batch.silent),
        costs=costs,
    )


class LabelScores:
    """A score, or one for each label, and how the scores of labels become one number.

    Args:
        score: What users pass: a name or a `Score`, or a list of one for each label.
        average: How the scores of labels become one.

    Attributes:
        score: The score, or a tuple of them.
        average: As it was passed.
        upward: Whether of any score more is better.
    """

    def __init__(self, score: object, average: Average) -> None:
        check_average(average)
        self.score: scores.Score | tuple[scores.Score, ...] = one_or_each(score, scores.get, "score")
        self.average = average
        each = self.score if isinstance(self.score, tuple) else (self.score,)
        self.upward = any(one.greater_is_better for one in each)
        if callable(average) and len({one.greater_is_better for one in each}) > 1:
            raise ValueError(
                f"average is a function, but of some of the scores {[one.name for one in each]} more is better and of "
                "others less. Negate some of them: -scores.error_rate."
            )
        if average == "micro" and isinstance(self.score, tuple):
            raise ValueError("average='micro' is one score of the sum of all labels' matrices; saw a list of scores.")
        self._groups = group(score=self.score)

    def goodness(self, cells: Sequence[Tensor], counts: Pair | None) -> Tensor:
        """How good TN, FP, FN, TP are, greater is better: one number, or without an average one for each label.

        Args:
            cells: As they are scored, each a number or (labels,).
            counts: How many negatives and positives count, which weighted averages of labels need.
        """
        if cells[0].dim() and self.average == "micro":
            cells = [cell.sum(0) for cell in cells]
        score = self.score
        if isinstance(score, scores.Score):
            return self.one_number(goodness_of(score, score.function(*cells)), counts)

        def work(which: tuple[int, ...], own: Options) -> tuple[Tensor]:
            some = cells if len(which) == len(score) else [torch.stack([cell[j] for j in which]) for cell in cells]
            return (goodness_of(own[0], own[0].function(*some)),)

        assert self._groups is not None  # noqa: S101  # there are several scores; for the type checker
        (each,) = joined(self._groups, work)
        return self.one_number(each, counts)

    def one_number(self, goodness: Tensor, counts: Pair | None) -> Tensor:
        """How good it is, of the labels' goodness and their class counts, which only weighted averages need."""
        if not goodness.dim():
            return goodness
        positives = goodness if counts is None else counts[1].detach()
        return averaged(goodness, self.average, positives, greater_is_better=self.upward)


def goodness_of(score: scores.Score, value: Any) -> Tensor:
    """What a score's function returned, negated if less is better."""
    if not isinstance(value, Tensor):
        raise TypeError(f"the score {score.name} must return a tensor, saw {type(value).__name__}.")
    return value if score.greater_is_better else -value
