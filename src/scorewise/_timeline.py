"""Which samples follow each other in time: groups and times, made ready or refused."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from scorewise._values import alongside, shape_of


@dataclass(frozen=True)
class Timeline:
    """Samples in the order of their series and, within one, of time.

    ``order`` tells which sample comes at each place; None means that they come in this order already. ``steps`` is the
    time from each place to the next, `FAR` where another series begins; None means one, everywhere.
    """

    order: Tensor | None
    steps: Tensor | None


FAR = 1 << 40
"""A step in time that is longer than any window."""


def timeline(groups: object, times: object, x: Tensor) -> Timeline | None:
    """The timeline of a batch with predictions ``x``; None where the batch is one series without gaps.

    Args:
        groups: One id for each sample, integers or strings: the series it belongs to. None: all belong to one.
        times: Integers that increase within a group, one unit for one lag. None: a sample's place in its group.
        x: The predictions, (n, ...).
    """
    if groups is None and times is None:
        return None
    n = x.shape[0]
    ids = None if groups is None else one_each(ids_of(groups, x), "groups", n)
    ticks = None if times is None else one_each(ticks_of(times, x), "times", n)
    if ids is None:
        return Timeline(None, _steps(ticks)) if ticks is not None else None

    order = None
    # Sorting is most of the work here. Whether it is needed can be asked without waiting for a device on a CPU only.
    asked = x.device.type == "cpu" and not torch.compiler.is_compiling()
    if not asked or bool((ids[1:] < ids[:-1]).any()):
        order = torch.argsort(_small(ids) if asked else ids, stable=True)
        ids = ids.index_select(0, order)
        ticks = None if ticks is None else ticks.index_select(0, order)
    return Timeline(order, torch.where(ids[1:] != ids[:-1], FAR, 1 if ticks is None else _steps(ticks)))


def _small(ids: Tensor) -> Tensor:
    """Small integers in the same order, if ids lie so close together: these are sorted several times as fast."""
    least, largest = (int(end) for end in ids.aminmax())
    return (ids - least).to(torch.int16) if largest - least < 1 << 15 else ids


def _steps(ticks: Tensor) -> Tensor:
    """Differences in time, clipped where they do not fit into 64 bits."""
    before, after = ticks[:-1], ticks[1:]
    steps = after - before
    return torch.where(after > before, torch.where(steps > 0, steps, FAR), steps.clamp(max=0))


def check_times(timeline: Timeline) -> None:
    """Raise a ValueError that counts and locates the times that do not increase within their group."""
    steps, order = timeline.steps, timeline.order
    if steps is None or not bool((steps < 1).any()):
        return
    bad = (steps < 1).nonzero()
    place = int(bad[0])
    before, after = (place, place + 1) if order is None else (int(order[place]), int(order[place + 1]))
    raise ValueError(
        f"times must increase within a group, but {len(bad)} of its steps do not: the first is from index {before} to "
        f"index {after}, by {int(steps[place])}. Sort each series by time, and give samples of different series "
        "different groups."
    )


def ids_of(groups: object, x: Tensor) -> Tensor:
    named = isinstance(groups, list | tuple) and any(not isinstance(one, Real | Tensor) for one in groups)
    if named or getattr(getattr(groups, "dtype", None), "kind", "") in {"U", "S", "O", "T"} or _is_text(groups):
        return torch.as_tensor(_numbered(list(groups)), device=x.device)  # type: ignore[call-overload]  # it is iterable
    tensor = alongside(groups, "groups", x)
    if tensor.is_floating_point() and tensor.numel():
        raise TypeError(f"groups must be integers or strings, one id for each sample, saw {tensor.dtype}.")
    return tensor.long()


def _is_text(groups: object) -> bool:
    """Whether it is a table's column of strings, whose dtype is the table library's own."""
    return hasattr(groups, "__array__") and not isinstance(groups, Tensor) and _array_kind(groups) in "USO"


def _array_kind(value: Any) -> str:
    import numpy as np  # whoever passes an array has NumPy

    return np.asarray(value).dtype.kind


def _numbered(names: list[Any]) -> list[int]:
    """Ids of any kind as integers, in the order of their first appearance."""
    missing = [i for i, name in enumerate(names) if name is None or name != name]  # noqa: PLR0124  # NaN
    if missing:
        raise ValueError(
            f"groups must be known, but {len(missing)} of {len(names)} are missing: the first, at index {missing[0]}."
        )
    seen: dict[Any, int] = {}
    return [seen.setdefault(name, len(seen)) for name in names]


def ticks_of(times: object, x: Tensor) -> Tensor:
    kind = "" if isinstance(times, Tensor) or not hasattr(times, "__array__") else _array_kind(times)
    if kind in {"M", "O", "U"} or (
        isinstance(times, list | tuple) and times and not isinstance(times[0], Real | Tensor)
    ):
        raise TypeError(
            "times must be integers, one unit for one lag; make them of timestamps with series.lags(timestamps, step)."
        )
    tensor = alongside(times, "times", x)
    if (tensor.is_floating_point() or tensor.dtype == torch.bool) and tensor.numel():
        raise TypeError(
            f"times must be integers, one unit for one lag, saw {tensor.dtype}; series.lags(times, step) makes them."
        )
    return tensor.long()


def one_each(tensor: Tensor, name: str, n: int) -> Tensor:
    if tensor.shape != (n,):
        raise ValueError(
            f"{name} must have one value for each of the {n} samples, shape ({n},), saw {shape_of(tensor)}."
        )
    return tensor
