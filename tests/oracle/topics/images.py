"""Batches of images from RecordIO files."""

from __future__ import annotations

import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CASES", "batches", "png", "record", "write_records"]

COUNT = 5
SHAPE = (3, 8, 10)

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalized": {
        "mean_r": 10,
        "mean_g": 20,
        "mean_b": 30,
        "std_r": 2,
        "std_g": 3,
        "std_b": 4,
        "scale": 0.5,
        "mirror": True,
    },
    "padded": {"pad": 3, "fill_value": 7},
    "labels": {"label_width": 2, "batch_size": 3},
    "resized": {"resize": 8},
    "enlarged": {"resize": 20},
    "nearest": {"resize": 11, "inter_method": 0},
    "cubic": {"resize": 19, "inter_method": 2},
    "area": {"resize": 9, "inter_method": 3},
    "lanczos": {"resize": 11, "inter_method": 4},
    "automatic": {"resize": 10, "inter_method": 9},
    "turned": {"rotate": 30},
    "turned_by_list": {"rotate_list": "77", "fill_value": 5, "inter_method": 9},
    "turned_lanczos": {"rotate": 10, "inter_method": 4},
    "scaled": {"min_random_scale": 1.5, "max_random_scale": 1.5, "rotate": 10, "pad": 2},
    "stretched": {"min_aspect_ratio": 1.3, "max_aspect_ratio": 1.3, "inter_method": 2},
    "small": {"max_img_size": 9.0, "rotate": 5, "inter_method": 9},
    "large": {"min_img_size": 20.0},
    "square": {"min_crop_size": 9, "max_crop_size": 9},
    "square_area": {"min_crop_size": 11, "max_crop_size": 11, "inter_method": 3},
    "whole": {"random_resized_crop": True},
    "uint8": {"dtype": "uint8", "mean_r": 10, "mirror": True},
    "int8": {"dtype": "int8", "mean_r": -10.7, "mean_g": 10.5, "mean_b": 0.4, "std_b": 2},
    "mean_image": {"mean_img": 5.0, "scale": 0.5, "std_r": 2, "mean_r": 100, "mirror": True},
    "new_mean_image": {"mean_img": None, "scale": 0.5, "mean_r": 3},
    "listed_labels": {"path_imglist": True},
}
ROUNDS = 2


def png(pixels: np.ndarray) -> bytes:
    """Return an image (height, width, 3), red, green, blue, as a PNG file."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def write_records(mx: Any, folder: Path, labels: int = 1) -> tuple[str, str]:
    """Write a file of images of several sizes and its index; return their paths."""
    paths = str(folder / "x.idx"), str(folder / "x.rec")
    writer = mx.recordio.MXIndexedRecordIO(*paths, "w")
    for number in range(COUNT):
        random = np.random.RandomState(number)
        y, x = np.mgrid[: 12 + number, : 16 - number]
        smooth = np.stack([9 * y + x, 3 * y + 7 * x, 5 * (x + y)], axis=-1)
        pixels = (smooth + random.randint(0, 40, smooth.shape)).astype("uint8")
        label = [number, number / 2] if labels == 2 else float(number)
        header = mx.recordio.IRHeader(0, label, number, 0)
        writer.write_idx(number, mx.recordio.pack(header, png(pixels)))
    writer.close()
    return paths


def batches(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return every batch of some epochs."""
    options = {"batch_size": 2, "data_shape": SHAPE, **CASES[case_id]}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        index, records = write_records(mx, Path(folder), options.get("label_width", 1))
        if "mean_img" in options:
            options["mean_img"] = _mean_image(mx, Path(folder), options["mean_img"])
        if options.pop("path_imglist", False):
            options["path_imglist"] = _image_list(Path(folder))
        iterator = mx.io.ImageRecordIter(
            path_imgrec=records, path_imgidx=index, preprocess_threads=1, **options
        )
        for number in range(ROUNDS):
            for place, batch in enumerate(iterator):
                key = f"round{number}_batch{place}"
                results[f"{key}_data"] = batch.data[0].asnumpy()
                results[f"{key}_label"] = batch.label[0].asnumpy()
                results[f"{key}_pad"] = np.array(batch.pad)
            iterator.reset()
    return results


def _mean_image(mx: Any, folder: Path, value: float | None) -> str:
    path = str(folder / "mean.nd")
    if value is not None:
        ramp = np.arange(np.prod(SHAPE)).reshape(SHAPE) / 8
        mx.nd.save(path, {"mean_img": mx.nd.array(ramp + value)})
    return path


def _image_list(folder: Path) -> str:
    path = folder / "x.lst"
    path.write_text("".join(f"{number}\t{number + 10.5}\ta.jpg\n" for number in range(COUNT)))
    return str(path)


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every case's batches."""
    return {
        f"{case_id}/{key}": array
        for case_id in CASES
        for key, array in batches(mx, case_id).items()
    }
