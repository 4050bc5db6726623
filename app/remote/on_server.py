"""What a remote module has beyond a module of ``mx``: its name, its client and ``close``."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from app.client import Client
from app.remote.session import Session
from core.errors import UsageError

__all__ = ["OnServer"]


class OnServer:
    """A module on a server; released by ``close`` or at the end of a ``with`` block."""

    _served: Session | None

    @property
    def name(self) -> str:
        """The module's name on the server; a module with buckets has one only once it is bound."""
        return self._of_server("name").name

    @property
    def client(self) -> Client:
        """The client of the server, for calls that modules of ``mx`` do not have."""
        return self._of_server("client").client

    def close(self) -> None:
        """Finish the pending calls; delete the module on the server if it was given no name."""
        if self._served is not None:
            self._served.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _of_server(self, what: str) -> Session:
        if self._served is None:
            raise UsageError(f"{what}: the module exists on the server only after bind()")
        return self._served
