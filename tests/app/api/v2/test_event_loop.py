"""No inference blocks the event loop, and none is answered with 500."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess
from served.hostile_inferences import hostile_inferences
from served.oip_forms import binary
from served.perceptron import FEATURES, perceptron
from served.processes import ENVIRONMENT
from served.sockets import Answer, head
from served.ticking import LONGEST_SECONDS, Gaps, shortest_gap, ticking_server

LARGE = 15_000_000
"""Numbers in one example."""

pytestmark = [pytest.mark.slow, pytest.mark.serial]


@pytest.fixture(scope="module")
def ticking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Gaps]]:
    folder = tmp_path_factory.mktemp("ticking")
    with ticking_server(folder, ENVIRONMENT) as (server, gaps), Client(server.url) as client:
        client.create_module("net", perceptron().tojson())
        client.bind("net", [{"name": "data", "shape": [8, FEATURES]}], for_training=False)
        client.init_params("net", seed=1)
        data = mx.sym.Variable("data")
        for name, symbol in (("total", mx.sym.sum(data, axis=1)), ("same", mx.sym.identity(data))):
            client.create_module(name, symbol.tojson())
            client.bind(name, [{"name": "data", "shape": [1, LARGE]}], for_training=False)
            client.init_params(name)
        yield server, gaps


def check(answer: Answer) -> None:
    assert answer.status in (200, 400, 413, 501, 503), answer.status
    if answer.status != 200:
        assert json.loads(answer.body)["error"]


def test_malicious_inferences_do_not_block_the_loop(ticking: tuple[ServerProcess, Gaps]) -> None:
    requests = hostile_inferences(FEATURES)
    found = {name: shortest_gap(*ticking, request, check) for name, request in requests}
    assert len(found) > 50
    assert {name: gap for name, gap in found.items() if gap >= LONGEST_SECONDS} == {}


@pytest.mark.parametrize("model", ["total", "same"])
@pytest.mark.parametrize("form", ["binary", "npy"])
def test_large_tensors_do_not_block_the_loop(
    ticking: tuple[ServerProcess, Gaps], model: str, form: str
) -> None:
    """60 MB for a single example, in the request and in the answer."""
    x = np.ones((1, LARGE), "f")
    if form == "binary":
        fields = binary({"data": x}, parameters={"binary_data_output": True})
        line, body = f"POST /v2/models/{model}/infer", fields.body
        own = [f"Inference-Header-Content-Length: {fields.length}"]
    else:
        line, body = f"POST /v1/modules/{model}/predict", npy(x)
        own = ["Content-Type: application/x-npy", "Accept: application/x-npy"]
    request = head(line, f"Content-Length: {len(body)}", *own) + body

    def check_size(answer: Answer) -> None:
        assert answer.status == 200, answer.body[:1000]
        assert len(answer.body) >= 4 * (LARGE if model == "same" else 1)

    assert shortest_gap(*ticking, request, check_size) < LONGEST_SECONDS


def npy(x: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, x)
    return stream.getvalue()
