"""A base class of test hosts that compute each prediction as a batch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.link.packed_frames import BatchFacts
from app.link.protocols import IncomingCall, Predicted, Prepared


class SinglePredictions:
    """Answers predictions by calling ``handle``, which a subclass provides."""

    handle: Any

    def known(self, call: IncomingCall) -> Prepared | None:
        return None

    def plan(self, call: IncomingCall) -> None:
        return None

    def prepare(self, call: IncomingCall) -> Prepared:
        return Prepared(call, call.id, 1, 1)

    def predict(self, batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
        (one,) = batch
        result, tensors = self.handle(one.call.method, one.call.params, one.call.tensors)
        return [Predicted(one.call, result, tensors)], BatchFacts(1)
