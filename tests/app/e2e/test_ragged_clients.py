"""Five hundred clients at once, each with its own utterance, of 7 to 29 frames.

Two extra outputs of the net tell the position of each row in the batch and the size that the batch
was bound with. The rows of one request stay together and in order. So the outputs that an utterance
must have at each position of a batch of n come from a single request with n copies of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from oracle import networks
from oracle.vowels import BUCKETS, load
from served.processes import ENVIRONMENT

CLIENTS, ROUNDS, MOST_ROWS = 500, 2, 16
SIZES = (1, 2, 4, 8, MOST_ROWS)
PATH = "/v1/modules/speaker/predict"
PARAMETERS = {"gru_parameters": (14976,), "fc_weight": (9, 64), "fc_bias": (9,)}


class Answered(NamedTuple):
    bucket: str
    outputs: np.ndarray
    positions: list[int]
    sizes: list[int]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an untrained classifier in four buckets."""
    with running_server(tmp_path_factory.mktemp("ragged"), environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            symbols = {n: network_with_positions(n).tojson() for n in BUCKETS}
            client.create_bucketing_module(
                "speaker", symbols, BUCKETS[-1], data_names=["data", "lengths"]
            )
            shapes = {n: bucket_shapes(n) for n in BUCKETS}
            buckets = {str(n): {"data_shapes": shapes[n]} for n in BUCKETS[:-1]}
            client.bind("speaker", shapes[BUCKETS[-1]], for_training=False, buckets=buckets)
            client.set_params("speaker", networks.make_parameters(PARAMETERS))
            client.set_serving("speaker", max_batch_size=MOST_ROWS, batches="always")
        yield server


def network_with_positions(steps: int) -> mx.sym.Symbol:
    """Return the classifier with extra outputs for position and batch size."""
    speaker = networks.japanese_vowels(mx, steps)
    lengths = speaker.get_internals()["lengths"]
    position = mx.sym.contrib.arange_like(lengths, axis=0)
    size = mx.sym.broadcast_add(
        mx.sym.zeros_like(lengths), mx.sym.sum(mx.sym.ones_like(lengths), keepdims=True)
    )
    return mx.sym.Group(
        [
            speaker,
            mx.sym.identity(position, name="position"),
            mx.sym.identity(size, name="size"),
        ]
    )


def bucket_shapes(steps: int) -> list[dict[str, Any]]:
    return [
        {"name": "data", "shape": [MOST_ROWS, steps, 12], "layout": "NTC"},
        {"name": "lengths", "shape": [MOST_ROWS]},
    ]


def utterances() -> list[np.ndarray]:
    """Return one utterance per client, all different, of 7 to 29 frames."""
    frames = [one for part in ("train", "test") for one in load(part)[0]][:CLIENTS]
    assert len({len(one) for one in frames}) >= 18
    return frames


def body(frames: np.ndarray, copies: int = 1) -> bytes:
    rows = np.repeat(frames[None], copies, axis=0).tolist()
    return json.dumps({"inputs": {"data": rows, "lengths": [len(frames)] * copies}}).encode()


def read(content: bytes) -> Answered:
    answer = json.loads(content)
    values = {name: one["data"] for name, one in answer["outputs"].items()}
    outputs = np.array(values["softmax_output"], np.float32)
    return Answered(answer["bucket"], outputs, values["position_output"], values["size_output"])


def alone(client: httpx.Client, frames: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
    """Return an utterance's outputs by bound batch size and position."""
    found = {}
    for size in SIZES:
        answer = client.post(PATH, content=body(frames, size))
        assert answer.status_code == 200, answer.text
        bucket, rows, positions, sizes = read(answer.content)
        assert int(bucket) == min(n for n in BUCKETS if n >= len(frames))
        assert (positions, sizes) == ([*range(size)], [size] * size)
        found |= {(size, position): row for position, row in enumerate(rows)}
    return found


def all_alone(url: str, frames: list[np.ndarray]) -> list[dict[tuple[int, int], np.ndarray]]:
    with httpx.Client(base_url=url) as client:
        return [alone(client, one) for one in frames]


async def ask(url: httpx.URL, frames: np.ndarray, start: asyncio.Event) -> list[Answered]:
    """Request one utterance several times, once all clients are connected."""
    reader, writer = await asyncio.open_connection(url.host, url.port)
    content = body(frames)
    head = f"POST {PATH} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    await start.wait()
    answers = []
    for _ in range(ROUNDS):
        writer.write(head.encode() + content)
        top = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert top.startswith("http/1.1 200"), top
        length = int(top.partition("content-length:")[2].split()[0])
        answers.append(read(await reader.readexactly(length)))
    writer.close()
    await writer.wait_closed()
    return answers


async def ask_all(url: str, frames: list[np.ndarray]) -> list[list[Answered]]:
    start = asyncio.Event()
    asked = [asyncio.ensure_future(ask(httpx.URL(url), one, start)) for one in frames]
    await asyncio.sleep(0)
    start.set()
    return await asyncio.gather(*asked)


@pytest.mark.slow
async def test_each_client_gets_its_own_answer(server: ServerProcess) -> None:
    frames = utterances()
    answers = await ask_all(server.url, frames)
    expected = await asyncio.to_thread(all_alone, server.url, frames)
    sizes = set()
    for one, found, rounds in zip(frames, expected, answers, strict=True):
        single = found[1, 0]
        for bucket, (output,), (position,), (size,) in rounds:
            assert int(bucket) == min(n for n in BUCKETS if n >= len(one))
            np.testing.assert_array_equal(output, found[size, position])
            np.testing.assert_allclose(output, single, rtol=0, atol=1e-6 * np.abs(single).max())
            sizes.add(size)
    assert sizes >= {8, MOST_ROWS}, "hardly any requests were computed together"


def test_padded_utterances_give_the_same_as_unpadded_ones(server: ServerProcess) -> None:
    frames = {len(one): one for one in utterances()}
    for steps, one in frames.items():
        module = mx.mod.Module(
            networks.japanese_vowels(mx, steps), ["data", "lengths"], ["softmax_label"]
        )
        module.bind(
            [("data", (1, steps, 12)), ("lengths", (1,))],
            [("softmax_label", (1,))],
            for_training=False,
        )
        values = networks.make_parameters(PARAMETERS)
        module.set_params({name: mx.nd.array(value) for name, value in values.items()}, {})
        batch = mx.io.DataBatch([mx.nd.array(one[None]), mx.nd.array([steps])])
        module.forward(batch, is_train=False)
        unpadded = module.get_outputs()[0].asnumpy()
        with Client(server.url) as client:
            padded = client.predict("speaker", data=one[None], lengths=[steps])["softmax_output"]
        np.testing.assert_allclose(padded, unpadded, rtol=0, atol=1e-6 * np.abs(unpadded).max())
