"""The models of MXNet's ``example/sparse``, trained as the scripts there train them.

Parameters of a store are fetched for each batch with ``Module.prepare``, which leaves the module's
own arrays with these rows and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CASES", "record", "run_case"]

FEATURES, FACTORS, BATCH_SIZE, STEPS = 30, 4, 8, 5
USERS, ITEMS = 17, 13
EMBEDDED, CONTINUOUS, HIDDEN = (5, 7), 2, (3, 6, 4)

Batch = tuple[list[Any], Any, dict[str, NDArray[Any]]]
"""Data and label, and the rows of each parameter that they need."""


def _factorization_machine(mx: Any) -> Any:
    x = mx.sym.Variable("data", stype="csr")
    v = mx.sym.Variable("v", shape=(FEATURES, FACTORS), stype="row_sparse")
    weight = mx.sym.Variable("w1_weight", shape=(FEATURES, 1), stype="row_sparse")
    bias = mx.sym.Variable("w1_bias", shape=(1,))
    linear = mx.sym.broadcast_add(mx.sym.dot(x, weight), bias)
    squares = mx.sym._internal._square_sum(data=v, axis=1, keepdims=True)
    total = mx.sym.dot(mx.sym.square(data=x), squares)
    crossed = 0.5 * mx.sym.square(data=mx.sym.dot(x, v))
    both = mx.sym.sum(data=mx.sym.Concat(linear, crossed, dim=1), axis=1, keepdims=True)
    model = mx.sym.elemwise_add(both, 0.5 * mx.sym.negative(total))
    return mx.sym.LinearRegressionOutput(data=model, label=mx.sym.Variable("label"))


def _linear_classification(mx: Any) -> Any:
    x = mx.sym.Variable("data", stype="csr")
    weight = mx.sym.Variable("weight", shape=(FEATURES, 2), stype="row_sparse")
    bias = mx.sym.Variable("bias", shape=(2,))
    pred = mx.sym.broadcast_add(mx.sym.sparse.dot(x, weight), bias)
    return mx.sym.SoftmaxOutput(data=pred, label=mx.sym.Variable("label"), multi_output=True)


def _matrix_factorization(mx: Any, stype: str = "default") -> Any:
    sides = []
    for name, count in (("user", USERS), ("item", ITEMS)):
        weight = mx.sym.Variable(f"{name}_weight", stype=stype)
        side = mx.sym.Embedding(
            data=mx.sym.Variable(name),
            weight=weight,
            input_dim=count,
            output_dim=FACTORS,
            sparse_grad=True,
        )
        side = mx.sym.Activation(data=side, act_type="relu")
        sides.append(mx.sym.FullyConnected(data=side, num_hidden=3, name=f"fc_{name}"))
    pred = mx.sym.Flatten(data=mx.sym.sum(data=sides[0] * sides[1], axis=1))
    return mx.sym.LinearRegressionOutput(data=pred, label=mx.sym.Variable("label"))


def _wide_deep(mx: Any) -> Any:
    weight = mx.sym.Variable("linear_weight", shape=(FEATURES, 2), stype="row_sparse")
    wide = mx.sym.sparse.dot(mx.sym.Variable("csr_data", stype="csr"), weight)
    wide = mx.sym.broadcast_add(wide, mx.sym.Variable("linear_bias", shape=(2,)))
    dense, count = mx.sym.Variable("dns_data"), len(EMBEDDED)
    words = mx.sym.slice(data=dense, begin=(0, 0), end=(None, count))
    words = mx.sym.split(data=words, num_outputs=count, squeeze_axis=1)
    parts = [mx.sym.slice(data=dense, begin=(0, count), end=(None, count + CONTINUOUS))]
    for i, size in enumerate(EMBEDDED):
        table = mx.sym.Variable(f"embed_{i}_weight", stype="row_sparse")
        options = {"input_dim": size, "output_dim": HIDDEN[0], "sparse_grad": True}
        parts.append(mx.sym.Embedding(data=words[i], weight=table, name=f"embed_{i}", **options))
    deep = mx.sym.concat(*parts, dim=1)
    for i, size in enumerate((*HIDDEN[1:], 2)):
        deep = mx.sym.FullyConnected(data=deep, num_hidden=size, name=f"fc{i}")
        if i < 2:
            deep = mx.sym.Activation(data=deep, act_type="relu", name=f"relu{i}")
    label = mx.sym.Variable("label")
    return mx.sym.SoftmaxOutput(wide + deep, label, name="model")


def _sparse_rows(random: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a matrix with few features, and which ones; some never occur."""
    chosen = random.randint(0, FEATURES // 2, (BATCH_SIZE, 3)) * 2
    dense = np.zeros((BATCH_SIZE, FEATURES), "float32")
    for row, features in enumerate(chosen):
        dense[row, features] = random.uniform(0.5, 1.5, 3)
    return dense, np.unique(chosen)


def _csr_batch(mx: Any, random: Any, *names: str, classes: bool) -> Batch:
    dense, rows = _sparse_rows(random)
    label = random.randint(0, 2, BATCH_SIZE) if classes else random.normal(size=(BATCH_SIZE, 1))
    return [mx.nd.array(dense).tostype("csr")], mx.nd.array(label), dict.fromkeys(names, rows)


def _factor_batch(mx: Any, random: Any) -> Batch:
    users = random.randint(0, USERS - 3, BATCH_SIZE)
    items = random.randint(0, ITEMS - 3, BATCH_SIZE)
    rows = {"user_weight": np.unique(users), "item_weight": np.unique(items)}
    score = mx.nd.array(random.normal(size=BATCH_SIZE))
    return [mx.nd.array(users), mx.nd.array(items)], score, rows


def _wide_deep_batch(mx: Any, random: Any) -> Batch:
    dense, features = _sparse_rows(random)
    words = np.stack([random.randint(0, size - 1, BATCH_SIZE) for size in EMBEDDED], axis=1)
    rows = {f"embed_{i}_weight": np.unique(words[:, i]) for i in range(len(EMBEDDED))}
    both = np.concatenate([words, random.normal(size=(BATCH_SIZE, CONTINUOUS))], axis=1)
    data = [mx.nd.array(dense).tostype("csr"), mx.nd.array(both)]
    label = mx.nd.array(random.randint(0, 2, BATCH_SIZE))
    return data, label, {"linear_weight": features, **rows}


Make = Callable[[Any, Any], Batch]
MODELS: dict[str, tuple[Callable[[Any], Any], Make, tuple[str, ...]]] = {
    "factorization_machine": (
        _factorization_machine,
        lambda mx, random: _csr_batch(mx, random, "v", "w1_weight", classes=False),
        ("data",),
    ),
    "linear_classification": (
        _linear_classification,
        lambda mx, random: _csr_batch(mx, random, "weight", classes=True),
        ("data",),
    ),
    "matrix_factorization": (_matrix_factorization, _factor_batch, ("user", "item")),
    "row_sparse_factors": (
        lambda mx: _matrix_factorization(mx, "row_sparse"),
        _factor_batch,
        ("user", "item"),
    ),
    "wide_deep": (_wide_deep, _wide_deep_batch, ("csr_data", "dns_data")),
}

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01, "clip_gradient": 5.0},
    "adam": {"learning_rate": 0.05},
    "adagrad": {"learning_rate": 0.2},
}

