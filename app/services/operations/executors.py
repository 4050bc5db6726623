"""The executors of this server, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from app.domain.instances import module_of
from app.errors.tree import ExecutorGone, Invalid
from app.link.calls import Call, to_call
from app.link.client import ExecutorClient
from app.link.supervisor import Supervisor
from app.services.operations.background_tasks import cancel_tasks

__all__ = ["Executors", "tell"]


class Executors:
    """Starts and stops the executors and finds the one a module lives on."""

    def __init__(self) -> None:
        self._clients: dict[str, ExecutorClient] = {}

    def __iter__(self) -> Iterator[ExecutorClient]:
        return iter(self._clients.values())

    def add(self, client: ExecutorClient) -> None:
        """Add an executor, before ``start``."""
        self._clients[client.name] = client

    @property
    def names(self) -> list[str]:
        """Their names, which are their devices."""
        return list(self._clients)

    def get(self, name: str) -> ExecutorClient:
        """Return an executor; raise ExecutorGone if this server no longer has one of the name."""
        if name not in self._clients:
            raise ExecutorGone(
                f"executor {name} is not among those of this server ({', '.join(self._clients)}); "
                "start it with that device in MODSERVE_DEVICES"
            )
        return self._clients[name]

    def check(self, name: str, field: str) -> str:
        """Return the name if such an executor exists; else raise Invalid for this field."""
        if name not in self._clients:
            raise Invalid(field, name, f"one of {', '.join(self._clients)}")
        return name

    async def start(self) -> None:
        """Start all executors; if one fails, cancel those that are still starting."""
        starts = [asyncio.create_task(client.start()) for client in self]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            await cancel_tasks(starts)
            raise

    async def stop(self) -> None:
        """Stop all executors after their current batches; then raise the first error, if any."""
        stops = [asyncio.create_task(client.stop()) for client in self]
        if stops:
            await asyncio.wait(stops)
        for stop in stops:
            stop.result()

    def dead(self) -> list[str]:
        """Return the names of executors that cannot currently answer."""
        return [client.name for client in self if not client.is_alive()]

    def status(self) -> dict[str, dict[str, Any]]:
        """Return the supervisors' status of executor processes by name, without calling them."""
        return {client.name: _status(client) for client in self if isinstance(client, Supervisor)}

    async def describe(self) -> list[dict[str, Any]]:
        """Return the state, device, memory, modules and jobs of each executor."""
        return list(await asyncio.gather(*(_describe(client) for client in self)))


async def tell(client: ExecutorClient, call: Call) -> None:
    """Make a call and discard its result; raise its error."""
    method, params = to_call(call)
    reply = await client.call(method, params)
    reply.release()


def _status(client: Supervisor) -> dict[str, Any]:
    status = client.status()
    return {name: getattr(status, name) for name in status.__dataclass_fields__}


async def _describe(client: ExecutorClient) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": client.name, "alive": client.is_alive()}
    if isinstance(client, Supervisor):
        facts |= _status(client)
    if not client.is_alive():
        return facts
    try:
        reply = await client.call("executor_info")
    except ExecutorGone:
        return facts | {"alive": False}
    reply.release()
    modules = [_shown(one) for one in reply.result["modules"]]
    return facts | reply.result | {"modules": modules}


def _shown(module: dict[str, Any]) -> dict[str, Any]:
    """Return a module's description; a replica's with the name by which clients know it."""
    name = module_of(module["name"])
    return module | {"name": name, "is_replica": name != module["name"]}
