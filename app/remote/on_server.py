"""What a remote module is beside a module of ``mx``: a thing on a server, until it is closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from app.client import Client
from app.remote.session import Session
from core.errors import UsageError

__all__ = ["OnServer"]


class OnServer:
    """A module on a server, under a name; left by ``close`` or at the end of a ``with``."""

    _served: Session | None

    @property
    def name(self) -> str:
        """Its name on the server; one with buckets has it once it is bound."""
        return self._of_server("name").name

    @property
    def client(self) -> Client:
        """The client of the server, for all that modules of ``mx`` have no call for."""
        return self._of_server("client").client

    def close(self) -> None:
        """End the calls; delete the module there if it was given no name."""
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
            raise UsageError(f"{what}: the server has no such module before bind()")
        return self._served
