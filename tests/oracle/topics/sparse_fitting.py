"""Modules with row-sparse gradients in MXNet: lazy updates leave the other rows unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CASES", "record", "run_case"]

ROWS, COLUMNS, WORDS = 11, 3, 4
BATCH_SIZE, STEPS = 6, 4

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"learning_rate": 0.3, "momentum": 0.8, "wd": 0.1},
    "adam": {"learning_rate": 0.05, "wd": 0.1},
    "adagrad": {"learning_rate": 0.2, "wd": 0.1},
    "ftrl": {"learning_rate": 0.3, "wd": 0.1},
}

CASES: dict[str, dict[str, Any]] = {
    **{f"embedding_{name}": {"optimizer": name} for name in OPTIMIZERS},
    **{f"product_{name}": {"optimizer": name, "net": "product"} for name in OPTIMIZERS},
    "embedding_adam_devices": {"optimizer": "adam", "devices": 2},
    "embedding_sgd_devices": {"optimizer": "sgd", "devices": 2},
    "product_adam_store": {"optimizer": "adam", "net": "product", "kvstore": "local"},
    "product_sgd_store": {"optimizer": "sgd", "net": "product", "kvstore": "local"},
}


def _embedding(mx: Any) -> Any:
    weight = mx.sym.Variable("weight")
    words = mx.sym.Embedding(
        mx.sym.Variable("data"), weight, input_dim=ROWS, output_dim=COLUMNS, sparse_grad=True
    )
    return mx.sym.LinearRegressionOutput(mx.sym.sum(words, axis=1), name="out")


def _product(mx: Any) -> Any:
    data = mx.sym.Variable("data", stype="csr")
    weight = mx.sym.Variable("weight", shape=(ROWS, COLUMNS), stype="row_sparse")
    bias = mx.sym.Variable("bias", shape=(COLUMNS,))
    total = mx.sym.broadcast_add(mx.sym.sparse.dot(data, weight), bias)
    return mx.sym.LinearRegressionOutput(total, name="out")


def _batches(mx: Any, is_product: bool) -> list[tuple[Any, NDArray[Any]]]:
    random = np.random.RandomState(3)
    found = []
    for _ in range(STEPS):
        # Some rows occur in no batch, some in a few.
        words = random.randint(0, ROWS - 2, (BATCH_SIZE, WORDS)) // 2 * 2
        if is_product:
            counts = np.zeros((BATCH_SIZE, ROWS), dtype="float32")
            for row, chosen in enumerate(words):
                counts[row, chosen] = 1
            data = mx.nd.array(counts).tostype("csr")
        else:
            data = mx.nd.array(words)
        found.append((data, np.unique(words)))
    return found


def run_case(mx: Any, case_id: str) -> dict[str, NDArray[Any]]:
    """Return the parameters after every step."""
    options = CASES[case_id]
    is_product = options.get("net") == "product"
    data_shape = (BATCH_SIZE, ROWS if is_product else WORDS)
    random = np.random.RandomState(4)
    start = {"weight": mx.nd.array(random.normal(size=(ROWS, COLUMNS)))}
    if is_product:
        start["bias"] = mx.nd.array(random.normal(size=COLUMNS))
    context = [mx.cpu(i) for i in range(options.get("devices", 1))]
    net = _product(mx) if is_product else _embedding(mx)
    module = mx.mod.Module(net, label_names=["out_label"], context=context)
    shapes = [mx.io.DataDesc("data", data_shape)]
    module.bind(shapes, [mx.io.DataDesc("out_label", (BATCH_SIZE, COLUMNS))])
    module.init_params(arg_params=start)
    store = mx.kv.create(options["kvstore"]) if "kvstore" in options else "local"
    name = options["optimizer"]
    module.init_optimizer(store, name, dict(OPTIMIZERS[name]))
    label = mx.nd.array(random.normal(size=(BATCH_SIZE, COLUMNS)))
    results = {}
    every = mx.nd.arange(ROWS, dtype="int64")
    for step, (data, _) in enumerate(_batches(mx, is_product)):
        if "kvstore" in options:
            module.prepare(None, sparse_row_id_fn=lambda batch: {"weight": every})
        module.forward_backward(mx.io.DataBatch([data], [label]))
        module.update()
        if "kvstore" in options:
            module.prepare(None, sparse_row_id_fn=lambda batch: {"weight": every})
        for key, array in module.get_params()[0].items():
            results[f"{key}{step}"] = array.asnumpy().copy()
    return results


def record(mx: Any) -> dict[str, NDArray[Any]]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }
