"""NDArrayIter: every batch of three epochs, its padding and descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "record", "run_case"]

PASSES = 3

CASES: dict[str, dict[str, Any]] = {
    "even": {"rows": 6, "batch_size": 3},
    "pad": {"rows": 7, "batch_size": 3},
    "discard": {"rows": 7, "batch_size": 3, "last_batch_handle": "discard"},
    "roll_over": {"rows": 7, "batch_size": 3, "last_batch_handle": "roll_over"},
    "roll_over_two": {"rows": 8, "batch_size": 3, "last_batch_handle": "roll_over"},
    "one_batch": {"rows": 4, "batch_size": 4},
    "wide": {"rows": 5, "batch_size": 2, "shape": (2, 3)},
    "two_inputs": {"rows": 5, "batch_size": 2, "inputs": 2},
    "no_label": {"rows": 5, "batch_size": 2, "label": False},
    "integers": {"rows": 5, "batch_size": 2, "dtype": "int32"},
}


def run_case(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return the batches' contents, pads and descriptions."""
    iterator = make_iterator(mx, **CASES[case_id])
    results: dict[str, list[np.ndarray]] = {"data": [], "label": []}
    pads: list[list[int]] = []
    for number in range(PASSES):
        for batch in iterator:
            pads.append([number, batch.pad])
            results["data"] += [np.stack([x.asnumpy().ravel() for x in batch.data])]
            results["label"] += [x.asnumpy() for x in batch.label]
        iterator.reset()
    described = [*iterator.provide_data, *iterator.provide_label]
    facts = [f"{d.name} {tuple(d.shape)} {np.dtype(d.dtype).name} {d.layout}" for d in described]
    return {
        "pads": np.array(pads),
        "described": np.array(facts),
        **{key: np.stack(arrays) for key, arrays in results.items() if arrays},
    }


def make_iterator(
    mx: Any,
    rows: int,
    batch_size: int,
    shape: tuple[int, ...] = (),
    inputs: int = 1,
    label: bool = True,
    dtype: str = "float32",
    last_batch_handle: str = "pad",
) -> Any:
    """Return an iterator over numbers that identify their position."""
    whole = np.arange(rows * int(np.prod(shape))).reshape(rows, *shape).astype(dtype)
    data = {f"input{i}": whole + 100 * i for i in range(inputs)} if inputs > 1 else whole
    labels = np.arange(rows, dtype="float32") + 1000 if label else None
    return mx.io.NDArrayIter(data, labels, batch_size, last_batch_handle=last_batch_handle)


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }
