"""How large datasets may be, in files and in memory."""

from __future__ import annotations

from app.errors.tree import TooLarge

__all__ = ["SETTING", "check_unpacked_size"]

SETTING = "MODSERVE_MAX_DATASET_BYTES"


def check_unpacked_size(size: int, limit: int) -> None:
    """Raise TooLarge if arrays would take more memory than is allowed."""
    if size > limit:
        raise TooLarge(
            "the arrays of the dataset, in bytes", got=size, limit=limit, setting=SETTING
        )
