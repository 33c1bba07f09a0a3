"""Losses and metrics of others, on the same data: MONAI, LibAUC, torchmetrics.

Who is not installed is named, with the reason, and not silently left out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks import curves
from benchmarks.timing import Calls, Rows, Times, logits, rows, step, take_turns

Loss = Callable[[Tensor, Tensor], Tensor]
BASE = "binary cross entropy"
T = 8
LIMIT = 0.4
"""Seconds that a call may take; judged by the batch before, a slower one is left out and named."""
ROOM = 160
"""Bytes per sample that must be free: what the hungriest of the losses takes, and some more."""
IN_PYTHON = 1 << 16
"""The largest batch for LibAUC where all of it is measured: AUCMLoss adds up its positives in Python, one by one."""


def ours() -> dict[str, Loss]:
    """Binary cross entropy, which comes first, and our losses."""
    value = sw.weights.Value(sw.weights.geometric(T))
    return {
        BASE: binary_cross_entropy_with_logits,
        "tss": sw.ScoreLoss("tss", validate=False),
        "f1": sw.ScoreLoss("f1", validate=False),
        "tss, validated": sw.ScoreLoss("tss"),
        f"value-weighted tss, T = {T}": sw.ScoreLoss("tss", weight=value, validate=False),
    }


def peers(device: str) -> tuple[dict[str, Loss], dict[str, str]]:
    """Losses of others, of logits and labels of the shape (n,); and who is absent, with the reason."""
    found: dict[str, Loss] = {}
    absent: dict[str, str] = {}
    for name, maker in _MAKERS.items():
        try:
            found[name] = maker(device)
        except ImportError as error:
            absent[name] = str(error)
    return found, absent


def _dice(device: str) -> Loss:
    """Soft Dice, which is F1 with the uniform prior but for a small constant."""
    from monai.losses import DiceLoss

    loss = DiceLoss(sigmoid=True).to(device)
    return lambda z, y: loss(z[None, None], y[None, None])


def _aucm(device: str) -> Loss:
    """The AUC margin loss, without its running statistics' optimizer, as MONAI has it."""
    from monai.losses import AUCMLoss

    loss = AUCMLoss().to(device)
    return lambda z, y: loss(torch.sigmoid(z)[:, None], y[:, None])


def _libauc(device: str) -> Loss:
    """The same as LibAUC has it."""
    from libauc.losses.auc import AUCMLoss

    loss = AUCMLoss(device=torch.device(device))
    return lambda z, y: loss(torch.sigmoid(z), y).squeeze()


_MAKERS: dict[str, Callable[[str], Loss]] = {
    "Dice, MONAI": _dice,
    "AUCM, MONAI": _aucm,
    "AUCM, LibAUC": _libauc,
}


def compare(sizes: list[int], seconds: float, device: str) -> tuple[Rows, dict[str, str]]:
    """A step over n of us and of all that are here, with ratios to binary cross entropy; and who is absent.

    Args:
        sizes: Batches, in ascending order.
        seconds: How long to measure each, as in `take_turns`.
        device: "cpu" or "cuda".
    """
    found, absent = peers(device)
    losses = ours() | found
    kept: Rows = []
    last: dict[str, tuple[int, float]] = {}
    for n in sizes:
        if short := no_room(n, device):
            kept.append({"n": n, "what": "all", "left_out": short})
            continue
        z, y = logits(n, device)
        slow = {what: m for what, (before, m) in last.items() if m * n / before > LIMIT}
        times = take_turns(
            {what: step(loss, z, y) for what, loss in losses.items() if what not in slow}, seconds, device
        )
        kept += rows(n, times)
        kept += [{"n": n, "what": what, "left_out": _too_slow(*last[what])} for what in slow]
        last |= {what: (n, t.median) for what, t in times.items()}
    return kept, absent


def no_room(n: int, device: str) -> str:
    """Why a batch is too large for a graphics card; empty if it is not."""
    if device != "cuda":
        return ""
    torch.cuda.empty_cache()  # what is left of the batch before
    free = torch.cuda.mem_get_info()[0]
    return f"needs {ROOM * n / 1e9:.0f} GB, {free / 1e9:.0f} GB are free" if free < ROOM * n else ""


def _too_slow(n: int, seconds: float) -> str:
    """Why a loss is left out."""
    return f"a step took {seconds:.2g} s at n = {n:,}"


def metric_calls(n: int, device: str) -> tuple[dict[str, dict[str, Callable[[], float]]], dict[str, str]]:
    """What is asked for, and who gives it: metrics at 0.5 and the best of a curve, all with their checks of values.

    Returns:
        For each question our call first, then those of torchmetrics; and who is absent, with the reason.
    """
    p, y = curves.batch(n, device)
    found: dict[str, dict[str, Callable[[], float]]] = {
        "F1 at 0.5": {"scorewise": lambda: float(sw.scores.f1(sw.confusion_matrix(p, y)))},
        "HSS (kappa) at 0.5": {"scorewise": lambda: float(sw.scores.hss(sw.confusion_matrix(p, y)))},
        "best F1 of all thresholds": {"scorewise": lambda: sw.score_curve(p, y, "f1").best()[1]},
    }
    try:
        from torchmetrics.functional import classification as tm
    except ImportError as error:
        return found, {"torchmetrics": str(error)}
    whole = y.int()  # which it asks for
    found["F1 at 0.5"]["torchmetrics binary_f1_score"] = lambda: float(tm.binary_f1_score(p, whole))
    found["HSS (kappa) at 0.5"]["torchmetrics binary_cohen_kappa"] = lambda: float(tm.binary_cohen_kappa(p, whole))

    def best(thresholds: int | None) -> float:
        precision, recall, _ = tm.binary_precision_recall_curve(p, whole, thresholds=thresholds)
        both = precision + recall
        return float(torch.where(both > 0, 2 * precision * recall / both.clamp(min=1e-30), 0).max())

    best_f1 = found["best F1 of all thresholds"]
    best_f1["torchmetrics binary_precision_recall_curve"] = lambda: best(None)
    best_f1["torchmetrics binary_precision_recall_curve, 100 thresholds"] = lambda: best(100)
    return found, {}


def metrics(n: int, seconds: float, device: str) -> tuple[Rows, dict[str, str]]:
    """Times of metrics, with ratios to ours and the value that each finds; and who is absent."""
    questions, absent = metric_calls(n, device)
    calls: Calls = {f"{asked}|{who}": call for asked, some in questions.items() for who, call in some.items()}
    times: dict[str, Times] = take_turns(calls, seconds, device)
    kept: Rows = []
    for asked, some in questions.items():
        mine = {who: times[f"{asked}|{who}"] for who in some}
        kept += [row | {"asked": asked, "value": some[str(row["what"])]()} for row in rows(n, mine)]
    return kept, absent
