"""A score at a threshold, of all batches so far."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, distributed
from torchmetrics import Metric

from scorewise._averages import Average
from scorewise._inputs import DTYPES
from scorewise._labels import LabelScores, group, one_or_each
from scorewise._timeline import timeline
from scorewise._values import alongside, as_tensor, is_whole, shape_of
from scorewise.confusion import ConfusionMatrix, confusion_matrix, read
from scorewise.metrics.base import MatrixMetric, finite, gathered, wide
from scorewise.metrics.counts import class_counts
from scorewise.scores import Score
from scorewise.weights import Weight
from scorewise.weights.base import Pair, as_weight, looks_around
from scorewise.weights.samplewise import check_diagonal

Context = Literal["keep", "given"]

_CELLS = ("tn", "fp", "fn", "tp")
_COUNTS = ("negatives", "positives")
# Of each sample its prediction, label, how much it counts and two costs; its group and time; and of each update its
# process, whether it had groups, whether it had times, and the predictions' dtype.
_KEPT = ("samples", "places", "updates")


class WeightedScore(MatrixMetric[ConfusionMatrix]):
    """The score at a threshold of all samples so far: a torchmetrics metric.

    It is the score of one confusion matrix of all samples, whatever their batches and processes, and no mean of
    batches' scores. Without weights it is the ordinary score.

    Most weights need no more than a few sums over samples, so that memory does not grow. Weights that look around in
    time (Value, Custom with a window) see over the borders of batches. With ``context="keep"`` all samples are kept,
    about 60 bytes each, and put in order when the score is asked for: batches, and samples in them, may come in any
    order and in any process, if they have ``times``. With ``context="given"`` nothing is kept but sums, and every batch
    must bring the samples around those that count, with ``mask`` False, as those of a
    `scorewise.series.ChronologicalBatchSampler` do; without them windows end where batches end, and the score is wrong.

    Args:
        score: A name (see `scorewise.scores.names`) or a `Score`; or a list of one for each label.
        threshold: A sample is called positive if its prediction is greater than that; or a list of one for each label.
        weight: What an error costs: an object of `scorewise.weights`, or None for one each; or a list of one for each
            label.
        from_logits: Whether predictions are logits; the threshold is a probability all the same.
        average: How the scores of labels become one, as for `ScoreLoss`. Where of some scores more is better and of
            others less, the latter enter it negated.
        num_labels: How many labels there are, for (n, labels) predictions; None for (n,).
        context: Who has the samples that a weight looks at: "keep" or "given"; other weights do with either.
        **options: What every torchmetrics metric takes, such as ``process_group``.

    Results are float64 (float32 on devices without it). All states are in the ``state_dict``.

    Example:
        >>> metric = WeightedScore("tss", threshold=0.3)
        >>> metric.update(torch.tensor([0.1, 0.4, 0.9]), torch.tensor([0, 0, 1]))
        >>> metric.update(torch.tensor([0.2, 0.6]), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.6667, dtype=torch.float64)
        >>> metric.matrix()
        ConfusionMatrix(tn=2, fp=1, fn=0, tp=2)
    """

    samples: list[Tensor] | Tensor
    places: list[Tensor] | Tensor
    updates: list[Tensor] | Tensor

    def __init__(
        self,
        score: str | Score | Sequence[str | Score],
        threshold: float | Sequence[float] | Tensor = 0.5,
        weight: Weight | Sequence[Weight | None] | None = None,
        *,
        from_logits: bool = False,
        average: Average = "macro",
        num_labels: int | None = None,
        context: Context = "keep",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if context not in get_args(Context):
            raise ValueError(f"context must be 'keep' or 'given', saw {context!r}.")
        if num_labels is not None and (not is_whole(num_labels) or num_labels < 1):
            raise ValueError(f"num_labels must be a whole number of at least 1, or None for (n,); saw {num_labels!r}.")
        self._scores = LabelScores(score, average)
        self.score = self._scores.score
        self.weight: Weight | tuple[Weight | None, ...] | None = one_or_each(weight, as_weight, "weight")
        self.from_logits = from_logits
        self.average = average
        self.num_labels = num_labels
        self.context = context
        own = group(score=self.score, weight=self.weight)
        if own is not None and own.labels != num_labels:
            raise ValueError(
                f"there are scores or weights for {own.labels} labels, but num_labels is {num_labels}. Pass "
                f"num_labels={own.labels}."
            )
        for one, its_weight in [(self.score, self.weight)] if own is None else [kind for _, kind in own.parts]:
            if its_weight is not None:
                check_diagonal(its_weight, one)

        self._shape = () if num_labels is None else (int(num_labels),)
        nothing = torch.zeros(0, *self._shape, dtype=torch.float64)
        limit = as_tensor(threshold, "threshold").detach().cpu()
        # refuses a threshold or weight that would be refused later
        self._like = confusion_matrix(nothing, nothing, limit, self.weight, from_logits=from_logits)
        self.threshold = limit.tolist()
        self._keeps = context == "keep" and looks_around(self.weight)
        sums = self._like._sums()
        self._names = _CELLS if len(sums) == 4 and average != "weighted" else _CELLS + _COUNTS
        if self._keeps:
            for name in _KEPT:
                self.add_state(name, [], dist_reduce_fx="cat", persistent=True)
        else:
            weights = self.weight if isinstance(self.weight, tuple) else (self.weight,)
            # weights cannot be compared: each is like no other
            told = None if all(one is None for one in weights) else uuid.uuid4().hex
            zeros = [torch.zeros(self._shape, dtype=torch.float64) for _ in self._names]
            self._keep_sums(self._names, zeros, (self.threshold, from_logits, told))

    def update(
        self,
        preds: Tensor,
        target: Tensor,
        *,
        groups: object = None,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
        costs: Tensor | None = None,
    ) -> None:
        """Add a batch.

        Args:
            preds: Probabilities (or 0/1 classes), or logits with ``from_logits``, (n,) or (n, labels).
            target: Labels 0/1, or soft labels in [0, 1] (not with `Value`), of the same shape.
            groups: The series that each sample belongs to, (n,); checked, and used by weights that look around. Where
                samples are kept these are integers, and mean the same series in every batch; those of a `SeriesBatch`
                do not, and want ``context="given"``.
            times: When, in whole units of one lag, (n,); checked, and used by weights that look around. Where samples
                are kept they may come in any order; without times, in the order of time, and in one process.
            mask: True where a sample counts, (n,) or (n, labels). Elsewhere predictions and labels may be NaN.
            sample_weight: How much each sample counts, at least 0, (n,) or (n, labels).
            costs: What an error of each sample costs, [as a false positive, as a false negative], (n, 2) or
                (n, labels, 2); multiplies the weight.
        """
        x = as_tensor(preds, "preds")
        if x.dim() != 1 + len(self._shape) or x.shape[1:] != self._shape:
            expected = "(n,)" if self.num_labels is None else f"(n, {self.num_labels})"
            advice = f" Pass num_labels={x.shape[1]} for that." if x.dim() == 2 and self.num_labels is None else ""
            raise ValueError(f"preds must have the shape {expected}, saw {shape_of(x)}.{advice}")
        rest: dict[str, Any] = {"mask": mask, "sample_weight": sample_weight, "costs": costs}
        if self._keeps:
            self._keep(x, target, groups, times, **rest)
            return
        if looks_around(self.weight):
            rest |= {"groups": groups, "times": times}
        else:
            timeline(groups, times, x)  # refuses what has no meaning; in what order they come is no matter
        self._add(self._names, self._sums_of(x, target, **rest))

    def _sums_of(self, preds: Tensor, target: Any, **rest: Any) -> tuple[Tensor, ...]:
        """The cells of samples before they are balanced, and class counts where those are needed."""
        threshold = torch.tensor(self.threshold, dtype=torch.float64)
        sums = confusion_matrix(preds, target, threshold, self.weight, from_logits=self.from_logits, **rest)._sums()
        if len(sums) == len(self._names):
            return sums
        count = {name: rest[name] for name in ("mask", "sample_weight")}
        return *sums, *class_counts(as_tensor(target, "target"), **count)

    def _keep(self, x: Tensor, target: object, groups: object, times: object, **rest: Any) -> None:
        """Keep a batch, as numbers that can travel: what is not given is 1 for each sample."""
        batch = read(x, target, self.weight, from_logits=self.from_logits, hard=True, **rest)
        ids, ticks = _ids(groups, x), _ticks(times, x)
        if len(x) == 0:
            return
        one = torch.ones((), device=x.device)
        columns = (
            x,
            alongside(target, "target", x),
            one if batch.count is None else batch.count,
            *(batch.costs or (one, one)),
        )
        dtype = wide(x.device)
        rank = distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
        how = [rank, groups is not None, times is not None, DTYPES.index(batch.predictions.dtype)]
        samples = torch.stack([column.detach().to(dtype).expand_as(x) for column in columns], 1)
        new = samples, torch.stack([ids, ticks], 1), torch.tensor([how], device=x.device)
        for name, piece in zip(_KEPT, new, strict=True):
            getattr(self, name).append(piece)

    def _pieces(self) -> list[list[Tensor] | Tensor]:
        """The states that are kept, each with a piece of no samples where there is none."""
        for name, shape in zip(_KEPT, ((0, 5, *self._shape), (0, 2), (0, 4)), strict=True):
            if isinstance(state := getattr(self, name), list) and not state:
                dtype = wide(self.device) if name == "samples" else torch.int64
                state.append(torch.zeros(shape, dtype=dtype, device=self.device))
        return [getattr(self, name) for name in _KEPT]

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Put the samples of all processes together; `compute` does it."""
        if self._keeps:
            self._pieces()  # those of a process without samples have the shape of the others'
        super().sync(*args, **kwargs)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the samples of another metric with the same arguments, or of its states.

        Args:
            incoming_state: The metric, or a dictionary of its states. Where samples are kept, both have ``times``.
        """
        if isinstance(incoming_state, WeightedScore) and not self._keeps:
            here, there = ((one.threshold, one.from_logits) for one in (self, incoming_state))
            if here != there:
                raise ValueError(
                    "sums at different thresholds cannot be merged: (threshold, from_logits) is "
                    f"{here} here and {there} there."
                )
        if self._keeps:
            theirs = getattr(incoming_state, "updates", None)
            if isinstance(incoming_state, dict):
                theirs = incoming_state.get("updates")
            both = [gathered(state) for state in (self.updates, theirs) if state is not None and len(state)]
            if len(both) == 2 and not all(bool(updates[:, 2].all()) for updates in both):
                raise ValueError(_UNTIMED.format("metrics that are merged"))
        super().merge_state(incoming_state)

    def _sums(self) -> tuple[Tensor, ...]:
        if not self._keeps:
            return tuple(getattr(self, name) for name in self._names)
        samples, where, dtype = self._arranged()
        x, y, count, fp, fn = samples.unbind(1)
        rest: dict[str, Any] = {"mask": count > 0, "sample_weight": count, "costs": torch.stack([fp, fn], -1)}
        return self._sums_of(x.to(dtype), y, **rest, **where)

    def _arranged(self) -> tuple[Tensor, dict[str, Tensor], torch.dtype]:
        """All samples in the order of their series and of time; groups and times, if known; the predictions' dtype."""
        samples, places, updates = (gathered(state) for state in self._pieces())
        if len(updates) == 0:
            return samples, {}, samples.dtype
        for k, name in ((1, "groups"), (2, "times")):
            if bool((updates[:, k] != updates[0, k]).any()):
                told = f"{int(updates[:, k].sum())} of {len(updates)}"
                raise ValueError(f"{name} must be passed to all updates or to none, saw them in {told}.")
        kinds = [DTYPES[k] for k in updates[:, 3].unique().tolist()]
        if len(kinds) > 1:
            raise ValueError(f"preds must have the same dtype in all updates, in which they are compared; saw {kinds}.")
        grouped, timed = bool(updates[0, 1]), bool(updates[0, 2])
        if not timed and bool((updates[:, 0] != updates[0, 0]).any()):
            raise ValueError(_UNTIMED.format("several processes"))
        if timed:
            samples, places = _in_order(samples, places)
        where = {"groups": places[:, 0]} if grouped else {}
        return samples, where | ({"times": places[:, 1]} if timed else {}), kinds[0]

    def _matrix(self) -> ConfusionMatrix:
        return self._made_of(self._sums())

    def _made_of(self, sums: tuple[Tensor, ...]) -> ConfusionMatrix:
        return self._like._made_of(sums[: len(self._like._sums())], whole=self._is_synced)

    def compute(self) -> Tensor:
        """The score of all samples so far; with labels and ``average=None`` one for each of them.

        Over several processes, which must all call it, that of all their samples. Of no samples it is the score of an
        empty matrix, and torchmetrics warns.
        """
        sums = self._sums()
        matrix = self._made_of(sums)
        counts: Pair | None = (sums[4], sums[5]) if len(sums) > 4 else None
        goodness = self._scores.goodness((matrix.tn, matrix.fp, matrix.fn, matrix.tp), counts)
        if self.average is None and isinstance(self.score, tuple):
            signs = [1.0 if one.greater_is_better else -1.0 for one in self.score]
            return goodness * goodness.new_tensor(signs)
        return goodness if self._scores.upward else -goodness

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # it depends on the score
        """Whether greater is better; None of several numbers for which it is not the same."""
        ways = {one.greater_is_better for one in (self.score if isinstance(self.score, tuple) else (self.score,))}
        return None if self.average is None and len(ways) > 1 else self._scores.upward

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]  # as above
        """The score's least value, if it has one."""
        return finite(self.score.range[0]) if isinstance(self.score, Score) else None

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]  # as above
        """The score's greatest value, if it has one."""
        return finite(self.score.range[1]) if isinstance(self.score, Score) else None

    def extra_repr(self) -> str:
        """The arguments, for the module's repr."""
        score = repr([one.name for one in self.score] if isinstance(self.score, tuple) else self.score.name)
        weight = "" if self.weight is None else f", weight={self.weight}"
        average = "" if self.average == "macro" else f", average={self.average!r}"
        labels = "" if self.num_labels is None else f", num_labels={self.num_labels}"
        return f"{score}, threshold={self.threshold}{weight}, from_logits={self.from_logits}{average}{labels}"


