"""Real data that ships inside the package, with its attribution and licence; and made-up data that can be known."""

from scorewise.datasets.alarms import AlarmSeries, alarm_series
from scorewise.datasets.beijing import BeijingPM25, beijing_pm25
from scorewise.datasets.stations import Stations, stations

__all__ = ["AlarmSeries", "BeijingPM25", "Stations", "alarm_series", "beijing_pm25", "stations"]
