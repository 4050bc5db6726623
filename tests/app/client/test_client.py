"""The client: what it sends, what it makes of answers, and how it outlives a broken stream."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client, ClientError
from app.client import jobs as client_jobs
from app.settings import Settings
from app.tensors.codec import NPY, NPZ
from app.tensors.npy import read_npz, write_npy, write_npz
from served.document import openapi_document
from served.network import BATCH, BIND, FEATURES, NETWORK, examples_npz, fit_body
from served.threaded import served


def answering(handler: Callable[[httpx.Request], httpx.Response]) -> Client:
    """Return a client whose requests a function answers."""
    return Client("http://test", transport=httpx.MockTransport(handler))


class Recorder:
    """Answers every request with nothing, in the form asked for, and remembers it."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        kind = request.headers["accept"]
        if kind not in (NPY, NPZ):
            return httpx.Response(200, json={"items": []})
        content = write_npz({}) if kind == NPZ else write_npy(np.zeros(1))
        return httpx.Response(200, content=content, headers={"Content-Type": kind})

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)


THIS, NOWHERE = Path(__file__), Path(os.devnull)
SHAPES = [{"name": "data", "shape": [4, 5]}]
SHAPES_ONLY: dict[str, Any] = {"data_shapes": SHAPES, "label_shapes": []}
CALLS: list[tuple[Callable[[Client], Any], str, Any]] = [
    (lambda c: c.create_module("m", "{}", data_names=["x"]), "POST /v1/modules", None),
    (lambda c: c.module("m"), "GET /v1/modules/m", None),
    (lambda c: c.restore_module("m"), "POST /v1/modules/m/restore", None),
    (lambda c: c.delete_module("m"), "DELETE /v1/modules/m", None),
    (lambda c: c.serving("m"), "GET /v1/modules/m/serving", None),
    (
        lambda c: c.set_serving("m", max_delay_us=5),
        "PATCH /v1/modules/m/serving",
        {"max_delay_us": 5},
    ),
    (
        lambda c: c.predict_with_version("m", 3, data=[[1.0]]),
        "POST /v1/modules/m/versions/3/predict",
        None,
    ),
    (lambda c: c.versions("m"), "GET /v1/modules/m/versions", None),
    (lambda c: c.promote("m", 3), "POST /v1/modules/m/versions/3/promote", None),
    (lambda c: c.roll_back("m"), "POST /v1/modules/m/rollback", None),
    (
        lambda c: c.set_version_label("m", "stable", 3),
        "PUT /v1/modules/m/version_labels/stable",
        {"version": 3},
    ),
    (
        lambda c: c.remove_version_label("m", "stable"),
        "DELETE /v1/modules/m/version_labels/stable",
        None,
    ),
    (
        lambda c: c.set_canary("m", 3, 0.5),
        "PUT /v1/modules/m/canary",
        {"version": 3, "weight": 0.5},
    ),
    (lambda c: c.remove_canary("m"), "DELETE /v1/modules/m/canary", None),
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
    (lambda c: c.models(), "GET /v1/models", None),
    (
        lambda c: c.set_transform("m", "i", resize=3),
        "PUT /v1/modules/m/transforms/i",
        {"resize": 3},
    ),
    (
        lambda c: c.set_transform("m", "i", vocabulary=("a", "b"), type="text"),
        "PUT /v1/modules/m/transforms/i",
        {"type": "text", "vocabulary": ["a", "b"]},
    ),
    (lambda c: c.transform("m", "i"), "GET /v1/modules/m/transforms/i", None),
    (lambda c: c.delete_transform("m", "i"), "DELETE /v1/modules/m/transforms/i", None),
    (lambda c: c.labels("m", "o"), "GET /v1/modules/m/labels/o", None),
    (lambda c: c.set_labels("m", "o", ["a"]), "PUT /v1/modules/m/labels/o", ["a"]),
    (lambda c: c.delete_labels("m", "o"), "DELETE /v1/modules/m/labels/o", None),
    (lambda c: c.reload_models(), "POST /v1/models/reload", None),
    (lambda c: c.fit("m", epochs=2), "POST /v1/modules/m/fit", {"epochs": 2}),
    (lambda c: c.score("m", dataset="d"), "POST /v1/modules/m/score", {"dataset": "d"}),
    (
        lambda c: c.predict_dataset("m", output="o"),
        "POST /v1/modules/m/predict_dataset",
        {"output": "o"},
    ),
    (lambda c: c.job(7), "GET /v1/jobs/7", None),
    (lambda c: c.pause(7), "POST /v1/jobs/7/pause", None),
    (lambda c: c.resume(7), "POST /v1/jobs/7/resume", None),
    (lambda c: c.cancel(7), "POST /v1/jobs/7/cancel", None),
    (lambda c: c.retry(7), "POST /v1/jobs/7/retry", None),
    (lambda c: c.delete_dataset("d"), "DELETE /v1/datasets/d", None),
    (lambda c: c.modules(), "GET /v1/modules", None),
    (lambda c: c.symbol("m", 20), "GET /v1/modules/m/symbol?key=20", None),
    (lambda c: c.bind("m", SHAPES), "POST /v1/modules/m/bind", {**SHAPES_ONLY}),
    (lambda c: c.reshape("m", SHAPES), "POST /v1/modules/m/reshape", {**SHAPES_ONLY}),
    (lambda c: c.buckets("m"), "GET /v1/modules/m/buckets", None),
    (
        lambda c: c.bind_bucket("m", 20, SHAPES),
        "POST /v1/modules/m/buckets",
        {"key": 20, **SHAPES_ONLY},
    ),
    (lambda c: c.params("m"), "GET /v1/modules/m/params", None),
    (lambda c: c.param("m", "w"), "GET /v1/modules/m/params/w", None),
    (lambda c: c.set_params("m", {"w": [1.0]}), "PUT /v1/modules/m/params", None),
    (lambda c: c.optimizer("m"), "GET /v1/modules/m/optimizer", None),
    (
        lambda c: c.set_learning_rate("m", 0.5),
        "PATCH /v1/modules/m/optimizer",
        {"learning_rate": 0.5},
    ),
    (lambda c: c.optimizer_states("m"), "GET /v1/modules/m/optimizer/states", None),
    (lambda c: c.set_optimizer_states("m", b"1"), "PUT /v1/modules/m/optimizer/states", None),
    (lambda c: c.predict("m", x=[1.0]), "POST /v1/modules/m/predict", None),
    (lambda c: c.forward("m", {"x": [1.0]}), "POST /v1/modules/m/forward", None),
    (
        lambda c: c.forward_backward("m", {"x": [1.0]}, monitor="fc*"),
        "POST /v1/modules/m/forward_backward",
        {"inputs": {"x": {"dtype": "float64", "shape": [1], "data": [1.0]}}, "monitor": "fc*"},
    ),
    (
        lambda c: c.backward("m", sequence=3),
        "POST /v1/modules/m/backward",
        {"inputs": {}, "sequence": 3},
    ),
    (lambda c: c.update("m"), "POST /v1/modules/m/update", None),
    (lambda c: c.outputs("m"), "GET /v1/modules/m/outputs", None),
    (lambda c: c.input_grads("m"), "GET /v1/modules/m/input_grads", None),
    (lambda c: c.states("m"), "GET /v1/modules/m/states", None),
    (
        lambda c: c.set_states("m", value=0.0),
        "PUT /v1/modules/m/states",
        {"inputs": {}, "value": 0.0},
    ),
    (lambda c: c.statistics("m", "fc*"), "GET /v1/modules/m/monitor?pattern=fc%2A", None),
    (lambda c: c.add_checkpoint("m", [THIS]), "POST /v1/modules/m/checkpoints", None),
    (lambda c: c.checkpoints("m"), "GET /v1/modules/m/checkpoints", None),
    (lambda c: c.checkpoint("m", 3), "GET /v1/modules/m/checkpoints/3", None),
    (lambda c: c.delete_checkpoint("m", "3.20"), "DELETE /v1/modules/m/checkpoints/3.20", None),
    (
        lambda c: c.get_checkpoint_file("m", 3, "f", NOWHERE),
        "GET /v1/modules/m/checkpoints/3/files/f",
        None,
    ),
    (
        lambda c: c.put_checkpoint_file("m", 3, THIS),
        "PUT /v1/modules/m/checkpoints/3/files/test_client.py",
        None,
    ),
    (lambda c: c.apply_bucket_plan("m", 4), "POST /v1/modules/m/buckets/plan?k=4", None),
    (lambda c: c.warm_up_module("m"), "POST /v1/modules/m/warm_up", None),
    (lambda c: c.graph("m", "20"), "GET /v1/modules/m/graph?bucket=20", None),
    (lambda c: c.profile("m", runs=3), "POST /v1/modules/m/profile", {"runs": 3}),
    (
        lambda c: c.param_summary("m", 2, against=1),
        "GET /v1/modules/m/param_summary?checkpoint=2&against=1",
        None,
    ),
    (lambda c: c.bucket_plan("m", 4), "GET /v1/modules/m/buckets/plan?k=4", None),
    (lambda c: c.jobs(module="m"), "GET /v1/jobs?module=m", None),
    (
        lambda c: c.score("m", limits={"max_retries": 2}, dataset="d", batch_size=4),
        "POST /v1/modules/m/score?max_retries=2",
        {"dataset": "d", "batch_size": 4},
    ),
    (lambda c: c.delete_job(7), "DELETE /v1/jobs/7", None),
    (
        lambda c: c.job_series(7, "loss", 10),
        "GET /v1/jobs/7/metrics?series=loss&points=10",
        None,
    ),
    (lambda c: c.job_metrics(7), "GET /v1/jobs/7/metrics", None),
    (
        lambda c: c.job_histograms(7, "fc_weight", of="gradient"),
        "GET /v1/jobs/7/histograms?of=gradient&points=200&array=fc_weight",
        None,
    ),
    (lambda c: list(c.job_events(7)), "GET /v1/jobs/7/events", None),
    (lambda c: list(c.events()), "GET /v1/events", None),
    (lambda c: c.executors(), "GET /v1/executors", None),
    (lambda c: c.error_codes(), "GET /v1/errors", None),
    (lambda c: c.error_code("not_found"), "GET /v1/errors/not_found", None),
    (lambda c: c.datasets(), "GET /v1/datasets", None),
    (lambda c: c.dataset("d"), "GET /v1/datasets/d", None),
    (
        lambda c: c.add_dataset("d", "/data/d.csv", "csv"),
        "POST /v1/datasets",
        {"name": "d", "path": "/data/d.csv", "kind": "csv"},
    ),
    (
        lambda c: c.predict_file("m", THIS, top_k=5),
        "PUT /v1/modules/m/predict?top_k=5",
        None,
    ),
    (lambda c: c.put_dataset("d", THIS, "csv"), "PUT /v1/datasets/d?kind=csv", None),
    (lambda c: c.preview_dataset("d", 3), "GET /v1/datasets/d/preview?rows=3", None),
    (lambda c: c.get_dataset_file("d", NOWHERE), "GET /v1/datasets/d/file", None),
]


