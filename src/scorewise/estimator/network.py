"""The network for tables: an ensemble within one network, on numbers that are embedded piece by piece."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from rtdl_num_embeddings import PiecewiseLinearEmbeddings
from tabm import TabM
from torch import Tensor, nn
from torch.nn import functional

_ENOUGH = 50_000  # rows to find quantiles of
_BINS = 16
_EMBEDDED = 8


class Dropout(nn.Module):
    """Leave out a share of the numbers at random, and enlarge the others by as much.

    On a CPU most of the time of PyTorch's own goes into one random number for each number. This one draws a byte for
    each, eight at a time, so that the share is one in 256ths.

    Args:
        share: How many are left out; rounded to 256ths.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> Dropout(0.25)(torch.ones(4096)).unique(return_counts=True)
        (tensor([0.0000, 1.3333]), tensor([1013, 3083]))
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.left_out = round(256 * share)

    def forward(self, x: Tensor) -> Tensor:
        """What is left; all of it unless in training."""
        if not self.training or not self.left_out:
            return x
        if x.device.type != "cpu":
            return functional.dropout(x, self.left_out / 256)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.left_out
        return x * kept.to(x.dtype).mul_(256 / max(256 - self.left_out, 1))


class TableNetwork(nn.Module):
    """TabM: k networks that share most of their weights, each with logits of its own.

    Every number is embedded by a function that is linear in each of a few stretches between its quantiles.

    Args:
        bins: The borders of these stretches for each column of numbers.
        cardinalities: How many codes each column of categories has.
        outputs: How many logits.
        members: How many networks, k.
        width: Of the hidden layers.
        depth: How many of them.
        dropout: The share of hidden units that are left out at a time.

    Reference:
        Y. Gorishniy, A. Kotelnikov, A. Babenko: TabM: Advancing tabular deep learning with parameter-efficient
        ensembling. ICLR 2025. — Y. Gorishniy, I. Rubachev, A. Babenko: On embeddings for numerical features in tabular
        deep learning. NeurIPS 2022.
    """

    def __init__(
        self,
        bins: Sequence[Tensor],
        cardinalities: Sequence[int],
        outputs: int,
        *,
        members: int,
        width: int,
        depth: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "cardinalities": list(cardinalities),
            "outputs": outputs,
            "members": members,
            "width": width,
            "depth": depth,
            "dropout": dropout,
        }
        self.bins = [one.clone() for one in bins]
        embeddings = None
        if bins:
            with warnings.catch_warnings():
                # of a column with two values, which are far apart enough as they are
                warnings.filterwarnings("ignore", message=".*has just two bin edges")
                embeddings = PiecewiseLinearEmbeddings(self.bins, _EMBEDDED, activation=False, version="B")
        self.tabm = TabM.make(
            n_num_features=len(bins),
            cat_cardinalities=list(cardinalities) or None,
            d_out=outputs,
            num_embeddings=embeddings,
            k=members,
            d_block=width,
            n_blocks=depth,
            dropout=dropout,
        )
        for layers in [part for part in self.tabm.modules() if isinstance(part, nn.Sequential)]:
            for place, layer in enumerate(layers):
                if isinstance(layer, nn.Dropout):
                    layers[place] = Dropout(dropout)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """The logits, (n, k, outputs).

        Args:
            numbers: (n, f) float32.
            codes: (n, c) int64.
        """
        logits: Tensor = self.tabm(numbers if self.bins else None, codes if codes.shape[1] else None)
        return logits


def bins_of(numbers: Tensor) -> list[Tensor]:
    """The borders of stretches with about equally many numbers each, for every column."""
    some = numbers[torch.linspace(0, len(numbers) - 1, min(len(numbers), _ENOUGH)).long()]
    grid = torch.linspace(0, 1, _BINS + 1)
    bins = []
    for column, seen in zip(numbers.T, some.T, strict=True):
        # rare numbers may not be among those seen
        borders = torch.cat([torch.quantile(seen, grid), column.min()[None], column.max()[None]]).unique()
        bins.append(borders if len(borders) > 1 else torch.cat([borders - 0.5, borders + 0.5]))
    return bins
