"""Measurements: of speed, beside binary cross entropy."""
