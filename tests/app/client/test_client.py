"""Both clients without a server: requests, answers, retries, and following of events."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app import client as package
from app.client import (
    Client,
    ClientError,
    Conflict,
    TooManyRequests,
    Unavailable,
    exchange,
    follow,
)
from app.tensors.npy import read_npz
from served.either_client import KINDS, EitherClient, either

Answer = Callable[[httpx.Request], httpx.Response]

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def immediate_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients retry without a pause."""
    monkeypatch.setattr(exchange, "_FIRST_PAUSE_SECONDS", 0.0)


class Recorder:
    """Answers requests from a list and records them."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = iter(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self._answers, httpx.Response(200, json={"items": []}))
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def lines(self) -> list[str]:
        return [f"{one.method} {one.url.raw_path.decode()}" for one in self.requests]


def busy(status: int = 503, after: str | None = "0") -> httpx.Response:
    headers = {} if after is None else {"Retry-After": after}
    return httpx.Response(status, json={"code": "unavailable", "detail": "later"}, headers=headers)


async def test_lists_are_read_to_their_last_page(kind: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("cursor")
        assert request.url.params["status"] == "failed"
        page = {None: ([{"id": 1}], "2"), "2": ([{"id": 2}, {"id": 3}], None)}[cursor]
        return httpx.Response(200, json={"items": page[0], "next_cursor": page[1]})

    async with either(kind, answer=answer) as client:
        assert [job["id"] for job in await client.jobs(status="failed")] == [1, 2, 3]


async def test_names_are_escaped_in_the_path(kind: str) -> None:
    server = Recorder()
    async with either(kind, answer=server) as client:
        await client.delete_dataset("../jobs?x=1#é")
    assert server.lines == ["DELETE /v1/datasets/..%2Fjobs%3Fx%3D1%23%C3%A9"]


async def test_files_are_downloaded_completely_or_not_at_all(kind: str, tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("0003.params"):
            return httpx.Response(200, content=b"abc" * 100_000)
        if request.url.path.endswith("0005.params"):
            return httpx.Response(200, stream=Stream([b"begin"], True))
        return httpx.Response(404, json={"code": "not_found", "detail": "no such file"})

    target = tmp_path / "net.params"
    async with either(kind, answer=answer) as client:
        await client.get_checkpoint_file("m", 3, "net-0003.params", target)
        for file, error in (("net-0004.params", ClientError), ("net-0005.params", httpx.ReadError)):
            with pytest.raises(error):
                await client.get_checkpoint_file("m", 3, file, target)
    assert target.read_bytes() == b"abc" * 100_000
    assert list(tmp_path.iterdir()) == [target]


async def test_files_are_sent_unchanged(kind: str, tmp_path: Path) -> None:
    file, sent = tmp_path / "net-0003.params", []
    file.write_bytes(b"abc" * 100_000)
    server = Recorder(httpx.Response(200, json={}), busy(), httpx.Response(200, json={}))
    async with either(kind, answer=server) as client:
        await client.put_checkpoint_file("m", 3, file)
        await client.put_dataset("d", file, kind="npy", progress=lambda *part: sent.append(part))
    upload, *datasets = server.requests
    assert upload.url.path == "/v1/modules/m/checkpoints/3/files/net-0003.params"
    assert [one.url.query for one in datasets] == [b"kind=npy"] * 2
    assert {one.content for one in server.requests} == {file.read_bytes()}
    assert {one.headers["content-length"] for one in server.requests} == {"300000"}
    assert sent.count((300_000, 300_000)) == 2, "a retry sends the whole file again"
    assert len(sent) == 2 * 5


async def test_paths_may_be_strings(kind: str, tmp_path: Path) -> None:
    file, target = tmp_path / "net-0003.params", tmp_path / "fetched"
    file.write_bytes(b"abc")
    server = Recorder(*(httpx.Response(200, json={}) for _ in range(4)))
    async with either(kind, answer=server) as client:
        await client.put_checkpoint_file("m", 3, str(file))
        await client.put_dataset("d", str(file), kind="npy")
        await client.predict_file("m", str(file))
        await client.get_dataset_file("d", str(target))
    assert [one.content for one in server.requests] == [b"abc"] * 3 + [b""]
    assert target.read_bytes() == b"{}"


async def test_a_url_without_http_is_refused(kind: str) -> None:
    with pytest.raises(httpx.InvalidURL, match=r"'localhost:8000'; expected http://HOST"):
        async with either(kind, "localhost:8000"):
            pass


async def test_large_bodies_are_sent_in_chunks(kind: str) -> None:
    pieces: list[bytes] = []

    class Listening(httpx.BaseTransport, httpx.AsyncBaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            assert isinstance(request.stream, httpx.SyncByteStream)
            pieces.extend(request.stream)
            return httpx.Response(200, json={})

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            assert isinstance(request.stream, httpx.AsyncByteStream)
            pieces.extend([piece async for piece in request.stream])
            return httpx.Response(200, json={})

    values = np.arange(1 << 18, dtype=np.float32)
    async with either(kind, transport=Listening()) as client:
        await client.set_params("m", {"w": values})
    assert max(map(len, pieces)) <= 1 << 16
    found = read_npz(b"".join(pieces), limit=1 << 30, setting="")
    np.testing.assert_array_equal(found["w"], values)


async def test_a_refusal_raises_an_error_with_the_problem(kind: str) -> None:
    fault = {"field": "a", "got": "b", "expected": "c"}
    problem = {"code": "wrong_stage", "detail": "bind", "errors": [fault], "request_id": "r"}
    server = Recorder(httpx.Response(409, json=problem))
    async with either(kind, answer=server) as client:
        with pytest.raises(Conflict, match=r"^409 wrong_stage: bind$") as refused:
            await client.module("m")
    for error in (refused.value, pickle.loads(pickle.dumps(refused.value))):
        assert (error.status, error.code, error.request_id) == (409, "wrong_stage", "r")
        assert (error.errors, error.problem) == ([fault], problem)


@pytest.mark.parametrize(
    ("status", "name"),
    [
        *((400, "BadRequest"), (401, "Unauthorized"), (403, "Forbidden"), (404, "NotFound")),
        *((405, "BadRequest"), (412, "PreconditionFailed"), (413, "TooLarge")),
        *((415, "UnsupportedMedia"), (422, "Invalid"), (429, "TooManyRequests")),
        *((500, "ServerError"), (503, "Unavailable"), (507, "ServerError")),
    ],
)
async def test_the_error_class_follows_the_status(kind: str, status: int, name: str) -> None:
    async with either(kind, answer=lambda _: busy(status, None), retries=0) as client:
        with pytest.raises(ClientError) as refused:
            await client.module("m")
    assert type(refused.value) is getattr(package, name)


@pytest.mark.parametrize("text", ["<html>bad gateway", '["no problem"]'])
async def test_a_refusal_without_a_problem_shows_its_text(kind: str, text: str) -> None:
    async with either(kind, answer=lambda _: httpx.Response(502, text=text)) as client:
        with pytest.raises(ClientError) as refused:
            await client.module("m")
    assert str(refused.value) == f"502 : {text}"
    assert refused.value.errors == []


async def test_idempotent_requests_are_retried_after_connection_errors(kind: str) -> None:
    broken = httpx.ReadError("broken")
    server = Recorder(broken, busy(), httpx.Response(200, json={"name": "m"}))
    async with either(kind, answer=server) as client:
        assert (await client.module("m"))["name"] == "m"
    assert len(server.requests) == 3


async def test_retries_are_limited(kind: str) -> None:
    server = Recorder(*(busy(429, "0") for _ in range(9)))
    async with either(kind, answer=server, retries=1) as client:
        with pytest.raises(TooManyRequests) as refused:
            await client.module("m")
        assert refused.value.retry_after_seconds == 0
    assert len(server.requests) == 2


async def test_options_may_differ_from_call_to_call(kind: str) -> None:
    server = Recorder(busy(), busy(), busy(), httpx.Response(200, json={"name": "m"}))
    plain = getattr(package, kind)("http://test", transport=httpx.MockTransport(server), retries=3)
    once = EitherClient(plain.with_options(retries=0, timeout_seconds=7.0))
    with pytest.raises(Unavailable):
        await once.module("m")
    assert server.requests[0].extensions["timeout"]["read"] == 7.0
    assert (await EitherClient(plain).module("m"))["name"] == "m"
    assert server.requests[-1].extensions["timeout"]["read"] == 60.0


async def test_a_long_retry_after_is_not_waited_for(kind: str) -> None:
    server = Recorder(busy(after="3600"))
    async with either(kind, answer=server) as client:
        with pytest.raises(Unavailable) as refused:
            await client.module("m")
    assert refused.value.retry_after_seconds == 3600


async def test_requests_that_would_repeat_an_effect_are_sent_once(kind: str) -> None:
    for make in ("update", "warm_up_module", "roll_back"):
        server = Recorder(httpx.ReadError("broken"))
        async with either(kind, answer=server) as client:
            with pytest.raises(httpx.ReadError):
                await getattr(client, make)("m")
        assert len(server.requests) == 1
    server = Recorder(httpx.ReadError("broken"), httpx.Response(200, json={"sequence": 3}))
    async with either(kind, answer=server) as client:
        assert (await client.update("m", sequence=3))["sequence"] == 3
    server = Recorder(busy())
    async with either(kind, answer=server) as client:
        with pytest.raises(Unavailable):
            await client.predict_part("m", 7, x=[1.0])
    server = Recorder(busy())
    async with either(kind, answer=server) as client:
        with pytest.raises(Unavailable):
            await client.request("GET", "/v1/modules")


async def test_creations_are_retried_under_one_idempotency_key(kind: str) -> None:
    server = Recorder(*itertools.chain(*[(busy(), httpx.Response(201, json={}))] * 3))
    async with either(kind, answer=server) as client:
        await client.create_module("m", {})
        await client.fit("m", epochs=1)
        await client.fit("m", epochs=1)
    keys = [one.headers["idempotency-key"] for one in server.requests]
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == 3


async def test_predictions_are_retried(kind: str) -> None:
    answer = {"outputs": {"y": {"dtype": "float32", "shape": [1], "data": [3.0]}}}
    server = Recorder(busy(), httpx.Response(200, json=answer))
    async with either(kind, answer=server) as client:
        assert (await client.predict("m", x=[1.0]))["y"].tolist() == [3.0]


async def test_an_unreachable_server_is_named(kind: str) -> None:
    server = Recorder(*[httpx.ConnectError("refused")] * 9)
    async with either(kind, answer=server) as client:
        with pytest.raises(httpx.ConnectError) as refused:
            await client.modules()
    (note,) = refused.value.__notes__
    assert note.startswith("No server answers at http://")


async def test_an_unnamed_input_must_be_the_only_one(kind: str) -> None:
    async with either(kind, answer=Recorder()) as client:
        with pytest.raises(TypeError, match="an input without a name, together with x"):
            await client.predict("m", [1.0], x=[1.0])
        with pytest.raises(TypeError, match="several files without an input name"):
            await client.predict("m", [b"1", b"2"])


async def test_readiness(kind: str) -> None:
    for status in (200, 503):
        async with either(kind, answer=lambda _, s=status: httpx.Response(s)) as client:
            assert await client.is_ready() == (status == 200)
            assert await client.wait_until_ready(0.01) == (status == 200)
    async with either(kind, answer=Recorder(*[httpx.ConnectError("refused")] * 3)) as client:
        assert not await client.is_ready()
        assert await client.wait_until_ready(60)


class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Chunks of an answer, after which the connection may break."""

    def __init__(self, pieces: list[bytes], breaks: bool) -> None:
        self._pieces = pieces
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._breaks:
            raise httpx.ReadError("broken")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def events(ids: list[int], breaks: bool) -> Stream:
    text = 'id: {0}\nevent: log\ndata: {{"id": {0}}}\n\n: still here\n\n'
    return Stream([text.format(number).encode() for number in ids], breaks)


