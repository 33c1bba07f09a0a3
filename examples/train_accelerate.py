"""Train for a value-weighted score with Accelerate, alone or in several processes.

    python examples/train_accelerate.py
    torchrun --standalone --nproc-per-node 2 examples/train_accelerate.py --micro-batches 2

Both take the same steps. With ``sync=True`` the loss is that of the samples of all processes, and the mean of their
gradients, which is what a prepared model makes, is exactly the gradient of one process that has all of them.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed.nn  # before a group begins: its default arguments would keep that group from ending
from accelerate import Accelerator
from accelerate.utils import send_to_device
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw

WEIGHT = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)  # an early alarm is worth something, a lone one is worse


class Progress:
    """The losses after the epochs so far, for checkpoints."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        """What to save."""
        return vars(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""
        vars(self).update(state)


def main() -> None:
    """Train, then end the group of processes: PyTorch may hang when a model ends after the group it talks through."""
    train(read_options())
    if distributed.is_initialized():
        distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Train, judge and save after each epoch, and print the last judgement."""
    torch.set_num_threads(1)  # the network is small: a second thread would wait more than work
    # Not with gradient_accumulation_steps, which would take the mean of the scores of batches.
    accelerator = Accelerator(cpu=True)

    hours = sw.datasets.beijing_pm25(skip=30_000).split(6000, 2000, standardize=True)
    train, validation = (part.known() for part in hours[:2])
    # A step has the same samples, however many processes and micro-batches it is divided into.
    batches = batches_of(train, options.batch_size // (accelerator.num_processes * options.micro_batches))
    held_out = batches_of(validation, 1024, shuffle=False)

    torch.manual_seed(0)
    # double, so that runs can be compared to the last digits
    network = nn.Sequential(nn.Linear(17, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0)).double()
    # The loaders are not prepared: each process has its own batches already, and they would be shared out once more.
    model, optimizer = accelerator.prepare(network, torch.optim.Adam(network.parameters(), lr=0.03))
    loss = sw.ScoreLoss("tss", weight=WEIGHT, sync=True)

    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if options.checkpoint and options.checkpoint.exists():
        accelerator.load_state(options.checkpoint)
    for epoch in range(len(progress.losses), options.epochs):
        batches.batch_sampler.set_epoch(epoch)
        unread = iter(batches)
        while micro_batches := send_to_device(list(islice(unread, options.micro_batches)), accelerator.device):
            optimizer.zero_grad()
            if len(micro_batches) == 1:
                ((x, y, where),) = micro_batches
                accelerator.backward(loss(model(x), y, **where))
            else:  # in the memory of one of them, with the gradient of all of them together
                sw.parallel.accumulate(
                    *(loss, model, micro_batches),
                    backward=accelerator.backward,
                    no_sync=lambda: accelerator.no_sync(model),
                )
            optimizer.step()
        value, score = judge(accelerator, model, loss, held_out)
        accelerator.print(f"epoch {epoch + 1}: loss {value:.6f}, value-weighted TSS {score:.4f}", flush=True)
        progress.losses.append(value)
        if options.checkpoint:
            accelerator.save_state(options.checkpoint)

    value, score = judge(accelerator, model, loss, held_out)
    accelerator.print(f"held-out hours: loss {value:.6f}, value-weighted TSS {score:.4f}")
    if options.out and accelerator.is_main_process:
        parameters = nn.utils.parameters_to_vector(network.parameters()).tolist()
        options.out.write_text(json.dumps({"losses": progress.losses, "score": score, "parameters": parameters}))


def batches_of(part: sw.datasets.BeijingPM25, size: int, *, shuffle: bool = True) -> DataLoader:
    """Batches of neighbouring hours, a share for each process, with those around them that the weight looks at."""
    sampler = sw.series.ChronologicalBatchSampler(size, times=part.times, context=WEIGHT.reach, shuffle=shuffle)
    data = sw.series.WithContext(TensorDataset(part.features.double(), part.targets))
    return DataLoader(data, batch_sampler=sampler)


@torch.no_grad()
def judge(accelerator: Accelerator, model: nn.Module, loss: sw.ScoreLoss, batches: DataLoader) -> tuple[float, float]:
    """The loss of all samples, and their score at the threshold 0.5: matrices are added up, scores come last."""
    model.eval()
    matrices = []
    for batch in batches:
        x, y, where = send_to_device(batch, accelerator.device)
        logits = model(x)
        decided = sw.confusion_matrix(logits, y, weight=loss.weight, from_logits=True, **where)
        matrices.append((loss.matrix(logits, y, **where), decided))
    model.train()
    expected, decided = (sw.parallel.summed(sum(each)) for each in zip(*matrices, strict=True))
    return loss.of(expected).item(), loss.score(decided).item()


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="passes over the hours (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024, help="hours in a step (default: %(default)s)")
    parser.add_argument("--micro-batches", type=int, default=1, help="parts of a process's step (default: %(default)s)")
    parser.add_argument("--checkpoint", type=Path, help="folder to write to, and to go on from if it is there")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
