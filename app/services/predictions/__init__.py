"""Predictions: which instance and version computes them."""
