"""Distributions of the decision threshold.

A prior says which thresholds matter. Every one has ``cdf``, ``sf``, ``pdf``, ``icdf``, ``sample``, ``mean`` and
``support``, is total on the real line and differentiable, and takes tensors as parameters (one prior per label).
"""

from scorewise.priors.base import Parameter, ThresholdPrior
from scorewise.priors.beta import Beta
from scorewise.priors.composed import Density, Mixture, Truncated, as_prior
from scorewise.priors.families import Kumaraswamy, Logistic, RaisedCosine, Triangular, TruncatedNormal, Uniform

__all__ = [
    "Beta",
    "Density",
    "Kumaraswamy",
    "Logistic",
    "Mixture",
    "Parameter",
    "RaisedCosine",
    "ThresholdPrior",
    "Triangular",
    "Truncated",
    "TruncatedNormal",
    "Uniform",
    "as_prior",
]
