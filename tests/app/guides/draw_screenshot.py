"""Takes the picture of the dashboard that the README shows, while a network is trained.

``python tests/app/guides/draw_screenshot.py`` needs Chromium, and takes a minute.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from app.cli.demo.tour import BIND, FIT, LENET, MNIST  # noqa: E402
from app.client import Client  # noqa: E402
from app.client.local_server import running_server  # noqa: E402
from served.processes import ENVIRONMENT  # noqa: E402

TARGET = ROOT / "app" / "guides" / "files" / "dashboard.png"
SIZE = {"width": 1200, "height": 708}
COLOURS = 192


def train_most_of_it(client: Client) -> int:
    """Start a fit; return its id when it is half done."""
    client.put_dataset("mnist", MNIST)
    client.create_module("lenet", LENET.read_text())
    client.bind("lenet", **BIND)
    client.init_params("lenet", "xavier", seed=7)
    job = int(client.fit("lenet", **{**FIT, "epochs": 12, "seed": 7})["id"])
    for event in client.job_events(job):
        if event["type"] == "metric" and event["data"]["epoch"] == 7:
            break
    return job


def take(url: str, job: int) -> bytes:
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"{url}/#/jobs/{job}")
        page.get_by_role("heading", name="cross-entropy").wait_for()
        page.get_by_text("checkpoint 7 saved").first.wait_for()
        picture = page.screenshot()
        browser.close()
        return picture


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder), environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        picture = Image.open(io.BytesIO(take(server.url, train_most_of_it(client))))
        reduced = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        reduced.save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
