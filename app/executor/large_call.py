"""A call that is answered in pieces, between which others are."""

from __future__ import annotations

import math
import time
from concurrent.futures import Future
from typing import Any

import numpy as np

from app.errors import HostError
from app.executor.background import Waits
from app.link.client import Buffers
from app.link.protocols import Channel, Computation, Host, IncomingCall

__all__ = ["LARGEST_ANSWER_BYTES", "LargeCall"]

LARGEST_ANSWER_BYTES = 1 << 30
"""Of the tensors in the answer to one call that is computed in pieces."""


class LargeCall:
    """One such call on its way.

    The tensors of its answer are gathered in the memory that they are sent in. That is taken when
    the call begins, so one whose answer is too large is refused before anything is computed.

    Attributes:
        call: the call.
        is_exclusive: other calls on its module wait for its end.
        is_plan: it makes what the call is then computed by, and answers nothing.
    """

    def __init__(self, call: IncomingCall, *, is_plan: bool = False) -> None:
        """Take up a call that nothing was done of yet."""
        self.call = call
        self.is_plan = is_plan
        self.is_exclusive = False
        self._steps: Waits[Any] | None = None
        self._buffers: Buffers | None = None
        self._awaited: Future[Any] | None = None

    @property
    def is_awaiting(self) -> bool:
        """True if its last piece left something to be done beside the device's thread."""
        return self._awaited is not None

    @property
    def can_go_on(self) -> bool:
        """False while it waits for what is done beside the device's thread."""
        return self._awaited is None or self._awaited.done()

    def begin(self, computation: Computation, channel: Channel) -> None:
        """Take the memory for the answer; raise HostError if there is none."""
        sizes = (
            math.prod(shape) * np.dtype(dtype).itemsize
            for shape, dtype in computation.specs.values()
        )
        size = sum(sizes)
        self.is_exclusive = computation.is_exclusive
        if size > LARGEST_ANSWER_BYTES:
            raise HostError(
                "too_large",
                f"the outputs would take {size:,} bytes, the limit is {LARGEST_ANSWER_BYTES:,}; "
                "ask for fewer examples at once, or predict a dataset in a job",
            )
        if computation.specs:
            self._buffers = channel.reserve(computation.specs)
        tensors = self._buffers.tensors if self._buffers is not None else {}
        self._steps = computation.run(tensors)

    def advance(self, host: Host, channel: Channel) -> bool:
        """Do its next piece; return True when it is answered, or its plan is made.

        Raises:
            HostError: it is refused.
        """
        began_ns = time.perf_counter_ns()
        if self._steps is None:
            answer = host.handle(self.call.method, self.call.params, self.call.tensors)
            if not isinstance(answer, Computation):
                self._note_computed(began_ns)
                channel.reply(self.call, *answer)
                return True
            self.begin(answer, channel)
            assert self._steps is not None
        self._awaited = None  # an error that it has is raised by the next step, see in_background
        try:
            self._awaited = next(self._steps)
        except StopIteration as end:
            if self.is_plan:
                return True
            self._note_computed(began_ns)
            channel.reply(self.call, end.value, self._buffers or {})
            self._buffers = None
            return True
        self._note_computed(began_ns)
        if self._awaited is not None:
            self._awaited.add_done_callback(lambda _: channel.wake())
        return False

    def _note_computed(self, began_ns: int) -> None:
        self.call.infer_us += (time.perf_counter_ns() - began_ns) // 1000

    def close(self) -> None:
        """Give up what is left of it."""
        if self._steps is not None:
            self._steps.close()
        if self._buffers is not None:
            self._buffers.release()
            self._buffers = None
