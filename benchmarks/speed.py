"""Time and memory of the losses beside binary cross entropy with logits.

    python -m benchmarks.speed [--quick] [--device cpu|cuda] [--write]

Every call is forward and backward on the same logits, in eager float32. All contestants take turns within one process,
so that what the machine does meanwhile hits them alike; a ratio is one of medians. --write keeps the results under
benchmarks/results/ and renders the tables of benchmarks/README.md from them.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw

RESULTS = Path(__file__).parent / "results"
BASE = "binary cross entropy"
INTRODUCTION = """# Benchmarks

This page is made by `make bench`, from the results in `results/`.

What a loss costs beside `binary_cross_entropy_with_logits`: forward and backward on the same logits, eager float32,
`validate=False` unless it says validated, 10 % positives. All lines of a table took turns in one process; a ratio is
one of medians. *score* lines have the uniform prior, *prior* lines the score TSS. *cdf alone* is `prior.cdf` of that
many probabilities, without a gradient, beside a whole step of cross entropy. Labels are floats and there is no mask
unless it says masked, in the memory figures too.

The aims on a CPU: a step at most 4 × at n = 4,096 and at most 1.5 × at n = 1,048,576 with the uniform prior, and a cdf
at most 10 × at n = 1,048,576.
"""
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
    while time.perf_counter() < end or len(times[order[0][0]]) < 7:
        shuffle(order)
        for name, call in order:
            start = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def compare(n: int, seconds: float, device: str) -> list[dict[str, object]]:
    """Ratios to binary cross entropy at a batch of n: every score, then every prior, then the validated loss."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(n, generator=g).to(device).requires_grad_()
    y = (torch.rand(n, generator=g) < 0.1).float().to(device)
    mask = (torch.rand(n, generator=g) < 0.9).to(device)

    def step(loss: Callable[..., torch.Tensor], **arguments: torch.Tensor) -> Callable[[], object]:
        def call() -> None:
            z.grad = None
            loss(z, y, **arguments).backward()

        return call

    losses: dict[str, Callable[[], object]] = {BASE: step(binary_cross_entropy_with_logits)}
    for name in sw.scores.names():
        losses[f"score {name}"] = step(sw.ScoreLoss(name, validate=False))
    for name, prior in PRIORS.items():
        losses[f"prior {name}"] = step(sw.ScoreLoss("tss", prior=prior, validate=False))
    losses["validated tss"] = step(sw.ScoreLoss("tss"))
    losses["masked tss"] = step(sw.ScoreLoss("tss", validate=False), mask=mask)
    p = torch.sigmoid(z.detach())
    for name, prior in PRIORS.items():
        losses[f"cdf alone {name}"] = lambda prior=prior: prior.cdf(p)
    medians = take_turns(losses, seconds, device)
    base = medians[BASE]
    return [
        {"n": n, "what": name, "microseconds": round(m * 1e6, 1), "ratio": round(m / base, 3)}
        for name, m in medians.items()
    ]


def peak_memory(what: str, n: int) -> int:
    """Peak extra bytes of one forward and backward pass, in a process of its own."""
    code = f"import benchmarks.speed as s; s.measure_memory({what!r}, {n})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603  # ours
    return int(done.stdout)


def measure_memory(what: str, n: int) -> None:
    """Print how far one pass raises the process's peak; the gradient itself (4 bytes a sample) is part of it."""
    z = torch.randn(n, requires_grad=True)
    y = torch.zeros(n)
    y[::10] = 1
    loss = binary_cross_entropy_with_logits if what == "bce" else sw.ScoreLoss(what, validate=False)
    loss(z[:1000], y[:1000]).backward()  # what is loaded at first use
    z.grad = None
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew from here
    before = _status("VmRSS")
    loss(z, y).backward()
    print(_status("VmHWM") - before)


def _status(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def render() -> None:
    """Write benchmarks/README.md from the results that are kept."""
    page = [INTRODUCTION]
    for path in sorted(RESULTS.glob("speed-*.json")):
        kept = json.loads(path.read_text())
        page.append(f"## {kept['device'].upper()}: {kept['on']}, PyTorch {kept['torch']}, Python {kept['python']}\n")
        sizes = sorted({row["n"] for row in kept["times"]})
        page.append(f"| | {' | '.join(f'n = {n:,}' for n in sizes)} |\n|---|{'---:|' * len(sizes)}")
        for what in dict.fromkeys(row["what"] for row in kept["times"]):
            cells = []
            for n in sizes:
                row = next(r for r in kept["times"] if r["n"] == n and r["what"] == what)
                time_of_it = f"{row['microseconds']:,.0f} µs"
                cells.append(time_of_it if what == BASE else f"{row['ratio']:.2f} ×")
            page.append(f"| {what} | {' | '.join(cells)} |")
        page.append("")
        page.extend(
            f"Peak extra memory of a step at {row['n']:,}, {row['what']}: {row['bytes_per_sample']} bytes per sample, "
            "of which the gradient is 4.\n"
            for row in kept.get("memory", [])
        )
    (RESULTS.parent / "README.md").write_text("\n".join(page).rstrip() + "\n")


def main() -> None:
    """Measure, print, and with --write keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--write", action="store_true", help="keep the results and render the tables")
    options = parser.parse_args()
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} threads"
    result = {"torch": torch.__version__, "python": platform.python_version(), "device": options.device, "on": where}
    rows = []
    for n in (4096, 1 << 20):
        print(f"n = {n:,}: forward and backward, {where}, eager float32", flush=True)
        rows += (new := compare(n, 2 if options.quick else 40, options.device))
        for row in new:
            print(f"  {row['what']:<45}{row['microseconds']:>12,.1f} µs {row['ratio']:>8.2f} x")
    result["times"] = rows
    if options.device == "cpu":
        n = 1 << (20 if options.quick else 24)
        result["memory"] = [
            {"n": n, "what": what, "bytes_per_sample": round(peak_memory(what, n) / n, 2)} for what in ("bce", "tss")
        ]
        for row in result["memory"]:
            print(f"peak extra memory, n = {n:,}, {row['what']}: {row['bytes_per_sample']} bytes per sample")
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"speed-{options.device}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        render()
        print(f"wrote {path} and the tables of benchmarks/README.md")


if __name__ == "__main__":
    main()
