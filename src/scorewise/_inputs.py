"""What users pass, made ready or refused: the one place that reads arguments.

Shapes and dtypes are always checked. Values are checked at once where that costs nothing but time (CPU, eager). On an
accelerator, or inside a compiled graph, looking at a value would make the host wait for the device at every step, so
the extreme values stay there in a `Watch`, and are judged later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeGuard

import torch
from torch import Tensor

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Batch:
    """Predictions and labels of one dtype and device, with no NaN left where they are masked.

    ``count`` is how much each sample counts (mask times sample weight); None means one each. With labels it may have
    the shape (n, 1).
    """

    predictions: Tensor
    targets: Tensor
    count: Tensor | None
    from_logits: bool


def prepare(
    predictions: object,
    targets: object,
    *,
    from_logits: bool,
    mask: object = None,
    sample_weight: object = None,
    hard: bool = False,
) -> Batch:
    """Turn a call's arguments into a `Batch`; raise a TypeError or ValueError that says what was seen.

    Args:
        predictions: Logits or probabilities, (n,) or (n, labels).
        targets: Labels in [0, 1], of the same shape.
        from_logits: Whether ``predictions`` are logits.
        mask: Booleans, True where a sample counts.
        sample_weight: Non-negative weights.
        hard: Whether integer or boolean predictions are accepted, and the predictions' own dtype is kept.
            Labels and weights keep theirs too: half-precision predictions are no reason to round a weight.
    """
    name = "logits" if from_logits else "predictions"
    x = _predictions(predictions, name, from_logits=from_logits, hard=hard)
    y = _alongside(targets, "targets", x)
    if y.shape != x.shape:
        raise ValueError(
            f"{name} and targets must have exactly the same shape, saw {_shape(x)} and {_shape(y)}."
            f"{_reshape_hint(x, y, name)}"
        )
    widest = torch.float32 if x.device.type == "mps" else torch.float64
    if hard:
        y = y.to(widest if y.dtype == torch.float64 else torch.promote_types(x.dtype, torch.float32))
    else:
        y = y.to(x.dtype)

    keep = None
    if mask is not None:
        keep = _per_sample(_alongside(mask, "mask", x), "mask", x, name)
        if keep.dtype != torch.bool:
            raise TypeError(
                f"mask must be boolean (True: counted), saw {keep.dtype}. Weights belong in sample_weight; make a 0/1 "
                "mask boolean: mask == 1."
            )
    weight = None
    if sample_weight is not None:
        weight = _per_sample(_alongside(sample_weight, "sample_weight", x), "sample_weight", x, name)
        weight = weight.to(widest)

    if keep is not None:
        # where, not a product: NaN * 0 is NaN, in the value and in the gradient.
        x, y = torch.where(keep, x, 0.0), torch.where(keep, y, 0.0)
        weight = keep.to(y.dtype) if weight is None else torch.where(keep, weight, 0.0)
    return Batch(x, y, weight, from_logits)


def _predictions(predictions: object, name: str, *, from_logits: bool, hard: bool) -> Tensor:
    if not isinstance(from_logits, bool):
        raise TypeError(f"from_logits must be True or False, saw {from_logits!r}.")
    x = as_tensor(predictions, name)
    if not x.is_floating_point():
        if not hard or from_logits or x.is_complex():
            raise TypeError(f"{name} must be floating point, saw {x.dtype}. Pass the model's output, not classes.")
        x = x.to(torch.get_default_dtype())
    if x.dtype not in _DTYPES or x.layout != torch.strided:
        raise TypeError(f"{name} must be dense float16, bfloat16, float32 or float64, saw {x.dtype}, {x.layout}.")
    if not hard and x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    if x.dim() not in (1, 2):
        raise ValueError(f"{name} must have the shape (n,) or (n, labels), saw {_shape(x)}.")
    if x.dim() == 2 and x.shape[1] == 0:
        raise ValueError(f"{name} must have at least one label, saw the shape {_shape(x)}.")
    return x


def check_now(batch: Batch) -> None:
    """Raise a ValueError that counts and locates the bad values of a batch, if there are any."""
    x, y, w = batch.predictions, batch.targets, batch.count
    if batch.from_logits:
        if not _within(x, -math.inf, math.inf):
            raise ValueError(
                f"logits must be finite, but {_located(~x.isfinite(), x)}. Mark unknown samples with mask=; otherwise "
                "look for a diverging model or missing values in its input."
            )
    elif not _within(x, 0, 1):
        raise ValueError(
            f"predictions must be probabilities in [0, 1], but {_located(~((x >= 0) & (x <= 1)), x)}. Pass "
            "from_logits=True for logits, and mark unknown samples with mask=."
        )
    if not _within(y, 0, 1):
        bad = ~((y >= 0) & (y <= 1))
        minus = " For labels -1 and 1 pass (targets + 1) / 2." if bool((y == -1).any()) else ""
        raise ValueError(
            f"targets must be 0 or 1, or soft labels between, but {_located(bad, y)}.{minus} Mark unknown labels "
            "with mask=."
        )
    if w is not None and not _within(w, 0, math.inf):
        w = w.squeeze(1) if w.dim() == 2 and w.shape[1] != x.shape[1] else w  # one for each sample: located by its row
        raise ValueError(f"sample_weight must be finite and at least 0, but {_located(~((w >= 0) & w.isfinite()), w)}.")


def extremes(batch: Batch) -> Tensor:
    """(-min, max) of predictions, targets and counts, as a (3, 2) tensor on the batch's device; NaN stays NaN.

    Zero is always a legal value, so it stands for what is absent or empty, and the elementwise maximum of two such
    tensors describes both batches.
    """
    x = batch.predictions.detach()
    rows = []
    for t in (x, batch.targets.detach(), None if batch.count is None else batch.count.detach()):
        if t is None or t.numel() == 0:
            rows.append(x.new_zeros(2))
        else:
            low, high = torch.aminmax(t)
            rows.append(torch.stack((-low, high)))
    return torch.stack([row.to(torch.float32 if x.device.type == "mps" else torch.float64) for row in rows])


def is_valid(seen: Tensor, *, from_logits: bool) -> Tensor:
    """Whether `extremes` are legal, as a tensor on their device."""
    return (seen <= seen.new_tensor(_legal(seen.dtype, from_logits))).all()  # a NaN is not


def _legal(dtype: torch.dtype, from_logits: bool) -> list[list[float]]:
    """The largest legal `extremes`."""
    largest = torch.finfo(dtype).max
    return [[largest, largest] if from_logits else [0.0, 1.0], [0.0, 1.0], [0.0, largest]]


class Watch:
    """The extreme values that a loss has seen where it could not look at them, judged once they are on the host."""

    def __init__(self, *, from_logits: bool) -> None:
        self.from_logits = from_logits
        self.seen = torch.zeros(3, 2, dtype=torch.float64, device="cpu")
        self._host: Tensor | None = None
        self._event: Any = None

    def record(self, batch: Batch) -> None:
        """Add a batch, without waiting for the device. Raise if an earlier one is known to have been bad."""
        # asked in this order: the compiler cannot trace the question about a stream
        eager = not torch.compiler.is_compiling() and not (
            batch.predictions.is_cuda and torch.cuda.is_current_stream_capturing()
        )
        if eager and self._event is not None and self._event.query():
            self._event = None
            self._judge(self._host)
        new = extremes(batch)
        if self.seen.device != new.device:
            self.seen = self.seen.to(new.device, new.dtype)
        self.seen.copy_(torch.maximum(self.seen, new))
        if eager and new.is_cuda and self._event is None:
            # Pinned memory lets the copy run beside the host; the event tells a later call that it has arrived.
            if self._host is None:
                self._host = torch.empty(3, 2, dtype=torch.float64, pin_memory=True)
            self._host.copy_(self.seen, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def raise_if_invalid(self) -> None:
        """Wait for the device and raise if any batch so far was bad."""
        self._event = None
        self._judge(self.seen)

    def _judge(self, seen: Tensor | None) -> None:
        if seen is None:
            return
        told = [
            f"{name} {_span(-row[0], row[1])}, expected {expected}"
            for name, expected, row, legal in zip(
                ("logits" if self.from_logits else "predictions", "targets", "sample_weight"),
                ("finite numbers" if self.from_logits else "[0, 1]", "[0, 1]", "finite numbers of at least 0"),
                seen.tolist(),
                _legal(seen.dtype, self.from_logits),
                strict=True,
            )
            if not all(value <= most for value, most in zip(row, legal, strict=True))
        ]
        if told:
            self.seen.zero_()  # told once: a caller that mends its data can go on with the same loss
            raise ValueError(
                f"an earlier call was given {'; '.join(told)}. Compiled or on an accelerator, values are judged after "
                "the fact; the same call with CPU tensors, not compiled, says which samples they are."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"from_logits": self.from_logits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # what was seen belongs to the process that saw it


def as_tensor(value: object, name: str) -> Tensor:
    """A tensor of any real dtype from a tensor, a NumPy array, a table's column, a number or a list of numbers."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "__array__"):
        return _from_array(value, name)
    try:
        tensor = torch.as_tensor(value)
        # float64: torch's default would round Python numbers to float32
        return torch.as_tensor(value, dtype=torch.float64) if tensor.is_floating_point() else tensor
    except (TypeError, ValueError, RuntimeError) as error:
        held = f" of {type(value[0]).__name__}" if isinstance(value, list | tuple) and value else ""
        raise TypeError(f"{name} must be a tensor or an array of numbers, saw {type(value).__name__}{held}.") from error


