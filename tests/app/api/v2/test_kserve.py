"""KServe's own REST client, unmodified."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import httpx
import numpy as np
import pytest

from app.client.local_server import ServerProcess

OUTPUT = "softmax_output"


@pytest.fixture(scope="module")
def kserve() -> ModuleType:
    """The package; it registers metrics in this process, so nothing else imports it."""
    return pytest.importorskip("kserve")


@pytest.fixture
async def client(kserve: ModuleType) -> AsyncIterator[Any]:
    async with kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2")) as client:
        yield client


def request_of(
    kserve: ModuleType, x: np.ndarray, *, is_binary: bool, model: str = "net", **options: Any
) -> Any:
    tensor = kserve.InferInput("data", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x, binary_data=is_binary)
    return kserve.InferRequest(model, [tensor], **options)


async def test_it_reads_metadata(client: Any, server: ServerProcess) -> None:
    assert await client.is_server_live(server.url) is True
    assert await client.is_server_ready(server.url) is True
    assert await client.is_model_ready(server.url, "net") is True
    assert await client.is_model_ready(server.url, "bare") is False
    assert await client.is_model_ready(server.url, "nope") is False


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("asks_binary", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 700])
async def test_it_infers(
    kserve: ModuleType,
    client: Any,
    server: ServerProcess,
    x: np.ndarray,
    expected: np.ndarray,
    is_binary: bool,
    asks_binary: bool,
    rows: int,
) -> None:
    many = np.resize(x, (rows, x.shape[1]))
    request = request_of(
        kserve,
        many,
        is_binary=is_binary,
        request_id="7",
        parameters={"binary_data_output": asks_binary},
    )
    headers: dict[str, str] = {}
    answer = await client.infer(server.url, request, "net", response_headers=headers)
    assert ("inference-header-content-length" in headers) is asks_binary
    assert (answer.id, answer.model_name) == ("7", "net")
    (output,) = answer.outputs
    assert (output.name, output.datatype, output.shape) == (OUTPUT, "FP32", [rows, 3])
    want = np.resize(expected, (rows, expected.shape[1]))
    np.testing.assert_allclose(output.as_numpy(), want, rtol=1e-5)


async def test_it_infers_with_json_data(
    client: Any, server: ServerProcess, x: np.ndarray, expected: np.ndarray
) -> None:
    tensor = {"name": "data", "shape": [2, 6], "datatype": "FP32", "data": x.ravel().tolist()}
    answer = await client.infer(server.url, {"inputs": [tensor]}, "net")
    np.testing.assert_allclose(answer.outputs[0].as_numpy(), expected, rtol=1e-5)


async def test_it_requests_outputs_by_name(
    kserve: ModuleType, client: Any, server: ServerProcess
) -> None:
    # Imported only where the fixture has imported the package, see there.
    from kserve.protocol.infer_type import RequestedOutput

    a, b = np.arange(6, dtype="f").reshape(2, 3), np.full((2, 3), 2, "f")
    inputs = []
    for name, value in (("a", a), ("b", b)):
        tensor = kserve.InferInput(name, [2, 3], "FP32")
        tensor.set_data_from_numpy(value, binary_data=name == "a")
        inputs.append(tensor)
    wanted = [
        RequestedOutput("product_output", {"binary_data": True}),
        RequestedOutput("sum_output", {"binary_data": False}),
    ]
    request = kserve.InferRequest("two", inputs, request_outputs=wanted)
    answer = await client.infer(server.url, request, "two")
    found = {one.name: one.as_numpy() for one in answer.outputs}
    np.testing.assert_array_equal(found["product_output"], a * b)
    np.testing.assert_array_equal(found["sum_output"], a + b)


async def test_it_gets_error_messages(
    kserve: ModuleType, client: Any, server: ServerProcess, x: np.ndarray
) -> None:
    """It shows the answer's text if that is JSON with ``error``."""
    for is_binary in (True, False):
        request = request_of(kserve, x, is_binary=is_binary)
        with pytest.raises(httpx.HTTPStatusError, match=r"'nope'.*'404 Not Found'"):
            await client.infer(server.url, request, "nope")
        short = request_of(kserve, x[:, :5].copy(), is_binary=is_binary)
        with pytest.raises(httpx.HTTPStatusError, match=r"shape.*'400 Bad Request'"):
            await client.infer(server.url, short, "net")


def test_the_client_is_the_published_one() -> None:
    """Neither these tests nor the environment change it."""
    run = subprocess.run(
        [
            *(sys.executable, "-c"),
            "from importlib.metadata import files\n"
            "import base64, hashlib\n"
            "for one in files('kserve'):\n"
            "    if one.hash is not None:\n"
            "        digest = hashlib.new(one.hash.mode, one.read_binary()).digest()\n"
            "        found = base64.urlsafe_b64encode(digest).rstrip(b'=').decode()\n"
            "        assert found == one.hash.value, one\n",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
