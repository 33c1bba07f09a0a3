"""What an error costs: weights of false positives and false negatives."""

from scorewise.weights.admissible import Admissibility, admissible
from scorewise.weights.base import Product, Weight
from scorewise.weights.custom import Custom
from scorewise.weights.margin import Margin
from scorewise.weights.omega import PUBLISHED, geometric, half_life, linear
from scorewise.weights.samplewise import ClassFrequency, Cost, CrossEntropy
from scorewise.weights.value import Value

__all__ = [
    "PUBLISHED",
    "Admissibility",
    "ClassFrequency",
    "Cost",
    "CrossEntropy",
    "Custom",
    "Margin",
    "Product",
    "Value",
    "Weight",
    "admissible",
    "geometric",
    "half_life",
    "linear",
]
