"""What models cost a server: memory, disk, and processor time of a prediction and of a step.

``python tests/benchmarks/model_sizes.py`` makes the table of the guide production.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import core as mx  # noqa: E402
from app.cli.demo.tour import LENET  # noqa: E402
from app.client import Client  # noqa: E402
from app.client.local_server import running_server  # noqa: E402
from served.processes import executor_pid, resident_bytes  # noqa: E402

_MB = 1e6
_PREDICTIONS = 20
_STEPS = 4


def zoo(name: str) -> tuple[str, tuple[int, ...]]:
    """Return the symbol of a network of the model zoo, and the shape of an example."""
    network = getattr(mx.gluon.model_zoo.vision, name)()
    symbol = mx.sym.SoftmaxOutput(network(mx.sym.var("data")), name="softmax")
    return symbol.tojson(), (3, 224, 224)


def measure(name: str, symbol: str, shape: tuple[int, ...], batch: int) -> list[str]:
    """Return the table row of a server that has only this model."""
    with tempfile.TemporaryDirectory(prefix="sizes-") as text:
        folder = Path(text)
        with (
            running_server(folder, environment={"MODSERVE_THREADS": "1"}) as server,
            Client(server.url, timeout_seconds=600) as client,
        ):
            pid = executor_pid(client)
            idle = resident_bytes(pid)
            client.create_module(name, symbol)
            client.bind(name, [{"name": "data", "shape": [batch, *shape]}], for_training=False)
            client.init_params(name, "xavier", seed=1)
            client.save_checkpoint(name, 1)
            example = np.random.default_rng(1).random((1, *shape), np.float32)
            client.predict(name, data=example)
            begin = cpu_seconds(pid)
            for _ in range(_PREDICTIONS):
                client.predict(name, data=example)
            predicted = (cpu_seconds(pid) - begin) / _PREDICTIONS
            client.predict(name, data=np.repeat(example, batch, 0))
            serving = resident_bytes(pid) - idle
            disk = size_of(folder / "modules")
            training, step = train(client, pid, name, shape, batch)
            row = [disk / _MB, serving / _MB, (training - idle) / _MB]
            cells = [f"{one:,.0f}" for one in row]
            return [f"{name}, batch {batch}", *cells, f"{predicted * 1e3:.1f}", f"{step * 1e3:.0f}"]


def train(
    client: Client, pid: int, name: str, shape: tuple[int, ...], batch: int
) -> tuple[int, float]:
    """Return the memory of the executor in training, and the processor time of a step."""
    labels = {"name": "softmax_label", "shape": [batch]}
    client.bind(name, [{"name": "data", "shape": [batch, *shape]}], [labels])
    options = {"learning_rate": 0.01, "momentum": 0.9}
    client.init_optimizer(name, "sgd", **options)
    data = np.random.default_rng(2).random((batch, *shape), np.float32)
    arrays: dict[str, Any] = {"data": data, "softmax_label": np.zeros(batch, np.float32)}
    begin = 0.0
    for step in range(_STEPS + 1):
        if step == 1:
            begin = cpu_seconds(pid)
        client.forward_backward(name, arrays)
        client.update(name)
    return resident_bytes(pid), (cpu_seconds(pid) - begin) / _STEPS


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size_of(folder: Path) -> int:
    """Return the total size of a folder's files in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def idle_server() -> str:
    """Return the same for a server without models."""
    with tempfile.TemporaryDirectory(prefix="sizes-") as text:
        begin = time.monotonic()
        with running_server(Path(text), environment={"MODSERVE_THREADS": "1"}) as server:
            ready = time.monotonic() - begin
            with Client(server.url) as client:
                both = [resident_bytes(server.process.pid), resident_bytes(executor_pid(client))]
    return "server {:.0f} MB, executor {:.0f} MB, ready in {:.1f} s".format(
        *(one / _MB for one in both), ready
    )


def main() -> None:
    """Print the table."""
    print(idle_server())
    print("| model | on disk | serving | training | prediction | step |")
    print("|---|---|---|---|---|---|")
    lenet = (LENET.read_text(), (1, 28, 28))
    for name, (symbol, shape), batch in (
        ("lenet", lenet, 64),
        ("resnet18_v1", zoo("resnet18_v1"), 8),
        ("resnet50_v1", zoo("resnet50_v1"), 8),
        ("vgg16", zoo("vgg16"), 8),
    ):
        print("|", " | ".join(measure(name, symbol, shape, batch)), "|", flush=True)


if __name__ == "__main__":
    main()
