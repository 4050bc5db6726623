"""What all commands that call a server share: the client, and how its errors are reported."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from app.cli.output import say_error

if TYPE_CHECKING:
    import httpx

    from app.client import Client

__all__ = ["LOCAL", "REFUSED", "Key", "Url", "asking", "fail", "local_url", "parsed"]

_DEFAULT_PORT = "8000"
_ALL_ADDRESSES = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server that listens on all addresses is asked."""


def local_url(environment: Mapping[str, str]) -> str:
    """Return the URL of a local server with the same settings, as in the same container."""
    port = environment.get("MODSERVE_PORT") or _DEFAULT_PORT
    scheme = "https" if environment.get("MODSERVE_TLS_CERT") else "http"
    host = environment.get("MODSERVE_HOST", "")
    host = _ALL_ADDRESSES.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port if port.isdecimal() else _DEFAULT_PORT}"


LOCAL = local_url(os.environ)

REFUSED = 3
"""Exit statuses for a refusal by the server, and for a server that does not answer."""

Url = Annotated[str, typer.Option("--url", envvar="MODSERVE_URL", help="URL of the server.")]
Key = Annotated[
    str | None,
    typer.Option("--key", envvar="MODSERVE_API_KEY", help="API key."),
]


@contextmanager
def asking(url: str, key: str | None) -> Iterator[Client]:
    """Yield a client; if the server refuses a call or does not answer, print why and exit."""
    # Imported here, as in all commands, because they take longer to import than --help to print.
    import httpx

    from app.client import Client, ClientError, InvalidKey

    try:
        with Client(url, key=key, transport=_transport(url)) as client:
            yield client
    except ClientError as error:
        told = {name: error.problem.get(name) for name in ("status", "code", "errors")}
        text = str(error.problem.get("detail") or error)
        fail(text, hint=_hints(error.problem, text), **told)
    except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        fail(f"no server answers at {url}: {error}; start one with 'modserve serve', or give --url")
    except (OSError, InvalidKey) as error:
        fail(str(error))


def _hints(problem: Mapping[str, Any], text: str) -> str | None:
    """Return the hints in a problem's invalid fields that the text does not already contain."""
    if problem.get("code") == "unauthorized":
        return "give a key with --key or in MODSERVE_API_KEY"
    hints = [row.get("hint") for row in problem.get("errors") or ()]
    return "; ".join(dict.fromkeys(hint for hint in hints if hint and hint not in text)) or None


def _transport(url: str) -> httpx.BaseTransport | None:
    """Return a transport for this environment's local server; its certificate may have any name.

    Return None for any other server: the default transport will do.
    """
    certificate = os.environ.get("MODSERVE_TLS_CERT")
    if not certificate or url != LOCAL:
        return None
    import ssl

    import httpx

    context = ssl.create_default_context(cafile=certificate)
    # The server's own certificate is trusted, although no authority in the file has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return httpx.HTTPTransport(verify=context)


def fail(text: str, **more: Any) -> NoReturn:
    """Print an error and exit."""
    say_error(text, **more)
    raise typer.Exit(REFUSED)


def parsed(options: list[str] | None, flag: str) -> dict[str, Any]:
    """Return options given as NAME=VALUE; a value is JSON if it parses as such, else text."""
    found: dict[str, Any] = {}
    for option in options or ():
        name, equals, text = option.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option!r}; give NAME=VALUE", param_hint=flag)
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found
