"""Networks and blocks quantized by ``mx.contrib.quantization``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CASES", "NET_CASES", "Case", "make_net", "record", "run_case", "run_net", "write_files"]


class Case(NamedTuple):
    """One call of ``quantize_model``."""

    network: str
    options: dict[str, Any]


def _convolutional(mx: Any) -> Any:
    sym = mx.sym
    net = sym.Convolution(sym.var("data"), kernel=(3, 3), num_filter=4, no_bias=True, name="conv1")
    net = sym.Activation(net, act_type="tanh", name="tanh1")
    net = sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool1")
    net = sym.Convolution(net, kernel=(3, 3), num_filter=6, no_bias=True, name="conv2")
    net = sym.Pooling(net, pool_type="avg", kernel=(2, 2), stride=(2, 2), name="pool2")
    net = sym.Flatten(net, name="flat")
    net = sym.FullyConnected(net, num_hidden=8, name="fc1")
    net = sym.FullyConnected(net, num_hidden=3, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def _branching(mx: Any) -> Any:
    sym = mx.sym
    net = sym.Convolution(
        sym.var("data"), kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True, name="conv1"
    )
    net = sym.BatchNorm(net, fix_gamma=False, name="bn1")
    net = first = sym.Activation(net, act_type="relu", name="relu1")
    net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True, name="conv2")
    net = sym.Activation(sym.elemwise_add(first, net, name="add"), act_type="relu", name="relu2")
    net = sym.Concat(net, first, dim=1, name="cat")
    net = sym.broadcast_mul(net, sym.var("scale", shape=(1, 8, 1, 1)), name="scaled")
    net = sym.Convolution(net, kernel=(1, 1), num_filter=4, no_bias=True, name="conv3")
    dense = sym.FullyConnected(sym.Dropout(net, name="drop"), num_hidden=5, name="fc1")
    last = sym.FullyConnected(dense, num_hidden=5, flatten=False, name="fc2")
    return sym.Group([last, sym.softmax(dense, name="sm")])


_NETWORKS: dict[str, Callable[[Any], Any]] = {
    "convolutional": _convolutional,
    "branching": _branching,
}
_SHAPES = {"convolutional": (4, 1, 14, 14), "branching": (4, 3, 8, 8)}

_CHOICES = (("uint8", "smart"), ("auto", "full"), ("auto", "smart"), ("uint8", "full"))

CASES: dict[str, Case] = {
    f"{network}_{calib_mode}_{dtype}_{mode}": Case(
        network, {"calib_mode": calib_mode, "quantized_dtype": dtype, "quantize_mode": mode}
    )
    # Quantized batch norms need ranges; searching for those of least entropy takes long.
    for network, calib_mode, choices in (
        ("convolutional", "none", _CHOICES),
        ("convolutional", "naive", _CHOICES),
        ("convolutional", "entropy", _CHOICES[:1]),
        ("branching", "naive", _CHOICES),
        ("branching", "entropy", _CHOICES[1:2]),
    )
    for dtype, mode in choices
}
CASES |= {
    "excluded": Case(
        "branching",
        {
            "calib_mode": "naive",
            "quantized_dtype": "auto",
            "excluded_sym_names": ["conv2"],
            "excluded_op_names": ["Concat"],
            "quantize_mode": "full",
        },
    ),
    "few_examples": Case(
        "convolutional",
        {"calib_mode": "naive", "quantized_dtype": "uint8", "num_calib_examples": 4},
    ),
}


def _parameters(symbol: Any, shape: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    random = np.random.RandomState(3)
    shapes, _, auxiliary = symbol.infer_shape(data=shape)

    def numbers(name: str, size: tuple[int, ...]) -> Any:
        if name.endswith(("var", "gamma", "scale")):
            return random.uniform(0.5, 1.5, size).astype("float32")
        spread = 1 / np.sqrt(max(1, np.prod(size[1:])))
        return (random.normal(size=size) * spread).astype("float32")

    arguments = dict(zip(symbol.list_arguments(), shapes, strict=True))
    states = dict(zip(symbol.list_auxiliary_states(), auxiliary, strict=True))
    given = {n: numbers(n, s) for n, s in arguments.items() if n not in ("data", "softmax_label")}
    return given, {name: numbers(name, size) for name, size in states.items()}


def run_case(mx: Any, name: str) -> tuple[str, dict[str, np.ndarray]]:
    """Return the JSON of the quantized network, and its parameters."""
    case = CASES[name]
    if getattr(mx.contrib.quantization, "stats", 0) is None:
        # MXNet imports SciPy without using it.
        mx.contrib.quantization.stats = np
    symbol, shape = _NETWORKS[case.network](mx), _SHAPES[case.network]
    numbers = _parameters(symbol, shape)
    arrays = [{key: mx.nd.array(x) for key, x in part.items()} for part in numbers]
    data = np.random.RandomState(4).uniform(0, 1, (8, *shape[1:])).astype("float32")
    has_label = case.network == "convolutional"
    iterator = mx.io.NDArrayIter(data, np.zeros(8) if has_label else None, batch_size=4)
    quantized, arguments, _ = mx.contrib.quantization.quantize_model(
        symbol,
        *arrays,
        calib_data=iterator,
        label_names=("softmax_label",) if has_label else None,
        **case.options,
    )
    return quantized.tojson(), {f"arg:{key}": value.asnumpy() for key, value in arguments.items()}


NET_CASES: dict[str, dict[str, Any]] = {
    "none": {"calib_mode": "none", "quantized_dtype": "auto"},
    "naive": {"calib_mode": "naive", "quantized_dtype": "auto"},
    "entropy": {"calib_mode": "entropy", "quantized_dtype": "auto", "num_calib_examples": 8},
    "excluded": {
        "calib_mode": "naive",
        "quantized_dtype": "auto",
        "exclude_layers_match": ["dense"],
        "exclude_operators": ["Pooling"],
    },
}


def make_net(mx: Any) -> Any:
    """Return a block with parameters."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(
            nn.Conv2D(8, 3, in_channels=3),
            nn.BatchNorm(in_channels=8),
            nn.Activation("relu"),
            nn.MaxPool2D(),
            nn.Conv2D(16, 3, in_channels=8, activation="relu"),
            nn.GlobalAvgPool2D(),
            nn.Dense(5, in_units=16),
        )
    net.initialize()
    random = np.random.RandomState(7)
    for name, param in net.collect_params().items():
        is_scale = name.endswith(("gamma", "var"))
        low = 0.5 if is_scale else -0.4
        param.set_data(mx.nd.array(random.uniform(low, low + 1, param.shape)))
    return net


def run_net(mx: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of a block and of what ``quantize_net`` makes of it."""
    quantization = importlib.import_module(f"{mx.__name__}.contrib.quantization")
    if getattr(quantization, "stats", 0) is None:
        quantization.stats = np  # as in run_case
    net = make_net(mx)
    data = np.random.RandomState(8).uniform(0, 1, (8, 3, 12, 12)).astype("float32")
    dataset = mx.gluon.data.ArrayDataset(mx.nd.array(data), mx.nd.zeros((8,)))
    loader = mx.gluon.data.DataLoader(dataset, batch_size=4)
    made = quantization.quantize_net_v2(net, calib_data=loader, **NET_CASES[name])
    x = mx.nd.array(data)
    return net(x).asnumpy(), made(x).asnumpy()


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return parameters by case, and outputs of blocks."""
    found = {f"{name}/{key}": x for name in CASES for key, x in run_case(mx, name)[1].items()}
    for name in NET_CASES:
        found[f"net {name}/float"], found[f"net {name}/bytes"] = run_net(mx, name)
    return found


def write_files(mx: Any, folder: Path) -> None:
    """Write the graphs."""
    for name in CASES:
        (folder / f"{name}.json").write_text(run_case(mx, name)[0] + "\n", encoding="utf-8")
