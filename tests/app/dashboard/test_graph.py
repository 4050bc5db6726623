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
from core.gluon.model_zoo.vision import resnet152_v1
from served import padded_sums
from served.browser import WIDE, browsing, faults_of, look
from served.processes import wait_until

pytestmark = pytest.mark.slow

UNITS = 10
"""Units in each of the two stages; many enough for stages to be shown as closed groups at first."""

RECORD = """window.drawn = {};
for (const name of ['fillRect', 'translate', 'scale', 'roundRect', 'fillText']) {
  const draw = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...given) {
    if (name === 'fillRect') drawn = { translate: [], scale: [], roundRect: [], fillText: [] };
    else drawn[name].push(given);
    return draw.apply(this, given);
  };
}"""
"""Records the calls that drew the newest picture: each picture begins with its background."""


def network(stages: int = 2, units: int = UNITS) -> Any:
    net = mx.sym.Variable("data")
    for stage in range(1, stages + 1):
        for unit in range(units):
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
        context.add_init_script(RECORD)
        page = context.new_page()
        faults = faults_of(page, server.url)
        yield page
        assert faults == []


def create(client: Client) -> None:
    fixed = {"fixed_param_names": ["fc_bias"]}
    client.create_module("net", network().tojson(), label_names=[], **fixed)
    client.bind("net", [{"name": "data", "shape": [2, 4, 8, 8]}], for_training=False)
    client.init_params("net", "xavier", seed=1)


def drawn(page: Page, boxes: int) -> Locator:
    """Return the drawing of a graph once it is laid out with this many boxes."""
    canvas = page.get_by_label(re.compile(f"^Graph of {boxes:,} boxes"))
    expect(canvas).to_have_attribute("aria-busy", "false")
    return canvas


def wait_for(page: Page, script: str, arg: object = None) -> None:
    """Wait until a condition holds for the newest drawing; the page forbids injected scripts."""
    wait_until(lambda: bool(page.evaluate(f"given => {script}", arg)), script)


def wait_for_texts(page: Page, *texts: str) -> None:
    """Wait until the newest drawing has texts that match regular expressions."""
    has = "given.every(one => drawn.fillText?.some(([text]) => RegExp(one).test(text)))"
    wait_for(page, has, list(texts))


def test_a_graph_is_explored(
    page: Page, client: Client, server: ServerProcess, axe: str, screenshots: Path
) -> None:
    create(client)
    page.goto(f"{server.url}/#/modules/net")
    page.get_by_role("link", name="Graph", exact=True).click()
    drawn(page, 5)
    wait_for_texts(page, "▸ stage1_", "▸ stage2_", "^40 operators$", "^2.4.8.8$")
    details = page.get_by_role("region", name="Details")
    page.keyboard.press("/")
    page.keyboard.type("unit7_bn")
    page.get_by_role("button", name="stage2_unit7_bn").click()
    expect(details.get_by_role("heading", name="BatchNorm")).to_be_visible()
    expect(details).to_contain_text("stage2_unit7_bn_output(2, 4, 8, 8) float32")
    expect(details).to_contain_text("moving_mean: stage2_unit7_bn_moving_mean(4)")
    expect(page).to_have_url(re.compile("node=stage2_unit7_bn$"))
    details.get_by_role("button", name="Close stage2_", exact=True).click()
    expect(details.get_by_role("heading", name="Group stage2_")).to_be_visible()
    expect(details).to_contain_text(f"Convolution{UNITS}")
    page.get_by_text("Table of").click()
    rows = page.get_by_role("region", name="Nodes, table").get_by_role("row")
    expect(rows).to_have_count(len(client.graph("net")["nodes"]) + 1)
    look(page, axe, screenshots, "graph")
    page.goto(f"{server.url}/#/modules/net/graph?node=fc")
    expect(details.get_by_role("heading", name="FullyConnected")).to_be_visible()
    expect(details).to_contain_text("bias: fc_bias(3) float32, fixed")
    details.get_by_role("link", name="fc_weight").click()
    expect(page.get_by_role("figure", name="Values of fc_weight")).to_be_visible()


def test_a_graph_is_explored_by_keyboard(page: Page, client: Client, server: ServerProcess) -> None:
    create(client)
    page.goto(f"{server.url}/#/modules/net/graph")
    details = page.get_by_role("region", name="Details")
    drawn(page, 5).focus()
    for key, heading in (
        ("Shift+ArrowDown", "Input: data"),
        ("Shift+ArrowDown", "Group stage1_"),
        ("Shift+ArrowDown", "Group stage2_"),
        ("Shift+ArrowUp", "Group stage1_"),
    ):
        page.keyboard.press(key)
        expect(details.get_by_role("heading", name=heading)).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_label(re.compile("^Graph of 5 boxes"))).to_have_count(0)
    page.get_by_role("button", name="Close all").click()
    canvas = drawn(page, 5)
    canvas.focus()
    page.keyboard.press("0")
    wait_for(page, "drawn.scale[0][0] === 1")  # five boxes fit
    x = page.evaluate("drawn.translate[0][0]")
    page.keyboard.press("ArrowLeft")
    wait_for(page, "drawn.translate[0][0] === given", x + 64)
    page.keyboard.press("+")
    wait_for(page, "drawn.scale[0][0] > 1")
    page.keyboard.press("0")
    wait_for(page, "drawn.translate[0][0] === given", x)
    page.keyboard.press("Escape")
    expect(details).to_contain_text("Select a node")


