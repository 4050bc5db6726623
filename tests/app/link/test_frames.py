from __future__ import annotations

import array
import os
import socket
import struct

import numpy as np
import pytest

from app.link.frames import FrameError, FrameReader, encode_frame, encode_value, send_some


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_frames_arrive_in_order_however_they_are_split(pair):
    ours, theirs = pair
    reader = FrameReader(theirs)
    frames = [{"id": n, "text": "ä" * n} for n in range(40)]
    stream = b"".join(encode_frame(frame) for frame in frames)
    received = []
    for start in range(0, len(stream), 7):
        ours.sendall(stream[start : start + 7])
        assert reader.receive()
        received.extend(reader.frames())
    assert received == frames


def test_the_end_of_the_stream_is_reported(pair):
    ours, theirs = pair
    ours.close()
    assert not FrameReader(theirs).receive()


def test_descriptors_arrive_in_the_order_of_their_frames(pair):
    ours, theirs = pair
    reader = FrameReader(theirs)
    names = []
    for number in range(5):
        read_end, write_end = os.pipe()
        os.write(write_end, b"%d" % number)
        os.close(write_end)
        send_some(ours, memoryview(encode_frame({"new": number})), [read_end])
        os.close(read_end)
    while len(names) < 5:
        reader.receive()
        for frame in reader.frames():
            fd = reader.take_fd()
            names.append((frame["new"], os.read(fd, 10)))
            os.close(fd)
    assert names == [(n, b"%d" % n) for n in range(5)]


def test_unclaimed_descriptors_are_closed(pair):
    ours, theirs = pair
    before = len(os.listdir("/proc/self/fd"))
    fd = os.open("/dev/null", os.O_RDONLY)
    packed = array.array("i", [fd, fd]).tobytes()
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
    os.close(fd)
    reader = FrameReader(theirs)
    reader.receive()
    assert len(os.listdir("/proc/self/fd")) == before + 2
    reader.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_missing_descriptor_is_an_error(pair):
    with pytest.raises(FrameError, match="descriptor"):
        FrameReader(pair[1]).take_fd()


def test_an_impossible_length_is_an_error(pair):
    ours, theirs = pair
    reader = FrameReader(theirs)
    ours.sendall(struct.pack("<I", 0xFFFFFFFF))
    reader.receive()
    with pytest.raises(FrameError, match="over the limit"):
        list(reader.frames())


def test_numpy_scalars_arrive_as_plain_values(pair):
    ours, theirs = pair
    ours.sendall(encode_frame({"value": encode_value({"n": np.int64(3), "x": np.float32(0.5)})}))
    reader = FrameReader(theirs)
    reader.receive()
    assert list(reader.frames()) == [{"value": {"n": 3, "x": 0.5}}]


def test_unserializable_values_are_refused_before_anything_is_sent():
    with pytest.raises(TypeError):
        encode_value({"x": object()})
