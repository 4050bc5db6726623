"""A host with no engine behind it, run by the executors under test."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from app.errors.tree import HostError, Invalid
from app.link.packed_frames import BatchFacts
from app.link.protocols import Arrays, Emit, IncomingCall, Predicted, Prepared, Priority

_PRIORITIES = {"control": Priority.CONTROL, "predict": Priority.PREDICT}


class EchoHost:
    """Echoes its requests, and runs the batches of a job that does nothing."""

    def __init__(self, device: str, emit: Emit, wake: Callable[[], None]) -> None:
        if device == "missing":
            raise RuntimeError("there is no such device")
        if device == "refused":
            raise Invalid("device", device, "another one")
        self.device = device
        self.emit = emit
        self.batches_left = 0
        self.batch_seconds = 0.0
        self.order: list[str] = []

    def priority(self, method: str) -> Priority:
        if method == "unknown":
            raise HostError("not_found", f"there is no method {method!r}")
        return _PRIORITIES.get(method, Priority.STEP)

    def handle(
        self, method: str, params: dict[str, Any], tensors: Arrays
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        self.order.append(params.get("label", method))
        answer: tuple[Mapping[str, Any], Mapping[str, Any]] = getattr(self, f"do_{method}")(
            params, tensors
        )
        return answer

    def known(self, call: IncomingCall) -> Prepared | None:
        return None

    def plan(self, call: IncomingCall) -> None:
        return None

    def prepare(self, call: IncomingCall) -> Prepared:
        return Prepared(call, 0, rows=1, most_rows=call.params.get("most_rows", 1))

    def predict(self, batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
        answers = []
        params = batch[0].call.params
        if params.get("fails"):
            raise ValueError("a bug")
        time.sleep(params.get("seconds", 0.0))
        for call in (one.call for one in batch):
            result, tensors = self.handle(call.method, dict(call.params), call.tensors)
            answers.append(Predicted(call, result, dict(tensors)))
        return answers, BatchFacts(len(batch))

    def has_work(self) -> bool:
        return self.batches_left > 0

    def advance(self) -> None:
        time.sleep(self.batch_seconds)
        self.batches_left -= 1
        self.order.append("batch")
        self.emit({"type": "batch", "left": self.batches_left})

    def close(self) -> None:
        self.order.append("closed")

    # -- methods ------------------------------------------------------------------------------

    def do_echo(self, params: dict[str, Any], tensors: Arrays) -> Any:
        return {"params": params, "device": self.device}, tensors

    do_control = do_echo
    do_predict = do_echo

    def do_sums(self, params: dict[str, Any], tensors: Arrays) -> Any:
        return {name: float(np.sum(value)) for name, value in tensors.items()}, {}

    def do_zeros(self, params: dict[str, Any], tensors: Arrays) -> Any:
        return {}, {"zeros": np.zeros(params["shape"], dtype=np.uint8)}

    def do_sleep(self, params: dict[str, Any], tensors: Arrays) -> Any:
        time.sleep(params["seconds"])
        return {}, {}

    def do_order(self, params: dict[str, Any], tensors: Arrays) -> Any:
        return {"order": self.order}, {}

    def do_refuse(self, params: dict[str, Any], tensors: Arrays) -> Any:
        row = {"field": "field", "got": "1", "expected": "2", "hint": "do this"}
        raise HostError("invalid", "no", "field", [row], {"call": "POST /first"})

    def do_fail(self, params: dict[str, Any], tensors: Arrays) -> Any:
        raise ValueError("a bug")

    def do_job(self, params: dict[str, Any], tensors: Arrays) -> Any:
        self.batches_left = params["batches"]
        self.batch_seconds = params.get("seconds", 0.0)
        return {}, {}

    def do_die(self, params: dict[str, Any], tensors: Arrays) -> Any:
        os.kill(os.getpid(), params.get("signal", signal.SIGKILL))
        time.sleep(60)

    def do_report_and_die(self, params: dict[str, Any], tensors: Arrays) -> Any:
        for number in range(params["events"]):
            self.emit({"number": number, "text": "x" * params["bytes"]})
        return self.do_die(params, tensors)

    def do_exit(self, params: dict[str, Any], tensors: Arrays) -> Any:
        os._exit(params["status"])

    def do_environ(self, params: dict[str, Any], tensors: Arrays) -> Any:
        return {name: os.environ.get(name) for name in params["names"]}, {}

    def do_open_files(self, params: dict[str, Any], tensors: Arrays) -> Any:
        return {"count": len(os.listdir("/proc/self/fd"))}, {}
