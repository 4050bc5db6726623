"""Image classes taken from folder names."""

from __future__ import annotations

import pytest

from app.domain.image_classes import number_by_folder
from app.errors.tree import Invalid

ROWS = {
    "folders": (["cat/1.jpg", "dog/1.jpg", "cat/2.jpg"], ("cat", "dog"), [0, 1, 0]),
    "below one": (["a/train/dog/1.jpg", "a/train/cat/1.jpg"], ("cat", "dog"), [1, 0]),
    "as a walk": (["a b/1.jpg", "a/b/1.jpg", "a/1.jpg"], ("a", "a/b", "a b"), [2, 1, 0]),
    "one folder": (["cat/1.jpg", "cat/2.jpg"], (), []),
    "no folder": (["1.jpg"], (), []),
}


@pytest.mark.parametrize("row", ROWS)
def test_folders_are_classes(row: str) -> None:
    paths, classes, labels = ROWS[row]
    assert number_by_folder(paths) == (classes, labels)


def test_the_classes_of_another_dataset_can_be_reused() -> None:
    known = ("cat", "dog", "owl")
    assert number_by_folder(["val/owl/1.jpg"], known) == (known, [2])
    with pytest.raises(Invalid, match=r"val/fox/1\.jpg.*cat, dog, owl"):
        number_by_folder(["val/fox/1.jpg"], known)


def test_invalid_classes_are_refused() -> None:
    with pytest.raises(Invalid, match=r"1\.jpg beside folders"):
        number_by_folder(["1.jpg", "cat/1.jpg"])
    with pytest.raises(Invalid, match=r"train, val.*classes_of"):
        number_by_folder(["x/train/cat/1.jpg", "x/val/cat/1.jpg"])
