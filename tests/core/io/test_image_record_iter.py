"""Images from RecordIO files: MXNet's batches, and what chance does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, ShapeError, UsageError
from core.io.augmentation import Augmentation, resize_image
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.images import CASES, batches, write_records

pytest.importorskip("PIL")


@pytest.mark.parametrize("case_id", CASES)
def test_batches_are_those_of_mxnet(case_id: str) -> None:
    golden = golden_file.topic("images")
    got = batches(mx, case_id)
    assert {f"{case_id}/{key}" for key in got} == {
        key for key in golden if key.startswith(f"{case_id}/")
    }
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"], 1e-6)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    """Index and records of five images."""
    return write_records(mx, tmp_path)


def test_the_index_is_found_where_there_is_none(paths: tuple[str, str]) -> None:
    found = [
        [
            batch.data[0].asnumpy()
            for batch in mx.io.ImageRecordIter(paths[1], (3, 8, 10), 2, path_imgidx=index)
        ]
        for index in (paths[0], "")
    ]
    np.testing.assert_array_equal(*found)


def test_order_and_parts(paths: tuple[str, str]) -> None:
    shuffled = mx.io.ImageRecordIter(paths[1], (3, 8, 10), 5, shuffle=True, seed=1)
    orders = []
    for _ in range(2):
        orders.append(shuffled.next().label[0].asnumpy().tolist())
        shuffled.reset()
    assert sorted(orders[0]) == sorted(orders[1]) == [0, 1, 2, 3, 4]
    assert orders[0] != orders[1]
    part = mx.io.ImageRecordIter(paths[1], (3, 8, 10), 3, num_parts=2, part_index=1)
    assert part.next().label[0].asnumpy().tolist() == [2, 3, 4]


def test_the_last_batch_keeps_rows_of_the_one_before(paths: tuple[str, str]) -> None:
    data = mx.io.ImageRecordIter(paths[1], (3, 8, 10), 3, round_batch=False)
    for _ in range(2):
        labels = [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in data]
        assert labels == [([0, 1, 2], 0), ([3, 4, 2], 1)]
        data.reset()


def test_grey_and_dtype(paths: tuple[str, str]) -> None:
    batch = mx.io.ImageRecordIter(paths[1], (1, 8, 10), 2, dtype="uint8").next()
    assert batch.data[0].shape == (2, 1, 8, 10)
    assert batch.data[0].dtype == np.uint8


def test_chance_is_repeatable(paths: tuple[str, str]) -> None:
    options = {
        "rand_crop": True,
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


def test_crops_and_mirrors_are_parts_of_the_image() -> None:
    image = np.arange(6 * 8 * 3, dtype="uint8").reshape(6, 8, 3)
    augment = Augmentation((3, 4, 5), rand_crop=True, rand_mirror=True)
    windows = [
        (image[y : y + 4, x : x + 5], image[y : y + 4, x : x + 5][:, ::-1])
        for y in range(3)
        for x in range(4)
    ]
    random = np.random.RandomState(0)
    seen = set()
    for _ in range(60):
        found = augment(image, random).transpose(1, 2, 0)
        matches = [
            (place, side)
            for place, pair in enumerate(windows)
            for side, window in enumerate(pair)
            if np.array_equal(found, window)
        ]
        assert len(matches) == 1
        seen.update(matches)
    assert len({place for place, _ in seen}) == len(windows)
    assert {side for _, side in seen} == {0, 1}


def test_resizing_keeps_a_ramp() -> None:
    ramp = np.repeat(np.arange(0, 200, 10, dtype="uint8")[None, :, None], 4, axis=0)
    wider = resize_image(ramp, (4, 40))[0, :, 0].astype(int)
    np.testing.assert_allclose(wider[2:-2], np.arange(40)[2:-2] * 5 - 2.5, atol=0.51)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"data_shape": (4, 8, 10)}, UsageError, "expected \\(1 or 3, height, width\\)"),
        ({"label_width": 3}, ShapeError, "record 0 has 1 labels, label_width is 3"),
        ({"part_index": 1}, UsageError, "part_index 1 is not among 1"),
        ({"inter_method": 4}, UsageError, "inter_method is 4"),
        ({"random_resized_crop": True}, UsageError, "needs min_aspect_ratio"),
        ({"rotate": 30}, TypeError, "rotate"),
    ],
)
def test_what_is_refused(
    paths: tuple[str, str], options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mx.io.ImageRecordIter(paths[1], **{"data_shape": (3, 8, 10), "batch_size": 2, **options})


def test_a_record_that_is_no_image(tmp_path: Path) -> None:
    path = str(tmp_path / "bad.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    writer.write(mx.recordio.pack((0, 1.0, 0, 0), b"not an image"))
    writer.close()
    with pytest.raises(FormatError, match=r"bad\.rec: record 0: 12 bytes are no image"):
        mx.io.ImageRecordIter(path, (3, 8, 10), 1)
