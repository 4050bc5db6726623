"""Browser sessions: valid as long as they and their key are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.domain.api_key import ApiKey
from app.files.key_file import KeyFile
from app.services.access.key_ring import KeyRing
from app.services.access.sessions import Sessions
from served.keys import add_key, revoke_key


@pytest.fixture
def ring(tmp_path: Path) -> tuple[KeyRing, ApiKey]:
    text = add_key(tmp_path, "lab", "read")
    ring = KeyRing(KeyFile(tmp_path))
    ring.open()
    return ring, ring.identify([text])


async def test_a_session_stands_for_its_key_until_it_ends(ring: tuple[KeyRing, ApiKey]) -> None:
    keys, key = ring
    sessions = Sessions(keys)
    first, second = sessions.begin(key), sessions.begin(key)
    assert sessions.key_of(first) is key
    sessions.end(first)
    sessions.end(first)
    assert sessions.key_of(first) is None
    assert sessions.key_of(second) is key
    assert sessions.key_of("nonsense") is None


async def test_a_session_ends_with_its_key(tmp_path: Path, ring: tuple[KeyRing, ApiKey]) -> None:
    keys, key = ring
    sessions = Sessions(keys)
    token = sessions.begin(key)
    revoke_key(tmp_path, "lab")
    await keys._look()
    assert sessions.key_of(token) is None


async def test_a_session_expires_after_a_week(
    ring: tuple[KeyRing, ApiKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, key = ring
    sessions = Sessions(keys)
    token = sessions.begin(key)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 6.9 * 86400)
    assert sessions.key_of(token) is key
    monkeypatch.setattr(time, "monotonic", lambda: now + 7.1 * 86400)
    assert sessions.key_of(token) is None


async def test_the_number_of_sessions_is_limited(ring: tuple[KeyRing, ApiKey]) -> None:
    keys, key = ring
    sessions = Sessions(keys, most=2)
    tokens = [sessions.begin(key) for _ in range(3)]
    assert [sessions.key_of(token) is key for token in tokens] == [False, True, True]
