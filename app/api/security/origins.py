"""Protection against pages of other sites, which can reach loopback addresses through browsers.

A page of any site can make a browser send a POST of ``text/plain``, or, once a name of its own
resolves to 127.0.0.1, any request. The first is visible in ``Origin`` and ``Sec-Fetch-Site``, the
second in ``Host``. Programs other than browsers send the host to which they connect, and no origin.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem_response
from app.errors.tree import ForeignOrigin, Malformed, Misdirected, ServiceError
from app.settings import Settings

__all__ = ["OriginCheck", "is_same_origin"]

_OPEN_TO_ALL = frozenset({"/", "/livez", "/readyz", "/docs", "/openapi.json"})
"""Paths that pages of other sites may fetch or link to, because nothing there is secret."""

_HOST_FIELD = re.compile(r"(\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:@/?#]+))(:[0-9]*)?")
_SAFE = frozenset({"GET", "HEAD"})
_OWN_SITE = (None, "same-origin", "none")  # a typed address, or a bookmark, has "none"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class OriginCheck:
    """Refuses requests to hosts that are not this server, and those made for other sites."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self._hosts = _Hosts(settings)
        self._origins = frozenset(settings.allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        app = self.app
        if scope["type"] == "http":
            fault = self.fault(scope)
            if fault is not None:
                app = problem_response(Request(scope), fault)
        await app(scope, receive, send)

    def fault(self, scope: Scope) -> ServiceError | None:
        """Return why a request is refused; None if it is not."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) > 1 or (not hosts and scope.get("http_version") != "1.0"):
            return Malformed(f"a request has one Host field, this one has {len(hosts)}")
        if hosts and not self._hosts.has(hosts[0]):
            return Misdirected(
                f"host {hosts[0][:100]!r} is not known to be this server; if it is, add it to "
                "MODSERVE_ALLOWED_HOSTS"
            )
        if self._is_own(headers) or self._is_open(scope):
            return None
        return ForeignOrigin(
            f"a page of {headers.get('origin', 'another site')[:100]!r} may not ask this server; "
            "if it should, add its origin to MODSERVE_ALLOWED_ORIGINS"
        )

    def _is_own(self, headers: Headers) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None:
            return site in _OWN_SITE or "*" in self._origins
        if origin in self._origins or "*" in self._origins or site == "same-origin":
            return True
        return site is None and _is_of_host(origin, headers)

    @staticmethod
    def _is_open(scope: Scope) -> bool:
        return scope["method"] in _SAFE and scope["path"] in _OPEN_TO_ALL


def is_same_origin(method: str, headers: Headers) -> bool:
    """Return whether a page of this origin made a request, or, if it is safe, a person did."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" or (site == "none" and method in _SAFE)
    origin = headers.get("origin")  # browsers omit Sec-Fetch-Site without TLS
    return method in _SAFE if origin is None else _is_of_host(origin, headers)


def _is_of_host(origin: str, headers: Headers) -> bool:
    # Behind a proxy that terminates TLS the scheme differs: therefore only the host is compared.
    scheme, found, _ = origin.partition("://")
    own = _authority(f"{scheme}://{headers.get('host', '')}")
    return bool(found) and _authority(origin) == own != (None, None)


class _Hosts:
    """The names of a server: those of its address, and additional ones from the settings."""

    def __init__(self, settings: Settings) -> None:
        self._listed = {host.lower() for host in settings.allowed_hosts}
        bound = settings.host.lower()
        address = _address(bound)
        self._is_loopback = bound == "localhost" or (address is not None and address.is_loopback)
        self._names = {bound}
        if not self._is_loopback:
            self._names |= {"localhost", socket.gethostname().lower()}

    def has(self, field: str) -> bool:
        """Return whether a Host field names this server."""
        if "*" in self._listed:
            return True
        found = _HOST_FIELD.fullmatch(field)
        if found is None:
            return False
        name = (found["address"] or found["name"]).lower().removesuffix(".")
        if name in self._names or name in self._listed:
            return True
        if any(one.startswith("*.") and name.endswith(one[1:]) for one in self._listed):
            return True
        address = _address(name)
        if self._is_loopback:
            return name == "localhost" or (address is not None and address.is_loopback)
        return address is not None  # an attack by another site needs a name, not an address


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _authority(url: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None, None
