"""The code blocks of a guide, and comparing what a block printed with what the guide shows.

The language of a fence may be followed by words of our own:

- ``bash fails``: the last command is refused, and the guide shows the refusal.
- ``bash by hand``: not run by tests; ``test_guides`` lists these blocks with the reasons.
- ``output``: what the block before it prints. ``...`` stands for any text. Numbers must be equal,
  but with ``±5%`` or ``±0.02`` those with a decimal point may differ by that much.
- ``output full``: compared only where the guide runs as written, not in its shortened form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_it import MarkdownIt

__all__ = ["Block", "Shown", "blocks_of", "difference"]

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_PIECES = re.compile(
    rf"(?P<any>\s*\.\.\.\s*)|(?P<space>\s+)|(?P<number>{_NUMBER.pattern})|(?P<text>.)"
)
_TOLERANCE = re.compile(r"±([\d.]+)(%?)")


@dataclass(frozen=True)
class Shown:
    """What a block prints according to the guide.

    Attributes:
        relative, absolute: how far numbers with a decimal point may be from those shown.
        only_full: whether it applies only to the guide as written, not to its shortened form.
    """

    text: str
    relative: float = 0.0
    absolute: float = 0.0
    only_full: bool = False


@dataclass(frozen=True)
class Block:
    """A block of code in a guide."""

    language: str
    text: str
    line: int
    words: frozenset[str] = frozenset()
    shown: Shown | None = None

    @property
    def fails(self) -> bool:
        return "fails" in self.words

    @property
    def is_by_hand(self) -> bool:
        return "hand" in self.words


def blocks_of(guide: Path) -> list[Block]:
    """Return a guide's blocks of bash and Python in order, each with the output shown for it."""
    found: list[Block] = []
    is_after_code = False
    for token in MarkdownIt("commonmark").parse(guide.read_text(encoding="utf-8")):
        if token.type != "fence":
            is_after_code = False if token.type == "heading_open" else is_after_code
            continue
        line = token.map[0] + 1 if token.map else 0
        where = f"{guide.name}:{line}"
        assert token.info, f"{where}: name the language; text, if it is not code to run"
        language, *words = token.info.split()
        if language in ("bash", "python"):
            assert set(words) <= {"fails", "by", "hand"}, f"{where}: {token.info}"
            found.append(Block(language, token.content, line, frozenset(words)))
        elif language == "output":
            assert is_after_code, f"{where}: there is no code before this output"
            found[-1] = replace(found[-1], shown=_shown(token.content, words, where))
        is_after_code = language in ("bash", "python")
    return found


def _shown(text: str, words: list[str], where: str) -> Shown:
    shown = Shown(text)
    for word in words:
        found = _TOLERANCE.fullmatch(word)
        if found and found[2]:
            shown = replace(shown, relative=float(found[1]) / 100)
        elif found:
            shown = replace(shown, absolute=float(found[1]))
        else:
            assert word == "full", f"{where}: unknown word {word!r} after output"
            shown = replace(shown, only_full=True)
    return shown


def difference(shown: Shown, printed: str) -> str | None:
    """Return how a printed text differs from the one shown; None if it does not."""
    pattern, numbers = "", []
    is_near = bool(shown.relative or shown.absolute)
    for piece in _PIECES.finditer(shown.text.strip()):
        text = piece[0]
        if piece["any"]:
            pattern += r"[\s\S]*?"
        elif piece["space"]:
            pattern += r"\s+"
        elif piece["number"] and is_near and "." in text:
            pattern += f"({_NUMBER.pattern})"
            numbers.append(float(text))
        else:
            pattern += re.escape(text)
    found = re.fullmatch(pattern, printed.strip())
    if found is None:
        return f"shown is\n{shown.text}\nprinted was\n{printed}"
    for expected, text in zip(numbers, found.groups(), strict=True):
        if abs(float(text) - expected) > shown.absolute + shown.relative * abs(expected):
            return f"{expected} is shown, {text} was printed:\n{printed}"
    return None
