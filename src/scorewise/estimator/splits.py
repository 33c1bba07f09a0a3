"""Which rows are kept for validation: by class, by series, or by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from scorewise._timeline import ids_of, one_each, ticks_of
from scorewise._values import is_number, is_whole

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit on and rows to judge by, as ascending indices; what is in neither lies within the gap between."""

    train: Indices
    test: Indices


def holdout(
    targets: object,
    *,
    fraction: float,
    ordered: bool,
    groups: object = None,
    times: object = None,
    gap: int = 0,
    seed: int,
) -> Split:
    """One part of the rows, to be kept for validation.

    Rows with ``times`` are cut at a moment that is the same for all groups: the latest are kept. Rows that are series
    without times are kept as whole groups, or, if there is one series only, by their place in it. Other rows are kept
    as whole groups if there are groups, and drawn from every class alike if there are none.

    Both parts have at least two classes (with labels: both values of at least one label). A cut in time is moved for
    this, no further than it must be.

    Args:
        targets: Classes, (n,), or 0/1 for each label, (n, labels).
        fraction: The share of the rows to keep. Whole groups and moments come as near to it as they can.
        ordered: Whether rows are series, even without times.
        groups: The series, or whatever else must not be torn apart, that each row belongs to: one id each.
        times: When, in whole numbers. They imply order.
        gap: Rows to fit on that are within this time of a row that is kept are left out; without times, places count.
        seed: Of the random numbers. What is cut in time needs none.

    Raises:
        TypeError: If times are not whole numbers.
        ValueError: If an argument does not fit, or there is no way to have two classes in both parts.

    Example:
        >>> targets = [0, 1, 0, 1, 0, 1, 0, 0, 1, 0]
        >>> split = holdout(targets, fraction=0.3, ordered=True, gap=2, seed=0)
        >>> split.train, split.test
        (array([0, 1, 2, 3, 4]), array([7, 8, 9]))
    """
    if not is_number(fraction) or not 0 < fraction < 1:
        raise ValueError(f"fraction must be a number between 0 and 1, saw {fraction!r}.")
    rows = _read(targets, ordered=ordered, groups=groups, times=times, gap=gap)
    if rows.times is not None:
        what, tests = "keep the latest rows for validation", _latest(rows, rows.times, fraction)
    elif rows.groups is not None:
        what, tests = "keep whole groups for validation", _some_groups(rows, rows.groups, fraction, seed)
    else:
        what, tests = "keep rows for validation", iter([_drawn(rows, fraction, seed)])
    for test in tests:
        split = rows.split(test)
        if rows.differ(split.train) and rows.differ(split.test):
            return split
    raise rows.impossible(what)


def around(test: Mask, *, groups: Indices | None, times: Indices, gap: int) -> Split:
    """A split of the user's own: what is to be judged by is given, and rows within the gap of it are not fitted on.

    Args:
        test: True for rows to judge by.
        groups: The series of each row, if times are places in series: then gaps are within them.
        times: When.
        gap: As for `holdout`.
    """
    # series one after another, too far apart for a gap between them
    line = times if groups is None else times + groups * (int(times.max()) - int(times.min()) + gap + 1)
    kept = np.unique(line[test])
    after = np.searchsorted(kept, line).clip(max=len(kept) - 1)  # the nearest is this one, or the one before
    off = np.minimum(np.abs(line - kept[after]), np.abs(line - kept[np.maximum(after - 1, 0)]))
    return Split(np.flatnonzero(~test & (off > gap)), np.flatnonzero(test))


