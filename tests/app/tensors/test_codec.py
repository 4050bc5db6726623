"""Named tensors to and from bodies of every media type."""

from __future__ import annotations

import io
import json
import struct
from contextlib import suppress

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from app.errors.tree import Damaged, Invalid, UnsupportedMedia
from app.tensors.codec import (
    JSON,
    NPY,
    NPZ,
    SAFETENSORS,
    body_type,
    decode,
    encode,
    media_type,
    negotiate,
)

PAIR = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.array([1, -2], "int64")}
FORM = "application/x-www-form-urlencoded"


def read(content_type: str | None, body: bytes, *names: str) -> dict[str, np.ndarray]:
    return decode(content_type, body, names=names, limit=1 << 20, setting="SETTING")[0]


@pytest.mark.parametrize("kind", [JSON, NPZ, SAFETENSORS])
def test_encoded_tensors_decode_to_the_same(kind: str) -> None:
    body = encode(kind, PAIR, "inputs")
    for content_type in (kind, kind.upper(), f"{kind}; charset=utf-8", None, "", FORM):
        got = read(content_type, body)
        assert got.keys() == PAIR.keys()
        for name, array in PAIR.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_array_equal(got[name], array)


NUMBERS = arrays.arrays(
    st.sampled_from(["float32", "float64", "float16", "int8", "uint8", "int64", "uint64", "bool"]),
    arrays.array_shapes(min_dims=0, min_side=0, max_side=4),
    elements={"allow_nan": False, "allow_infinity": False},
)


@given(NUMBERS, st.sampled_from([JSON, NPY, NPZ, SAFETENSORS]))
def test_a_written_tensor_is_read_back_unchanged(array: np.ndarray, kind: str) -> None:
    (again,) = read(kind, encode(kind, {"x": array}, "inputs"), "x").values()
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize("shape", [(100_000,), (3, 40_000), (5, 7, 3000), (40_000, 0), (9000, 1)])
def test_large_json_is_decoded_like_small_json(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    written = json.loads(encode(JSON, {"x": array}, "outputs"))["outputs"]["x"]
    assert written == {"dtype": "float32", "shape": list(shape), "data": array.tolist()}


def test_nan_and_infinity_become_null_in_json() -> None:
    for array in (np.array([np.nan, np.inf, 1]), np.array(np.nan)):
        (data,) = (one["data"] for one in json.loads(encode(JSON, {"x": array}, "o"))["o"].values())
        assert data == ([None, None, 1] if array.ndim else None)


def test_other_libraries_read_what_is_encoded() -> None:
    plain = json.loads(encode(JSON, PAIR, "outputs", {"bucket": "20"}))
    assert plain["outputs"]["a"] == {
        "dtype": "float32",
        "shape": [2, 3],
        "data": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
    }
    assert plain["bucket"] == "20"
    with np.load(io.BytesIO(encode(NPZ, PAIR, ""))) as archive:
        np.testing.assert_array_equal(archive["b"], PAIR["b"])
    transposed = {"a": PAIR["a"].T}
    loaded = safetensors.numpy.load(encode(SAFETENSORS, transposed, ""))
    np.testing.assert_array_equal(loaded["a"], transposed["a"])


def test_an_npy_body_is_the_first_input() -> None:
    body = encode(NPY, {"a": PAIR["a"]}, "")
    for content_type in (NPY, "application/npy", FORM, "application/octet-stream"):
        assert list(read(content_type, body, "image", "lengths")) == ["image"]
    assert list(read(NPY, body)) == ["data"]


def test_json_may_have_other_members() -> None:
    body = b'{"inputs": {"data": [1]}, "bucket": "20", "is_train": true}'
    tensors, rest = decode(JSON, body, names=(), limit=1, setting="")
    assert list(tensors) == ["data"]
    assert rest == {"bucket": "20", "is_train": True}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[1]", "body"),
        (b"{}", "inputs"),
        (b'{"inputs": [1]}', "inputs"),
        (b'{"inputs": {"data": ["x"]}}', "inputs.data"),
    ],
)
def test_json_of_the_wrong_structure_is_refused(body: bytes, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(JSON, body)
    assert refused.value.field_errors()[0].field == field


def tensors_of(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: object, begin: object, end: object, dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_safetensors_are_views_in_the_order_of_their_bytes() -> None:
    header = {
        "__metadata__": {"format": "np"},
        "b": entry([1], 8, 12),
        "a": entry([2], 0, 8),
        "none": entry([0, 3], 12, 12),
    }
    body = tensors_of(header, np.array([1, 2, 3], "float32").tobytes())
    got = read(SAFETENSORS, body)
    assert {name: one.tolist() for name, one in got.items()} == {"a": [1, 2], "b": [3], "none": []}
    assert got["none"].shape == (0, 3)
    assert np.shares_memory(got["a"], np.frombuffer(body, "uint8"))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"a": entry([2], 0, 4)}, "begin and end of 8 bytes"),
        ({"a": entry([2], 4, 12)}, "begins at byte 4 instead of 0"),
        ({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, "begins at byte 0 instead of 4"),
        ({"a": entry([1], 0, 4)}, "8 bytes of data for tensors of 4"),
        ({"a": entry([3], 0, 12)}, "12"),
        ({"a": entry([-2], 0, 8)}, "sizes of at least 0"),
        ({"a": entry([0, 2**62], 0, 0)}, "fewer than"),
        ({"a": entry([1] * 65, 0, 4)}, "at most 32 axes"),
        ({"a": entry("ab", 0, 8)}, "sizes"),
        ({"a": entry([2], -8, 0)}, "begin and end"),
        ({"a": entry([2], 0.0, 8)}, "begin and end"),
        ({"a": entry([2], 0, 8, "F8_E4M3")}, "one of F16"),
        ({"a": entry([2], 0, 8, ["F32"])}, "one of F16"),
        ({"a": [2]}, "not an object with dtype"),
        ([1], "not an object"),
    ],
)
def test_inconsistent_safetensors_are_refused(header: object, text: str) -> None:
    with pytest.raises(Damaged, match=text):
        read(SAFETENSORS, tensors_of(header, bytes(8)))


