"""Large bodies are encoded and large answers decoded off the event loop."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import AsyncClient, tensors
from app.tensors.npy import write_npz

LARGE = np.zeros(1 << 19, np.float32)
SMALL = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("value", "is_beside"),
    [
        (LARGE, True),
        (SMALL, False),
        (LARGE.reshape(512, 1024).tolist(), True),
        ([[1.0, 2.0]], False),
    ],
)
async def test_an_event_loop_does_not_encode_large_bodies(
    value: Any, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding: list[bool] = []
    decoding: list[bool] = []

    def noted(function: Any, threads: list[bool]) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            threads.append(threading.current_thread() is not threading.main_thread())
            return function(*args, **options)

        return call

    monkeypatch.setattr(tensors, "encode", noted(tensors.encode, encoding))
    monkeypatch.setattr(tensors, "decode", noted(tensors.decode, decoding))

    def answer(request: httpx.Request) -> httpx.Response:
        content = write_npz({"out": np.asarray(value, np.float64)})
        return httpx.Response(200, content=content, headers={"Content-Type": "application/x-npz"})

    async with AsyncClient(transport=httpx.MockTransport(answer)) as client:
        outputs = await client.predict("net", data=value)
    np.testing.assert_array_equal(outputs["out"], np.asarray(value))
    assert encoding == [is_beside]
    assert decoding == [is_beside]
