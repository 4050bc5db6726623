"""The classes of images, derived from their folders, and numbered as by im2rec."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import PurePosixPath

from app.errors.tree import Invalid

__all__ = ["number_by_folder"]

_PARTS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})
_FIELD = "images"


def number_by_folder(
    paths: Sequence[str], known: Sequence[str] | None = None
) -> tuple[tuple[str, ...], list[int]]:
    """Return the classes, and for each image the index of its class.

    A class is a folder, named by its path below the top folder; the classes are in the order of a
    walk through sorted folders. If all images are in one folder there are no classes.

    Args:
        paths: of the images, with slashes.
        known: the classes of another dataset, whose order is used.

    Raises:
        Invalid: an image is beside the folders of the classes, or in a folder that is not a known
            class.
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
