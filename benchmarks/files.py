"""What `scorewise evaluate` takes for a file of many predictions: seconds and memory of the whole command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.timing import Rows

STATIONS = 100
_PLAIN = ("--target", "event", "--prediction", "model", "--score", "hss")
_VALUE = (*_PLAIN, "--weight", "published", "--time", "hour", "--group", "station")
WAYS = {
    "streamed": (*_PLAIN, "--stream"),
    "in memory, with a report": (*_PLAIN, "--no-stream", "--report", "report.html"),
    "value-weighted, in memory, with a report": (*_VALUE, "--no-stream", "--report", "report.html"),
    "value-weighted, streamed": (*_VALUE, "--step", "1", "--stream"),
}


def large(n: int, folder: Path) -> Path:
    """A Parquet file of predictions at many stations, hour by hour; a tenth are events, which come in runs."""
    rng = np.random.default_rng(0)
    hours = n // STATIONS
    wave = np.sin(np.arange(hours) / 24)[:, None] + rng.normal(size=(hours, STATIONS)).cumsum(0) * 0.01
    chance = 1 / (1 + np.exp(3.5 - 1.5 * wave))
    frame = pl.DataFrame(
        {
            "station": np.tile(np.arange(STATIONS), hours),
            "hour": np.repeat(np.arange(hours), STATIONS),
            "model": chance.ravel(),
            "event": (rng.random(chance.shape) < chance).ravel().astype(np.int8),
        }
    )
    path = folder / "predictions.parquet"
    frame.write_parquet(path)
    return path


def compare(n: int, *, quick: bool = False) -> Rows:
    """Seconds and peak memory of the command in each way, one after another; the file's size on disk beside it.

    Args:
        n: How many rows.
        quick: Only the last way, to see that it runs.
    """
    found: Rows = []
    with tempfile.TemporaryDirectory() as name:
        path = large(n, Path(name))
        for what, options in list(WAYS.items())[-1 if quick else 0 :]:
            command = [sys.executable, "-m", "scorewise.cli", "evaluate", str(path), *options, "--json"]
            began = time.perf_counter()
            with (Path(name) / "out.json").open("wb") as out:
                process = subprocess.Popen(command, stdout=out, cwd=name)  # noqa: S603  # our own command
                _, status, usage = os.wait4(process.pid, 0)
            if status:
                raise RuntimeError(f"evaluate, {what}: the command ended with {os.waitstatus_to_exitcode(status)}.")
            page = Path(name) / "report.html"
            found.append(
                {
                    "rows": n,
                    "what": what,
                    "seconds": round(time.perf_counter() - began, 1),
                    "peak_mib": round(usage.ru_maxrss / 1024),
                    "file_mib": round(path.stat().st_size / 2**20),
                    "report_mb": round(page.stat().st_size / 1e6, 1) if "--report" in options else None,
                }
            )
            print(f"  {what:<42}{found[-1]['seconds']:>7} s {found[-1]['peak_mib']:>7,} MiB", flush=True)
    return found
