"""TSS on imbalanced data
======================

About one sample in twenty is an event, and the forecast will be judged by the true skill statistic (TSS), which is
recall minus the false alarm rate. What does it matter whether the network was trained by cross entropy or for TSS, and
which threshold is used? The picture shows the score at every threshold, and the exactly best one.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_classification

import scorewise as sw

X, y = make_classification(
    n_samples=12_000, n_features=12, n_informative=6, weights=[0.95], class_sep=1.0, flip_y=0.01, random_state=0
)
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
(train, validation, test), (y_train, y_validation, y_test) = X.split(4000), y.split(4000)
print(f"{y.double().mean():.1%} of the samples are events")

# %%
# The same network, the same seed and the same steps, with two losses. :py:class:`scorewise.ScoreLoss` averages the
# confusion matrix over the threshold, all thresholds alike by default, and returns minus the TSS of that matrix. It is
# a function of the batch as a whole, so the batch is all of the training samples here.


def trained(loss: torch.nn.Module) -> torch.nn.Module:
    """A small network, trained by a loss."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1), torch.nn.Flatten(start_dim=0)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss(model(train), y_train.float()).backward()
        optimizer.step()
    return model.requires_grad_(requires_grad=False)


models = {"cross entropy": trained(torch.nn.BCEWithLogitsLoss()), "trained for TSS": trained(sw.ScoreLoss("tss"))}

# %%
# Thresholds are chosen on the validation samples, and judged on the test samples.
# :py:func:`scorewise.score_curve` holds the score at every threshold that makes a difference; its best one needs no
# grid.

chosen, on_validation, on_test = {}, {}, {}
for name, model in models.items():
    on_validation[name] = sw.score_curve(model(validation), y_validation, "tss", from_logits=True)
    on_test[name] = sw.score_curve(model(test), y_test, "tss", from_logits=True)
    chosen[name], _ = on_validation[name].best()
    for threshold in (0.5, chosen[name]):
        matrix = sw.confusion_matrix(model(test), y_test, threshold, from_logits=True)
        print(f"{name:15} at {threshold:.3f}: TSS {sw.scores.tss(matrix):.2f} on the test samples, {matrix}")

# %%
# On the left, the validation samples: a dot marks the best threshold of each network. On the right, the test samples
# at the same thresholds.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for name in models:
    on_validation[name].plot(left, label=name)
    curve = on_test[name]
    (line,) = right.step(curve.thresholds.clamp(min=0), curve.values, where="post", label=name)
    place = torch.searchsorted(curve.thresholds, chosen[name], right=True) - 1
    right.plot(chosen[name], curve.values[place], "o", color=line.get_color(), label="threshold from validation")
for ax, title in ((left, "validation samples"), (right, "test samples")):
    ax.axvline(0.5, color="0.6", linewidth=1, linestyle=":")
    ax.set(title=title, xlabel="threshold", xlim=(0, 1))
left.set_ylabel("TSS")
right.legend(loc="lower center", edgecolor="none", fontsize="small")

# %%
# Cross entropy gives probabilities, and for TSS the best threshold of probabilities lies near the rate of events, far
# below 0.5. At 0.5 most events are missed. Once its threshold is chosen, cross entropy is about as good as the network
# that was trained for TSS; with other data or another seed either may be a little ahead.
#
# What training for TSS changes is where the curve is high: almost everywhere, so that 0.5 costs little. That helps
# where nobody will choose a threshold. The peak of cross entropy is narrow, and the threshold from the validation
# samples misses the highest point on the test samples; yet it is at least as high as the plateau.
