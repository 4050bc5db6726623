"""A thousand followers of one fit: each reads all events once and in order; others are served.

The default run has 60 followers.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from pathlib import Path

import httpx
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.processes import ENVIRONMENT, resident_bytes
from served.trainings import make_dataset, submit

MOST_BYTES_A_FOLLOWER = 200_000
LONGEST_MEDIAN_SECONDS = 0.25


async def follow(url: str, job: int) -> list[tuple[int, str]]:
    """Follow a job to its end; return ids and kinds of the events."""
    parsed = httpx.URL(url)
    reader, writer = await asyncio.open_connection(parsed.host, parsed.port)
    path = f"/v1/jobs/{job}/events"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {parsed.host}\r\n\r\n".encode())
    seen: list[tuple[int, str]] = []
    event_id = 0
    while line := await reader.readline():
        if line.startswith(b"id: "):
            event_id = int(line[4:])
        elif line.startswith(b"event: "):
            seen.append((event_id, line[7:].decode().strip()))
        if seen and seen[-1][1] == "succeeded" and line.startswith(b"data: "):
            assert json.loads(line[6:])["status"] == "succeeded"
            break
    writer.close()
    return seen


async def ask_for_life(url: str, until: asyncio.Event) -> list[float]:
    """Return how long each /livez request took, at ten per second."""
    seconds = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        while not until.is_set():
            began = time.monotonic()
            assert (await client.get("/livez")).status_code == 200
            seconds.append(time.monotonic() - began)
            await asyncio.sleep(0.1)
    return seconds


async def follow_in_a_crowd(server: ServerProcess, client: Client, count: int) -> None:
    before = resident_bytes(server.process.pid)
    job = submit(client, f"net{count}", epochs=20)
    over = asyncio.Event()
    life = asyncio.create_task(ask_for_life(server.url, over))
    followers = [asyncio.create_task(follow(server.url, job)) for _ in range(count)]
    seen = await asyncio.gather(*followers)
    grown = resident_bytes(server.process.pid) - before
    over.set()
    waits = await life
    stored = [(row["id"], row["type"]) for row in client.job_events(job)]
    # Events of these three kinds are thinned out while the fit runs.
    lasting = [row for row in stored if row[1] not in ("progress", "log", "statistics")]
    for events in seen:
        ids = [event_id for event_id, _ in events]
        assert ids == sorted(set(ids))
        assert set(lasting) <= set(events)
    print(
        f"{count} followers of {len(stored)} events: {grown / count / 1000:.0f} kB each, "
        f"/livez median {statistics.median(waits) * 1000:.0f} ms, longest {max(waits):.2f} s"
    )
    assert grown < 20_000_000 + count * MOST_BYTES_A_FOLLOWER
    assert statistics.median(waits) < LONGEST_MEDIAN_SECONDS


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.soak)])
def test_many_followers_read_every_event_in_order(tmp_path: Path, count: int) -> None:
    with (
        running_server(tmp_path / "var", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        make_dataset(client, tmp_path)
        asyncio.run(follow_in_a_crowd(server, client, count))