def folds(
    targets: object,
    number: int,
    *,
    ordered: bool,
    groups: object = None,
    times: object = None,
    gap: int = 0,
    seed: int,
) -> list[Split]:
    """Several splits, so that every row is to be judged by in exactly one of them.

    Parts are stretches of time with about equally many rows, or whole groups, or have some of every class; see
    `holdout` for which. There are at least two classes in all rows to fit on. Those to judge by may lack one, where
    time or groups will have it so: judge the predictions of all folds together.

    There are fewer folds than asked for where there are too few rows of a class, groups or moments, or where rows to
    fit on would lack a class.

    Args:
        targets: Classes, (n,), or 0/1 for each label, (n, labels).
        number: How many folds, at least 2.
        ordered: As for `holdout`, and so are the arguments that follow.
        groups: The series that each row belongs to.
        times: When, in whole numbers.
        gap: Rows to fit on that are within this time of a row to judge by are left out.
        seed: Of the random numbers.

    Raises:
        TypeError: If times are not whole numbers.
        ValueError: If an argument does not fit, or there are no two folds with two classes in all rows to fit on.

    Example:
        >>> times = [7, 7, 8, 8, 9, 9]  # two stations, hour by hour
        >>> for split in folds([0, 1, 0, 1, 0, 1], 3, ordered=True, times=times, seed=0):
        ...     print(split.train, split.test)
        [2 3 4 5] [0 1]
        [0 1 4 5] [2 3]
        [0 1 2 3] [4 5]
    """
    rows = _read(targets, ordered=ordered, groups=groups, times=times, gap=gap)
    if not is_whole(number) or number < 2:
        raise ValueError(f"the number of folds must be a whole number of at least 2, saw {number!r}.")
    if rows.times is not None:
        what, most = "cut time into folds", number
        part_of: Callable[[int], Indices] = partial(_blocks, rows.times)
    elif rows.groups is not None:
        what, most = "make folds of whole groups", min(number, int(rows.groups.max()) + 1)
        part_of = partial(_whole_groups, rows, rows.groups, seed)
    else:
        what, most = "make folds", max(2, min(number, rows.most_parts()))
        part_of = partial(_dealt, rows, seed)
    for parts in range(most, 1, -1):
        part = part_of(parts)
        splits = [rows.split(part == one) for one in range(int(part.max()) + 1)]
        if len(splits) > 1 and all(rows.differ(split.train) for split in splits):
            return splits
    if rows.groups is not None and rows.times is None and (halves := _two_halves(rows, rows.groups, seed)) is not None:
        return [rows.split(halves == one) for one in (0, 1)]
    raise rows.impossible(what)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What splits depend on. If there are times, they decide; else groups, if there are any."""

    targets: NDArray[Any]
    groups: Indices | None
    times: Indices | None
    gap: int

    def split(self, test: Mask) -> Split:
        """The rows to judge by, and all others that are not within the gap of them."""
        train = ~test
        if self.times is not None:  # then they are all the rows of a stretch of time
            tested = self.times[test]
            train = (self.times < tested.min() - self.gap) | (self.times > tested.max() + self.gap)
        return Split(np.flatnonzero(train), np.flatnonzero(test))

    def differ(self, part: Indices) -> bool:
        """Whether rows have two classes, or both values of some label."""
        some = self.targets[part]
        return len(some) > 0 and bool((some != some[:1]).any())

    def impossible(self, what: str) -> ValueError:
        """What to say where there is no such split."""
        if self.targets.ndim == 2:
            seen = f"positives of each label: {self.targets.sum(0).tolist()}"
        else:
            names, counts = np.unique(self.targets, return_counts=True)
            seen = f"rows of each class: {dict(zip(names.tolist(), counts.tolist(), strict=True))}"
        gap = f" and a gap of {self.gap}" if self.gap else ""
        groups = "" if self.groups is None else f", {int(self.groups.max()) + 1} groups"
        times = "" if self.times is None else f", times from {self.times.min()} to {self.times.max()}"
        return ValueError(
            f"cannot {what} with two classes in each part{gap}; saw {len(self.targets)} rows{groups}{times}, and "
            f"{seen}. Pass more rows of the rare class."
        )

    def most_parts(self) -> int:
        """How many parts can each have two classes, or both values of some label."""
        if self.targets.ndim == 2:
            positive = self.targets.sum(0)
            return int(np.minimum(positive, len(self.targets) - positive).max())
        counts = np.bincount(self.strata)
        return int(np.sort(counts)[-2]) if len(counts) > 1 else 0

    @property
    def strata(self) -> Indices:
        """The number of each row's class; of labels, of the rarest that the row is positive for."""
        if self.targets.ndim == 1:
            return np.unique(self.targets, return_inverse=True)[1]
        rarest_first = np.argsort(self.targets.sum(0), kind="stable")
        none = np.ones((len(self.targets), 1), dtype=bool)
        first: Indices = np.concatenate([self.targets[:, rarest_first] == 1, none], axis=1).argmax(1)
        return first


