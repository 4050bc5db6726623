"""Requests and answers: what all calls of the client are made of."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
import numpy.typing as npt

from app.tensors.codec import JSON, NPZ, decode, encode

__all__ = ["Arrays", "ClientError", "Connection", "decoded"]

_KEY_VARIABLE = "MODSERVE_API_KEY"

_MANY_BYTES = 1 << 16
"""More are sent in pieces. Of bytes sent as they are httpcore copies, whenever the socket has taken
some, all that are left: 400 MB took ten seconds."""

Arrays = dict[str, npt.NDArray[Any]]


class ClientError(Exception):
    """The server refused a call.

    Attributes:
        status: HTTP status.
        problem: the body of the answer.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('code', '')}: {problem.get('detail', '')}")
        self.status = status
        self.problem = problem


class Connection:
    """A server, and what is sent to it.

    Args:
        base_url: for example ``http://127.0.0.1:8000``.
        key: the API key to ask with; None takes that of MODSERVE_API_KEY, if there is one.
        timeout_seconds: of a call that is no stream.
        transport: replaces the network, in tests.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        timeout_seconds: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        *,
        key: str | None = None,
    ) -> None:
        key = os.environ.get(_KEY_VARIABLE) if key is None else key
        self._http = httpx.Client(
            base_url=base_url,
            timeout=timeout_seconds,
            transport=transport,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self, method: str, path: str, *, content: Any = None, **options: Any
    ) -> httpx.Response:
        """Make a call; raise ClientError where it is refused."""
        if isinstance(content, bytes) and len(content) > _MANY_BYTES:
            content = io.BytesIO(content)
        return _checked(self._http.request(method, path, content=content, **options))

    def is_ready(self) -> bool:
        """Tell whether the server answers and is ready."""
        try:
            return self._http.get("/readyz", timeout=2.0).status_code == 200
        except httpx.TransportError:
            return False

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        parsed: dict[str, Any] = self.request(method, path, **options).json()
        return parsed

    def _items(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """Return the items of all pages of a list."""
        where = {name: value for name, value in params.items() if value is not None}
        rows: list[dict[str, Any]] = []
        while True:
            page = self._json("GET", path, params=where)
            rows += page["items"]
            if page.get("next_cursor") is None:
                return rows
            where["cursor"] = page["next_cursor"]

    def _tensors(self, path: str, kind: str = NPZ) -> Arrays:
        """Fetch tensors by name; a lone one is ``data``."""
        return decoded(self.request("GET", path, headers={"Accept": kind}))

    def _send_tensors(
        self,
        method: str,
        path: str,
        tensors: Mapping[str, npt.ArrayLike],
        fields: Mapping[str, Any] | None = None,
        accept: str = JSON,
        **options: Any,
    ) -> httpx.Response:
        """Send tensors, as JSON where other fields go with them."""
        arrays = {name: np.asarray(value) for name, value in tensors.items()}
        kind = JSON if fields else NPZ
        headers = {"Content-Type": kind, "Accept": accept}
        body = encode(kind, arrays, "inputs", fields)
        return self.request(method, path, content=body, headers=headers, **options)

    def _exchange(
        self,
        path: str,
        tensors: Mapping[str, npt.ArrayLike],
        fields: Mapping[str, Any],
        **options: Any,
    ) -> Arrays:
        """Post tensors and return those of the answer."""
        return decoded(self._send_tensors("POST", path, tensors, fields, NPZ, **options))

    def _upload(self, path: str, file: Path, **options: Any) -> dict[str, Any]:
        with file.open("rb") as stream:
            return self._json("PUT", path, content=stream, **options)

    @contextmanager
    def _stream(self, path: str, **options: Any) -> Iterator[httpx.Response]:
        """Fetch what is read bit by bit."""
        with self._http.stream("GET", path, **options) as response:
            yield _checked(response)

    def _download(self, path: str, target: Path) -> None:
        with self._stream(path) as response, target.open("wb") as file:
            for chunk in response.iter_bytes():
                file.write(chunk)


def decoded(response: httpx.Response) -> Arrays:
    """Return the tensors of an answer."""
    arrays, _ = decode(
        response.headers["content-type"],
        response.content,
        names=["data"],
        limit=2**40,
        setting="the server's answer",
    )
    return arrays


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    response.read()
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": response.text[:500]}
    raise ClientError(response.status_code, problem)
