"""Throughput of predictions, compared with other servers that receive the same bytes.

The servers take turns on the same cores, which also run the load generator; the result is the ratio
of medians. Our server requires an API key, as a public server does.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import typer
from rich.console import Console
from rich.table import Table

from app.cli.bench.models import mlp
from app.client import Client
from app.client.local_server import PROGRAM, running_server
from app.tensors.npy import write_npy

__all__ = ["run_serving"]

CLIENTS = (1, 8, 32)
_ROUNDS = 3
_PERF = re.compile(r"throughput: ([0-9.]+) infer/sec, latency ([0-9]+) usec")


@dataclass(frozen=True, slots=True)
class Load:
    """A request to a server.

    Attributes:
        url: with the path.
        body: file with the body.
        headers: lines of the head.
        key: the API key to send; None for a server that needs none.
    """

    url: str
    body: Path
    headers: tuple[str, ...]
    key: str | None = None

    def authorization(self) -> tuple[str, ...]:
        """Return the line of the head that carries the key."""
        return () if self.key is None else (f"Authorization: Bearer {self.key}",)


def run_serving(
    seconds: float, peers: Mapping[str, str], perf_analyzer: Path | None, as_json: bool
) -> int:
    """Measure our own server and its peers; return the exit status.

    Args:
        seconds: of each measurement.
        peers: URLs of servers that serve the same model as ``mlp`` over /v2, by name.
        perf_analyzer: path of Triton's load generator, to use it as well.
    """
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="modserve-bench-") as name, ExitStack() as stack:
        loads = _loads(Path(name), peers, stack)
        for clients in CLIENTS:
            found: dict[str, list[dict[str, float]]] = {one: [] for one in loads}
            # In turns, so that a machine that slows down does so for all of them.
            for _ in range(_ROUNDS):
                for one, load in loads.items():
                    found[one].append(_light(load, clients, seconds))
            results |= {f"{one}/{clients}": _median(rows) for one, rows in found.items()}
        if perf_analyzer is not None:
            for clients in CLIENTS:
                for one, load in loads.items():
                    if "/v2/" in load.url and one != "bare uvicorn":
                        key = f"{one} (perf_analyzer)/{clients}"
                        results[key] = _heavy(perf_analyzer, load, clients, seconds)
    _print(results, list(peers), as_json)
    return 0


def _loads(folder: Path, peers: Mapping[str, str], stack: ExitStack) -> dict[str, Load]:
    row = np.random.RandomState(0).rand(1, 784).astype(np.float32)
    (folder / "row.npy").write_bytes(write_npy(row))
    header = orjson.dumps(
        {
            "inputs": [
                {
                    "name": "data",
                    "shape": [1, 784],
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": row.nbytes},
                }
            ],
            "outputs": [{"name": "softmax_output", "parameters": {"binary_data": True}}],
        }
    )
    (folder / "row.v2").write_bytes(header + row.tobytes())
    binary = (
        "Content-Type: application/octet-stream",
        f"Inference-Header-Content-Length: {len(header)}",
    )
    npy = ("Content-Type: application/x-npy", "Accept: application/x-npy")
    admin, infer_only = (_new_key(folder / "server", scope) for scope in ("admin", "infer"))
    own = stack.enter_context(_served(folder / "server", admin))
    ceiling = stack.enter_context(_bare())
    infer = "/v2/models/mlp/infer"
    return {
        "modserve /v2": Load(f"{own}{infer}", folder / "row.v2", binary, infer_only),
        "modserve npy": Load(f"{own}/v1/modules/mlp/predict", folder / "row.npy", npy, infer_only),
        "bare uvicorn": Load(f"{ceiling}{infer}", folder / "row.v2", binary),
        **{name: Load(f"{url}{infer}", folder / "row.v2", binary) for name, url in peers.items()},
    }


def _new_key(data_dir: Path, scope: str) -> str:
    command = [sys.executable, *PROGRAM, "keys", "add", "--name", scope, "--scope", scope]
    run = subprocess.run(
        [*command, "--data-dir", str(data_dir), "--json"], stdout=subprocess.PIPE, check=True
    )
    key: str = orjson.loads(run.stdout)["key"]
    return key


@contextmanager
def _served(folder: Path, key: str) -> Iterator[str]:
    with running_server(folder) as server, Client(server.url, key=key) as client:
        client.create_module("mlp", mlp().tojson())
        client.bind("mlp", [{"name": "data", "shape": [1, 784]}], for_training=False)
        client.init_params("mlp", "xavier")
        client.predict("mlp", data=np.zeros((1, 784), np.float32))
        yield server.url


@contextmanager
def _bare() -> Iterator[str]:
    """Run the bare application on a free port."""
    command = [sys.executable, "-m", "uvicorn", "app.cli.bench.bare:app", "--port", "0"]
    with subprocess.Popen(
        [*command, "--lifespan", "off", "--no-access-log"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stderr)
            found = next((one[0] for one in lines if one), None)
            if found is None:
                raise RuntimeError("the bare application did not start")
            yield found
        finally:
            process.terminate()


def _light(load: Load, clients: int, seconds: float) -> dict[str, float]:
    """Load a server with our own generator."""
    command = [sys.executable, "-m", "app.cli.bench.load", load.url, str(load.body)]
    run = subprocess.run(
        [*command, str(clients), str(seconds), *load.headers, *load.authorization()],
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = orjson.loads(run.stdout)
    if found["refused"]:
        raise RuntimeError(f"{load.url} refused {found['refused']:.0f} requests")
    return found


def _heavy(program: Path, load: Load, clients: int, seconds: float) -> dict[str, float]:
    """Load a server with Triton's perf_analyzer."""
    address = load.url.partition("/v2/")[0].partition("://")[2]
    command = [str(program), "-m", "mlp", "-u", address, "-b", "1", "-s", "30"]
    interval = str(round(seconds * 1000))
    concurrency = f"{clients}:{clients}"
    headers = [word for line in load.authorization() for word in ("-H", line)]
    command += ["--concurrency-range", concurrency, "--measurement-interval", interval]
    run = subprocess.run(
        [*command, *headers],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rates = _PERF.findall(run.stdout)
    if not rates:
        raise RuntimeError(f"perf_analyzer printed no throughput: {run.stdout[-500:]}")
    rate, latency_us = rates[-1]
    return {"per_second": float(rate), "p50_ms": float(latency_us) / 1e3, "p99_ms": float("nan")}


def _median(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def _print(results: Mapping[str, Mapping[str, float]], peers: Sequence[str], as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps({"serving": results}, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table("server", title="modserve bench --suite serving (one example of 784 numbers)")
    headings = ["clients", "requests/s", "p50 ms", "p99 ms", *(f"x {peer}" for peer in peers)]
    for heading in headings:
        table.add_column(heading, justify="right")
    for key, row in results.items():
        name, _, clients = key.rpartition("/")
        figures = [f"{row['per_second']:,.0f}", f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}"]
        table.add_row(name, clients, *figures, *_ratios(results, key, peers))
    Console().print(table)


def _ratios(results: Mapping[str, Mapping[str, Any]], key: str, peers: Sequence[str]) -> list[str]:
    """Return the ratio of requests per second to those of each peer, under the same load."""
    name, _, clients = key.rpartition("/")
    tool = " (perf_analyzer)" if name.endswith("(perf_analyzer)") else ""
    found = []
    for peer in peers:
        other = results.get(f"{peer}{tool}/{clients}")
        ratio = results[key]["per_second"] / other["per_second"] if other else None
        found.append("" if ratio is None else f"{ratio:.2f}")
    return found
