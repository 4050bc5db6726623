"""What the dashboard's tests do in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, expect

__all__ = [
    "MOST_SHIFT",
    "NARROW",
    "SEVEN",
    "SHIFTS",
    "WIDE",
    "browsing",
    "draw",
    "faults_of",
    "look",
    "serious",
]

expect.set_options(timeout=30_000)  # other tests may be using the processors

SHIFTS = """() => new Promise(resolve => {
  let sum = 0;
  new PerformanceObserver(list => {
    for (const one of list.getEntries()) sum += one.value;
  }).observe({type: 'layout-shift', buffered: true});
  setTimeout(() => resolve(sum), 100);
})"""
"""Returns the page's cumulative layout shift: how far visible content has moved since loading."""
MOST_SHIFT = 0.1
"""The largest cumulative layout shift that Core Web Vitals rate as good."""

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@contextmanager
def browsing(chromium: Browser, url: str, key: str | None = None) -> Iterator[BrowserContext]:
    """A browser whose user has logged in where the server requires a key."""
    context = chromium.new_context(viewport=WIDE)
    context.set_default_timeout(30_000)
    if key is not None:
        answer = context.request.post(f"{url}/session", data={"key": key})
        assert answer.status == 200, answer.text()
    yield context
    context.close()


def faults_of(page: Page, url: str) -> list[str]:
    """Return a list that collects everything that goes wrong in a page."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.on(
        "console",
        lambda line: found.append(line.text) if line.type in ("error", "warning") else None,
    )
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((url, "data:", "blob:"))
            else found.append(f"foreign: {asked.url}")
        ),
    )
    return found


def serious(page: Page, axe: str, theme: str = "light") -> list[str]:
    """Return axe-core's serious findings; in the dark theme, only those about colors."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe)
    options: dict[str, list[str]] = {"resultTypes": ["violations"]}
    if theme == "dark":
        options["runOnly"] = ["color-contrast"]
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def look(page: Page, axe: str, screenshots: Path, name: str) -> None:
    """Take screenshots in both themes and on a narrow screen, and check accessibility."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.screenshot(path=screenshots / f"{name}-{theme}.png", full_page=True)
        assert serious(page, axe, theme) == [], f"{name}, {theme}"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    page.screenshot(path=screenshots / f"{name}-narrow.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    page.set_viewport_size({"width": 1280, "height": 900})


SEVEN = [(90, 70), (190, 70), (130, 220)]
"""Corners of a digit seven, in a drawing of 280 x 280 pixels."""


def draw(page: Page, corners: list[tuple[int, int]]) -> None:
    """Draw a line into the field for digits."""
    field = page.get_by_role("img", name="Drawing for")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    assert box is not None
    for at, (x, y) in enumerate(corners):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=8)
        if at == 0:
            page.mouse.down()
    page.mouse.up()
