"""Key-value stores, gradient compression and updates from row-sparse gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["COMPRESSIONS", "LAZY", "compressed", "lazy", "record", "reduced", "trained"]

DEVICES = 3
SHAPE = (5, 4)
STEPS = 4

COMPRESSIONS: dict[str, dict[str, Any]] = {
    "replace": {"threshold": 0.5},
    "sgd": {"threshold": 0.3, "optimizer": ("sgd", {"learning_rate": 0.1, "momentum": 0.9})},
    "one_device": {"threshold": 0.2, "devices": 1},
}

LAZY: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("sgd", {"wd": 0.1}),
    "sgd_momentum": ("sgd", {"momentum": 0.9, "wd": 0.1}),
    "sgd_momentum_eager": ("sgd", {"momentum": 0.9, "wd": 0.1, "lazy_update": False}),
    "sgd_clip": ("sgd", {"momentum": 0.5, "clip_gradient": 0.3, "rescale_grad": 0.5}),
    "adam": ("adam", {"wd": 0.1}),
    "adam_eager": ("adam", {"wd": 0.1, "lazy_update": False}),
    "adagrad": ("adagrad", {"wd": 0.0}),
    "ftrl": ("ftrl", {"wd": 0.1}),
}


def _gradient(step: int, device: int) -> np.ndarray:
    return np.random.RandomState(10 * step + device).normal(size=SHAPE).astype("float32") * 0.4


def _sparse_gradient(mx: Any, step: int) -> Any:
    rows = [[0, 3], [3], [1, 2, 4], [0]][step]
    values = _gradient(step, 0)[: len(rows)]
    return mx.nd.sparse.row_sparse_array((values, rows), shape=SHAPE)


def compressed(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Push gradients through a compressing store; return the stored value after each step."""
    case = COMPRESSIONS[case_id]
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": case["threshold"]})
    store.init("w", mx.nd.zeros(SHAPE))
    if "optimizer" in case:
        name, options = case["optimizer"]
        store.set_optimizer(mx.optimizer.create(name, **options))
    results = {}
    for step in range(STEPS):
        grads = [
            mx.nd.array(_gradient(step, device), ctx=mx.cpu(device))
            for device in range(case.get("devices", DEVICES))
        ]
        out = mx.nd.zeros(SHAPE)
        store.push("w", grads)
        store.pull("w", out)
        results[f"step{step}"] = out.asnumpy()
    return results


def lazy(mx: Any, case_id: str, stype: str) -> dict[str, np.ndarray]:
    """Update a weight of a storage type from row-sparse gradients."""
    name, options = LAZY[case_id]
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=0.1, **options))
    weight = mx.nd.array(_gradient(77, 0)).tostype(stype)
    results = {}
    for step in range(STEPS):
        updater(0, _sparse_gradient(mx, step), weight)
        results[f"step{step}"] = weight.asnumpy()
    return results


def reduced(mx: Any) -> dict[str, np.ndarray]:
    """Sum row-sparse values of several devices; pull some rows."""
    store = mx.kv.create("local")
    store.init("e", mx.nd.zeros(SHAPE).tostype("row_sparse"))
    store.push("e", [_sparse_gradient(mx, step).copyto(mx.cpu(step)) for step in range(3)])
    out = mx.nd.zeros(SHAPE).tostype("row_sparse")
    store.row_sparse_pull("e", out=out, row_ids=mx.nd.array([3, 0, 3], dtype="int64"))
    dense = mx.nd.zeros(SHAPE)
    store.pull("e", dense)
    return {"some": out.asnumpy(), "all": dense.asnumpy()}


def trained(mx: Any) -> dict[str, np.ndarray]:
    """Train on two devices with compressed gradients; return the parameters."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc1")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="relu"), num_hidden=3, name="fc2")
    module = mx.mod.Module(
        mx.sym.SoftmaxOutput(x, name="softmax"),
        context=[mx.cpu(0), mx.cpu(1)],
        compression_params={"type": "2bit", "threshold": 0.2},
    )
    module.bind([("data", (8, 5))], [("softmax_label", (8,))])
    random = np.random.RandomState(5)
    shapes = {"fc1_weight": (6, 5), "fc1_bias": (6,), "fc2_weight": (3, 6), "fc2_bias": (3,)}
    start = {name: mx.nd.array(random.normal(size=shape)) for name, shape in shapes.items()}
    module.init_params(arg_params=start, aux_params={})
    options = {"learning_rate": 0.3, "momentum": 0.5}
    module.init_optimizer(kvstore="device", optimizer="sgd", optimizer_params=options)
    for _ in range(STEPS):
        data = mx.nd.array(random.normal(size=(8, 5)))
        label = mx.nd.array(random.randint(0, 3, 8))
        module.forward_backward(mx.io.DataBatch([data], [label]))
        module.update()
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return everything computed here."""
    results = {f"reduced/{key}": array for key, array in reduced(mx).items()}
    results.update({f"trained/{key}": array for key, array in trained(mx).items()})
    for case_id in COMPRESSIONS:
        for key, array in compressed(mx, case_id).items():
            results[f"compressed/{case_id}/{key}"] = array
    for case_id in LAZY:
        for stype in ("row_sparse", "default"):
            try:
                found = lazy(mx, case_id, stype)
            except mx.base.MXNetError:
                continue  # MXNet lacks this combination
            for key, array in found.items():
                results[f"lazy/{case_id}/{stype}/{key}"] = array
    return results
