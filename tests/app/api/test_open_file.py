"""Downloads survive the deletion or renaming of their file."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from app.api.open_file import OpenFileResponse

CONTENT = bytes(range(256)) * 1024


async def fetch(response: OpenFileResponse, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(response)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get("/", headers=headers)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize("how", ["replaced", "removed"])
async def test_a_file_is_sent_whole_even_if_its_name_goes(path: Path, how: str) -> None:
    response = OpenFileResponse(path.open("rb"), "net-0001.params", {"ETag": '"1"'})
    if how == "replaced":
        other = path.with_name("other")
        other.write_bytes(b"another")
        other.replace(path)
    else:
        path.unlink()
    answer = await fetch(response)
    assert answer.content == CONTENT
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["content-disposition"] == 'attachment; filename="net-0001.params"'
    assert answer.headers["etag"] == '"1"'


async def test_a_range_can_be_requested(path: Path) -> None:
    answer = await fetch(OpenFileResponse(path.open("rb"), "file"), Range="bytes=10-19")
    assert (answer.status_code, answer.content) == (206, CONTENT[10:20])


async def test_the_file_is_closed_at_the_end(path: Path) -> None:
    file = path.open("rb")
    await fetch(OpenFileResponse(file, "file"))
    assert file.closed


@pytest.mark.parametrize("unsound", ["x", "bytes=", "bytes=-", "bytes=9-3", "rows=1-2", "bytes=1"])
async def test_an_invalid_range_is_ignored(path: Path, unsound: str) -> None:
    response = OpenFileResponse(path.open("rb"), "file", {"ETag": '"1"'})
    answer = await fetch(response, Range=unsound)
    assert (answer.status_code, answer.content) == (200, CONTENT)


@pytest.mark.parametrize("sound", ["bytes=-5", "bytes=5-", "bytes=0-0", "bytes=1-2, 4-5"])
async def test_every_form_of_range_is_accepted(path: Path, sound: str) -> None:
    response = OpenFileResponse(path.open("rb"), "file", {"ETag": '"1"'})
    assert (await fetch(response, Range=sound)).status_code == 206
