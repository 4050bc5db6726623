from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from app.link.channel import SocketChannel
from app.link.frames import encode_frame
from app.link.slab_port import SlabLimits


@pytest.fixture
def ends() -> Iterator[tuple[SocketChannel, socket.socket]]:
    """A channel, and the other end of its socket."""
    ours, theirs = socket.socketpair()
    channel = SocketChannel(ours, SlabLimits())
    yield channel, theirs
    channel.close()
    theirs.close()


def test_waking_ends_an_endless_wait_with_nothing(ends):
    channel, _ = ends
    threading.Timer(0.05, channel.wake).start()
    assert channel.receive(None) == ([], [])
    assert channel.receive(0.0) == ([], [])


def test_waking_also_delivers_what_has_arrived(ends):
    channel, other = ends
    channel.wake()
    channel.wake()
    other.sendall(encode_frame({"id": 1, "call": "echo", "params": {}}))
    calls, dropped = channel.receive(None)
    assert [call.method for call in calls] == ["echo"]
    assert dropped == []
    assert channel.receive(0.0) == ([], [])
