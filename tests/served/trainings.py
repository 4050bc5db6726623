"""A fit for tests that kill processes, and the result it must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from app.client import Client
from served.perceptron import BATCH, FEATURES, perceptron
from served.processes import wait_until

__all__ = ["EPOCHS", "ending", "examples", "final_directory", "make_dataset", "submit"]

EPOCHS = 40
_EXAMPLES = 400


def examples() -> dict[str, np.ndarray]:
    """Return examples of three classes."""
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 3, _EXAMPLES)
    data = rng.normal(size=(_EXAMPLES, FEATURES)).astype(np.float32)
    data[np.arange(_EXAMPLES), labels] += 2.0
    return {"data": data, "softmax_label": labels.astype(np.uint8)}


def make_dataset(client: Client, folder: Path) -> None:
    """Upload the examples as dataset ``toy``."""
    np.savez(folder / "toy.npz", **examples())
    client.put_dataset("toy", folder / "toy.npz")


def submit(client: Client, name: str, epochs: int = EPOCHS) -> int:
    """Submit a fit of a new module with dropout and batch normalization; return the job's id."""
    client.create_module(name, perceptron(dropout=0.3, batch_norm=True).tojson())
    job = client.fit(
        name,
        dataset="toy",
        epochs=epochs,
        batch_size=BATCH,
        seed=5,
        initializer={"initializer": "xavier", "seed": 4},
        optimizer={"name": "adam", "options": {"learning_rate": 0.01}},
        checkpoint={"epochs": 1, "batches": 10, "keep": 3},
    )
    return int(job["id"])


def final_directory(data_dir: Path, name: str, epochs: int = EPOCHS) -> Path:
    """Return where the last epoch's checkpoint appears."""
    return data_dir / "modules" / name / "checkpoints" / str(epochs)


def ending(client: Client, name: str, epochs: int = EPOCHS) -> dict[str, Any]:
    """Return the result of a fit: digests of its files, and its module's predictions."""
    newest = client.checkpoints(name)[0]
    assert newest["tag"] == str(epochs), f"{name} ends at {newest['tag']}"
    module = client.module(name)
    assert (module["params"], module["checkpoint"]) == ("checkpoint", str(epochs)), module
    files = {
        file.removeprefix(f"{name}-"): digest["sha256"]
        for file, digest in newest["files"].items()
        if file.endswith((".params", ".states"))
    }
    wait_until(client.is_ready, "an executor in place of a killed one")
    outputs = client.predict(name, data=examples()["data"][:BATCH])["softmax_output"]
    return {"files": files, "outputs": outputs.tobytes()}
