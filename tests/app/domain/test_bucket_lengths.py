"""Open axes take the lengths of the buckets."""

import pytest

from app.domain.bucket_lengths import fill_lengths
from app.domain.codec import from_plain
from app.domain.module import BindSpec, BucketShapes, InputDesc, ModuleKind, ModuleRecord
from app.errors.tree import Invalid

RECORD = ModuleRecord(
    name="net", kind=ModuleKind.BUCKETING, symbols={"5": "{}", "9": "{}"}, default_bucket_key="9"
)


def spec(*shape: int, layout: str = "NT", label: tuple[int, ...] = (2,), **changes) -> BindSpec:
    return BindSpec(
        data_shapes=(InputDesc(name="data", shape=shape, layout=layout),),
        label_shapes=(InputDesc(name="softmax_label", shape=label),),
        **changes,
    )


def test_each_bucket_has_its_length() -> None:
    filled = fill_lengths(RECORD, spec(2, 0, label=(2, 0)))
    assert filled == spec(
        2,
        9,
        label=(2, 9),
        buckets={
            "5": BucketShapes(
                data_shapes=(InputDesc(name="data", shape=(2, 5), layout="NT"),),
                label_shapes=(InputDesc(name="softmax_label", shape=(2, 5)),),
            )
        },
    )


def test_fully_known_shapes_are_kept() -> None:
    assert fill_lengths(RECORD, spec(2, 9)) == spec(2, 9)
    single = ModuleRecord(name="net", symbols={"null": "{}"})
    assert fill_lengths(single, spec(2, 0)) == spec(2, 0)


def test_the_batch_axis_follows_the_layout() -> None:
    assert fill_lengths(RECORD, spec(0, 2, layout="TN")).data_shapes[0].shape == (9, 2)
    with pytest.raises(Invalid, match=r"data_shapes\[0\]\.shape.* batch size on axis 1"):
        fill_lengths(RECORD, spec(2, 0, layout="TN"))


def test_null_is_an_open_axis() -> None:
    plain = {"data_shapes": [{"name": "data", "shape": [2, None]}]}
    assert from_plain(BindSpec, plain).data_shapes[0].shape == (2, 0)
