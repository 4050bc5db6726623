"""RecordIO files: reading, damage, and images."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, MXNetError, UsageError
from oracle import golden_file
from oracle.topics.files import MAGIC, RECORDS


@pytest.fixture
def mxnet_file(tmp_path: Path) -> Path:
    """A file of records written by MXNet."""
    golden = golden_file.topic("files")
    path = tmp_path / "x.rec"
    path.write_bytes(golden["recordio/records"].tobytes())
    path.with_suffix(".idx").write_bytes(golden["recordio/index"].tobytes())
    return path


def test_mxnet_files_are_read(mxnet_file: Path) -> None:
    reader = mx.recordio.MXRecordIO(str(mxnet_file), "r")
    assert [reader.read() for _ in RECORDS] == list(RECORDS)
    assert reader.read() is None
    reader.reset()
    assert reader.read() == RECORDS[0]


def test_indexed_records_are_read_in_any_order(mxnet_file: Path) -> None:
    paths = str(mxnet_file.with_suffix(".idx")), str(mxnet_file)
    reader = mx.recordio.MXIndexedRecordIO(*paths, "r")
    assert reader.keys == list(range(len(RECORDS)))
    for key in np.random.RandomState(0).permutation(len(RECORDS)):
        assert reader.read_idx(key) == RECORDS[key]
    with pytest.raises(KeyError):
        reader.seek(99)
    named = mx.recordio.MXIndexedRecordIO(*paths, "r", key_type=str)
    assert named.read_idx("2") == RECORDS[2]


def test_readers_can_be_pickled(mxnet_file: Path) -> None:
    reader = mx.recordio.MXIndexedRecordIO(
        str(mxnet_file.with_suffix(".idx")), str(mxnet_file), "r"
    )
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.read_idx(4) == RECORDS[4]
    closed = pickle.loads(pickle.dumps(reader))
    assert not closed.is_open
    with pytest.raises(UsageError, match=r"is closed; call open\(\)"):
        closed.read()


def test_invalid_calls_are_refused(tmp_path: Path, mxnet_file: Path) -> None:
    with pytest.raises(ValueError, match="Invalid flag 'a'"):
        mx.recordio.MXRecordIO(str(mxnet_file), "a")
    with pytest.raises(MXNetError, match="cannot be opened: No such file"):
        mx.recordio.MXRecordIO(str(tmp_path / "absent"), "r")
    reader = mx.recordio.MXRecordIO(str(mxnet_file), "r")
    with pytest.raises(AssertionError, match="open with flag 'r'"):
        reader.write(b"x")
    reader.pid = -1
    with pytest.raises(RuntimeError, match="multiple processes"):
        reader.read()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data[:-1], "cut off"),
        (lambda data: data[:3], "no record starts at byte 0"),
        (lambda data: b"\0" + data[1:], "no record starts"),
        (lambda data: data[:4] + b"\xff\xff\xff\x1f" + data[8:], "cut off"),
        (lambda data: data[:4] + b"\x03\0\0\x60" + data[8:], "out of order"),
        (lambda data: data[:4] + b"\x03\0\0\x20" + data[8:], "out of order|cut off"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, spoil: object, words: str) -> None:
    path = tmp_path / "x.rec"
    writer = mx.recordio.MXRecordIO(str(path), "w")
    for one in (b"abc", b"defg"):
        writer.write(one)
    writer.close()
    path.write_bytes(spoil(path.read_bytes()))  # type: ignore[operator]
    reader = mx.recordio.MXRecordIO(str(path), "r")
    with pytest.raises(FormatError, match=words):
        list(iter(reader.read, None))


def test_damaged_indices_are_refused(tmp_path: Path, mxnet_file: Path) -> None:
    index = tmp_path / "bad.idx"
    index.write_text("0\t0\n1 x\n")
    with pytest.raises(FormatError, match=r"bad\.idx, line 2"):
        mx.recordio.MXIndexedRecordIO(str(index), str(mxnet_file), "r")


def test_headers_with_one_and_several_labels_are_read() -> None:
    for name, header in (("one", (0, 2.5, 7, 1)), ("several", (3, [1, 2, 3], 9, 0))):
        packed = golden_file.topic("files")[f"packed/{name}"].tobytes()
        found, content = mx.recordio.unpack(packed)
        assert content == b"data"
        assert (found.flag, found.id, found.id2) == (header[0], header[2], header[3])
        np.testing.assert_array_equal(found.label, header[1])
    with pytest.raises(FormatError, match="too short for its header"):
        mx.recordio.unpack(b"short")
    with pytest.raises(FormatError, match="too short for 3 labels"):
        mx.recordio.unpack(golden_file.topic("files")["packed/several"].tobytes()[:26])


def test_images_in_records_are_packed_and_decoded() -> None:
    pytest.importorskip("PIL")
    y, x = np.mgrid[:16, :24]
    image = np.stack([10 * y, 5 * x, 100 + y + x], axis=-1).astype("uint8")
    header, found = mx.recordio.unpack_img(
        mx.recordio.pack_img((0, 3.0, 1, 0), image, quality=3, img_fmt=".png")
    )
    assert header.label == 3.0
    np.testing.assert_array_equal(found, image)
    _, lossy = mx.recordio.unpack_img(mx.recordio.pack_img((0, 3.0, 1, 0), image))
    assert np.abs(lossy.astype(int) - image).mean() < 3
    grey = mx.recordio.encode_image(image[..., 0], 3, ".png")
    np.testing.assert_array_equal(mx.recordio.decode_image(grey), image[..., 0])
    assert mx.recordio.decode_image(grey, 1).shape == (16, 24, 3)
    assert mx.recordio.decode_image(mx.recordio.encode_image(image, 3, ".png"), 0).ndim == 2
    with pytest.raises(FormatError, match="are not an image"):
        mx.recordio.decode_image(b"not one")
    with pytest.raises(UsageError, match=r"use \.jpg or \.png"):
        mx.recordio.encode_image(image, 3, ".gif")
    with pytest.raises(UsageError, match="expected uint8"):
        mx.recordio.encode_image(image.astype("float32"))


def test_the_magic_number_may_occur_in_the_data(tmp_path: Path) -> None:
    path = str(tmp_path / "x.rec")
    records = [
        bytes(lead) + MAGIC * count + bytes(rest)
        for lead in range(5)
        for count in (1, 2)
        for rest in range(5)
    ]
    writer = mx.recordio.MXRecordIO(path, "w")
    for one in records:
        writer.write(one)
    writer.close()
    reader = mx.recordio.MXRecordIO(path, "r")
    assert [reader.read() for _ in records] == records
