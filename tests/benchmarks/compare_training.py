"""Time training by this engine and by PyTorch, in turns of a second, and print the ratios.

    python -m tests.benchmarks.compare_training --torch PYTHON [--optimizer adam] [network ...]

PYTHON is an interpreter in whose environment PyTorch is installed. Both engines stay loaded and
train in turn, so that what else the machine does slows down both; printed are the medians over the
rounds, of the times of a step and of each round's ratio, and the ratio of the best times.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import numpy as np

import core as mx
from app.cli.bench.models import MODELS
from core.gluon.model_zoo import vision
from tests.benchmarks.turns import compare, repeat_on_request

IMAGE = (3, 224, 224)
BATCHES = {
    "mlp": (64, 784),
    "lenet": (64, 1, 28, 28),
    "resnet20": (64, 3, 32, 32),
    "resnet18": (8, *IMAGE),
    "mobilenetv2_1.0": (8, *IMAGE),
    "densenet121": (8, *IMAGE),
}
"""The shape of a batch by network."""
OPTIMIZERS = {"sgd": {"learning_rate": 0.05, "momentum": 0.9}, "adam": {"learning_rate": 0.001}}
"""Options by optimizer; those of PyTorch are in torch_training.py."""
TEACH = "--teach"
"""Option of the processes that train on this engine."""


def symbol_of(name: str) -> mx.sym.Symbol:
    """Return a network of the bench or of the model zoo, with its loss."""
    if name in MODELS:
        return MODELS[name][0]()
    scores = vision.get_model(name)(mx.sym.Variable("data"))
    return mx.sym.SoftmaxOutput(scores, name="softmax")


def train(name: str, optimizer: str) -> None:
    """Train a network on request, as torch_training.py does."""
    shape = BATCHES[name]
    module = mx.mod.Module(symbol_of(name), context=mx.cpu())
    module.bind([("data", shape)], [("softmax_label", shape[:1])])
    mx.random.seed(0)
    module.init_params(mx.init.Xavier())
    module.init_optimizer("local", optimizer, OPTIMIZERS[optimizer])
    random = np.random.RandomState(0)
    data = mx.nd.array(random.randn(*shape).astype(np.float32))
    label = mx.nd.array(random.randint(0, 10, shape[:1]).astype(np.float32))
    batch = mx.io.DataBatch([data], [label])

    def step() -> None:
        module.forward_backward(batch)
        module.update()

    repeat_on_request(step)


def main() -> None:
    """Compare the networks asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", choices=[[], *BATCHES], metavar="network")
    parser.add_argument("--torch", help="interpreter of PyTorch's environment")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument(TEACH, choices=BATCHES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.teach:
        train(options.teach, options.optimizer)
        return
    if options.torch is None:
        parser.error("--torch is needed")
    names = options.networks or list(BATCHES)
    own = [sys.executable, "-m", "tests.benchmarks.compare_training", TEACH]
    other = [options.torch, str(Path(__file__).with_name("torch_training.py"))]
    ratios = [
        compare(
            name,
            [*own, name, "--optimizer", options.optimizer],
            [*other, name, ",".join(map(str, BATCHES[name])), options.optimizer],
            "PyTorch",
            rounds=options.rounds,
            seconds=options.seconds,
        )
        for name in names
    ]
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
