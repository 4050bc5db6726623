"""Predictions: choosing buckets and batch sizes, padding inputs, cropping outputs."""
