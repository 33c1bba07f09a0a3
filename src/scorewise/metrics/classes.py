"""A score of classes that exclude each other, of all batches so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from scorewise._averages import Average
from scorewise._values import as_tensor, is_whole, shape_of
from scorewise.metrics.base import MatrixMetric, finite
from scorewise.multiclass.matrix import MulticlassMatrix, confusion_matrix
from scorewise.multiclass.scores import ByMargins, get
from scorewise.multiclass.scores import MulticlassScore as ScoreOfClasses
from scorewise.scores import Score


class MulticlassScore(MatrixMetric[MulticlassMatrix]):
    """The score of the m × m confusion matrix of all samples so far: a torchmetrics metric.

    Args:
        score: A name, a binary `Score`, or a score of `scorewise.multiclass.scores`, such as ``cost([[…], …])``.
        num_classes: How many classes there are, at least 2.
        tau: A threshold for each class; None for the most probable class. See `scorewise.multiclass.decide`.
        from_logits: Whether predictions are logits, to be passed through a softmax, or probabilities.
        average: How the scores of classes become one; see `scorewise.multiclass.scores.one_vs_rest`.
        **options: What every torchmetrics metric takes, such as ``process_group``.

    Results are float64 (float32 on devices without it). All states are in the ``state_dict``.

    Example:
        >>> metric = MulticlassScore("hss", num_classes=3)
        >>> metric.update(torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[0.6, 0.1, 0.3]]), torch.tensor([2]))
        >>> metric.compute()
        tensor(0.5000, dtype=torch.float64)
    """

    cells: Tensor

    def __init__(
        self,
        score: str | Score | ScoreOfClasses,
        num_classes: int,
        *,
        tau: Sequence[float] | Tensor | None = None,
        from_logits: bool = False,
        average: Average = "macro",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not is_whole(num_classes) or num_classes < 2:
            raise ValueError(f"num_classes must be a whole number of at least 2, saw {num_classes!r}.")
        self.score = get(score, average)
        self.num_classes = int(num_classes)
        self.from_logits = from_logits
        self.tau: list[float] | None = None if tau is None else as_tensor(tau, "tau").detach().cpu().tolist()
        none = torch.zeros(0, self.num_classes, dtype=torch.float64)
        # refuses a threshold or costs for another number of classes now
        nothing = self._matrix_of(none, torch.zeros(0, dtype=torch.int64))
        self.score(nothing)
        self._keep_sums(["cells"], nothing._sums(), (self.tau, from_logits))

    def _matrix_of(self, preds: Any, target: Any, **rest: Any) -> MulticlassMatrix:
        tau = None if self.tau is None else torch.tensor(self.tau, dtype=torch.float64)
        return confusion_matrix(preds, target, tau, from_logits=self.from_logits, **rest)

    def update(
        self, preds: Tensor, target: Tensor, *, mask: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> None:
        """Add a batch.

        Args:
            preds: Probabilities, or logits with ``from_logits``, (n, m).
            target: Class indices, (n,), or one-hot, (n, m).
            mask: True where a sample counts, (n,); elsewhere anything may be NaN.
            sample_weight: How much each sample counts, (n,).
        """
        x = as_tensor(preds, "preds")
        if x.dim() != 2 or x.shape[1] != self.num_classes:
            raise ValueError(f"preds must have the shape (n, {self.num_classes}), saw {shape_of(x)}.")
        self._add(["cells"], self._matrix_of(x, target, mask=mask, sample_weight=sample_weight)._sums())

    def _matrix(self) -> MulticlassMatrix:
        return MulticlassMatrix(self.cells, _whole=self._is_synced)

    def compute(self) -> Tensor:
        """The score of all samples so far; with ``average=None`` one for each class.

        Over several processes, which must all call it, that of all their samples.
        """
        return self.score(self._matrix())

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]  # it depends on the score
        """Whether greater is better."""
        return self.score.greater_is_better

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]  # as above
        """The score's least value, if it has one."""
        return finite(self.score.range[0]) if isinstance(self.score, ByMargins) else None

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]  # as above
        """The score's greatest value, if it has one."""
        return finite(self.score.range[1]) if isinstance(self.score, ByMargins) else None

    def extra_repr(self) -> str:
        """The arguments, for the module's repr."""
        tau = "" if self.tau is None else f", tau={self.tau}"
        return f"{self.score.name!r}, num_classes={self.num_classes}{tau}, from_logits={self.from_logits}"
