"""Costs that differ from sample to sample
========================================

Card transactions: a fraud that is missed costs its amount, and a transaction that is checked for nothing costs 5 €.
So every sample has costs of its own, which losses, matrices and curves take as ``costs=``. What do a fixed threshold,
a tuned one, probabilities, and training for the cost itself lead to?
"""

import matplotlib.pyplot as plt
import torch

import scorewise as sw

CHECK = 5.0  # €

# %%
# The transactions are made up: amounts are log-normal, and about 4% are frauds, which depends on three features
# and, a little, on the amount.

n = 24_000
noise = torch.Generator().manual_seed(0)
amount = torch.exp(3 + 1.2 * torch.randn(n, generator=noise))
features = torch.randn(n, 3, generator=noise)
odds = 1.5 * features[:, 0] + features[:, 1] * features[:, 2] + 0.3 * (amount.log() - 3) - 4.6
fraud = (torch.rand(n, generator=noise) < torch.sigmoid(odds)).float()
X = torch.cat([features, amount.log()[:, None] - 3], 1)
costs = torch.stack([torch.full((n,), CHECK), amount], 1)  # as a false positive, as a false negative
(train, validation, test), (y_train, y_validation, y_test) = X.split(8000), fraud.split(8000)
costs_train, costs_validation, costs_test = costs.split(8000)
print(f"{fraud.mean():.1%} frauds, of {amount[fraud > 0].mean():.0f} € on average")

# %%
# One network is trained by cross entropy, which knows nothing of costs, and one for minus the total cost. The score
# ``"cost"`` adds up the two cells of errors, here in euros.


def trained(loss: torch.nn.Module, **more: torch.Tensor) -> torch.nn.Module:
    """A small network, trained by a loss."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1), torch.nn.Flatten(start_dim=0)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        loss(model(train), y_train, **more).backward()
        optimizer.step()
    return model.requires_grad_(requires_grad=False)


entropy = trained(torch.nn.BCEWithLogitsLoss())
oriented = trained(sw.ScoreLoss("cost"), costs=costs_train)

# %%
# Thresholds come from the validation transactions. The last rule needs none: it checks where the cost to be expected
# without a check, probability times amount, exceeds that of a check for nothing. If the probabilities are right, no
# decision is better (Elkan, *The foundations of cost-sensitive learning*, 2001).


def tuned(model: torch.nn.Module) -> float:
    """The threshold with the least cost."""
    return sw.best_threshold(model(validation), y_validation, "cost", from_logits=True, costs=costs_validation)


def checks(model: torch.nn.Module, threshold: float) -> torch.Tensor:
    """Which test transactions are checked."""
    return torch.sigmoid(model(test)) > threshold


p = torch.sigmoid(entropy(test))
rules = {
    "cross entropy at 0.5": checks(entropy, 0.5),
    "cross entropy, tuned": checks(entropy, tuned(entropy)),
    "trained for cost at 0.5": checks(oriented, 0.5),
    "trained for cost, tuned": checks(oriented, tuned(oriented)),
    "probability × amount": p * costs_test[:, 1] > (1 - p) * CHECK,
}
print(f"{'no checks':24} cost {(y_test * costs_test[:, 1]).sum():6.0f} €")
for name, checked in rules.items():
    matrix = sw.confusion_matrix(checked.float(), y_test, costs=costs_test)
    print(f"{name:24} cost {matrix.fp + matrix.fn:6.0f} €, of which {matrix.fp:5.0f} € for {checked.sum()} checks")

# %%
# On the left, the cost of all test transactions over the threshold. On the right, what each rule has saved, one
# transaction after another, against no checks at all.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, model in (("cross entropy", entropy), ("trained for cost", oriented)):
    curve = sw.score_curve(model(test), y_test, "cost", from_logits=True, costs=costs_test)
    (line,) = left.step(curve.thresholds, -curve.values / 1000, where="post", label=name)
    left.axvline(tuned(model), color=line.get_color(), linewidth=0.8, linestyle="--", label="tuned on validation")
left.set(xlabel="threshold", ylabel="cost (1000 €)", xlim=(0, 1), ylim=(0, None))
left.legend(edgecolor="none", fontsize="small")
for (name, checked), color in zip(rules.items(), ("C0", "C0", "C1", "C1", "C2"), strict=True):
    saved = checked * torch.where(y_test > 0, costs_test[:, 1], -CHECK)
    right.plot(saved.cumsum(0) / 1000, color=color, linestyle="--" if "0.5" in name else "-", label=name)
right.set(xlabel="transactions", ylabel="saved so far (1000 €)")
right.legend(edgecolor="none", fontsize="small")

# %%
# One threshold for the probability of fraud cannot know what is at stake. The probability together with the amount
# does, and so does the network that was trained for the cost: both do much better. Between these two, differences are
# what a few large frauds make of them, and another seed may turn them round.
#
# With good probabilities, and costs that are known when the decision is made, the rule of probability times amount is
# the simpler way. Training for the cost is for when probabilities cannot be trusted, or when a cost is known for past
# samples only.
