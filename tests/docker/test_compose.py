"""The Compose file: valid, consistent with the image and the server, and run for real."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess
from app.domain.api_key import new_key_text
from app.link.process import ProcessOptions
from app.settings import Settings, unknown_variables
from served.compose import COMPOSE, read_compose
from served.containers import container_server, image_environment, image_facts
from served.model_folders import write_epoch, write_model
from served.network import FEATURES
from served.processes import wait_until

PROFILES = {"cpu", "gpu", "models", "proxy", "monitoring"}
SERVERS = ("cpu", "gpu", "models")
SERVICES: dict[str, Any] = read_compose()["services"]
KEY = new_key_text()


def seconds(duration: str) -> float:
    found = re.fullmatch(r"(\d+)s", duration)
    assert found, duration
    return float(found[1])


def test_it_conforms_to_the_compose_schema() -> None:
    tool = str(Path(sys.executable).parent / "check-jsonschema")
    run = subprocess.run(
        [tool, "--builtin-schema", "vendor.compose-spec", str(COMPOSE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_nothing_runs_without_a_profile() -> None:
    assert {profile for one in SERVICES.values() for profile in one["profiles"]} == PROFILES
    assert all(len(one["profiles"]) == 1 for one in SERVICES.values())
    assert "--insecure" not in COMPOSE.read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_services_have_no_unneeded_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    limits = service["deploy"]["resources"]["limits"]
    assert {"cpus", "memory", "pids"} <= limits.keys()
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["logging"]["options"]["max-size"]
    if name != "proxy":  # the one open to other machines, with TLS
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_referenced_files_and_volumes_exist() -> None:
    compose = read_compose()
    named = {one.partition(":")[0] for one in (v for s in SERVICES.values() for v in s["volumes"])}
    folders = {one for one in named if one.startswith(".")}
    assert named - folders == compose["volumes"].keys()
    assert folders - {"./models"} == {"./nginx", "./prometheus"}
    assert all((COMPOSE.parent / one).is_dir() for one in folders - {"./models"})
    secrets = {one for service in SERVICES.values() for one in service.get("secrets", ())}
    assert secrets == compose["secrets"].keys()
    for service, key, folder in (
        ("proxy", "entrypoint", "nginx"),
        ("prometheus", "command", "prometheus"),
    ):
        (mounted,) = [one for one in SERVICES[service]["volumes"] if f"/{folder}:" in one]
        inside = mounted.split(":")[1]
        (config,) = re.findall(rf"{inside}/(\S+)", " ".join(SERVICES[service][key]))
        assert (COMPOSE.parent / folder / config).is_file()


def settings_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings of a service's server; an unknown variable fails."""
    variant = SERVICES[name]["build"].get("args", {}).get("VARIANT", "cpu")
    values = {**image_environment(variant), **SERVICES[name]["environment"]}
    assert unknown_variables(values) == {}
    for variable, value in values.items():
        if variable.startswith("MODSERVE_"):
            monkeypatch.setenv(variable, value)
    return Settings()


@pytest.mark.parametrize("name", SERVERS)
def test_servers_are_consistent_with_the_image(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service, settings, facts = SERVICES[name], settings_of(name, monkeypatch), image_facts()
    root = (COMPOSE.parent / service["build"]["context"]).resolve()
    assert (root / service["build"]["dockerfile"]).is_file()
    (port,) = service["ports"]
    assert port.endswith(f":{facts['EXPOSE']}")
    assert int(facts["EXPOSE"]) == settings.port
    inside = [one.split(":")[1] for one in service["volumes"]]
    assert inside[0] == facts["VOLUME"] == str(settings.data_dir)
    assert service.get("command", json.loads(facts["CMD"]))[0] == "serve"
    assert facts["HEALTHCHECK"].endswith(json.dumps(service["healthcheck"]["test"][1:]))
    assert settings.devices == (("gpu(0)",) if name == "gpu" else ("cpu(0)",))
    grace = seconds(service["stop_grace_period"])
    assert grace >= settings.drain_seconds + ProcessOptions(program=()).stop_seconds + 15


def test_servers_are_reachable_by_the_names_proxy_and_prometheus_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in SERVERS:
        assert SERVICES[name]["networks"]["default"]["aliases"] == ["modserve"]
        assert "modserve" in settings_of(name, monkeypatch).allowed_hosts
    for path in ("nginx/nginx.conf", "prometheus/prometheus.yaml"):
        assert "modserve:8000" in (COMPOSE.parent / path).read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compose")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """The server of the profile ``models``, with folders in place of its volumes."""
    service = read_compose(MODSERVE_API_KEY=KEY)["services"]["models"]
    write_model(folder / "models" / "net", 1)
    folders = {"/tmp": folder / "tmp"}
    for mount in service["volumes"]:
        source, inside, *_ = mount.split(":")
        folders[inside] = folder / source
        folders[inside].mkdir(exist_ok=True)
    arguments = (service["command"], service["environment"], folders, folder / "log")
    with container_server(*arguments) as server:
        yield server


def test_the_models_service_is_healthy_and_requires_its_key(server: ServerProcess) -> None:
    _, *health = SERVICES["models"]["healthcheck"]["test"][1:]
    command = [sys.executable, "-m", "app", *health, "--url", server.url]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert httpx.get(f"{server.url}/v1/modules").status_code == 401


def test_the_models_service_follows_changes_of_its_folder(
    server: ServerProcess, folder: Path
) -> None:
    data = np.ones((1, FEATURES), np.float32)
    with Client(server.url, key=KEY) as client:

        def favourite(name: str) -> int:
            return int(client.predict(name, data=data)["softmax_output"][0].argmax())

        assert favourite("net") == 1
        write_epoch(folder / "models" / "net", 2)
        client.reload_models()
        wait_until(lambda: favourite("net") == 2, "the new epoch")
