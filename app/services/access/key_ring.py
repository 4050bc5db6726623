"""The API keys that are currently valid according to their file.

The file is checked several times a second, so that changes by the command line take effect without
a restart. A server that has had keys never becomes open by losing them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from app.domain.api_key import ApiKey, is_text_of, key_id_of
from app.errors.refusals import Unauthorized
from app.errors.tree import Damaged, ServiceError, StartError
from app.files.key_file import FileStamp, KeyFile
from app.services.access.rate_limiter import RateLimiter
from app.services.operations.background_tasks import cancel_tasks, in_thread

__all__ = ["KeyRing"]

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 0.25


class KeyRing:
    """The known keys; ``identify`` finds the key of a request."""

    def __init__(self, file: KeyFile, given: ApiKey | None = None) -> None:
        """Start without keys; ``open`` reads them.

        Args:
            given: a key that is valid in addition to those in the file.
        """
        self._file = file
        self._given = given
        self._keys: dict[str, ApiKey] = {}
        self._allowances: dict[str, RateLimiter | None] = {}
        self._stamp: FileStamp = None
        self._fault = ""
        self._listeners: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._next_change: asyncio.Future[None] | None = None
        self.is_in_force = False
        """False if requests need no key, because there is none and never was."""

    def open(self) -> None:
        """Read the keys.

        Raises:
            StartError: the file cannot be read.
        """
        try:
            self._stamp = self._file.stamp()
            self._set(self._read())
        except (ServiceError, OSError) as error:
            raise StartError(
                f"the API keys cannot be read: {error}; mend {self._file.path}, or move it away "
                "and add keys anew with 'modserve keys add'"
            ) from None

    def start(self) -> None:
        """Follow the file, until ``stop``."""
        self._task = asyncio.create_task(self._follow(), name="follow the API keys")

    async def stop(self) -> None:
        """Stop following the file."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks([task])

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a listener, to be called after each change and when a key expires."""
        self._listeners.append(listener)

    def next_change(self) -> asyncio.Future[None]:
        """Return a future, shared by all waiters, that is done when keys change or one expires."""
        if self._next_change is None or self._next_change.done():
            self._next_change = asyncio.get_running_loop().create_future()
        return self._next_change

    def identify(self, texts: Iterable[str]) -> ApiKey:
        """Return the key of a request.

        Args:
            texts: the values of the header fields for keys; only one is allowed.

        Raises:
            Unauthorized: there is no key, more than one, or it is not valid.
        """
        sent = list(texts)
        if not sent:
            raise Unauthorized(
                "this server asks for an API key: send 'Authorization: Bearer KEY' or "
                "'X-API-Key: KEY'; 'modserve keys add' makes one"
            )
        if len(sent) > 1:
            raise Unauthorized("a request has one API key, this one has several")
        key = self._keys.get(key_id_of(sent[0]) or "")
        # Compared even if the id is unknown: the timing must not reveal which ids exist.
        if not is_text_of(key, sent[0]) or key is None or key.is_expired(time.time()):
            raise Unauthorized("the API key is not valid: it is unknown, revoked or expired")
        return key

    def is_valid(self, key: ApiKey) -> bool:
        """Return whether a key that was identified earlier is still valid."""
        if self._keys.get(key.id) is not key:
            return False
        return key.expires_at is None or time.time() < key.expires_at

    def rate_limiter(self, key: ApiKey) -> RateLimiter | None:
        """Return a key's rate limiter; None if it is unlimited."""
        return self._allowances.get(key.id)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._seconds_to_look())
            await self._look()

    def _seconds_to_look(self) -> float:
        """Return the time until the next look or until a key expires, whichever is sooner."""
        now = time.time()
        ends = [one.expires_at - now for one in self._keys.values() if one.expires_at is not None]
        ahead = [end for end in ends if end > 0]
        return min([_SECONDS_BETWEEN_LOOKS, *ahead])

    async def _look(self) -> None:
        try:
            # Taken before the file is read, so that a change during the read is seen next time.
            stamp = await in_thread(self._file.stamp)
            if stamp != self._stamp or self._fault:
                keys = await in_thread(self._read)
                self._stamp = stamp
                self._change(keys)
            self._fault = ""
        except (ServiceError, OSError) as error:
            self._on_fault(error)
        self._drop_expired()

    def _read(self) -> tuple[ApiKey, ...]:
        """Return all keys; if the given key is in the file, too, its entry there wins."""
        keys = self._file.read()
        if self._given is None or any(one.id == self._given.id for one in keys):
            return keys
        return *keys, self._given

    def _on_fault(self, error: Exception) -> None:
        """Refuse all requests if the keys cannot be read, because one may have been revoked."""
        if str(error) == self._fault:
            return
        self._fault = str(error)
        if isinstance(error, Damaged | PermissionError):
            _log.error("the API keys cannot be read, and no request is answered: %s", error)
            self._change(())
            self.is_in_force = True
        else:
            _log.error("the API keys cannot be read at present: %s", error)

    def _drop_expired(self) -> None:
        now = time.time()
        left = [one for one in self._keys.values() if not one.is_expired(now)]
        if len(left) < len(self._keys):
            self._set(left)
            self._tell()

    def _change(self, keys: Iterable[ApiKey]) -> None:
        before = set(self._keys)
        self._set(keys)
        _log.info(
            "API keys changed: %d valid, added %s, gone %s",
            *(len(self._keys), _names(self._keys.keys() - before)),
            _names(before - self._keys.keys()),
        )
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
        if self._next_change is not None and not self._next_change.done():
            self._next_change.set_result(None)

    def _set(self, keys: Iterable[ApiKey]) -> None:
        known: dict[str, ApiKey] = {}
        allowances: dict[str, RateLimiter | None] = {}
        for one in keys:
            # The same object as long as nothing changes: ``is_valid`` compares identities, and the
            # requests in progress count in the key's old rate limiter.
            before = self._keys.get(one.id)
            is_same = before == one
            known[one.id] = before if before is not None and is_same else one
            allowances[one.id] = self._allowances[one.id] if is_same else RateLimiter.of(one)
        self._keys, self._allowances = known, allowances
        self.is_in_force = self.is_in_force or bool(known)


def _names(ids: Iterable[str]) -> str:
    return " ".join(sorted(ids)) or "none"
