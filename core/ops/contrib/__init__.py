"""The larger operators of MXNet's ``contrib`` namespace: detection, attention and others."""

from __future__ import annotations

from . import (
    attention,
    boxes,
    deformable,
    deformable_pooling,
    elementwise,
    hawkes,
    index,
    mask,
    multibox,
    proposal,
    regions,
    roi_pooling,
    rotated,
    transforms,
)

__all__ = [
    "attention",
    "boxes",
    "deformable",
    "deformable_pooling",
    "elementwise",
    "hawkes",
    "index",
    "mask",
    "multibox",
    "proposal",
    "regions",
    "roi_pooling",
    "rotated",
    "transforms",
]
