"""Made-up events and forecasts of them, for which the best threshold of every score is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from scorewise import scores
from scorewise._values import as_tensor, is_number, is_whole
from scorewise.confusion import ConfusionMatrix
from scorewise.priors import Beta

_GRID = 1024  # stretches of thresholds, to find the best before it is found exactly
_HALVINGS = 60  # more than float64 can tell apart


@dataclass(frozen=True, eq=False, repr=False)
class AlarmSeries:
    r"""Events in time with calibrated forecasts of them: a share p of all samples with the prediction p are events.

    Made by `alarm_series`, which describes how. It knows the matrix that is expected at every threshold, not only the
    one that these samples happen to have, and so the best threshold of a score, which those of more and more samples
    come near to.

    **Which threshold is best.** Let τ rise a little, over a share dm of all samples. A share τ of these were hits and
    turn into misses, and 1 − τ were false alarms and turn into correct silence. A score s is at its best where the one
    outweighs the other,

    .. math:: \tau \left(\frac{\partial s}{\partial TP} - \frac{\partial s}{\partial FN}\right)
        + (1 - \tau) \left(\frac{\partial s}{\partial FP} - \frac{\partial s}{\partial TN}\right) = 0.

    For scores that are linear, if need be for given totals, nothing in it depends on how good the forecasts are:

    ================================== ==========================================
    ``accuracy``                       1/2
    ``cost(fp=a, fn=b)``               a / (a + b)
    ``tss``, ``balanced_accuracy``     the rate of events
    ================================== ==========================================

    For the fractions it holds the score's own best value, so that value and threshold come together:

    ================================== ==========================================
    ``f1``                             F1 / 2
    ``fbeta(β)``                       F / (1 + β²)
    ``csi``                            CSI / (1 + CSI)
    ================================== ==========================================

    Attributes:
        predictions: A probability for each sample, (n,) float64.
        targets: 1 for an event, else 0; (n,) float32.
        times: 0, 1, 2, …, (n,) int64.
        rate: The share of events.
        skill: The Brier skill score of the forecasts.
        run: How many steps a run of events lasts, on average.
        early: In how many of the calm samples the forecast knows what is coming.
        lead: How many steps ahead.
    """

    predictions: Tensor
    targets: Tensor
    times: Tensor
    rate: float
    skill: float
    run: float
    early: float
    lead: int
    _of_events: Beta = field(repr=False)
    _of_calm: Beta = field(repr=False)

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        events = int(self.targets.sum())
        return f"<AlarmSeries {len(self)} steps, {events} of them events (rate {self.rate:g}, skill {self.skill:g})>"

    def matrix(self, threshold: float | Tensor) -> ConfusionMatrix:
        """The matrix expected of one sample at a threshold, or at each of several: shares that sum to 1.

        Every error counts one: weights that look around in time are not in it.

        Example:
            >>> alarm_series(rate=0.1, skill=0.5).matrix(0.5)
            ConfusionMatrix(tn=0.879647, fp=0.0203531, fn=0.0430923, tp=0.0569077)
        """
        at = as_tensor(threshold, "threshold").double()
        of_events, of_calm = self._of_events, self._of_calm
        calm = 1 - self.rate
        return ConfusionMatrix(
            calm * of_calm.cdf(at), calm * of_calm.sf(at), self.rate * of_events.cdf(at), self.rate * of_events.sf(at)
        )

    def best(self, score: str | scores.Score) -> tuple[float, float]:
        """The best threshold of a score, and the score of the matrix that is expected there.

        Args:
            score: A name (see `scorewise.scores.names`) or a `Score`, without a weight.

        Example:
            >>> made = alarm_series(rate=0.1, skill=0.5)
            >>> threshold, value = made.best("tss")
            >>> f"{threshold:.6f} {value:.3f}"
            '0.100000 0.790'
            >>> threshold, value = made.best("f1")
            >>> f"{threshold:.6f} {value:.6f}"
            '0.337271 0.674541'
        """
        wanted = scores.get(score)
        sign = 1 if wanted.greater_is_better else -1
        grid = torch.linspace(0, 1, _GRID + 1, dtype=torch.float64)
        values = sign * wanted(self.matrix(grid))
        place = int(values.nan_to_num(nan=-math.inf).argmax())
        low, high = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, _GRID)])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if sign * self._worth(wanted, middle) < 0:
                low = middle
            else:
                high = middle
        # where a score has no best threshold, and is the better the nearer to 0 or 1, the grid has the last word
        threshold = max((high, float(grid[place])), key=lambda one: sign * float(wanted(self.matrix(one))))
        return threshold, float(wanted(self.matrix(threshold)))

    def _worth(self, score: scores.Score, threshold: float) -> float:
        """What one more alarm is worth: how the score grows with alarms where the prediction is the threshold."""
        matrix = self.matrix(threshold)
        cells = [one.detach().requires_grad_() for one in (matrix.tn, matrix.fp, matrix.fn, matrix.tp)]
        with torch.enable_grad():
            tn, fp, fn, tp = torch.autograd.grad(score.function(*cells), cells, materialize_grads=True)
        return float(threshold * (tp - fn) + (1 - threshold) * (fp - tn))


def alarm_series(
    n: int = 10_000,
    *,
    rate: float = 0.1,
    skill: float = 0.5,
    run: float = 5.0,
    early: float = 0.5,
    lead: int = 3,
    seed: int = 0,
) -> AlarmSeries:
    """Events that come in runs, and calibrated forecasts of them that come early at times.

    Events y are a Markov chain of two states. The forecast p of a step is drawn from Beta(a + y, b + 1 − y), with
    a = rate · c, b = (1 − rate) · c and c = 1 / skill − 1. By Bayes' formula the share of events among all steps with
    the forecast p is then p itself, and the forecasts have the distribution Beta(a, b), of which everything else
    follows; see `AlarmSeries`.

    Where in its distribution the forecast of a calm step lies may depend on what comes, as long as all calm steps
    together fill it: in a share ``early`` of them, the highest forecasts are given to those that are followed by an
    event within ``lead`` steps. So false alarms are often early ones, which value weights forgive, while the matrix
    without weights stays what it is.

    Args:
        n: How many steps. A million take some seconds.
        rate: The share of events, between 0 and 1.
        skill: The Brier skill score, between 0 and 1: of the variance of events, how much the forecasts explain.
        run: How many steps a run of events lasts on average, at least 1 and at least rate / (1 − rate).
        early: In which share of the calm steps the forecast knows what is coming, from 0 to 1.
        lead: How many steps ahead, at least 1.
        seed: Of the random numbers.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If an argument is out of its range.

    Example:
        >>> import scorewise as sw
        >>> made = alarm_series(20_000, rate=0.1, seed=1)
        >>> cost = sw.scores.cost(fp=1, fn=4)
        >>> known, value = made.best(cost)
        >>> found = sw.best_threshold(made.predictions, made.targets, cost)
        >>> f"{known:.1f} {found:.1f}"
        '0.2 0.2'
    """
    if not is_whole(n) or not is_whole(lead) or not is_whole(seed):
        raise TypeError(f"n, lead and seed must be ints, saw {n!r}, {lead!r} and {seed!r}.")
    for name, value in (("rate", rate), ("skill", skill), ("run", run), ("early", early)):
        if not is_number(value):
            raise TypeError(f"{name} must be a number, saw {value!r}.")
    if n < 1 or lead < 1:
        raise ValueError(f"n and lead must be at least 1, saw {n} and {lead}.")
    if not 0 < rate < 1:
        raise ValueError(f"rate must be between 0 and 1, saw {rate}.")
    least, most = 1e-3, 1 / (1 + 1e-3 / min(rate, 1 - rate))  # what the beta distribution can do
    if not least <= skill <= most:
        raise ValueError(f"skill must be from {least:g} to {most:.4g} for a rate of {rate:g}, saw {skill}.")
    shortest = max(1.0, rate / (1 - rate))
    if not shortest <= run < math.inf:
        raise ValueError(f"run must be at least {shortest:g} for a rate of {rate:g}, saw {run}.")
    if not 0 <= early <= 1:
        raise ValueError(f"early must be from 0 to 1, saw {early}.")

    noise = torch.Generator().manual_seed(seed)
    begin, end = rate / (1 - rate) / run, 1 / run  # chances that a calm step is followed by an event, and the reverse
    chain = _chain(n + lead, rate, begin, end, noise)
    events = chain[:n]
    coming = chain.unfold(0, lead, 1)[1 : n + 1].any(1)
    some_time = 1 - (1 - begin) ** lead  # the chance that one comes within the lead, of a calm step
    level = torch.rand(n, dtype=torch.float64, generator=noise)
    told = torch.where(coming, 1 - some_time + some_time * level, (1 - some_time) * level)
    knows = torch.rand(n, dtype=torch.float64, generator=noise) < early
    level = torch.where(knows & ~events, told, level)

    spread = 1 / skill - 1
    a, b = rate * spread, (1 - rate) * spread
    of_events, of_calm = Beta(a + 1, b), Beta(a, b + 1)
    predictions = torch.empty_like(level)
    for which, distribution in ((events, of_events), (~events, of_calm)):
        predictions[which] = distribution.icdf(level[which])
    return AlarmSeries(
        predictions=predictions,
        targets=events.float(),
        times=torch.arange(n),
        rate=float(rate),
        skill=float(skill),
        run=float(run),
        early=float(early),
        lead=int(lead),
        _of_events=of_events,
        _of_calm=of_calm,
    )


def _chain(n: int, rate: float, begin: float, end: float, noise: torch.Generator) -> Tensor:
    """A Markov chain of two states, True for an event: how long it stays is geometric, from the first step on."""
    first = bool(torch.rand((), dtype=torch.float64, generator=noise) < rate)
    chances = torch.tensor([end, begin] if first else [begin, end], dtype=torch.float64)
    lengths = torch.zeros(0, dtype=torch.int64)
    while int(lengths.sum()) < n:
        drawn = 1 - torch.rand(1024, 2, dtype=torch.float64, generator=noise)  # in (0, 1]
        stays = (drawn.log() / torch.log1p(-chances)).ceil().clamp(1, n).to(torch.int64)
        lengths = torch.cat([lengths, stays.flatten()])
    states = (torch.arange(len(lengths)) % 2 == 0) == first
    return states.repeat_interleave(lengths)[:n]
