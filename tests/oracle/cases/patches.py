"""im2col and col2im."""

from __future__ import annotations

from oracle.case import Case

_WINDOW = {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 2)}

CASES = (
    Case("gather", "im2col", {"kernel": (2, 2)}, {"data": (2, 3, 3, 4)}),
    Case("gather_all", "im2col", _WINDOW, {"data": (2, 3, 5, 4)}),
    Case("scatter", "col2im", {"output_size": (3, 4), "kernel": (2, 2)}, {"data": (2, 12, 6)}),
    Case("scatter_all", "col2im", {"output_size": (5, 4), **_WINDOW}, {"data": (2, 18, 18)}),
)
