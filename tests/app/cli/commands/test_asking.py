"""Which server commands use by default."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from app.cli.commands.asking import local_url
from app.client.local_server import running_server
from app.domain.api_key import new_key_text
from served.processes import ENVIRONMENT


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"MODSERVE_PORT": "9001"}, "http://127.0.0.1:9001"),
        ({"MODSERVE_PORT": "", "MODSERVE_TLS_CERT": ""}, "http://127.0.0.1:8000"),
        ({"MODSERVE_TLS_CERT": "a.pem"}, "https://127.0.0.1:8000"),
        ({"MODSERVE_HOST": "::1"}, "http://[::1]:8000"),
        ({"MODSERVE_HOST": "::", "MODSERVE_PORT": "1"}, "http://[::1]:1"),
        ({"MODSERVE_HOST": "0.0.0.0"}, "http://127.0.0.1:8000"),
        ({"MODSERVE_HOST": "127.0.0.2"}, "http://127.0.0.2:8000"),
        ({"MODSERVE_HOST": "gpu.lab", "MODSERVE_TLS_CERT": "a.pem"}, "https://gpu.lab:8000"),
        ({"MODSERVE_HOST": ""}, "http://127.0.0.1:8000"),
        ({"MODSERVE_PORT": "tcp://10.0.0.1:8000"}, "http://127.0.0.1:8000"),
    ],
)
def test_the_server_in_the_settings_is_used(environment: dict[str, str], expected: str) -> None:
    assert local_url(environment) == expected


@pytest.mark.parametrize("host", ["::1", "127.0.0.2"])
def test_the_commands_ask_the_address_in_the_settings(tmp_path: Path, host: str) -> None:
    environment = ENVIRONMENT | {"MODSERVE_HOST": host}
    with running_server(tmp_path, environment=environment) as server:
        own = environment | {"MODSERVE_PORT": str(httpx.URL(server.url).port)}
        for command in (["health"], ["modules", "ls"]):
            done = subprocess.run(
                [sys.executable, "-m", "app", *command],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | own,
            )
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbf%b\r\n", "\ufeff{}\r\n".encode("utf-16-le"), b"\xff\xfe\x00", b"\x80abc"],
    ids=["utf-8", "utf-16", "half", "binary"],
)
def test_a_key_file_with_a_byte_order_mark_is_read(tmp_path: Path, content: bytes) -> None:
    key, file = new_key_text(), tmp_path / "key"
    file.write_bytes(
        content.replace(b"%b", key.encode()).replace(
            "{}".encode("utf-16-le"), key.encode("utf-16-le")
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "app", "modules", "ls", "--url", "http://127.0.0.1:9"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MODSERVE_API_KEY_FILE": str(file)},
    )
    is_key = len(content) > 5
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert ("no server answers" if is_key else str(file)) in done.stderr
