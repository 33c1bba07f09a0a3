"""What metrics have in common: states that are sums over samples, or the samples themselves."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torchmetrics import Metric

from scorewise.parallel.processes import Matrix

M = TypeVar("M", bound=Matrix)

_NO_DOUBLE = frozenset({"mps"})  # devices without float64


class MatrixMetric(Metric, Generic[M], ABC):
    """A score of the matrix of all samples so far."""

    is_differentiable = False
    full_state_update = False

    _facts: Tensor

    def _keep_sums(self, names: Sequence[str], zeros: Sequence[Tensor], facts: object) -> None:
        """Have states that are sums, which begin with ``zeros``.

        Args:
            names: What they are called.
            zeros: The sums of no samples.
            facts: All that the sums depend on beside the samples.
        """
        for name, zero in zip(names, zeros, strict=True):
            self.add_state(name, zero, dist_reduce_fx="sum", persistent=True)
        # A MetricCollection lets metrics share their states once they are equal after a batch, which those of two
        # thresholds can be by chance. So what makes them differ is a state too: bytes, which are close if equal.
        digest = hashlib.sha256(repr(facts).encode()).digest()
        self.add_state("_facts", torch.tensor(list(digest), dtype=torch.uint8), dist_reduce_fx="max")

    def _add(self, names: Sequence[str], terms: Sequence[Tensor]) -> None:
        """Add to states that are sums."""
        for name, term in zip(names, terms, strict=True):
            setattr(self, name, getattr(self, name) + term)

    @abstractmethod
    def _matrix(self) -> M:
        """The matrix of the samples in the states."""

    def matrix(self) -> M:
        """The matrix of all samples so far; over several processes, which must all call it, of all their samples."""
        if self._is_synced:
            return self._matrix()
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=self.sync_on_compute):
            return self._matrix()

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one value or several, or what `compute` returns; needs Matplotlib.

        Args:
            val: A result of the metric, or a list of them.
            ax: Axes to draw into.
        """
        return self._plot(val, ax)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the samples of another metric, with the same arguments, or of its states.

        Args:
            incoming_state: The metric, or a dictionary of its states.
        """
        if isinstance(incoming_state, dict) and "_facts" in self._defaults:
            incoming_state = {"_facts": self._facts, **incoming_state}
        super().merge_state(incoming_state)
        self._computed = None
        self._update_count += 1

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._computed = None
        for name in self._defaults:
            if isinstance(state := getattr(self, name), list):
                setattr(self, name, list(state))  # what was loaded stays the user's

    def _apply(self, fn: Callable[..., Tensor], exclude_state: Sequence[str] = "") -> Any:
        if fn(torch.zeros(1, device=self.device)).device.type in _NO_DOUBLE:
            for name, default in self._defaults.items():
                state = getattr(self, name)
                if isinstance(default, Tensor):
                    self._defaults[name] = _narrow(default)
                setattr(self, name, _narrow(state) if isinstance(state, Tensor) else [_narrow(one) for one in state])
        return super()._apply(fn, exclude_state)


def _narrow(t: Tensor) -> Tensor:
    return t.float() if t.dtype == torch.float64 else t


def wide(device: torch.device) -> torch.dtype:
    """The dtype of sums on a device."""
    return torch.float32 if device.type in _NO_DOUBLE else torch.float64


def gathered(state: Tensor | list[Tensor]) -> Tensor:
    """A list state as one tensor, which it is already where processes were put together."""
    return state if isinstance(state, Tensor) else torch.cat(state)


def finite(bound: float) -> float | None:
    """A bound for a plot; None where there is none."""
    return bound if abs(bound) < float("inf") else None
