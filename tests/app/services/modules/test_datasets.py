"""Datasets: streamed, checked, previewed, deleted; and malicious files."""

from __future__ import annotations

import io
import pickle
import struct
import threading
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.dataset import ArrayInfo, DatasetKind
from app.errors.tree import Damaged, InUse, Invalid, NotFound, TooLarge, Unavailable
from app.files import dataset_directory
from app.files.dataset_formats import inspect_file, load_arrays, preview_file
from app.files.durable_files import locked

K = DatasetKind
LIMIT = 1 << 20


def npy(array: np.ndarray, **options: bool) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def header_of(text: str, version: bytes = b"\x01\x00") -> bytes:
    raw = text.encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(raw)) + raw


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def record(data: bytes, flag: int = 0) -> bytes:
    head = struct.pack("<II", 0xCED7230A, flag << 29 | len(data))
    return head + data + bytes(-len(data) % 4)


IMAGES = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3)
LABELS = np.array([1.5, np.nan, 3, 4], np.float32)

GOOD = {
    "npz": (
        K.NPZ,
        npz(images=IMAGES, labels=LABELS),
        [("images", (4, 2, 3), "uint8"), ("labels", (4,), "float32")],
        4,
        {"images": [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]], "labels": [1.5, "nan"]},
    ),
    "npz of lengths": (
        K.NPZ,
        npz(x=IMAGES, y=np.arange(3, dtype=">i2"), z=np.array(7.0)),
        [("x", (4, 2, 3), "uint8"), ("y", (3,), "int16"), ("z", (), "float64")],
        None,
        {"x": [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]], "y": [0, 1], "z": [7.0]},
    ),
    "npz, Fortran order": (
        K.NPZ,
        npz(x=np.asfortranarray([[1, 2], [3, 4], [5, 6]])),
        [("x", (3, 2), "int64")],
        3,
        {"x": [[1, 2], [3, 4]]},
    ),
    "npy of Python 2": (
        K.NPY,
        header_of("{'descr': '|u1', 'fortran_order': False, 'shape': (2L,), }") + b"ab",
        [("data", (2,), "uint8")],
        2,
        {"data": [97, 98]},
    ),
    "npy": (
        K.NPY,
        npy(IMAGES[:, 0]),
        [("data", (4, 3), "uint8")],
        4,
        {"data": [[0, 1, 2], [6, 7, 8]]},
    ),
    "long rows": (
        K.NPY,
        npy(np.zeros((2, 2000))),
        [("data", (2, 2000), "float64")],
        2,
        {"data": [None, None]},
    ),
    "csv": (
        K.CSV,
        b"1,2,3\r\n4,5,6.5\n\n7,8,9",
        [("data", (3, 3), "float64")],
        3,
        {"data": [[1, 2, 3], [4, 5, 6.5]]},
    ),
    "csv with names": (
        K.CSV,
        b'x, "label"\n1,0\n2,1\n3,0\n',
        [("x", (3,), "float64"), ("label", (3,), "float64")],
        3,
        {"x": [1, 2], "label": [0, 1]},
    ),
    "jsonl": (
        K.JSONL,
        b'{"data": [[1, 2], [3, 4]], "label": 1}\n\n{"label": 0.5, "data": [[5, 6], [7, 8]]}',
        [("data", (2, 2, 2), "float64"), ("label", (2,), "float64")],
        2,
        {"data": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "label": [1, 0.5]},
    ),
    "jsonl of differing lengths": (
        K.JSONL,
        b'{"data": [1, 2, 3], "label": 1}\n{"data": [4], "label": 0}\n{"data": [], "label": 2}\n',
        [("data", (4,), "float64"), ("data_lengths", (3,), "int64"), ("label", (3,), "float64")],
        3,
        {"data": [1, 2, 3, 4], "data_lengths": [3, 1], "label": [1, 0]},
    ),
    "libsvm": (
        K.LIBSVM,
        b"1 0:0.5 3:2 # first\n-1 1:1\n0\n",
        [("data", (3, 4), "float32"), ("label", (3,), "float32")],
        3,
        {"data": [[0.5, 0, 0, 2], [0, 1, 0, 0]], "label": [1, -1]},
    ),
    "csv of texts": (
        K.CSV,
        b"\xef\xbb\xbfx;label\n1,5;no\n2;yes\n3;no\n",
        [("x", (3,), "float64"), ("label", (3,), "int64", ("no", "yes"))],
        3,
        {"x": [1.5, 2], "label": ["no", "yes"]},
    ),
    "jsonl with a byte order mark": (
        K.JSONL,
        b'\xef\xbb\xbf{"x": 1}\n{"x": 2}\n',
        [("x", (2,), "float64")],
        2,
        {"x": [1, 2]},
    ),
    "libsvm in UTF-16": (
        K.LIBSVM,
        "1 0:0.5\n0 1:2\n".encode("utf-16"),
        [("data", (2, 2), "float32"), ("label", (2,), "float32")],
        2,
        {"data": [[0.5, 0], [0, 2]], "label": [1, 0]},
    ),
    "text with a byte order mark": (K.TEXT, b"\xef\xbb\xbfa\nb\n", [], 2, {"lines": ["a", "b"]}),
    "text": (
        K.TEXT,
        "Call me Ishmaël.\nSome years ago\n".encode(),
        [],
        2,
        {"lines": ["Call me Ishmaël.", "Some years ago"]},
    ),
    "recordio": (
        K.RECORDIO,
        record(b"abc") + record(b"x" * 8, 1) + record(b"", 2) + record(b"y", 3) + record(b"z"),
        [],
        3,
        {},
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_contents_are_read_and_previewed(tmp_path: Path, case: str) -> None:
    kind, data, arrays, examples, preview = GOOD[case]
    path = tmp_path / "file"
    path.write_bytes(data)
    contents = inspect_file(path, kind, LIMIT)
    expected = [
        ArrayInfo(name=name, shape=shape, dtype=dtype, classes=tuple(*classes))
        for name, shape, dtype, *classes in arrays
    ]
    assert list(contents.arrays) == expected
    assert contents.examples == examples
    assert preview_file(path, kind, 2) == preview
    if not arrays:
        with pytest.raises(Invalid, match="dataset with arrays"):
            load_arrays(path, kind, ["data"], is_ours=True)
        return
    loaded = load_arrays(path, kind, [name for name, *_ in arrays], is_ours=True)
    for name, shape, dtype, *_ in arrays:
        assert loaded[name].shape == shape
        assert loaded[name].dtype.name == dtype
    with pytest.raises(Invalid, match="array: got nowhere"):
        load_arrays(path, kind, ["nowhere"], is_ours=True)


def test_loaded_values_are_those_saved(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(npz(images=IMAGES, labels=LABELS))
    loaded = load_arrays(path, K.NPZ, ["images"], is_ours=True)
    assert list(loaded) == ["images"]
    np.testing.assert_array_equal(loaded["images"], IMAGES)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


OBJECTS = np.array([Trap()], dtype=object)
GOOD_NPZ = GOOD["npz"][1]
HUGE = header_of("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 9999), }")
BOMB = zip_of({"x.npy": npy(np.zeros(LIMIT // 4))})

HARM = {
    "npy: pickle": (K.NPY, npy(OBJECTS, allow_pickle=True), Invalid, "pickled objects"),
    "npy: raw pickle": (K.NPY, pickle.dumps(OBJECTS), Damaged, "npy"),
    "npy: huge shape": (K.NPY, HUGE + bytes(64), Damaged, "expected 7,999,1"),
    "npy: truncated": (K.NPY, npy(IMAGES)[:-1], Damaged, "bytes"),
    "npy: too long": (K.NPY, npy(IMAGES) + b"x", Damaged, "bytes"),
    "npy: cut header": (K.NPY, npy(IMAGES)[:20], Damaged, "npy array"),
    "npy: long header": (
        *(K.NPY, header_of("{" + " " * 60000 + "}"), Damaged, "header of 60,002 bytes"),
    ),
    "npy: code in header": (*(K.NPY, header_of("__import__('os').abort()"), Damaged, "npy array"),),
    "npy: deep header": (K.NPY, header_of("(" * 9000), Damaged, "npy array"),
    "npy: negative shape": (
        K.NPY,
        header_of("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -8), }") + bytes(64),
        Damaged,
        "shape",
    ),
    "npy: strings": (K.NPY, npy(np.array(["a"])), Invalid, "numbers or booleans"),
    "npy: structured": (K.NPY, npy(np.zeros(2, "i4,f4")), Damaged, "numbers or booleans"),
    "npy: boolean in shape": (
        K.NPY,
        header_of("{'descr': '<f8', 'fortran_order': False, 'shape': (True,), }") + bytes(8),
        Damaged,
        "shape",
    ),
    "npy: version 3": (K.NPY, header_of("{}", b"\x03\x00"), Damaged, "version"),
    "npy: empty": (K.NPY, b"", Damaged, "npy"),
    "npz: empty": (K.NPZ, b"", Damaged, "npz"),
    "npz: no zip": (K.NPZ, npy(IMAGES), Damaged, "npz archive"),
    "npz: no arrays": (K.NPZ, zip_of({}), Damaged, "0 arrays"),
    "npz: truncated": (K.NPZ, GOOD_NPZ[: len(GOOD_NPZ) // 2], Damaged, "npz archive"),
    "npz: pickle": (
        *(K.NPZ, zip_of({"x.npy": npy(OBJECTS, allow_pickle=True)}), Damaged, "a pickle with"),
    ),
    "npz: stranger": (K.NPZ, zip_of({"x.npy": npy(IMAGES), "run.sh": b"x"}), Damaged, "run.sh"),
    "npz: path": (K.NPZ, zip_of({"../../x.npy": npy(IMAGES)}), Damaged, "separators"),
    "npz: absolute path": (K.NPZ, zip_of({"/x.npy": npy(IMAGES)}), Damaged, "separators"),
    "npz: bomb": (K.NPZ, BOMB, TooLarge, "2,097,"),
    "npz: bomb in the header": (K.NPZ, zip_of({"x.npy": HUGE}), Damaged, "bytes for shape"),
    "npz: many members": (
        *(K.NPZ, zip_of({f"{i}.npy": b"" for i in range(1001)}), Damaged, "1001 arrays"),
    ),
    "npz: lzma": (
        *(K.NPZ, zip_of({"x.npy": npy(IMAGES)}, zipfile.ZIP_LZMA), Damaged, "compression 14"),
    ),
    "csv: empty": (K.CSV, b"", Damaged, "distinct names, or numbers"),
    "csv: ragged": (K.CSV, b"1,2\n3\n", Damaged, "line 2: got 1 cells, expected 2"),
    "csv: word": (K.CSV, b"1,2\n3,x\n", Damaged, "line 2.*'x'"),
    "csv: only names": (K.CSV, b"a,b\n", Damaged, "no rows"),
    "csv: same names": (K.CSV, b"a,a\n1,2\n", Damaged, "line 1"),
    "csv: too many": (K.CSV, b"1,2,3,4\n" * (1 << 16), TooLarge, "limit is 1,048,576"),
    "csv: binary": (K.CSV, b"\xff\xfe\x00", Damaged, "UTF-8"),
    "jsonl: empty": (K.JSONL, b"\n", Damaged, "no examples"),
    "jsonl: no object": (K.JSONL, b"[1, 2]\n", Damaged, "line 1"),
    "jsonl: no JSON": (K.JSONL, b'{"x": 1}\n{"x": \n', Damaged, "line 2"),
    "jsonl: other names": (K.JSONL, b'{"x": 1}\n{"y": 1}\n', Damaged, "line 2.*got y, expected x"),
    "jsonl: word": (K.JSONL, b'{"x": "a"}\n', Damaged, "line 1, x.*lists of numbers"),
    "jsonl: uneven": (K.JSONL, b'{"x": [[1], [2, 3]]}\n', Damaged, "equal length"),
    "jsonl: other rank": (K.JSONL, b'{"x": [1]}\n{"x": 1}\n', Damaged, r"expected shape \(any\)"),
    "jsonl: infinite": (K.JSONL, b'{"x": 1e999}\n', Damaged, "line 1"),
    "jsonl: name of lengths": (
        *(K.JSONL, b'{"x": [1], "x_lengths": 1}\n{"x": [1, 2], "x_lengths": 2}\n', Damaged),
        "another name",
    ),
    "jsonl: too many": (K.JSONL, b'{"x": [1, 2, 3, 4]}\n' * (1 << 16), TooLarge, "1,048,576"),
    "libsvm: empty": (K.LIBSVM, b"\n", Damaged, "no rows"),
    "libsvm: wide": (K.LIBSVM, b"1 2000000000:1\n", TooLarge, "limit"),
    "libsvm: negative": (K.LIBSVM, b"1 -1:1\n", Damaged, "line 1"),
    "libsvm: words": (K.LIBSVM, b"1 0:1\nyes 0:1\n", Damaged, "line 2"),
    "libsvm: no index": (K.LIBSVM, b"1 5\n", Damaged, "line 1"),
    "libsvm: underscore": (K.LIBSVM, b"1 0:1_000\n", Damaged, "line 1"),
    "libsvm: label": (K.LIBSVM, b"nan 0:1\n", Damaged, "finite label"),
    "text: binary": (K.TEXT, b"ok\n\xff\xff", Damaged, "line 2"),
    "recordio: magic": (K.RECORDIO, b"x" * 16, Damaged, "magic"),
    "recordio: truncated": (K.RECORDIO, record(b"abcd")[:-1], Damaged, "whole record"),
    "recordio: cut head": (K.RECORDIO, record(b"") + b"\n", Damaged, "header of 8 bytes"),
    "recordio: unfinished": (K.RECORDIO, record(b"a", 1), Damaged, "rest of a record"),
    "recordio: out of order": (K.RECORDIO, record(b"a", 2), Damaged, "does not fit"),
    "recordio: flag": (K.RECORDIO, record(b"a", 5), Damaged, "flag 5"),
}


def left_of(bench, *names: str) -> bool:
    """Return whether only these datasets' files and records exist."""
    files = {bench.datasets.get(name).file_name for name in names}
    there = {path.name for path in (bench.data_dir / "datasets").iterdir()}
    return there == files | {f"{name}.json" for name in names}


@pytest.mark.parametrize("case", HARM)
def test_malicious_files_are_refused(bench, case: str) -> None:
    kind, data, error, message = HARM[case]
    with pytest.raises(error, match=message):
        bench.upload("harm", data, kind)
    with pytest.raises(NotFound):
        bench.datasets.get("harm")
    assert left_of(bench, "digits")


def test_lines_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1," * (1 << 20))
    with pytest.raises(Damaged, match="line 1: got a longer line"):
        inspect_file(path, K.CSV, 1 << 30)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    case=st.sampled_from(sorted(GOOD)),
    position=st.floats(0, 1),
    value=st.binary(max_size=4),
    cut=st.booleans(),
)
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, case: str, position: float, value: bytes, cut: bool
) -> None:
    kind, data, *_ = GOOD[case]
    at = int(position * len(data))
    harmed = data[:at] + value + (b"" if cut else data[at + len(value) :])
    path = tmp_path / "file"
    path.write_bytes(harmed)
    try:
        contents = inspect_file(path, kind, LIMIT)
    except (Damaged, TooLarge):
        return
    preview_file(path, kind, 3)
    if contents.arrays:
        loaded = load_arrays(path, kind, [array.name for array in contents.arrays], is_ours=True)
        for array in contents.arrays:
            assert loaded[array.name].shape == array.shape


async def chunks(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def test_a_stream_becomes_a_dataset(bench) -> None:
    data = npy(np.arange(50_000))
    stored = await bench.datasets.put("big", K.NPY, chunks(data))
    assert stored.size == len(data)
    assert stored.examples == 50_000
    assert bench.datasets.path(stored).read_bytes() == data
    assert bench.datasets.get("big") == stored
    assert [found.name for found in bench.datasets.list_datasets().items] == ["big", "digits"]


async def test_an_oversized_stream_is_cut_off_early(bench) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1 << 18
            yield bytes(1 << 18)

    with pytest.raises(TooLarge, match="MODSERVE_MAX_DATASET_BYTES"):
        await bench.datasets.put("big", K.TEXT, endless())
    assert read <= 4 * LIMIT
    with pytest.raises(TooLarge, match="got 2,000,000"):
        await bench.datasets.put("big", K.TEXT, endless(), announced_bytes=2_000_000)
    assert left_of(bench, "digits")


async def test_a_broken_stream_leaves_nothing(bench) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"1,2\n"
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await bench.datasets.put("x", K.CSV, breaks())
    assert left_of(bench, "digits")


@pytest.mark.parametrize("name", ["..", "../x", "a/b", ".x", "", "x\0"])
async def test_names_are_never_paths(bench, name: str) -> None:
    for call in (bench.datasets.get, bench.datasets.delete, bench.datasets.preview):
        with pytest.raises(Invalid, match="name"):
            call(name)
    with pytest.raises(Invalid, match="name"):
        await bench.datasets.put(name, K.TEXT, chunks(b"x"))


def test_the_same_content_is_the_same_dataset_and_other_content_replaces_it(bench) -> None:
    first = bench.upload("x", b"1,2\n", K.CSV)
    bench.clock.now += 1
    assert bench.upload("x", b"1,2\n", K.CSV) == first
    second = bench.upload("x", b"1,2\n3,4\n", K.CSV)
    assert second.etag != first.etag
    with pytest.raises(Damaged, match="no file"):
        bench.datasets.path(first)
    assert bench.datasets.preview("x") == {"data": [[1, 2], [3, 4]]}


def test_a_damaged_file_is_repaired_by_uploading_it_again(bench) -> None:
    first = bench.upload("x", b"1,2\n", K.CSV)
    file = bench.datasets.path(first)
    for harm in (lambda: file.write_bytes(b"1,3\n"), lambda: file.write_bytes(b"1"), file.unlink):
        harm()
        assert bench.upload("x", b"1,2\n", K.CSV) == first
        assert bench.datasets.path(first).read_bytes() == b"1,2\n"


def test_the_dataset_of_an_unfinished_job_cannot_be_deleted(bench) -> None:
    job = bench.fit()
    before = bench.datasets.get("digits")
    with pytest.raises(InUse):
        bench.datasets.delete("digits")
    with pytest.raises(InUse):
        bench.upload("digits", b"1,2\n", K.CSV)
    assert bench.datasets.path(before).exists()
    bench.jobs.cancel(job.id)
    bench.datasets.delete("digits")
    assert list((bench.data_dir / "datasets").iterdir()) == []
    with pytest.raises(NotFound):
        bench.datasets.delete("digits")


@pytest.mark.parametrize("rows", [0, 101, -1])
def test_previews_are_limited(bench, rows: int) -> None:
    with pytest.raises(Invalid, match="rows"):
        bench.datasets.preview("digits", rows)


def test_waiting_for_a_stuck_writer_times_out(bench, monkeypatch) -> None:
    monkeypatch.setattr(dataset_directory, "_LONGEST_SECONDS", 0.05)
    with locked(bench.data_dir / "datasets"):
        with pytest.raises(Unavailable, match="makes no progress"):
            bench.datasets.delete("digits")
        with pytest.raises(Unavailable, match="makes no progress"):
            bench.upload("more", npy(IMAGES), K.NPY)
    assert [path.name for path in (bench.data_dir / "datasets").glob(".*")] == []
    bench.datasets.delete("digits")


async def test_files_are_read_and_written_off_the_event_loop(bench, monkeypatch) -> None:
    threads: list[int] = []
    for name in ("open", "unlink"):
        monkeypatch.setattr(Path, name, noting(getattr(Path, name), threads))

    async def body() -> AsyncIterator[bytes]:
        yield npy(IMAGES)

    await bench.datasets.put("images", K.NPY, body())
    assert len(threads) >= 2
    assert threading.get_ident() not in threads


def noting(function: Callable[..., Any], threads: list[int]) -> Callable[..., Any]:
    def note(*arguments: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        return function(*arguments, **named)

    return note
