"""Keras 3: a score as a compiled loss, or in a train_step
=======================================================

Keras 3 can run on PyTorch. There, :class:`scorewise.ScoreLoss` is a loss like any other: ``compile`` takes a function
of labels and outputs. A value-weighted loss must also know when the samples were. Such a function is not told; a
``train_step`` is. This example trains a network in both ways, and by cross entropy, to warn of bad air in Beijing.
"""

import os
import tempfile
import warnings
from unittest.mock import patch

import matplotlib.pyplot as plt
import torch
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw

# Keras reads these when it is imported. In a script of your own KERAS_BACKEND will do; the home is for a settings file.
with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, KERAS_BACKEND="torch", KERAS_HOME=home):
    import keras

# Will PM2.5 be above 250 µg/m³ in six hours?
train, validation, _ = (part.known() for part in sw.datasets.beijing_pm25().split(0.6, 0.2, standardize=True))

# %%
# A compiled loss
# ---------------
#
# Keras calls a loss with (n, 1) labels and outputs. It takes the mean of what comes back, which of one number is that
# number. But ``class_weight`` and ``sample_weight`` of ``fit`` would then multiply the loss as a whole, and not weigh
# samples: use the weights of this package.

tss = sw.ScoreLoss("tss")


def minus_tss(labels: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """For compile."""
    return tss(logits.squeeze(1), labels.squeeze(1))


# %%
# A train_step
# ------------
#
# An alarm one, two or three hours before an event is worth something. ``fit`` takes a ``DataLoader``, and hands its
# batches on as they are: features, targets, and the times and the context that the value weight looks at.

value = sw.weights.Value(sw.weights.PUBLISHED)
value_tss = sw.ScoreLoss("tss", weight=value)


class Forecaster(keras.Sequential):
    """A network with a training step of its own."""

    def train_step(self, batch: tuple) -> dict[str, torch.Tensor]:
        """One step of the optimizer."""
        features, targets, where = batch
        self.zero_grad()
        loss = value_tss(self(features, training=True).squeeze(1), targets, **where)
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in self.trainable_weights], self.trainable_weights)
        return {"loss": loss.detach()}


# %%
# Training and judging
# --------------------
#
# The loss that Keras reports is a mean over batches, which is no score of all hours. So a callback predicts the
# validation hours after each epoch, and scores one matrix of them at the threshold 0.5.


def judge(model: keras.Model) -> list[float]:
    """The plain and the value-weighted TSS."""
    logits = torch.as_tensor(model.predict_on_batch(validation.features)).squeeze(1)
    told = {"from_logits": True, "times": validation.times}
    matrices = (sw.confusion_matrix(logits, validation.targets, weight=weight, **told) for weight in (None, value))
    return [sw.scores.tss(matrix).item() for matrix in matrices]


in_order = sw.series.ChronologicalBatchSampler(2048, times=train.times, context=value.reach)
samples = sw.series.WithContext(TensorDataset(train.features, train.targets))
chronological = {"x": DataLoader(samples, batch_sampler=in_order), "shuffle": False}  # the sampler shuffles batches
shuffled = {"x": train.features, "y": train.targets, "batch_size": 2048}
ways = {
    "cross entropy": (keras.Sequential, keras.losses.BinaryCrossentropy(from_logits=True), shuffled),
    "minus TSS": (keras.Sequential, minus_tss, shuffled),
    "minus value-weighted TSS": (Forecaster, None, chronological),
}
judged = {}
for name, (kind, loss, data) in ways.items():
    keras.utils.set_random_seed(0)
    model = kind([keras.Input((17,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), loss)
    after = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: judged[name].append(judge(model)))  # noqa: B023  # it is called within this turn
    judged[name] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__", DeprecationWarning)  # NumPy's, of how Keras asks it
        model.fit(**data, epochs=8, verbose=0, callbacks=[after])
    plain, weighted = judged[name][-1]
    print(f"{name}: TSS {plain:.1f}, value-weighted TSS {weighted:.1f}")

# %%
# What is seen
# ------------
#
# At the threshold 0.5 cross entropy is far behind. With a tuned threshold it catches up, as
# :ref:`sphx_glr_auto_gallery_plot_value.py` shows for the same question. Whether one trains for the plain or the
# weighted score makes hardly a difference here, to either of them.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for name, epochs in judged.items():
    for ax, values in zip(axes, zip(*epochs, strict=True), strict=True):
        ax.plot(range(1, 9), values, "o-", ms=4, label=name)
axes[0].set(xlabel="epoch", ylabel="validation TSS at the threshold 0.5", ylim=(0, 1))
axes[1].set(xlabel="epoch", ylabel="value-weighted TSS")
axes[1].legend(title="trained by", frameon=False, loc="lower right")
