"""What users call classes and labels, as numbers and back; and what else they know of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_array, column_or_1d
from torch import Tensor

from scorewise._values import as_tensor
from scorewise.estimator.splits import Split, around

Array = NDArray[Any]
Kind = Literal["two", "classes", "labels"]


@dataclass(frozen=True, eq=False)
class Coding:
    """How targets are numbered: 0 and 1 (float32) for two classes or for labels, class numbers (int64) for more.

    Attributes:
        kind: "two" classes, more "classes", or "labels".
        classes: The classes, sorted; of labels, their numbers.
        positive: Which of two classes is 1.
    """

    kind: Kind
    classes: Array
    positive: int = 1

    @classmethod
    def of(cls, y: Any, pos_label: Any) -> Coding:
        """Learn the classes of targets, checked as scikit-learn checks them."""
        if y is None:
            raise ValueError("This ScoreClassifier estimator requires y to be passed, but the target y is None.")
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if type_of_target(y, input_name="y") == "multilabel-indicator":
            _no_positive(pos_label, "labels")
            return cls("labels", np.arange(np.shape(y)[1]))
        classes = np.unique(column_or_1d(y, warn=True))
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, saw {len(classes)} class: {classes.tolist()}.")
        if len(classes) > 2:
            _no_positive(pos_label, f"{len(classes)} classes")
            return cls("classes", classes)
        if pos_label is None:
            return cls("two", classes)
        place = np.flatnonzero(classes == pos_label)
        if not len(place):
            raise ValueError(f"pos_label must be one of {classes.tolist()}, saw {pos_label!r}.")
        return cls("two", classes, int(place[0]))

    def encode(self, y: Any, rows: int) -> Tensor:
        """Targets of so many rows as numbers."""
        if self.kind == "labels":
            labels = check_array(y, dtype=np.float32, input_name="y")
            if labels.shape[1] != len(self.classes):
                raise ValueError(f"y must have {len(self.classes)} labels, saw {labels.shape[1]}.")
            return torch.from_numpy(_of_length(labels, rows, "y"))
        names = _of_length(column_or_1d(y, warn=True), rows, "y")
        if not np.isin(names, self.classes).all():
            unknown = sorted(set(names.tolist()) - set(self.classes.tolist()), key=str)
            raise ValueError(f"y must be of the classes {self.classes.tolist()}, saw {unknown[:5]}.")
        codes = np.searchsorted(self.classes, names)
        if self.kind == "two":
            return torch.from_numpy((codes == self.positive).astype(np.float32))
        return torch.from_numpy(codes.astype(np.int64))

    def decode(self, decisions: Tensor) -> Array:
        """What users call decisions."""
        numbers = decisions.numpy()
        if self.kind == "two":
            numbers = np.where(numbers == 1, self.positive, 1 - self.positive)
        return numbers if self.kind == "labels" else self.classes[numbers]


def known(
    rows: int, *, sample_weight: Any = None, groups: Any = None, times: Any = None, costs: Any = None
) -> dict[str, Tensor]:
    """What users know of so many rows, as tensors: what was given, and no more."""
    context: dict[str, Tensor] = {}
    if sample_weight is not None:
        of_rows = _of_length(np.asarray(sample_weight), rows, "sample_weight")
        checked = _check_sample_weight(of_rows, np.empty((rows, 1)), dtype=np.float64, ensure_non_negative=True)
        context["sample_weight"] = torch.from_numpy(checked)
    if groups is not None:
        names = column_or_1d(_of_length(np.asarray(groups), rows, "groups"))
        try:
            numbers = np.unique(names, return_inverse=True)[1]
        except TypeError as error:
            raise TypeError("groups must be ids of one kind, numbers or texts, and none may be missing.") from error
        context["groups"] = torch.from_numpy(numbers.astype(np.int64))
    if times is not None:
        moments = column_or_1d(_of_length(np.asarray(times), rows, "times"))
        if moments.dtype.kind not in "iu":
            raise TypeError(
                f"times must be whole numbers, one unit for each lag, saw {moments.dtype}. Of timestamps, "
                "scorewise.series.lags makes some."
            )
        context["times"] = torch.from_numpy(moments.astype(np.int64))
    if costs is not None:
        amounts = as_tensor(_of_length(np.asarray(costs), rows, "costs"), "costs").double()
        if odd := int((~(amounts >= 0) | amounts.isinf()).sum()):
            raise ValueError(f"costs must be numbers of at least 0, but {odd} of {amounts.numel()} are not.")
        context["costs"] = amounts
    return context


def own_split(validation: Any, targets: Tensor, context: dict[str, Tensor], gap: int) -> Split:
    """A split of the user's own, as a mask of the rows to keep or as their numbers; rows near them are left out."""
    rows, chosen = len(targets), np.asarray(validation)
    if chosen.dtype.kind not in "biu" or chosen.ndim != 1:
        seen = f"{chosen.dtype} of shape {chosen.shape}"
        raise TypeError(f"validation must be a mask of rows, or their numbers; saw {seen}.")
    if chosen.dtype == bool and len(chosen) != rows:
        raise ValueError(f"validation must tell for each of {rows} rows, saw {len(chosen)}.")
    if chosen.dtype != bool and not ((chosen >= 0) & (chosen < rows)).all():
        raise ValueError(
            f"validation must be numbers of rows from 0 to {rows - 1}, saw {chosen.min()} to {chosen.max()}."
        )
    test = np.zeros(rows, bool)
    test[chosen] = True
    if gap and test.any():
        in_time = "times" in context
        ids = None if in_time or "groups" not in context else context["groups"].numpy()
        times = context["times"] if in_time else places(context.get("groups"), rows)
        split = around(test, groups=ids, times=times.numpy(), gap=gap)
    else:
        split = Split(np.flatnonzero(~test), np.flatnonzero(test))
    for part, name in ((split.train, "to train on"), (split.test, "kept for validation")):
        some = targets[torch.from_numpy(part)]
        if not len(some) or not bool((some != some[:1]).any()):
            left = f", {rows - int(test.sum()) - len(split.train)} more being too near to those" if gap else ""
            raise ValueError(
                f"there must be at least two classes among the rows {name}, but of {rows} rows {int(test.sum())} are "
                f"kept{left}, and the {len(some)} {name} have "
                f"{'one class only' if len(some) else 'none'}."
            )
    return split


