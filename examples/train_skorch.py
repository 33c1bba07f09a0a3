"""Train for a value-weighted score with skorch, alone or, with its AccelerateMixin, in several processes.

    python examples/train_skorch.py
    torchrun --standalone --nproc-per-node 2 examples/train_skorch.py

Both take the same steps. With ``sync=True`` the loss is that of the samples of all processes, and the mean of their
gradients, which is what Accelerate makes, is exactly the gradient of one process that has all of them.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.nn  # before a group begins: its default arguments would keep that group from ending
from skorch import NeuralNet
from skorch.callbacks import Callback
from skorch.hf import AccelerateMixin
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

import scorewise as sw

WEIGHT = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)  # an early alarm is worth something, a lone one is worse
LOSS = sw.ScoreLoss("tss", weight=WEIGHT, sync=True)


class Network(nn.Module):
    """A small network, which has no use for what only the loss must know."""

    def __init__(self) -> None:
        super().__init__()
        # double, so that runs can be compared to the last digits
        self.layers = nn.Sequential(nn.Linear(17, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0)).double()

    def forward(self, x: Tensor, where: Any = None) -> Tensor:
        """Logits."""
        return self.layers(x)


class ScoreNet(NeuralNet):
    """A net whose loss knows when the samples were, and which of them count."""

    def get_loss(self, y_pred: Tensor, y_true: Tensor, X: Any = None, *args: Any, **kwargs: Any) -> Tensor:
        """The loss of a batch."""
        return self.criterion_(y_pred, y_true, **X["where"])


class SharedScoreNet(AccelerateMixin, ScoreNet):
    """The same, in several processes."""

    def get_iterator(self, *args: Any, **kwargs: Any) -> DataLoader:
        """Not the mixin's, which would share out once more what each process has its share of."""
        return ScoreNet.get_iterator(self, *args, **kwargs)


class Judge(Callback):
    """After each epoch, the loss of all validation hours, and their score at the threshold 0.5.

    With a train_split skorch would take the mean over batches, which is no score.
    """

    def __init__(self, batches: DataLoader) -> None:
        self.batches = batches

    @torch.no_grad()
    def on_epoch_end(self, net: NeuralNet, **kwargs: Any) -> None:
        """Matrices are added up over batches and processes, scores come last."""
        net.module_.eval()
        matrices = []
        for x, y in self.batches:
            logits = net.infer(x)
            decided = sw.confusion_matrix(logits, y, weight=WEIGHT, from_logits=True, **x["where"])
            matrices.append((LOSS.matrix(logits, y, **x["where"]), decided))
        expected, decided = (sw.parallel.summed(sum(each)) for each in zip(*matrices, strict=True))
        net.history.record("valid_loss", LOSS.of(expected).item())
        net.history.record("valid_score", LOSS.score(decided).item())


def main() -> None:
    """Train, then end the group of processes: PyTorch may hang when a model ends after the group it talks through."""
    train(read_options())
    if distributed.is_initialized():
        distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Train, judge after each epoch, and print the last judgement."""
    torch.set_num_threads(1)  # the network is small: a second thread would wait more than work
    world = int(os.environ.get("WORLD_SIZE", "1"))
    kind, shared = ScoreNet, {}
    if world > 1:
        from accelerate import Accelerator

        kind, shared = SharedScoreNet, {"accelerator": Accelerator(cpu=True)}

    hours = sw.datasets.beijing_pm25(skip=30_000).split(6000, 2000, standardize=True)
    train, validation = (part.known() for part in hours[:2])
    # A step has the same samples, however many processes share it.
    batches = batches_of(train, options.batch_size // world)
    torch.manual_seed(0)
    net = kind(
        Network,
        criterion,
        optimizer=torch.optim.Adam,
        lr=0.03,
        max_epochs=options.epochs,
        train_split=None,
        iterator_train__batch_sampler=batches.batch_sampler,
        iterator_train__batch_size=1,  # as of a loader that is told none: the sampler knows
        iterator_train__collate_fn=collate,
        callbacks=[Judge(batches_of(validation, 1024, shuffle=False))],
        **shared,
    )
    net.fit(batches.dataset, None)

    value, score = net.history[-1, ("valid_loss", "valid_score")]
    if batches.batch_sampler.rank == 0:
        print(f"held-out hours: loss {value:.6f}, value-weighted TSS {score:.4f}")
        if options.out:
            parameters = nn.utils.parameters_to_vector(net.module_.parameters()).tolist()
            kept = {"losses": net.history[:, "valid_loss"], "score": score, "parameters": parameters}
            options.out.write_text(json.dumps(kept))


def criterion() -> Callable[..., Tensor]:
    """The loss as a function: the mixin would wrap a module, which on CPUs fails if it has no parameters."""
    return LOSS.forward


def batches_of(part: sw.datasets.BeijingPM25, size: int, *, shuffle: bool = True) -> DataLoader:
    """Batches of neighbouring hours, a share for each process, with those around them that the weight looks at."""
    sampler = sw.series.ChronologicalBatchSampler(size, times=part.times, context=WEIGHT.reach, shuffle=shuffle)
    data = sw.series.WithContext(TensorDataset(part.features.double(), part.targets))
    return DataLoader(data, batch_sampler=sampler, collate_fn=collate)


def collate(samples: list[Any]) -> tuple[dict[str, Any], Tensor]:
    """Inputs and targets, and nothing else: skorch takes pairs."""
    x, y, where = default_collate(samples)
    return {"x": x, "where": where}, y


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="passes over the hours (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024, help="hours in a step (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
