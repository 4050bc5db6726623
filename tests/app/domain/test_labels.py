"""Class labels: reading files, and refusals."""

from __future__ import annotations

import pytest

from app.domain.labels import check_labels, parse_labels
from app.errors.tree import Invalid


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (b"cat\ndog\n", ("cat", "dog")),
        (b"\xef\xbb\xbfcat\r\ndog", ("cat", "dog")),
        (b"background\n\nn01440764 tench\n", ("background", "", "n01440764 tench")),
    ],
)
def test_one_label_per_line(content: bytes, labels: tuple[str, ...]) -> None:
    assert parse_labels(content) == labels


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff", b"x\n" * 140_000, b"x" * 1001])
def test_invalid_label_files_are_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="labels"):
        parse_labels(content)


def test_a_list_of_labels_has_strings_only() -> None:
    with pytest.raises(Invalid, match=r"labels\[1\]: got 3"):
        check_labels(["a", 3])