def describe(t: Tensor) -> str:
    """A short text of a tensor's values, for messages."""
    values = t.detach().flatten()[:4].tolist()
    text = ", ".join(number(v) for v in values)
    return text if t.dim() == 0 else f"[{text}{', …' if t.numel() > 4 else ''}]"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, of Python or NumPy; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number(value: float) -> str:
    """A number for messages: short, but never so short that 1.0000001 looks like the 1 that was expected."""
    short = f"{value:g}"
    rounded = float(short)
    return repr(float(value)) if rounded.is_integer() and rounded != value else short


def _from_array(value: Any, name: str) -> Tensor:
    import numpy as np  # whoever passes an array has NumPy; the core does not need it

    if isinstance(value, np.ma.MaskedArray) and value.mask.any():
        raise ValueError(
            f"{name} must be a plain array, saw a masked one with {value.mask.sum()} of {value.size} masked. "
            "Pass its .data, and mask=~array.mask."
        )
    array = np.asarray(value)
    if array.dtype.kind == "f":
        dtype = array.dtype.newbyteorder("=") if array.dtype.itemsize <= 8 else np.dtype(np.float64)
    elif array.dtype.kind in "biu":
        dtype = np.dtype(np.bool_ if array.dtype.kind == "b" else np.int64)
    else:
        raise TypeError(f"{name} must be an array of numbers, saw dtype {array.dtype}.")
    writable = array.flags.writeable and array.flags.c_contiguous and array.dtype == dtype
    return torch.from_numpy(array if writable else np.array(array, dtype=dtype, order="C"))


