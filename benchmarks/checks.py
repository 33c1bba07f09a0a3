"""That what is timed is right: results, and no times. What `--quick` fails on.

Oracles are written in NumPy or belong to others, and share no code with the package.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch

import scorewise as sw
from benchmarks import classes, curves, loss_peers, losses, training, weights
from benchmarks.timing import logits

N = 4096
Wrong = Iterator[str]


def run(device: str) -> tuple[list[str], list[str]]:
    """Run every check, so that one run shows all that is wrong.

    Returns:
        What is wrong; and what could not be checked, with the reason.
    """
    wrong: list[str] = []
    unchecked: list[str] = []
    for check in (scores, value, exact, gradients, thresholds, metrics, peers, parts, fits, lazy):
        try:
            for told in check(device):  # one by one: what was found stays when the next thing cannot be checked
                wrong.append(f"{check.__name__}: {told}")  # noqa: PERF401  # the reason is above
        except ImportError as error:  # others' packages, of which a machine may lack some
            unchecked.append(f"{check.__name__}: {error}")
    return wrong, unchecked


def _apart(what: str, seen: object, expected: object, tolerance: float) -> Wrong:
    """Say so where two results differ by more than the tolerance, or where one is no number."""
    seen, expected = np.asarray(seen, dtype=float), np.asarray(expected, dtype=float)
    difference = np.abs(seen - expected).max()
    if not difference <= tolerance:
        yield f"{what} differs by {difference:.2g} from its oracle, by at most {tolerance:.0e} was expected"


def _numbers(device: str) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """The timed logits and labels, and the same probabilities and labels in float64."""
    z, y = logits(N, device)
    p = 1 / (1 + np.exp(-z.detach().cpu().double().numpy()))
    return z, y, p, y.cpu().double().numpy()


def _of_cells(tn: np.ndarray, fp: np.ndarray, fn: np.ndarray, tp: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of matrices."""
    return {
        "tss": tp / (tp + fn) - fp / (fp + tn),
        "f1": 2 * tp / (2 * tp + fp + fn),
        "csi": tp / (tp + fp + fn),
        "hss": 2 * (tp * tn - fp * fn) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn)),
    }


def scores(device: str) -> Wrong:
    """The loss is minus the score of Σ y p, …; the gradient of minus TSS is (1 − y)/N − y/P times p (1 − p)."""
    z, y, p, t = _numbers(device)
    told = _of_cells(((1 - t) * (1 - p)).sum(), ((1 - t) * p).sum(), (t * (1 - p)).sum(), (t * p).sum())
    for name, score in told.items():
        # Sums are in float64, what is summed in float32: a few roundings, of each 6e-8.
        yield from _apart(name, sw.ScoreLoss(name, validate=False)(z, y).item(), -score, 1e-6)
    (gradient,) = torch.autograd.grad(sw.ScoreLoss("tss", validate=False)(z, y), z)
    expected = ((1 - t) / (1 - t).sum() - t / t.sum()) * p * (1 - p)
    yield from _apart("the gradient of tss", gradient.cpu(), expected, 1e-6 * np.abs(expected).max())


def value(device: str) -> Wrong:
    """The value-weighted loss is what a loop over samples finds, and so is its gradient."""
    z, y, _ = weights.batch(1024, device)
    z = z.detach().double().requires_grad_()
    omega = sw.weights.geometric(weights.T)
    found = sw.ScoreLoss("tss", weight=sw.weights.Value(omega), validate=False)(z, y.double())
    (ours,) = torch.autograd.grad(found, z)
    plain = z.detach().cpu().requires_grad_()
    expected = weights.by_loop(plain, y.cpu().double(), omega)
    expected.backward()
    # float64: 1e-16 a rounding, of a few thousand.
    yield from _apart("value-weighted tss", found.item(), expected.item(), 1e-12)
    yield from _apart("the gradient of value-weighted tss", ours.cpu(), plain.grad, 1e-12)


def exact(device: str) -> Wrong:
    """The exact loss is minus the score at every threshold, weighted by how much of [0, 1] has that matrix."""
    z, y, p, t = _numbers(device)
    order = np.argsort(p)
    ends = np.concatenate([[0.0], p[order], [1.0]])
    events = np.concatenate([[0.0], np.cumsum(t[order])])  # at or below the threshold
    others = np.arange(N + 1) - events
    cells = others, others[-1] - others, events, events[-1] - events
    expected = -(_of_cells(*cells)["hss"] * np.diff(ends)).sum()
    found = sw.ScoreLoss("hss", exact=True, validate=False)(z.detach().double(), y.double())
    yield from _apart("exact hss", found.item(), expected, 1e-10)


def gradients(device: str) -> Wrong:
    """Every loss that is timed has a gradient that is finite, and not nothing."""
    timed = {"scores": losses.calls(N, device), "weights": weights.losses(N, device)}
    timed |= {"exact": curves.exact_calls(N, device), "labels": classes.label_calls(N, device)}
    timed |= {"classes": classes.calls(256, 10, device)}
    z, y = logits(N, device)
    found, _ = loss_peers.peers(device)
    for what, loss in (loss_peers.ours() | found).items():
        (gradient,) = torch.autograd.grad(loss(z, y), z)
        yield from _finite(what, gradient)
    for part, calls in timed.items():
        for what, call in calls.items():
            yield from _finite(f"{part}, {what}", call())


