"""What the best threshold costs beside a sort of the predictions, how that grows, and what the exact loss costs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks.timing import Calls, Rows, logits, rows, step, take_turns

SORT = "torch.sort of the predictions"
VALUE = sw.weights.Value([0.5, 0.25, 0.125])


def batch(n: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities that mean something, and labels with 10 % positives."""
    g = torch.Generator().manual_seed(0)
    p = torch.rand(n, generator=g)
    return p.to(device), (torch.rand(n, generator=g) < 0.3 * p**2).float().to(device)


def compare(n: int, seconds: float, device: str) -> Rows:
    """Ratios to one sort of the same predictions."""
    p, y = batch(n, device)
    calls: Calls = {
        SORT: lambda: torch.sort(p),
        "best_threshold, HSS": lambda: sw.best_threshold(p, y, "hss"),
        "best_threshold, value-weighted HSS, T = 3": lambda: sw.best_threshold(p, y, "hss", VALUE),
        "best_threshold, HSS, precision at least 0.2": lambda: sw.best_threshold(
            p, y, "hss", at_least={"precision": 0.2}
        ),
        "score_curve, four scores": lambda: sw.score_curve(p, y, ["tss", "hss", "csi", "f1"]),
        "expected HSS, exactly": lambda: sw.score_curve(p, y, "hss").expected(),
    }
    if device == "cpu":
        from benchmarks.peers import all_matrices  # other machines may lack scikit-learn

        calls["scikit-learn's confusion_matrix_at_thresholds, HSS in NumPy"] = lambda: all_matrices(p, y)
    return rows(n, take_turns(calls, seconds, device))


def growth(seconds: float, device: str, powers: Sequence[int]) -> Rows:
    """Times over n, of batches that are powers of two."""
    kept: Rows = []
    for n in [1 << k for k in powers]:
        p, y = batch(n, device)
        calls: Calls = {
            SORT: lambda p=p: torch.sort(p),
            "HSS": lambda p=p, y=y: sw.best_threshold(p, y, "hss"),
            "value-weighted HSS, T = 3": lambda p=p, y=y: sw.best_threshold(p, y, "hss", VALUE),
        }
        kept += rows(n, take_turns(calls, seconds, device))
    return kept


def exact_calls(n: int, device: str) -> Calls:
    """A step of cross entropy, and of each loss in both forms."""
    z, y = logits(n, device)
    calls: Calls = {"binary cross entropy": step(binary_cross_entropy_with_logits, z, y)}
    for weight, told in ((None, "HSS"), (VALUE, "value-weighted HSS, T = 3")):
        for one in (False, True):
            loss = sw.ScoreLoss("hss", weight=weight, exact=one, validate=False)
            calls[f"{told}{', exact' if one else ''}"] = step(loss, z, y)
    return calls


def exact(n: int, seconds: float, device: str) -> Rows:
    """The exact loss beside the first-order one, as ratios to binary cross entropy."""
    return rows(n, take_turns(exact_calls(n, device), seconds, device))
