"""transformers: a score in the Trainer of Hugging Face
====================================================

The ``Trainer`` of the transformers library takes the loss that a model returns. To train for a score, override one
method. This example trains a small network by cross entropy, and the same one for the Heidke skill score (HSS). Will
PM2.5 in Beijing be above 250 µg/m³ in six hours? Both are judged after each epoch, and in the end at every threshold.
"""

import tempfile
from typing import Any

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from transformers import EvalPrediction, PrinterCallback, Trainer, TrainingArguments

import scorewise as sw

# %%
# One method, and one function
# ----------------------------
#
# ``compute_loss`` calls the model, and hands its logits to any loss. The argument ``compute_loss_func`` looks easier.
# But the Trainer takes such a loss for a sum over samples that is already divided by their number: over several
# processes or accumulated batches it scales the gradient in a way that is right for cross entropy, not for a score.
#
# The ``eval_loss`` of a Trainer is a mean over batches, which is no score of all hours. ``compute_metrics`` gets the
# predictions of all batches and processes at once, so that a score of them is exact.


class ScoreTrainer(Trainer):
    """A Trainer with a loss of its own."""

    def __init__(self, *args: Any, loss: nn.Module, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.loss = loss

    def compute_loss(self, model: nn.Module, inputs: dict, *, return_outputs: bool = False, **_: Any) -> Any:
        """Of a batch."""
        outputs = model(inputs["features"])
        loss = self.loss(outputs["logits"], inputs["labels"])
        return (loss, outputs) if return_outputs else loss


def hss(seen: EvalPrediction) -> dict[str, float]:
    """Of all held-out hours, at the threshold 0.5."""
    logits, labels = torch.as_tensor(seen.predictions), torch.as_tensor(seen.label_ids)
    return {"hss": sw.scores.hss(sw.confusion_matrix(logits, labels, from_logits=True)).item()}


class Network(nn.Sequential):
    """Any will do. A model of the library with one label (``num_labels=1``) is used alike; squeeze its logits."""

    def forward(self, features: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        """Logits. That there are labels the Trainer learns from this signature; the loss uses them."""
        return {"logits": super().forward(features)}


# %%
# Training
# --------
#
# Batches are large, so that each has events. With several processes, ``ScoreLoss("hss", sync=True)``.

hours = sw.datasets.beijing_pm25(skip=20_000).split(12_000, 4000, standardize=True)
train, validation, test = (part.known() for part in hours)
rows, held_out = (
    [dict(zip(("features", "labels"), row, strict=True)) for row in TensorDataset(part.features, part.targets)]
    for part in (train, validation)
)
arguments = TrainingArguments(
    output_dir=tempfile.gettempdir(),  # nothing is written: there are no checkpoints
    num_train_epochs=15,
    per_device_train_batch_size=1024,
    per_device_eval_batch_size=1024,
    learning_rate=0.01,
    eval_strategy="epoch",
    save_strategy="no",
    logging_strategy="no",
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
)
trained = {}
for name, loss in {"cross entropy": nn.BCEWithLogitsLoss(), "minus HSS": sw.ScoreLoss("hss")}.items():
    torch.manual_seed(0)
    network = Network(nn.Linear(17, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    data = {"train_dataset": rows, "eval_dataset": held_out, "compute_metrics": hss}
    trainer = ScoreTrainer(network, arguments, loss=loss, **data)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trained[name] = trainer

# %%
# What is seen
# ------------
#
# At the threshold 0.5, training for HSS is ahead. With a threshold that was tuned on validation hours, cross entropy
# is about as good. The network that was trained for HSS hardly depends on the threshold: little is left to tune. The
# price is that most of its outputs are close to 0 or 1, and that they are no probabilities.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for name, trainer in trained.items():
    history = [logged["eval_hss"] for logged in trainer.state.log_history if "eval_hss" in logged]
    left.plot(range(1, len(history) + 1), history, label=name)
    with torch.no_grad():
        seen, unseen = (trainer.model(part.features)["logits"] for part in (validation, test))
    curve = sw.score_curve(unseen, test.targets, "hss", from_logits=True)
    (line,) = right.step(curve.thresholds.clamp(min=0), curve.values, where="post", label=name)
    tuned = sw.best_threshold(seen, validation.targets, "hss", from_logits=True)
    right.axvline(tuned, color=line.get_color(), linewidth=0.8, linestyle="--", label="tuned on validation")
    for threshold in (0.5, tuned):
        matrix = sw.confusion_matrix(unseen, test.targets, threshold, from_logits=True)
        print(f"trained by {name}: HSS of the test hours at {threshold:.2f} is {sw.scores.hss(matrix):.2f}")
left.set(xlabel="epoch", ylabel="HSS of the validation hours at 0.5", ylim=(0, 0.8))
left.legend(title="trained by", frameon=False)
right.set(xlabel="threshold", ylabel="HSS of the test hours", xlim=(0, 1))
right.legend(loc="lower left", frameon=False, fontsize="small")

# %%
# The recipe ``examples/train_transformers.py`` trains for a value-weighted score, in several processes, in
# micro-batches with the exact gradient of a whole step, and with checkpoints.
