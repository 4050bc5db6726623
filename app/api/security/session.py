"""The session of a browser: logging in with an API key, so that pages need not keep it.

Programs send their key with each request and need no session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.bodies import read_object
from app.api.openapi import json_body, problems
from app.api.problems import PROBLEM_JSON
from app.api.security.key_guard import identify
from app.api.security.session_cookie import cookie_field, session_token
from app.domain.api_key import ApiKey, KeyScope
from app.domain.codec import STRICT_FIELDS
from app.errors.refusals import Unauthorized
from app.services.access.key_ring import KeyRing
from app.services.access.sessions import Sessions

__all__ = ["router"]

router = APIRouter(prefix="/session", tags=["operations"])

_NO_KEY = {
    "description": "The key is not valid",
    "content": {
        PROBLEM_JSON: {
            "schema": {"$ref": "#/components/schemas/ProblemView"},
            "examples": {"unauthorized": {"$ref": "#/components/examples/unauthorized"}},
        }
    },
}


@dataclass(frozen=True, slots=True)
class LogIn:
    """Credentials for a login.

    Attributes:
        key: an API key.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    key: str


class SessionView(BaseModel):
    """The key in use, and its scopes."""

    key_needed: bool = Field(description="Whether the server requires an API key.")
    name: str | None = Field(
        description="Name of the key; null if none was sent.", examples=["lab"]
    )
    scopes: list[KeyScope] = Field(description="All scopes of the key, including implied ones.")


@router.get("", summary="Describe the session", responses=problems())
async def get_session(request: Request) -> SessionView:
    """Return the key that the request sends, or that of its session, and its scopes."""
    state = request.app.state
    try:
        key = identify(request.scope, state.keys, state.sessions)
    except Unauthorized:
        key = None
    return _view(state.keys, key)


@router.post(
    "",
    summary="Log in",
    openapi_extra=json_body(LogIn, {"key": "msk_0123456789ab_…"}),
    responses={**problems(400, 413, 415, 422), 401: _NO_KEY},
)
async def create_session(request: Request, response: Response) -> SessionView:
    """Begin a browser session: a cookie that represents the key, for a week at most.

    It ends with the key, with the server, and with `DELETE /session`.
    """
    sessions: Sessions = request.app.state.sessions
    ring: KeyRing = request.app.state.keys
    body = await read_object(request, LogIn)
    key = ring.identify([body.key.strip()])
    response.headers["Set-Cookie"] = cookie_field(request.scope, sessions.begin(key))
    return _view(ring, key)


@router.delete("", status_code=204, summary="Log out", responses=problems())
async def delete_session(request: Request, response: Response) -> None:
    """End the session of the request, if it has one."""
    token = session_token(request.scope)
    if token is not None:
        request.app.state.sessions.end(token)
    response.headers["Set-Cookie"] = cookie_field(request.scope, None)


def _view(ring: KeyRing, key: ApiKey | None) -> SessionView:
    allowed: list[Any] = [
        scope
        for scope in KeyScope
        if not ring.is_in_force or (key is not None and key.allows((scope,)))
    ]
    return SessionView(
        key_needed=ring.is_in_force, name=None if key is None else key.name, scopes=allowed
    )
