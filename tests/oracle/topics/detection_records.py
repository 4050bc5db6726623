"""Batches of images with boxes from RecordIO files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from oracle.topics.augmenters import write_boxes

__all__ = ["CASES", "batches", "record"]

SHAPE = (3, 20, 26)

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mirrored": {"rand_mirror_prob": 1.0},
    "padded_labels": {"label_pad_width": 30, "label_pad_value": 7.0},
    "shrunk": {"resize_mode": "shrink", "data_shape": (3, 12, 40)},
    "fitted": {"resize_mode": "fit", "data_shape": (3, 40, 36), "inter_method": 2},
    "resized": {"resize": 15, "inter_method": 3},
    "normalized": {"mean_r": 10, "mean_g": 20, "mean_b": 30, "std_g": 2, "scale": 0.5},
    "rounded": {"batch_size": 3},
    "listed": {"path_imglist": True},
}
ROUNDS = {"rounded": 2}
"""Rounds of a case; one of the others."""


def batches(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return every batch of some epochs; padding that no image fills is left out."""
    options = {"batch_size": 2, "data_shape": SHAPE, **CASES[case_id]}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        path = write_boxes(mx, Path(folder))
        if options.pop("path_imglist", False):
            lines = [f"{n}\t2\t6\t{n}\t0.1\t0.2\t0.5\t0.6\t1\tx.png\n" for n in range(5)]
            Path(folder, "x.lst").write_text("".join(lines))
            options["path_imglist"] = str(Path(folder, "x.lst"))
        iterator = mx.io.ImageDetRecordIter(
            path_imgrec=path, preprocess_threads=1, verbose=False, **options
        )
        for number in range(ROUNDS.get(case_id, 1)):
            for place, batch in enumerate(iterator):
                labels = batch.label[0].asnumpy()
                images = batch.data[0].asnumpy()
                for position, label in enumerate(labels):
                    rows, columns = int(label[1]), int(label[2])
                    key = f"round{number}_batch{place}_image{position}"
                    results[key] = images[position, :, :rows, :columns]
                results[f"round{number}_batch{place}_label"] = labels
                results[f"round{number}_batch{place}_pad"] = np.array(batch.pad)
            iterator.reset()
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every case's batches."""
    return {
        f"{case_id}/{key}": array
        for case_id in CASES
        for key, array in batches(mx, case_id).items()
    }
