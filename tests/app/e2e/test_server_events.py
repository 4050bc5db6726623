"""Events without a request: deaths of an executor, and evicted modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.client import Client
from app.client.local_server import running_server
from served.network import BATCH, BIND, CLASSES, FEATURES, NETWORK
from served.processes import ENVIRONMENT, executor_pid, kill

EXAMPLES = np.random.RandomState(0).rand(BATCH, FEATURES).astype("f")
SMALL = {**ENVIRONMENT, "MODSERVE_MEMORY_BUDGET": "400000"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with (
        running_server(tmp_path / "server", environment=SMALL) as server,
        Client(server.url) as client,
    ):
        yield client


def make(client: Client, name: str, seed: int = 1) -> None:
    client.create_module(name, NETWORK)
    client.bind(name, **BIND)
    client.init_params(name, "xavier", seed=seed)


def until(client: Client, last: str, **filters: Any) -> list[dict[str, Any]]:
    """Follow until an event of the given type, and return everything up to it."""
    found = []
    for event in client.events(**filters):
        found.append(event)
        if event["type"] == last:
            return found
    raise AssertionError("the stream ended")


def test_the_death_of_an_executor_and_its_consequences(client: Client) -> None:
    make(client, "saved")
    make(client, "unsaved")
    zeros = {"fc_weight": np.zeros((CLASSES, FEATURES), "f"), "fc_bias": np.zeros(CLASSES, "f")}
    client.set_params("unsaved", zeros)
    pid = executor_pid(client)
    kill(pid)
    types = ["executor_started", "executor_lost", "executor_restarted", "module_params_lost"]
    found = until(client, "module_params_lost", type=types)
    assert [one["type"] for one in found] == types
    assert {one["executor"] for one in found} == {"cpu(0)"}
    assert str(pid) in found[1]["data"]["reason"]
    assert found[2]["data"] == {"restarts": 1}
    assert found[3]["module"] == "unsaved"
    client.predict("saved", data=EXAMPLES)
    restored = until(client, "module_restored", after=found[3]["id"], module="saved")
    assert restored[-1]["data"] == {"checkpoint": None, "generation": 2, "warning": None}


def test_modules_evicted_for_others(client: Client) -> None:
    names = [f"m{number}" for number in range(12)]
    for number, name in enumerate(names):
        make(client, name, number)
        client.predict(name, data=EXAMPLES)
    (evicted,) = until(client, "module_evicted", type="module_evicted")
    assert evicted["module"] in names
    assert evicted["executor"] == "cpu(0)"
    client.predict(evicted["module"], data=EXAMPLES)
    back = until(client, "module_restored", after=evicted["id"], module=evicted["module"])
    assert back[-1]["type"] == "module_restored"
