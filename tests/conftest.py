import os
import tempfile

import pytest
import torch
from hypothesis import settings

# The tensors are small: more threads would wait for each other, and badly so beside other processes.
torch.set_num_threads(1)

# A slow machine is no defect of the code. What must pass before code is taken in draws the same cases each time (CI is
# set there); everyone's own runs draw others.
settings.register_profile("scorewise", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("scorewise")


def pytest_configure(config):
    """Compile into a folder of this run alone: one that is killed leaves half a library, which the next would load.

    (Headers that PyTorch compiles beforehand lie elsewhere.)
    """
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:  # workers get that of the run
        folder = tempfile.TemporaryDirectory(prefix="scorewise-compiled-", ignore_cleanup_errors=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name
        config.add_cleanup(folder.cleanup)


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="there is no accelerator on this machine"))
