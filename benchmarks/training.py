"""What a training step costs: beside cross entropy, in parts, and how large a batch may be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks.timing import Rows, rows, status, take_turns

FEATURES, WIDTH, MICRO = 32, 128, 1024
WEIGHT = sw.weights.Value([0.5, 0.25, 0.125])
WAYS = ("binary cross entropy", "tss", "tss, accumulated")


def network(device: str) -> nn.Module:
    """Three layers of 128, and one that makes a logit of them."""
    layers: list[nn.Module] = []
    for width in (FEATURES, WIDTH, WIDTH):
        layers += [nn.Linear(width, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 1), nn.Flatten(0)).to(device)


def samples(n: int, device: str) -> tuple[Tensor, Tensor]:
    """Features, and labels of which a tenth is positive."""
    g = torch.Generator().manual_seed(0)
    return torch.randn(n, FEATURES, generator=g).to(device), (torch.rand(n, generator=g) < 0.1).float().to(device)


def in_context(x: Tensor, y: Tensor, micro: int) -> list[tuple[Tensor, Tensor, dict[str, Tensor]]]:
    """Micro-batches of one series, with what a value weight sees on both sides."""
    parts = []
    for start in range(0, len(x), micro):
        low, high = max(0, start - WEIGHT.reach), min(len(x), start + micro + WEIGHT.reach)
        mask = torch.zeros(high - low, dtype=torch.bool, device=x.device)
        mask[start - low : start - low + micro] = True
        parts.append((x[low:high], y[low:high], {"mask": mask}))
    return parts


def compare(n: int, seconds: float, device: str) -> Rows:
    """A step of AdamW in each way, as ratios to cross entropy of the whole batch."""
    x, y = samples(n, device)
    micro = list(zip(x.split(MICRO), y.split(MICRO), strict=True))
    around = in_context(x, y, MICRO)
    tss, value = sw.ScoreLoss("tss"), sw.ScoreLoss("tss", weight=WEIGHT)
    running = sw.parallel.RunningLoss(sw.ScoreLoss("tss"))
    split = f"{n // MICRO} × {MICRO:,}"

    def whole(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[nn.Module], object]:
        return lambda model: loss(model(x), y).backward()

    def plainly(model: nn.Module) -> None:
        for part, labels in micro:
            (binary_cross_entropy_with_logits(model(part), labels) * (len(part) / n)).backward()

    ways: dict[str, Callable[[nn.Module], object]] = {
        "binary cross entropy": whole(binary_cross_entropy_with_logits),
        "tss": whole(tss),
        "value-weighted tss, 3 lags": whole(value),
        "tss, running average": whole(running),
        "tss, exact": whole(sw.ScoreLoss("tss", exact=True)),
        f"binary cross entropy, {split}": plainly,
        f"tss, accumulated, {split}": lambda model: sw.parallel.accumulate(tss, model, micro),
        f"value-weighted tss, accumulated, {split}": lambda model: sw.parallel.accumulate(value, model, around),
    }
    return rows(n, take_turns({name: _step(way, device) for name, way in ways.items()}, seconds, device))


def _step(way: Callable[[nn.Module], object], device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model = network(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def call() -> None:
        optimizer.zero_grad()
        way(model)
        optimizer.step()

    return call


def largest(budget: int, tries: int = 8, ways: Sequence[str] = WAYS) -> Rows:
    """The largest batch whose step, with the batch itself, fits into so many bytes; found by trying."""
    found: Rows = []
    for what in ways:
        n, fits, used = budget >> 13, 0, 0
        for _ in range(tries):
            peak = max(_peak(what, n), 64 * n)  # a small batch may fit into what is left of others
            if peak <= budget and n > fits:
                fits, used = n, peak
            if 0.97 * budget < peak <= budget:
                break
            # memory grows with the batch, but for what a step needs anyway
            n = max(MICRO, int(n * 0.985 * budget / peak))
        found.append({"what": what, "budget_mib": budget >> 20, "n": fits, "mib": round(used / 2**20)})
    base = found[0]["n"]
    return [row | {"ratio": round(row["n"] / max(base, 1), 2)} for row in found]


def _peak(what: str, n: int) -> int:
    code = f"import benchmarks.training as t; t.measure({what!r}, {n})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603  # ours
    return int(done.stdout)


def measure(what: str, n: int) -> None:
    """Print how far a batch of n and one step with it raise the process's peak."""
    model, loss = network("cpu"), sw.ScoreLoss("tss")

    def step(x: Tensor, y: Tensor) -> None:
        if what == "binary cross entropy":
            binary_cross_entropy_with_logits(model(x), y).backward()
        elif what == "tss":
            loss(model(x), y).backward()
        else:
            sw.parallel.accumulate(loss, model, list(zip(x.split(MICRO), y.split(MICRO), strict=True)))

    step(*samples(MICRO, "cpu"))  # what is loaded at first use
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew from here
    before = status("VmRSS")
    step(*samples(n, "cpu"))
    print(status("VmHWM") - before)
