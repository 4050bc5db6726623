"""Predictions a second of a promoted version on one and on two executors.

    python tests/benchmarks/instances.py [--clients 8] [--seconds 5] [--rounds 5]

One server with two executors of one thread each, and clients in another process that each keep one
request under way: an image of 3x64x64 for ResNet-18, which keeps a core busy for milliseconds. The
module has one instance and two in turns; requests are computed together as they come.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from app.cli.bench.resnet import resnet18  # noqa: E402
from app.client import Client  # noqa: E402
from app.client.local_server import running_server  # noqa: E402

SHAPE = (1, 3, 64, 64)
SETTINGS = {"MODSERVE_THREADS": "1", "MODSERVE_DEVICES": '["cpu(0)", "cpu(1)"]'}


def create(client: Client, max_batch_size: int) -> None:
    client.create_module("net", resnet18().tojson())
    client.bind("net", [{"name": "data", "shape": SHAPE}], for_training=False)
    client.init_params("net", "xavier", seed=1)
    client.save_checkpoint("net", 0)
    client.promote("net", 0)
    client.set_serving("net", max_batch_size=max_batch_size)


def set_instances(client: Client, count: int) -> None:
    """Set the number of instances, and wait until all are in use."""
    client.set_serving("net", instances=count)
    deadline = time.monotonic() + 120
    while [one["state"] for one in client.module("net")["instances"]] != ["ready"] * count:
        if time.monotonic() > deadline:
            raise RuntimeError(client.module("net")["instances"])
        time.sleep(0.1)


async def keep_asking(url: httpx.URL, end: float, taken: list[float]) -> None:
    """Send requests until a deadline; record how long each answer took."""
    stream = io.BytesIO()
    np.save(stream, np.random.default_rng(0).random(SHAPE, np.float32))
    body = stream.getvalue()
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST /v1/modules/net/predict HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
    head += "Content-Type: application/x-npy\r\nAccept: application/x-npy\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    while (began := time.monotonic()) < end:
        writer.write(request)
        top = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in top.partition(b"\r\n")[0]:
            raise RuntimeError(top.decode())
        await reader.readexactly(int(top.partition(b"content-length:")[2].split()[0]))
        taken.append(time.monotonic() - began)
    writer.close()


def ask(url: str, clients: int, seconds: float) -> tuple[float, float]:
    """Return the total predictions per second of all clients, and the median latency."""
    taken: list[float] = []

    async def run() -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(keep_asking(httpx.URL(url), end, taken) for _ in range(clients)))

    asyncio.run(run())
    return len(taken) / seconds, statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-batch-size", type=int, default=1)
    options = parser.parse_args()
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with (
        multiprocessing.get_context("spawn").Pool(1) as pool,
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder), environment=SETTINGS) as server,
        Client(server.url) as client,
    ):
        create(client, options.max_batch_size)
        for _ in range(options.rounds):
            for count, rows in found.items():
                set_instances(client, count)
                rows.append(pool.apply(ask, (server.url, options.clients, options.seconds)))
    for count, rows in found.items():
        print(_line(count, rows))


def _line(count: int, rows: list[tuple[float, float]]) -> str:
    rates = [rate for rate, _ in rows]
    middle = statistics.median(1000 * taken for _, taken in rows)
    return (
        f"{count} instance(s): {statistics.median(rates):.0f} predictions/s "
        f"({min(rates):.0f} to {max(rates):.0f}), median {middle:.1f} ms"
    )


if __name__ == "__main__":
    main()
