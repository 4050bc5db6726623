"""Frames of fixed-size records, for messages that are sent thousands of times a second.

The first byte of such a frame, which in a JSON frame is the brace, gives the type of its records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = [
    "AnsweredRecord",
    "AskedRecord",
    "BatchFacts",
    "answered_frame",
    "asked_frame",
    "asked_record",
    "read_answered",
    "read_asked",
]

_LENGTH = struct.Struct("<I")
_ASKED = struct.Struct("<QIIdi4x")
_ASKED_HEAD = b"P" + bytes(7)
_ANSWERED = struct.Struct("<QQI4x")
_ANSWERED_HEAD = struct.Struct("<cxxxIIII4x")


class AskedRecord(NamedTuple):
    """A prediction request.

    Attributes:
        call_id: id of the call.
        target: number of its ``Target``.
        slot: the slot with its inputs.
        deadline: on the machine's monotonic clock, after which nobody waits; 0 for none.
        priority: the lower, the sooner.
    """

    call_id: int
    target: int
    slot: int
    deadline: float
    priority: int


class AnsweredRecord(NamedTuple):
    """A prediction whose outputs are in its slot.

    Attributes:
        call_id: id of the call.
        queue_ns: nanoseconds that it waited for its batch in the executor.
        outputs: number of the outputs' ``Signature``.
    """

    call_id: int
    queue_ns: int
    outputs: int


class BatchFacts(NamedTuple):
    """How a batch was computed.

    Attributes:
        rows: examples in it.
        input_us, infer_us, output_us: microseconds spent on gathering inputs, computing, and
            writing outputs.
    """

    rows: int
    input_us: int = 0
    infer_us: int = 0
    output_us: int = 0


asked_record = _ASKED.pack
"""Packs the fields of an ``AskedRecord``."""


def asked_frame(records: bytes) -> bytes:
    """Return the frame of packed records."""
    return b"%b%b%b" % (_LENGTH.pack(len(_ASKED_HEAD) + len(records)), _ASKED_HEAD, records)


def read_asked(body: memoryview) -> Iterator[tuple[int, int, int, float, int]]:
    """Yield the fields of each ``AskedRecord`` in a frame."""
    return _ASKED.iter_unpack(body[len(_ASKED_HEAD) :])


def answered_frame(facts: BatchFacts, records: Iterable[AnsweredRecord]) -> bytes:
    """Return the frame of the answers of one batch."""
    body = b"".join([_ANSWERED_HEAD.pack(b"A", *facts), *(_ANSWERED.pack(*one) for one in records)])
    return _LENGTH.pack(len(body)) + body


def read_answered(body: memoryview) -> tuple[BatchFacts, Iterator[tuple[int, int, int]]]:
    """Return the facts of a batch, and the fields of its ``AnsweredRecord``s."""
    _, *facts = _ANSWERED_HEAD.unpack_from(body)
    return BatchFacts(*facts), _ANSWERED.iter_unpack(body[_ANSWERED_HEAD.size :])
