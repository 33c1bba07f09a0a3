"""Curves with fewer points, among which is the best of every score."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from scorewise._cells import Tally
from scorewise.curves import ScoreCurve
from scorewise.curves.choice import choose, inside
from scorewise.curves.sweep import score_along
from scorewise.evaluation.results import Cells, Curve
from scorewise.evaluation.rows import along
from scorewise.scores import Score

POINTS = 1000


@dataclass(frozen=True, eq=False)
class Stairs:
    """The four cells at thresholds, ascending.

    Attributes:
        thresholds: The thresholds.
        cells: The cells at each of them.
        hold: Whether they stay so up to the next threshold; if not, nothing is known of what lies between.
    """

    thresholds: Tensor
    cells: Tally
    hold: bool = True

    @classmethod
    def of(cls, curve: ScoreCurve) -> Stairs:
        """Those of a curve."""
        matrix = curve.matrix
        return cls(curve.thresholds, (matrix.tn, matrix.fp, matrix.fn, matrix.tp))

    def at(self, thresholds: Tensor) -> Tally:
        """The four cells at other thresholds: a prediction is compared in its own dtype."""
        wanted = thresholds.to(self.thresholds.dtype)
        places = (torch.searchsorted(self.thresholds, wanted, right=True) - 1).clamp(min=0)
        tn, fp, fn, tp = (cell[places] for cell in self.cells)
        return tn, fp, fn, tp

    def best(self, score: Score) -> float:
        """The best threshold for a score."""
        place = choose(score, self.thresholds, score_along(score, self.cells))
        return inside(self.thresholds, place) if self.hold else float(self.thresholds[place])

    def with_one(self, threshold: float, cells: Tally) -> Stairs:
        """The same with one more threshold."""
        known = bool((self.thresholds == threshold).any())
        if known:
            return self
        place = int((self.thresholds < threshold).sum())
        one = self.thresholds.new_tensor([threshold])
        tn, fp, fn, tp = (
            torch.cat([old[:place], new.reshape(1), old[place:]]) for old, new in zip(self.cells, cells, strict=True)
        )
        thresholds = torch.cat([self.thresholds[:place], one, self.thresholds[place:]])
        return Stairs(thresholds, (tn, fp, fn, tp), self.hold)

    def among(self, points: Tensor) -> Tensor:
        """Thresholds at which something is known, for any: the next lower, if nothing is known between."""
        if self.hold:
            return points
        return self.thresholds[(torch.searchsorted(self.thresholds, points, right=True) - 1).clamp(min=0)]


def thinned(
    plain: Stairs,
    weighted: Stairs | None,
    wanted: tuple[dict[str, Score], dict[str, Score]],
    chosen: float,
    bound: dict[str, float] | None = None,
) -> Curve:
    """Matrices at thresholds: where something changes, or if that is often, at some of these and at all that are best.

    Args:
        plain: Without a weight.
        weighted: With it.
        wanted: The scores, without a weight and with it.
        chosen: A threshold that must be there.
        bound: As `Curve.bound`.
    """
    both = [plain] if weighted is None else [plain, weighted]
    every = torch.unique(torch.cat([one.thresholds.double() for one in both]))
    best = [stairs.best(score) for stairs, some in zip(both, wanted, strict=False) for score in some.values()]
    points = every if len(every) <= POINTS else _some(every, plain)
    points = torch.cat([points, torch.tensor([chosen, 0.5, *best], dtype=torch.float64)])
    points = torch.unique(plain.among(points))
    on_plain, on_weighted = plain.at(points), None if weighted is None else weighted.at(points)
    return Curve(
        tuple(points.tolist()),
        _one_by_one(on_plain),
        None if on_weighted is None else _one_by_one(on_weighted),
        along(on_plain, wanted[0]),
        None if on_weighted is None else along(on_weighted, wanted[1]),
        of=len(every),
        bound=bound,
    )


def _some(every: Tensor, stairs: Stairs) -> Tensor:
    """Thresholds that are even on the axis, even among predictions, and even among events."""
    third = POINTS // 3
    even = torch.linspace(0, 1, third, dtype=torch.float64)
    among = every[torch.linspace(0, len(every) - 1, third, dtype=torch.float64).round().long()]
    missed = stairs.cells[2]
    levels = torch.linspace(0, float(missed[-1]), third, dtype=missed.dtype)
    events = stairs.thresholds.double()[torch.searchsorted(missed, levels).clamp(max=len(missed) - 1)]
    return torch.cat([every[:1], even, among, events])


def _one_by_one(cells: Tally) -> tuple[Cells, ...]:
    return tuple((tn, fp, fn, tp) for tn, fp, fn, tp in torch.stack(cells, 1).tolist())
