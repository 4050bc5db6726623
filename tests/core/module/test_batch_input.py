"""Copying the arrays of a batch to the devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError
from core.module.batch_input import BatchInput

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def numbers(array: mx.nd.NDArray) -> Any:
    return array.asnumpy().tolist()


@pytest.mark.parametrize("kind", ["NDArray", "float64", "csr", "longer", "flat"])
def test_one_device_gets_the_whole_array(kind: str) -> None:
    source: Any = {
        "NDArray": mx.nd.array(ROWS),
        "float64": ROWS.astype(np.float64),
        "csr": mx.nd.array(ROWS).tostype("csr"),
        "longer": mx.nd.array(np.concatenate([ROWS, -ROWS])),
        "flat": mx.nd.array(ROWS.reshape(-1)),
    }[kind]
    target = mx.nd.zeros((4, 3))
    # A flat array cannot tell how many rows it has.
    axis = -1 if kind == "flat" else 0
    BatchInput("data", axis, 4, [(slice(0, 4), target)]).load(source)
    assert numbers(target) == ROWS.tolist()


def test_a_sparse_array_stays_sparse() -> None:
    target = mx.nd.sparse.zeros("csr", (4, 3))
    BatchInput("data", 0, 4, [(slice(0, 4), target)]).load(mx.nd.array(ROWS).tostype("csr"))
    assert target.stype == "csr"
    assert numbers(target) == ROWS.tolist()


@pytest.mark.parametrize(("axis", "whole"), [(0, ROWS), (1, np.ascontiguousarray(ROWS.T))])
def test_each_device_gets_its_rows(axis: int, whole: Any) -> None:
    shapes = [np.delete(whole, range(drop), axis).shape for drop in (1, 3)]
    targets = [mx.nd.zeros(shape) for shape in shapes]
    places = list(zip([slice(0, 3), slice(3, 4)], targets, strict=True))
    BatchInput("data", axis, 4, places).load(mx.nd.array(whole))
    found = np.concatenate([target.asnumpy() for target in targets], axis)
    assert found.tolist() == whole.tolist()


def test_without_a_batch_axis_each_device_gets_everything() -> None:
    targets = [mx.nd.zeros((4, 3)) for _ in range(2)]
    places = [(slice(row, row + 1), target) for row, target in enumerate(targets)]
    BatchInput("data", -1, 2, places).load(ROWS)
    assert [numbers(target) for target in targets] == [ROWS.tolist()] * 2


def test_a_slice_for_each_device() -> None:
    targets = [mx.nd.zeros((2, 3)) for _ in range(2)]
    places = [(slice(2 * row, 2 * row + 2), target) for row, target in enumerate(targets)]
    one = BatchInput("data", 0, 4, places)
    one.load_share(1, ROWS[2:])
    assert [numbers(target) for target in targets] == [[[0.0] * 3] * 2, ROWS[2:].tolist()]


def test_arrays_of_an_unused_input_are_ignored() -> None:
    unread = BatchInput("data", 0, 4, [])
    unread.load(ROWS)
    unread.load_share(0, ROWS)


def test_an_array_of_another_shape_is_refused() -> None:
    target = mx.nd.zeros((4, 3))
    one = BatchInput("data", 0, 4, [(slice(0, 4), target)])
    with pytest.raises(ShapeError, match=r"input 'data' has shape \(3, 4\), but \(4, 3\) is bound"):
        one.load(ROWS.T)
    assert not target.asnumpy().any()
