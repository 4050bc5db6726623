"""``modserve health``: whether a server, or some of its modules, can answer; or wait for that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, REFUSED, Key, Url, asking
from app.cli.commands.printing import print_facts
from app.cli.output import AsJson

if TYPE_CHECKING:
    from app.client import Client

__all__ = ["health"]

_UNREADY = 1
_PAUSE_SECONDS = 0.2


def health(
    modules: Annotated[
        list[str] | None, typer.Argument(help="Also check that these modules can answer.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until everything is ready.")] = False,
    timeout: Annotated[
        float, typer.Option(help="Maximum number of seconds for --wait.", min=0)
    ] = 60.0,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Return whether a server is ready; the exit status is 0 if it is, 1 if not, 3 if none answers.

    Named modules must exist and be ready too.
    """
    end = time.monotonic() + timeout
    found = _look(url, key, modules or [])
    while wait and found["status"] != "ready" and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
        found = _look(url, key, modules or [])
    print_facts(found, as_json)
    if found["status"] != "ready":
        raise typer.Exit(REFUSED if found["status"] == "unreachable" else _UNREADY)


def _look(url: str, key: str | None, modules: list[str]) -> dict[str, Any]:
    """Return the server's status and the states of the modules, None for a missing one."""
    import httpx

    with asking(url, key) as client:
        try:
            found = _readiness(client)
            found["modules"] = {name: _state(client, name) for name in modules}
        except (httpx.NetworkError, httpx.TimeoutException) as error:
            return {"status": "unreachable", "reason": str(error)}
    if found["status"] == "ready" and any(one != "ready" for one in found["modules"].values()):
        found["status"] = "unready"
    return found


def _readiness(client: Client) -> dict[str, Any]:
    from app.client import ClientError

    try:
        answer = client.request("GET", "/readyz")
    except ClientError as error:
        if error.status != 503:
            raise
        return dict(error.problem)
    return dict(answer.json())


def _state(client: Client, module: str) -> str | None:
    from app.client import ClientError

    try:
        return str(client.module(module)["state"])
    except ClientError as error:
        if error.status != 404:
            raise
        return None
