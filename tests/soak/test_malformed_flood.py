"""A flood of malformed requests: no 5xx, no leak, and the event loop is never blocked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.client import Client
from served.flood import FLOOD_LIMITS, Flood
from served.network import BIND, FEATURES, NETWORK
from served.processes import ENVIRONMENT
from served.ticking import ticking_server

LONGEST_GAP_SECONDS = 0.05
MOST_GROWTH_BYTES = 20 << 20


@pytest.fixture
def flood(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flood]:
    folder = tmp_path_factory.mktemp("flood")
    environment = ENVIRONMENT | FLOOD_LIMITS
    with ticking_server(folder, environment) as (server, gaps), Client(server.url) as client:
        client.create_module("net", NETWORK)
        client.bind("net", **BIND)
        client.init_params("net", "xavier")
        yield Flood(server, gaps)
        assert client.predict("net", data=[[0.5] * FEATURES])["softmax_output"].shape == (1, 3)
        assert "Traceback" not in server.log.read_text()


def assert_well(flood: Flood, count: int) -> None:
    assert flood.wrong == []
    assert sum(flood.statuses.values()) == count
    assert flood.statuses[0] < count / 100  # connections closed without an answer
    assert {400, 403, 404, 405, 408, 413, 415, 422, 431} <= flood.statuses.keys()
    assert flood.longest_gap().computing < LONGEST_GAP_SECONDS


@pytest.mark.slow
@pytest.mark.serial
def test_some_malformed_requests(flood: Flood) -> None:
    flood.send(1000, seed=1)
    assert_well(flood, 1000)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_thousand_malformed_requests(flood: Flood) -> None:
    flood.send(2000, seed=2)
    before = flood.resident_bytes()
    flood.gaps.reset()
    flood.send(10_000, seed=3)
    growth = flood.resident_bytes() - before
    print(f"\nstatuses {sorted(flood.statuses.items())}")
    print(f"growth {growth / 2**20:.1f} MiB, longest gap {flood.longest_gap()}")
    assert_well(flood, 12_000)
    assert growth < MOST_GROWTH_BYTES
