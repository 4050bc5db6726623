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
from app.errors import Damaged, ServiceError, StartError
from app.files.key_file import FileStamp, KeyFile
from app.refusals import Unauthorized
from app.services.allowance import Allowance
from app.services.background_tasks import cancel_tasks, in_thread

__all__ = ["KeyRing"]

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 0.25


class KeyRing:
    """The known keys; ``identify`` finds the key of a request."""

    def __init__(self, file: KeyFile, given: ApiKey | None = None) -> None:
        """Know none yet; ``open`` reads them.

        Args:
            given: one that is valid beside those of the file, and not kept there.
        """
        self._file = file
        self._given = given
        self._keys: dict[str, ApiKey] = {}
        self._allowances: dict[str, Allowance | None] = {}
        self._stamp: FileStamp = None
        self._fault = ""
        self._listeners: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._next_change: asyncio.Future[None] | None = None
        self.is_in_force = False
        """False if everything is open, for there are no keys and have been none."""

    def open(self) -> None:
        """Read the keys.

        Raises:
            StartError: they cannot be read.
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
        """End following."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks([task])

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a listener, to be called after each change and when a key expires."""
        self._listeners.append(listener)

    def next_change(self) -> asyncio.Future[None]:
        """Return what is done when keys change or one expires; common to all who wait for it."""
        if self._next_change is None or self._next_change.done():
            self._next_change = asyncio.get_running_loop().create_future()
        return self._next_change

    def identify(self, texts: Iterable[str]) -> ApiKey:
        """Return the key that a request brings.

        Args:
            texts: what stands in its fields for keys; no key where there are several.

        Raises:
            Unauthorized: it is none that is valid.
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
        # An unknown key takes as long as a wrong one of a known id.
        if not is_text_of(key, sent[0]) or key is None or key.is_expired(time.time()):
            raise Unauthorized("the API key is not valid: it is unknown, revoked or expired")
        return key

    def is_valid(self, key: ApiKey) -> bool:
        """Return whether a key that was identified earlier is still valid."""
        if self._keys.get(key.id) is not key:
            return False
        return key.expires_at is None or time.time() < key.expires_at

    def allowance(self, key: ApiKey) -> Allowance | None:
        """Return a key's allowance; None if it is unlimited."""
        return self._allowances.get(key.id)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._seconds_to_look())
            await self._look()

    def _seconds_to_look(self) -> float:
        """Return how long to wait: until a key expires, if that is sooner than the next look."""
        now = time.time()
        ends = [one.expires_at - now for one in self._keys.values() if one.expires_at is not None]
        ahead = [end for end in ends if end > 0]
        return min([_SECONDS_BETWEEN_LOOKS, *ahead])

    async def _look(self) -> None:
        try:
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
        """Return all keys; one that is given may do what the file says, where it has that, too."""
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
        allowances: dict[str, Allowance | None] = {}
        for one in keys:
            before = self._keys.get(one.id)
            is_same = before == one
            known[one.id] = before if before is not None and is_same else one
            allowances[one.id] = self._allowances[one.id] if is_same else Allowance.of(one)
        self._keys, self._allowances = known, allowances
        self.is_in_force = self.is_in_force or bool(known)


def _names(ids: Iterable[str]) -> str:
    return " ".join(sorted(ids)) or "none"
