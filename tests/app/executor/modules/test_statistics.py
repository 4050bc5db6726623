"""Statistics of a manual pass and within a fit, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.module import BindSpec, InitSpec, InputDesc, ModuleKind, OptimizerSpec
from app.executor.modules import statistics
from app.link import calls

FEATURES, BATCH = 6, 8


def named(rows: list[dict[str, Any]], of: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows if row["of"] == of}


def ask(driver: Any, pattern: str = "*") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = driver.ask(calls.GetStatistics(module="net", pattern=pattern))[0][
        "statistics"
    ]
    return rows


def check(row: dict[str, Any], values: np.ndarray) -> None:
    assert row["shape"] == list(values.shape)
    assert row["nonfinite"] == 0
    expected = {
        "magnitude": np.sqrt(np.mean(values**2)),
        "mean": values.mean(),
        "std": values.std(),
        "min": values.min(),
        "max": values.max(),
    }
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


@pytest.fixture
def batch() -> dict[str, np.ndarray]:
    """One batch with labels."""
    random = np.random.RandomState(2)
    data = random.normal(size=(BATCH, FEATURES)).astype(np.float32)
    return {"data": data, "softmax_label": np.arange(BATCH) % 3}


def test_outputs_parameters_and_gradients_of_a_pass(driver: Any, batch: Any) -> None:
    driver.ready()
    call = calls.Forward(module="net", backward=True, monitor="*")
    driver.ask(call, **batch)
    rows, params = ask(driver), driver.params()
    outputs = named(rows, "output")
    assert list(outputs) == ["fc1_output", "activation0_output", "fc2_output", "softmax_output"]
    hidden = np.tanh(batch["data"] @ params["fc1_weight"].T + params["fc1_bias"])
    check(outputs["activation0_output"], hidden)
    scores = hidden @ params["fc2_weight"].T + params["fc2_bias"]
    check(outputs["fc2_output"], scores)
    powers = np.exp(scores)
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    check(outputs["softmax_output"], probabilities)
    for name, row in named(rows, "parameter").items():
        check(row, params[name])
    backward = named(rows, "backward")
    gradients = named(rows, "gradient")
    assert list(gradients) == list(params)
    errors = probabilities - np.eye(3)[batch["softmax_label"]]
    check(backward["softmax_backward_output0"], errors)
    check(gradients["fc2_weight"], errors.T @ hidden)
    check(gradients["fc2_bias"], errors.sum(axis=0))


def test_names_are_matched_like_file_names(driver: Any, batch: Any) -> None:
    driver.ready()
    driver.ask(calls.Forward(module="net", backward=True, monitor="fc*_output"), **batch)
    assert list(named(ask(driver), "output")) == ["fc1_output", "fc2_output"]
    assert {row["name"] for row in ask(driver, "fc2*")} == {
        "fc2_output",
        "fc2_weight",
        "fc2_bias",
    }
    assert {row["name"] for row in ask(driver, "fc?_bias")} == {"fc1_bias", "fc2_bias"}
    assert ask(driver, "conv*") == []


def test_only_passes_that_ask_are_monitored(driver: Any, batch: Any) -> None:
    driver.ready()
    assert named(ask(driver), "output") == {}
    driver.ask(calls.Forward(module="net", monitor="*"), **batch)
    assert len(named(ask(driver), "output")) == 4
    driver.ask(calls.Forward(module="net"), **batch)
    assert named(ask(driver), "output") == {}


def test_monitoring_does_not_change_results(driver: Any, batch: Any) -> None:
    driver.ready()
    _, plain = driver.ask(calls.Forward(module="net"), **batch)
    _, watched = driver.ask(calls.Forward(module="net", monitor="*"), **batch)
    np.testing.assert_allclose(watched["softmax_output"], plain["softmax_output"], rtol=1e-5)


def test_nan_and_infinity_are_counted(driver: Any, batch: Any) -> None:
    driver.ready()
    weight = np.zeros((5, FEATURES), np.float32)
    weight[0, :2] = np.nan, np.inf
    call = calls.SetParams(module="net", allow_missing=True, allow_nonfinite=True)
    driver.ask(call, fc1_weight=weight)
    (row,) = [row for row in ask(driver, "fc1_weight") if row["of"] == "parameter"]
    assert (row["nonfinite"], row["mean"], row["max"]) == (2, 0.0, 0.0)


def test_each_device_reports_its_rows(driver: Any, make_network: Any, batch: Any) -> None:
    driver.create(make_network(), contexts=("cpu(0)", "cpu(1)"))
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    driver.ask(calls.Forward(module="net", backward=True, monitor="fc1_output"), **batch)
    rows = ask(driver, "fc1*")
    devices = [(row["device"], row["shape"]) for row in rows if row["of"] == "output"]
    assert devices == [("cpu(0)", [4, 5]), ("cpu(1)", [4, 5])]
    assert [row["device"] for row in rows if row["of"] == "parameter"] == ["cpu(0)"] * 2
    assert sum(row["of"] == "gradient" for row in rows) == 4


def test_buckets_and_shapes_used_again_are_monitored(driver: Any) -> None:
    driver.create_buckets((3, 5), default=5)
    driver.bind_buckets(5, (3,))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    for length in (3, 5, 3):
        data = np.ones((4, length, FEATURES))
        lengths = np.full(4, length)
        call = calls.Forward(module="net", is_train=False, monitor="fc_output")
        driver.ask(call, data=data, lengths=lengths)
        assert len(named(ask(driver), "output")) == 1


def test_shapes_of_a_mutable_module_used_again_are_monitored(driver: Any) -> None:
    net = mx.sym.sum(mx.sym.Variable("data"), axis=(1,), keepdims=True, name="total")
    net = mx.sym.FullyConnected(net, num_hidden=2, name="fc")
    driver.create(mx.sym.SoftmaxOutput(net, name="softmax"), kind=ModuleKind.MUTABLE)
    data = InputDesc(name="data", shape=(2, 4))
    spec = BindSpec(data_shapes=(data,), for_training=False)
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    for size in (4, 7, 4, 7):
        x = np.random.RandomState(size).rand(2, size)
        driver.ask(calls.Forward(module="net", monitor="total*"), data=x)
        (row,) = named(ask(driver), "output").values()
        check(row, x.astype(np.float32).sum(axis=1, keepdims=True))


def test_a_fit_reports_statistics(driver: Any, make_network: Any, jobs: Any, toy_data: Any) -> None:
    record = driver.create(make_network())
    params = {
        "dataset": jobs.dataset("toy", toy_data),
        "epochs": 2,
        "batch_size": BATCH,
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.1}},
        "monitor": {"interval": 3, "pattern": "fc2*"},
    }
    driver.ask(jobs.start(record, params))
    assert driver.run_jobs()["type"] == "done"
    reports = driver.of_type("statistics")
    places = [(epoch, batch) for epoch in range(2) for batch in (0, 3, 6)]
    assert [(one["epoch"], one["batch"]) for one in reports] == places
    for report in reports:
        assert [(row["name"], row["of"]) for row in report["arrays"]] == [
            ("fc2_output", "output"),
            ("fc2_backward_output0", "backward"),
            ("fc2_backward_output1", "backward"),
            ("fc2_backward_output2", "backward"),
            ("fc2_weight", "parameter"),
            ("fc2_bias", "parameter"),
            ("fc2_weight", "gradient"),
            ("fc2_bias", "gradient"),
        ]
    first, last = (named(one["arrays"], "parameter")["fc2_weight"] for one in reports[::5])
    assert first["magnitude"] != last["magnitude"]
    unwatched = {**params, "monitor": None}
    driver.ask(jobs.start(record, unwatched, job_id=2))
    driver.run_jobs()
    assert len(driver.of_type("statistics")) == len(reports)


@pytest.mark.parametrize(
    ("pattern", "is_watched"),
    [
        *(("*", True), ("fc?_output", True), ("*backward_output1", True), ("*", True)),
        *(("fc2_weight", False), ("*_bias", False), ("nothing", False)),
    ],
)
def test_a_pass_is_watched_only_if_an_operator_is_meant(
    driver: Any, batch: Any, monkeypatch: pytest.MonkeyPatch, pattern: str, is_watched: bool
) -> None:
    driver.ready()
    driver.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec()))
    watched = []
    install = mx.mod.Module.install_monitor
    monkeypatch.setattr(
        mx.mod.Module, "install_monitor", lambda *given: (watched.append(1), install(*given))
    )
    driver.ask(calls.Forward(module="net", backward=True, monitor=pattern), **batch)
    assert bool(watched) == is_watched
    kinds = {row["of"] for row in ask(driver, pattern)}
    assert kinds & {"output", "backward"} if is_watched else kinds <= {"parameter", "gradient"}


@pytest.mark.parametrize("size", [1, 2**14, 2**14 + 1, 100_003])
def test_figures_of_large_arrays_are_numpys(size: int) -> None:
    values = np.random.default_rng(size).normal(1000.0, 0.1, size).astype("f")
    bad = np.concatenate([values, [np.nan, np.inf, -np.inf]]).astype("f")
    for given, nonfinite in ((values, 0), (bad, 3)):
        found = statistics._figures(given)
        exact = values.astype("f8")
        assert found.pop("nonfinite") == nonfinite
        expected = {
            "magnitude": np.sqrt(np.square(exact).mean()),
            "mean": exact.mean(),
            "std": exact.std(),
            "min": exact.min(),
            "max": exact.max(),
        }
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    nothing = statistics._figures(np.full(3, np.nan, "f"))
    assert nothing == {"nonfinite": 3} | dict.fromkeys(expected)


def test_monitoring_ends_with_a_pass_that_fails(driver: Any, batch: Any) -> None:
    driver.ready()
    driver.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec()))
    bad = {**batch, "data": np.ones((BATCH, FEATURES + 1), np.float32)}
    driver.refusal(calls.Forward(module="net", monitor="*"), **bad)
    driver.ask(calls.Forward(module="net"), **batch)
    assert named(ask(driver), "output") == {}
