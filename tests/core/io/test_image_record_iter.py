"""Images from RecordIO files: MXNet's batches, and random augmentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, MXNetError, ShapeError, UsageError
from core.io.augmentation import Augmentation
from core.io.normalization import Normalization
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.images import CASES, batches, write_records

pytest.importorskip("PIL")


@pytest.mark.parametrize("case_id", CASES)
def test_batches_match_mxnets(case_id: str) -> None:
    golden = golden_file.topic("images")
    got = batches(mx, case_id)
    assert {f"{case_id}/{key}" for key in got} == {
        key for key in golden if key.startswith(f"{case_id}/")
    }
    # OpenCV's Lanczos interpolation rotates in single precision: some bytes differ by one.
    tolerance = 0.01 if case_id == "turned_lanczos" else 1e-6
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"], tolerance)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    """Index and record file of five images."""
    return write_records(mx, tmp_path)


def test_a_missing_index_is_built(paths: tuple[str, str]) -> None:
    found = [
        [
            batch.data[0].asnumpy()
            for batch in mx.io.ImageRecordIter(paths[1], (3, 8, 10), 2, path_imgidx=index)
        ]
        for index in (paths[0], "")
    ]
    np.testing.assert_array_equal(*found)


def test_order_shuffling_and_parts(paths: tuple[str, str]) -> None:
    shuffled = mx.io.ImageRecordIter(paths[1], (3, 8, 10), 5, shuffle=True, seed=1)
    orders = []
    for _ in range(2):
        orders.append(shuffled.next().label[0].asnumpy().tolist())
        shuffled.reset()
    assert sorted(orders[0]) == sorted(orders[1]) == [0, 1, 2, 3, 4]
    assert orders[0] != orders[1]
    part = mx.io.ImageRecordIter(paths[1], (3, 8, 10), 3, num_parts=2, part_index=1)
    assert part.next().label[0].asnumpy().tolist() == [2, 3, 4]


def test_without_round_batch_the_last_batch_keeps_old_rows(paths: tuple[str, str]) -> None:
    data = mx.io.ImageRecordIter(paths[1], (3, 8, 10), 3, round_batch=False)
    for _ in range(2):
        labels = [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in data]
        assert labels == [([0, 1, 2], 0), ([3, 4, 2], 1)]
        data.reset()


def test_grey_images_and_dtypes(paths: tuple[str, str]) -> None:
    batch = mx.io.ImageRecordIter(paths[1], (1, 8, 10), 2, dtype="uint8").next()
    assert batch.data[0].shape == (2, 1, 8, 10)
    assert batch.data[0].dtype == np.uint8


def test_random_augmentation_repeats_with_its_seed(paths: tuple[str, str]) -> None:
    options = {
        "rand_mirror": True,
        "random_resized_crop": True,
        "min_random_area": 0.5,
        "min_aspect_ratio": 0.75,
        "max_aspect_ratio": 1.3,
        "brightness": 0.2,
        "contrast": 0.2,
        "saturation": 0.2,
    }
    rounds = [
        mx.io.ImageRecordIter(paths[1], (3, 8, 10), 5, seed_aug=seed, **options).next()
        for seed in (3, 3, 4)
    ]
    first, again, other = (batch.data[0].asnumpy() for batch in rounds)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.min() >= 0
    assert first.max() <= 255


def test_crops_are_parts_of_the_image() -> None:
    image = np.arange(6 * 8 * 3, dtype="uint8").reshape(6, 8, 3)
    augment = Augmentation((3, 4, 5), rand_crop=True)
    windows = [image[y : y + 4, x : x + 5] for y in range(3) for x in range(4)]
    random = np.random.RandomState(0)
    seen = set()
    for _ in range(60):
        found = augment(image, random)
        matches = [place for place, one in enumerate(windows) if np.array_equal(found, one)]
        assert len(matches) == 1
        seen.update(matches)
    assert len(seen) == len(windows)


def test_images_are_mirrored_randomly() -> None:
    image = np.arange(4 * 5 * 3, dtype="uint8").reshape(4, 5, 3)
    normalize = Normalization(rand_mirror=True)
    random = np.random.RandomState(0)
    seen = [normalize(image, random, np.dtype("float32"), None) for _ in range(20)]
    plain = image.transpose(2, 0, 1)
    sides = [np.array_equal(one, plain) for one in seen]
    assert len(set(sides)) == 2
    for one, is_plain in zip(seen, sides, strict=True):
        np.testing.assert_array_equal(one, plain if is_plain else plain[..., ::-1])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"data_shape": (5, 8, 10)}, UsageError, "expected \\(1, 3 or 4, height, width\\)"),
        ({"label_width": 3}, ShapeError, "record 0 has 1 labels, label_width is 3"),
        ({"part_index": 1}, UsageError, "part_index 1 is not among 1"),
        ({"data_shape": (4, 8, 10), "x": 0}, TypeError, "unknown option 'x'"),
        ({"data_shape": (4, 8, 10)}, FormatError, "expected an image of 4 channels"),
        ({"inter_method": 7}, UsageError, "inter_method is 7"),
        ({"rotat": 30}, TypeError, "unknown option 'rotat'; did you mean 'rotate'"),
        ({"random_resized_crop": True, "rand_crop": True}, UsageError, "conflicts with rand_crop"),
        (
            {"random_resized_crop": True, "max_random_scale": 2.0},
            UsageError,
            "conflicts with min_random_scale",
        ),
        ({"max_crop_size": 9}, UsageError, "give both"),
        ({"min_crop_size": 13, "max_crop_size": 13}, UsageError, "smaller than max_crop_size 13"),
        ({"data_shape": (1, 8, 10), "random_h": 3}, UsageError, "random_h needs images of 3"),
        ({"aug_seq": "aug_det"}, UsageError, "the only augmenter"),
    ],
)
def test_invalid_arguments_are_refused(
    paths: tuple[str, str], options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mx.io.ImageRecordIter(paths[1], **{"data_shape": (3, 8, 10), "batch_size": 2, **options})


def test_a_record_that_is_not_an_image_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "bad.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    writer.write(mx.recordio.pack((0, 1.0, 0, 0), b"not an image"))
    writer.close()
    with pytest.raises(FormatError, match=r"bad\.rec: record 0: 12 bytes are not an image"):
        mx.io.ImageRecordIter(path, (3, 8, 10), 1)


def _pixels(path: str, **options: Any) -> np.ndarray:
    """Return the first batch of two as (2, height, width, channels)."""
    batch = mx.io.ImageRecordIter(path, (3, 8, 10), 2, **options).next()
    return batch.data[0].asnumpy().transpose(0, 2, 3, 1)


def test_random_rotation_uses_one_of_the_allowed_angles(paths: tuple[str, str]) -> None:
    known = [_pixels(paths[1], rotate_list=(angle % 360,)) for angle in (-2, -1, 0, 1, 2)]
    seen = set()
    for seed in range(12):
        turned = _pixels(paths[1], max_rotate_angle=2, seed_aug=seed)[0]
        matches = [i for i, one in enumerate(known) if np.array_equal(turned, one[0])]
        assert matches
        seen.add(matches[0])
    assert len(seen) >= 3


@pytest.mark.parametrize(
    "options",
    [
        {"max_shear_ratio": 0.3},
        {"min_random_scale": 0.9, "max_random_scale": 1.4},
        {"max_aspect_ratio": 0.3},
        {"min_crop_size": 6, "max_crop_size": 12, "rand_crop": True},
        {"random_h": 30},
        {"random_s": 60},
        {"random_l": 60},
        {"pca_noise": 0.5},
        {"max_random_contrast": 0.4},
        {"max_random_illumination": 30.0},
        {"rotate": 20, "inter_method": 10},
    ],
    ids=lambda options: next(iter(options)),
)
def test_each_random_option_changes_images_and_repeats_with_its_seed(
    paths: tuple[str, str], options: dict[str, Any]
) -> None:
    first, again = (_pixels(paths[1], seed_aug=3, **options) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    others = [_pixels(paths[1], seed_aug=seed, **options) for seed in (4, 5, 6)]
    assert any(not np.array_equal(first, other) for other in others)


def test_colors_change_within_their_range(paths: tuple[str, str]) -> None:
    plain = _pixels(paths[1])
    lighter = [_pixels(paths[1], random_l=20, seed_aug=seed) for seed in range(8)]
    change = [float((one - plain).mean()) for one in lighter]
    assert min(change) < -3
    assert max(change) > 3
    assert max(abs(one) for one in change) < 22
    greys = [_pixels(paths[1], saturation=1.0, seed_aug=seed) for seed in range(8)]
    spreads = [float(one.std(axis=-1).mean()) for one in greys]
    assert min(spreads) < 0.6 * float(plain.std(axis=-1).mean()) < max(spreads)


def test_missing_labels_in_a_list_are_refused(paths: tuple[str, str], tmp_path: Path) -> None:
    for content, words in (
        ("0\t1.5\ta.jpg\n", "has no labels of image 1"),
        ("0\tx\ta.jpg\n", "line 1: could not convert"),
        ("\n0\n", "line 2: expected 1 labels"),
    ):
        (tmp_path / "x.lst").write_text(content)
        with pytest.raises(MXNetError, match=words):
            mx.io.ImageRecordIter(
                paths[1], (3, 8, 10), 2, path_imglist=str(tmp_path / "x.lst"), verbose=False
            )


def test_a_mean_image_must_match_the_data_shape(paths: tuple[str, str], tmp_path: Path) -> None:
    path = str(tmp_path / "mean.nd")
    for arrays, words in (
        ([mx.nd.ones((3, 8, 10))] * 2, "one array .the mean image., got 2"),
        ([mx.nd.ones((3, 8, 9))], r"shape \(3, 8, 9\), data_shape is \(3, 8, 10\)"),
    ):
        mx.nd.save(path, arrays)
        with pytest.raises(MXNetError, match=words):
            mx.io.ImageRecordIter(paths[1], (3, 8, 10), 2, mean_img=path)


def test_each_iterator_has_its_dtype(paths: tuple[str, str]) -> None:
    for make, dtype in (
        (mx.io.ImageRecordUInt8Iter, np.uint8),
        (mx.io.ImageRecordUInt8Iter_v1, np.uint8),
        (mx.io.ImageRecordInt8Iter, np.int8),
        (mx.io.ImageRecordIter_v1, np.float32),
    ):
        batch = make(path_imgrec=paths[1], data_shape=(3, 8, 10), batch_size=2).next()
        assert batch.data[0].dtype == dtype


def test_alpha_is_a_fourth_channel(tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.random.RandomState(0).randint(0, 256, (8, 10, 4)).astype("uint8")
    Image.fromarray(pixels).save(tmp_path / "x.png")
    path = str(tmp_path / "x.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    writer.write(mx.recordio.pack((0, 1.0, 0, 0), (tmp_path / "x.png").read_bytes()))
    writer.close()
    options = {"mean_a": 3, "std_a": 2}
    batch = mx.io.ImageRecordIter(path, (4, 8, 10), 1, **options).next().data[0].asnumpy()[0]
    np.testing.assert_array_equal(batch[:3], pixels[..., :3].transpose(2, 0, 1))
    np.testing.assert_allclose(batch[3], (pixels[..., 3].astype(float) - 3) / 2)
