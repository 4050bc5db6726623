"""The cookie that identifies a browser that has logged in.

Only the server's own pages can use it. ``SameSite=Strict`` withholds it from pages of other sites,
but not from another port of this host, nor from origins that the settings allow to send a key:
therefore the request must come from a page of exactly this origin. It has no ``Path``, because
browsers then use the folder of ``session``, under whatever path a proxy has put the server.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from app.api.security.origins import is_same_origin
from app.domain.api_key import ApiKey
from app.services.access.sessions import Sessions

__all__ = ["cookie_field", "session_key", "session_token"]

_NAME = "modserve_session"


def session_key(scope: Scope, sessions: Sessions) -> ApiKey | None:
    """Return the key of the session that a request belongs to; None if it has none."""
    token = session_token(scope)
    return None if token is None else sessions.key_of(token)


def session_token(scope: Scope) -> str | None:
    """Return the session token in a request of our own pages; None if there is none."""
    headers = Headers(scope=scope)
    name = _name(headers)
    # Other servers on this host may set malformed cookies: they are skipped.
    pairs = (one.strip().partition("=") for one in ";".join(headers.getlist("cookie")).split(";"))
    token = next((value for found, _, value in pairs if found == name and value), None)
    return token if token and is_same_origin(scope["method"], headers) else None


def cookie_field(scope: Scope, token: str | None) -> str:
    """Return ``Set-Cookie`` that makes a browser keep a token, or forget it if that is None."""
    name = _name(Headers(scope=scope))
    life = f"{name}={token}" if token is not None else f"{name}=; Max-Age=0"
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return f"{life}; HttpOnly; SameSite=Strict{secure}"


def _name(headers: Headers) -> str:
    """Return the cookie's name, which includes the port, because browsers share cookies between
    ports.
    """
    _, _, port = headers.get("host", "").rpartition(":")
    return f"{_NAME}_{port}" if port.isascii() and port.isdigit() else _NAME