def test_a_graph_is_panned_and_zoomed_by_touch(
    chromium: Browser, client: Client, server: ServerProcess
) -> None:
    create(client)
    context = chromium.new_context(viewport=WIDE, has_touch=True)
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.goto(f"{server.url}/#/modules/net/graph")
    box = drawn(page, 5).bounding_box()
    assert box is not None
    middle, top = box["x"] + box["width"] / 2, box["y"]
    fingers = context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        at = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    def expect_data(x: float, y: float) -> None:
        """Tap elsewhere, which selects nothing, then where the input should be."""
        details = page.get_by_role("region", name="Details")
        page.touchscreen.tap(box["x"] + 8, top + 8)
        expect(details).to_contain_text("Select a node")
        page.touchscreen.tap(x, y)
        expect(details.get_by_role("heading", name="Input: data")).to_be_visible()

    # Five boxes of 64 pixels, 40 apart, all visible and centred.
    y = top + (box["height"] - 5 * 64 - 4 * 40) / 2 + 32
    expect_data(middle, y)
    touch("touchStart", (middle, y))
    for step in (50, 100, 150):
        touch("touchMove", (middle + step, y + step))
    touch("touchEnd")
    middle, y = middle + 150, y + 150
    expect_data(middle, y)
    touch("touchStart", (middle - 40, y + 100), (middle + 40, y + 100))
    for half in (50, 60, 70, 80):
        touch("touchMove", (middle - half, y + 100), (middle + half, y + 100))
    touch("touchEnd")
    expect_data(middle, y - 100)
    context.close()


def test_times_are_shown_as_heat_and_as_a_table(
    page: Page, client: Client, server: ServerProcess, axe: str, screenshots: Path
) -> None:
    create(client)
    page.goto(f"{server.url}/#/modules/net/graph?node=stage2_unit7_bn")
    details = page.get_by_role("region", name="Details")
    page.get_by_role("button", name="Measure times").click()
    expect(page.get_by_role("heading", name="Time by step")).to_be_visible()
    wait_for_texts(page, r"\d (µs|ms|s)$")
    step = page.get_by_role("row").filter(has=page.get_by_role("button", name="stage2_unit7_bn"))
    steps = client.profile("net", runs=1)["steps"]
    (names,) = [one["nodes"] for one in steps if "stage2_unit7_bn" in one["nodes"]]
    expect(step).to_have_count(1)
    for name in names:
        expect(step).to_contain_text(name)
    if len(names) > 1:
        wait_for_texts(page, "fused$")
        expect(details).to_contain_text("this is their time together")
    look(page, axe, screenshots, "graph-times")


def test_shapes_are_those_of_the_selected_bucket(
    page: Page, client: Client, server: ServerProcess
) -> None:
    padded_sums.create(client, "lengths")
    page.goto(f"{server.url}/#/modules/lengths/graph?node=data")
    details = page.get_by_role("region", name="Details")
    expect(details).to_contain_text("(8, 12, 4)")
    wait_for_texts(page, "^8.12.4$")
    page.get_by_label("Bucket").select_option("6")
    expect(details).to_contain_text("(8, 6, 4)")
    wait_for_texts(page, "^8.6.4$")
    expect(page).to_have_url(re.compile("bucket=6"))


def test_a_deep_net_is_first_shown_as_stages(
    page: Page, client: Client, server: ServerProcess, screenshots: Path
) -> None:
    """An unrolled net is first shown as cells, each with the nodes that join its outputs."""
    client.create_module("deep", resnet152_v1()(mx.sym.Variable("data")).tojson(), label_names=[])
    page.goto(f"{server.url}/#/modules/deep/graph")
    drawn(page, 11)
    wait_for_texts(page, "▸ .*_stage1_", "▸ .*_stage2_", "▸ .*_stage3_")
    page.screenshot(path=screenshots / "graph-deep.png")
    cell = mx.rnn.LSTMCell(4, prefix="lstm_")
    words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    outputs, _ = cell.unroll(30, inputs=words, merge_outputs=True)
    client.create_module("words", mx.sym.softmax(outputs, name="softmax").tojson(), label_names=[])
    page.goto(f"{server.url}/#/modules/words/graph")
    drawn(page, 5)
    page.screenshot(path=screenshots / "graph-words.png")


def test_the_slash_key_focuses_the_search_field_before_the_next_key(
    page: Page, client: Client, server: ServerProcess
) -> None:
    """When typed quickly, no letter is lost or taken for a page shortcut."""
    create(client)
    page.goto(f"{server.url}/#/modules/net/graph")
    drawn(page, 5)
    focused = page.evaluate(
        """async () => {
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
            for (let turn = 0; turn < 20; turn++) await null;
            return document.activeElement.ariaLabel;
        }"""
    )
    assert focused == "Find a node"


def test_of_many_nodes_only_the_visible_are_drawn(
    page: Page, client: Client, server: ServerProcess
) -> None:
    client.create_module("long", network(stages=50, units=UNITS).tojson(), label_names=[])
    nodes = len(client.graph("long")["nodes"])
    assert nodes > 2000
    page.goto(f"{server.url}/#/modules/long/graph")
    drawn(page, 53)
    page.get_by_role("button", name="Open all groups").click()
    drawn(page, nodes)
    wait_for(page, "drawn.roundRect.length < 40 && drawn.fillText.length > 20")
    page.get_by_role("button", name="Fit").click()
    wait_for(page, "drawn.roundRect.length === given", nodes)
    assert page.evaluate("drawn.fillText.length") == 0
    page.keyboard.press("/")
    page.keyboard.type("stage31_unit4_relu")
    page.keyboard.press("Enter")
    wait_for(page, "drawn.roundRect.length < 40")
    wait_for_texts(page, "^stage31_unit4_relu$")
