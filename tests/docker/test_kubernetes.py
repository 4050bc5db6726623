"""The Kubernetes manifests: valid, consistent with image and server, and run for real."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from starlette.applications import Starlette

from app.api.security.origins import OriginCheck
from app.client import Client
from app.domain.api_key import new_key_text
from app.link.process import ProcessOptions
from app.settings import Settings, unknown_variables
from served.containers import container_server, image_environment, image_facts
from served.kubernetes import KUBERNETES, environment_of, kustomize
from served.model_folders import write_model
from served.network import BATCH, FEATURES, NETWORK, examples_npz, fit_body
from served.processes import wait_until

OVERLAYS = ("base", "overlays/gpu", "overlays/models")
KEY = new_key_text()
PATHS = json.loads((KUBERNETES.parents[1] / "openapi" / "openapi.json").read_text())["paths"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubernetes")


@pytest.fixture(scope="module", params=OVERLAYS)
def built(request: pytest.FixtureRequest, folder: Path) -> list[dict[str, Any]]:
    return kustomize(request.param, folder)


def of_kind(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [one for one in documents if one["kind"] == kind]
    return found


def pod_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = of_kind(documents, "StatefulSet")["spec"]["template"]["spec"]
    return spec


def container_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    (container,) = pod_of(documents)["containers"]
    return dict(container)


def test_the_api_server_accepts_the_manifests(built: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "built.yaml").write_text(yaml.safe_dump_all(built))
    tool = Path(sys.executable).parent / "kubernetes-validate"
    checked = subprocess.run(
        [str(tool), "--strict", "--quiet", str(tmp_path / "built.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_without_a_key_they_cannot_be_applied() -> None:
    assert not [path for path in KUBERNETES.rglob("api_key")]
    for folder in ("base", "kserve"):
        settings = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
        assert settings["secretGenerator"][0]["files"] == ["api_key"]


def test_selectors_match_only_the_pod(built: list[dict[str, Any]]) -> None:
    labels = of_kind(built, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for kind, found in (
        ("Service", of_kind(built, "Service")["spec"]["selector"]),
        ("StatefulSet", of_kind(built, "StatefulSet")["spec"]["selector"]["matchLabels"]),
        ("NetworkPolicy", of_kind(built, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]),
        ("PDB", of_kind(built, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]),
    ):
        assert found, kind
        assert found.items() <= labels.items(), kind
    policy = of_kind(built, "NetworkPolicy")["spec"]
    assert policy["ingress"][0]["from"][0] == {
        "podSelector": {"matchLabels": {"modserve-client": "true"}}
    }
    assert "egress" not in policy
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert (
        of_kind(built, "StatefulSet")["spec"]["serviceName"]
        == of_kind(built, "Service")["metadata"]["name"]
    )
    assert of_kind(built, "StatefulSet")["spec"]["replicas"] == 1


def test_they_are_consistent_with_the_image(built: list[dict[str, Any]]) -> None:
    container, pod = container_of(built), pod_of(built)
    facts = image_facts()
    user, group = facts["USER"].split(":")
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert pod["securityContext"]["runAsGroup"] == pod["securityContext"]["fsGroup"] == int(group)
    assert json.loads(facts["ENTRYPOINT"]) == ["modserve"]
    assert "command" not in container
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert mounts[facts["VOLUME"]] == "data"
    claims = of_kind(built, "StatefulSet")["spec"]["volumeClaimTemplates"]
    volumes = {one["name"] for one in pod["volumes"]} | {one["metadata"]["name"] for one in claims}
    assert set(mounts.values()) == volumes
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {"http": int(facts["EXPOSE"])} == {"http": Settings().port}
    (port,) = of_kind(built, "Service")["spec"]["ports"]
    assert port["targetPort"] == "http"
    assert of_kind(built, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"] == "http"


def test_the_pod_has_no_unneeded_privileges(built: list[dict[str, Any]]) -> None:
    labels = of_kind(built, "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod, container = pod_of(built), container_of(built)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    assert not pod["enableServiceLinks"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    limits = container["resources"]["limits"]
    assert {"cpu", "memory"} <= limits.keys()


def settings_of(container: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings of a container's server; an unknown variable fails."""
    values = {**image_environment(), **environment_of(container, {"api_key": KEY})}
    assert unknown_variables(values) == {}
    for name, value in values.items():
        if name.startswith("MODSERVE_"):
            monkeypatch.setenv(name, value)
    return Settings()


