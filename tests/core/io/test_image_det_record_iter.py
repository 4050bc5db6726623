"""Images with boxes from RecordIO files: MXNet's batches, and random augmentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError, UsageError
from core.io.det_augmentation import DetAugmentation
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.augmenters import write_boxes
from oracle.topics.detection_records import CASES, batches

pytest.importorskip("PIL")

IMAGE = np.random.RandomState(0).randint(0, 256, (40, 60, 3)).astype("uint8")
BOXES = np.array([[1, 0.1, 0.2, 0.5, 0.6], [2, 0.4, 0.5, 0.9, 0.95]])


@pytest.mark.parametrize("case_id", CASES)
def test_batches_match_mxnets(case_id: str) -> None:
    golden = golden_file.topic("detection_records")
    got = batches(mx, case_id)
    assert {f"{case_id}/{key}" for key in got} == {
        key for key in golden if key.startswith(f"{case_id}/")
    }
    # OpenCV's cubic interpolation sums in single precision: a few bytes differ by one.
    tolerance = 1.01 / 128 if case_id == "fitted" else 1e-6
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"], tolerance)


def _marked(boxes: np.ndarray) -> np.ndarray:
    """Return an image whose first box is painted white."""
    image = np.zeros_like(IMAGE)
    rows, columns = image.shape[:2]
    left, top, right, bottom = np.rint(boxes[0, 1:5] * [columns, rows, columns, rows]).astype(int)
    image[top:bottom, left:right] = 255
    return image


@pytest.mark.parametrize(
    "options",
    [
        {"rand_crop_prob": 1.0, "min_crop_scales": 0.4, "max_crop_scales": 0.9},
        {
            "rand_crop_prob": 1.0,
            "num_crop_sampler": 2,
            "min_crop_scales": (0.5, 0.4),
            "max_crop_scales": 0.8,
            "min_crop_aspect_ratios": 0.5,
            "max_crop_aspect_ratios": 2.0,
            "crop_emit_mode": "overlap",
            "emit_overlap_thresh": 0.2,
        },
        {"rand_pad_prob": 1.0, "max_pad_scale": 2.0, "fill_value": 0},
        {"rand_mirror_prob": 0.5},
        {
            "rand_mirror_prob": 0.5,
            "rand_pad_prob": 0.5,
            "max_pad_scale": 2.0,
            "rand_crop_prob": 0.5,
        },
    ],
)
def test_boxes_move_with_the_objects_in_them(options: dict[str, Any]) -> None:
    augment = DetAugmentation((3, 80, 80), **options)
    random = np.random.RandomState(0)
    sizes = set()
    for _ in range(30):
        image, boxes = augment(_marked(BOXES), BOXES.copy(), random)
        assert image.shape == (80, 80, 3)
        sizes.add(tuple(boxes[:, 0]))
        if boxes[0, 0] != 1:
            continue
        left, top, right, bottom = boxes[0, 1:5] * 80
        rows, columns = np.nonzero(image[..., 0] > 127)
        # Crops start at whole pixels of an image with 40 rows and 60 columns.
        found = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        np.testing.assert_allclose(found, (left, top, right, bottom), atol=6)
    assert (1.0, 2.0) in sizes


def test_crops_contain_the_requested_share_of_an_object() -> None:
    options = {"min_crop_overlaps": 0.3, "max_crop_overlaps": 0.9}
    for kind in ("sample", "object"):
        options[f"min_crop_{kind}_coverages"] = 0.05
        options[f"max_crop_{kind}_coverages"] = 0.99
    augment = DetAugmentation(
        (3, 40, 60),
        rand_crop_prob=1.0,
        min_crop_scales=0.3,
        max_crop_scales=0.9,
        max_crop_trials=200,
        **options,
    )
    random = np.random.RandomState(1)
    one = BOXES[:1]
    for _ in range(10):
        _, boxes = augment(IMAGE, one.copy(), random)
        inside = float(np.prod(boxes[0, 3:5] - boxes[0, 1:3]))
        assert inside > 0.3


def test_crops_of_a_high_image_keep_their_aspect_ratio() -> None:
    augment = DetAugmentation(
        (3, 40, 40),
        rand_crop_prob=1.0,
        min_crop_scales=0.4,
        max_crop_scales=0.6,
    )
    random = np.random.RandomState(0)
    for _ in range(10):
        image, _ = augment.cropping(np.zeros((200, 100, 3), np.uint8), BOXES[:0], random)
        assert 50 <= image.shape[1] <= 90
        assert abs(image.shape[0] - image.shape[1]) <= 1


def test_colors_change_randomly() -> None:
    options = {"max_random_hue": 30, "random_hue_prob": 0.5}
    options.update(max_random_contrast=0.5, random_contrast_prob=0.5)
    augment = DetAugmentation((3, 40, 60), **options)
    random = np.random.RandomState(0)
    changed = [not np.array_equal(augment(IMAGE, BOXES, random)[0], IMAGE) for _ in range(20)]
    assert 5 < sum(changed) < 20


def test_an_image_is_kept_where_no_crop_qualifies() -> None:
    augment = DetAugmentation((3, 40, 60), rand_crop_prob=1.0, max_crop_scales=1e-3)
    image, boxes = augment(IMAGE, BOXES, np.random.RandomState(0))
    np.testing.assert_array_equal(image, IMAGE)
    np.testing.assert_array_equal(boxes, BOXES)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"label_pad_width": 3}, ShapeError, "label_pad_width is 3; the longest label has 17"),
        ({"label_width": 5}, ShapeError, "record 0 has 7 labels, label_width is 5"),
        ({"aug_seq": "aug_default"}, UsageError, "det_aug_default"),
        ({"resize_mode": "stretch"}, UsageError, "use force, shrink or fit"),
        ({"crop_emit_mode": "all"}, UsageError, "use center or overlap"),
        ({"min_crop_scales": 0.9, "max_crop_scales": 0.3}, UsageError, "min_crop_scales and"),
        ({"min_crop_scales": (0.1, 0.2)}, UsageError, "has 2 numbers; num_crop_sampler is 1"),
        ({"data_shape": (1, 8, 8), "random_hue_prob": 0.5}, UsageError, "need 3 channels"),
        ({"rand_mirror": True}, TypeError, "unknown option 'rand_mirror'"),
    ],
)
def test_invalid_arguments_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    path = write_boxes(mx, tmp_path)
    with pytest.raises(error, match=words):
        mx.io.ImageDetRecordIter(path, **{"data_shape": (3, 8, 8), "batch_size": 2, **options})


def test_malformed_labels_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "bad.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    writer.write(mx.recordio.pack((0, [2, 5, 1, 0, 0, 1], 0, 0), b"x"))
    writer.close()
    with pytest.raises(ShapeError, match="6 numbers with a head of 2 and objects of 5"):
        mx.io.ImageDetRecordIter(path, (3, 8, 8), 1)
