"""Times and memory, taken so that they can be compared."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

Rows = list[dict[str, object]]
Calls = dict[str, Callable[[], object]]
LEAST = 7
"""How often a call is timed at the least."""
SLOW = 0.25
"""Seconds of a call that needs no second one to be warm."""


@dataclass(frozen=True)
class Times:
    """Seconds of one call, taken again and again.

    Attributes:
        low: The lower quartile.
        median: The median.
        high: The upper quartile.
        runs: How many there were.
    """

    low: float
    median: float
    high: float
    runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """Of what was measured; a single time is its own quartiles."""
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0], 1)
        return cls(*statistics.quantiles(seconds, n=4, method="inclusive"), len(seconds))

    def row(self) -> dict[str, object]:
        """The same as it is kept, in microseconds."""
        told = {"microseconds": self.median, "low": self.low, "high": self.high}
        return {name: round(value * 1e6, 1) for name, value in told.items()} | {"runs": self.runs}


def take_turns(calls: Mapping[str, Callable[[], object]], seconds: float, device: str) -> dict[str, Times]:
    """Time calls that take turns in one process, so that what the machine does meanwhile hits them alike.

    Args:
        calls: What to time, by name.
        seconds: How long to go on, but for at least `LEAST` turns; 0 for a single turn, to see that it runs.
        device: "cpu" or "cuda", whose work is waited for.
    """
    for call in calls.values():
        if _once(call, device) < SLOW and seconds:
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls.items())
    # Whoever comes after a heavy call may pay for it.
    shuffle = random.Random(0).shuffle  # noqa: S311  # no secret
    end = time.perf_counter() + seconds
    turns = 0
    while turns < (LEAST if seconds else 1) or time.perf_counter() < end:
        shuffle(order)
        for name, call in order:
            times[name].append(_once(call, device))
        turns += 1
    return {name: Times.of(taken) for name, taken in times.items()}


def _once(call: Callable[[], object], device: str) -> float:
    """Seconds of one call, and of the work that it left to the device."""
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def rows(n: int, found: Mapping[str, Times]) -> Rows:
    """The lines of a table: each call at a batch of n, and the ratio of its median to that of the first."""
    first = next(iter(found.values())).median
    return [
        {"n": n, "what": name} | times.row() | {"ratio": round(times.median / first, 3)}
        for name, times in found.items()
    ]


def step(
    loss: Callable[..., torch.Tensor], z: torch.Tensor, y: torch.Tensor, **arguments: object
) -> Callable[[], torch.Tensor | None]:
    """One forward and backward pass, which returns the gradient."""

    def call() -> torch.Tensor | None:
        z.grad = None
        loss(z, y, **arguments).backward()
        return z.grad

    return call


def logits(n: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that want a gradient, and labels with 10 % positives."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(n, generator=g).to(device).requires_grad_()
    return z, (torch.rand(n, generator=g) < 0.1).float().to(device)


def peak_memory(what: str, n: int, classes: int = 0, device: str = "cpu") -> int:
    """Peak extra bytes of one forward and backward pass, in a process of its own.

    Args:
        what: The loss, a Python expression; it may use ``sw``, ``torch`` and ``peers``, which is `loss_peers`.
        n: The size of the batch.
        classes: How many classes; 0 for a single logit.
        device: "cpu" or "cuda".
    """
    code = (
        "import scorewise as sw, torch, benchmarks.timing as t; from benchmarks import loss_peers as peers; "
        f"t.measure_memory({what}, {n}, {classes}, {device!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603  # ours
    return int(done.stdout)


def measure_memory(loss: Callable[..., torch.Tensor], n: int, classes: int, device: str) -> None:
    """Print how far one pass raises the process's peak; the gradient itself (4 bytes a number) is part of it."""
    z = torch.randn((n, classes) if classes else n, device=device, requires_grad=True)
    y = torch.arange(n, device=device)
    y = y % classes if classes else (y % 10 == 0).float()
    loss(z[:16] if classes else z[:1000], y[:16] if classes else y[:1000]).backward()  # what is loaded at first use
    z.grad = None
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        loss(z, y).backward()
        torch.cuda.synchronize()
        print(torch.cuda.max_memory_allocated() - before)
        return
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew from here
    before = status("VmRSS")
    loss(z, y).backward()
    print(status("VmHWM") - before)


def status(field: str) -> int:
    """A size that Linux tells of this process, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