def check_counted(split: Split, context: dict[str, Tensor]) -> None:
    """Raise if nothing counts among the rows to train on, or among those to judge by."""
    for name in ("sample_weight", "costs"):
        for part, told in ((split.train, "to train on"), (split.test, "kept for validation")):
            if name in context and not bool((context[name][torch.from_numpy(part)] > 0).any()):
                raise ValueError(
                    f"{name} must be greater than 0 of some row {told}, but is 0 of all {len(part)}. Pass other rows "
                    "as validation, or leave out rows that do not count."
                )


def places(groups: Tensor | None, rows: int) -> Tensor:
    """The place of each row in its series, which is its time where no times are known."""
    if groups is None:
        return torch.arange(rows)
    order = torch.argsort(groups, stable=True)
    firsts = torch.searchsorted(groups[order], groups[order])
    found = torch.empty(rows, dtype=torch.int64)
    found[order] = torch.arange(rows) - firsts
    return found


def in_order(context: dict[str, Tensor], rows: int) -> NDArray[np.intp]:
    """Rows in the order of series and of time; where there are no times, as they are."""
    if "times" not in context:
        return np.arange(rows)
    return np.lexsort([context[name].numpy() for name in ("times", "groups") if name in context])


def _no_positive(pos_label: Any, seen: str) -> None:
    if pos_label is not None:
        raise ValueError(f"pos_label is for two classes, but y has {seen}; saw {pos_label!r}.")


def _of_length(values: Array, rows: int, name: str) -> Array:
    if values.ndim and len(values) == rows:
        return values
    seen = len(values) if values.ndim else "a number"
    raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {rows}, {name} {seen}.")
