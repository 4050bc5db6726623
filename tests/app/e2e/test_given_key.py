"""A server accepts the key its operator supplies, and stores nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.client import Client, ClientError
from app.client.local_server import running_server
from app.domain.api_key import new_key_text
from served.keys import add_key, key_rows
from served.processes import ENVIRONMENT


def status(url: str, key: str | None) -> int:
    with Client(url, key=key) as client:
        try:
            return client.request("POST", "/v1/models/reload").status_code
        except ClientError as error:
            return error.status


def test_a_supplied_key_is_admin_and_keys_in_the_file_keep_their_scopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, given = tmp_path / "secret", new_key_text()
    secret.write_text(f"{given}\n")
    data_dir = tmp_path / "data"
    reader = add_key(data_dir, "ann", "read")
    environment = {**ENVIRONMENT, "MODSERVE_API_KEY_FILE": str(secret)}
    with running_server(data_dir, environment=environment) as server:
        assert status(server.url, "") == 401
        assert status(server.url, reader) == 403
        assert status(server.url, given) not in (401, 403)
        monkeypatch.setenv("MODSERVE_API_KEY_FILE", str(secret))
        assert status(server.url, None) not in (401, 403)
    assert [row["name"] for row in key_rows(data_dir)] == ["ann"]
    secret.write_text(reader)
    with running_server(data_dir, environment=environment) as server:
        assert status(server.url, reader) == 403
        assert status(server.url, given) == 401
    assert given not in server.log.read_text()
