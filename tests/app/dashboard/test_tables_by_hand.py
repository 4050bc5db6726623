"""The guide on tables, followed in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess
from app.guides.reading import FILES
from served.browser import browsing, faults_of, look

pytestmark = pytest.mark.slow


@pytest.fixture
def page(chromium: Browser, server: ServerProcess) -> Iterator[Page]:
    with browsing(chromium, server.url) as context:
        yield context.new_page()


@pytest.fixture
def flowers(client: Client) -> Iterator[None]:
    """The guide's module, which is not bound."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="hidden")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="relu"), num_hidden=3, name="scores")
    client.create_module("flowers", mx.sym.SoftmaxOutput(x, name="softmax").tojson())
    yield
    client.delete_module("flowers")


def send(page: Page, file: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload a file").last.click()
    chooser.value.set_files(file)


@pytest.mark.usefixtures("flowers")
def test_a_spreadsheet_is_trained_on(
    page: Page, client: Client, server: ServerProcess, tmp_path: Path, axe: str, screenshots: Path
) -> None:
    faults = faults_of(page, server.url)
    page.goto(f"{server.url}/#/modules/flowers/train")
    file = tmp_path / "flowers.csv"
    file.write_bytes(b"\xef\xbb\xbf" + FILES["flowers.csv"].read_bytes())
    send(page, file)
    row = page.get_by_role("row").filter(has=page.get_by_label("Array for data, training"))
    expect(row).to_contain_text("4 columns, side by side")
    expect(row).to_contain_text("sepal_length 3.20, sepal_width 2.80, petal_length 0.7000")
    label = page.get_by_role("row").filter(
        has=page.get_by_label("Array for softmax_label, training")
    )
    expect(label).to_contain_text("species (120) 3 classes")
    expect(label).to_contain_text("0, alpine")
    page.get_by_label("sepal_width").uncheck()
    expect(row).to_contain_text("sepal_length 3.20, petal_length 0.7000")
    page.get_by_label("sepal_width").check()
    expect(page.get_by_label("species")).to_be_disabled()

    page.get_by_label("Score it after every epoch").check()
    some = tmp_path / "some.csv"
    lines = FILES["flowers-new.csv"].read_text().splitlines()
    some.write_text("\n".join(one for one in lines if "alpine" not in one))
    send(page, some)
    held = page.get_by_role("row").filter(
        has=page.get_by_label("Array for softmax_label, validation")
    )
    expect(held).to_contain_text(re.compile("[12], (marsh|meadow)"))
    page.get_by_label("Epochs").fill("60")
    page.get_by_label("Learning rate").fill("0.01")
    look(page, axe, screenshots, "train-table")
    assert faults == []
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page).to_have_url(re.compile("#/jobs/[0-9]+$"))
    expect(page.get_by_text("succeeded").first).to_be_visible(timeout=60_000)
    job = client.job(int(page.url.rpartition("/")[2]))
    classes = {"species": ["alpine", "marsh", "meadow"]}
    assert job["params"]["classes"] == job["params"]["validation"]["classes"] == classes
    assert job["result"]["validation"]["accuracy"] > 0.8

    page.goto(f"{server.url}/#/modules/flowers/try")
    page.get_by_label("Examples of data, as JSON").fill("[[3.0, 2.5, 1.1, 0.4]]")
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("region", name="Answer")
    expect(answer.get_by_role("row").nth(1)).to_contain_text("alpine")
