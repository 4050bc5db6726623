"""The dashboard, the API reference and the guides: the same for everyone.

Pages are built by Vite from app/dashboard. They contain no data: their scripts request it as any
client does. The reference shows the OpenAPI document, which is served here as well.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import mimetypes
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.api.document import document_endpoint
from app.errors.tree import NotFound
from app.guides.reading import FILES, read_guide

__all__ = ["install_pages"]

_FOLDER = Path(__file__).parents[1] / "static"
_PAGES = {"/": "index.html", "/docs": "docs.html"}
_FILES = "/static/{file}"
_GUIDES, _GUIDE_FILES = "/guides/{guide}", "/guides/files/{file}"
_DOCUMENT = "/openapi.json"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
_NO_GZIP = re.compile(r"\bgzip\s*;\s*q\s*=\s*0(\.0*)?\s*(,|$)", re.IGNORECASE)
_PAGE_LIFE = "no-cache"
_FILE_LIFE = "public, max-age=31536000, immutable"  # a change of the content changes the name


@dataclass(frozen=True)
class _File:
    media_type: str
    etag: str
    plain: bytes
    packed: bytes


class _PageRoute(Route):
    """A route outside of the API: it ignores the query, and is counted under its path."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        await super().handle(scope, receive, send)


def install_pages(app: FastAPI) -> None:
    """Add the routes."""
    endpoints = {path: _page(name) for path, name in _PAGES.items()}
    endpoints |= {_FILES: _static, _GUIDES: _guide, _GUIDE_FILES: _guide_file}
    endpoints[_DOCUMENT] = document_endpoint(app)
    app.router.routes += [
        _PageRoute(path, endpoint, include_in_schema=False) for path, endpoint in endpoints.items()
    ]


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return _answer(request, _file(name), _PAGE_LIFE)

    return page


async def _static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _names() - set(_PAGES.values()):
        raise NotFound("path", request.url.path, "load the page again: the server was updated")
    return _answer(request, _file(name), _FILE_LIFE)


async def _guide(request: Request) -> Response:
    name = request.path_params["guide"]
    try:
        file = _guide_of(name)
    except KeyError:
        raise NotFound("guide", name, "/guides/index lists them") from None
    return _answer(request, file, _PAGE_LIFE)


async def _guide_file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in FILES:
        raise NotFound("path", request.url.path, "guides name the files that are there")
    return _answer(request, _read(FILES[name]), _PAGE_LIFE)


def _answer(request: Request, file: _File, life: str) -> Response:
    headers = {**_HEADERS, "ETag": file.etag, "Cache-Control": life}
    accepted = request.headers.get("accept-encoding", "")
    if "gzip" not in accepted.lower() or _NO_GZIP.search(accepted):
        return Response(file.plain, headers=headers, media_type=file.media_type)
    headers |= {"Content-Encoding": "gzip", "ETag": f'{file.etag[:-1]}-gzip"'}
    return Response(file.packed, headers=headers, media_type=file.media_type)


@cache
def _names() -> frozenset[str]:
    return frozenset(path.name for path in _FOLDER.iterdir())


def _file(name: str) -> _File:
    return _read(_FOLDER / name)


@cache
def _read(path: Path) -> _File:
    kind, packing = mimetypes.guess_type(path.name)
    if packing is not None:
        kind = f"application/{packing}"
    return _made(kind or "application/octet-stream", path.read_bytes())


@cache
def _guide_of(name: str) -> _File:
    return _made("application/json", json.dumps(read_guide(name)).encode())


def _made(kind: str, plain: bytes) -> _File:
    etag = f'"{hashlib.sha256(plain).hexdigest()[:16]}"'
    return _File(kind, etag, plain, gzip.compress(plain, mtime=0))
