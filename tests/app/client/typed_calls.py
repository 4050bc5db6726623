"""Calls that check the clients' types: mypy reads this file, nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from app.client import AsyncClient, Client
from app.client.module_results import ModuleView
from app.client.results import EventView, JobView

Arrays = dict[str, npt.NDArray[Any]]


def waiting(client: Client) -> None:
    assert_type(client.module("m"), ModuleView)
    assert_type(client.jobs(status="failed"), list[JobView])
    assert_type(client.wait(7, timeout_seconds=1.0), JobView)
    assert_type(client.job_events(7), Iterator[EventView])
    assert_type(client.predict("m", data=np.ones((1, 2))), Arrays)
    assert_type(client.predict("m", [[1, 2, 3], [4, 5]]), Arrays)
    assert_type(client.predict("m", data=[Path("a.jpg"), Path("b.jpg")]), Arrays)
    assert_type(client.predict("m", "a text"), Arrays)
    assert_type(client.delete_module("m"), None)
    assert_type(client.is_ready(), bool)
    assert_type(client.with_options(retries=0), Client)
    client.job("seven")  # type: ignore[arg-type]
    client.job(job=7)  # type: ignore[call-arg]
    client.module("m")["colour"]  # type: ignore[misc]
    client.job(7)["status"] == "suceeded"  # type: ignore[comparison-overlap]  # noqa: B015


async def awaiting(client: AsyncClient) -> None:
    assert_type(await client.module("m"), ModuleView)
    assert_type(await client.jobs(status="failed"), list[JobView])
    assert_type(await client.wait(7, timeout_seconds=1.0), JobView)
    assert_type(client.job_events(7), AsyncIterator[EventView])
    assert_type(await client.predict("m", data=np.ones((1, 2))), Arrays)
    assert_type(await client.delete_module("m"), None)
    assert_type(client.with_options(timeout_seconds=None), AsyncClient)
    await client.job("seven")  # type: ignore[arg-type]
    client.module("m")["name"]  # type: ignore[index]
