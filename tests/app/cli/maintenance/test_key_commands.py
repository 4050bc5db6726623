"""``modserve keys``: a key is shown once, listed without its secret, and removed when revoked."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.main import app
from app.domain.api_key import key_id_of
from served.keys import add_key, key_rows, revoke_key


def run(data_dir: Path, verb: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["keys", verb, "--data-dir", str(data_dir), *words])


def test_a_key_is_shown_once(tmp_path: Path) -> None:
    made = run(tmp_path, "add", "--name", "ann", "--scope", "infer", "--scope", "read")
    assert made.exit_code == 0
    key = made.stdout.strip()  # alone, so that a script can capture it
    assert key_id_of(key) in made.stderr
    secret = key.split("_", 2)[2]  # the secret may contain a "_" itself
    assert secret not in made.stderr
    for shown in (run(tmp_path, "ls").output, run(tmp_path, "ls", "--json").output):
        assert key_id_of(key) in shown
        assert "ann" in shown
        assert secret not in shown
    assert secret not in (tmp_path / "keys.json").read_text()
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_listed_fields(tmp_path: Path) -> None:
    add_key(tmp_path, "ann", "infer", expires="12h", rate=2.5, concurrency=4)
    add_key(tmp_path, "ben", "admin", expires="2999-01-01")
    ann, ben = key_rows(tmp_path)
    assert (ann["scopes"], ann["rate"], ann["concurrency"]) == (["infer"], 2.5, 4)
    assert ben["expires_at"] == "2999-01-01T00:00:00+00:00"
    text = run(tmp_path, "ls").stdout
    assert "2.5/s" in text
    assert "4 at a time" in text


def test_revoked_keys_are_removed(tmp_path: Path) -> None:
    keys = {name: add_key(tmp_path, name, "read") for name in ("ann", "ben", "cat", "dan")}
    revoke_key(tmp_path, "ann")
    revoke_key(tmp_path, key_id_of(keys["ben"]) or "")
    told = run(tmp_path, "revoke", keys["cat"])  # revoking by the key itself works, too
    assert told.exit_code == 0
    assert keys["cat"] not in told.output
    assert [row["name"] for row in key_rows(tmp_path)] == ["dan"]
    unknown = run(tmp_path, "revoke", "dan", "eve")
    assert unknown.exit_code == 3
    assert "eve" in unknown.output
    assert [row["name"] for row in key_rows(tmp_path)] == ["dan"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--name", "ann", "--scope", "write"), "'read', 'infer', 'train' or 'admin'"),
        (("--name", "a b", "--scope", "read"), "name"),
        (("--name", "taken", "--scope", "read"), "a name that no other key has"),
        (("--name", "ann", "--scope", "read", "--expires", "soon"), "90d"),
        (("--name", "ann", "--scope", "read", "--expires", "2001-01-01"), "a time in the future"),
        (("--name", "ann", "--scope", "read", "--rate", "0"), "rate"),
        (("--name", "ann", "--scope", "read", "--concurrency", "0"), "concurrency"),
    ],
)
def test_invalid_keys_are_not_made(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    add_key(tmp_path, "taken", "read")
    made = run(tmp_path, "add", *words)
    assert made.exit_code == 3
    assert told in made.output
    assert "msk_" not in made.output
    assert [row["name"] for row in key_rows(tmp_path)] == ["taken"]


def test_a_damaged_file_is_reported_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("?")
    for verb, *words in (("ls",), ("add", "--name", "a", "--scope", "read"), ("revoke", "a")):
        told = run(tmp_path, verb, *words)
        assert told.exit_code == 3
        assert "keys.json" in told.output
    assert (tmp_path / "keys.json").read_text() == "?"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_servers_owner_can_read_keys_added_by_root(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1234)
    add_key(tmp_path, "ann", "read")
    for name in ("keys.json", "keys.lock"):
        assert (tmp_path / name).stat().st_uid == 1234


def test_the_json_option_prints_json(tmp_path: Path) -> None:
    made = json.loads(run(tmp_path, "add", "--name", "a", "--scope", "read", "--json").stdout)
    assert key_id_of(made["key"]) == made["id"]
    assert run(tmp_path / "other", "ls", "--json").stdout.strip() == "[]"
