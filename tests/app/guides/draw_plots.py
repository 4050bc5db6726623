"""Draws the curves of the guides: ``python tests/app/guides/draw_plots.py`` (a minute).

They are SVG with two sets of colours: pages on a dark ground show the other one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from app.cli.demo.tour import BIND, FIT, LENET, MNIST  # noqa: E402
from app.client import Client  # noqa: E402
from app.client.local_server import running_server  # noqa: E402
from app.guides.reading import FILES  # noqa: E402
from served.processes import ENVIRONMENT  # noqa: E402

FOLDER = ROOT / "app" / "guides" / "files"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 240, 48, 16, 28, 36
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#545d69}path{fill:none;stroke-width:2}"
    ".axis{stroke:#dde1e6;stroke-width:1}.a{stroke:#0068a8}.b{stroke:#c25100}"
    "text.a{fill:#0068a8;stroke:none}text.b{fill:#c25100;stroke:none}rect{fill:#0068a8}"
    ".edge{stroke:#c25100;stroke-width:1.5;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#a3adba}.axis{stroke:#2b323d}.a{stroke:#56b4e9}"
    ".b{stroke:#f08a3c}text.a{fill:#56b4e9}text.b{fill:#f08a3c}rect{fill:#56b4e9}"
    ".edge{stroke:#f08a3c}}"
)


class Plot:
    """A chart with two axes."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], title: str) -> None:
        self._x, self._y, self._parts = x, y, [text(LEFT, 16, title)]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates of a point."""
        (x0, x1), (y0, y1) = self._x, self._y
        across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)

    def axes(self, xs: Sequence[float], ys: Sequence[float], x_says: str) -> None:
        for y in ys:
            _, down = self.at(self._x[0], y)
            self._parts.append(line("axis", [(LEFT, down), (WIDTH - RIGHT, down)]))
            self._parts.append(text(LEFT - 6, down + 4, f"{y:g}", "end"))
        for x in xs:
            self._parts.append(text(self.at(x, 0)[0], HEIGHT - BOTTOM + 16, f"{x:g}", "middle"))
        self._parts.append(text(WIDTH - RIGHT, HEIGHT - 4, x_says, "end"))

    def curve(self, kind: str, xs: Sequence[float], ys: Sequence[float], says: str) -> None:
        """Draw a curve with its label below the end."""
        points = [self.at(x, y) for x, y in zip(xs, ys, strict=True)]
        self._parts.append(line(kind, points))
        across, down = points[-1]
        self._parts.append(text(across, down + 16, says, "end", kind))

    def bar(self, x: float, y: float) -> None:
        across, top = self.at(x, y)
        height = self.at(x, 0)[1] - top
        self._parts.append(
            f'<rect x="{across - 7:.1f}" y="{top:.1f}" width="14" height="{height:.1f}"/>'
        )

    def edge(self, x: float, says: str) -> None:
        across, down = self.at(x, 0)
        self._parts.append(line("edge", [(across, down), (across, TOP + 4)]))
        self._parts.append(text(across - 4, TOP + 12, says, "end", "b"))

    def save(self, name: str) -> None:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        body = "".join(self._parts)
        view = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
        (FOLDER / name).write_text(f"{head} {view}><style>{STYLE}</style>{body}</svg>\n")


def text(x: float, y: float, says: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{says}</text>'


def line(kind: str, points: Sequence[tuple[float, float]]) -> str:
    return f'<path class="{kind}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>'


def draw_lenet() -> None:
    """The guide's training run, epoch by epoch."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder), environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        client.put_dataset("mnist", MNIST)
        client.create_module("lenet", LENET.read_text())
        client.bind("lenet", **BIND)
        client.init_params("lenet", "xavier", seed=7)
        job = client.fit("lenet", **{**FIT, "metrics": ["accuracy"], "seed": 7})["id"]
        client.wait(job)
        curves: dict[str, list[float]] = {"train": [], "validation": []}
        for event in client.job_events(job):
            if event["type"] == "metric":
                curves[event["data"]["part"]].append(event["data"]["metrics"]["accuracy"])
    epochs = range(1, len(curves["train"]) + 1)
    plot = Plot((1, len(epochs)), (0.75, 1.0), "accuracy")
    plot.axes(epochs, [0.75, 0.8, 0.85, 0.9, 0.95, 1], "epoch")
    plot.curve("a", epochs, curves["train"], "4,000 training digits")
    plot.curve("b", epochs, curves["validation"], "1,000 test digits")
    plot.save("lenet.svg")


def draw_utterances() -> None:
    """Lengths of all utterances, with the buckets."""
    with np.load(FILES["japanese_vowels.npz"]) as archive:
        lengths = np.concatenate([archive["train_lengths"], archive["test_lengths"]])
    counts = np.bincount(lengths)
    plot = Plot((6, 30.5), (0, 100), "utterances")
    plot.axes(range(8, 31, 2), range(0, 101, 20), "frames")
    for length in np.unique(lengths):
        plot.bar(float(length), float(counts[length]))
    for bucket in (12, 18, 24, 30):
        plot.edge(bucket + 0.5, f"bucket {bucket}")
    plot.save("utterances.svg")


if __name__ == "__main__":
    draw_utterances()
    draw_lenet()
