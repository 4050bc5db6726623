"""Real models beside the repository, for local tests only; absent elsewhere."""

from __future__ import annotations

from pathlib import Path

__all__ = ["SHARED"]

SHARED = Path(__file__).resolve().parents[3] / "shared"
