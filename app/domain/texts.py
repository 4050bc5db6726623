"""Texts as inputs of a module: tokens, represented by their index in a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS
from app.errors.tree import Invalid

__all__ = ["TextTransform", "check_vocabulary", "inside"]

_MOST_TOKENS = 1 << 20
_LONGEST_TOKEN = 1000
_MOST_LETTERS = 1 << 22
_LONGEST_TEXT = 1 << 16
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class TextTransform:
    """Splits a text into tokens, looks them up in a vocabulary, and limits their number.

    Attributes:
        type: of what is transformed.
        vocabulary: the tokens; the first one is 0.
        tokens: kind of tokens: ``words``, separated by white space, or ``characters``.
        lowercase: convert to lower case first.
        unknown: the token that replaces those not in the vocabulary; None refuses them.
        padding: the token with which shorter texts are padded; None takes the input's
            ``pad_value``.
        max_length: maximum number of tokens; None takes the length of the largest bucket, or that
            with which the input is bound.
        longer: what happens to longer texts: ``cut`` off at the end, or ``refuse``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    type: Literal["text"] = "text"
    vocabulary: tuple[str, ...]
    tokens: Literal["words", "characters"] = "words"
    lowercase: bool = False
    unknown: str | None = None
    padding: str | None = None
    max_length: Annotated[int, Field(ge=1, le=_LONGEST_TEXT)] | None = None
    longer: Literal["cut", "refuse"] = "cut"

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each token in the vocabulary."""
        return {token: place for place, token in enumerate(self.vocabulary)}

    def read(self, text: bytes, field: str, longest: int) -> list[int]:
        """Return the indices of a text's tokens.

        Args:
            text: in UTF-8.
            field: what it is, for errors.
            longest: maximum number of tokens.

        Raises:
            Invalid: it is not text, is empty or too long, or has an unknown token.
        """
        if len(text) > _MOST_BYTES:
            raise Invalid(field, f"{len(text):,} bytes", f"a text of at most {_MOST_BYTES:,}")
        try:
            decoded = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Invalid(field, f"byte {error.start} that is no UTF-8", "a text") from None
        if self.lowercase:
            decoded = decoded.lower()
        tokens: Sequence[str] = decoded
        if self.tokens == "words":
            tokens = decoded.split(maxsplit=longest)  # the rest in one piece
        if not tokens:
            raise Invalid(field, "no token", "a text")
        if len(tokens) > longest and self.longer == "refuse":
            hint = 'send a shorter text, or set the transform\'s longer to "cut"'
            raise Invalid(field, "more tokens", f"at most {longest:,}", hint)
        return [self._place(token, field) for token in tokens[:longest]]

    def _place(self, token: str, field: str) -> int:
        place = self.places.get(token)
        if place is not None:
            return place
        if self.unknown is None:
            hint = "name a token that stands for unknown ones as the transform's unknown"
            raise Invalid(field, token, "tokens of the vocabulary", hint)
        return self.places[self.unknown]


def check_vocabulary(transform: TextTransform, field: str) -> None:
    """Raise Invalid for an invalid vocabulary, and special tokens that are not in it."""
    tokens, where = transform.vocabulary, inside(field, "vocabulary")
    if not 0 < len(tokens) <= _MOST_TOKENS:
        raise Invalid(where, f"{len(tokens):,} tokens", f"1 to {_MOST_TOKENS:,}")
    letters = sum(map(len, tokens))
    if letters > _MOST_LETTERS:
        raise Invalid(where, f"{letters:,} letters", f"at most {_MOST_LETTERS:,} in all")
    seen: set[str] = set()
    for place, token in enumerate(tokens):
        if not 0 < len(token) <= _LONGEST_TOKEN:
            raise Invalid(f"{where}[{place}]", token, f"1 to {_LONGEST_TOKEN:,} letters")
        if token in seen:
            raise Invalid(f"{where}[{place}]", token, "each token once")
        seen.add(token)
    for name in ("unknown", "padding"):
        named = getattr(transform, name)
        if named is not None and named not in seen:
            raise Invalid(inside(field, name), named, "a token of the vocabulary")


def inside(field: str, name: str) -> str:
    """Return the path of a member of a field; if the field is empty, of the body itself."""
    return f"{field}.{name}" if field else name
