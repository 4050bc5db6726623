"""Triton's clients, unmodified: sync, asyncio, and perf_analyzer."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client.local_server import ServerProcess

triton = pytest.importorskip("tritonclient.http")
triton_aio = pytest.importorskip("tritonclient.http.aio")

PEERS = Path(__file__).parents[5] / "peers_build" / "peers"
OUTPUT = "softmax_output"


def host_of(server: ServerProcess) -> str:
    return server.url.removeprefix("http://")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Any]:
    client = triton.InferenceServerClient(host_of(server), concurrency=4)
    yield client
    client.close()


@pytest.fixture
async def aio(server: ServerProcess) -> AsyncIterator[Any]:
    async with triton_aio.InferenceServerClient(host_of(server)) as client:
        yield client


def input_of(x: np.ndarray, is_binary: bool = True) -> Any:
    tensor = triton.InferInput("data", list(x.shape), "FP32")
    return tensor.set_data_from_numpy(x, binary_data=is_binary)


def test_the_sync_client_reads_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("net")
    assert client.is_model_ready("net", "live")
    assert not client.is_model_ready("bare")
    assert client.get_server_metadata()["name"] == "modserve"
    metadata = client.get_model_metadata("net")
    assert metadata["inputs"] == [{"name": "data", "datatype": "FP32", "shape": [-1, 6]}]
    assert metadata["outputs"] == [{"name": OUTPUT, "datatype": "FP32", "shape": [-1, 3]}]
    assert metadata["versions"] == ["live"]
    config = client.get_model_config("net")
    assert config["input"] == [{"name": "data", "data_type": "TYPE_FP32", "dims": [6]}]
    assert config["output"] == [{"name": OUTPUT, "data_type": "TYPE_FP32", "dims": [3]}]
    assert config["max_batch_size"] > 0
    names = {one["name"]: one["state"] for one in client.get_model_repository_index()}
    assert names["net"] == "READY"
    assert names["bare"] == "UNAVAILABLE"


@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 700])
def test_the_sync_client_infers(
    client: Any, x: np.ndarray, expected: np.ndarray, coding: str | None, is_binary: bool, rows: int
) -> None:
    many = np.resize(x, (rows, x.shape[1]))
    found = client.infer(
        "net",
        [input_of(many, is_binary)],
        outputs=[triton.InferRequestedOutput(OUTPUT, binary_data=is_binary)],
        request_id="7",
        request_compression_algorithm=coding,
        response_compression_algorithm=coding,
    )
    want = np.resize(expected, (rows, expected.shape[1]))
    np.testing.assert_allclose(found.as_numpy(OUTPUT), want, rtol=1e-5)
    assert found.get_response()["id"] == "7"
    assert found.get_response()["model_version"] == "live"


def test_the_sync_clients_async_infer(client: Any, x: np.ndarray, expected: np.ndarray) -> None:
    asked = [client.async_infer("net", [input_of(x)]) for _ in range(16)]
    for one in asked:
        np.testing.assert_allclose(one.get_result().as_numpy(OUTPUT), expected, rtol=1e-5)


def test_the_sync_client_gets_classes(client: Any, x: np.ndarray, expected: np.ndarray) -> None:
    for is_binary in (True, False):
        wanted = triton.InferRequestedOutput(OUTPUT, binary_data=is_binary, class_count=2)
        found = client.infer("net", [input_of(x)], outputs=[wanted]).as_numpy(OUTPUT)
        assert found.shape == (2, 2)
        for row, scores in zip(found.tolist(), expected, strict=True):
            parts = [(one if isinstance(one, str) else one.decode()).split(":") for one in row]
            best = np.argsort(-scores)[:2]
            assert [int(index) for _, index in parts] == best.tolist()
            np.testing.assert_allclose([float(one) for one, _ in parts], scores[best], atol=1e-5)


def test_the_sync_client_unloads_and_loads(client: Any, x: np.ndarray) -> None:
    for _ in range(2):
        client.unload_model("net")
        assert not client.is_model_ready("net")
        with pytest.raises(triton.InferenceServerException, match="unloaded"):
            client.infer("net", [input_of(x)])
        client.load_model("net")
        assert client.is_model_ready("net")
        client.infer("net", [input_of(x)])


def test_the_sync_client_gets_error_messages(client: Any, x: np.ndarray) -> None:
    refused = triton.InferenceServerException
    with pytest.raises(refused, match="nope"):
        client.get_model_metadata("nope")
    with pytest.raises(refused, match="nope"):
        client.infer("nope", [input_of(x)])
    with pytest.raises(refused, match="version"):
        client.infer("net", [input_of(x)], model_version="9")
    with pytest.raises(refused, match="outputs"):
        client.infer("net", [input_of(x)], outputs=[triton.InferRequestedOutput("other")])
    with pytest.raises(refused, match="shape"):
        client.infer("net", [input_of(x[:, :5])])
    with pytest.raises(refused, match="config"):
        client.load_model("net", config="{}")


def test_statistics_count_the_clients_requests(client: Any, x: np.ndarray) -> None:
    def stats() -> dict[str, Any]:
        (one,) = client.get_inference_statistics("net")["model_stats"]
        return dict(one)

    before = stats()
    for _ in range(3):
        client.infer("net", [input_of(x)])
    with pytest.raises(triton.InferenceServerException):
        client.infer("net", [input_of(x[:, :5])])
    after = stats()
    assert after["inference_count"] - before["inference_count"] == 6
    assert after["execution_count"] - before["execution_count"] == 3
    success = [one["inference_stats"]["success"] for one in (before, after)]
    assert success[1]["count"] - success[0]["count"] == 3
    assert success[1]["ns"] > success[0]["ns"]
    failed = [one["inference_stats"]["fail"]["count"] for one in (before, after)]
    assert failed[1] - failed[0] == 1
    assert after["last_inference"] >= before["last_inference"]
    names = {one["name"] for one in client.get_inference_statistics()["model_stats"]}
    assert {"net", "two", "bare"} <= names
    metrics = httpx.get(f"http://{client._parsed_url.netloc}/metrics").text
    assert 'modserve_predictions_total{module="net",outcome="success",version="live"}' in metrics
    assert 'modserve_prediction_batch_size_bucket{le="2",module="net",version="live"}' in metrics
    assert 'modserve_prediction_queue_seconds_count{module="net",version="live"}' in metrics


@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
async def test_the_aio_client_infers(
    aio: Any, x: np.ndarray, expected: np.ndarray, coding: str | None
) -> None:
    tensor = triton_aio.InferInput("data", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x)
    found = await aio.infer(
        "net",
        [tensor],
        request_compression_algorithm=coding,
        response_compression_algorithm=coding,
    )
    np.testing.assert_allclose(found.as_numpy(OUTPUT), expected, rtol=1e-5)


async def test_the_aio_client_reads_metadata(aio: Any) -> None:
    """It advertises compression on every call but decompresses only inference answers."""
    assert await aio.is_server_live()
    assert await aio.is_server_ready()
    assert await aio.is_model_ready("net")
    assert (await aio.get_server_metadata())["extensions"]
    assert (await aio.get_model_metadata("net"))["name"] == "net"
    assert (await aio.get_model_config("net"))["name"] == "net"
    assert (await aio.get_inference_statistics("net"))["model_stats"]
    assert (await aio.get_inference_statistics())["model_stats"]
    assert await aio.get_model_repository_index()
    await aio.unload_model("net")
    assert not await aio.is_model_ready("net")
    await aio.load_model("net")
    with pytest.raises(triton.InferenceServerException, match="nope"):
        await aio.get_model_config("nope")


@pytest.mark.skipif(not (PEERS / "perf_analyzer").exists(), reason="no perf_analyzer")
@pytest.mark.parametrize("options", [[], ["-b", "3"], ["--input-tensor-format", "json"]])
def test_perf_analyzer_measures(server: ServerProcess, options: list[str]) -> None:
    run = subprocess.run(
        [
            *(PEERS / "perf_analyzer", "-m", "net", "-u", host_of(server)),
            *("--concurrency-range", "2", "--measurement-interval", "200"),
            *("--max-trials", "3", "--stability-percentage", "900", *options),
        ],
        env=os.environ | {"LD_LIBRARY_PATH": str(PEERS / "lib")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Throughput" in run.stdout
    assert "Inference count" in run.stdout, "it has read the server's statistics"


def test_last_inference_is_a_timestamp(client: Any, x: np.ndarray) -> None:
    before = time.time()
    client.infer("net", [input_of(x)])
    (one,) = client.get_inference_statistics("net")["model_stats"]
    assert before - 0.1 <= one["last_inference"] / 1000 <= time.time() + 0.1
    (other,) = client.get_inference_statistics("bare")["model_stats"]
    assert other["last_inference"] == 0
