"""Image iterators: invalid input, skipped images, and state kept between epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import FormatError
from oracle.topics.augmenters import make_images, write_boxes
from oracle.topics.images import write_records

pytest.importorskip("PIL")

SHAPE = (3, 8, 10)


@pytest.fixture
def listed(tmp_path: Path) -> dict[str, Any]:
    """An iterator over a list of five images."""
    return {
        "imglist": [[number, name] for number, name in enumerate(make_images(tmp_path))],
        "path_root": str(tmp_path),
    }


def test_a_network_trains_on_it(listed: dict[str, Any]) -> None:
    data = mx.image.ImageIter(2, SHAPE, mean=True, std=True, **listed)
    flat = mx.sym.Flatten(mx.sym.Variable("data"))
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(flat, num_hidden=5), name="softmax")
    module = mx.mod.Module(net)
    module.fit(mx.io.PrefetchingIter(data), num_epoch=2, initializer=mx.init.Xavier())
    assert module.predict(mx.image.ImageIter(2, SHAPE, **listed)).shape == (5, 5)


def test_a_hard_reset_drops_the_rolled_over_rest(listed: dict[str, Any]) -> None:
    data = mx.image.ImageIter(2, SHAPE, last_batch_handle="roll_over", **listed)
    assert [batch.label[0].asnumpy().tolist() for batch in data] == [[0, 1], [2, 3]]
    data.hard_reset()
    assert data.next().label[0].asnumpy().tolist() == [0, 1]


def test_a_broken_image_is_named(tmp_path: Path, listed: dict[str, Any]) -> None:
    (tmp_path / "1.png").write_bytes(b"no image")
    with pytest.raises(RuntimeError, match=r"Broken image filename: 1\.png, 8 bytes are no"):
        mx.image.ImageIter(2, SHAPE, **listed).next()


def test_shuffled_records_change_their_order(tmp_path: Path) -> None:
    index, records = write_records(mx, tmp_path)
    data = mx.image.ImageIter(5, SHAPE, path_imgrec=records, path_imgidx=index, shuffle=True)
    orders = set()
    for _ in range(6):
        orders.add(tuple(data.next().label[0].asnumpy()))
        data.reset()
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {(0, 1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, AssertionError, "where are the images"),
        ({"dtype": "float16"}, AssertionError, "float16 label not supported"),
        ({"data_shape": (1, 8, 10)}, ValueError, "3 channels"),
        ({"data_shape": (8, 10)}, ValueError, "length 3"),
        ({"rand_resize": True}, AssertionError, "needs rand_crop"),
        ({"mean": 3.0}, AssertionError, "mean is 3.0; expected an array"),
        ({"num_parts": 2, "part_index": 2}, AssertionError, "not among 2 parts"),
        ({"rand_crops": True}, TypeError, "rand_crops"),
    ],
)
def test_invalid_arguments_are_refused(
    listed: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    source = listed if options else {}
    with pytest.raises(error, match=words):
        mx.image.ImageIter(**{"batch_size": 2, "data_shape": SHAPE, **source, **options})


def test_shuffling_records_needs_an_index(tmp_path: Path) -> None:
    _, records = write_records(mx, tmp_path)
    with pytest.raises(AssertionError, match="need path_imgidx"):
        mx.image.ImageIter(2, SHAPE, path_imgrec=records, shuffle=True)
    (tmp_path / "x.lst").write_text("0\tx\ta.png\n")
    with pytest.raises(FormatError, match=r"x\.lst, line 1"):
        mx.image.ImageIter(2, SHAPE, path_imglist=str(tmp_path / "x.lst"))


def test_the_number_of_labels_must_match_label_width(tmp_path: Path) -> None:
    _, records = write_records(mx, tmp_path, labels=2)
    with pytest.raises(AssertionError, match=r"labels of shape \(2,\); label_width says \(\)"):
        mx.image.ImageIter(2, SHAPE, path_imgrec=records).next()


@pytest.fixture
def detected(tmp_path: Path) -> mx.image.ImageDetIter:
    """An iterator over images with at most three objects each."""
    return mx.image.ImageDetIter(2, SHAPE, path_imgrec=write_boxes(mx, tmp_path))


def test_label_shapes_can_grow_but_not_shrink(
    detected: mx.image.ImageDetIter, tmp_path: Path
) -> None:
    assert detected.label_shape == (3, 5)
    detected.reshape((3, 9, 9), (4, 5))
    other = mx.image.ImageDetIter(2, SHAPE, path_imgrec=str(tmp_path / "boxes.rec"))
    assert detected.sync_label_shape(other, verbose=True) is other
    assert other.label_shape == (4, 5)
    detected.auglist = mx.image.CreateDetAugmenter((3, 9, 9))
    batch = detected.next()
    assert batch.data[0].shape == (2, 3, 9, 9)
    assert batch.label[0].shape == (2, 4, 5)
    for shape, words in (((3, 5), "not allowed"), ((5, 6), "inconsistent"), ((5,), "length 2")):
        with pytest.raises(ValueError, match=words):
            detected.reshape(None, shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ([2, 5, 1], "Label shape is invalid"),
        ([2, 5, 1, 0, 0, 1, 1, 1], "inconsistent with annotation width 5"),
        ([2, 5, 1, 0.5, 0, 0.2, 1], "no valid label"),
        ([2, 0, 1, 0.5, 0, 0.2, 1], "annotation width 0"),
    ],
)
def test_malformed_labels_are_refused(tmp_path: Path, label: list[float], words: str) -> None:
    names = make_images(tmp_path, 1)
    with pytest.raises(RuntimeError, match=words):
        mx.image.ImageDetIter(1, SHAPE, imglist=[[label, names[0]]], path_root=str(tmp_path))


def test_boxes_are_drawn_onto_images(detected: mx.image.ImageDetIter) -> None:
    drawn = list(detected.draw_next(color=(255, 0, 0), thickness=1, id2labels={1: "x"}))
    assert len(drawn) == 5
    image = drawn[0]
    assert image.shape == (8, 10, 3)
    # The first object's left edge is at 0.1 of 10 columns, its top at 0.2 of 8 rows.
    np.testing.assert_array_equal(image[1, 1], (0, 0, 255))
    detected.reset()
    with pytest.warns(UserWarning, match="there is no window"):
        next(detected.draw_next(waitKey=1))


def test_invalid_augmenters_are_refused() -> None:
    with pytest.raises(TypeError, match="invalid Augmenter"):
        mx.image.DetBorrowAug(lambda image: image)
    with pytest.raises(ValueError, match="Allow DetAugmenter"):
        mx.image.DetRandomSelectAug([mx.image.CastAug()])
    with pytest.raises(AssertionError, match="has 2 values; expected one or 3"):
        mx.image.CreateMultiRandCropAugmenter([0.1, 0.2, 0.3], max_attempts=[1, 2])
    with pytest.raises(AssertionError, match="area_range is 'x'"):
        mx.image.DetRandomPadAug(area_range="x")
    with pytest.raises(NotImplementedError, match="must define __call__"):
        mx.image.Augmenter()(mx.nd.ones((1, 1, 3)))
    with pytest.raises(NotImplementedError, match="must define __call__"):
        mx.image.DetAugmenter()(mx.nd.ones((1, 1, 3)), np.ones((1, 5)))
    image, boxes = mx.nd.ones((4, 4, 3)), np.array([[0, 0.1, 0.1, 0.9, 0.9]])
    for make in (
        lambda: mx.image.DetRandomCropAug(area_range=(1.0, 0.5)),
        lambda: mx.image.DetRandomPadAug(aspect_ratio_range=(-1, 2)),
    ):
        with pytest.warns(UserWarning, match="Skip DetRandom"):
            augmenter = make()
        assert augmenter(image, boxes) == (image, boxes)
    skipped = mx.image.DetRandomSelectAug([])
    assert skipped(image, boxes) == (image, boxes)
