"""More modules than fit in memory, and calls that do not fit, on a real server."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import running_server
from served.network import BATCH, BIND, CLASSES, FEATURES, NETWORK
from served.processes import ENVIRONMENT, executor_pid

EXAMPLES = np.random.RandomState(0).rand(BATCH, FEATURES).astype("f")
MODULES, BUDGET = 12, 400_000
SMALL = {**ENVIRONMENT, "MODSERVE_MEMORY_BUDGET": str(BUDGET)}


def make(client: Client, name: str, seed: int) -> None:
    client.create_module(name, NETWORK)
    client.bind(name, **BIND)
    client.init_params(name, "xavier", seed=seed)


def executor(client: Client) -> Mapping[str, Any]:
    (found,) = client.request("GET", "/v1/executors").json()["items"]
    return dict(found)


def test_many_modules_take_turns_within_a_small_budget(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(MODULES)]
    with (
        running_server(tmp_path / "server", environment=SMALL) as server,
        Client(server.url) as client,
    ):
        make(client, "pinned", 99)
        ones = {"fc_weight": np.ones((CLASSES, FEATURES)), "fc_bias": np.arange(CLASSES)}
        client.set_params("pinned", {name: array.astype("f") for name, array in ones.items()})
        pinned = client.predict("pinned", data=EXAMPLES)["softmax_output"]
        for number, name in enumerate(names):
            make(client, name, number)
        first = [client.predict(name, data=EXAMPLES)["softmax_output"] for name in names]
        assert len({one.tobytes() for one in first}) == MODULES
        for _ in range(2):
            for name, expected in zip(names, first, strict=True):
                again = client.predict(name, data=EXAMPLES)["softmax_output"]
                np.testing.assert_array_equal(again, expected)
        listed = {one["name"]: one["resident"] for one in client.modules()}
        assert set(listed) == {"pinned", *names}
        assert listed["pinned"], "parameters that are only in memory are never evicted"
        assert 0 < sum(listed.values()) < MODULES
        found = executor(client)
        assert found["memory_budget"]["bytes"] == BUDGET
        assert 0 < found["memory_budget"]["used"] <= BUDGET
        there = {one["name"]: sum(one["memory"].values()) for one in found["modules"]}
        assert there.keys() == {name for name, resident in listed.items() if resident}
        assert sum(there.values()) == found["memory_budget"]["used"]
        again = client.predict("pinned", data=EXAMPLES)["softmax_output"]
        np.testing.assert_array_equal(again, pinned)


def test_steps_of_a_module_evicted_in_between_are_refused(tmp_path: Path) -> None:
    with (
        running_server(tmp_path / "server", environment=SMALL) as server,
        Client(server.url) as client,
    ):
        make(client, "stepped", 1)
        client.init_optimizer("stepped", "sgd", learning_rate=0.1)
        generation = client.module("stepped")["generation"]
        batch = {"data": EXAMPLES, "softmax_label": np.zeros(BATCH, "f")}
        client.forward_backward("stepped", batch, generation=generation)
        for number in range(MODULES):
            make(client, f"m{number}", number)
            client.predict(f"m{number}", data=EXAMPLES)
        assert not client.module("stepped")["resident"]
        with pytest.raises(ClientError) as refused:
            client.update("stepped", generation=generation)
        assert refused.value.status == 412
        stepped = client.module("stepped")
        assert stepped["generation"] > generation
        assert (stepped["state"], stepped["durable"]) == ("ready", True)


def test_running_out_of_memory_fails_only_that_call(tmp_path: Path) -> None:
    with (
        running_server(tmp_path / "server", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        make(client, "small", 1)
        before = client.predict("small", data=EXAMPLES)["softmax_output"]
        client.create_module("large", NETWORK)
        pid = executor_pid(client)
        leave(pid, 256 << 20)
        features = (1 << 30) // (4 * CLASSES)  # one gigabyte of weights
        with pytest.raises(ClientError) as refused:
            client.bind(
                "large",
                [{"name": "data", "shape": [1, features]}],
                [{"name": "softmax_label", "shape": [1]}],
            )
        assert refused.value.status == 507
        assert refused.value.problem["code"] == "out_of_memory"
        assert "fewer examples" in refused.value.problem["detail"]
        after = client.predict("small", data=EXAMPLES)["softmax_output"]
        np.testing.assert_array_equal(after, before)
        assert executor_pid(client) == pid


def leave(pid: int, more_bytes: int) -> None:
    """Allow a process this many bytes more than it uses."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more_bytes
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
