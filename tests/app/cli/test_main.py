"""The command ``modserve``: options, refusals, and the commands it runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app import server
from app.cli.main import app
from app.main import openapi_text
from app.settings import Settings
from served.keys import key_rows


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


class Runs:
    """Records the settings a server would run with."""

    def __init__(self) -> None:
        self.settings: Settings | None = None

    def __call__(self, settings: Settings) -> int:
        self.settings = settings
        return 0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Record what would be served instead of serving it."""
    recorder = Runs()
    monkeypatch.setattr(server, "run_server", recorder)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"MODSERVE_{name.upper()}", raising=False)
    return recorder


def test_without_a_command_it_lists_them() -> None:
    result = run()
    for command in ("serve", "demo", "bench", "openapi"):
        assert command in result.output


def test_serve_takes_its_defaults_from_the_settings(runs: Runs) -> None:
    assert run("serve").exit_code == 0
    assert (runs.settings.host, runs.settings.port) == ("127.0.0.1", 8000)
    assert runs.settings.data_dir == Path("var")


def test_options_override_the_environment(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODSERVE_PORT", "9001")
    monkeypatch.setenv("MODSERVE_LOG_LEVEL", "warning")
    assert run("serve", "--port", "9002", "--data-dir", "/tmp/x").exit_code == 0
    assert (runs.settings.port, runs.settings.log_level) == (9002, "warning")
    assert runs.settings.data_dir == Path("/tmp/x")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "", "models.example"])
def test_on_public_addresses_the_first_start_makes_a_key(
    runs: Runs, tmp_path: Path, host: str
) -> None:
    serve = ("serve", "--host", host, "--data-dir", str(tmp_path))
    assert run(*serve, "--insecure").exit_code == 0
    assert key_rows(tmp_path) == []
    first = run(*serve)
    assert (first.exit_code, runs.settings.host) == (0, host)
    (row,) = key_rows(tmp_path)
    assert (row["name"], row["scopes"]) == ("admin", ["admin"])
    assert first.stdout.count(f"msk_{row['id']}_") == 1
    assert "msk_" not in run(*serve).output
    assert key_rows(tmp_path) == [row]


