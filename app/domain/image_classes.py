"""The classes of images, told by the folders they lie in, and numbered as im2rec numbers them."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import PurePosixPath

from app.errors import Invalid

__all__ = ["number_by_folder"]

_PARTS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})
_FIELD = "images"


def number_by_folder(
    paths: Sequence[str], known: Sequence[str] | None = None
) -> tuple[tuple[str, ...], list[int]]:
    """Return the classes, and for each image the place of its own among them.

    A class is a folder, by its path below the one that holds all; the classes are in the order in
    which a walk through sorted folders meets them. Images that lie in one folder have none.

    Args:
        paths: of the images, with slashes.
        known: the classes of another dataset, whose order holds for this one.

    Raises:
        Invalid: an image lies beside the folders of the classes, or in one of none that is known.
    """
    folders = [str(PurePosixPath(path).parent) for path in paths]
    if known is not None:
        places = {name: place for place, name in enumerate(known)}
        return tuple(known), [_known_place(path, places) for path in paths]
    common = posixpath.commonpath(folders)
    below = [posixpath.relpath(folder, common) for folder in folders]
    classes = sorted(set(below), key=lambda one: one.split("/"))
    if classes == ["."]:
        return (), []
    if "." in classes:
        stray = paths[below.index(".")]
        expected = "every image in the folder of its class, or all in one folder"
        raise Invalid(_FIELD, f"{stray} beside folders", expected)
    tops = {one.split("/")[0] for one in classes}
    if {one.lower() for one in tops} <= _PARTS:
        raise Invalid(
            _FIELD,
            f"folders {', '.join(sorted(tops))}",
            "the images of one dataset, in folders that are their classes",
            "upload each by itself, and the second with ?classes_of= and the name of the first",
        )
    places = {name: place for place, name in enumerate(classes)}
    return tuple(classes), [places[folder] for folder in below]


def _known_place(path: str, places: dict[str, int]) -> int:
    parts = PurePosixPath(path).parts[:-1]
    for start in range(len(parts)):
        if (folder := "/".join(parts[start:])) in places:
            return places[folder]
    shown = ", ".join([*places][:10])
    more = " …" if len(places) > 10 else ""
    raise Invalid(_FIELD, path, f"an image in the folder of a class: {shown}{more}")
