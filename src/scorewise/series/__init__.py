"""Time: timestamps as whole numbers of lags, padded sequences as one flat batch, and batches of neighbours in time.

The losses take one row for each sample, with its series in ``groups`` and its time in ``times``, where one unit is one
lag. What stands here brings real records into that form, and samples batches of them in which every window is whole;
or, where there is no time, batches with some of every class.
"""

from scorewise.series.chronological import ChronologicalBatchSampler
from scorewise.series.context import SeriesBatch, WithContext
from scorewise.series.padded import Padded, from_padded
from scorewise.series.stratified import StratifiedBatchSampler
from scorewise.series.timestamps import lags

__all__ = [
    "ChronologicalBatchSampler",
    "Padded",
    "SeriesBatch",
    "StratifiedBatchSampler",
    "WithContext",
    "from_padded",
    "lags",
]
