"""A call that is computed in pieces, so that others can be answered in between."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from app.executor.background import Waits
from app.link.answer_sizes import answer_bytes, check_answer
from app.link.client import Buffers
from app.link.protocols import Channel, Computation, Host, IncomingCall

__all__ = ["LargeCall"]


class LargeCall:
    """One large call in progress.

    The tensors of its answer are written straight into the memory that they are sent in. It is
    allocated when the call begins, so a call whose answer is too large is refused before anything
    is computed.

    Attributes:
        call: the call.
        is_exclusive: other calls on its module wait until it ends.
        is_plan: it only makes the plan by which the call is computed afterwards, and answers
            nothing.
    """

    def __init__(self, call: IncomingCall, *, is_plan: bool = False) -> None:
        """Wrap a call of which nothing has been computed yet."""
        self.call = call
        self.is_plan = is_plan
        self.is_exclusive = False
        self._steps: Waits[Any] | None = None
        self._buffers: Buffers | None = None
        self._awaited: Future[Any] | None = None

    @property
    def is_awaiting(self) -> bool:
        """True if its last piece left work to be done off the device thread."""
        return self._awaited is not None

    @property
    def can_go_on(self) -> bool:
        """False while it waits for work off the device thread."""
        return self._awaited is None or self._awaited.done()

    def begin(self, computation: Computation, channel: Channel) -> None:
        """Allocate the memory for the answer; raise HostError if there is not enough."""
        check_answer(answer_bytes(computation.specs), channel.largest_answer_bytes)
        self.is_exclusive = computation.is_exclusive
        if computation.specs:
            self._buffers = channel.reserve(computation.specs)
        tensors = self._buffers.tensors if self._buffers is not None else {}
        self._steps = computation.run(tensors)

    def advance(self, host: Host, channel: Channel) -> bool:
        """Compute its next piece; return True when it is answered, or its plan is made.

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
        self._awaited = None  # the next step raises its error, if any; see in_background
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
        """Abandon what is left of it."""
        if self._steps is not None:
            self._steps.close()
        if self._buffers is not None:
            self._buffers.release()
            self._buffers = None
