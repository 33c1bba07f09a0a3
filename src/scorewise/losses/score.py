"""Minus a score of the expected confusion matrix, or minus the expected score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scorewise import scores
from scorewise._averages import Average
from scorewise._cells import balance_of, balanced, class_counts, expected_sums, plan_for
from scorewise._inputs import Batch, check_now, extremes, limits, prepare
from scorewise._labels import LabelScores, goodness_of, group, one_or_each, over_labels
from scorewise._watch import Watch
from scorewise.confusion import ConfusionMatrix, matrix_of
from scorewise.curves.exact import expected_score_under
from scorewise.curves.sweep import check_weight
from scorewise.parallel.processes import check_sync, gathered
from scorewise.parallel.sums import LinearizedLoss, SummedLoss, Sums, as_loss
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.weights import Weight
from scorewise.weights.base import as_weight, looks_around
from scorewise.weights.samplewise import check_diagonal

if TYPE_CHECKING:
    from scorewise.parallel.processes import Sync


class ScoreLoss(SummedLoss):
    r"""Minus the score of the confusion matrix expected under a prior of the threshold.

    .. math:: \ell = -s\left(\mathbb{E}_\tau[CM(\tau)]\right)

    Minimising it trains for the score ``s`` at the thresholds that the prior finds likely. A score for which less is
    better (error_rate) enters with a plus sign. The loss depends on the batch as a whole: larger batches, with both
    classes in them, give better gradients.

    Args:
        score: A name (see `scorewise.scores.names`) or a `Score`; or a list of one for each label.
        prior: Which thresholds matter: an object of `scorewise.priors`, a `torch.distributions` object with a cdf, a
            density function on [0, 1], or None for the uniform prior; or a list of one for each label.
        weight: What an error costs: an object of `scorewise.weights`, or None for one each; or a list of one for each
            label.
        from_logits: Whether the model's outputs are logits (the default, and more exact) or probabilities.
        exact: Whether to average the score over the threshold, rather than the matrix:
            :math:`-\mathbb{E}_\tau[s(CM(\tau))]`, which the loss above is the first-order approximation of, and which
            the score does not have to be differentiable for. It takes a sort of the batch. Not with weights that see
            the threshold itself (Margin, Custom). `scorewise.theorem_gap` tells how far apart the two are.
        average: How the scores of labels become one, with (n, labels) outputs: "macro", their mean; "weighted", their
            mean weighted by the positives that count; "min", the worst; "micro", the score of the sum of their
            matrices; a function of the (labels,) scores; or None: one loss for each label.
        sync: Whether a batch is spread over processes: True for all of them, a process group, or False. Then every
            process has the loss of all their samples, and the mean of their gradients, which is what
            DistributedDataParallel makes, is the gradient of one process with all samples; see `scorewise.parallel`.
            Every process calls the loss equally often, if need be with an empty batch. Exact losses gather the
            predictions of all processes in each of them. Where torch.distributed is not initialised it does nothing.
        validate: Whether to check values. Shapes and dtypes are always checked. On a CPU a bad value is an error at
            once. On an accelerator nothing waits for the device: the error comes at a later call, or from
            `raise_if_invalid`. A compiled graph cannot raise at all: call `raise_if_invalid` now and then, once an
            epoch say.

    The loss is computed in float32 for narrower logits, and sums are in float64. Where a batch lacks a class the terms
    that would divide by it are 0, so that TSS there is at most 0. `torch.func.grad` works on it; `vmap` and forward
    mode do not. `torch.compile` takes each further loss object for a recompilation of the first, and refuses the ninth
    unless `torch._dynamo.config.recompile_limit` is raised.

    Example:
        >>> logits = torch.tensor([-2.0, 0.5, 1.0, 3.0], requires_grad=True)
        >>> loss = ScoreLoss("tss")(logits, torch.tensor([0, 0, 1, 1]))
        >>> loss
        tensor(-0.4710, grad_fn=<ToCopyBackward0>)
        >>> loss.backward()

    Reference:
        F. Marchetti, S. Guastavino, C. Campi, F. Benvenuto, M. Piana: A comprehensive theoretical framework for the
        optimization of neural networks classification performance with respect to weighted metrics.
    """

    def __init__(
        self,
        score: str | scores.Score | Sequence[str | scores.Score],
        *,
        prior: object = None,
        weight: Weight | Sequence[Weight | None] | None = None,
        from_logits: bool = True,
        exact: bool = False,
        average: Average = "macro",
        sync: Sync = False,
        validate: bool = True,
    ) -> None:
        super().__init__()
        for name, value in (("from_logits", from_logits), ("exact", exact), ("validate", validate)):
            if not isinstance(value, bool):
                raise TypeError(f"ScoreLoss: {name} must be True or False, saw {value!r}.")
        check_sync(sync)
        self._scores = LabelScores(score, average)
        self.score = self._scores.score
        self.prior: ThresholdPrior | tuple[ThresholdPrior, ...] = one_or_each(prior, as_prior, "prior")
        self.weight: Weight | tuple[Weight | None, ...] | None = one_or_each(weight, as_weight, "weight")
        self.from_logits = from_logits
        self.exact = exact
        self.average = average
        self.sync = sync
        self.validate = validate
        self._groups = group(score=self.score, prior=self.prior, weight=self.weight)
        self._matrix_groups = group(prior=self.prior, weight=self.weight)
        self._balance = balance_of(self.weight)
        self._counts = self._balance != 0 or average == "weighted"
        kinds = (
            [(self.score, self.prior, self.weight)] if self._groups is None else [own for _, own in self._groups.parts]
        )
        for one, its_prior, its_weight in kinds:
            if its_weight is not None:
                check_diagonal(its_weight, one)
                its_weight._ready(its_prior)
            if exact:
                check_weight(its_weight, one)
        if average == "micro" and exact:
            raise ValueError(
                "average='micro' adds the matrices of labels that have a threshold each, so that there is no order of "
                "all predictions to take an exact expectation along. Pass exact=False or another average."
            )
        self._watch = Watch(limits(from_logits=from_logits))

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
        """The loss of a batch: a scalar, or with labels and ``average=None`` one number for each of them.

        Args:
            logits: The model's outputs, (n,) or (n, labels).
            targets: Labels 0/1 of any dtype, or soft labels in [0, 1] (not with `Value`), of the same shape.
            groups: The series that each sample belongs to, integers or strings, (n,). It and ``times`` are always
                checked, and used by weights that look around in time.
            times: When, in whole units of one lag, increasing within a group, (n,); see `scorewise.series.lags`.
                Without it, a sample's place in its group is its time.
            mask: True where a sample counts; elsewhere logits and labels may be NaN and get no gradient. To a weight
                that looks around, samples that do not count are still there, and their logits have a gradient.
            sample_weight: How much each sample counts, at least 0.
            costs: What an error of each sample costs, [as a false positive, as a false negative], (n, 2) or
                (n, labels, 2); multiplies the weight.
        """
        rest = {"groups": groups, "times": times, "mask": mask, "sample_weight": sample_weight, "costs": costs}
        return self._exact(logits, targets, **rest) if self.exact else self._loss(logits, targets, **rest)

    def _exact(self, logits: Tensor, targets: Tensor, **rest: Any) -> Tensor:
        """Minus the expected score."""

        def work(batch: Batch, score: scores.Score, prior: ThresholdPrior, weight: Weight | None) -> tuple[Tensor]:
            everyone, plan = gathered(batch, plan_for(batch, weight), self.sync)
            return (goodness_of(score, expected_score_under(everyone, score, prior, plan)),)

        batch = self._batch(logits, targets, **rest)
        (goodness,) = over_labels(batch, self._groups, (self.score, self.prior, self.weight), work)
        counts = None
        if goodness.dim() and self.average == "weighted":
            negatives, positives = self._shared(class_counts(batch))
            counts = negatives, positives
        return as_loss(-self._scores.one_number(goodness, counts), logits)

    def _sums(self, logits: Tensor, targets: Tensor, **rest: Any) -> Sums:
        if self.exact:
            raise ValueError(
                "an exact loss is the mean of a score over all thresholds, and no function of one matrix: it cannot be "
                "had from sums over micro-batches. Pass whole batches, or exact=False."
            )
        return self._sums_of(self._batch(logits, targets, **rest))

    @property
    def _width(self) -> int:
        return 6 if self._counts else 4

    def _sums_of(self, batch: Batch) -> Sums:
        cells = over_labels(batch, self._matrix_groups, (self.prior, self.weight), expected_sums)
        return (*cells, *class_counts(batch)) if self._counts else cells

    def _of(self, sums: Sums) -> Tensor:
        tn, fp, fn, tp, *rest = sums
        counts = (rest[0], rest[1]) if rest else None
        cells = balanced((tn, fp, fn, tp), counts, self._balance) if counts and self._balance else (tn, fp, fn, tp)
        return -self._scores.goodness(cells, counts)

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
        """The expected confusion matrix, for the same arguments; unless ``exact``, the loss is minus its score.

        It is that of this process's samples, also with ``sync``; `scorewise.parallel.summed` adds up all of them.
        """
        rest = {"groups": groups, "times": times, "mask": mask, "sample_weight": sample_weight, "costs": costs}
        tn, fp, fn, tp, *counts = self._sums_of(self._batch(logits, targets, **rest))
        return matrix_of((tn, fp, fn, tp), (counts[0], counts[1]) if counts else None, self._balance)

    def of(self, matrix: ConfusionMatrix) -> Tensor:
        """The loss of a matrix, such as the sum of all batches' matrices; float64, differentiable in the matrix.

        Also with ``sync`` it is taken as it is: add it up with `scorewise.parallel.summed` first.

        Example:
            >>> loss, (a, b) = ScoreLoss("csi"), torch.tensor([[-2.0, 3.0], [1.0, -1.0]])
            >>> loss.of(loss.matrix(a, torch.tensor([0, 1])) + loss.matrix(b, torch.tensor([1, 0])))
            tensor(-0.7050, dtype=torch.float64)
        """
        return self._of(self._sums_in(matrix))

    def linearize(self, matrix: ConfusionMatrix) -> LinearizedLoss:
        """The loss whose gradients of micro-batches add up to the gradient of the whole batch.

        Args:
            matrix: The matrix of the whole batch: the sum of ``loss.matrix(…)`` of all of its micro-batches, which
                needs no gradient. With ``sync``, of this process's micro-batches; they are added up over processes
                here, so that every process must call this once a step, with however many micro-batches.

        Returns:
            A loss for the micro-batches, with the loss of the whole batch as its ``value``; `parallel.accumulate` runs
            a whole step with it.

        Example:
            >>> loss, logits = ScoreLoss("f1"), torch.tensor([-2.0, 0.5, 1.0, 3.0], requires_grad=True)
            >>> parts = list(zip(logits.split(2), torch.tensor([0, 0, 1, 1]).split(2)))
            >>> tangent = loss.linearize(sum(loss.matrix(*part) for part in parts))
            >>> for part in parts:
            ...     tangent(*part).backward()
            >>> tangent.value, logits.grad
            (tensor(-0.7609, dtype=torch.float64), tensor([ 0.0181,  0.0404, -0.0551, -0.0126]))
        """
        return self._linear_at(matrix, self._sums_in(matrix))

    def _sums_in(self, matrix: ConfusionMatrix) -> Sums:
        """The sums that a matrix was made of."""
        if self.exact:
            self._sums(matrix.tn, matrix.tp)  # raises
        if not isinstance(matrix, ConfusionMatrix):
            raise TypeError(f"expected a ConfusionMatrix, loss.matrix(…), saw {type(matrix).__name__}.")
        known = matrix._unbalanced
        if (0 if known is None else known.times) != self._balance or (self._counts and known is None):
            raise ValueError(
                "the matrix does not have the class counts that this loss needs, or was weighted by class frequencies "
                "otherwise. Pass the sum of loss.matrix(…) of all batches."
            )
        labels = self._groups and self._groups.labels
        if labels is not None and matrix.tn.shape != (labels,):
            raise ValueError(
                f"there are scores, priors or weights for {labels} labels, but the matrix has the shape "
                f"{tuple(matrix.tn.shape)}."
            )
        return matrix._sums()[: self._width]

    def raise_if_invalid(self) -> None:
        """Raise if a batch seen on an accelerator or in a compiled graph held bad values. Waits for the device."""
        self._watch.raise_if_invalid()

    def _batch(self, logits: object, targets: object, **arguments: Any) -> Batch:
        batch = prepare(
            *(logits, targets),
            from_logits=self.from_logits,
            context=looks_around(self.weight),
            checked=self.validate,
            **arguments,
        )
        if self.validate:
            if batch.predictions.device.type == "cpu" and not torch.compiler.is_compiling():
                check_now(batch)
            else:
                self._watch.record(extremes(batch))
        return batch

    def extra_repr(self) -> str:
        """The arguments, for the module's repr."""
        weight = "" if self.weight is None else f", weight={self.weight}"
        exact = ", exact=True" if self.exact else ""
        average = "" if self.average == "macro" else f", average={self.average!r}"
        score = repr([one.name for one in self.score] if isinstance(self.score, tuple) else self.score.name)
        sync = f", sync={self.sync}" if self.sync else ""
        return f"{score}, prior={self.prior}{weight}, from_logits={self.from_logits}{exact}{average}{sync}"
