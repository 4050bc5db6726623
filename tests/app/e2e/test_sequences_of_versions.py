"""A sequence stays on the version of its first part, whatever happens to versions meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.processes import ENVIRONMENT, end_executor
from served.recurrent import FEATURES, UNROLLED, links, unrolled

triton = pytest.importorskip("tritonclient.http")

STEPS, PARTS = 4, 5
SYMBOL = unrolled(STEPS)
OUTPUT = SYMBOL.list_outputs()[0]
DATA = np.random.default_rng(1).normal(size=(PARTS, 1, STEPS, FEATURES)).astype("f")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server"), environment=ENVIRONMENT) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of a server whose module ``cells`` has versions 1 and 2; 1 is promoted."""
    with Client(server.url) as client:
        client.create_module("cells", SYMBOL.tojson(), label_names=[], state_names=list(UNROLLED))
        shape = {"name": "data", "shape": [8, STEPS, FEATURES], "layout": "NTC"}
        client.bind("cells", [shape], for_training=False)
        client.set_serving("cells", states=links(SYMBOL, UNROLLED))
        for epoch in (1, 2):
            client.init_params("cells", "uniform", seed=epoch, options={"scale": 0.7})
            client.save_checkpoint("cells", epoch)
        client.promote("cells", 1)
        yield client
        client.delete_module("cells")


class ByRest:
    """Sends parts over /v1 and notes which version answered."""

    def __init__(self, server: ServerProcess) -> None:
        self._http = httpx.Client(base_url=server.url, timeout=60)
        self.close = self._http.close

    def feed(
        self, name: int, position: int, version: str = "", **flags: bool
    ) -> tuple[str, np.ndarray]:
        members = {f"sequence_{flag}": value for flag, value in flags.items()}
        body = {"inputs": {"data": DATA[position].tolist()}, "sequence_id": name, **members}
        path = f"/versions/{version}" if version else ""
        answer = self._http.post(f"/v1/modules/cells{path}/predict", json=body)
        if answer.status_code != 200:
            raise Refused(answer.status_code, answer.text)
        outputs = answer.json()["outputs"]
        return answer.headers["x-model-version"], np.array(outputs[OUTPUT]["data"], "f").ravel()


class ByTriton:
    """Sends parts with Triton's own client."""

    def __init__(self, server: ServerProcess) -> None:
        self._client = triton.InferenceServerClient(server.url.removeprefix("http://"))
        self.close = self._client.close

    def feed(
        self, name: int, position: int, version: str = "", **flags: bool
    ) -> tuple[str, np.ndarray]:
        data = DATA[position]
        tensor = triton.InferInput("data", list(data.shape), "FP32").set_data_from_numpy(data)
        members = {f"sequence_{flag}": value for flag, value in flags.items()}
        try:
            answer = self._client.infer(
                "cells", [tensor], model_version=version, sequence_id=name, **members
            )
        except triton.InferenceServerException as error:
            raise Refused(int((error.status() or "0").strip("[]")), error.message()) from error
        return answer.get_response()["model_version"], answer.as_numpy(OUTPUT).ravel()


class Refused(Exception):
    """Status and text of a refusal."""


WAYS = {"rest": ByRest, "triton": ByTriton}


@pytest.fixture(params=WAYS)
def way(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Any]:
    way = WAYS[request.param](server)
    yield way
    way.close()


@pytest.fixture
def whole(client: Client, server: ServerProcess) -> Mapping[str, list[np.ndarray]]:
    """What each version answers to the parts of its own sequence."""
    way, found = ByRest(server), {}
    for number, version in enumerate(("1", "2")):
        parts = [
            way.feed(900 + number, n, version, start=n == 0, end=n == PARTS - 1)[1]
            for n in range(PARTS)
        ]
        found[version] = parts
    way.close()
    assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(*found.values(), strict=True))
    return found


