r"""How value weights spread over samples: the coefficients that false positives and false negatives have.

At one threshold the weight is :math:`1 - g(z)`, z being the next T labels for a false positive and the previous T
alarms for a false negative. Averaged over the threshold, the cost of a miss i is a sum over a few samples s,

.. math:: W_N = \sum_s c_{is}\,(1 - F(\hat y_s)),

whose shares c depend on nothing but the order of the predictions. With "max" they lie on the running maxima of the past
predictions, which are the power intervals and actual precursors of the paper's Theorem 3; with "prod" on all past
predictions above :math:`\hat y_i` (Theorem 2); with any other set function they are the increments of a Choquet
integral. Summed over the misses they give each sample one coefficient. That is all that is kept: no window has to
survive until the backward pass, and derivatives of every order are those of the prior.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from scorewise._timeline import Timeline
from scorewise._values import number, shape_of
from scorewise.priors.base import widened
from scorewise.weights.base import unchanged
from scorewise.weights.windows import Neighbours, Windows

SetFunction = Callable[[Tensor], Tensor]
"""From a float 0/1 tensor (..., T), nearest lag first, to (...)."""


@dataclass(frozen=True)
class Terms:
    """What a value weight says: see `scorewise.weights.Value`."""

    omega: Sequence[float]
    g: Literal["max", "prod"] | SetFunction
    isolated: float

    @property
    def reach(self) -> int:
        """T, the number of lags."""
        return len(self.omega)


def silenced(x: Tensor, silent: Tensor | None) -> Tensor:
    """Predictions, minus infinity where there is none: no alarm at any threshold."""
    x = widened(x)
    return x if silent is None else x.masked_fill(silent, -math.inf)


def spread(  # noqa: PLR0917  # a batch, taken apart
    terms: Terms, x: Tensor, y: Tensor, silent: Tensor | None, timeline: Timeline, amounts: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """The coefficients of `Weight._spread`: a of each sample as a false positive, r as what misses wait for."""
    windows = Windows(y, timeline, terms.reach)
    x = silenced(x, silent)
    if amounts is None and not windows.picks:
        amounts = 1 - y, y
    # what only stands in for a tensor, while a program is exported or its memory estimated, has nothing to read
    real = type(x) is Tensor
    if amounts is not None and real and (kernel := _one_kernel(terms, windows)) is not None:
        return kernel(terms.omega, terms.isolated, windows, x, y, amounts, largest=terms.g == "max")
    laid = windows.lay(x, -math.inf)
    events = windows.flat(y)
    which = windows.marked(events)
    foresight = Foresight(terms, windows, events)
    amount = None if amounts is None else windows.flat(amounts[1])
    dtype = y.dtype if amount is None else amount.dtype
    missed = windows.blank(y if amount is None else amount)
    for some, near in windows.blocks(which):
        own = None if amount is None else amount.index_select(0, some)
        foresight.add(near, events.index_select(0, some))
        for place, share in shares_of_misses(terms, Misses(laid, near, dtype)):
            missed.scatter_add_(0, place, share if own is None else share * own)

    worth = foresight.worth()
    if amounts is None:
        # 1 - worth, and 0 for events, which are no false positives
        worth.index_fill_(0, windows.places(which), 1.0)
        a = windows.lift(worth.neg_().add_(1))
    else:
        # amount · (1 - worth), in the place of the latter where that has room
        lifted = windows.lift(worth)
        out = lifted if lifted.dtype == amounts[0].dtype else None
        a = torch.addcmul(amounts[0], amounts[0], lifted, value=-1, out=out)
    return a, windows.lift(missed)


def _one_kernel(terms: Terms, windows: Windows) -> Callable[..., tuple[Tensor, Tensor]] | None:
    """What does all of `spread` in one kernel of a graphics card; None where nothing can.

    Its sums are in no particular order, and by gaps it finds neighbours in the order of time alone. It reads tables,
    whose copies from the host are kept, and which no captured graph can hold.
    """
    if windows.device.type != "cuda" or not windows.shape[0] or callable(terms.g):
        return None
    if torch.are_deterministic_algorithms_enabled() or torch.cuda.is_current_stream_capturing():
        return None
    rising = any(later > sooner for sooner, later in itertools.pairwise(terms.omega))
    if windows.ticks is not None and terms.g == "max" and rising:
        return None
    try:
        from scorewise.weights import fused
    except ImportError:  # Triton, which comes with PyTorch where it has kernels for graphics cards
        return None
    return fused.spread if fused.runs_on(windows.device) else None


# Which rows there are depends on the labels, and the compiler wants shapes that do not depend on values: to a graph all
# of this is one operator. It has no backward of its own: the coefficients are constant between ties. A compiler that
# captures CUDA graphs leaves it out of them: what it keeps for later calls must not lie in their memory.
@torch.library.custom_op(
    "scorewise::spread",
    mutates_args=(),
    tags=(torch.Tag.cudagraph_unsafe,),
    schema="(Tensor x, Tensor y, Tensor? silent, Tensor for_fp, Tensor for_fn, Tensor? order, Tensor? steps, "
    "float[] omega, str g, float isolated) -> (Tensor, Tensor)",
)
def spread_operator(  # noqa: PLR0917  # an operator's arguments
    x: Tensor,
    y: Tensor,
    silent: Tensor | None,
    for_fp: Tensor,
    for_fn: Tensor,
    order: Tensor | None,
    steps: Tensor | None,
    omega: Sequence[float],
    g: str,
    isolated: float,
) -> tuple[Tensor, Tensor]:
    """`spread`, as one operator of PyTorch."""
    terms = Terms(omega, g if g in {"max", "prod"} else _FUNCTIONS[g], isolated)  # type: ignore[arg-type]  # narrowed
    a, r = spread(terms, x, y, silent, Timeline(order, steps), (for_fp, for_fn))
    return _as_the_fake(a), _as_the_fake(r)


def _as_the_fake(t: Tensor) -> Tensor:
    """Laid out as the fake results below, from the beginning of their memory on: compiled code reads it as aligned."""
    return t if t.is_contiguous() and t.storage_offset() == 0 else t.clone(memory_format=torch.contiguous_format)


@spread_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    for_fp, for_fn = arguments[3:5]
    return for_fp.new_empty(for_fp.shape), for_fn.new_empty(for_fn.shape)


@dataclass(frozen=True)
class Misses:
    """Events in their surroundings: predictions in time order, and where in it events and their neighbours are."""

    x: Tensor
    near: Neighbours
    dtype: torch.dtype  # of the shares

    @property
    def rows(self) -> Tensor:
        """Where the events are."""
        return self.near.rows

    @property
    def here(self) -> Tensor:
        """Their own predictions."""
        return self.x.index_select(0, self.rows)


Shares = Iterator[tuple[Tensor, Tensor]]
"""Pairs (places, shares), one of each for every miss, with W_N = Σ share · sf[place]."""


def shares_of_misses(terms: Terms, misses: Misses) -> Shares:
    """Whose missing alarm each miss costs how much."""
    if callable(terms.g):
        yield from _set_shares(terms.g, terms.reach, misses)
    elif terms.g == "max":
        by_worth = sorted(enumerate(terms.omega, 1), key=lambda pair: -pair[1])
        yield from _record_shares([pair for pair in by_worth if pair[1] > 0], 1.0, misses)
    else:
        yield from _sum_shares([pair for pair in enumerate(terms.omega, 1) if pair[1] > 0], misses)
    if terms.isolated > 1:
        yield _share_of_isolation(terms, misses)


def collect(terms: Terms, misses: Misses, amounts: Tensor, size: int) -> Tensor:
    """Σ share · amount over the misses, for each of ``size`` places; differentiable in the misses' amounts."""
    if torch.compiler.is_compiling():
        missed = amounts.new_zeros(size)
        for place, share in shares_of_misses(terms, misses):
            missed = missed.scatter_add(0, place, share * amounts)
        return missed
    scattered: Callable[..., Tensor] = _Scattered.apply
    return scattered(amounts, terms, misses, size)


