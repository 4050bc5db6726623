"""Predictions: buckets, bound sizes, outputs cut to what was asked."""
