"""Losses for classes that exclude each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scorewise._averages import Average
from scorewise._values import alongside, as_tensor
from scorewise._watch import Watch
from scorewise.confusion import ConfusionMatrix
from scorewise.losses import ScoreLoss
from scorewise.multiclass import scores
from scorewise.multiclass.inputs import Forecasts, check_now, class_limits, extremes, limits, one_hot, prepare
from scorewise.multiclass.matrix import MulticlassMatrix, expected_cells
from scorewise.parallel.processes import check_sync
from scorewise.parallel.sums import LinearizedLoss, SummedLoss, Sums
from scorewise.scores import Score

if TYPE_CHECKING:
    from scorewise.parallel.processes import Sync


class SimplexLoss(SummedLoss):
    r"""Minus the score of the m × m matrix expected under a uniform threshold on the simplex, in closed form.

    .. math:: \ell = -s\left(\mathbb{E}_\tau[CM(\tau)]\right), \quad \hat y = \arg\max_j (p_j - \tau_j)

    With two classes it is `ScoreLoss` with the uniform prior, for accuracy, TSS, HSS and MCC; F1, CSI and precision
    are averaged over both classes here. Accuracy, error rate, kappa, HSS and MCC have their own definition for more
    classes, unless another average than "macro" is asked for; see `scorewise.multiclass.scores.get`.

    The more classes there are, the closer a uniform threshold is to the middle of the simplex, and a sample that is
    clearly of one class, right or wrong, has hardly any gradient: with 10 classes about 1e-11 for a logit of 5 against
    0, with 100 none in float32. Train with cross entropy first or beside it (`CombinedLoss`), or take `OneVsRestLoss`
    where there are more than about ten.

    Args:
        score: A name, a binary `Score`, or a score of `scorewise.multiclass.scores`, such as ``cost([[…], …])``.
        from_logits: Whether the model's outputs are logits, to be passed through a softmax, or probabilities.
        average: How the scores of classes become one; see `scorewise.multiclass.scores.one_vs_rest`.
        sync: Whether a batch is spread over processes, as for `ScoreLoss`.
        validate: Whether to check values, as for `ScoreLoss`.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]], requires_grad=True)
        >>> loss = SimplexLoss("hss")(logits, torch.tensor([0, 1, 2]))
        >>> loss
        tensor(-0.6593, grad_fn=<ToCopyBackward0>)
        >>> loss.backward()
    """

    def __init__(
        self,
        score: str | Score | scores.MulticlassScore,
        *,
        from_logits: bool = True,
        average: Average = "macro",
        sync: Sync = False,
        validate: bool = True,
    ) -> None:
        super().__init__()
        check_sync(sync)
        for name, value in (("from_logits", from_logits), ("validate", validate)):
            if not isinstance(value, bool):
                raise TypeError(f"SimplexLoss: {name} must be True or False, saw {value!r}.")
        self.score = scores.get(score, average)
        self.from_logits = from_logits
        self.sync = sync
        self.validate = validate
        self._sign = -1.0 if self.score.greater_is_better else 1.0
        self._watch = Watch(limits(from_logits=from_logits))

    def forward(
        self, logits: Tensor, targets: Tensor, *, mask: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch: a scalar, or with ``average=None`` one number for each class.

        Args:
            logits: The model's outputs, (n, m).
            targets: Class indices, (n,), or one-hot, (n, m).
            mask: True where a sample counts, (n,); elsewhere anything may be NaN.
            sample_weight: How much each sample counts, (n,).
        """
        return self._loss(logits, targets, mask=mask, sample_weight=sample_weight)

    def _sums(self, logits: Tensor, targets: Tensor, **arguments: Any) -> Sums:
        return self.score._sums(self._forecasts(logits, targets, **arguments))

    def _of(self, sums: Sums) -> Tensor:
        return self.score._of(sums) * self._sign

    @property
    def _width(self) -> int:
        return 3 if isinstance(self.score, scores.ByMargins) else 1

    def matrix(
        self, logits: Tensor, targets: Tensor, *, mask: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> MulticlassMatrix:
        """The expected confusion matrix behind the loss, for the same arguments; of this process's samples."""
        return MulticlassMatrix(
            expected_cells(self._forecasts(logits, targets, mask=mask, sample_weight=sample_weight))
        )

    def of(self, matrix: MulticlassMatrix) -> Tensor:
        """The loss of a matrix, such as the sum of all batches' matrices; see `ScoreLoss.of`."""
        return self._of(self._sums_in(matrix))

    def linearize(self, matrix: MulticlassMatrix) -> LinearizedLoss:
        """The loss whose gradients of micro-batches add up to the whole batch's; see `ScoreLoss.linearize`."""
        return self._linear_at(matrix, self._sums_in(matrix))

    def _sums_in(self, matrix: MulticlassMatrix) -> Sums:
        if not isinstance(matrix, MulticlassMatrix):
            raise TypeError(f"expected a MulticlassMatrix, loss.matrix(…), saw {type(matrix).__name__}.")
        return self.score._sums_in(matrix.cells)

    def _linear(self, sums: Sums) -> LinearizedLoss:
        tangent = super()._linear(sums)
        if tangent.value.dim():
            raise ValueError(
                "with average=None there is a loss for each class, each of which depends on all cells, and so has a "
                "tangent of its own. Pass another average."
            )
        return tangent

    def raise_if_invalid(self) -> None:
        """Raise if a batch seen on an accelerator or in a compiled graph held bad values. Waits for the device."""
        self._watch.raise_if_invalid()

    def _forecasts(self, logits: object, targets: object, **arguments: Any) -> Forecasts:
        forecasts = prepare(logits, targets, from_logits=self.from_logits, **arguments)
        if self.validate:
            if forecasts.x.device.type == "cpu" and not torch.compiler.is_compiling():
                check_now(forecasts)
            else:
                self._watch.record(extremes(forecasts))
        return forecasts

    def extra_repr(self) -> str:
        """The arguments, for the module's repr."""
        return f"{self.score.name!r}, from_logits={self.from_logits}"


class OneVsRestLoss(SummedLoss):
    """`ScoreLoss` of each class against all others, for class indices: a sigmoid and a threshold for each class.

    Args:
        score: As for `ScoreLoss`, and so is all the rest; what can be given for each label can be for each class.
        prior: Which thresholds matter.
        weight: What an error costs.
        from_logits: Whether the model's outputs are logits, to be passed through sigmoids, or probabilities.
        exact: Whether to average the score over the threshold, rather than the matrix.
        average: How the scores of classes become one.
        sync: Whether a batch is spread over processes.
        validate: Whether to check values.

    Example:
        >>> import torch
        >>> loss = OneVsRestLoss("f1", average="min")
        >>> loss(torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]), torch.tensor([0, 1, 2]))
        tensor(-0.5354)
    """

    def __init__(
        self,
        score: Any,
        *,
        prior: object = None,
        weight: Any = None,
        from_logits: bool = True,
        exact: bool = False,
        average: Average = "macro",
        sync: Sync = False,
        validate: bool = True,
    ) -> None:
        super().__init__()
        self.loss = ScoreLoss(
            score,
            prior=prior,
            weight=weight,
            from_logits=from_logits,
            exact=exact,
            average=average,
            sync=sync,
            validate=validate,
        )
        self.sync = sync
        self._watch = Watch(class_limits())

    def forward(
        self,
        logits: Tensor,
        targets: Tensor,
        *,
        groups: object = None,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
        costs: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch; class indices (n,) or one-hot (n, m), and what else `ScoreLoss` takes."""
        rest = {"groups": groups, "times": times, "sample_weight": sample_weight, "costs": costs}
        x, hot, known = self._labels(logits, targets, mask)
        value: Tensor = self.loss(x, hot, mask=known, **rest)
        return value

    def _sums(self, logits: Tensor, targets: Tensor, *, mask: object = None, **rest: Any) -> Sums:
        x, hot, known = self._labels(logits, targets, mask)
        return self.loss._sums(x, hot, mask=known, **rest)

    def _of(self, sums: Sums) -> Tensor:
        return self.loss._of(sums)

    @property
    def _width(self) -> int:
        return self.loss._width

    def of(self, matrix: ConfusionMatrix) -> Tensor:
        """The loss of a matrix, such as the sum of all batches' matrices; see `ScoreLoss.of`."""
        return self.loss.of(matrix)

    def linearize(self, matrix: ConfusionMatrix) -> LinearizedLoss:
        """The loss whose gradients of micro-batches add up to the whole batch's; see `ScoreLoss.linearize`."""
        return self._linear_at(matrix, self.loss._sums_in(matrix))

    def matrix(
        self,
        logits: Tensor,
        targets: Tensor,
        *,
        groups: object = None,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
        costs: Tensor | None = None,
    ) -> ConfusionMatrix:
        """The expected matrix of each class against all others, for the same arguments."""
        x, hot, known = self._labels(logits, targets, mask)
        return self.loss.matrix(
            x, hot, groups=groups, times=times, mask=known, sample_weight=sample_weight, costs=costs
        )

    def _labels(self, logits: object, targets: object, mask: object) -> tuple[Tensor, Tensor, Any]:
        """Logits, one-hot labels, and which of them are known: not those of classes that do not exist."""
        x = as_tensor(logits, "logits")
        hot, good, seen = one_hot(x, targets, mask, checked=self.loss.validate)
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            if bool(good.all()):
                return x, hot, mask
        elif self.loss.validate:
            self._watch.record(seen)
        if mask is None:
            return x, hot, good
        known = alongside(mask, "mask", x)
        return x, hot, known & (good if known.dim() == 1 else good[:, None]) if known.dtype == torch.bool else known

    def raise_if_invalid(self) -> None:
        """As for `ScoreLoss`."""
        self._watch.raise_if_invalid()
        self.loss.raise_if_invalid()
