"""Ctrl-C during runs that take hours, in real processes, and what else these commands have in common."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from joblib import delayed

from benchmarks import command
from benchmarks.quality import results
from benchmarks.robustness import fuzz
from benchmarks.robustness.fuzz import Try

ROOT = Path(__file__).parent.parent
PATIENCE = 120.0
"""Seconds for a process to load PyTorch and to come to a training; it takes a few."""
SOON = 20.0
"""Seconds in which it must end when it is told to; it takes one."""
TOLD = (
    "stopped: what was under way is not kept, and the same command goes on from there; with --again it begins anew.\n"
)

# Each makes some results in no time, and then trains a ScoreClassifier for hours, which it tells.
BEGIN = """
import os, signal, sys
from functools import partial
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests may have it ignored
sys.argv[0] = "run"
out = sys.argv[1]

def long(fit, *args):
    from scorewise.estimator.training import Trainer
    step = Trainer._step

    def told(self, *rest):
        Trainer._step = step
        os.write(1, b"training\\n")
        return step(self, *rest)

    Trainer._step = told
    return fit(*args)
"""
QUALITY = """
from benchmarks.quality import run
from benchmarks.quality.methods import METHODS, Method, variant

class Never:
    threshold, before = None, 0.0

    def decide(self, X):
        return (X.index < 0).astype(int)

METHODS["short"] = Method("short", lambda *args: [Never()])
METHODS["long"] = Method("long", partial(long, variant("long", steps=10**6).fit), shared=False)
some = ["--sets", "beijing", "--scores", "wtss", "--methods", "short", "long"]
sys.exit(run.main([*some, "--seeds", sys.argv[2], "--workers", sys.argv[2], "--out", out]))
"""
PUBLISHED = """
from benchmarks.published import run
from benchmarks.published.methods import METHODS, Method
last = Method("long", "", partial(long, METHODS["classifier"].fit))
run.METHODS = {"persistence": METHODS["persistence"], "long": last}
sys.exit(run.main(["--only", "pollution", "--seeds", "1", "--out", out]))
"""
ROBUSTNESS = """
from benchmarks.robustness import collapse, run
collapse.EPOCHS = 1
fast, slow = collapse.CrossEntropy(tuned=False), collapse.Recipe(10**6, cosine=False)
slow.name, slow.fit = "long", partial(long, slow.fit)
collapse.ways = lambda: [fast, slow]
run.main(["--only", "collapse", "--seeds", "1", "--out", out])
"""
# How many processes train, how often Ctrl-C is pressed, and what is finished by then.
RUNS = {
    "quality": (QUALITY, 2, 3, {("wtss", "short", 0), ("wtss", "short", 1)}),
    "published": (PUBLISHED, 1, 3, {("tss", "persistence", 0), ("wtss", "persistence", 0)}),
    "robustness": (ROBUSTNESS, 1, 1, {("accuracy", "bce_half", 0), ("balanced_accuracy", "bce_half", 0)}),
}


def of_group(pid):
    """Whether a process of a group is left."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def started(tmp_path):
    """Starts a run; whatever comes, it and its workers are ended."""
    processes = []

    def start(code, *args):
        with (tmp_path / "told").open("w") as told:
            process = subprocess.Popen(  # noqa: S603  # ours
                [sys.executable, "-c", BEGIN + code, *map(str, args)],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                start_new_session=True,  # a terminal tells all processes of a group
            )
        watch = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
        watch.start()
        processes.append((process, watch))
        return process

    yield start
    for process, watch in processes:
        watch.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until_they_train(process, workers, tmp_path):
    trained = 0
    while trained < workers and (line := process.stdout.readline()):
        trained += line.count("training")  # nothing else says so, and lines of two workers may run into each other
    assert trained == workers, (tmp_path / "told").read_text()


