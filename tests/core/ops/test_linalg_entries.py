"""Diagonals and triangles of matrices: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make


def infer(op: str, shape: tuple[int, ...], **attributes: object):
    (output,) = make(f"_linalg_{op}", attributes).infer_shape([shape], [None])[1]
    return output


def test_an_offset_shortens_the_diagonal() -> None:
    assert infer("extractdiag", (2, 4, 4), offset=-1) == (2, 3)
    assert infer("makediag", (2, 4), offset=2) == (2, 6, 6)


@pytest.mark.parametrize("op", ["extractdiag", "extracttrian"])
def test_matrices_must_be_square_and_offsets_within_them(op: str) -> None:
    with pytest.raises(ShapeError, match=r"A has shape \(2, 3\); expected square matrices"):
        infer(op, (2, 3))
    with pytest.raises(ShapeError, match="offset is 4; A has 4 rows"):
        infer(op, (4, 4), offset=4)
    with pytest.raises(ShapeError, match="offset is -5; A has 4 rows"):
        infer(op, (4, 4), offset=-5)


@pytest.mark.parametrize("op", ["makediag", "maketrian"])
def test_scalars_are_refused(op: str) -> None:
    with pytest.raises(ShapeError, match="A has no dimension; expected at least one"):
        infer(op, ())


def test_a_length_that_fills_no_triangle_is_refused() -> None:
    with pytest.raises(
        ShapeError, match="A has 4 elements along the last axis; no triangle has that many"
    ):
        infer("maketrian", (4,))
