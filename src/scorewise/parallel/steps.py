"""A whole training step in the memory of a part of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scorewise.parallel.sums import LinearizedLoss, SummedLoss, Sums, check_alike


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
        model: The model, also within DistributedDataParallel: then gradients are put together with the last one. Where
            processes talk in every forward pass (FSDP, SyncBatchNorm) they need equally many micro-batches.
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
    parts = micro_batches if isinstance(micro_batches, Sequence) else list(micro_batches)
    first = first_pass(loss, model, parts, forward=forward)
    if no_sync is None:
        ddp = _ddp_in(model)
        no_sync = contextlib.nullcontext if ddp is None else ddp.no_sync
    for k in range(len(parts)):
        with contextlib.nullcontext() if k == len(parts) - 1 else no_sync():
            first.again(k)
            inputs, targets, rest = _read(parts[k])
            value = first.tangent((forward or _call)(model, inputs), targets, **rest).sum()
            if backward is None:
                value.backward()
            else:
                backward(value)
    return first.tangent.value


@dataclass(frozen=True)
class FirstPass:
    """What the second pass needs: the loss's ``tangent`` at the whole batch, and the noise that the first one saw."""

    tangent: LinearizedLoss
    _noise: _Noise

    def again(self, k: int) -> None:
        """Put the states of PyTorch's random generators back to what they were before micro-batch ``k``."""
        self._noise.restore(k)


def first_pass(
    loss: SummedLoss,
    model: nn.Module,
    micro_batches: Sequence[Sequence[Any]],
    *,
    forward: Callable[[Any, Any], Tensor] | None = None,
) -> FirstPass:
    """The first half of `accumulate`, for engines that run backward passes themselves.

    They call, for each micro-batch k, ``first.again(k)``, and then the backward pass of
    ``first.tangent(model(inputs), targets, …)``. The model must be in the same mode in both passes.

    Args:
        loss: As for `accumulate`, and so are the others.
        model: The model.
        micro_batches: All micro-batches of a step.
        forward: How to get logits from the model and the inputs.
    """
    if not isinstance(loss, SummedLoss):
        raise TypeError(
            f"accumulate: expected a loss that is a function of a matrix (ScoreLoss, SimplexLoss, OneVsRestLoss, or a "
            f"CombinedLoss of such), saw {type(loss).__name__}."
        )
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"accumulate: model must be a torch.nn.Module, saw {type(model).__name__}. If it is to be called otherwise "
            "than model(inputs), pass forward=."
        )
    if not len(micro_batches):
        raise ValueError("accumulate: there are no micro-batches. A process without samples passes an empty one.")
    ddp = _ddp_in(model)
    if ddp is not None and ddp.will_sync_module_buffers():
        # What it would do before the second pass, the first one needs too; there is no public way to ask for it.
        ddp._sync_buffers()
    # Without its wrapper, which would talk to other processes.
    alone = model.module if isinstance(model, _DDP) else model
    noise = _Noise(model, len(micro_batches))
    whole: Sums | None = None
    with torch.no_grad(), _put_back(model):
        for k in range(len(micro_batches)):
            noise.keep(k)
            inputs, targets, rest = _read(micro_batches[k])
            sums = loss._sums((forward or _call)(alone, inputs), targets, **rest)
            if whole is not None:
                check_alike(sums, whole)
                sums = tuple(a + b for a, b in zip(whole, sums, strict=True))
            whole = sums
    assert whole is not None  # noqa: S101  # there is a micro-batch; for the type checker
    return FirstPass(loss._linear(whole), noise)


_DDP = nn.parallel.DistributedDataParallel


def _ddp_in(model: nn.Module) -> nn.parallel.DistributedDataParallel | None:
    """Also within a compiled model, or an engine's wrapper."""
    return next((module for module in model.modules() if isinstance(module, _DDP)), None)


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


class _Noise:
    """The states of PyTorch's random generators before each micro-batch, on the CPU and wherever a model is."""

    def __init__(self, model: nn.Module, micro_batches: int) -> None:
        tensors = (tensor for tensors in (model.parameters(), model.buffers()) for tensor in tensors)
        self.devices = {tensor.device for tensor in tensors if tensor.device.type not in {"cpu", "meta"}}
        # In one piece: many small ones, which stay, would keep the large ones between them from being used again.
        self.cpu = torch.get_rng_state().repeat(micro_batches, 1)
        self.others: list[dict[torch.device, Tensor]] = [{} for _ in range(micro_batches)]

    def keep(self, k: int) -> None:
        self.cpu[k] = torch.get_rng_state()
        self.others[k] = {device: torch.get_device_module(device).get_rng_state(device) for device in self.devices}

    def restore(self, k: int) -> None:
        torch.set_rng_state(self.cpu[k].clone())  # of a view with an offset PyTorch 2.13 dies
        for device, state in self.others[k].items():
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
