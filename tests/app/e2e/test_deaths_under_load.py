"""Executors that die under load: each client gets an answer, and is soon served again."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np

from app.client import Client
from app.client.local_server import running_server
from served.perceptron import perceptron
from served.processes import ENVIRONMENT, executor_pid, wait_until

FEATURES, CLIENTS, KILLS = 8, 12, 4


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_clients_get_right_answers_or_are_told_to_retry(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((CLIENTS, FEATURES)).astype("f")
    headers = {"content-type": "application/x-npy", "accept": "application/x-npy"}
    statuses: Counter[int] = Counter()
    wrong: list[int] = []
    longest = [0.0] * CLIENTS
    is_over = threading.Event()

    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        client.create_module("net", perceptron().tojson())
        client.bind("net", [{"name": "data", "shape": [4, FEATURES]}], for_training=False)
        client.init_params("net", seed=3)
        (expected,) = client.predict("net", data=rows).values()
        url = f"{server.url}/v1/modules/net/predict"

        def ask(number: int) -> None:
            body = npy(rows[number : number + 1])
            with httpx.Client(timeout=60, headers=headers) as http:
                while not is_over.is_set():
                    began = time.monotonic()
                    answer = http.post(url, content=body)
                    longest[number] = max(longest[number], time.monotonic() - began)
                    statuses[answer.status_code] += 1
                    if answer.status_code == 200:
                        found = np.load(io.BytesIO(answer.content))[0]
                        if not np.allclose(found, expected[number], rtol=1e-5, atol=1e-7):
                            wrong.append(number)
                    else:
                        assert answer.headers["retry-after"]
                        time.sleep(0.02)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                before = statuses[200]
                wait_until(lambda before=before: statuses[200] > before + 50, "predictions")
                os.kill(executor_pid(client), signal.SIGKILL)
                wait_until(client.is_ready, "another executor is ready")
            before = statuses[200]
            wait_until(lambda: statuses[200] > before + 50, "predictions by the last executor")
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert set(statuses) == {200, 503}
        assert not wrong
        assert max(longest) < 30
        executor = client.executors()[0]
        assert executor["request_bytes"] == 0