@pytest.mark.parametrize(("call", "line", "body"), CALLS, ids=[line for _, line, _ in CALLS])
def test_each_method_is_one_request(call: Callable[[Client], Any], line: str, body: Any) -> None:
    server = Recorder()
    with answering(server) as client:
        call(client)
    (request,) = server.requests
    assert f"{request.method} {request.url.raw_path.decode()}" == line
    if body is not None:
        assert server.body == body


def test_every_verb_of_the_server_has_a_method() -> None:
    lines = [line.partition("?")[0] for _, line, _ in CALLS]
    for path, operations in openapi_document()["paths"].items():
        for method in operations.keys() - {"parameters"}:
            pattern = f"{method.upper()} {re.sub('{[a-z]+}', '[^/]+', path)}"
            if path.startswith("/v1/"):
                assert any(re.fullmatch(pattern, line) for line in lines), pattern


def test_lists_are_read_to_their_last_page() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("cursor")
        assert request.url.params["status"] == "failed"
        page = {None: ([{"id": 1}], "2"), "2": ([{"id": 2}, {"id": 3}], None)}[cursor]
        return httpx.Response(200, json={"items": page[0], "next_cursor": page[1]})

    with answering(answer) as client:
        assert [job["id"] for job in client.jobs(status="failed")] == [1, 2, 3]


