"""What routes take from the request."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Param, ParamTypes

from app.domain.names import NAME_PATTERN, Pattern
from app.errors.answers import is_of_protocol
from app.errors.quoting import brief
from app.errors.tree import Invalid, Malformed, UnsupportedCoding
from app.services.access.idempotency import Replay
from app.services.services import Services

__all__ = [
    "Cursor",
    "DatasetName",
    "IdempotencyKey",
    "JobId",
    "Limit",
    "ModuleName",
    "NamePattern",
    "ServicesOf",
    "VersionName",
    "VersionQuery",
    "refuse_coding",
    "refuse_part",
    "refuse_unknown_query",
    "tell_replay",
]


async def refuse_unknown_query(request: Request) -> None:
    """Refuse unknown query parameters, because a misspelt one would be ignored silently.

    The Open Inference Protocol defines none, and its clients add some that are meant for other
    servers.
    """
    if not request.scope["query_string"] or is_of_protocol(request.scope["path"]):
        return
    declared = get_flat_params(request.scope["route"].dependant)
    known = [one.alias for one in declared if cast(Param, one.field_info).in_ is ParamTypes.query]
    for name in request.query_params:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "no query parameters"
            raise Invalid(name, request.query_params[name], expected)


async def refuse_coding(request: Request) -> None:
    """Refuse a compressed body, because it would be parsed without decompressing it.

    The Open Inference Protocol supports some codings, and refuses others with its own errors.
    """
    coding = request.headers.get("content-encoding", "").strip()
    if coding.lower() not in ("", "identity") and not is_of_protocol(request.scope["path"]):
        raise UnsupportedCoding(coding)


async def refuse_part(request: Request) -> None:
    """Refuse a part of a file, as ``curl -C`` sends it, because it would be taken for the whole."""
    part = request.headers.get("content-range")
    if part is not None and request.method in ("PUT", "POST", "PATCH"):
        raise Malformed(
            f"the body is a part of a file (Content-Range: {brief(part)}), and parts are not put "
            "together here; send the whole file, with curl -T but without -C"
        )


async def _services(request: Request) -> Services:
    # Asynchronous, because FastAPI runs each plain function in a thread.
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(_services)]


async def _actual_module(
    module: Annotated[
        str, Path(pattern=f"^{NAME_PATTERN}$", description="Name of a module.", examples=["lenet"])
    ],
    services: ServicesOf,
) -> str:
    return services.access.actual(module)


ModuleName = Annotated[str, Depends(_actual_module)]
"""The module of a name: of the models folder, else one created by a client."""
VersionName = Annotated[
    str,
    Path(
        pattern=f"^{NAME_PATTERN}$",
        description="A version: the number of an epoch, `live`, `latest` or a label.",
        examples=["3"],
    ),
]
VersionQuery = Annotated[
    str | None,
    Query(
        pattern=f"^{NAME_PATTERN}$",
        description="The version to answer: the number of an epoch, `live`, "
        "`latest` or a label. By default the promoted version, else "
        "`live`; a canary then answers its share of the requests.",
    ),
]
DatasetName = Annotated[
    str, Path(pattern=f"^{NAME_PATTERN}$", description="Name of a dataset.", examples=["mnist"])
]
JobId = Annotated[int, Path(ge=1, lt=2**63, description="Number of a job.", examples=[1])]
Cursor = Annotated[
    str | None, Query(description="`next_cursor` of the previous page; absent for the first.")
]
Limit = Annotated[int, Query(ge=1, le=200, description="Maximum number of items per page.")]
NamePattern = Annotated[
    Pattern,
    Query(
        description="Patterns of names, as for files: `*` stands for any characters, `?` for one."
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        max_length=200,
        description="Makes the request safe to repeat: a repetition is not carried "
        "out again but answered as the first one was, with "
        "`Idempotency-Replayed`.",
    ),
]


def tell_replay(response: Response, replay: Replay) -> None:
    """Mark the answer as that of an earlier request with the same ``Idempotency-Key``."""
    if replay.is_replayed:
        response.headers["Idempotency-Replayed"] = "true"
