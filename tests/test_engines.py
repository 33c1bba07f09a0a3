"""The recipes in examples/ train the same network, whatever the engine and however many processes there are."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from torch import distributed

from tests.ranks import results, together

EXAMPLES = Path(__file__).parent.parent / "examples"
UNHURRIED = Path(__file__).parent / "unhurried.py"
NEEDED = {
    "torchrun": [],
    "accelerate": ["accelerate"],
    "skorch": ["skorch", "accelerate"],
    "transformers": ["transformers", "accelerate"],
    "fabric": ["lightning"],
    "lightning": ["lightning"],
}
# Where a run can be interrupted, one process begins, and two go on; and a step can be taken in micro-batches.
FULL = set(NEEDED) - {"skorch"}
HALF, WHOLE = 2, 4  # epochs

# Seconds that a run may take. Runs take 4 to 20 of them, most to import an engine: who needs more waits for someone who
# does not come.
PATIENCE = 120.0
LAST_LINE = re.compile(r"held-out hours: loss -0\.\d{6}, value-weighted TSS 0\.\d{4}")


class Run:
    """A recipe in processes of its own."""

    def __init__(self, folder, name, *options, processes=1):
        folder.mkdir(parents=True)
        self.name, self.out, self.log = name, folder / "out.json", folder / "log.txt"
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes]
        launcher = [*torchrun, UNHURRIED] if processes > 1 else []
        command = [sys.executable, *launcher, EXAMPLES / f"train_{name}.py", "--out", self.out, *options]
        alone = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
        settings = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "OMP_NUM_THREADS", "PYTHONUNBUFFERED")
        with self.log.open("wb") as log:  # a file: a pipe stays open as long as any worker of a loader lives
            self.process = subprocess.Popen(  # noqa: S603  # our own recipes
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=alone | dict.fromkeys(settings, "1"),
                start_new_session=True,
            )

    def told(self):
        """All that was printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def result(self):
        """What was found, when it is done."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} hangs, after {PATIENCE:g} s. It told:\n{self.told()}") from None
        finally:
            self.end()
        assert status == 0, f"{self.name} failed with the status {status}. It told:\n{self.told()}"
        return json.loads(self.out.read_text())

    def end(self):
        """End it, if it has not ended: torchrun, when it is asked to, ends those that it has started."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def missing(engine):
    return ", ".join(package for package in NEEDED[engine] if not find_spec(package))


def chain(folder, engine):
    """What one process has found, and two: those go on from where the one ended, where that can be."""
    more = ["--checkpoint", folder / "begun.ckpt"] if engine in FULL else []
    alone = Run(folder / "alone", engine, "--epochs", HALF if engine in FULL else WHOLE, *more)
    found = {"alone": (alone.result(), alone.told())}
    more += ["--micro-batches", 2] if engine in FULL else []
    shared = Run(folder / "shared", engine, "--epochs", WHOLE, *more, processes=2)
    try:
        found["shared"] = (shared.result(), shared.told())
    except AssertionError as error:  # to be told by the test of it, and not by that of one process
        found["shared"] = error
    return found


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """What the selected engines will have found, and whom they should agree with: plain PyTorch without interruption.

    Two at a time, for most of the time goes into imports.
    """
    selected = {item.callspec.params.get("engine") for item in request.session.items if hasattr(item, "callspec")}
    folder = tmp_path_factory.mktemp("engines")
    with ThreadPoolExecutor(2) as pool:
        found = {
            epochs: pool.submit(lambda n: Run(folder / str(n), "torchrun", "--epochs", n).result(), epochs)
            for epochs in (HALF, WHOLE)
        }
        for engine in reversed(NEEDED):  # those that take longest come first
            if engine in selected and not missing(engine):
                found[engine] = pool.submit(chain, folder / engine, engine)
        yield found
        for future in found.values():
            future.cancel()


