"""What weights cost beside binary cross entropy, how that grows, and a plain loop over samples for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks.timing import Calls, Rows, logits, rows, step, take_turns

T = 8


def batch(n: int, device: str) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Logits, labels with 10 % positives; and, for those that want them, groups, times with gaps, and costs."""
    z, y = logits(n, device)
    g = torch.Generator().manual_seed(1)
    more = {
        "stations": torch.arange(n) // 1000,
        "interleaved": torch.arange(n) % 7,
        "times": torch.randint(1, 3, (n,), generator=g).cumsum(0),
        "costs": torch.rand(n, 2, generator=g),
    }
    return z, y, {name: value.to(device) for name, value in more.items()}


def _half_of_all(z: torch.Tensor) -> torch.Tensor:
    return 0.5 * z.mean(-1)


def _smooth(tau: torch.Tensor, _: torch.Tensor, predictions: torch.Tensor, *__: torch.Tensor) -> torch.Tensor:
    return 1 + (predictions - tau) ** 2


def losses(n: int, device: str) -> Calls:
    """Every weight, by its line in the table."""
    z, y, more = batch(n, device)
    w = sw.weights
    omega = w.geometric(T)

    def of(weight: sw.weights.Weight | None, **arguments: torch.Tensor) -> Callable[[], object]:
        return step(sw.ScoreLoss("tss", weight=weight, validate=False), z, y, **arguments)

    calls = {
        "binary cross entropy": step(binary_cross_entropy_with_logits, z, y),
        "no weight": of(None),
        "Value, max": of(w.Value(omega)),
        "Value, prod": of(w.Value(omega, "prod")),
        "Value, max, isolated=2": of(w.Value(omega, isolated=2.0)),
        "Value, max, stations of 1,000 hours": of(w.Value(omega), groups=more["stations"]),
        "Value, max, gaps in time": of(w.Value(omega), times=more["times"]),
        "Value, max, seven interleaved series": of(w.Value(omega), groups=more["interleaved"]),
        "Value, any set function": of(w.Value(omega, _half_of_all)),
        "Cost": of(w.Cost(1.0, 5.0)),
        "costs of each sample": of(None, costs=more["costs"]),
        "CrossEntropy": of(w.CrossEntropy()),
        "Margin": of(w.Margin(1.0)),
        "ClassFrequency": of(w.ClassFrequency()),
        "CrossEntropy × Value": of(w.CrossEntropy() * w.Value(omega)),
    }
    if n <= 4096:
        calls["Custom, 32 points"] = of(w.Custom(_smooth))
        calls["Custom, window 2, 8 points"] = of(w.Custom(_smooth, window=2, points=8))
    return calls


def compare(n: int, seconds: float, device: str) -> Rows:
    """Ratios to binary cross entropy at a batch of n."""
    return rows(n, take_turns(losses(n, device), seconds, device))


def growth(seconds: float, device: str, powers: Sequence[int], lags: Sequence[int], beside: int) -> Rows:
    """Microseconds of a step of `Value`, over n and over T, and its ratio to cross entropy of the same logits.

    Args:
        seconds: How long to measure over n, and how long over T.
        device: "cpu" or "cuda".
        powers: Batches over n, as powers of two.
        lags: Windows over T.
        beside: The batch over T, as a power of two.
    """
    kept: Rows = []
    for kind, sizes in (
        ("n", [(1 << k, T) for k in powers]),
        ("T", [(1 << beside, steps) for steps in lags]),
    ):
        calls: Calls = {}
        for n, steps in sizes:
            z, y = logits(n, device)
            loss = sw.ScoreLoss("tss", weight=sw.weights.Value(sw.weights.linear(steps)), validate=False)
            calls[f"{n} {steps}"] = step(loss, z, y)
            calls[f"{n} base"] = step(binary_cross_entropy_with_logits, z, y)
        times = take_turns(calls, seconds, device)
        for n, steps in sizes:
            mine = times[f"{n} {steps}"]
            ratio = round(mine.median / times[f"{n} base"].median, 3)
            kept.append({"over": kind, "n": n, "T": steps} | mine.row() | {"ratio": ratio})
    return kept


def by_loop(z: torch.Tensor, y: torch.Tensor, omega: Sequence[float]) -> torch.Tensor:
    """Minus the value-weighted TSS as a loop over samples, written after the paper's Theorem 3."""
    n = len(z)
    p = torch.sigmoid(z)
    fp, fn = p.new_zeros(()), p.new_zeros(())
    for i in range(n):
        if y[i] == 0:
            worth = max((omega[j] * float(y[i + 1 + j]) for j in range(min(len(omega), n - 1 - i))), default=0.0)
            fp = fp + (1 - worth) * p[i]
            continue
        fn = fn + 1 - p[i]
        nearest: list[int] = []  # t_1, …, t_S: those above all nearer ones
        for j in range(1, min(len(omega), i) + 1):
            if not nearest or p[i - j] > p[i - nearest[-1]]:
                nearest.append(j)
        after = [omega[j - 1] for j in nearest[1:]] + [0.0]
        for j, worth in zip(nearest, after, strict=True):
            fn = fn - (omega[j - 1] - worth) * (p[i - j] - p[i]).clamp(min=0)
    tn, tp = ((1 - y) * (1 - p)).sum(), (y * p).sum()
    return -(tp / (tp + fn) + tn / (tn + fp) - 1)


def loop(seconds: float) -> Rows:
    """The value-weighted loss at n = 4,096 beside a loop over samples."""
    n = 4096
    z, y, _ = batch(n, "cpu")
    omega = sw.weights.geometric(T)
    ours = sw.ScoreLoss("tss", weight=sw.weights.Value(omega), validate=False)
    plain = step(lambda z, y: by_loop(z, y, omega), z, y)
    return rows(n, take_turns({"Value, max": step(ours, z, y), "a loop over samples": plain}, seconds, "cpu"))
