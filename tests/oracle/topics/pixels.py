"""Images resized and padded by OpenCV through ``mx.image``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .images import png

__all__ = ["BORDERS", "SIZES", "image_of", "record"]

SIZES: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "larger": ((7, 9), (12, 15)),
    "smaller": ((13, 17), (5, 8)),
    "half": ((12, 16), (6, 8)),
    "third": ((12, 15), (4, 5)),
    "wider": ((9, 7), (6, 20)),
    "taller": ((7, 9), (16, 4)),
    "one_row": ((1, 6), (4, 9)),
    "slightly_smaller": ((20, 20), (19, 17)),
    "twice": ((5, 6), (10, 12)),
}
"""(height, width) before and after."""

BORDERS: dict[str, dict[str, Any]] = {
    "constant": {"type": 0, "value": 7},
    "values": {"type": 0, "values": (1, 2, 3)},
    "isolated": {"type": 16, "values": (1.5, 260, -3)},
    "edge": {"type": 1},
    "mirrored": {"type": 2},
    "continued": {"type": 3},
    "mirrored_within": {"type": 4},
}


def image_of(size: tuple[int, int], dtype: str = "uint8") -> np.ndarray:
    """Return an image (height, width, 3)."""
    random = np.random.RandomState(size[0] * 100 + size[1])
    return random.randint(0, 256, (*size, 3)).astype(dtype)


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every image resized with every method and padded with every border; one in grey."""
    results = {}
    for name, (old, new) in SIZES.items():
        for dtype in ("uint8", "float32"):
            source = mx.nd.array(image_of(old, dtype), dtype=dtype)
            for method in range(5):
                resized = mx.image.imresize(source, new[1], new[0], interp=method)
                results[f"{name}/{dtype}/{method}"] = resized.asnumpy()
    source = mx.nd.array(image_of((4, 5)), dtype="uint8")
    for name, options in BORDERS.items():
        results[f"border/{name}"] = mx.image.copyMakeBorder(source, 3, 1, 6, 2, **options).asnumpy()
    results["grey/png"] = mx.image.imdecode(png(image_of((12, 16))), flag=0).asnumpy()
    return results
