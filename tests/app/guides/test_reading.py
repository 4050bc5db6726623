"""Guides as the dashboard renders them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.guides.reading import FILES, INDEX, guide_names, parse_guide, read_guide

ROOT = Path(__file__).parents[3]


def elements(node: Any) -> Iterator[list[Any]]:
    """Yield all elements of a tree."""
    if not isinstance(node, str):
        yield node
        for child in node[2:]:
            yield from elements(child)


def elements_of(guide: str) -> list[list[Any]]:
    return [one for node in read_guide(guide)["content"] for one in elements(node)]


@pytest.mark.parametrize("guide", guide_names())
def test_a_guide_is_parsed_and_its_links_resolve(guide: str) -> None:
    assert read_guide(guide)["title"]
    json.dumps(read_guide(guide))
    for tag, attributes, *_ in elements_of(guide):
        found = re.fullmatch(r"#/guides/([\w-]+)\?at=([\w-]+)", attributes.get("href", ""))
        if found:
            ids = [one[1].get("id") for one in elements_of(found[1])]
            assert found[2] in ids, attributes["href"]
        if tag == "img":
            assert attributes["alt"]
            assert attributes["width"] <= 800


def test_the_index_links_to_every_guide() -> None:
    links = {one[1]["href"].partition("?")[0] for one in elements_of(INDEX) if one[0] == "a"}
    assert links == {f"#/guides/{name}" for name in guide_names() if name != INDEX}


def test_every_file_belongs_to_a_guide() -> None:
    named = {
        address.rpartition("/")[2]
        for guide in guide_names()
        for _, attributes, *_ in elements_of(guide)
        for address in (attributes.get("href", ""), attributes.get("src", ""))
    }
    named |= set(re.findall(r"app/guides/files/([\w.-]+)", (ROOT / "README.md").read_text()))
    assert FILES.keys() <= named


def test_links_in_the_readme_resolve() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", (ROOT / "README.md").read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_markup_in_code_stays_text() -> None:
    text = "# A\n\n<script>alert(1)</script> <b onclick=x>b</b>\n\n<div>\nblock\n</div>\n"
    found = [one for node in parse_guide(text, "a")["content"] for one in elements(node)]
    assert {one[0] for one in found} == {"h1", "p"}
    assert "<script>alert(1)</script>" in json.dumps(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no title", "does not start with its title"),
        ("# A\n\n[x](none.md)", "there is no guide none"),
        ("# A\n\n[x](../../app/main.py)", "neither a guide nor a file"),
        ("# A\n\n[x](http://example.com)", "neither a guide nor a file"),
        ("# A\n\n![x](files/none.svg)", "neither a guide nor a file"),
        ("# A\n\n***", "hr is not supported in guides"),
    ],
)
def test_broken_links_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_guide(text, "a")


def test_javascript_links_are_not_links() -> None:
    (_, paragraph) = parse_guide("# A\n\n[x](javascript:alert(1))", "a")["content"]
    assert paragraph == ["p", {}, "[x](javascript:alert(1))"]


def test_missing_guides_are_not_found() -> None:
    for name in ("none", "../secret", "", "files/lenet"):
        with pytest.raises(KeyError):
            read_guide(name)
