"""Evaluations to make pages of, with everything in them that a page can show."""

import math

import torch

from scorewise import scores
from scorewise.evaluation.results import (
    Bin,
    Curve,
    Difference,
    Evaluation,
    Judged,
    Model,
    Part,
    Resampling,
    Stretch,
)
from scorewise.priors import RaisedCosine
from scorewise.weights import PUBLISHED, Value

SCORES = scores.names()


def values(cells):
    columns = torch.tensor(cells, dtype=torch.float64).T
    return {name: tuple(scores.get(name).function(*columns).tolist()) for name in SCORES}


def judged(cells, spread=0.02):
    own = {name: one[0] for name, one in values([cells]).items()}
    return Judged(cells, own, {name: (one - spread, one + spread / 2) for name, one in own.items()})


def stairs(n, skill, rows=8000.0, events=640.0):
    """Cells over thresholds, as of a model with some skill; weighted ones have a smaller price on errors."""
    at = [i / n for i in range(n)]
    hit = [(1 - t) ** (1 / skill) for t in at]
    false = [(1 - t) ** (4 * skill) for t in at]
    tp, fp = ([round(total * one) for one in rates] for total, rates in ((events, hit), (rows - events, false)))
    plain = [(rows - events - f, float(f), events - t, float(t)) for f, t in zip(fp, tp, strict=True)]
    weighted = [(tn, f * 0.75, miss * (0.6 + 0.4 * t), hits) for (tn, f, miss, hits), t in zip(plain, at, strict=True)]
    return at, plain, weighted


def stretch(k, n, series="", threshold=0.4, stamp="2014-03-{day:02d} {hour:02d}:00"):
    steps = tuple(i + (5 if i > n // 2 else 0) for i in range(n))
    predictions = [0.5 + 0.45 * math.sin(i / 9 + k) * math.cos(i / 31) for i in range(n)]
    events = [math.sin((i - 3) / 9 + k) * math.cos(i / 31) > 0.25 for i in range(n)]
    kinds = {(False, False): "tn", (False, True): "fp", (True, False): "fn", (True, True): "tp"}
    outcomes = [kinds[event, p > threshold] for event, p in zip(events, predictions, strict=True)]
    if n > 6:
        predictions[5], outcomes[5] = None, "unknown"
    costs = [0.5 + (i % 4) / 2 if one in {"fp", "fn"} else 0.0 for i, one in enumerate(outcomes)]
    times = tuple(stamp.format(day=1 + i // 24 % 28, hour=i % 24) for i in range(n))
    reasons = [
        f"{'False alarm' if one == 'fp' else 'Missed event'} of sample {i}, seen at {times[i]}: costs {costs[i]}."
        if one in {"fp", "fn"}
        else ""
        for i, one in enumerate(outcomes)
    ]
    return Stretch(series, times, steps, tuple(predictions), tuple(outcomes), tuple(costs), tuple(reasons), sum(costs))


def model(name, skill, *, points=300, chosen=True, weighted=True, parts=(), stretches=(), of=None, bound=None):
    at, plain, own = stairs(points, skill)
    best = max(range(points), key=values(own if weighted else plain)["tss"].__getitem__)
    where = best if chosen else points // 3
    part = judged((1800.0, 40.0, 30.0, 130.0)), judged((1800.0, 30.5, 20.25, 130.0)) if weighted else None
    return Model(
        name,
        at[where],
        chosen,
        (at[where] * 0.8, at[where] * 1.1) if chosen else None,
        0.004 if chosen else None,
        judged(plain[where]),
        judged(own[where]) if weighted else None,
        0.41,
        Curve(
            tuple(at),
            tuple(plain),
            tuple(own) if weighted else None,
            values(plain),
            values(own) if weighted else None,
            of=of or points,
            bound=bound,
        ),
        tuple(Bin(p / 10, (p / 10) ** 1.2, (0.8 * (p / 10) ** 1.2, 1.2 * (p / 10) ** 1.2), 800) for p in range(1, 9)),
        {
            column: tuple(
                Part(
                    value,
                    2000,
                    160.0,
                    *part,
                    0.3 if k else None,
                    0.8 if k else None,
                )
                for k, value in enumerate(found)
            )
            for column, found in dict(parts).items()
        },
        tuple(stretches),
    )


def evaluation(models, *, weighted=True, resampled=True, series=3):
    first, *others = models
    differences = [
        Difference(first.name, other.name, name, kind, 0.01, (-0.005, 0.03), 0.93)
        for other in others
        for name in SCORES
        for kind in ((False, True) if weighted else (False,))
    ]
    return Evaluation(
        scores.tss,
        Value(PUBLISHED, isolated=2) if weighted else None,
        RaisedCosine(0.5, 0.3),
        rows=8000,
        events=640.0,
        unknown=12,
        series=series,
        timed=any(one.stretches for one in models),
        models=tuple(models),
        differences=tuple(differences) if resampled else (),
        resampling=Resampling(1000, 0.95, "blocks of 20 samples", 0) if resampled else None,
    )


def history(shares=(0.0, 0.5, 1.0), steps=20):
    return [
        {
            "share": share,
            "step": 50 * step,
            "loss": 1 / step,
            "value": 0.8 - 0.4 / step - 0.05 * abs(share - 0.5),
            "threshold": 0.4,
            "seconds": 0.1 * step,
            "chosen": share == 0.5 and step >= steps - 2,
        }
        for share in shares
        for step in range(1, steps + 1)
    ]


def full(names=("scorewise", "cross entropy", "boosted trees")):
    """Everything at once."""
    parts = {"station": ("Rome", "Oslo", "Turin")}
    models = [
        model(
            name,
            2.0 - 0.3 * k,
            parts=parts,
            chosen=k != 1,
            of=25_000 if k == 0 else None,
            stretches=[stretch(j + k, 200, series=f"station {j}", threshold=0.55) for j in range(3)],
        )
        for k, name in enumerate(names)
    ]
    return evaluation(models)


FACTS = {
    "scorewise": "0.1.0",
    "Command": "scorewise evaluate predictions.csv --score tss --weight published --time time",
    "Data (sha256)": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
}
