"""Images in folders, lists and RecordIO files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ....errors import FormatError, MXNetError, UsageError
from ....image import imdecode, imread
from ....ndarray import NDArray, array
from ....recordio import unpack
from ..dataset import Dataset, RecordFileDataset

__all__ = ["ImageFolderDataset", "ImageListDataset", "ImageRecordDataset"]

Transform = Callable[..., Any]

_EXTENSIONS = (".jpg", ".jpeg", ".png")


class ImageRecordDataset(RecordFileDataset):
    """Images and labels from a RecordIO file with an index.

    Args:
        filename: path of the ``.rec`` file.
        flag: 1 for RGB, 0 for grayscale.
        transform: called with image and label; returns the example.
    """

    def __init__(self, filename: str, flag: int = 1, transform: Transform | None = None) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: Any) -> Any:
        header, encoded = unpack(super().__getitem__(idx))
        image = imdecode(encoded, self._flag)
        if self._transform is None:
            return image, header.label
        return self._transform(image, header.label)


class ImageFolderDataset(Dataset):
    """Images in folders, one for each class: ``root/car/0001.jpg``, ``root/bus/123.png``.

    Entries that are not folders, and files other than JPEG and PNG, are skipped with a warning.

    Args:
        root: the parent of the folders.
        flag: 1 for RGB, 0 for grayscale.
        transform: called with image and label; returns the example.

    Attributes:
        synsets: names of the folders; a label is an index in this list.
        items: (path, label) of all images, in the order of their names.
    """

    def __init__(self, root: str, flag: int = 1, transform: Transform | None = None) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        self._list_images(self._root)

    def _list_images(self, root: str) -> None:
        for folder in _entries(root):
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=3)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in _entries(path):
                extension = os.path.splitext(name)[1]
                if extension.lower() in _EXTENSIONS:
                    self.items.append((os.path.join(path, name), label))
                else:
                    warnings.warn(
                        f"Ignoring {os.path.join(path, name)} of type {extension}. Only support "
                        f"{', '.join(_EXTENSIONS)}",
                        stacklevel=3,
                    )

    def __getitem__(self, idx: Any) -> Any:
        path, label = self.items[idx]
        image = imread(path, self._flag)
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self.items)


class ImageListDataset(Dataset):
    """Images and labels from a list; a class of MXNet's later versions.

    Args:
        root: folder to which paths are relative.
        imglist: path of a ``.lst`` file (lines ``number<TAB>label...<TAB>path``), or a list of
            ``[label, path]``, also with several labels or a list of labels.
        flag: 1 for RGB, 0 for grayscale.

    Raises:
        UsageError: it is not a list. FormatError: a line or entry has another form.
        MXNetError: the list cannot be read.
    """

    def __init__(
        self, root: str = ".", imglist: str | Sequence[Sequence[Any]] | None = None, flag: int = 1
    ) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        if isinstance(imglist, (str, os.PathLike)):
            listed = list(_read_list(os.path.join(self._root, imglist)))
        elif isinstance(imglist, (list, tuple)):
            listed = [_listed(entry, f"entry {place}") for place, entry in enumerate(imglist)]
        else:
            raise UsageError(
                f"imglist is {imglist!r}; expected the path of a .lst file or a list of "
                "[label, path]"
            )
        self.items = [(os.path.join(self._root, path), label) for path, label in listed]

    def __getitem__(self, idx: Any) -> tuple[NDArray, NDArray]:
        path, label = self.items[idx]
        return imread(path, self._flag), label

    def __len__(self) -> int:
        return len(self.items)


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise MXNetError(f"{folder} cannot be read: {error.strerror}") from error


def _read_list(path: str) -> Iterator[tuple[str, NDArray]]:
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield _listed(line.strip().split("\t")[1:], f"{path}, line {number}")
    except OSError as error:
        raise MXNetError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: {error}") from None


def _listed(entry: Sequence[Any], place: str) -> tuple[str, NDArray]:
    """Return the path and the labels of an entry; errors name it by ``place``."""
    labels, path = entry[:-1], entry[-1] if len(entry) > 1 else None
    try:
        values = np.atleast_1d(np.asarray(labels[0] if len(labels) == 1 else labels, np.float32))
    except ValueError:
        values = np.empty(0, np.float32)
    if not isinstance(path, str) or not values.size:
        raise FormatError(f"{place} is {list(entry)!r}; expected one or more numbers and a path")
    return path, array(values)
