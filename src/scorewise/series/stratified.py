"""Batches with some of every class, for data without an order in time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor

from scorewise._inputs import located
from scorewise._values import as_tensor, shape_of
from scorewise.series.epochs import EpochSampler


class StratifiedBatchSampler(EpochSampler[list[int]]):
    """Batches in which every class has the share that it has of all data, and at least one sample.

    A score of a batch without positives says nothing, and its gradient is zero or misleading. Here every sample comes
    at least once in an epoch, over all processes, and each batch has, up to one, the same number of each class. With
    several labels a sample is dealt out by the rarest label that it is positive for, and then a batch that lacks a
    positive of some label gets one. Where a class is too rare to be in every batch, its samples are repeated, as evenly
    as can be, and a warning says how often. (Each label that may be too rare has a place kept for it in every batch, so
    that batches are smaller than they could be where rare labels occur together.) For series use
    `ChronologicalBatchSampler`.

    Where nothing is repeated, steps are the same for any number of processes with the same global batch.

    Args:
        targets: 0/1 or the class of each sample, (n,), or 0/1 for each label, (n, labels).
        batch_size: The most samples of a batch, repeated ones included.
        shuffle: Whether to deal the samples in a new order in each epoch.
        seed: With the epoch, what the order depends on.
        num_replicas: How many processes share the batches; None: as many as torch.distributed knows of, or 1.
        rank: Which of them this one is.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If targets are no classes or labels, there are no positives or no negatives, or a batch has no room
            for one sample of each class.

    Example:
        >>> targets = torch.tensor([0, 0, 0, 0, 0, 0, 1, 0, 0, 1])
        >>> list(StratifiedBatchSampler(targets, 5, shuffle=False))
        [[0, 2, 4, 6, 7], [1, 3, 5, 8, 9]]
    """

    def __init__(
        self,
        targets: object,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(batch_size, shuffle=shuffle, seed=seed, num_replicas=num_replicas, rank=rank)
        y = _read(targets)
        self._labels: Tensor | None = None
        if y.dim() == 1:
            names, self._strata, self._sizes = torch.unique(y, return_inverse=True, return_counts=True)
            absent, missing = _absent_classes(names, len(y))
            counts = needed = self._sizes
        else:
            counts = y.sum(0)
            names = torch.argsort(counts, stable=True)  # the rarest first
            absent = names[counts[names] == 0].tolist()
            missing = len(absent)
            names = names[missing:]
            if not len(names):
                raise ValueError(f"targets must have positives of some label, but all {y.numel()} are 0.")
            counts = counts[names]
            self._labels = y[:, names].t().contiguous()
            # the first of equal values: a sample's rarest label; none comes last
            self._strata = torch.cat([self._labels, torch.ones_like(y[None, :, 0])]).to(torch.uint8).argmax(0)
            self._sizes = torch.bincount(self._strata, minlength=len(names) + 1)
            needed = self._sizes[:-1]
        self._needed: list[int] = sorted(needed.tolist())
        kind = "class" if self._labels is None else "label"
        if missing:
            some = ", ".join(map(str, absent[:5])) + (f" and {missing - 5} others" if missing > 5 else "")
            what = "samples" if kind == "class" else "positives"
            warnings.warn(f"targets have no {what} of {kind} {some}: no batch has any either.", stacklevel=2)
        parts = len(self) * self.num_replicas
        rare = counts < parts
        if bool(rare.any()):
            warnings.warn(_repeats(names[rare].tolist(), counts[rare].tolist(), parts, kind), stacklevel=2)

    def _steps(self, replicas: int) -> int:
        # Let the c smallest of those that must be in every batch have fewer samples than there are parts. These take
        # one place each in a batch; what is dealt into the others must fit. More parts never make c smaller.
        sizes = self._needed
        for c in range(len(sizes) + 1):
            room = self.batch_size - c
            dealt = len(self._strata) if self._labels is not None else sum(sizes[c:])
            if room < 0 or (room == 0 and dealt):
                break
            parts = max(-(-dealt // room) if dealt else 1, sizes[c - 1] + 1 if c else 1)
            steps = -(-parts // replicas)
            if c == len(sizes) or steps * replicas <= sizes[c]:
                return steps
        if self._labels is None:
            raise ValueError(f"batch_size must be at least {len(sizes)}, one for each class, saw {self.batch_size}.")
        raise ValueError(
            f"batch_size must be at least {len(sizes) + 1}, a positive of each of {len(sizes)} labels beside any other "
            f"sample, saw {self.batch_size}."
        )

    def _parts(self, generator: torch.Generator, steps: int, replicas: int) -> Callable[[int], list[int]]:
        parts = steps * replicas
        drawn = self._order(len(self._strata), generator)
        drawn = drawn[torch.argsort(self._strata[drawn], stable=True)]  # stratum after stratum
        places = self._sizes if self._labels is not None else self._sizes.clamp(min=parts)
        stratum = torch.repeat_interleave(places)
        turn = torch.arange(len(stratum), device="cpu")
        within = (turn - (places.cumsum(0) - places)[stratum]) % self._sizes[stratum]
        picked = drawn[(self._sizes.cumsum(0) - self._sizes)[stratum] + within]
        # Dealt to the first process of every step, then to the second: what a step has in all does not depend on them.
        turn = turn % parts
        part = self._order(steps, generator)[turn % steps] * replicas + turn // steps
        if self._labels is not None:
            picked, part = self._complete(self._labels, picked, part, parts, generator)

        order = self._order(len(picked), generator) if self.shuffle else torch.argsort(picked)
        order = order[torch.argsort(part[order], stable=True)]
        picked = picked[order]
        ends = torch.bincount(part, minlength=parts).cumsum(0).tolist()
        return lambda k: picked[ends[k - 1] if k else 0 : ends[k]].tolist()

    def _complete(
        self, labels: Tensor, picked: Tensor, part: Tensor, parts: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Give one more sample to each part that lacks a positive of a label, those first that were used least."""
        uses = torch.ones(labels.shape[1], dtype=torch.int64, device="cpu")
        for positive in labels:
            lacking = torch.ones(parts, dtype=torch.bool, device="cpu")
            lacking[part[positive[picked]]] = False
            which = lacking.nonzero().squeeze(1)
            if not len(which):
                continue
            samples = positive.nonzero().squeeze(1)
            samples = samples[self._order(len(samples), generator)]
            times = _level(uses[samples], len(which))
            uses[samples] += times
            picked = torch.cat([picked, torch.repeat_interleave(samples, times)])
            part = torch.cat([part, which[self._order(len(which), generator)]])
        return picked, part

    def _order(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randperm(n, generator=generator, device="cpu") if self.shuffle else torch.arange(n, device="cpu")


def _read(targets: object) -> Tensor:
    """Classes, (n,) int64, or labels, (n, labels) bool, on the CPU."""
    y = as_tensor(targets, "targets").detach().cpu()
    if y.is_complex():
        raise TypeError(f"targets must be real, saw {y.dtype}.")
    if y.dim() not in (1, 2) or y.shape[-1] == 0 or y.shape[0] == 0:
        raise ValueError(f"targets must have the shape (n,) or (n, labels), with samples, saw {shape_of(y)}.")
    y = y if y.is_floating_point() else y.long()
    if y.dim() == 2:
        if bool((bad := (y != 0) & (y != 1)).any()):
            raise ValueError(f"targets must be 0 or 1 for each label, but {located(bad, y)}.")
        return y == 1
    if bool((bad := ~((y >= 0) & (y % 1 == 0) & y.isfinite())).any()):
        raise ValueError(f"targets must be classes, 0, 1, 2, …, but {located(bad, y)}.")
    return y.long()


def _absent_classes(names: Tensor, n: int) -> tuple[list[int], int]:
    """Some classes below the last that never occur, and how many there are; of two classes each must."""
    last = int(names[-1])
    if last <= 1 and len(names) == 1:
        missing = "positives" if last == 0 else "negatives"
        raise ValueError(f"targets must have both classes, but all {n} are {last}: there are no {missing}.")
    seen = set(names.tolist())
    return list(islice((c for c in range(last) if c not in seen), 5)), last + 1 - len(seen)


def _repeats(names: list[int], counts: list[int], parts: int, kind: str) -> str:
    count, name = min(zip(counts, names, strict=True))
    what, more = ("samples", "classes") if kind == "class" else ("positives", "labels")
    others = f", and too few of {len(names) - 1} more {more}" if len(names) > 1 else ""
    often = f"{parts // count} or {parts // count + 1}" if parts % count else f"{parts // count}"
    if kind == "label":  # its positives may be dealt to the same batch, or be repeated for another label's sake
        often = f"about {round(parts / count)}"
    return (
        f"There are {count} {what} of {kind} {name} for the {parts} batches of an epoch{others}: each is used {often} "
        "times, so that every batch has one. Pass a larger batch_size, or take batches as they come and a running "
        "estimate of their sums, scorewise.parallel.RunningLoss."
    )


def _level(uses: Tensor, more: int) -> Tensor:
    """How many more times to use each sample, so that in all they are used as evenly as can be."""
    low, high = int(uses.min()), int(uses.min()) + more
    while low < high:  # the highest level to which all that are below it can be raised
        level = (low + high + 1) // 2
        low, high = (level, high) if int((level - uses).clamp(min=0).sum()) <= more else (low, level - 1)
    times = (low - uses).clamp(min=0)
    rest = more - int(times.sum())
    times[(uses <= low).nonzero().squeeze(1)[:rest]] += 1
    return times
