"""The score at every threshold, and the best of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor

from scorewise import scores
from scorewise._inputs import Batch
from scorewise._labels import check_number, group, label, one_or_each
from scorewise.confusion import ConfusionMatrix, read
from scorewise.curves.bootstrap import Bootstrap, resample
from scorewise.curves.choice import AtLeast, InfeasibleError, choose, constraints, inside, where_allowed
from scorewise.curves.exact import expected_score
from scorewise.curves.sweep import Samples, check_weight, in_float64, in_order, score_along
from scorewise.priors import as_prior
from scorewise.weights import Weight
from scorewise.weights.base import as_weight

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class ScoreCurve:
    """A score at every threshold that makes a difference; `score_curve` makes it.

    Attributes:
        score: The score.
        thresholds: Ascending, in the predictions' dtype: each is the least of a stretch, up to the next one, in which
            no decision changes. At the first everything is called positive (it is -1 if there are predictions of 0), at
            the last, which is the largest prediction, nothing.
        values: The score at each of them.
        matrix: The (weighted) confusion matrix at each of them.
    """

    score: scores.Score
    thresholds: Tensor
    values: Tensor
    matrix: ConfusionMatrix
    _samples: Samples = field(repr=False)

    def best(self, *, at_least: AtLeast | None = None) -> tuple[float, float]:
        """The best threshold and the score there.

        Midway between two predictions, where their dtype has room for that. Of equally good stretches the widest wins;
        equal is what differs by a few roundings only. Where a score is NaN it is not the best.

        Args:
            at_least: What other scores of the same matrix must reach there, as {"precision": 0.9}.
        """
        cells = self.matrix.tn, self.matrix.fp, self.matrix.fn, self.matrix.tp
        allowed = where_allowed(self.thresholds, cells, constraints(at_least))
        place = choose(self.score, self.thresholds, self.values, allowed)
        return inside(self.thresholds, place), float(self.values[place])

    def expected(self, prior: object = None) -> Tensor:
        """The score averaged over a prior of the threshold, exactly; differentiable in the predictions.

        Any function of the matrix will do for a score; if it is NaN at some threshold, so is the average.

        Args:
            prior: An object of `scorewise.priors`, a `torch.distributions` object with a cdf, a density function on
                [0, 1], or None for the uniform prior.
        """
        return expected_score(in_float64(self._samples.batch), self.score, as_prior(prior), self._samples.weight)

    def bootstrap(
        self,
        draws: int = 1000,
        *,
        level: float = 0.95,
        block: int | Literal["series"] | None = None,
        at_least: AtLeast | None = None,
        seed: int = 0,
        progress: Callable[[Iterable[int]], Iterable[int]] | None = None,
    ) -> Bootstrap:
        """How far the best threshold and its score depend on the samples that happened to be there.

        Args:
            draws: How many resamples to draw.
            level: The share of them that an interval holds.
            block: How many consecutive samples to resample together, in the order of series and of time; the end of one
                series and the beginning of the next may share a block. Or "series": whole ones. None: whole series if
                there are ten or more (groups), else blocks of max(n^(1/3), 2 T + 1) samples if there is time (groups or
                times were given, or the weight looks T steps around), and single samples if there is none. Blocks
                should be longer than an event lasts: if they are short, intervals are too narrow.
            at_least: As for `best`; draws in which it cannot be met are left out, and counted.
            seed: Of the random numbers.
            progress: Wraps the loop over draws, as `tqdm.tqdm` does.

        See `Bootstrap` for what the intervals mean.
        """
        return resample(
            self, self._samples, draws, level=level, block=block, at_least=at_least, seed=seed, progress=progress
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        prior: object = None,
        bootstrap: Bootstrap | None = None,
        at_least: AtLeast | None = None,
        label: str | None = None,
    ) -> Figure:
        """Draw the score over the threshold, and mark the best; needs matplotlib (extra: plot).

        Args:
            ax: Where to draw; None for a new figure.
            prior: A prior of the threshold, whose density is drawn beneath.
            bootstrap: What `bootstrap` returned, to draw its intervals.
            at_least: As for `best`, which is marked.
            label: What the legend calls it; None for the score's name.

        Returns:
            The figure.
        """
        from scorewise.curves.plot import draw  # matplotlib is an extra

        return draw(self, ax, prior=prior, bootstrap=bootstrap, at_least=at_least, label=label)

    def __repr__(self) -> str:
        return f"<{self.score.name} at {len(self.thresholds):,} thresholds>"


class Context(TypedDict, total=False):
    """What else a batch is told by; see `score_curve`."""

    from_logits: bool
    groups: object
    times: Tensor | None
    mask: Tensor | None
    sample_weight: Tensor | None
    costs: Tensor | None


@overload
def score_curve(
    predictions: Tensor,
    targets: Tensor,
    score: str | scores.Score,
    weight: Weight | Sequence[Weight | None] | None = None,
    **context: Unpack[Context],
) -> ScoreCurve: ...


@overload
def score_curve(
    predictions: Tensor,
    targets: Tensor,
    score: list[str | scores.Score] | tuple[str | scores.Score, ...],
    weight: Weight | Sequence[Weight | None] | None = None,
    **context: Unpack[Context],
) -> dict[str, ScoreCurve]: ...


def score_curve(
    predictions: Tensor,
    targets: Tensor,
    score: str | scores.Score | list[str | scores.Score] | tuple[str | scores.Score, ...],
    weight: Weight | Sequence[Weight | None] | None = None,
    *,
    from_logits: bool = False,
    groups: object = None,
    times: Tensor | None = None,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
    costs: Tensor | None = None,
) -> Any:
    """A score at every threshold, exactly, in about n log n.

    Args:
        predictions: Probabilities (or 0/1 classes), (n,) or (n, labels); tensors or NumPy arrays.
        targets: Labels 0/1, or soft labels in [0, 1], of the same shape.
        score: A name (see `scorewise.scores.names`) or a `Score`; or a list of them, which share the matrices: each for
            all labels.
        weight: What an error costs, an object of `scorewise.weights` that sees the threshold through alarms only: not
            Margin, nor Custom. With labels, one for all or a list of one for each.
        from_logits: Whether ``predictions`` are logits; thresholds are probabilities all the same. Logits
            above 17 (in float64: 37) are all the same probability, 1: nothing lies between them.
        groups: The series that each sample belongs to, as for `confusion_matrix`.
        times: When, in whole units of one lag, as for `confusion_matrix`.
        mask: True where a sample counts, as for `confusion_matrix`.
        sample_weight: How much each sample counts, at least 0.
        costs: What an error of each sample costs, as for `confusion_matrix`.

    Returns:
        The curve; for (n, labels), a list of one for each label; for a list of scores, a dict of these by name.

    Example:
        >>> import torch
        >>> predictions, targets = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
        >>> curve = score_curve(predictions, targets, "csi")
        >>> curve.thresholds, curve.values
        (tensor([0.0000, 0.1000, 0.3500, 0.4000, 0.8000]),
         tensor([0.5000, 0.6667, 0.3333, 0.5000, 0.0000], dtype=torch.float64))
        >>> threshold, value = curve.best()
        >>> round(threshold, 3), round(value, 3)
        (0.225, 0.667)
        >>> curve.expected()  # over all thresholds alike
        tensor(0.4333, dtype=torch.float64)
    """
    several = isinstance(score, list | tuple)
    asked = list(score) if isinstance(score, list | tuple) else [score]
    wanted = [scores.get(one) for one in asked]
    names = [one if isinstance(one, str) else one.name for one in asked]
    if not wanted or len(set(names)) < len(names):
        raise ValueError(f"score_curve: expected one or more scores of different names, saw {names}.")
    weights = one_or_each(weight, as_weight, "weight")
    for one, its_weight in itertools.product(wanted, weights if isinstance(weights, tuple) else (weights,)):
        check_weight(its_weight, one)
    rest = {"groups": groups, "times": times, "mask": mask, "sample_weight": sample_weight, "costs": costs}
    batch = read(predictions, targets, weights, from_logits=from_logits, hard=True, **rest)
    if batch.predictions.dim() == 1 and not isinstance(weights, tuple):
        curves = _curves(batch, weights, wanted)
        return dict(zip(names, curves, strict=True)) if several else curves[0]
    check_number(batch, group(weight=weights))
    labels = range(batch.predictions.shape[1])
    own = weights if isinstance(weights, tuple) else (weights,) * len(labels)
    by_score = [list(some) for some in zip(*(_curves(label(batch, j), own[j], wanted) for j in labels), strict=True)]
    # The shape tells whether there are labels, which no type checker can see: the signatures above are without.
    return dict(zip(names, by_score, strict=True)) if several else by_score[0]


def _curves(batch: Batch, weight: Weight | None, wanted: list[scores.Score]) -> list[ScoreCurve]:
    """The curves of one label, for each score."""
    samples = in_order(batch, weight)
    thresholds, cells = samples.stairs()
    thresholds, matrix = thresholds.to(batch.predictions.dtype), ConfusionMatrix(*cells)
    return [ScoreCurve(one, thresholds, score_along(one, cells), matrix, samples) for one in wanted]


def best_threshold(
    predictions: Tensor,
    targets: Tensor,
    score: str | scores.Score | list[str | scores.Score] | tuple[str | scores.Score, ...],
    weight: Weight | Sequence[Weight | None] | None = None,
    *,
    at_least: AtLeast | None = None,
    from_logits: bool = False,
    groups: object = None,
    times: Tensor | None = None,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
    costs: Tensor | None = None,
) -> float | Tensor:
    """The threshold with the best score: no grid, all of them are tried.

    Args:
        predictions: As for `score_curve`, and so are the arguments that are not named here.
        targets: Labels 0/1, or soft labels in [0, 1], of the same shape.
        score: A name (see `scorewise.scores.names`) or a `Score`; with labels, one for all or a list of one for each.
        weight: What an error costs.
        at_least: What other scores of the same (weighted) matrix must reach, as {"precision": 0.9}. If they cannot, the
            error says what they can.
        from_logits: Whether ``predictions`` are logits; the threshold is a probability all the same. Logits
            above 17 (in float64: 37) are all the same probability, 1: nothing lies between them.
        groups: The series that each sample belongs to.
        times: When, in whole units of one lag.
        mask: True where a sample counts.
        sample_weight: How much each sample counts, at least 0.
        costs: What an error of each sample costs.

    Returns:
        A number: what is greater than it is to be called positive. It lies midway between two predictions where their
        dtype has room for that; of equally good stretches between predictions the widest is taken. With labels, a
        tensor of one for each, to be passed to `confusion_matrix`.

    Example:
        >>> import torch
        >>> predictions, targets = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
        >>> round(best_threshold(predictions, targets, "csi"), 3)
        0.225
        >>> round(best_threshold(predictions, targets, "csi", at_least={"precision": 0.9}), 3)
        0.6
    """
    own = list(score) if isinstance(score, list | tuple) else None
    asked: Any = score if own is None else list(dict.fromkeys(own))
    found: Any = score_curve(
        *(predictions, targets, asked, weight),
        from_logits=from_logits,
        groups=groups,
        times=times,
        mask=mask,
        sample_weight=sample_weight,
        costs=costs,
    )
    if isinstance(found, ScoreCurve):
        return found.best(at_least=at_least)[0]
    if own is not None:
        labels = next(iter(found.values()))
        if isinstance(labels, ScoreCurve) or len(labels) != len(own):
            seen = "no labels" if isinstance(labels, ScoreCurve) else f"{len(labels)} labels"
            raise ValueError(f"best_threshold: expected one score, or one for each label; saw {len(own)} for {seen}.")
        names = [one if isinstance(one, str) else one.name for one in own]
        found = [found[name][j] for j, name in enumerate(names)]
    thresholds = []
    for j, curve in enumerate(found):
        try:
            thresholds.append(curve.best(at_least=at_least)[0])
        except InfeasibleError as error:
            raise InfeasibleError(f"label {j}: {error}") from error
    return torch.tensor(thresholds, dtype=found[0].thresholds.dtype, device=found[0].thresholds.device)
