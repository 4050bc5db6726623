"""The KServe runtime: valid by KServe's own models, and run as declared."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
import yaml

from app.client.local_server import ServerProcess
from app.domain.api_key import new_key_text
from app.link.process import ProcessOptions
from app.settings import Settings, unknown_variables
from served.containers import container_server, image_environment, image_facts
from served.kserve_models import faults
from served.kubernetes import KUBERNETES, environment_of, kustomize
from served.model_folders import write_model
from served.network import FEATURES

RUNTIME = yaml.safe_load((KUBERNETES / "kserve" / "servingruntime.yaml").read_text())
SERVICE = yaml.safe_load((KUBERNETES / "kserve" / "inferenceservice.yaml").read_text())
(CONTAINER,) = RUNTIME["spec"]["containers"]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
PATHS = json.loads((KUBERNETES.parents[1] / "openapi" / "openapi.json").read_text())["paths"]
KEY = new_key_text()


def test_kserve_accepts_the_resources() -> None:
    assert faults(RUNTIME, "V1alpha1ServingRuntime") == []
    assert faults(SERVICE, "V1beta1InferenceService") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec.update(protocolVersion=["v2"]), "protocolVersion: "),
        (lambda spec: spec["containers"][0].update(arg=[]), "containers[0].arg: "),
        (lambda spec: spec["containers"][0].pop("name"), "name"),
        (
            lambda spec: spec["containers"][0]["ports"][0].update(containerPort="x"),
            "container_port",
        ),
        (lambda spec: spec["supportedModelFormats"][0].update(autoselect=True), "autoselect"),
    ],
)
def test_resources_kserve_would_refuse_are_detected(change: Any, said: str) -> None:
    wrong = copy.deepcopy(RUNTIME)
    change(wrong["spec"])
    assert said in faults(wrong, "V1alpha1ServingRuntime")[0]


def test_it_declares_the_protocol_and_mxnet_models() -> None:
    assert RUNTIME["apiVersion"] == "serving.kserve.io/v1alpha1"
    assert CONTAINER["name"] == "kserve-container"
    assert RUNTIME["spec"]["protocolVersions"] == ["v2"]
    formats = {one["name"] for one in RUNTIME["spec"]["supportedModelFormats"]}
    model = SERVICE["spec"]["predictor"]["model"]
    assert formats == {model["modelFormat"]["name"]} == {"mxnet"}
    assert (model["runtime"], model["protocolVersion"]) == (RUNTIME["metadata"]["name"], "v2")


def test_variables_probes_and_port_match_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {**image_environment(), **environment_of(CONTAINER, {"api_key": KEY})}
    assert unknown_variables(values) == {}
    for name, value in values.items():
        if name.startswith("MODSERVE_"):
            monkeypatch.setenv(name, value)
    settings = Settings()
    (port,) = CONTAINER["ports"]
    assert port["containerPort"] == settings.port
    for name in PROBES:
        probe = CONTAINER[name]["httpGet"]
        assert "get" in PATHS[probe["path"]], name
        assert probe["port"] == settings.port
    grace = SERVICE["spec"]["predictor"]["terminationGracePeriodSeconds"]
    assert grace >= settings.drain_seconds + ProcessOptions(program=()).stop_seconds + 15
    assert str(CONTAINER["securityContext"]["runAsUser"]) == image_facts()["USER"].split(":")[0]
    volumes = {one["name"] for one in RUNTIME["spec"]["volumes"]}
    mounts = {one["mountPath"]: one["name"] for one in CONTAINER["volumeMounts"]}
    assert set(mounts.values()) == volumes
    assert image_facts()["VOLUME"] in mounts


def test_kustomize_includes_the_secret_the_runtime_names(tmp_path: Path) -> None:
    documents = {one["kind"]: one for one in kustomize("kserve", tmp_path)}
    assert documents["ServingRuntime"] == RUNTIME
    assert documents["InferenceService"] == SERVICE
    named = [one["valueFrom"]["secretKeyRef"] for one in CONTAINER["env"] if "valueFrom" in one]
    (secret,) = named
    assert documents["Secret"]["metadata"]["name"] == secret["name"]
    assert secret["key"] in documents["Secret"]["data"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The runtime's server, with a models folder where KServe puts the storage."""
    folder = tmp_path_factory.mktemp("kserve")
    write_model(folder / "models" / "net", 1)
    folders = {one["mountPath"]: folder / one["name"] for one in CONTAINER["volumeMounts"]}
    for each in folders.values():
        each.mkdir()
    folders["/mnt/models"] = folder / "models"
    environment = environment_of(CONTAINER, {"api_key": KEY})
    with container_server(CONTAINER["args"], environment, folders, folder / "log") as server:
        yield server


def test_probes_need_no_key(server: ServerProcess) -> None:
    for name in PROBES:
        answer = httpx.get(f"{server.url}{CONTAINER[name]['httpGet']['path']}")
        assert answer.status_code == 200, name


def test_tritons_client_predicts_with_a_stored_model(server: ServerProcess) -> None:
    url = f"{server.url}/v2/models/net/infer"
    # Under whatever host name a KServe router uses.
    host = {"Host": "digits-predictor.team.example"}
    refused = httpx.post(url, json={"inputs": []}, headers=host)
    assert refused.status_code == 401
    client = triton.InferenceServerClient(server.url.partition("//")[2])
    data = triton.InferInput("data", [1, FEATURES], "FP32")
    data.set_data_from_numpy(np.ones((1, FEATURES), np.float32))
    answer = client.infer("net", [data], headers={"Authorization": f"Bearer {KEY}", **host})
    assert answer.as_numpy("softmax_output").shape == (1, 3)
