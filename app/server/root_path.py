"""Removing the sub-path that a reverse proxy serves the server under.

Some proxies remove it themselves and some do not; both kinds of requests are answered.
"""

from __future__ import annotations

__all__ = ["RootPath"]


class RootPath:
    """A path prefix, empty for none."""

    def __init__(self, prefix: str) -> None:
        """Prepare; see the setting ``root_path``."""
        self.prefix = prefix
        self._prefix = prefix.encode()
        self._begins = tuple(self._prefix + end for end in (b"/", b"?"))

    def strip(self, target: bytes) -> bytes:
        """Return the target of a request without the prefix."""
        if not self._prefix:
            return target
        if not target.startswith(b"/"):  # an absolute URL, which RFC 9112 allows
            target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
        if not self._is_below(target):
            return target
        rest = target[len(self._prefix) :]
        # Starlette removes the prefix once, too: a target that has it twice must stay unchanged, to
        # be answered with 404.
        if self._is_below(rest):
            return target
        return rest if rest.startswith(b"/") else b"/" + rest

    def _is_below(self, target: bytes) -> bool:
        return target == self._prefix or target.startswith(self._begins)
