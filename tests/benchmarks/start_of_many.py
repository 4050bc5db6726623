"""How long a server with many modules takes to start, and each module's first prediction.

    python tests/benchmarks/start_of_many.py [--modules 1000] [--folder DIR]

The modules are made over HTTP, each with a checkpoint; the server is killed and started again.
With a folder they stay there, and another run begins with those that are in it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from app.client import Client
from app.client.local_server import running_server, start_server
from served.network import BATCH, BIND, FEATURES, NETWORK
from served.processes import ENVIRONMENT, kill

_ASKED = 50
_MAKERS = 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="modserve-start-") as temporary:
        measure(options.folder or Path(temporary), options.modules)


def measure(folder: Path, count: int) -> None:
    """Create the missing modules, restart the server and query some of them."""
    server = start_server(folder, environment=ENVIRONMENT)
    names = [f"m{number:04d}" for number in range(count)]
    with Client(server.url) as client:
        there = {one["name"] for one in client.modules()}
    with ThreadPoolExecutor(_MAKERS) as makers:
        list(makers.map(lambda name: make(server.url, name), set(names) - there))
    kill(server.process.pid)
    server.process.wait()
    begun = time.perf_counter()
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        seconds, own = time.perf_counter() - begun, processor_seconds(server.process.pid)
        print(
            f"{count} modules: ready after {seconds:.2f} s, {own:.2f} s of the server's processor"
        )
        begun = time.perf_counter()
        listed = client.modules()
        assert len(listed) >= count
        print(f"listed in {time.perf_counter() - begun:.2f} s")
        chosen = names[:: max(1, count // _ASKED)]
        for what in ("first", "second"):
            seconds = [ask(client, name) for name in chosen]
            median, worst = statistics.median(seconds), max(seconds)
            print(f"{what} prediction: median {median * 1e3:.1f} ms, most {worst * 1e3:.1f} ms")


def make(url: str, name: str) -> None:
    """Make a module with a checkpoint."""
    with Client(url) as client:
        client.create_module(name, NETWORK)
        client.bind(name, **BIND)
        client.init_params(name, "xavier", seed=1)
        client.save_checkpoint(name, 1)


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used, which other load changes little."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(client: Client, name: str) -> float:
    """Return the seconds a prediction takes."""
    begun = time.perf_counter()
    client.predict(name, data=np.ones((BATCH, FEATURES), "f"))
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
