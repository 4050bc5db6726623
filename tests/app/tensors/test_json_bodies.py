"""JSON bodies: parsing and refusals."""

from __future__ import annotations

import pytest

from app.errors.tree import Malformed
from app.tensors.json_bodies import parse_json


def test_broken_json_reports_the_position() -> None:
    with pytest.raises(Malformed, match=r"not JSON: .*line 2 column 8"):
        parse_json(b'{"a": 1,\n "b": [}]')
    assert parse_json(b"[1, 2.5, null]") == [1, 2.5, None]


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    parse_json(opening * 100 + b"1" + closing * 100)
    with pytest.raises(Malformed, match="more than 100 deep"):
        parse_json(opening * 101 + b"1" + closing * 101)
    with pytest.raises(Malformed, match="more than 100 deep"):
        parse_json(b'[0,{"b":[' + opening * 999 + b"1" + closing * 999 + b"]},2]")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"\x93NUMPY\x01\x00", "its byte 0 is not UTF-8; .*say which by Content-Type"),
        (b'{"name": "\xe9"}', "its byte 10 is not UTF-8"),
        (b"[NaN]", "JSON has no NaN"),
    ],
)
def test_what_is_not_json_is_named(body: bytes, said: str) -> None:
    with pytest.raises(Malformed, match=f"the body is not JSON: .*{said}"):
        parse_json(body)


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_json(b'\xef\xbb\xbf{"x": [1]}') == {"x": [1]}
    with pytest.raises(Malformed):
        parse_json(b"\xef\xbb\xbf{")
