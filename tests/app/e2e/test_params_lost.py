"""Unsaved parameters: after a crash, a module never answers with other parameters instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.network import (
    BATCH,
    BIND,
    CLASSES,
    FEATURES,
    NETWORK,
    examples_npz,
    fit_body,
)
from served.params_file import write_params
from served.perceptron import data_shape, label_shape, perceptron, toy_examples
from served.processes import ENVIRONMENT, end_executor, kill
from served.small_disk import fill, mounted_disk

EXAMPLES = np.random.RandomState(0).rand(BATCH, FEATURES).astype("f")
BATCH_OF_NET = {"data": EXAMPLES, "softmax_label": np.zeros(BATCH, "f")}
ONES = {"fc_weight": np.ones((CLASSES, FEATURES), "f"), "fc_bias": np.arange(CLASSES).astype("f")}


def make(client: Client, name: str) -> None:
    """Make a module ready, with the parameters of its checkpoint 1."""
    client.create_module(name, NETWORK)
    client.bind(name, **BIND)
    client.init_params(name, "xavier", seed=1)
    client.init_optimizer(name, "sgd", learning_rate=0.5, momentum=0.9)
    client.save_checkpoint(name, 1)
    assert client.module(name)["durable"]


def set_params(client: Client, name: str) -> None:
    client.set_params(name, ONES)


def update(client: Client, name: str) -> None:
    client.forward_backward(name, BATCH_OF_NET)
    client.update(name)


def set_states(client: Client, name: str) -> None:
    client.set_optimizer_states(name, client.optimizer_states(name))


def init_without_seed(client: Client, name: str) -> None:
    client.init_params(name, "xavier")


def load_in_part(client: Client, name: str, folder: Path) -> None:
    file = folder / "part-0002.params"
    file.write_bytes(write_params({"fc_bias": ONES["fc_bias"]}, {}))
    client.add_checkpoint(name, [file], epoch=2)
    client.load(name, 2, allow_missing=True)


def move_averages(client: Client, name: str) -> None:
    batch = {one: array[: data_shape().shape[0]] for one, array in toy_examples().items()}
    client.forward(name, batch, is_train=True)


CHANGES: Mapping[str, Callable[[Client, str], None]] = {
    "put": set_params,
    "updated": update,
    "states": set_states,
    "unseeded": init_without_seed,
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own, whose executor gets killed."""
    with running_server(tmp_path / "server", environment=ENVIRONMENT) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def refusal(call: Callable[[], Any]) -> Mapping[str, Any]:
    """Return the problem with which a call is refused."""
    with pytest.raises(ClientError) as caught:
        call()
    assert caught.value.status == 409, caught.value.problem
    return caught.value.problem


def test_a_module_without_parameters_has_none_to_lose(client: Client) -> None:
    ways = {"unseeded": init_without_seed, "put": lambda client, name: client.set_params(name, {})}
    shapes = [{"name": "data", "shape": [BATCH, FEATURES]}]
    for name, way in ways.items():
        client.create_module(name, mx.sym.relu(mx.sym.Variable("data")).tojson())
        client.bind(name, shapes, for_training=False)
        way(client, name)
        assert client.module(name)["durable"]
    end_executor(client)
    for name in ways:
        (after,) = client.predict(name, data=-EXAMPLES).values()
        np.testing.assert_array_equal(after, np.zeros_like(EXAMPLES))
        assert client.module(name)["state"] == "ready"


def test_unsaved_changes_are_lost_and_reported(client: Client, tmp_path: Path) -> None:
    names = [*CHANGES, "partial", "averages"]
    for name in CHANGES:
        make(client, name)
        CHANGES[name](client, name)
    make(client, "partial")
    load_in_part(client, "partial", tmp_path)
    client.create_module("averages", perceptron(batch_norm=True).tojson())
    shapes = [{"name": one.name, "shape": one.shape} for one in (data_shape(), label_shape())]
    client.bind("averages", shapes[:1], shapes[1:])
    client.init_params("averages", "xavier", seed=1)
    client.save_checkpoint("averages", 1)
    move_averages(client, "averages")
    make(client, "unchanged")
    before = client.predict("unchanged", data=EXAMPLES)["softmax_output"]
    assert {name: client.module(name)["durable"] for name in names} == dict.fromkeys(names, False)

    end_executor(client)
    for name in names:
        data = toy_examples()["data"][:4] if name == "averages" else EXAMPLES
        problem = refusal(lambda name=name, data=data: client.predict(name, data=data))
        assert problem["code"] == "params_lost", (name, problem)
        assert "1" in problem["checkpoints"], (name, problem)
        assert f"/v1/modules/{name}/load" in problem["detail"]
        assert client.module(name)["state"] == "params_lost"
    after = client.predict("unchanged", data=EXAMPLES)["softmax_output"]
    np.testing.assert_array_equal(after, before)

    for call in (
        lambda: client.params("put"),
        lambda: client.param("put", "fc_bias"),
        lambda: client.forward("put", BATCH_OF_NET),
        lambda: client.save_checkpoint("put", 3),
        lambda: client.init_optimizer("put", "sgd"),
        lambda: client.optimizer_states("put"),
    ):
        assert refusal(call)["code"] == "params_lost"


