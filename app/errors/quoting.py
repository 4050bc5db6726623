"""Quoting untrusted values in messages: shortened, with a suggestion for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["LONGEST_QUOTE", "brief", "did_you_mean", "quoted"]

LONGEST_QUOTE = 120
"""Most characters of a value that a message repeats."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known word, or an empty string."""
    if len(word) > LONGEST_QUOTE:
        return ""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def brief(value: object) -> str:
    """Return the ``repr`` of a value, cut short; fast even if the value is huge or deep."""
    words: list[str] = []
    _append_repr(value, words, LONGEST_QUOTE + 1)
    text = "".join(words)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def quoted(value: object) -> str:
    """Return a text or an error as it is but shortened, and ``brief`` of anything else."""
    if not isinstance(value, str | Exception):
        return brief(value)
    text = str(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}… ({len(text)} chars)"


def _append_repr(value: object, words: list[str], space: int) -> int:
    """Append the parts of a value's repr until the space is used up; nesting uses some too."""
    if space <= 0:
        return space
    if isinstance(value, dict):
        space = _append("{", words, space)
        for index, (key, one) in enumerate(value.items()):
            space = _append(", " if index else "", words, space)
            space = _append(": ", words, _append_repr(key, words, space))
            if (space := _append_repr(one, words, space)) <= 0:
                return space
        return _append("}", words, space)
    if isinstance(value, list | tuple):
        opening, closing = "[]" if isinstance(value, list) else "()"
        space = _append(opening, words, space)
        for index, one in enumerate(value):
            if (
                space := _append_repr(one, words, _append(", " if index else "", words, space))
            ) <= 0:
                return space
        return _append(",)" if len(value) == 1 and closing == ")" else closing, words, space)
    return _append(
        repr(value[: space + 1] if isinstance(value, str | bytes) else value), words, space
    )


def _append(word: str, words: list[str], space: int) -> int:
    words.append(word)
    return space - len(word)
