"""Real data that ships inside the package, with its attribution and licence."""

from scorewise.datasets.beijing import BeijingPM25, beijing_pm25

__all__ = ["BeijingPM25", "beijing_pm25"]