def test_loading_initializing_or_setting_parameters_ends_the_loss(client: Client) -> None:
    for name in ("loaded", "seeded", "set"):
        make(client, name)
    before = client.predict("loaded", data=EXAMPLES)["softmax_output"]
    for name in ("loaded", "seeded", "set"):
        set_params(client, name)
    end_executor(client)
    assert client.load("loaded", 1, optimizer_states=False)["durable"]
    assert client.init_params("seeded", "xavier", seed=1)["durable"]
    assert not client.set_params("set", ONES)["durable"]
    for name in ("loaded", "seeded"):
        assert client.module(name)["state"] == "ready"
        after = client.predict(name, data=EXAMPLES)["softmax_output"]
        np.testing.assert_array_equal(after, before)
        update(client, name)  # including the optimizer
    for name in ("loaded", "seeded", "set"):
        client.save_checkpoint(name, 5)
        assert client.module(name)["durable"]
    saved = {name: client.params(name) for name in ("loaded", "seeded", "set")}
    end_executor(client)
    for name, params in saved.items():
        for one, array in client.params(name).items():
            np.testing.assert_array_equal(array, params[one])


def test_a_cancelled_fit_leaves_unsaved_parameters(client: Client, tmp_path: Path) -> None:
    make(client, "net")
    examples = tmp_path / "examples.npz"
    examples.write_bytes(examples_npz(2000))
    client.put_dataset("examples", examples)
    job = int(client.fit("net", **fit_body(epochs=1000, checkpoint={"epochs": 1000}))["id"])
    next(one for one in client.job_events(job) if one["type"] == "progress")
    client.cancel(job)
    assert client.wait(job)["status"] == "cancelled"
    assert not client.module("net")["durable"]
    client.load("net", 1)
    job = int(client.fit("net", **fit_body(epochs=1))["id"])
    assert client.wait(job)["status"] == "succeeded"
    assert client.module("net")["durable"]


def test_a_server_that_stops_cleanly_saves_them_and_restores_them(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        for name in ("net", "put"):
            make(client, name)
        set_params(client, "put")
        examples = tmp_path / "examples.npz"
        examples.write_bytes(examples_npz(2000))
        client.put_dataset("examples", examples)
        client.promote("net", 1)
        job = int(client.fit("net", **fit_body(epochs=1000, checkpoint={"epochs": 1000}))["id"])
        next(one for one in client.job_events(job) if one["type"] == "progress")
        client.cancel(job)
        assert client.wait(job)["status"] == "cancelled"
        before = {name: client.params(name) for name in ("net", "put")}
        update(client, "put")
        states, before["put"] = client.optimizer_states("put"), client.params("put")
    log = server.log.read_text()
    for name in before:
        assert f"module {name}: saved at the stop as checkpoint 1.1" in log
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        for name, params in before.items():
            module = client.module(name)
            assert (module["state"], module["durable"]) == ("ready", True)
            assert module["checkpoint"] == "1.1"
            for one, array in client.params(name).items():
                np.testing.assert_array_equal(array, params[one])
        assert client.optimizer_states("put") == states
        assert client.versions("net")["promoted"] == "1"
    assert "saved at the stop" not in server.log.read_text()[len(log) :]


def test_a_server_stops_even_if_the_disk_is_too_full_to_save_them(tmp_path: Path) -> None:
    wide = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=600_000, name="fc")
    with mounted_disk(tmp_path, 64) as disk:
        data = disk / "var"
        data.mkdir()
        (data / "server.log").symlink_to(tmp_path / "server.log")
        with running_server(data, environment=ENVIRONMENT) as server, Client(server.url) as client:
            client.create_module("wide", wide.tojson())
            client.bind("wide", [{"name": "data", "shape": [1, 4]}], for_training=False)
            client.init_params("wide", "xavier")
            filler = fill(disk)
            began = server.log.stat().st_size
        with server.log.open() as lines:
            lines.seek(began)
            said = lines.read()
        assert "module wide: its parameters are not saved at the stop: the disk" in said
        assert "Traceback" not in said
        assert "Application shutdown complete" in said
        filler.unlink()
        with running_server(data, environment=ENVIRONMENT) as server, Client(server.url) as client:
            call = partial(client.predict, "wide", data=np.ones((1, 4), "f"))
            assert refusal(call)["code"] == "params_lost"


def test_they_are_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        make(client, "put")
        set_params(client, "put")
        kill(server.process.pid)
        server.process.wait()
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        assert refusal(lambda: client.predict("put", data=EXAMPLES))["code"] == "params_lost"
        assert client.load("put", 1)["state"] == "ready"


def test_refused_changes_leave_a_module_durable(client: Client) -> None:
    make(client, "net")
    with pytest.raises(ClientError):
        client.set_params("net", {"fc_bias": np.zeros(99, "f")})
    assert client.module("net")["durable"]
    client.forward("net", BATCH_OF_NET, is_train=True)  # it has no moving averages
    assert client.module("net")["durable"]


def test_restoring_a_module_that_is_in_memory_loses_nothing(client: Client) -> None:
    make(client, "net")
    set_params(client, "net")
    before = client.module("net")
    client.restore_module("net")
    assert client.module("net") == before
    assert before["state"] == "ready"
    expected = {name: array.tolist() for name, array in ONES.items()}
    assert {name: array.tolist() for name, array in client.params("net").items()} == expected
