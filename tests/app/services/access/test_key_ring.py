"""The currently valid keys: kept up to date with the file, and never lost by accident."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.domain.api_key import ApiKey, KeyScope, digest_of, key_id_of, new_key_text
from app.errors.refusals import Unauthorized
from app.errors.tree import StartError
from app.files.key_file import KeyFile
from app.services.access import key_ring
from app.services.access.key_ring import KeyRing


def make(text: str, **fields: float) -> ApiKey:
    return ApiKey(
        id=key_id_of(text) or "",
        name=text[4:16],
        scopes=(KeyScope.READ,),
        sha256=digest_of(text),
        created_at=1.0,
        **fields,
    )


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path)


@pytest.fixture
async def ring(file: KeyFile) -> AsyncIterator[KeyRing]:
    ring = KeyRing(file)
    ring.open()
    ring.start()
    yield ring
    await ring.stop()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def is_known(ring: KeyRing, text: str) -> bool:
    try:
        return bool(ring.identify([text]))
    except Unauthorized:
        return False


async def test_changes_of_the_file_take_effect_within_a_second(
    file: KeyFile, ring: KeyRing
) -> None:
    assert ring._seconds_to_look() <= 0.5
    changes: list[int] = []
    ring.on_change(lambda: changes.append(1))
    texts = [new_key_text(), new_key_text()]
    assert not ring.is_in_force
    for text in texts:
        file.change(lambda keys, text=text: (*keys, make(text)))
        await until(lambda text=text: is_known(ring, text))
    assert ring.is_in_force
    first = ring.identify(texts[:1])
    assert ring.is_valid(first)
    file.change(lambda keys: keys[1:])
    await until(lambda: not is_known(ring, texts[0]))
    assert not ring.is_valid(first)
    assert is_known(ring, texts[1])
    assert len(changes) == 3


async def test_adding_keys_does_not_reset_the_others(file: KeyFile, ring: KeyRing) -> None:
    text, other = new_key_text(), new_key_text()
    file.change(lambda keys: (make(text, rate=5.0),))
    await until(lambda: is_known(ring, text))
    key = ring.identify([text])
    rate_limiter = ring.rate_limiter(key)
    assert rate_limiter is not None
    file.change(lambda keys: (*keys, make(other)))
    await until(lambda: is_known(ring, other))
    assert ring.is_valid(key)
    assert ring.rate_limiter(key) is rate_limiter  # its used rate_limiter is not forgotten
    file.change(lambda keys: (replace(keys[0], rate=9.0),))
    await until(lambda: not ring.is_valid(key))


async def test_a_key_ends_and_listeners_are_notified(
    file: KeyFile, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(key_ring, "time", SimpleNamespace(time=lambda: now))
    changes: list[int] = []
    ring.on_change(lambda: changes.append(1))
    text = new_key_text()
    file.change(lambda keys: (make(text, expires_at=1000.1),))
    await until(lambda: is_known(ring, text))
    assert ring._seconds_to_look() == pytest.approx(0.1)
    now = 1000.2
    await until(lambda: len(changes) == 2)
    assert not is_known(ring, text)
    assert ring.is_in_force


@pytest.mark.parametrize("loss", ["removed", "damaged", "emptied"])
async def test_a_server_that_loses_its_keys_does_not_become_open(
    file: KeyFile, ring: KeyRing, loss: str
) -> None:
    text = new_key_text()
    file.change(lambda keys: (make(text),))
    await until(lambda: is_known(ring, text))
    if loss == "removed":
        file.path.unlink()
    elif loss == "damaged":
        file.path.write_bytes(b"?")
    else:
        file.change(lambda keys: ())
    await until(lambda: not is_known(ring, text))
    assert ring.is_in_force
    if loss == "damaged":
        file.path.unlink()
    file.change(lambda keys: (make(text),))
    await until(lambda: is_known(ring, text))


def test_damaged_keys_keep_a_server_from_starting(file: KeyFile) -> None:
    file.path.write_bytes(b"?")
    with pytest.raises(StartError, match=r"keys.json.*keys add"):
        KeyRing(file).open()


@pytest.mark.parametrize("count", [0, 2])
def test_a_request_needs_exactly_one_key(file: KeyFile, count: int) -> None:
    text = new_key_text()
    file.change(lambda keys: (make(text),))
    ring = KeyRing(file)
    ring.open()
    with pytest.raises(Unauthorized):
        ring.identify([text] * count)
    assert ring.identify([text]).name == text[4:16]
