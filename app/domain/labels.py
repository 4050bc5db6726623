"""The names of an output's classes, one per line as in synset.txt."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors.tree import Invalid

__all__ = ["check_labels", "parse_labels"]

_MOST_LABELS = 1 << 17
_LONGEST_LABEL = 1000
_MOST_LETTERS = 1 << 22


def parse_labels(content: bytes, field: str = "labels") -> tuple[str, ...]:
    """Return the lines of a text; raise Invalid for this field."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(
            field, f"byte {error.start} that is no UTF-8", "text, a label a line"
        ) from None
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    return check_labels([line.strip() for line in lines], field)


def check_labels(labels: Sequence[object], field: str = "labels") -> tuple[str, ...]:
    """Return labels if they are valid; else raise Invalid for this field."""
    checked = []
    for index, label in enumerate(labels):
        if not isinstance(label, str) or len(label) > _LONGEST_LABEL:
            expected = f"a text of at most {_LONGEST_LABEL:,} letters"
            raise Invalid(f"{field}[{index}]", label, expected)
        checked.append(label)
    if not any(checked) or len(checked) > _MOST_LABELS:
        raise Invalid(field, f"{len(checked):,} labels", f"1 to {_MOST_LABELS:,}, a line each")
    letters = sum(map(len, checked))
    if letters > _MOST_LETTERS:
        raise Invalid(field, f"{letters:,} letters", f"at most {_MOST_LETTERS:,} in all")
    return tuple(checked)
