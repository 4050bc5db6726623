"""The cookie by which a browser that has logged in is known.

Only the server's own pages are known by it. ``SameSite=Strict`` keeps it from pages of other sites,
but not from another port of this host, nor from origins that the settings allow to ask with a key:
so its request must have been made by a page of this very origin. It has no ``Path``, for browsers
then take the folder that ``session`` is in, wherever a proxy has put the server.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from app.api.sites import is_same_origin
from app.domain.api_key import ApiKey
from app.services.sessions import Sessions

__all__ = ["cookie_field", "session_key", "session_token"]

_NAME = "modserve_session"


def session_key(scope: Scope, sessions: Sessions) -> ApiKey | None:
    """Return the key of the session that a request belongs to; None if it has none."""
    token = session_token(scope)
    return None if token is None else sessions.key_of(token)


def session_token(scope: Scope) -> str | None:
    """Return what proves the session of a request of an own page; None if there is none."""
    headers = Headers(scope=scope)
    name = _name(headers)
    # Other servers of this host may have cookies of any form: theirs are skipped.
    pairs = (one.strip().partition("=") for one in ";".join(headers.getlist("cookie")).split(";"))
    token = next((value for found, _, value in pairs if found == name and value), None)
    return token if token and is_same_origin(scope["method"], headers) else None


def cookie_field(scope: Scope, token: str | None) -> str:
    """Return ``Set-Cookie`` that has a browser keep a token, or forget it where that is None."""
    name = _name(Headers(scope=scope))
    life = f"{name}={token}" if token is not None else f"{name}=; Max-Age=0"
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return f"{life}; HttpOnly; SameSite=Strict{secure}"


def _name(headers: Headers) -> str:
    """Return the cookie's name: browsers have one jar for all ports of a host."""
    _, _, port = headers.get("host", "").rpartition(":")
    return f"{_NAME}_{port}" if port.isascii() and port.isdigit() else _NAME
