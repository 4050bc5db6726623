"""Broadcasting operators: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from core.ops import make_operator
from oracle.apply import make


def infer(op: str, *inputs, **attrs):
    return make(op, attrs).infer_shape(list(inputs), [None])[1][0]


def test_shapes_in_the_notation_of_published_graphs() -> None:
    operator = make_operator("broadcast_to", "node", {"shape": "[0, 8, 0]"})
    assert operator.infer_shape([(2, 1, 0)], [None])[1] == [(2, 8, 0)]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("broadcast_axis", [(2, 3)], {"axis": 1, "size": 3}, "must have size 1"),
        ("broadcast_axis", [(2, 1)], {"axis": 1, "size": (3, 4)}, "differ in length"),
        ("broadcast_axis", [(2, 1)], {"axis": 2, "size": 3}, "axis 2 is out of range"),
        ("broadcast_to", [(2, 2)], {"shape": (2, 3)}, "cannot be broadcast to 3"),
        ("broadcast_to", [(3,)], {"shape": (2, 3)}, "differ in number of dimensions"),
        ("broadcast_like", [(1, 3), (4, 5)], {}, "cannot be broadcast to 5"),
        ("broadcast_like", [(3,), (4, 3)], {}, "differ in number of dimensions"),
        ("broadcast_like", [(1, 3), (4, 3)], {"lhs_axes": (0,), "rhs_axes": ()}, "one length"),
    ],
)
def test_incompatible_shapes_are_refused(op: str, inputs, attrs, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(op, *inputs, **attrs)


def test_negative_dimensions_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="minimum is 0"):
        make("broadcast_to", {"shape": (2, -3)})


def test_broadcast_like_needs_both_shapes() -> None:
    assert infer("broadcast_like", (1, 3), None) is None
    assert infer("broadcast_like", (1, 0), (4, 3)) == (4, 3)
