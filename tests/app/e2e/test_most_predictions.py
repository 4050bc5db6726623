"""A module's predictions in progress are limited, however they were sent."""

from __future__ import annotations

import io
import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.oip_forms import numbers
from served.perceptron import FEATURES, perceptron
from served.processes import ENVIRONMENT, wait_until
from served.sockets import connect, head, read_answer

MOST = 2
EXAMPLES = np.ones((1, FEATURES), "f")
SPACES = b" " * 20_000
"""They make a body too large for the fast path, so that it goes to the router."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = ENVIRONMENT | {"MODSERVE_MAX_PREDICTIONS": str(MOST)}
    with running_server(tmp_path_factory.mktemp("most"), environment=settings) as server:
        with Client(server.url) as client:
            client.create_module("net", perceptron().tojson())
            client.bind("net", [{"name": "data", "shape": [4, FEATURES]}], for_training=False)
            client.init_params("net", seed=3)
            client.predict("net", data=EXAMPLES)
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of a server whose predictions wait a long time for a batch."""
    with Client(server.url) as client:
        client.set_serving("net", max_batch_size=65536, max_delay_us=10_000_000)
        yield client
        client.set_serving("net", max_batch_size=None, max_delay_us=0)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def post(path: str, body: bytes) -> bytes:
    return head(f"POST {path}", f"Content-Length: {len(body)}") + body


PREDICT, INFER = "/v1/modules/net/predict", "/v2/models/net/infer"
REQUESTS = {
    "small": post(PREDICT, npy(EXAMPLES)),
    "ranked": post(f"{PREDICT}?top_k=1", npy(EXAMPLES)),
    "large": post(PREDICT, json.dumps({"data": EXAMPLES.tolist()}).encode() + SPACES),
    "infer": post(INFER, json.dumps(numbers(EXAMPLES)).encode()),
    "large infer": post(INFER, json.dumps(numbers(EXAMPLES)).encode() + SPACES),
}


@pytest.mark.parametrize("way", REQUESTS)
def test_one_more_is_refused_until_another_finishes(
    server: ServerProcess, client: Client, way: str
) -> None:
    with ExitStack() as stack:
        clients: list[socket.socket] = []
        for _ in range(MOST + 1):
            clients.append(stack.enter_context(connect(server.url)))
            clients[-1].sendall(REQUESTS[way])
        (first, *_), _, _ = select.select(clients, [], [], 60)
        refused = read_answer(first)
        assert refused.status == 503, refused.body
        assert refused.headers["retry-after"]
        assert b"MODSERVE_MAX_PREDICTIONS" in refused.body
    client.set_serving("net", max_batch_size=None, max_delay_us=0)

    def is_answered() -> bool:  # requests whose client hung up do not count
        with connect(server.url) as sock:
            sock.sendall(REQUESTS[way])
            return read_answer(sock).status == 200

    wait_until(is_answered, "a prediction once the abandoned ones have ended")
