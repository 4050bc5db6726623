"""Frozen values and pure transitions of the service. No I/O, no HTTP."""
