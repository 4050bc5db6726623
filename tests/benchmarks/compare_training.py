"""Time training by this engine and by PyTorch, in turns of a second, and print the ratios.

    python tests/benchmarks/compare_training.py --torch PYTHON [--rounds 8] [network ...]

PYTHON is an interpreter in whose environment PyTorch is installed. Both engines stay loaded and
train in turn, so that what else the machine does slows down both; printed are the medians over the
rounds, of the times of a step and of each round's ratio, and the ratio of the best times.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import core as mx
from app.bench.models import MODELS
from core.gluon.model_zoo import vision

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
TEACH = "--teach"
"""Option of the processes that train on this engine."""


def symbol_of(name: str) -> mx.sym.Symbol:
    """Return a network of the bench or of the model zoo, with its loss."""
    if name in MODELS:
        return MODELS[name][0]()
    scores = vision.get_model(name)(mx.sym.Variable("data"))
    return mx.sym.SoftmaxOutput(scores, name="softmax")


def train(name: str) -> None:
    """Train a network on request, as torch_training.py does."""
    shape = BATCHES[name]
    module = mx.mod.Module(symbol_of(name), context=mx.cpu())
    module.bind([("data", shape)], [("softmax_label", shape[:1])])
    mx.random.seed(0)
    module.init_params(mx.init.Xavier())
    module.init_optimizer("local", "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    random = np.random.RandomState(0)
    data = mx.nd.array(random.randn(*shape).astype(np.float32))
    label = mx.nd.array(random.randint(0, 10, shape[:1]).astype(np.float32))
    batch = mx.io.DataBatch([data], [label])

    def step() -> None:
        module.forward_backward(batch)
        module.update()

    for _ in range(3):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        end, times = time.perf_counter() + float(line), []
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(statistics.median(times) * 1e3, flush=True)


def start(*command: str) -> subprocess.Popen[str]:
    """Start a process that trains; return it when it is ready."""
    root = Path(__file__).parents[2]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise SystemExit(f"{' '.join(command)} failed")
    return process


def time_of(process: subprocess.Popen[str], seconds: float) -> float:
    """Let a process train for a while; return the milliseconds of a step."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compare(name: str, torch: str, rounds: int, seconds: float) -> float:
    """Print the times of a network and their ratio; return the ratio."""
    shape = ",".join(map(str, BATCHES[name]))
    own = start(sys.executable, "-m", "tests.benchmarks.compare_training", TEACH, name)
    other = start(torch, str(Path(__file__).with_name("torch_training.py")), name, shape)
    pairs = [(time_of(own, seconds), time_of(other, seconds)) for _ in range(rounds)]
    for process in (own, other):
        process.communicate()
    own_times, other_times = zip(*pairs, strict=True)
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    print(
        f"{name:16} {statistics.median(own_times):9.3f} ms = {ratio:.2f} x PyTorch "
        f"({statistics.median(other_times):.3f}); best times {min(own_times):.3f}, "
        f"{min(other_times):.3f}: {min(own_times) / min(other_times):.2f}",
        flush=True,
    )
    return ratio


def main() -> None:
    """Compare the networks asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", choices=[[], *BATCHES], metavar="network")
    parser.add_argument("--torch", help="interpreter of PyTorch's environment")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument(TEACH, choices=BATCHES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.teach:
        train(options.teach)
        return
    if options.torch is None:
        parser.error("--torch is needed")
    names = options.networks or list(BATCHES)
    ratios = [compare(name, options.torch, options.rounds, options.seconds) for name in names]
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
