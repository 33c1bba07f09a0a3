"""Run a script, ``python tests/unhurried.py SCRIPT ARGUMENTS``, where threads get Python's lock only if others wait.

A worker of a process group that has not let go of its last tensor when the group ends is rare, and PyTorch then waits
for ever or aborts. Here it is common. And a group that has been ended, but lives on because something still holds it,
would abort just as rarely, when Python ends: here that is a failure whenever it happens.
"""

import contextlib
import os
import runpy
import sys
from pathlib import Path

from torch import distributed

THREADS = Path("/proc/self/task")
"""Where Linux tells of the threads of this process."""


def workers():
    """How many threads work for groups."""
    names = []
    for thread in THREADS.glob("*/comm"):
        with contextlib.suppress(OSError):  # it may end just now
            names.append(thread.read_text())
    return sum("gloo_runloop" in name for name in names)


def watched(end):
    """The function that ends groups, which now makes sure beforehand that their threads can be seen."""

    def ended(*arguments, **options):
        assert workers() or not THREADS.exists(), "a group of processes has no threads by the name that is looked for"
        end(*arguments, **options)

    return ended


if __name__ == "__main__":
    sys.setswitchinterval(10.0)  # seconds; usually 0.005
    distributed.destroy_process_group = watched(distributed.destroy_process_group)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
    if workers():
        sys.stderr.write("threads of a group of processes are there at the end: who holds it, or has not ended it?\n")
        os._exit(1)  # as it is now, Python might not come to its end
