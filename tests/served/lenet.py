"""LeNet and MNIST digits, as whole-server tests train them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from app.cli.demo.tour import LENET, MNIST, SCALE, images
from app.client import Client

__all__ = ["LONG_NAME", "create", "digits", "few_digits", "fit"]

LONG_NAME = "lenet-small-" + "as-long-as-people-name-their-modules-when-they-are-in-a-hurry"
"""A module name so long that pages must cope with it."""


def create(client: Client, name: str) -> None:
    """Create LeNet; a fit binds and initializes it."""
    client.create_module(name, LENET.read_text())


def fit(client: Client, name: str, **changes: Any) -> int:
    """Submit a fit of two epochs over the 4,000 training digits; return the job's id."""
    params: dict[str, Any] = {
        **images("train"),
        "epochs": 2,
        "batch_size": 64,
        "seed": 5,
        "initializer": {"initializer": "xavier"},
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.05, "momentum": 0.9}},
        "metrics": ["accuracy", "ce"],
    }
    return int(client.fit(name, **{**params, **changes})["id"])


def few_digits(folder: Path, count: int) -> Path:
    """Write the first training digits to a file, for tests that need only a short training."""
    file = folder / "few.npz"
    with np.load(MNIST) as archive:
        np.savez(file, **{name: archive[name][:count] for name in ("train_images", "train_labels")})
    return file


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return test digits in LeNet's layout, and their labels."""
    with np.load(MNIST) as archive:
        images = archive["test_images"][:count].reshape(count, 1, 28, 28)
        return images.astype(np.float32) * np.float32(SCALE), archive["test_labels"][:count]
