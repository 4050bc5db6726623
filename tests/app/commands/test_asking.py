"""Which server commands use by default."""

from __future__ import annotations

import pytest

from app.commands.asking import local_url


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"MODSERVE_PORT": "9001"}, "http://127.0.0.1:9001"),
        ({"MODSERVE_PORT": "", "MODSERVE_TLS_CERT": ""}, "http://127.0.0.1:8000"),
        ({"MODSERVE_TLS_CERT": "a.pem"}, "https://127.0.0.1:8000"),
        ({"MODSERVE_PORT": "tcp://10.0.0.1:8000"}, "http://127.0.0.1:8000"),
    ],
)
def test_the_server_in_the_settings_is_used(environment: dict[str, str], expected: str) -> None:
    assert local_url(environment) == expected
