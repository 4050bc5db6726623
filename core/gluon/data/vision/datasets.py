"""Datasets of images under the path that scripts import them by."""

from __future__ import annotations

from .image_files import ImageFolderDataset, ImageListDataset, ImageRecordDataset
from .published import CIFAR10, CIFAR100, MNIST, FashionMNIST

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "MNIST",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
]
