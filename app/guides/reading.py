"""Guides parsed into trees of elements, so that no page has to insert markup.

HTML in Markdown is not interpreted: it is shown as text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

__all__ = ["FILES", "INDEX", "Node", "guide_names", "read_guide", "slug_of"]

_FOLDER = Path(__file__).parent
INDEX = "index"
"""The guide that lists all others."""

FILES = {
    path.name: path
    for folder in (_FOLDER / "files", _FOLDER.parent / "cli" / "demo" / "data")
    for path in folder.glob("*.*")
    if path.suffix != ".md"
}
"""Pictures and data that guides refer to, as ``files/NAME``."""

Node: TypeAlias = "str | list[Any]"
"""Either a text, or ``[tag, attributes, child, …]``."""

_TAGS = {
    "paragraph": "p",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    **{name: name for name in ("strong", "em", "blockquote")},
    **{name: name for name in ("table", "thead", "tbody", "tr", "th", "td")},
}
_GUIDE_LINK = re.compile(r"([\w-]+)\.md(?:#([\w-]+))?|#([\w-]+)")
_FILE_LINK = re.compile(r"(?:files|\.\./cli/demo/data)/([\w.-]+)")
_SVG_SIZE = re.compile(r'<svg[^>]* width="(\d+)" height="(\d+)"')


def guide_names() -> list[str]:
    """Return the names of all guides, the index first."""
    names = sorted(path.stem for path in _FOLDER.glob("*.md"))
    return [INDEX, *(name for name in names if name != INDEX)]


@cache
def read_guide(name: str) -> dict[str, Any]:
    """Return a guide: ``title`` and ``content``, a list of nodes.

    Raises:
        KeyError: there is no guide of this name.
        ValueError: it contains Markdown that guides do not support, or refers to a missing file.
    """
    if name not in guide_names():
        raise KeyError(name)
    return parse_guide((_FOLDER / f"{name}.md").read_text(encoding="utf-8"), name)


def parse_guide(text: str, name: str) -> dict[str, Any]:
    """Parse a guide's text; see ``read_guide``."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    content = list(_nodes(SyntaxTreeNode(markdown.parse(text)).children, name))
    title = content[0] if content else ""
    if isinstance(title, str) or title[0] != "h1":
        raise ValueError(f"guide {name} does not start with its title")
    return {"name": name, "title": "".join(_texts(title)), "content": content}


def slug_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _nodes(children: Sequence[SyntaxTreeNode], guide: str) -> Iterator[Node]:
    for child in children:
        if child.type == "inline" or (child.type == "paragraph" and child.hidden):
            yield from _nodes(child.children, guide)
        else:
            yield _node(child, guide)


def _node(node: SyntaxTreeNode, guide: str) -> Node:
    if node.type == "text":
        return node.content
    if node.type == "softbreak":
        return " "
    if node.type == "code_inline":
        return ["code", {}, node.content]
    if node.type == "fence":
        language, _, note = node.info.strip().partition(" ")
        return ["pre", {"language": language, "note": note}, node.content]
    if node.type == "image":
        return ["img", _picture(str(node.attrs["src"]), node.content, guide)]
    children = list(_nodes(node.children, guide))
    if node.type == "heading":
        return [node.tag, {"id": slug_of("".join(_texts(["", {}, *children])))}, *children]
    if node.type == "link":
        return ["a", {"href": _address(str(node.attrs["href"]), guide)}, *children]
    if node.type not in _TAGS:
        raise ValueError(f"guide {guide}: {node.type} is not supported in guides")
    is_number = "right" in str(node.attrs.get("style", ""))
    return [_TAGS[node.type], {"class": "number"} if is_number else {}, *children]


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    else:
        for child in node[2:]:
            yield from _texts(child)


def _address(target: str, guide: str) -> str:
    """Return the address of a link on a page of the dashboard."""
    found = _GUIDE_LINK.fullmatch(target)
    if found:
        name, place = found[1] or guide, found[2] or found[3]
        if name not in guide_names():
            raise ValueError(f"guide {guide}: there is no guide {name}")
        return f"#/guides/{name}" + (f"?at={place}" if place else "")
    if target.startswith("https://"):
        return target
    return _file_address(target, guide)


def _file_address(target: str, guide: str) -> str:
    found = _FILE_LINK.fullmatch(target)
    if found is None or found[1] not in FILES:
        raise ValueError(f"guide {guide}: {target} is neither a guide nor a file beside it")
    return f"./guides/files/{found[1]}"


def _picture(target: str, says: str, guide: str) -> dict[str, Any]:
    address = _file_address(target, guide)
    width, height = _size(FILES[Path(target).name])
    return {"src": address, "alt": says, "width": width, "height": height}


def _size(path: Path) -> tuple[int, int]:
    """Return the size of a picture, so that the page does not move when it loads."""
    content = path.read_bytes()
    if path.suffix == ".png":
        width, height = struct.unpack(">II", content[16:24])
        return width, height
    found = _SVG_SIZE.match(content.decode())
    if found is None:
        raise ValueError(f"{path.name}: its svg element does not say width and height")
    return int(found[1]), int(found[2])
