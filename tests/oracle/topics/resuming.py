"""Trainings started and continued in MXNet."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OPTIMIZERS", "go_on", "record"]

BATCH_SIZE, COLUMNS, BEFORE, AFTER = 5, 4, 3, 3
PREFIX, EPOCH = "begun", 1

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adadelta": {},
    "adagrad": {"wd": 0.01},
    "adam": {"clip_gradient": 0.5},
    "adamax": {},
    "dcasgd": {},
    "ftml": {},
    "ftrl": {},
    "lamb": {},
    "lars": {"momentum": 0.9},
    "nadam": {},
    "nag": {"momentum": 0.9},
    "rmsprop": {"centered": True},
    "sgd": {"momentum": 0.9, "wd": 0.01},
    "signum": {},
}


def _net(mx: Any) -> Any:
    hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc1")
    hidden = mx.sym.Activation(hidden, act_type="tanh")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=2, name="fc2"), name="sm")


def _bind(module: Any) -> None:
    module.bind([("data", (BATCH_SIZE, COLUMNS))], [("sm_label", (BATCH_SIZE,))])


def _train(mx: Any, module: Any, steps: range) -> None:
    for step in steps:
        random = np.random.RandomState(step)
        data = mx.nd.array(random.randn(BATCH_SIZE, COLUMNS))
        label = mx.nd.array(random.randint(0, 2, BATCH_SIZE))
        module.forward_backward(mx.io.DataBatch([data], [label]))
        module.update()


def _begin(mx: Any, name: str, folder: Path) -> None:
    """Train a few steps and save everything."""
    module = mx.mod.Module(_net(mx), label_names=["sm_label"])
    _bind(module)
    random = np.random.RandomState(7)
    shapes = dict(zip(module.symbol.list_arguments(), _shapes(module.symbol), strict=True))
    start = {key: mx.nd.array(random.randn(*shapes[key])) for key in module._param_names}
    module.init_params(arg_params=start)
    module.init_optimizer(optimizer=name, optimizer_params=dict(OPTIMIZERS[name]))
    _train(mx, module, range(BEFORE))
    module.save_checkpoint(str(folder / PREFIX), EPOCH, save_optimizer_states=True)


def _shapes(symbol: Any) -> list[tuple[int, ...]]:
    arguments, _, _ = symbol.infer_shape(data=(BATCH_SIZE, COLUMNS))
    return list(arguments)


def go_on(mx: Any, name: str, folder: Path) -> dict[str, NDArray[Any]]:
    """Load what was saved, train a few more steps, and return the parameters."""
    prefix = str(folder / PREFIX)
    module = mx.mod.Module.load(prefix, EPOCH, load_optimizer_states=True, label_names=["sm_label"])
    _bind(module)
    module.init_optimizer(optimizer=name, optimizer_params=dict(OPTIMIZERS[name]))
    _train(mx, module, range(BEFORE, BEFORE + AFTER))
    return {key: array.asnumpy() for key, array in module.get_params()[0].items()}


def record(mx: Any) -> dict[str, NDArray[Any]]:
    """Return, for each optimizer, the first half's files and the second half's parameters."""
    results = {}
    for name in OPTIMIZERS:
        with tempfile.TemporaryDirectory() as folder:
            _begin(mx, name, Path(folder))
            for file in sorted(Path(folder).iterdir()):
                results[f"{name}/file/{file.name}"] = np.frombuffer(file.read_bytes(), np.uint8)
            for key, value in go_on(mx, name, Path(folder)).items():
                results[f"{name}/end/{key}"] = value
    return results
