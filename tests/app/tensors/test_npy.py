"""npy and npz: compatible with NumPy, and refused where malformed."""

from __future__ import annotations

import ast
import io
import struct
import tracemalloc
import warnings
import zipfile
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from app.errors.tree import Damaged, Invalid, TooLarge
from app.tensors.npy import read_npy, read_npz, write_npy, write_npz

LIMIT = 1 << 20


def saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def zipped(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


ARRAYS = arrays.arrays(
    st.sampled_from(["<f4", ">f4", "<f8", "<f2", "i1", "<u8", "?"]),
    arrays.array_shapes(min_dims=0, min_side=0, max_side=5),
)


@given(ARRAYS)
def test_what_numpy_saves_is_read(array: np.ndarray) -> None:
    for one in (array, np.asfortranarray(array)):
        got = read_npy(saved(one), "body")
        assert (got.shape, got.dtype) == (one.shape, one.dtype)
        np.testing.assert_array_equal(got, one)


@given(ARRAYS)
def test_numpy_reads_what_is_written(array: np.ndarray) -> None:
    got = np.load(io.BytesIO(write_npy(array)))
    assert (got.shape, got.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(got, array)
    with np.load(io.BytesIO(write_npz({"a/b": array}))) as archive:
        np.testing.assert_array_equal(archive["a/b"], array)


def test_no_copy_is_made() -> None:
    body = saved(np.arange(1000, dtype="float32"))
    assert np.shares_memory(read_npy(body, "body"), np.frombuffer(body, "uint8"))


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "at its start"),
        (b"\x93NUMPY", "at its start"),
        (b"\x93NUMPY\x01\x00\x00", "an npy array of numbers"),
        (saved(np.zeros(3))[:-1], "23 bytes of data, expected 24 bytes"),
        (saved(np.zeros(3)) + b"x", "25 bytes of data, expected 24 bytes"),
        (saved(np.array(["a"])), "dtype <U1, expected an npy array of numbers"),
        (saved(np.array([1j])), "dtype complex128"),
        (saved(np.zeros(2, [("a", "f4")])), "expected an npy array of numbers"),
        (
            header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
            "dtype object.* pickled objects are only read in npz datasets",
        ),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
            r"sizes of at least 0, the shape is \(-1,\)",
        ),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999, 99999)}"),
            "bytes for float32",
        ),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}"),
            "fewer than 2\\*\\*63 bytes of float32",
        ),
        (
            header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0, {10**30})}}"),
            "fewer than 2\\*\\*63 bytes of float32",
        ),
        (
            header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'1, ' * 65})}}"),
            "at most 32 axes",
        ),
        (header("{'descr': '<f4'}"), "not a dict of descr, fortran_order and shape"),
        (header("{'descr': 4, 'fortran_order': False, 'shape': ()}"), "the dtype is 4"),
        (header("(" * 300), "too many nested parentheses"),
        (header("{'descr': '<f4'{"), "an npy array of numbers"),
        (header("x", b"\x03\x00"), "version 1.0 or 2.0"),
        (header(" " * 20_000), "a header of 20,000 bytes, expected at most 10,000"),
    ],
)
def test_malformed_headers_are_refused(body: bytes, text: str) -> None:
    with pytest.raises(Invalid, match=text):  # Damaged is a subclass
        read_npy(body, "body")


@settings(max_examples=200)
@given(st.binary(max_size=200), st.integers(0, 100))
def test_corrupted_files_are_read_or_refused(noise: bytes, at: int) -> None:
    whole = saved(np.arange(6, dtype="float32"))
    for body in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        with suppress(Invalid):
            read_npy(body, "body")


@settings(max_examples=300)
@given(st.binary(min_size=1, max_size=6), st.integers(0, 400), st.booleans())
def test_corrupted_archives_are_read_or_refused(noise: bytes, at: int, cut: bool) -> None:
    whole = zipped(a=np.arange(6, dtype="float32"), b=np.arange(50))
    at %= len(whole)
    with suppress(Invalid, TooLarge):
        read_npz(whole[:at] + noise + (b"" if cut else whole[at + len(noise) :]), LIMIT, "SETTING")


