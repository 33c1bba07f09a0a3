"""Train for a value-weighted score with Lightning's Trainer, alone or in several processes.

    python examples/train_lightning.py
    torchrun --standalone --nproc-per-node 2 examples/train_lightning.py --micro-batches 2

Both take the same steps. With ``sync=True`` the loss is that of the samples of all processes, and the mean of their
gradients, which is what the Trainer makes, is exactly the gradient of one process that has all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw

WEIGHT = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)  # an early alarm is worth something, a lone one is worse
QUIET = dict.fromkeys(["logger", "enable_progress_bar", "enable_model_summary"], False)


class Forecaster(LightningModule):
    """A network that is trained for a score, and judged by it over all validation hours."""

    def __init__(self) -> None:
        super().__init__()
        # double, so that runs can be compared to the last digits
        self.network = nn.Sequential(nn.Linear(17, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0)).double()
        self.loss = sw.ScoreLoss("tss", weight=WEIGHT, sync=True)
        self.matrices, self.losses = [], []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Make the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=0.03)

    def training_step(self, batch: Any, index: int) -> Tensor | None:
        """The loss of a step, the same in all processes."""
        x, y, where = batch
        return self.loss(self.network(x), y, **where)

    def validation_step(self, batch: Any, index: int) -> None:
        """Keep matrices: a mean of batches' scores, which Lightning would log, is no score."""
        x, y, where = batch
        logits = self.network(x)
        decided = sw.confusion_matrix(logits, y, weight=WEIGHT, from_logits=True, **where)
        self.matrices.append((self.loss.matrix(logits, y, **where), decided))

    def on_validation_epoch_end(self) -> None:
        """Matrices are added up over batches and processes, scores come last."""
        expected, decided = (sw.parallel.summed(sum(each)) for each in zip(*self.matrices, strict=True))
        loss, self.score = self.loss.of(expected).item(), self.loss.score(decided).item()
        self.log("loss", loss, sync_dist=True)  # all processes have the same
        self.losses.append(loss)
        self.matrices.clear()
        self.print(f"epoch {self.current_epoch + 1}: loss {loss:.6f}, value-weighted TSS {self.score:.4f}")


class MicroBatchForecaster(Forecaster):
    """The same, with steps of several batches and the gradient of all of them together.

    Trainer(accumulate_grad_batches=…) would take the mean of the batches' own gradients, which is that of no score.
    """

    automatic_optimization = False

    def __init__(self, micro_batches: int) -> None:
        super().__init__()
        self.micro_batches, self.waiting = micro_batches, []

    def training_step(self, batch: Any, index: int) -> None:
        """Wait for a step's last micro-batch, and take the step."""
        self.waiting.append(batch)
        if len(self.waiting) < self.micro_batches and not self.trainer.is_last_batch:
            return
        optimizer = self.optimizers()
        optimizer.zero_grad()
        sw.parallel.accumulate(
            *(self.loss, self.network, self.waiting),
            backward=self.manual_backward,
            no_sync=getattr(
                self.trainer.strategy, "block_backward_sync", contextlib.nullcontext
            ),  # one device has none
        )
        optimizer.step()
        self.waiting = []


def main() -> None:
    """Train, then end the group of processes: PyTorch may hang when a model ends after the group it talks through."""
    train(read_options())
    if distributed.is_initialized():
        distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Train, judge and save after each epoch, and print the last judgement."""
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*LeafSpec")  # Lightning 2.6 asks PyTorch 2.13 in an old way
    torch.set_num_threads(1)  # the network is small: a second thread would wait more than work
    world = int(os.environ.get("WORLD_SIZE", "1"))

    hours = sw.datasets.beijing_pm25(skip=30_000).split(6000, 2000, standardize=True)
    train, validation = (part.known() for part in hours[:2])
    # A step has the same samples, however many processes and micro-batches it is divided into.
    batches = batches_of(train, options.batch_size // (world * options.micro_batches))
    held_out = batches_of(validation, 1024, shuffle=False)
    torch.manual_seed(0)
    model = Forecaster() if options.micro_batches == 1 else MicroBatchForecaster(options.micro_batches)
    path = options.checkpoint
    trainer = Trainer(
        accelerator="cpu",
        devices=world,
        use_distributed_sampler=False,  # each process has its own batches already
        num_sanity_val_steps=0,
        max_epochs=options.epochs,
        callbacks=[ModelCheckpoint(path.parent, path.stem, enable_version_counter=False)] if path else [],
        enable_checkpointing=path is not None,
        **QUIET,
    )
    trainer.fit(model, batches, held_out, ckpt_path=path if path and path.exists() else None)
    if not model.losses:  # there was nothing left to do
        trainer.validate(model, held_out, verbose=False)

    trainer.print(f"held-out hours: loss {model.losses[-1]:.6f}, value-weighted TSS {model.score:.4f}")
    if options.out and trainer.is_global_zero:
        parameters = nn.utils.parameters_to_vector(model.parameters()).tolist()
        options.out.write_text(json.dumps({"losses": model.losses, "score": model.score, "parameters": parameters}))


def batches_of(part: sw.datasets.BeijingPM25, size: int, *, shuffle: bool = True) -> DataLoader:
    """Batches of neighbouring hours, a share for each process, with those around them that the weight looks at."""
    sampler = sw.series.ChronologicalBatchSampler(size, times=part.times, context=WEIGHT.reach, shuffle=shuffle)
    data = sw.series.WithContext(TensorDataset(part.features.double(), part.targets))
    return DataLoader(data, batch_sampler=sampler)


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="passes over the hours (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024, help="hours in a step (default: %(default)s)")
    parser.add_argument("--micro-batches", type=int, default=1, help="parts of a process's step (default: %(default)s)")
    parser.add_argument("--checkpoint", type=Path, help="file to write, and to go on from if it is there")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
