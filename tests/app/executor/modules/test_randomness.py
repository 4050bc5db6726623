from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import core as mx
from app.executor.modules.randomness import RandomStreams
from core.random import device_random


@pytest.fixture(autouse=True)
def _keep_the_engines_own_position():
    position = mx.random.get_state()
    yield
    mx.random.set_state(position)


def draw(device: int = 0) -> list[float]:
    numbers = np.empty(3, dtype=np.float64)
    device_random(mx.cpu(device)).uniform(numbers)
    return numbers.tolist()


def test_streams_are_independent():
    alone = RandomStreams()
    alone.seed("a", 1, [mx.cpu(0)])
    expected = draw() + draw()

    streams = RandomStreams()
    streams.seed("a", 1, [mx.cpu(0)])
    drawn = draw()
    streams.enter("b")
    draw()
    streams.seed("c", 1, [mx.cpu(0)])
    draw()
    streams.enter("a")
    assert drawn + draw() == expected


def test_another_thread_draws_only_from_its_own_stream():
    alone = RandomStreams()
    alone.seed("a", 1, [mx.cpu(0), mx.cpu(1)])
    expected = [draw(), draw(1), draw(), draw(1)]

    streams = RandomStreams()
    streams.seed("a", 1, [mx.cpu(0), mx.cpu(1)])
    drawn: list[list[float]] = []
    has_begun, may_go_on = threading.Event(), threading.Event()

    def work() -> None:
        drawn.append(draw())
        has_begun.set()
        assert may_go_on.wait(30)
        drawn.append(draw(1))

    with ThreadPoolExecutor(1) as pool:
        position = pool.submit(streams.drawn_apart("a", work))
        assert has_begun.wait(30)
        streams.seed("b", 2, [mx.cpu(0)])
        ours = draw()
        may_go_on.set()
        streams.set_position("a", position.result())
    assert [*drawn, draw(), draw(1)] == expected
    streams.seed("b", 2, [mx.cpu(0)])
    assert draw() == ours


def test_a_stream_can_be_rewound():
    streams = RandomStreams()
    streams.seed("a", 1, [mx.cpu(0)])
    draw()
    position = streams.position("a")
    expected = draw()
    streams.forget("a")
    streams.set_position("b", position)
    assert draw() == expected


def test_several_devices_in_one_stream():
    streams = RandomStreams()
    streams.seed("a", 1, [mx.cpu(0), mx.cpu(1)])
    expected = draw(0), draw(1)
    streams.seed("b", 2, [mx.cpu(0), mx.cpu(1)])
    draw(0)
    draw(1)
    streams.seed("c", 1, [mx.cpu(0), mx.cpu(1)])
    streams.enter("b")
    draw(1)
    streams.enter("c")
    assert (draw(0), draw(1)) == expected


def test_new_streams_differ():
    streams = RandomStreams()
    streams.enter("a")
    first = draw()
    streams.enter("b")
    assert draw() != first
    streams.forget("a")
    streams.enter("a")
    assert draw() != first