def test_a_race_in_pythons_literal_parser_is_not_blamed_on_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = ["AST constructor recursion depth mismatch (before=39, after=35)"] * 2
    evaluate = ast.literal_eval

    def fails_twice(text: str) -> object:
        if faults:
            raise SystemError(faults.pop())
        return evaluate(text)

    body = write_npy(np.arange(3))
    monkeypatch.setattr(ast, "literal_eval", fails_twice)
    np.testing.assert_array_equal(read_npy(body, "x"), np.arange(3))
    assert faults == []


def test_arrays_of_an_archive_are_read_by_name() -> None:
    given = {"a": np.arange(3), "b": np.ones((2, 2), "float32")}
    got = read_npz(zipped(**given), LIMIT, "SETTING")
    assert got.keys() == given.keys()
    assert all(np.array_equal(got[name], given[name]) for name in given)


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused() -> None:
    with pytest.raises(TooLarge, match=r"the npz file unpacked: got .* raise SETTING"):
        read_npz(zipped(a=np.zeros(LIMIT, "uint8")), LIMIT, "SETTING")


def test_an_archive_with_a_false_uncompressed_size_is_refused() -> None:
    whole = zipped(a=np.zeros(LIMIT * 2, "uint8"))
    size = struct.pack("<I", len(saved(np.zeros(LIMIT * 2, "uint8"))))
    assert whole.count(size) >= 1
    with pytest.raises(Damaged):
        read_npz(whole.replace(size, struct.pack("<I", 200)), LIMIT, "SETTING")


def test_other_members_and_other_files_are_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(Damaged, match=r"readme.txt: .* only npy members"):
        read_npz(stream.getvalue(), LIMIT, "SETTING")
    with pytest.raises(Damaged, match="not an npz file"):
        read_npz(b"PK\x03\x04" + bytes(50), LIMIT, "SETTING")
    with pytest.raises(Damaged):
        read_npz(zipped(a=np.zeros(100))[:-30], LIMIT, "SETTING")


def archive_of(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # with duplicate names
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name, content in entries:
                archive.writestr(name, content)
    return stream.getvalue()


def test_duplicate_names_are_refused() -> None:
    body = archive_of(("a.npy", saved(np.zeros(1))), ("a.npy", saved(np.ones(1))))
    with pytest.raises(Damaged, match=r"entry 'a.npy' twice"):
        read_npz(body, LIMIT, "SETTING")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method: int) -> None:
    with pytest.raises(Damaged, match="stored or deflated"):
        read_npz(archive_of(("a.npy", saved(np.zeros(9))), method=method), LIMIT, "SETTING")


def test_a_directory_with_too_many_entries_is_not_read() -> None:
    body = archive_of(*((f"{number}.npy", b"") for number in range(25_000)))
    with pytest.raises(Damaged, match="directory has over"):
        read_npz(body, LIMIT, "SETTING")


def test_an_entry_that_holds_more_than_it_declares_is_refused() -> None:
    content = saved(np.zeros(1000))
    body = archive_of(("a.npy", content), method=zipfile.ZIP_DEFLATED)
    size = struct.pack("<I", len(content))
    assert body.count(size) == 2
    for declared in (len(content) - 800, len(content) + 800):
        with pytest.raises(Damaged):
            read_npz(body.replace(size, struct.pack("<I", declared)), LIMIT, "SETTING")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_members_of_an_archive_are_copied_once(save: Any) -> None:
    """Another copy would be made by BytesIO, which keeps all other threads waiting meanwhile."""
    array = np.zeros(1 << 22, np.float32)
    stream = io.BytesIO()
    save(stream, data=array)
    body = stream.getvalue()
    tracemalloc.start()
    try:
        (found,) = read_npz(body, array.nbytes * 2, "LIMIT").values()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert array.nbytes <= peak < 1.7 * array.nbytes
    np.testing.assert_array_equal(found, array)
