"""Bring your own network
======================

Which of these noisy digits is an 8? The network is a small convolutional one, which no table asks for. There are two
ways to train it for a score: :py:class:`scorewise.ScoreClassifier` takes it as its ``module`` and does the rest, or
:py:class:`scorewise.ScoreLoss` takes the place of cross entropy in a loop of your own. Both are here.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import scorewise as sw

images, digits = load_digits(return_X_y=True)
noise = torch.Generator().manual_seed(0)
X = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
X += 0.3 * torch.randn(X.shape, generator=noise)
y = torch.tensor(digits == 8).long()
order = torch.randperm(len(X), generator=noise)
X, y = X[order], y[order]
train, validation, test = slice(0, 900), slice(900, 1300), slice(1300, None)


def network() -> nn.Module:
    """From images (n, 1, 8, 8) to logits (n,)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32 * 4 * 4, 1),
        nn.Flatten(start_dim=0),
    )


# %%
# **ScoreClassifier.** ``module`` is a network, of which a copy is trained, or a function that makes one of the number
# of columns and the number of logits. It gets X as it is, here with all axes of an image. Training begins with cross
# entropy and goes on with half of it and half of the score; the moments that do best on the rows for validation are
# what predicts. Here we say which rows those are; left alone, the classifier keeps a fifth of all for that.

torch.manual_seed(0)
model = sw.ScoreClassifier("hss", module=network(), steps=160, progress=False, random_state=0)
model.fit(X[:1300], y[:1300], validation=torch.arange(900, 1300))
print(f"ScoreClassifier: HSS {model.score(X[test], y[test]):.1f} of the test digits", end=", ")
print(f"moments that predict: {len(model.networks_)}")

# %%
# **A loop of your own.** Cross entropy for some epochs, then the score: two lines differ from any other loop. A batch
# must hold some of either class, for which the sampler cares. :py:class:`scorewise.EpochEnsemble` keeps the epochs that
# are almost as good as the best, and lets them vote.

torch.manual_seed(0)
own = network()
optimizer = torch.optim.Adam(own.parameters(), lr=0.01)
entropy, score = nn.BCEWithLogitsLoss(), sw.ScoreLoss("hss")
ensemble = sw.EpochEnsemble("hss")
sampler = sw.series.StratifiedBatchSampler(y[train], 128)
loader = DataLoader(TensorDataset(X[train], y[train]), batch_sampler=sampler)
history = []
for epoch in range(20):
    own.train()
    for inputs, targets in loader:
        loss = entropy if epoch < 10 else score
        optimizer.zero_grad()
        loss(own(inputs), targets.float()).backward()
        optimizer.step()
    own.eval()
    with torch.no_grad():
        history.append(ensemble.update(own, own(X[validation]), y[validation]))

called = ensemble.decide(own, X[test])
matrix = sw.confusion_matrix(called.float(), y[test])
print(f"own loop: HSS {sw.scores.hss(matrix):.1f} of the test digits, epochs that vote: {len(ensemble.members)}")

# %%
# On the left, HSS on the validation digits while the networks are trained, at the best threshold of each moment; the
# dotted line is where the score comes in. On the right, digits that the votes of the second network got wrong.

fig = plt.figure(figsize=(10, 4), layout="constrained")
left, right = fig.subfigures(1, 2)
ax = left.subplots()
ax.plot([told["step"] for told in model.history_], [told["value"] for told in model.history_], label="ScoreClassifier")
ax.plot(len(loader) * torch.arange(1, len(history) + 1), history, label="own loop")
ax.axvline(len(loader) * len(history) / 2, color="0.6", linestyle=":")
ax.set(xlabel="steps", ylabel="HSS of the validation digits", ylim=(0, 1))
ax.legend(edgecolor="none")
wrong = (called != y[test]).nonzero().squeeze(1)
for ax, place in zip(right.subplots(2, 4).flat, wrong.tolist(), strict=False):
    ax.imshow(X[test][place, 0].numpy(), cmap="gray_r")
    ax.set_title("missed 8" if y[test][place] else "called 8", fontsize="small")
for ax in right.axes:
    ax.axis("off")

# %%
# Both ways are about equally good, and cross entropy has made most of the way: after half time the score adds nothing
# here, and the curves even fall a little, as the networks learn the noise of 900 digits by heart. Both ways hold on to
# the moments that were best on the validation digits: that of ``ScoreClassifier``, and some that vote in the loop, are
# from before the score came in. With a few dozen 8s there, ups and downs of a few hundredths are chance.
