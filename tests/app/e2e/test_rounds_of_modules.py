"""Creating and deleting modules leaks no memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import running_server
from served.processes import ENVIRONMENT, executor_pid

HIDDEN = 2500
"""Two weights of this many rows and columns: 50 MB."""
MOST_GROWTH = 20 * 2**20
WARM_UP = 5


def network() -> str:
    """Return a network of 50 MB."""
    net = mx.sym.Variable("data")
    for layer in ("fc1", "fc2"):
        net = mx.sym.FullyConnected(net, num_hidden=HIDDEN, name=layer)
    net = mx.sym.FullyConnected(net, num_hidden=2, name="fc3")
    text: str = mx.sym.SoftmaxOutput(net, name="softmax").tojson()
    return text


def resident(pid: int) -> int:
    """Return the private memory of a process in bytes, without files and shared memory."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("RssAnon:"))


@pytest.mark.parametrize(
    "rounds", [pytest.param(10, id="short"), pytest.param(200, id="long", marks=pytest.mark.soak)]
)
@pytest.mark.timeout(1800)
def test_rounds_of_modules_leak_no_memory(tmp_path: Path, rounds: int) -> None:
    symbol = network()
    shapes = {
        "data_shapes": [{"name": "data", "shape": [4, HIDDEN]}],
        "label_shapes": [{"name": "softmax_label", "shape": [4]}],
    }
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        pids = [executor_pid(client), server.process.pid]
        before = [0, 0]
        for number in range(WARM_UP + rounds):
            client.create_module("large", symbol)
            client.bind("large", **shapes)
            client.init_params("large", "xavier")
            client.predict("large", data=np.ones((4, HIDDEN), np.float32))
            assert resident(pids[0]) > 50 * 10**6
            client.delete_module("large")
            if number == WARM_UP - 1:
                before = [resident(pid) for pid in pids]
        growth = [resident(pid) - old for pid, old in zip(pids, before, strict=True)]
        assert max(growth) < MOST_GROWTH, growth
        assert executor_pid(client) == pids[0]
