"""Many labels, each with its own thresholds
=========================================

Samples may have several labels at once, some of them rare. One :py:class:`scorewise.ScoreLoss` takes all of them: each
label has its own matrix, its own score, and here its own prior, which says where its threshold is likely to be.
Afterwards every label gets its own best threshold.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_multilabel_classification

import scorewise as sw

X, Y = make_multilabel_classification(
    n_samples=6000, n_features=20, n_classes=6, n_labels=1, length=25, random_state=15
)
X, Y = torch.tensor(X, dtype=torch.float32), torch.tensor(Y, dtype=torch.float32)
Y = Y[:, Y.mean(0).argsort()]  # the rarest first
X = (X - X[:2000].mean(0)) / X[:2000].std(0)
(train, validation, test), (Y_train, Y_validation, Y_test) = X.split(2000), Y.split(2000)
rates = Y_train.mean(0)
print("rates of the labels:", ", ".join(f"{rate:.1%}" for rate in rates))

# %%
# The score is F1, averaged over labels. A prior's parameters can be tensors with one value for each label: here Beta
# densities whose means are the labels' rates. Rare labels are thus trained for low thresholds.

prior = sw.priors.Beta(8 * rates, 8 * (1 - rates))
loss = sw.ScoreLoss("f1", prior=prior, average="macro")


def trained(loss: torch.nn.Module) -> torch.nn.Module:
    """A small network with one logit for each label."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(100):
        optimizer.zero_grad()
        loss(model(train), Y_train).backward()
        optimizer.step()
    return model.requires_grad_(requires_grad=False)


models = {"cross entropy": trained(torch.nn.BCEWithLogitsLoss()), "trained for F1": trained(loss)}

# %%
# :py:func:`scorewise.best_threshold` returns a threshold for each label, and :py:func:`scorewise.confusion_matrix`
# takes them: its cells have one entry for each label, and so has the score.

found = {
    name: sw.best_threshold(model(validation), Y_validation, "f1", from_logits=True) for name, model in models.items()
}
decided = {
    "cross entropy, all at 0.5": ("cross entropy", 0.5),
    "cross entropy, tuned": ("cross entropy", found["cross entropy"]),
    "trained for F1, at the prior's mean": ("trained for F1", rates),
    "trained for F1, tuned": ("trained for F1", found["trained for F1"]),
}
f1 = {}
for name, (which, threshold) in decided.items():
    matrix = sw.confusion_matrix(models[which](test), Y_test, threshold, from_logits=True)
    f1[name] = sw.scores.f1(matrix)
    print(f"{name:36} mean F1 {f1[name].mean():.2f}, of each label", ", ".join(f"{one:.2f}" for one in f1[name]))

# %%
# F1 over the threshold on the validation samples, one curve for each label, a dot at its best threshold; and the F1 of
# each label on the test samples.

fig, axes = plt.subplots(1, 3, figsize=(12, 4), sharey=True, layout="constrained")
colors = plt.colormaps["viridis"]([0.0, 0.15, 0.3, 0.45, 0.6, 0.75])
for ax, (name, model) in zip(axes, models.items(), strict=False):
    for curve, color in zip(
        sw.score_curve(model(validation), Y_validation, "f1", from_logits=True), colors, strict=True
    ):
        ax.step(curve.thresholds, curve.values, where="post", color=color, linewidth=1)
        ax.plot(*curve.best(), "o", color=color)
    ax.set(title=f"{name}, validation samples", xlabel="threshold", xlim=(0, 1))
axes[0].set_ylabel("F1")
for place, ((name, values), marker) in enumerate(zip(f1.items(), "xo+s", strict=True)):
    axes[2].plot(
        torch.arange(6) + (place - 1.5) / 8,
        values,
        marker,
        color="C0" if "entropy" in name else "C1",
        fillstyle="none",
        label=name,
    )
axes[2].set(title="test samples", xlabel="label and its rate", xticks=range(6), ylim=(0, 1))
axes[2].set_xticklabels([f"{rate:.0%}" for rate in rates])
for tick, color in zip(axes[2].get_xticklabels(), colors, strict=True):
    tick.set_color(color)
axes[2].legend(loc="upper left", edgecolor="none", fontsize="small")

# %%
# With 0.5 for all, cross entropy never calls the rarest label. With a threshold for each label it does, and is then
# about as good as the network that was trained for F1. That one is good at the mean of its prior already, before
# anything is tuned: the prior put the thresholds where they were wanted. Its curves are flatter, too. The rarest label
# has some 60 positives among the validation samples, few to choose a threshold by: do not read much into its F1.
