"""Calls on the server itself: readiness, executors, models folder, events, error codes."""

from __future__ import annotations

from typing import Any

import httpx

from app.client.bodies import Given
from app.client.follow import Events, Ready
from app.client.methods import iterator, method
from app.client.module_results import FolderModelView
from app.client.request import AsJson, Items, Pages, Request, at, unread
from app.client.results import ErrorCodeView, ExecutorView

__all__ = ["ServerCalls"]


class ServerCalls:
    """Calls on the server itself."""

    @method
    def request(
        self, /, verb: str, path: str, *, content: Any = None, **options: Any
    ) -> Request[httpx.Response]:
        """Send any request, once; return the response.

        Args:
            verb: HTTP method.
            path: from the server's root.
            content: the body.
            **options: ``params``, ``json``, ``headers``, ``data`` and ``files``, as in httpx.
        """
        return Request(verb, path, unread, body=Given(content, options), is_once=True)

    @method
    def is_ready(self) -> Ready:
        """Return whether the server answers and is ready."""
        return Ready(0.0)

    @method
    def wait_until_ready(self, timeout_seconds: float = 60.0) -> Ready:
        """Wait until the server is ready; return whether it was within that time."""
        return Ready(timeout_seconds)

    @iterator
    def events(self, /, after: int | None = 0, **filters: Any) -> Events:
        """Yield events of jobs, modules and executors endlessly, all or those that match filters.

        A broken stream is resumed where it broke, even after a restart of the server.

        Args:
            after: only events with ids after this one; None for new ones only.
            filters: ``job``, ``module``, ``executor``, ``type`` (one or a list).

        Raises:
            httpx.TransportError: the server did not come back within half a minute.
        """
        return Events("/v1/events", after, filters)

    @method
    def executors(self, /, **filters: Any) -> Pages[ExecutorView]:
        """Return each executor's state, device and memory.

        Args:
            filters: ``name``, ``state`` (one or a list).
        """
        return Pages(at("executors"), ExecutorView, filters)

    @method
    def models(self) -> Request[list[FolderModelView]]:
        """Return the models of the server's models folder."""
        return Request("GET", at("models"), Items(FolderModelView))

    @method
    def reload_models(self) -> Request[list[FolderModelView]]:
        """Make the server read its models folder now; return the models."""
        return Request("POST", at("models", "reload"), Items(FolderModelView))

    @method
    def error_codes(self) -> Pages[ErrorCodeView]:
        """Return all error codes, with advice on each."""
        return Pages(at("errors"), ErrorCodeView)

    @method
    def error_code(self, code: str) -> Request[ErrorCodeView]:
        """Return what an error code means and what to do about it."""
        return Request("GET", at("errors", code), AsJson(ErrorCodeView))
