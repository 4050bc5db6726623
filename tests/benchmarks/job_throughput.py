"""How many small jobs a server gets through: score jobs of 64 rows over distinct modules.

Eight threads submit over HTTP, each over a connection of its own, while the jobs run. Prints the
rate from the first submission to the last end, the time a submission takes, and the processor time
that the server and its executor spend on a job, which other load of the machine changes little.

    python tests/benchmarks/job_throughput.py [JOBS [MODULES]]
"""

from __future__ import annotations

import http.client
import io
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from app.client import Client  # noqa: E402
from app.client.local_server import running_server  # noqa: E402
from served.network import BIND, CLASSES, FEATURES, NETWORK  # noqa: E402
from served.processes import executor_pid  # noqa: E402

SUBMITTERS, ROWS = 8, 64
LONGEST_SECONDS = 300.0


def main(jobs: int = 1000, modules: int = 100) -> None:
    """Measure a server of its own in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="modserve-jobs-") as folder:
        environment = {"MODSERVE_THREADS": "1"}
        with (
            running_server(Path(folder), environment=environment) as server,
            Client(server.url) as client,
        ):
            names = prepare(client, modules)
            submit_all(server.url, names, modules)  # each module's first job loads it
            wait_for_all(client)
            pids = {"server": server.process.pid, "executor": executor_pid(client)}
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            started = time.monotonic()
            latencies = submit_all(server.url, names, jobs)
            submitted = time.monotonic()
            wait_for_all(client)
            ended = time.monotonic()
            print(f"{jobs} jobs, {modules} modules: {jobs / (ended - started):.0f} jobs/s")
            print(
                f"submitted at {jobs / (submitted - started):.0f} jobs/s; one submission: ", end=""
            )
            ms = sorted(1000 * seconds for seconds in latencies)
            print(f"median {statistics.median(ms):.1f} ms, p99 {ms[int(0.99 * len(ms))]:.1f} ms")
            for name, pid in pids.items():
                spent = cpu_seconds(pid) - before[name]
                print(f"{name}: {1000 * spent / jobs:.2f} ms of CPU a job")
            failed = client.request("GET", "/v1/jobs?status=failed").json()["items"]
            assert not failed, failed[0]


def prepare(client: Client, modules: int) -> list[str]:
    """Make the dataset and initialized modules; return their names."""
    client.request("PUT", "/v1/datasets/rows?kind=npz", content=write_rows())
    names = [f"m{number}" for number in range(modules)]
    for name in names:
        client.create_module(name, json.dumps(NETWORK))
        client.request("POST", f"/v1/modules/{name}/bind", json=BIND)
        client.request("POST", f"/v1/modules/{name}/params/init", json={"initializer": "xavier"})
    return names


def write_rows() -> bytes:
    """Return 64 examples as an npz file."""
    random, stream = np.random.RandomState(1), io.BytesIO()
    labels = random.randint(0, CLASSES, ROWS).astype(np.float32)
    data = random.rand(ROWS, FEATURES).astype(np.float32)
    np.savez(stream, data=data, softmax_label=labels)
    return stream.getvalue()


def submit_all(url: str, names: list[str], jobs: int) -> list[float]:
    """Submit jobs from all threads, module by module; return the seconds each took."""
    latencies: list[float] = []
    threads = [
        threading.Thread(
            target=submit, args=(url, [names[i % len(names)] for i in share], latencies)
        )
        for share in (range(first, jobs, SUBMITTERS) for first in range(SUBMITTERS))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(latencies) == jobs, "a submission was refused"
    return latencies


def submit(url: str, names: list[str], latencies: list[float]) -> None:
    """Submit one job after the other over one connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    body = json.dumps({"dataset": "rows", "batch_size": ROWS})
    headers = {"Content-Type": "application/json"}
    for name in names:
        started = time.perf_counter()
        connection.request("POST", f"/v1/modules/{name}/score", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 202, content
        latencies.append(time.perf_counter() - started)
    connection.close()


def wait_for_all(client: Client) -> None:
    """Return once no job is queued or running."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while any(
        client.request("GET", f"/v1/jobs?status={status}&limit=1").json()["items"]
        for status in ("queued", "running")
    ):
        assert time.monotonic() < deadline, "the jobs did not end in time"
        time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
