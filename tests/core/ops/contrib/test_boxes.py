"""Operators on boxes: inference, errors, half precision."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import ShapeError
from oracle.apply import apply, make


def infer(op: str, *inputs, outputs=(None, None), **attrs):
    operator = make(op, attrs)
    return operator.infer_shape(list(inputs), list(outputs)[: len(operator.output_names())])


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"score_index": 3}, "score_index is 3; expected one of the 6 numbers"),
        ({"score_index": -1}, "score_index is -1"),
        ({"id_index": 1}, "id_index and score_index are both 1"),
        ({"id_index": 6}, "id_index is 6"),
        ({"coord_start": 3}, "coord_start is 3; a box has 6 numbers"),
    ],
)
def test_indices_of_score_class_and_coordinates_are_checked(attrs, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer("_contrib_box_nms", (2, 5, 6), **attrs)


def test_boxes_need_enough_numbers() -> None:
    with pytest.raises(ShapeError, match="4 numbers per box; expected at least 5"):
        infer("_contrib_box_nms", (2, 5, 4))
    with pytest.raises(ShapeError, match=r"expected \(\.\.\., boxes, numbers\)"):
        infer("_contrib_box_nms", (5,))
    with pytest.raises(ShapeError, match=r"rhs has shape \(2, 5\); expected \(\.\.\., 4\)"):
        infer("_contrib_box_iou", (3, 4), (2, 5))


def test_inferred_shapes() -> None:
    assert infer("_contrib_box_nms", (2, 5, 6))[1] == [(2, 5, 6), (2, 5, 1)]
    assert infer("_contrib_box_iou", (2, 3, 4), (5, 4))[1] == [(2, 3, 5)]
    matching = infer("_contrib_bipartite_matching", (2, 3, 4), threshold=0.5)
    assert matching[1] == [(2, 3), (2, 4)]
    decoded = infer("_contrib_box_decode", (2, 3, 4), None)
    assert decoded == ([(2, 3, 4), (1, 3, 4)], [(2, 3, 4)])
    encoded = infer("_contrib_box_encode", None, (2, 3), None, (0, 7, 0), None, None)
    assert encoded[0] == [(2, 3), (2, 3), (2, 3, 4), (2, 7, 4), (4,), (4,)]
    assert encoded[1] == [(2, 3, 4), (2, 3, 4)]


def test_gradients_go_to_boxes_float16_cannot_number() -> None:
    """The gradient belongs to box 3000; float16 would round its index."""
    boxes = np.zeros((3001, 5), "float16")
    boxes[3000] = [0.5, 0, 0, 1, 1]
    head = np.zeros_like(boxes)
    head[0] = 1
    attrs = {"score_index": 0, "coord_start": 1}
    got = apply("_contrib_box_nms", attrs, [boxes], [head])
    np.testing.assert_array_equal(got.outputs[0][0], boxes[3000])
    assert got.outputs[0].dtype == np.float16
    assert (got.outputs[0][1:] == -1).all()
    np.testing.assert_array_equal(np.nonzero(got.grads[0].any(axis=1))[0], [3000])
