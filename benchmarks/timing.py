"""Times and memory, taken so that they can be compared."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

Rows = list[dict[str, object]]


def take_turns(calls: dict[str, Callable[[], object]], seconds: float, device: str) -> dict[str, float]:
    """Median seconds of each call."""
    for call in calls.values():
        call()
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    order = list(calls.items())
    # Whoever comes after a heavy call may pay for it.
    shuffle = random.Random(0).shuffle  # noqa: S311  # no secret
    while time.perf_counter() < end or len(times[order[0][0]]) < (7 if seconds > 5 else 2):
        shuffle(order)
        for name, call in order:
            start = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def rows(n: int, medians: dict[str, float]) -> Rows:
    """The lines of a table: each call at a batch of n, and its ratio to the first."""
    base = next(iter(medians.values()))
    return [
        {"n": n, "what": name, "microseconds": round(m * 1e6, 1), "ratio": round(m / base, 3)}
        for name, m in medians.items()
    ]


def step(
    loss: Callable[..., torch.Tensor], z: torch.Tensor, y: torch.Tensor, **arguments: object
) -> Callable[[], None]:
    """One forward and backward pass."""

    def call() -> None:
        z.grad = None
        loss(z, y, **arguments).backward()

    return call


def peak_memory(what: str, n: int, classes: int = 0) -> int:
    """Peak extra bytes of one forward and backward pass of a loss, a Python expression, in a process of its own."""
    code = f"import scorewise as sw, torch, benchmarks.timing as t; t.measure_memory({what}, {n}, {classes})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603  # ours
    return int(done.stdout)


def measure_memory(loss: Callable[..., torch.Tensor], n: int, classes: int) -> None:
    """Print how far one pass raises the process's peak; the gradient itself (4 bytes a number) is part of it."""
    z = torch.randn((n, classes) if classes else n, requires_grad=True)
    y = torch.arange(n) % classes if classes else (torch.arange(n) % 10 == 0).float()
    loss(z[:16] if classes else z[:1000], y[:16] if classes else y[:1000]).backward()  # what is loaded at first use
    z.grad = None
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew from here
    before = status("VmRSS")
    loss(z, y).backward()
    print(status("VmHWM") - before)


def status(field: str) -> int:
    """A size that Linux tells of this process, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
