"""Requests generated from the OpenAPI document, valid and invalid: no 5xx, no surprise."""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from app.client import Client
from app.settings import Settings
from app.tensors.codec import JSON, NPY, NPZ, SAFETENSORS
from served.document import openapi_document
from served.keys import add_key
from served.malformed import malformed_request
from served.network import BIND, NETWORK, examples_npz, fit_body
from served.threaded import served

DOCUMENT = openapi_document()


def operations(document: dict[str, Any]) -> list[Any]:
    schema = schemathesis.openapi.from_dict(document)
    return [result.ok() for result in schema.exclude(path="/v1/events").get_all_operations()]


def without_security(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a server without keys, so that none are generated."""
    paths = {
        path: {
            verb: {name: one for name, one in operation.items() if name != "security"}
            for verb, operation in verbs.items()
        }
        for path, verbs in document["paths"].items()
    }
    return {**document, "paths": paths}


OPERATIONS = operations(DOCUMENT)
UNSECURED = operations(without_security(DOCUMENT))


class World:
    """A server, its administrator's key, and the resources requests can name."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self.headers = {"Authorization": f"Bearer {key}"}
        self.names: dict[str, Any] = {
            "module": "net",
            "model": "net",
            "version": "live",
            "output": "softmax_output",
            "input": "data",
            "label": "stable",
            "dataset": "examples",
            "epoch": "2",
            "file": "net-0002.params",
            "parameter": "fc_weight",
            "code": "not_found",
        }
        self._http = httpx.Client(base_url=url, timeout=60, headers=self.headers)

    def close(self) -> None:
        self._http.close()

    def prepare(self) -> None:
        """Restore what requests have deleted or changed."""
        if not self._is_complete():
            self._clear()
            self._call("PUT", "/v1/datasets/examples", content=examples_npz())
            self._call("POST", "/v1/modules", json={"name": "net", "symbol": NETWORK})
            self._call("POST", "/v1/modules/net/bind", json=BIND)
            self._call("POST", "/v1/modules/net/params/init", json={"initializer": "xavier"})
            job = self._call("POST", "/v1/modules/net/fit", json=fit_body())["id"]
            with Client(self.url, key=self.key) as client:
                assert client.wait(job)["status"] == "succeeded"
            self.names["job"] = job
        if self._http.get("/v2/models/net/ready").status_code != 200:
            self._call("POST", "/v2/repository/models/net/load")

    def _is_complete(self) -> bool:
        module = self._http.get("/v1/modules/net")
        checkpoint = self._http.get("/v1/modules/net/checkpoints/2")
        dataset = self._http.get("/v1/datasets/examples")
        return (
            module.status_code == checkpoint.status_code == dataset.status_code == 200
            and module.json()["stage"] == "ready"
            and self._http.get(f"/v1/jobs/{self.names['job']}").status_code == 200
        )

    def _clear(self) -> None:
        for job in self._http.get("/v1/jobs?module=net").json()["items"]:
            self._http.post(f"/v1/jobs/{job['id']}/cancel")
        self._http.delete("/v1/modules/net")
        self._http.delete("/v1/datasets/examples")

    def _call(self, method: str, path: str, **body: Any) -> Any:
        response = self._http.request(method, path, **body)
        assert response.is_success, response.text
        return response.json() if response.content else None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    data_dir = tmp_path_factory.mktemp("fuzz")
    key = add_key(data_dir, "fuzz", "admin")
    settings = Settings(
        data_dir=data_dir,
        executor_form="in_process",
        log_level="error",
        max_body_bytes=1 << 20,
        max_dataset_bytes=1 << 20,
        max_checkpoint_bytes=1 << 20,
    )
    with served(settings) as url:
        world = World(url, key)
        yield world
        world.close()


SETTINGS = settings(
    max_examples=5,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def ask(world: World, case: Any, data: st.DataObject) -> None:
    """Send a request, three times of four with names that exist."""
    world.prepare()
    if data.draw(st.sampled_from([True, True, True, False])):
        case.path_parameters = {name: world.names[name] for name in case.path_parameters}
    # A schema cannot express all that a valid request needs: matching shapes, existing names.
    case.call_and_validate(
        base_url=world.url,
        timeout=30,
        headers=world.headers,
        excluded_checks=[positive_data_acceptance],
    )


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
@SETTINGS
@given(data=st.data())
def test_valid_requests(world: World, operation: Any, data: st.DataObject) -> None:
    ask(world, data.draw(operation.as_strategy(generation_mode=GenerationMode.POSITIVE)), data)


@pytest.mark.parametrize(
    "operation",
    [one for one in UNSECURED if one.body or list(one.iter_parameters())],
    ids=lambda operation: operation.label,
)
@SETTINGS
@given(data=st.data())
def test_invalid_requests(world: World, operation: Any, data: st.DataObject) -> None:
    ask(world, data.draw(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)), data)


def body_of(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "float32", "\ud800", "NaN"]),
)
NESTED = st.recursive(
    ATOMS,
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(st.sampled_from(["shape", "data", "dtype", "x"]), inside)
    ),
    max_leaves=12,
)
TENSORS = st.fixed_dictionaries(
    {},
    optional={
        "shape": st.lists(st.sampled_from([0, 1, 2, 5, 2**31, 2**62, -1, 1.5, None]), max_size=40),
        "dtype": st.sampled_from(["float32", "int8", "bfloat16", "bool", "O", 5, None]),
        "data": NESTED,
    },
)
BODIES = st.one_of(
    st.dictionaries(
        st.sampled_from(["inputs", "generation", "sequence", "bucket", "x"]),
        st.one_of(NESTED, st.dictionaries(st.sampled_from(["data", "x"]), TENSORS | NESTED)),
    ).map(lambda body: json.dumps(body).encode()),
    st.binary(max_size=300),
    st.integers(0).map(lambda seed: body_of(malformed_request(random.Random(seed)))),
)
CALLS = ("predict", "forward", "backward", "forward_backward", "update", "fit", "bind", "load")
MEDIA = (JSON, NPY, NPZ, SAFETENSORS, "multipart/form-data; boundary=b", "text/plain", None)


@settings(SETTINGS, max_examples=120)
@given(body=BODIES, call=st.sampled_from(CALLS), media=st.sampled_from(MEDIA))
def test_bodies_that_match_no_schema(
    world: World, body: bytes, call: str, media: str | None
) -> None:
    world.prepare()
    headers = world.headers | ({"Content-Type": media} if media else {})
    url = f"{world.url}/v1/modules/net/{call}"
    answer = httpx.post(url, content=body, headers=headers, timeout=60)
    assert answer.status_code < 500, answer.text
    if answer.status_code == 422:
        assert all(row["field"] and row["expected"] for row in answer.json()["errors"])


@settings(SETTINGS, max_examples=60)
@given(
    body=BODIES | st.binary(max_size=2000),
    kind=st.sampled_from(["npz", "npy", "csv", "libsvm", "recordio", "text"]),
)
def test_files_that_are_not_datasets(world: World, body: bytes, kind: str) -> None:
    url = f"{world.url}/v1/datasets/noise?kind={kind}"
    answer = httpx.put(url, content=body, headers=world.headers, timeout=60)
    assert answer.status_code < 500, answer.text
