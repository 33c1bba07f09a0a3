"""What samplers of batches have in common: epochs that can be set and resumed, and processes that share them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import distributed
from torch.utils.data import Sampler

from scorewise._values import is_whole

T = TypeVar("T")


# Of Any, not of T: a DataLoader's annotations ask for lists, though any batch of numbers will do.
class EpochSampler(Sampler[Any], Generic[T], ABC):
    """Batches of one epoch after another; each process has its own, and all have equally many.

    An epoch is made of parts, as many as there are steps times processes, and batch k of rank r is the part
    k · num_replicas + r. What is in a part depends on the seed and the epoch alone: processes need not talk.

    Attributes:
        batch_size: The most samples that a batch counts.
        epoch: The epoch of the next pass.
    """

    def __init__(
        self, batch_size: int, *, shuffle: bool, seed: int, num_replicas: int | None, rank: int | None
    ) -> None:
        self.batch_size = whole(batch_size, "batch_size", 1)
        if not isinstance(shuffle, bool):
            raise TypeError(f"shuffle must be True or False, saw {shuffle!r}.")
        self.shuffle = shuffle
        self.seed = whole(seed, "seed", None)
        self.epoch, self._start = 0, 0
        if (num_replicas is None) != (rank is None):
            raise ValueError(
                "num_replicas and rank must be passed both or neither, which means those of torch.distributed; saw "
                f"num_replicas={num_replicas!r} and rank={rank!r}."
            )
        self._replica: tuple[int, int] | None = None
        if num_replicas is not None:
            replicas = whole(num_replicas, "num_replicas", 1)
            self._replica = whole(rank, "rank", 0, replicas - 1), replicas

    # Asked anew each time: Lightning makes the processes known after users have made their loaders.
    @property
    def num_replicas(self) -> int:
        """How many processes share an epoch."""
        return self._replica[1] if self._replica else distributed.get_world_size() if _initialised() else 1

    @property
    def rank(self) -> int:
        """Which of them this one is."""
        return self._replica[0] if self._replica else distributed.get_rank() if _initialised() else 0

    def set_epoch(self, epoch: int, start: int | None = None) -> None:
        """Make the next pass that of an epoch, from its batch ``start`` on: what an interrupted run has not seen.

        It need not be called: each pass moves on to the next epoch, and to its first batch, when it begins. Without
        ``start`` it is the first batch, too, unless one was set for the same epoch before: engines that tell the epoch
        know no better.

        A loader with workers draws a number from PyTorch's global generator in each pass. Where a resumed run is to be
        the same to the bit, with dropout say, give it one of its own: ``DataLoader(…, generator=torch.Generator())``.
        """
        epoch = whole(epoch, "epoch", 0)
        if start is not None or epoch != self.epoch:
            self._start = whole(start or 0, "start", 0, len(self))
        self.epoch = epoch

    # Lightning sets the epoch of a batch sampler's sampler, the trainer of transformers that of its batch sampler.
    sampler = batch_sampler = property(lambda self: self)

    @property
    def drop_last(self) -> bool:
        """Not there, or refused: only those ask for it who are about to share the batches out a second time."""
        if not _initialised() or distributed.get_world_size() == 1:
            raise AttributeError(f"{type(self).__name__} has no drop_last: it drops nothing.")
        raise TypeError(
            f"{type(self).__name__} gives each process its own batches, and they must not be shared out again. "
            "Accelerate: leave the loader out of accelerator.prepare(). Lightning: Trainer(use_distributed_sampler="
            "False), or fabric.setup_dataloaders(loader, use_distributed_sampler=False)."
        )

    def __len__(self) -> int:
        return self._steps(self.num_replicas)

    def __iter__(self) -> Iterator[T]:
        # As a generator this begins with the first batch: a loader with workers asks twice for an iterator.
        epoch, start, replicas, rank = self.epoch, self._start, self.num_replicas, self.rank
        self.epoch, self._start = epoch + 1, 0
        steps = self._steps(replicas)
        # hashed, so that epoch 1 of seed 0 is not epoch 0 of seed 1; 32 bits, as a generator on a CPU takes no more
        digest = hashlib.blake2b(f"{self.seed} {epoch}".encode(), digest_size=4).digest()
        generator = torch.Generator(device="cpu").manual_seed(int.from_bytes(digest, "big"))
        part = self._parts(generator, steps, replicas)
        for step in range(start, steps):
            yield part(step * replicas + rank)

    @abstractmethod
    def _steps(self, replicas: int) -> int:
        """How many batches each of so many processes has in an epoch."""

    @abstractmethod
    def _parts(self, generator: torch.Generator, steps: int, replicas: int) -> Callable[[int], T]:
        """An epoch's order, as a function from the number of a part to its batch."""


def whole(value: object, name: str, least: int | None, most: int | None = None) -> int:
    """A whole number within limits, or an error that names it."""
    if not is_whole(value):
        raise TypeError(f"{name} must be a whole number, saw {value!r}.")
    if (least is not None and value < least) or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be {limits}, saw {value}.")
    return int(value)


def _initialised() -> bool:
    return distributed.is_available() and distributed.is_initialized()
