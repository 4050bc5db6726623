"""A server with models, queried over the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.perceptron import CLASSES, FEATURES, perceptron
from served.processes import ENVIRONMENT

MOST_BYTES = 8 << 20


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with models ``net``, ``two`` (two inputs) and ``bare`` (not bound)."""
    folder = tmp_path_factory.mktemp("oip")
    settings = ENVIRONMENT | {"MODSERVE_MAX_BODY_BYTES": str(MOST_BYTES)}
    with running_server(folder, environment=settings) as server:
        with Client(server.url) as client:
            add(client, "net")
            client.create_module("two", sum_and_product().tojson(), data_names=["a", "b"])
            shapes = [{"name": name, "shape": [4, 3]} for name in ("a", "b")]
            client.bind("two", shapes, for_training=False)
            client.init_params("two", seed=1)
            client.create_module("bare", perceptron().tojson())
        yield server


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def x() -> np.ndarray:
    """Two examples."""
    return np.random.default_rng(4).random((2, FEATURES)).astype("f")


@pytest.fixture(scope="session")
def expected(server: ServerProcess, x: np.ndarray) -> np.ndarray:
    """Their outputs."""
    with Client(server.url) as client:
        (found,) = client.predict("net", data=x).values()
    assert found.shape == (2, CLASSES)
    return found


def add(client: Client, name: str) -> None:
    """Add a perceptron that can predict, also after a restart."""
    client.create_module(name, perceptron().tojson())
    client.bind(name, [{"name": "data", "shape": [4, FEATURES]}], for_training=False)
    client.init_params(name, seed=3)


def sum_and_product() -> mx.sym.Symbol:
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    total, product = a + b, a * b
    names = {"sum": total, "product": product}
    return mx.sym.Group([mx.sym.identity(one, name=name) for name, one in names.items()])
