"""Calls that are more than a request: events, waiting for jobs and servers, files fetched."""

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
"""A stream is broken that says nothing for as long; a server says something more often."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a stream, which is taken up again where it broke.

    Attributes:
        path: of the stream.
        after: the id after which they begin; None for those from now on.
        filters: of the stream.
        deadline: by ``time.monotonic()``, when TimeoutError is raised.
        job_id: of the job with which the stream ends; one of none never ends.
    """

    path: str
    after: int | None = 0
    filters: Mapping[str, Any] | None = None
    deadline: float | None = None
    job_id: int | None = None

    @classmethod
    def of_job(cls, job_id: int, after: int = 0, *, deadline: float | None = None) -> Events:
        """Return those of a job, to its end."""
        path = at("jobs", job_id, "events")
        return cls(path, after, deadline=deadline, job_id=job_id)

    async def follow(self, exchange: Exchange) -> AsyncGenerator[EventView]:
        """Yield the events.

        Raises:
            ClientError: the server refuses the stream.
            httpx.TransportError: it broke, and the server did not come back within half a minute.
            TimeoutError: it goes on at the deadline.
        """
        after = self.after
        while True:
            try:
                async with aclosing(self._once(exchange, after)) as lines:
                    async for name, value in lines:
                        if name == "id":
                            after = int(value)
                        elif name == "data":
                            yield json.loads(value)
                if await self._is_over(exchange):
                    return
                # The server is ending, or could not read on. It may be back in a moment.
                await exchange.transport.sleep(_PAUSE_SECONDS)
            except httpx.TransportError:
                if not await exchange.comes_back(min(_RECONNECT_SECONDS, self._left())):
                    self._check_time()
                    raise

    async def _is_over(self, exchange: Exchange) -> bool:
        """Return whether a stream that ended well has said all that there is to say."""
        if self.job_id is None:
            return False
        return (await _job(self.job_id).make(exchange))["status"] in _ENDS

    async def _once(self, exchange: Exchange, after: int | None) -> AsyncGenerator[tuple[str, str]]:
        """Yield names and values of the fields of a stream until it ends."""
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
            async for line in lines:
                self._check_time()
                name, _, value = line.partition(":")
                yield name, value

    def _left(self) -> float:
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def _check_time(self) -> None:
        if self._left() <= 0:
            raise TimeoutError(f"{self.path}: it went on for as long as was to be waited")


@dataclass(frozen=True, slots=True)
class Ended:
    """A job once it has ended.

    Attributes:
        job_id: of the job.
        timeout_seconds: how long to wait; None for as long as it takes.
    """

    job_id: int
    timeout_seconds: float | None

    async def make(self, exchange: Exchange) -> JobView:
        """Follow the job to its end and return it; raise TimeoutError."""
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
    """Whether a server is ready, at the latest after some time."""

    within_seconds: float

    async def make(self, exchange: Exchange) -> bool:
        """Ask it, again and again until it is or the time is over."""
        return await exchange.comes_back(self.within_seconds)


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is fetched whole or not at all.

    Attributes:
        path: on the server.
        target: where it is written.
        progress: is told how much has come.
    """

    path: str
    target: Path
    progress: Progress | None = None

    async def make(self, exchange: Exchange) -> None:
        """Fetch it beside the target, and put it there once it is whole."""
        await self.fetched(exchange)

    async def fetched(self, exchange: Exchange) -> httpx.Headers:
        """Do so; return the headers of the answer."""
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
    """A file that is made when it is asked for, with notes about it."""

    download: Download

    async def make(self, exchange: Exchange) -> list[str]:
        """Fetch it as any other; return the notes."""
        headers = await self.download.fetched(exchange)
        notes: list[str] = json.loads(headers.get("X-Onnx-Notes", "[]"))
        return notes


def _job(job_id: int) -> Request[JobView]:
    return Request("GET", at("jobs", job_id), AsJson(JobView))