async def test_a_broken_stream_is_resumed(kind: str) -> None:
    """A stream that ends before its job does counts as broken: its server was stopped."""
    streams = [events([1, 2], True), events([], True), events([3], False), events([4], False)]
    statuses = ["running", "succeeded"]
    ready = itertools.chain([503, 200], itertools.repeat(200))
    after = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/readyz":
            return httpx.Response(next(ready))
        if request.url.path == "/v1/jobs/7":
            return httpx.Response(200, json={"status": statuses.pop(0)})
        after.append(request.headers["last-event-id"])
        return httpx.Response(200, stream=streams.pop(0))

    async with either(kind, answer=answer) as client:
        assert [event["id"] async for event in client.each("job_events", 7)] == [1, 2, 3, 4]
    assert after == ["0", "2", "2", "3"]


async def test_an_event_that_broke_off_is_asked_for_again(kind: str) -> None:
    begun = Stream([b'id: 1\nevent: log\ndata: {"id": 1}\n\nid: 2\nevent: log\n'], True)
    streams, after = [begun, events([2], False)], []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/readyz":
            return httpx.Response(200)
        after.append(request.headers["last-event-id"])
        return httpx.Response(200, stream=streams.pop(0))

    async with either(kind, answer=answer) as client:
        found = client.each("events")
        assert [(await anext(found))["id"] for _ in range(2)] == [1, 2]
    assert after == ["0", "1"]


