"""L2Normalization and LRN: invalid input."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


@pytest.mark.parametrize(
    ("op", "attrs", "data", "message"),
    [
        ("L2Normalization", {"mode": "channel"}, (2, 4), "mode 'channel' needs 3 axes or more"),
        ("L2Normalization", {"mode": "spatial"}, (2, 4), "mode 'spatial' needs 3 axes or more"),
        ("LRN", {"nsize": 3}, (4,), r"expected \(batch, channels, ...\)"),
    ],
)
def test_data_with_too_few_axes_is_refused(op, attrs, data, message) -> None:
    with pytest.raises(ShapeError, match=message):
        make(op, attrs).infer_shape([data], [None, None])


def test_lrn_needs_an_odd_nsize() -> None:
    with pytest.raises(AttributeValueError, match="LRN 'node': nsize is 4; expected an odd"):
        make("LRN", {"nsize": 4})
