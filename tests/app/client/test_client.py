"""The client: what it sends, what it makes of answers, and how it outlives a broken stream."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client, ClientError
from app.client import client as client_module
from app.settings import Settings
from app.tensors.npy import read_npz, write_npy, write_npz
from served.network import BIND, FEATURES, NETWORK, examples_npz, fit_body
from served.threaded import served


def answering(handler: Callable[[httpx.Request], httpx.Response]) -> Client:
    """Return a client whose requests a function answers."""
    return Client("http://test", transport=httpx.MockTransport(handler))


class Recorder:
    """Answers every request with an empty object and remembers it."""

    def __init__(self, **answer: Any) -> None:
        self.requests: list[httpx.Request] = []
        self._answer = answer

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        return httpx.Response(200, json=self._answer)

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)


CALLS: list[tuple[Callable[[Client], Any], str, Any]] = [
    (lambda c: c.create_module("m", "{}", data_names=["x"]), "POST /v1/modules", None),
    (lambda c: c.module("m"), "GET /v1/modules/m", None),
    (lambda c: c.delete_module("m"), "DELETE /v1/modules/m", None),
    (lambda c: c.init_params("m", "xavier", seed=1), "POST /v1/modules/m/params/init", None),
    (
        lambda c: c.init_optimizer("m", "adam", learning_rate=0.1),
        "POST /v1/modules/m/optimizer",
        {"name": "adam", "options": {"learning_rate": 0.1}},
    ),
    (lambda c: c.save_checkpoint("m", 3), "POST /v1/modules/m/checkpoints", {"epoch": 3}),
    (
        lambda c: c.load("m", "3.20", optimizer_states=True),
        "POST /v1/modules/m/load",
        {"epoch": "3.20", "optimizer_states": True},
    ),
    (lambda c: c.fit("m", epochs=2), "POST /v1/modules/m/fit", {"epochs": 2}),
    (lambda c: c.score("m", dataset="d"), "POST /v1/modules/m/score", {"dataset": "d"}),
    (
        lambda c: c.predict_dataset("m", output="o"),
        "POST /v1/modules/m/predict-dataset",
        {"output": "o"},
    ),
    (lambda c: c.job(7), "GET /v1/jobs/7", None),
    (lambda c: c.pause(7), "POST /v1/jobs/7/pause", None),
    (lambda c: c.resume(7), "POST /v1/jobs/7/resume", None),
    (lambda c: c.cancel(7), "POST /v1/jobs/7/cancel", None),
    (lambda c: c.retry(7), "POST /v1/jobs/7/retry", None),
    (lambda c: c.delete_dataset("d"), "DELETE /v1/datasets/d", None),
]


@pytest.mark.parametrize(("call", "line", "body"), CALLS, ids=[line for _, line, _ in CALLS])
def test_each_method_is_one_request(call: Callable[[Client], Any], line: str, body: Any) -> None:
    server = Recorder()
    with answering(server) as client:
        call(client)
    (request,) = server.requests
    assert f"{request.method} {request.url.path}" == line
    if body is not None:
        assert server.body == body


def test_symbols_are_sent_parsed() -> None:
    server = Recorder()
    with answering(server) as client:
        client.create_bucketing_module("m", {10: '{"nodes": []}', 20: {"nodes": [1]}}, 20)
    assert server.body == {
        "name": "m",
        "symbols": {"10": {"nodes": []}, "20": {"nodes": [1]}},
        "default_bucket_key": "20",
    }


def test_tensors_travel_as_npz() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept"] == "application/x-npz"
        sent = read_npz(request.content, 1 << 20, "")
        assert {name: array.tolist() for name, array in sent.items()} == {"x": [[1]], "n": [2]}
        body = write_npz({"y": np.float32([3, 4])})
        return httpx.Response(200, content=body, headers={"Content-Type": "application/x-npz"})

    with answering(answer) as client:
        assert client.predict("m", x=[[1]], n=[2])["y"].tolist() == [3, 4]


def test_one_parameter_comes_as_npy() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/modules/m/params/fc_weight"
        content = write_npy(np.eye(2))
        return httpx.Response(200, content=content, headers={"Content-Type": "application/x-npy"})

    with answering(answer) as client:
        np.testing.assert_array_equal(client.param("m", "fc_weight"), np.eye(2))


def test_flags_go_into_the_query() -> None:
    server = Recorder()
    with answering(server) as client:
        client.set_params("m", {"w": [1.0]}, allow_missing=True)
    assert server.requests[0].url.query == b"allow_missing=true"


def test_files_are_streamed(tmp_path: Path) -> None:
    file = tmp_path / "net-0003.params"
    file.write_bytes(b"abc" * 100_000)
    server = Recorder()
    with answering(server) as client:
        client.put_checkpoint_file("m", 3, file)
        client.put_dataset("d", file, kind="npy")
    upload, dataset = server.requests
    assert upload.url.path == "/v1/modules/m/checkpoints/3/files/net-0003.params"
    assert dataset.url.query == b"kind=npy"
    assert upload.content == dataset.content == file.read_bytes()


def test_a_refusal_is_an_error_with_the_problem() -> None:
    problem = {"code": "wrong_stage", "detail": "first call bind", "call": "POST .../bind"}
    with (
        answering(lambda _: httpx.Response(409, json=problem)) as client,
        pytest.raises(ClientError, match=r"^409 wrong_stage: first call bind$") as refused,
    ):
        client.module("m")
    assert refused.value.status == 409
    assert refused.value.problem == problem


def test_a_refusal_that_is_no_problem_shows_its_text() -> None:
    with (
        answering(lambda _: httpx.Response(502, text="<html>bad gateway")) as client,
        pytest.raises(ClientError, match="502 : <html>bad gateway"),
    ):
        client.module("m")


def test_readiness() -> None:
    for status in (200, 503):
        with answering(lambda _, status=status: httpx.Response(status)) as client:
            assert client.is_ready() == (status == 200)

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with answering(refuse) as client:
        assert not client.is_ready()


class Stream(httpx.SyncByteStream):
    """Events of which the connection breaks after the last given."""

    def __init__(self, ids: list[int], breaks: bool) -> None:
        self._ids = ids
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        for number in self._ids:
            yield f'id: {number}\nevent: log\ndata: {{"id": {number}}}\n\n: still here\n\n'.encode()
        if self._breaks:
            raise httpx.ReadError("broken")


def test_a_broken_stream_is_taken_up_where_it_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_RETRY_SECONDS", 0.0)
    streams = [Stream([1, 2], True), Stream([], True), Stream([3], False)]
    ready = itertools.chain([503, 200], itertools.repeat(200))
    after = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/readyz":
            return httpx.Response(next(ready))
        after.append(request.headers["last-event-id"])
        return httpx.Response(200, stream=streams.pop(0))

    with answering(answer) as client:
        assert [event["id"] for event in client.job_events(7)] == [1, 2, 3]
    assert after == ["0", "2", "2"]


def test_a_stream_of_a_server_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_RECONNECT_SECONDS", 0.0)

    def answer(request: httpx.Request) -> httpx.Response:
        status = 503 if request.url.path == "/readyz" else 200
        return httpx.Response(status, stream=Stream([1], True))

    with answering(answer) as client:
        events = client.job_events(7)
        assert next(events)["id"] == 1
        with pytest.raises(httpx.ReadError):
            next(events)


def test_events_of_an_unknown_job_are_refused() -> None:
    problem = {"code": "not_found", "detail": "job '7' does not exist"}
    with (
        answering(lambda _: httpx.Response(404, json=problem)) as client,
        pytest.raises(ClientError, match="404 not_found: job '7' does not exist"),
    ):
        next(client.job_events(7))


def test_against_a_server(tmp_path: Path) -> None:
    examples = tmp_path / "examples.npz"
    examples.write_bytes(examples_npz())
    settings = Settings(data_dir=tmp_path, executor_form="in_process", log_level="error")
    with served(settings) as url, Client(url) as client:
        client.put_dataset("examples", examples)
        client.create_module("net", NETWORK)
        client.bind("net", **BIND)
        client.init_params("net", "xavier", seed=1)
        client.init_optimizer("net", "sgd", learning_rate=0.1)
        before = client.params("net")
        job = client.wait(client.fit("net", **fit_body())["id"])
        assert job["status"] == "succeeded"
        assert [row["data"]["epoch"] for row in client.job_metrics(job["id"])] == [0, 1]
        assert not np.array_equal(client.param("net", "fc_weight"), before["fc_weight"])
        client.set_params("net", before)
        np.testing.assert_array_equal(client.param("net", "fc_weight"), before["fc_weight"])
        outputs = client.predict("net", data=np.zeros((2, FEATURES)))
        assert outputs["softmax_output"].shape == (2, 3)
        client.save_checkpoint("net", 9)
        assert [one["tag"] for one in client.checkpoints("net")] == ["9", "2", "1"]
        client.delete_module("net")
        client.delete_dataset("examples")
        with pytest.raises(ClientError, match="404 not_found"):
            client.module("net")
