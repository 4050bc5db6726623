"""Measures the time of each step of a prediction on demand, while other calls are answered."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from app.errors.tree import Invalid
from app.executor.background import Waits
from app.executor.modules.graph_description import bucket_of
from app.executor.modules.hosted_module import HostedModule
from app.executor.predict.predictor import Predictor
from app.link.calls import ProfileModule
from core.executor import StepTime

__all__ = ["profile_module"]

_LONGEST_SECONDS = 5.0
"""After this time no further pass is started."""

_Run = tuple[float, list[StepTime]]


def profile_module(module: HostedModule, call: ProfileModule) -> Waits[dict[str, Any]]:
    """Run passes as predictions do, each a second time step by step; other calls run in between.

    Raises:
        NotFound: there is no such bucket.
        Invalid: more examples than fit into one pass.
    """
    module.require("predict")
    key = bucket_of(module, call.bucket)
    predictor = module.inference.predictor(key)
    rows = _rows(predictor, call.batch)
    predictor.timed_run(rows)  # not counted: the first one is slower
    yield None
    runs: list[_Run] = []
    for run in _timed(predictor, rows, call.runs):
        runs.append(run)
        yield None
    return {
        "bucket": key,
        "batch": rows,
        "device": str(module.contexts[0]),
        "runs": len(runs),
        "seconds": statistics.median(seconds for seconds, _ in runs),
        "steps": [_step(times) for times in zip(*(steps for _, steps in runs), strict=True)],
    }


def _rows(predictor: Predictor, batch: int | None) -> int:
    rows = predictor.bound_size if batch is None else batch
    if rows > predictor.most_rows:
        raise Invalid("batch", rows, f"at most {predictor.most_rows}, of which one pass can be")
    return rows


def _timed(predictor: Predictor, rows: int, most: int) -> Iterator[_Run]:
    end = time.monotonic() + _LONGEST_SECONDS
    for _ in range(most):
        yield predictor.timed_run(rows)
        if time.monotonic() > end:
            return


def _step(times: Sequence[StepTime]) -> dict[str, Any]:
    step = times[0]
    return {
        "operator": step.operator,
        "kernel": step.kernel,
        "copied": step.copied or None,
        "nodes": list(step.nodes),
        "seconds": statistics.median(one.seconds for one in times),
        "least_seconds": min(one.seconds for one in times),
    }
