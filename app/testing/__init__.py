"""Helpers for tests and benchmarks."""
