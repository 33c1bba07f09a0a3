"""A whole training step in the memory of a part of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from scorewise.parallel.sums import SummedLoss, Sums, check_alike


def accumulate(
    loss: SummedLoss,
    model: nn.Module,
    micro_batches: Iterable[Sequence[Any]],
    *,
    forward: Callable[[Any, Any], Tensor] | None = None,
    backward: Callable[[Tensor], object] | None = None,
    no_sync: Callable[[], contextlib.AbstractContextManager[object]] | None = None,
) -> Tensor:
    """The gradient of the loss of one large batch, in the memory of a micro-batch.

    A score is not a mean over samples, so that gradients of micro-batches' losses do not add up to the gradient of the
    whole. Here they do, exactly: a first pass without gradient adds up the matrices, and a second one backpropagates
    the loss's tangent at their sum (`LinearizedLoss`). Gradients are added to those that the parameters have.

    Both passes see the same noise: the states of PyTorch's random generators are put back before each micro-batch. The
    model's buffers are put back after the first pass, so that batch norms are updated once. (Batch norms normalise
    within a micro-batch, as ever.) Random numbers from elsewhere, and state that is not in buffers, are not put back.

    Args:
        loss: A `ScoreLoss` (not exact), `SimplexLoss`, `OneVsRestLoss`, or a `CombinedLoss` of such. With ``sync`` the
            whole batch is that of all processes, which may have different numbers of micro-batches, but at least one,
            and if it is empty.
        model: The model, also within DistributedDataParallel: then gradients are put together with the last one.
        micro_batches: (inputs, targets) or (inputs, targets, keyword arguments of the loss), as a sequence that can be
            read twice, or any iterable, which is kept in a list. With a weight that looks around in time, a micro-batch
            needs its context, samples with mask False: `scorewise.series.ChronologicalBatchSampler` brings it.
        forward: How to get logits from the model and the inputs, if it is not ``model(inputs)``.
        backward: What to do instead of ``value.backward()``: ``fabric.backward``, ``accelerator.backward``, or with a
            scaler ``lambda value: scaler.scale(value).backward()``.
        no_sync: Makes the context of all backward passes but the last, in which an engine does not put gradients
            together; known for DistributedDataParallel.

    Returns:
        The loss of the whole batch, float64, without a gradient.

    Example:
        >>> import torch, scorewise as sw
        >>> model, (x, y) = torch.nn.Linear(3, 1), (torch.randn(1000, 3), torch.rand(1000, 1).round())
        >>> value = accumulate(sw.ScoreLoss("f1"), model, list(zip(x.split(100), y.split(100))))
        >>> whole, *_ = torch.autograd.grad(sw.ScoreLoss("f1")(model(x), y), [model.weight])
        >>> bool(torch.allclose(model.weight.grad, whole, atol=1e-6))
        True
    """
    if not isinstance(loss, SummedLoss):
        raise TypeError(
            f"accumulate: expected a loss of this package, which knows a batch by its matrix; saw "
            f"{type(loss).__name__}. Losses that are sums over samples need no second pass."
        )
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"accumulate: model must be a torch.nn.Module, saw {type(model).__name__}. If it is to be called otherwise "
            "than model(inputs), pass forward=."
        )
    parts = micro_batches if isinstance(micro_batches, Sequence) else list(micro_batches)
    if not len(parts):
        raise ValueError("accumulate: there are no micro-batches. A process without samples passes an empty one.")
    if no_sync is None:
        no_sync = model.no_sync if isinstance(model, _DDP) else contextlib.nullcontext
    run = forward or _call
    alone: nn.Module = model
    if isinstance(model, _DDP):
        # Without its wrapper, which would talk to other processes in each pass. What it would tell them before the
        # second, its buffers, they must have in the first; there is no public way to ask for it.
        alone = model.module
        if model.will_sync_module_buffers():
            model._sync_buffers()
    states = []
    whole: Sums | None = None
    with torch.no_grad(), _put_back(alone):
        for part in parts:
            inputs, targets, rest = _read(part)
            states.append(_RandomState(alone))
            sums = loss._sums(run(alone, inputs), targets, **rest)
            if whole is not None:
                check_alike(sums, whole)
                sums = tuple(a + b for a, b in zip(whole, sums, strict=True))
            whole = sums
    assert whole is not None  # noqa: S101  # there is a micro-batch; for the type checker
    tangent = loss._linear(whole)
    for k, (part, state) in enumerate(zip(parts, states, strict=True), start=1):
        inputs, targets, rest = _read(part)
        with contextlib.nullcontext() if k == len(parts) else no_sync():
            state.restore()
            value = tangent(run(model, inputs), targets, **rest)
            if backward is None:
                value.sum().backward()
            else:
                backward(value.sum())
    return tangent.value


_DDP = nn.parallel.DistributedDataParallel


def _call(model: Any, inputs: Any) -> Tensor:
    logits: Tensor = model(inputs)
    return logits


def _read(part: Any) -> tuple[Any, Any, dict[str, Any]]:
    if isinstance(part, tuple | list) and len(part) == 2:
        return part[0], part[1], {}
    if isinstance(part, tuple | list) and len(part) == 3 and isinstance(part[2], Mapping):
        return part[0], part[1], dict(part[2])
    seen = f"{len(part)} things" if isinstance(part, tuple | list) else type(part).__name__
    raise TypeError(
        f"accumulate: a micro-batch must be (inputs, targets) or (inputs, targets, keyword arguments of the loss), saw "
        f"{seen}."
    )


class _RandomState:
    """The states of PyTorch's random generators, on the CPU and wherever a model is."""

    def __init__(self, model: nn.Module) -> None:
        devices = {tensor.device for tensors in (model.parameters(), model.buffers()) for tensor in tensors}
        self.cpu = torch.get_rng_state()
        self.others = {
            device: torch.get_device_module(device).get_rng_state(device)
            for device in devices
            if device.type not in {"cpu", "meta"}
        }

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        for device, state in self.others.items():
            torch.get_device_module(device).set_rng_state(state, device)


@contextlib.contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """Buffers are what they were, whatever happens inside."""
    before = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in before:
                    buffer.copy_(before[name])