def _alongside(value: object, name: str, x: Tensor) -> Tensor:
    tensor = as_tensor(value, name)
    if tensor.is_complex():
        raise TypeError(f"{name} must be real, saw {tensor.dtype}.")
    if tensor.device != x.device:
        if isinstance(value, Tensor):
            raise ValueError(f"{name} are on {tensor.device}, but the predictions are on {x.device}. Move one of them.")
        tensor = tensor.to(x.device)
    return tensor


def _per_sample(tensor: Tensor, name: str, x: Tensor, x_name: str) -> Tensor:
    if tensor.shape == x.shape:
        return tensor
    if x.dim() == 2 and tensor.shape == x.shape[:1]:
        return tensor.unsqueeze(1)
    expected = _shape(x) if x.dim() == 1 else f"{_shape(x)} or ({x.shape[0]},)"
    raise ValueError(f"{name} must have the shape {expected} like the {x_name}, saw {_shape(tensor)}.")


def _within(t: Tensor, low: float, high: float) -> bool:
    if t.numel() == 0:
        return True
    smallest, largest = (end.item() for end in torch.aminmax(t.detach()))  # NaN if any value is
    return math.isfinite(smallest) and math.isfinite(largest) and smallest >= low and largest <= high


def _located(bad: Tensor, t: Tensor) -> str:
    where = bad.nonzero()
    first = where[0].tolist()
    index = first[0] if len(first) == 1 else tuple(first)
    value = t.detach()[tuple(first)].item()
    return f"{len(where)} of {t.numel()} are not: the first, at index {index}, is {number(value)}"


def _span(low: float, high: float) -> str:
    return (
        "with NaN among them" if math.isnan(low) or math.isnan(high) else f"from {number(low + 0.0)} to {number(high)}"
    )  # + 0.0: never "-0"


def _shape(t: Tensor) -> str:
    # not str(tuple(...)), which the compiler cannot trace, and then it hides the message
    return f"({', '.join([str(n) for n in t.shape])}{',' if t.dim() == 1 else ''})"


def _reshape_hint(x: Tensor, y: Tensor, name: str) -> str:
    if x.shape == (*y.shape, 1):
        return f" If there is one label, pass {name}.squeeze(-1)." if x.dim() == 2 else ""
    if y.shape == (*x.shape, 1):
        return " If there is one label, pass targets.squeeze(-1)."
    return ""
