"""Names never become paths."""

from __future__ import annotations

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.names import check_name, check_name_of_file
from app.errors.tree import Invalid


@pytest.mark.parametrize("name", ["a", "LeNet-5", "resnet.v2_b", "0", "x" * 128, "a..b"])
def test_valid_names_are_returned(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", ".hidden", "-rf", "_x"),
        *("a\n", "a\0b", "a b", "ä", "x" * 129, "%2e%2e", "~", "a:b", None, 3, ["a"]),
    ],
)
def test_everything_else_is_refused(name: object) -> None:
    with pytest.raises(Invalid, match="name: got"):
        check_name(name)


def test_names_of_files_begin_with_any_name_of_a_module() -> None:
    for ending in ("-symbol.json", "-0012.params", "-1234567890-symbol.json"):
        assert check_name_of_file("x" * 128 + ending)
    for name in ("x" * 193, "../x", ".x", "a/b"):
        with pytest.raises(Invalid, match=r"file: got .* expected 1 to 192 of"):
            check_name_of_file(name)


@pytest.mark.parametrize(
    ("text", "tag"), [("0", (0, 0)), ("3", (3, 0)), ("3.120", (3, 120)), (7, (7, 0))]
)
def test_tags_are_parsed(text: object, tag: tuple[int, int]) -> None:
    assert CheckpointTag.parse(text) == tag
    assert str(CheckpointTag.parse(text)) == str(text)


@pytest.mark.parametrize(
    "text", ["", "03", "3.", "3.0", "-1", "+1", "3.1.2", "..", "1e3", "٣", None]
)
def test_invalid_tags_are_refused(text: object) -> None:
    with pytest.raises(Invalid, match="epoch"):
        CheckpointTag.parse(text)
