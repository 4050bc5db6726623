"""No request blocks the event loop, not even a malicious one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess
from served.chain import chain
from served.hostile import hostile_requests
from served.network import BIND, NETWORK
from served.processes import ENVIRONMENT
from served.sockets import Answer, head
from served.ticking import LONGEST_SECONDS, Gaps, shortest_gap, tick, ticking_server

pytestmark = [pytest.mark.slow, pytest.mark.serial]


@pytest.fixture(scope="module")
def ticking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Gaps]]:
    folder = tmp_path_factory.mktemp("ticking")
    with ticking_server(folder, ENVIRONMENT) as (server, gaps), Client(server.url) as client:
        client.create_module("net", NETWORK)
        client.bind("net", **BIND)
        client.init_params("net", "xavier")
        yield server, gaps


def check(answer: Answer) -> None:
    assert answer.status in (200, *range(400, 500)), answer.status


def test_malicious_requests_do_not_block_the_loop(ticking: tuple[ServerProcess, Gaps]) -> None:
    found = {name: shortest_gap(*ticking, request, check) for name, request in hostile_requests()}
    assert len(found) > 60
    assert {name: gap for name, gap in found.items() if gap >= LONGEST_SECONDS} == {}


def test_large_answers_do_not_block_the_loop(ticking: tuple[ServerProcess, Gaps]) -> None:
    row = "[1, 2, 3, 4, 5]"
    rows = ", ".join([row] * 300_000)
    body = f'{{"inputs": {{"data": [{rows}]}}}}'.encode()
    for kind in ("application/json", "application/x-npz", "application/x-safetensors"):
        request = head(
            "POST /v1/modules/net/predict", f"Content-Length: {len(body)}", f"Accept: {kind}"
        )
        assert shortest_gap(*ticking, request + body, check) < LONGEST_SECONDS, kind


def test_the_graph_of_many_nodes_does_not_block_the_loop(
    ticking: tuple[ServerProcess, Gaps],
) -> None:
    with Client(ticking[0].url) as client:
        client.create_module("deep", chain(5_000))
    assert shortest_gap(*ticking, head("GET /v1/modules/deep/graph"), check) < LONGEST_SECONDS


WIDE = {
    "nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {
            "op": "broadcast_axis",
            "name": "wide",
            "attrs": {"axis": "1", "size": "5000000"},
            "inputs": [[0, 0, 0]],
        },
    ],
    "arg_nodes": [0],
    "heads": [[1, 0, 0]],
    "attrs": {"mxnet_version": ["int", 10901]},
}
SMALL_BODIES = {
    "/v1/modules/wide/predict": b'{"data": [[0.3]]}',
    "/v2/models/wide/infer": b'{"inputs": [{"name": "data", "shape": [1, 1], "datatype": "FP32", '
    b'"data": [0.3]}]}',
}


def test_large_answers_to_small_bodies_do_not_block_the_loop(
    ticking: tuple[ServerProcess, Gaps],
) -> None:
    with Client(ticking[0].url) as client:
        client.create_module("wide", WIDE)
        client.bind("wide", [{"name": "data", "shape": [1, 1]}], for_training=False)
        client.init_params("wide")
        client.predict("wide", data=np.zeros((1, 1), "f"))  # now the fast path knows the module
    for path, body in SMALL_BODIES.items():
        request = head(f"POST {path}", f"Content-Length: {len(body)}") + body
        assert shortest_gap(*ticking, request, check) < LONGEST_SECONDS, path


async def test_the_ticker_detects_blocking(tmp_path: Path) -> None:
    gaps = Gaps(tmp_path / "gaps")
    ticking = asyncio.create_task(tick(tmp_path / "gaps"))
    await asyncio.sleep(0.05)
    began = time.process_time()
    while time.process_time() - began < 2 * LONGEST_SECONDS:
        pass
    await asyncio.sleep(0.05)
    ticking.cancel()
    assert gaps.longest().computing > LONGEST_SECONDS
    assert gaps.longest().ticks > 2
