"""What a call to an executor costs before any arithmetic.

Prints the time from the call in the API process to the executor and back, for requests of one
MNIST digit, a batch of them and a large tensor, and the rate with many clients at once.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.link.process import ProcessClient, ProcessOptions  # noqa: E402

SHAPES = {(1, 1, 28, 28): 2000, (32, 1, 28, 28): 2000, (256, 3, 32, 32): 500, (8, 3, 224, 224): 200}
CLIENTS = 32
CALLS_PER_CLIENT = 200


async def call(client: ProcessClient, x: np.ndarray) -> float:
    """Return the seconds one round trip takes."""
    started = time.perf_counter()
    reply = await client.call("predict", {"module": "lenet"}, {"data": x})
    reply.release()
    return time.perf_counter() - started


async def one_client(client: ProcessClient) -> None:
    """Print the latency of one client for every size."""
    print(f"{'shape':>20} {'bytes':>11} {'median ms':>10} {'p99 ms':>8}")
    for shape, count in SHAPES.items():
        x = np.zeros(shape, dtype=np.float32)
        seconds = sorted([await call(client, x) for _ in range(count)])
        median, p99 = statistics.median(seconds) * 1e3, seconds[int(0.99 * count)] * 1e3
        print(f"{shape!s:>20} {x.nbytes:>11,} {median:>10.3f} {p99:>8.3f}")


async def many_clients(client: ProcessClient) -> None:
    """Print the rate of many clients at once."""
    x = np.zeros((1, 1, 28, 28), dtype=np.float32)

    async def calls() -> None:
        for _ in range(CALLS_PER_CLIENT):
            await call(client, x)

    started = time.perf_counter()
    await asyncio.gather(*(calls() for _ in range(CLIENTS)))
    rate = CLIENTS * CALLS_PER_CLIENT / (time.perf_counter() - started)
    print(f"{CLIENTS} clients: {rate:,.0f} calls/s")


async def main() -> None:
    """Measure an executor that echoes what it gets."""
    options = ProcessOptions(
        threads=1,
        program=("app.executor", "--host", "echo_host:EchoHost"),
        environ={"PYTHONPATH": str(ROOT / "tests" / "app" / "link")},
    )
    client = ProcessClient("cpu(0)", options)
    await client.start()
    await one_client(client)
    await many_clients(client)
    await client.stop()


if __name__ == "__main__":
    asyncio.run(main())
