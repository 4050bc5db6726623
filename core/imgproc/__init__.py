"""OpenCV 3.4's image functions for NumPy arrays (height, width, channels).

Results of uint8 equal OpenCV's, or differ by at most 1 where OpenCV sums in single precision.
"""

from __future__ import annotations

from .border import add_border
from .color import from_hls, grey_of_bytes, to_hls
from .decoding import decode
from .kernels import AREA, AUTOMATIC, CUBIC, LANCZOS, LINEAR, NEAREST, choose_method
from .resize import resize
from .warp import warp_affine

__all__ = [
    "AREA",
    "AUTOMATIC",
    "CUBIC",
    "LANCZOS",
    "LINEAR",
    "NEAREST",
    "add_border",
    "choose_method",
    "decode",
    "from_hls",
    "grey_of_bytes",
    "resize",
    "to_hls",
    "warp_affine",
]
