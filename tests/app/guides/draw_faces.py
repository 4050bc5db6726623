"""Draws the picture of the guide on face detection, and what it finds.

python tests/app/guides/draw_faces.py            # writes faces.png
python tests/app/guides/draw_faces.py 75 70 ...  # and faces-found.png, of four numbers a box
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

FILES = Path(__file__).parents[3] / "app" / "guides" / "files"
BACKGROUND = (110, 130, 120)
FOUND = (255, 214, 0)


def draw_face(draw: ImageDraw.ImageDraw, x: int, y: int, size: int, skin: tuple[int, ...]) -> None:
    """Draw a face whose eyes are at about ``y - size / 10``."""

    def ellipse(
        left: float, top: float, right: float, bottom: float, fill: tuple[int, ...]
    ) -> None:
        corners = [x + left * size, y + top * size, x + right * size, y + bottom * size]
        draw.ellipse(corners, fill=fill)

    def darker(share: float) -> tuple[int, ...]:
        return tuple(int(value * share) for value in skin)

    ellipse(-0.62, -0.95, 0.62, 0.75, (60, 40, 30))
    neck = [x - 0.2 * size, y + 0.6 * size, x + 0.2 * size, y + size]
    draw.rectangle(neck, fill=darker(0.85))
    ellipse(-0.5, -0.65, 0.5, 0.72, skin)
    for side in (-0.22, 0.22):
        ellipse(side - 0.12, -0.2, side + 0.12, -0.02, darker(0.75))
        ellipse(side - 0.09, -0.16, side + 0.09, -0.06, (245, 245, 245))
        ellipse(side - 0.045, -0.16, side + 0.045, -0.06, (40, 25, 20))
        brow = [x + (side - 0.13) * size, y - 0.25 * size, x + (side + 0.12) * size]
        draw.line([*brow, y - 0.27 * size], fill=(50, 35, 25), width=max(1, int(0.05 * size)))
    sides = [(x - 0.1 * size, y + 0.17 * size), (x + 0.1 * size, y + 0.17 * size)]
    draw.polygon([(x - 0.02 * size, y - 0.1 * size), *sides], fill=darker(0.88))
    ellipse(-0.2, 0.32, 0.2, 0.46, (170, 70, 70))
    lips = [x - 0.19 * size, y + 0.385 * size, x + 0.19 * size, y + 0.385 * size]
    draw.line(lips, fill=(90, 35, 35), width=max(1, int(0.025 * size)))


def draw_picture() -> Image.Image:
    """Return two faces, slightly out of focus: photographs have no sharp edges."""
    picture = Image.new("RGB", (320, 240), BACKGROUND)
    draw = ImageDraw.Draw(picture)
    draw_face(draw, 110, 115, 70, (224, 172, 140))
    draw_face(draw, 235, 120, 50, (190, 140, 105))
    return picture.filter(ImageFilter.GaussianBlur(2))


def main(numbers: list[int]) -> None:
    picture = draw_picture()
    picture.save(FILES / "faces.png", optimize=True)
    if numbers:
        draw = ImageDraw.Draw(picture)
        for first in range(0, len(numbers), 4):
            draw.rectangle(numbers[first : first + 4], outline=FOUND, width=2)
        picture.save(FILES / "faces-found.png", optimize=True)


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]])
