"""Prometheus rules: they use series the server really exports, and fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.client import Client, Unavailable
from app.client.local_server import ServerProcess, running_server
from served.keys import add_key
from served.network import BIND, FEATURES, NETWORK, examples_npz, fit_body
from served.processes import ENVIRONMENT, wait_until
from served.programs import program
from served.sockets import free_port

FOLDER = Path(__file__).parents[2] / "docker" / "prometheus"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
CONFIG = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus makes itself."""
TARGET_LABELS = {"job": "modserve", "instance": "modserve:8000"}
"""Labels that Prometheus adds to every series."""

SELECTOR = re.compile(r"([a-z_:]+)(?:\{([^}]*)\})?(?:\[\w+\])?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
LABEL_LIST = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
WORDS = {"and", "or", "unless"}


@dataclass
class Selector:
    """A selector in an expression."""

    metric: str
    matchers: list[tuple[str, str, str]] = field(default_factory=list)

    def takes(self, name: str, labels: dict[str, str]) -> bool:
        return name == self.metric and all(
            _agrees(labels.get(label, ""), how, value) for label, how, value in self.matchers
        )


def _agrees(found: str, how: str, value: str) -> bool:
    is_same = bool(re.fullmatch(value, found)) if "~" in how else found == value
    return is_same is not how.startswith("!")


def selectors(expression: str) -> tuple[list[Selector], set[str]]:
    """Return the selectors of an expression, and the labels it groups by."""
    grouped = {
        label.strip() for found in LABEL_LIST.findall(expression) for label in found.split(",")
    }
    rest = LABEL_LIST.sub(" ", expression)
    found = []
    for match in SELECTOR.finditer(rest):
        is_call = rest[match.end() :].lstrip().startswith("(") and match[2] is None
        is_word = match[0] in WORDS or is_call or rest[match.start() - 1 : match.start()].isalnum()
        if not is_word:
            found.append(Selector(match[1], MATCHER.findall(match[2] or "")))
    return found, grouped


def test_selectors_are_found_in_an_expression() -> None:
    found, grouped = selectors(
        'histogram_quantile(0.9, sum by (le, route) (rate(a_bucket{route=~".*/x", m!="G"}[5m]))) '
        "> 1e3 and on (instance) b == 0 unless absent(c)"
    )
    assert [one.metric for one in found] == ["a_bucket", "b", "c"]
    assert found[0].matchers == [("route", "=~", ".*/x"), ("m", "!=", "G")]
    assert grouped == {"le", "route", "instance"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with keys where a fit and a prediction have succeeded, and one of each failed."""
    folder = tmp_path_factory.mktemp("monitoring")
    # With a newline at the end, as written by a shell.
    (folder / "metrics_key").write_text(add_key(folder, "prometheus", "metrics") + "\n")
    (folder / "examples.npz").write_bytes(examples_npz())
    key = add_key(folder, "tests", "admin")
    with running_server(folder, environment=ENVIRONMENT) as one:
        with Client(one.url, key=key) as client:
            client.put_dataset("examples", folder / "examples.npz")
            _use(client)
        yield one


def _use(client: Client) -> None:
    client.create_module("net", json.dumps(NETWORK))
    client.bind("net", BIND["data_shapes"], BIND["label_shapes"])
    client.init_params("net", "xavier", seed=1)
    client.save_checkpoint("net", 1)
    assert client.wait(client.fit("net", **fit_body())["id"])["status"] == "succeeded"
    endless = client.fit("net", limits={"timeout_seconds": 0.2}, **fit_body(epochs=100_000))
    assert client.wait(endless["id"])["status"] == "failed"
    data = np.zeros((1, FEATURES), np.float32)
    client.predict("net", data=data)
    client.request("POST", "/v2/repository/models/net/unload")
    with pytest.raises(Unavailable):
        client.predict("net", data=data)


@pytest.fixture(scope="module")
def series(server: ServerProcess) -> list[tuple[str, dict[str, str], float]]:
    """All series of the server with their labels and values, as Prometheus stores them."""
    key = (server.log.parent / "metrics_key").read_text().strip()
    answer = httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {key}"})
    answer.raise_for_status()
    return [
        (sample.name, {**sample.labels, **TARGET_LABELS}, sample.value)
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    ]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_series_in_a_rule_exists(
    rule: dict[str, Any], series: list[tuple[str, dict[str, str], float]]
) -> None:
    found, grouped = selectors(rule["expr"])
    assert found
    for selector in found:
        if selector.metric in OF_PROMETHEUS:
            labels = [TARGET_LABELS]
        else:
            labels = [one for name, one, _ in series if selector.takes(name, one)]
        assert labels, f"{rule['alert']}: no series of the server is {selector}"
        named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert grouped | named <= set(labels[0]), f"{rule['alert']}: {selector.metric}"


def test_failures_show_in_the_series_the_rules_use(
    series: list[tuple[str, dict[str, str], float]],
) -> None:
    def total(text: str) -> float:
        ((selector,), _) = selectors(text)
        return sum(value for name, labels, value in series if selector.takes(name, labels))

    assert total('modserve_jobs{status="failed"}') == 1
    assert total('modserve_http_requests_total{status=~"5.."}') >= 1
    assert total('modserve_predictions_total{outcome="success"}') == 1


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    wrong, well = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    for tests, fires in ((wrong, True), (well, False)):
        cases = {one["alertname"]: bool(one["exp_alerts"]) for one in tests["alert_rule_test"]}
        assert cases == {rule["alert"]: fires for rule in RULES}


def test_the_guide_has_advice_for_each_alert() -> None:
    guide = (FOLDER.parents[1] / "app" / "guides" / "production.md").read_text()
    assert set(re.findall(r"`(Modserve\w+)`", guide)) == {rule["alert"] for rule in RULES}


def test_rules_fire_where_they_should() -> None:
    command = [program("promtool", "prometheus"), "test", "rules", str(FOLDER / "alerts_test.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_prometheus_scrapes_a_server_with_its_key(server: ServerProcess, tmp_path: Path) -> None:
    (scraped,) = CONFIG["scrape_configs"]
    assert scraped["authorization"]["credentials_file"] == "/run/secrets/metrics_key"
    text = (FOLDER / "prometheus.yaml").read_text()
    for shipped, here in (
        ("/run/secrets/metrics_key", str(server.log.parent / "metrics_key")),
        ("modserve:8000", server.url.partition("//")[2]),
        ("scrape_interval: 15s", "scrape_interval: 1s"),
        ("evaluation_interval: 15s", "evaluation_interval: 1s"),
    ):
        assert text.count(shipped) == 1
        text = text.replace(shipped, here)
    (tmp_path / "prometheus.yaml").write_text(text)
    shutil.copy(FOLDER / "rules.yaml", tmp_path)
    check = [
        program("promtool", "prometheus"),
        "check",
        "config",
        str(tmp_path / "prometheus.yaml"),
    ]
    subprocess.run(check, check=True, capture_output=True)

    url = f"http://127.0.0.1:{free_port()}"
    command = [
        program("prometheus", "prometheus"),
        f"--config.file={tmp_path / 'prometheus.yaml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={url.partition('//')[2]}",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: value_of(url, 'up{job="modserve"}') == 1, "a scrape")
        wait_until(lambda: value_of(url, 'modserve_jobs{status="failed"}') == 1, "a job")
        rules = httpx.get(f"{url}/api/v1/rules").json()["data"]["groups"][0]["rules"]
        assert [one["name"] for one in rules] == [rule["alert"] for rule in RULES]
        wait_until(lambda: all(is_evaluated(url)), "the evaluation of all rules")
    finally:
        process.kill()
        process.wait()


def value_of(url: str, query: str) -> float | None:
    """Return the value of a query with one series; None if there is none yet."""
    try:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": query})
        return float(answer.json()["data"]["result"][0]["value"][1])
    except (httpx.TransportError, IndexError, KeyError, ValueError):
        return None


def is_evaluated(url: str) -> list[bool]:
    """Return whether Prometheus has evaluated every rule without an error."""
    (group,) = httpx.get(f"{url}/api/v1/rules").json()["data"]["groups"]
    return [one["health"] == "ok" for one in group["rules"]]
