"""Reading, checking and copying for one module does not delay calls on others."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from app.executor.modules import hosted_module, module_files, module_params
from served.network import BATCH, BIND, FEATURES, NETWORK

PREDICT = {"inputs": {"data": [[0.5] * FEATURES] * BATCH}}
_SECONDS = 30.0


class Gate:
    """Blocks a function until opened, and knows whether someone is waiting."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._open = threading.Event()
        self._reached = threading.Event()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self._reached.set()
        assert self._open.wait(_SECONDS), "calls on other modules waited for this function"
        return self._function(*arguments, **options)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, _SECONDS)

    def open(self) -> None:
        self._open.set()


async def make(api: httpx.AsyncClient, name: str) -> None:
    for path, body in (
        ("", {"name": name, "symbol": NETWORK}),
        (f"/{name}/bind", BIND),
        (f"/{name}/params/init", {"initializer": "xavier", "seed": 1}),
        (f"/{name}/checkpoints", {"epoch": 1}),
        (f"/{name}/params/init", {"initializer": "xavier", "seed": 2}),
    ):
        answer = await api.post(f"/v1/modules{path}", json=body)
        assert answer.is_success, answer.text


async def predicted(api: httpx.AsyncClient, name: str) -> Any:
    answer = await api.post(f"/v1/modules/{name}/predict", json=PREDICT)
    assert answer.is_success, answer.text
    return answer.json()["outputs"]


async def send(api: httpx.AsyncClient, method: str, path: str, body: Any) -> None:
    answer = await api.request(method, path, json=body)
    assert answer.is_success, answer.text


@pytest.mark.parametrize("slow", ["verify_checkpoint", "read_params", "check_values"])
async def test_a_checkpoint_loads_without_delaying_other_modules(
    inside: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    await make(inside, "net")
    await make(inside, "other")
    before = await predicted(inside, "net")
    gate = Gate(getattr(module_files, slow))
    monkeypatch.setattr(module_files, slow, gate)
    loading = asyncio.create_task(send(inside, "POST", "/v1/modules/net/load", {"epoch": 1}))
    await gate.reached()
    await predicted(inside, "other")
    behind = asyncio.create_task(predicted(inside, "net"))
    await predicted(inside, "other")
    assert not loading.done()
    assert not behind.done()
    gate.open()
    await loading
    after = await predicted(inside, "net")
    assert after != before
    assert await behind == after  # it was sent while the load was in progress


async def test_setting_parameters_does_not_delay_other_modules(
    inside: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(inside, "net")
    await make(inside, "other")
    answer = await inside.get("/v1/modules/net/params", headers={"accept": "application/x-npz"})
    present = np.load(io.BytesIO(answer.content))
    zeros = {name: np.zeros(present[name].shape).tolist() for name in present}
    gate = Gate(module_params._copied)
    monkeypatch.setattr(module_params, "_copied", gate)
    path = "/v1/modules/net/params"
    setting = asyncio.create_task(send(inside, "PUT", path, {"inputs": zeros}))
    await gate.reached()
    await predicted(inside, "other")
    gate.open()
    await setting
    (output,) = (await predicted(inside, "net")).values()
    probabilities = np.ravel(output["data"] if isinstance(output, dict) else output)
    np.testing.assert_allclose(probabilities, probabilities[0])


async def test_parsing_symbols_does_not_delay_other_modules(
    inside: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(inside, "other")
    gate = Gate(hosted_module.load_json)
    monkeypatch.setattr(hosted_module, "load_json", gate)
    body = {"name": "net", "symbol": NETWORK}
    creating = asyncio.create_task(send(inside, "POST", "/v1/modules", body))
    await gate.reached()
    await predicted(inside, "other")
    gate.open()
    await creating
