"""Three classes: thresholds on the simplex
========================================

Is a handwritten digit a 3, an 8, or any other? The classes exclude each other, and the third is four times as frequent
as the other two together. With three classes a forecast is a point of a triangle, the simplex, and so is the threshold.
The pictures show both, and the confusion matrices.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from matplotlib.tri import Triangulation, UniformTriRefiner
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay

import scorewise as sw

images, digits = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
X = torch.nn.functional.avg_pool2d(images, 2).flatten(1)  # 4 × 4 pixels are harder
y = torch.full((len(X),), 2)
y[digits == 3], y[digits == 8] = 0, 1
names = "3", "8", "other"

order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
train, validation, test = X[order].split(600)
y_train, y_validation, y_test = y[order].split(600)

# %%
# A forecast is a vector p of three probabilities, the threshold τ a vector of three numbers that sum to 1. The class is
# the one whose probability exceeds its threshold by most. With three equal thresholds that is the most probable class.
# :py:class:`scorewise.SimplexLoss` averages the 3 × 3 matrix over all τ alike, in closed form, and returns minus its
# score: here TSS, the mean of each class against the rest. The model is linear, and cannot be perfect.


def trained(loss: torch.nn.Module) -> torch.nn.Module:
    """A linear model, trained by a loss."""
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(300):
        optimizer.zero_grad()
        loss(model(train), y_train).backward()
        optimizer.step()
    return model.requires_grad_(requires_grad=False)


models = {"cross entropy": trained(torch.nn.CrossEntropyLoss()), "SimplexLoss": trained(sw.SimplexLoss("tss"))}

# %%
# :py:func:`scorewise.multiclass.best_tau` searches for the best threshold, here on the validation digits. For three
# classes the search is good but not exact.

tss = sw.multiclass.scores.get("tss")
taus, matrices = {}, {}
for name, model in models.items():
    taus[name], _ = sw.multiclass.best_tau(model(validation), y_validation, "tss", from_logits=True)
    for how, tau in (("most probable class", None), ("with thresholds", taus[name])):
        matrix = sw.multiclass.confusion_matrix(model(test), y_test, tau, from_logits=True)
        matrices[f"{name}, {how}"] = matrix
        print(f"{name}, {how}: TSS {tss(matrix):.2f} on the test digits")

# %%
# Each dot is the forecast of a test digit: the nearer to a corner, the more probable that class. The shades are the
# decisions with the thresholds that were found, and the black cross is τ, where they meet. The dashed lines are the
# borders for the most probable class.

TOP = 3**0.5 / 2


def on_paper(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where a forecast lies in a triangle with the corners (0, 0), (1, 0) and (1/2, TOP)."""
    return p[..., 1] + p[..., 2] / 2, TOP * p[..., 2]


mesh = UniformTriRefiner(Triangulation([0, 1, 0.5], [0, 0, TOP])).refine_triangulation(subdiv=7)
x, height = (torch.from_numpy(side[mesh.triangles].mean(1)) for side in (mesh.x, mesh.y))
middles = torch.stack([1 - x - height / TOP / 2, x - height / TOP / 2, height / TOP], 1)

fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    called = sw.multiclass.decide(middles, taus[name])
    ax.tripcolor(mesh, facecolors=called.numpy(), cmap=ListedColormap(["#d2e3f0", "#ffe5cf", "#d5ecd5"]))
    p = torch.softmax(model(test), 1)
    for k in (2, 0, 1):
        ax.scatter(*on_paper(p[y_test == k]), s=8, color=f"C{k}", label=f"is {names[k]}")
    for border in ([0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]):
        ax.plot(*on_paper(torch.tensor([[1 / 3, 1 / 3, 1 / 3], border])), color="0.3", linewidth=1, linestyle="--")
    ax.plot(*on_paper(taus[name]), "kx", markersize=9)
    for k, (at, side) in enumerate((((0, -0.06), "left"), ((1, -0.06), "right"), ((0.5, TOP + 0.02), "center"))):
        ax.text(*at, f"certainly {names[k]}", ha=side)
    ax.set(title=name, aspect="equal", ylim=(-0.08, TOP + 0.08))
    ax.axis("off")
axes[0].legend(loc="upper left", edgecolor="none")

# %%
# What was called what, in shares of each row:

fig, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for ax, (name, matrix) in zip(axes, matrices.items(), strict=True):
    display = ConfusionMatrixDisplay(matrix.normalized("true").cells.numpy(), display_labels=names)
    display.plot(ax=ax, cmap="Blues", colorbar=False, values_format=".2f", im_kw={"vmin": 0, "vmax": 1})
    ax.set(title=name.replace(", ", ",\n"), xlabel="called", ylabel="truth")

# %%
# Most forecasts of cross entropy lie near the corner of the frequent class, and the most probable class is hardly ever
# an 8. Thresholds move the borders towards that corner, and most of the loss in TSS is made good. After training for
# TSS the forecasts are spread over the triangle, and the most probable class is a good decision already; thresholds
# add a little.
#
# The price is the same in both: TSS counts all classes alike, so many other digits are called an 8. Scores that are
# fractions, such as HSS, may leave a class out altogether when they are trained for from the start; with HSS in place
# of TSS, the model of ``SimplexLoss`` never calls an 8, and thresholds do not help. Begin with cross entropy
# then, or mix it in with :py:class:`scorewise.CombinedLoss`. For many classes :py:class:`scorewise.OneVsRestLoss` is
# the better choice: the reference of ``SimplexLoss`` says why.
