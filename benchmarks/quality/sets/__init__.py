"""The sets, each a function that makes its task."""
