"""A search for the best threshold on the simplex."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from scorewise._averages import Average
from scorewise._values import is_whole
from scorewise.multiclass import scores
from scorewise.multiclass.inputs import check_now, prepare
from scorewise.multiclass.matrix import confusion_matrix
from scorewise.scores import Score

_FEW = 512  # thresholds of a class to try at a time
_ROUNDS = 50


def best_tau(
    predictions: Tensor,
    targets: Tensor,
    score: str | Score | scores.MulticlassScore,
    *,
    from_logits: bool = False,
    average: Average = "macro",
    starts: int = 4,
    seed: int = 0,
    progress: Callable[[Iterable[int]], Iterable[int]] | None = None,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> tuple[Tensor, float]:
    """A good threshold on the simplex for `decide`, found by a search: not exact for three classes or more.

    One class after another gets its best threshold while the others keep theirs, up to a constant that makes them sum
    to 1. For one class the thresholds come from one sort: all of them are tried if there are few, and else some of
    them and then those beside the best. That is repeated until nothing improves, from the same threshold for all and
    from random ones. With two classes the result is the best there is on the simplex. (There, where a forecast is
    certain, it cannot be overruled; `best_threshold` can do that with a threshold below 0.)

    Args:
        predictions: Probabilities, (n, m).
        targets: Class indices, (n,), or one-hot, (n, m).
        score: A name, a binary `Score` (macro average), or a score of `scorewise.multiclass.scores`.
        from_logits: Whether ``predictions`` are logits.
        average: How the scores of classes become one, as for `SimplexLoss`.
        starts: How many times to search; the best of them is returned.
        seed: Of the random numbers.
        progress: Wraps the loop over starts, as `tqdm.tqdm` does. A start takes some rounds of m sorts of n numbers and
            of m tables of 512 × m: with 10 classes and 10,000 samples a tenth of a second, with 100 some seconds.
        mask: True where a sample counts, (n,).
        sample_weight: How much each sample counts, (n,).

    Returns:
        The threshold of each class, (m,) in float64, at least 0 and together 1; and the score there, which is at least
        that of the most probable class.

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.5, 0.2, 0.3], [0.8, 0.1, 0.1]])
        >>> tau, value = best_tau(p, torch.tensor([0, 1, 2, 0]), "accuracy")
        >>> from scorewise.multiclass import decide
        >>> decide(p, tau), value
        (tensor([0, 1, 2, 0]), 1.0)
    """
    wanted = scores.get(score, average)
    if not isinstance(wanted, scores.ByMargins | scores.Cost):
        raise TypeError(f"best_tau: expected a name, a binary score or one of multiclass.scores, saw {wanted}.")
    if isinstance(wanted, scores.ByMargins) and wanted.function(*torch.ones(3, 2)).dim():
        raise ValueError(f"best_tau needs one number to make large, but {wanted} has one for each class.")
    if not is_whole(starts) or starts < 1:
        raise ValueError(f"best_tau: starts must be a whole number of at least 1, saw {starts!r}.")
    if not is_whole(seed):
        raise ValueError(f"best_tau: seed must be a whole number, saw {seed!r}.")
    with torch.no_grad():
        forecasts = prepare(predictions, targets, from_logits=from_logits, mask=mask, sample_weight=sample_weight)
        check_now(forecasts)
        weights = forecasts.weights
        counted = weights > 0
        p = forecasts.probabilities.to(weights.dtype)[counted]
        search = _Search(wanted, p, forecasts.targets[counted], weights[counted])
        m = forecasts.classes
        g = torch.Generator().manual_seed(int(seed))
        found: list[tuple[Tensor, float]] = []
        for k in range(int(starts)) if progress is None else progress(range(int(starts))):
            # of independent exponential numbers, the shares are uniform on the simplex
            shares = torch.ones(m) if k == 0 else torch.empty(m).exponential_(generator=g)
            found.append(search.climb((shares / shares.sum()).to(p)))
    sign = 1 if wanted.greater_is_better else -1
    tau, _ = max(found, key=lambda pair: sign * pair[1])
    # Beside what was found: no preference, and as much of one as there can be.
    candidates = [tau, torch.full_like(tau, 1 / m), *torch.eye(m, dtype=tau.dtype, device=tau.device)]
    context = {"mask": mask, "sample_weight": sample_weight}
    matrices = (confusion_matrix(predictions, targets, one, from_logits=from_logits, **context) for one in candidates)
    values = [float(wanted(matrix)) for matrix in matrices]
    best = max(range(len(values)), key=lambda k: sign * values[k])
    return candidates[best], values[best]


class _Search:
    """Samples that count, and a score to be climbed."""

    def __init__(self, score: scores.MulticlassScore, p: Tensor, targets: Tensor, weights: Tensor) -> None:
        self.score, self.p, self.targets, self.weights = score, p, targets, weights
        self.sign = 1 if score.greater_is_better else -1

    def climb(self, tau: Tensor) -> tuple[Tensor, float]:
        """From a threshold upwards, class by class, until no class has a better one."""
        best = -math.inf
        for _ in range(_ROUNDS):
            before = best
            for label in range(len(tau)):
                moved, value = self._best_of_one(tau, label)
                if value > best + 1e-12 * max(1.0, abs(value)):
                    tau, best = moved, value
            if best == before:
                break
        return tau, self.sign * best

    def _best_of_one(self, tau: Tensor, label: int) -> tuple[Tensor, float]:
        """The best threshold of one class, and the goodness there."""
        margins = self.p - tau
        margins[:, label] = -math.inf
        rival, other = margins.max(1)
        # below this threshold a sample is called this class, above it the other
        turn, order = (self.p[:, label] - rival).sort()
        least, most = _range(tau, label)
        ends = torch.cat([turn.new_full((1,), least), turn.clamp(least, most), turn.new_full((1,), most)])
        widths = ends.diff()
        samples = self.targets[order], self.weights[order], other[order]
        n = len(order)
        if n <= _FEW or len(tau) == 2:
            place, top = self._best_at(torch.arange(n + 1, device=turn.device), label, samples, widths)
        else:
            some = torch.linspace(0, n, _FEW, device=turn.device).long()
            place, _ = self._best_at(some, label, samples, widths)
            step = n // _FEW + 1
            near = torch.arange(max(0, place - step), min(n, place + step) + 1, device=turn.device)
            place, top = self._best_at(near, label, samples, widths)
        if top == -math.inf:
            return tau, top
        moved = tau.clone()
        moved[label] = ends[place] + widths[place] / 2
        return (moved + (1 - moved.sum()) / len(tau)).clamp(min=0), top

    def _best_at(
        self, at: Tensor, label: int, samples: tuple[Tensor, Tensor, Tensor], widths: Tensor
    ) -> tuple[int, float]:
        """The best of some places, of equal ones the widest, and its goodness; minus infinity if there is no room."""
        room = widths[at]
        # no room between two equal ones, nor outside of the simplex
        values = (self.sign * self._along(label, at, *samples)).masked_fill(room <= 0, -math.inf)
        top = float(values.max())
        return int(at[int(torch.where(values == top, room, -1.0).argmax())]), top

    def _along(self, label: int, at: Tensor, targets: Tensor, weights: Tensor, other: Tensor) -> Tensor:
        """The score while the first ``at`` samples of an order are called the other class, the rest this one."""
        m, places = self.p.shape[1], len(at)
        # a sample is called the other class from the first place on that is beyond it
        since = torch.searchsorted(at, torch.arange(1, len(targets) + 1, device=at.device))

        def summed(amounts: Tensor, classes: Tensor | None = None) -> Tensor:
            """The running sums of what changes with each sample, at the places; of classes, if they are given."""
            width = 1 if classes is None else m
            index = since * width if classes is None else since * width + classes
            sums = amounts.new_zeros((places + 1) * width).index_add(0, index, amounts)
            return sums.reshape(places + 1, width)[:-1].cumsum(0)

        if isinstance(self.score, scores.Cost):
            costs = self.score.like(self.p)
            as_label, as_other = weights * costs[targets, label], weights * costs[targets, other]
            return -(as_label.sum() + summed(as_other - as_label)[:, 0])
        truth = weights.new_zeros(m).index_add(0, targets, weights)
        called, hits = summed(weights, other), summed(weights * (targets == other), other)
        called[:, label] = weights.sum() - summed(weights)[:, 0]
        hits[:, label] = truth[label] - summed(weights * (targets == label))[:, 0]
        return self._of(hits, truth, called)

    def _of(self, hits: Tensor, truth: Tensor, called: Tensor) -> Tensor:
        assert isinstance(self.score, scores.ByMargins)  # noqa: S101  # asked before; for the type checker
        return self.score.function(hits.clamp(min=0), (truth - hits).clamp(min=0), (called - hits).clamp(min=0))


def _range(tau: Tensor, label: int) -> tuple[float, float]:
    """Between which thresholds of one class all can be shifted onto the simplex; others keep their differences."""
    m = len(tau)
    others = torch.cat([tau[:label], tau[label + 1 :]])
    left = 1 - float(others.sum())
    return -left / (m - 1), left + m * float(others.min())
