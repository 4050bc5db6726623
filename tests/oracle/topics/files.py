"""Iterators over files, and RecordIO files byte for byte."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CASES", "RECORDS", "batches", "packed", "record", "recordio"]

MAGIC = struct.pack("<I", 0xCED7230A)
RECORDS = (
    b"abc",
    b"",
    b"x" * 13,
    MAGIC,
    b"abcd" + MAGIC + b"efgh" + MAGIC + b"z",
    b"ab" + MAGIC + b"cd",
    MAGIC * 3 + b"1",
    b"abcd" + MAGIC,
)

CSV = "1,2,3,4\n2,3,4,5\n3,4,5,6\n4,5,6,7\n5,6,7,8\n"
LABELS = "1\n2\n3\n4\n5\n"
SVM = "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n"
SVM_LABELS = "1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n"

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "csv": ("CSVIter", {"data_csv": "data.csv", "data_shape": (4,), "batch_size": 2}),
    "csv_shaped": (
        "CSVIter",
        {
            "data_csv": "data.csv",
            "data_shape": (2, 2),
            "label_csv": "label.csv",
            "batch_size": 3,
            "round_batch": False,
        },
    ),
    "csv_integers": (
        "CSVIter",
        {"data_csv": "data.csv", "data_shape": (4,), "batch_size": 3, "dtype": "int32"},
    ),
    "csv_labels": (
        "CSVIter",
        {
            "data_csv": "data.csv",
            "data_shape": (4,),
            "label_csv": "data.csv",
            "label_shape": (4,),
            "batch_size": 5,
        },
    ),
    "libsvm": ("LibSVMIter", {"data_libsvm": "data.t", "data_shape": (3,), "batch_size": 3}),
    "libsvm_labels": (
        "LibSVMIter",
        {
            "data_libsvm": "data.t",
            "data_shape": (3,),
            "label_libsvm": "label.t",
            "label_shape": (3,),
            "batch_size": 2,
        },
    ),
    "mnist": (
        "MNISTIter",
        {"image": "images", "label": "labels", "batch_size": 3, "shuffle": False},
    ),
    "mnist_flat": (
        "MNISTIter",
        {"image": "images", "label": "labels", "batch_size": 2, "shuffle": False, "flat": True},
    ),
}
ROUNDS = 3


def _write_files(folder: Path) -> None:
    texts = {"data.csv": CSV, "label.csv": LABELS, "data.t": SVM, "label.t": SVM_LABELS}
    for name, text in texts.items():
        (folder / name).write_text(text)
    pixels = np.random.RandomState(0).randint(0, 256, (7, 28, 28)).astype("uint8")
    (folder / "images").write_bytes(struct.pack(">4I", 2051, 7, 28, 28) + pixels.tobytes())
    (folder / "labels").write_bytes(struct.pack(">2I", 2049, 7) + bytes(range(7)))


def batches(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return data, labels and padding of every batch of some epochs."""
    name, options = CASES[case_id]
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        _write_files(Path(folder))
        paths = {
            key: str(Path(folder) / value)
            if key in ("data_csv", "label_csv", "data_libsvm", "label_libsvm", "image", "label")
            else value
            for key, value in options.items()
        }
        iterator = getattr(mx.io, name)(**paths)
        for number in range(ROUNDS):
            for place, batch in enumerate(iterator):
                key = f"round{number}_batch{place}"
                results[f"{key}_data"] = batch.data[0].asnumpy()
                results[f"{key}_label"] = batch.label[0].asnumpy()
                results[f"{key}_pad"] = np.array(batch.pad)
            iterator.reset()
    return results


def recordio(mx: Any) -> dict[str, np.ndarray]:
    """Return the bytes of a file of records and of its index."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("x.idx", "x.rec")]
        writer = mx.recordio.MXIndexedRecordIO(*paths, "w")
        for key, one in enumerate(RECORDS):
            writer.write_idx(key, one)
        writer.close()
        found = [np.frombuffer(Path(path).read_bytes(), np.uint8) for path in paths]
    return {"index": found[0], "records": found[1]}


def packed(mx: Any) -> dict[str, np.ndarray]:
    """Return records with one label and with several."""
    headers = {"one": (0, 2.5, 7, 1), "several": (0, [1.0, 2.0, 3.0], 9, 0)}
    return {
        name: np.frombuffer(mx.recordio.pack(mx.recordio.IRHeader(*header), b"data"), np.uint8)
        for name, header in headers.items()
    }


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return everything computed here."""
    results = {f"recordio/{key}": array for key, array in recordio(mx).items()}
    results.update({f"packed/{key}": array for key, array in packed(mx).items()})
    for case_id in CASES:
        for key, array in batches(mx, case_id).items():
            results[f"{case_id}/{key}"] = array
    return results