def test_promotions_do_not_move_a_sequence(client: Client, way: Any, whole: Any) -> None:
    moves = [
        lambda: client.promote("cells", 2),
        lambda: client.roll_back("cells"),
        lambda: client.set_canary("cells", 2, weight=1.0),
        lambda: client.promote("cells", "live"),
    ]
    for position in range(PARTS):
        how = {"start": position == 0, "end": position == PARTS - 1}
        version, found = way.feed(5, position, **how)
        assert version == "1"
        np.testing.assert_array_equal(found, whole["1"][position])
        if position < len(moves):
            moves[position]()
    assert way.feed(5, 0, start=True)[0] == "2", "the canary gets all new sequences"
    client.remove_canary("cells")
    version, found = way.feed(5, 1, end=True)
    assert version == "2"
    np.testing.assert_array_equal(found, whole["2"][1])


@pytest.mark.parametrize("refusal", ["begun twice", "wrong last part", "another version"])
def test_a_refused_part_does_not_move_it(
    client: Client, way: Any, whole: Any, refusal: str
) -> None:
    way.feed(6, 0, start=True)
    client.promote("cells", 2)
    if refusal == "begun twice":
        with pytest.raises(Refused, match="begun already"):
            way.feed(6, 0, start=True)
    elif refusal == "another version":
        with pytest.raises(Refused, match="no states"):
            way.feed(6, 1, "2")
    else:
        wrong = {"inputs": {"data": [[0.5]]}, "sequence_id": 6, "sequence_end": True}
        with pytest.raises(ClientError):
            client.request("POST", "/v1/modules/cells/predict", json=wrong)
    for position in range(1, PARTS):
        version, found = way.feed(6, position, end=position == PARTS - 1)
        assert version == "1"
        np.testing.assert_array_equal(found, whole["1"][position])


def test_canaries_get_their_own_sequences(client: Client, way: Any, whole: Any) -> None:
    client.set_canary("cells", 2, weight=0.5)
    begun = {name: way.feed(name, 0, start=True)[0] for name in range(10, 40)}
    assert set(begun.values()) == {"1", "2"}
    for position in range(1, PARTS):
        for name, version in begun.items():
            answered, found = way.feed(name, position, end=position == PARTS - 1)
            assert answered == version
            np.testing.assert_array_equal(found, whole[version][position])


def test_a_lost_sequence_is_an_error_until_it_restarts(client: Client, way: Any) -> None:
    way.feed(7, 0, start=True)
    client.promote("cells", 2)
    end_executor(client)
    for _ in range(2):
        with pytest.raises(Refused, match="no states"):
            way.feed(7, 1)
    assert way.feed(7, 0, start=True)[0] == "2"
    assert way.feed(7, 1, end=True)[0] == "2"


def test_an_expired_sequence_is_an_error(client: Client, way: Any) -> None:
    client.set_serving("cells", max_sequence_idle_seconds=0.05)
    way.feed(8, 0, start=True)
    client.promote("cells", 2)
    time.sleep(0.1)  # twice as long as it may be idle
    for _ in range(2):
        with pytest.raises(Refused, match="idle for too long"):
            way.feed(8, 1)


def test_a_sequence_of_a_deleted_version_is_an_error(client: Client, way: Any) -> None:
    way.feed(4, 0, "2", start=True)
    client.save_checkpoint("cells", 3)
    client.delete_checkpoint("cells", 2)
    for _ in range(2):
        with pytest.raises(Refused, match=r"version .*2.* does not exist"):
            way.feed(4, 1)
    with pytest.raises(Refused, match="take another id"):
        way.feed(4, 0, start=True)
    assert way.feed(14, 0, start=True)[0] == "1"
    assert way.feed(14, 1, end=True)[0] == "1"


def test_the_inference_protocol_refuses_parts_with_400(client: Client, server: Any) -> None:
    """Not with 409, after which a client may try again."""
    way = ByTriton(server)
    for flags, text in (({}, "no states"), ({"start": True}, "begun already")):
        with pytest.raises(Refused, match=text) as refusal:
            way.feed(3, 0, **flags)
        assert refusal.value.args[0] == 400
        if not flags:
            way.feed(3, 0, start=True)
    way.close()
