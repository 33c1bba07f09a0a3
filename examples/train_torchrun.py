"""Train for a value-weighted score with plain PyTorch, alone or in several processes, and go on where a run was killed.

    python examples/train_torchrun.py
    torchrun --standalone --nproc-per-node 2 examples/train_torchrun.py

Both take the same steps. With ``sync=True`` the loss is that of the samples of all processes, and the mean of their
gradients, which is what DistributedDataParallel makes, is exactly the gradient of one process that has all of them.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed.nn  # before a group begins: its default arguments would keep that group from ending
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw

WEIGHT = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)  # an early alarm is worth something, a lone one is worse


def main() -> None:
    """Train, then end the group of processes: PyTorch may hang when a model ends after the group it talks through."""
    train(read_options())
    if distributed.is_initialized():
        distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Train, judge after each epoch, and print the last judgement."""
    torch.set_num_threads(1)  # the network is small: a second thread would wait more than work
    if distributed.is_torchelastic_launched():
        distributed.init_process_group("gloo")  # on GPUs "nccl", and x, y and where go there
    rank, world = (distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else (0, 1)

    hours = sw.datasets.beijing_pm25(skip=30_000).split(6000, 2000, standardize=True)
    train, validation = (part.known() for part in hours[:2])
    # A step has the same samples, however many processes and micro-batches it is divided into.
    batches = batches_of(train, options.batch_size // (world * options.micro_batches), workers=options.workers)
    held_out = batches_of(validation, 1024, shuffle=False)

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(17, 32), nn.Tanh(), nn.Dropout(options.dropout), nn.Linear(32, 1), nn.Flatten(0)
    ).double()  # so that runs can be compared to the last digits
    torch.manual_seed(rank)  # each process has its own dropout
    model = DistributedDataParallel(network) if world > 1 else network
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    score_loss = sw.ScoreLoss("tss", weight=WEIGHT, sync=True)
    loss = score_loss if options.running is None else sw.parallel.RunningLoss(score_loss, options.running)
    parts = {"network": network, "optimizer": optimizer, "loss": loss}

    epoch, steps = resume(options.checkpoint, parts, rank, world)
    losses: list[float] = []
    while epoch < options.epochs:
        batches.batch_sampler.set_epoch(epoch, start=steps * options.micro_batches)
        unread = iter(batches)
        while micro_batches := list(islice(unread, options.micro_batches)):
            optimizer.zero_grad()
            if len(micro_batches) == 1:
                ((x, y, where),) = micro_batches
                loss(model(x), y, **where).backward()
            else:  # in the memory of one of them, with the gradient of all of them together
                sw.parallel.accumulate(loss, model, micro_batches)
            optimizer.step()
            steps += 1
            if options.checkpoint and steps % options.every == 0:
                save(options.checkpoint, parts, epoch, steps, world)
        epoch, steps = epoch + 1, 0
        value, score = judge(model, score_loss, held_out)
        losses.append(value)
        if rank == 0:
            print(f"epoch {epoch}: loss {value:.6f}, value-weighted TSS {score:.4f}", flush=True)

    value, score = judge(model, score_loss, held_out)
    if rank == 0:
        parameters = nn.utils.parameters_to_vector(network.parameters()).tolist()
        if options.out:
            options.out.write_text(json.dumps({"losses": losses, "score": score, "parameters": parameters}))
        print(f"held-out hours: loss {value:.6f}, value-weighted TSS {score:.4f}")


def batches_of(part: sw.datasets.BeijingPM25, size: int, *, shuffle: bool = True, workers: int = 0) -> DataLoader:
    """Batches of neighbouring hours, a share for each process, with those around them that the weight looks at."""
    sampler = sw.series.ChronologicalBatchSampler(size, times=part.times, context=WEIGHT.reach, shuffle=shuffle)
    data = sw.series.WithContext(TensorDataset(part.features.double(), part.targets))
    # A generator of its own: a loader draws a seed for its workers, which a resumed run would draw once more.
    return DataLoader(data, batch_sampler=sampler, num_workers=workers, generator=torch.Generator())


@torch.no_grad()
def judge(model: nn.Module, loss: sw.ScoreLoss, batches: DataLoader) -> tuple[float, float]:
    """The loss of all samples, and their score at the threshold 0.5: matrices are added up, scores come last."""
    model.eval()
    matrices = []
    for x, y, where in batches:
        logits = model(x)
        decided = sw.confusion_matrix(logits, y, weight=loss.weight, from_logits=True, **where)
        matrices.append((loss.matrix(logits, y, **where), decided))
    model.train()
    expected, decided = (sw.parallel.summed(sum(each)) for each in zip(*matrices, strict=True))
    return loss.of(expected).item(), loss.score(decided).item()


def save(path: Path, parts: dict[str, Any], epoch: int, steps: int, world: int) -> None:
    """Write all that a run needs to go on, at once or not at all."""
    random = [torch.get_rng_state()]
    if world > 1:
        random = random * world
        distributed.all_gather_object(random, torch.get_rng_state())
        if distributed.get_rank() > 0:
            return
    state = {name: part.state_dict() for name, part in parts.items()}
    beside = path.with_name(path.name + ".new")
    torch.save(state | {"random": random, "epoch": epoch, "steps": steps}, beside)
    beside.replace(path)


def resume(path: Path | None, parts: dict[str, Any], rank: int, world: int) -> tuple[int, int]:
    """Put everything back; return the epoch, and how many of its steps were taken before."""
    if path is None or not path.exists():
        return 0, 0
    saved = torch.load(path, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    if world == len(saved["random"]):  # another number of processes can go on, too, with another dropout
        torch.set_rng_state(saved["random"][rank])
    if rank == 0:
        print(f"resumed in epoch {saved['epoch'] + 1}, {saved['steps']} steps of which were taken", flush=True)
    return saved["epoch"], saved["steps"]


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="passes over the hours (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024, help="hours in a step (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=0, help="processes that load batches (default: %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.0, help="share of units left out (default: %(default)s)")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--micro-batches", type=int, default=1, help="parts of a process's step (default: %(default)s)")
    ways.add_argument("--running", type=float, metavar="DECAY", help="average the matrices of batches; see RunningLoss")
    parser.add_argument("--checkpoint", type=Path, help="file to write, and to go on from if it is there")
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
