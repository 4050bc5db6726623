"""What ``mx.contrib.quantization`` makes of two networks: graphs, ranges, parameters, outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CASES", "Case", "record", "run_case", "write_files"]


class Case(NamedTuple):
    """One call of ``quantize_model``."""

    network: str
    options: dict[str, Any]

    @property
    def runs(self) -> bool:
        """Whether MXNet can run it: its convolutions take uint8 only."""
        return self.network == "convolutional" and self.options["quantized_dtype"] == "uint8"


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
    # Batch norms of bytes need ranges; to find those with the least entropy takes its time.
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
    """Return the JSON of the network of bytes, its parameters and its outputs."""
    case = CASES[name]
    if getattr(mx.contrib.quantization, "stats", 0) is None:
        # MXNet asks for SciPy, of which it makes no use.
        mx.contrib.quantization.stats = np
    symbol, shape = _NETWORKS[case.network](mx), _SHAPES[case.network]
    numbers = _parameters(symbol, shape)
    arrays = [{key: mx.nd.array(x) for key, x in part.items()} for part in numbers]
    data = np.random.RandomState(4).uniform(0, 1, (8, *shape[1:])).astype("float32")
    has_label = case.network == "convolutional"
    iterator = mx.io.NDArrayIter(data, np.zeros(8) if has_label else None, batch_size=4)
    quantized, arguments, auxiliary = mx.contrib.quantization.quantize_model(
        symbol,
        *arrays,
        calib_data=iterator,
        label_names=("softmax_label",) if has_label else None,
        **case.options,
    )
    found = {f"arg:{key}": value.asnumpy() for key, value in arguments.items()}
    text = quantized.tojson()
    if not case.runs:
        return text, found
    bound = {**arguments, "data": mx.nd.array(data[:4]), "softmax_label": mx.nd.zeros((4,))}
    executor = quantized.bind(
        mx.cpu(),
        {key: bound[key] for key in quantized.list_arguments()},
        aux_states={key: auxiliary[key] for key in quantized.list_auxiliary_states()},
        grad_req="null",
    )
    for index, output in enumerate(executor.forward()):
        found[f"out{index}"] = output.asnumpy()
    return text, found


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return parameters and outputs by case."""
    return {f"{name}/{key}": x for name in CASES for key, x in run_case(mx, name)[1].items()}


def write_files(mx: Any, folder: Path) -> None:
    """Write the graphs."""
    for name in CASES:
        (folder / f"{name}.json").write_text(run_case(mx, name)[0] + "\n", encoding="utf-8")