def test_files_are_fetched_whole_or_not_at_all(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("0003.params"):
            return httpx.Response(200, content=b"abc" * 100_000)
        return httpx.Response(404, json={"code": "not_found", "detail": "no such file"})

    target = tmp_path / "net.params"
    with answering(answer) as client:
        client.get_checkpoint_file("m", 3, "net-0003.params", target)
        assert target.read_bytes() == b"abc" * 100_000
        with pytest.raises(ClientError, match="404 not_found: no such file"):
            client.get_checkpoint_file("m", 3, "net-0004.params", tmp_path / "other")
    assert not (tmp_path / "other").exists()


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
    monkeypatch.setattr(client_jobs, "_RETRY_SECONDS", 0.0)
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
    monkeypatch.setattr(client_jobs, "_RECONNECT_SECONDS", 0.0)

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
        batch = {"data": np.ones((BATCH, FEATURES)), "softmax_label": np.zeros(BATCH)}
        first = client.forward_backward("net", batch, sequence=1)
        assert first["softmax_output"].tolist() == client.outputs("net")["softmax_output"].tolist()
        assert client.update("net", sequence=2)["sequence"] == 2
        again = client.forward("net", batch, is_train=False)
        assert again["softmax_output"][0, 0] > first["softmax_output"][0, 0]
        client.set_optimizer_states("net", client.optimizer_states("net"))
        assert client.set_learning_rate("net", 0.5)["optimizer"]["options"]["learning_rate"] == 0.5
        client.save_checkpoint("net", 9)
        params = next(name for name in client.checkpoint("net", 9)["files"] if "params" in name)
        client.get_checkpoint_file("net", 9, params, tmp_path / params)
        assert (tmp_path / params).stat().st_size > 100
        assert [one["tag"] for one in client.checkpoints("net")] == ["9", "2", "1"]
        client.delete_module("net")
        client.delete_dataset("examples")
        with pytest.raises(ClientError, match="404 not_found"):
            client.module("net")


def test_what_is_large_is_sent_in_pieces() -> None:
    pieces: list[bytes] = []

    class Listening(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            assert isinstance(request.stream, httpx.SyncByteStream)
            pieces.extend(request.stream)
            assert request.headers["content-length"] == str(sum(map(len, pieces)))
            return httpx.Response(200, json={})

    values = np.arange(1 << 20, dtype=np.float32)
    Client("http://server", transport=Listening()).set_params("m", {"w": values})
    assert max(map(len, pieces)) <= 1 << 16
    found = read_npz(b"".join(pieces), limit=1 << 30, setting="")
    np.testing.assert_array_equal(found["w"], values)
