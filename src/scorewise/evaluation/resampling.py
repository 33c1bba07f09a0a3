"""Intervals of scores, and of their differences between models: all models are judged on the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from scorewise.curves.bootstrap import units
from scorewise.curves.choice import slack
from scorewise.evaluation.results import Difference, Interval, Resampling
from scorewise.evaluation.rows import Rows, summed
from scorewise.scores import Score
from scorewise.weights import Weight

Progress = Callable[[Iterable[int]], Iterable[int]]
_WORK = 200_000_000  # samples to draw in all, if nobody says how often
_AT_ONCE = 1 << 20  # samples, of whose counts there is a copy


class Resampled:
    """Scores of all models, plain and weighted, in each resample."""

    def __init__(
        self,
        rows: Rows,
        each: Sequence[tuple[Tensor, Tensor | None]],
        weight: Weight | None,
        *,
        draws: int | None,
        block: int | str | None,
        level: float,
        seed: int,
        progress: Progress | None,
    ) -> None:
        """Draw.

        Args:
            rows: What is judged.
            each: For every model, what each sample adds to its matrix, (n, 4), without the weight and with it.
            weight: The weight.
            draws: How many resamples; None: by the number of samples.
            block: What is drawn together, as for `ScoreCurve.bootstrap`.
            level: The share of them in an interval.
            seed: Of the random numbers.
            progress: Wraps the loop.
        """
        n = len(rows)
        number = max(100, min(1000, _WORK // max(1, n))) if draws is None else draws
        batch = rows.batch(torch.zeros(n, dtype=torch.float64), weight)
        draw, unit = units(batch, weight, block)
        self.how = Resampling(number, level, unit, seed)
        self._weight = weight
        kinds = 1 if weight is None else 2
        # In double precision, however many there are: in single precision equal models differ, by what is rounded.
        stacked = torch.cat([part.double() for some in each for part in some if part is not None], 1)
        g = torch.Generator().manual_seed(seed)
        sums = []
        for _ in range(number) if progress is None else progress(range(number)):
            drawn = draw(g)
            blocks = zip(drawn.split(_AT_ONCE), stacked.split(_AT_ONCE), strict=True)
            sums.append(sum(times.double() @ part for times, part in blocks))
        self._sums = torch.stack(sums).view(number, len(each), kinds, 4)

    def values(self, model: int, score: Score, *, weighted: bool) -> Tensor:
        """A score of a model in each resample."""
        plain, own = self._sums[:, model, 0], self._sums[:, model, -1]
        cells = summed(plain, own if weighted else plain, self._weight if weighted else None)
        return score.function(*cells)

    def intervals(self, model: int, wanted: dict[str, Score], *, weighted: bool) -> dict[str, Interval]:
        """Where each score of a model lies."""
        return {name: self._interval(self.values(model, one, weighted=weighted)) for name, one in wanted.items()}

    def difference(
        self, names: Sequence[str], other: int, score: Score, points: tuple[float, float], *, weighted: bool
    ) -> Difference:
        """The first model against another.

        Args:
            names: Of all models.
            other: The other's place.
            score: The score.
            points: Both models' values in the data.
            weighted: Whether it is that of the weighted matrix.
        """
        first, second = (self.values(model, score, weighted=weighted) for model in (0, other))
        gain = _less(score, first, second)
        better = gain if score.greater_is_better else -gain
        share = float((better > 0).double().mean() + (better == 0).double().mean() / 2)
        value = float(_less(score, *(torch.tensor(point, dtype=torch.float64) for point in points)))
        return Difference(names[0], names[other], score.name, weighted, value, self._interval(gain), share)

    def _interval(self, values: Tensor) -> Interval:
        sides = torch.tensor([(1 - self.how.level) / 2, (1 + self.how.level) / 2], dtype=values.dtype)
        low, high = torch.quantile(values, sides).tolist()
        return low, high


def _less(score: Score, one: Tensor, other: Tensor) -> Tensor:
    """The difference of scores, 0 where it is a matter of rounding: equal ones are ties.

    The sums of equal models are rounded alike where columns are added up in the same order, as here.
    """
    gain, size = one - other, torch.maximum(one.abs(), other.abs())
    return torch.where(gain.abs() <= slack(score, float(size.max()), size.reshape(-1)), 0.0, gain)
