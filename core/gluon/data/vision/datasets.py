"""Datasets of images under MXNet's import path."""

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
