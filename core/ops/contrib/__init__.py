"""Operators of MXNet's ``contrib`` namespace that take more than a few lines: detection."""

from __future__ import annotations

from core.ops.contrib import boxes, deformable, multibox, proposal, regions, roi_pooling, rotated

__all__ = ["boxes", "deformable", "multibox", "proposal", "regions", "roi_pooling", "rotated"]
