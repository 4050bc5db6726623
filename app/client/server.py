"""The server itself: whether it is ready, its executors, its models folder, its error codes."""

from __future__ import annotations

from typing import Any

import httpx

from app.client.bodies import Given
from app.client.follow import Events, Ready
from app.client.methods import iterator, method
from app.client.module_results import FolderModelView
from app.client.request import AsJson, Items, Pages, Request, as_it_is, at
from app.client.results import ErrorCodeView, ExecutorView

__all__ = ["ServerCalls"]


class ServerCalls:
    """Calls on the server itself."""

    @method
    def request(
        self, /, verb: str, path: str, *, content: Any = None, **options: Any
    ) -> Request[httpx.Response]:
        """Make any request, once; return the answer as it is.

        Args:
            verb: of HTTP.
            path: from the server's root.
            content: the body.
            **options: ``params``, ``json``, ``headers``, ``data`` and ``files``, as of httpx.
        """
        return Request(verb, path, as_it_is, body=Given(content, options), is_once=True)

    @method
    def is_ready(self) -> Ready:
        """Return whether the server answers and is ready."""
        return Ready(0.0)

    @method
    def wait_until_ready(self, timeout_seconds: float = 60.0) -> Ready:
        """Wait until the server is ready; tell whether it is by then."""
        return Ready(timeout_seconds)

    @iterator
    def events(self, /, after: int | None = 0, **filters: Any) -> Events:
        """Yield the events of jobs, modules and executors, or some, while they are asked for.

        A stream that breaks is taken up again where it broke, also by a server that was restarted.

        Args:
            after: only those after this id; None for only those that happen from now on.
            filters: ``job``, ``module``, ``executor``, ``type`` (one, or a list of several).

        Raises:
            httpx.TransportError: the server did not come back within half a minute.
        """
        return Events("/v1/events", after, filters)

    @method
    def executors(self, /, **filters: Any) -> Pages[ExecutorView]:
        """Return what is known of each executor: its state, device and memory.

        Args:
            filters: ``name``, ``state`` (one, or a list of several).
        """
        return Pages(at("executors"), ExecutorView, filters)

    @method
    def models(self) -> Request[list[FolderModelView]]:
        """Return the models of the server's models folder."""
        return Request("GET", at("models"), Items(FolderModelView))

    @method
    def reload_models(self) -> Request[list[FolderModelView]]:
        """Have the server look at its models folder now; return the models."""
        return Request("POST", at("models", "reload"), Items(FolderModelView))

    @method
    def error_codes(self) -> Pages[ErrorCodeView]:
        """Return all error codes, with what to do about each."""
        return Pages(at("errors"), ErrorCodeView)

    @method
    def error_code(self, code: str) -> Request[ErrorCodeView]:
        """Return what an error code means and what to do about it."""
        return Request("GET", at("errors", code), AsJson(ErrorCodeView))