def _finite(what: str, found: object) -> Wrong:
    """Say so where a result is none, or not finite, or zero everywhere."""
    if not isinstance(found, torch.Tensor) or not found.isfinite().all() or not found.any():
        yield f"the result of {what} must be finite and not all zero"


def thresholds(device: str) -> Wrong:
    """The best threshold reaches what scikit-learn's curve reaches; value-weighted, what no grid beats."""
    from sklearn.metrics import cohen_kappa_score

    from benchmarks.peers import all_matrices

    p, y = curves.batch(1 << 14, device)
    p = p.double()
    best = sw.best_threshold(p, y, "hss")
    expected = all_matrices(p.cpu(), y.cpu())
    yield from _apart("the best HSS", sw.score_curve(p, y, "hss").best()[1], expected, 1e-12)
    reached = cohen_kappa_score(y.cpu().numpy(), (p > best).float().cpu().numpy())
    yield from _apart("HSS at the best threshold", reached, expected, 1e-12)

    def at(threshold: float) -> float:
        return float(sw.scores.hss(sw.confusion_matrix(p, y, threshold, curves.VALUE)))

    most = sw.score_curve(p, y, "hss", curves.VALUE).best()[1]
    yield from _apart("value-weighted HSS there", at(sw.best_threshold(p, y, "hss", curves.VALUE)), most, 1e-10)
    grid = max(at(k / 100) for k in range(1, 100))
    if grid > most + 1e-10:
        yield f"the best value-weighted HSS is {most:.9f}, a threshold of a grid has {grid:.9f}"


def metrics(device: str) -> Wrong:
    """Metrics and the best of a curve are what torchmetrics finds; a grid of thresholds is not better."""
    questions, absent = loss_peers.metric_calls(1 << 14, device)
    if absent:
        raise ImportError("; ".join(absent.values()))
    for asked, some in questions.items():
        ours, *others = (call() for call in some.values())
        # It computes in float32.
        yield from _apart(asked, ours, others[0], 1e-6)
        if others[1:] and others[1] > ours + 1e-6:
            yield f"{asked}: we find {ours:.9f}, a grid has {others[1]:.9f}"


def peers(device: str) -> Wrong:
    """Soft Dice is 1 − F1 with the uniform prior, and the two forms of AUCM are one: the same is timed."""
    found, absent = loss_peers.peers(device)
    z, y = logits(N, device)
    steps: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = loss_peers.ours() | found
    got = {what: torch.autograd.grad(loss(z, y), z)[0].cpu() for what, loss in steps.items()}
    values = {what: loss(z, y).item() for what, loss in steps.items()}
    if "Dice, MONAI" in found:
        # Its constants, 1e-5, are beside sums of thousands.
        yield from _apart("1 + f1, beside Dice,", 1 + values["f1"], values["Dice, MONAI"], 1e-6)
        largest = got["f1"].abs().max().item()
        yield from _apart("the gradient of f1, beside Dice,", got["f1"], got["Dice, MONAI"], 1e-5 * largest)
    if {"AUCM, MONAI", "AUCM, LibAUC"} <= set(found):
        yield from _apart("AUCM of MONAI", values["AUCM, MONAI"], values["AUCM, LibAUC"], 1e-6)
    if absent:
        raise ImportError("; ".join(f"{what}: {why}" for what, why in absent.items()))


def parts(device: str) -> Wrong:
    """A step in micro-batches has the gradient of the whole batch."""
    x, y = training.samples(N, device)
    x, y = x.double(), y.double()
    loss = sw.ScoreLoss("tss")
    torch.manual_seed(0)
    model = training.network(device).double()
    loss(model(x), y).backward()
    whole = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    micro = list(zip(x.split(training.MICRO), y.split(training.MICRO), strict=True))
    sw.parallel.accumulate(loss, model, micro)
    for k, (parameter, expected) in enumerate(zip(model.parameters(), whole, strict=True)):
        yield from _apart(f"the accumulated gradient of parameter {k}", parameter.grad.cpu(), expected.cpu(), 1e-12)


def fits(_: str) -> Wrong:
    """A classifier that is fitted in a few steps knows more than nothing."""
    from sklearn.datasets import make_classification
    from sklearn.metrics import balanced_accuracy_score

    # of fewer rows those for validation would have a handful of events, and the threshold be one of chance
    X, y = make_classification(1000, 5, weights=[0.9], random_state=0)
    model = sw.ScoreClassifier("tss", random_state=0, progress=False, steps=20).fit(X, y)
    tss = 2 * balanced_accuracy_score(y, model.predict(X)) - 1
    if not tss > 0.8:
        yield f"ScoreClassifier has a TSS of {tss:.2f} on the rows it was fitted to, more than 0.8 was expected"


def lazy(_: str) -> Wrong:
    """`import scorewise` alone loads no PyTorch."""
    code = "import sys, scorewise; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603  # ours
    if done.stdout.strip() != "False":
        yield "import scorewise loaded torch, which it must leave to the first use"
