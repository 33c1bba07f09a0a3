"""How much of a device's bandwidth a step uses, beside a copy from device to device."""

from __future__ import annotations

import torch

from benchmarks import loss_peers
from benchmarks.timing import Calls, Rows, logits, step, take_turns

COPY = "copy"
MOVED = 20
"""Bytes per sample that must move; see `compare`."""


def compare(n: int, seconds: float, device: str) -> Rows:
    """Bytes that must move in a step, over its time, as a share of what a copy of the same total size reaches.

    The model, for float32 logits and labels and a batch far larger than any cache: forward reads z and y, 4 + 4 bytes
    a sample. The gradient of a sample depends on sums over all samples, so that backward can only begin when forward
    is through, and reads z and y again, 4 + 4 bytes, and writes the gradient, 4 bytes: 20 bytes in all. Cross entropy
    could do with less, but as two passes, which is what autograd runs, it has the same 20. Whatever a loss moves
    beyond that counts as time lost. The copy reads 10 n bytes and writes 10 n, so that both move 20 n bytes.

    Args:
        n: The size of the batch.
        seconds: How long to measure, as in `take_turns`.
        device: "cpu" or "cuda".

    Returns:
        Times, GB/s and the share of the copy's GB/s, the copy first; LibAUC, which adds up in Python, is left out and
        named. One line that says so where memory is short.
    """
    if short := loss_peers.no_room(n, device):
        return [{"n": n, "what": "all", "left_out": short}]
    z, y = logits(n, device)
    found, _ = loss_peers.peers(device)
    slow = [what for what in found if "LibAUC" in what]
    source = torch.ones(MOVED // 2 * n, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    calls: Calls = {COPY: lambda: target.copy_(source)}
    calls |= {what: step(loss, z, y) for what, loss in (loss_peers.ours() | found).items() if what not in slow}
    times = take_turns(calls, seconds, device)
    rows: Rows = [
        {
            "n": n,
            "what": what,
            **taken.row(),
            "gb_per_s": round(MOVED * n / taken.median / 1e9, 2),
            "share": round(times[COPY].median / taken.median, 4),
        }
        for what, taken in times.items()
    ]
    return rows + [{"n": n, "what": what, "left_out": "it adds up in Python, sample by sample"} for what in slow]