@settings(max_examples=200)
@given(st.binary(max_size=12), st.integers(0, 300))
def test_corrupted_safetensors_are_read_or_refused(noise: bytes, at: int) -> None:
    whole = encode(SAFETENSORS, PAIR, "")
    with suppress(Damaged):
        read(SAFETENSORS, whole[:at] + noise + whole[at + len(noise) :])


@pytest.mark.parametrize("body", [b"", b"12345678{", b"\xff" * 20, bytes(8)])
def test_damaged_safetensors_are_refused(body: bytes) -> None:
    with pytest.raises(Damaged, match="a safetensors file"):
        read(SAFETENSORS, body)


def test_unsupported_media_types_are_refused_with_the_supported_ones() -> None:
    with pytest.raises(UnsupportedMedia, match=r"'image/png' is not read here.*x-safetensors"):
        read("image/png", b"")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, JSON),
        ("application/json; charset=utf-8", JSON),
        ("Application/X-NPY", NPY),
        ("application/zip", NPZ),
        ("application/vnd.safetensors", SAFETENSORS),
        ("text/csv", "text/csv"),
    ],
)
def test_media_types(header: str | None, expected: str) -> None:
    assert media_type(header) == expected


def test_a_declared_type_is_never_guessed() -> None:
    assert body_type(JSON, encode(NPZ, PAIR, "")) == JSON
    assert body_type("image/png", b"{}") == "image/png"


@pytest.mark.parametrize("body", [b'{"inputs"', b'        {"inputs": {}}', b"", b"{", b"\x93NUMP"])
def test_undetectable_bodies_are_json(body: bytes) -> None:
    assert body_type(None, body) == JSON


@pytest.mark.parametrize(
    ("accept", "single", "expected"),
    [
        (None, True, JSON),
        ("*/*", True, JSON),
        ("", True, JSON),
        ("text/html, application/x-npz;q=0.9", True, NPZ),
        ("application/x-npy, application/x-npz", True, NPY),
        ("application/x-npy, application/x-npz", False, NPZ),
        ("application/x-npy", False, JSON),
        ("application/safetensors", False, SAFETENSORS),
        ("image/png", True, JSON),
        ("application/x-npy;q=0", True, JSON),
        ("application/x-npy; Q=0.000", True, JSON),
        ("application/x-npy;q=0, application/x-npz", True, NPZ),
        ("application/x-npy;q=0.1, application/json", True, JSON),
        ("application/json;q=0.1, application/x-npy;q=0.2", True, NPY),
        ("application/x-npy, */*", True, NPY),
        ("*/*, application/x-npy", True, NPY),
        ("*/*, application/x-npy;q=0.9", True, JSON),
        ("application/json;q=0, application/x-npz;q=0.5", True, NPZ),
    ],
)
def test_the_answer_has_the_preferred_type(accept: str | None, single: bool, expected: str) -> None:
    assert negotiate(accept, single) == expected


@pytest.mark.parametrize(
    ("body", "shapes", "rest"),
    [
        (b'{"data": [[1, 2]]}', {"data": (1, 2)}, {}),
        (b'{"a": [1], "b": {"shape": [2], "data": [1, 2]}, "bucket": 3}', None, {"bucket": 3}),
        (b'{"inputs": {"data": [1]}, "extra": [2]}', {"data": (1,)}, {"extra": [2]}),
    ],
)
def test_inputs_without_the_inputs_member(body: bytes, shapes: dict | None, rest: dict) -> None:
    tensors, others = decode(JSON, body, names=["data"], limit=100, setting="LIMIT")
    assert {name: one.shape for name, one in tensors.items()} == (shapes or {"a": (1,), "b": (2,)})
    assert others == rest


@pytest.mark.parametrize("body", [b"{}", b'{"data": 1}', b'{"bucket": "3"}'])
def test_bodies_without_tensors(body: bytes) -> None:
    with pytest.raises(Invalid, match=r"inputs: .*expected tensors by name"):
        decode(JSON, body, names=["data"], limit=100, setting="LIMIT")
