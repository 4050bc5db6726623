"""Time predictions of one example by this engine and by ONNX Runtime, in turns of a second.

    python -m tests.benchmarks.compare_inference [--threads 2] [--rounds 8] [network ...]

ONNX Runtime runs our ONNX export of the same network with the same parameters; before they are
timed, both predict and have to agree. Both engines stay loaded and predict in turn; printed are the
medians over the rounds, of the times and of each round's ratio, and the ratio of the best times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

import core as mx
from app.cli.bench.models import MODELS
from core.gluon.model_zoo import vision
from core.onnx_export import export_onnx
from tests.benchmarks.networks import NETWORKS
from tests.benchmarks.turns import compare, repeat_on_request

IMAGE = (3, 224, 224)
ZOO = {
    "alexnet": IMAGE,
    "densenet121": IMAGE,
    "inceptionv3": (3, 299, 299),
    "mobilenetv2_1.0": IMAGE,
    "resnet18_v1": IMAGE,
    "resnet50_v1": IMAGE,
    "squeezenet1.1": IMAGE,
    "vgg16": IMAGE,
}
"""The shape of an example of networks of the model zoo."""
NAMES = ("mlp", "lenet", *ZOO, *NETWORKS)
PREDICT, PREDICT_ONNX = "--predict", "--predict-onnx"
"""Options of the processes that predict."""
LARGEST_DIFFERENCE = 1e-3
"""Of outputs, as a share of the largest; networks with random parameters amplify rounding."""


def symbol_of(name: str) -> tuple[mx.sym.Symbol, tuple[int, ...]]:
    """Return a network and the shape of its data."""
    known = {**MODELS, **NETWORKS}
    if name in known:
        build, example = known[name]
        return build(), (1, *example)
    return vision.get_model(name)(mx.sym.Variable("data")), (1, *ZOO[name])


def data_of(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return an image, or words where an example has one axis of words."""
    random = np.random.RandomState(0)
    is_words = len(shape) == 2 and shape[1] <= 50
    made = random.randint(0, 1000, shape) if is_words else random.randn(*shape)
    return made.astype(np.float32)


def bound(name: str) -> mx.mod.Module:
    """Return a network that is bound for inference, with random parameters."""
    symbol, shape = symbol_of(name)
    labels = [name for name in symbol.list_arguments() if name.endswith("label")]
    module = mx.mod.Module(symbol, label_names=labels, context=mx.cpu())
    module.bind([("data", shape)], for_training=False)
    mx.random.seed(0)
    module.init_params(mx.init.Xavier())
    return module


def predict(name: str) -> None:
    """Predict with this engine on request."""
    module = bound(name)
    batch = mx.io.DataBatch([mx.nd.array(data_of(module.data_shapes[0].shape))])

    def step() -> None:
        module.forward(batch, is_train=False)
        module.get_outputs()[0].asnumpy()

    repeat_on_request(step)


def session_of(path: str, threads: int) -> ort.InferenceSession:
    """Return ONNX Runtime's session of a file."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def predict_onnx(path: str, threads: int) -> None:
    """Predict with ONNX Runtime on request."""
    session = session_of(path, threads)
    data = session.get_inputs()[0]
    inputs = {data.name: data_of(tuple(data.shape))}
    repeat_on_request(lambda: session.run(None, inputs))


def export(name: str, path: str) -> None:
    """Write the ONNX model; end the program if ONNX Runtime computes something else with it."""
    module = bound(name)
    shape = module.data_shapes[0].shape
    arguments, auxiliary = module.get_params()
    arrays = {key: value.asnumpy() for key, value in (*arguments.items(), *auxiliary.items())}
    made = export_onnx(module.symbol, arrays, {"data": shape}, batch_axes={"data": -1})
    Path(path).write_bytes(made.model.SerializeToString())
    data = data_of(shape)
    module.forward(mx.io.DataBatch([mx.nd.array(data)]), is_train=False)
    own = module.get_outputs()[0].asnumpy()
    other: Any = session_of(path, 1).run(None, {"data": data})[0]
    difference = float(np.abs(own - other).max() / np.abs(own).max())
    if not difference < LARGEST_DIFFERENCE:
        raise SystemExit(f"{name}: the engines differ by {difference} of the largest output")


def main() -> None:
    """Compare the networks asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", choices=[[], *NAMES], metavar="network")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument(PREDICT, choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument(PREDICT_ONNX, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.predict:
        predict(options.predict)
    elif options.predict_onnx:
        predict_onnx(options.predict_onnx, options.threads)
    else:
        compare_all(options)


def compare_all(options: argparse.Namespace) -> None:
    """Print a line for each network and the geometric mean of the ratios."""
    itself = [sys.executable, "-m", "tests.benchmarks.compare_inference"]
    ratios = []
    for name in options.networks or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/{name}.onnx"
            export(name, path)
            ratio = compare(
                name,
                [*itself, PREDICT, name],
                [*itself, PREDICT_ONNX, path, "--threads", str(options.threads)],
                "ONNX Runtime",
                rounds=options.rounds,
                seconds=options.seconds,
                environ={**os.environ, "MODSERVE_THREADS": str(options.threads)},
            )
        ratios.append(ratio)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
