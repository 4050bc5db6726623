"""Checkpoints saved and loaded by calls, and damaged or foreign files."""

from __future__ import annotations

import errno
import json

import numpy as np
import pytest

import core as mx
from app.domain.module import InitSpec, OptimizerSpec
from app.files import checkpoint_files
from app.link import calls

BATCH = 8


def train(driver, data, steps: int = 2) -> None:
    for start in range(0, steps * BATCH, BATCH):
        batch = {name: array[start : start + BATCH] for name, array in data.items()}
        driver.ask(calls.Forward(module="net", backward=True), **batch)
        driver.ask(calls.Update(module="net"))


def save(driver, root, epoch: int = 3) -> dict:
    call = calls.SaveCheckpoint(module="net", root=str(root), epoch=epoch)
    return driver.ask(call)[0]["manifest"]


def test_a_checkpoint_restores_everything(driver, fresh_driver, toy_data, tmp_path):
    driver.ready()
    train(driver, toy_data)
    assert driver.describe()["has_unsaved"]
    manifest = save(driver, tmp_path)
    assert not driver.describe()["has_unsaved"]
    assert sorted(manifest["files"]) == [
        "net-0003.params",
        "net-0003.states",
        "net-symbol.json",
        "state.json",
    ]
    other = fresh_driver()
    other.ready()
    load = calls.LoadCheckpoint(module="net", directory=str(tmp_path / "3"), optimizer_states=True)
    other.ask(load)
    assert other.describe()["optimizer"]["num_update"] == 2
    for each in (driver, other):
        train(each, toy_data)
    for name, value in other.params().items():
        np.testing.assert_array_equal(value, driver.params()[name])


def test_a_full_disk_is_reported_and_leaves_nothing(driver, tmp_path, monkeypatch):
    def no_room(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    driver.ready()
    monkeypatch.setattr(checkpoint_files, "_write_manifest", no_room)
    refusal = driver.refusal(calls.SaveCheckpoint(module="net", root=str(tmp_path), epoch=3))
    assert refusal.code == "storage_full"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_update_counts_are_restored_but_not_the_learning_rate(
    driver, fresh_driver, toy_data, tmp_path, name
):
    spec = OptimizerSpec(name=name, options={"learning_rate": 0.1})
    driver.ready()
    driver.ask(calls.InitOptimizer(module="net", spec=spec))
    train(driver, toy_data)
    save(driver, tmp_path)
    other = fresh_driver()
    other.ready()
    other.ask(calls.InitOptimizer(module="net", spec=spec))
    other.ask(calls.SetLearningRate(module="net", learning_rate=0.05))
    call = calls.LoadCheckpoint(module="net", directory=str(tmp_path / "3"), optimizer_states=True)
    other.ask(call)
    driver.ask(calls.SetLearningRate(module="net", learning_rate=0.05))
    for each in (driver, other):
        train(each, toy_data)
        assert each.describe()["optimizer"]["learning_rate"] == 0.05
        assert each.describe()["optimizer"]["num_update"] == 4
    for key, value in other.params().items():
        np.testing.assert_array_equal(value, driver.params()[key])


def test_parameters_can_be_loaded_before_binding(
    driver, fresh_driver, make_network, toy_data, tmp_path
):
    driver.ready()
    save(driver, tmp_path)
    other = fresh_driver()
    other.create(make_network())
    other.ask(calls.LoadCheckpoint(module="net", directory=str(tmp_path / "3")))
    assert other.describe()["stage"] == "created"
    other.bind()
    for name, value in other.params().items():
        np.testing.assert_array_equal(value, driver.params()[name])
    assert not other.describe()["has_unsaved"]


def test_a_checkpoint_of_buckets(driver, fresh_driver, tmp_path):
    driver.create_buckets((3, 6), default=6)
    driver.bind_buckets(6, (3,))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    manifest = save(driver, tmp_path)
    assert sorted(manifest["files"]) == [
        "net-0003.params",
        "net-3-symbol.json",
        "net-6-symbol.json",
        "net.buckets",
    ]
    (keys,) = mx.nd.load(str(tmp_path / "3" / "net.buckets"))
    assert sorted(keys.asnumpy().tolist()) == [3, 6]
    other = fresh_driver()
    other.create_buckets((3, 6), default=6)
    other.ask(calls.LoadCheckpoint(module="net", directory=str(tmp_path / "3")))
    other.bind_buckets(6, (3,))
    np.testing.assert_array_equal(other.params()["fc_weight"], driver.params()["fc_weight"])


def test_the_saved_symbol_is_the_given_one(driver, make_network, tmp_path):
    network = make_network()
    driver.create(network)
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    save(driver, tmp_path)
    saved = json.loads((tmp_path / "3" / "net-symbol.json").read_text())
    assert saved == json.loads(network.tojson())


def test_invalid_checkpoints_are_refused_and_change_nothing(driver, toy_data, tmp_path):
    driver.ready()
    train(driver, toy_data)
    save(driver, tmp_path)
    save(driver, tmp_path, epoch=4)
    params = driver.params()
    path = tmp_path / "4" / "net-0004.params"
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    for directory, code in ((tmp_path / "4", "damaged"), (tmp_path / "9", "not_found")):
        call = calls.LoadCheckpoint(module="net", directory=str(directory))
        assert driver.refusal(call).code == code
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, params[name])


def test_a_checkpoint_of_another_model_is_refused(driver, fresh_driver, tmp_path):
    driver.ready()
    save(driver, tmp_path)
    other = fresh_driver()
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc1")
    other.create(mx.sym.SoftmaxOutput(net, name="softmax"))
    other.bind()
    refusal = other.refusal(calls.LoadCheckpoint(module="net", directory=str(tmp_path / "3")))
    assert refusal.code == "invalid"
    assert other.describe()["stage"] == "bound"


def test_missing_states_cannot_be_loaded(driver, make_network, tmp_path):
    driver.create(make_network())
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    save(driver, tmp_path)
    driver.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec()))
    call = calls.LoadCheckpoint(module="net", directory=str(tmp_path / "3"), optimizer_states=True)
    refusal = driver.refusal(call)
    assert (refusal.code, refusal.field_name) == ("invalid", "optimizer_states")


def test_states_of_another_optimizer_change_nothing(driver, fresh_driver, toy_data, tmp_path):
    driver.ready()
    train(driver, toy_data)
    save(driver, tmp_path)
    other = fresh_driver()
    other.ready()
    other.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec(name="adam")))
    before = other.params()
    call = calls.LoadCheckpoint(module="net", directory=str(tmp_path / "3"), optimizer_states=True)
    refusal = other.refusal(call)
    assert (refusal.code, refusal.field_name) == ("invalid", "states")
    assert "install the optimizer that they are of" in refusal.message
    for name, value in other.params().items():
        np.testing.assert_array_equal(value, before[name])
