"""Streams of server-sent events, which can be resumed where they broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
import structlog
from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from app.api.dependencies import JobId, ServicesOf
from app.api.filters import ALL, EventTypes, ExecutorNames, JobIds, ModuleNames
from app.api.openapi import problems
from app.api.v1.job_views import event_view
from app.domain.events import EventRow
from app.errors.tree import ServiceError
from app.services.jobs.jobs import EventFilter
from app.services.services import Services

__all__ = ["router"]

router = APIRouter(tags=["jobs"])

_log = structlog.get_logger(__name__)

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events; comments end what there was and keep a stream open.",
        "content": {
            "text/event-stream": {
                "itemSchema": {
                    "type": "object",
                    "required": ["id", "event", "data"],
                    "properties": {
                        "id": {"type": "string", "description": "For Last-Event-ID."},
                        "event": {"type": "string", "description": "Its type."},
                        "data": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "contentSchema": {"$ref": "#/components/schemas/EventView"},
                        },
                    },
                }
            }
        },
    }
}
_BEGINNING = b"retry: 1000\nid: %d\n\n"
"""Milliseconds after which a reader reconnects when the stream ends, to get the events after the
last id; the first id is that after which the stream begins.
"""

LastEventId = Annotated[
    int | None, Header(ge=0, lt=2**63, description="Send only events after this one.")
]
After = Annotated[
    str,
    Query(
        pattern="^(latest|[0-9]{1,18})$",
        description="The same as Last-Event-ID, which takes precedence; `latest` "
        "for future events only.",
    ),
]


@router.get(
    "/v1/jobs/{job}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={**_STREAM, **problems(404, 422)},
)
async def follow_job(
    job: JobId, services: ServicesOf, last_event_id: LastEventId = None, after: After = "0"
) -> StreamingResponse:
    """Stream the job's events as they happen, from the first or after a given one, to its end."""
    await asyncio.to_thread(services.jobs.get, job)
    begin = await _begin(services, last_event_id, after)
    return _stream(begin, services.jobs.stream(job, begin, _frame))


@router.get(
    "/v1/events",
    summary="Follow all events",
    response_class=StreamingResponse,
    responses={**_STREAM, **problems(422)},
)
async def follow_events(
    services: ServicesOf,
    job: JobIds = ALL,
    module: ModuleNames = ALL,
    executor: ExecutorNames = ALL,
    type: EventTypes = ALL,
    last_event_id: LastEventId = None,
    after: After = "0",
) -> StreamingResponse:
    """Stream the events of jobs, modules and executors as they happen, optionally filtered.

    An event must pass all filters, and match any of the values of each. Events of a finished job
    are kept as long as the job; of modules and executors the last `MODSERVE_KEEP_EVENTS` are kept.
    """
    wanted = EventFilter(jobs=job, modules=module, executors=executor, types=type)
    begin = await _begin(services, last_event_id, after)
    return _stream(begin, services.jobs.stream(None, begin, _frame, wanted))


async def _begin(services: Services, last_event_id: int | None, after: str) -> int:
    if last_event_id is not None:
        return last_event_id
    if after == "latest":
        return await asyncio.to_thread(services.jobs.newest_event_id)
    return int(after)


def _stream(begin: int, frames: AsyncIterator[bytes | None]) -> StreamingResponse:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(begin, frames), media_type="text/event-stream", headers=headers)


def _frame(row: EventRow) -> bytes:
    data = orjson.dumps(event_view(row).model_dump())
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (row.id, row.type.value.encode(), data)


async def _lines(begin: int, frames: AsyncIterator[bytes | None]) -> AsyncIterator[bytes]:
    yield _BEGINNING % begin
    try:
        async for frame in frames:
            yield b": still here\n\n" if frame is None else frame
    except ServiceError as error:
        # The answer has begun, so that only its end can signal the failure. Readers reconnect.
        _log.warning("a stream of events ends", reason=error.message)
