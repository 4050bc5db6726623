"""What the benchmark times, and how it reports the results."""

from __future__ import annotations

import itertools
import json
import time

import pytest

from app.cli.bench.cases import CASES, ENGINE, Case, train_lstm
from app.cli.bench.report import ALL_CASES, SUITES, measure, run_bench, run_suite


def test_a_step_is_repeated_for_the_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step advances the clock by 1, 2, 3, ... milliseconds."""
    now, lengths = 0.0, itertools.count(1)

    def step() -> None:
        nonlocal now
        now += next(lengths) / 1000

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    figures = measure(Case(step, samples=60), seconds=0.1)
    # Steps 1 to 3 warm up; then 4, 5, ... until at least 100 ms have passed.
    assert figures["steps"] == 12
    assert figures["median_ms"] == pytest.approx((9 + 10) / 2)
    assert figures["p10_ms"] == pytest.approx(5.1)
    assert figures["p90_ms"] == pytest.approx(13.9)
    assert figures["per_second"] == pytest.approx(60 / 0.0095)


def test_slow_steps_are_repeated_at_least_five_times() -> None:
    steps = []
    figures = measure(Case(lambda: steps.append(0), 1), seconds=0)
    assert (figures["steps"], len(steps)) == (5, 8)


@pytest.mark.parametrize(
    "name",
    ["infer/mlp/1", "infer/lenet/1", "infer/lenet_int8/1", "train/mlp/64", "train/lenet/64"],
)
def test_a_case_runs(name: str) -> None:
    with CASES[name]() as case:
        case.step()
        assert case.samples == int(name.rpartition("/")[2])


def test_tokens_are_counted_for_the_language_model() -> None:
    with train_lstm(batch=2, vocabulary=50) as case:
        case.step()
        assert case.samples == 2 * (10 + 20 + 30 + 40 + 50 + 60)


def test_every_suite_lists_known_cases() -> None:
    assert SUITES["all"] == tuple(ALL_CASES)
    assert set(ENGINE) <= set(CASES)
    for name in ALL_CASES:
        assert name.split("/")[0] in ("infer", "train", "http")


def test_json_contains_the_machine_and_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench(["infer/mlp/1", "train/mlp/64"], 0.01, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["machine"]
    assert list(told["cases"]) == ["infer/mlp/1", "train/mlp/64"]
    for figures in told["cases"].values():
        assert 0 < figures["p10_ms"] <= figures["median_ms"] <= figures["p90_ms"]
        assert figures["steps"] >= 5


def test_a_table_has_a_line_for_each_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench(["infer/mlp/1"], 0.01, as_json=False) == 0
    table = capsys.readouterr().out
    for word in ("median", "p10", "p90", "samples/s", "infer/mlp/1"):
        assert word in table


@pytest.mark.parametrize("name", ["http/lenet/npy", "http/lenet/json"])
def test_predictions_over_http(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench([name], 0.2, as_json=True) == 0
    figures = json.loads(capsys.readouterr().out)["cases"][name]
    assert figures["steps"] >= 5
    assert 0 < figures["median_ms"] < 5000  # the right unit, however busy this machine is


def test_unknown_cases_suggest_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench(["infer/lenet/2"], 1, as_json=False) == 2
    assert "did you mean 'infer/lenet/1'?" in capsys.readouterr().err
    assert run_suite("engines", 1, as_json=False) == 2
    assert "did you mean 'engine'?" in capsys.readouterr().err


def test_a_failing_case_ends_the_suite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SUITES, "broken", ("no/such/case", "infer/mlp/1"))
    assert run_suite("broken", 0.01, as_json=True) == 2
    told = capsys.readouterr()
    assert "case 'no/such/case' failed with status 2" in told.err
    assert told.out == ""
