"""TensorBoard metric logging, with a stand-in for the package that writes the files."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import core as mx
from core.contrib.tensorboard import LogMetricsCallback


class _Writer:
    """Records what it is given."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, global_step: int) -> None:
        self.scalars.append((name, value, global_step))


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake ``mxboard`` package with that writer."""
    module: Any = types.ModuleType("mxboard")
    module.SummaryWriter = _Writer
    monkeypatch.setitem(sys.modules, "mxboard", module)


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize(("prefix", "name"), [(None, "accuracy"), ("train", "train-accuracy")])
def test_metrics_are_written_as_scalars(prefix: str | None, name: str) -> None:
    callback = LogMetricsCallback("logs", prefix)
    metric = mx.metric.create("acc")
    metric.update([mx.nd.array([1])], [mx.nd.array([[0.1, 0.9]])])
    callback(mx.model.BatchEndParam(3, 0, metric, None))
    callback(mx.model.BatchEndParam(4, 0, None, None))
    assert callback.summary_writer.folder == "logs"
    assert callback.summary_writer.scalars == [(name, 1.0, 3)]


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("mxboard", "tensorboardX", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match="install one of mxboard"):
        LogMetricsCallback("logs")
