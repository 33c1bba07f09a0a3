"""Which rows are fitted to, which choose, and which judge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.quality.task import Task

TRAIN, VALIDATION, TEST = 20_000, 10_000, 50_000
"""The most rows of each part."""
GUARD = 12
"""Steps left out between two parts of a series, beyond the horizon: longer than any value weight looks around."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which rows a method may fit on, choose by, and is judged on: ascending row numbers."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(task: Task, seed: int) -> Split:
    """Cut a set into 60 % to fit, 20 % to choose, 20 % to judge.

    Tables are shuffled by the seed and cut class by class, with at most 20,000 rows to fit and 10,000 to choose; what
    is left is judged, up to 50,000 rows. Rows with labels are taken by how rare their rarest label is, as the classes
    of a table are. Of a table with blocks whole blocks are shuffled, and in that order cut as near to these shares as
    they allow; of a part with too many rows some are drawn, class by class.
    Series are cut by time, the same moment for all groups, whatever the seed.
    Between two parts of a series the rows of ``horizon`` + 12 steps are left out, and of a part with too many rows
    the latest are kept.

    Args:
        task: The set.
        seed: Of the shuffle.

    Raises:
        ValueError: If there are so few blocks that a part is without events, or has nothing else.
    """
    if task.times is not None:
        return _by_time(task.times, task.horizon + GUARD)
    if task.blocks is not None:
        return _by_block(task, task.blocks, seed)
    return _by_rarest(task.y, seed) if task.kind == "labels" else _by_class(task.y, seed)


def _by_class(y: np.ndarray, seed: int) -> Split:
    n = len(y)
    sizes = [min(round(0.6 * n), TRAIN), min(round(0.2 * n), VALIDATION)]
    sizes.append(min(n - sum(sizes), TEST))
    rng = np.random.default_rng(seed)
    positives, negatives = (rng.permutation(np.flatnonzero(y == label)) for label in (1, 0))
    parts, p, q = [], 0, 0
    for size in sizes:
        events = min(round(size * len(positives) / n), len(positives) - p)
        others = min(size - events, len(negatives) - q)
        parts.append(np.sort(np.concatenate([positives[p : p + events], negatives[q : q + others]])))
        p, q = p + events, q + others
    return Split(*parts)


def _by_block(task: Task, blocks: np.ndarray, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    _, block, sizes = np.unique(blocks, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    part = np.empty(len(sizes), dtype=np.int64)
    # A block goes where its middle lies, so that a border is at most half a block from where it should be.
    part[order] = np.digitize((ends - sizes[order] / 2) / len(blocks), (0.6, 0.8))
    parts = []
    for number, most in enumerate((TRAIN, VALIDATION, TEST)):
        rows = _drawn(np.flatnonzero(part[block] == number), task.y, most, rng)
        if not 0 < task.y[rows].sum() < len(rows):
            raise ValueError(
                f"{task.name}: of {len(sizes)} blocks, shuffled by the seed {seed}, part {number + 1} of 3 must have "
                f"rows with the event and without, saw {len(rows)} rows with {task.y[rows].sum()} events."
            )
        parts.append(rows)
    return Split(*parts)


def _drawn(rows: np.ndarray, y: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """All rows, or as many as there may be, of each class its share."""
    if len(rows) <= most:
        return rows
    positives, negatives = (rng.permutation(rows[y[rows] == label]) for label in (1, 0))
    events = round(most * len(positives) / len(rows))
    return np.sort(np.concatenate([positives[:events], negatives[: most - events]]))


def _by_rarest(y: np.ndarray, seed: int) -> Split:
    """Of every five rows with the same rarest label, in random order, three to fit, one to choose, one to judge."""
    rng = np.random.default_rng(seed)
    rarity = np.argsort(np.argsort(y.sum(0), kind="stable"))
    rarest = np.where(y == 1, rarity, y.shape[1]).min(1)  # those with no label are a kind of their own
    order = rng.permutation(len(y))
    order = order[np.argsort(rarest[order], kind="stable")]
    turn = np.arange(len(y)) % 5
    return Split(*(np.sort(order[np.isin(turn, places)]) for places in ((0, 2, 4), (1,), (3,))))


def _by_time(times: np.ndarray, gap: int) -> Split:
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    first, second = (ordered[round(share * len(times))] for share in (0.6, 0.8))
    parts = [
        order[ordered < first - gap],
        order[(ordered >= first) & (ordered < second - gap)],
        order[ordered >= second],
    ]
    return Split(*(np.sort(part[-most:]) for part, most in zip(parts, (TRAIN, VALIDATION, TEST), strict=True)))
