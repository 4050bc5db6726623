"""A remote module's connection to its module on the server."""

from __future__ import annotations

import contextlib
import uuid
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import httpx

from app.client import Client, ClientError
from app.client.tensors import Arrays, decoded
from app.remote.pipeline import StepPipeline
from app.tensors.codec import SAFETENSORS, encode

__all__ = ["Session"]


class Session:
    """A module on a server, created by this process.

    Args:
        server: a client of the server, or its URL.
        name: of the module; without one it gets a generated name and is deleted at the end.
        body: the module's definition, as ``POST /v1/modules`` takes it.

    Raises:
        ClientError: the server refuses the module, or already has one of this name.
    """

    def __init__(self, server: Client | str, name: str | None, body: Mapping[str, Any]) -> None:
        is_own = isinstance(server, str)
        self.client = Client(server) if isinstance(server, str) else server
        self.name = name or f"remote-{uuid.uuid4().hex[:12]}"
        try:
            self.client.request("POST", "/v1/modules", json={"name": self.name, **body})
        except BaseException:
            if is_own:
                self.client.close()
            raise
        self._pipeline = StepPipeline(self.client, self.name)
        self._last: Future[Arrays] | None = None
        self._is_read = True
        # Also when a script drops the module or ends without ``close``. The arguments must not
        # refer to this object, which they would keep alive.
        end = (self._pipeline, self.client, self.name if name is None else None)
        self._end = weakref.finalize(self, _end, *end, is_own)
        self.resume()

    def resume(self) -> None:
        """Ask for the module's position and continue from there, whatever failed before."""
        view = self.client.module(self.name)
        live = view.get("live")
        self._pipeline.begin(view["generation"], (live and live.get("sequence")) or 0)
        self._last = None

    def step(self, verb: str, tensors: Mapping[str, Any], **fields: Any) -> None:
        """Make a step-level call without waiting for it."""
        if "forward" not in verb:
            self._pipeline.call(verb, tensors, **fields)
            return
        # If the outputs of the last pass were not read, the next ones most likely will not be
        # either.
        with_outputs, self._is_read = self._is_read, False
        answer = self._pipeline.call(verb, tensors, with_outputs=with_outputs, **fields)
        self._last = answer if with_outputs else None

    def outputs(self) -> Arrays:
        """Return the outputs of the last pass, waiting for it."""
        self._is_read = True
        return self.fetch("outputs") if self._last is None else self._last.result()

    def fetch(self, path: str) -> Arrays:
        """Return tensors of the module, after all pending calls."""
        self._pipeline.wait()
        headers = {"Accept": SAFETENSORS}
        return decoded(self.client.request("GET", self._path(path), headers=headers))

    def send(self, path: str, tensors: Mapping[str, Any], **flags: Any) -> None:
        """Set tensors of the module after all pending calls; this clears an earlier failure."""
        with contextlib.suppress(ClientError, httpx.TransportError):
            self._pipeline.wait()
        self.client.request(
            "PUT",
            self._path(path),
            content=encode(SAFETENSORS, dict(tensors), "inputs", None),
            headers={"Content-Type": SAFETENSORS},
            params=flags,
        )
        self.resume()

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make another call on the module, after all pending calls."""
        self._pipeline.wait()
        answer: dict[str, Any] = self.client.request("POST", self._path(path), json=body).json()
        self.resume()
        return answer

    def wait(self) -> None:
        """Wait until all calls are done; raise the error of the first one that failed."""
        self._pipeline.wait()

    def _path(self, path: str) -> str:
        return f"/v1/modules/{self.name}/{path}"

    def close(self) -> None:
        """Finish the calls; delete the module if it was given no name."""
        self._end()


def _end(pipeline: StepPipeline, client: Client, name: str | None, is_own: bool) -> None:
    pipeline.close()
    with contextlib.suppress(ClientError, httpx.TransportError):
        if name is not None:
            client.delete_module(name)
    if is_own:
        client.close()
