"""How much of a batch to work on at a time.

Elementwise steps on a large tensor each go through main memory, and each fresh result costs page faults; the same
steps on one stretch after another stay in the processor's cache. Only eager code on a CPU gains: a compiler fuses the
steps, and an accelerator wants all of the work at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

_PER_THREAD = 1 << 16  # numbers; PyTorch gives a thread at least 2^15, and a few such tensors fit in a core's cache


def rows_per_block(x: Tensor) -> int:
    """How many rows of ``x`` to take at a time; at least all of them where blocks do not pay."""
    if torch.compiler.is_compiling() or x.device.type != "cpu" or x.dim() == 0:
        return max(1, x.shape[0] if x.dim() else 1)
    per_row = max(1, x.numel() // max(1, x.shape[0]))
    return max(1, _PER_THREAD * torch.get_num_threads() // per_row)