def _latest(rows: _Rows, times: Indices, fraction: float) -> Iterator[Mask]:
    """What comes after a moment: after the one nearest to the fraction of those that leave two classes on both sides.

    In order of time, rows up to a cut have two classes if the first that is unlike the very first is among them; and
    rows from a cut on, if the last that is unlike the very last is.
    """
    y = rows.targets[np.argsort(times, kind="stable")].reshape(len(times), -1)
    unlike_first, unlike_last = (y != y[0]).any(1), (y != y[-1]).any(1)
    if not unlike_first.any():
        return
    moments, counts = np.unique(times, return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])  # rows before each moment
    fitted = before[np.searchsorted(moments, moments - rows.gap)]  # of these, those that are not within the gap
    possible = (fitted > unlike_first.argmax()) & (before[:-1] <= np.flatnonzero(unlike_last)[-1])
    if possible.any():
        off = np.abs(len(y) - before[:-1] - fraction * len(y))
        yield times >= moments[np.where(possible, off, np.inf).argmin()]


def _blocks(times: Indices, parts: int) -> Indices:
    """Stretches of time with about equally many rows, numbered; fewer where many rows have the same time."""
    _, place, counts = np.unique(times, return_inverse=True, return_counts=True)
    borders = np.cumsum(counts)[:-1]  # how many rows lie before each moment but the first
    if not len(borders):
        return np.zeros_like(place)
    ideal = len(times) * np.arange(1, parts) / parts
    cuts = np.unique([np.abs(borders - rows).argmin() for rows in ideal]) + 1
    return np.searchsorted(cuts, place, side="right")


def _some_groups(rows: _Rows, groups: Indices, fraction: float, seed: int) -> Iterator[Mask]:
    """Whole groups, with a share of the rows that is near to the fraction: the best guess first."""
    for parts in range(min(max(round(1 / fraction), 2), int(groups.max()) + 1), 1, -1):
        part = _whole_groups(rows, groups, seed, parts)
        shares = np.bincount(part, minlength=parts) / len(part)
        for one in np.argsort(np.abs(shares - fraction), kind="stable"):
            yield part == one
    if (halves := _two_halves(rows, groups, seed)) is not None:
        yield halves == int(abs((halves == 1).mean() - fraction) < abs((halves == 0).mean() - fraction))


def _two_halves(rows: _Rows, groups: Indices, seed: int) -> Indices | None:
    """The half, 0 or 1, of each row, with two classes in both; None if groups cannot be divided so.

    A half has two classes if it has a group of two, or two groups that differ. Where fewer than two groups have two
    classes, the others are paired: the one of the commonest class with the one of the rarest, the next with the next.
    If a division exists, these pairs are one, for then at least as many groups are not of the commonest class as pairs
    are needed.
    """
    kinds = np.unique(rows.targets, axis=0, return_inverse=True)[1].reshape(-1)
    number = int(groups.max()) + 1
    low, high = np.full(number, kinds.max()), np.zeros(number, dtype=np.int64)
    np.minimum.at(low, groups, kinds)
    np.maximum.at(high, groups, kinds)
    mixed, pure = np.flatnonzero(low < high), np.flatnonzero(low == high)
    pure = pure[np.lexsort((low[pure], -np.bincount(low[pure])[low[pure]]))] if len(pure) else pure
    pairs = max(2 - len(mixed), 0)
    firsts, lasts = pure[:pairs], pure[::-1][:pairs]
    if len(firsts) < pairs or len({*firsts, *lasts}) < 2 * pairs or (low[firsts] == low[lasts]).any():
        return None
    settled = np.full(number, -1, dtype=np.int64)
    settled[mixed[:2]] = np.arange(2)[: len(mixed)]
    settled[firsts] = settled[lasts] = np.arange(2)[2 - pairs :]
    return _whole_groups(rows, groups, seed, 2, settled)


