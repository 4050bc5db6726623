"""A server under a sub-path, behind proxies that strip it and proxies that keep it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from pydantic import ValidationError

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from app.server.root_path import RootPath
from app.settings import Settings
from served.oip_forms import binary, data_of, numbers
from served.perceptron import FEATURES, perceptron
from served.processes import ENVIRONMENT
from served.sockets import exchange, head

PREFIX = "/teams/vision"
X = np.random.default_rng(2).random((2, FEATURES)).astype("f")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server under a sub-path, with a model ``net``."""
    settings = ENVIRONMENT | {"MODSERVE_ROOT_PATH": PREFIX}
    with running_server(tmp_path_factory.mktemp("below"), environment=settings) as server:
        with Client(server.url + PREFIX) as client:
            client.create_module("net", perceptron().tojson())
            client.bind("net", [{"name": "data", "shape": [4, FEATURES]}], for_training=False)
            client.init_params("net", seed=3)
        yield server


@pytest.fixture(params=["", PREFIX], ids=["stripped", "kept"])
def http(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client that sends the paths which the two kinds of proxies pass on."""
    with httpx.Client(base_url=server.url + request.param, timeout=60) as http:
        yield http


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/a/b/v2", b"/v2"),
        (b"/a/b/", b"/"),
        (b"/a/b", b"/"),
        (b"/a/b?x=1", b"/?x=1"),
        (b"/a/b/v2?x=/a/b", b"/v2?x=/a/b"),
        (b"/a/b/a/b/v2", b"/a/b/a/b/v2"),
        (b"/v2", b"/v2"),
        (b"/", b"/"),
        (b"/a/bc/v2", b"/a/bc/v2"),
        (b"/a", b"/a"),
        (b"http://host/a/b/v2", b"/v2"),
        (b"http://host/v2", b"/v2"),
        (b"http://host", b"/"),
    ],
)
def test_the_prefix_is_stripped_where_present(target: bytes, expected: bytes) -> None:
    assert RootPath("/a/b").strip(target) == expected
    assert RootPath("").strip(target) == target


@pytest.mark.parametrize(
    "path", ["models", "/models/", "/", "/a b", "/a?b", "/a//b", "/v2", "/v1/a"]
)
def test_invalid_prefixes_are_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="root_path"):
        Settings(root_path=path)


def test_small_and_large_inferences_and_predictions_are_answered(http: httpx.Client) -> None:
    path = "/v2/models/net/infer"
    for _ in range(2):  # the second time, its head is cached
        small = http.post(path, json=numbers(X))
        assert small.status_code == 200, small.text
    chunked = http.post(path, content=iter([json.dumps(numbers(X)).encode()]))
    np.testing.assert_array_equal(data_of(chunked), data_of(small))
    request = binary({"data": np.resize(X, (2000, FEATURES))})
    large = http.post(path, content=request.body, headers=request.headers)
    np.testing.assert_allclose(data_of(large)[:2], data_of(small), rtol=1e-5)
    for _ in range(2):
        answer = http.post("/v1/modules/net/predict", json={"inputs": {"data": X.tolist()}})
        assert answer.status_code == 200, answer.text


def test_other_routes_are_reachable(http: httpx.Client) -> None:
    for path in ("/livez", "/readyz", "/v2", "/v2/", "/v2/models/net", "/v1/modules", "/metrics"):
        assert http.get(path).status_code == 200, path


def test_errors_have_the_form_of_their_path(http: httpx.Client) -> None:
    assert "nope" in http.get("/v2/models/nope").json()["error"]
    assert http.get("/v1/modules/nope").json()["code"] == "not_found"
    small = http.post("/v2/models/net/infer", json={"inputs": 3})
    assert (small.status_code, [*small.json()]) == (400, ["error"])


def test_errors_of_the_connection_have_the_form_of_their_path(server: ServerProcess) -> None:
    for prefix in ("", PREFIX):
        path = f"POST {prefix}/v2/models/net/infer"
        answer = exchange(server.url, head(path, f"X-Long: {'x' * 70_000}"))
        assert (answer.status, [*json.loads(answer.body)]) == (431, ["error"])


def test_a_path_outside_the_prefix_is_not_found(server: ServerProcess) -> None:
    for path in ("/teams/visionary/v2", "/teams/v2", PREFIX + PREFIX + "/v2"):
        assert httpx.get(server.url + path).status_code == 404, path


def test_answers_contain_external_addresses(http: httpx.Client) -> None:
    answer = http.post("/v1/modules", json={"name": "other", "symbol": perceptron().tojson()})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{PREFIX}/v1/modules/other"
    assert http.delete("/v1/modules/other").is_success
    assert http.get("/openapi.json").json()["servers"] == [{"url": PREFIX}]
    script = re.search(r'src="\./(static/docs-[^"]+)"', http.get("/docs").text)
    # Links in our pages are relative, so that a browser stays below the prefix.
    assert script is not None
    assert http.get(f"/{script[1]}").is_success


def test_tritons_client_works_below_a_base_path(server: ServerProcess) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(server.url.removeprefix("http://") + PREFIX)
    tensor = triton.InferInput("data", list(X.shape), "FP32").set_data_from_numpy(X)
    assert client.is_server_ready()
    assert client.infer("net", [tensor]).as_numpy("softmax_output").shape == (2, 3)
    client.close()


async def test_kserves_client_works_below_a_base_url(server: ServerProcess) -> None:
    kserve = pytest.importorskip("kserve")
    async with kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2")) as client:
        assert await client.is_server_ready(server.url + PREFIX)
        assert await client.is_model_ready(server.url + PREFIX, "net")
        for is_binary in (True, False):
            tensor = kserve.InferInput("data", list(X.shape), "FP32")
            tensor.set_data_from_numpy(X, binary_data=is_binary)
            request = kserve.InferRequest("net", [tensor])
            answer = await client.infer(server.url + PREFIX, request, "net")
            assert answer.outputs[0].shape == [2, 3]
