"""The synchronous client."""

from __future__ import annotations

import copy
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import httpx

from app.client.callers import Caller
from app.client.checkpoints import CheckpointCalls
from app.client.datasets import DatasetCalls
from app.client.errors import InvalidKey
from app.client.exchange import Exchange
from app.client.inspection import InspectionCalls
from app.client.jobs import JobCalls
from app.client.modules import ModuleCalls
from app.client.predictions import PredictionCalls
from app.client.server import ServerCalls
from app.client.steps import StepCalls
from app.client.transport import BlockingTransport
from app.client.versions import VersionCalls

__all__ = ["Calls", "Client", "Options", "http_options"]

_KEY_VARIABLE = "MODSERVE_API_KEY"
_KEY_FILE_VARIABLE = "MODSERVE_API_KEY_FILE"


class Options(TypedDict, total=False):
    """Options that can differ from call to call; see ``Client``."""

    timeout_seconds: float | None
    retries: int


class Calls(
    ModuleCalls,
    CheckpointCalls,
    VersionCalls,
    StepCalls,
    InspectionCalls,
    PredictionCalls,
    JobCalls,
    DatasetCalls,
    ServerCalls,
):
    """The calls of both clients."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def with_options(self, **options: Unpack[Options]) -> Self:
        """Return a client with other options that shares this one's connections."""
        other = copy.copy(self)
        other._exchange = replace(self._exchange, **options)
        return other


class Client(Calls, Caller):
    """Calls a modserve server; it has a method for every operation.

    A call raises ``ClientError``, or one of its subclasses in ``app.client.errors``, if the server
    refuses it, and ``httpx.TransportError`` if the server cannot be reached. A call that is safe to
    repeat is retried if the connection breaks or the server is temporarily unavailable.

    Args:
        base_url: for example ``http://127.0.0.1:8000``.
        timeout_seconds: until the response starts, and for each part of it; does not apply to
            streams.
        transport: replaces the network, in tests.
        key: API key; None takes that of MODSERVE_API_KEY, or of the file that MODSERVE_API_KEY_FILE
            names, if either is set.
        retries: how often a call is retried.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        timeout_seconds: float | None = 60.0,
        transport: httpx.BaseTransport | None = None,
        *,
        key: str | None = None,
        retries: int = 2,
    ) -> None:
        self._http = httpx.Client(transport=transport, **http_options(base_url, key))
        super().__init__(Exchange(BlockingTransport(self._http), timeout_seconds, retries))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def http_options(base_url: str, key: str | None) -> dict[str, Any]:
    """Return the arguments of httpx's clients.

    Raises:
        httpx.InvalidURL: it is not an HTTP URL.
        InvalidKey: no key has such characters.
    """
    if not base_url.startswith(("http://", "https://")):
        raise httpx.InvalidURL(f"base_url is {base_url!r}; expected http://HOST:PORT or https://…")
    key = _key_of_environment() if key is None else _checked(key, "the API key")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return {"base_url": base_url, "headers": headers}


def _key_of_environment() -> str | None:
    key = os.environ.get(_KEY_VARIABLE)
    file = os.environ.get(_KEY_FILE_VARIABLE)
    if key is not None:
        return _checked(key, _KEY_VARIABLE)
    if not file:
        return None
    content = Path(file).read_bytes()
    # What Windows writes as a text file.
    coding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    return _checked(content.decode(coding, errors="replace"), f"{_KEY_FILE_VARIABLE}: {file}")


def _checked(key: str, where: str) -> str:
    text = key.strip()
    if not (text.isascii() and text.isprintable()):
        raise InvalidKey(f"{where} has other characters than a key; copy the key once more")
    return text
