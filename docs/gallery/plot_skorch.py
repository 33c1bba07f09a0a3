"""skorch: the loss as a parameter of a scikit-learn estimator
===========================================================

skorch makes a scikit-learn estimator of a PyTorch network. :class:`scorewise.ScoreLoss` is its ``criterion``, and each
argument of the loss is a parameter that ``GridSearchCV`` can search. Which score should one train for, and under which
prior of the threshold, if the network will be judged by its CSI?
"""

import matplotlib.pyplot as plt
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, train_test_split
from skorch import NeuralNetBinaryClassifier
from skorch.callbacks import EpochScoring
from torch import nn

import scorewise as sw

X, y = make_classification(20_000, 20, n_informative=8, weights=[0.94], flip_y=0.02, class_sep=0.8, random_state=0)
X, y = X.astype("float32"), y.astype("float32")
X, X_test, y, y_test = train_test_split(X, y, train_size=3000, stratify=y, random_state=0)
print(f"{len(y)} samples to train with, {y.mean():.0%} of them positive")

# %%
# A net whose criterion is a score
# --------------------------------
#
# Two things differ from a net that is trained by cross entropy. From cross entropy skorch can tell that outputs are
# logits, from a score it cannot: ``predict_nonlinearity`` says how logits become the two columns of ``predict_proba``.
# And the ``valid_loss`` that skorch keeps is a mean over batches, which is not the score of all samples.
# ``EpochScoring`` hands all validation samples to a scorer at once; :func:`scorewise.metrics.make_scorer` makes it.


def network() -> nn.Module:
    """A fresh one for each fit."""
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1))


csi = sw.metrics.make_scorer("csi")
settings = {
    "predict_nonlinearity": lambda logits: torch.stack([-logits, logits], 1).sigmoid(),
    "optimizer": torch.optim.Adam,
    "lr": 0.01,
    "batch_size": 500,  # large, so that each batch has positives to score
    "max_epochs": 20,
    "iterator_train__shuffle": True,
    "callbacks": [("csi", EpochScoring(csi, lower_is_better=False, name="csi"))],
    "verbose": 0,
}
criteria = {
    "cross entropy": {"criterion": nn.BCEWithLogitsLoss},
    "minus CSI": {"criterion": sw.ScoreLoss, "criterion__score": "csi"},
    "minus TSS": {"criterion": sw.ScoreLoss, "criterion__score": "tss"},
}
nets = {}
for name, criterion in criteria.items():
    torch.manual_seed(0)
    nets[name] = NeuralNetBinaryClassifier(network, **criterion, **settings).fit(X, y)
    print(f"trained by {name}: CSI of the test samples {csi(nets[name], X_test, y_test):.2f}")

# %%
# A search over scores and priors
# -------------------------------
#
# ``criterion__score`` and ``criterion__prior`` are parameters like any other. The prior says which thresholds matter:
# all alike (Uniform), or those around 0.5 (Beta), where ``predict`` decides.

torch.manual_seed(0)
grid = {"criterion__score": ["csi", "tss"], "criterion__prior": [sw.priors.Uniform(), sw.priors.Beta(4, 4)]}
searched = clone(nets["minus CSI"]).set_params(train_split=None, callbacks__csi=None)
search = GridSearchCV(searched, grid, scoring=csi, cv=3, refit=False).fit(X, y)

# %%
# What is seen
# ------------
#
# Who is judged by CSI should not train for TSS: where events are rare, TSS forgives false alarms that CSI does not.
# Training for CSI gets there in fewer epochs than cross entropy, and in the end hardly further. The prior makes
# little difference beside that of the folds.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, model in nets.items():
    left.plot(model.history[:, "epoch"], model.history[:, "csi"], label=name)
left.set(xlabel="epoch", xticks=range(0, 21, 5), ylabel="CSI of the validation samples", ylim=(0, 0.7))
left.legend(title="trained by", frameon=False)
names = [f"{one['criterion__score']}\n{type(one['criterion__prior']).__name__}" for one in search.cv_results_["params"]]
for fold in range(3):
    right.plot(names, search.cv_results_[f"split{fold}_test_score"], "o", color="tab:blue", alpha=0.5)
right.plot(names, search.cv_results_["mean_test_score"], "k_", ms=24)
right.set(xlabel="score and prior of the loss", ylabel="CSI of three folds, and their mean", ylim=(0, 0.7))

# %%
# The recipe ``examples/train_skorch.py`` trains for a value-weighted score of a time series, for which the loss must
# know when the samples were, and in several processes.