CASES = [
    *(f"{model} {name} {store}" for model in MODELS for name in OPTIMIZERS for store in ("", "kv")),
    "factorization_machine sgd devices",
    "wide_deep adam devices",
]


def _arrays_of(module: Any, name: str) -> list[Any]:
    """Return a parameter's arrays on all devices."""
    group = module._exec_group
    return group.param_arrays[group.param_names.index(name)]


def _row_ids(mx: Any, module: Any, rows: dict[str, NDArray[Any]], *, every: bool) -> dict[str, Any]:
    """Return the rows to fetch of the parameters that are row_sparse."""
    ids = {}
    for name, needed in rows.items():
        array = _arrays_of(module, name)[0]
        if array.stype == "row_sparse":
            chosen = np.arange(array.shape[0]) if every else needed
            ids[name] = mx.nd.array(chosen, dtype="int64")
    return ids


def _start(module: Any, mx: Any) -> None:
    random = np.random.RandomState(5)
    shapes = {
        name: arrays[0].shape
        for name, arrays in zip(
            module._exec_group.param_names, module._exec_group.param_arrays, strict=True
        )
    }
    start = {
        name: mx.nd.array(random.normal(scale=0.5, size=shapes[name])) for name in sorted(shapes)
    }
    module.init_params(arg_params=start)


def run_case(mx: Any, case_id: str) -> dict[str, NDArray[Any]]:
    """Return the outputs and the module's rows after every step, and the final parameters."""
    model, name, mode = case_id.split(" ")
    make_symbol, make_batch, data_names = MODELS[model]
    random = np.random.RandomState(3)
    batches = [make_batch(mx, random) for _ in range(STEPS)]
    context = [mx.cpu(i) for i in range(2 if mode == "devices" else 1)]
    module = mx.mod.Module(make_symbol(mx), data_names, ("label",), context=context)
    module.bind(
        list(zip(data_names, [array.shape for array in batches[0][0]], strict=True)),
        [("label", batches[0][1].shape)],
    )
    _start(module, mx)
    optimizer = mx.optimizer.create(name, rescale_grad=1.0 / BATCH_SIZE, **OPTIMIZERS[name])
    store = mx.kv.create("local") if mode == "kv" else "local"
    module.init_optimizer(kvstore=store, optimizer=optimizer)
    results: dict[str, NDArray[Any]] = {}
    for step, (data, label, rows) in enumerate(batches):
        if mode:
            ids = _row_ids(mx, module, rows, every=mode == "devices")
            module.prepare(None, sparse_row_id_fn=lambda batch, ids=ids: ids)
            for key in ids:
                held = [array.indices.asnumpy() for array in _arrays_of(module, key)]
                results[f"{key} held {step}"] = np.stack(held)
        module.forward_backward(mx.io.DataBatch(data, [label]))
        results[f"output {step}"] = module.get_outputs()[0].asnumpy()
        module.update()
    results.update({key: array.asnumpy() for key, array in module.get_params()[0].items()})
    return results


def record(mx: Any) -> dict[str, NDArray[Any]]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }
