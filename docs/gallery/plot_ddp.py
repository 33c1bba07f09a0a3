"""Several processes: exact under DistributedDataParallel
======================================================

``DistributedDataParallel`` gives each process its share of a batch and takes the mean of their gradients. For cross
entropy and equal shares that is the gradient of the whole batch. For a score it is not, because a score is no mean over
samples. Confusion matrices do add up. With ``sync=True`` all processes of a :class:`scorewise.ScoreLoss` add up their
matrices before they score.

This example takes the same 120 steps three times: in one process, in two with ``sync=True``, and in two without. Does
the number of processes change what is learnt?
"""

import json
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

# %%
# A training script that does not know how many processes there are
# ------------------------------------------------------------------
#
# Processes need a file of their own, so the script is written out below. ``torchrun`` starts it; one process can also
# import it. A step has 64 hours of the Beijing record, about four of which come before an event. Each process takes its
# share of them. The network starts from the same parameters everywhere, and in double precision, so that differences
# are seen down to the last digits.

SCRIPT = """
import json, sys
import torch
import torch.distributed.nn  # before the group begins
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
import scorewise as sw

def train(*, sync, rank=0, world=1):
    hours = sw.datasets.beijing_pm25(skip=30_000).split(6000, 2000, standardize=True)
    (x, y), held_out = ((part.features.double(), part.targets) for part in (hours[0].known(), hours[1].known()))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(17, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0)).double()
    model = DistributedDataParallel(network) if world > 1 else network
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    loss, judge = sw.ScoreLoss("csi", sync=sync), sw.ScoreLoss("csi")
    draw = torch.Generator().manual_seed(0)
    trace = []
    for _ in range(120):
        rows = torch.randint(len(y), (64,), generator=draw)  # the same in all processes
        share = rows[rank::world]
        optimizer.zero_grad()
        loss(model(x[share]), y[share]).backward()
        optimizer.step()
        with torch.no_grad():
            trace.append(judge(network(held_out[0]), held_out[1]).item())
    return {"trace": trace, "parameters": nn.utils.parameters_to_vector(network.parameters()).tolist()}

if __name__ == "__main__":
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    found = {name: train(sync=name == "sync", rank=rank, world=world) for name in ("sync", "none")}
    if rank == 0:
        with open(sys.argv[1], "w") as file:
            json.dump(found, file)
    distributed.destroy_process_group()
"""

# %%
# One process, and two
# --------------------
#
# The command is what one would type in a shell as
# ``torchrun --standalone --nproc-per-node 2 train.py found.json``. On GPUs the backend is ``nccl`` instead of ``gloo``.
# The group of processes ends when ``train`` has returned, and the model in it is gone: with ``gloo``, PyTorch may hang
# when a ``DistributedDataParallel`` ends after the group that it talks through, and abort when nobody ends the group.
# ``torch.distributed.nn`` is imported before the group begins. PyTorch would import it later, and default arguments of
# its functions would then be that group, which would live on after its end, and might abort, too.

with tempfile.TemporaryDirectory() as folder:
    script, out = Path(folder, "train.py"), Path(folder, "found.json")
    script.write_text(SCRIPT)
    alone = runpy.run_path(str(script))["train"](sync=True)  # with one process, sync changes nothing
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": folder}
    subprocess.run([*torchrun, script, out], check=True, capture_output=True, env=environment)  # noqa: S603  # our own script
    found = json.loads(out.read_text())

for name, text in {"sync": "sync=True", "none": "no sync"}.items():
    apart = max(abs(a - b) for a, b in zip(found[name]["parameters"], alone["parameters"], strict=True))
    print(f"two processes, {text}: parameters within 1e-8 of those of one process: {apart < 1e-8}")

# %%
# What is seen
# ------------
#
# With ``sync=True`` two processes draw the line of one. The difference, to the right, is what rounding makes of sums in
# another order (no difference at all is drawn as 1e-17). Without ``sync`` each process trains for the CSI of its own 32
# hours, and the run goes its own way. That way need not be worse: here both end at about the same loss. It is another
# problem than the one that was posed, and it changes with the number of processes.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
steps = range(1, len(alone["trace"]) + 1)
left.plot(steps, alone["trace"], lw=5, alpha=0.35, label="one process")
left.plot(steps, found["sync"]["trace"], "k--", lw=1.2, label="two, sync=True")
left.plot(steps, found["none"]["trace"], color="tab:red", label="two, no sync")
left.set(xlabel="step", ylabel="loss of held-out hours (minus CSI)")
left.legend(frameon=False)
for name, colour in {"none": "tab:red", "sync": "black"}.items():
    gap = [max(abs(a - b), 1e-17) for a, b in zip(found[name]["trace"], alone["trace"], strict=True)]
    right.semilogy(steps, gap, color=colour)
right.set(xlabel="step", ylabel="difference from one process (CSI)")
fig.suptitle("Two processes take the steps of one, if they share their matrices")

# %%
# The recipe ``examples/train_torchrun.py`` does the same with a value-weighted score, whose processes must also see the
# hours around their share, and adds micro-batches, checkpoints and the judgement of held-out hours. The recipes for
# Lightning, Fabric, Accelerate, the Trainer of transformers and skorch need the same one word, ``sync=True``.
