"""Methods that are defined once for both clients.

A definition returns the call as a value. As a method of ``Client`` it makes the call and returns
the result; as a method of ``AsyncClient`` it returns an awaitable::

    class JobCalls:
        @method
        def job(self, job_id: int) -> Request[JobView]:
            return Request("GET", at("jobs", job_id), AsJson(JobView))

    client.job(7)               # a JobView
    await async_client.job(7)   # a JobView
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from app.client.callers import AsyncCaller, Call, Caller, Followed

__all__ = ["iterator", "method"]

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


class _Described:
    """Binds a definition to a client, which makes the call that it returns."""

    _makes: str

    def __init__(self, describe: Callable[..., Any]) -> None:
        self.describe = describe
        makes = self._makes

        @functools.wraps(describe)
        def bound(client: Any, /, *args: Any, **options: Any) -> Any:
            return getattr(client, makes)(describe(client, *args, **options))

        self._bound = bound

    def _of(self, client: Any) -> Any:
        # As functions do: from the class the function itself, for help() and inspect.
        return self._bound if client is None else MethodType(self._bound, client)


class method(_Described, Generic[P, T_co]):
    """Makes the definition of a call a method of both clients."""

    _makes = "_made"

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T_co]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, client: Caller, owner: Any) -> Callable[P, T_co]: ...
    @overload
    def __get__(
        self, client: AsyncCaller, owner: Any
    ) -> Callable[P, Coroutine[Any, Any, T_co]]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        return self._of(client)


class iterator(_Described, Generic[P, T_co]):
    """Makes the definition of a stream a method of both clients."""

    _makes = "_followed"

    def __init__(self, describe: Callable[Concatenate[Any, P], Followed[T_co]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, client: Caller, owner: Any) -> Callable[P, Iterator[T_co]]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: Any) -> Callable[P, AsyncIterator[T_co]]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        return self._of(client)
