"""Log lines as JSON, per request, and what a start does not log."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import running_server
from app.logs import JsonLines, TextLines, quoted_value
from served import lenet
from served.keys import add_key
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


FORGED = "2026-11-28 02:00:00,000 INFO modserve.audit: change key=0 name=root status=200"
STEERING = "\x1b[2J\x07\r\x85\x9b2K\u2028\u202e"
"""Clears a terminal, rings it, returns to the line's beginning, turns the direction of writing."""
CONTROLS = set(STEERING) - set("[2JK")


@pytest.mark.parametrize("form", [TextLines("%(message)s"), JsonLines()], ids=["text", "json"])
def test_nothing_in_a_record_makes_a_line_of_its_own(form: logging.Formatter) -> None:
    try:
        raise ValueError(f"x\n{FORGED}{STEERING}")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
        message = f"a\n{FORGED}{STEERING}"
        record = logging.LogRecord("a", logging.ERROR, "f.py", 1, "%s", (message,), info)
    text = form.format(record)
    assert not CONTROLS & set(text)
    lines = text.splitlines()
    assert not [line for line in lines if line.startswith(FORGED)]
    if isinstance(form, JsonLines):
        (line,) = lines
        assert json.loads(line)["message"] == message


@pytest.mark.parametrize(
    ("value", "shown"),
    [("/v1/modules/a", "/v1/modules/a"), (200, "200"), ("", '""'), ("a key=b", '"a key=b"')],
)
def test_a_value_cannot_look_like_another_field(value: object, shown: str) -> None:
    assert quoted_value(value) == shown


def test_refused_requests_write_no_lines_of_their_own(tmp_path: Path) -> None:
    add_key(tmp_path, "first", "admin")
    with running_server(tmp_path, environment=ENVIRONMENT) as server:
        for text in (f"a\n{FORGED}", f"a{STEERING}", f"a key=0 status=200 {FORGED}"):
            refused = httpx.get(
                f"{server.url}/v1/modules/{quote(text)}", headers={"X-Forwarded-For": "a key=0"}
            )
            assert refused.status_code == 401
    lines = [one for one in server.log.read_text().splitlines() if ": refused " in one]
    assert len(lines) == 3
    for line in lines:
        assert " modserve.audit: refused key=none status=401 " in line
        assert not CONTROLS & set(line)
        words = shlex.split(line)
        assert [word for word in words if word.startswith("key=")] == ["key=none"]
        assert [word for word in words if word.startswith("status=")] == ["status=401"]


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


def test_predictions_in_the_fast_path_continue_the_trace(tmp_path: Path) -> None:
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
        url = f"{server.url}/v1/modules/lenet/graph"
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
