"""Log lines as JSON, per request, and what a start does not log."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from app.client import Client
from app.client.local_server import running_server
from app.logs import JsonLines
from served import lenet
from served.perceptron import perceptron
from served.processes import ENVIRONMENT, wait_until

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACED = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01", "x-request-id": "order-66"}


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Return the parsed lines, which must all be JSON; the last may be incomplete."""
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if "\n" in line]


def requests_of(log: Path, path: str) -> list[dict[str, Any]]:
    """Return the lines of requests to a path."""
    found = lines_of(log)
    return [one for one in found if one["message"] == "request" and one["path"] == path]


def test_an_error_is_logged_with_its_traceback_in_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
        record = logging.LogRecord("a", logging.ERROR, "f.py", 1, "failed %s", ("é",), info)
    (line,) = JsonLines("cpu(0)").format(record).splitlines()
    parsed = json.loads(line)
    assert (parsed["message"], parsed["level"]) == ("failed é", "error")
    assert parsed["executor"] == "cpu(0)"
    assert "ValueError: two" in parsed["exception"]


def test_all_lines_are_json_and_those_of_requests_have_the_trace_id(tmp_path: Path) -> None:
    environment = {"MODSERVE_LOG_FORMAT": "json", "MODSERVE_LOG_LEVEL": "debug"}
    with running_server(tmp_path, environment=ENVIRONMENT | environment) as server:
        answer = httpx.get(f"{server.url}/v1/modules", headers=TRACED)
        wait_until(lambda: requests_of(server.log, "/v1/modules") != [], "the line is written")
    (line,) = requests_of(server.log, "/v1/modules")
    assert (line["method"], line["status"], line["level"]) == ("GET", 200, "debug")
    assert line["request_id"] == answer.headers["x-request-id"] == "order-66"
    assert line["trace_id"] == TRACE_ID
    assert answer.headers["traceparent"] == f"00-{TRACE_ID}-{line['span_id']}-01"
    assert line["time"].endswith("Z")


def test_predictions_in_the_fast_lane_continue_the_trace(tmp_path: Path) -> None:
    environment = {"MODSERVE_LOG_FORMAT": "json", "MODSERVE_LOG_LEVEL": "debug"}
    path = "/v1/modules/net/predict"
    with (
        running_server(tmp_path, environment=ENVIRONMENT | environment) as server,
        Client(server.url) as client,
    ):
        client.create_module("net", perceptron().tojson())
        client.bind("net", [{"name": "data", "shape": [1, 8]}], for_training=False)
        client.init_params("net", seed=3)
        client.predict("net", data=np.zeros((1, 8), "f"))
        body = json.dumps({"inputs": {"data": [[0.0] * 8]}})
        headers = TRACED | {"content-type": "application/json"}
        answers = [httpx.post(f"{server.url}{path}", content=body, headers=headers) for _ in "12"]
        spans = {answer.headers["traceparent"] for answer in answers}
        assert len(spans) == 2
        assert all(one.startswith(f"00-{TRACE_ID}-") for one in spans)
        wait_until(
            lambda: len(requests_of(server.log, path)) >= 3, "the lines of predictions are written"
        )
    assert [one["request_id"] for one in requests_of(server.log, path)[-2:]] == ["order-66"] * 2


def test_the_start_does_not_log_alembics_setup(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server:
        pass
    assert "alembic" not in server.log.read_text()


def test_requests_in_progress_get_the_shutdown_timeout(tmp_path: Path) -> None:
    environment = ENVIRONMENT | {"MODSERVE_DRAIN_SECONDS": "1"}
    answers: list[httpx.Response] = []
    with running_server(tmp_path, environment=environment) as server, Client(server.url) as client:
        lenet.create(client, "lenet")
        (executor,) = client.executors()
        os.kill(executor["pid"], signal.SIGSTOP)  # calls to it are not answered from now on
        url = f"{server.url}/v1/modules/lenet"
        asking = threading.Thread(target=lambda: answers.append(httpx.get(url, timeout=30)))
        asking.start()
        wait_until(lambda: is_asked(client, executor["name"]), "the request waits for the executor")
        server.process.send_signal(signal.SIGTERM)
        asking.join(timeout=8)  # less than the default of MODSERVE_DRAIN_SECONDS, 10
        is_answered = bool(answers)
        os.kill(executor["pid"], signal.SIGCONT)
        asking.join()
    assert is_answered
    assert answers[0].status_code == 503


def is_asked(client: Client, executor: str) -> bool:
    """Return whether a call is waiting for an executor."""
    text = client.request("GET", "/metrics").text
    return f'modserve_executor_calls_under_way{{executor="{executor}"}} 1.0' in text
