"""Text files: folders, malformed input, and shuffled digits."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, MXNetError, ShapeError, UsageError


def test_all_files_of_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n")
    (tmp_path / "b.csv").write_text("3,4\n5,6\n")
    data = mx.io.CSVIter(str(tmp_path), (2,), 3, data_name="x", label_name="y")
    assert isinstance(data, mx.io.MXDataIter)
    assert data.next().data[0].asnumpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.provide_data[0].name == "x"
    assert data.provide_label == [mx.io.DataDesc("y", (3,))]


@pytest.mark.parametrize(
    ("text", "options", "error", "words"),
    [
        ("1,2\n3,x\n", {}, FormatError, "data: .*'x'"),
        ("1,2\n3\n", {}, FormatError, "number of columns changed"),
        ("1,2,3\n", {}, ShapeError, r"3 numbers in a row, shape \(2,\) needs 2"),
        ("1,2\n", {"batch_size": 2}, UsageError, "1 rows, batches of 2"),
        ("", {}, UsageError, "0 rows"),
        ("1,2\n", {"batch_size": 0}, UsageError, "expected 1 or more"),
        ("1,2\n", {"dtype": "float16"}, UsageError, "CSVIter reads float32"),
    ],
)
def test_malformed_csv_is_refused(
    tmp_path: Path, text: str, options: dict[str, object], error: type[Exception], words: str
) -> None:
    (tmp_path / "data").write_text(text)
    with pytest.raises(error, match=words):
        mx.io.CSVIter(str(tmp_path / "data"), (2,), **{"batch_size": 1, **options})


def test_csv_data_and_labels_must_have_equal_length(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("1,2\n3,4\n")
    (tmp_path / "label").write_text("1\n")
    with pytest.raises(ShapeError, match=r"1 rows, .* has 2"):
        mx.io.CSVIter(str(tmp_path / "data"), (2,), 1, str(tmp_path / "label"))
    with pytest.raises(MXNetError, match="does not exist"):
        mx.io.CSVIter(str(tmp_path / "absent"), (2,), 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 0:2\nx 0:1\n", "line 2: could not convert"),
        ("1 0:2 1\n", "line 1"),
        ("1 3:2\n", "columns go from 3 to 3; a row has 3"),
        ("1 -1:2\n", "columns go from -1"),
    ],
)
def test_malformed_libsvm_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "data").write_text(text)
    with pytest.raises(FormatError, match=words):
        mx.io.LibSVMIter(str(tmp_path / "data"), (3,), 1)


def test_parts_of_libsvm_files_cover_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("".join(f"{row} 0:{row}\n" for row in range(5)))
    found = [
        [
            batch.label[0].asscalar()
            for batch in mx.io.LibSVMIter(str(path), (3,), 1, num_parts=2, part_index=part)
        ]
        for part in range(2)
    ]
    assert found == [[0, 1], [2, 3, 4]]
    batch = mx.io.LibSVMIter(str(path), (3,), 2).next()
    assert batch.data[0].stype == "csr"
    batch.data[0].check_format()
    with pytest.raises(UsageError, match="part_index 2"):
        mx.io.LibSVMIter(str(path), (3,), 1, num_parts=2, part_index=2)
    with pytest.raises(UsageError, match="round_batch=True"):
        mx.io.LibSVMIter(str(path), (3,), 1, round_batch=False)


def _digits(tmp_path: Path, count: int = 6) -> tuple[str, str]:
    pixels = np.repeat(np.arange(count, dtype="uint8"), 784)
    image, label = tmp_path / "images.gz", tmp_path / "labels"
    image.write_bytes(gzip.compress(struct.pack(">4I", 2051, count, 28, 28) + pixels.tobytes()))
    label.write_bytes(struct.pack(">2I", 2049, count) + bytes(range(count)))
    return str(image), str(label)


def test_shuffled_digits_keep_their_labels(tmp_path: Path) -> None:
    data = mx.io.MNISTIter(*_digits(tmp_path), batch_size=2, seed=3)
    labels = []
    for batch in data:
        for picture, label in zip(batch.data[0].asnumpy(), batch.label[0].asnumpy(), strict=True):
            assert (picture == label / 256).all()
            labels.append(int(label))
    assert sorted(labels) == list(range(6))
    assert labels != sorted(labels)


def test_shapes_given_by_old_scripts_are_checked(tmp_path: Path) -> None:
    paths = _digits(tmp_path)
    data = mx.io.MNISTIter(*paths, batch_size=2, flat=True, data_shape=(784,))
    assert data.next().data[0].shape == (2, 784)
    with pytest.raises(ShapeError, match=r"input_shape is \(100,\)"):
        mx.io.MNISTIter(*paths, batch_size=2, input_shape=(100,))


def test_malformed_digits_are_refused(tmp_path: Path) -> None:
    image, label = _digits(tmp_path)
    with pytest.raises(FormatError, match="no idx file of bytes with 3 dimensions"):
        mx.io.MNISTIter(label, label)
    with pytest.raises(MXNetError, match="cannot be read"):
        mx.io.MNISTIter(label + ".gz", label)
    Path(label).write_bytes(struct.pack(">2I", 2049, 7) + bytes(6))
    with pytest.raises(FormatError, match=r"holds 6 values, its shape \(7,\)"):
        mx.io.MNISTIter(image, label)
    Path(label).write_bytes(struct.pack(">2I", 2049, 5) + bytes(5))
    with pytest.raises(ShapeError, match=r"6 images, .* 5 labels"):
        mx.io.MNISTIter(image, label)


def test_prefetching_iterator_joins_its_iterators() -> None:
    def iterator(name: str, rows: int = 6) -> mx.io.NDArrayIter:
        return mx.io.NDArrayIter({name: np.arange(rows)}, {"l" + name: np.arange(rows)}, 2)

    joined = mx.io.PrefetchingIter(
        [iterator("a"), iterator("b")], rename_data=[{"a": "x"}, {"b": "y"}]
    )
    assert [desc.name for desc in joined.provide_data] == ["x", "y"]
    assert [desc.name for desc in joined.provide_label] == ["la", "lb"]
    for _ in range(2):
        seen = [batch.data[1].asnumpy().tolist() for batch in joined]
        assert seen == [[0, 1], [2, 3], [4, 5]]
        joined.reset()
    joined.next()
    joined.reset()
    assert joined.next().data[0].asnumpy().tolist() == [0, 1]
    assert joined.getpad() == 0
    uneven = mx.io.PrefetchingIter([iterator("a"), iterator("b", 4)])
    with pytest.raises(AssertionError, match="mismatches"):
        list(uneven)
    with pytest.raises(UsageError, match="needs an iterator"):
        mx.io.PrefetchingIter([])


def test_errors_in_the_prefetch_thread_are_raised() -> None:
    class Broken(mx.io.NDArrayIter):
        def next(self) -> mx.io.DataBatch:
            raise OSError("disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        mx.io.PrefetchingIter(Broken(np.zeros(4), batch_size=2)).next()
