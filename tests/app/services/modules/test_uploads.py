"""Request bodies written to disk: counted, hashed, limited, and removed unless kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.errors.tree import TooLarge
from app.files.durable_files import is_locked, rename_durably
from app.services.modules.uploads import Upload

LIMIT = 3 << 20


def upload(target: Path) -> Upload:
    return Upload(target, limit=LIMIT, what="dataset 'mnist'", setting="MODSERVE_MAX_X")


async def pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@pytest.mark.parametrize(
    ("size", "piece"), [(0, 1), (5, 1), (LIMIT, 65536), (LIMIT - 1, LIMIT), (2 << 20, 1 << 20)]
)
async def test_received_data_is_on_disk(tmp_path: Path, size: int, piece: int) -> None:
    content, target = os.urandom(size), tmp_path / "new" / "mnist.npz"
    with upload(target) as file:
        await file.receive(pieces(content, piece))
        digest = file.finish()
        assert (digest.size, digest.sha256) == (size, hashlib.sha256(content).hexdigest())
        assert file.size == size
        assert file.path.parent == target.parent
        rename_durably(file.path, target)
    assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]


def test_a_file_is_locked_and_hidden_until_kept(tmp_path: Path) -> None:
    with upload(tmp_path / "mnist.npz") as file:
        assert is_locked(file.path)
        assert file.path.name.startswith(".upload-mnist.npz-")
        assert not (tmp_path / "mnist.npz").exists()
    assert not list(tmp_path.iterdir())


async def test_data_over_the_limit_is_refused_and_removed(tmp_path: Path) -> None:
    with (
        pytest.raises(TooLarge, match=r"dataset 'mnist', in bytes: got more, .* MODSERVE_MAX_X"),
        upload(tmp_path / "mnist.npz") as file,
    ):
        await file.receive(pieces(bytes(LIMIT + 1), 1 << 18))
    assert not list(tmp_path.iterdir())


def test_an_announced_length_over_the_limit_is_refused(tmp_path: Path) -> None:
    with upload(tmp_path / "mnist.npz") as file:
        file.expect(None)
        file.expect(LIMIT)
        with pytest.raises(TooLarge, match="got 3,145,729, the limit is 3,145,728"):
            file.expect(LIMIT + 1)


async def test_a_disconnected_client_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(2 << 20)
        raise ConnectionError

    with pytest.raises(ConnectionError), upload(tmp_path / "mnist.npz") as file:
        await file.receive(broken())
    assert not list(tmp_path.iterdir())