def test_variables_are_valid_settings(
    built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    container = container_of(built)
    settings = settings_of(container, monkeypatch)
    gpus = int(container["resources"]["limits"].get("nvidia.com/gpu", 0))
    expected = tuple(f"gpu({index})" for index in range(gpus)) or ("cpu(0)",)
    assert settings.devices == expected
    assert container["args"][0] == "serve"
    least = settings.drain_seconds + ProcessOptions(program=()).stop_seconds
    assert pod_of(built)["terminationGracePeriodSeconds"] >= least + 15, "15 s for checkpoints"


def test_the_server_accepts_the_host_names_it_is_called_by(
    built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = OriginCheck(Starlette(), settings_of(container_of(built), monkeypatch))

    def is_known(host: str) -> bool:
        headers = [(b"host", host.encode())]
        scope = {"type": "http", "method": "POST", "path": "/v1/modules", "headers": headers}
        return guard.fault(scope) is None

    for host in (
        "10.42.0.7:8000",  # probes and Prometheus
        "modserve:8000",
        "modserve.modserve:8000",
        "modserve.modserve.svc.cluster.local:8000",
        "modserve-0.modserve.modserve.svc.cluster.local:8000",
    ):
        assert is_known(host), host
    assert not is_known("evil.example")


def test_probes_use_existing_routes(built: list[dict[str, Any]]) -> None:
    container = container_of(built)
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        assert "get" in PATHS[probe["path"]], name
        assert probe["port"] == "http"
    # A server waiting for an executor should get no traffic, but not be restarted.
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.fixture
def place(folder: Path, tmp_path: Path) -> dict[str, Path]:
    """Folders in place of the volumes."""
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / "api_key").write_text(KEY)
    for index in range(2):
        write_model(tmp_path / "models" / f"net{index}", 1)
    for each in ("data", "tmp"):
        (tmp_path / each).mkdir()
    return {one.name: one for one in tmp_path.iterdir()}


def running(documents: list[dict[str, Any]], place: dict[str, Path], log: Path) -> Any:
    """Run the StatefulSet's server."""
    container = container_of(documents)
    folders = {one["mountPath"]: place[one["name"]] for one in container["volumeMounts"]}
    return container_server(
        container["args"],
        environment_of(container, {}),
        folders,
        log,
        grace_seconds=pod_of(documents)["terminationGracePeriodSeconds"],
    )


def probe(url: str, documents: list[dict[str, Any]], name: str) -> int:
    return httpx.get(f"{url}{container_of(documents)[name]['httpGet']['path']}").status_code


def test_it_drains_within_the_grace_period_and_resumes(
    folder: Path, place: dict[str, Path], tmp_path: Path
) -> None:
    documents = kustomize("base", folder)
    log = tmp_path / "log"
    answers: list[Any] = []
    with running(documents, place, log) as server:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            wait_until(lambda name=name: probe(server.url, documents, name) == 200, name)
        assert httpx.get(f"{server.url}/v1/modules").status_code == 401
        with Client(server.url, key=KEY) as client:
            job = begin_work(client, tmp_path)
            wait_until(lambda: not is_asked(client), "no call under way")
            asking = threading.Thread(target=lambda: answers.append(predict(server.url)))
            asking.start()
            wait_until(lambda: is_asked(client) or bool(answers), "a prediction under way")
            begin = time.monotonic()
            server.process.terminate()
            grace = pod_of(documents)["terminationGracePeriodSeconds"]
            server.process.wait(timeout=grace)
            assert time.monotonic() - begin < grace
            asking.join()
    assert server.process.returncode in (0, -15)
    assert answers == [(1, 3)], "the prediction under way was answered"
    with running(documents, place, log) as server, Client(server.url, key=KEY) as client:
        wait_until(lambda: client.job(job)["attempt"] == 2, "the job goes on")
        wait_until(lambda: client.job(job)["status"] == "running", "the job runs")
        client.cancel(job)


def begin_work(client: Client, folder: Path) -> int:
    """Start a long fit; return its id once it has trained a little."""
    (folder / "examples.npz").write_bytes(examples_npz())
    client.put_dataset("examples", folder / "examples.npz")
    for name in ("net", "asked"):
        client.create_module(name, json.dumps(NETWORK))
    client.bind("asked", [{"name": "data", "shape": [BATCH, FEATURES]}], for_training=False)
    client.init_params("asked", "xavier", seed=1)
    # A prediction waits 3 s for others, so that it is still unanswered when the server stops.
    client.set_serving("asked", max_batch_size=BATCH, max_delay_us=3_000_000, batches="always")
    job = int(client.fit("net", **fit_body(epochs=100_000))["id"])
    wait_until(lambda: bool(client.checkpoints("net")), "a checkpoint of the fit")
    return job


def predict(url: str) -> Any:
    with Client(url, key=KEY) as client:
        return client.predict("asked", data=np.ones((1, FEATURES), "f"))["softmax_output"].shape


def is_asked(client: Client) -> bool:
    text = client.request("GET", "/metrics").text
    return 'modserve_executor_calls_under_way{executor="cpu(0)"} 0.0' not in text


def test_the_models_overlay_serves_its_folder(
    folder: Path, place: dict[str, Path], tmp_path: Path
) -> None:
    documents = kustomize("overlays/models", folder)
    with (
        running(documents, place, tmp_path / "log") as server,
        Client(server.url, key=KEY) as client,
    ):
        assert probe(server.url, documents, "readinessProbe") == 200
        assert {one["name"] for one in client.modules()} == {"net0", "net1"}
        assert client.predict("net1", data=np.ones((1, FEATURES), "f"))["softmax_output"].shape
