"""Single-shot detection: inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, MXNetError, ShapeError
from oracle.apply import apply, make


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("MultiBoxPrior", {"steps": (1.0,)}, "steps is .* expected 2 numbers"),
        ("MultiBoxPrior", {"steps": (1.0, -1.0)}, "expected both or none above 0"),
        ("MultiBoxPrior", {"offsets": (0.5, 2.0)}, "its maximum is 1"),
        ("MultiBoxPrior", {"ratios": (1.0, 0.0)}, "expected numbers above 0"),
        ("MultiBoxPrior", {"sizes": ()}, "need one number at least"),
        ("MultiBoxTarget", {"variances": (1.0,)}, "variances is .* expected 4 numbers"),
        (
            "MultiBoxTarget",
            {"negative_mining_ratio": 3, "negative_mining_thresh": 0},
            "negative_mining_thresh is 0.0; expected above 0",
        ),
    ],
)
def test_attributes_are_checked(op: str, attrs, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message):
        make(f"_contrib_{op}", attrs)


def test_lists_in_the_notation_of_old_files() -> None:
    prior = make("MultiBoxPrior", {"sizes": "[0.2, 0.3]", "ratios": "(1,2,0.5,3,0.333333333333)"})
    assert prior.infer_shape([(1, 8, 3, 4)], [None])[1] == [(1, 72, 4)]


def test_inferred_shapes() -> None:
    target = make("MultiBoxTarget", {}).infer_shape([(1, 30, 4), (2, 4, 5), None], [None] * 3)
    assert target == ([(1, 30, 4), (2, 4, 5), (2, 0, 30)], [(2, 120), (2, 120), (2, 30)])
    detection = make("MultiBoxDetection", {}).infer_shape([(2, 4, 30), None, None], [None])
    assert detection == ([(2, 4, 30), (2, 120), (1, 30, 4)], [(2, 30, 6)])
    with pytest.raises(ShapeError, match="4 numbers per object; expected 5"):
        make("MultiBoxTarget", {}).infer_shape([(1, 30, 4), (2, 4, 4), None], [None] * 3)


def test_too_few_negatives_are_refused() -> None:
    """MXNet aborts with a failed check here."""
    box = np.float32([[0.1, 0.1, 0.5, 0.5]])
    anchors = np.repeat(box, 5, axis=0)[None]
    label = np.concatenate((np.zeros((1, 1), "float32"), box), axis=1)[None]
    predictions = np.zeros((1, 2, 5), "float32")
    attrs = {"negative_mining_ratio": 3, "overlap_threshold": 1.0}
    with pytest.raises(MXNetError, match="3 negative anchors are wanted, but only 0"):
        apply("MultiBoxTarget", attrs, [anchors, label, predictions])
