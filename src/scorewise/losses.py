"""Losses: minus a score of the expected confusion matrix, or minus the expected score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from scorewise import scores
from scorewise._averages import Average, averaged, check_average
from scorewise._cells import Tally, expected_cells
from scorewise._inputs import Batch, check_now, extremes, limits, prepare
from scorewise._labels import group, one_or_each, over_labels
from scorewise._sums import total
from scorewise._values import is_number, number
from scorewise._watch import Watch
from scorewise.confusion import ConfusionMatrix
from scorewise.curves.exact import expected_score
from scorewise.curves.sweep import check_weight
from scorewise.priors import ThresholdPrior, as_prior
from scorewise.weights import Weight
from scorewise.weights.base import as_weight, looks_around
from scorewise.weights.samplewise import check_diagonal


class ScoreLoss(nn.Module):
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
        tensor(-0.4710, grad_fn=<NegBackward0>)
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
        validate: bool = True,
    ) -> None:
        super().__init__()
        for name, value in (("from_logits", from_logits), ("exact", exact), ("validate", validate)):
            if not isinstance(value, bool):
                raise TypeError(f"ScoreLoss: {name} must be True or False, saw {value!r}.")
        check_average(average)
        self.score: scores.Score | tuple[scores.Score, ...] = one_or_each(score, scores.get, "score")
        self.prior: ThresholdPrior | tuple[ThresholdPrior, ...] = one_or_each(prior, as_prior, "prior")
        self.weight: Weight | tuple[Weight | None, ...] | None = one_or_each(weight, as_weight, "weight")
        self.from_logits = from_logits
        self.exact = exact
        self.average = average
        self.validate = validate
        self._groups = group(score=self.score, prior=self.prior, weight=self.weight)
        self._matrix_groups = group(prior=self.prior, weight=self.weight)
        kinds = (
            [(self.score, self.prior, self.weight)] if self._groups is None else [own for _, own in self._groups.parts]
        )
        for one, its_prior, its_weight in kinds:
            if its_weight is not None:
                check_diagonal(its_weight, one)
                its_weight._ready(its_prior)
            if exact:
                check_weight(its_weight, one)
        directions = {one.greater_is_better for one in (self.score if isinstance(self.score, tuple) else (self.score,))}
        if callable(average) and len(directions) > 1:
            names = [one.name for one in self.score] if isinstance(self.score, tuple) else []
            raise ValueError(
                f"average is a function, but of some of the scores {names} more is better and of others less. Negate "
                "some of them: -scores.error_rate."
            )
        self._upward = True in directions
        if average == "micro" and isinstance(self.score, tuple):
            raise ValueError("average='micro' is one score of the sum of all labels' matrices; saw a list of scores.")
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
        batch = self._batch(
            logits, targets, groups=groups, times=times, mask=mask, sample_weight=sample_weight, costs=costs
        )
        if batch.predictions.dim() == 2 and self.average == "micro":
            assert isinstance(self.score, scores.Score)  # noqa: S101  # there is one; for the type checker
            summed = [cell.sum(0) for cell in self._cells(batch)]
            goodness = _goodness(self.score, self.score.function(*summed))
        else:
            options = (self.score, self.prior, self.weight)
            (goodness,) = over_labels(batch, self._groups, options, self._goodness)
            if goodness.dim():
                positives = _positives(batch) if self.average == "weighted" else goodness
                goodness = averaged(goodness, self.average, positives, greater_is_better=self._upward)
        return -goodness.to(batch.predictions.dtype)

    def _goodness(
        self, batch: Batch, score: scores.Score, prior: ThresholdPrior, weight: Weight | None
    ) -> tuple[Tensor]:
        """The score of labels that share everything, negated if less is better."""
        if self.exact:
            return (_goodness(score, expected_score(batch, score, prior, weight)),)
        return (_goodness(score, score.function(*expected_cells(batch, prior, weight))),)

    def _cells(self, batch: Batch) -> Tally:
        tn, fp, fn, tp = over_labels(batch, self._matrix_groups, (self.prior, self.weight), expected_cells)
        return tn, fp, fn, tp

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
        """The expected confusion matrix, for the same arguments; unless ``exact``, the loss is minus its score."""
        batch = self._batch(
            logits, targets, groups=groups, times=times, mask=mask, sample_weight=sample_weight, costs=costs
        )
        return ConfusionMatrix(*self._cells(batch))

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
        return f"{score}, prior={self.prior}{weight}, from_logits={self.from_logits}{exact}{average}"


def _positives(batch: Batch) -> Tensor:
    """How many positives of each label count."""
    y = batch.targets.detach()
    return total(y if batch.count is None else y * batch.count.detach())


def _goodness(score: scores.Score, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"the score {score.name} must return a tensor, saw {type(value).__name__}.")
    return value if score.greater_is_better else -value


class CombinedLoss(nn.Module):
    r"""A convex combination of losses, for more than one objective: :math:`\sum_k \beta_k \ell_k`.

    Args:
        losses: Pairs (beta, loss); each beta at least 0, their sum 1.

    Every loss is called with the same arguments.

    Example:
        >>> loss = CombinedLoss([(0.7, ScoreLoss("tss")), (0.3, ScoreLoss("f1"))])
        >>> loss(torch.tensor([-2.0, 0.5, 3.0]), torch.tensor([0, 1, 1]))
        tensor(-0.7236)
    """

    def __init__(self, losses: Sequence[tuple[float, nn.Module]]) -> None:
        super().__init__()
        if not isinstance(losses, Iterable) or isinstance(losses, str | Mapping):
            seen = type(losses).__name__
            raise TypeError(f"CombinedLoss: expected a list of pairs (beta, loss), saw {seen}.")
        betas, parts = [], []
        for pair in losses:
            try:
                beta, loss = pair
            except (TypeError, ValueError) as error:
                raise TypeError(f"CombinedLoss: expected pairs (beta, loss), saw {pair!r}.") from error
            if not is_number(beta) or not isinstance(loss, nn.Module):
                seen = f"({type(beta).__name__}, {type(loss).__name__})"
                raise TypeError(f"CombinedLoss: expected pairs (number, loss module), saw {seen}.")
            betas.append(float(beta))
            parts.append(loss)
        if not all(beta >= 0 for beta in betas) or not math.isclose(sum(betas), 1.0, abs_tol=1e-6):
            raise ValueError(
                f"CombinedLoss: the betas must be at least 0 and sum to 1, saw {betas} with the sum "
                f"{number(sum(betas))}."
            )
        self.betas = tuple(betas)
        self.losses = nn.ModuleList(parts)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The weighted sum of the losses, each called with these arguments."""
        terms = [beta * loss(*args, **kwargs) for beta, loss in zip(self.betas, self.losses, strict=True)]
        for term, loss in zip(terms, self.losses, strict=True):
            if term.dim():
                raise ValueError(
                    f"CombinedLoss: every loss must return a scalar, but {type(loss).__name__} returned "
                    f"{term.numel()} numbers. Give it a reduction, or an average."
                )
        return torch.stack(terms).sum()

    def raise_if_invalid(self) -> None:
        """Pass the question on to the losses that can answer it; see `ScoreLoss.raise_if_invalid`."""
        errors = []
        for loss in self.losses:
            ask = getattr(loss, "raise_if_invalid", None)
            if ask is not None:
                try:
                    ask()
                except ValueError as error:
                    errors.append(error)
        # All were asked, and so have forgotten: the losses saw the same batch, which is one error, not one for each.
        if errors:
            raise errors[0]

    def extra_repr(self) -> str:
        """The weights, for the module's repr."""
        return f"betas={self.betas}"
