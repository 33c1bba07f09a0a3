"""Times to look at: what was said, what came, what each error costs, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from scorewise._values import number
from scorewise.evaluation.results import Stretch
from scorewise.evaluation.rows import Rows
from scorewise.weights import Value, Weight

LENGTH = 300
MOST = 8
_SHORT = 600  # a record that is no longer than this is shown whole


def stretches(
    rows: Rows,
    x: Tensor,
    threshold: float,
    each: Tensor,
    weight: Weight | None,
    *,
    names: Sequence[str],
    stamps: Sequence[str] | None,
) -> tuple[Stretch, ...]:
    """The costliest times, the costliest first.

    Args:
        rows: All rows.
        x: A model's predictions.
        threshold: Its threshold.
        each: What each sample adds to the matrix there, with the weight if there is one, (n, 4).
        weight: The weight.
        names: The series' names, by their numbers.
        stamps: How to print each row's time; None: as a number, the place in its series if there are no times.
    """
    n = len(rows)
    order, first, place = rows.in_time()
    length = _SHORT if n <= _SHORT else LENGTH
    new = first | (place % length == 0)
    window = new.cumsum(0) - 1
    costs = (each[:, 1] + each[:, 2])[order]
    total = torch.zeros(int(window[-1]) + 1, dtype=costs.dtype).index_add_(0, window, costs)
    starts = torch.cat([new.nonzero().squeeze(1), torch.tensor([n])])
    worst = torch.argsort(-total, stable=True)[:MOST].tolist()
    p = rows.probabilities(x)
    cores = () if weight is None else weight._cores()
    value = next((one for one in cores if isinstance(one, Value)), None)
    alarms = p > torch.tensor(threshold, dtype=p.dtype)
    ticks = torch.empty_like(place).index_copy_(0, order, place) if rows.times is None else rows.times
    record = _Record(rows, ticks, rows.counted, p, alarms, each, value, names, stamps)
    return tuple(record.stretch(order, int(starts[k]), int(starts[k + 1])) for k in worst)


@dataclass(frozen=True, eq=False)
class _Near:
    """Some rows of one series in the order of time: their numbers, times, events and alarms."""

    rows: Tensor
    ticks: Tensor
    events: Tensor
    alarms: Tensor


@dataclass(frozen=True, eq=False)
class _Record:
    """All rows, with what a stretch tells of them."""

    rows: Rows
    ticks: Tensor
    counted: Tensor
    p: Tensor
    alarms: Tensor
    each: Tensor
    value: Value | None
    names: Sequence[str]
    stamps: Sequence[str] | None

    def stretch(self, order: Tensor, start: int, stop: int) -> Stretch:
        """Rows from one place in the order to another, which are of one series."""
        reach = 0 if self.value is None else self.value.reach
        before = max(0, start - reach)
        near = order[before : stop + reach]  # a lag is one row or fewer
        some = order[start:stop]
        name = ""
        if self.rows.groups is not None:
            series = self.rows.groups[some[0]]
            name = self.names[int(series)]
            same = self.rows.groups[near] == series
            before += int((~same[: start - before]).sum())
            near = near[same]
        ticks = self.ticks[near]
        around = _Near(near, ticks, self.rows.targets[near] == 1, self.alarms[near])
        told: list[tuple[Any, ...]] = []
        for k, row in enumerate(some.tolist(), start - before):
            outcome = "unknown"
            if bool(self.counted[row]):
                outcome = _OUTCOMES[bool(around.events[k]), bool(around.alarms[k])]
            cost = float(self.each[row, 1] + self.each[row, 2])
            reason = self._reason(outcome, k, around, cost) if outcome in {"fp", "fn"} else ""
            p = float(self.p[row])
            step = int(ticks[k] - ticks[start - before])
            told.append((self._stamp(row), step, None if math.isnan(p) else p, outcome, cost, reason))
        times, steps, predictions, outcomes, costs, reasons = zip(*told, strict=True)
        return Stretch(name, times, steps, predictions, outcomes, costs, reasons, math.fsum(costs))

    def _stamp(self, row: int) -> str:
        return str(int(self.ticks[row]) if self.stamps is None else self.stamps[row])

    def _reason(self, outcome: str, k: int, near: _Near, cost: float) -> str:
        """Why an error costs what it costs: which coming events, or which past alarms, earned it credit."""
        early = outcome == "fp"
        what, costs = "False alarm" if early else "Missed event", f"costs {number(cost)}."
        if self.value is None:
            return f"{what}: {costs}"
        reach, signal = self.value.reach, "event" if early else "alarm"
        away = near.ticks - near.ticks[k]
        there = (near.events if early else near.alarms) & (away != 0) & (away.abs() <= reach)
        found = {int(away[j]): int(near.rows[j]) for j in there.nonzero().squeeze(1).tolist()}
        if not found:
            return f"{what}, no {signal} within {reach} {_steps(reach)} of it: {costs}"
        side = 1 if early else -1  # events to come are worth something, and alarms that were
        credit = _earning(self.value, sorted(side * lag for lag in found if side * lag > 0))
        told = [side * lag for lag in credit] or sorted(found, key=abs)[:1]
        seen = ", ".join(f"{abs(lag)} {_steps(lag)} {_when(lag)} ({self._stamp(found[lag])})" for lag in told)
        if not credit:
            return f"{what}; an {signal} {seen} earns nothing: {costs}"
        return f"{what}, but {f'an {signal}' if len(told) == 1 else f'{signal}s'} {seen}: {costs}"


_OUTCOMES = {(False, False): "tn", (False, True): "fp", (True, False): "fn", (True, True): "tp"}
"""By whether there is an event, and an alarm."""


def _earning(value: Value, lags: list[int]) -> list[int]:
    """Of neighbours at some lags, those without which an error would cost more.

    If there is none, since others would do as well, the nearest that alone is worth as much as all; or else all.
    """
    if not lags:
        return []
    number = len(lags)
    them = torch.nn.functional.one_hot(torch.tensor(lags) - 1, value.reach).double()
    everyone = them.sum(0, keepdim=True)
    whole, *each = value._worth(torch.cat([everyone, everyone - them, them])).tolist()
    if whole <= 0:
        return []
    needed = [lag for lag, without in zip(lags, each[:number], strict=True) if without < whole]
    enough = [lag for lag, alone in zip(lags, each[number:], strict=True) if alone >= whole]
    return needed or enough[:1] or lags


def _steps(lag: int) -> str:
    return "step" if abs(lag) == 1 else "steps"


def _when(lag: int) -> str:
    return "later" if lag > 0 else "earlier"
