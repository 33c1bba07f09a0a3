"""Every prior in several shapes, each beside its textbook density, written for mpmath and independently of the package.

The densities need not be normalised: the oracles divide by their integral.
"""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import torch

from scorewise import priors, weights


@dataclass(frozen=True)
class PriorCase:
    name: str
    prior: priors.ThresholdPrior
    density: Callable[[mpmath.mpf], mpmath.mpf]
    breaks: tuple[float, ...] = ()  # inside (0, 1): corners, ends of the support, around a narrow peak
    digits: int = (
        30  # quadrature starts at 10^-digits from an end, and t^(a-1) leaves 10^(-a digits) of its mass there;
    )
    # and its error is absolute, so that a density of tiny values needs more of them

    def __repr__(self) -> str:
        return self.name


def _raised_cosine(mu, delta):
    return lambda t: 1 + mpmath.cos(mpmath.pi * (t - mu) / delta) if abs(t - mu) <= delta else mpmath.mpf(0)


def _triangular(low, mode, high):
    def density(t):
        if t < low or t > high:
            return mpmath.mpf(0)
        return (t - low) / (mode - low) if t < mode else (high - t) / (high - mode)

    return density


def _normal(mean, std, low=0.0, high=1.0):
    return lambda t: mpmath.exp(-(((t - mean) / std) ** 2) / 2) if low <= t <= high else mpmath.mpf(0)


def _logistic(mu, scale):
    return lambda t: 1 / mpmath.cosh((t - mu) / (2 * scale)) ** 2


def _beta(a, b):
    return lambda t: t ** (mpmath.mpf(a) - 1) * (1 - t) ** (mpmath.mpf(b) - 1)


def _kumaraswamy(a, b):
    return lambda t: t ** (mpmath.mpf(a) - 1) * (1 - t ** mpmath.mpf(a)) ** (mpmath.mpf(b) - 1)


def _uniform(low, high):
    return lambda t: mpmath.mpf(low <= t <= high)


def _hill(t):
    return torch.exp(-8 * (t - 0.3) ** 2)


def _stairs(t):
    return torch.where(t < 0.25, 1.0, 3.0) + t


def _exact(value):
    return torch.tensor(value, dtype=torch.float64)  # torch.distributions would round a Python number to float32


ALL_PRIORS = [
    PriorCase("uniform", priors.Uniform(), _uniform(0, 1)),
    PriorCase("uniform-inside", priors.Uniform(0.25, 0.7), _uniform(0.25, 0.7), (0.25, 0.7)),
    PriorCase("cosine", priors.RaisedCosine(), _raised_cosine(0.5, 0.1), (0.4, 0.6)),
    PriorCase("cosine-whole", priors.RaisedCosine(0.5, 0.5), _raised_cosine(0.5, 0.5)),
    PriorCase("triangular", priors.Triangular(0.1, 0.3, 0.9), _triangular(0.1, 0.3, 0.9), (0.1, 0.3, 0.9)),
    PriorCase(
        "triangular-rising", priors.Triangular(0.2, 0.9, 0.9), lambda t: max(t - 0.2, 0) * (t <= 0.9), (0.2, 0.9)
    ),
    PriorCase("triangular-falling", priors.Triangular(0.0, 0.0, 0.8), lambda t: max(0.8 - t, 0), (0.8,)),
    PriorCase("beta", priors.Beta(2.0, 8.0), _beta(2, 8)),
    PriorCase("beta-bathtub", priors.Beta(0.5, 0.7), _beta(0.5, 0.7), digits=50),
    PriorCase("beta-spike-at-0", priors.Beta(0.3, 20.0), _beta(0.3, 20), digits=80),
    PriorCase("beta-narrow", priors.Beta(60.0, 40.0), _beta(60, 40), (0.45, 0.6, 0.75), digits=60),
    PriorCase("beta-flat", priors.Beta(1.0, 1.0), _beta(1, 1)),
    PriorCase("kumaraswamy", priors.Kumaraswamy(2.0, 5.0), _kumaraswamy(2, 5)),
    PriorCase("kumaraswamy-bathtub", priors.Kumaraswamy(0.5, 0.5), _kumaraswamy(0.5, 0.5), digits=50),
    PriorCase("kumaraswamy-flat", priors.Kumaraswamy(1.0, 1.0), _kumaraswamy(1, 1)),
    PriorCase("normal", priors.TruncatedNormal(0.5, 0.2), _normal(0.5, 0.2)),
    PriorCase("normal-inside", priors.TruncatedNormal(0.3, 0.1, 0.2, 0.8), _normal(0.3, 0.1, 0.2, 0.8), (0.2, 0.8)),
    PriorCase("normal-outside", priors.TruncatedNormal(-1.0, 0.3), _normal(-1.0, 0.3)),
    PriorCase("logistic", priors.Logistic(0.5, 0.1), _logistic(0.5, 0.1)),
    PriorCase("logistic-outside", priors.Logistic(1.5, 0.05), _logistic(1.5, 0.05)),
    PriorCase(
        "mixture",
        priors.Mixture([priors.Beta(2.0, 5.0), priors.Uniform(0.5, 1.0)], [0.25, 0.75]),
        lambda t: 30 * _beta(2, 5)(t) * 0.25 + 2 * (t >= 0.5) * 0.75,
        (0.5,),
    ),
    PriorCase(
        "torch-normal", priors.Truncated(torch.distributions.Normal(_exact(0.4), _exact(0.3))), _normal(0.4, 0.3)
    ),
    PriorCase(
        "torch-exponential",
        priors.Truncated(torch.distributions.Exponential(_exact(3.0))),
        lambda t: mpmath.exp(-3 * t),
    ),
    PriorCase("density", priors.Density(_hill), lambda t: mpmath.exp(-8 * (t - 0.3) ** 2)),
    PriorCase("density-jump", priors.Density(_stairs, breaks=[0.25]), lambda t: (1 if t < 0.25 else 3) + t, (0.25,)),
]


def half_of_all(z):
    return 0.5 * z.mean(-1)


def smooth_weight(tau, targets, predictions, label_window, alarm_window):
    return 1 + (predictions - tau) ** 2 + alarm_window.sum(-1) * targets


# Every kind of weight, for tests that compare one way to it with another; those with oracles: tests/weight_oracles.py.
_VALUE = weights.Value([0.5, 0.25, 0.1])
CLOSED_WEIGHTS = {
    "cost": weights.Cost(2.0, 5.0),
    "cross-entropy": weights.CrossEntropy(1.0, 3.0),
    "margin": weights.Margin(1.5),
    "class-frequency": weights.ClassFrequency(),
    "value": _VALUE,
    "value-unordered-isolated": weights.Value([0.1, 0.5, 0.3], isolated=2.0),
    "value-prod": weights.Value([0.1, 0.5, 0.3], "prod", isolated=2.0),
    "value-any": weights.Value([0.0] * 3, half_of_all),
    "cross-entropy*value": weights.CrossEntropy() * _VALUE,
}
# Those that see the threshold through alarms only, and none.
STEP_WEIGHTS = {"none": None} | {name: weight for name, weight in CLOSED_WEIGHTS.items() if name != "margin"}
INTEGRATED_WEIGHTS = {
    "custom": weights.Custom(smooth_weight, window=1, points=4),
    "margin*value": weights.Margin(1.0) * _VALUE,
}
EVERY_WEIGHT = CLOSED_WEIGHTS | INTEGRATED_WEIGHTS