_UNTIMED = (
    "this weight looks around in time, and the order of samples from {} is not known. Pass times (and groups, if there "
    "are several series) to every update."
)


def _ids(groups: object, x: Tensor) -> Tensor:
    if groups is None:
        return torch.zeros(len(x), dtype=torch.int64, device=x.device)
    try:
        ids = alongside(groups, "groups", x)
    except TypeError as error:
        raise TypeError(
            "groups must be integers in a metric that keeps samples, as names cannot travel between processes. Number "
            "them once for all data: numpy.unique(names, return_inverse=True)[1]."
        ) from error
    timeline(ids, None, x)  # refuses what has no meaning
    return ids.long()


def _ticks(times: object, x: Tensor) -> Tensor:
    if times is None:
        return torch.zeros(len(x), dtype=torch.int64, device=x.device)
    timeline(None, times, x)  # refuses what has no meaning
    return alongside(times, "times", x).long()


def _in_order(samples: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Samples by series and time, and their places; of several at one place the one that counts."""
    counted, known = _any(samples[:, 2] > 0), ~_any(samples[:, :2].isnan())
    order = torch.argsort(2 * counted.long() + known.long(), descending=True, stable=True)
    for column in (1, 0):
        order = order[torch.argsort(places[order, column], stable=True)]
    samples, places, counted = samples[order], places[order], counted[order]
    again = torch.cat([counted.new_zeros(1), (places[1:] == places[:-1]).all(1)])
    if not bool(again.any()):
        return samples, places
    if bool((twice := again & counted).any()):
        group, time = places[twice][0].tolist()
        raise ValueError(
            f"{int(twice.sum())} samples count twice: the first has the group {group} and the time {time}. "
            "DistributedSampler repeats samples to give processes equally many: use ChronologicalBatchSampler. Series "
            "of different groups need different numbers, in all batches: those of a SeriesBatch are its own, for "
            "context='given'."
        )
    first = (~again).nonzero().squeeze(1)
    labels = samples[:, 1]
    original = labels[first][(~again).cumsum(0) - 1]
    if bool((odd := _any((labels - original).abs() > 0)).any()):
        group, time = places[odd][0].tolist()
        raise ValueError(
            f"samples of one group and time have different labels: the first have the group {group} and the time "
            f"{time}. Groups must mean the same series in all batches; those of a SeriesBatch are its own: pass "
            "context='given'."
        )
    return samples[first], places[first]


def _any(flags: Tensor) -> Tensor:
    """Whether any is set, for each sample."""
    return flags.flatten(1).any(1) if flags.dim() > 1 else flags
