"""Train for a value-weighted score with the Trainer of transformers, alone or in several processes.

    python examples/train_transformers.py
    torchrun --standalone --nproc-per-node 2 examples/train_transformers.py --micro-batches 2

Both take the same steps. With ``sync=True`` the loss is that of the samples of all processes, and the mean of their
gradients, which is what the Trainer makes, is exactly the gradient of one process that has all of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, TensorDataset, default_collate
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput, get_last_checkpoint

import scorewise as sw

WEIGHT = sw.weights.Value(sw.weights.PUBLISHED, isolated=2)  # an early alarm is worth something, a lone one is worse


class ScoreTrainer(Trainer):
    """A Trainer for a score of all samples of a step: those of all processes and all micro-batches.

    Its loaders are not prepared by Accelerate, which would share out once more what each process has its share of.
    """

    # A score is no mean over samples, and must be divided neither by their number (num_items_in_batch, which a
    # compute_loss_func would be given) nor by that of the micro-batches, which this keeps the Trainer from.
    loss_is_scaled_for_ga = True

    def __init__(self, *args: Any, loss: sw.ScoreLoss, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loss = loss

    def get_train_dataloader(self) -> DataLoader:
        """What one process trains with."""
        return batches_of(self.train_dataset, self.args.train_batch_size, shuffle=True)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """What one process judges."""
        return batches_of(eval_dataset or self.eval_dataset, self.args.eval_batch_size, shuffle=False)

    def get_batch_samples(self, epoch_iterator: Iterator, num_batches: int, device: Any) -> tuple[list, None]:
        """All micro-batches of a step: before the first, the loss's tangent at all of them has to be found."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        batches = [self._prepare_inputs(batch) for batch in batches]
        if self.args.gradient_accumulation_steps > 1:
            self.model.train()  # as in the second pass: an evaluation may have come before
            parts = [(batch["x"], batch["labels"], batch["where"]) for batch in batches]
            self.first, self.unread = (
                sw.parallel.first_pass(self.loss, self.model_wrapped, parts),
                list(range(len(parts))),
            )
        return batches, None

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], **kwargs: Any) -> Tensor:
        """The loss of a step; or of a micro-batch its part of the gradient, and of the value that is logged."""
        if self.args.gradient_accumulation_steps == 1:
            return self.loss(model(inputs["x"]), inputs["labels"], **inputs["where"])
        self.first.again(self.unread.pop(0))  # with the dropout of the first pass
        tangent = self.first.tangent
        part = tangent(model(inputs["x"]), inputs["labels"], **inputs["where"])
        return part - part.detach() + tangent.value / self.current_gradient_accumulation_steps

    @torch.no_grad()
    def evaluation_loop(self, dataloader: DataLoader, *args: Any, metric_key_prefix: str, **kw: Any) -> EvalLoopOutput:
        """The loss of all samples, and their score at the threshold 0.5: matrices are added up, scores come last."""
        self.model.eval()
        matrices = []
        for batch in map(self._prepare_inputs, dataloader):
            samples = self.model(batch["x"]), batch["labels"]
            decided = sw.confusion_matrix(*samples, weight=WEIGHT, from_logits=True, **batch["where"])
            matrices.append((self.loss.matrix(*samples, **batch["where"]), decided))
        expected, decided = (sw.parallel.summed(sum(each)) for each in zip(*matrices, strict=True))
        metrics = {"loss": self.loss.of(expected).item(), "score": self.loss.score(decided).item()}
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in metrics.items()}
        return EvalLoopOutput(None, None, metrics, len(dataloader.dataset))


def main() -> None:
    """Train, then end the group of processes: PyTorch may hang when a model ends after the group it talks through."""
    train(read_options())
    if distributed.is_initialized():
        distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Train, judge and save after each epoch, and print the last judgement."""
    torch.set_num_threads(1)  # the network is small: a second thread would wait more than work
    arguments = TrainingArguments(
        output_dir=options.checkpoint or tempfile.gettempdir(),  # where nothing is written without checkpoints
        num_train_epochs=options.epochs,
        per_device_eval_batch_size=1024,
        gradient_accumulation_steps=options.micro_batches,
        lr_scheduler_type="constant",
        max_grad_norm=0,
        eval_strategy="epoch",
        save_strategy="epoch" if options.checkpoint else "no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        ddp_find_unused_parameters=False,
    )
    # A step has the same samples, however many processes and micro-batches it is divided into.
    arguments.per_device_train_batch_size = options.batch_size // (arguments.world_size * options.micro_batches)

    hours = sw.datasets.beijing_pm25(skip=30_000).split(6000, 2000, standardize=True)
    train, validation = (part.known() for part in hours[:2])
    torch.manual_seed(0)
    # double, so that runs can be compared to the last digits
    network = nn.Sequential(nn.Linear(17, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0)).double()
    trainer = ScoreTrainer(
        *(network, arguments),
        loss=sw.ScoreLoss("tss", weight=WEIGHT, sync=True),
        train_dataset=train,
        eval_dataset=validation,
        optimizers=(torch.optim.Adam(network.parameters(), lr=0.03), None),
    )
    begun = options.checkpoint and options.checkpoint.exists()
    trainer.train(resume_from_checkpoint=get_last_checkpoint(options.checkpoint) if begun else None)

    result = trainer.evaluate()
    if trainer.is_world_process_zero():
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        if options.out:
            parameters = nn.utils.parameters_to_vector(network.parameters()).tolist()
            kept = {"losses": losses, "score": result["eval_score"], "parameters": parameters}
            options.out.write_text(json.dumps(kept))
        print(f"held-out hours: loss {losses[-1]:.6f}, value-weighted TSS {result['eval_score']:.4f}")


def batches_of(part: sw.datasets.BeijingPM25, size: int, *, shuffle: bool) -> DataLoader:
    """Batches of neighbouring hours, a share for each process, with those around them that the weight looks at."""
    sampler = sw.series.ChronologicalBatchSampler(size, times=part.times, context=WEIGHT.reach, shuffle=shuffle)
    data = sw.series.WithContext(TensorDataset(part.features.double(), part.targets))
    return DataLoader(data, batch_sampler=sampler, collate_fn=collate)


def collate(samples: list[Any]) -> dict[str, Any]:
    """A batch with names, as the Trainer wants it."""
    return dict(zip(("x", "labels", "where"), default_collate(samples), strict=True))


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
