"""Predictions through a server of its own, as seen by one client."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson

from app.cli.bench.cases import Case
from app.cli.demo.tour import LENET
from app.client import Client
from app.client.local_server import running_server
from app.tensors.codec import NPY
from app.tensors.npy import write_npy

__all__ = ["predict_json", "predict_npy"]


@contextmanager
def predict_json() -> Iterator[Case]:
    """One LeNet digit as JSON."""
    digit = np.random.RandomState(0).rand(1, 1, 28, 28).astype(np.float32)
    body = orjson.dumps({"inputs": {"data": digit.tolist()}})
    with _served_lenet() as client:
        yield Case(lambda: _post(client, body, "application/json"), 1)


@contextmanager
def predict_npy() -> Iterator[Case]:
    """One LeNet digit as npy."""
    body = write_npy(np.random.RandomState(0).rand(1, 1, 28, 28).astype(np.float32))
    with _served_lenet() as client:
        yield Case(lambda: _post(client, body, NPY), 1)


def _post(client: Client, body: bytes, content_type: str) -> None:
    headers = {"Content-Type": content_type, "Accept": content_type}
    client.request("POST", "/v1/modules/lenet/predict", content=body, headers=headers)


@contextmanager
def _served_lenet() -> Iterator[Client]:
    with (
        tempfile.TemporaryDirectory(prefix="modserve-bench-") as folder,
        running_server(Path(folder)) as server,
        Client(server.url) as client,
    ):
        client.create_module("lenet", LENET.read_text())
        client.bind("lenet", [{"name": "data", "shape": [1, 1, 28, 28]}], for_training=False)
        client.init_params("lenet", "xavier")
        yield client