def _whole_groups(rows: _Rows, groups: Indices, seed: int, parts: int, settled: Indices | None = None) -> Indices:
    """The part of each row, so that every part has about the same share of every class.

    Groups are given out one by one, the largest first, each to the part where Σ (share of the class)² grows least;
    but for those whose part is settled, not -1.
    """
    strata = rows.strata
    table = np.zeros((int(groups.max()) + 1, int(strata.max()) + 1))
    np.add.at(table, (groups, strata), 1)
    total = table.sum(0)
    table /= np.where(total > 0, total, 1)
    shuffled = np.random.default_rng(seed).permutation(len(table))
    part = np.full(len(table), -1, dtype=np.int64) if settled is None else settled.copy()
    held = np.zeros((parts, table.shape[1]))
    np.add.at(held, part[part >= 0], table[part >= 0])
    for one in shuffled[np.argsort(-np.square(table[shuffled]).sum(1), kind="stable")]:
        if part[one] < 0:
            part[one] = np.lexsort((held.sum(1), held @ table[one]))[0]
            held[part[one]] += table[one]
    return part[groups]


def _dealt(rows: _Rows, seed: int, parts: int) -> Indices:
    """The part of each row: class after class, rows are dealt out in turn."""
    part = np.empty(len(rows.targets), dtype=np.int64)
    part[_by_class(rows.strata, seed)] = np.arange(len(part)) % parts
    return part


def _drawn(rows: _Rows, fraction: float, seed: int) -> Mask:
    """A share of every class, and at least one row of it on either side."""
    strata = rows.strata
    counts = np.bincount(strata)
    drawn = np.clip(np.rint(counts * fraction), np.minimum(counts - 1, 1), counts - 1)
    order = _by_class(strata, seed)
    rank = np.arange(len(order)) - (np.cumsum(counts) - counts)[strata[order]]
    test = np.zeros(len(order), dtype=bool)
    test[order] = rank < drawn[strata[order]]
    return test


def _by_class(strata: Indices, seed: int) -> Indices:
    """Rows of one class after those of another, in random order within each."""
    shuffled = np.random.default_rng(seed).permutation(len(strata))
    return shuffled[np.argsort(strata[shuffled], kind="stable")]


def _read(targets: object, *, ordered: bool, groups: object, times: object, gap: int) -> _Rows:
    """Arguments, checked, and what decides: times, or groups, or neither."""
    y = np.asarray(targets)
    if y.ndim not in (1, 2) or y.size == 0:
        raise ValueError(f"targets must have the shape (n,) or (n, labels), with rows, saw {y.shape}.")
    if not is_whole(gap) or gap < 0:
        raise ValueError(f"gap must be a whole number of at least 0, saw {gap!r}.")
    n = len(y)
    ids, ticks = read_groups(groups, n), read_times(times, n)
    if ticks is None and ordered and (ids is None or ids.max() == 0):
        ticks = np.arange(n)
    if ticks is None and ids is None and gap:
        raise ValueError(f"a gap of {gap} needs rows in order: pass times.")
    return _Rows(y, ids, ticks, gap)


def read_groups(groups: object, n: int) -> Indices | None:
    """Ids as numbers from 0 on."""
    if groups is None:
        return None
    ids = one_each(ids_of(groups, torch.empty(n)), "groups", n)
    return np.unique(ids.numpy(), return_inverse=True)[1]


def read_times(times: object, n: int) -> Indices | None:
    """Whole numbers."""
    return None if times is None else one_each(ticks_of(times, torch.empty(n)), "times", n).numpy()
