"""Real models in a folder beside the repository, for local tests only."""

from __future__ import annotations

from pathlib import Path

__all__ = ["ROUNDING", "SHARED"]

SHARED = Path(__file__).resolve().parents[3] / "shared"

ROUNDING = {"cnn_bn_jonggon": 1e-4, "mtcnn_det2": 3e-5, "retinaface_mnet25": 1e-4}
"""Networks that round more, and the tolerance that takes: what float64 gives is as far from MXNet's
numbers as from ours."""
