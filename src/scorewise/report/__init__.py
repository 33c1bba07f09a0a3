"""A page to look at: one HTML file that needs nothing else (extra: report)."""

from scorewise.report.page import render, write

__all__ = ["render", "write"]
