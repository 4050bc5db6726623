"""Messages quote foreign input briefly, however large it is."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors.quoting import LONGEST_QUOTE, brief, did_you_mean, quoted


@pytest.mark.parametrize("value", [None, 5, "a", b"a", [], (1,), (1, 2), {"a": [1, {"b": ()}]}])
def test_short_values_are_shown_completely(value: object) -> None:
    assert brief(value) == repr(value)


def test_large_or_deep_values_are_truncated() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("a" * 10**7, list(range(10**6)), dict.fromkeys(range(10**6)), deep):
        assert len(brief(value)) == LONGEST_QUOTE + 1
        assert brief(value).endswith("…")


def test_texts_and_errors_are_quoted_unchanged() -> None:
    assert quoted("no 'quotes'") == "no 'quotes'"
    assert quoted(ValueError("too small")) == "too small"
    assert quoted(["a"]) == "['a']"
    assert quoted("a" * 500).endswith("a… (500 chars)")


def test_the_nearest_word_is_suggested() -> None:
    assert did_you_mean("conv_weigth", ["conv_bias", "conv_weight"]) == (
        "; did you mean 'conv_weight'?"
    )
    assert did_you_mean("x", ["conv_bias"]) == ""
    assert did_you_mean("a" * 10**6, ["a" * 10**6]) == "", "which would take long"
