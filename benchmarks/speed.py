"""Time and memory of losses, thresholds and classifiers, beside their peers.

    python -m benchmarks.speed [--quick | --write | --render] [--device cpu|cuda] [--only PART ...]

All contestants of a table take turns within one process, so that what the machine does meanwhile hits them alike; a
ratio is one of medians. --write keeps the results under benchmarks/results/, one file for each device, and renders
benchmarks/README.md and its figure from them. --quick measures nothing: it checks that what is timed is right, runs
every part once, and fails if a result is wrong.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import (
    bandwidth,
    checks,
    classes,
    curves,
    exponents,
    imports,
    loss_peers,
    losses,
    page,
    provenance,
    training,
    weights,
)
from benchmarks.timing import Rows, peak_memory
from scorewise._files import write

Found = dict[str, object]
LARGE = (1 << 27, 1 << 28, 3 << 27, 1 << 29)
"""Batches for a graphics card alone: fixed costs end late there, and growth needs three sizes beyond."""
PACKAGES = ("torch", "numpy", "scikit-learn", "torchmetrics", "monai", "libauc")


@dataclass(frozen=True)
class Part:
    """What can be measured by itself.

    Attributes:
        measure: Takes the device and whether it is only to see that it runs; returns results by their names.
        seconds: About how long it takes on two cores.
        anywhere: Whether it depends on the device; the others are measured with "cpu" alone.
    """

    measure: Callable[[str, bool], Found]
    seconds: int
    anywhere: bool = True


def _scores(device: str, quick: bool) -> Found:
    if quick:
        return {"times": losses.compare(4096, 0, device)}
    return {"times": losses.compare(4096, 6, device) + losses.compare(1 << 20, 10, device)}


def _weights(device: str, quick: bool) -> Found:
    if quick:
        return {"weights": weights.compare(4096, 0, device), "growth": weights.growth(0, device, (10, 12), (1, 2), 12)}
    found: Found = {"weights": weights.compare(4096, 6, device) + weights.compare(1 << 20, 8, device)}
    # On a graphics card fixed costs end late, and growth needs three sizes beyond.
    powers, beside = (range(14, 23), 17) if device == "cpu" else ((*range(14, 24, 2), *range(24, 30)), 24)
    found["growth"] = weights.growth(6, device, powers, [1 << k for k in range(11)], beside)
    return found | ({"loop": weights.loop(1)} if device == "cpu" else {})


def _curves(device: str, quick: bool) -> Found:
    if quick:
        found: Found = {"curves": curves.compare(1 << 14, 0, device), "exact": curves.exact(4096, 0, device)}
        return found | {"curve_growth": curves.growth(0, device, (10, 12))}
    powers = (15, *range(17, 23)) if device == "cpu" else (15, *range(17, 25, 2), *range(25, 29))
    return {
        "curves": curves.compare(1 << 21, 12, device),
        "curve_growth": curves.growth(2, device, powers),
        "exact": curves.exact(4096, 4, device) + curves.exact(1 << 20, 6, device),
    }


def _classes(device: str, quick: bool) -> Found:
    found: Found = {"labels": classes.labels(4096, 0 if quick else 5, device), "classes": []}
    for n, m in ((4096, 10), (256, 1000)):
        found["classes"] += classes.compare(n, m, 0 if quick else 5, device)
    if not quick:  # `memory` sees that it runs
        found["class_memory"] = [
            {"n": 256, "m": 1000, "what": what, "mib": round(peak_memory(loss, 256, 1000, device) / 2**20, 1)}
            for what, loss in classes.MEMORY.items()
        ]
    return found


def _training(device: str, quick: bool) -> Found:
    found: Found = {"training": training.compare(4096, 0 if quick else 12, device)}
    if device == "cpu":
        found["largest"] = (
            training.largest(64 << 20, 1, training.WAYS[-1:]) if quick else training.largest(256 << 20, 4)
        )
    return found


def _peers(device: str, quick: bool) -> Found:
    sizes = [1 << k for k in ((10, 12) if quick else range(10, 23 if device == "cpu" else 27))]
    sizes += LARGE if device == "cuda" and not quick else ()
    rows, absent = loss_peers.compare(sizes, 0 if quick else 2, device)
    metrics: Rows = []
    for n in (4096,) if quick else (4096, 1 << 20):
        more, missing = loss_peers.metrics(n, 0 if quick else 4, device)
        metrics += more
        absent |= missing
    return {"peers": rows, "metrics": metrics, "absent": absent}


def _thresholds(_: str, quick: bool) -> Found:
    from benchmarks import peers  # other machines may lack scikit-learn

    return {"thresholds": peers.thresholds(64, 1 << 12, 0) if quick else peers.thresholds(512, 1 << 17, 3)}


def _fits(_: str, quick: bool) -> Found:
    from benchmarks import peers  # as above

    return {"fits": peers.fits(300, 5, 1, steps=20) if quick else peers.fits(1000, 10, 3) + peers.fits(50_000, 30, 3)}


def _files(_: str, quick: bool) -> Found:
    from benchmarks import files  # other machines may lack the command line

    return {"files": files.compare(20_000 if quick else 10_000_000, quick=quick)}


def _memory(device: str, quick: bool) -> Found:
    return {"memory": list(losses.memory(1 << (16 if quick else 22), device, only=1 if quick else None))}


def _imports(_: str, quick: bool) -> Found:
    rows, absent = imports.compare(1 if quick else 7)
    return {"imports": rows, "absent": absent}


def _bandwidth(device: str, quick: bool) -> Found:
    found: Rows = []
    for power in (12,) if quick else (23,) if device == "cpu" else (26, 28):
        found += bandwidth.compare(1 << power, 0 if quick else 4, device)
    return {"bandwidth": found}


PARTS = {
    "peers": Part(_peers, 50),
    "scores": Part(_scores, 20),
    "weights": Part(_weights, 30),
    "curves": Part(_curves, 55),
    "thresholds": Part(_thresholds, 30, anywhere=False),
    "classes": Part(_classes, 30),
    "training": Part(_training, 75),
    "fits": Part(_fits, 120, anywhere=False),
    "files": Part(_files, 90, anywhere=False),
    "imports": Part(_imports, 40, anywhere=False),
    "memory": Part(_memory, 25),
    "bandwidth": Part(_bandwidth, 12),
}


def about(device: str) -> Found:
    """Where it is measured, which must be the same for all parts."""
    on = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device,
        "on": on,
        "machine": provenance.machine(),
    }


def measure(names: list[str], device: str, *, quick: bool) -> Found:
    """Measure parts one after another, and print what they find.

    Returns:
        The results by name; for each part, under "absent" who was not there, and under "measured" when and with what.
    """
    found: Found = {"absent": {}, "measured": {}}
    for name in names:
        print(name if quick else f"{name}: about {PARTS[name].seconds} s", flush=True)
        began = time.perf_counter()
        part = PARTS[name].measure(device, quick)
        found["absent"][name] = part.pop("absent", {})
        today = dt.datetime.now(dt.UTC).date().isoformat()
        found["measured"][name] = {"date": today, "with": provenance.versions(*PACKAGES)}
        found |= part
        if not quick:
            for row in (row for rows in part.values() for row in rows):
                print(f"  {page.line(row)}")
        for who, why in found["absent"][name].items():
            print(f"  absent: {who} ({why})")
        print(f"  took {time.perf_counter() - began:.0f} s", flush=True)
    return found


def kept_here(path: Path, here: Found) -> Found:
    """What is kept of other parts.

    Raises:
        ValueError: If nothing is, or if it was measured on another machine, or with another PyTorch or Python.
    """
    if not path.exists():
        raise ValueError(f"there is no {path.name} to add to; measure all, without --only.")
    old = json.loads(path.read_text())
    for name in ("torch", "python", "on", "machine"):
        if (was := old.get(name, "unknown")) != here[name]:
            seen = f"{name} = {was}, this is {here[name]}"
            raise ValueError(f"{path.name} was measured with {seen}; measure all, without --only.")
    return old


def merged(old: Found, new: Found) -> Found:
    """Results with some parts measured anew; the others keep what they were measured with."""
    return old | new | {name: old.get(name, {}) | new[name] for name in ("absent", "measured")}


def render() -> None:
    """Write benchmarks/README.md and its figure from the results that are kept."""
    kept = [json.loads(path.read_text()) for path in sorted(page.RESULTS.glob("speed-*.json"))]
    page.PAGE.write_text(page.text(kept))
    print(f"wrote {page.PAGE.name}")
    if not page.drawn(kept):
        return
    try:
        from benchmarks import figure
    except ImportError as error:
        print(f"the figure is not drawn: {error}; install matplotlib and use --render.")
        return
    figure.draw(kept, page.FIGURE)
    print(f"wrote {page.FIGURE.name}")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and with --write keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="check what is timed, run each part once; no times")
    how.add_argument("--write", action="store_true", help="keep the results and render the page")
    how.add_argument("--render", action="store_true", help="only render the page from what is kept")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    options = parser.parse_args(arguments)
    if options.render:
        render()
        return
    names = [name for name, part in PARTS.items() if part.anywhere or options.device == "cpu"]
    if options.only:
        names = [name for name in names if name in options.only]
        if not names:
            parser.error(f"{', '.join(options.only)}: only with --device cpu.")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device cuda: PyTorch {torch.__version__} finds no graphics card here. Use --device cpu.")
    wrong: list[str] = []
    if options.quick:
        wrong, unchecked = checks.run(options.device)
        for told in unchecked:
            print(f"not checked: {told}")
    here, old = about(options.device), {}
    path = page.RESULTS / f"speed-{options.device}.json"
    if options.write and options.only:
        try:
            old = kept_here(path, here)
        except ValueError as error:
            parser.error(str(error))
    if not options.quick:
        print(f"{sum(PARTS[name].seconds for name in names) / 60:.1f} minutes in all", flush=True)
    found = merged(old, here | measure(names, options.device, quick=options.quick))
    if options.write:
        found["exponents"] = exponents.fitted(found)
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(found, indent=1) + "\n"
        write(path, lambda file: file.write(text.encode()))
        render()
    if wrong:
        sys.exit("\n".join(["results that are wrong:", *wrong]))


if __name__ == "__main__":
    main()
