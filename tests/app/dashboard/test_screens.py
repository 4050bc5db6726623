"""The dashboard in a real browser, on a server that trains and predicts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from app.client import Client
from served import lenet
from served.browser import MOST_SHIFT, NARROW, SHIFTS, WIDE, browsing, faults_of, serious
from served.processes import wait_until
from served.subpath_proxy import below_path

pytestmark = pytest.mark.slow


def on_overview(page: Page) -> None:
    expect(page.get_by_text("of 1 executor ready")).to_be_visible()
    expect(page.get_by_role("cell", name="POST /v1/modules/{module}/predict")).to_be_visible()
    expect(page.get_by_text("examples a batch")).to_be_visible()
    expect(page.get_by_text("Modules take")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="lenet-small").first).to_be_visible()


def on_jobs(page: Page) -> None:
    for state in ("running", "paused", "cancelled", "succeeded"):
        expect(page.get_by_role("cell", name=state, exact=True).first).to_be_visible()


def on_run(page: Page) -> None:
    expect(page.get_by_role("heading", name="cross-entropy")).to_be_visible()
    expect(page.get_by_text("validation").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"checkpoint \d+ saved")).first).to_be_visible()
    expect(page.get_by_role("figure", name="learning rate").get_by_text("0.0500")).to_be_visible()


def on_monitored_run(page: Page) -> None:
    on_run(page)
    expect(page.get_by_role("figure", name="Weights and gradients")).to_contain_text("mode near")


def on_comparison(page: Page) -> None:
    expect(page.get_by_role("button", name="Remove job")).to_have_count(1)
    expect(page.get_by_label("Facts")).to_contain_text("the module's own")
    expect(
        page.locator(".legend").first.get_by_text(re.compile("^job .*, validation"))
    ).to_have_count(2)


def on_modules(page: Page) -> None:
    for name in ("lenet", lenet.LONG_NAME, "sentences"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()


def on_module(page: Page) -> None:
    expect(page.get_by_role("link", name="Parameters", exact=True)).to_be_visible()
    expect(page.get_by_text("The parameters in training answer")).to_be_visible()
    expect(
        page.get_by_role("button", name=re.compile(r"^Promote version \d+$")).first
    ).to_be_visible()


def on_buckets(page: Page) -> None:
    expect(page.get_by_text("20.0%").or_(page.get_by_text("of the computation"))).to_be_visible()


def on_reference(page: Page) -> None:
    expect(page.get_by_text("Queue a training over a dataset")).to_be_visible()


def on_guides(page: Page) -> None:
    expect(page.get_by_role("heading", name="Guides", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="LeNet on MNIST")).to_be_visible()


def on_guide(page: Page) -> None:
    expect(page.get_by_role("heading", name="LeNet on MNIST")).to_be_visible()
    expect(page.get_by_role("button", name="Copy").first).to_be_visible()


def on_nothing(page: Page) -> None:
    expect(page.get_by_text("There is no such page")).to_be_visible()


IS_CUT = """places => [...document.querySelectorAll(places)]
  .some(one => one.scrollWidth > one.clientWidth)"""
"""Returns whether any element of a selector has content wider than itself."""

Screen = tuple[str, str, Callable[[Page], None]]


def screens(lab: Any) -> list[Screen]:
    return [
        ("overview", "/", on_overview),
        ("jobs", "/#/jobs", on_jobs),
        ("run", f"/#/jobs/{lab.finished}", on_monitored_run),
        ("compare", f"/#/jobs/{lab.running}?with={lab.finished}&x=epoch", on_comparison),
        ("modules", "/#/modules", on_modules),
        ("module", "/#/modules/lenet", on_module),
        ("buckets", "/#/modules/sentences", on_buckets),
        ("guides", "/#/guides", on_guides),
        ("guide", "/#/guides/lenet", on_guide),
        ("reference", "/docs#fit_module", on_reference),
        ("nothing", "/#/nothing/here", on_nothing),
    ]


def test_every_screen_is_accessible_and_free_of_errors(
    chromium: Browser, lab: Any, axe: str, screenshots: Path
) -> None:
    with browsing(chromium, lab.server.url, lab.admin) as context:
        for name, address, is_there in screens(lab):
            page = context.new_page()
            faults = faults_of(page, lab.server.url)
            page.goto(lab.server.url + address)
            is_there(page)
            assert page.evaluate(SHIFTS) < MOST_SHIFT, name
            if not address.startswith("/docs"):
                expect(page.get_by_role("status").get_by_text("Live")).to_be_visible()
            is_long = not address.startswith("/docs")
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                page.screenshot(path=screenshots / f"{name}-{theme}.png", full_page=is_long)
                assert serious(page, axe, theme) == [], f"{name}, {theme}"
            assert page.evaluate(IS_CUT, ".panel > .scroll") is False, name
            page.set_viewport_size(NARROW)
            page.screenshot(path=screenshots / f"{name}-narrow.png", full_page=is_long)
            assert page.evaluate(IS_CUT, "html, nav") is False, name
            assert faults == [], name
            page.close()


def test_without_a_key_the_login_is_shown(
    chromium: Browser, lab: Any, axe: str, screenshots: Path
) -> None:
    context = chromium.new_context(viewport=WIDE)
    page = context.new_page()
    page.goto(f"{lab.server.url}/#/jobs")
    field = page.get_by_label("API key")
    field.fill("nonsense")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    page.screenshot(path=screenshots / "login.png")
    assert serious(page, axe) == []
    field.fill(lab.asker)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("needs one of scope read")
    other = context.new_page()
    other.goto(f"{lab.server.url}/#/modules")
    expect(other.get_by_label("API key")).to_be_visible()
    field.fill(lab.reader)
    page.get_by_role("button", name="Log in").click()
    on_jobs(page)
    on_modules(other)
    assert page.evaluate("document.cookie") == "", "no script can read it"
    for button in ("Pause", "Delete"):
        expect(page.get_by_role("button", name=f"{button} job").first).to_be_disabled()
    page.get_by_role("button", name="Log out").click()
    for tab in (page, other):
        expect(tab.get_by_label("API key")).to_be_visible()
    page.get_by_label("API key").fill(lab.reader)
    page.get_by_role("button", name="Log in").click()
    on_modules(other)
    other.get_by_role("button", name="Log out").click()
    expect(other.get_by_label("API key")).to_be_visible()
    page.goto(f"{lab.server.url}/docs")
    expect(page.get_by_role("link", name="log in")).to_be_visible()
    context.close()


def test_jobs_offer_the_actions_they_allow(chromium: Browser, lab: Any, screenshots: Path) -> None:
    with Client(lab.server.url, key=lab.admin) as client:
        job = lenet.fit(client, lenet.LONG_NAME, epochs=10_000)
        with browsing(chromium, lab.server.url, lab.admin) as context:
            page = context.new_page()
            page.goto(f"{lab.server.url}/#/jobs?module=lenet-small")
            row = page.get_by_role("row").filter(has=page.get_by_role("link", name=str(job)))
            for button, state in (("Pause", "paused"), ("Resume", "running")):
                row.get_by_role("button", name=button).click()
                expect(row.get_by_role("cell", name=state, exact=True)).to_be_visible()
            row.get_by_role("button", name="Log").click()
            log = page.get_by_role("log")
            expect(log).to_contain_text("attempt 2 begins")
            row.get_by_role("button", name="Cancel").click()
            page.screenshot(path=screenshots / "sure.png")
            page.get_by_role("button", name="Leave it").click()
            assert client.job(job)["status"] == "running"
            for button, sure, state in (
                ("Cancel", "Cancel the job", "cancelled"),
                ("Retry", None, "running"),
                ("Cancel", "Cancel the job", "cancelled"),
            ):
                row.get_by_role("button", name=button).click()
                if sure is not None:
                    page.get_by_role("button", name=sure).click()
                expect(row.get_by_role("cell", name=state, exact=True)).to_be_visible()
            row.get_by_role("button", name="Delete").click()
            page.get_by_role("button", name="Delete the job").click()
            expect(row).to_have_count(0)
        assert job not in [one["id"] for one in client.jobs()]


def test_versions_are_promoted_and_rolled_back_with_a_canary(
    chromium: Browser, lab: Any, screenshots: Path
) -> None:
    with (
        Client(lab.server.url, key=lab.admin) as client,
        browsing(chromium, lab.server.url, lab.admin) as context,
    ):
        page = context.new_page()
        # A fit adds versions all the time, and the page lists only the newest ones.
        trial, steady = (one["version"] for one in client.versions("lenet")["items"][:2])
        page.goto(f"{lab.server.url}/#/modules/lenet")
        panel = page.get_by_role("region", name="Versions", exact=True)
        page.get_by_role("button", name=f"Promote version {steady}", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        expect(panel).to_contain_text(f"Version {steady} answers")
        page.get_by_label(f"Version {trial} as a canary").select_option("10%")
        page.get_by_role("dialog").get_by_role("button", name="Start the canary").click()
        expect(panel).to_contain_text(f"version {trial} answers 10% of the predictions")
        expect(panel.get_by_text("canary, 10%")).to_be_visible()
        page.screenshot(path=screenshots / "canary.png")
        versions = client.versions("lenet")
        assert versions["promoted"] == str(steady)
        assert versions["canary"] == {"version": trial, "weight": 0.1}
        for button, says in (
            ("End the canary", f"Version {steady} answers"),
            ("Roll back", "The parameters in training answer"),
        ):
            page.get_by_role("button", name=button).click()
            page.get_by_role("dialog").get_by_role("button", name=button).click()
            expect(panel).to_contain_text(says)
            expect(page.get_by_role("button", name=button)).to_have_count(0)
        versions = client.versions("lenet")
        assert (versions["promoted"], versions["canary"]) == ("live", None)


def test_a_plan_of_buckets_is_applied(chromium: Browser, lab: Any) -> None:
    with (
        Client(lab.server.url, key=lab.admin) as client,
        browsing(chromium, lab.server.url, lab.admin) as context,
    ):
        page = context.new_page()
        page.goto(f"{lab.server.url}/#/modules/sentences")
        on_buckets(page)
        page.get_by_label("At most").fill("3")
        page.get_by_label("At most").press("Enter")
        planned = client.bucket_plan("sentences", 3)["planned"]
        assert planned == [3, 7, 12]
        apply = page.get_by_role("button", name="Apply the plan")
        apply.click()
        page.get_by_role("dialog").get_by_role("button", name="Apply").click()
        expect(apply).to_be_disabled()
        assert client.bucket_plan("sentences", 3)["bound"] == planned


def test_jobs_are_filtered_by_a_link_and_by_hand(chromium: Browser, lab: Any) -> None:
    with browsing(chromium, lab.server.url, lab.admin) as context:
        page = context.new_page()
        page.goto(f"{lab.server.url}/#/jobs?status=succeeded")
        rows = page.locator("table.jobs tbody tr")
        expect(rows).to_have_count(1)
        page.get_by_role("button", name="cancelled", exact=True).click()
        expect(rows).to_have_count(2)
        expect(page).to_have_url(re.compile("succeeded%2Ccancelled"))
        page.get_by_label("Module").press_sequentially("small")
        expect(rows).to_have_count(1)
        expect(page).to_have_url(re.compile("module=small"))
        page.get_by_label("Module").fill("none-such")
        expect(page.get_by_text("No job matches the filter.")).to_be_visible()


@pytest.mark.parametrize("first", ["", "delete window.SharedWorker"], ids=["shared", "alone"])
def test_a_run_updates_without_a_reload(chromium: Browser, lab: Any, first: str) -> None:
    """Chrome on Android has no shared workers."""
    with browsing(chromium, lab.server.url, lab.admin) as context:
        context.add_init_script(first)
        page = context.new_page()
        page.goto(f"{lab.server.url}/#/jobs/{lab.running}")
        expect(page.get_by_role("status").get_by_text("Live")).to_be_visible()
        chart = page.get_by_role("figure", name="loss")
        chart.get_by_text("Table").click()
        newest = chart.locator("tbody tr td").first
        before = newest.inner_text()
        expect(newest).not_to_have_text(before)
        where = page.locator(".where").first
        before = where.inner_text()
        expect(where).not_to_have_text(before)


def test_a_run_that_never_started_requests_no_curves(chromium: Browser, lab: Any) -> None:
    with browsing(chromium, lab.server.url, lab.admin) as context:
        page = context.new_page()
        faults = faults_of(page, lab.server.url)
        page.goto(f"{lab.server.url}/#/jobs/{lab.cancelled}")
        expect(page.get_by_text("cancelled").first).to_be_visible()
        assert faults == []


def test_histograms_show_the_chosen_array(chromium: Browser, lab: Any) -> None:
    with (
        Client(lab.server.url, key=lab.admin) as client,
        browsing(chromium, lab.server.url, lab.admin) as context,
    ):
        found = client.job_histograms(lab.finished, "f1_weight", of="gradient")
        page = context.new_page()
        page.goto(f"{lab.server.url}/#/jobs/{lab.finished}")
        figure = page.get_by_role("figure", name="Weights and gradients")
        # Switching to gradients while the parameter's histograms are still being loaded (here they
        # never arrive) must not show those of the array chosen before.
        page.route("**/histograms?of=parameter&array=f1_weight*", lambda route: None)
        figure.get_by_label("Parameter", exact=True).select_option("f1_weight")
        gradient = figure.get_by_role("button", name="Gradient")
        gradient.click()
        expect(gradient).to_have_attribute("aria-pressed", "true")
        figure.get_by_text("Table").click()
        rows = figure.locator("tbody tr")
        expect(rows).to_have_count(found["total"])
        shown = [float(cell) for cell in rows.last.locator("td.number").all_inner_texts()]
        assert shown[0] == pytest.approx(found["lows"][0], rel=0.01, abs=5e-5)
        assert shown[2] == pytest.approx(found["highs"][0], rel=0.01, abs=5e-5)
        box = figure.locator("canvas").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 1, box["y"] + 1)
        expect(figure.locator(".legend")).to_contain_text("epoch 0, batch 0")


DRAG = """slider => {
  const keep = history.replaceState;
  let kept = 0;
  history.replaceState = (...state) => (kept += 1, keep.apply(history, state));
  for (let at = 0; at <= 300; at += 1) {
    slider.value = at === 300 ? 0.33 : at % 30 / 100;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
  }
  history.replaceState = keep;
  return kept;
}"""
"""Drags a slider, and returns how often the page has replaced its address meanwhile."""


def test_curves_are_customized_and_saved(chromium: Browser, lab: Any, tmp_path: Path) -> None:
    with browsing(chromium, lab.server.url, lab.admin) as context:
        page = context.new_page()
        page.goto(f"{lab.server.url}/#/jobs/{lab.finished}")
        on_run(page)
        chart = page.get_by_role("figure", name="loss")
        for button in ("time", "Log scale"):
            page.get_by_role("button", name=button, exact=True).click()
            expect(page.get_by_role("button", name=button, exact=True)).to_have_attribute(
                "aria-pressed", "true"
            )
        expect(page).to_have_url(re.compile("x=time.*log=1"))
        smoothing = page.get_by_label("Smoothing")
        assert smoothing.evaluate(DRAG) < 100, "browsers allow about 200 in half a minute"
        expect(page.locator("output")).to_have_text("0.33")
        expect(chart.locator(".legend")).to_contain_text(re.compile("training.*raw.*validation"))
        smoothing.fill("0")
        expect(chart.locator(".legend")).not_to_contain_text("raw")
        with page.expect_download() as download:
            chart.get_by_role("button", name="CSV").click()
        download.value.save_as(tmp_path / "loss.csv")
        head, *rows = (tmp_path / "loss.csv").read_text().splitlines()
        assert head == "time,training,validation"
        with Client(lab.server.url, key=lab.admin) as client:
            series = client.job_series(lab.finished)
        values = [row.split(",")[1] for row in rows]
        assert [float(one) for one in values if one] == series["values"]
        with page.expect_download() as download:
            chart.get_by_role("button", name="PNG").click()
        download.value.save_as(tmp_path / "loss.png")
        assert (tmp_path / "loss.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_everything_is_reachable_by_keyboard(
    chromium: Browser, lab: Any, screenshots: Path
) -> None:
    with browsing(chromium, lab.server.url, lab.admin) as context:
        page = context.new_page()
        page.goto(lab.server.url)
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.screenshot(path=screenshots / "keyboard.png")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("/")
        expect(page.get_by_label("Module")).to_be_focused()
        page.keyboard.type("len/?")
        expect(page.get_by_label("Module")).to_have_value("len/?")
        page.get_by_label("Module").blur()
        page.keyboard.press("g")
        page.keyboard.press("o")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_under_a_sub_path_two_tabs_share_a_stream_that_reconnects(
    chromium: Browser, lab: Any, screenshots: Path
) -> None:
    with (
        below_path(lab.server.url, "/tools/serving/") as proxy,
        browsing(chromium, proxy.url.rstrip("/"), lab.admin) as context,
    ):
        cookies = {one["path"] for one in context.cookies()}
        assert cookies == {"/tools/serving"}, "other tools on the host do not get the cookie"
        pages = [context.new_page() for _ in range(2)]
        for page in pages:
            page.goto(f"{proxy.url}#/jobs/{lab.running}")
            on_run(page)
            expect(page.get_by_role("status").get_by_text("Live")).to_be_visible()
        streams = [line for line in proxy.asked if line.startswith("GET /v1/events?after=latest")]
        assert len(streams) == 1, "one stream for all tabs"
        proxy.broken.set()
        for page in pages:
            expect(page.get_by_role("alert")).to_contain_text("No connection to the server since")
        pages[0].screenshot(path=screenshots / "disconnected.png")
        asked = len(proxy.asked)
        proxy.broken.clear()
        pages[0].get_by_role("button", name="Try now").click()
        for page in pages:
            expect(page.get_by_role("status").get_by_text("Live")).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)
        wait_until(lambda: "GET /v1/events" in proxy.asked[asked:], "the stream is resumed")
        where = pages[1].locator(".where").first
        before = where.inner_text()
        expect(where).not_to_have_text(before)


def test_the_api_reference_can_be_searched(chromium: Browser, lab: Any) -> None:
    with browsing(chromium, lab.server.url, lab.admin) as context:
        page = context.new_page()
        page.goto(f"{lab.server.url}/docs")
        rows = page.locator(".operation")
        expect(rows.nth(50)).to_be_attached()
        page.keyboard.press("/")
        page.keyboard.type("retry")
        expect(rows).not_to_have_count(0)
        expect(rows.filter(has_text="/v1/jobs/{job}/retry")).to_have_count(1)
        rows.filter(has_text="/v1/jobs/{job}/retry").locator("summary").click()
        expect(page.get_by_text("curl -X POST")).to_be_visible()


def test_guides_work_under_a_sub_path_and_can_be_copied(chromium: Browser, lab: Any) -> None:
    with (
        below_path(lab.server.url, "/tools/serving/") as proxy,
        browsing(chromium, proxy.url.rstrip("/"), lab.admin) as context,
    ):
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        faults = faults_of(page, proxy.url)
        page.goto(f"{proxy.url}#/guides")
        page.get_by_role("link", name="LeNet on MNIST").click()
        on_guide(page)
        page.get_by_role("button", name="Copy").first.click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"curl -O {proxy.url}guides/files/mnist_5k.npz\n")
        page.get_by_role("navigation", name="Sections").get_by_role(
            "link", name="Train", exact=True
        ).click()
        expect(page.get_by_role("heading", name="Train", exact=True)).to_be_in_viewport()
        page.goto(f"{proxy.url}#/guides/operations?at=backups")
        expect(page.get_by_role("heading", name="Backups")).to_be_in_viewport()
        assert faults == []
        page.goto(f"{proxy.url}#/guides/none")
        expect(page.get_by_role("alert")).to_contain_text("'none' does not exist")