async def test_events_from_now_on(kind: str) -> None:
    begun = Stream([b"retry: 1000\nid: 4\n\n"], False)
    server = Recorder(*(httpx.Response(200, stream=one) for one in (begun, events([5], False))))
    async with either(kind, answer=server) as client:
        found = client.each("events", None, module=["a", "b"])
        assert (await anext(found))["id"] == 5
    first, again = server.lines
    assert first == "GET /v1/events?module=a&module=b&after=latest"
    assert again == "GET /v1/events?module=a&module=b"
    assert server.requests[1].headers["last-event-id"] == "4"


async def test_a_stream_is_given_up_when_the_server_stays_away(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_RECONNECT_SECONDS", 0.0)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/readyz":
            return httpx.Response(503)
        return httpx.Response(200, stream=events([1], True))

    async with either(kind, answer=answer) as client:
        found = client.each("job_events", 7)
        assert (await anext(found))["id"] == 1
        with pytest.raises(httpx.ReadError):
            await anext(found)


async def test_a_wait_ends_at_its_deadline_even_while_events_arrive(kind: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/readyz":
            return httpx.Response(next(ready))
        return httpx.Response(200, stream=events([1, 2], True))

    ready = itertools.chain([200], itertools.repeat(503))
    async with either(kind, answer=answer) as client:
        with pytest.raises(TimeoutError, match="/v1/jobs/7/events: the stream did not end"):
            await client.wait(7, timeout_seconds=0.01)


async def test_events_of_an_unknown_job_are_refused(kind: str) -> None:
    problem = {"code": "not_found", "detail": "job '7' does not exist"}
    async with either(kind, answer=lambda _: httpx.Response(404, json=problem)) as client:
        with pytest.raises(ClientError, match="404 not_found: job '7' does not exist"):
            await anext(client.each("job_events", 7))


async def test_the_key_is_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODSERVE_API_KEY", "of the environment")
    for options, expected in (({}, "of the environment"), ({"key": "own"}, "own")):
        server = Recorder()
        async with either(kind, answer=server, **options) as client:
            await client.models()
        assert server.requests[0].headers["authorization"] == f"Bearer {expected}"


async def test_leaving_an_iterator_closes_its_stream(kind: str) -> None:
    closed = []

    class Watched(Stream):
        def close(self) -> None:
            closed.append(True)

        async def aclose(self) -> None:
            closed.append(True)

    stream = Watched(events([1, 2], False)._pieces, False)
    async with either(kind, answer=Recorder(httpx.Response(200, stream=stream))) as client:
        found: Any = client.each("job_events", 7)
        await anext(found)
        await found.aclose()
    assert closed == [True]


def test_importing_a_client_loads_only_what_it_needs(kind: str) -> None:
    heavy = {"numpy", "pydantic", "core"} | ({"asyncio"} if kind == "Client" else set())
    code = f"import sys; from app.client import {kind}; print({heavy} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


async def test_the_sync_client_works_inside_an_event_loop(kind: str) -> None:
    if kind == "Client":
        with Client("http://test", transport=httpx.MockTransport(Recorder())) as client:
            assert client.models() == []
