"""Further blocks (``mx.gluon.contrib``)."""

from __future__ import annotations

from core.gluon.contrib import nn

__all__ = ["nn"]
