"""``make gpu-facts`` without a GPU: probes on a stand-in, and how failures are reported."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.backends import gpu_count
from hardware import gpu_facts
from hardware.device import Device
from hardware.double import Double
from hardware.facts import arrays, convolution, legacy, matmul, recurrent


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Double:
    libraries = Double()
    for module in (legacy, matmul, recurrent):
        monkeypatch.setattr(module, "Library", lambda *names: libraries)
    return libraries


def test_products_are_described_column_major_to_cublaslt(double: Double) -> None:
    probe = matmul.Probe(Device(double))
    tried = [
        case
        for case in matmul.cases()
        if case["type"] in ("float32", "float16") and "GELU" not in case["epilogue"]
    ]
    assert len(tried) == 2 * 4 * 4 * 2
    for case in tried:
        found = probe.run(case)
        assert (found["runs"], found["captures"], found["replays"]) == (True, True, True), case
        assert found["right"], (case, found)


def test_offsets_of_recurrent_weights_are_in_elements(double: Double) -> None:
    probe = recurrent.Probe(Device(double))
    case = {"mode": "GRU", "layers": 2, "directions": 2, "hidden": 8, "type": "float16"}
    assert case in recurrent.cases()
    found = probe.run(case)
    assert len(found["offsets"]) == 4 * 6
    assert found["offsets"][7] == {"pseudo_layer": 1, "gate": 1, "weight": 544, "bias": 560}
    assert found["replays"] is True


def test_calls_that_cannot_be_captured_are_reported_and_the_next_one_runs(double: Double) -> None:
    device = Device(double)
    probe = legacy.Probe(device)
    found = {case["call"]: probe.run(case) for case in legacy.cases()}
    refused = {name for name, one in found.items() if not one["captures"]}
    assert refused == {"allocate", "synchronize"}
    assert all("error" in found[name] for name in refused)
    assert all(one["replays"] for name, one in found.items() if name not in refused)
    assert device.is_healthy


def test_memory_of_a_case_is_freed(double: Double) -> None:
    device = Device(double)
    probe = matmul.Probe(device)
    device.keep()
    before = dict(double._memory)
    probe.run(matmul.cases()[0])
    device.free()
    assert double._memory.keys() == before.keys()


@pytest.mark.parametrize("form", convolution._FORMS)
def test_expected_convolutions_and_gradients_are_consistent(form: str) -> None:
    case: dict[str, Any] = {"kind": "forward", "type": "float32", "form": form}
    values = convolution.Probe._values(None, case)  # type: ignore[arg-type]
    products = [
        (convolution._expected({**case, "kind": kind}, values) * values[name]).sum()
        for kind, name in (
            ("forward", "out"),
            ("data gradient", "image"),
            ("weight gradient", "weight"),
        )
    ]
    np.testing.assert_allclose(products, products[0], rtol=1e-9)


def test_every_part_has_cases_made_of_plain_data() -> None:
    for module in (legacy, arrays, recurrent, matmul, convolution):
        cases = module.cases()
        assert len(cases) >= 8
        assert len({json.dumps(case) for case in cases}) == len(cases)


DEADLY = """
import os
import time

LIBRARY, FUNCTIONS = None, ()
NAMES = os.environ["CASES"].split()


def cases():
    return [{"call": name} for name in NAMES]


class Device:
    is_healthy = True

    def keep(self): ...

    def free(self): ...


class Probe:
    def __init__(self, device): ...

    def run(self, case):
        if case["call"] == "dies":
            os.abort()
        if case["call"] == "raises":
            raise ValueError("no such thing")
        while case["call"] == "hangs":
            time.sleep(1)
        return {"runs": True, "captures": True}
"""


def run_deadly(folder: Path, monkeypatch: pytest.MonkeyPatch, *cases: str) -> list[dict[str, Any]]:
    (folder / "deadly.py").write_text(DEADLY)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("CASES", " ".join(cases))
    report = folder / "facts.jsonl"
    assert gpu_facts.run_parts({"deadly": "deadly"}, report, time.monotonic() + 270) == 0
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert rows[0]["part"] == "machine"
    assert [row["case"]["call"] for row in rows[1:]] == list(cases)
    return [row["found"] for row in rows[1:]]


def test_a_case_that_kills_its_process_does_not_affect_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, dead, last = run_deadly(tmp_path, monkeypatch, "raises", "dies", "well")
    assert first == {"runs": False, "error": "ValueError: no such thing"}
    assert dead["error"].startswith("the process ended with -6")
    assert last == {"runs": True, "captures": True}


def test_a_hanging_case_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_facts, "_CASE_SECONDS", 1.0)
    (found,) = run_deadly(tmp_path, monkeypatch, "hangs")
    assert found["error"].startswith("the process ended with -9")


@pytest.mark.skipif(gpu_count() > 0, reason="there is a CUDA device")
def test_without_a_gpu_each_part_gives_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "facts.jsonl"
    assert gpu_facts.main(["--report", str(report), "arrays"]) == 1
    (row,) = [json.loads(line) for line in report.read_text().splitlines()[1:]]
    assert (row["part"], row["state"]) == ("arrays", "did not begin")
    assert row["error"]
    assert f"arrays did not begin: {row['error']}" in capsys.readouterr().out
