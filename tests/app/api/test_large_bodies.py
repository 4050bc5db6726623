"""Large bodies are read and written beside the event loop."""

from __future__ import annotations

import threading

import httpx
import numpy as np
import pytest

from app.api import tensor_io
from app.api.bodies import beside_the_loop
from served.network import FEATURES

MANY = 20_000


@pytest.fixture
def api(inside: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client of a server whose threads a test can look at."""
    return inside


@pytest.mark.parametrize(("size", "is_here"), [(0, True), (1 << 17, True), (1 << 18, False)])
async def test_only_what_is_large_goes_into_a_thread(size: int, is_here: bool) -> None:
    thread = await beside_the_loop(size, threading.get_ident)
    assert (thread == threading.get_ident()) is is_here


async def test_a_large_prediction_is_decoded_and_encoded_in_threads(
    initialized: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def noted(function):
        def call(*arguments, **options):
            threads.append(threading.get_ident())
            return function(*arguments, **options)

        return call

    for name in ("decode", "encode"):
        monkeypatch.setattr(tensor_io, name, noted(getattr(tensor_io, name)))
    row = [round(one, 3) for one in np.linspace(0, 1, FEATURES)]
    answer = await initialized.post(
        "/v1/modules/net/predict", json={"inputs": {"data": [row] * MANY}}
    )
    assert answer.status_code == 200
    assert answer.json()["outputs"]["softmax_output"]["shape"] == [MANY, 3]
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    threads.clear()
    small = await initialized.post("/v1/modules/net/predict", json={"inputs": {"data": [row]}})
    assert small.json()["outputs"]["softmax_output"]["shape"] == [1, 3]
    assert threads == [threading.get_ident()] * 2
