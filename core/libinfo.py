"""Which version of MXNet this engine does the same as (``mx.libinfo``)."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "1.9.1"
