"""Writes a data directory as made by commit cbcf0c1, the last before Alembic and ``files``.

    git worktree add /tmp/old cbcf0c1
    cd /tmp/old && PYTHONPATH=.:tests python .../tests/data/make_data_directory.py OUT.tar.gz

``expected.npz`` in the archive holds what its server predicted with each module.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np

from app.client import Client
from app.client.local_server import running_server
from served.perceptron import BATCH, perceptron, toy_examples
from served.processes import ENVIRONMENT

DATA = [{"name": "data", "shape": [BATCH, 6]}]
LABELS = [{"name": "softmax_label", "shape": [BATCH]}]
FIT = {
    "dataset": "toy",
    "batch_size": BATCH,
    "optimizer": {"name": "sgd", "options": {"learning_rate": 0.01, "momentum": 0.9}},
    "checkpoint": {"keep": 2},
}


def make_module(client: Client, name: str) -> None:
    """Create a module whose parameters come from a seed."""
    client.create_module(name, perceptron(dropout=0.2).tojson())
    client.bind(name, DATA, LABELS)
    client.init_params(name, "xavier", seed=7)


def main(target: Path) -> None:
    """Run the server, stop it with one fit paused, and pack its directory."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "var"
        with running_server(folder, environment=ENVIRONMENT) as server:
            expected = fill(server.url, Path(scratch))
        (folder / "server.log").unlink()
        np.savez(Path(scratch) / "expected.npz", **expected)
        with tarfile.open(target, "w:gz") as archive:
            archive.add(folder, "var")
            archive.add(Path(scratch) / "expected.npz", "expected.npz")


def fill(url: str, scratch: Path) -> dict[str, np.ndarray]:
    """Train one module, initialize one, leave the fit of one paused and run its twin to the end."""
    np.savez(scratch / "toy.npz", **toy_examples())
    with Client(url) as client:
        client.put_dataset("toy", scratch / "toy.npz")
        for name in ("trained", "seeded", "paused", "twin"):
            make_module(client, name)
        client.wait(client.fit("trained", epochs=3, seed=3, **FIT)["id"])
        client.wait(client.fit("twin", epochs=60, seed=3, **FIT)["id"])
        job = client.fit("paused", epochs=60, seed=3, **FIT)["id"]
        while not client.checkpoints("paused"):
            time.sleep(0.01)
        client.pause(job)
        while client.job(job)["status"] != "paused":
            time.sleep(0.01)
        examples = toy_examples()["data"][:5]
        return {
            "examples": examples,
            **{
                name: client.predict(name, data=examples)["softmax_output"]
                for name in ("trained", "seeded", "twin")
            },
        }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
