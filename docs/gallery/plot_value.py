"""The value of a pollution alarm
==============================

Will PM2.5 in Beijing be above 250 µg/m³ in six hours? An alarm that comes two hours early is an error to TSS, like one
on a clear day; to those who are warned it is not. A value weight knows the difference. The picture shows a week of
alarms, and what each error weighs.
"""

from datetime import datetime, timedelta

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import torch

import scorewise as sw

record = sw.datasets.beijing_pm25()
train, validation, test = record.split(0.6, 0.2, standardize=True)
value = sw.weights.Value(sw.weights.PUBLISHED)
print(value)

# %%
# With these weights, a false alarm that is followed by an event after 1, 2 or 3 hours weighs 1 − 1/2, 1 − 1/3 or
# 1 − 1/4, and so does a missed event that an alarm went before. All other errors weigh 1. (In the skill scores as they
# were published by Guastavino, Piana and Benvenuto in 2022, an error with nothing around it weighs 2: ``isolated=2``.)
#
# Two networks: one trained by cross entropy, one for the value-weighted TSS. Some labels are unknown: ``mask`` leaves
# them out. ``times`` tells the weight which hours are neighbours.


def trained(loss: sw.ScoreLoss) -> torch.nn.Module:
    """A small network, trained on all hours at once."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(17, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1), torch.nn.Flatten(start_dim=0)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        loss(model(train.features), train.targets, mask=train.mask, times=train.times).backward()
        optimizer.step()
    return model.requires_grad_(requires_grad=False)


models = {
    "cross entropy": trained(sw.ScoreLoss("cost", weight=sw.weights.CrossEntropy())),
    "weighted TSS": trained(sw.ScoreLoss("tss", weight=value)),
}

# %%
# Each at 0.5, and at the threshold with the best weighted TSS on the validation hours; judged on the last year.

best = {}
for name, model in models.items():
    how = {"from_logits": True, "mask": validation.mask, "times": validation.times}
    best[name] = sw.best_threshold(model(validation.features), validation.targets, "tss", value, **how)
    how = {"from_logits": True, "mask": test.mask, "times": test.times}
    for threshold in (0.5, best[name]):
        plain = sw.confusion_matrix(model(test.features), test.targets, threshold, **how)
        weighted = sw.confusion_matrix(model(test.features), test.targets, threshold, value, **how)
        told = f"TSS {sw.scores.tss(plain):.2f}, weighted {sw.scores.tss(weighted):.2f}"
        print(f"{name} at {threshold:.2f}: {told}; {plain.fp:.0f} false alarms weigh {weighted.fp:.0f}", end=", ")
        print(f"{plain.fn:.0f} misses weigh {weighted.fn:.0f}")

# %%
# A week of February 2014, with the second network at its best threshold. Hours are those that the forecast is for, six
# after it was made. To see what a single error weighs, all other hours are masked: they no longer count, but the
# weight still sees them.

first = test.timestamps().index(datetime(2014, 2, 9, 14))
week = slice(first, first + 7 * 24)
events, times = test.targets[week], test.times[week]
alarms = (torch.sigmoid(models["weighted TSS"](test.features[week])) > best["weighted TSS"]).float()
weighs = torch.zeros(len(events))
for hour in range(len(events)):
    only = torch.arange(len(events)) == hour
    matrix = sw.confusion_matrix(alarms, events, weight=value, times=times, mask=only)
    weighs[hour] = matrix.fp + matrix.fn

# %%
# The value of PM2.5 itself comes from the record before it was standardised; a row's time is its place there.

hours = [stamp + timedelta(hours=test.horizon) for stamp in test.timestamps()[week]]
pm25 = record.features[times + test.horizon, record.feature_names.index("pm25")]

fig, (top, middle, bottom) = plt.subplots(
    3, 1, figsize=(10, 6), sharex=True, height_ratios=[3, 1, 2], layout="constrained"
)
top.plot(hours, pm25, color="0.3")
top.axhline(record.event, color="C3", linewidth=1, linestyle="--", label="an event is above this")
top.set_ylabel("PM2.5 (µg/m³)")
top.legend(loc="upper right", edgecolor="none")
for height, happened, color in ((1, events, "C3"), (0, alarms, "C0")):
    middle.fill_between(hours, height, height + 0.8 * happened, step="mid", color=color, linewidth=0)
middle.set(yticks=[0.4, 1.4], yticklabels=["alarm", "event"], ylim=(-0.1, 1.9))
for name, wrong, color in (("false alarm", alarms > events, "C1"), ("missed event", alarms < events, "C4")):
    bottom.vlines([hours[i] for i in wrong.nonzero()], 0, weighs[wrong], color=color, linewidth=3, label=name)
bottom.set(ylabel="weight of the error", ylim=(0, 1.35), yticks=[0, 1 / 2, 2 / 3, 3 / 4, 1])
bottom.set_yticklabels(["0", "1/2", "2/3", "3/4", "1"], fontsize="small")
bottom.legend(loc="upper right", ncols=2, edgecolor="none")
bottom.xaxis.set_major_formatter(mdates.DateFormatter("%d %b"))
bottom.set_xlabel("local time, 2014")

# %%
# The alarms that come just before the air turns bad weigh less than those that go on after it has cleared, or that
# announce nothing. So do missed hours just after an alarm. Most errors of the year are far from any event and weigh 1:
# the weighted TSS is only a little above the plain one here.
#
# Training for it is about as good as cross entropy with a tuned threshold, and no better. What a value weight changes
# is first of all what is counted, and by that which threshold, or which of two models, is preferred.
