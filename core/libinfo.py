"""The version of MXNet whose behaviour the engine reproduces (``mx.libinfo``)."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "1.9.1"
