"""`scorewise demo`: one network, trained four ways to be judged by a value-weighted score, on real data."""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scorewise.cli import options
from scorewise.cli.errors import say

if TYPE_CHECKING:
    from scorewise.datasets import BeijingPM25
    from scorewise.estimator import ScoreClassifier
    from scorewise.evaluation import Difference, Evaluation, Judged
    from scorewise.weights import Weight

STEPS = 200
"""Of a training; there are three."""
_YEARS = (2 * 365 * 24, 366 * 24)  # hours to train on, 2010 and 2011, and to choose by, 2012; the rest is held out
_QUICK: dict[str, Any] = {"steps": 8, "evaluations": 2}
_QUICK_FROM, _QUICK_HOURS = 34_824, (3600, 1800)  # of the last 9,000 hours
_WEEK = 7 * 24
_SHOWN = ("tss", "hss", "csi", "f1")
_OURS = "scorewise"
_PLAIN, _TUNED, _BALANCED = "cross entropy at 0.5", "cross entropy, tuned", "weighted cross entropy, tuned"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    ctx: typer.Context,
    *,
    report: Annotated[Path, typer.Option(help="The page to write, HTML.")] = Path("scorewise-demo.html"),
    seed: Annotated[int, typer.Option(help="Of the random numbers.", min=0, max=2**32 - 1)] = 0,
    as_json: options.Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="A few steps on few hours: to see that it runs.")] = False,
) -> None:
    """Train on Beijing's PM2.5 for the value-weighted TSS, by cross entropy and by score, and compare; half a minute.

    The data are part of the package. A page with all results is written beside what is printed.
    """
    from scorewise.cli import outputs, show
    from scorewise.cli.facts import command_line, versions
    from scorewise.datasets import beijing_pm25
    from scorewise.weights import PUBLISHED, Value

    outputs.check_report(report)
    data = beijing_pm25(skip=_QUICK_FROM if quick else 0)
    parts = data.split(*(_QUICK_HOURS if quick else _YEARS))
    weight = Value(PUBLISHED, isolated=2)
    if not as_json:
        _tell_task(data, parts)
    begun = clock.monotonic()
    how = {**(_QUICK if quick else {"steps": STEPS}), "random_state": seed, "progress": False if as_json else None}
    ways = _train(parts, weight, how)
    seconds = clock.monotonic() - begun
    found = _judge(ways, parts[-1].known(), weight, seed=seed, draws=50 if quick else None)
    verdict, when = _verdict(found), _when(parts[-1])
    digest = hashlib.sha256(data.features.numpy().tobytes() + data.targets.numpy().tobytes()).hexdigest()
    facts = {
        "Command": command_line(ctx),
        "Data": f"Beijing PM2.5, {len(data):,} hours, part of the package (S. Chen, UCI, CC BY 4.0)",
        "SHA-256 of features and labels": digest,
        **versions(),
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    ours = ways[_OURS].model
    outputs.write_report(
        report,
        found,
        title=f"PM2.5 above {data.event:g} µg/m³ in {data.horizon} hours",
        summary=f"Four ways to train and to choose a threshold, judged on the hours from {when}. {verdict}",
        history=ours.history_,
        facts=facts,
        notes=[_NOTE],
    )
    if as_json:
        about = {"steps": how["steps"], "seconds": seconds, "share": ours.share_, "verdict": verdict}
        judged = show.as_json(found, name=f"Beijing PM2.5, {when}", sha256=digest, notes=[_NOTE])
        show.write_json(about | {"report": str(report), "evaluation": judged})
        return
    show.line(f"Trained in {seconds:.0f} s.")
    show.line()
    _tell_scores(found, ways)
    show.line()
    show.line(verdict)
    show.line(_NOTE)
    show.line(f"The report is in {report}.")


_NOTE = "It is one training of each on one set of data, with few steps; other seeds (--seed) give other numbers."


@dataclass(frozen=True)
class _Way:
    """A model, and the threshold it is judged at."""

    model: ScoreClassifier
    threshold: float


def _train(parts: Sequence[BeijingPM25], weight: Weight, how: Mapping[str, Any]) -> Mapping[str, _Way]:
    """Train all, each with the same network, steps, and hours to choose by."""
    import numpy as np
    import torch

    from scorewise import ScoreClassifier

    torch.set_num_threads(1)  # batches are small: a second thread would wait more than work
    train, validation = (part.known() for part in parts[:2])
    X, y, times = (
        torch.cat([getattr(train, name), getattr(validation, name)]).numpy()
        for name in ("features", "targets", "times")
    )
    kept = np.arange(len(y)) >= len(train)

    def fitted(number: int, name: str, **own: Any) -> ScoreClassifier:
        if how["progress"] is not False:
            say(f"{number} of 3: {name}")
        model = ScoreClassifier("tss", weight=weight, horizon=train.horizon, **how, **own)
        return model.fit(X, y.astype(np.int64), times=times, validation=kept)

    plain = fitted(1, "cross entropy", share=0.0)
    balanced = fitted(2, "cross entropy, classes weighted alike", share=0.0, balance=1.0)
    ours = fitted(3, "scorewise: cross entropy, then half of it and half of the score")
    return {
        _PLAIN: _Way(plain, 0.5),
        _TUNED: _Way(plain, float(plain.threshold_)),
        _BALANCED: _Way(balanced, float(balanced.threshold_)),
        _OURS: _Way(ours, float(ours.threshold_)),
    }


def _judge(ways: Mapping[str, _Way], test: BeijingPM25, weight: Weight, *, seed: int, draws: int | None) -> Evaluation:
    """Judge all on hours that none has seen; ours first, since differences are those of the first from the others."""
    from scorewise.cli import show
    from scorewise.evaluation import evaluate

    order = [_OURS, *(name for name in ways if name != _OURS)]
    models = {id(way.model): way.model for way in ways.values()}  # one of them is judged at two thresholds
    made = {key: model.predict_proba(test.features.numpy())[:, 1] for key, model in models.items()}
    return evaluate(
        {name: made[id(ways[name].model)] for name in order},
        test.targets,
        score="tss",
        weight=weight,
        threshold={name: ways[name].threshold for name in order},
        times=test.times,
        stamps=[f"{stamp:%Y-%m-%d %H:%M}" for stamp in test.timestamps()],
        draws=draws,
        block=_WEEK,  # bad air lasts for days
        seed=seed,
        progress=show.progress("resampling"),
    )


# ----------------------------------------------------------------------------------------------- what is printed


def _tell_task(data: BeijingPM25, parts: Sequence[BeijingPM25]) -> None:
    from scorewise.cli import show

    show.line(f"Will PM2.5 in Beijing be above {data.event:g} µg/m³ in {data.horizon} hours?", "bold")
    for part, name in zip(parts, ("to train on", "to choose by", "held out"), strict=True):
        share = part.targets[part.mask].mean().item()
        show.line(f"  {name:<13} {_when(part)}  {len(part):6,} hours  {share:.1%} events")
    show.line(
        "To be judged by the value-weighted TSS: a false alarm 1, 2 or 3 hours before an event costs 1/2, 2/3 or 3/4 "
        "of one, a miss so many hours after an alarm likewise, and an error far from anything costs double."
    )


def _when(part: BeijingPM25) -> str:
    first, *_, last = part.timestamps()
    return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _tell_scores(found: Evaluation, ways: Mapping[str, _Way]) -> None:
    from scorewise.cli import show

    models = {model.name: model for model in found.models}
    head = ["held-out hours", "threshold", *(name.upper() for name in _SHOWN), *(f"w{name.upper()}" for name in _SHOWN)]
    rows = []
    for name in ways:
        model = models[name]
        values = [one.scores[score] for one in (model.plain, _weighted(model)) for score in _SHOWN]
        rows.append([name, f"{model.threshold:.3f}", *(f"{value:.3f}" for value in values)])
    show.table("Plain and value-weighted (w) scores", head, rows)


def _weighted(model: Any) -> Judged:
    found: Judged = model.weighted
    return found


def _verdict(found: Evaluation) -> str:
    """What the numbers say of the score that was trained for, in words."""
    values = {model.name: _weighted(model).scores["tss"] for model in found.models}
    ours, others = values[_OURS], {name: value for name, value in values.items() if name != _OURS}
    best = max(others, key=lambda name: others[name])
    name = "value-weighted TSS"
    if ours > others[best]:
        begin = (
            f"By {name}, scorewise is the best of the four: {ours:.3f}, and {best} comes next with {others[best]:.3f}."
        )
    elif ours == others[best]:
        begin = f"By {name}, scorewise is as good as {best}: {ours:.3f}."
    else:
        rank = 1 + sum(value > ours for value in others.values())
        begin = (
            f"By {name}, scorewise is not the best here, but number {rank} of the four, with {ours:.3f}: {best} has "
            f"{others[best]:.3f}."
        )
    one = next((one for one in found.differences if (one.other, one.score, one.weighted) == (best, "tss", True)), None)
    return begin if one is None else f"{begin} {_sure(one, best)}"


def _sure(one: Difference, other: str) -> str:
    low, high = one.interval
    where = f"{low:+.3f} to {high:+.3f} in resampled hours"
    if low <= 0 <= high:
        return f"The difference from {other} is {one.value:+.3f} ({where}), which may be chance."
    return f"The difference from {other} is {one.value:+.3f} ({where}), which is more than chance makes."
