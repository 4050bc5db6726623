"""Transposed and reordered elements."""

from __future__ import annotations

from oracle.case import Case, normal

CASES = (
    Case("matrix", "transpose", {}, {"data": (2, 3)}),
    Case("all", "transpose", {}, {"data": (2, 3, 4)}),
    Case("heads", "transpose", {"axes": (0, 2, 1, 3)}, {"data": (2, 3, 4, 2)}),
    Case("channels_last", "transpose", {"axes": (0, 2, 3, 1)}, {"data": (2, 3, 2, 4)}),
    Case("five", "transpose", {"axes": (1, 0, 2, 3, 4)}, {"data": (2, 3, 2, 2, 2)}),
    Case("rotate", "transpose", {"axes": (2, 0, 1)}, {"data": normal(2, 3, 4, dtype="float64")}),
    Case("swap", "SwapAxis", {"dim1": 1, "dim2": 2}, {"data": (2, 3, 4)}),
    Case("swap_ends", "swapaxes", {"dim1": 0, "dim2": -1}, {"data": (2, 3, 4)}),
    Case("swap_itself", "SwapAxis", {"dim1": 1, "dim2": 1}, {"data": (2, 3)}),
    Case("swap_default", "SwapAxis", {}, {"data": (2, 3)}),
    Case("reverse", "reverse", {"axis": 1}, {"data": (2, 3)}),
    Case("reverse_two", "flip", {"axis": (0, 2)}, {"data": (2, 3, 4)}),
    Case("depth_to_space", "depth_to_space", {"block_size": 2}, {"data": (2, 8, 2, 3)}),
    Case("space_to_depth", "space_to_depth", {"block_size": 2}, {"data": (2, 3, 4, 2)}),
    Case("depth_to_space_three", "depth_to_space", {"block_size": 3}, {"data": (1, 9, 1, 2)}),
)
