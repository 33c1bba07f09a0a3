"""Rows of a table with what is known of them, and what networks say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from scorewise.estimator.problems import Context
from scorewise.estimator.tables import Inputs

# Rows to predict at a time: on a CPU few enough for its cache, elsewhere enough to keep the device busy.
_FEW, _MANY = 512, 8192


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows, and what is known of them."""

    inputs: Inputs
    targets: Tensor
    context: Context

    def __len__(self) -> int:
        return len(self.targets)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Samples:
        context = {name: change(value) for name, value in self.context.items()}
        return Samples(tuple(map(change, self.inputs)), change(self.targets), context)

    def __getitem__(self, rows: Tensor) -> Samples:
        return self._each(lambda values: values[rows])

    def to(self, device: torch.device) -> Samples:
        """The same on another device."""
        # there is no float64 on mps
        narrow = device.type == "mps"
        return self._each(
            lambda x: x.to(device, torch.float32) if narrow and x.dtype == torch.float64 else x.to(device)
        )


def logits_of(network: nn.Module, inputs: Inputs) -> Tensor:
    """The logits of rows, (n, k, outputs), on the CPU: the network is asked some rows at a time, where it is."""
    mode = network.training
    network.eval()
    try:
        place = next((tensor.device for tensor in network.parameters()), torch.device("cpu"))
        with torch.no_grad():
            rows = _FEW if place.type == "cpu" else _MANY
            parts = zip(*(one.split(rows) for one in inputs), strict=True)
            return torch.cat([members_of(network(*(x.to(place) for x in part))).float().cpu() for part in parts])
    finally:
        network.train(mode)


def members_of(logits: Tensor) -> Tensor:
    """Logits of a network of any kind as (n, k, outputs)."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"module must return a tensor of logits, but returned {type(logits).__name__}.")
    if logits.dim() == 1:
        logits = logits[:, None]
    return logits[:, None] if logits.dim() == 2 else logits
