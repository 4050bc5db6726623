"""A digit in the terminal."""

from __future__ import annotations

import numpy as np

from app.cli.demo.drawing import draw_digit


def test_grey_levels_become_shades() -> None:
    image = np.array([[0, 64, 128], [191, 255, 31]], "uint8")
    assert draw_digit(image) == "  ░░▒▒\n▓▓██  "


def test_every_pixel_is_two_characters_wide() -> None:
    image = np.random.RandomState(0).randint(0, 256, (28, 20)).astype("uint8")
    rows = draw_digit(image).split("\n")
    assert (len(rows), {len(row) for row in rows}) == (28, {40})
