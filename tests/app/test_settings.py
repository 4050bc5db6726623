"""Settings are read from the environment on request, and invalid ones refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings
from core.config import read_config

GUIDE = Path(__file__).parents[2] / "app" / "guides" / "settings.md"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"MODSERVE_{name.upper()}", raising=False)


def test_by_default_it_listens_only_on_this_machine() -> None:
    settings = Settings()
    assert settings.host == "127.0.0.1"
    assert settings.devices == ("cpu(0)",)
    assert settings.store_url.startswith("sqlite:////")
    assert settings.store_url.endswith("/var/modserve.db")


def test_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODSERVE_DEVICES", '["gpu(0)", "gpu(1)"]')
    monkeypatch.setenv("MODSERVE_DATA_DIR", "/data")
    monkeypatch.setenv("MODSERVE_PORT", "9000")
    settings = Settings(port=9001)
    assert settings.devices == ("gpu(0)", "gpu(1)")
    assert settings.data_dir == Path("/data")
    assert settings.store_url == "sqlite:////data/modserve.db"
    assert settings.port == 9001


def test_database_url_replaces_the_file() -> None:
    url = "postgresql+psycopg://localhost/modserve"
    assert Settings(database_url=url).store_url == url


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 70000),
        ("lease_seconds", 0),
        ("keep_checkpoints", 0),
        ("log_level", "loud"),
        ("threads", -1),
        ("threads", 100_000),
        ("lease_seconds", float("inf")),
        ("devices", ()),
        ("devices", ("cup(0)",)),
        ("devices", ("cpu(0)", "cpu(0)")),
        ("trusted_proxies", ("proxy.example",)),
        ("trusted_proxies", ("10.0.0.1/8",)),
        ("nonsense", 1),
    ],
)
def test_invalid_values_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings(**{name: value})


def test_no_threads_are_all_as_for_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODSERVE_THREADS", "0")
    assert Settings().threads is None
    assert read_config({"MODSERVE_THREADS": "0"}).threads == read_config({}).threads


def test_the_guide_lists_every_setting() -> None:
    listed = re.findall(r"`MODSERVE_([A-Z_]+)`", GUIDE.read_text())
    assert sorted(listed) == sorted(name.upper() for name in Settings.model_fields)
