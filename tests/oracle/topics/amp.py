"""``mx.contrib.amp``: operator lists, converted graphs and their results, and ``init``."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oracle import golden_file

__all__ = [
    "CASES",
    "COMPUTED",
    "LISTS",
    "cast_names",
    "compute",
    "converted_json",
    "lists",
    "record",
    "scales",
    "under_init",
]

DTYPES = ("float16", "bfloat16")
LISTS = (
    "lp16_ops",
    "fp32_ops",
    "lp16_fp32_ops",
    "conditional_fp32_ops",
    "widest_type_cast",
    "loss_output_functions",
)

_BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""What MXNet calls it."""

Case = tuple[Callable[[Any], Any], str, dict[str, Any]]


def branches(mx: Any) -> Any:
    """Return layers whose outputs are joined again."""
    s = mx.sym
    x = s.Convolution(s.Variable("data"), kernel=(3, 3), num_filter=4, name="conv0")
    x = s.Activation(s.BatchNorm(x, name="bn"), act_type="relu", name="relu")
    y = s.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=4, name="conv1")
    x = s.elemwise_add(y, x, name="sum")
    x = s.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    x = s.FullyConnected(x, num_hidden=3, name="fc")
    return s.SoftmaxOutput(s.LeakyReLU(x, act_type="elu", name="elu"), name="softmax")


def joined(mx: Any) -> Any:
    """Return a concatenation of parts in half precision."""
    s = mx.sym
    x = s.FullyConnected(s.Variable("data"), num_hidden=6, name="fc")
    parts = s.split(x, num_outputs=2, name="parts")
    return s.concat(parts[0], s.Activation(parts[1], act_type="softrelu"), x, name="all")


def products(mx: Any) -> Any:
    """Return products of variables, and of a variable with a layer."""
    s = mx.sym
    x = s.dot(s.Variable("data"), s.Variable("left"), name="product")
    y = s.FullyConnected(x, num_hidden=4, name="fc")
    return s.dot(y, s.Variable("right"), name="out")


def shared(mx: Any) -> Any:
    """Return a weight that is read in both precisions, and outputs of both."""
    s = mx.sym
    weight = s.Variable("weight")
    fc = s.FullyConnected(s.Variable("data"), weight, num_hidden=4, no_bias=True, name="fc")
    return s.Group([fc, s.sum(s.square(weight, name="squares"), name="penalty"), s.relu(fc)])


def declared(mx: Any) -> Any:
    """Return layers with a dtype declared for a parameter."""
    s = mx.sym
    ids = s.Variable("data")
    weight = s.Variable("table", dtype="float32")
    x = s.Embedding(ids, weight, input_dim=5, output_dim=4, name="embedding")
    return s.FullyConnected(x, num_hidden=2, name="fc") + 1


def normalized(mx: Any) -> Any:
    """Return batch norm, which is asked for in half precision."""
    s = mx.sym
    x = s.BatchNorm(s.Variable("data"), fix_gamma=False, name="bn")
    return s.FullyConnected(x, num_hidden=2, name="fc")


_WITH_NORM = ["Convolution", "FullyConnected", "BatchNorm"]

CASES: dict[str, Case] = {
    **{
        f"{make.__name__} {dtype}{' cast' if cast else ''}": (
            make,
            dtype,
            {"cast_optional_params": cast},
        )
        for make in (branches, joined, products, shared, declared)
        for dtype in DTYPES
        for cast in (False, True)
        if (make, dtype) != (joined, "bfloat16")  # MXNet cannot convert it
    },
    **{
        f"{make.__name__} by name": (make, "float16", {"data_names": None})
        for make in (branches, declared)
    },
    "branches excluded": (
        branches,
        "float16",
        {"excluded_sym_names": ["conv1", "elu", "softmax"], "cast_optional_params": True},
    ),
    "branches chosen": (
        branches,
        "float16",
        {"target_dtype_ops": ["FullyConnected"], "fp32_ops": ["Convolution", "Pooling"]},
    ),
    "normalized": (normalized, "float16", {"target_dtype_ops": _WITH_NORM}),
    "normalized cast": (
        normalized,
        "float16",
        {"target_dtype_ops": _WITH_NORM, "cast_optional_params": True},
    ),
}

COMPUTED = ("branches bfloat16", "branches bfloat16 cast")
"""On CPUs MXNet computes in bfloat16 alone."""


def _amp(mx: Any) -> Any:
    return importlib.import_module(f"{mx.__name__}.contrib.amp")


def _symbol(mx: Any, case_id: str) -> Any:
    # Automatic names count from 0.
    with mx.name.NameManager():
        return CASES[case_id][0](mx)


def converted_json(mx: Any, case_id: str) -> str:
    """Return the graph made by ``convert_symbol``."""
    _, dtype, options = CASES[case_id]
    options = {"data_names": ["data", "softmax_label"], **options}
    symbol = _symbol(mx, case_id)
    if options["data_names"] is not None:
        options["data_names"] = [name for name in options["data_names"] if name in _inputs(symbol)]
    converted = _amp(mx).convert_symbol(symbol, dtype, **options)
    return str(converted.tojson(remove_amp_cast=False))


def _inputs(symbol: Any) -> list[str]:
    return list(symbol.list_inputs())


