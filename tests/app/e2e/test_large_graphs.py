"""Graphs of many nodes: they delay no other module, and their size is limited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.chain import chain
from served.network import BATCH, BIND, FEATURES, NETWORK
from served.processes import ENVIRONMENT

NODES = 5_000
EXAMPLES = np.random.RandomState(0).rand(BATCH, FEATURES).astype("f")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    environment = ENVIRONMENT | {"MODSERVE_MAX_GRAPH_NODES": str(NODES)}
    with running_server(tmp_path_factory.mktemp("server"), environment=environment) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def test_other_modules_are_served_while_its_plan_is_made(
    server: ServerProcess, client: Client
) -> None:
    client.create_module("net", NETWORK)
    client.bind("net", **BIND)
    client.init_params("net", "xavier", seed=1)
    client.create_module("deep", chain(NODES))
    client.bind("deep", [{"name": "data", "shape": [BATCH, FEATURES]}], for_training=False)
    client.init_params("deep", "xavier", seed=1)
    client.predict("net", data=EXAMPLES)

    def ask(rows: int) -> np.ndarray:
        with Client(server.url) as own:
            (output,) = own.predict("deep", data=EXAMPLES[:rows]).values()
        return output

    with ThreadPoolExecutor(1) as beside:
        found = {}
        for rows in (BATCH, 1):  # each batch size has its own plan
            asked, count = beside.submit(ask, rows), 0
            while not asked.done():
                client.predict("net", data=EXAMPLES)
                count += 1
            assert count > 10
            found[rows] = asked.result()
    assert found[BATCH].shape == EXAMPLES.shape
    np.testing.assert_array_equal(found[1], found[BATCH][:1])


def test_shapes_that_do_not_fit_a_graph_are_refused_before_planning(client: Client) -> None:
    client.create_module("other", chain(1_500))
    client.bind("other", [{"name": "data", "shape": [BATCH, FEATURES]}], for_training=False)
    client.init_params("other", "xavier", seed=1)
    for _ in range(2):
        with pytest.raises(ClientError) as refused:
            client.predict("other", data=EXAMPLES[:, 1:])
        assert refused.value.code == "invalid"
    (output,) = client.predict("other", data=EXAMPLES).values()
    assert output.shape == EXAMPLES.shape


def test_more_nodes_than_the_limit_are_refused(client: Client) -> None:
    with pytest.raises(ClientError) as refused:
        client.create_module("vast", chain(NODES + 1))
    assert refused.value.status == 422
    (error,) = refused.value.problem["errors"]
    assert error["field"] == "symbol"
    assert error["got"] == "5,001 nodes"
    assert "5,000" in error["expected"]
    assert "MODSERVE_MAX_GRAPH_NODES" in error["hint"]
    nested = {"nodes": [{"op": "_foreach", "name": "f", "subgraphs": [json.loads(chain(NODES))]}]}
    with pytest.raises(ClientError, match="MODSERVE_MAX_GRAPH_NODES"):
        client.create_module("vast", json.dumps(nested))
    with pytest.raises(ClientError, match="not_found"):
        client.module("vast")
