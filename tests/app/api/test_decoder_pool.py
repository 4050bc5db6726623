"""Decoder processes: their answers, what ends them, and that the next body is decoded."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from app.api.decoder_pool import DecoderPool
from app.api.decoding import Decoded, tensors_of
from app.errors.tree import HostError, TooLarge, Unavailable
from served.network import NETWORK
from served.processes import is_running

TENSORS = {"op": "tensors", "needs_inputs": True, "dtypes": {}}
MODULE = {"op": "module"}
MIB = 1 << 20


@pytest.fixture
async def pool() -> AsyncIterator[DecoderPool]:
    pool = DecoderPool(processes=1, memory_bytes=256 * MIB, seconds=20)
    yield pool
    await pool.close()


def pids() -> set[int]:
    """The decoder processes started by this process."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = (line.split(maxsplit=1) for line in listed.stdout.splitlines())
    return {int(pid) for pid, arguments in rows if "app.api.decoder_process" in arguments}


async def decoded(pool: DecoderPool, body: bytes) -> tuple[dict[str, np.ndarray], dict]:
    answer = await pool.decode(TENSORS, body)
    return tensors_of(answer.plain, answer.pieces[0])


async def works(pool: DecoderPool) -> None:
    tensors, _ = await decoded(pool, b'{"inputs": {"data": [[1.5, 2]]}}')
    np.testing.assert_array_equal(tensors["data"], np.array([[1.5, 2]], "float32"))


async def test_tensors_come_as_arrays(pool: DecoderPool) -> None:
    given = np.random.RandomState(0).rand(300, 7).astype("float32")
    inputs = {
        "data": given.tolist(),
        "whole": {"data": [1, 2], "dtype": "int64"},
        "half": {"data": [0.5], "dtype": "bfloat16"},
        "none": {"data": [], "shape": [0, 3]},
    }
    tensors, rest = await decoded(pool, orjson.dumps({"inputs": inputs, "bucket": "20"}))
    np.testing.assert_array_equal(tensors["data"], given)
    assert {name: (one.dtype.name, one.shape) for name, one in tensors.items()} == {
        "data": ("float64", (300, 7)),
        "whole": ("int64", (2,)),
        "half": ("bfloat16", (1,)),
        "none": ("float64", (0, 3)),
    }
    assert rest == {"bucket": "20"}


async def test_the_symbols_of_a_module_come_as_canonical_text(pool: DecoderPool) -> None:
    text = orjson.dumps(NETWORK).decode()
    body = {"name": "net", "symbols": {"5": text, "é": NETWORK}, "default_bucket_key": "5"}
    answer = await pool.decode(MODULE, orjson.dumps(body))
    assert answer.plain["fields"] == {"name": "net", "default_bucket_key": "5"}
    sizes = dict(answer.plain["symbols"])
    assert sizes.keys() == {"5", "é"}
    assert len(answer.pieces[0]) == sum(sizes.values())
    first = bytes(answer.pieces[0][: sizes["5"]])
    assert orjson.loads(first) == NETWORK


@pytest.mark.parametrize(
    ("work", "body", "code", "field"),
    [
        (TENSORS, b"[", "malformed", None),
        (TENSORS, b'{"inputs": {"data": ["a"]}}', "invalid", "inputs.data"),
        (TENSORS, b'{"inputs": {}, "x": "%s"}' % (b"a" * MIB), "invalid", "body"),
        (MODULE, b'{"name": "net", "symbol": [1]}', "invalid", "symbol"),
        (MODULE, b'{"name": "net", "symbol": "nothing"}', "invalid", "symbol"),
        ({"op": "symbol", "field": "symbols[5]"}, b"[]", "invalid", "symbols[5]"),
        ({"op": "job", "kind": "fit"}, b"{}", "invalid", "dataset"),
    ],
)
async def test_errors_in_a_body_are_reported(
    pool: DecoderPool, work: dict[str, str], body: bytes, code: str, field: str | None
) -> None:
    with pytest.raises(HostError) as refused:
        await pool.decode(work, body)
    assert refused.value.code == code
    assert [row["field"] for row in refused.value.errors][:1] == ([field] if field else [])
    await works(pool)


async def test_a_killed_process_is_replaced(pool: DecoderPool) -> None:
    await works(pool)
    for _ in range(3):
        (pid,) = pids()
        os.kill(pid, signal.SIGKILL)
        await works(pool)
        assert pids() != {pid}


async def test_a_body_that_needs_too_much_memory_is_refused(pool: DecoderPool) -> None:
    for element in (b"[]", b"{}", b'"a"', b"1.5"):
        body = b'{"inputs": {"data": [%s]}}' % b",".join([element] * (20 * MIB // len(element)))
        with pytest.raises((TooLarge, HostError)) as refused:
            await pool.decode(TENSORS, body)
        if isinstance(refused.value, TooLarge):
            assert "MODSERVE_DECODER_MEMORY_BYTES" in refused.value.message
        await works(pool)


async def test_a_body_that_takes_too_long_is_refused() -> None:
    pool = DecoderPool(processes=1, memory_bytes=8192 * MIB, seconds=1)
    try:
        await works(pool)
        body = b'{"data_shapes": [%s]}' % b",".join([b"[]"] * (2 * MIB))
        with pytest.raises(Unavailable, match="not decoded within 1 s"):
            await pool.decode({"op": "fields", "cls": "app.domain.module:BindSpec"}, body)
        await works(pool)
    finally:
        await pool.close()


async def test_the_queue_is_bounded(pool: DecoderPool) -> None:
    body = orjson.dumps({"inputs": {"data": list(range(1000))}})
    answers = await asyncio.gather(
        *(pool.decode(TENSORS, body) for _ in range(40)), return_exceptions=True
    )
    assert sum(isinstance(one, Decoded) for one in answers) == 32
    assert sum(isinstance(one, Unavailable) for one in answers) == 8
    await works(pool)


async def test_the_processes_end_with_the_pool() -> None:
    pool = DecoderPool(processes=1, memory_bytes=256 * MIB, seconds=20)
    await works(pool)
    (pid,) = pids()
    await pool.close()
    assert not is_running(pid)
    assert pids() == set()


async def test_under_memory_pressure_a_decoder_ends_first(pool: DecoderPool) -> None:
    await works(pool)
    (pid,) = pids()
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) == min(1000, own + 800)
