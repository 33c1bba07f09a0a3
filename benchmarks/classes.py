"""What labels and classes cost beside cross entropy, and the closed form on the simplex beside drawn thresholds."""

from __future__ import annotations

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import scorewise as sw
from benchmarks.timing import Calls, Rows, rows, step, take_turns

DRAWS = 100


def drawn(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Minus HSS of a matrix averaged over drawn thresholds, each decision a steep softmax so that it has a gradient."""
    p = torch.softmax(logits, -1)
    m = p.shape[1]
    tau = torch.empty(DRAWS, m, device=p.device).exponential_()
    chances = torch.softmax(50 * (p[:, None] - tau / tau.sum(1, keepdim=True)), -1).mean(1)
    cells = p.new_zeros(m, m).index_add(0, targets, chances)
    return -sw.multiclass.scores.hss(sw.multiclass.MulticlassMatrix(cells))


def calls(n: int, m: int, device: str) -> Calls:
    """A step for m classes: cross entropy, then ours, then drawn thresholds."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(n, m, generator=g).to(device).requires_grad_()
    y = torch.randint(0, m, (n,), generator=g).to(device)
    found: Calls = {"cross entropy": step(cross_entropy, z, y)}
    for name in ("accuracy", "hss", "f1"):
        found[f"SimplexLoss, {name}"] = step(sw.SimplexLoss(name, validate=False), z, y)
    found["OneVsRestLoss, f1"] = step(sw.OneVsRestLoss("f1", validate=False), z, y)
    found[f"{DRAWS} drawn thresholds, hss"] = step(drawn, z, y)
    return found


def compare(n: int, m: int, seconds: float, device: str) -> Rows:
    """Forward and backward for m classes, as ratios to cross entropy."""
    return [row | {"m": m} for row in rows(n, take_turns(calls(n, m, device), seconds, device))]


def label_calls(n: int, device: str) -> Calls:
    """A step for 20 labels: binary cross entropy, then ours."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(n, 20, generator=g).to(device).requires_grad_()
    y = (torch.rand(n, 20, generator=g) < 0.1).float().to(device)
    two = [sw.priors.Beta(2.0, 5.0), sw.priors.Beta(5.0, 2.0)]
    own = [sw.priors.Beta(2.0, 1.0 + k) for k in range(20)]
    return {
        "binary cross entropy": step(binary_cross_entropy_with_logits, z, y),
        "HSS, macro": step(sw.ScoreLoss("hss", validate=False), z, y),
        "HSS, micro": step(sw.ScoreLoss("hss", average="micro", validate=False), z, y),
        "HSS, two priors": step(sw.ScoreLoss("hss", prior=[two[k % 2] for k in range(20)], validate=False), z, y),
        "HSS, twenty priors": step(sw.ScoreLoss("hss", prior=own, validate=False), z, y),
        "HSS, exact": step(sw.ScoreLoss("hss", exact=True, validate=False), z, y),
    }


def labels(n: int, seconds: float, device: str) -> Rows:
    """Forward and backward for 20 labels, as ratios to binary cross entropy."""
    return rows(n, take_turns(label_calls(n, device), seconds, device))


MEMORY = {
    "cross entropy": "torch.nn.functional.cross_entropy",
    "SimplexLoss, hss": "sw.SimplexLoss('hss', validate=False)",
    "SimplexLoss, f1": "sw.SimplexLoss('f1', validate=False)",
    f"{DRAWS} drawn thresholds, hss": "__import__('benchmarks.classes').classes.drawn",
}
