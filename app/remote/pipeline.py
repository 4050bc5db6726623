"""Step-level calls on a module of a server, made in order while the caller continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np

from app.client import Client, ClientError
from app.client.tensors import Arrays, decoded
from app.tensors.codec import SAFETENSORS, encode

__all__ = ["StepPipeline"]

_MOST_PENDING = 4
"""Calls that may be unanswered; the caller waits before it makes one more."""
_RETRY_SECONDS = 30.0
"""How long a call is retried while the server is restarting or too busy."""
_PAUSE_SECONDS = 0.2


class StepPipeline:
    """The step-level calls of one loop, each done exactly once.

    Calls are numbered: if the connection breaks before the answer arrives, the call is sent again,
    and the server repeats the answer without repeating the work. After a call is refused, the calls
    behind it are dropped, and its error is raised by the next ``call`` or ``wait``.

    Args:
        client: of the server.
        name: of the module.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._path = f"/v1/modules/{name}/"
        self._thread = ThreadPoolExecutor(1, f"steps of {name}")  # one, which keeps the order
        self._slots = threading.BoundedSemaphore(_MOST_PENDING)
        self._failure: Exception | None = None
        self._generation = 0
        self._sequence = 0

    def begin(self, generation: int, sequence: int) -> None:
        """Continue from the module's position on the server; forget an earlier failure."""
        self._drain()
        self._failure = None
        self._generation, self._sequence = generation, sequence

    def call(self, verb: str, tensors: Mapping[str, Any], **fields: Any) -> Future[Arrays]:
        """Make a call without waiting for it.

        Args:
            verb: ``forward``, ``forward_backward``, ``backward`` or ``update``.
            tensors: by name, on the host; they must not be changed afterwards.
            **fields: further fields of the query.

        Returns:
            The tensors of the answer, none of ``backward`` and ``update``.

        Raises:
            ClientError, httpx.TransportError: an earlier call failed.
        """
        self._raise_failure()
        self._slots.acquire()
        return self._thread.submit(self._make, verb, tensors, fields)

    def wait(self) -> None:
        """Wait until all calls are done; raise the first call's error if one failed."""
        self._drain()
        self._raise_failure()

    def close(self) -> None:
        """Finish the calls and end the thread."""
        self._thread.shutdown()

    def _drain(self) -> None:
        self._thread.submit(lambda: None).result()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _make(self, verb: str, tensors: Mapping[str, Any], fields: Mapping[str, Any]) -> Arrays:
        try:
            self._raise_failure()
            where = {"generation": self._generation, "sequence": self._sequence + 1, **fields}
            answer = self._send(verb, tensors, where)
            self._sequence += 1
            return decoded(answer) if answer.headers["content-type"] == SAFETENSORS else {}
        except Exception as error:
            self._failure = self._failure or error
            raise
        finally:
            self._slots.release()

    def _send(
        self, verb: str, tensors: Mapping[str, Any], where: Mapping[str, Any]
    ) -> httpx.Response:
        arrays = {name: np.asarray(one) for name, one in tensors.items()}
        content = encode(SAFETENSORS, arrays, "inputs", None) if arrays else b""
        headers = {"Accept": SAFETENSORS} if "forward" in verb else {}  # others answer JSON
        if arrays:
            headers["Content-Type"] = SAFETENSORS
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                return self._client.request(
                    "POST", self._path + verb, content=content, headers=headers, params=where
                )
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            except ClientError as error:
                # After a restart the module has another generation, so that a call that needs lost
                # state is refused with 412 instead of being repeated.
                if error.status != 503 or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)
