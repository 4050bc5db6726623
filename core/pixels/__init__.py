"""What OpenCV 3.4 does to images, on NumPy arrays (height, width, channels).

Bytes come out equal or, where OpenCV sums in single precision, at most one apart.
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
