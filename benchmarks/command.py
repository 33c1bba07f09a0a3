"""What commands have in common that run for hours: numbers they are given, and Ctrl-C.

`ScoreClassifier.fit` takes a KeyboardInterrupt for the wish to have the best network so far. In a run that would be one
more result, which nobody can tell from those of whole trainings. So Ctrl-C raises `Stopped` here, which nothing takes;
and if something should, nothing is kept after it: see `go_on`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from multiprocessing import parent_process, resource_tracker
from typing import Any

import torch
from joblib import Parallel
from tqdm import tqdm

STATUS = 130
"""Of a command that Ctrl-C ended, as shells have it."""

_pressed = threading.Event()


class Stopped(BaseException):
    """Ctrl-C was pressed."""


def number(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, saw {text!r}")
    return int(text)


GOES_ON = (
    "stopped: what was under way is not kept, and the same command goes on from there; with --again it begins anew."
)


@contextlib.contextmanager
def stoppable(told: str = GOES_ON) -> Iterator[None]:
    """A command that Ctrl-C ends with one line and the status 130, and without what was under way.

    Args:
        told: The line.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # as for what a script has put into the background: Ctrl-C is not meant for it
        yield
        return
    _pressed.clear()
    signal.signal(signal.SIGINT, _press)
    try:
        yield
    except BaseException as error:  # after Ctrl-C it may be anything; and polars raises a KeyboardInterrupt of its own
        if not _pressed.is_set() and not isinstance(error, KeyboardInterrupt):
            raise
        print(told, file=sys.stderr, flush=True)
        raise SystemExit(STATUS) from None
    finally:
        if not _pressed.is_set():  # else it is about to end, and must be left to
            signal.signal(signal.SIGINT, before)


def go_on() -> None:
    """Raise `Stopped` if Ctrl-C was pressed, whatever became of the one that was raised then."""
    if _pressed.is_set():
        raise Stopped


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """Processes that start meanwhile leave Ctrl-C, which a terminal tells to all of a group, to this one.

    A thread that starts meanwhile hands that down to those that it starts later.
    """
    resource_tracker.ensure_running()  # it unblocks the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def be_one_of_several() -> None:
    """What a process does first that is one of several, or was made to be alone with small batches."""
    torch.set_num_threads(1)  # batches are small: a second thread would wait more than work
    tqdm.set_lock(threading.RLock())  # its own is one for all processes: if this one is killed, Python warns of it
    if parent_process() is not None:
        _end_with_parent()


@cache
def _end_with_parent() -> None:
    """End when the process ends that has made this one: killed, it cannot tell, and nobody waits for the rest."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def spread(tasks: Iterable[Any], workers: int) -> Iterator[Iterator[Any]]:
    """What comes of tasks, as they are done, by processes that end with this one when it is stopped.

    Args:
        tasks: As joblib's `delayed` makes them.
        workers: How many processes; if it is 1, this one does them.
    """
    with warnings.catch_warnings(), contextlib.ExitStack() as ends:
        warnings.filterwarnings("ignore", category=UserWarning, module=r"joblib\.parallel")  # that some are not done
        with leaving():
            done = Parallel(n_jobs=workers, return_as="generator_unordered")(tasks)
            ends.enter_context(contextlib.closing(done))
        yield done


def _press(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pressed twice, it would break off the end of other processes
    _pressed.set()
    raise Stopped
