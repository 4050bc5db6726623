"""Triton's shared-memory extension is not supported, and requests for it say so."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from app.client.local_server import ServerProcess
from served.oip_forms import numbers
from served.perceptron import FEATURES

REGION = {"shared_memory_region": "mine", "shared_memory_byte_size": 12}
X = np.ones((1, FEATURES), "f")


def asking() -> dict[str, dict[str, Any]]:
    plain = numbers(X)
    given = {name: value for name, value in plain["inputs"][0].items() if name != "data"}
    wished = {"name": "softmax_output", "parameters": REGION}
    return {
        "inputs[0]": {"inputs": [given | {"parameters": REGION}]},
        "outputs[0]": plain | {"outputs": [wished]},
    }


@pytest.mark.parametrize("field", asking())
def test_a_region_is_refused_by_name(http: httpx.Client, field: str) -> None:
    for _ in range(2):  # by the router, and again once the module is known
        answer = http.post("/v2/models/net/infer", json=asking()[field])
        assert answer.status_code == 400
        assert f"{field}.parameters.shared_memory_region: got mine" in answer.json()["error"]


def test_tritons_client_gets_the_refusal(server: ServerProcess, http: httpx.Client) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    data = triton.InferInput("data", list(X.shape), "FP32").set_data_from_numpy(X)
    output = triton.InferRequestedOutput("softmax_output")
    output.set_shared_memory("mine", 12)
    try:
        with pytest.raises(triton.InferenceServerException, match="shared_memory_region"):
            client.infer("net", [data], outputs=[output])
    finally:
        client.close()
    assert not any("shared_memory" in one for one in http.get("/v2").json()["extensions"])
