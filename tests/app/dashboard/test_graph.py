"""A module's graph in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess
from served import padded_sums
from served.browser import browsing, faults_of, look

pytestmark = pytest.mark.slow

UNITS = 10
"""In each of two stages; as many nodes are closed groups at first."""


def network() -> Any:
    net = mx.sym.Variable("data")
    for stage in (1, 2):
        for unit in range(UNITS):
            prefix = f"stage{stage}_unit{unit}_"
            branch = mx.sym.Convolution(
                net, kernel=(3, 3), pad=(1, 1), num_filter=4, name=f"{prefix}conv"
            )
            branch = mx.sym.BatchNorm(branch, fix_gamma=False, name=f"{prefix}bn")
            net = mx.sym.Activation(branch, act_type="relu", name=f"{prefix}relu") + net
    net = mx.sym.FullyConnected(net, num_hidden=3, name="fc")
    return mx.sym.softmax(net, name="softmax")


@pytest.fixture
def page(chromium: Browser, server: ServerProcess) -> Iterator[Page]:
    with browsing(chromium, server.url) as context:
        yield context.new_page()


def create(client: Client) -> None:
    client.create_module("net", network().tojson(), label_names=[])
    client.bind("net", [{"name": "data", "shape": [2, 4, 8, 8]}], for_training=False)
    client.init_params("net", "xavier", seed=1)


def drawn(page: Page, boxes: int) -> Locator:
    """Return the drawing of a graph, when it has been laid out and has so many boxes."""
    canvas = page.get_by_label(re.compile(f"^Graph of {boxes} boxes"))
    expect(canvas).to_be_visible()
    expect(page.get_by_text("Laying out")).to_have_count(0)
    return canvas


def test_a_graph_is_looked_into(
    page: Page, client: Client, server: ServerProcess, axe: str, screenshots: Path
) -> None:
    create(client)
    faults = faults_of(page, server.url)
    page.goto(f"{server.url}/#/modules/net")
    page.get_by_role("link", name="Graph", exact=True).click()
    canvas = drawn(page, 7)
    details = page.get_by_role("region", name="Details")
    page.keyboard.press("/")
    page.keyboard.type("unit7_bn")
    expect(page.get_by_role("button", name="stage2_unit7_bn")).to_be_visible()
    page.get_by_role("button", name="stage2_unit7_bn").click()
    expect(details.get_by_role("heading", name="BatchNorm")).to_be_visible()
    expect(details).to_contain_text("stage2_unit7_bn_output(2, 4, 8, 8) float32")
    expect(details).to_contain_text("moving_mean: stage2_unit7_bn_moving_mean(4)")
    assert "node=stage2_unit7_bn" in page.url
    page.get_by_role("button", name="Measure times").click()
    expect(page.get_by_role("heading", name="Time by step")).to_be_visible()
    step = page.get_by_role("row").filter(has=page.get_by_role("button", name="stage2_unit7_bn"))
    steps = client.profile("net", runs=1)["steps"]
    (names,) = [one["nodes"] for one in steps if "stage2_unit7_bn" in one["nodes"]]
    expect(step).to_have_count(1)
    for name in names:
        expect(step).to_contain_text(name)
    if len(names) > 1:
        expect(details).to_contain_text("they ran as one")
    look(page, axe, screenshots, "graph")
    details.get_by_role("button", name="Close stage2_", exact=True).click()
    expect(details.get_by_role("heading", name="Group stage2_")).to_be_visible()
    expect(details).to_contain_text(f"Convolution{UNITS}")
    drawn(page, 7)
    canvas.focus()
    for key in ("+", "-", "0", "ArrowLeft", "Enter"):  # the last one opens the group again
        page.keyboard.press(key)
    expect(page.get_by_label(re.compile("^Graph of 7 boxes"))).to_have_count(0)
    page.keyboard.press("Escape")
    expect(details).to_contain_text("Select a node")
    page.keyboard.press("Shift+ArrowDown")
    expect(details.get_by_role("heading", name="Input: data")).to_be_visible()
    page.get_by_text("Table of").click()
    expect(page.get_by_role("region", name="Nodes, table").get_by_role("row")).to_have_count(
        len(client.graph("net")["nodes"]) + 1
    )
    page.goto(f"{server.url}/#/modules/net/graph?node=fc")
    expect(details.get_by_role("heading", name="FullyConnected")).to_be_visible()
    details.get_by_role("link", name="fc_weight").click()
    expect(page.get_by_role("figure", name="Values of fc_weight")).to_be_visible()
    padded_sums.create(client, "lengths")
    page.goto(f"{server.url}/#/modules/lengths/graph?node=data")
    expect(details).to_contain_text("(8, 12, 4)")
    page.get_by_label("Bucket").select_option("6")
    expect(details).to_contain_text("(8, 6, 4)")
    assert "bucket=6" in page.url
    assert faults == []
