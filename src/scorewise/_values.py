"""Plain values, tensors and arrays: reading them, and showing them in messages."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, TypeGuard

import torch
from torch import Tensor


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


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


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


def alongside(value: object, name: str, x: Tensor) -> Tensor:
    """A real tensor on the device of ``x``; a tensor of the user's is not moved behind their back."""
    tensor = as_tensor(value, name)
    if tensor.is_complex():
        raise TypeError(f"{name} must be real, saw {tensor.dtype}.")
    if tensor.device != x.device:
        if isinstance(value, Tensor):
            raise ValueError(f"{name} are on {tensor.device}, but the predictions are on {x.device}. Move one of them.")
        tensor = tensor.to(x.device)
    return tensor


def shape_of(t: Tensor) -> str:
    """A tensor's shape, for messages."""
    # not str(tuple(...)), which the compiler cannot trace, and then it hides the message
    return f"({', '.join([str(n) for n in t.shape])}{',' if t.dim() == 1 else ''})"
