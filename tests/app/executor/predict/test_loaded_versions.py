"""Versions on a device: each computes with its own parameters, within the memory limit."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.domain.module import InitSpec
from app.errors.tree import HostError
from app.files.checkpoint_files import read_manifest
from app.link import calls
from app.link.protocols import IncomingCall
from app.link.signatures import Signature, Target
from served.perceptron import BATCH, FEATURES, toy_examples

DATA = toy_examples()["data"][:BATCH]


@pytest.fixture
def versions(driver: Any, tmp_path: Path) -> dict[str, np.ndarray]:
    """A host whose module ``net`` has checkpoints 0 to 2, and their outputs by version."""
    driver.ready()
    found = {}
    for epoch in range(3):
        driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=epoch)))
        driver.ask(calls.SaveCheckpoint(module="net", root=str(tmp_path), epoch=epoch))
        found[key_of(tmp_path, epoch)] = predict(driver)
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=9)))
    return found


def key_of(root: Path, epoch: int) -> str:
    return read_manifest(root / str(epoch)).etag.strip('"')


def load(driver: Any, root: Path, epoch: int, **changes: Any) -> str:
    key = key_of(root, epoch)
    call = calls.LoadVersion(module="net", version=key, directory=str(root / str(epoch)), **changes)
    driver.ask(call)
    return key


def predict(driver: Any, version: str | None = None) -> np.ndarray:
    _, tensors = driver.ask(calls.Predict(module="net", version=version), data=DATA)
    return np.asarray(tensors["softmax_output"])


def memory(driver: Any) -> dict[str, int]:
    (row,) = driver.ask(calls.ExecutorInfo())[0]["modules"]
    return dict(row["memory"])


def loaded(driver: Any, versions: dict[str, np.ndarray]) -> list[str]:
    (module,) = driver.host._loaded_modules
    return [version for version in versions if version in module.versions]


@pytest.mark.parametrize("warm", [False, True])
def test_each_version_computes_with_its_own_parameters(
    driver: Any, versions: dict[str, np.ndarray], tmp_path: Path, warm: bool
) -> None:
    live = predict(driver)
    for epoch in range(3):
        load(driver, tmp_path, epoch, warm=warm)
    for _ in range(2):
        for version, expected in versions.items():
            np.testing.assert_allclose(predict(driver, version), expected, rtol=1e-6)
        np.testing.assert_array_equal(predict(driver), live)
        driver.step(toy_examples())
        live = predict(driver)


def test_a_loaded_version_is_warm(
    driver: Any, versions: dict[str, np.ndarray], tmp_path: Path
) -> None:
    (module,) = driver.host._loaded_modules
    before = module.predict_plans()
    version = load(driver, tmp_path, 0, warm=True)
    plans = module.predict_plans()
    assert plans > before
    predict(driver, version)
    assert module.predict_plans() == plans


def test_a_missing_version_is_refused(
    driver: Any, versions: dict[str, np.ndarray], tmp_path: Path
) -> None:
    first, second, _ = versions
    call = calls.Predict(module="net", version=first)
    assert driver.refusal(call, data=DATA).code == "version_not_loaded"
    call = calls.LoadVersion(module="net", version=first, directory=str(tmp_path / "1"))
    assert driver.refusal(call).code == "version_replaced"
    call = calls.LoadVersion(module="net", version=first, directory=str(tmp_path / "7"))
    assert driver.refusal(call).code == "not_found"
    params = tmp_path / "1" / "net-0001.params"
    params.write_bytes(params.read_bytes()[:-1] + b"!")
    call = calls.LoadVersion(module="net", version=second, directory=str(tmp_path / "1"))
    assert driver.refusal(call).code == "damaged"
    assert loaded(driver, versions) == []


def test_a_rebound_module_reloads_its_versions(
    driver: Any, versions: dict[str, np.ndarray], tmp_path: Path
) -> None:
    version = load(driver, tmp_path, 0)
    driver.bind(batch=2 * BATCH)
    assert loaded(driver, versions) == []
    load(driver, tmp_path, 0)
    np.testing.assert_allclose(predict(driver, version), versions[version], rtol=1e-6)


def test_the_version_unused_longest_is_evicted_first(
    driver: Any, versions: dict[str, np.ndarray], tmp_path: Path
) -> None:
    first, second, third = (load(driver, tmp_path, epoch) for epoch in range(3))
    each = sum(value.nbytes for value in driver.params().values())
    assert memory(driver)["versions"] == 3 * each
    for version in (second, third, first):
        predict(driver, version)
    residents = driver.host._loaded_modules
    residents.budget_bytes = residents.used_bytes
    residents.keep_to_budget("net")
    assert loaded(driver, versions) == [first, second, third]
    residents.budget_bytes = residents.used_bytes - 1
    residents.keep_to_budget("net")
    assert loaded(driver, versions) == [first, third]
    residents.budget_bytes = 0
    residents.keep_to_budget("net")
    assert loaded(driver, versions) == [first]  # this one is in use
    assert memory(driver)["versions"] == each


def test_an_evicted_version_keeps_no_memory(
    driver: Any, versions: dict[str, np.ndarray], tmp_path: Path
) -> None:
    version = load(driver, tmp_path, 0)
    shape, dtype = (1, FEATURES), np.dtype("f")
    signature = Signature.of({"data": (shape, dtype)})
    _, params = calls.to_call(calls.Predict(module="net", version=version))
    target = Target(params, signature)
    call = IncomingCall(1, "predict", params, {"data": DATA[:1]}, target=target)
    driver.host.prepare(call)
    assert driver.host.known(call) is not None
    (module,) = driver.host._loaded_modules
    predictor = weakref.ref(module.inference_of(version).predictor("null"))
    assert predictor() is not None
    driver.host._loaded_modules._drop_versions("net")
    assert predictor() is None
    assert driver.host.known(call) is None
    with pytest.raises(HostError, match="not on the device"):
        driver.host.prepare(call)
