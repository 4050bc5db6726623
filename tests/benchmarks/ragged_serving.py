"""Predictions a second for utterances of 7 to 29 frames: buckets, one length for all, no batches.

    python tests/benchmarks/ragged_serving.py [--units 256] [--clients 32] [--seconds 5]

One server with the Japanese Vowels classifier (a GRU that takes lengths), and clients
in another process that each keep one request under way, of one utterance as raw float32 in npy. The
server has a module for each row of the table: buckets of 12, 18, 24 and 30 frames; those that the
planner chooses for the lengths seen, as many; all padded to 29 frames by the client; and buckets
whose requests are not computed together. Each row is warmed up, and the rows take turns.
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
from typing import Any

import httpx
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import core as mx  # noqa: E402
from app.client import Client  # noqa: E402
from app.client.local_server import running_server  # noqa: E402
from oracle import networks  # noqa: E402
from oracle.vowels import BUCKETS, load  # noqa: E402

LONGEST, BATCH = 29, 16
KEYS = (*range(7, LONGEST + 1), BUCKETS[-1])
FEATURES = 12
PADDED, BUCKETED, PLANNED, ALONE = "padded to 29", "bucketed", "planned", "unbatched"


def create(client: Client, name: str, units: int, bound: tuple[int, ...], **serving: Any) -> None:
    """Create the classifier with a symbol per length, of which some are bound."""
    symbols = {n: networks.japanese_vowels(mx, n, units).tojson() for n in KEYS}
    client.create_bucketing_module(name, symbols, bound[-1], data_names=["data", "lengths"])
    buckets = {str(n): {"data_shapes": shapes(n)} for n in bound[:-1]}
    client.bind(name, shapes(bound[-1]), for_training=False, buckets=buckets)
    client.set_params(name, networks.make_parameters(parameters(units)))
    client.set_serving(name, **serving)
    client.warm_up_module(name)


def parameters(units: int) -> dict[str, tuple[int, ...]]:
    gru = 3 * units * (FEATURES + units + 2)
    return {"gru_parameters": (gru,), "fc_weight": (9, units), "fc_bias": (9,)}


def shapes(steps: int) -> list[dict[str, Any]]:
    return [
        {"name": "data", "shape": [BATCH, steps, FEATURES], "layout": "NTC"},
        {"name": "lengths", "shape": [BATCH], "lengths_of": "data"},
    ]


def bodies(*, padded: bool) -> list[bytes]:
    """Return the test set's utterances as npy."""
    found = []
    for frames in load("test")[0]:
        array = np.zeros((1, LONGEST if padded else len(frames), FEATURES), "f")
        array[0, : len(frames)] = frames
        stream = io.BytesIO()
        np.save(stream, array)
        found.append(stream.getvalue())
    return found


async def keep_asking(url: httpx.URL, path: str, requests: list[bytes], end: float) -> int:
    """Send requests until a deadline; return the number of answers."""
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
    head += "Content-Type: application/x-npy\r\nAccept: application/x-npy\r\nContent-Length: "
    count = 0
    while time.monotonic() < end:
        body = requests[count % len(requests)]
        writer.write(b"%b%d\r\n\r\n%b" % (head.encode(), len(body), body))
        top = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in top.partition(b"\r\n")[0]:
            raise RuntimeError(top.decode())
        await reader.readexactly(int(top.partition(b"content-length:")[2].split()[0]))
        count += 1
    writer.close()
    return count


def rate(url: str, module: str, *, padded: bool, clients: int, seconds: float) -> float:
    """Return the predictions a second that clients get together."""
    requests = bodies(padded=padded)

    async def run() -> int:
        end = time.monotonic() + seconds
        path = f"/v1/modules/{module}/predict"
        shifted = [requests[n * 7 % len(requests) :] + requests for n in range(clients)]
        counts = (keep_asking(httpx.URL(url), path, one, end) for one in shifted)
        return sum(await asyncio.gather(*counts))

    return asyncio.run(run()) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    load_process = multiprocessing.get_context("spawn").Pool(1)
    with (
        load_process as pool,
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder), environment={"MODSERVE_THREADS": "1"}) as server,
        Client(server.url) as client,
    ):
        create(client, "bucketed", options.units, BUCKETS)
        create(client, "planned", options.units, BUCKETS)
        create(client, "padded", options.units, (LONGEST,))
        create(client, "alone", options.units, BUCKETS, batches="never")

        def measure(module: str, seconds: float) -> float:
            asked = {"padded": module == "padded", "clients": options.clients, "seconds": seconds}
            return float(pool.apply(rate, (server.url, module), asked))

        measure("planned", 1.0)  # so that the planner sees the lengths
        plan = client.apply_bucket_plan("planned", len(BUCKETS))
        rows = {BUCKETED: "bucketed", PLANNED: "planned", PADDED: "padded", ALONE: "alone"}
        found: dict[str, list[float]] = {row: [] for row in rows}
        for _ in range(options.rounds):
            for row, module in rows.items():
                found[row].append(measure(module, options.seconds))
    print(f"planned: {plan['planned']}; padding {plan['waste_planned']:.1%}", end="")
    print(f", with {plan['bound']} {plan['waste_bound']:.1%}")
    print(f"{options.units} units, {options.clients} clients")
    for row, rates in found.items():
        median = statistics.median(rates)
        print(f"{row:14} {median:8.0f}/s  ({min(rates):.0f} to {max(rates):.0f})")


if __name__ == "__main__":
    main()
