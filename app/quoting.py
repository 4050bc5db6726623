"""How messages quote what strangers sent: shortened, and beside the word that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["LONGEST_QUOTE", "brief", "did_you_mean", "quoted"]

LONGEST_QUOTE = 120
"""Letters of a value that a message repeats at most."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known word, or an empty string."""
    if len(word) > LONGEST_QUOTE:
        return ""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def brief(value: object) -> str:
    """Return the ``repr`` of a value, of a long one the beginning, however large or deep it is."""
    words: list[str] = []
    _show(value, words, LONGEST_QUOTE + 1)
    text = "".join(words)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def quoted(value: object) -> str:
    """Return a text or an error as it is, shortened, and ``brief`` of everything else."""
    if not isinstance(value, str | Exception):
        return brief(value)
    text = str(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}… ({len(text)} chars)"


def _show(value: object, words: list[str], room: int) -> int:
    """Add words until the room is used up; each level of nesting takes some, so depth ends, too."""
    if room <= 0:
        return room
    if isinstance(value, dict):
        room = _say("{", words, room)
        for index, (key, one) in enumerate(value.items()):
            room = _say(", " if index else "", words, room)
            room = _say(": ", words, _show(key, words, room))
            if (room := _show(one, words, room)) <= 0:
                return room
        return _say("}", words, room)
    if isinstance(value, list | tuple):
        opening, closing = "[]" if isinstance(value, list) else "()"
        room = _say(opening, words, room)
        for index, one in enumerate(value):
            if (room := _show(one, words, _say(", " if index else "", words, room))) <= 0:
                return room
        return _say(",)" if len(value) == 1 and closing == ")" else closing, words, room)
    return _say(repr(value[: room + 1] if isinstance(value, str | bytes) else value), words, room)


def _say(word: str, words: list[str], room: int) -> int:
    words.append(word)
    return room - len(word)
