"""Time: real timestamps as whole numbers of lags, and padded sequences as one flat batch.

The losses take one row for each sample, with its series in ``groups`` and its time in ``times``, where one unit is one
lag. What stands here brings real records into that form.
"""

from scorewise.series.padded import Padded, from_padded
from scorewise.series.timestamps import lags

__all__ = ["Padded", "from_padded", "lags"]
