"""A picture of a score curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from scorewise._cells import check_labels
from scorewise.curves.bootstrap import Bootstrap
from scorewise.priors import as_prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scorewise.curves.choice import AtLeast
    from scorewise.curves.curve import ScoreCurve

_COLUMNS = 2000  # more than a picture has


def draw(
    curve: ScoreCurve,
    ax: Axes | None,
    *,
    prior: object,
    bootstrap: Bootstrap | None,
    at_least: AtLeast | None,
    label: str | None,
) -> Figure:
    """`ScoreCurve.plot`."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; install it with pip install 'scorewise[plot]'.") from error
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    x, y = _thinned(curve.thresholds.double().cpu().clamp(min=0), curve.values.cpu())
    (line,) = ax.plot(
        [*x.tolist(), 1.0],
        [*y.tolist(), float(y[-1])],
        drawstyle="steps-post",
        label=label or curve.score.name,
        linewidth=1.5,
    )
    color = line.get_color()
    threshold, value = curve.best(at_least=at_least)
    shown = max(threshold, 0.0)
    ax.axvline(shown, color=color, linewidth=0.8, linestyle="--")
    ax.plot([shown], [value], "o", color=color, markersize=6, label=f"best: {value:.3f} at {threshold:.3f}", zorder=3)
    if bootstrap is not None:
        if not isinstance(bootstrap, Bootstrap):
            raise TypeError(f"plot: bootstrap must be what curve.bootstrap() returned, saw {bootstrap!r}.")
        (low, high), (least, most) = bootstrap.threshold, bootstrap.value
        told = f"{bootstrap.level:.0%}: {least:.3f} to {most:.3f} at {low:.3f} to {high:.3f}"
        ax.axvspan(max(low, 0.0), max(high, 0.0), color=color, alpha=0.15, linewidth=0, label=told)
        ax.plot([shown, shown], [least, most], "_-", color=color, markersize=14, linewidth=2.5, zorder=2.5)
    if prior is not None:
        _draw_density(ax, prior)
    ax.set_xlim(0, 1)
    ax.set_xlabel("threshold")
    ax.set_ylabel("score")
    ax.legend(loc="best", edgecolor="none", framealpha=0.7, fontsize="small")
    figure = ax.get_figure(root=True)
    assert figure is not None  # noqa: S101  # axes that can be drawn on have one; for the type checker
    return figure


def _draw_density(ax: Axes, prior: object) -> None:
    """The prior's density along the bottom, a fifth of the height at most."""
    at = torch.linspace(0, 1, 1001, dtype=torch.float64)
    prior = as_prior(prior)
    check_labels(prior, at)
    density = prior.pdf(at)
    # An infinite density at an end would leave nothing of the rest.
    height = (density / density[density.isfinite()].max()).clamp(max=1)
    ax.fill_between(
        at.tolist(),
        0,
        (height / 5).tolist(),
        transform=ax.get_xaxis_transform(),
        color="0.6",
        alpha=0.35,
        linewidth=0,
        label="prior",
        zorder=0,
    )


def _thinned(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A curve with at most a few points for each column of a picture: the first, least, greatest and last of it."""
    n = len(x)
    if n <= 4 * _COLUMNS:
        return x, y
    column = (x * _COLUMNS).long().clamp(max=_COLUMNS - 1)
    by_value = torch.argsort(y)
    by_value = by_value[torch.argsort(column[by_value], stable=True)]
    counts = torch.bincount(column, minlength=_COLUMNS)
    stop = counts.cumsum(0)[counts > 0]
    start = stop - counts[counts > 0]
    kept = torch.cat([by_value[start], by_value[stop - 1], start, stop - 1]).unique()
    return x[kept], y[kept]