@pytest.mark.parametrize("way", ["alone", "shared"])
@pytest.mark.parametrize("engine", NEEDED)
def test_every_engine_trains_the_same_network(engine, way, runs):
    if missing(engine):
        pytest.skip(f"{missing(engine)} is not installed")
    found = runs[engine].result()[way]
    if isinstance(found, AssertionError):
        raise found
    result, told = found
    expected = runs[HALF if way == "alone" and engine in FULL else WHOLE].result()

    assert result["losses"][-1] < result["losses"][0] < 0
    assert LAST_LINE.fullmatch(told.strip().splitlines()[-1]), told
    assert f"loss {result['losses'][-1]:.6f}, value-weighted TSS {result['score']:.4f}" in told
    # Sums in another order: 1e-16 of each, which some dozens of steps of Adam may amplify.
    assert result["parameters"] == pytest.approx(expected["parameters"], rel=0, abs=1e-8)
    assert result["losses"][-1] == pytest.approx(expected["losses"][-1], rel=0, abs=1e-8)
    assert result["score"] == pytest.approx(expected["score"], rel=0, abs=1e-8)


def until_in_the_middle(run, checkpoint):
    """Wait for a checkpoint of the second epoch. It can be read at any time: it is there as a whole or not at all."""
    begun = time.monotonic()
    while not (checkpoint.exists() and torch.load(checkpoint, weights_only=True)["epoch"] >= 1):
        assert run.process.poll() is None, run.told()
        assert time.monotonic() - begun < PATIENCE, run.told()
        time.sleep(0.005)


# 24 steps in an epoch, and checkpoints of them that are none at its end.
LONG = ["--epochs", 5, "--batch-size", 256, "--dropout", 0.2, "--every", 5]


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path):
    options, checkpoint = [*LONG, "--workers", 2, "--running", 0.9], tmp_path / "checkpoint.pt"
    whole = Run(tmp_path / "whole", "torchrun", *options)
    killed = Run(tmp_path / "killed", "torchrun", *options, "--checkpoint", checkpoint)
    try:
        until_in_the_middle(killed, checkpoint)
        os.killpg(killed.process.pid, signal.SIGKILL)
        assert killed.process.wait(PATIENCE) == -signal.SIGKILL
    finally:
        killed.end()
        expected = whole.result()
    saved = torch.load(checkpoint, weights_only=True)
    assert saved["epoch"] in range(1, 5)
    assert saved["steps"] in (5, 10, 15, 20)

    resumed = Run(tmp_path / "resumed", "torchrun", *options, "--checkpoint", checkpoint)
    result = resumed.result()
    assert f"resumed in epoch {saved['epoch'] + 1}, {saved['steps']} steps of which were taken" in resumed.told()
    assert result["losses"] == expected["losses"][saved["epoch"] :]
    assert result["parameters"] == expected["parameters"]


def recipe(name):
    spec = spec_from_file_location(name, EXAMPLES / f"train_{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_numbers(rank, world):
    """Those that came after a checkpoint, and those after going on from it; and after going on alone."""
    torchrun, path = recipe("torchrun"), Path("checkpoint.pt")
    torch.manual_seed(rank)
    torchrun.save(path, {}, 3, 7, world)
    first = torch.rand(2).tolist()
    distributed.barrier()
    place = torchrun.resume(path, {}, rank, world)
    second = torch.rand(2).tolist()
    torch.manual_seed(rank + 5)
    torchrun.resume(path, {}, 0, 1)
    return place, first, second, torch.rand(2).tolist()


def test_every_process_goes_on_with_its_own_random_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = results(together(2, partial(dict, random_numbers=random_numbers))["random_numbers"])
    for rank, (place, first, second, other) in enumerate(found):
        assert place == (3, 7)
        assert second == first
        assert other == torch.rand(2, generator=torch.Generator().manual_seed(rank + 5)).tolist()
    assert found[0][1] != found[1][1]
