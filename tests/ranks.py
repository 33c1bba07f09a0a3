"""Functions of (rank, world) in real processes, which talk to each other by gloo.

Processes take seconds to start. So all that one module wants of so many of them is done in one go: see `together`.
"""

import datetime as dt
import os
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import torch
from torch import distributed, multiprocessing

# Seconds that a process waits for others. Cases take a fraction of one: who waits for longer waits for someone who does
# not come.
PATIENCE = 60.0


class Failed:
    """What a case has instead of a result, where it raised."""

    def __init__(self, told):
        self.told = told


def together(world, make):
    """Cases in so many processes: of each what it returned, in a list by rank.

    Args:
        world: How many processes.
        make: A function of a module, which is all that can be sent to processes; it returns a dictionary of cases, each
            a function of (rank, world).
    """
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("OMP_NUM_THREADS")
        os.environ["OMP_NUM_THREADS"] = "1"
        try:
            processes = multiprocessing.spawn(_work, (world, folder, make), nprocs=world, join=False)
        finally:
            if before is None:
                del os.environ["OMP_NUM_THREADS"]
            else:
                os.environ["OMP_NUM_THREADS"] = before
        try:
            while not processes.join(timeout=1.0):
                # of the folder itself, while nobody has come yet
                last = max(path.stat().st_mtime for path in (Path(folder), *Path(folder).glob("*.now")))
                if time.time() - last > 1.5 * PATIENCE:  # those who wait should have raised by now
                    raise AssertionError(f"{world} processes hang: {_busy(folder, world)}.")
        finally:
            for process in processes.processes:
                process.kill()
        found = [torch.load(Path(folder, f"{rank}.pt"), weights_only=False) for rank in range(world)]
    return {name: [of_rank[name] for of_rank in found] for name in found[0]}


def results(found):
    """The results of one case, or else its failures."""
    told = [f"rank {rank}: {one.told}" for rank, one in enumerate(found) if isinstance(one, Failed)]
    assert not told, "\n".join(told)
    return found


def _work(rank, world, folder, make):
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    distributed.init_process_group(
        "gloo",
        init_method=Path(folder, "meet").as_uri(),
        rank=rank,
        world_size=world,
        timeout=dt.timedelta(seconds=PATIENCE),
    )
    found = {}
    for name, case in make().items():
        Path(folder, f"{rank}.now").write_text(name)
        try:
            found[name] = case(rank, world)
        except Exception:  # noqa: BLE001  # whatever it is, a test shows it
            found[name] = Failed(traceback.format_exc())
    torch.save(found, Path(folder, f"{rank}.pt"))
    distributed.destroy_process_group()
    # Not through the end of Python: what fully sharded models leave behind holds the group, whose threads would need a
    # lock that there is not any more, and abort.
    os._exit(0)


def _busy(folder, world):
    """What each process is doing."""
    told = []
    for rank in range(world):
        now, done = Path(folder, f"{rank}.now"), Path(folder, f"{rank}.pt")
        doing = "is done" if done.exists() else f"is at {now.read_text()!r}" if now.exists() else "has not started"
        told.append(f"rank {rank} {doing}")
    return ", ".join(told)