def test_a_supplied_key_is_used(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = ("serve", "--host", "0.0.0.0", "--data-dir", str(tmp_path))
    as_json = run("keys", "generate", "--json")
    assert json.loads(as_json.stdout)["key"].startswith("msk_")
    generated = run("keys", "generate")
    assert generated.exit_code == 0
    monkeypatch.setenv("MODSERVE_API_KEY", generated.stdout.strip())
    served = run(*serve)
    assert (served.exit_code, served.output) == (0, "")
    (tmp_path / "secret").write_text(generated.stdout)
    monkeypatch.setenv("MODSERVE_API_KEY", "")
    monkeypatch.setenv("MODSERVE_API_KEY_FILE", str(tmp_path / "secret"))
    assert run(*serve).output == ""
    assert key_rows(tmp_path) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
@pytest.mark.parametrize(
    ("name", "value"), [("API_KEY", "msk_000000000000_secret"), ("API_KEY_FILE", "/nowhere")]
)
def test_an_invalid_supplied_key_prevents_the_start(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, name: str, value: str
) -> None:
    monkeypatch.setenv(f"MODSERVE_{name}", value)
    refused = run("serve", "--host", host, "--data-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert f"MODSERVE_{name}:" in refused.output
    assert "secret" not in refused.output
    assert runs.settings is None


def test_an_unreadable_key_file_prevents_the_start(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("?")
    refused = run("serve", "--host", "0.0.0.0", "--data-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert "keys.json" in refused.output
    assert runs.settings is None


def test_the_host_variable_decides_about_the_first_key_too(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODSERVE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("MODSERVE_HOST", "0.0.0.0")
    for host in ("localhost", "127.0.0.9", "::1"):
        assert run("serve", "--host", host).exit_code == 0
    assert key_rows(tmp_path) == []
    assert run("serve").exit_code == 0
    assert len(key_rows(tmp_path)) == 1


def test_certificate_and_key_become_settings(runs: Runs) -> None:
    assert run("serve", "--tls-cert", "a.pem", "--tls-key", "b.pem").exit_code == 0
    assert (runs.settings.tls_cert, runs.settings.tls_key) == (Path("a.pem"), Path("b.pem"))


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--port", "70000", "less than or equal to 65535"),
        ("--log-level", "loud", "'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    runs: Runs, option: str, value: str, text: str
) -> None:
    refused = run("serve", option, value)
    assert refused.exit_code == 2
    assert option in refused.output
    assert text in " ".join(refused.output.split())


def test_an_invalid_setting_in_the_environment_is_refused(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODSERVE_LEASE_SECONDS", "soon")
    refused = run("serve")
    assert refused.exit_code == 2
    assert "MODSERVE_LEASE_SECONDS" in refused.output
    monkeypatch.delenv("MODSERVE_LEASE_SECONDS")
    monkeypatch.setenv("MODSERVE_DEVICES", "gpu(0)")
    refused = run("serve")
    assert refused.exit_code == 2
    assert "devices" in refused.output
    assert "a list is JSON" in " ".join(refused.output.split())
    assert runs.settings is None


@pytest.mark.parametrize("command", ["doctor", "bench"])
def test_a_setting_the_engine_refuses_is_reported_in_one_line(command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "app", command],
        env={**os.environ, "MODSERVE_MATH": "bfloat16", "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "settings: MODSERVE_MATH is 'bfloat16', but this processor" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("devices", ["[]", '["cup(0)"]', '["cpu(0)", "cpu(0)"]'])
def test_invalid_devices_are_refused(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, devices: str
) -> None:
    monkeypatch.setenv("MODSERVE_DEVICES", devices)
    refused = run("serve")
    assert refused.exit_code == 2
    assert "MODSERVE_DEVICES" in refused.output
    assert runs.settings is None


def test_a_misspelt_variable_is_reported(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODSERVE_PROT", "9001")
    monkeypatch.setenv("MODSERVE_SERVICE_PORT", "80")  # as Kubernetes sets for services
    monkeypatch.setenv("MODSERVE_URL", "http://127.0.0.1:9001")  # what commands ask
    served = run("serve")
    assert served.exit_code == 0
    assert "MODSERVE_PROT is not a setting and is ignored; did you mean 'MODSERVE_PORT'?" in (
        served.output
    )
    assert "SERVICE" not in served.output
    assert "MODSERVE_URL" not in served.output


def test_the_port_variable_set_by_kubernetes_is_explained(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODSERVE_PORT", "tcp://10.0.0.1:8000")
    refused = run("serve")
    assert refused.exit_code == 2
    assert "enableServiceLinks" in refused.output
    assert run("serve", "--port", "8000").exit_code == 0


def test_an_address_in_use_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = run("serve", "--host", "127.0.0.1", "--port", str(taken.getsockname()[1]))
    assert refused.exit_code == 2
    assert "Address already in use" in refused.output
    assert "Traceback" not in refused.output
    assert not list(tmp_path.iterdir())  # nothing was opened or claimed


def test_openapi_writes_the_document(tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    assert run("openapi", str(path)).exit_code == 0
    assert path.read_text() == openapi_text()
    assert json.loads(path.read_text())["info"]["title"] == "modserve"


def test_bench_suggests_the_nearest_case_for_an_unknown_one() -> None:
    refused = run("bench", "infer/lenet/2")
    assert refused.exit_code == 2
    assert "infer/lenet/1" in refused.output


def test_help_and_wrong_options_do_not_import_rich() -> None:
    code = "import sys, app.cli.main; print('rich' in sys.modules, 'httpx' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"modserve {version('modserve')}\n")


def test_devices_can_be_given_as_options(runs: Runs) -> None:
    assert run("serve", "--device", "gpu", "--device", "cpu(1)").exit_code == 0
    assert runs.settings.devices == ("gpu(0)", "cpu(1)")
    assert "--device: got 'tpu'" in run("serve", "--device", "tpu").output
