"""Attention on interleaved projections: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make


def infer(op: str, *inputs):
    return make(f"_contrib_interleaved_matmul_{op}", {"heads": 2}).infer_shape(list(inputs), [None])


def test_inferred_shapes() -> None:
    assert infer("selfatt_qk", (4, 3, 24))[1] == [(6, 4, 4)]
    assert infer("selfatt_valatt", (4, 3, 24), None) == ([(4, 3, 24), (6, 4, 4)], [(4, 3, 8)])
    assert infer("encdec_qk", (4, 3, 8), (5, 0, 0)) == ([(4, 3, 8), (5, 3, 16)], [(6, 4, 5)])
    assert infer("encdec_valatt", (5, 3, 16), (6, 4, 5))[1] == [(4, 3, 8)]


def test_invalid_projections_are_refused() -> None:
    with pytest.raises(ShapeError, match="a multiple of 2 heads times 3 parts"):
        infer("selfatt_qk", (4, 3, 16))
    with pytest.raises(ShapeError, match="keys_values has shape"):
        infer("encdec_qk", (4, 3, 8), (5, 2, 16))
    with pytest.raises(ShapeError, match="attention has shape"):
        infer("selfatt_valatt", (4, 3, 24), (6, 4, 5))