def cost_of(terms: Terms, misses: Misses, sf: Tensor) -> Tensor:
    """W_N of each miss, Σ share · sf[place], differentiable in ``sf``, which is laid out as the predictions are."""
    gathered: Callable[..., Tensor] = _Gathered.apply
    return gathered(sf, terms, misses)


class _Scattered(torch.autograd.Function):
    """What `collect` does. The shares are found again for the backward pass, rather than kept for every lag."""

    @staticmethod
    def forward(amounts: Tensor, terms: Terms, misses: Misses, size: int) -> Tensor:
        sums = amounts.new_zeros(size)
        for place, share in shares_of_misses(terms, misses):
            sums.scatter_add_(0, place, share * amounts)
        return sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Terms, Misses, int], output: Tensor) -> None:
        _, ctx.terms, ctx.misses, _ = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        gathered: Callable[..., Tensor] = _Gathered.apply
        return gathered(grads[0], ctx.terms, ctx.misses), None, None, None


class _Gathered(torch.autograd.Function):
    """The transpose of `_Scattered`: Σ share · laid[place] of each miss."""

    @staticmethod
    def forward(laid: Tensor, terms: Terms, misses: Misses) -> Tensor:
        sums = torch.zeros_like(misses.rows, dtype=laid.dtype)
        for place, share in shares_of_misses(terms, misses):
            sums += share * laid[place]
        return sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Terms, Misses], output: Tensor) -> None:
        laid, ctx.terms, ctx.misses = inputs
        ctx.size = laid.shape[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        scattered: Callable[..., Tensor] = _Scattered.apply
        return scattered(grads[0], ctx.terms, ctx.misses, ctx.size), None, None


def _record_shares(lags: list[tuple[int, float]], own: float, misses: Misses) -> Shares:
    """As the threshold falls below one running maximum after another, a miss is worth one worth after another."""
    best, records = misses.here, []
    for lag, _ in lags:
        value = misses.x.index_select(0, misses.near.at(lag))
        records.append(_above(value, best, misses.dtype))
        best = torch.maximum(best, value)
    taken = torch.zeros_like(best, dtype=misses.dtype)
    for (lag, worth), record in zip(reversed(lags), reversed(records), strict=True):
        share = (worth - taken) * record
        yield misses.near.at(lag), share
        taken = taken + share
    yield misses.rows, own - taken


def _share_of_isolation(terms: Terms, misses: Misses) -> tuple[Tensor, Tensor]:
    """No alarm anywhere around: none at the largest prediction, the miss's own or the first of the others."""
    best, holder = misses.here, misses.rows
    for lag in (*range(-terms.reach, 0), *range(1, terms.reach + 1)):
        there = misses.near.at(lag)
        value = misses.x.index_select(0, there)
        holder = torch.where(value > best, there, holder)
        best = torch.maximum(best, value)
    return holder, torch.full_like(best, terms.isolated - 1, dtype=misses.dtype)


def _sum_shares(lags: list[tuple[int, float]], misses: Misses) -> Shares:
    """Every earlier prediction above the miss's own is worth its worth."""
    here = misses.here
    taken = torch.zeros_like(here, dtype=misses.dtype)
    for lag, worth in lags:
        there = misses.near.at(lag)
        share = _above(misses.x.index_select(0, there), here, misses.dtype) * worth
        yield there, share
        taken = taken + share
    yield misses.rows, 1 - taken


def _set_shares(g: SetFunction, reach: int, misses: Misses) -> Shares:
    """The increments of g as the past predictions, from the largest down, join the set of alarms."""
    here = misses.here
    there = torch.stack([misses.near.at(lag) for lag in range(1, reach + 1)])
    values, order = misses.x[there].sort(0, descending=True)
    alarms = torch.zeros_like(there.t(), dtype=misses.dtype)
    taken = before = torch.zeros_like(here, dtype=misses.dtype)
    for k in range(reach):
        alarms = alarms.scatter(1, order[k][:, None], 1.0)
        worth = worth_of(g, alarms)
        share = (worth - before) * _above(values[k], here, misses.dtype)
        yield there.gather(0, order[k][None])[0], share
        taken, before = taken + share, worth
    yield misses.rows, 1 - taken


def _above(value: Tensor, least: Tensor, dtype: torch.dtype) -> Tensor:
    """1 where a prediction is greater, else 0."""
    if torch.compiler.is_compiling():
        return (value > least).to(dtype)
    # Written at once in the dtype that is needed, several times faster than a Boolean that is converted.
    return torch.gt(value, least, out=torch.empty_like(value, dtype=dtype))


class Foresight:
    """g of the labels to come, less what being isolated adds: 1 - w of each sample as a false positive.

    Args:
        terms: The weight.
        windows: The order in time.
        events: The labels, flat. All samples that are events have to be passed to `add` as well.
    """

    def __init__(self, terms: Terms, windows: Windows, events: Tensor) -> None:
        self._terms, self._windows, self._events = terms, windows, events
        self._worth = windows.blank(events)
        self._coming = windows.blank(events) if callable(terms.g) else self._worth
        self._around = windows.blank(events) if terms.isolated > 1 else self._worth
        self._even: list[Tensor] = []
        self._others = False

    def add(self, near: Neighbours, event: Tensor) -> None:
        """Tell the neighbours of some samples, of which ``event`` says whether they are events."""
        if self._terms.g == "max" and near.even and self._windows.picks:
            self._even.append(near.rows)
            return
        self._others = True
        for lag, omega in enumerate(self._terms.omega, 1):
            before = near.at(lag)  # to whom the event is still to come
            if callable(self._terms.g):
                self._coming.scatter_reduce_(0, before, event, "amax")
            elif self._terms.g == "max":
                self._worth.scatter_reduce_(0, before, event * omega, "amax")
            else:
                self._worth.scatter_add_(0, before, event * omega)
            if self._terms.isolated > 1:
                for there in (before, near.at(-lag)):
                    self._around.scatter_reduce_(0, there, event, "amax")

    def worth(self) -> Tensor:
        """What was asked for, laid out, once all events were added."""
        terms, windows, worth = self._terms, self._windows, self._worth
        if self._even:
            told = torch.zeros_like(worth) if self._others else worth
            self._tell(torch.cat(self._even), told)
            worth = torch.maximum(worth, told) if self._others else told
        if callable(terms.g):
            laid = windows.padded(self._events, 0.0)
            for _, near in windows.blocks(windows.marked(windows.strip(self._coming))):
                labels = torch.stack([laid[near.at(-lag)] for lag in range(1, terms.reach + 1)], -1)
                worth[near.rows] = worth_of(terms.g, labels)
        return worth - (terms.isolated - 1) * (1 - self._around) if terms.isolated > 1 else worth

    def _tell(self, rows: Tensor, worth: Tensor) -> None:
        """The same, of all events at once, four times as fast: what is worth more is written later."""
        for lag, omega in sorted(enumerate(self._terms.omega, 1), key=lambda pair: pair[1]):
            worth.index_fill_(0, rows - lag, omega)
            if self._terms.isolated > 1:
                for there in (rows - lag, rows + lag):
                    self._around.index_fill_(0, there, 1.0)


_FUNCTIONS: weakref.WeakValueDictionary[str, SetFunction] = weakref.WeakValueDictionary()
_COUNTER = itertools.count()
"""Set functions by the name under which a compiled graph calls them: a graph holds names, not functions."""


def register(g: SetFunction) -> str:
    """Keep a set function under a name that a compiled graph can hold."""
    name = f"function {next(_COUNTER)}"
    _FUNCTIONS[name] = g
    return name


def worth_of(g: SetFunction, z: Tensor, *, checked: bool = True) -> Tensor:
    """g of 0/1 vectors, checked to be one number in [0, 1) each; the latter where nobody has to wait for that."""
    with unchanged("Value: g", (z,)):
        returned: Any = g(z)
    if not isinstance(returned, Tensor) or returned.shape != z.shape[:-1] or not returned.is_floating_point():
        seen = f"{shape_of(returned)}, {returned.dtype}" if isinstance(returned, Tensor) else type(returned).__name__
        raise ValueError(
            f"Value: g must return floating point numbers of shape {shape_of(z[..., 0])} for {shape_of(z)}, saw {seen}."
        )
    worth: Tensor = returned.to(z.dtype)
    if checked and z.device.type == "cpu" and not torch.compiler.is_compiling():
        bad = ~((worth >= 0) & (worth < 1))
        if bool(bad.any()):
            raise ValueError(f"Value: g must be in [0, 1), saw {number(float(worth[bad][0].detach()))}.")
    return worth
