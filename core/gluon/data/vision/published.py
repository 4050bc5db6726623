"""Published datasets, read from local files: nothing is downloaded."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....errors import FormatError, MXNetError, ShapeError
from ....io.mnist_iter import read_idx
from ....ndarray import array
from ..dataset import Dataset
from ..local_files import default_root, first_existing, require_files

__all__ = ["CIFAR10", "CIFAR100", "MNIST", "FashionMNIST"]

Transform = Callable[..., Any]
Bytes = np.ndarray[Any, Any]

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE


class _Published(Dataset):
    """Base: images (height, width, channels) uint8 and labels int32.

    Args:
        root: folder of the files.
        transform: called with image and label; returns the example.
    """

    def __init__(self, root: str, transform: Transform | None) -> None:
        self._root = os.path.expanduser(root)
        self._transform = transform
        images, labels = self._read()
        self._data = array(images, dtype=images.dtype)
        self._label = labels.astype(np.int32)

    def _read(self) -> tuple[Bytes, Bytes]:
        raise NotImplementedError

    def __getitem__(self, idx: Any) -> Any:
        image, label = self._data[idx], self._label[idx]
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self._label)


class MNIST(_Published):
    """Handwritten digits, (28, 28, 1), from the four idx files, optionally compressed by gzip.

    Args:
        root: folder with ``train-images-idx3-ubyte.gz``, ``train-labels-idx1-ubyte.gz`` or, for
            testing, ``t10k-...``; ``$MXNET_HOME/datasets/mnist`` by default.
        train: whether to read the training set, otherwise the test set.
        transform: called with image and label; returns the example.

    Raises:
        MXNetError: a file does not exist; the message says which. FormatError: it is damaged.
    """

    def __init__(
        self, root: str | None = None, train: bool = True, transform: Transform | None = None
    ) -> None:
        self._train = train
        super().__init__(default_root("mnist") if root is None else root, transform)

    def _read(self) -> tuple[Bytes, Bytes]:
        part = "train" if self._train else "t10k"
        names = [f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"]
        found = [first_existing(self._root, (f"{name}.gz", name)) for name in names]
        require_files(self._root, [f"{name}.gz" for name in names], found)
        images, labels = read_idx(found[0] or "", 3), read_idx(found[1] or "", 1)
        if len(images) != len(labels):
            raise ShapeError(
                f"{found[0]} has {len(images)} images, {found[1]} has {len(labels)} labels"
            )
        return images[..., None], labels


class FashionMNIST(MNIST):
    """Articles of clothing, in files with the same names and format as those of ``MNIST``.

    Args:
        root: their folder, ``$MXNET_HOME/datasets/fashion-mnist`` by default.
        train, transform: as for ``MNIST``.
    """

    def __init__(
        self, root: str | None = None, train: bool = True, transform: Transform | None = None
    ) -> None:
        super().__init__(default_root("fashion-mnist") if root is None else root, train, transform)


class CIFAR10(_Published):
    """Small photographs of ten classes, (32, 32, 3), from the files of the binary version.

    Args:
        root: folder with ``data_batch_1.bin`` to ``data_batch_5.bin`` or ``test_batch.bin``, or
            with the archive ``cifar-10-binary.tar.gz``, which is read without unpacking;
            ``$MXNET_HOME/datasets/cifar10`` by default.
        train, transform: as for ``MNIST``.
    """

    _archive = "cifar-10-binary.tar.gz"
    _folder = "cifar-10-batches-bin"
    _labels = 1

    def __init__(
        self, root: str | None = None, train: bool = True, transform: Transform | None = None
    ) -> None:
        self._train = train
        super().__init__(default_root("cifar10") if root is None else root, transform)

    def _names(self) -> list[str]:
        if self._train:
            return [f"data_batch_{number}.bin" for number in range(1, 6)]
        return ["test_batch.bin"]

    def _which_label(self) -> int:
        return 0

    def _read(self) -> tuple[Bytes, Bytes]:
        parts = [self._rows(name, content) for name, content in self._contents()]
        rows = np.concatenate(parts)
        planes = rows[:, self._labels :].reshape(-1, 3, _SIDE, _SIDE)
        return planes.transpose(0, 2, 3, 1), rows[:, self._which_label()]

    def _contents(self) -> list[tuple[str, bytes]]:
        names = self._names()
        inside = [os.path.join(self._folder, name) for name in names]
        found = [first_existing(self._root, places) for places in zip(names, inside, strict=True)]
        archive = first_existing(self._root, (self._archive,))
        if None in found and archive is not None:
            return _members(archive, names)
        require_files(self._root, names, found, f"or the archive {self._archive} with them")
        return [(path, _content(path)) for path in found if path is not None]

    def _rows(self, name: str, content: bytes) -> Bytes:
        length = self._labels + _PIXELS
        if not content or len(content) % length:
            raise FormatError(
                f"{name} has {len(content)} bytes; expected a multiple of {length}, one image each"
            )
        return np.frombuffer(content, np.uint8).reshape(-1, length)


class CIFAR100(CIFAR10):
    """Small photographs of a hundred classes in twenty groups; see ``CIFAR10``.

    Args:
        root: folder with ``train.bin`` or ``test.bin``, or with ``cifar-100-binary.tar.gz``;
            ``$MXNET_HOME/datasets/cifar100`` by default.
        fine_label: whether the label is the class, otherwise the group.
        train, transform: as for ``MNIST``.
    """

    _archive = "cifar-100-binary.tar.gz"
    _folder = "cifar-100-binary"
    _labels = 2

    def __init__(
        self,
        root: str | None = None,
        fine_label: bool = False,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._fine_label = fine_label
        super().__init__(default_root("cifar100") if root is None else root, train, transform)

    def _names(self) -> list[str]:
        return ["train.bin" if self._train else "test.bin"]

    def _which_label(self) -> int:
        return int(self._fine_label)


def _members(archive: str, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return the files of an archive with these names, in this order, whatever their folder."""
    try:
        with tarfile.open(archive) as opened:
            inside = {os.path.basename(one.name): one for one in opened if one.isfile()}
            missing = [name for name in names if name not in inside]
            if missing:
                raise FormatError(f"{archive} has no {', '.join(missing)}")
            streams = [(name, opened.extractfile(inside[name])) for name in names]
            return [(f"{archive}: {name}", stream.read()) for name, stream in streams if stream]
    except (OSError, EOFError, tarfile.TarError) as error:
        raise MXNetError(f"{archive} cannot be read: {error}") from error


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise MXNetError(f"{path} cannot be read: {error.strerror}") from error