def leaves_nothing(process):
    """Whether all processes of its group end soon."""
    until = time.monotonic() + SOON
    while of_group(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not of_group(process.pid)


@pytest.mark.parametrize("name", RUNS)
def test_ctrl_c_keeps_what_is_finished_and_nothing_else(name, tmp_path, started):
    code, workers, presses, finished = RUNS[name]
    process = started(code, tmp_path / "kept", workers)
    wait_until_they_train(process, workers, tmp_path)
    for _ in range(presses):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    assert process.wait(SOON) == 130
    assert leaves_nothing(process)
    assert (tmp_path / "told").read_text() == TOLD
    rows = results.read(tmp_path / "kept")
    assert {key[1:] for key in rows} == finished
    assert not any(row["error"] for row in rows.values())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_one_that_has_made_them(how, tmp_path, started):
    """Which is killed alone, and cannot tell them."""
    process = started(QUALITY, tmp_path / "kept", 2)
    wait_until_they_train(process, 2, tmp_path)
    process.send_signal(how)
    assert process.wait(SOON) == -how
    assert leaves_nothing(process)
    assert {key[1:] for key in results.read(tmp_path / "kept")} == RUNS["quality"][3]


@pytest.fixture
def pressable():
    """Ctrl-C as in a terminal, whatever those who run tests have made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    command._pressed.clear()


def press():
    signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def stopping(capsys):
    """What is in it must be stopped."""
    with pytest.raises(SystemExit) as ended, command.stoppable():
        yield
    assert ended.value.code == 130
    assert capsys.readouterr().err == TOLD


ROW = dict.fromkeys(results.COLUMNS) | {"set": "s", "score": "tss", "method": "m", "seed": 0}


def test_nothing_is_kept_after_ctrl_c_even_if_somebody_takes_it(pressable, tmp_path, capsys):
    with stopping(capsys):
        results.put(tmp_path, ROW)
        with contextlib.suppress(BaseException):
            press()
        results.put(tmp_path, ROW | {"seed": 1})
    assert [key[-1] for key in results.read(tmp_path)] == [0]


def translated():
    try:
        press()
    except BaseException as error:
        raise RuntimeError("broken") from error


def test_an_error_that_somebody_has_made_of_ctrl_c_is_none(pressable, capsys):
    with stopping(capsys):
        translated()


@pytest.mark.parametrize("call", [press, translated])
def test_an_input_in_which_ctrl_c_was_pressed_is_no_failure(call, pressable, capsys):
    told = []
    with stopping(capsys):
        fuzz.run("made up", lambda r: Try(call, lambda found: True), range(3), lambda *failure: told.append(failure))
    assert not told


def test_an_interrupt_that_polars_has_seen_stops_too(pressable, capsys):
    with stopping(capsys):
        raise KeyboardInterrupt


@pytest.mark.parametrize("between", [False, True])
def test_tasks_end_when_this_process_is_stopped(between, pressable, capsys):
    done = []
    with stopping(capsys), command.spread([delayed(abs)(-1), delayed(press)(), delayed(abs)(-3)], 1) as working:
        done.append(next(working))
        if between:
            press()
        done += working
    assert done == [1]


def test_workers_end_wherever_this_process_is_stopped(pressable, capsys):
    tasks = [delayed(os.getpid)(), *[delayed(time.sleep)(PATIENCE)] * 3]
    with stopping(capsys), command.spread(tasks, 2) as working:
        worker = next(working)
        press()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_without_ctrl_c_a_command_ends_as_it_would(pressable):
    for error in (ValueError("wrong"), SystemExit(2)):
        with pytest.raises(type(error)) as ended, command.stoppable():
            raise error
        assert ended.value is error
    with command.stoppable():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_to_which_ctrl_c_means_nothing_goes_on(pressable):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with command.stoppable():
        press()


BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
# The first worker starts the tracker, too.
FIRST = """
from multiprocessing import resource_tracker
from benchmarks import command
with command.leaving():
    resource_tracker.ensure_running()
    """


def blocked(code=BLOCKED):
    """Whether a process that starts now leaves Ctrl-C alone."""
    return subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True) == "True\n"  # noqa: S603  # ours


def test_the_first_process_that_starts_leaves_ctrl_c_to_this_one():
    assert blocked(FIRST + BLOCKED)
    assert not blocked()


def test_processes_that_start_leave_ctrl_c_to_this_one(pressable):
    later = threading.Event()
    found = []

    def start():
        found.append(blocked())
        later.wait(PATIENCE)
        found.append(blocked())

    thread = threading.Thread(target=start)
    with command.leaving():
        thread.start()
        found.append(blocked())
    later.set()
    thread.join()
    assert found == [True] * 3
    assert not blocked()


def test_ctrl_c_is_not_lost_while_processes_start(pressable):
    done = []
    with pytest.raises(KeyboardInterrupt), command.leaving():
        done.append(press())
    assert done == [None]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "two", "²"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"must be a whole number of at least 1, saw '{text}'"):
        command.number(text)
    assert command.number("17") == 17
