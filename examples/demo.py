"""Train one network twice on Beijing's PM2.5, by cross entropy and by a score; compare on held-out hours.

Both trainings share the data, the first weights, the order of the batches, the budget, and the rules that
pick an epoch on the validation hours. There are two rules: the best score at the threshold 0.5; and the best
score at the best of all thresholds, which is then kept for the held-out hours. The second makes the fair
opponent: whoever trains by cross entropy can tune a threshold afterwards, for next to nothing.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from scorewise.datasets import BeijingPM25

SHOWN = ("tss", "hss", "csi", "f1")


@dataclass
class Best:
    """The best epoch so far by one rule."""

    value: float
    threshold: float
    network: nn.Module


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--score", default="tss", choices=SHOWN, help="the score to train for (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="trainings to average over (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the hours (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the network is small: a second thread would wait more than work

    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "cross entropy": binary_cross_entropy_with_logits,
        f'ScoreLoss("{options.score}")': sw.ScoreLoss(options.score),
    }

    data = sw.datasets.beijing_pm25()
    print(f"Will PM2.5 in Beijing be above {data.event:g} µg/m³ in {data.horizon} hours?")
    parts = data.split(0.6, 0.2, standardize=True)
    for part, name in zip(parts, ("training", "validation", "held out"), strict=True):
        first, *_, last = part.timestamps()
        events = part.targets[part.mask].mean().item()
        print(f"  {name:<11} {first:%Y-%m-%d} to {last:%Y-%m-%d}  {len(part):6,} hours  {events:.1%} events")
    train, validation, test = (part.known() for part in parts)

    print(f"\nTraining 2 × {options.seeds} networks, {options.epochs} epochs each:")
    started = time.perf_counter()
    found: dict[tuple[str, str], list[Tensor]] = {}
    for seed in range(options.seeds):
        for name, loss in losses.items():
            torch.manual_seed(seed)
            kept = fit(loss, train, validation, score=options.score, epochs=options.epochs)
            on_validation = ", ".join(f"{best.value:.3f} at {best.threshold:.3f}" for best in kept.values())
            print(f"  seed {seed}  {name:<18} validation {options.score} {on_validation}", flush=True)
            for rule, best in kept.items():
                found.setdefault((name, rule), []).append(judge(best, test))
    print(f"Done in {time.perf_counter() - started:.0f} s.\n")
    report({key: torch.stack(rows) for key, rows in found.items()}, options.score)


def fit(
    loss: Callable[[Tensor, Tensor], Tensor],
    train: BeijingPM25,
    validation: BeijingPM25,
    *,
    score: str,
    epochs: int,
) -> dict[str, Best]:
    """Train a small network; keep, for each rule, the epoch that did best on the validation hours."""
    width = train.features.shape[1]
    network = nn.Sequential(
        nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    judged_by = sw.scores.get(score)
    best: dict[str, Best] = {}
    for _ in range(epochs):
        for rows in torch.randperm(len(train)).split(1024):
            optimizer.zero_grad()
            loss(network(train.features[rows]), train.targets[rows]).backward()
            optimizer.step()
        predictions = probabilities(network, validation)
        at_half = judged_by(sw.confusion_matrix(predictions, validation.targets, threshold=0.5)).item()
        threshold, tuned = sw.score_curve(predictions, validation.targets, judged_by).best()
        for rule, value, at in (("0.5", at_half, 0.5), ("tuned", tuned, threshold)):
            if rule not in best or value > best[rule].value:
                best[rule] = Best(value, at, copy.deepcopy(network))
    return best


def probabilities(network: nn.Module, part: BeijingPM25) -> Tensor:
    """The network's predictions for a part of the hours."""
    with torch.no_grad():
        return network(part.features).sigmoid()


def judge(best: Best, test: BeijingPM25) -> Tensor:
    """All scores shown, on the held-out hours."""
    matrix = sw.confusion_matrix(probabilities(best.network, test), test.targets, threshold=best.threshold)
    return torch.stack([sw.scores.get(name)(matrix) for name in SHOWN])


def report(found: dict[tuple[str, str], Tensor], score: str) -> None:
    """Print the held-out scores, and what was gained at threshold 0.5."""
    trainings = len(next(iter(found.values())))
    heading = f"Held-out hours, mean of {trainings} trainings"
    print(f"{heading:<40}" + "".join(f"{name.upper():>8}" for name in SHOWN))
    for (name, rule), rows in found.items():
        print(f"{name:<22}threshold {rule:<8}" + "".join(f"{value:8.3f}" for value in rows.mean(0).tolist()))

    column = SHOWN.index(score)
    cross_entropy, score_loss = dict.fromkeys(name for name, _ in found)
    print(f"\nGain in {score.upper()} of {score_loss} at 0.5, on average and in each training:")
    for rule in ("0.5", "tuned"):
        gain = (found[score_loss, "0.5"] - found[cross_entropy, rule])[:, column]
        each = " ".join(f"{value:+.3f}" for value in gain.tolist())
        print(f"  over {cross_entropy}, threshold {rule:<6} {gain.mean():+.3f}   ({each})")
    print("A gain that changes its sign from training to training is none.")


if __name__ == "__main__":
    main()
