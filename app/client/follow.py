"""Calls of more than one request: following events, waiting for jobs and servers, downloads."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.client.bodies import Progress
from app.client.exchange import Exchange
from app.client.request import AsJson, Request, at, nothing
from app.client.results import EventView, JobView

__all__ = ["Download", "Ended", "Events", "NotedDownload", "Ready"]

_RECONNECT_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_ENDS = ("succeeded", "failed", "cancelled")
_SILENT_SECONDS = 60.0
"""A stream that is silent for this long is broken: a working server sends something sooner."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a stream, which is resumed where it broke.

    Attributes:
        path: path of the stream.
        after: the id after which the events start; None for new ones only.
        filters: query parameters of the stream.
        deadline: when to raise TimeoutError, by ``time.monotonic()``.
        job_id: the job with which the stream ends; without one it never ends.
    """

    path: str
    after: int | None = 0
    filters: Mapping[str, Any] | None = None
    deadline: float | None = None
    job_id: int | None = None

    @classmethod
    def of_job(cls, job_id: int, after: int = 0, *, deadline: float | None = None) -> Events:
        """Return the events of a job, until it ends."""
        path = at("jobs", job_id, "events")
        return cls(path, after, deadline=deadline, job_id=job_id)

    async def follow(self, exchange: Exchange) -> AsyncGenerator[EventView]:
        """Yield the events.

        Raises:
            ClientError: the server refuses the stream.
            httpx.TransportError: the stream broke, and the server did not come back within half a
                minute.
            TimeoutError: the stream had not ended by the deadline.
        """
        after = self.after
        while True:
            try:
                async with aclosing(self._once(exchange, after)) as found:
                    async for number, data in found:
                        after = number
                        if data:
                            yield json.loads(data)
                if await self._is_over(exchange):
                    return
                # The server is shutting down, or had to stop reading. It may be back in a moment.
                await exchange.transport.sleep(_PAUSE_SECONDS)
            except httpx.TransportError:
                if not await exchange.comes_back(min(_RECONNECT_SECONDS, self._left())):
                    self._check_time()
                    raise

    async def _is_over(self, exchange: Exchange) -> bool:
        """Return whether a stream that ended normally is complete."""
        if self.job_id is None:
            return False
        return (await _job(self.job_id).make(exchange))["status"] in _ENDS

    async def _once(
        self, exchange: Exchange, after: int | None
    ) -> AsyncGenerator[tuple[int | None, str]]:
        """Yield the id and the data of one stream's events until it ends; some have no data.

        An event is complete only with its empty line. If the stream breaks before it, the server is
        asked for the event again.
        """
        where = dict(self.filters or {})
        headers = {}
        if after is None:
            where["after"] = "latest"
        else:
            headers["Last-Event-ID"] = str(after)
        request = Request(
            "GET", self.path, nothing, query=where, accept="text/event-stream", headers=headers
        )
        timeout = httpx.Timeout(10.0, read=min(_SILENT_SECONDS, max(0.001, self._left())))
        async with (
            exchange.streamed(request, timeout) as response,
            aclosing(exchange.transport.lines(response)) as lines,
        ):
            data = ""
            async for line in lines:
                self._check_time()
                name, _, value = line.partition(":")
                if name == "id":
                    after = int(value)
                elif name == "data":
                    data = value
                elif not line:
                    yield after, data
                    data = ""

    def _left(self) -> float:
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def _check_time(self) -> None:
        if self._left() <= 0:
            raise TimeoutError(f"{self.path}: the stream did not end within the time limit")


@dataclass(frozen=True, slots=True)
class Ended:
    """Waits for a job to end.

    Attributes:
        job_id: id of the job.
        timeout_seconds: how long to wait; None for no limit.
    """

    job_id: int
    timeout_seconds: float | None

    async def make(self, exchange: Exchange) -> JobView:
        """Follow the job to its end and return it; raise TimeoutError if that takes too long."""
        deadline = None
        if self.timeout_seconds is not None:
            deadline = time.monotonic() + self.timeout_seconds
        events = Events.of_job(self.job_id, deadline=deadline)
        async with aclosing(events.follow(exchange)) as found:
            async for _ in found:
                pass
        return await _job(self.job_id).make(exchange)


@dataclass(frozen=True, slots=True)
class Ready:
    """Waits for a server to be ready, for a limited time."""

    within_seconds: float

    async def make(self, exchange: Exchange) -> bool:
        """Poll the server until it is ready or the time is up."""
        return await exchange.comes_back(self.within_seconds)


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is downloaded completely or not at all.

    Attributes:
        path: on the server.
        target: path to write it to.
        progress: called with the bytes received so far, and the total.
    """

    path: str
    target: Path
    progress: Progress | None = None

    async def make(self, exchange: Exchange) -> None:
        """Download the file under another name, and rename it when it is complete."""
        await self.download(exchange)

    async def download(self, exchange: Exchange) -> httpx.Headers:
        """Download the file; return the headers of the response."""
        # Such as /dev/stdout, which cannot be replaced by a file.
        is_special = self.target.exists() and not self.target.is_file()
        part = self.target if is_special else self.target.with_name(self.target.name + ".part")
        try:
            headers = await self._write(exchange, part)
            if not is_special:
                os.replace(part, self.target)
            return headers
        except BaseException:
            if not is_special:
                part.unlink(missing_ok=True)
            raise

    async def _write(self, exchange: Exchange, path: Path) -> httpx.Headers:
        request = Request("GET", self.path, nothing)
        async with exchange.streamed(request) as response:
            total, got = int(response.headers.get("Content-Length", 0)), 0
            pieces = exchange.transport.pieces(response)
            with path.open("wb") as file:
                async with aclosing(pieces):
                    async for piece in pieces:
                        file.write(piece)
                        got += len(piece)
                        if self.progress is not None:
                            self.progress(got, total)
            return response.headers


@dataclass(frozen=True, slots=True)
class NotedDownload:
    """A file that the server generates on request, with notes about it."""

    download: Download

    async def make(self, exchange: Exchange) -> list[str]:
        """Download the file; return the notes."""
        headers = await self.download.download(exchange)
        notes: list[str] = json.loads(headers.get("X-Onnx-Notes", "[]"))
        return notes


def _job(job_id: int) -> Request[JobView]:
    return Request("GET", at("jobs", job_id), AsJson(JobView))
