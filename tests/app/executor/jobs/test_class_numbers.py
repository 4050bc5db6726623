"""Labels that are not numbers of classes are refused before anything is trained with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from app.executor.jobs import bad_examples
from app.link import calls
from served.fits import fit_params
from served.perceptron import BATCH, CLASSES, FEATURES

Data = dict[str, np.ndarray]
ADVICE = "classes count from 0"


def run(driver: Any, jobs: Any, symbol: Any, data: Data, **changes: Any) -> dict[str, Any]:
    jobs.dataset("toy", data)
    driver.ask(jobs.start(driver.create(symbol), fit_params(**changes)))
    return driver.run_jobs()


@pytest.fixture
def shifted(toy_data: Data) -> Data:
    """Examples whose classes count from 1."""
    return toy_data | {"softmax_label": toy_data["softmax_label"] + 1}


def first_of(labels: np.ndarray, value: int) -> int:
    return int(np.flatnonzero(labels == value)[0])


def test_a_fit_names_the_first_wrong_label(
    driver: Any, jobs: Any, make_network: Any, shifted: Data
) -> None:
    last = run(driver, jobs, make_network(), shifted)
    assert (last["type"], last["code"]) == ("failed", "invalid")
    assert last["field"] == "inputs.softmax_label"
    row = first_of(shifted["softmax_label"], 3)
    assert f"label 3 in row {row} of dataset 'toy'" in last["message"]
    assert "0 to 2, the 3 classes of 'softmax'" in last["message"]
    assert ADVICE in last["message"]
    assert driver.of_type("progress") == []


def test_what_was_trained_before_stays_where_only_the_batch_can_be_looked_at(
    driver: Any, jobs: Any, make_network: Any, toy_data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bad_examples, "_MOST_LABELS", 10)
    toy_data["softmax_label"][30] = 9
    each = {"checkpoint": {"batches": 1}}
    last = run(driver, jobs, make_network(), toy_data, shuffle=False, **each)
    assert (last["type"], last["code"]) == ("failed", "invalid")
    assert "label 9 in row 30 of dataset 'toy'" in last["message"]
    saved = [event["batch"] for event in driver.of_type("checkpoint")]
    assert saved == list(range(1, 30 // BATCH + 1))[: len(saved)]
    assert all(np.isfinite(value).all() for value in driver.params().values())


def test_the_labels_of_the_validation_are_looked_at_too(
    driver: Any, jobs: Any, make_network: Any, toy_data: Data, shifted: Data
) -> None:
    jobs.dataset("held", shifted)
    last = run(driver, jobs, make_network(), toy_data, validation={"dataset": "held"})
    assert (last["type"], last["field"]) == ("failed", "validation.inputs.softmax_label")
    assert "of dataset 'held'" in last["message"]


@pytest.mark.parametrize("value", [-1, 3, 2**31, float("nan")])
def test_every_number_but_those_of_classes_is_wrong(
    driver: Any, jobs: Any, make_network: Any, toy_data: Data, value: float
) -> None:
    labels = toy_data["softmax_label"].astype("f8")
    labels[-1] = value
    last = run(driver, jobs, make_network(), toy_data | {"softmax_label": labels})
    assert f"label {value:g} in row {len(labels) - 1}" in last["message"]


def test_labels_to_be_ignored_are_no_classes(driver: Any, jobs: Any, toy_data: Data) -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=CLASSES, name="fc")
    ignoring = mx.sym.SoftmaxOutput(net, name="softmax", use_ignore=True, ignore_label=255)
    toy_data["softmax_label"][:5] = 255
    assert run(driver, jobs, ignoring, toy_data)["type"] == "done"
    driver.ask(calls.DeleteModule(module="net"))
    plain = mx.sym.SoftmaxOutput(net, name="softmax")
    assert "label 255 in row 0" in run(driver, jobs, plain, toy_data)["message"]


def losses() -> dict[str, mx.sym.Symbol]:
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    net = mx.sym.FullyConnected(data, num_hidden=CLASSES, name="fc")
    entropy = mx.sym.softmax_cross_entropy(net, label, name="entropy")
    picked = mx.sym.pick(mx.sym.log_softmax(net), label, axis=1, name="picked")
    cast = mx.sym.Cast(mx.sym.Reshape(label, shape=(-1,)), dtype="float32")
    return {
        "svm": mx.sym.SVMOutput(net, label, name="svm"),
        "entropy": mx.sym.MakeLoss(entropy),
        "picked": mx.sym.MakeLoss(-picked),
        "reshaped": mx.sym.SoftmaxOutput(net, cast, name="reshaped"),
    }


@pytest.mark.parametrize("name", losses())
def test_all_losses_whose_labels_are_numbers_of_classes(
    driver: Any, jobs: Any, shifted: Data, name: str
) -> None:
    last = run(driver, jobs, losses()[name], shifted, metrics=["loss"])
    assert last["field"] == "inputs.softmax_label"
    assert f"the 3 classes of {name!r}" in last["message"]


def test_other_labels_hold_any_number(driver: Any, jobs: Any, toy_data: Data) -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("softmax_label"), name="out")
    far = toy_data | {"softmax_label": np.full((50, 1), -7.5, "f")}
    assert run(driver, jobs, net, far, metrics=["mse"])["type"] == "done"


def test_probabilities_as_labels_are_no_numbers_of_classes(
    driver: Any, jobs: Any, make_network: Any, toy_data: Data
) -> None:
    soft = np.eye(CLASSES, dtype="f")[toy_data["softmax_label"]] * 5
    data = toy_data | {"softmax_label": soft}
    assert run(driver, jobs, make_network(), data, metrics=["loss"])["type"] == "done"


def test_a_step_with_wrong_labels_changes_nothing(driver: Any, shifted: Data) -> None:
    driver.ready()
    before = driver.params()
    batch = {name: array[:BATCH].astype("f") for name, array in shifted.items()}
    batch["softmax_label"][2] = 7
    refusal = driver.refusal(calls.Forward(module="net", backward=True, sequence=1), **batch)
    assert (refusal.code, refusal.field_name) == ("invalid", "softmax_label")
    assert "label " in refusal.message
    assert ADVICE in refusal.message
    driver.ask(calls.Forward(module="net", is_train=False), data=batch["data"])
    batch["softmax_label"] = batch["softmax_label"] % CLASSES
    driver.ask(calls.Forward(module="net", backward=True, sequence=1), **batch)
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, before[name])


def test_segmentation_has_its_classes_on_the_second_axis(driver: Any, jobs: Any) -> None:
    data = mx.sym.Variable("data")
    net = mx.sym.Convolution(data, kernel=(1, 1), num_filter=4, name="conv")
    net = mx.sym.SoftmaxOutput(net, name="softmax", multi_output=True)
    rng = np.random.default_rng(1)
    images = {
        "data": rng.normal(size=(16, FEATURES, 3, 5)).astype("f"),
        "softmax_label": rng.integers(0, 4, (16, 3, 5)),
    }
    assert run(driver, jobs, net, images, metrics=["loss"])["type"] == "done"
    images["softmax_label"][11, 2, 1] = 4
    driver.ask(calls.DeleteModule(module="net"))
    last = run(driver, jobs, net, images, metrics=["loss"])
    assert "label 4 in row 11 of dataset 'toy'" in last["message"]
    assert "0 to 3, the 4 classes" in last["message"]
