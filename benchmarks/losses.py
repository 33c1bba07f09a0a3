"""What losses cost beside binary cross entropy: every score, every prior, checks, masks; and their memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks import loss_peers
from benchmarks.timing import Calls, Rows, logits, peak_memory, rows, step, take_turns

BASE = "binary cross entropy"
PRIORS: dict[str, object] = {
    "Uniform()": sw.priors.Uniform(),
    "Uniform(0.2, 0.8)": sw.priors.Uniform(0.2, 0.8),
    "RaisedCosine()": sw.priors.RaisedCosine(),
    "Triangular(0.1, 0.3, 0.9)": sw.priors.Triangular(0.1, 0.3, 0.9),
    "Beta(2, 8)": sw.priors.Beta(2.0, 8.0),
    "Beta(0.5, 300)": sw.priors.Beta(0.5, 300.0),
    "Kumaraswamy(2, 5)": sw.priors.Kumaraswamy(2.0, 5.0),
    "TruncatedNormal(0.5, 0.2)": sw.priors.TruncatedNormal(0.5, 0.2),
    "Logistic(0.5, 0.1)": sw.priors.Logistic(0.5, 0.1),
    "Mixture of Beta(2, 8), Uniform()": sw.priors.Mixture([sw.priors.Beta(2.0, 8.0), sw.priors.Uniform()], [0.5, 0.5]),
    "Truncated(Normal(0.5, 0.2))": sw.priors.Truncated(torch.distributions.Normal(0.5, 0.2)),
    "Density(exp)": sw.priors.Density(torch.exp),
}
_MEMORY = {
    BASE: "torch.nn.functional.binary_cross_entropy_with_logits",
    "tss": "sw.ScoreLoss('tss', validate=False)",
    "value-weighted tss, 8 lags": "sw.ScoreLoss('tss', weight=sw.weights.Value([0.5] * 8), validate=False)",
    "value-weighted tss, 128 lags": "sw.ScoreLoss('tss', weight=sw.weights.Value([0.5] * 128), validate=False)",
}


def calls(n: int, device: str) -> Calls:
    """A step of every score, then of every prior, then of the validated and of the masked loss; then every cdf."""
    z, y = logits(n, device)
    mask = (torch.rand(n, generator=torch.Generator().manual_seed(1)) < 0.9).to(device)
    found: Calls = {BASE: step(binary_cross_entropy_with_logits, z, y)}
    for name in sw.scores.names():
        found[f"score {name}"] = step(sw.ScoreLoss(name, validate=False), z, y)
    for name, prior in PRIORS.items():
        found[f"prior {name}"] = step(sw.ScoreLoss("tss", prior=prior, validate=False), z, y)
    found["validated tss"] = step(sw.ScoreLoss("tss"), z, y)
    found["masked tss"] = step(sw.ScoreLoss("tss", validate=False), z, y, mask=mask)
    p = torch.sigmoid(z.detach())
    for name, prior in PRIORS.items():
        found[f"cdf alone {name}"] = lambda prior=prior: prior.cdf(p)
    return found


def compare(n: int, seconds: float, device: str) -> Rows:
    """Ratios to binary cross entropy at a batch of n."""
    return rows(n, take_turns(calls(n, device), seconds, device))


def memory(n: int, device: str, *, only: int | None = None) -> Iterator[dict[str, object]]:
    """Peak extra bytes per sample of a step, of us and of peers that are here.

    Args:
        n: The size of the batch; a peer that would take minutes for it gets a smaller one.
        device: "cpu" or "cuda".
        only: How many lines, to see that it runs; None for all.
    """
    found, _ = loss_peers.peers(device)
    lines = [(what, loss, n) for what, loss in _MEMORY.items()]
    lines += [
        (what, f"peers.peers({device!r})[0][{what!r}]", min(n, loss_peers.IN_PYTHON) if "LibAUC" in what else n)
        for what in found
    ]
    for what, loss, size in lines[:only]:
        peak = peak_memory(loss, size, device=device)
        yield {"n": size, "what": what, "bytes_per_sample": round(peak / size, 2)}
