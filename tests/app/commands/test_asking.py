"""Which server commands ask where nobody says."""

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
def test_a_server_of_the_same_settings_is_asked(environment: dict[str, str], expected: str) -> None:
    assert local_url(environment) == expected
