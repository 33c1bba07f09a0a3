r"""The threshold on the simplex: one for each class, together 1.

A forecast p and a threshold :math:`\tau` both lie on the simplex, and the class is
:math:`\arg\max_j (p_j - \tau_j)`. With two classes that is :math:`p_1 > \tau_1`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scorewise._values import as_tensor, describe, shape_of


def class_chances(p: Tensor) -> Tensor:
    r"""The probability of each class when the threshold is uniform on the simplex; differentiable.

    With the probabilities sorted, :math:`p_{(1)} \ge … \ge p_{(m)}`, and
    :math:`R_q = (1 - \sum_{l \le q} (p_{(l)} - p_{(q)}))_+`, :math:`R_{m+1} = 0`,

    .. math:: P((k)) = \sum_{q \ge k} \frac{R_q^{m-1} - R_{q+1}^{m-1}}{q}:

    one sort and one running sum for all classes, no m × m tensor.

    Args:
        p: Probabilities, (..., m), m at least 2.

    Returns:
        The same shape; each row sums to 1. With two classes it is p itself.

    Example:
        >>> import torch
        >>> class_chances(torch.tensor([0.5, 0.3, 0.2]))
        tensor([0.6200, 0.2600, 0.1200])
    """
    if not isinstance(p, Tensor) or not p.is_floating_point() or not p.dim() or p.shape[-1] < 2:
        seen = f"{shape_of(p)}, {p.dtype}" if isinstance(p, Tensor) else type(p).__name__
        raise ValueError(f"p must be a tensor of probabilities, (..., m) with m at least 2; saw {seen}.")
    m = p.shape[-1]
    ordered, order = p.sort(dim=-1, descending=True)
    q = torch.arange(1, m + 1, dtype=p.dtype, device=p.device)
    room = (1 - (ordered.cumsum(-1) - q * ordered)).clamp(min=0) ** (m - 1)
    nothing = torch.zeros_like(room[..., :1])
    shares = (room - torch.cat([room[..., 1:], nothing], -1)) / q
    chances = shares.flip(-1).cumsum(-1).flip(-1)
    return torch.zeros_like(p).scatter(-1, order, chances)


def decide(p: Tensor, tau: Tensor | None = None) -> Tensor:
    """The class of each forecast, the one that exceeds its threshold most; of equal ones the first.

    Args:
        p: Probabilities, (..., m).
        tau: A threshold for each class, (m,), of which only differences matter; None for the same for all, which is
            the most probable class.

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
        >>> decide(p), decide(p, torch.tensor([0.6, 0.3, 0.1]))
        (tensor([0, 2]), tensor([2, 2]))
    """
    p = as_tensor(p, "predictions")
    if not p.dim() or p.shape[-1] < 2:
        raise ValueError(f"predictions must have the shape (..., classes), two classes or more; saw {shape_of(p)}.")
    if not torch.compiler.is_compiling() and bool(p.isnan().any()):
        raise ValueError(f"predictions must be known, but {int(p.isnan().sum())} of {p.numel()} are NaN.")
    # Thresholds are rounded to the predictions' dtype, as everywhere; their differences are not.
    wide = p.dtype if p.device.type == "mps" else torch.float64
    margin = p.to(wide) if tau is None else p.to(wide) - threshold_like(tau, p).to(wide)
    # argmax leaves open which of equal ones it takes; as many are before the first of them as have seen none yet
    first = (margin == margin.amax(-1, keepdim=True)).cumsum(-1).eq(0).sum(-1)
    return first.clamp(max=p.shape[-1] - 1)  # NaN, which a compiled graph may meet, has no first


def threshold_like(tau: object, p: Tensor) -> Tensor:
    """A threshold for each class, checked, beside predictions."""
    value = as_tensor(tau, "tau")
    if value.shape != p.shape[-1:]:
        raise ValueError(
            f"tau must have one threshold for each of the {p.shape[-1]} classes, shape ({p.shape[-1]},), saw "
            f"{shape_of(value)}."
        )
    if not torch.compiler.is_compiling() and not bool(value.isfinite().all()):
        raise ValueError(f"tau must be finite, saw {describe(value)}.")
    return value.to(p.device, p.dtype)