def compute(mx: Any, case_id: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of a model made by ``convert_model``, and of the original."""
    _, dtype, options = CASES[case_id]
    symbol = _symbol(mx, case_id)
    shapes, _, states = symbol.infer_shape(data=(2, 3, 8, 8))
    random = np.random.RandomState(0)
    arguments = {
        name: mx.nd.array(random.uniform(-0.3, 0.4, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    auxiliary = {
        name: mx.nd.array(random.uniform(0.5, 1, shape))
        for name, shape in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    inputs = {name: arguments.pop(name) for name in ("data", "softmax_label")}
    outputs = []
    for model in (
        _amp(mx).convert_model(symbol, dict(arguments), dict(auxiliary), dtype, **options),
        (symbol, arguments, auxiliary),
    ):
        executor = model[0].bind(mx.cpu(), {**model[1], **inputs}, aux_states=model[2])
        outputs.append(executor.forward()[0].asnumpy())
    return outputs[0], outputs[1]


def lists(mx: Any, dtype: str) -> dict[str, list[Any]]:
    """Return the lists of operators of a target dtype."""
    amp = _amp(mx)
    target = _BFLOAT16 if dtype == "bfloat16" else dtype
    return {name: list(getattr(amp, f"list_{name}")(target)) for name in LISTS}


def cast_names(mx: Any) -> dict[str, list[str]]:
    """Return, by operator, the names of the casts inserted after its outputs.

    Operators whose dtypes cannot be inferred from float32 are left out.
    """
    found = {}
    for path in sorted((golden_file.GOLDEN / "applications").glob("*.json")):
        for name, facts in json.loads(path.read_text(encoding="utf-8")).items():
            function = getattr(getattr(mx.sym, path.stem), name, None)
            if function is None or facts["arguments"] == ["a", "b"]:
                continue
            try:
                symbol = function(name="node", **facts["given"])
                casts = _amp(mx).convert_symbol(
                    symbol, target_dtype_ops=[], fp32_ops=[], conditional_fp32_ops=[]
                )
            except mx.base.MXNetError:
                continue
            found[f"{path.stem}.{name}"] = casts.list_outputs()
    return found


def scales(mx: Any) -> list[Any]:
    """Return whether each step overflows, and the loss scale after it."""
    param = mx.gluon.Parameter("weight", shape=(2,))
    param.initialize()
    scaler = importlib.import_module(f"{mx.__name__}.contrib.amp.loss_scaler").LossScaler()
    scaler._scale_seq_len = 3
    found = []
    for value in (1.0, np.inf, np.nan, 2.0, 3.0, 4.0, 5.0, -np.inf, 1.0, 1.0, 1.0, 1.0):
        param.grad()[:] = mx.nd.array([1.0, value])
        found.append([scaler.has_overflow([param]), scaler.loss_scale])
    return found


def under_init(package: str, dtype: str) -> dict[str, Any]:
    """Return what functions do after ``init``, which changes the whole process."""
    script, paths = Path(__file__), [str(Path(__file__).resolve().parents[2]), *sys.path]
    done = subprocess.run(
        [sys.executable, str(script), package, dtype],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return dict(json.loads(done.stdout))


def _after_init(mx: Any, dtype: str) -> dict[str, Any]:
    _amp(mx).init(dtype)
    s = mx.sym
    x = s.Convolution(s.Variable("data"), kernel=(1, 1), num_filter=2, name="conv")
    x = s.Activation(s.BatchNorm(x, name="bn"), act_type="softrelu", name="soft")
    y = s.Activation(x, act_type="relu", name="relu")
    x = s.elemwise_add(s.concat(x, y, dim=1, name="all"), rhs=s.Variable("other"), name="sum")
    x = s.softmax(s.FullyConnected(data=x, num_hidden=3, name="fc"), name="out")
    arrays = mx.nd.array([[1.0, 2.0]]), mx.nd.array([[3.0, 4.0]])
    computed = {
        "exp": mx.nd.exp(arrays[0]),
        "dot": mx.nd.dot(arrays[0], arrays[1].T),
        "relu": mx.nd.relu(arrays[0]),
    }
    if dtype == "bfloat16":
        low = mx.nd.amp_cast(arrays[0], dtype=_BFLOAT16)
        computed["of low"] = mx.nd.exp(low)
        computed["both"] = mx.nd.elemwise_add(low, arrays[1])
    scaled = mx.nd.array([[0.5, 1.0]])
    scaled.attach_grad()
    with mx.autograd.record():
        loss = mx.nd.LinearRegressionOutput(scaled, mx.nd.zeros((1, 2)))
    loss.backward()
    return {
        "json": x.tojson(remove_amp_cast=False),
        "dtypes": {
            name: "bfloat16" if "bfloat16" in str(one.dtype) else np.dtype(one.dtype).name
            for name, one in computed.items()
        },
        "gradient": scaled.grad.asnumpy().tolist(),
    }


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return everything that is stored."""
    found = {f"json/{name}": np.array(converted_json(mx, name)) for name in CASES}
    for dtype in DTYPES:
        found[f"lists/{dtype}"] = np.array(json.dumps(lists(mx, dtype)))
        found[f"init/{dtype}"] = np.array(json.dumps(under_init("mxnet", dtype)))
    found["scales"] = np.array(json.dumps(scales(mx)))
    found["cast_names"] = np.array(json.dumps(cast_names(mx)))
    for name in COMPUTED:
        found[f"output/{name}"] = compute(mx, name)[0]
    return found


if __name__ == "__main__":
    print(json.dumps(_after_init(importlib.import_module(sys.argv[1]), sys.argv[2])))
