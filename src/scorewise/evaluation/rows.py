"""What is judged: labels with all that belongs to them, and what each sample adds to a matrix."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from scorewise import scores
from scorewise._cells import Tally, balance_of, balanced, cells_of_each
from scorewise._inputs import Batch, located
from scorewise._timeline import ids_of, one_each, ticks_of
from scorewise._values import as_tensor
from scorewise.confusion import decided, read
from scorewise.curves.sweep import check_weight, score_along
from scorewise.evaluation.results import Cells, Judged
from scorewise.scores import Score
from scorewise.weights import Weight


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels, and what belongs to each of them.

    Attributes:
        targets: Labels 0/1, NaN where unknown, (n,).
        groups: The series of each sample, as numbers from 0 on; None: one series.
        times: When; None: places in the series.
        mask: True where a sample counts.
        sample_weight: How much each sample counts.
        from_logits: Whether predictions are logits.
    """

    targets: Tensor
    groups: Tensor | None = None
    times: Tensor | None = None
    mask: Tensor | None = None
    sample_weight: Tensor | None = None
    from_logits: bool = False

    @classmethod
    def of(
        cls, targets: object, *, groups: object, times: object, mask: object, sample_weight: object, from_logits: bool
    ) -> Rows:
        """What a user passed, as tensors."""
        y = as_tensor(targets, "targets")
        if y.dim() != 1:
            raise ValueError(f"targets must have the shape (n,), saw {tuple(y.shape)}.")
        n = len(y)
        ids = None if groups is None else one_each(ids_of(groups, y), "groups", n)
        return cls(
            y,
            None if ids is None else torch.unique(ids, return_inverse=True)[1],
            None if times is None else one_each(ticks_of(times, y), "times", n),
            None if mask is None else one_each(as_tensor(mask, "mask"), "mask", n),
            None if sample_weight is None else one_each(as_tensor(sample_weight, "sample_weight"), "sample_weight", n),
            from_logits,
        )

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, rows: Tensor) -> Rows:
        columns = {name: getattr(self, name) for name in ("groups", "times", "mask", "sample_weight")}
        some: dict[str, Any] = {name: None if column is None else column[rows] for name, column in columns.items()}
        return replace(self, targets=self.targets[rows], **some)

    def only(self, rows: Tensor) -> Rows:
        """The same, where no other samples count; they are still there for those who look around."""
        return replace(self, mask=rows if self.mask is None else self.mask & rows)

    @property
    def context(self) -> dict[str, Any]:
        """The arguments that the functions on predictions share."""
        names = ("from_logits", "groups", "times", "mask", "sample_weight")
        return {name: getattr(self, name) for name in names}

    @property
    def counted(self) -> Tensor:
        """Where a sample counts."""
        some = torch.ones(len(self), dtype=torch.bool) if self.mask is None else self.mask
        return some if self.sample_weight is None else some & (self.sample_weight > 0)

    def check(self, weight: Weight | None) -> None:
        """Raise a TypeError or ValueError if anything but predictions is not as it must be."""
        keep = torch.ones_like(self.targets, dtype=torch.bool) if self.mask is None else self.mask
        bad = (self.targets != 0) & (self.targets != 1)
        # of a mask that is none the batch will tell
        if keep.dtype == torch.bool and bool((bad := bad & keep).any()):
            minus = " For labels -1 and 1 pass (targets + 1) / 2." if bool((self.targets == -1).any()) else ""
            seen = located(bad, self.targets)
            raise ValueError(f"targets must be 0 or 1, but {seen}.{minus} Mark unknown labels with mask=.")
        self.batch(torch.zeros(len(self), dtype=torch.float64), weight)

    def in_time(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows in the order of their series and of time; where a series begins; each one's place in its series."""
        n = len(self)
        series = torch.zeros(n, dtype=torch.int64) if self.groups is None else self.groups
        order = torch.argsort(series, stable=True)  # within a series rows are in the order of time
        ordered = series[order]
        first = torch.cat([torch.ones(min(n, 1), dtype=torch.bool), ordered[1:] != ordered[:-1]])
        begins = first.nonzero().squeeze(1)
        return order, first, torch.arange(n) - begins[first.cumsum(0) - 1]

    def batch(self, x: Tensor, weight: Weight | None) -> Batch:
        """One model's predictions with all this, checked."""
        return read(x, self.targets, weight, hard=True, **self.context)

    def probabilities(self, x: Tensor) -> Tensor:
        """Predictions, as what thresholds are compared with."""
        return torch.sigmoid(x) if self.from_logits else x

    def each(self, x: Tensor, threshold: float, weight: Weight | None) -> Tensor:
        """What each sample adds to TN, FP, FN and TP at a threshold, (n, 4), before classes are balanced."""
        batch = self.batch(x, weight)
        tau = torch.tensor(threshold, dtype=self.probabilities(batch.predictions).dtype)
        batch, chances = decided(batch, tau, weight)
        return torch.stack([cell.double() for cell in cells_of_each(batch, weight, chances)], 1)


def probabilities_or_logits(predictions: object, n: int) -> Tensor:
    """What a user passed for a model, as floating point numbers."""
    x = as_tensor(predictions, "predictions")
    return one_each(x if x.is_floating_point() or x.is_complex() else x.double(), "predictions", n)


@contextlib.contextmanager
def of_model(name: str) -> Iterator[None]:
    """Say in errors which model they are of."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"model {name!r}: {error}") from error


def summed(plain: Tensor, own: Tensor, weight: Weight | None) -> Tally:
    """Sums of what samples add, (..., 4), as the four cells of whole matrices.

    Args:
        plain: The sums without a weight, which tell how many of each class there are.
        own: The sums with it.
        weight: The weight.
    """
    cells = own.unbind(-1)
    times = balance_of(weight)
    if times:
        tn, fp, fn, tp = plain.unbind(-1)
        return balanced(cells, (tn + fp, fn + tp), times)  # type: ignore[arg-type]  # four of them
    return cells  # type: ignore[return-value]  # as above


def in_all(plain: Tensor, own: Tensor, weight: Weight | None) -> Tensor:
    """What each sample adds to the matrix in the end, (n, 4): errors balanced as the classes of all samples ask for."""
    times = balance_of(weight)
    if not times:
        return own
    tn, fp, fn, tp = plain.sum(0).unbind()
    each = own[:, 0], own[:, 1], own[:, 2], own[:, 3]
    return torch.stack(balanced(each, (tn + fp, fn + tp), times), 1)


def names_of(groups: Any, ids: Tensor) -> list[str]:
    """The names of series, by their numbers from 0 on, of what the user passed."""
    n = len(ids)
    number = int(ids.max()) + 1 if n else 0
    first = torch.full((number,), n).scatter_reduce_(0, ids, torch.arange(n), "amin")
    if isinstance(groups, Tensor):
        return [str(one) for one in groups[first].tolist()]
    by_place = getattr(groups, "iloc", groups)  # a pandas column is asked by its own labels otherwise
    return [str(by_place[place]) for place in first.tolist()]


def as_cells(cells: Iterable[Tensor]) -> Cells:
    """Four numbers of four tensors."""
    tn, fp, fn, tp = (float(cell) for cell in cells)
    return tn, fp, fn, tp


def scores_for(main: Score, weight: Weight | None = None) -> dict[str, Score]:
    """All scores by name that fit a weight, the one that matters first, whatever else has its name."""
    found = {main.name: main} | {name: scores.get(name) for name in scores.names() if name != main.name}
    return {name: score for name, score in found.items() if weight is None or _fits(weight, score)}


def _fits(weight: Weight, score: Score) -> bool:
    try:
        check_weight(weight, score)
    except ValueError:
        return False
    return True


def judged(cells: Tally, wanted: dict[str, Score], intervals: dict[str, tuple[float, float]] | None = None) -> Judged:
    """One matrix with its scores."""
    values = {name: float(score.function(*cells)) for name, score in wanted.items()}
    return Judged(as_cells(cells), values, intervals or {})


def along(cells: Tally, wanted: dict[str, Score]) -> dict[str, tuple[float, ...]]:
    """The scores of many matrices."""
    return {name: tuple(score_along(score, cells).tolist()) for name, score in wanted.items()}


def named(values: Sequence[object]) -> tuple[list[str], Tensor]:
    """Different values as text, in order, and the place of each row's among them."""
    texts = [str(value) for value in values]
    names = sorted(set(texts), key=_natural)
    places = {name: k for k, name in enumerate(names)}
    return names, torch.tensor([places[text] for text in texts], dtype=torch.int64)


def _natural(name: str) -> tuple[int, float, str]:
    """Numbers by their size, then texts, of which "nan" is one."""
    try:
        value = float(name)
    except ValueError:
        value = math.nan
    return (1, 0.0, name) if math.isnan(value) else (0, value, name)
