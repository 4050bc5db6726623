"""Data for examples and tests, from local files or from a given address."""

from __future__ import annotations

import bz2
import logging
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MXNetError
from ..gluon.fetching import fetch
from ..io import MNISTIter
from ..io.mnist_iter import read_idx

__all__ = [
    "download",
    "get_bz2_data",
    "get_cifar10",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_ubyte",
    "get_zip_data",
]

_PARTS = {"train": "train", "test": "t10k"}
_CIFAR_FOLDER = "data/cifar"
_CIFAR = ("train.rec", "train.lst", "test.rec", "test.lst")
_FOLDERS = ("data", ".")


def download(
    url: str,
    fname: str | None = None,
    dirname: str | None = None,
    overwrite: bool = False,
    retries: int = 5,
) -> str:
    """Return the path of a file, downloaded unless it exists.

    Args:
        url: the address.
        fname: name of the file; None is the last part of the address.
        dirname: its folder, created if necessary.
        overwrite: download it even if it exists.
        retries: number of further attempts after a failure.

    Raises:
        UsageError: ``retries`` is below 0. OSError: every attempt failed.
    """
    path = Path(dirname or "", fname or url.split("/")[-1])
    if path.exists() and not overwrite:
        logging.info("%s exists, skipping download", path)
    else:
        fetch(url, path, retries)
    return str(path)


def get_cifar10() -> None:
    """Check that CIFAR-10's record files are in ``data/cifar``, where scripts read them.

    Raises:
        MXNetError: a file does not exist; unlike MXNet's, this function downloads nothing.
    """
    missing = [name for name in _CIFAR if not Path(_CIFAR_FOLDER, name).exists()]
    if missing:
        raise MXNetError(
            f"{_CIFAR_FOLDER} lacks {', '.join(missing)}; put CIFAR-10 as record files there "
            "(MXNet's tools/im2rec.py makes them from images)"
        )


def get_mnist() -> dict[str, Any]:
    """Return the MNIST digits: train_data, train_label, test_data, test_label.

    Images are (count, 1, 28, 28) float32 of 0 to 1, labels int8. They are read from the idx files,
    plain or ``.gz``, in the folder ``data`` or the current one.

    Raises:
        MXNetError: a file does not exist; unlike MXNet's, this function downloads nothing.
    """
    digits: dict[str, Any] = {}
    for part, prefix in _PARTS.items():
        images = read_idx(_find(f"{prefix}-images-idx3-ubyte"), 3)
        digits[f"{part}_data"] = images[:, None].astype(np.float32) / 255
        digits[f"{part}_label"] = read_idx(_find(f"{prefix}-labels-idx1-ubyte"), 1).astype(np.int8)
    return digits


def get_mnist_ubyte() -> None:
    """Check that the four idx files exist; see ``get_mnist``."""
    for prefix in _PARTS.values():
        _find(f"{prefix}-images-idx3-ubyte")
        _find(f"{prefix}-labels-idx1-ubyte")


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[MNISTIter, MNISTIter]:
    """Return iterators over the training and the test digits; see ``get_mnist`` for the files.

    Args:
        batch_size: digits in a batch.
        input_shape: shape of a digit: (1, 28, 28), or (784,) to flatten.
        num_parts, part_index: read only this one of that many parts.
    """
    train, test = (
        MNISTIter(
            image=_find(f"{prefix}-images-idx3-ubyte"),
            label=_find(f"{prefix}-labels-idx1-ubyte"),
            input_shape=input_shape,
            batch_size=batch_size,
            shuffle=prefix == "train",
            flat=len(input_shape) != 3,
            num_parts=num_parts,
            part_index=part_index,
        )
        for prefix in _PARTS.values()
    )
    return train, test


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Download a zip file into a folder and unpack it there, unless it exists."""
    archive = Path(data_dir, data_origin_name)
    if not archive.exists():
        download(url, data_origin_name, data_dir)
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Download a bz2 file into a folder and unpack it as ``data_name``, unless that exists."""
    target = Path(data_dir, data_name)
    if target.exists():
        return
    archive = Path(download(url, data_origin_name, data_dir))
    with bz2.open(archive) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out)
    archive.unlink()


def _find(name: str) -> str:
    for folder in _FOLDERS:
        for candidate in (os.path.join(folder, name), os.path.join(folder, f"{name}.gz")):
            if os.path.exists(candidate):
                return candidate
    raise MXNetError(f"{name} does not exist; put it, plain or .gz, into the folder 'data'")
