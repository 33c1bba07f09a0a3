"""Run a script, ``python tests/unhurried.py SCRIPT ARGUMENTS``, where threads get Python's lock only if others wait.

A worker of a process group that has not let go of its last tensor when the group ends is rare, and PyTorch then waits
for ever or aborts. Here it is common.
"""

import runpy
import sys

if __name__ == "__main__":
    sys.setswitchinterval(10.0)  # seconds; usually 0.005
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
