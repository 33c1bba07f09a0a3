"""The good epochs of one training run, together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from scorewise import scores
from scorewise._values import as_tensor, is_number, is_whole, shape_of
from scorewise.confusion import decide
from scorewise.curves import best_threshold, score_curve
from scorewise.curves.sweep import check_weight
from scorewise.weights import Weight
from scorewise.weights.base import as_weight

By = Literal["vote", "mean"]


@dataclass(frozen=True)
class Member:
    """An epoch of an ensemble.

    Attributes:
        epoch: Which call of `EpochEnsemble.update` it was, from 0.
        threshold: Its best threshold on the validation samples.
        value: Its score there.
    """

    epoch: int
    threshold: float
    value: float
    _weights: dict[str, Any] = field(repr=False, compare=False)
    _predictions: Tensor | None = field(repr=False, compare=False)


class EpochEnsemble:
    """The epochs of a training run that are almost as good as its best one, and what they say together.

    From one epoch to the next a score moves up and down more than a loss does, and the best epoch on the validation
    samples is the best by luck, in part. Epochs count whose validation score, each at its own best threshold, is at
    least a fraction of the best one's.

    Args:
        score: A name (see `scorewise.scores.names`) or a `Score`.
        weight: What an error costs: an object of `scorewise.weights` that sees the threshold through alarms only, or
            None.
        fraction: How much of the best score a member must have, in [0, 1]. Where less is better, or the best is below
            0, a member may be worse than the best by 1 - fraction of it: for 0.95, an error rate of 0.21 beside 0.2.
        by: "vote": each member decides at its own threshold, and the majority wins; "mean": the mean of the members'
            probabilities is compared with its own best threshold on the validation samples, which are kept for that.
        at_most: How many members are kept at most, each with a copy of the model's weights in the main memory. The
            least good leave; of equal ones the later.
        from_logits: Whether the model's outputs are logits or probabilities.

    Over several processes, pass the validation samples of all of them in each.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> forward = lambda model, x: model(x).squeeze(-1)
        >>> x, y = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> ensemble = EpochEnsemble("tss")
        >>> for slope in (-1.0, 1.0, 2.0):  # here a model is trained
        ...     _ = nn.init.constant_(model.weight, slope), nn.init.zeros_(model.bias)
        ...     value = ensemble.update(model, forward(model, x), y)
        >>> [(member.epoch, member.value) for member in ensemble.members]
        [(1, 1.0), (2, 1.0)]
        >>> ensemble.decide(model, x, forward=forward)
        tensor([0, 0, 1])

    Reference:
        S. Guastavino, M. Piana, F. Benvenuto: Bad and good errors: value-weighted skill scores in deep ensemble
        learning.
    """

    def __init__(
        self,
        score: str | scores.Score,
        weight: Weight | None = None,
        *,
        fraction: float = 0.95,
        by: By = "vote",
        at_most: int = 20,
        from_logits: bool = True,
    ) -> None:
        self.score = scores.get(score)
        self.weight = as_weight(weight)
        check_weight(self.weight, self.score)
        if not is_number(fraction) or not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be a number in [0, 1], saw {fraction!r}.")
        if by not in get_args(By):
            raise ValueError(f"by must be 'vote' or 'mean', saw {by!r}.")
        if not is_whole(at_most) or at_most < 1:
            raise ValueError(f"at_most must be a whole number of at least 1, saw {at_most!r}.")
        if not isinstance(from_logits, bool):
            raise TypeError(f"from_logits must be True or False, saw {from_logits!r}.")
        self.fraction, self.by, self.at_most, self.from_logits = float(fraction), by, int(at_most), from_logits
        self._epochs = 0
        self._members: list[Member] = []
        self._validation: dict[str, Any] | None = None
        self._threshold: float | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """The epochs that count so far, in the order of epochs."""
        return tuple(self._members)

    @property
    def threshold(self) -> float:
        """What `predict` is compared with: 1/2 of the votes, or the best threshold of the mean."""
        self._check()
        if self.by == "vote":
            return 0.5
        if self._threshold is None:
            assert self._validation is not None  # noqa: S101  # there are members; for the type checker
            mean = _mean([member._predictions for member in self._members if member._predictions is not None])
            self._threshold = float(best_threshold(mean, score=self.score, weight=self.weight, **self._validation))
        return self._threshold

    def update(
        self,
        model: nn.Module,
        predictions: Tensor,
        targets: Tensor,
        *,
        groups: object = None,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
        costs: Tensor | None = None,
    ) -> float:
        """Tell how an epoch ended.

        Args:
            model: The model, of which the ``state_dict`` is copied if the epoch counts.
            predictions: Its outputs for the validation samples, (n,): logits, or probabilities without ``from_logits``.
            targets: Their labels 0/1, (n,). With ``by="mean"``, those of the same samples every time.
            groups: The series that each sample belongs to, as for `score_curve`, and so are the others.
            times: When, in whole units of one lag.
            mask: True where a sample counts.
            sample_weight: How much each sample counts, at least 0.
            costs: What an error of each sample costs.

        Returns:
            The score of this epoch, at its own best threshold.
        """
        x = as_tensor(predictions, "predictions").detach()
        if x.dim() != 1:
            raise ValueError(f"predictions must have the shape (n,), saw {shape_of(x)}.")
        rest: dict[str, Any] = {"groups": groups, "times": times, "mask": mask, "sample_weight": sample_weight}
        rest["costs"] = costs
        curve = score_curve(x, targets, self.score, self.weight, from_logits=self.from_logits, **rest)
        threshold, value = curve.best()
        if self.by == "mean":
            self._validate({"targets": targets, **rest})
        goodness = self._goodness(value)
        best = max([goodness, *(self._goodness(member.value) for member in self._members)])
        bar = least(best, self.fraction)
        kept = [member for member in self._members if self._goodness(member.value) >= bar]
        before = sum(self._goodness(member.value) >= goodness for member in kept)
        if goodness >= bar and before < self.at_most:
            if len(kept) == self.at_most:
                kept.remove(min(kept, key=lambda member: (self._goodness(member.value), -member.epoch)))
            predicted = self._probabilities(x) if self.by == "mean" else None
            kept.append(Member(self._epochs, threshold, value, _copied(model, "cpu"), predicted))
        self._members = kept
        self._epochs += 1
        self._threshold = None
        return value

    def predict(self, model: nn.Module, *inputs: Any, forward: Callable[..., Tensor] | None = None) -> Tensor:
        """What the members say, (n,): the share of them that call a sample positive, or the mean of probabilities.

        Args:
            model: The model, or another one with the same ``state_dict``. It runs once for each member, in eval mode
                and without gradients; its own weights and mode are restored.
            *inputs: What it is called with.
            forward: How to get (n,) outputs, as ``forward(model, *inputs)``; None: ``model(*inputs)``.

        Returns:
            float64, on the device of the outputs (float32 on devices without it).
        """
        self._check()
        said = []
        with _borrowed(model), torch.no_grad():
            for member in self._members:
                model.load_state_dict(member._weights)
                x = model(*inputs) if forward is None else forward(model, *inputs)
                if not isinstance(x, Tensor) or x.dim() != 1:
                    seen = shape_of(x) if isinstance(x, Tensor) else type(x).__name__
                    raise ValueError(
                        f"the model's outputs must be a tensor of the shape (n,), saw {seen}. Pass forward=, such as "
                        "lambda model, x: model(x).squeeze(-1)."
                    )
                p = torch.sigmoid(x) if self.from_logits else x
                said.append(
                    decide(p, torch.tensor(member.threshold, dtype=p.dtype, device=p.device))
                    if self.by == "vote"
                    else p
                )
        return _mean([one.to(_wide(one)) for one in said])

    def decide(self, model: nn.Module, *inputs: Any, forward: Callable[..., Tensor] | None = None) -> Tensor:
        """What the members decide, (n,) int64, 0 or 1; of a tied vote 0. Arguments as for `predict`."""
        share = self.predict(model, *inputs, forward=forward)
        return decide(share, torch.tensor(self.threshold, dtype=share.dtype, device=share.device)).long()

    def state_dict(self) -> dict[str, Any]:
        """All that it knows, in numbers, tensors and lists of them; for `load_state_dict`."""
        members = [
            {
                "epoch": member.epoch,
                "threshold": member.threshold,
                "value": member.value,
                "weights": dict(member._weights),
                "predictions": member._predictions,
            }
            for member in self._members
        ]
        return {"by": self.by, "epochs": self._epochs, "members": members, "validation": self._validation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict` of an ensemble with the same arguments."""
        if state["by"] != self.by:
            raise ValueError(f"the state is of an ensemble by={state['by']!r}, but this one is by={self.by!r}.")
        self._members = [
            Member(one["epoch"], one["threshold"], one["value"], dict(one["weights"]), one["predictions"])
            for one in state["members"]
        ]
        self._epochs, self._validation, self._threshold = state["epochs"], state["validation"], None

    def __repr__(self) -> str:
        weight = "" if self.weight is None else f", weight={self.weight}"
        members = f"{len(self._members)} of {self._epochs} epochs"
        return f"EpochEnsemble({self.score.name!r}{weight}, fraction={self.fraction:g}, by={self.by!r}: {members})"

    def _goodness(self, value: float) -> float:
        return value if self.score.greater_is_better else -value

    def _probabilities(self, x: Tensor) -> Tensor:
        p = torch.sigmoid(x) if self.from_logits else x
        return p.cpu().double()

    def _check(self) -> None:
        if not self._members:
            raise ValueError("the ensemble has no members: call update(…) at the end of every epoch first.")

    def _validate(self, validation: dict[str, Any]) -> None:
        """Keep the validation samples, or see that they are those of before."""
        new = {name: _at_hand(value) for name, value in validation.items()}
        if self._validation is not None and not all(_same(self._validation[name], new[name]) for name in new):
            raise ValueError(
                "with by='mean' the validation samples must be the same in every epoch, and in the same order; their "
                "targets, groups, times, mask, weights or costs changed. Pass by='vote' if they cannot be."
            )
        self._validation = new


