"""SVRG training: parameters and full gradients after some epochs."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

__all__ = ["CASES", "record", "train"]

EXAMPLES, FEATURES, EPOCHS = 22, 3, 4

CASES: dict[str, dict[str, Any]] = {
    "sgd": {},
    "every_epoch": {"update_freq": 1, "optimizer_params": {"learning_rate": 0.02, "wd": 0.1}},
    "momentum": {"optimizer_params": {"learning_rate": 0.02, "momentum": 0.9}},
    "adam": {"optimizer": "adam", "update_freq": 3},
    "no_store": {"kvstore": None},
    "two_devices": {"devices": 2, "kvstore": None},
    "two_devices_store": {"devices": 2, "update_on_kvstore": "0"},
}


def _network(mx: Any) -> Any:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1", no_bias=True)
    net = mx.sym.BatchNorm(net, name="bn", fix_gamma=False)
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=1, name="fc2")
    return mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"), name="out")


def train(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return parameters, auxiliary states and full gradients after a fit."""
    options = {"optimizer_params": {"learning_rate": 0.05}, **CASES[case_id]}
    devices = [mx.cpu(number) for number in range(options.pop("devices", 1))]
    package = f"{mx.__name__}.contrib.svrg_optimization.svrg_module"
    module = importlib.import_module(package).SVRGModule(
        _network(mx),
        ["data"],
        ["label"],
        context=devices,
        update_freq=options.pop("update_freq", 2),
    )
    random = np.random.RandomState(2)
    data = random.normal(size=(EXAMPLES, FEATURES)).astype("float32")
    label = data.sum(axis=1)
    batches = mx.io.NDArrayIter(data, label, batch_size=4, label_name="label")
    module.bind(batches.provide_data, batches.provide_label)
    shapes = _network(mx).infer_shape(data=(4, FEATURES), label=(4,))[0]
    names = _network(mx).list_arguments()
    given = {
        name: mx.nd.array(random.normal(size=shape).astype("float32"))
        for name, shape in zip(names, shapes, strict=True)
        if name not in ("data", "label")
    }
    statistics = {"bn_moving_mean": mx.nd.zeros((4,)), "bn_moving_var": mx.nd.ones((4,))}
    module.init_params(arg_params=given, aux_params=statistics)
    before = os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1")
    os.environ["MXNET_UPDATE_ON_KVSTORE"] = options.pop("update_on_kvstore", before)
    try:
        module.fit(batches, eval_metric="mse", num_epoch=EPOCHS, **options)
    finally:
        os.environ["MXNET_UPDATE_ON_KVSTORE"] = before
    arguments, auxiliary = module.get_params()
    results = {f"arg/{name}": one.asnumpy() for name, one in arguments.items()}
    results.update({f"aux/{name}": one.asnumpy() for name, one in auxiliary.items()})
    for number, means in enumerate(module._param_dict):
        results.update({f"full{number}/{name}": one.asnumpy() for name, one in means.items()})
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every case's results."""
    return {
        f"{case_id}/{key}": array for case_id in CASES for key, array in train(mx, case_id).items()
    }
