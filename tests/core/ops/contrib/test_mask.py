"""Boolean masks in graphs: how they are composed, saved and inferred."""

from __future__ import annotations

import pytest

import core as mx
from core.errors import ShapeError


def test_a_mask_can_be_composed_and_saved_but_not_bound_without_values() -> None:
    masked = mx.sym.contrib.boolean_mask(mx.sym.Variable("x"), mx.sym.Variable("chosen"))
    again = mx.sym.load_json(masked.tojson())
    assert again.list_arguments() == ["x", "chosen"]
    # MXNet's simple_bind cannot infer the shape either.
    with pytest.raises(
        ShapeError, match=r"cannot infer the shape of boolean_mask.*depends on values. Give arrays"
    ):
        again.simple_bind(mx.cpu(), x=(3, 2), chosen=(3,))
    with pytest.raises(ShapeError, match=r"index has shape \(4,\), expected \(3,\)"):
        again.infer_shape(x=(3, 2), chosen=(4,))
