"""Lightning: log the score of an epoch, not the mean of its batches
=================================================================

Lightning logs the mean of what batches report. For cross entropy that is the cross entropy of the epoch. For a score it
is not, and with rare events it can be far off: a batch without an event has no score worth the name.

This example trains for the true skill statistic (TSS) with Lightning's ``Trainer``, and logs the validation TSS in both
ways: as the mean of batches, and from one confusion matrix of all validation hours.
"""

import logging
import warnings

import matplotlib.pyplot as plt
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


# %%
# The module
# ----------
#
# The loss is called as any other. :class:`scorewise.metrics.WeightedScore` is a metric of torchmetrics: it adds up the
# matrices of batches, and in several processes those of all of them, and scores last. Lightning knows such metrics, and
# computes and resets them once an epoch. With several devices, the loss takes ``sync=True``.


class Forecaster(LightningModule):
    """A small network that is trained for TSS."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(17, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
        self.loss = sw.ScoreLoss("tss", sync=True)
        self.of_all = sw.metrics.WeightedScore("tss", from_logits=True)
        self.history = []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.005)

    def training_step(self, batch: list[Tensor]) -> Tensor:
        """Minus the TSS of the batch, averaged over thresholds."""
        x, y = batch
        return self.loss(self.network(x), y)

    def validation_step(self, batch: list[Tensor]) -> None:
        """Log TSS at the threshold 0.5 in two ways."""
        x, y = batch
        logits = self.network(x)
        of_batch = sw.scores.tss(sw.confusion_matrix(logits, y, from_logits=True))
        self.log("mean of batches", of_batch, batch_size=len(y))
        self.of_all.update(logits, y)
        self.log("of all hours", self.of_all)

    def on_validation_end(self) -> None:
        """Keep what was logged."""
        self.history.append({name: value.item() for name, value in self.trainer.callback_metrics.items()})


# %%
# Training
# --------
#
# Batches to train with are large and shuffled, so that each has events. Those to validate with are weeks (168 hours
# with known labels, in order), and many of them have none. The Trainer is told to be quiet; the two warnings that are
# silenced are that Lightning asks PyTorch in a deprecated way, and that it would load so little data with more
# processes.

train, validation, _ = (part.known() for part in sw.datasets.beijing_pm25().split(0.6, 0.2, standardize=True))
torch.manual_seed(0)
batches = DataLoader(TensorDataset(train.features, train.targets), 2048, shuffle=True)
weeks = DataLoader(TensorDataset(validation.features, validation.targets), 7 * 24)
model = Forecaster()
quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
trainer = Trainer(accelerator="cpu", max_epochs=12, num_sanity_val_steps=0, **quiet)
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", ".*LeafSpec|.*many workers")
    trainer.fit(model, batches, weeks)
without = sum(not y.any() for _, y in weeks)
print(f"{without} of {len(weeks)} weeks have no event")
print(", ".join(f"{name}: TSS {value:.1f}" for name, value in model.history[-1].items()))

# %%
# What is seen
# ------------
#
# The forecast is good, and the mean of batches does not show it. To the right is the reason: TSS is the share of events
# that are seen less the share of false alarms, and in a week without an event there is nothing to be seen. Such a week
# has a TSS of at most 0. The mean also changes with the size of the batches, which says nothing about the forecast. An
# early stop or a checkpoint that watches it may choose another epoch.

with torch.no_grad():
    each = [(y.sum(), sw.scores.tss(sw.confusion_matrix(model.network(x), y, from_logits=True))) for x, y in weeks]
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for name in model.history[0]:
    left.plot(range(1, len(model.history) + 1), [logged[name] for logged in model.history], "o-", ms=4, label=name)
left.set(xlabel="epoch", ylabel="validation TSS at the threshold 0.5", ylim=(-0.2, 1.05))
left.legend(frameon=False)
right.plot(*zip(*each, strict=True), "o", alpha=0.5)
right.set(xlabel="hours with an event in a week", ylabel="TSS of the week")

# %%
# The recipe ``examples/train_lightning.py`` trains for a value-weighted score, whose batches must be in order and see
# the hours around them; in several processes; in micro-batches, for which ``accumulate_grad_batches`` will not do; and
# with checkpoints.
