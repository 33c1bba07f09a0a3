"""A search for the best threshold on the simplex."""

from __future__ import annotations

import torch
from torch import Tensor

from scorewise._values import is_whole
from scorewise.multiclass import scores
from scorewise.multiclass.inputs import check_now, prepare
from scorewise.multiclass.matrix import confusion_matrix
from scorewise.scores import Score

_NUMBERS_AT_A_TIME = 1 << 22
_ROUNDS = 50


def best_tau(
    predictions: Tensor,
    targets: Tensor,
    score: str | Score | scores.MulticlassScore,
    *,
    from_logits: bool = False,
    starts: int = 4,
    seed: int = 0,
    mask: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> tuple[Tensor, float]:
    """A good threshold on the simplex for `decide`, found by a search: not exact for three classes or more.

    One class after another gets its best threshold while the others keep theirs, up to a constant that makes them sum
    to 1; for one class every threshold is tried, from one sort. That is repeated until nothing improves, from the same
    threshold for all, and from random ones. With two classes the result is exact.

    Args:
        predictions: Probabilities, (n, m).
        targets: Class indices, (n,), or one-hot, (n, m).
        score: A name, a binary `Score` (macro average), or a score of `scorewise.multiclass.scores`.
        from_logits: Whether ``predictions`` are logits.
        starts: How many times to search; the best of them is returned.
        seed: Of the random numbers.
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
    wanted = scores.get(score)
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
        for k in range(int(starts)):
            # of independent exponential numbers, the shares are uniform on the simplex
            shares = torch.ones(m) if k == 0 else torch.empty(m).exponential_(generator=g)
            found.append(search.climb((shares / shares.sum()).to(p)))
    sign = 1 if wanted.greater_is_better else -1
    tau, _ = max(found, key=lambda pair: sign * pair[1])
    rest = {"mask": mask, "sample_weight": sample_weight}
    value = float(wanted(confusion_matrix(predictions, targets, tau, from_logits=from_logits, **rest)))
    even = torch.full_like(tau, 1 / m)
    plain = float(wanted(confusion_matrix(predictions, targets, even, from_logits=from_logits, **rest)))
    return (tau, value) if sign * (value - plain) >= 0 else (even, plain)


class _Search:
    """Samples that count, and a score to be climbed."""

    def __init__(self, score: scores.MulticlassScore, p: Tensor, targets: Tensor, weights: Tensor) -> None:
        self.score, self.p, self.targets, self.weights = score, p, targets, weights
        self.sign = 1 if score.greater_is_better else -1

    def climb(self, tau: Tensor) -> tuple[Tensor, float]:
        """From a threshold upwards, class by class, until no class has a better one."""
        best = -float("inf")
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
        margins[:, label] = -float("inf")
        rival, other = margins.max(1)
        # below this threshold a sample is called this class, above it the other
        turn, order = (self.p[:, label] - rival).sort()
        least, most = _range(tau, label)
        ends = torch.cat([turn.new_full((1,), least), turn.clamp(least, most), turn.new_full((1,), most)])
        widths = ends.diff()
        values = self.sign * self._along(label, order, other[order])
        # no room between two equal ones, nor outside of the simplex
        values = values.masked_fill(widths <= 0, -float("inf"))
        top = values.max()
        if not bool(top > -float("inf")):
            return tau, -float("inf")
        place = int(torch.where(values == top, widths, -1.0).argmax())
        moved = tau.clone()
        moved[label] = ends[place] + widths[place] / 2
        return (moved + (1 - moved.sum()) / len(tau)).clamp(min=0), float(top)

    def _along(self, label: int, order: Tensor, other: Tensor) -> Tensor:
        """The score while the first 0, 1, 2, … samples of an order are called the other class, the rest this one."""
        targets, weights = self.targets[order], self.weights[order]
        m = self.p.shape[1]
        if isinstance(self.score, scores.Cost):
            costs = self.score.like(self.p)
            as_label, as_other = weights * costs[targets, label], weights * costs[targets, other]
            moved = torch.cat([weights.new_zeros(1), (as_other - as_label).cumsum(0)])
            return -(as_label.sum() + moved)
        truth = weights.new_zeros(m).index_add(0, targets, weights)
        called, hits = torch.zeros_like(truth), torch.zeros_like(truth)
        called[label], hits[label] = weights.sum(), truth[label]
        values = [self._of(hits, truth, called).reshape(1)]
        rows = max(1, _NUMBERS_AT_A_TIME // m)
        for start in range(0, len(order), rows):
            part = slice(start, start + rows)
            w, y, k = weights[part], targets[part], other[part]
            called_then, hits_then = (w.new_zeros(len(w), m) for _ in range(2))
            called_then.scatter_(1, k[:, None], w[:, None])
            called_then[:, label] -= w
            hits_then.scatter_(1, k[:, None], (w * (y == k))[:, None])
            hits_then[:, label] -= w * (y == label)
            called_then, hits_then = called_then.cumsum(0).add_(called), hits_then.cumsum(0).add_(hits)
            values.append(self._of(hits_then, truth, called_then))
            called, hits = called_then[-1], hits_then[-1]
        return torch.cat(values)

    def _of(self, hits: Tensor, truth: Tensor, called: Tensor) -> Tensor:
        assert isinstance(self.score, scores.ByMargins)  # noqa: S101  # there are two kinds; for the type checker
        return self.score.function(hits.clamp(min=0), (truth - hits).clamp(min=0), (called - hits).clamp(min=0))


def _range(tau: Tensor, label: int) -> tuple[float, float]:
    """Between which thresholds of one class all can be shifted onto the simplex; others keep their differences."""
    m = len(tau)
    others = torch.cat([tau[:label], tau[label + 1 :]])
    left = 1 - float(others.sum())
    return -left / (m - 1), left + m * float(others.min())