def _wide(t: Tensor) -> torch.dtype:
    return torch.float32 if t.device.type == "mps" else torch.float64


def _mean(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).mean(0)


def _copied(model: nn.Module, device: str | None) -> dict[str, Any]:
    """A copy of a model's state, on a device or where it is."""
    return {
        name: value.detach().to(device or value.device, copy=True)
        if isinstance(value, Tensor)
        else copy.deepcopy(value)
        for name, value in model.state_dict().items()
    }


@contextmanager
def _borrowed(model: nn.Module) -> Iterator[None]:
    """A model in eval mode, whose weights may be changed: afterwards all is as before."""
    own, modes = _copied(model, None), [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        model.load_state_dict(own)
        for module, training in modes:
            module.training = training


def _at_hand(value: Any) -> Any:
    """A tensor in the main memory; names as a list."""
    if value is None:
        return None
    try:
        return as_tensor(value, "validation samples").detach().cpu().clone()
    except TypeError:
        return [str(one) for one in value]


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and bool(one == other)
    unknown = one.isnan() & other.isnan() if one.shape == other.shape else None
    return unknown is not None and bool(((one == other) | unknown).all())


def least(best: float, fraction: float) -> float:
    """What is still good enough: a fraction of the best, or, of a best below 0, no further below by that fraction."""
    return best * (fraction if best > 0 else 2 - fraction)
