"""How long a small prediction takes while its executor does something large.

Prints the median, 99th percentile and maximum of predictions of one MNIST digit over HTTP, made one
after the other: alone, while LeNet trains, while it trains and saves a checkpoint after each batch,
while a fit begins that loads a dataset of 750 MB, while another client asks for predictions of
84,000 examples at once, and while modules of 400 MB are restored (the memory budget has room for
one of them alone), load a checkpoint, are set, saved, initialized and bound.
"""

from __future__ import annotations

import argparse
import io
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import core  # noqa: E402
from app.cli.demo.tour import BIND, MNIST  # noqa: E402
from app.client import Client  # noqa: E402
from app.client.local_server import running_server  # noqa: E402
from served import lenet  # noqa: E402

LARGE_EXAMPLES = 84_000
DATASET_BYTES = 750 * 10**6
BATCHES_AN_EPOCH = 63
WIDTH = 10_000
WIDE_SHAPES = {"fc_weight": (WIDTH, WIDTH), "fc_bias": (WIDTH,)}
BUDGET_BYTES = 600 * 10**6


def npz(**arrays: np.ndarray) -> bytes:
    """Return a compressed archive."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


class Caller:
    """Sends predictions one after another in a thread, and records how long each took."""

    def __init__(self, url: str, module: str) -> None:
        self.seconds: list[float] = []
        self._url = f"{url}/v1/modules/{module}/predict"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        stream = io.BytesIO()
        np.save(stream, lenet.digits(1)[0])
        headers = {"content-type": "application/x-npy", "accept": "application/x-npy"}
        with httpx.Client(timeout=120, headers=headers) as http:
            while not self._stop.is_set():
                started = time.perf_counter()
                http.post(self._url, content=stream.getvalue()).raise_for_status()
                self.seconds.append(time.perf_counter() - started)
                time.sleep(0.002)


def report(name: str, seconds: list[float], note: str = "") -> None:
    """Print one row."""
    p50, p99 = (float(np.percentile(seconds, q)) * 1e3 for q in (50, 99))
    print(f"{name:32} {len(seconds):6} {p50:9.1f} {p99:9.1f} {max(seconds) * 1e3:9.1f}  {note}")


@contextmanager
def measured(url: str, name: str, module: str = "lenet") -> Iterator[list[str]]:
    """Call predictions during the block and print how long they took."""
    notes: list[str] = []
    with Caller(url, module) as caller:
        yield notes
    report(name, caller.seconds, ", ".join(notes))


def fit_for(client: Client, seconds: float, **changes: Any) -> str:
    """Train for a while; return the rate as a note."""
    job = lenet.fit(client, "lenet", epochs=10_000, **changes)
    started = time.monotonic()
    while client.job(job)["status"] != "running":
        time.sleep(0.01)
    time.sleep(seconds)
    client.cancel(job)
    client.wait(job)
    batches = progress(client, job)
    return f"{(time.monotonic() - started) / max(batches, 1) * 1e3:.1f} ms a batch"


def progress(client: Client, job: int) -> int:
    """Return how many batches a job over the digits has done."""
    events = client.request("GET", f"/v1/jobs/{job}").json()
    found = events.get("progress") or {}
    return int(found.get("epoch", 0)) * BATCHES_AN_EPOCH + int(found.get("batch", 0))


def large_dataset(folder: Path) -> Path:
    """Write a dataset of 750 MB, as an archive that must be unpacked."""
    count = DATASET_BYTES // 784
    path = folder / "large.npz"
    images = np.random.default_rng(1).integers(0, 255, (count, 1, 28, 28), dtype=np.uint8)
    np.savez(path, train_images=images, train_labels=np.zeros(count, np.float32))
    return path


def large_predictions(url: str, seconds: float, stop: Callable[[], bool]) -> list[float]:
    """Request large predictions for a while; return how long each took."""
    body = npz(data=np.zeros((LARGE_EXAMPLES, 1, 28, 28), np.uint8))
    headers = {"content-type": "application/x-npz", "accept": "application/x-npz"}
    taken = []
    deadline = time.monotonic() + seconds
    with httpx.Client(timeout=300, headers=headers) as http:
        while time.monotonic() < deadline and not stop():
            started = time.perf_counter()
            http.post(f"{url}/v1/modules/lenet/predict", content=body).raise_for_status()
            taken.append(time.perf_counter() - started)
    return taken


def make_wide(client: Client, name: str) -> None:
    """Create a module of 400 MB with a checkpoint."""
    client.create_module(name, wide_network())
    bind_wide(client, name)
    client.init_params(name, "uniform", seed=1)
    client.save_checkpoint(name, 1)


def bind_wide(client: Client, name: str) -> None:
    """Bind a module of 400 MB."""
    client.bind(name, data_shapes=[{"name": "data", "shape": [1, WIDTH]}], for_training=False)


def wide_network() -> str:
    """Return one layer, as large as the module is to be, as JSON."""
    data = core.sym.Variable("data")
    return str(core.sym.FullyConnected(data, num_hidden=WIDTH, name="fc").tojson())


def each_took(act: Callable[[], object], seconds: float) -> str:
    """Repeat something for a while, at least once; return a note."""
    taken = []
    deadline = time.monotonic() + seconds
    while not taken or time.monotonic() < deadline:
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return f"{len(taken)} in {np.mean(taken):.2f} s each"


def measure_wide(server_url: str, client: Client, seconds: float) -> None:
    """Measure predictions while modules of 400 MB are loaded, set and restored."""
    for name in ("wide", "other"):
        make_wide(client, name)
    names = itertools.cycle(("wide", "other"))
    client.predict("lenet", data=lenet.digits(1)[0])  # others had to be evicted
    with measured(server_url, "restores of 400 MB") as notes:
        notes.append(each_took(lambda: client.restore_module(next(names)), seconds))
    with measured(server_url, "400 MB of a checkpoint") as notes:
        notes.append(each_took(lambda: client.load("wide", 1), seconds))
    values = {name: np.zeros(shape, "f") for name, shape in WIDE_SHAPES.items()}
    with measured(server_url, "400 MB of parameters") as notes:
        notes.append(each_took(lambda: client.set_params("wide", values), seconds))
    with measured(server_url, "400 MB saved") as notes:
        notes.append(each_took(lambda: client.save_checkpoint("wide", 1), seconds))
    with measured(server_url, "400 MB initialized") as notes:
        notes.append(each_took(lambda: client.init_params("wide", "uniform", seed=1), seconds))
    with measured(server_url, "400 MB bound anew") as notes:
        notes.append(each_took(lambda: bind_wide(client, "wide"), seconds))


def main() -> None:
    """Measure everything with a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each measurement")
    parser.add_argument("--only", help="run only the measurements whose names contain this")
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return options.only is None or options.only in name

    print(f"{'predictions of one digit':32} {'count':>6} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}")
    environment = {
        "MODSERVE_THREADS": "1",
        "MODSERVE_MAX_BODY_BYTES": str(2**29),
        "MODSERVE_MEMORY_BUDGET": str(BUDGET_BYTES),
    }
    with (
        tempfile.TemporaryDirectory(prefix="device-bench-") as folder,
        running_server(Path(folder) / "server", environment=environment) as server,
        Client(server.url) as client,
    ):
        client.put_dataset("mnist", MNIST)
        lenet.create(client, "lenet")
        client.bind("lenet", **BIND)
        client.init_params("lenet", "xavier", seed=1)
        client.predict("lenet", data=lenet.digits(1)[0])
        if wanted("alone"):
            with measured(server.url, "alone"):
                time.sleep(options.seconds / 2)
        if wanted("fit"):
            with measured(server.url, "fit") as notes:
                notes.append(fit_for(client, options.seconds))
        if wanted("checkpoint"):
            with measured(server.url, "checkpoint each batch") as notes:
                cadence = {"checkpoint": {"batches": 1}}
                notes.append(fit_for(client, options.seconds, **cadence))
        if wanted("dataset"):
            client.put_dataset("large", large_dataset(Path(folder)))
            with measured(server.url, "fit begins with 750 MB"):
                fit_for(client, options.seconds, dataset="large")
        if wanted("large"):
            with measured(server.url, f"predictions of {LARGE_EXAMPLES:,}") as notes:
                taken = large_predictions(server.url, options.seconds, lambda: False)
                notes.append(f"each {max(taken):.1f} s at most")
        if wanted("400 MB"):
            measure_wide(server.url, client, options.seconds)


if __name__ == "__main__":
    main()
